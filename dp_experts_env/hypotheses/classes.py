"""Classes of 0/1 hypotheses over [0, 1]^d or a finite domain: predictions, covers, brackets, the best on a sample.

A *gamma-cover* under the uniform distribution is a finite set of hypotheses such that every hypothesis of the class
disagrees with one of them on a set of mass at most gamma. An *epsilon-bracket* is a pair of functions lower <= upper,
apart on a set of mass at most epsilon; it holds the hypotheses between them, and a bracketing is a finite set of
brackets that together hold the whole class. A cover serves against opponents that fix their sequence in advance, a
bracketing against adaptive ones (Haghtalab, Roughgarden and Shetty, "Smoothed analysis of online and differentially
private learning", 2020; S1): whatever sigma-smooth law an instance is drawn from, a bracket's ends differ on it with
probability at most epsilon/sigma, for all hypotheses of the bracket at once.

A class of VC dimension v has a gamma-cover of at most (41/gamma)^v hypotheses. Proof: a set of hypotheses pairwise more
than gamma apart has at most e (v + 1) (2 e/gamma)^v elements (Haussler 1995 [RECALLED]), a largest one is a cover, and
e (v + 1) (2 e)^v <= 41^v for v >= 1, by induction, since it holds at v = 1 and the left side grows by a factor of at
most 3 e. A class of VC dimension 0 has one hypothesis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, Parameters, check_count, check_number

Labels: TypeAlias = NDArray[np.uint8]

MOST_ENTRIES = 2**25
"""Largest number of entries of an array of parameters that is built (256 MiB of float64)."""

# The work of an exact search for the best hypothesis, in elementary steps: about a second or two.
MOST_WORK = 3e8


@dataclass(frozen=True)
class Brackets:
    """A bracketing: brackets 0..B-1, each a lower and an upper function, that together hold a whole class.

    Attributes:
        representatives: parameters of one hypothesis of the class in each bracket, shape ``(B, P)`` or ``(B,)``.
        gap: proved bound on the mass, under the uniform distribution, on which a bracket's ends differ.
    """

    representatives: NDArray[Any]
    gap: float
    _predict: Callable[[Any, Any], tuple[Labels, Labels]]
    _locate: Callable[[Any], IntArray]

    def __len__(self) -> int:
        return len(self.representatives)

    def predict(self, points: Any, which: Any = None) -> tuple[Labels, Labels]:
        """Return lower and upper values at the points, each of shape ``(B, n)``, or ``(len(which), n)``.

        Args:
            points: as in :meth:`HypothesisClass.predict`.
            which: numbers of the brackets asked for, ``None`` for all.

        Raises:
            ArgumentError: if an argument is out of range.
        """
        numbers = np.arange(len(self)) if which is None else as_array("which", which)
        if not numbers.size:
            numbers = np.zeros(0, dtype=np.int64)
        return self._predict(points, _check_indices("which", numbers, len(self)))

    def locate(self, parameters: Any) -> IntArray:
        """Return for each hypothesis the number of a bracket that holds it, shape ``(H,)``."""
        return self._locate(parameters)


class HypothesisClass(Parameters, ABC):
    """A class of hypotheses: functions from points to {0, 1}, each named by a row of parameters.

    An author overrides ``num_parameters``, ``vc_dimension``, :meth:`_predict`, :meth:`cover`, :meth:`brackets` and
    :meth:`best_in_class`, and :meth:`dichotomies` where all labellings of a sample can be listed.

    Attributes:
        dimension: d, where the points are those of [0, 1]^d.
        vc_is_exact: whether ``vc_dimension`` is the VC dimension, not only a bound on it.
    """

    dimension: int = 1
    vc_is_exact: bool = True

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """Number P of parameters of one hypothesis."""

    @property
    @abstractmethod
    def vc_dimension(self) -> int:
        """The VC dimension, or where ``vc_is_exact`` is false an upper bound on it."""

    @abstractmethod
    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]: ...

    @abstractmethod
    def cover(self, gamma: float) -> NDArray[Any]:
        """Return the parameters ``(H, P)`` of a gamma-cover under the uniform distribution, gamma in (0, 1].

        Raises:
            ArgumentError: gamma out of range, or so small that the cover does not fit in memory.
        """

    @abstractmethod
    def brackets(self, epsilon: float) -> Brackets:
        """Return a bracketing whose ends differ on mass at most epsilon each, epsilon in (0, 1].

        Raises:
            ArgumentError: epsilon out of range, or so small that the bracketing does not fit in memory.
        """

    @abstractmethod
    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return parameters ``(P,)`` of a hypothesis with few errors on a sample, and its number of errors.

        No hypothesis of the whole class has fewer errors where :meth:`best_is_exact` says so.

        Args:
            points: n >= 1 points.
            labels: shape ``(n,)``, each 0 or 1.

        Raises:
            ArgumentError: points or labels out of range.
        """

    def best_is_exact(self, num_points: int) -> bool:
        """Whether :meth:`best_in_class` is exact on any sample of ``num_points`` points."""
        check_count("num_points", num_points)
        return True

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return parameters ``(H, P)`` of one hypothesis for each labelling that the class gives the points.

        Raises:
            NotImplementedError: for a class that cannot list them.
            ArgumentError: points out of range, or too many of them.
        """
        raise NotImplementedError(f"{type(self).__name__} does not list the labellings of a sample")

    def predict(self, parameters: Any, points: Any) -> Labels:
        """Return the label of each point by each hypothesis, uint8 0 or 1 of shape ``(H, n)``.

        Args:
            parameters: shape ``(H, P)``, or ``(P,)`` for one hypothesis; for P = 1 shape ``(H,)``.
            points: shape ``(n, d)`` in [0, 1]^d, or ``(n,)`` for d = 1.

        Raises:
            ArgumentError: a wrong shape, or a point outside [0, 1]^d (the message names it).
        """
        return self._predict(self.check_parameters(parameters), self.check_points(points)).astype(np.uint8)

    def signs(self, parameters: Any, points: Any) -> NDArray[np.int8]:
        """Return :meth:`predict` with labels -1 and 1 in place of 0 and 1, int8."""
        return 2 * self.predict(parameters, points).astype(np.int8) - 1

    def on(self, points: Any) -> FiniteClass:
        """Return this class on a finite domain, one row for each different labelling of the points."""
        return FiniteClass(self.predict(self.dichotomies(points), points))

    def cover_size_bound(self, gamma: float) -> float:
        """Return (41/gamma)^v, v the VC dimension: some gamma-cover is no larger; infinite beyond float64."""
        size = self.vc_dimension * math.log(41.0 / check_mass("gamma", gamma))
        return math.exp(size) if size < 709.0 else math.inf

    def check_parameters(self, parameters: Any) -> Any:
        """Return parameters as float64 of shape ``(H, P)``, or raise :class:`ArgumentError`."""
        array = as_floats("parameters", parameters)
        if array.ndim == 1:
            array = array[:, None] if self.num_parameters == 1 else array[None]
        if array.ndim != 2 or array.shape[1] != self.num_parameters:
            raise ArgumentError(f"parameters: expected shape (H, {self.num_parameters}) but found {array.shape}")
        if np.isnan(array).any():
            row = int(np.isnan(array).any(axis=1).argmax())
            raise ArgumentError(f"parameters: expected numbers but found {array[row]} for hypothesis {row}")
        return array

    def check_points(self, points: Any) -> Any:
        """Return points as float64 of shape ``(n, d)``, or raise :class:`ArgumentError` that names the point."""
        array = as_floats("points", points)
        if array.ndim == 1 and self.dimension == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise ArgumentError(f"points: expected shape (n, {self.dimension}) but found {array.shape}")
        outside = ~((array >= 0.0) & (array <= 1.0)).all(axis=1)
        if outside.any():
            row = int(outside.argmax())
            raise ArgumentError(f"points: expected [0, 1]^{self.dimension} but found point {row}: {array[row]}")
        return array

    def check_sample(self, points: Any, labels: Any) -> tuple[Any, NDArray[np.bool_]]:
        """Return a sample's points and its labels as bool, or raise :class:`ArgumentError`."""
        array = self.check_points(points)
        given = as_array("labels", labels)
        if given.shape != (len(array),) or not len(array) or given.dtype.kind not in "biuf":
            raise ArgumentError(f"labels: expected shape ({max(1, len(array))},) but found {given.shape} {given.dtype}")
        wrong = ~((given == 0) | (given == 1))
        if wrong.any():
            row = int(wrong.argmax())
            raise ArgumentError(f"labels: expected 0 or 1 but found {given[row].item()!r} for point {row}")
        return array, given.astype(bool)


