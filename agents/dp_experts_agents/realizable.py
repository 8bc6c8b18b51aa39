"""The sparse-vector learner for a best expert that loses nothing or little (Asi, Feldman, Koren and Talwar, 2023).

Hold an expert, watch its loss with AboveThreshold, redraw it at every alarm from the exponential mechanism on max(L,
L'): a watched expert without a coin, so the privacy is that of :mod:`dp_experts_agents.watched`. The algorithm is known
from the paper's abstract and introduction; its constants are recalled.

**Regret** [DERIVED], for constant rates and thresholds, no lift, one-sided exponential noise and oblivious losses. A, B
are the noise scales, s the stride, W_t = sum_i exp(-eta L_t(i)), Lambda = ln N + eta L*. Let query noises of alpha or
more be set to 0, and kappa = e^{-eta (tau - alpha)}; then no alarm comes below a loss of tau - alpha. The expert drawn
at s is still held at u if it has lost less, so with probability at least sum_i P_s(i) (e^{-eta r_i} - kappa) = W_u/W_s
- kappa: between two redraws ln W falls by more than y with probability at least (e^-y - kappa)_+. Such falls g have
mean mu = 1 - kappa - kappa ln(1/kappa) and overshoot any level by at most 1 on average, and they add up to at most
Lambda, so by Wald's identity the expected number of windows is at most (Lambda + 1)/mu. A window loses at most tau + xi
+ s, and xi is drawn when it begins. The noise is as supposed but with probability (T/s) e^{-alpha/B}. More than V
redraws are needed with probability at most e^{theta Lambda} E[e^{-theta g}]^{V + 1} for every theta > 0, where E
e^{-theta g} = 1 - (theta/(1 + theta)) (1 - kappa^{1 + theta}) + kappa (1 - kappa^theta). Hence for every alpha in [0,
tau]

    E loss <= (tau + A + s) (Lambda + 1)/mu
              + T [(T/s) e^{-alpha/B} + min_theta e^{theta Lambda} E[e^{-theta g}]^{V + 1}].
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dp_experts_agents.doubling import DoublingSmallLoss
from dp_experts_agents.small_loss import TUNINGS
from dp_experts_agents.watch_plans import SOURCES, Plan, calibrated_plan, overridden, positive, solve
from dp_experts_agents.watched import WatchedExpert
from dp_experts_env.privacy.accounting import zcdp_rho
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    check_adjacency,
    check_count,
    check_delta,
    check_epsilon,
    check_name,
    check_number,
)


def realizable_bound(plan: Plan, horizon: int, num_experts: int, best_loss: float) -> float:
    """Return the regret bound of the module, the least over alpha, at most T - L*; NaN where it is not proved."""
    if plan.coin_epsilon is not None or plan.taper or plan.growth or plan.noise != "exponential" or plan.lift:
        return math.nan
    bound = _bound(
        plan.learning_rate,
        plan.threshold,
        1.0 / plan.threshold_epsilon,
        1.0 / plan.query_epsilon,
        np.linspace(0.0, plan.threshold, 600),
        plan.stride,
        math.inf if plan.cap is None else plan.cap,
        horizon,
        num_experts,
        best_loss,
    )
    return float(min(bound.min(), horizon - best_loss))


def _bound(
    rate: Any,
    threshold: Any,
    scale: Any,
    query_scale: Any,
    margin: Any,
    stride: Any,
    cap: Any,
    horizon: int,
    num_experts: int,
    best_loss: float,
) -> Any:
    """The bound on the regret at given alpha = ``margin``, elementwise."""
    needed = math.log(num_experts) + rate * best_loss
    ends = np.maximum(rate * (threshold - margin), 1e-9)
    odds = np.exp(-ends)
    mean = 1.0 - odds - odds * ends
    late = np.ones(np.broadcast_shapes(np.shape(ends), np.shape(cap), np.shape(needed)))
    for theta in np.geomspace(0.25, 64.0, 9):
        moment = 1.0 - theta / (1.0 + theta) * (1.0 - odds ** (1.0 + theta)) + odds * (1.0 - odds**theta)
        with np.errstate(over="ignore"):
            late = np.minimum(late, np.exp(theta * needed + (np.minimum(cap, horizon) + 1.0) * np.log(moment)))
    # More redraws than rounds there cannot be.
    failed = horizon / stride * np.exp(-margin / query_scale) + np.where(cap >= horizon, 0.0, late)
    return (threshold + scale + stride) * (needed + 1.0) / np.maximum(mean, 1e-12) - best_loss + horizon * failed


@lru_cache(maxsize=256)
def certified_plan(
    horizon: int, num_experts: int, epsilon: float, delta: float, best_loss: float, adjacency: Adjacency
) -> Plan:
    """Return the plan of least :func:`realizable_bound` at ``best_loss`` on a grid, its rates solved for the budget."""
    budget = np.linspace(0.15, 0.75, 13)
    axes = np.meshgrid(
        budget,
        np.unique(np.rint(np.geomspace(1, max(2, min(horizon, 500)), 26))),
        [1.0, 0.7, 0.4],
        [1.0, 1.5, 2.0, 2.5, 3.0, 4.0],
        [2**k for k in range(8) if 2**k <= max(1, horizon // 50)],
        indexing="ij",
        sparse=True,
    )
    share, cap, part, ends, stride = axes
    watch = share * epsilon
    step = 1.0 if adjacency is Adjacency.ZERO_OUT else 2.0
    rate = (epsilon - watch) / (step * cap)
    if delta > 0:
        left = np.array([zcdp_rho(epsilon * (1.0 - f), delta) for f in budget]).reshape(share.shape)
        rate = np.maximum(rate, np.sqrt(8.0 * left / cap) / step)
    rate = part * rate
    margin = (2.0 * math.log(max(horizon, 2)) - np.log(stride)) / watch
    bound = _bound(
        rate, margin + ends / rate, 1 / watch, 1 / watch, margin, stride, cap, horizon, num_experts, best_loss
    )
    f, v, p, y, s = (
        float(axis.ravel()[index])
        for axis, index in zip(axes, np.unravel_index(int(bound.argmin()), bound.shape), strict=True)
    )
    solved = solve(Plan(1.0, 0.0, 1.0, 1.0, None, int(s), int(v)), f * epsilon, horizon, epsilon, delta, adjacency)
    solved = replace(solved, learning_rate=p * solved.learning_rate)
    base = y / solved.learning_rate
    levels = base + np.linspace(1.0, 2.5 * math.log(horizon + 1) + 4, 60) / solved.query_epsilon
    plans = [replace(solved, threshold=float(level)) for level in levels]
    return min(plans, key=lambda plan: realizable_bound(plan, horizon, num_experts, best_loss))


@lru_cache(maxsize=256)
def paper_plan(
    horizon: int, num_experts: int, epsilon: float, delta: float, best_loss: float, adjacency: Adjacency
) -> Plan:
    """Return the paper's constants as recalled, with beta = 1/T.

    B = ln(2 T^2/beta), K = 6 ceil(ln N) + 24 ln(1/beta), threshold L' + 4/h + 8 B/epsilon, redraws from exp(-(h/2)
    max(L, L')), each h-DP; AboveThreshold gets epsilon/2, with Lap(4/epsilon) and Lap(8/epsilon) noise. h =
    epsilon/(2K) for delta = 0; else K redraws by advanced composition cost epsilon/2: h sqrt(2 K ln(1/delta)) + K h
    (e^h - 1) <= epsilon/2. [RECALLED], but private by :mod:`dp_experts_agents.watched` whatever they are.
    """
    beta = 1.0 / max(horizon, 2)
    cap = 6 * math.ceil(math.log(max(num_experts, 2))) + math.ceil(-24 * math.log(beta))
    step = epsilon / (2 * cap)
    if delta > 0:
        low, high = step, max(step, min(epsilon / 2, 700.0))
        for _ in range(200):
            middle = (low + high) / 2
            cost = middle * math.sqrt(-2 * cap * math.log(delta)) + cap * middle * math.expm1(middle)
            low, high = (middle, high) if cost * (1 + 1e-12) <= epsilon / 2 else (low, middle)
        step = low
    threshold = best_loss + 4 / step + 8 * math.log(2 * horizon**2 / beta) / epsilon
    noise = epsilon / 4
    return Plan(
        step / 2 * (1 - 1e-15),
        threshold,
        noise,
        noise / 2,
        cap=cap,
        lift=best_loss,
        noise="laplace",
        epsilon=epsilon,
        delta=delta,
        method="paper",
    )


class Realizable(WatchedExpert):
    """The sparse-vector learner: hold an expert, redraw it privately whenever AboveThreshold says that it loses.

    Private against adaptive adversaries, alarms included, whatever the constants and whether or not ``best_loss`` is
    right; see :mod:`dp_experts_agents.watched` for the proof and the module for the regret.

    Tunings: "calibrated", constants found by simulation on public synthetic sequences, with rates that taper off and
    thresholds that grow instead of a cap, so that late failures of the held expert are noticed, and no proved regret
    bound; "certified", constant rates and thresholds and a cap, of least proved regret bound at ``best_loss``;
    "paper", the paper's constants as recalled.

    With ``best_loss=None`` the game is cut into buckets with doubled guesses by :class:`DoublingSmallLoss`, at half the
    budget each for the buckets and for this learner in them. (The paper instead estimates L* with Laplace noise when
    its redraws are used up; the buckets need no such moment.)

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1).
        best_loss: L' >= 0, a public bound on the total loss of the best expert; 0 is the realizable case; ``None``
            where none is known.
        tuning: "calibrated", "certified" or "paper".
        learning_rate: eta > 0, of the first redraw; ``None`` to spend on it what the rest leaves.
        threshold: tau >= 0, of the first window; ``None`` to take it from the tuning.
        cap: most redraws, made at constant rates and thresholds; ``None`` to take it from the tuning.
        watch_epsilon: the budget of the watch, in (0, epsilon); ``None`` to take it from the tuning.
        stride: rounds between queries, an integer >= 1; ``None`` to take it from the tuning.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range, or constants are given with tuning="paper".
        BudgetError: at reset, if constants that were given cost more than epsilon; the message says how much.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        best_loss: float | None = 0.0,
        tuning: str = "calibrated",
        learning_rate: float | None = None,
        threshold: float | None = None,
        cap: int | None = None,
        watch_epsilon: float | None = None,
        stride: int | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.best_loss = None if best_loss is None else check_number("best_loss", best_loss, 0.0)
        self.tuning = check_name("tuning", tuning, TUNINGS)
        self.learning_rate = positive("learning_rate", learning_rate)
        self.threshold = None if threshold is None else check_number("threshold", threshold, 0.0)
        self.cap = None if cap is None else check_count("cap", cap, 0)
        self.watch_epsilon = positive("watch_epsilon", watch_epsilon, self.epsilon)
        self.stride = None if stride is None else check_count("stride", stride)
        self.adjacency = check_adjacency(adjacency)
        if self.tuning == "paper":
            for name in ("learning_rate", "threshold", "cap", "watch_epsilon", "stride"):
                if getattr(self, name) is not None:
                    raise ArgumentError(f"{name}: expected None with tuning='paper' but found {getattr(self, name)!r}")
        self._buckets: DoublingSmallLoss | None = None
        if self.best_loss is None:
            inner = self.clone(best_loss=0.0)
            self._buckets = DoublingSmallLoss(self.epsilon, self.delta, inner, adjacency=self.adjacency)

    def plan(self, spec: GameSpec) -> Plan:
        """Return the constants for a game of this size and what they certify; cached.

        With ``best_loss=None``: those of the first bucket.

        Raises:
            ArgumentError, BudgetError: see the class.
        """
        if self.best_loss is None:
            assert self._buckets is not None
            guess = min(float(self._buckets.guesses(spec, 1)[1][0]), float(spec.horizon))
            return self.clone(epsilon=self.epsilon / 2, best_loss=guess).plan(spec)
        game = spec.horizon, spec.num_experts, self.epsilon, self.delta
        bound = min(self.best_loss, float(spec.horizon))
        if self.tuning == "paper":
            return paper_plan(*game, bound, self.adjacency)
        if self.tuning == "certified":
            plan = certified_plan(*game, bound, self.adjacency)
        else:
            plan = calibrated_plan("realizable", *game, bound, self.adjacency)
        return overridden(
            plan,
            game,
            self.adjacency,
            self.learning_rate,
            self.threshold,
            self.cap,
            self.watch_epsilon,
            None,
            self.stride,
        )

    def start(self) -> None:
        """Forget all losses."""
        if self._buckets is None:
            super().start()
        else:
            self._buckets.reset(self.spec, self.rng)

    def act(self) -> Any:
        """Query and redraw where it is time; see :meth:`Learner.act`."""
        if self._buckets is None:
            return super().act()
        self._buckets._notes = self._notes
        return self._buckets.act()

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        if self._buckets is None:
            super().observe(losses)
        else:
            self._buckets.observe(losses)

    def run(self, block: FloatArray) -> IntArray:
        """Play a block; see :meth:`Learner.run`."""
        if self._buckets is None or self._notes is not None:
            return super().run(block)
        return self._buckets.run(block)

    def outcomes(self) -> FloatArray:
        """Return the law of the next outcome, see :meth:`WatchedExpert.outcomes`; none with buckets."""
        return super().outcomes() if self._buckets is None else self._buckets.outcomes()

    def guarantee(self, spec: GameSpec) -> Guarantee | None:  # type: ignore[override]
        """Return (epsilon, delta)-DP against adaptive adversaries; alarms included."""
        if self._buckets is not None:
            return self._buckets.guarantee(spec)
        plan = self.plan(spec)
        source = SOURCES.get(plan.method, "AboveThreshold and the exponential mechanism; constants recalled [DERIVED]")
        return Guarantee(plan.epsilon, plan.delta, self.adjacency, "adaptive", source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the module for constant rates and exponential noise, else NaN; NaN if adaptive."""
        if against == "adaptive" or self._buckets is not None:
            return math.nan
        if spec.num_experts == 1:
            return 0.0
        return realizable_bound(self.plan(spec), spec.horizon, spec.num_experts, best_loss)
