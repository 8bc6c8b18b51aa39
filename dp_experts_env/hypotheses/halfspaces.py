"""Halfspaces, polynomial thresholds and intersections of halfspaces over [0, 1]^d.

Brackets hold in every point, by proof: if weights differ from the middle v of a cell by at most r_a each, then
<w, phi(x)> differs from <v, phi(x)> by at most s(x) = sum r_a abs(phi_a(x)), so ``<v, phi(x)> >= s(x)`` and
``<v, phi(x)> >= -s(x)`` bracket the cell. What remains is the mass of the band between them; see each class.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
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
    check_weights,
    distinct_rows,
    least_cells,
    power,
)
from dp_experts_env.hypotheses.separators import all_separators, best_separator, is_exact
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, check_count

# Rounding of <w, phi(x)> is far smaller.
_ROUNDING = 1e-12
# Cells of polynomials, up to mirror images: each is checked on some thousand cubes, half a minute in all.
_MOST_CELLS = 2**17


class Halfspaces(HypothesisClass):
    """Halfspaces of [0, 1]^d: parameters (w_1..w_d, b); hypothesis 1 where <w, x> >= b.

    Cells: with z = 2x - 1 and c = 2b - sum w the hypothesis is <w, z> >= c. Scale w so that its largest entry w_j is
    1 or -1; then c beyond sum abs(w_i) gives a constant. For two hypotheses with the same w_j, fix all other
    coordinates of z: each is a threshold in z_j, so they disagree in z_j on an interval as long as the difference of
    the right sides, and z_j has density 1/2. Averaged over the others, where E abs(z_i) = 1/2, they disagree on mass
    at most ``(abs(c - c') + sum_i abs(w_i - w'_i)/2)/2``; so cells of half widths rho for c and r for the other w_i
    have middles within (rho + r (d - 1)/2)/2 of all their members, and bands of mass at most rho + r (d - 1)/2. Used
    with rho = m/d and r = 2m/d where that sum shall be m. [DERIVED]

    Args:
        dimension: d, an integer >= 1.
    """

    def __init__(self, dimension: int = 2) -> None:
        self.dimension = check_count("dimension", dimension, most=1000)

    @property
    def num_parameters(self) -> int:
        """Weights and a bias."""
        return self.dimension + 1

    @property
    def vc_dimension(self) -> int:
        """One more than the dimension, exactly."""
        return self.dimension + 1

    def check_parameters(self, parameters: Any) -> Any:
        """Return parameters as float64 of shape ``(H, P)``, or raise :class:`ArgumentError`."""
        return check_weights(super().check_parameters(parameters))

    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]:
        return np.asarray(parameters[:, :-1] @ points.T >= parameters[:, -1:])

    def cover(self, gamma: float) -> NDArray[Any]:
        """Return the middles of cells of band 2 gamma; see :meth:`HypothesisClass.cover`."""
        return _Grid(self.dimension, "gamma", gamma, 2.0).middles()

    def brackets(self, epsilon: float) -> Brackets:
        """Return the bands around the middles of cells; see :meth:`HypothesisClass.brackets`."""
        grid = _Grid(self.dimension, "epsilon", epsilon, 1.0)
        middles = grid.middles()

        def predict(points: Any, which: Any) -> tuple[Labels, Labels]:
            array = self.check_points(points)
            values = middles[which, :-1] @ array.T - middles[which, -1:]
            # In terms of x both sides are halved.
            slack = np.abs(2.0 * array - 1.0) @ np.full(self.dimension, grid.radius)
            own = np.abs(2.0 * array[:, grid.axis_of(which)].T - 1.0) * grid.radius
            band = (slack - own + grid.bias_radius[which, None]) / 2.0 + _ROUNDING
            return (values >= band).astype(np.uint8), (values >= -band).astype(np.uint8)

        def locate(parameters: Any) -> IntArray:
            return grid.locate(self.check_parameters(parameters))

        return Brackets(middles, float(grid.gap), predict, locate)

    def best_is_exact(self, num_points: int) -> bool:
        """True while ``choose(n, d - 1) n`` is small enough: up to thousands of points in the plane."""
        return is_exact(check_count("num_points", num_points), self.dimension)

    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return the best halfspace, in O(n^d log n), or for large samples a local optimum.

        Exact among labellings that some halfspace gives with a margin of at least 1e-8. The local optimum starts from
        the least sum of margin violations, so that a halfspace without errors is found at any n. See
        :meth:`HypothesisClass.best_in_class`.
        """
        array, truth = self.check_sample(points, labels)
        weights, bias = best_separator(array, truth)
        found = np.append(weights, bias)
        return found, int((self._predict(found[None], array)[0] != truth).sum())

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return one halfspace for each labelling of the points; see :meth:`HypothesisClass.dichotomies`."""
        separators = all_separators(self.check_points(points))
        return np.array([np.append(weights, bias) for weights, bias in separators])


class _Grid:
    """Cells of halfspaces: faces (axis and sign of the largest weight), then the other weights, then the bias."""

    def __init__(self, dimension: int, name: str, mass: float, bands: float) -> None:
        total = bands * check_mass(name, mass)
        self.dimension, others = dimension, dimension - 1
        steps = least_cells(dimension / (2.0 * total))
        # As many as there may be: each cell's biases reach no further than d.
        check_size(name, mass, 2 * dimension * power(steps, others) * least_cells(dimension**2 / total), dimension + 1)
        self.steps, self.radius = steps, 1.0 / steps
        grid = (np.indices((steps,) * others).reshape(others, steps**others).T * 2 + 1) / steps - 1.0
        # The greatest sum abs(w_i) in the cell: from there on hypotheses are constant.
        self.reach = 1.0 + (np.abs(grid) + self.radius).sum(axis=1)
        bias_band = total - self.radius * others / 2.0
        self.counts = np.array([least_cells(reach / bias_band) for reach in self.reach])
        self.starts = np.concatenate([[0], self.counts.cumsum()])
        cell = np.repeat(np.arange(len(grid)), self.counts)
        radius = self.reach / self.counts
        self.gap = min(1.0, float(radius.max()) + self.radius * others / 2.0)
        self.others = grid[cell]
        self.bias = -self.reach[cell] + radius[cell] * (2 * (np.arange(len(cell)) - self.starts[cell]) + 1)
        self.bias_radius = np.tile(radius[cell], 2 * dimension)

    def middles(self) -> FloatArray:
        """Parameters (w, b) of the middles of all cells."""
        faces = []
        for axis in range(self.dimension):
            for sign in (1.0, -1.0):
                weights = np.insert(self.others, axis, sign, axis=1)
                faces.append(np.column_stack([weights, (self.bias + weights.sum(axis=1)) / 2.0]))
        return np.concatenate(faces)

    def axis_of(self, which: Any) -> IntArray:
        """Axis of the largest weight of each cell."""
        return np.asarray(which // (2 * len(self.bias)), dtype=np.int64)

    def locate(self, parameters: FloatArray) -> IntArray:
        """Number of the cell that holds each halfspace."""
        weights, bias = parameters[:, :-1], parameters[:, -1]
        axis = np.abs(weights).argmax(axis=1)
        rows = np.arange(len(weights))
        scale = np.abs(weights[rows, axis])
        flat = scale == 0.0
        # Without weights a hypothesis is constant, as one along the first axis with a bias out of reach.
        weights = np.where(flat[:, None], 0.0, weights) / np.where(flat, 1.0, scale)[:, None]
        weights[flat, 0] = 1.0
        constant = np.where(bias > 0.0, np.inf, -np.inf)
        with np.errstate(over="ignore"):
            # An infinite bias is a constant's.
            centred = np.where(flat, constant, 2.0 * bias / np.where(flat, 1.0, scale) - weights.sum(axis=1))
        negative = weights[rows, axis] < 0.0
        keep = np.arange(self.dimension) != axis[:, None]
        others = weights[keep].reshape(len(weights), self.dimension - 1)
        places = np.clip(np.floor((others + 1.0) * self.steps / 2.0), 0, self.steps - 1).astype(np.int64)
        cell = places @ (self.steps ** np.arange(self.dimension - 2, -1, -1, dtype=np.int64))
        reach, count = self.reach[cell], self.counts[cell]
        share = (np.clip(centred, -reach, reach) + reach) / (2.0 * reach)
        level = np.minimum((share * count).astype(np.int64), count - 1)
        face = 2 * axis + negative
        return np.asarray(face * len(self.bias) + self.starts[cell] + level, dtype=np.int64)


class PolynomialThresholds(HypothesisClass):
    """Signs of polynomials on [0, 1]^d: hypothesis 1 where sum_a w_a prod_i (2 x_i - 1)^(a_i) >= 0, degree bounded.

    Parameters are the weights of the monomials in z = 2x - 1, in the order of ``exponents``. Brackets: weights are
    scaled so that the largest is 1 or -1, and cells are split, the widest term first, until the band has mass at most
    epsilon. That mass is bounded by a checked rule: [-1, 1]^d is cut into equal cubes, and a cube counts unless the
    polynomial provably exceeds the slack all over it; with middle m and half width h, Taylor's expansion of a
    monomial has coefficients that are largest at abs(m), so its remainder beyond the gradient is at most that of
    the monomial at abs(m) with step h. The bound never errs downwards, and needs epsilon well above the cubes'
    width: few parameters and coarse brackets are practical (degree 2 in the plane: epsilon of 0.6 or more). [DERIVED]

    Args:
        dimension: d, an integer >= 1.
        degree: largest total degree, an integer >= 1.

    Attributes:
        exponents: shape ``(P, d)``, by total degree; the first row is the constant.
    """

    def __init__(self, dimension: int = 2, degree: int = 2) -> None:
        self.dimension = check_count("dimension", dimension, most=100)
        self.degree = check_count("degree", degree, most=100)
        if math.comb(self.dimension + self.degree, self.degree) > 10_000:
            raise ArgumentError(f"degree: expected at most 10000 monomials but found degree {degree} in {dimension}")
        rows = [
            np.bincount(np.array(factors, dtype=np.int64), minlength=self.dimension)
            for total in range(self.degree + 1)
            for factors in itertools.combinations_with_replacement(range(self.dimension), total)
        ]
        self.exponents: IntArray = np.array(rows, dtype=np.int64)

    @property
    def num_parameters(self) -> int:
        """Number of monomials, ``choose(d + degree, degree)``."""
        return len(self.exponents)

    @property
    def vc_dimension(self) -> int:
        """The number of monomials, exactly: signs of a linear space of functions (Dudley 1978)."""
        return len(self.exponents)

    def features(self, points: Any) -> FloatArray:
        """Return the monomials at the points, shape ``(n, P)``, entries in [-1, 1]."""
        return self._monomials(2.0 * self.check_points(points) - 1.0)

    def _monomials(self, centred: Any, exponents: IntArray | None = None) -> FloatArray:
        values = np.ones((len(centred), len(self.exponents)))
        for axis, powers in enumerate((self.exponents if exponents is None else exponents).T):
            values *= centred[:, axis, None] ** np.maximum(powers, 0)
        return values

    def check_parameters(self, parameters: Any) -> Any:
        """Return parameters as float64 of shape ``(H, P)``, or raise :class:`ArgumentError`."""
        return check_weights(super().check_parameters(parameters))

    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]:
        return np.asarray(parameters @ self._monomials(2.0 * points - 1.0).T >= 0.0)

    def cover(self, gamma: float) -> NDArray[Any]:
        """Return the middles of the brackets of gap gamma; see :meth:`HypothesisClass.cover`."""
        return self._cells("gamma", gamma)[0]

    def brackets(self, epsilon: float) -> Brackets:
        """Return the bands around the middles of cells; see :meth:`HypothesisClass.brackets`."""
        middles, radii, gap = self._cells("epsilon", epsilon)

        def predict(points: Any, which: Any) -> tuple[Labels, Labels]:
            features = self.features(points)
            values = middles[which] @ features.T
            band = radii[which] @ np.abs(features).T + _ROUNDING
            return (values >= band).astype(np.uint8), (values >= -band).astype(np.uint8)

        def locate(parameters: Any) -> IntArray:
            array = self.check_parameters(parameters)
            scale = np.abs(array).max(axis=1)
            array = np.where(scale[:, None] > 0.0, array, np.eye(1, len(self.exponents))[0])
            array = array / np.where(scale > 0.0, scale, 1.0)[:, None]
            found = np.empty(len(array), dtype=np.int64)
            step = max(1, 2**22 // middles.size)
            for start in range(0, len(array), step):
                rows = array[start : start + step, None]
                # The scaled largest weight is 1 up to rounding.
                found[start : start + step] = (np.abs(rows - middles) <= radii + 1e-15).all(axis=2).argmax(axis=1)
            return found

        return Brackets(middles, gap, predict, locate)

    def _cells(self, name: str, mass: float) -> tuple[FloatArray, FloatArray, float]:
        """Middles and half widths ``(B, P)`` of cells of weights, and the largest bound on the mass of a band."""
        mass = check_mass(name, mass)
        count = len(self.exponents)
        if mass * self._side < 1.0:
            raise ArgumentError(
                f"{name}: expected at least {1.0 / self._side:g}, the resolution of the check, but found {mass!r}"
            )
        middles, radii = np.eye(count), 1.0 - np.eye(count)
        if mass == 1.0:
            return np.concatenate([middles, -middles]), np.concatenate([radii, radii]), 1.0
        # E abs(z^a): what a term adds to the slack on average.
        sizes = 1.0 / (self.exponents + 1.0).prod(axis=1)
        done: list[tuple[FloatArray, FloatArray]] = []
        gap, total = 0.0, 0
        while len(middles):
            masses = self._band_masses(middles, radii)
            fits = masses <= mass
            if fits.any():
                gap = max(gap, float(masses[fits].max()))
                done.append((middles[fits], radii[fits]))
                total += int(fits.sum())
            middles, radii = middles[~fits], radii[~fits]
            if total + len(middles) > _MOST_CELLS:
                raise ArgumentError(f"{name}: expected a mass for which {_MOST_CELLS} cells do but found {mass!r}")
            rows, widest = np.arange(len(radii)), (radii * sizes).argmax(axis=1)
            radii[rows, widest] /= 2.0
            shift = np.zeros_like(middles)
            shift[rows, widest] = radii[rows, widest]
            middles, radii = np.concatenate([middles - shift, middles + shift]), np.concatenate([radii, radii])
        half = np.concatenate([cells for cells, _ in done])
        widths = np.concatenate([cells for _, cells in done])
        # Cells of the opposite face are mirror images.
        return np.concatenate([half, -half]), np.concatenate([widths, widths]), gap

    @property
    def _side(self) -> int:
        return max(2, round(math.pow(4096.0, 1.0 / self.dimension)))

    @cached_property
    def _cubes(self) -> tuple[FloatArray, list[FloatArray], FloatArray, FloatArray]:
        """At the cubes' middles, each ``(P, cubes)``: monomials, h times gradients, remainders, largest values."""
        if self._side**self.dimension * len(self.exponents) > MOST_ENTRIES:
            raise ArgumentError(f"dimension: expected few enough cubes for brackets but found {self.dimension} axes")
        half = 1.0 / self._side
        places = np.indices((self._side,) * self.dimension).reshape(self.dimension, -1).T
        middles = (2 * places + 1) * half - 1.0
        steps = self._gradients(middles, half)
        reach = np.abs(middles)
        largest = self._monomials(reach + half)
        remainders = largest - self._monomials(reach) - np.sum(self._gradients(reach, half), axis=0)
        return self._monomials(middles).T, [step.T for step in steps], np.maximum(remainders, 0.0).T, largest.T

    def _gradients(self, centred: Any, half: float) -> list[FloatArray]:
        units = np.eye(self.dimension, dtype=np.int64)
        return [
            half * self.exponents[:, axis] * self._monomials(centred, self.exponents - units[axis])
            for axis in range(self.dimension)
        ]

    def _band_masses(self, middles: FloatArray, radii: FloatArray) -> FloatArray:
        values, steps, remainders, largest = self._cubes
        masses = np.empty(len(middles))
        chunk = max(1, 2**22 // values.shape[1])
        for start in range(0, len(middles), chunk):
            rows = slice(start, start + chunk)
            clear = np.abs(middles[rows] @ values) - np.abs(middles[rows]) @ remainders - radii[rows] @ largest
            for step in steps:
                clear -= np.abs(middles[rows] @ step)
            masses[rows] = (clear <= _ROUNDING).mean(axis=1)
        return masses

    def best_is_exact(self, num_points: int) -> bool:
        """True while ``choose(n, P - 2) n`` is small enough."""
        return is_exact(check_count("num_points", num_points), len(self.exponents) - 1)

    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return the best polynomial threshold: the best halfspace of the monomials, exact or a local optimum.

        See :meth:`Halfspaces.best_in_class`.
        """
        array, truth = self.check_sample(points, labels)
        weights, bias = best_separator(self.features(array)[:, 1:], truth)
        found = np.append(-bias, weights)
        return found, int((self._predict(found[None], array)[0] != truth).sum())

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return one polynomial for each labelling of the points; see :meth:`HypothesisClass.dichotomies`."""
        separators = all_separators(self.features(points)[:, 1:])
        return np.array([np.append(-bias, weights) for weights, bias in separators])


class Polytopes(HypothesisClass):
    """Intersections of k halfspaces in [0, 1]^d: parameters are those of the halfspaces one after the other.

    Intersections of k brackets of gap epsilon/k bracket the intersections, with gap at most epsilon; covers likewise.
    The VC dimension is at most ``2 (d + 1) k log2(3 k)`` (Blumer et al. 1989, Lemma 3.2.3 [RECALLED]), d + 1 for
    k = 1.

    Args:
        dimension: d, an integer >= 1.
        faces: k, an integer >= 1.
    """

    def __init__(self, dimension: int = 2, faces: int = 2) -> None:
        self.halfspaces = Halfspaces(dimension)
        self.dimension = self.halfspaces.dimension
        self.faces = check_count("faces", faces, most=100)

    @property
    def num_parameters(self) -> int:
        """Those of k halfspaces."""
        return self.faces * self.halfspaces.num_parameters

    @property
    def vc_is_exact(self) -> bool:  # type: ignore[override]
        """Only for one face."""
        return self.faces == 1

    @property
    def vc_dimension(self) -> int:
        """That of halfspaces for k = 1, else the bound."""
        if self.faces == 1:
            return self.halfspaces.vc_dimension
        return math.floor(2 * self.halfspaces.vc_dimension * self.faces * math.log2(3 * self.faces))

    def _split(self, parameters: FloatArray) -> list[FloatArray]:
        return np.split(parameters, self.faces, axis=1)

    def _predict(self, parameters: Any, points: Any) -> NDArray[Any]:
        inside = np.ones((len(parameters), len(points)), dtype=bool)
        for face in self._split(parameters):
            inside &= self.halfspaces._predict(face, points)
        return inside

    def _choices(self, name: str, mass: float, count: int) -> IntArray:
        # Which halfspaces, in ascending order, repetition allowed.
        check_size(name, mass, math.comb(count + self.faces - 1, self.faces), self.num_parameters)
        chosen = itertools.combinations_with_replacement(range(count), self.faces)
        return np.fromiter(itertools.chain.from_iterable(chosen), dtype=np.int64).reshape(-1, self.faces)

    def cover(self, gamma: float) -> NDArray[Any]:
        """Return the intersections of a (gamma/k)-cover of the halfspaces; see :meth:`HypothesisClass.cover`."""
        cover = self.halfspaces.cover(check_mass("gamma", gamma) / self.faces)
        return cover[self._choices("gamma", gamma, len(cover))].reshape(-1, self.num_parameters)

    def brackets(self, epsilon: float) -> Brackets:
        """Return the intersections of brackets of gap epsilon/k; see :meth:`HypothesisClass.brackets`."""
        inner = self.halfspaces.brackets(check_mass("epsilon", epsilon) / self.faces)
        chosen = self._choices("epsilon", epsilon, len(inner))
        keys = np.polynomial.polynomial.polyval(float(len(inner)), chosen[:, ::-1].T.astype(np.float64))

        def predict(points: Any, which: Any) -> tuple[Labels, Labels]:
            used, place = np.unique(chosen[which], return_inverse=True)
            lower, upper = inner.predict(points, used)
            place = place.reshape(-1, self.faces)
            return lower[place].min(axis=1), upper[place].min(axis=1)

        def locate(parameters: Any) -> IntArray:
            faces = [inner.locate(face) for face in self._split(self.check_parameters(parameters))]
            wanted = np.sort(np.stack(faces, axis=1), axis=1)
            found = np.polynomial.polynomial.polyval(float(len(inner)), wanted[:, ::-1].T.astype(np.float64))
            return np.asarray(np.searchsorted(keys, found), dtype=np.int64)

        middles = inner.representatives[chosen].reshape(-1, self.num_parameters)
        return Brackets(middles, min(1.0, self.faces * inner.gap), predict, locate)

    def best_is_exact(self, num_points: int) -> bool:
        """True for k = 1 as for halfspaces, and for small samples, whose labellings are listed."""
        count = check_count("num_points", num_points)
        if self.faces == 1:
            return self.halfspaces.best_is_exact(count)
        labellings = 2 * sum(math.comb(count - 1, order) for order in range(self.dimension + 1))
        return labellings <= 1000 and power(labellings, self.faces) * count <= MOST_WORK / 10

    def best_in_class(self, points: Any, labels: Any) -> tuple[NDArray[Any], int]:
        """Return the best polytope of a small sample, else a local optimum.

        Small samples: all intersections of all labellings by halfspaces. Else one halfspace after the other gets its
        best place given the others, starting from none, until no such step helps. See
        :meth:`HypothesisClass.best_in_class`.
        """
        array, truth = self.check_sample(points, labels)
        found = self._search(array, truth) if self.best_is_exact(len(array)) else self._descend(array, truth)
        return found, int((self._predict(found[None], array)[0] != truth).sum())

    def dichotomies(self, points: Any) -> NDArray[Any]:
        """Return one polytope for each labelling of the points; see :meth:`HypothesisClass.dichotomies`."""
        return self._intersections(self.check_points(points))

    def _intersections(self, points: FloatArray) -> FloatArray:
        halves = self.halfspaces.dichotomies(points)
        sides = self.halfspaces._predict(halves, points)
        polytopes, inside = halves, sides
        for _ in range(self.faces - 1):
            if len(inside) * len(sides) * len(points) > MOST_WORK:
                raise ArgumentError(f"points: expected few enough to list their labellings but found {len(points)}")
            both = (inside[:, None] & sides).reshape(-1, len(points))
            keep = distinct_rows(both)
            polytopes = np.concatenate([polytopes[keep // len(sides)], halves[keep % len(sides)]], axis=1)
            inside = both[keep]
        return polytopes

    def _search(self, points: FloatArray, truth: NDArray[np.bool_]) -> FloatArray:
        if self.faces == 1:
            return self.halfspaces.best_in_class(points, truth)[0]
        polytopes = self._intersections(points)
        return np.asarray(polytopes[(self._predict(polytopes, points) != truth).sum(axis=1).argmin()])

    def _descend(self, points: FloatArray, truth: NDArray[np.bool_]) -> FloatArray:
        everything = np.append(np.zeros(self.dimension), -1.0)
        faces = np.tile(everything, (self.faces, 1))
        errors = int((~truth).sum())
        turn = stale = 0
        while stale < self.faces:
            others = np.delete(faces, turn, axis=0)
            # Points outside the other halfspaces stay outside.
            inside = self.halfspaces._predict(others, points).all(axis=0)
            stale += 1
            if inside.any():
                face, _ = self.halfspaces.best_in_class(points[inside], truth[inside])
                changed = np.insert(others, turn, face, axis=0)
                now = int((self._predict(changed.reshape(1, -1), points)[0] != truth).sum())
                if now < errors:
                    faces, errors, stale = changed, now, 0
            turn = (turn + 1) % self.faces
        return faces.reshape(-1)
