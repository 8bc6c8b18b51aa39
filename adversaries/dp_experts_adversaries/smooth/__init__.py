"""Opponents of the smooth world: instances come from distributions that no point can dominate.

:class:`SmoothAdversary` is the base class: its author gives a law and a labelling, the rest is made smooth and counted.
"""

from dp_experts_adversaries.smooth.base import ClassBest, ClassRegret, SmoothAdversary, bracketed, class_regret
from dp_experts_adversaries.smooth.grids import SmoothGreedy, SmoothOblivious
from dp_experts_adversaries.smooth.strips import SmoothHalfspace, SmoothPolytope
from dp_experts_adversaries.smooth.thresholds import SmoothBisection, SmoothThreshold

__all__ = [
    "ClassBest",
    "ClassRegret",
    "SmoothAdversary",
    "SmoothBisection",
    "SmoothGreedy",
    "SmoothHalfspace",
    "SmoothOblivious",
    "SmoothPolytope",
    "SmoothThreshold",
    "bracketed",
    "class_regret",
]
