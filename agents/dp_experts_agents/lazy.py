"""Lazy learners: Hedge that draws once a batch, and L2P, which makes a sequence of laws lazy and private.

**LazyHedge.** Mechanism: rounds come in batches of B; at the head of each of the n = ceil(T/B) batches the expert is
drawn afresh from P(i) proportional to exp(-eta L(i)), L the losses so far, and held for the batch. Sensitivity: one
changed loss vector moves every later draw, each with bounded range 2 eta (eta under ``zero_out``), by at most n - 1
draws; the first is uniform. Composition: given a common prefix of the choices an adaptive adversary's other losses are
equal in both worlds, so the draws compose adaptively: zCDP with the tight conversion, or basic composition, whichever
allows the larger rate. [DERIVED]

Regret against oblivious adversaries, and for B = 1 against adaptive ones [DERIVED]: Hedge on batch sums in [0, B]
has at most ln N/eta + eta B T/8, and at most B (eta L* + ln N)/(1 - e^{-eta B}) - L*. With budget rho the rate is
sqrt(2 rho/(n - 1)), about sqrt(2 rho B/T), so the first term falls as B^(-1/2) and the second grows as B^(3/2): least
at B = sqrt(4 ln N/(3 rho)), whatever T is, with regret of order sqrt(T) (ln N)^(3/4) rho^(-1/4). With pure epsilon the
rate is about epsilon B/(2 T): least at B = (16 T ln N/epsilon^2)^(1/3), regret of order T^(2/3). The calibration takes
the exact minimum over all B in 1..T. No learner that holds its expert over batches of B can do better than about
sqrt(T B ln N/2) on losses that are constant within batches.

**LazyToPrivate** (Asi, Koren, Liu and Talwar 2024, known here from an index page [INDEX]; everything claimed is derived
here). Mechanism: measures nu_1, nu_2, ... on the experts, one a batch; x and a reference y are drawn from nu_1. At each
further decision x is kept with probability

    kappa = (1 - p) min{1, e^{-2 eta B} nu_s(x)/nu_{s-1}(x) * nu_{s-1}(y)/nu_s(y)},

else redrawn from nu_s, and y is kept with probability 1 - p, else redrawn from nu_s. The normalisers cancel, so the
coin depends on the last batch at x and y only. Marginal [DERIVED]: where the minimum is never 1, which holds if no
log-ratio nu_s/nu_{s-1} moves by more than eta B up to a constant, x has law exactly nu_s given the path of y: the mass
kept at i is nu_{s-1}(i) kappa(i, y), proportional to nu_s(i). y's own law is not nu_s.

For Hedge, nu_s proportional to exp(-eta L): kappa = (1 - p) e^{-2 eta B} e^{-eta (L_b(x) - L_b(y))}, L_b the last
batch. One changed loss moves log kappa by at most a (2 eta, or eta under ``zero_out``) in one coin, log(1 - kappa) by
at most e_sw = ln(1 + k (1 - e^{-a})/(1 - k)), k = (1 - p) e^{-eta B}, with the opposite sign: bounded range e_sw + a.
Every later redraw of x or y has bounded range a. Transcript: the coins, x and y; composition as for the dartboard, in
the same letters: "zcdp" rho = (e_sw + a)^2/8 + (K + K_y) a^2/8, "pure" epsilon = max(e_sw, a) + (K + K_y) a, "renyi"
without caps, where a later decision's moment is at most (1 + r (w - 1)) (1 + p (w - 1)), r = 1 - (1 - p) e^{-3 eta B}.
Regret against oblivious adversaries: x has Hedge's law at every decision, so ln N/eta + eta B T/8, plus
B sum_{j<n} Pr[Bin(j, r) > K] under a cap; a cap on y costs nothing, since x's marginal is exact whatever y does. The
rate that the paper's abstract states is not claimed: it was not reproduced. [DERIVED]

The dartboard needs no reference, since Hedge's normaliser cancels by itself; it is the better learner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_experts_agents.baselines import running_totals
from dp_experts_agents.dartboard import CalibratedDartboard, Plan, Scheme
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.accounting import compose, zcdp_rho
from dp_experts_env.privacy.accounting import learning_rate as private_learning_rate
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities, sample_inverse_cdf
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    BudgetError,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    check_adjacency,
    check_count,
    check_delta,
    check_epsilon,
    check_number,
)


class LazyHedge(Learner):
    """Hedge that draws its expert afresh every B rounds and holds it in between, privately.

    Private against adaptive adversaries; the regret bound is for oblivious ones unless B = 1. See the module for the
    proofs.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1).
        batch_size: B, an integer >= 1; ``None`` for the one of least certified regret.
        learning_rate: eta > 0; ``None`` for the largest useful one within the budget.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range.
        BudgetError: at reset, if a given learning_rate costs more than epsilon.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.batch_size = None if batch_size is None else check_count("batch_size", batch_size)
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate
        self.adjacency = check_adjacency(adjacency)

    def plan(self, spec: GameSpec) -> Plan:
        """Return B and eta for a game of this size and what they certify; cached.

        Raises:
            BudgetError: see the class.
        """
        scheme = Scheme(spec.horizon, spec.num_experts, self.adjacency)
        return _lazy_plan(scheme, self.epsilon, self.delta, self.batch_size, self.learning_rate)

    def start(self) -> None:
        """Forget all losses."""
        plan = self.plan(self.spec)
        self._size, self._rate = plan.batch_size, plan.learning_rate
        self._total: FloatArray = np.zeros(self.spec.num_experts)
        self._held: IntArray = np.zeros(self.spec.shape, dtype=np.int64)

    def act(self) -> Any:
        """Draw at the head of a batch by one uniform number a game, else hold; see :meth:`Learner.act`."""
        if self.round % self._size == 0:
            self._held = np.asarray(self._draw(self._total, self.spec.shape))
        return self._held

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._total = self._total + losses

    def run(self, block: FloatArray) -> IntArray:
        """Draw for all batches that begin in the block at once; see :meth:`Learner.run`."""
        rows = np.arange(-self.round % self._size, len(block), self._size)
        totals, self._total = running_totals(self._total, block)
        drawn = self._draw(totals[rows], (len(rows), *self.spec.shape))
        held = np.concatenate([self._held[None], drawn])
        self._held = held[-1]
        return np.repeat(held, np.diff(rows, prepend=0, append=len(block)), axis=0)

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice, ``(N,)`` or ``(G, N)``; within a batch the held expert has all of it."""
        return np.exp(self.outcomes())

    def outcomes(self) -> FloatArray:
        """Return the log-probabilities of the next choice, ``(N,)`` or ``(G, N)``."""
        if self.round % self._size == 0:
            return exponential_log_probabilities(self._total, self._rate)
        return np.where(self._held[..., None] == np.arange(self.spec.num_experts), 0.0, -math.inf)

    def take(self, outcome: Any) -> Any:
        """Name, and hold, the expert ``outcome``."""
        self._held = np.broadcast_to(outcome, self.spec.shape)
        return self._held

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return the (epsilon, delta) that the parameters certify, at most what was asked; adaptive adversaries."""
        plan = self.plan(spec)
        source = f"lazy Hedge: {math.ceil(spec.horizon / plan.batch_size) - 1} affected draws, {plan.method} [DERIVED]"
        return Guarantee(plan.epsilon, plan.delta, self.adjacency, "adaptive", source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the least of the module's two bounds and T - L*; NaN against adaptive adversaries unless B = 1."""
        plan = self.plan(spec)
        if against == "adaptive" and plan.batch_size > 1:
            return math.nan
        if spec.num_experts == 1:
            return 0.0
        scheme = Scheme(spec.horizon, spec.num_experts)
        return min(plan.regret, scheme.small_loss_regret(plan, best_loss), spec.horizon - best_loss)

    def _draw(self, totals: FloatArray, shape: tuple[int, ...]) -> IntArray:
        return sample_inverse_cdf(np.exp(exponential_log_probabilities(totals, self._rate)), self.rng.random(shape))


@lru_cache(maxsize=512)
def _lazy_plan(scheme: Scheme, epsilon: float, delta: float, batch_size: int | None, rate: float | None) -> Plan:
    horizon, log_experts = scheme.horizon, math.log(max(scheme.num_experts, 2))
    if batch_size is None:
        batches = np.arange(1.0, horizon + 1)
        # Without an affected draw every rate is private.
        affected = np.maximum(scheme.decisions(batches) - 1, 1e-300)
        with np.errstate(over="ignore"):
            steps = np.maximum(epsilon / affected, np.sqrt(8 * zcdp_rho(epsilon, delta) / affected))
        rates = np.minimum(steps / scheme.step(1.0), np.sqrt(8 * log_experts / batches / horizon))
        if rate is not None:
            rates = np.where(rate <= steps / scheme.step(1.0) * (1 - 1e-9), rate, math.nan)
        batch_size = int(np.nanargmin(scheme.regret(batches, 1.0, rates))) + 1
    batch_size = min(batch_size, horizon)
    affected = math.ceil(horizon / batch_size) - 1
    if rate is None:
        rate = math.sqrt(8 * log_experts / batch_size / horizon)
        if affected:
            rate = min(rate, private_learning_rate(epsilon, delta, affected + 1, "zcdp", scheme.adjacency))
    regret = float(scheme.regret(batch_size, 1.0, rate))
    if not affected:
        return Plan(batch_size, 1.0, rate, None, 0.0, 0.0, "none", regret)
    cost = compose(scheme.step(rate), affected, delta, kind="bounded_range")
    if cost.epsilon > epsilon:
        raise BudgetError(
            f"learning_rate={rate:g}, batch_size={batch_size} at T={horizon}, delta={delta:g}: expected a cost of at "
            f"most epsilon={epsilon:g} but found {cost.epsilon:.6g}; lower learning_rate, raise batch_size, or ask for "
            "a larger epsilon"
        )
    return Plan(
        batch_size, 1.0, rate, None, cost.epsilon, 0.0 if cost.method == "basic" else delta, cost.method, regret
    )


class LazyToPrivate(CalibratedDartboard):
    """L2P: few switches by coins taken relative to a reference expert; its Hedge instance by default.

    Private against adaptive adversaries, and with a regret bound against oblivious ones, for Hedge's measures only:
    see the module for the proofs. For other measures hand in ``log_measure`` or override :meth:`measure`; then batch
    size, switch probability and learning rate must be given and nothing is claimed.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); at 0 the caps are needed.
        certificate: "capped" (zCDP, or pure), "uncapped" (Rényi, delta > 0 only) or "auto", the one of less regret.
        batch_size: B, an integer >= 1; ``None`` to calibrate it.
        switch_probability: p in (0, 1]; ``None`` to calibrate it.
        learning_rate: eta > 0; ``None`` to calibrate it. For other measures eta B bounds how far any two experts'
            log-measures move apart over a batch, halved.
        cap: K, an integer >= 0, most redraws of x after the first; ``None`` to calibrate it. Under a cap the reference
            is redrawn at most ceil((n - 1) p) times.
        adjacency: "replace" or "zero_out".
        log_measure: function from cumulative losses ``(..., N)`` to the log of a measure, up to a constant, of the same
            shape; ``None`` for Hedge's, -eta times the losses.

    Raises:
        ArgumentError: if an argument lies outside its range or contradicts another.
        BudgetError: at reset, if parameters that were given cost more than epsilon; the message says how much.
    """

    label = "lazy to private, Hedge"
    _streams: ClassVar[int] = 3

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        certificate: str = "auto",
        batch_size: int | None = None,
        switch_probability: float | None = None,
        learning_rate: float | None = None,
        cap: int | None = None,
        adjacency: str | Adjacency = "replace",
        log_measure: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        super().__init__(epsilon, delta, certificate, batch_size, switch_probability, learning_rate, cap, adjacency)
        self.log_measure = log_measure
        if self._custom:
            needed = {
                "batch_size": batch_size,
                "switch_probability": switch_probability,
                "learning_rate": learning_rate,
            }
            for name, value in needed.items():
                if value is None:
                    raise ArgumentError(f"{name}: expected a value with a log_measure of one's own but found None")

    @property
    def _custom(self) -> bool:
        return self.log_measure is not None or type(self).measure is not LazyToPrivate.measure

    def measure(self, total: FloatArray) -> FloatArray:
        """Return the log of the measure after these cumulative losses, up to a constant; to be overridden.

        Args:
            total: shape ``(..., N)``.
        """
        return -self._rate * total if self.log_measure is None else self.log_measure(total)

    def scheme(self, spec: GameSpec) -> Scheme:
        """Return the game and the variant that the bounds are for."""
        return Scheme(spec.horizon, spec.num_experts, self.adjacency, reference=True)

    def plan(self, spec: GameSpec) -> Plan:
        """Return the parameters for a game of this size and what they certify; cached.

        Raises:
            BudgetError: see the class.
        """
        if self._custom:
            assert self.batch_size is not None
            assert self.switch_probability is not None
            assert self.learning_rate is not None
            return Plan(self.batch_size, self.switch_probability, self.learning_rate, self.cap)
        return super().plan(spec)

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return what the parameters certify for Hedge's measures, at most what was asked; ``None`` for others."""
        return None if self._custom else super().guarantee(spec)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the least of the module's bounds and T - L*; NaN against adaptive adversaries and other measures."""
        return math.nan if self._custom else super().regret_bound(spec, best_loss, against)

    def start(self) -> None:
        """Forget all losses; the first round draws both experts."""
        super().start()
        plan = self.plan(self.spec)
        self._forced = plan.switch_probability
        reference_cap = self.scheme(self.spec).reference_cap(plan.batch_size, plan.switch_probability)
        self._reference: IntArray = np.zeros_like(self._held)
        self._reference_left = np.full(self._held.shape, math.inf if plan.cap is None else reference_cap + 1.0)
        self._measured = self.measure(self._score) if self._custom else self._score

    def act(self) -> Any:
        """Decide at the head of a batch, else hold; see :meth:`Learner.act`."""
        choice = super().act()
        self._settle()
        return choice

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of outcomes i (N + 1) + j: x then y redrawn to i, j, or kept if the number is N.

        Shape ``((N + 1)^2,)`` or ``(G, (N + 1)^2)``.
        """
        own, size = super().outcomes(), self.spec.num_experts
        leave = np.full(self._held.shape, self._forced if self._opened else 1.0)
        leave = np.where(self._decides() & (self._reference_left > 0), leave, 0.0).reshape(*self.spec.shape, 1)
        with np.errstate(divide="ignore"):
            law = np.broadcast_to(self._log_law() + np.log(leave), (*self.spec.shape, size))
            other = np.concatenate([law, np.log1p(-leave)], axis=-1)
        joint: FloatArray = own[..., :, None] + other[..., None, :]
        return joint.reshape(*self.spec.shape, -1)

    def take(self, outcome: Any) -> Any:
        """Play the outcome of this number, see :meth:`outcomes`."""
        size = self.spec.num_experts
        own, other = np.divmod(np.broadcast_to(outcome, self._held.shape), size + 1)
        self._move(own < size, own)
        self._move_reference(other < size, other)
        self._record(own == size)
        self._settle()
        return self._held.reshape(self.spec.shape)

    def _least_keep(self) -> float:
        # Nothing bounds how far the measures of others move.
        return 0.0 if self._custom else self._stay * math.exp(-3.0 * self._rate * self._size)

    def _moving(self, coins: FloatArray, *others: FloatArray) -> NDArray[np.bool_]:
        moving: NDArray[np.bool_] = (coins >= self._surely) | (others[1] < self._forced)
        return moving

    def _charge(self) -> FloatArray:
        if not self._custom:
            return super()._charge()
        change: FloatArray = self._measured - self.measure(self._score)
        return change

    def _at(self, block: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        scores, charges = super()._at(block, rows)
        if self._custom and rows.size:
            measures = np.concatenate([np.broadcast_to(self._measured, (1, *scores.shape[1:])), self.measure(scores)])
            self._measured = measures[-1]
            charges = measures[:-1] - measures[1:]
        return scores, charges

    def _settle(self) -> None:
        if self._custom and self._decides():
            self._measured = self.measure(self._score)

    def _keep(self, charge: FloatArray, games: IntArray) -> FloatArray:
        change = self._of(charge, games, self._held) - self._of(charge, games, self._reference)
        exponent = 2.0 * self._rate * self._size + (change if self._custom else self._rate * change)
        keep: FloatArray = self._stay * np.exp(-np.maximum(exponent, 0.0))
        return keep

    def _law(self, score: FloatArray, games: IntArray) -> FloatArray:
        if not self._custom:
            return super()._law(score, games)
        return np.exp(exponential_log_probabilities(-self.measure(score if score.ndim == 1 else score[games]), 1.0))

    def _log_law(self) -> FloatArray:
        if not self._custom:
            return super()._log_law()
        return exponential_log_probabilities(-self.measure(self._score), 1.0)

    def _decide(self, score: FloatArray, charge: FloatArray, *draws: FloatArray) -> Any:
        coins, uniforms, others = draws
        leave = self._forced if self._opened else 1.0
        kept = super()._decide(score, charge, coins, uniforms)
        games = np.flatnonzero((others < leave) & (self._reference_left > 0))
        if games.size:
            # Given that it is below ``leave`` the draw is uniform again.
            again = np.minimum(others[games] / leave, math.nextafter(1.0, 0.0))
            drawn, moved = self._reference.copy(), np.zeros(coins.shape, dtype=bool)
            drawn[games], moved[games] = sample_inverse_cdf(self._law(score, games), again), True
            self._move_reference(moved, drawn)
        return kept

    def _move_reference(self, moved: Any, drawn: Any) -> None:
        self._reference = np.where(moved, drawn, self._reference)
        self._reference_left = self._reference_left - moved

    def _record(self, kept: Any) -> None:
        super()._record(kept)
        self.note("reference", self._reference.reshape(self.spec.shape))
