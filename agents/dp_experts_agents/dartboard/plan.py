"""What a dartboard's parameters cost and certify, and which to take: pure functions of public numbers.

The proofs stand in the package's docstring, in the same letters: T, N, B, n = ceil(T/B), p, eta, K, r, a, e_sw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from dp_experts_env.privacy.accounting import zcdp_epsilon, zcdp_rho
from dp_experts_env.privacy.accounting.curves import epsilon_over_orders, shrink
from dp_experts_env.spec import Adjacency, ArgumentError, BudgetError, FloatArray

SOURCES = {
    "none": "one decision, before any loss [DERIVED]",
    "pure": "capped redraws and one coin, basic composition [DERIVED]",
    "zcdp": "capped redraws and one coin, zCDP, tight conversion [DERIVED]",
    "renyi": "Rényi accounting of a random number of redraws and one coin [DERIVED]",
    "paper": "Asi, Feldman, Koren and Talwar 2023, Theorem 2 (batches: 5), with the coin by basic and the redraws by "
    "advanced composition, which repairs the proof [TEXT, repaired]",
}
"""Certificates by name, and what proves them."""


class Parameters(NamedTuple):
    """The free parameters of a dartboard; ``None`` where they are to be chosen.

    Attributes:
        batch_size: B, rounds between decisions.
        switch_probability: p of a forced switch, in [0, 1].
        learning_rate: eta > 0, for losses as they are.
        cap: K, most redraws after the first; in a plan ``None`` means no cap.
    """

    batch_size: int | None = None
    switch_probability: float | None = None
    learning_rate: float | None = None
    cap: int | None = None


FREE = Parameters()


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
        method: the certificate, a key of ``SOURCES``.
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
    """A game and a variant of the dartboard: every bound as a function of (B, p, eta, K), elementwise on arrays.

    Args:
        horizon: T.
        num_experts: N.
        adjacency: neighbouring relation.
        switches: S, how often the comparator may switch; the share of Fixed-Share is tuned for it.
        share: mixing weight of Fixed-Share; ``None`` for the one that minimises the bound for S switches.
        reference: whether coins are taken relative to a second expert y, as in L2P: kappa = (1 - p) e^{-2 eta B}
            e^{-eta (L_b(x) - L_b(y))}. One changed loss moves log kappa by at most a, kappa lies between
            (1 - p) e^{-3 eta B} and (1 - p) e^{-eta B}, and y is redrawn with probability p at each decision.
    """

    horizon: int
    num_experts: int
    adjacency: Adjacency = Adjacency.REPLACE
    switches: int = 0
    share: float | None = None
    reference: bool = False

    def decisions(self, batch: Any) -> Any:
        """Return n = ceil(T/B)."""
        return np.ceil(self.horizon / batch)

    def step(self, rate: Any) -> Any:
        """Return a, the bounded range of one affected redraw."""
        return rate if self.adjacency is Adjacency.ZERO_OUT else 2.0 * rate

    def coin(self, batch: Any, forced: Any, rate: Any) -> tuple[Any, Any, Any]:
        """Return the largest and the least keep probability and the most that one loss moves its logarithm."""
        if self.reference:
            unit = np.exp(-rate * batch)
            return (1.0 - forced) * unit, (1.0 - forced) * unit**3, self.step(rate)
        return 1.0 - forced, (1.0 - forced) * np.exp(-rate * batch), rate

    def reference_cap(self, batch: Any, forced: Any) -> Any:
        """Return the cap on redraws of y, the number that is expected: one that is held costs no regret."""
        return np.ceil((self.decisions(batch) - 1) * forced) if self.reference else 0

    def mixing(self, batch: Any) -> Any:
        """Return the share: the fixed one, or S/(n - 1) / (1 - 1/N), the minimiser of :meth:`complexity`."""
        if self.share is not None:
            return self.share
        return np.minimum(1.0, self.switches / np.maximum(self.decisions(batch) - 1, 1) / (1 - 1 / self._experts))

    def complexity(self, batch: Any, switches: int) -> Any:
        """Return C, minus the log of the Fixed-Share prior of a path with S switches: ln N if share and S are 0."""
        turns, share = self.decisions(batch) - 1, self.mixing(batch)
        changes = np.minimum(switches, turns)
        stay = (turns - changes) * np.log1p(-share * (1 - 1 / self._experts))
        move = np.where(changes > 0, changes * np.log(np.where(changes > 0, share, 1.0) / self._experts), 0.0)
        return math.log(self._experts) - stay - move

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

        A comparator that switches inside a batch is replaced by the expert that it follows for most of it, at most
        floor(B/2) more loss a switch.
        """
        switches = self.switches if switches is None else switches
        bound = self.complexity(batch, switches) / rate + rate * batch * self.horizon / 8.0
        return bound + switches * np.floor(batch / 2) + (0.0 if cap is None else self.tail(batch, forced, rate, cap))

    def small_loss_regret(self, plan: Plan, best_loss: float) -> float:
        """Return B (eta L* + C)/(1 - e^{-eta B}) - L* + tail, against a fixed expert of total loss L*."""
        batch, rate = plan.batch_size, plan.learning_rate
        bound = batch * (rate * best_loss + self.complexity(batch, 0)) / -math.expm1(-rate * batch) - best_loss
        return float(bound + (0.0 if plan.cap is None else self.tail(batch, plan.switch_probability, rate, plan.cap)))

    def spend(self, method: str, batch: Any, forced: Any, rate: Any, extra: Any) -> Any:
        """Return epsilon ("pure"), rho ("zcdp") or D_alpha ("renyi"); ``extra`` is the cap, or alpha - 1."""
        most, least, shift = self.coin(batch, forced, rate)
        step, later = self.step(rate), np.maximum(self.decisions(batch) - 2, 0)
        if method == "renyi":
            weight = extra * (1 + extra) * step * step / 8.0
            ends = most, np.minimum(least * np.exp(shift), most)
            total = np.maximum(*(_affected(keep, shift, weight, extra) for keep in ends))
            total = total + later * _moment(1.0 - least, weight)
            if self.reference:
                total = total + (later + 1) * _moment(forced, weight)
            return np.where(self.decisions(batch) > 1, total / extra, 0.0)
        switch = np.log1p(most * -np.expm1(-shift) / (1.0 - most))
        draws = extra + self.reference_cap(batch, forced)
        if method == "pure":
            cost = np.maximum(switch, shift) + step * draws
        else:
            cost = (switch + shift) ** 2 / 8.0 + step * step / 8.0 * draws
        # With no redraw to hide no coin is flipped.
        return np.where((self.decisions(batch) > 1) & (draws > 0), cost, 0.0)

    def epsilon(self, method: str, batch: int, forced: float, rate: float, cap: int | None, delta: float) -> float:
        """Return what the parameters certify at ``delta`` by ``method``, rounded up; infinite where nothing."""

        def divergence(beta: FloatArray) -> FloatArray:
            # Both allowances for rounding are far above what the formulas can lose.
            curve: FloatArray = self.spend(method, batch, forced, rate, beta) * (1 + 1e-12) + 1e-15 * (1 + 1 / beta)
            return curve

        with np.errstate(all="ignore"):
            if method == "renyi":
                return epsilon_over_orders(divergence, math.log(delta))
            cost = float(self.spend(method, batch, forced, rate, cap)) * (1 + 1e-14)
        if not math.isfinite(cost):
            return math.inf
        return cost if method == "pure" else zcdp_epsilon(cost, delta)

    @property
    def _experts(self) -> int:
        return max(self.num_experts, 2)


