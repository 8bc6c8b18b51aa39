"""The sigma-smooth distributions of a finite domain: the projection onto them, and data sets that look like them.

For a base distribution u (uniform by default) K = {p : p <= u/sigma} holds the sigma-smooth distributions. A data set
is (sigma, chi)-smooth for a class of queries if some distribution of K answers each query within chi of the data
(Haghtalab, Roughgarden and Shetty 2020; S1 [RECALLED]).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from dp_experts_env.hypotheses.classes import as_floats
from dp_experts_env.spec import ArgumentError, FloatArray, check_flag, check_number

# How far given probabilities may be from a sum of 1, and how far rounding may bring a sum of ours.
MASS_TOLERANCE = 1e-9
# How far apart logarithms of weights may be: their rounding is a relative error of the weights.
MOST_LOG = 1e6
# Largest value of a query that the solver of linear programmes is trusted with.
MOST_VALUE = 1e12
_ROUNDING = 1e-12


def check_sigma(sigma: Any) -> float:
    """Return a smoothness parameter in (0, 1], or raise :class:`ArgumentError`."""
    return check_number("sigma", sigma, 1e-12, 1.0)


def check_base(base: Any, size: int) -> FloatArray:
    """Return a base distribution of shape ``(X,)``, uniform for ``None``, or raise :class:`ArgumentError`."""
    if base is None:
        return np.full(size, 1.0 / size)
    array = as_floats("base", base)
    if array.shape != (size,):
        raise ArgumentError(f"base: expected shape ({size},) but found {array.shape}")
    if not (array.min() >= 0.0 and abs(array.sum() - 1.0) <= MASS_TOLERANCE):
        raise ArgumentError(
            f"base: expected probabilities that sum to 1 but found least {array.min():g}, sum {array.sum():.12g}"
        )
    # A sum that is off by more than rounding is put right; else caps stay base/sigma to the last digit.
    return array if abs(array.sum() - 1.0) <= _ROUNDING else array / array.sum()


def project(law: Any, sigma: float, base: Any = None, *, log: bool = False) -> FloatArray:
    """Return the sigma-smooth distribution p that is nearest to a law q in ``KL(p || q)``, by water-filling.

    The Lagrange conditions give ``p = min(c q, u/sigma)`` for the constant c that makes p sum to 1: points are capped
    in order of q/u, until c leaves the next one uncapped. O(X log X), in log space. KL(. || q) is strictly convex, so
    p is unique, and Pythagoras holds: ``KL(r || q) >= KL(r || p) + KL(p || q)`` for every sigma-smooth r. [DERIVED]

    Args:
        law: shape ``(..., X)``: weights >= 0, with a positive finite sum; they need not sum to 1.
        sigma: smoothness in [1e-12, 1].
        base: the base distribution u, shape ``(X,)``; ``None`` for the uniform one.
        log: whether ``law`` holds logarithms of weights (no underflow, -inf for 0), at most 1e6 apart.

    Returns:
        p, shape ``(..., X)``; no entry exceeds u/sigma. It sums to 1 up to rounding.

    Raises:
        ArgumentError: an argument out of range, or a law on so few points that no sigma-smooth distribution lives on
            them (the message says how much it could hold).
    """
    sigma = check_sigma(sigma)
    array = as_floats("law", law)
    if array.ndim < 1 or not array.size:
        raise ArgumentError(f"law: expected shape (..., X), X >= 1, but found {array.shape}")
    bad = ~(array < np.inf) if check_flag("log", log) else ~((array >= 0.0) & (array < np.inf))
    if bad.any():
        place = tuple(int(index) for index in np.argwhere(bad)[0])
        raise ArgumentError(
            f"law: expected {'logarithms' if log else 'weights'} but found {float(array[place])!r} at {place}"
        )
    caps = check_base(base, array.shape[-1]) / sigma
    if log:
        # Of sums of the largest numbers nothing would be left but their size: what counts is the distance from the top.
        top = array.max(axis=-1, keepdims=True)
        with np.errstate(over="ignore"):
            shifted = array - np.where(top > -np.inf, top, 0.0)
        if ((array > -np.inf) & (shifted < -MOST_LOG)).any():
            raise ArgumentError(f"law: expected logarithms at most {MOST_LOG:g} apart, or -inf, but found {law!r}")
        array = shifted
    with np.errstate(divide="ignore"):
        logs = array if log else np.log(array)
        log_caps = np.log(caps)
    # Where the base is 0 the cap is reached at once.
    ratios = np.where(caps > 0.0, logs - np.where(caps > 0.0, log_caps, 0.0), np.inf)
    _check_room(logs, caps)
    order = np.argsort(-ratios, axis=-1, kind="stable")
    ratios, logs = (np.take_along_axis(values, order, axis=-1) for values in (ratios, logs))
    caps = caps[order]
    # What is left when the first k are capped, and the weight that shares it.
    left = np.maximum(1.0 - (caps.cumsum(axis=-1) - caps), 0.0)
    rest = np.flip(np.logaddexp.accumulate(np.flip(logs, axis=-1), axis=-1), axis=-1)
    # Points of base 0 are capped from the start, points of weight 0 never.
    decided = np.isinf(ratios)
    with np.errstate(divide="ignore"):
        level = np.where(decided, 0.0, np.log(left)) - np.where(decided, 0.0, rest) + ratios
    uncapped = level <= 0.0
    capped = np.where(uncapped.any(axis=-1), uncapped.argmax(axis=-1), array.shape[-1])[..., None]
    open_ = np.arange(array.shape[-1]) >= capped
    # Once more by direct sums, which are more accurate than running ones.
    top = np.where(open_, logs, -np.inf).max(axis=-1, keepdims=True)
    weights = np.exp(np.where(open_, logs - np.where(top > -np.inf, top, 0.0), -np.inf))
    share = np.maximum(1.0 - np.where(open_, 0.0, caps).sum(axis=-1, keepdims=True), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    smooth = np.minimum(np.where(open_, weights * (share / np.where(total > 0.0, total, 1.0)), caps), caps)
    result = np.empty_like(smooth)
    np.put_along_axis(result, order, smooth, axis=-1)
    return result


def _check_room(logs: FloatArray, caps: FloatArray) -> None:
    room = np.where(logs > -np.inf, caps, 0.0).sum(axis=-1)
    if (room < 1.0 - _ROUNDING).any():
        where = np.argwhere(np.atleast_1d(room) < 1.0 - _ROUNDING)[0]
        game = f"row {tuple(int(index) for index in where)} of " if logs.ndim > 1 else ""
        raise ArgumentError(
            f"law: expected weight on points that can hold mass 1 (base/sigma each) "
            f"but those of {game}the law can hold {float(np.min(room)):g}"
        )


class Smoothness(NamedTuple):
    """What a linear programme found: the value asked for, and a distribution that reaches it.

    Attributes:
        value: chi or sigma.
        law: the witness, shape ``(X,)``.
    """

    value: float
    law: FloatArray


def least_chi(data: Any, queries: Any, sigma: float, base: Any = None) -> Smoothness:
    """Return the least chi for which a data set is (sigma, chi)-smooth, with a witness. Not private.

    A linear programme over p and chi: ``abs(<q, p> - <q, data>) <= chi`` for every query, ``p <= u/sigma``. The value
    is recomputed from the witness, which is sigma-smooth, so that it never errs downwards by more than rounding.
    Dense: for domains and classes of up to some thousands.

    Args:
        data: counts or frequencies >= 0 of the domain's points, shape ``(X,)``; scaled to sum to 1.
        queries: values of the queries, shape ``(Q, X)``.
        sigma: smoothness in [1e-12, 1].
        base: the base distribution u, shape ``(X,)``; ``None`` for the uniform one.

    Raises:
        ArgumentError: an argument out of range.
    """
    sigma = check_sigma(sigma)
    frequencies, matrix = _check_data(data, queries)
    caps = check_base(base, len(frequencies)) / sigma
    answers = matrix @ frequencies
    ones = np.ones((len(matrix), 1))
    solved = linprog(
        np.append(np.zeros(len(caps)), 1.0),
        A_ub=np.block([[matrix, -ones], [-matrix, -ones]]),
        b_ub=np.concatenate([answers, -answers]),
        A_eq=np.append(np.ones(len(caps)), 0.0)[None],
        b_eq=np.ones(1),
        bounds=[*((0.0, cap) for cap in caps), (0.0, None)],
        method="highs",
    )
    law = _clean(solved, sigma, base, len(caps))
    return Smoothness(float(np.abs(matrix @ law - answers).max()), law)


def largest_sigma(data: Any, queries: Any, chi: float, base: Any = None) -> Smoothness:
    """Return the largest sigma for which a data set is (sigma, chi)-smooth, with a witness. Not private.

    A linear programme over p and t = 1/sigma: the least t with ``p <= t u`` and all answers within chi (up to the
    solver's tolerance, 1e-7). The value is recomputed from the witness.

    Args:
        data: counts or frequencies >= 0 of the domain's points, shape ``(X,)``; scaled to sum to 1.
        queries: values of the queries, shape ``(Q, X)``.
        chi: allowed error of an answer, a number >= 0.
        base: the base distribution u, shape ``(X,)``; ``None`` for the uniform one.

    Returns:
        The largest sigma; 0 with the data's own frequencies where no distribution of the base's support is within chi.

    Raises:
        ArgumentError: an argument out of range.
    """
    chi = check_number("chi", chi, 0.0)
    frequencies, matrix = _check_data(data, queries)
    measure = check_base(base, len(frequencies))
    answers = matrix @ frequencies
    size = len(measure)
    zeros = np.zeros((len(matrix), 1))
    solved = linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=np.block([[matrix, zeros], [-matrix, zeros], [np.eye(size), -measure[:, None]]]),
        b_ub=np.concatenate([answers + chi, chi - answers, np.zeros(size)]),
        A_eq=np.append(np.ones(size), 0.0)[None],
        b_eq=np.ones(1),
        bounds=[*((0.0, None if mass > 0.0 else 0.0) for mass in measure), (1.0, None)],
        method="highs",
    )
    if solved.x is None:
        return Smoothness(0.0, frequencies)
    law = np.clip(np.asarray(solved.x[:size]), 0.0, None)
    law /= law.sum()
    held = measure > 0.0
    return Smoothness(min(1.0, float(1.0 / (law[held] / measure[held]).max())), law)


def _check_data(data: Any, queries: Any) -> tuple[FloatArray, FloatArray]:
    counts, matrix = as_floats("data", data), as_floats("queries", queries)
    with np.errstate(over="ignore", invalid="ignore"):
        total = counts.sum()
    if counts.ndim != 1 or not len(counts) or not counts.min() >= 0.0 or not 0.0 < total < np.inf:
        raise ArgumentError(f"data: expected counts >= 0 of shape (X,), not all 0, but found {data!r}")
    if matrix.ndim != 2 or matrix.shape[1] != len(counts) or not len(matrix) or not np.isfinite(matrix).all():
        raise ArgumentError(f"queries: expected finite numbers of shape (Q, {len(counts)}) but found {matrix.shape}")
    if np.abs(matrix).max() > MOST_VALUE:
        raise ArgumentError(f"queries: expected numbers in [{-MOST_VALUE:g}, {MOST_VALUE:g}] but found larger ones")
    return counts / total, matrix


def _clean(solved: Any, sigma: float, base: Any, size: int) -> FloatArray:
    # The solver's tolerance may leave p a little outside: a floor of nothing keeps every point in reach.
    if solved.x is None:
        raise ArgumentError(f"data: the linear programme of {size} points failed: {solved.message}")
    return project(np.maximum(solved.x[:size], 1e-300), sigma, base)
