"""Conformance suites: one call checks that a learner or an adversary keeps the rules of the game.

In a script::

    from dp_experts_env.testing import check_learner

    check_learner(MyLearner)

or with one pytest case a check::

    @pytest.mark.parametrize(("name", "check"), learner_checks(MyLearner))
    def test_my_learner(name, check):
        check()

Nothing here needs pytest. Warnings count as failures. Statistical checks have a fixed seed and a false-alarm
probability of at most :data:`FALSE_ALARM` each, by bounds that hold at every sample size. A pass is no proof of
privacy: ``privacy`` enumerates a few small games exactly, and only where the learner has ``outcomes``.
"""

from dp_experts_env.testing.adversaries import adversary_checks, check_adversary
from dp_experts_env.testing.learners import check_learner, learner_checks
from dp_experts_env.testing.suite import FALSE_ALARM, ConformanceError

__all__ = [
    "FALSE_ALARM",
    "ConformanceError",
    "adversary_checks",
    "check_adversary",
    "check_learner",
    "learner_checks",
]
