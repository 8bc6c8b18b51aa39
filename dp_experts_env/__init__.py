"""Private online learners meet their opponents: prediction with expert advice, played, measured and audited.

Importing the package registers every adversary as a Gymnasium environment ``dp_experts/<Name>-v0``, and the chairs of
the adversary and of the judge as ``dp_experts/Adversary-v0`` and ``dp_experts/Judge-v0``.
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
    from dp_experts_env.chairs import AdversaryEnv, JudgeEnv, Lead, VectorLead, parallel_env
    from dp_experts_env.privacy.accounting import Composition, compose, learning_rate
    from dp_experts_env.privacy.audit import Audit, audit, load_audit
    from dp_experts_env.privacy.exact import exact_delta, exact_privacy
    from dp_experts_env.privacy.game import (
        Pair,
        PrivacyGame,
        make_pair,
        pair_class,
        pairs,
        plain,
        register_pair,
        run_privacy_game,
    )
    from dp_experts_env.rl import (
        Attack,
        PolicyAdversary,
        PolicyJudge,
        PolicyLearner,
        Trained,
        attack,
        load_trained,
        train_adversary,
        train_judge,
        train_learner,
    )
    from dp_experts_env.study.tournament import Tournament, tournament

__version__ = version("dp-experts-env")

__all__ = [
    "Adjacency",
    "AdjacencyError",
    "Adversary",
    "AdversaryEnv",
    "AdversaryModelError",
    "AdversaryVectorEnv",
    "ArgumentError",
    "Attack",
    "Audit",
    "BudgetError",
    "ChoiceError",
    "Composition",
    "DataError",
    "GameError",
    "GameSpec",
    "Guarantee",
    "JudgeEnv",
    "Lead",
    "Learner",
    "LossError",
    "Match",
    "MissingExtraError",
    "Pair",
    "PolicyAdversary",
    "PolicyJudge",
    "PolicyLearner",
    "PrivacyGame",
    "ProtocolError",
    "Tournament",
    "Trained",
    "UnknownNameError",
    "VectorLead",
    "__version__",
    "adversaries",
    "adversary_class",
    "attack",
    "audit",
    "bundled",
    "compose",
    "env_id",
    "exact_delta",
    "exact_privacy",
    "expert_names",
    "learner_class",
    "learners",
    "learning_rate",
    "load_audit",
    "load_losses",
    "load_trained",
    "make_adversary",
    "make_learner",
    "make_pair",
    "pair_class",
    "pairs",
    "parallel_env",
    "plain",
    "play",
    "register_adversary",
    "register_envs",
    "register_learner",
    "register_pair",
    "run_privacy_game",
    "tournament",
    "train_adversary",
    "train_judge",
    "train_learner",
]

_LATER = {
    "AdversaryEnv": "dp_experts_env.chairs",
    "JudgeEnv": "dp_experts_env.chairs",
    "Lead": "dp_experts_env.chairs",
    "VectorLead": "dp_experts_env.chairs",
    "parallel_env": "dp_experts_env.chairs",
    "Composition": "dp_experts_env.privacy.accounting",
    "compose": "dp_experts_env.privacy.accounting",
    "learning_rate": "dp_experts_env.privacy.accounting",
    "Audit": "dp_experts_env.privacy.audit",
    "audit": "dp_experts_env.privacy.audit",
    "load_audit": "dp_experts_env.privacy.audit",
    "exact_delta": "dp_experts_env.privacy.exact",
    "exact_privacy": "dp_experts_env.privacy.exact",
    "Pair": "dp_experts_env.privacy.game",
    "PrivacyGame": "dp_experts_env.privacy.game",
    "make_pair": "dp_experts_env.privacy.game",
    "pair_class": "dp_experts_env.privacy.game",
    "pairs": "dp_experts_env.privacy.game",
    "plain": "dp_experts_env.privacy.game",
    "register_pair": "dp_experts_env.privacy.game",
    "run_privacy_game": "dp_experts_env.privacy.game",
    "Attack": "dp_experts_env.rl",
    "PolicyAdversary": "dp_experts_env.rl",
    "PolicyJudge": "dp_experts_env.rl",
    "PolicyLearner": "dp_experts_env.rl",
    "Trained": "dp_experts_env.rl",
    "attack": "dp_experts_env.rl",
    "load_trained": "dp_experts_env.rl",
    "train_adversary": "dp_experts_env.rl",
    "train_judge": "dp_experts_env.rl",
    "train_learner": "dp_experts_env.rl",
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
