"""Private learners whose regret follows the loss of the best expert: the small-loss paper's Algorithms 1, 2 and 3.

The small-loss paper is "Private Online Prediction from Experts with Small Losses". Its text was not at hand: Algorithm
1 is rebuilt from its privacy lemma and its constants, and what is implemented, with its proof, is the module
:mod:`dp_experts_agents.watched`. In its terms Algorithm 1 has a coin, a cap V, constant rates and thresholds (taper =
growth = 0) and a query every round.

**Regret** [DERIVED], for constant rates, one-sided exponential noise and oblivious losses. Write w_t(i) =
exp(-eta L_t(i)), W_t their sum, P_t = w_t/W_t, A = 1/e_a, B = 1/e_b for the noise scales, s for the stride.

*Algorithm 2* has no cap and no floor, and windows that end whenever an arbitrary rule says so, as long as the rule
does not see the coins: for each beginning and expert, and perhaps noise, a window's end is fixed beforehand.

- *Marginal.* If all windows are forced to end at round e, the expert held after that has law exactly P_e. Proof:
  backwards in the time s of the last redraw. A fresh x ~ P_s that is kept at every end up to e has probability
  P_s(i) prod e^{-eta r} = w_e(i)/W_s; otherwise it is redrawn at some u > s from P_u and, by induction, ends with law
  P_e. Together w_e(i)/W_s + (1 - W_e/W_s) P_e(i) = P_e(i).
- *Between.* If the held expert has lost r <= D in its window, e^{-eta D} P_t(i) <= Pr[x_t = i] <= e^{eta D} P_t(i):
  force an end at t; then P_t(i) = E[1{x_t = i} e^{-eta r}] + (1 - E e^{-eta r}) P_t(i).
- *Redraws.* Their number is stochastically at most Poisson(ln N + eta L*). Proof: from a fresh draw at s, the next
  redraw is after u with probability at least W_u/W_s, so ln W falls by more than y between two redraws with
  probability at least e^-y: the falls dominate independent Exp(1) variables, and ln W falls by at most ln N + eta L*.
- *Windows.* A window that ends with loss r is followed by a redraw with probability 1 - e^{-eta r}, so E sum (1 -
  e^{-eta r}) <= ln N + eta L*, the sum over the windows that end.

Algorithm 1 makes the same choices as Algorithm 2 with the rule "alarm", query noises of alpha or more being set to 0,
unless some query noise reaches alpha (probability at most (T/s) e^{-alpha/B}), or more than V redraws are needed. Let
r_0 = tau - alpha >= C and Lambda = ln N + eta L*. Then no alarm comes below r_0, so the floor C never shows, and the
expected number of windows is at most n = 1 + Lambda/(1 - e^{-eta r_0}). As nu >= 0, a window goes on only while
r < tau + xi, so its loss stays below tau + xi + s; xi is drawn when it begins. Hence, first, E loss <= n (tau + A + s);
second, since r <= (1 - e^{-eta r}) D/(1 - e^{-eta D}) + (r - D)_+ by concavity, with D = tau + s + x for any x >= 0, E
loss <= Lambda D/(1 - e^{-eta D}) + D + n A e^{-x/A}. So for every alpha <= tau - C and x >= 0

    E loss <= min of the two + T [(T/s) e^{-alpha/B} + Pr[Poisson(Lambda) > V]].

With constants for L* = 0 that is O(ln N (ln N + ln T)/epsilon) and the like; with eta = sqrt(ln N/(D L*)) the regret is
O(sqrt(L* ln N ln T/epsilon)) and lower terms.

*Algorithm 3* cuts the game into buckets in which the best expert's loss stays below guesses that double; see
:mod:`dp_experts_agents.doubling`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import pdtrc

from dp_experts_agents.watch_plans import SOURCES, Plan, calibrated_plan, overridden, positive, solve
from dp_experts_agents.watched import WatchedExpert
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.accounting import zcdp_rho
from dp_experts_env.privacy.mechanisms import (
    exponential_log_probabilities,
    exponential_probabilities,
    sample_inverse_cdf,
)
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

TUNINGS = ("calibrated", "certified", "paper")


# ------------------------------------------------------------------------------------------------------------ the plan


def small_loss_bound(plan: Plan, horizon: int, num_experts: int, best_loss: float) -> float:
    """Return the regret bound of the module, the least over alpha and x, at most T - L*; NaN where it is not proved."""
    if plan.coin_epsilon is None or plan.taper or plan.growth or plan.noise != "exponential" or plan.lift:
        return math.nan
    room = plan.threshold - plan.floor
    if room <= 0:
        return horizon - best_loss
    scale = 1.0 / plan.threshold_epsilon
    bound = _bound(
        plan.learning_rate,
        plan.threshold,
        scale,
        1.0 / plan.query_epsilon,
        np.linspace(0.0, room, 400)[:, None],
        plan.stride,
        math.inf if plan.cap is None else plan.cap,
        scale * np.linspace(0.0, 12.0, 40),
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
    reach: Any,
    horizon: int,
    num_experts: int,
    best_loss: float,
) -> Any:
    """The bound on the regret at given alpha = ``margin`` and x = ``reach``, elementwise."""
    needed = math.log(num_experts) + rate * best_loss
    windows = 1.0 + needed / -np.expm1(-rate * np.maximum(threshold - margin, 1e-12))
    most = threshold + stride + reach
    loss = np.minimum(
        windows * (threshold + scale + stride),
        needed * most / -np.expm1(-rate * most) + most + windows * scale * np.exp(-reach / scale),
    )
    failed = horizon / stride * np.exp(-margin / query_scale)
    # More redraws than rounds there cannot be.
    failed = failed + np.where(cap >= horizon, 0.0, pdtrc(np.minimum(cap, horizon), needed))
    return loss - best_loss + horizon * failed


@lru_cache(maxsize=256)
def certified_plan(
    horizon: int, num_experts: int, epsilon: float, delta: float, best_loss: float, adjacency: Adjacency
) -> Plan:
    """Return the plan of least :func:`small_loss_bound` at ``best_loss`` on a grid, its rates solved for the budget."""
    budget = np.linspace(0.1, 0.9, 17)
    axes = np.meshgrid(
        budget,
        [0.02, 0.05, 0.1, 0.2],
        np.unique(np.rint(np.geomspace(1, max(2, min(horizon, 2000)), 36))),
        [1.0, 0.7, 0.5, 0.35, 0.2, 0.1],
        [0.0, 0.5, 1.0, 1.5, 2.0, 3.0],
        [2**k for k in range(12) if 2**k <= max(1, horizon // 50)],
        indexing="ij",
        sparse=True,
    )
    share, coin, cap, part, ends, stride = axes
    watch = share * epsilon
    step = 1.0 if adjacency is Adjacency.ZERO_OUT else 2.0
    rate = (epsilon - watch) / (step * cap)
    if delta > 0:
        left = np.array([zcdp_rho(epsilon * (1.0 - f), delta) for f in budget]).reshape(share.shape)
        rate = np.maximum(rate, np.sqrt(8.0 * left / cap) / step)
    rate = part * np.minimum(rate, watch / 2)
    query_scale, scale = 1.0 / (watch * (1 - coin)), 1.0 / (watch - rate)
    margin = query_scale * (2.0 * math.log(max(horizon, 2)) - np.log(stride))
    threshold = margin + np.maximum(1.0 / np.expm1(np.minimum(coin * watch, 700.0)), ends / rate)
    bound = _bound(
        rate, threshold, scale, query_scale, margin, stride, cap, 2.0 * scale, horizon, num_experts, best_loss
    )
    f, x, v, p, y, s = (
        float(axis.ravel()[index])
        for axis, index in zip(axes, np.unravel_index(int(bound.argmin()), bound.shape), strict=True)
    )
    draft = Plan(1.0, 0.0, 1.0, 1.0, x * f * epsilon, int(s), int(v))
    solved = solve(draft, f * epsilon, horizon, epsilon, delta, adjacency)
    eta = p * solved.learning_rate
    solved = replace(solved, learning_rate=eta, threshold_epsilon=f * epsilon - eta)
    base = max(solved.floor, y / eta)
    levels = base + np.linspace(1.0, 2.5 * math.log(horizon + 1) + 4, 60) / solved.query_epsilon
    plans = [replace(solved, threshold=float(level)) for level in levels]
    return min(plans, key=lambda plan: small_loss_bound(plan, horizon, num_experts, best_loss))


@lru_cache(maxsize=256)
def paper_plan(
    horizon: int, num_experts: int, epsilon: float, delta: float, best_loss: float, adjacency: Adjacency
) -> Plan:
    """Return the small-loss paper's constants.

    Its lemma: epsilon = epsilon_1 + max(eta, epsilon_2) + Comp_delta(V, 2 eta), thresholds with Lap(2/epsilon_1) and
    queries with Lap(4/epsilon_1) noise, floor 1/(e^{epsilon_2} - 1). Here epsilon_1 = epsilon_2 = epsilon/3 and

    - V = ceil(71 (ln N + eta L' + 1) + 280 ln T), tau = 8 (ln T + 2 ln(2T))/epsilon_1;
    - eta <= 1/tau, epsilon/3 and sqrt(epsilon ln N/(L' ln T)), and, so that Comp_delta(V, 2 eta) <= epsilon/3:
      delta = 0, eta <= epsilon/(12 (V_0 + 1)) and sqrt(epsilon/(852 L')), V_0 = ceil(71 (ln N + 1) + 280 ln T);
      delta > 0, advanced composition, 2 eta sqrt(2 V ln(1/delta)) + 2 eta V (e^{2 eta} - 1) <= epsilon/3.

    The constants 71, 280, 8 and the caps for delta = 0 follow the paper; the rest is rebuilt. With them the learner
    stays with uniform play up to about 10^5 rounds. The privacy lemma is weaker than :mod:`dp_experts_agents.watched`,
    which holds for these constants too (``zero_out`` is charged like ``replace``).
    """
    log_experts, log_rounds = math.log(max(num_experts, 2)), math.log(max(horizon, 2))
    part = epsilon / 3
    threshold = 8 * (log_rounds + 2 * math.log(2 * horizon)) / part
    caps = [1 / threshold, part]
    if best_loss > 0:
        caps.append(math.sqrt(epsilon * log_experts / (best_loss * log_rounds)))

    def cap(rate: float) -> int:
        return math.ceil(71 * (log_experts + rate * best_loss + 1) + 280 * log_rounds)

    if delta == 0:
        caps.append(epsilon / (12 * (cap(0.0) + 1)))
        if best_loss > 0:
            caps.append(math.sqrt(epsilon / (852 * best_loss)))
        rate = min(caps)
    else:
        low, high = 0.0, min(caps)
        for _ in range(200):
            middle = (low + high) / 2
            number = cap(middle)
            cost = 2 * middle * math.sqrt(-2 * number * math.log(delta)) + 2 * middle * number * math.expm1(2 * middle)
            low, high = (middle, high) if cost * (1 + 1e-12) <= part else (low, middle)
        rate = low
    return Plan(
        rate,
        threshold,
        part / 2,
        part / 4,
        part,
        1,
        cap(rate),
        noise="laplace",
        epsilon=epsilon,
        delta=delta,
        method="paper",
    )


# -------------------------------------------------------------------------------------------------------- Algorithm 1


class SmallLoss(WatchedExpert):
    """The small-loss paper's Algorithm 1: hold an expert, watch its loss, flip a coin, redraw privately.

    Private against adaptive adversaries, alarms and coins included, whatever the constants and whether or not
    ``best_loss`` is right; see :mod:`dp_experts_agents.watched` for the proof and the module for the regret.

    Tunings: "calibrated", constants found by simulation on public synthetic sequences (stationary ones, late failures,
    swaps, drifts), with rates that taper off and thresholds that grow, no cap, and no proved regret bound; "certified",
    constant rates and thresholds and a cap, of least proved regret bound at ``best_loss``; "paper", the paper's
    constants, which need about 10^5 rounds to beat uniform play.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1).
        best_loss: L' >= 0, a public bound on the total loss of the best expert; ``None`` for none (T where a
            tuning needs one).
        tuning: "calibrated", "certified" or "paper".
        learning_rate: eta > 0, of the first redraw; ``None`` to spend on it what the rest leaves.
        threshold: tau >= 0, of the first window; ``None`` to take it from the tuning.
        cap: V >= 0, most redraws, made at constant rates and thresholds; ``None`` to take it from the tuning.
        watch_epsilon: w, the budget of watch and coin, in (0, epsilon); ``None`` to take it from the tuning.
        coin_epsilon: e_c, the coin's part of it, in (0, w); ``None`` to take it from the tuning.
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
        best_loss: float | None = None,
        tuning: str = "calibrated",
        learning_rate: float | None = None,
        threshold: float | None = None,
        cap: int | None = None,
        watch_epsilon: float | None = None,
        coin_epsilon: float | None = None,
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
        self.coin_epsilon = positive("coin_epsilon", coin_epsilon, self.watch_epsilon or self.epsilon)
        self.stride = None if stride is None else check_count("stride", stride)
        self.adjacency = check_adjacency(adjacency)
        if self.tuning == "paper":
            for name in ("learning_rate", "threshold", "cap", "watch_epsilon", "coin_epsilon", "stride"):
                if getattr(self, name) is not None:
                    raise ArgumentError(f"{name}: expected None with tuning='paper' but found {getattr(self, name)!r}")

    def plan(self, spec: GameSpec) -> Plan:
        """Return the constants for a game of this size and what they certify; cached.

        Raises:
            ArgumentError, BudgetError: see the class.
        """
        game = spec.horizon, spec.num_experts, self.epsilon, self.delta
        bound = float(spec.horizon) if self.best_loss is None else min(self.best_loss, float(spec.horizon))
        if self.tuning == "paper":
            return paper_plan(*game, bound, self.adjacency)
        if self.tuning == "certified":
            plan = certified_plan(*game, bound, self.adjacency)
        else:
            plan = calibrated_plan("small_loss", *game, self.best_loss, self.adjacency)
        return overridden(
            plan,
            game,
            self.adjacency,
            self.learning_rate,
            self.threshold,
            self.cap,
            self.watch_epsilon,
            self.coin_epsilon,
            self.stride,
        )

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return (epsilon, delta)-DP against adaptive adversaries; alarms and coins included."""
        plan = self.plan(spec)
        source = SOURCES.get(
            plan.method, "small-loss paper, privacy lemma of Algorithm 1 [INDEX], implied by [DERIVED]"
        )
        return Guarantee(plan.epsilon, plan.delta, self.adjacency, "adaptive", source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the module for constant rates and exponential noise, else NaN; NaN if adaptive."""
        if against == "adaptive":
            return math.nan
        if spec.num_experts == 1:
            return 0.0
        return small_loss_bound(self.plan(spec), spec.horizon, spec.num_experts, best_loss)


# -------------------------------------------------------------------------------------------------------- Algorithm 2


class SmallLossMarginal(Learner):
    """The small-loss paper's Algorithm 2: windows of arbitrary length. A research tool, not private.

    An expert drawn or kept before round s is held for ``delay`` rounds; then it is kept with probability exp(-eta r),
    r its loss in that window, or else redrawn from P_t(i) proportional to exp(-eta L_{t-1}(i)). Before round
    ``forced`` every window ends, whatever its delay, and there the choice has law exactly P_t; see the module for the
    proof, and for what holds in between.

    Args:
        learning_rate: eta > 0; ``None`` for sqrt(8 ln N/T).
        delay: length of the windows: an integer >= 1, or integers >= 1 of shape ``(T, N)``, one for each round
            (numbered from 0) at which a window may begin and each expert.
        forced: round 1..T at which every window ends; ``None`` for none.

    Raises:
        ArgumentError: if an argument lies outside its range, or (at reset) does not fit the game.
    """

    def __init__(self, learning_rate: float | None = None, delay: ArrayLike = 10, forced: int | None = None) -> None:
        self.learning_rate = positive("learning_rate", learning_rate)
        lengths = np.asarray(delay)
        if lengths.ndim not in (0, 2) or lengths.dtype.kind not in "iu" or not lengths.size or lengths.min() < 1:
            raise ArgumentError(
                f"delay: expected an integer >= 1, or integers >= 1 of shape (T, N), but found {delay!r}"
            )
        self.delay = delay
        self.forced = None if forced is None else check_count("forced", forced)

    def start(self) -> None:
        """Forget all losses and draw the first experts."""
        size, games = self.spec.num_experts, self.spec.num_games or 1
        lengths = np.asarray(self.delay)
        if lengths.ndim and lengths.shape != (self.spec.horizon, size):
            raise ArgumentError(f"delay: expected shape {(self.spec.horizon, size)} but found {lengths.shape}")
        if self.forced is not None and self.forced > self.spec.horizon:
            raise ArgumentError(f"forced: expected a round in 1..{self.spec.horizon} but found {self.forced}")
        self._lengths: IntArray = np.broadcast_to(lengths, (self.spec.horizon, size)).astype(np.int64)
        self._rate = self._rate_for(self.spec)
        first, self._coins, self._selections = self.rng.spawn(3)
        self._total: FloatArray = np.zeros(size)
        self._held: IntArray = np.asarray(first.integers(size, size=games))
        self._since: FloatArray = np.zeros(games)
        self._due: IntArray = self._lengths[0, self._held]

    def act(self) -> Any:
        """End the windows that are due; see :meth:`Learner.act`."""
        coins, uniforms = self._coins.random(self._held.shape), self._selections.random(self._held.shape)
        kept = coins < self._keep()
        drawn = sample_inverse_cdf(np.broadcast_to(self._law(), (len(kept), self.spec.num_experts)), uniforms)
        return self._hold(kept, drawn)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._total = self._total + losses
        self._since = self._since + WatchedExpert._of(losses, np.arange(len(self._held)), self._held)

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of "redrawn to i", i in 0..N-1, then of "kept"; ``(N + 1,)`` or ``(G, N + 1)``."""
        size = self.spec.num_experts
        keep = np.zeros(self._held.shape) if self.round == 0 else self._keep()
        fresh = exponential_log_probabilities(self._total, self._rate)
        with np.errstate(divide="ignore"):
            moved = np.broadcast_to(np.log1p(-keep)[:, None] + fresh, (len(keep), size))
            return np.concatenate([moved, np.log(keep)[:, None]], -1).reshape(*self.spec.shape, -1)

    def take(self, outcome: Any) -> Any:
        """Keep the held expert if ``outcome`` is N, else hold expert ``outcome``."""
        outcome = np.broadcast_to(outcome, self._held.shape)
        kept, drawn = outcome == self.spec.num_experts, np.minimum(outcome, self.spec.num_experts - 1)
        if self.round == 0:
            self._held, kept = drawn, np.ones_like(kept)
            self._due = self._lengths[0, drawn]
        return self._hold(kept, drawn)

    def _rate_for(self, spec: GameSpec) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return math.sqrt(8.0 * math.log(max(spec.num_experts, 2)) / spec.horizon)

    def _ends(self) -> Any:
        return (self._due == self.round) | (self.forced is not None and self.round == self.forced - 1)

    def _keep(self) -> FloatArray:
        return np.where(self._ends() & (self.round > 0), np.exp(-self._rate * self._since), 1.0)

    def _law(self) -> FloatArray:
        return exponential_probabilities(self._total, self._rate)

    def _hold(self, kept: Any, drawn: Any) -> Any:
        ends = self._ends() & (self.round > 0)
        self._held = np.where(kept, self._held, drawn)
        self._since = np.where(ends, 0.0, self._since)
        self._due = np.where(ends, self.round + self._lengths[self.round, self._held], self._due)
        self.note("kept", kept.reshape(self.spec.shape))
        return self._held.reshape(self.spec.shape)
