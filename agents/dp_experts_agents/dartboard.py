"""Dartboards: Hedge's law at every decision, with few switches, privately (Asi, Feldman, Koren and Talwar 2023).

**Mechanism.** Rounds come in batches of B; n = ceil(T/B) decisions, one at the head of each batch. With L_b the sum of
the batch just ended and P_b(i) proportional to exp(-eta L(i)) over all losses so far, the held expert x is kept with
probability kappa = (1 - p) exp(-eta L_b(x)) and otherwise redrawn from P_b; after K redraws (the cap) it is kept for
good. The first expert is uniform. p > 0 forces switches that hide the switches which a loss caused.

**Marginals** [DERIVED]. Without a cap the expert held in batch b has law exactly P_b: keeping contributes
P_{b-1}(i) (1 - p) e^{-eta L_b(i)} = (1 - p) Z P_b(i), and the remaining mass is redrawn from P_b. So against oblivious
adversaries, by Hedge's bound on the n batches, the regret is at most ln N/eta + eta B T/8, and at most
B (eta L* + ln N)/(1 - e^{-eta B}) - L* (convexity: e^{-eta L} <= 1 - (1 - e^{-eta B}) L/B). Run with the same coins, a
capped game differs from an uncapped one only after coin K + 1 that says "redraw"; each says so with probability at
most r = 1 - (1 - p) e^{-eta B}, so the cap costs at most B sum_{j<n} Pr[Bin(j, r) > K]. An adaptive adversary sees
which expert is held: no regret bound there.

**Sensitivity.** One changed loss vector moves exactly one coin, the one after its batch, and every redraw from then
on. A redraw has bounded range a = 2 eta under ``replace`` and a = eta under ``zero_out`` (its log-ratio is -eta d(i)
plus a constant, d in [-1, 1]^N or [0, 1]^N), hence a^2/8-zCDP. The coin depends on the held expert's loss alone, which
moves by at most 1 under either relation: log kappa moves by at most eta, log(1 - kappa) by at most
e_sw = ln(1 + (1 - p)(1 - e^{-eta})/p), reached at L_b = 0, with the opposite sign: bounded range e_sw + eta.

**Composition** [DERIVED]. Transcript: coins, the cap counter and the choices. Given a common prefix of it an adaptive
adversary's other losses are fixed and equal in both worlds, and so is the law of every coin but the affected one. So
along every path the costs add up, against adaptive adversaries:

- "zcdp": rho = (e_sw + eta)^2/8 + K a^2/8, converted tightly;
- "pure": epsilon = max(e_sw, eta) + a K, which some games reach;
- "renyi", no cap: a later decision keeps with the same probability kappa >= 1 - r in both worlds, so its moment
  E_Q (P/Q)^alpha is at most 1 + r (w - 1), w = exp(alpha (alpha - 1) a^2/8); the affected decision's is
  k^alpha k'^(1-alpha) + w (1-k)^alpha (1-k')^(1-alpha), k and k' the two keep probabilities, convex in k at fixed
  k'/k = e^{-eta} or e^{eta} (a perspective function), hence largest at an end of k's range. Moments of worst cases
  multiply under adaptive composition, so with n - 2 later decisions
  (alpha - 1) D_alpha <= ln(affected) + (n - 2) ln(1 + r (w - 1)).

Guarantees hold in ideal arithmetic: exp(-eta gap) underflows once eta gap > 745.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from dp_experts_agents.baselines import running_totals
from dp_experts_agents.hedge import hedge_regret
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.accounting.curves import epsilon_over_orders, shrink, zcdp_epsilon, zcdp_rho
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
    check_name,
    check_number,
)

SOURCES = {
    "none": "no choice depends on a loss [DERIVED]",
    "pure": "capped dartboard, basic composition [DERIVED]",
    "zcdp": "capped dartboard, zCDP, tight conversion [DERIVED]",
    "renyi": "dartboard without a cap, Rényi accounting of a random number of redraws [DERIVED]",
}


# ------------------------------------------------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class Plan:
    """The parameters of a dartboard and what is proved for them.

    Attributes:
        batch_size: B, rounds between decisions.
        switch_probability: p of a forced switch, in [0, 1].
        learning_rate: eta > 0, for losses as they are.
        cap: K, most redraws after the first; ``None`` for no cap.
        epsilon: what the parameters certify at ``delta``; infinite where nothing is proved.
        delta: failure probability of that certificate.
        method: the certificate, a key of ``SOURCES``, or "paper".
        regret: bound on the expected regret against oblivious adversaries.
    """

    batch_size: int
    switch_probability: float
    learning_rate: float
    cap: int | None = None
    epsilon: float = math.inf
    delta: float = 0.0
    method: str = ""
    regret: float = math.nan


@dataclass(frozen=True)
class Scheme:
    """The game and the variant of the dartboard: every bound as a function of its parameters, elementwise on arrays.

    Args:
        horizon: T.
        num_experts: N.
        adjacency: neighbouring relation.
        switches: S, how often the comparator may switch; the share of Fixed-Share is tuned for it.
        reference: whether coins are taken relative to a second expert y, as in L2P: kappa = (1 - p) e^{-2 eta B}
            e^{-eta (L_b(x) - L_b(y))}. One changed loss moves log kappa by at most a, kappa lies between
            (1 - p) e^{-3 eta B} and (1 - p) e^{-eta B}, and y is redrawn with probability p at each decision.
        share: mixing weight of Fixed-Share; ``None`` for the one that minimises the bound for S switches.
    """

    horizon: int
    num_experts: int
    adjacency: Adjacency = Adjacency.REPLACE
    switches: int = 0
    reference: bool = False
    share: float | None = None

    def decisions(self, batch: Any) -> Any:
        """Return n = ceil(T/B)."""
        return np.ceil(self.horizon / batch)

    def step(self, rate: Any) -> Any:
        """Return a, the bounded range of one affected redraw."""
        return rate if self.adjacency is Adjacency.ZERO_OUT else 2.0 * rate

    def coin(self, batch: Any, forced: Any, rate: Any) -> tuple[Any, Any, Any]:
        """Return the largest and the least keep probability and the most that one loss moves its logarithm."""
        if self.reference:
            least = (1.0 - forced) * np.exp(-3.0 * rate * batch)
            return (1.0 - forced) * np.exp(-rate * batch), least, self.step(rate)
        return 1.0 - forced, (1.0 - forced) * np.exp(-rate * batch), rate

    def reference_cap(self, batch: Any, forced: Any) -> Any:
        """Return most redraws of the reference under a cap: how many are expected. A held one costs no regret."""
        return np.ceil((self.decisions(batch) - 1) * forced) if self.reference else 0

    def mixing(self, batch: Any) -> Any:
        """Return the share a: the fixed one, or S/(n - 1) over 1 - 1/N, the minimiser of :meth:`complexity`."""
        if self.share is not None:
            return self.share
        return np.minimum(1.0, self.switches / np.maximum(self.decisions(batch) - 1, 1) / (1 - 1 / self._experts))

    def complexity(self, batch: Any, switches: int) -> Any:
        """Return -ln of the Fixed-Share prior of a best path with S switches; ln N without any."""
        turns = self.decisions(batch) - 1
        changes, share = np.minimum(switches, turns), self.mixing(batch)
        stay = (turns - changes) * np.log1p(-share * (1 - 1 / self._experts))
        move = np.where(changes > 0, changes * np.log(np.where(changes > 0, share, 1.0) / self._experts), 0.0)
        return math.log(self._experts) - stay - move

    def best_rate(self, batch: Any) -> Any:
        """Return the rate that minimises the regret without privacy."""
        return np.sqrt(8.0 * self.complexity(batch, self.switches) / batch / self.horizon)

    def tail(self, batch: Any, forced: Any, rate: Any, cap: Any) -> Any:
        """Return B sum_{j<n} Pr[Bin(j, r) > K], what the cap can cost.

        With tau the number of coins up to success K + 1, the sum is E (m + 1 - tau)_+, m = n - 1, and
        E tau 1{tau <= m} = (K + 1)/r Pr[Bin(m + 1, r) >= K + 2].
        """
        coins = self.decisions(batch) - 1
        odds = 1.0 - self.coin(batch, forced, rate)[1]
        spare = np.where(cap < coins, coins - cap, 1.0)
        late = (coins + 1) * betainc(cap + 1, spare, odds) - (cap + 1) / odds * betainc(cap + 2, spare, odds)
        return np.where(cap < coins, np.clip(batch * late * (1 + 1e-9), 0.0, self.horizon), 0.0)

    def regret(self, batch: Any, forced: Any, rate: Any, cap: Any = None, switches: int | None = None) -> Any:
        """Return C/eta + eta B T/8 + S floor(B/2) + tail, C the complexity of a comparator with S switches.

        A comparator that switches inside a batch is replaced by the expert that it follows for most of it: at most
        floor(B/2) more loss a switch.
        """
        switches = self.switches if switches is None else switches
        bound = self.complexity(batch, switches) / rate + rate * batch * self.horizon / 8.0
        return bound + switches * np.floor(batch / 2) + (0.0 if cap is None else self.tail(batch, forced, rate, cap))

    def small_loss_regret(self, plan: Plan, best_loss: float) -> float:
        """Return B (eta L* + C)/(1 - e^{-eta B}) - L* + tail, against a fixed expert of total loss L*."""
        batch, rate = plan.batch_size, plan.learning_rate
        bound = batch * (rate * best_loss + self.complexity(batch, 0)) / -math.expm1(-rate * batch) - best_loss
        tail = 0.0 if plan.cap is None else self.tail(batch, plan.switch_probability, rate, plan.cap)
        return float(bound + tail)

    def spend(self, method: str, batch: Any, forced: Any, rate: Any, extra: Any) -> Any:
        """Return epsilon ("pure"), rho ("zcdp") or D_{1 + beta} ("renyi"); ``extra`` is the cap, or beta."""
        most, least, shift = self.coin(batch, forced, rate)
        step, later = self.step(rate), np.maximum(self.decisions(batch) - 2, 0)
        if method == "renyi":
            weight = extra * (1 + extra) * step * step / 8.0
            first = np.maximum(
                _affected(most, shift, weight, extra),
                _affected(np.minimum(least * np.exp(shift), most), shift, weight, extra),
            )
            total = first + later * _moment(1.0 - least, weight)
            if self.reference:
                total = total + (later + 1) * _moment(forced, weight)
            cost = total / extra
        else:
            switch = np.log1p(most * -np.expm1(-shift) / (1.0 - most))
            draws = extra + self.reference_cap(batch, forced)
            if method == "pure":
                cost = np.maximum(switch, shift) + step * draws
            else:
                cost = (switch + shift) ** 2 / 8.0 + step * step / 8.0 * draws
        return np.where(self.decisions(batch) > 1, cost, 0.0)

    def epsilon(self, method: str, batch: int, forced: float, rate: float, cap: int | None, delta: float) -> float:
        """Return what the parameters certify at ``delta`` by ``method``, rounded up."""
        with np.errstate(all="ignore"):
            if method == "renyi":
                # A relative and an absolute allowance for rounding, far above that of the formulas.
                return epsilon_over_orders(
                    lambda beta: (
                        self.spend(method, batch, forced, rate, beta) * (1 + 1e-12) + 1e-15 * (1 + 1 / beta)
                    ),
                    math.log(delta),
                )
            cost = float(self.spend(method, batch, forced, rate, cap)) * (1 + 1e-14)
        if not math.isfinite(cost):
            return math.inf
        return cost if method == "pure" else zcdp_epsilon(cost, delta)

    @property
    def _experts(self) -> int:
        return max(self.num_experts, 2)


def _affected(keep: Any, shift: Any, weight: Any, beta: Any) -> Any:
    """Log-moment of the affected decision, the worse of both directions; ``weight`` is that of its redraw."""
    keep_log, leave_log = np.log(keep), np.log1p(-keep)
    leave_less = np.log1p(-keep * np.exp(-shift))
    return np.maximum(
        np.logaddexp(keep_log + beta * shift, weight + (1 + beta) * leave_log - beta * leave_less),
        np.logaddexp(keep_log - (1 + beta) * shift, weight + (1 + beta) * leave_less - beta * leave_log),
    )


def _moment(odds: Any, weight: Any) -> Any:
    """ln(1 + odds (e^weight - 1)) without overflow."""
    small = np.minimum(weight, 30.0)
    return np.log1p(odds * np.expm1(small)) + (weight - small)


@lru_cache(maxsize=512)
def calibrate(
    scheme: Scheme,
    epsilon: float,
    delta: float,
    methods: tuple[str, ...],
    batch_size: int | None = None,
    switch_probability: float | None = None,
    learning_rate: float | None = None,
    cap: int | None = None,
) -> Plan:
    """Return the plan of least certified regret within (epsilon, delta); parameters that are given stay as they are.

    A search over (B, p, K or the Rényi order), the rate solved for at each point since every cost grows with it;
    then the rate is lowered until the exact certificate holds. It sees T, N and the budget alone.

    Args:
        scheme: the game and the variant.
        epsilon: privacy budget, > 0.
        delta: in [0, 1).
        methods: which certificates to try, keys of ``SOURCES``.
        batch_size: B, or ``None`` to choose it.
        switch_probability: p, or ``None`` to choose it.
        learning_rate: eta, or ``None`` to choose it.
        cap: K, or ``None`` to choose it where the method has a cap.

    Raises:
        BudgetError: if the given parameters cost more than epsilon, whatever the others are.
    """
    given = (None if batch_size is None else min(batch_size, scheme.horizon), switch_probability, learning_rate, cap)
    plans = [_calibrated(scheme, epsilon, delta, method, *given) for method in methods]
    within = [plan for plan in plans if plan is not None and plan.epsilon <= epsilon]
    if within:
        return min(within, key=lambda plan: (plan.regret, plan.epsilon))
    names = ("batch_size", "switch_probability", "learning_rate", "cap")
    shown = ", ".join(f"{name}={value}" for name, value in zip(names, given, strict=True) if value is not None)
    least = min((plan.epsilon for plan in plans if plan is not None), default=math.inf)
    cost = f"certify epsilon={least:.6g}" if least < math.inf else "certify nothing with any choice of the others"
    raise BudgetError(
        f"{shown} at T={scheme.horizon}, N={scheme.num_experts}: these {cost} at delta={delta:g}, but epsilon={epsilon:g} "
        "was asked; lower learning_rate or cap, raise switch_probability, or ask for a larger epsilon"
    )


def _calibrated(
    scheme: Scheme,
    epsilon: float,
    delta: float,
    method: str,
    batch: int | None,
    forced: float | None,
    rate: float | None,
    cap: int | None,
) -> Plan | None:
    """The best plan by one certificate; it may overspend only where every parameter was given."""
    capped = method != "renyi"
    if batch is None or forced is None or rate is None or (capped and cap is None):
        found = _search(scheme, epsilon, delta, method, batch, forced, rate, cap)
        if found is None:
            return None
        batch, forced, extra = int(found[0]), found[1], found[3]
        cap = int(extra) if capped else None
        if rate is None:
            rate = shrink(lambda eta: scheme.epsilon(method, batch, forced, eta, cap, delta) <= epsilon, found[2])
    if scheme.decisions(batch) <= 1:
        method, delta = "none", 0.0
        spent = 0.0
    else:
        spent = scheme.epsilon(method, batch, forced, rate, cap, delta)
        delta = 0.0 if method == "pure" else delta
    with np.errstate(all="ignore"):
        regret = float(scheme.regret(batch, forced, rate, cap))
    return Plan(batch, forced, rate, cap, spent, delta, method, regret)


def _search(
    scheme: Scheme,
    epsilon: float,
    delta: float,
    method: str,
    batch: int | None,
    forced: float | None,
    rate: float | None,
    cap: int | None,
) -> tuple[float, float, float, float] | None:
    """The (B, p, eta, K or beta) of least regret: nested grids in logarithms, the rate by bisection at each point."""
    horizon = float(scheme.horizon)
    limits = np.log([[1.0, horizon], [1e-15, 1.0], [1.0, horizon] if method != "renyi" else [1e-6, 1e9]])
    spans = np.log([[1.0, horizon], [min(1e-4, 0.1 / horizon), 1.0], [1.0, horizon]])
    if method == "renyi":
        # The best order of a zCDP curve lies near 2 ln(1/delta)/epsilon.
        middle = math.log(max(2.0 * -math.log(delta) / epsilon, 1e-3))
        spans[2] = middle - 3.0, middle + 1.5
    for axis, value in enumerate((batch, forced, cap)):
        if value is not None and (axis < 2 or method != "renyi"):
            limits[axis] = spans[axis] = math.log(max(value, 1e-300))
    budget = {"pure": epsilon, "zcdp": zcdp_rho(epsilon, delta), "renyi": epsilon}[method] * (1 - 1e-10)
    best, least = None, math.inf
    for points in (11, 7, 6, 6, 5, 5, 5):
        axes = [np.unique(np.exp(np.linspace(low, high, points))) for low, high in spans]
        axes[0] = np.unique(np.clip(np.rint(axes[0]), 1, horizon))
        axes[1] = np.minimum(axes[1], 1.0)
        if method != "renyi":
            axes[2] = np.unique(np.rint(axes[2])) if cap is None else np.array([float(cap)])
        size, odds, extra = (grid.ravel() for grid in np.meshgrid(*axes, indexing="ij"))
        allowed = budget
        if method == "renyi":
            allowed = budget + np.log1p(1 / extra) + (np.log1p(extra) + math.log(delta)) / extra
        with np.errstate(all="ignore"):
            rates = _largest_rate(scheme, method, size, odds, extra, allowed, rate)
            bound = np.where(rates > 0, scheme.regret(size, odds, rates, extra if method != "renyi" else None), np.inf)
        where = int(np.nan_to_num(bound, nan=math.inf).argmin())
        if bound[where] < least:
            least = float(bound[where])
            best = float(size[where]), float(odds[where]), float(rates[where]), float(extra[where])
        if best is None:
            return None
        centre = np.log([best[0], best[1], max(best[3], 1e-300)])[:, None]
        width = 1.2 * (spans[:, 1:] - spans[:, :1]) / (points - 1)
        spans = np.clip(centre + width * [-1.0, 1.0], limits[:, :1], limits[:, 1:])
    return best


def _largest_rate(
    scheme: Scheme, method: str, size: FloatArray, odds: FloatArray, extra: FloatArray, allowed: Any, rate: float | None
) -> FloatArray:
    """The largest useful rate within the budget at each point, 0 where there is none."""

    def holds(rates: FloatArray) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = scheme.spend(method, size, odds, rates, extra) <= allowed
        return within

    if rate is not None:
        return np.where(holds(np.full_like(size, rate)), rate, 0.0)
    top = scheme.best_rate(size)
    high, low = np.log(top), np.log(top) - 30.0
    low = np.where(holds(top), high, low)
    for _ in range(34):
        middle = (low + high) / 2
        good = holds(np.exp(middle))
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    rates = np.exp(low)
    return np.where(holds(rates), rates, 0.0)


@lru_cache(maxsize=512)
def paper_plan(scheme: Scheme, epsilon: float, delta: float, batch_size: int | None = None) -> Plan:
    """Return the parameters of the paper's corollaries with the (epsilon, delta) and regret that its theorems print.

    In the paper's terms (weights (1 - h)^loss, losses of a batch averaged) h = 1 - exp(-eta B) and K = 4 T p/B.

    - delta = 0, Corollary 4: p = T^(-1/2), h = p epsilon/20; Theorem 2 prints epsilon = h/p + 16 T p h.
    - delta > 0, B = 1, Corollary 3: p = (T ln(1/delta))^(-1/3), h = p min{epsilon/2, (ln(1/delta))^(1/3) T^(-1/6)
      sqrt(ln N)}/20; Theorem 2 prints epsilon = 5h/p + 100 T p h^2 + 20 h sqrt(T p ln(1/delta)).
    - delta > 0, B > 1, Corollary 6: p = (B/(T ln(1/delta)))^(1/3), h = B p epsilon/40; Theorem 5 prints
      epsilon = 5h/(B p) + 100 T p h^2/B^3 + (20 h/B) sqrt(12 T p ln(1/delta)/B).

    Regret printed: h T + B ln N/h + 2 T exp(-T p/(3 B)).

    Problems found in the text, and what is done about them: (a) the regret needs h <= p, which the theorems do not
    ask: refused otherwise. (b) The proof of Theorem 2 drops a factor sqrt(6 ln(1/delta)) of the coin's h/p; paying the
    coin by basic composition and the K redraws, each 2 ln(1/(1 - h)) <= 2.78 h, by advanced composition gives at most
    2 h/p + 67 T p h^2 + 7.9 h sqrt(T p ln(1/delta)) for p, h < 1/2, so the printed formula is true. (c) Corollary 6
    prints epsilon^(3/5) in its batch size where balancing its own terms gives epsilon^(6/5): no default batch size is
    taken from it. (d) Its batches sum B + 1 losses, a slip of the index: B here. (e) Its h overspends the formula of
    Theorem 5, whose last term alone is 1.73 epsilon: h is lowered to what that formula allows. [TEXT, repaired]

    Args:
        scheme: the game.
        epsilon: privacy budget, > 0.
        delta: in [0, 1).
        batch_size: B, an integer >= 1; ``None`` for 1.

    Raises:
        ArgumentError: if the theorem does not cover the game: p >= 1/2, h >= 1/2, h > p, or B > 1 with delta = 0.
        BudgetError: if the printed formula exceeds epsilon.
    """
    horizon, experts, batch = float(scheme.horizon), max(scheme.num_experts, 2), batch_size or 1
    if delta == 0.0:
        if batch > 1:
            raise ArgumentError(f"batch_size: expected 1 with tuning='paper' and delta=0 but found {batch}")
        forced = horizon**-0.5
        rate = forced * epsilon / 20.0

        def printed(h: float) -> float:
            return h / forced + 16.0 * horizon * forced * h
    else:
        logs = -math.log(delta)
        forced = (batch / (horizon * logs)) ** (1 / 3)

        def printed(h: float) -> float:
            root = math.sqrt((12.0 if batch > 1 else 1.0) * horizon * forced * logs / batch)
            return 5 * h / (batch * forced) + 100 * horizon * forced * h * h / batch**3 + 20 * h / batch * root

        if batch == 1:
            rate = forced * min(epsilon / 2, logs ** (1 / 3) * horizon ** (-1 / 6) * math.sqrt(math.log(experts))) / 20
        else:
            linear, square = printed(1.0) - 100 * horizon * forced / batch**3, 100 * horizon * forced / batch**3
            rate = min(
                batch * forced * epsilon / 40, 2 * epsilon / (linear + math.sqrt(linear**2 + 4 * square * epsilon))
            )
            rate = shrink(lambda h: printed(h) * (1 + 1e-14) <= epsilon, rate)
    if not (forced < 0.5 and rate < 0.5 and rate <= forced):
        raise ArgumentError(
            f"tuning: 'paper' expects p < 1/2, h < 1/2 and h <= p for the paper's theorem to hold but found "
            f"p={forced:.4g}, h={rate:.4g} at T={scheme.horizon}, epsilon={epsilon:g}, delta={delta:g}; "
            "use tuning='calibrated'"
        )
    spent = printed(rate) * (1 + 1e-14)
    if spent > epsilon:
        raise BudgetError(
            f"tuning: the paper's parameters cost epsilon={spent:.6g} by its own theorem at T={scheme.horizon}, "
            f"delta={delta:g}, but epsilon={epsilon:g} was asked; use tuning='calibrated'"
        )
    regret = rate * horizon + batch * math.log(experts) / rate + 2 * horizon * math.exp(-horizon * forced / (3 * batch))
    cap = math.floor(4 * horizon * forced / batch)
    return Plan(batch, forced, -math.log1p(-rate) / batch, cap, spent, delta, "paper", regret)


# ---------------------------------------------------------------------------------------------------------- the kernel


class Dartboard(Learner):
    """The kernel: at the head of each batch keep the held expert by a coin, else redraw it; subclasses plan it.

    State is kept for G games (one of them without a games axis): ``_score``, from which :meth:`_law` makes the law of
    a redraw, ``_batch``, the losses since the last decision, ``_held`` and ``_left``, the redraws left. Every decision
    takes one uniform number a game from each stream, whether it is used or not.
    """

    _streams: ClassVar[int] = 2

    def plan(self, spec: GameSpec) -> Plan:
        """Return the parameters for a game of this size and what they certify."""
        raise NotImplementedError

    def start(self) -> None:
        """Forget all losses; the first round draws."""
        plan = self.plan(self.spec)
        self._size, self._rate = plan.batch_size, plan.learning_rate
        self._stay = 1.0 - plan.switch_probability
        # A smaller coin never switches; the factor covers rounding.
        self._surely = self._least_keep() * (1 - 1e-12)
        games = self.spec.num_games or 1
        self._score: FloatArray = np.zeros(self.spec.num_experts)
        self._batch: FloatArray = np.zeros(self.spec.num_experts)
        self._held: IntArray = np.zeros(games, dtype=np.int64)
        self._left: FloatArray = np.full(games, math.inf if plan.cap is None else plan.cap + 1.0)
        self._opened = False
        self._sources = self.rng.spawn(self._streams)

    def act(self) -> Any:
        """Decide at the head of a batch, else hold; see :meth:`Learner.act`."""
        if self._decides():
            kept = self._decide(self._score, self._batch, *self._draw(1)[:, 0])
        else:
            kept = np.ones(self._held.shape, dtype=bool)
        self._record(kept)
        return self._held.reshape(self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._score = self._score + losses
        self._batch = (0.0 if self._decides() else self._batch) + losses

    def run(self, block: FloatArray) -> IntArray:
        """Play a block by visiting only the decisions whose coins may switch; see :meth:`Learner.run`."""
        if self._notes is not None:
            # A transcript is recorded round by round.
            return super().run(block)
        rows = np.arange(-self.round % self._size, len(block), self._size)
        scores, batches = self._at_decisions(block, rows)
        draws = self._draw(len(rows))
        visited = self._moving(*draws).any(-1)
        visited[:1] |= not self._opened
        choices = np.empty((len(block), *self._held.shape), dtype=np.int64)
        since = 0
        for index in np.flatnonzero(visited):
            choices[since : rows[index]] = self._held
            since = rows[index]
            self._decide(scores[index], batches[index], *draws[:, index])
        choices[since:] = self._held
        return choices.reshape(len(block), *self.spec.shape)

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of "redrawn to i", i in 0..N-1, then of "kept"; ``(N + 1,)`` or ``(G, N + 1)``."""
        keep, law = self._keep_now()[:, None], self._log_law()
        with np.errstate(divide="ignore"):
            joint = np.concatenate([np.broadcast_to(law + np.log1p(-keep), (len(keep), law.shape[-1])), np.log(keep)], -1)
        return joint.reshape(*self.spec.shape, -1)

    def take(self, outcome: Any) -> Any:
        """Keep the held expert if ``outcome`` is N, else hold expert ``outcome``."""
        outcome = np.broadcast_to(outcome, self._held.shape)
        self._set(outcome < self.spec.num_experts, outcome)
        return self._held.reshape(self.spec.shape)

    # -- hooks -------------------------------------------------------------------------------------------------

    def _least_keep(self) -> float:
        return self._stay * math.exp(-self._rate * self._size)

    def _moving(self, coins: FloatArray, *_: FloatArray) -> NDArray[np.bool_]:
        """Which draws may change the state."""
        moving: NDArray[np.bool_] = coins >= self._surely
        return moving

    def _keep(self, batch: FloatArray, games: IntArray) -> FloatArray:
        """The probability that each of ``games`` keeps its expert, where the cap allows a redraw."""
        keep: FloatArray = self._stay * np.exp(-self._rate * self._of(batch, games, self._held))
        return keep

    def _law(self, score: FloatArray, games: IntArray) -> FloatArray:
        """The law of a redraw up to a factor, ``(N,)`` or one row for each of ``games``."""
        return np.exp(exponential_log_probabilities(score if score.ndim == 1 else score[games], self._rate))

    def _log_law(self) -> FloatArray:
        return exponential_log_probabilities(self._score, self._rate)

    def _decide(self, score: FloatArray, batch: FloatArray, coins: FloatArray, uniforms: FloatArray) -> Any:
        """Flip the coins, redraw where they say so and the cap allows; return who was kept."""
        games = np.flatnonzero(coins >= self._surely) if self._opened else np.arange(len(coins))
        keep = self._keep(batch, games) if self._opened else 0.0
        redrawn = games[(coins[games] >= keep) & (self._left[games] > 0)]
        moved = np.zeros(coins.shape, dtype=bool)
        if redrawn.size:
            moved[redrawn] = True
            drawn = self._held.copy()
            drawn[redrawn] = sample_inverse_cdf(self._law(score, redrawn), uniforms[redrawn])
            self._set(moved, drawn, record=False)
        self._opened = True
        return ~moved

    def _at_decisions(self, block: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores and batch sums before each of the decision ``rows``; the state moves to the end of the block."""
        totals, self._score = running_totals(self._score, block)
        if not rows.size:
            self._batch = running_totals(self._batch, block)[1]
            return totals[rows], totals[rows]
        ended = running_totals(self._batch, block[: rows[0]])[1] if rows[0] else self._batch
        whole = block[rows[0] : rows[-1]].reshape(len(rows) - 1, self._size, *block.shape[1:])
        batches = np.empty((len(rows), *np.broadcast_shapes(ended.shape, block.shape[1:])))
        batches[0] = ended
        # Row by row, as in the loop.
        batches[1:] = np.cumsum(whole, axis=1)[:, -1]
        self._batch = running_totals(np.zeros(self.spec.num_experts), block[rows[-1] :])[1]
        return totals[rows], batches

    def _record(self, kept: Any) -> None:
        self.note("kept", kept.reshape(self.spec.shape))

    # -- parts -------------------------------------------------------------------------------------------------

    def _decides(self) -> bool:
        return self.round % self._size == 0

    def _draw(self, rows: int) -> FloatArray:
        return np.stack([source.random((rows, *self._held.shape)) for source in self._sources])

    def _set(self, moved: Any, drawn: Any, record: bool = True) -> None:
        self._held = np.where(moved, drawn, self._held)
        self._left = self._left - moved
        self._opened = True
        if record:
            self._record(~moved)

    def _keep_now(self) -> FloatArray:
        if not self._decides():
            return np.ones(self._held.shape)
        if not self._opened:
            return np.zeros(self._held.shape)
        return np.where(self._left > 0, self._keep(self._batch, np.arange(len(self._held))), 1.0)

    @staticmethod
    def _of(rows: FloatArray, games: IntArray, experts: IntArray) -> FloatArray:
        """The entries of ``rows``, ``(N,)`` or ``(G, N)``, of each game's expert."""
        own: FloatArray = rows[experts[games]] if rows.ndim == 1 else rows[games, experts[games]]
        return own


class ShrinkingDartboard(Dartboard):
    """Keeps its expert with probability exp(-eta * its last loss), else redraws it (Geulen, Voecking, Winkler 2010).

    The marginal law of each choice is exactly Hedge's P_t(i) proportional to exp(-eta L_{t-1}(i)): if x_t has law
    P_t, keeping contributes P_t(i) e^{-eta l_t(i)} = Z P_{t+1}(i) with Z = sum_j P_t(j) e^{-eta l_t(j)}, and the
    remaining mass 1 - Z is redrawn from P_{t+1}. Hence on oblivious sequences the regret is at most
    ln N/eta + eta T/8 [DERIVED], and the expected number of redraws after the first is at most ln N + eta L*, since
    1 - Z_t <= ln(W_t/W_{t+1}) telescopes [DERIVED]. An adaptive adversary sees which expert is held: no bound there.
    Not private: without forced redraws the moment of a switch reveals a loss.

    Args:
        learning_rate: eta > 0; ``None`` for sqrt(8 ln N/T).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, learning_rate: float | None = None) -> None:
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate

    def plan(self, spec: GameSpec) -> Plan:
        """Return batches of one round, no forced switch, no cap, no privacy."""
        rate = self.learning_rate
        if rate is None:
            rate = math.sqrt(8.0 * math.log(max(spec.num_experts, 2)) / spec.horizon)
        return Plan(1, 0.0, rate, regret=hedge_regret(rate, spec.horizon, spec.num_experts))

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return ln N/eta + eta T/8 against oblivious adversaries, NaN against adaptive ones."""
        return math.nan if against == "adaptive" else self.plan(spec).regret


class PrivateDartboard(Dartboard):
    """The private shrinking dartboard: forced switches, batches, and a cap or Rényi accounting without one.

    Private against adaptive adversaries, coins included; the regret bound is for oblivious ones. See the module for
    the proof and :func:`paper_plan` for the paper's own constants, which are useless at practical horizons.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); at 0 the cap is needed.
        tuning: "calibrated", the parameters of least certified regret, or "paper", those of the paper's corollaries.
        certificate: "capped" (zCDP, or pure), "uncapped" (Rényi, delta > 0 only) or "auto", the one of less regret.
        batch_size: B, an integer >= 1; ``None`` to calibrate it (1 with tuning="paper").
        switch_probability: p in (0, 1]; ``None`` to calibrate it.
        learning_rate: eta > 0; ``None`` to calibrate it.
        cap: K, an integer >= 0, most redraws after the first; ``None`` to calibrate it.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range or contradicts another; with tuning="paper" also, at
            reset, where the paper's theorem does not cover the game.
        BudgetError: at reset, if parameters that were given cost more than epsilon; the message says how much.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        tuning: str = "calibrated",
        certificate: str = "auto",
        batch_size: int | None = None,
        switch_probability: float | None = None,
        learning_rate: float | None = None,
        cap: int | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.tuning = check_name("tuning", tuning, ("calibrated", "paper"))
        self._check(epsilon, delta, certificate, batch_size, switch_probability, learning_rate, cap, adjacency)
        if self.tuning == "paper":
            for name, value in (("switch_probability", switch_probability), ("learning_rate", learning_rate), ("cap", cap)):
                if value is not None:
                    raise ArgumentError(f"{name}: expected None with tuning='paper' but found {value!r}")
            if certificate == "uncapped":
                raise ArgumentError("certificate: expected 'auto' or 'capped' with tuning='paper' but found 'uncapped'")

    def _check(
        self,
        epsilon: float,
        delta: float,
        certificate: str,
        batch_size: int | None,
        switch_probability: float | None,
        learning_rate: float | None,
        cap: int | None,
        adjacency: str | Adjacency,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.certificate = check_name("certificate", certificate, ("auto", "capped", "uncapped"))
        self.batch_size = None if batch_size is None else check_count("batch_size", batch_size)
        self.switch_probability = (
            None
            if switch_probability is None
            else check_number("switch_probability", switch_probability, 0.0, 1.0, low_open=True)
        )
        self.learning_rate = (
            None if learning_rate is None else check_number("learning_rate", learning_rate, 0.0, low_open=True)
        )
        self.cap = None if cap is None else check_count("cap", cap, 0)
        self.adjacency = check_adjacency(adjacency)
        if certificate == "uncapped" and self.delta == 0.0:
            raise ArgumentError("certificate: expected 'capped' or 'auto' with delta=0 but found 'uncapped'")
        if certificate == "uncapped" and cap is not None:
            raise ArgumentError(f"cap: expected None with certificate='uncapped' but found {cap!r}")

    def scheme(self, spec: GameSpec) -> Scheme:
        """Return the game and the variant that the bounds are for."""
        return Scheme(spec.horizon, spec.num_experts, self.adjacency)

    def plan(self, spec: GameSpec) -> Plan:
        """Return the parameters for a game of this size and what they certify; cached.

        Raises:
            ArgumentError, BudgetError: see the class.
        """
        if getattr(self, "tuning", None) == "paper":
            return paper_plan(self.scheme(spec), self.epsilon, self.delta, self.batch_size)
        capped = ("zcdp", "pure") if self.delta > 0.0 else ("pure",)
        if self.certificate == "uncapped":
            methods: tuple[str, ...] = ("renyi",)
        elif self.certificate == "capped" or self.cap is not None or self.delta == 0.0:
            methods = capped
        else:
            methods = ("renyi", *capped)
        given = self.batch_size, self.switch_probability, self.learning_rate, self.cap
        return calibrate(self.scheme(spec), self.epsilon, self.delta, methods, *given)

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return the (epsilon, delta) that the parameters certify, at most what was asked; adaptive adversaries."""
        plan = self.plan(spec)
        source = SOURCES.get(plan.method) or (
            "Asi, Feldman, Koren and Talwar 2023, "
            f"{'Theorem 2' if plan.batch_size == 1 else 'Theorem 5'}: K redraws by advanced composition and the coin by "
            "basic, which repairs the proof [TEXT, repaired]"
        )
        return Guarantee(plan.epsilon, plan.delta, self.adjacency, "adaptive", source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the module, the less of two and of T - L*, or the paper's; NaN against adaptive ones."""
        plan = self.plan(spec)
        if against == "adaptive":
            return math.nan
        if spec.num_experts == 1:
            return 0.0
        if plan.method == "paper":
            return plan.regret
        scheme = self.scheme(spec)
        fixed = scheme.regret(plan.batch_size, plan.switch_probability, plan.learning_rate, plan.cap, switches=0)
        return float(min(fixed, scheme.small_loss_regret(plan, best_loss), spec.horizon - best_loss))
