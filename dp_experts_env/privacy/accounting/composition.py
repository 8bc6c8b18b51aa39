"""Composition: what k steps cost together, and what one step may cost so that k stay within a budget.

Steps are of two kinds. *Pure*: each is eps-DP. *Bounded range*: the log-ratio of each step's output law on neighbouring
inputs lies in some interval of length eps (Durfee and Rogers 2019). An exponential mechanism is of the second kind: a
draw from exp(-eta L) is eps-bounded-range with eps = 2 eta where one loss vector in [0, 1]^N is replaced (the log-ratio
is -eta d(i) plus a constant, d in [-1, 1]^N) and eps = eta where it is zeroed out. Bounded range is stronger than
eps-DP: it gives eps^2/8-zCDP where eps-DP gives eps^2/2.

| method        | steps         | adaptive | bound on the epsilon of k steps |
|---------------|---------------|-----|--------------------------------------------------------------------|
| basic         | pure          | yes | k eps |
| advanced      | pure          | yes | eps sqrt(2 k ln(1/delta)) + k eps (e^eps - 1) |
| optimal       | pure          | yes | exact: k-fold randomised response |
| zcdp_simple   | bounded range | yes | rho + 2 sqrt(rho ln(1/delta)), rho = k eps^2/8 |
| zcdp          | bounded range | yes | rho = k eps^2/8, converted tightly |
| renyi         | bounded range | yes | from the exact curve, :func:`bounded_range_divergence` |
| (recursion)   | bounded range | yes | exact up to a grid, :func:`adaptive_bounded_range_epsilon`; slow |
| bounded_range | bounded range | no  | exact for non-adaptive steps, :func:`bounded_range_delta` |

Sources. advanced: Dwork, Rothblum and Vadhan 2010 (a loss has mean at most eps (e^eps - 1); Azuma). optimal: Kairouz,
Oh and Viswanath 2015; exp(-loss) of an eps-DP step lies in [e^-eps, e^eps] and has mean 1, so randomised response
dominates it in convex order, and the step is post-processing of it [DERIVED]. bounded_range: Dong, Durfee and Rogers
2020, in the form of Cesar and Rogers 2021, Theorem 11 [TEXT]. The others [DERIVED].

Why eps^2/8 [DERIVED]: K(a) = ln E_Q (P/Q)^a has K(0) = K(1) = 0 and K'' the variance of a variable that lives in an
interval of length eps, at most eps^2/4; so K(a) - (eps^2/8) a (a - 1) is concave with zeros at 0 and 1, hence <= 0 for
a >= 1, and the divergence K(a)/(a - 1) is at most (eps^2/8) a.

"Adaptive: no" means: valid only if no step's pair of laws depends on earlier outputs. That holds between two fixed loss
sequences, not in the two-world game against an adaptive adversary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from dp_experts_env.privacy.accounting.curves import (
    _SLACK,
    epsilon_over_orders,
    exp_up,
    grow,
    log_ratio,
    search,
    shrink,
    zcdp_epsilon,
    zcdp_rho,
)
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    check_adjacency,
    check_count,
    check_delta,
    check_epsilon,
    check_name,
    check_number,
)

PURE_METHODS = ("basic", "advanced", "optimal")
ADAPTIVE_METHODS = ("zcdp_simple", "zcdp", "renyi")
METHODS = (*PURE_METHODS, *ADAPTIVE_METHODS, "bounded_range")
"""Names that :func:`composition_bounds` and :func:`step_epsilon` know, see the table of this module."""

_EXACT_COUNT = 256  # up to this many steps every candidate of the bounded-range maximum is evaluated
_MAX_PIECES = 10_000  # certificates of longer compositions give up, towards privacy, after this many pieces
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Composition:
    """What a composition costs: an upper bound on epsilon and the name of the bound that gave it."""

    epsilon: float
    method: str


# ------------------------------------------------------------------------ k-fold composition of a two-point mechanism


def _log_hockey_stick(total: float, step: FloatArray, top: FloatArray, count: int, reach: float = 40.0) -> FloatArray:
    """Log of an upper bound on the delta at ``total`` of ``count`` two-point steps, one result for each row.

    A step's privacy loss is ``top`` with probability q and ``top - step`` with p = 1 - q, where E[exp(-loss)] = 1 gives
    p = (e^top - 1) / (e^step - 1). With i losses of the second kind, delta is the sum over i of
    C(k,i) q^(k-i) p^i (1 - e^(total + i step - k top))_+. The terms are positive and log-concave in i: a window is
    summed in which they fall by about e^-reach, and what lies outside is bounded by geometric series.
    """
    step, top = np.broadcast_arrays(step, top)
    scale = np.log(-np.expm1(-step))
    log_q = np.log(-np.expm1(top - step)) - scale
    log_p = np.log(-np.expm1(-top)) + (top - step) - scale
    mean = count * np.exp(log_p)
    last = np.minimum(np.ceil((count * top - total) / step) - 1, count)
    centre = np.clip(np.minimum(last, mean), 0, count)
    sigma = np.sqrt(np.maximum(mean * np.exp(log_q), centre * (count - centre) / count)) + 1
    away = (mean - centre) / sigma
    spread = 8 + sigma * (np.sqrt(away * away + 2 * reach) - away)
    low = np.floor(np.maximum(centre - spread, 0))
    high = np.minimum(last, np.ceil(centre + spread))
    result = np.full(step.shape, -np.inf)
    alive = np.flatnonzero(last >= 0)
    if not alive.size:
        return result
    width = max(2, int((high - low)[alive].max()) + 1)
    rows = max(1, _CHUNK // width)
    offsets = np.arange(width, dtype=np.float64)
    for chunk in (alive[start : start + rows] for start in range(0, alive.size, rows)):
        s, t, lo, hi = step[chunk, None], top[chunk, None], low[chunk, None], high[chunk, None]
        i = np.minimum(lo + offsets, hi)
        log_mass = (count - i) * log_q[chunk, None] + i * log_p[chunk, None] + _log_binomials(count, i)
        peak = log_mass.max(-1, keepdims=True)
        excess = total + s * i - count * t - 4e-16 * (total + count * t)
        term = np.exp(log_mass - peak) * -np.expm1(np.minimum(excess, 0.0))
        term[lo + offsets > hi] = 0.0
        edge = (hi - lo).astype(np.intp)
        above = np.take_along_axis(term, edge, -1), np.take_along_axis(term, np.maximum(edge - 1, 0), -1)
        mass = term.sum(-1, keepdims=True)
        mass += np.where(lo > 0, _geometric_tail(term[:, :1], term[:, 1:2]), 0.0)
        mass += np.where(hi < last[chunk, None], _geometric_tail(*above), 0.0)
        with np.errstate(divide="ignore"):
            result[chunk] = (np.log(mass) + peak)[:, 0]
    rounding = 1e-15 * (gammaln(count + 1.0) + count) + 1e-13
    return np.minimum(result + rounding, 0.0)


def _geometric_tail(outer: FloatArray, inner: FloatArray) -> FloatArray:
    """Bound on the sum beyond the term ``outer`` of a log-concave sequence; ``inner`` is its neighbour inside."""
    with np.errstate(all="ignore"):
        bound = np.where(outer < inner, outer * outer / (inner - outer), np.inf)
    return np.where(outer == 0, 0.0, bound)


def _log_binomials(count: int, i: FloatArray) -> FloatArray:
    """Log of C(count, i); neighbouring rows share their i, so a table is cheaper where the span is short."""
    first, last = i.min(), i.max()
    at = np.arange(first, last + 1) if last - first < i.size else i
    values: FloatArray = gammaln(count + 1.0) - gammaln(at + 1) - gammaln(count - at + 1)
    return values if at is i else values[(i - first).astype(np.intp)]


def _log_optimal(total: float, epsilon: float, count: int) -> float:
    return float(_log_hockey_stick(total, np.array([2 * epsilon]), np.array([epsilon]), count)[0])


def optimal_delta(total: float, epsilon: float, count: int, step_delta: float = 0.0) -> float:
    """The exact delta at ``total`` of ``count`` adaptively chosen (epsilon, step_delta)-DP steps.

    Randomised response, k-fold, is the worst case at every ``total`` (Kairouz, Oh and Viswanath 2015; see this module).
    An (epsilon, step_delta) step is at worst one that gives its input away with probability step_delta and else is
    epsilon-DP, so the deltas enter as 1 - (1 - step_delta)^k (1 - delta). Summed in log space, rounded up. [DERIVED]

    Args:
        total: epsilon of the whole composition, >= 0.
        epsilon: epsilon of each step, > 0.
        count: number of steps, an integer >= 1.
        step_delta: delta of each step, in [0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    total, epsilon, count = check_number("total", total, 0.0), check_epsilon(epsilon), check_count("count", count)
    step_delta = check_delta(step_delta, "step_delta")
    delta = exp_up(_log_optimal(total, epsilon, count))
    if step_delta == 0 or delta == 1:
        return delta
    return min(1.0, -math.expm1(count * math.log1p(-step_delta) + math.log1p(-delta)) * (1 + 1e-14))


def _log_bounded_range(total: float, step: float, count: int) -> float:
    """Log of the maximum over two-point steps: exact up to ``_EXACT_COUNT`` steps, else the best one found."""
    low, high, points = 0.0, float(count), _EXACT_COUNT + 1 if count <= _EXACT_COUNT else 9
    best = -math.inf
    while True:
        index = np.unique(np.rint(np.linspace(low, high, points)))
        top = (total + step * (index + 1)) / (count + 1)
        inside = (top > 0) & (top < step)
        if not inside.any():
            return best
        index, values = index[inside], _log_hockey_stick(total, np.array([step]), top[inside], count)
        where = int(values.argmax())
        best = max(best, float(values[where]))
        if index.size < 2 or index[-1] - index[0] < index.size:
            return best
        low, high = float(index[max(where - 1, 0)]), float(index[min(where + 1, index.size - 1)])


def _bounded_range_holds(total: float, log_delta: float, step: float, count: int) -> bool:
    """Whether ``count`` non-adaptive bounded-range steps are certified to be (total, delta)-DP.

    All steps of the worst case have the same two points t and t - step. For long compositions no maximiser is trusted:
    [0, step] is cut into pieces, and on a piece [a, b] every step is dominated, in convex order, by the one with points
    b and a - step. Pieces whose bound exceeds delta are cut again until none is left.
    """
    if count <= _EXACT_COUNT:
        return _log_bounded_range(total, step, count) <= log_delta
    edges = np.linspace(0.0, step, 65)
    low, high, spent = edges[:-1], edges[1:], 0
    while low.size:
        spent += low.size
        if spent > _MAX_PIECES:
            return False
        bound = _log_hockey_stick(total, step + (high - low), high, count, reach=16.0)
        worst = slice(int(bound.argmax()), int(bound.argmax()) + 1)
        if _log_hockey_stick(total, np.array([step]), (low + high)[worst] / 2, count)[0] > log_delta:
            return False
        open_ = bound > log_delta
        cuts = np.linspace(low[open_], high[open_], 5)
        low, high = cuts[:-1].ravel(), cuts[1:].ravel()
    return True


def bounded_range_delta(total: float, epsilon: float, count: int) -> float:
    """The delta at ``total`` of ``count`` non-adaptive epsilon-bounded-range steps, rounded up.

    Dong, Durfee and Rogers 2020; formula of Cesar and Rogers 2021, Theorem 11 [TEXT]. Exact up to 256 steps; for longer
    compositions the result exceeds the best two-point mechanism found by about 1e-4 of itself, so that it is certified
    by bounding every piece of the range of such mechanisms. Not valid for adaptive composition.

    Args:
        total: epsilon of the whole composition, >= 0.
        epsilon: width of the range of each step, > 0.
        count: number of steps, an integer >= 1.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    total, epsilon, count = check_number("total", total, 0.0), check_epsilon(epsilon), check_count("count", count)
    found = _log_bounded_range(total, epsilon, count)
    if count <= _EXACT_COUNT or found == -math.inf:
        return exp_up(found)
    for margin in (1e-4, 1e-3, 1e-2, 0.1):
        if _bounded_range_holds(total, found + margin, epsilon, count):
            return exp_up(found + margin)
    return optimal_delta(total, epsilon, count)  # a bounded-range step is epsilon-DP


def bounded_range_divergence(epsilon: float, orders: Any) -> FloatArray:
    """The exact Rényi divergence of an epsilon-bounded-range step: its supremum at each order.

    Derived here [DERIVED]. exp(beta L) is convex in exp(-L), which has mean 1, so two-point laws are worst: loss t with
    probability (E - x)/(E - 1), else t - epsilon, where E = e^epsilon and x = e^t. The moment
    [x^beta (E - E^-beta) - x^(beta+1) (1 - E^-beta)]/(E - 1) is largest at
    x = beta (E - E^-beta) / ((beta + 1)(1 - E^-beta)), where it equals x^beta (E - E^-beta) / ((beta + 1)(E - 1)).
    Never above alpha epsilon^2/8, which is returned where the two agree to rounding.

    Args:
        epsilon: width of the range, > 0.
        orders: numbers alpha > 1, any shape.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, alpha = check_epsilon(epsilon), np.asarray(orders, dtype=np.float64)
    if not (alpha > 1).all():
        raise ArgumentError(f"orders: expected numbers > 1 but found {orders!r}")
    return _bounded_range_divergence(epsilon, alpha - 1)


def _bounded_range_divergence(epsilon: float, beta: FloatArray) -> FloatArray:
    concentrated = (1 + beta) * (epsilon * epsilon / 8)

    def gap(times: Any) -> Any:
        return np.log(-np.expm1(-times * epsilon))

    with np.errstate(all="ignore"):
        log_x = epsilon + gap(1 + beta) - gap(beta) - np.log1p(1 / beta)
        rest = gap(1 + beta) - gap(1.0) - np.log1p(beta)
        exact = log_x + rest / beta + _SLACK * (2 * epsilon + abs(gap(beta)) + abs(rest / beta) + 2 / beta)
    exact = np.minimum(exact, epsilon)
    usable = (epsilon > 0.01) & (beta > 0.01) & np.isfinite(exact)
    result: FloatArray = np.where(usable, np.minimum(exact, concentrated), np.minimum(concentrated, epsilon))
    return result


# ---------------------------------------------------------------------------------------- epsilon of a composition


def _advanced(epsilon: float, count: int, delta: float) -> float:
    if epsilon > 700:
        return math.inf
    return epsilon * math.sqrt(2 * count * -math.log(delta)) + count * epsilon * math.expm1(epsilon)


def _optimal(epsilon: float, count: int, delta: float) -> float:
    log_delta = math.log(delta)
    return search(lambda total: _log_optimal(total, epsilon, count) - log_delta, count * epsilon, 0.0, 1e-12)


def _zcdp(epsilon: float, count: int, delta: float, tight: bool = True) -> float:
    return zcdp_epsilon(count * (epsilon * epsilon / 8), delta, tight)


def _renyi(epsilon: float, count: int, delta: float) -> float:
    return epsilon_over_orders(lambda beta: count * _bounded_range_divergence(epsilon, beta), math.log(delta))


def _bounded_range(epsilon: float, count: int, delta: float) -> float:
    log_delta = math.log(delta)
    ceiling = min(count * epsilon, _zcdp(epsilon, count, delta))

    def excess(total: float) -> float:
        return _log_bounded_range(total, epsilon, count) - log_delta

    exact = count <= _EXACT_COUNT
    root = search(excess, ceiling, 0.0, 1e-12 if exact else 1e-6)
    if exact:
        return root
    for margin in (2e-5, 5e-4, 1e-2):
        total = root + margin * (root + epsilon)
        if total < ceiling and _bounded_range_holds(total, log_delta, epsilon, count):
            return total
    return ceiling


_BOUNDS: dict[str, Callable[[float, int, float], float]] = {
    "basic": lambda epsilon, count, delta: count * epsilon,
    "advanced": _advanced,
    "optimal": _optimal,
    "zcdp_simple": lambda epsilon, count, delta: _zcdp(epsilon, count, delta, tight=False),
    "zcdp": _zcdp,
    "renyi": _renyi,
    "bounded_range": _bounded_range,
}


def composition_bounds(
    epsilon: float, count: int, delta: float, kind: str = "pure", adaptive: bool = True
) -> dict[str, float]:
    """Every valid closed bound on the epsilon of ``count`` steps at ``delta``, by name; see :func:`compose`.

    Args:
        epsilon: parameter of each step, > 0.
        count: number of steps, an integer >= 1.
        delta: failure probability of the whole composition, in [0, 1); at 0 only the basic bound is finite.
        kind: "pure" (each step is epsilon-DP) or "bounded_range" (each has log-ratios in an interval of that length).
        adaptive: whether a step may depend on earlier outputs.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, count, delta = check_epsilon(epsilon), check_count("count", count), check_delta(delta)
    check_name("kind", kind, ("pure", "bounded_range"))
    return dict(_bounds(epsilon, count, delta, kind, bool(adaptive)))


@lru_cache(maxsize=1024)
def _bounds(epsilon: float, count: int, delta: float, kind: str, adaptive: bool) -> tuple[tuple[str, float], ...]:
    if delta == 0:
        return (("basic", count * epsilon),)
    names: tuple[str, ...] = PURE_METHODS if kind == "pure" else PURE_METHODS + ADAPTIVE_METHODS
    if kind == "bounded_range" and not adaptive:
        names += ("bounded_range",)
    return tuple((name, _BOUNDS[name](epsilon, count, delta)) for name in names)


def compose(epsilon: float, count: int, delta: float, kind: str = "pure", adaptive: bool = True) -> Composition:
    """The least valid bound on what ``count`` steps cost together, and its name.

    The steps are ``count`` times epsilon-DP (kind "pure") or epsilon-bounded-range; together they are
    (result, delta)-DP. The candidates are the closed bounds of this module's table; at equal values the simplest is
    named. Bounded range with ``adaptive=False`` may use the optimal bounded-range bound, which is proved for
    non-adaptive composition only. The recursion of :func:`adaptive_bounded_range_epsilon` is tighter than every
    adaptive closed bound but takes seconds, so it is asked for by name.

    Args:
        epsilon: parameter of each step, > 0.
        count: number of steps, an integer >= 1.
        delta: failure probability of the whole composition, in [0, 1); 0 gives exactly ``count * epsilon``.
        kind: "pure" or "bounded_range".
        adaptive: whether a step may depend on earlier outputs.

    Returns:
        ``Composition(epsilon, method)``.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    bounds = composition_bounds(epsilon, count, delta, kind, adaptive)
    method = min(bounds, key=bounds.__getitem__)
    return Composition(bounds[method], method)


# --------------------------------------------------------------------------------- the other way: what a step may cost


def share(budget: float, parts: int) -> float:
    """The largest float of which ``parts`` do not exceed ``budget`` in exact arithmetic."""
    budget, parts = check_number("budget", budget, 0.0), check_count("parts", parts)
    value = budget / parts
    while Fraction(value) * parts > Fraction(budget):
        value = math.nextafter(value, 0.0)
    return value


def step_epsilon(epsilon: float, delta: float, count: int, method: str) -> float:
    """The largest parameter of a step, rounded down, such that ``count`` of them are (epsilon, delta)-DP by ``method``.

    The inverse of :func:`composition_bounds`. "basic", "advanced" and "optimal" speak of pure steps, the others of
    bounded-range steps; "bounded_range" is for non-adaptive composition only. Long "bounded_range" compositions
    (more than 256 steps) give up about 2e-5 of the parameter to have the result certified.

    Args:
        epsilon: privacy parameter of the whole composition, > 0.
        delta: failure probability of the whole composition, in [0, 1); 0 gives ``share(epsilon, count)``.
        count: number of steps, an integer >= 1.
        method: one of :data:`METHODS`.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, delta, count = check_epsilon(epsilon), check_delta(delta), check_count("count", count)
    check_name("method", method, METHODS)
    return _step_epsilon(epsilon, delta, count, method)


@lru_cache(maxsize=1024)
def _step_epsilon(epsilon: float, delta: float, count: int, method: str) -> float:
    pure = share(epsilon, count)
    if delta == 0 or method == "basic":
        return pure
    if method == "bounded_range":
        return _bounded_range_step(
            epsilon, math.log(delta), count, max(pure, _step_epsilon(epsilon, delta, count, "zcdp"))
        )

    bound = _BOUNDS[method]
    if method in ("zcdp", "zcdp_simple"):
        rate = math.sqrt(8 * zcdp_rho(epsilon, delta, tight=method == "zcdp") / count)
        return shrink(lambda step: bound(step, count, delta) <= epsilon, rate)
    log_delta = math.log(delta)

    def excess(step: float) -> float:
        if method == "optimal":
            return _log_optimal(epsilon, step, count) - log_delta
        return log_ratio(bound(step, count, delta), epsilon)

    start = pure
    while excess(start) > 0:
        start /= 2
    return search(excess, start, grow(excess, start), 1e-12) if start > 0 else 0.0


def _bounded_range_step(epsilon: float, log_delta: float, count: int, certified: float) -> float:
    def excess(step: float) -> float:
        return _log_bounded_range(epsilon, step, count) - log_delta

    exact = count <= _EXACT_COUNT
    root = search(excess, certified, grow(excess, certified), 1e-9 if exact else 1e-6)
    if exact:
        return root
    for margin in (2e-5, 5e-4, 1e-2):
        step = root * (1 - margin)
        if step > certified and _bounded_range_holds(epsilon, log_delta, step, count):
            return step
    return certified


# ------------------------------------------------------------------------------ parts of the data, samples of the data


def parallel(
    spends: Iterable[tuple[float, float]], partition: str = "round", adjacency: str | Adjacency = Adjacency.REPLACE
) -> tuple[float, float]:
    """The (epsilon, delta) of mechanisms that each see one part of the data (parallel composition).

    Where the parts are sets of rounds, fixed in advance or chosen from earlier outputs, a changed round lies in one
    part and the largest epsilon and delta are paid. Where a record's own content says which part it belongs to,
    that is still so if it is zeroed out (removed), but a replaced record may leave one part and enter another: the two
    largest of each are added.

    Args:
        spends: ``(epsilon, delta)`` of each part, both >= 0; none costs nothing.
        partition: "round" or "content": what decides the part.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    pairs = [(check_number("epsilon", epsilon, 0.0), check_delta(delta)) for epsilon, delta in spends]
    moves = check_name("partition", partition, ("round", "content")) == "content"
    paid = 2 if check_adjacency(adjacency) is Adjacency.REPLACE and moves else 1
    epsilon, delta = (math.fsum(sorted(values)[-paid:]) for values in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    return epsilon, delta


def subsample(epsilon: float, rate: float, delta: float = 0.0) -> tuple[float, float]:
    """Amplification by subsampling: ``(ln(1 + rate (e^epsilon - 1)), rate * delta)``, the first rounded up.

    For a sample that keeps each record independently with probability ``rate``, or a fixed fraction ``rate`` drawn
    without replacement (Balle, Barthe and Gaboardi 2018). Let A be the output law without the record, B and B' those
    with its two values. At e' = the new epsilon the mixtures (1 - rate) A + rate B and (1 - rate) A + rate B' have
    hockey-stick divergence rate D(B, (1 - b) A + b B') at e^epsilon, b = e^(e' - epsilon), and D is convex in its
    second law [DERIVED]. So the mechanism must be (epsilon, delta)-DP both when the record is replaced and when it is
    left out (in a fixed fraction: when another takes its place). That is so where a record that is left out counts as
    zero losses, since that is one of the replacements.

    Args:
        epsilon: of the mechanism on the sample, >= 0.
        rate: probability that a record is in the sample, in [0, 1].
        delta: of the mechanism on the sample, in [0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, rate = check_number("epsilon", epsilon, 0.0), check_number("rate", rate, 0.0, 1.0)
    delta = check_delta(delta)
    if rate == 0:
        return 0.0, 0.0
    # The exponential would overflow; what is added covers rounding.
    if epsilon > 700:
        amplified = epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon)) + 5e-16 * (1 + epsilon)
    else:
        amplified = math.log1p(rate * math.expm1(epsilon)) * (1 + 1e-15)
    return min(epsilon, amplified), rate * delta


def subsample_inverse(epsilon: float, rate: float) -> float:
    """The largest epsilon of a mechanism, rounded down, that :func:`subsample` brings to ``epsilon``.

    Args:
        epsilon: wanted on the whole data, > 0.
        rate: probability that a record is in the sample, in (0, 1].

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, rate = check_epsilon(epsilon), check_number("rate", rate, 0.0, 1.0, low_open=True)
    if epsilon < 1:
        inner = math.log1p(math.expm1(epsilon) / rate)
    else:
        inner = epsilon - math.log(rate) + math.log1p((rate - 1) * math.exp(-epsilon))
    return shrink(lambda value: subsample(value, rate)[0] <= epsilon, inner)
