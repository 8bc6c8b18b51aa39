"""From the counts of one event, fixed beforehand, to a confidence lower bound on epsilon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from dp_experts_env.spec import ArgumentError, FloatArray, check_count, check_delta, check_flag, check_number

SMALLEST_SHARE = 0.02
"""Share of the error that each of the two counts has for itself in the region of :func:`lower_bound`."""

ROUNDING = 1e-9
"""Relative error allowed for in the quantiles of the beta distribution; they are moved by it towards privacy."""


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return a lower and an upper confidence bound on a probability, each alone wrong with probability <= alpha.

    Clopper and Pearson (1934): the probabilities at which so many hits or more, or so many or fewer, have probability
    alpha [TEXT].

    Args:
        hits: number of trials in which the event occurred, 0..trials.
        trials: number of independent trials, an integer >= 1.
        alpha: error of each bound, in (0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    check_count("trials", trials)
    check_count("hits", hits, 0, trials)
    check_number("alpha", alpha, 0.0, 1.0, low_open=True, high_open=True)
    return float(_low(hits, trials, alpha)), float(_high(hits, trials, alpha))


def _low(hits: Any, trials: Any, alpha: Any) -> FloatArray:
    hits = np.asarray(hits, dtype=np.float64)
    # Where there are no hits the quantile is 0; 1.0 stands in for a parameter that the function does not have.
    found = special.betaincinv(np.where(hits > 0, hits, 1.0), trials - hits + 1.0, alpha)
    return np.where(hits > 0, found * (1.0 - ROUNDING), 0.0)


def _high(hits: Any, trials: Any, alpha: Any) -> FloatArray:
    hits = np.asarray(hits, dtype=np.float64)
    found = special.betainccinv(hits + 1.0, np.where(hits < trials, trials - hits, 1.0), alpha)
    return np.where(hits < trials, np.minimum(found * (1.0 + ROUNDING), 1.0), 1.0)


def lower_bound(
    hits: tuple[int, int],
    trials: tuple[int, int],
    delta: float,
    confidence: float,
    expected: tuple[float, float] | None = None,
    identical: bool = True,
) -> float:
    """Return a lower bound on epsilon from the counts of one event fixed beforehand, in one direction fixed beforehand.

    With ``expected=None`` it is ln((low - delta) / high), low and high the Clopper-Pearson bounds on the event's two
    probabilities, each at half of the error: they hold together.

    Rates ``expected`` beforehand give a larger bound from the same counts. Derived here [DERIVED]: let U0 be the
    probability of so many hits or more at the true p0, U1 that of so many or fewer at the true p1. They are
    independent, and each is at most u with probability at most u, for every u. So a region R of the unit square
    that contains with a point all points below and left of it contains (U0, U1) with at most its area as
    probability (replace one of them by a uniform number at a time: a section of R is an interval from 0). The
    (p0, p1) for which (U0, U1) lies outside an R of area 1 - confidence are hence a confidence set, and the bound is
    the least ln((p0 - delta) / p1) in it. R = {U0 <= a or U1 <= a} gives about the bound above. Here R is a
    staircase, so that the least value is at one of its corners, (low at u, high at g): the staircase under which all
    corners give one value if the counts come out as expected, the largest value that any R can give then.
    A share of :data:`SMALLEST_SHARE` of the error stays with each count alone, in case they do not.

    Games that are independent but not identical, p0 and p1 being the means of their probabilities, are judged by the
    first rule, each bound at a(1 - a/2), at most 1/4, for its share a of the error [DERIVED]. An upper bound fails if
    the count is at most c, the largest number that the binomial law of the same mean stays at or below with a smaller
    probability than that. If c <= n p - 1, the count does so with no greater probability than the binomial (Hoeffding
    1956). Else the binomial's probability would be above 1/4 (Greenberg and Mohri 2014), unless p > 1 - 1/n and
    c = n - 1: then with x = n (1 - p) it is at least 1 - e^-x, so that 1 - e^-x < a - a^2/2 <= 1 - e^-a and x < a, and
    some game is missed with probability at most x. Lower bounds are the mirror image.

    Args:
        hits: occurrences in the world that the event favours, and in the other.
        trials: independent games in these two worlds.
        delta: delta in [0, 1).
        confidence: probability, in (0, 1), with which the bound holds at least.
        expected: the event's probabilities in the two worlds as guessed before the count, in [0, 1]; any guess is
            valid as long as it does not depend on the counted games.
        identical: whether the games of a world have one law; if not, ``expected`` is not used.

    Returns:
        The bound, >= 0: with probability at least ``confidence`` the mechanism is not (epsilon, delta)-private for any
        epsilon below it.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    trials = check_trials(trials)
    hits = two("hits", hits)
    for world in (0, 1):
        check_count(f"hits[{world}]", hits[world], 0, trials[world])
    check_delta(delta)
    check_flag("identical", identical)
    alpha = 1.0 - check_number("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    if not identical:
        lower = upper = np.array([min(alpha / 2.0 * (1.0 - alpha / 4.0), 0.25)])
    elif expected is None:
        lower, upper = _even(alpha)
    else:
        guess = two("expected", expected)
        rates = [check_number(f"expected[{world}]", guess[world], 0.0, 1.0) for world in (0, 1)]
        lower, upper = _staircase((rates[0], rates[1]), trials, delta, alpha)
    low, high = _low(hits[0], trials[0], lower) - delta, _high(hits[1], trials[1], upper)
    # Where everything is in the region, up to p1 = 0, there is no corner.
    some = high > 0.0
    if not some.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return max(float(np.log(np.maximum(low[some], 0.0) / high[some]).min()), 0.0)


def two(name: str, values: Any) -> tuple[Any, Any]:
    """Return one value of each world, or raise :class:`ArgumentError`."""
    values = list(values) if isinstance(values, np.ndarray) and values.ndim == 1 else values
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise ArgumentError(f"{name}: expected one of each world but found {values!r}")
    return values[0], values[1]


def check_trials(trials: Any) -> tuple[int, int]:
    """Return the numbers of games of the two worlds, each an integer >= 1, or raise :class:`ArgumentError`."""
    zero, one = two("trials", trials)
    return check_count("trials[0]", zero), check_count("trials[1]", one)


def _even(alpha: float) -> tuple[FloatArray, FloatArray]:
    return np.array([alpha / 2.0]), np.array([alpha / 2.0])


def _staircase(
    rates: tuple[float, float], trials: tuple[int, int], delta: float, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Corners of a region of area at most alpha.

    Everything left of ``lower[0]``, and from ``lower[k]`` to ``lower[k + 1]`` (after the last, 1) up to ``upper[k]``.
    """
    share = SMALLEST_SHARE * alpha
    edges = np.append(special.ndtr(np.linspace(special.ndtri(share), 3.5, 64)), 1.0)
    hits = rates[0] * trials[0], rates[1] * trials[1]
    low = _low(hits[0], trials[0], edges[:-1]) - delta

    def steps(epsilon: float) -> FloatArray:
        p1 = np.clip(low * math.exp(-epsilon), 0.0, 1.0)
        if hits[1] >= trials[1]:
            return np.ones_like(p1)
        return np.clip(special.betaincc(hits[1] + 1.0, trials[1] - hits[1], p1), share, 1.0)

    def area(epsilon: float) -> float:
        return float(edges[0] + np.diff(edges) @ steps(epsilon))

    small, large = -50.0, 50.0
    while large - small > 1e-6:
        middle = (small + large) / 2.0
        small, large = (middle, large) if area(middle) <= alpha * (1.0 - ROUNDING) else (small, middle)
    if area(small) > alpha:
        # Nothing is expected, as where no hits are: no region is better than another.
        return _even(alpha)
    return edges[:-1], steps(small)


def epsilon_limit(trials: tuple[int, int], delta: float, confidence: float) -> float:
    """Return the largest bound that so many games can show.

    It is reached by an event that always occurs in one world and never in the other.

    Args:
        trials: games counted in the two worlds.
        delta: delta in [0, 1).
        confidence: confidence in (0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    trials, sure = check_trials(trials), (1.0, 0.0)
    return max(lower_bound((n, 0), (n, m), delta, confidence, sure) for n, m in (trials, trials[::-1]))
