"""Positive controls: learners that state a privacy guarantee which their code does not have.

They exist so that an audit can be shown to catch something. They are labelled ``leaky = True``, listed only by
``dp_experts_env.learners(leaky=True)``, and never recommended. Each docstring says what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_experts_agents.baselines import FollowThePerturbedLeader
from dp_experts_agents.dartboard import ShrinkingDartboard
from dp_experts_agents.hedge import Hedge, PrivateHedge
from dp_experts_agents.realizable import Realizable
from dp_experts_env.learner import Learner
from dp_experts_env.spec import FloatArray, GameSpec, Guarantee, IntArray, check_delta, check_epsilon


class FalseClaim(Learner):
    """Mixin that states (epsilon, delta)-DP against adaptive adversaries without having it."""

    leaky = True

    epsilon: float
    delta: float

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return the false claim."""
        source = "none: a positive control that violates its claim"
        return Guarantee(self.epsilon, self.delta, "replace", "adaptive", source)  # type: ignore[arg-type]


class LeakyDartboard(FalseClaim, ShrinkingDartboard):
    """The shrinking dartboard without forced switches, sold as private.

    A switch right after a round in which the held expert lost nothing is impossible: log-ratio infinite.
    """

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        super().__init__()
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)


class LeakyPerturbedLeader(FalseClaim, FollowThePerturbedLeader):
    """Lazy follow-the-perturbed-leader: one draw of noise a game, sold as private.

    The noise is the same in all rounds, so the choices reveal it, and then each of them reveals losses.
    """

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        super().__init__(fresh=False)
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)


class LeakyAdaHedge(FalseClaim, Hedge):
    """AdaHedge sold as private: its learning rate is a function of the private losses, and not a small one."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        super().__init__(learning_rate="adahedge")
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)


class LeakyTripleRate(FalseClaim, PrivateHedge):
    """Private Hedge at three times the learning rate that its budget allows."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        super().__init__(epsilon, delta)

    def learning_rate(self, spec: GameSpec) -> float:
        """Return three times the private rate."""
        return 3.0 * super().learning_rate(spec)


class LeakyCopyLast(FalseClaim):
    """Names the expert of least loss in the last round, ties to the lowest index, and calls that private."""

    deterministic = True

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)

    def start(self) -> None:
        """Begin with the first expert."""
        self._best: IntArray = np.zeros((), dtype=np.int64)

    def act(self) -> Any:
        """Name the last round's best expert; see :meth:`Learner.act`."""
        return np.broadcast_to(self._best, self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Remember the best expert; see :meth:`Learner.observe`."""
        self._best = np.asarray(losses.argmin(-1))


class _LeakyWatch(FalseClaim, Realizable):
    """The sparse-vector learner with a fault in its watch, which shows in the transcript of alarms."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        super().__init__(epsilon, delta)

    def outcomes(self) -> FloatArray:
        """Not available: the law of the honest learner is not the law of this one."""
        return Learner.outcomes(self)

    def take(self, outcome: Any) -> Any:
        """Not available; see :meth:`outcomes`."""
        return Learner.take(self, outcome)


class LeakyNoQueryNoise(_LeakyWatch):
    """AboveThreshold without query noise: all answers of a window come from one noisy threshold."""

    def start(self) -> None:
        """Drop the query noise."""
        super().start()
        self._query_scale = np.zeros_like(self._query_scale)


class LeakyNoThresholdNoise(_LeakyWatch):
    """AboveThreshold without threshold noise: every answer is noisy by itself, and their costs add up over a window."""

    def start(self) -> None:
        """Drop the threshold noise."""
        super().start()
        self._threshold_scale = np.zeros_like(self._threshold_scale)
        self._level = np.array(self._thresholds[self._which, 0])


class LeakyNeverHalting(_LeakyWatch):
    """AboveThreshold that goes on after an alarm with the same noisy threshold and the same sums, without limit."""

    def _open(self, games: IntArray, threshold_noise: Any) -> None:
        pass


class LeakySensitivity(_LeakyWatch):
    """The sparse-vector learner with noise and rate for losses in [0, 0.1], at losses in [0, 1]."""

    def start(self) -> None:
        """Shrink the noise and raise the rates tenfold."""
        super().start()
        self._level = self._thresholds[self._which, 0] + 0.1 * (self._level - self._thresholds[self._which, 0])
        self._query_scale, self._threshold_scale = 0.1 * self._query_scale, 0.1 * self._threshold_scale
        self._rates = 10.0 * self._rates