def _affected(keep: Any, shift: Any, weight: Any, beta: Any) -> Any:
    """Log-moment of the affected decision, the worse of both directions; ``weight`` is that of its redraw."""
    stay, leave, leave_more = np.log(keep), np.log1p(-keep), np.log1p(-keep * np.exp(-shift))
    return np.maximum(
        np.logaddexp(stay + beta * shift, weight + (1 + beta) * leave - beta * leave_more),
        np.logaddexp(stay - (1 + beta) * shift, weight + (1 + beta) * leave_more - beta * leave),
    )


def _moment(odds: Any, weight: Any) -> Any:
    """An upper bound on ln(1 + odds (e^weight - 1)), equal to it up to weight 30, that does not overflow."""
    small = np.minimum(weight, 30.0)
    return np.log1p(odds * np.expm1(small)) + (weight - small)


@lru_cache(maxsize=512)
def calibrate(scheme: Scheme, epsilon: float, delta: float, methods: tuple[str, ...], given: Parameters = FREE) -> Plan:
    """Return the plan of least certified regret within (epsilon, delta); parameters that are given stay as they are.

    A search over (B, p, K or the Rényi order), with the largest rate that the budget allows at each point; then the
    rate is lowered until the exact certificate holds. It sees T, N and the budget alone.

    Args:
        scheme: the game and the variant.
        epsilon: privacy budget, > 0.
        delta: in [0, 1).
        methods: which certificates to try, of "pure", "zcdp" and "renyi".
        given: what is fixed beforehand.

    Raises:
        BudgetError: if the given parameters cost more than epsilon, whatever the others are.
    """
    if given.batch_size is not None:
        given = given._replace(batch_size=min(given.batch_size, scheme.horizon))
    plans = [_calibrated(scheme, epsilon, delta, method, given) for method in methods]
    found = [plan for plan in plans if plan is not None]
    within = [plan for plan in found if plan.epsilon <= epsilon]
    if within:
        return min(within, key=lambda plan: (plan.regret, plan.epsilon))
    shown = ", ".join(f"{name}={value}" for name, value in given._asdict().items() if value is not None)
    least = min((plan.epsilon for plan in found), default=math.inf)
    raise BudgetError(
        f"{shown} at T={scheme.horizon}, N={scheme.num_experts}, delta={delta:g}: expected a cost of at most "
        f"epsilon={epsilon:g} but found {f'{least:.6g}' if found else 'none with any choice of the others'}; lower "
        "learning_rate or cap, raise switch_probability, or ask for a larger epsilon"
    )


