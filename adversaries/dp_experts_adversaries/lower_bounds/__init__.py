"""Opponents that every learner of a kind must lose to, each with the expected regret that it proves: `regret_floor`.

Against :class:`HiddenSign`, :class:`Fingerprint`, :class:`SignEstimation` and :class:`Subsets` the floor is for
learners that are private against adaptive adversaries (the module ``floors`` has the proofs); against
:class:`SmallLossFloor` it is for all learners.
"""

from dp_experts_adversaries.lower_bounds.coins import SmallLossFloor
from dp_experts_adversaries.lower_bounds.columns import Fingerprint, HiddenSign, SignEstimation, Subsets

__all__ = ["Fingerprint", "HiddenSign", "SignEstimation", "SmallLossFloor", "Subsets"]
