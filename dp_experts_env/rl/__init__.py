"""Reinforcement learning in all three chairs, by Stable-Baselines3 (extra ``rl``).

:func:`train_learner`, :func:`train_adversary` and :func:`train_judge` train a policy and return a :class:`Trained`,
which saves it and gives a player. :class:`PolicyLearner`, :class:`PolicyAdversary` and :class:`PolicyJudge` seat any
policy of Stable-Baselines3 or sb3-contrib. :func:`attack` trains a judge and an adversary against a learner and
compares what they do in fresh games with what those written by hand do.

Importing this needs no extra; using it does.
"""

from dp_experts_env.rl.attack import CHARGES, LEARNED, OPPONENTS, Attack, Leakage, attack
from dp_experts_env.rl.players import PolicyAdversary, PolicyJudge, PolicyLearner
from dp_experts_env.rl.policy import Law, Memory, Policy
from dp_experts_env.rl.training import (
    ALGORITHMS,
    JUDGING,
    SEATS,
    SETTINGS,
    Decay,
    Trained,
    load_trained,
    train_adversary,
    train_judge,
    train_learner,
)

__all__ = [
    "ALGORITHMS",
    "CHARGES",
    "JUDGING",
    "LEARNED",
    "OPPONENTS",
    "SEATS",
    "SETTINGS",
    "Attack",
    "Decay",
    "Law",
    "Leakage",
    "Memory",
    "Policy",
    "PolicyAdversary",
    "PolicyJudge",
    "PolicyLearner",
    "Trained",
    "attack",
    "load_trained",
    "train_adversary",
    "train_judge",
    "train_learner",
]