def _calibrated(scheme: Scheme, epsilon: float, delta: float, method: str, given: Parameters) -> Plan | None:
    """The best plan by one certificate; it overspends only where every parameter was given."""
    batch, forced, rate, cap = given
    capped = method != "renyi"
    if batch is None or forced is None or rate is None or (capped and cap is None):
        found = _search(scheme, epsilon, delta, method, given)
        if found is None:
            return None
        batch, forced, cap = int(found[0]), found[1], int(found[3]) if capped else None
        if rate is None:
            rate = shrink(lambda eta: scheme.epsilon(method, batch, forced, eta, cap, delta) <= epsilon, found[2])
        if rate == 0.0:
            return None
    with np.errstate(all="ignore"):
        regret = float(scheme.regret(batch, forced, rate, cap))
    if scheme.decisions(batch) <= 1:
        return Plan(batch, forced, rate, cap, 0.0, 0.0, "none", regret)
    spent = scheme.epsilon(method, batch, forced, rate, cap, delta)
    return Plan(batch, forced, rate, cap, spent, 0.0 if method == "pure" else delta, method, regret)


def _search(
    scheme: Scheme, epsilon: float, delta: float, method: str, given: Parameters
) -> tuple[float, float, float, float] | None:
    """The (B, p, eta, K or alpha - 1) of least regret, by nested grids in logarithms."""
    capped, horizon = method != "renyi", float(scheme.horizon)
    # The best order of a zCDP curve lies near 2 ln(1/delta)/epsilon.
    order = 1.0 if capped else max(-2.0 * math.log(delta) / epsilon, 1e-3)
    spans = np.log(
        [[1.0, horizon], [min(1e-4, 0.1 / horizon), 1.0], [1.0, horizon] if capped else [order / 20, order * 5]]
    )
    limits = np.log([[1.0, horizon], [1e-15, 1.0], [1.0, horizon] if capped else [1e-6, 1e9]])
    for axis, value in enumerate((given.batch_size, given.switch_probability)):
        if value is not None:
            limits[axis] = spans[axis] = math.log(value)
    budget = (zcdp_rho(epsilon, delta) if method == "zcdp" else epsilon) * (1 - 1e-10)
    best, least = None, math.inf
    for points in (11, 7, 6, 6, 5, 5, 5):
        batches, odds, extras = (np.unique(np.exp(np.linspace(low, high, points))) for low, high in spans)
        batches = np.unique(np.clip(np.rint(batches), 1, horizon))
        if capped:
            extras = np.unique(np.rint(extras)) if given.cap is None else np.array([float(given.cap)])
        grid = np.meshgrid(batches, np.minimum(odds, 1.0), extras, indexing="ij")
        batch, forced, extra = (axis.ravel() for axis in grid)
        allowed: Any = budget
        if not capped:
            allowed = budget + np.log1p(1 / extra) + (np.log1p(extra) + math.log(delta)) / extra
        with np.errstate(all="ignore"):
            rate = _largest_rate(scheme, method, batch, forced, extra, allowed, given.learning_rate)
            bound = scheme.regret(batch, forced, rate, extra if capped else None)
            spent = scheme.spend(method, batch, forced, rate, extra) / allowed
        bound = np.where((rate > 0) & ~np.isnan(bound), bound, math.inf)
        # Of equal bounds the more private.
        where = int(np.where(bound <= bound.min() * (1 + 1e-12), spent, math.inf).argmin())
        if bound[where] < least:
            least = float(bound[where])
            best = float(batch[where]), float(forced[where]), float(rate[where]), float(extra[where])
        if best is None:
            return None
        centre = np.log([best[0], best[1], max(best[3], 1.0 if capped else 0.0)])[:, None]
        width = 1.2 * (spans[:, 1:] - spans[:, :1]) / (points - 1)
        spans = np.clip(centre + width * [-1.0, 1.0], limits[:, :1], limits[:, 1:])
    return best


