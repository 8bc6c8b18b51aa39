"""Private online learners meet their opponents: prediction with expert advice, played, measured and audited.

Importing the package registers every adversary as a Gymnasium environment ``dp_experts/<Name>-v0``.
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dp_experts_env.adversary import Adversary, AdversaryVectorEnv
from dp_experts_env.data import bundled, expert_names, load_losses
from dp_experts_env.learner import Learner
from dp_experts_env.play import Match, play
from dp_experts_env.registry import (
    adversaries,
    adversary_class,
    env_id,
    learner_class,
    learners,
    make_adversary,
    make_learner,
    register_adversary,
    register_envs,
    register_learner,
)
from dp_experts_env.spec import (
    Adjacency,
    AdjacencyError,
    AdversaryModelError,
    ArgumentError,
    BudgetError,
    ChoiceError,
    DataError,
    GameError,
    GameSpec,
    Guarantee,
    LossError,
    MissingExtraError,
    ProtocolError,
    UnknownNameError,
)

if TYPE_CHECKING:
    from dp_experts_env.privacy.accounting import Composition, compose, learning_rate
    from dp_experts_env.study.tournament import Tournament, tournament

__version__ = version("dp-experts-env")

__all__ = [
    "Adjacency",
    "AdjacencyError",
    "Adversary",
    "AdversaryModelError",
    "AdversaryVectorEnv",
    "ArgumentError",
    "BudgetError",
    "ChoiceError",
    "Composition",
    "DataError",
    "GameError",
    "GameSpec",
    "Guarantee",
    "Learner",
    "LossError",
    "Match",
    "MissingExtraError",
    "ProtocolError",
    "Tournament",
    "UnknownNameError",
    "__version__",
    "adversaries",
    "adversary_class",
    "bundled",
    "compose",
    "env_id",
    "expert_names",
    "learner_class",
    "learners",
    "learning_rate",
    "load_losses",
    "make_adversary",
    "make_learner",
    "play",
    "register_adversary",
    "register_envs",
    "register_learner",
    "tournament",
]

_LATER = {
    "Composition": "dp_experts_env.privacy.accounting",
    "compose": "dp_experts_env.privacy.accounting",
    "learning_rate": "dp_experts_env.privacy.accounting",
    "Tournament": "dp_experts_env.study.tournament",
    "tournament": "dp_experts_env.study.tournament",
}
"""Names that are imported when they are asked for, so that the import stays light."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


register_envs()
