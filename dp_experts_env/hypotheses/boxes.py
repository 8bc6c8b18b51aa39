"""Thresholds, intervals and axis-parallel boxes: covers and brackets from grids, the best box by exhaustive search."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.hypotheses.classes import (
    MOST_ENTRIES,
    MOST_WORK,
    Brackets,
    HypothesisClass,
    Labels,
    check_mass,
    check_size,
    distinct_rows,
    least_cells,
    merge_values,
    power,
)
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, check_count


class Thresholds(HypothesisClass):
    """Thresholds on [0, 1]: hypothesis theta says 1 to x >= theta; theta > 1 says 0 to all of [0, 1].

    Covers of ``ceil(1/(2 gamma))`` and brackets of ``ceil(1/epsilon)`` cells, of mass at most epsilon each. So
    ``brackets(sigma/sqrt(T))`` has ``ceil(sqrt(T)/sigma)`` grid points.
    """

    num_parameters = 1
    vc_dimension = 1

    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]:
        return np.asarray(points[:, 0] >= parameters)

    def cover(self, gamma: float) -> NDArray[Any]:
        """Return the middles of ``ceil(1/(2 gamma))`` equal cells; see :meth:`HypothesisClass.cover`."""
        cells = least_cells(0.5 / check_mass("gamma", gamma))
        check_size("gamma", gamma, cells, 1)
        return ((np.arange(cells) + 0.5) / cells)[:, None]

    def brackets(self, epsilon: float) -> Brackets:
        """Return the brackets between neighbouring points of a grid; see :meth:`HypothesisClass.brackets`."""
        cells = least_cells(1.0 / check_mass("epsilon", epsilon))
        check_size("epsilon", epsilon, cells, 1)
        edges = np.arange(cells + 1) / cells
        # The lowest function is 0 at x = 1 too.
        lower = np.append(edges[1:-1], np.nextafter(1.0, 2.0))

        def predict(points: Any, which: Any) -> tuple[Labels, Labels]:
            return self.predict(lower[which], points), self.predict(edges[:-1][which], points)

        def locate(parameters: Any) -> IntArray:
            return find_cells(edges, self.check_parameters(parameters)[:, 0])

        return Brackets(((np.arange(cells) + 0.5) / cells)[:, None], 1.0 / cells, predict, locate)

    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return the best threshold, exact, in O(n log n); see :meth:`HypothesisClass.best_in_class`."""
        array, truth = self.check_sample(points, labels)
        values, weights = merge_values(array[:, 0], np.where(truth, 1, -1))
        cuts = np.append(values, np.nextafter(values[-1], np.inf))
        # What is gained by saying 1 from each cut on.
        gains = np.append(weights[::-1].cumsum()[::-1], 0)
        best = int(gains.argmax())
        return cuts[best : best + 1], int(truth.sum() - gains[best])

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return one threshold for each labelling of the points; see :meth:`HypothesisClass.dichotomies`."""
        values = np.unique(self.check_points(points))
        above = np.nextafter(values[-1:] if len(values) else np.ones(1), np.inf)
        return np.append(values, above)[:, None]


class Boxes(HypothesisClass):
    """Axis-parallel boxes in [0, 1]^d: parameters (low_1..low_d, high_1..high_d); 1 where low <= x <= high.

    A box with low > high on some axis is empty. Two boxes whose ends differ by at most w in all on each axis disagree
    on mass at most 1 - (1 - w)^d: the union lies in the box around both, whose sides a_i are at most 1, the
    intersection has sides of at least a_i - w, and prod a_i - prod (a_i - w)_+ does not fall in any a_i. A grid of n
    cells an axis makes w = 1/n for a cover of middles and w = 2/n for brackets. [DERIVED]

    Args:
        dimension: d, an integer >= 1.
    """

    def __init__(self, dimension: int = 2) -> None:
        self.dimension = check_count("dimension", dimension, most=1000)

    @property
    def num_parameters(self) -> int:
        """Two ends for each axis."""
        return 2 * self.dimension

    @property
    def vc_dimension(self) -> int:
        """2d, exactly."""
        return 2 * self.dimension

    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]:
        inside = np.ones((len(parameters), len(points)), dtype=bool)
        for axis in range(self.dimension):
            inside &= points[:, axis] >= parameters[:, axis, None]
            inside &= points[:, axis] <= parameters[:, self.dimension + axis, None]
        return inside

    def _cells(self, name: str, mass: float) -> float:
        # 1 / w for the largest w with 1 - (1 - w)^d <= mass.
        mass = check_mass(name, mass)
        if mass == 1.0:
            return 1.0
        width = -math.expm1(math.log1p(-mass) / self.dimension)
        return 1.0 / width if width > sys.float_info.min else math.inf

    def cover(self, gamma: float) -> NDArray[Any]:
        """Return the empty box and those between the middles of cells; see :meth:`HypothesisClass.cover`."""
        cells = least_cells(self._cells("gamma", gamma))
        pairs = cells * (cells - 1) // 2
        check_size("gamma", gamma, power(pairs, self.dimension) + 1, self.num_parameters)
        middles = (np.arange(cells) + 0.5) / cells
        low, high = np.triu_indices(cells, 1)
        empty = np.repeat([1.0, 0.0], self.dimension)[None]
        return np.concatenate([empty, self._product(middles[low], middles[high])])

    def brackets(self, epsilon: float) -> Brackets:
        """Return the brackets between inner and outer grid boxes; see :meth:`HypothesisClass.brackets`."""
        cells = least_cells(2.0 * self._cells("epsilon", epsilon))
        check_size("epsilon", epsilon, power(cells * (cells + 1) / 2, self.dimension), self.num_parameters)
        edges = np.arange(cells + 1) / cells
        middles = (np.arange(cells) + 0.5) / cells
        low, high = np.triu_indices(cells)
        inner = self._product(edges[low + 1], edges[high])
        outer = self._product(edges[low], edges[high + 1])
        number = np.zeros((cells, cells), dtype=np.int64)
        number[low, high] = np.arange(len(low))

        def predict(points: Any, which: Any) -> tuple[Labels, Labels]:
            return self.predict(inner[which], points), self.predict(outer[which], points)

        def locate(parameters: Any) -> IntArray:
            array = self.check_parameters(parameters)
            lows, highs = array[:, : self.dimension], array[:, self.dimension :]
            empty = ((lows > highs) | (lows > 1.0) | (highs < 0.0)).any(axis=1)
            # Every function above an empty one will do for an empty box.
            lows, highs = (np.where(empty[:, None], 0.0, ends) for ends in (lows, highs))
            one = number[find_cells(edges, lows), find_cells(edges, highs)]
            shape = (len(low),) * self.dimension
            return np.asarray(np.ravel_multi_index(tuple(one.T), shape), dtype=np.int64)

        gap = 1.0 - max(0.0, 1.0 - 2.0 / cells) ** self.dimension
        return Brackets(self._product(middles[low], middles[high]), gap, predict, locate)

    def _product(self, lows: Any, highs: Any) -> FloatArray:
        # All boxes whose sides are among the given intervals, the last axis fastest.
        which = np.indices((len(lows),) * self.dimension).reshape(self.dimension, -1).T
        return np.concatenate([lows[which], highs[which]], axis=1)

    def best_is_exact(self, num_points: int) -> bool:
        """True while n^(2d - 1) steps are few enough, always for d = 1."""
        return self.dimension == 1 or power(check_count("num_points", num_points), 2 * self.dimension - 1) <= MOST_WORK

    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return the best box, in O(n^(2d - 1)), or for large samples a local optimum.

        Large samples: from the whole cube and from the box around the points of label 1, one axis after the other gets
        its best interval given the other axes, until none improves. See :meth:`HypothesisClass.best_in_class`.
        """
        array, truth = self.check_sample(points, labels)
        weights = np.where(truth, 1, -1)
        if self.best_is_exact(len(array)):
            gain, lows, highs = _best_box(array, weights)
        else:
            positive = array[truth] if truth.any() else array
            starts = [(np.zeros(self.dimension), np.ones(self.dimension)), (positive.min(axis=0), positive.max(axis=0))]
            gain, lows, highs = max((_climb(array, weights, *start) for start in starts), key=lambda found: found[0])
        if gain <= 0:
            return np.repeat([1.0, 0.0], self.dimension), int(truth.sum())
        return np.concatenate([lows, highs]), int(truth.sum() - gain)

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return one box for each labelling of the points; see :meth:`HypothesisClass.dichotomies`."""
        array = self.check_points(points)
        sides = []
        size = 1.0
        for axis in range(self.dimension):
            values = np.unique(array[:, axis])
            low, high = np.triu_indices(len(values))
            sides.append(np.stack([values[low], values[high]], axis=1))
            size *= len(low)
        if size * max(len(array), self.num_parameters) > MOST_ENTRIES:
            raise ArgumentError(f"points: expected few enough to list their labellings but found {len(array)} of them")
        which = np.indices([len(side) for side in sides]).reshape(self.dimension, -1)
        ends = [side[rows] for side, rows in zip(sides, which, strict=True)]
        boxes = np.stack([*(end[:, 0] for end in ends), *(end[:, 1] for end in ends)], axis=1)
        boxes = np.concatenate([np.repeat([1.0, 0.0], self.dimension)[None], boxes])
        return boxes[distinct_rows(self.predict(boxes, array))]


class Intervals(Boxes):
    """Intervals in [0, 1]: parameters (low, high); hypothesis 1 where low <= x <= high. Boxes of dimension 1."""

    def __init__(self) -> None:
        super().__init__(1)


def find_cells(edges: FloatArray, values: Any) -> IntArray:
    """Return the number of a closed cell between neighbouring edges for each value, the nearest for those outside."""
    return np.asarray(np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2), dtype=np.int64)


def _best_box(points: FloatArray, weights: Any) -> tuple[int, FloatArray, FloatArray]:
    """Greatest sum of weights in a box, with its ends: all intervals of the last axes, the best one on the first."""
    dimension = points.shape[1]
    if dimension == 1:
        gains, low, high, values = _segments(points[:, 0], weights[None])
        return int(gains[0]), values[low[0] : low[0] + 1], values[high[0] : high[0] + 1]
    # An optimal box ends at points of positive weight.
    values = np.unique(points[weights > 0, -1])
    best: tuple[int, FloatArray, FloatArray] = (0, np.ones(dimension), np.zeros(dimension))
    for start, low in enumerate(values):
        ends = values[start:]
        if dimension == 2:
            inside = (points[:, -1] >= low) & (points[:, -1] <= ends[:, None])
            gains, first, last, axis = _segments(points[:, 0], np.where(inside, weights, 0))
            top = int(gains.argmax())
            found = [(int(gains[top]), axis[first[top], None], axis[last[top], None], ends[top])]
        else:
            found = []
            for end in ends:
                inside = (points[:, -1] >= low) & (points[:, -1] <= end)
                found.append((*_best_box(points[inside, :-1], weights[inside]), end))
        for gain, lows, highs, end in found:
            if gain > best[0]:
                best = (gain, np.append(lows, low), np.append(highs, end))
    return best


def _segments(values: FloatArray, weights: Any) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Greatest sum of each row of weights over an interval of values, the ends' numbers, the different values."""
    different, place = np.unique(values, return_inverse=True)
    order = np.argsort(place.ravel(), kind="stable")
    starts = np.searchsorted(place.ravel()[order], np.arange(len(different)))
    sums = np.add.reduceat(weights[:, order], starts, axis=1)
    totals = np.cumsum(sums, axis=1)
    before = totals - sums
    least = np.minimum.accumulate(before, axis=1)
    gains = totals - least
    last = gains.argmax(axis=1)
    rows = np.arange(len(weights))
    # The first place where the least sum before the end was reached.
    first = (before == least[rows, last][:, None]).argmax(axis=1)
    return gains[rows, last], first, last, different


def _climb(points: FloatArray, weights: Any, lows: FloatArray, highs: FloatArray) -> tuple[int, FloatArray, FloatArray]:
    lows, highs = lows.copy(), highs.copy()
    gain = int(weights[((points >= lows) & (points <= highs)).all(axis=1)].sum())
    axis = stale = 0
    while stale < points.shape[1]:
        others = np.arange(points.shape[1]) != axis
        inside = ((points >= lows) & (points <= highs))[:, others].all(axis=1)
        gains, first, last, values = _segments(points[:, axis], np.where(inside, weights, 0)[None])
        stale += 1
        if gains[0] > gain:
            gain, stale = int(gains[0]), 0
            lows[axis], highs[axis] = values[first[0]], values[last[0]]
        axis = (axis + 1) % points.shape[1]
    return gain, lows, highs
