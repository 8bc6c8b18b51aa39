"""Private online learners meet their opponents: prediction with expert advice, played, measured and audited.

Importing the package registers every adversary as a Gymnasium environment ``dp_experts/<Name>-v0``.
"""

from importlib.metadata import version

from dp_experts_env.adversary import Adversary, AdversaryVectorEnv
from dp_experts_env.data import load_losses
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
    "DataError",
    "GameError",
    "GameSpec",
    "Guarantee",
    "Learner",
    "LossError",
    "Match",
    "MissingExtraError",
    "ProtocolError",
    "UnknownNameError",
    "__version__",
    "adversaries",
    "adversary_class",
    "env_id",
    "learner_class",
    "learners",
    "load_losses",
    "make_adversary",
    "make_learner",
    "play",
    "register_adversary",
    "register_envs",
    "register_learner",
]

register_envs()