def as_floats(name: str, values: Any) -> FloatArray:
    """Return an array of real numbers as float64, or raise :class:`ArgumentError` that names it."""
    array = as_array(name, values)
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"{name}: expected numbers but found dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return an array, or raise :class:`ArgumentError` that names it where the values are ragged."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ArgumentError(f"{name}: expected a rectangular array of numbers but found {values!r}") from error


def check_mass(name: str, value: Any) -> float:
    """Return a mass in (0, 1], or raise :class:`ArgumentError` that names it."""
    return check_number(name, value, 0.0, 1.0, low_open=True)


def check_size(name: str, mass: float, size: float, num_parameters: int) -> None:
    """Refuse a set of hypotheses that does not fit in memory."""
    if size * num_parameters > MOST_ENTRIES:
        raise ArgumentError(
            f"{name}: expected one whose hypotheses fit in memory ({MOST_ENTRIES} numbers) "
            f"but found {mass!r}, which needs {size:.3g} of {num_parameters} parameters"
        )


def power(base: float, exponent: int) -> float:
    """Return base^exponent, infinite beyond float64."""
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


MOST_WEIGHT = 1e100
"""Largest size of a weight of a linear hypothesis, so that no sum over a point overflows."""


def check_weights(parameters: FloatArray) -> FloatArray:
    """Return parameters of linear hypotheses, or raise :class:`ArgumentError` for one that is infinite or huge."""
    bad = (np.abs(parameters) > MOST_WEIGHT).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise ArgumentError(
            f"parameters: expected weights in [{-MOST_WEIGHT:g}, {MOST_WEIGHT:g}] but found {parameters[row]} for "
            f"hypothesis {row}; a hypothesis stays the same when it is scaled"
        )
    return parameters