def _largest_rate(
    scheme: Scheme, method: str, batch: FloatArray, forced: FloatArray, extra: FloatArray, allowed: Any, rate: Any
) -> FloatArray:
    """The largest useful rate within the budget at each point, by bisection, or ``rate``; 0 where there is none."""

    def holds(rates: FloatArray) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = scheme.spend(method, batch, forced, rates, extra) <= allowed
        return within

    if rate is not None:
        rates = np.full_like(batch, rate)
        return np.where(holds(rates), rates, 0.0)
    # More than the best rate without privacy is of no use.
    top = np.log(8.0 * scheme.complexity(batch, scheme.switches) / batch / scheme.horizon) / 2
    low, high = np.where(holds(np.exp(top)), top, top - 30.0), top
    for _ in range(34):
        middle = (low + high) / 2
        good = holds(np.exp(middle))
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    rates = np.exp(low)
    return np.where(holds(rates), rates, 0.0)


@lru_cache(maxsize=512)
def paper_plan(scheme: Scheme, epsilon: float, delta: float, batch_size: int | None = None) -> Plan:
    """Return the parameters of the paper's corollaries with the epsilon and the regret that its theorems print.

    In the paper's terms, weights (1 - h)^loss with the losses of a batch averaged, h = 1 - exp(-eta B), K = 4 T p/B.

    - delta = 0, Corollary 4: p = T^(-1/2), h = p epsilon/20; Theorem 2 prints epsilon = h/p + 16 T p h.
    - delta > 0, B = 1, Corollary 3: p = (T ln(1/delta))^(-1/3), h = p min{epsilon/2, (ln(1/delta))^(1/3) T^(-1/6)
      sqrt(ln N)}/20; Theorem 2 prints epsilon = 5h/p + 100 T p h^2 + 20 h sqrt(T p ln(1/delta)).
    - delta > 0, B > 1, Corollary 6: p = (B/(T ln(1/delta)))^(1/3), h = B p epsilon/40; Theorem 5 prints
      epsilon = 5h/(B p) + 100 T p h^2/B^3 + (20 h/B) sqrt(12 T p ln(1/delta)/B).

    Regret printed: h T + B ln N/h + 2 T exp(-T p/(3 B)).

    Problems found in the text, and what is done about them: (a) the regret needs h <= p, which the theorems do not
    ask: refused otherwise. (b) The proof of Theorem 2 drops a factor sqrt(6 ln(1/delta)) of the coin's h/p. Paying
    the coin, 2 h/(B p) at most, by basic composition and the K redraws, 2 ln(1/(1 - h))/B <= 2.78 h/B each, by
    advanced composition gives at most 2h/(B p) + 67 T p h^2/B^3 + 7.9 (h/B) sqrt(T p ln(1/delta)/B) for p, h < 1/2, so
    what is printed is true. (c) Corollary 6 prints epsilon^(3/5) in its batch size where balancing its own terms gives
    epsilon^(6/5): no default batch size is taken from it. (d) Its batches sum B + 1 losses, a slip of the index: B
    here. (e) Its h overspends the formula of Theorem 5, whose last term alone is 1.73 epsilon: h is lowered to what
    that formula allows. [TEXT, repaired]

    Args:
        scheme: the game.
        epsilon: privacy budget, > 0.
        delta: in [0, 1).
        batch_size: B, an integer >= 1; ``None`` for 1.

    Raises:
        ArgumentError: if the theorem does not cover the game: p >= 1/2, h >= 1/2, h > p, or B > 1 with delta = 0.
        BudgetError: if the printed formula exceeds epsilon.
    """
    horizon, batch, log_experts = scheme.horizon, batch_size or 1, math.log(max(scheme.num_experts, 2))
    if delta == 0.0 and batch > 1:
        raise ArgumentError(f"batch_size: expected 1 with tuning='paper' and delta=0 but found {batch}")
    logs = -math.log(delta) if delta > 0.0 else math.inf
    forced = math.sqrt(1 / horizon) if delta == 0.0 else math.pow(batch / (horizon * logs), 1 / 3)
    if delta == 0.0:
        linear, square = 1 / forced + 16 * horizon * forced, 0.0
        rate = forced * epsilon / 20
    else:
        root = math.sqrt((12 if batch > 1 else 1) * horizon * forced * logs / batch)
        linear, square = 5 / (batch * forced) + 20 / batch * root, 100 * horizon * forced / math.pow(batch, 3)
        rate = batch * forced * epsilon / 40
        if batch == 1:
            rate = min(rate, forced * math.pow(logs, 1 / 3) * math.pow(horizon, -1 / 6) * math.sqrt(log_experts) / 20)

    def printed(h: float) -> float:
        return (linear * h + square * h * h) * (1 + 1e-14)

    if batch > 1:
        allowed = 2 * epsilon / (linear + math.sqrt(linear * linear + 4 * square * epsilon))
        rate = min(rate, shrink(lambda h: printed(h) <= epsilon, allowed))
    where = f"at T={horizon}, epsilon={epsilon:g}, delta={delta:g}; use tuning='calibrated'"
    if not (forced < 0.5 and rate < 0.5 and rate <= forced):
        raise ArgumentError(
            f"tuning: 'paper' expected p < 1/2, h < 1/2 and h <= p but found p={forced:.4g}, h={rate:.4g} {where}"
        )
    if printed(rate) > epsilon:
        raise BudgetError(f"tuning: 'paper' costs epsilon={printed(rate):.6g} by the paper's own theorem {where}")
    tail = 2 * horizon * math.exp(-horizon * forced / (3 * batch))
    return Plan(
        batch,
        forced,
        -math.log1p(-rate) / batch,
        math.floor(4 * horizon * forced / batch),
        printed(rate),
        delta,
        "paper",
        rate * horizon + batch * log_experts / rate + tail,
    )
