"""Halfspaces of a sample: every labelling that halfspaces give n vectors, and the one with the fewest errors.

Vectors are first written in coordinates of their affine span, of dimension r. Every labelling of vectors in general
position by a halfspace is given by a hyperplane through r - 1 of them (the pivots), turned about them to an angle at
which no other vector lies on it, with the pivots labelled at will: move a separating hyperplane until it touches r
vectors, then turn it a little away from one of them. (For r = 2 no general position is needed: let a separating line
move until it touches vectors, all on one side; it passes through an end of what it touches, and turns a little.) So for
each set of pivots the others are projected onto the plane orthogonal to the pivots' span and sorted by angle, and a
half plane sweeps around: O(n^r log n) in all. Vectors in special position (lattices) are first moved by far less than
any margin, which keeps every labelling that has a margin and may add others; a linear programme for the widest margin
sorts those out and gives the weights. [DERIVED]

"Exact" here means: among labellings of a margin of at least 1e-8, for vectors in [-1, 1]^m.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import hstack, identity

from dp_experts_env.hypotheses.classes import MOST_WORK, distinct_rows
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray

Separator: TypeAlias = tuple[FloatArray, float]
"""Weights w and bias b of the halfspace <w, v> >= b."""

Bools: TypeAlias = NDArray[np.bool_]

# Vectors at angles nearer than this are passed together: more than rounding, less than what the displacement makes.
_SAME_ANGLE = 1e-13
_DISPLACEMENT = 1e-10
# Pivot sets times vectors that are swept at once.
_CHUNK = 2**16
# Labellings of a sample that are tried by linear programmes.
_MOST_PROGRAMMES = 4000
# What a local search looks at: vectors next to the hyperplane, sets of pivots, candidates.
_NEAR, _LOCAL_PIVOTS, _LOCAL_CANDIDATES = 12, 500, 20


def is_exact(num_vectors: int, rank: int) -> bool:
    """Whether :func:`best_separator` tries all pivots, for so many vectors that span dimension ``rank``."""
    if rank <= 1:
        return True
    return math.comb(num_vectors, rank - 1) * num_vectors * 10 <= MOST_WORK


def separate(vectors: FloatArray, labels: Bools) -> Separator | None:
    """Return a halfspace of widest margin (in sum norm) with these labels, or ``None`` if rounding leaves none."""
    dimension = vectors.shape[1]
    if labels.all() or not labels.any():
        return _constant(dimension, bool(labels.all()))
    sign = np.where(labels, 1.0, -1.0)[:, None]
    # Maximise the margin m subject to sign (<w, v> - b) >= m and abs(w_i) <= 1.
    rows = np.concatenate([-sign * vectors, sign, np.ones_like(sign)], axis=1)
    bounds = [*[(-1.0, 1.0)] * dimension, (None, None), (0.0, None)]
    return _solve(np.append(np.zeros(dimension + 1), -1.0), rows, np.zeros(len(rows)), bounds, vectors, labels)


def best_separator(vectors: FloatArray, labels: Bools) -> Separator:
    """Return a halfspace with the fewest errors; where :func:`is_exact` is false, a local optimum.

    Local: from the least sum of violations (which finds a halfspace without errors if there is one), the pivots are
    taken among the vectors next to the hyperplane, until that no longer helps.

    Args:
        vectors: shape ``(n, m)``, entries in [-1, 1].
        labels: shape ``(n,)``.
    """
    different, place = np.unique(vectors, axis=0, return_inverse=True)
    weights = np.zeros(len(different), dtype=np.int64)
    np.add.at(weights, place.ravel(), np.where(labels, 1, -1))
    # Vectors of both labels alike cost the same whatever is said of them.
    different, weights = different[weights != 0], weights[weights != 0]
    best = _constant(vectors.shape[1], int(weights.sum()) > 0)
    gain = max(0, int(weights.sum()))
    if not len(different):
        return best
    coordinates = _span_coordinates(different)
    rank = coordinates.shape[1]
    if is_exact(len(different), rank):
        for candidate, _ in _candidates(coordinates, weights, _all_pivots(len(different), rank), gain):
            separator = separate(different, candidate)
            if separator is not None:
                return separator
        return best
    start = _least_violation(different, weights)
    if start is not None and _gain(different, weights, start) > gain:
        best, gain = start, _gain(different, weights, start)
    improved = True
    while improved:
        improved = False
        near = np.argsort(np.abs(different @ best[0] - best[1]), kind="stable")[: max(_NEAR, rank + 1)]
        subsets = itertools.islice(itertools.combinations(near.tolist(), rank - 1), _LOCAL_PIVOTS)
        candidates = _candidates(coordinates, weights, np.array(list(subsets), dtype=np.int64), gain)
        for candidate, its_gain in itertools.islice(candidates, _LOCAL_CANDIDATES):
            separator = separate(different, candidate)
            if separator is not None:
                best, gain, improved = separator, its_gain, True
                break
    return best


def all_separators(vectors: FloatArray) -> list[Separator]:
    """Return one halfspace for each labelling that halfspaces give the vectors.

    Raises:
        ArgumentError: if the vectors are too many to try their labellings.
    """
    different = np.unique(vectors, axis=0)
    coordinates = _span_coordinates(different)
    count, rank = coordinates.shape
    # How many there are in general position (Cover 1965).
    expected = 2 * sum(math.comb(count - 1, order) for order in range(rank + 1))
    if expected > _MOST_PROGRAMMES:
        raise ArgumentError(
            f"points: expected few enough to list their labellings (at most {_MOST_PROGRAMMES}) "
            f"but found {count} points, which may have {expected}"
        )
    found = [np.zeros((1, count), dtype=bool), np.ones((1, count), dtype=bool)]
    if rank == 1:
        found.append(_rays(coordinates[:, 0]))
    elif rank:
        patterns = np.array(list(itertools.product((False, True), repeat=rank - 1)))
        for chunk in _chunks(_all_pivots(count, rank), count):
            gains, turns, angles = _sweep(coordinates, np.zeros(count, dtype=np.int64), chunk)
            for row, pivots in enumerate(chunk):
                open_turns = turns[row, gains[row] == 0]
                sides = np.repeat(_left(angles[row], open_turns), len(patterns), axis=0)
                sides[:, pivots] = np.tile(patterns, (len(open_turns), 1))
                found.append(sides[distinct_rows(sides)])
    labellings = np.concatenate(found)
    tried = (separate(different, labels) for labels in labellings[distinct_rows(labellings)])
    return [separator for separator in tried if separator is not None]


def _constant(dimension: int, label: bool) -> Separator:
    return np.zeros(dimension), -1.0 if label else 1.0


def _gain(vectors: FloatArray, weights: IntArray, separator: Separator) -> int:
    return int(weights[vectors @ separator[0] >= separator[1]].sum())


def _solve(
    cost: FloatArray, rows: Any, right: FloatArray, bounds: Any, vectors: FloatArray, labels: Bools | None
) -> Separator | None:
    # The stubs know no such options for sparse matrices.
    options: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solved = linprog(cost, A_ub=rows, b_ub=right, bounds=bounds, method="highs", options=options)
    if solved.x is None:
        return None
    dimension = vectors.shape[1]
    weights, bias = np.asarray(solved.x[:dimension], dtype=np.float64), float(solved.x[dimension])
    # The solver works up to a tolerance: what counts is what the halfspace says.
    right_labels = labels is None or np.array_equal(vectors @ weights >= bias, labels)
    return (weights, bias) if right_labels else None


def _least_violation(vectors: FloatArray, weights: IntArray) -> Separator | None:
    count, dimension = vectors.shape
    sign = np.sign(weights)[:, None].astype(np.float64)
    # Minimise the sum of abs(weight) xi subject to sign (<w, v> - b) >= 1 - xi and xi >= 0.
    parts: Any = [np.concatenate([-sign * vectors, sign], axis=1), -identity(count)]
    rows = hstack(parts, format="csr")
    bounds = [*[(None, None)] * (dimension + 1), *[(0.0, None)] * count]
    cost = np.concatenate([np.zeros(dimension + 1), np.abs(weights)])
    return _solve(cost, rows, -np.ones(count), bounds, vectors, None)


def _span_coordinates(vectors: FloatArray) -> FloatArray:
    """Orthonormal coordinates ``(n, r)`` in the affine span, displaced into general position for r >= 3."""
    if not len(vectors):
        raise ArgumentError("points: expected at least one point but found none")
    centred = vectors - vectors.mean(axis=0)
    _, scales, directions = np.linalg.svd(centred, full_matrices=False)
    rank = int((scales > 1e-9 * max(1.0, len(vectors) ** 0.5)).sum())
    coordinates = centred @ directions[:rank].T
    if rank >= 3:
        # A fixed sequence without pattern: multiples of square roots of primes, modulo 1.
        primes = np.array([number for number in range(2, 40 * rank) if all(number % k for k in range(2, number))])
        steps = np.sqrt(primes[:rank])
        coordinates = coordinates + _DISPLACEMENT * (np.outer(np.arange(1, len(vectors) + 1) ** 2, steps) % 1.0)
    return np.asarray(coordinates, dtype=np.float64)


def _all_pivots(count: int, rank: int) -> IntArray:
    chosen = list(itertools.combinations(range(count), max(0, rank - 1)))
    return np.array(chosen, dtype=np.int64).reshape(len(chosen), max(0, rank - 1))


def _chunks(pivots: IntArray, count: int) -> Iterator[IntArray]:
    step = max(1, _CHUNK // count)
    return (pivots[start : start + step] for start in range(0, len(pivots), step))


def _rays(values: FloatArray) -> Bools:
    order = np.sort(values)
    above = values >= order[:, None]
    return np.concatenate([above, ~above])


def _angles(coordinates: FloatArray, pivots: IntArray) -> FloatArray:
    """Angles ``(c, n)`` of all vectors around each set of pivots ``(c, r - 1)``."""
    rank = coordinates.shape[1]
    origin = coordinates[pivots[:, 0]]
    spans = coordinates[pivots[:, 1:]] - origin[:, None]
    plane = np.linalg.svd(spans, full_matrices=True)[2][:, rank - 2 :] if rank > 2 else np.eye(2)[None]
    flat = (coordinates - origin[:, None]) @ np.swapaxes(plane, -1, -2)
    return np.asarray(np.arctan2(flat[..., 1], flat[..., 0]) % (2 * np.pi))


def _left(angles: FloatArray, turns: FloatArray) -> Bools:
    """Whether each vector lies to the left of a line at each turn, shape ``(..., turns, n)``."""
    return np.asarray((angles[..., None, :] - turns[..., None]) % (2 * np.pi) < np.pi)


def _sweep(coordinates: FloatArray, weights: IntArray, pivots: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Gains and turns ``(c, 2n)`` of the half planes between neighbouring events, and the angles ``(c, n)``.

    Gains are those without the pivots; where two events fall together they are far below any other.
    """
    angles = _angles(coordinates, pivots)
    own = np.broadcast_to(weights, angles.shape).copy()
    np.put_along_axis(own, pivots, 0, axis=1)
    # A vector leaves the left side when the line reaches its angle, and comes in half a turn away from it.
    events = np.concatenate([angles, (angles + np.pi) % (2 * np.pi)], axis=1)
    order = np.argsort(events, axis=1, kind="stable")
    events = np.take_along_axis(events, order, axis=1)
    changes = np.take_along_axis(np.concatenate([-own, own], axis=1), order, axis=1).cumsum(axis=1)
    widths = np.diff(events, axis=1, append=events[:, :1] + 2 * np.pi)
    turns = events + widths / 2
    widest = widths.argmax(axis=1)[:, None]
    known = (_left(angles, np.take_along_axis(turns, widest, axis=1))[:, 0] * own).sum(axis=1, keepdims=True)
    gains = known + changes - np.take_along_axis(changes, widest, axis=1)
    return np.where(widths > _SAME_ANGLE, gains, np.iinfo(np.int64).min // 2), turns, angles


def _candidates(
    coordinates: FloatArray, weights: IntArray, pivots: IntArray, floor: int
) -> Iterator[tuple[Bools, int]]:
    """Labellings whose gain exceeds ``floor`` with their gains, best first, each once."""
    if coordinates.shape[1] == 0:
        return
    if coordinates.shape[1] == 1:
        rays = _rays(coordinates[:, 0])
        gains = rays @ weights
        for row in np.argsort(-gains, kind="stable"):
            if gains[row] > floor:
                yield rays[row], int(gains[row])
        return
    free = np.maximum(weights, 0)[pivots].sum(axis=1)
    sweeps = (_sweep(coordinates, weights, chunk)[0].max(axis=1) for chunk in _chunks(pivots, len(weights)))
    tops = np.concatenate(list(sweeps)) + free
    seen: set[bytes] = set()
    for target in range(int(tops.max()), floor, -1):
        for chunk in _chunks(np.flatnonzero(tops >= target)[:, None], len(weights)):
            subsets = pivots[chunk[:, 0]]
            gains, turns, angles = _sweep(coordinates, weights, subsets)
            for row, column in np.argwhere(gains + free[chunk[:, 0], None] == target):
                labels = _left(angles[row], turns[row, column : column + 1])[0]
                labels[subsets[row]] = weights[subsets[row]] > 0
                if labels.tobytes() not in seen:
                    seen.add(labels.tobytes())
                    yield labels, target