def least_cells(count: float) -> int:
    """Return the least integer >= max(1, count), where count may be rounded up in its last digits."""
    if not count < 2.0**53:
        return 2**53
    return max(1, math.ceil(count * (1.0 - 1e-12)))


class FiniteClass(HypothesisClass):
    """Any finite class over a finite domain 0..X-1, from the matrix of its values; masses are uniform over the domain.

    Parameters are row numbers, points column numbers.

    Args:
        matrix: shape ``(H, X)``, each entry 0 or 1; kept as uint8.

    Raises:
        ArgumentError: a wrong shape, or an entry other than 0 and 1.
    """

    num_parameters = 1

    def __init__(self, matrix: Any) -> None:
        given = as_array("matrix", matrix)
        if given.ndim != 2 or not given.size or given.dtype.kind not in "biuf":
            raise ArgumentError(f"matrix: expected shape (H, X), H, X >= 1, but found {given.shape} {given.dtype}")
        if not ((given == 0) | (given == 1)).all():
            row, column = np.argwhere((given != 0) & (given != 1))[0]
            raise ArgumentError(
                f"matrix: expected 0 or 1 but found {given[row, column].item()!r} in row {row}, column {column}"
            )
        self.matrix: Labels = given.astype(np.uint8)

    @cached_property
    def _shattered(self) -> tuple[int, bool]:
        # Sets that are shattered have shattered subsets only: grow them one column at a time.
        columns = np.unique(self.matrix[distinct_rows(self.matrix)], axis=1).astype(np.int64)
        most = int(math.log2(len(columns)))
        # Each row's labels on a set of columns, read as a number.
        level: list[tuple[int, Any]] = [(-1, np.zeros(len(columns), dtype=np.int64))]
        work = 0.0
        for size in range(most):
            following = []
            for last, codes in level:
                for column in range(last + 1, columns.shape[1]):
                    work += len(columns)
                    if work > MOST_WORK / 10:
                        return most, False
                    longer = 2 * codes + columns[:, column]
                    if len(np.unique(longer)) == 2 ** (size + 1):
                        following.append((column, longer))
            if not following:
                return size, True
            level = following
        return most, True

    @property
    def vc_dimension(self) -> int:
        """The VC dimension by search; ``floor(log2 H)`` where that takes too long."""
        return self._shattered[0]

    @property
    def vc_is_exact(self) -> bool:  # type: ignore[override]
        """Whether the search for the VC dimension came to its end."""
        return self._shattered[1]

    def check_parameters(self, parameters: Any) -> Any:
        """Return row numbers as int64 of shape ``(H,)``, or raise :class:`ArgumentError`."""
        array = as_array("parameters", parameters)
        array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        return _check_indices("parameters", array, len(self.matrix))

    def check_points(self, points: Any) -> Any:
        """Return column numbers as int64 of shape ``(n,)``, or raise :class:`ArgumentError`."""
        return _check_indices("points", as_array("points", points), self.matrix.shape[1])

    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]:
        return self.matrix[np.ix_(parameters, points)]

    def cover(self, gamma: float) -> NDArray[Any]:
        """Return rows more than gamma apart that cover all; at most (41/gamma)^v. See :meth:`HypothesisClass.cover`."""
        allowed = int(check_mass("gamma", gamma) * self.matrix.shape[1] * (1.0 + 1e-12))
        left = np.arange(len(self.matrix))
        chosen = []
        while len(left):
            chosen.append(left[0])
            left = left[(self.matrix[left] != self.matrix[left[0]]).sum(axis=1) > allowed]
        return np.array(chosen)[:, None]

    def brackets(self, epsilon: float) -> Brackets:
        """Return groups of rows between their minimum and maximum; see :meth:`HypothesisClass.brackets`.

        Greedy: a row goes where it fits with the least new gap, else opens a group.
        """
        allowed = int(check_mass("epsilon", epsilon) * self.matrix.shape[1] * (1.0 + 1e-12))
        lower, upper = np.empty_like(self.matrix), np.empty_like(self.matrix)
        first: list[int] = []
        place = np.empty(len(self.matrix), dtype=np.int64)
        for number, row in enumerate(self.matrix):
            groups = len(first)
            gaps = ((upper[:groups] | row) ^ (lower[:groups] & row)).sum(axis=1, dtype=np.int64)
            group = int(gaps.argmin()) if groups else 0
            if not groups or gaps[group] > allowed:
                group = groups
                first.append(number)
                lower[group] = upper[group] = row
            lower[group] &= row
            upper[group] |= row
            place[number] = group
        lower, upper = lower[: len(first)].copy(), upper[: len(first)].copy()

        def predict(points: Any, which: Any) -> tuple[Labels, Labels]:
            where = np.ix_(which, self.check_points(points))
            return lower[where], upper[where]

        def locate(parameters: Any) -> IntArray:
            return np.asarray(place[self.check_parameters(parameters)])

        gap = float((upper != lower).mean(axis=1).max())
        return Brackets(np.array(first)[:, None], gap, predict, locate)

    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return the first row with the fewest errors, exact; see :meth:`HypothesisClass.best_in_class`."""
        array, truth = self.check_sample(points, labels)
        used, weights = merge_values(array, np.where(truth, 1, -1))
        gains = self.matrix[:, used] @ weights
        best = int(gains.argmax())
        return np.array([best]), int(truth.sum() - gains[best])

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return one row for each labelling of the points; see :meth:`HypothesisClass.dichotomies`."""
        return distinct_rows(self.matrix[:, self.check_points(points)])[:, None]


def distinct_rows(labels: NDArray[Any]) -> IntArray:
    """Return the number of the first of each kind of row of 0s and 1s, ascending."""
    packed = np.packbits(labels.astype(bool), axis=1)
    return np.sort(np.unique(packed, axis=0, return_index=True)[1]).astype(np.int64)


def merge_values(values: NDArray[Any], weights: Any) -> tuple[NDArray[Any], IntArray]:
    """Return the different values, ascending, and the sum of weights at each."""
    different, place = np.unique(values, return_inverse=True)
    totals = np.zeros(len(different), dtype=np.int64)
    np.add.at(totals, place.ravel(), weights)
    return different, totals


def _check_indices(name: str, array: NDArray[Any], size: int) -> IntArray:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentError(f"{name}: expected integers of shape (n,) but found {array.dtype} of shape {array.shape}")
    if len(array) and (array.min() < 0 or array.max() >= size):
        row = int(((array < 0) | (array >= size)).argmax())
        raise ArgumentError(f"{name}: expected 0..{size - 1} but found {array[row]} at {row}")
    return array.astype(np.int64)
