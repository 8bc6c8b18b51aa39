"""Learners to measure the others by: uniform play and the leaders, perturbed or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_experts_env.learner import Learner
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities
from dp_experts_env.spec import FloatArray, GameSpec, Guarantee, IntArray, check_flag, check_name, check_number


class Uniform(Learner):
    """Names an expert uniformly at random each round: private for free, regret linear.

    Its choices are independent of the losses, hence 0-differentially private against every adversary, and each
    costs the mean loss of the experts: expected regret at most (1 - 1/N) T - (1 - 1/N) L*, since the N - 1 other
    experts lose at most T each and the best one L*.
    """

    def act(self) -> Any:
        """Draw an expert; see :meth:`Learner.act`."""
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)

    def run(self, block: FloatArray) -> IntArray:
        """Draw the block's experts at once; see :meth:`Learner.run`."""
        return self.rng.integers(self.spec.num_experts, size=(len(block), *self.spec.shape))

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return (0, 0)-DP: nothing depends on the losses."""
        return Guarantee(0.0, 0.0, against="adaptive", source="choices are independent of the losses [DERIVED]")

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return (1 - 1/N)(T - L*); against adaptive adversaries too."""
        return (1.0 - 1.0 / spec.num_experts) * (spec.horizon - best_loss)

    def probabilities(self) -> FloatArray:
        """Return 1/N for every expert, shape ``(N,)``."""
        return np.full(self.spec.num_experts, 1.0 / self.spec.num_experts)

    def outcomes(self) -> FloatArray:
        """Return the log-probabilities of the choice, shape ``(N,)``."""
        return np.full(self.spec.num_experts, -math.log(self.spec.num_experts))

    def take(self, outcome: Any) -> Any:
        """Name the expert ``outcome``."""
        return outcome


class FollowTheLeader(Learner):
    """Names the expert of least cumulative loss, ties to the lowest index.

    Deterministic, so an adversary that knows it can charge it every round: regret linear in T against
    ``Alternating`` and ``Foreseer``. No privacy, no regret bound.
    """

    deterministic = True

    def start(self) -> None:
        """Forget all losses."""
        self._total: FloatArray = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        """Name the leader; see :meth:`Learner.act`."""
        return np.broadcast_to(self._total.argmin(-1), self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._total = self._total + losses

    def run(self, block: FloatArray) -> IntArray:
        """Name the leader before each row; see :meth:`Learner.run`."""
        totals, self._total = running_totals(self._total, block)
        leaders = totals.argmin(-1)
        if leaders.ndim <= len(self.spec.shape):
            leaders = leaders.reshape(-1, *(1 for _ in self.spec.shape))
        return np.broadcast_to(leaders, (len(block), *self.spec.shape))

    def outcomes(self) -> FloatArray:
        """Return the log-probabilities of the choice: zero for the leader, ``-inf`` for the others."""
        leader = self._total.argmin(-1)[..., None] == np.arange(self.spec.num_experts)
        return np.where(leader, 0.0, -np.inf)

    def probabilities(self) -> FloatArray:
        """Return one for the leader and zero for the others."""
        return np.exp(self.outcomes())

    def take(self, outcome: Any) -> Any:
        """Name the expert ``outcome``."""
        return outcome


class FollowThePerturbedLeader(Learner):
    """Names the leader after a random head start: argmin_i L_{t-1}(i) - Z_i.

    With exponential noise of rate eta the expected loss is at most e^eta (L* + (1 + ln N)/eta) [DERIVED]:
    memorylessness gives P(x_t = i) <= e^eta P(x_{t+1} = i), the perturbed leader of the next round loses at most
    L* + E max Z, and E max Z <= (1 + ln N)/eta (Kalai and Vempala 2005 state the form). Only the law of each
    round's choice enters, so with fresh noise the bound holds on every sequence, adaptive ones too; one lazy draw is
    leaked by the choices and the bound is for oblivious adversaries only. With fresh Gumbel noise of scale 1/eta the
    choices are those of Hedge, with regret at most ln N/eta + eta T/8. No privacy is claimed.

    Args:
        learning_rate: eta > 0, the rate of the noise; ``None`` for sqrt((1 + ln N)/T).
        noise: "exponential" or "gumbel".
        fresh: ``True`` draws new noise every round, ``False`` draws it once a game (lazy).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, learning_rate: float | None = None, noise: str = "exponential", fresh: bool = True) -> None:
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate
        self.noise = check_name("noise", noise, ("exponential", "gumbel"))
        self.fresh = check_flag("fresh", fresh)

    def start(self) -> None:
        """Forget all losses and, if lazy, draw the noise."""
        self._total: FloatArray = np.zeros(self.spec.num_experts)
        self._rate = self._rate_for(self.spec)
        self._head_start = self._draw(()) if not self.fresh else None

    def act(self) -> Any:
        """Name the perturbed leader; see :meth:`Learner.act`."""
        head_start = self._draw(()) if self._head_start is None else self._head_start
        return (self._total - head_start).argmin(-1)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._total = self._total + losses

    def run(self, block: FloatArray) -> IntArray:
        """Name the perturbed leader before each row; see :meth:`Learner.run`."""
        totals, self._total = running_totals(self._total, block)
        if totals.ndim <= len(self.spec.shape) + 1:
            totals = totals.reshape(len(block), *(1 for _ in self.spec.shape), self.spec.num_experts)
        head_start = self._draw((len(block),)) if self._head_start is None else self._head_start
        leaders: IntArray = (totals - head_start).argmin(-1)
        return leaders

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the class text minus L*; NaN for lazy noise against adaptive adversaries."""
        if against == "adaptive" and not self.fresh:
            return math.nan
        rate, log_experts = self._rate_for(spec), math.log(spec.num_experts)
        if self.noise == "gumbel":
            return log_experts / rate + rate * spec.horizon / 8.0
        if rate > 700.0:
            return float(spec.horizon)
        return math.exp(rate) * (best_loss + (1.0 + log_experts) / rate) - best_loss

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice for fresh Gumbel noise, which is Hedge's."""
        if not self.fresh or self.noise != "gumbel":
            return super().probabilities()
        return np.exp(exponential_log_probabilities(self._total, self._rate))

    def _rate_for(self, spec: GameSpec) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return math.sqrt((1.0 + math.log(spec.num_experts)) / spec.horizon)

    def _draw(self, rows: tuple[int, ...]) -> FloatArray:
        size = (*rows, *self.spec.shape, self.spec.num_experts)
        draws = self.rng.standard_exponential(size) if self.noise == "exponential" else self.rng.gumbel(size=size)
        return draws / self._rate


def running_totals(total: FloatArray, block: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the cumulative losses before each row of a block, and after it.

    Adding row by row gives the same floating-point numbers.

    Args:
        total: cumulative losses before the block, ``(N,)`` or ``(G, N)``.
        block: losses ``(R, N)`` or ``(R, G, N)``.

    Returns:
        Totals before each row, ``(R, N)`` or ``(R, G, N)``, and the total after the last.
    """
    shape = np.broadcast_shapes(total.shape, block.shape[1:])
    totals = np.empty((len(block) + 1, *shape))
    totals[0] = total
    if math.prod(shape) < 64:
        totals[1:] = block.reshape(len(block), *(1,) * (len(shape) + 1 - block.ndim), *block.shape[1:])
        np.cumsum(totals, axis=0, out=totals)
    else:
        # numpy's cumulative sum over the first axis is slow for wide rows; the additions are the same.
        for row, losses in enumerate(block):
            np.add(totals[row], losses, out=totals[row + 1])
    return totals[:-1], totals[-1].copy()
