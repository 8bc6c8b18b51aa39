"""Hypothesis classes, their covers and brackets; smooth laws, their projection and coupling; smooth data sets."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.special import rel_entr
from scipy.stats import chi2

from dp_experts_env.hypotheses import (
    Boxes,
    FiniteClass,
    Halfspaces,
    Intervals,
    PolynomialThresholds,
    Polytopes,
    SmoothDensity,
    SmoothLaw,
    Thresholds,
    candidates_for,
    check_smooth,
    coverage,
    largest_sigma,
    least_chi,
    project,
)
from dp_experts_env.hypotheses.boxes import _best_box
from dp_experts_env.hypotheses.halfspaces import _Grid
from dp_experts_env.hypotheses.separators import best_separator, is_exact
from dp_experts_env.spec import ArgumentError


def rng(seed=0):
    return np.random.default_rng(seed)


def lattice(side, dimension):
    """Middles of equal cubes, shape (side^d, d)."""
    return (np.indices((side,) * dimension).reshape(dimension, -1).T + 0.5) / side


def corners(side, dimension):
    """A lattice with the boundary, where rounding and closed ends matter."""
    return np.indices((side + 1,) * dimension).reshape(dimension, -1).T / side


def random_hypotheses(cls, numbers, count):
    if isinstance(cls, Thresholds):
        return numbers.uniform(-0.05, 1.05, count)[:, None]
    if isinstance(cls, Boxes):
        ends = numbers.uniform(-0.1, 1.1, (count, 2, cls.dimension))
        ends[: count // 2].sort(axis=1)
        return ends.reshape(count, -1)
    if isinstance(cls, Polytopes):
        return np.concatenate([random_hypotheses(cls.halfspaces, numbers, count) for _ in range(cls.faces)], axis=1)
    if isinstance(cls, Halfspaces):
        weights = numbers.normal(size=(count, cls.dimension)) * numbers.choice([1e-3, 1.0, 50.0], (count, 1))
        # Most boundaries pass through the cube.
        return np.column_stack([weights, (weights * numbers.uniform(-0.1, 1.1, weights.shape)).sum(axis=1)])
    if isinstance(cls, PolynomialThresholds):
        return numbers.normal(size=(count, cls.num_parameters)) * numbers.choice([0.0, 1.0, 3.0], (count, 1))
    return numbers.integers(0, len(cls.matrix), count)


GEOMETRIC = [
    (Thresholds(), 0.03),
    (Intervals(), 0.07),
    (Boxes(2), 0.3),
    (Boxes(3), 0.7),
    (Halfspaces(1), 0.1),
    (Halfspaces(2), 0.1),
    (Halfspaces(3), 0.3),
    (PolynomialThresholds(1, 2), 0.2),
    (PolynomialThresholds(2, 1), 0.3),
    (PolynomialThresholds(2, 2), 0.8),
    (Polytopes(1, 2), 0.2),
    (Polytopes(2, 2), 0.4),
]
SIDES = {1: 4000, 2: 80, 3: 24}


def ids(cases):
    return [f"{case[0]!r}-{case[1]}" for case in cases]


# ------------------------------------------------------------------------------------------------ covers and brackets


@pytest.mark.parametrize(("cls", "gamma"), GEOMETRIC, ids=ids(GEOMETRIC))
def test_covers_cover(cls, gamma):
    """300 random hypotheses, each within gamma of the cover on a lattice, which errs by 1.5 cubes an axis at most."""
    points = lattice(SIDES[cls.dimension], cls.dimension)
    truth = cls.predict(random_hypotheses(cls, rng(1), 300), points).astype(np.float32)
    cover = cls.cover(gamma)
    assert 1 <= len(cover) <= cls.cover_size_bound(gamma)
    nearest = np.full(len(truth), np.inf)
    for start in range(0, len(cover), 4000):
        rows = cls.predict(cover[start : start + 4000], points).astype(np.float32)
        apart = truth.sum(axis=1)[:, None] + rows.sum(axis=1) - 2.0 * truth @ rows.T
        nearest = np.minimum(nearest, apart.min(axis=1) / len(points))
    assert nearest.max() <= gamma + 1.5 * cls.dimension / SIDES[cls.dimension]
    # Not by being far too fine: some hypothesis is a good part of gamma away (a weak claim where cells are rough).
    assert nearest.max() >= gamma / 8


@pytest.mark.parametrize(("cls", "epsilon"), GEOMETRIC, ids=ids(GEOMETRIC))
def test_brackets_bracket(cls, epsilon):
    """Every hypothesis lies between the ends of its bracket in every point, whose ends differ on mass <= epsilon."""
    brackets = cls.brackets(epsilon)
    parameters = np.concatenate([random_hypotheses(cls, rng(2), 1500), special_hypotheses(cls)])
    which = brackets.locate(parameters)
    assert which.shape == (len(parameters),)
    assert which.min() >= 0
    assert which.max() < len(brackets)
    for points in (corners(9, cls.dimension), rng(3).random((500, cls.dimension))):
        lower, upper = brackets.predict(points, which)
        values = cls.predict(parameters, points)
        assert (lower <= values).all()
        assert (values <= upper).all()
    assert brackets.gap <= epsilon * (1 + 1e-9)
    # The ends' mass on a lattice, of brackets all over the list.
    points = lattice(SIDES[cls.dimension], cls.dimension)
    sample = np.unique(np.linspace(0, len(brackets) - 1, 400).astype(int))
    lower, upper = brackets.predict(points, sample)
    masses = (lower != upper).mean(axis=1)
    assert masses.max() <= brackets.gap + 1.5 * cls.dimension / SIDES[cls.dimension]
    assert masses.max() >= epsilon / 5
    middles = cls.predict(brackets.representatives[sample], points)
    assert ((lower <= middles) & (middles <= upper)).all()
    # A cover by representatives, and no larger than the bound on covers of its size.
    assert len(brackets) <= cls.cover_size_bound(epsilon)


def special_hypotheses(cls):
    """Constants, empty and full ones, and those whose boundary meets corners and grid edges."""
    if isinstance(cls, Thresholds):
        edges = np.arange(len(cls.brackets(0.03)) + 1) / len(cls.brackets(0.03))
        return np.concatenate([edges, [-np.inf, np.nextafter(1.0, 2.0), np.inf]])[:, None]
    if isinstance(cls, Boxes):
        ends = np.array([-np.inf, 0.0, 1 / 3, 0.5, 0.5, 1.0, np.inf])
        return np.array([[a] * cls.dimension + [b] * cls.dimension for a in ends for b in ends])
    if isinstance(cls, Polytopes):
        inner = special_hypotheses(cls.halfspaces)
        return np.concatenate([inner[rng(4).integers(0, len(inner), 200)] for _ in range(cls.faces)], axis=1)
    if isinstance(cls, Halfspaces):
        weights = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=cls.dimension)))
        weights = np.concatenate([weights, weights * 0.5, weights * 7.0])
        return np.array([[*row, bias] for row in weights for bias in (-9.0, -1.0, -0.5, 0.0, 0.5, 1.0, 9.0)])
    rows = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=min(4, cls.num_parameters))))
    return np.pad(rows, ((0, 0), (0, cls.num_parameters - rows.shape[1])))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_brackets_of_halfspaces_are_the_narrowest_of_their_cells(dimension):
    """A bracket's ends are the minimum and the maximum over the corners of its cell: a narrower band would fail."""
    cls, grid = Halfspaces(dimension), _Grid(dimension, "epsilon", 0.4, 1.0)
    brackets = cls.brackets(0.4)
    points = rng(4).random((400, dimension))
    for which in range(0, len(brackets), 7):
        middle = brackets.representatives[which]
        axis = int(grid.axis_of(which))
        lower, upper = brackets.predict(points, [which])
        values = []
        for signs in itertools.product([-1, 1], repeat=dimension):
            step = np.insert(np.array(signs[1:]) * grid.radius, axis, 0.0)
            bias = middle[-1] + (signs[0] * grid.bias_radius[which] + step.sum()) / 2
            values.append(cls.predict(np.append(middle[:-1] + step, bias), points)[0])
        np.testing.assert_array_equal(lower[0], np.min(values, axis=0))
        np.testing.assert_array_equal(upper[0], np.max(values, axis=0))


@pytest.mark.parametrize("rounds", [1, 10, 100, 1000, 10_000])
@pytest.mark.parametrize("sigma", [1.0, 0.5, 0.1, 0.01])
def test_thresholds_grid(rounds, sigma):
    brackets = Thresholds().brackets(sigma / math.sqrt(rounds))
    assert len(brackets) == math.ceil(math.sqrt(rounds) / sigma * (1 - 1e-12))
    cover = Thresholds().cover(sigma / math.sqrt(rounds))
    assert len(cover) == math.ceil(math.sqrt(rounds) / (2 * sigma) * (1 - 1e-12))
    # Exact: thresholds disagree on mass abs(theta - theta'), and the farthest are the ends and the middles between.
    farthest = max(cover[0, 0], 1 - cover[-1, 0], *(np.diff(cover[:, 0]) / 2))
    assert farthest <= sigma / math.sqrt(rounds) * (1 + 1e-9)


def test_box_covers_exactly():
    """Disagreement of boxes by volumes, exact: 3000 random boxes in d = 1, 2 against all of the cover."""
    for cls, gamma in ((Intervals(), 0.05), (Boxes(2), 0.3)):
        d, cover = cls.dimension, cls.cover(gamma)
        boxes = rng(5).random((3000, 2, d))
        boxes.sort(axis=1)
        for low, high in boxes:
            both = np.minimum(high, cover[:, d:]) - np.maximum(low, cover[:, :d])
            volume = np.prod(np.clip(cover[:, d:] - cover[:, :d], 0, None), axis=1)
            apart = np.prod(high - low) + volume - 2 * np.prod(np.clip(both, 0, None), axis=1)
            assert apart.min() <= gamma


def test_box_sizes():
    """Least n with 1 - (1 - 2/n)^d <= epsilon; (n (n + 1)/2)^d brackets; for d = 1: ceil(2/epsilon)."""
    for epsilon in (0.5, 0.1, 0.03):
        n = math.ceil(2 / epsilon * (1 - 1e-12))
        assert len(Intervals().brackets(epsilon)) == n * (n + 1) // 2
        n = next(n for n in itertools.count(2) if 1 - (1 - 2 / n) ** 2 <= epsilon * (1 + 1e-12))
        if epsilon > 0.03:
            assert len(Boxes(2).brackets(epsilon)) == (n * (n + 1) // 2) ** 2
    # The widest bracket, that of the whole square, has just the gap that is proved.
    brackets = Boxes(2).brackets(0.3)
    which = brackets.locate([[0.0, 0.0, 1.0, 1.0]])
    cells = math.isqrt(2 * math.isqrt(len(brackets)))
    lower, upper = brackets.predict(lattice(13 * cells, 2), which)
    assert (upper - lower).mean() == pytest.approx(brackets.gap, abs=1e-12)


def test_sizes_stay_under_the_bound():
    for cls in (Thresholds(), Intervals(), Boxes(2), Halfspaces(1), Halfspaces(2), Halfspaces(3), Halfspaces(4)):
        for gamma in (1.0, 0.5, 0.3):
            assert len(cls.cover(gamma)) <= cls.cover_size_bound(gamma)
    assert Thresholds().cover_size_bound(0.01) == pytest.approx(4100)
    assert Halfspaces(2).cover_size_bound(0.5) == pytest.approx(82**3)
    assert Polytopes(20, 50).cover_size_bound(0.01) == math.inf


def test_sets_too_large_are_refused():
    for cls in (Thresholds(), Intervals(), Boxes(300), Halfspaces(40), Polytopes(2, 3), PolynomialThresholds(2, 2)):
        for build in (cls.cover, cls.brackets):
            with pytest.raises(ArgumentError, match=r"(gamma|epsilon): expected"):
                build(1e-9)
            for wrong in (0.0, 1.5, math.nan, "x"):
                with pytest.raises(ArgumentError, match=r"(gamma|epsilon): expected a number in \(0, 1\]"):
                    build(wrong)


def test_band_masses_of_polynomials_never_err_downwards():
    """The proved bound on the band's mass against a finer lattice; and not upwards by far too much."""
    numbers = rng(6)
    for cls in (PolynomialThresholds(1, 3), PolynomialThresholds(2, 2), PolynomialThresholds(3, 1)):
        middles = numbers.uniform(-1, 1, (40, cls.num_parameters))
        radii = numbers.uniform(0, 0.1, middles.shape)
        proved = cls._band_masses(middles, radii)
        features = cls.features(lattice({1: 65536, 2: 256, 3: 48}[cls.dimension], cls.dimension))
        measured = (np.abs(middles @ features.T) <= radii @ np.abs(features).T).mean(axis=1)
        assert (proved >= measured - 1e-9).all()
        assert (proved <= measured + {1: 0.01, 2: 0.25, 3: 0.6}[cls.dimension]).all()


def test_remainders_of_monomials():
    """Beyond its gradient a monomial moves by at most its remainder in a cube, and by that in the outer corner."""
    for cls in (PolynomialThresholds(1, 5), PolynomialThresholds(2, 3), PolynomialThresholds(3, 2)):
        values, steps, remainders, largest = cls._cubes
        side = round(values.shape[1] ** (1 / cls.dimension))
        middles = 2 * lattice(side, cls.dimension) - 1
        attained = np.zeros_like(remainders)
        for shift in (*rng(7).uniform(-1, 1, (20, cls.dimension)), np.ones(cls.dimension)):
            moved = cls.features((middles + shift / side + 1) / 2).T
            linear = values + sum(part * step for part, step in zip(shift, steps, strict=True))
            assert (np.abs(moved - linear) <= remainders + 1e-12).all()
            assert (np.abs(moved) <= largest + 1e-12).all()
            attained = np.abs(moved - linear)
        outer = (middles > 0).all(axis=1)
        np.testing.assert_allclose(attained[:, outer], remainders[:, outer], atol=1e-12)
        assert remainders.max() > 1e-7


# ----------------------------------------------------------------------------------------------------- VC dimensions


@pytest.mark.parametrize(
    ("cls", "points", "vc"),
    [
        (Thresholds(), [0.1, 0.4, 0.8, 1.0], 1),
        (Intervals(), [0.0, 0.3, 0.6, 0.9, 1.0], 2),
        (Boxes(2), [[0.5, 0.1], [0.5, 0.9], [0.1, 0.5], [0.9, 0.5], [0.5, 0.5], [0.7, 0.6]], 4),
        (Halfspaces(1), [0.2, 0.5, 0.7], 2),
        (Halfspaces(2), [[0.1, 0.1], [0.9, 0.2], [0.3, 0.8], [0.7, 0.9], [0.4, 0.35]], 3),
        (Halfspaces(3), [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.7, 0.9]], 4),
        (PolynomialThresholds(1, 2), [0.1, 0.3, 0.6, 0.7, 0.95], 3),
        (PolynomialThresholds(1, 3), [0.1, 0.3, 0.6, 0.7, 0.95], 4),
    ],
    ids=repr,
)
def test_vc_dimension(cls, points, vc):
    """A set of that size is shattered and no larger subset of the points is, by search over all labellings."""
    finite = cls.on(points)
    assert (cls.vc_dimension, cls.vc_is_exact) == (vc, True)
    assert (finite.vc_dimension, finite.vc_is_exact) == (vc, True)


def test_vc_of_polytopes_is_a_bound():
    circle = np.linspace(0, 2 * np.pi, 5, endpoint=False)
    points = 0.5 + 0.45 * np.stack([np.cos(circle), np.sin(circle)], axis=1)
    for faces, least in ((1, 3), (2, 5)):
        cls = Polytopes(2, faces)
        assert cls.on(points).vc_dimension == least <= cls.vc_dimension
        assert cls.vc_is_exact == (faces == 1)
    assert Polytopes(2, 2).vc_dimension == math.floor(12 * math.log2(6))


@pytest.mark.parametrize(("count", "dimension"), [(2, 2), (6, 1), (7, 2), (5, 3), (6, 3)])
def test_labellings_are_as_many_as_cover_counts(count, dimension):
    """In general position: 2 sum_{k <= d} choose(n - 1, k), Cover 1965; and no labelling comes twice."""
    points = rng(count).random((count, dimension))
    found = Halfspaces(dimension).dichotomies(points)
    labels = Halfspaces(dimension).predict(found, points)
    assert (
        len(found) == len(np.unique(labels, axis=0)) == 2 * sum(math.comb(count - 1, k) for k in range(dimension + 1))
    )


def test_labellings_in_special_position():
    """The 3 x 3 lattice has 58 (29 partitions by a line, twice), the cube 104 (threshold functions of three bits)."""
    assert len(Halfspaces(2).dichotomies(corners(2, 2))) == 58
    assert len(Halfspaces(2).dichotomies(corners(2, 2) / 10 + 0.3)) == 58
    assert len(Halfspaces(3).dichotomies(corners(1, 3))) == 104
    assert len(Halfspaces(2).dichotomies([[0.1, 0.1], [0.5, 0.5], [0.9, 0.9], [0.5, 0.5]])) == 6
    assert len(Halfspaces(2).dichotomies([[0.5, 0.5], [0.5, 0.5]])) == 2
    assert len(Thresholds().dichotomies([0.5, 0.5, 1.0])) == 3
    # Intervals: empty or from one of n points to a later one.
    assert len(Intervals().dichotomies([0.1, 0.2, 0.4, 1.0])) == 11
    # A quadratic on a line of n points changes sign at most twice.
    assert len(PolynomialThresholds(1, 2).dichotomies(np.arange(6) / 5)) == 2 * (1 + 5 + 10)


# ---------------------------------------------------------------------------------------------------- best in class


def separable(points, labels):
    """Whether some halfspace has these labels: an independent linear programme."""
    sign = np.where(labels, 1.0, -1.0)[:, None]
    rows = np.concatenate([-sign * points, sign], axis=1)
    return linprog(np.zeros(rows.shape[1]), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None)).status == 0


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_best_halfspace_of_all_labellings(dimension, special):
    """Every labelling of seven points is tried by a linear programme; samples with repeated points, too."""
    numbers = rng(10 * dimension + special)
    points = numbers.permutation(corners(2, dimension) if special and dimension > 1 else numbers.random((7, dimension)))
    points = points[:7]
    possible = [
        pattern
        for pattern in itertools.product([False, True], repeat=len(points))
        if separable(points, np.array(pattern))
    ]
    cls = Halfspaces(dimension)
    for _ in range(12):
        sample = numbers.integers(0, len(points), 15)
        labels = numbers.integers(0, 2, 15)
        least = min((np.array(pattern)[sample] != labels).sum() for pattern in possible)
        found, errors = cls.best_in_class(points[sample], labels)
        assert found.shape == (dimension + 1,)
        assert errors == least == (cls.predict(found, points[sample])[0] != labels).sum()
    assert cls.best_is_exact(15)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.sampled_from([Thresholds(), Intervals(), Boxes(2), Boxes(3), Polytopes(2, 2), PolynomialThresholds(1, 2)]),
    st.data(),
)
def test_best_equals_brute_force_over_labellings(cls, data):
    count = data.draw(st.integers(1, 6))
    # A coarse lattice: ties, repeated points, both ends.
    points = data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * cls.dimension), min_size=count, max_size=count))
    points = np.array(points) / 4
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    least = (cls.predict(cls.dichotomies(points), points) != labels).sum(axis=1).min()
    found, errors = cls.best_in_class(points, labels)
    assert errors == least == (cls.predict(found, points)[0] != labels).sum()
    assert found.shape == (cls.num_parameters,)
    assert cls.best_is_exact(count)


def test_labellings_are_independent_of_the_search():
    """Labellings by thresholds and boxes against their definitions, by hand."""
    points = np.array([[0.2, 0.3], [0.6, 0.1], [0.4, 0.9], [0.8, 0.5]])
    listed = {tuple(row) for row in Boxes(2).predict(Boxes(2).dichotomies(points), points)}
    by_hand = {(0, 0, 0, 0)}
    for size in range(1, 5):
        for subset in itertools.combinations(range(4), size):
            low, high = points[list(subset)].min(axis=0), points[list(subset)].max(axis=0)
            by_hand.add(tuple(((points >= low) & (points <= high)).all(axis=1).astype(int)))
    assert listed == by_hand


def test_best_of_many_points():
    """Planted hypotheses with 10% of labels flipped: never more errors than the planted one, on 400 points."""
    numbers = rng(20)
    cases = [(Thresholds(), [0.37]), (Intervals(), [0.2, 0.7]), (Boxes(2), [0.2, 0.3, 0.8, 0.7])]
    cases += [(Halfspaces(2), [1.0, -0.5, 0.2])]
    for cls, planted in cases:
        points = numbers.random((400, cls.dimension))
        truth = cls.predict(planted, points)[0]
        assert cls.best_in_class(points, truth)[1] == 0
        labels = truth ^ (numbers.random(400) < 0.1)
        assert cls.best_is_exact(400)
        found, errors = cls.best_in_class(points, labels)
        assert errors <= (truth != labels).sum()
        assert errors == (cls.predict(found, points)[0] != labels).sum()
        # In the neighbourhood of the planted one none is better.
        near = np.array(planted) + numbers.normal(scale=0.02, size=(2000, len(planted)))
        assert (cls.predict(near, points) != labels).sum(axis=1).min() >= errors


def test_approximations_say_so_and_find_what_is_planted():
    numbers = rng(21)
    for cls, count in ((Boxes(3), 300), (Boxes(5), 200), (Halfspaces(6), 80), (PolynomialThresholds(2, 2), 150)):
        assert not cls.best_is_exact(count)
        points = numbers.random((count, cls.dimension))
        if isinstance(cls, Boxes):
            planted = np.repeat([0.1, 0.95], cls.dimension)
        elif isinstance(cls, Halfspaces):
            planted = np.append(numbers.normal(size=6), 0.3)
        else:
            planted = np.array([0.4, 0.0, 0.0, -1.0, 0.2, -1.0])
        truth = cls.predict(planted, points)[0]
        assert 5 < truth.sum() < count - 5
        assert cls.best_in_class(points, truth)[1] == 0
        labels = truth ^ (numbers.random(count) < 0.05)
        found, errors = cls.best_in_class(points, labels)
        assert errors == (cls.predict(found, points)[0] != labels).sum()
        assert errors <= 1.5 * (truth != labels).sum() + 2
    cls = Polytopes(2, 3)
    points = numbers.random((150, 2))
    labels = cls.predict([-1, 0, -0.7, 0, 1, 0.2, 1, 1, 0.6], points)[0]
    assert not cls.best_is_exact(150)
    # No better than a local optimum, no worse than the best constant or the best halfspace.
    errors = cls.best_in_class(points, labels)[1]
    assert errors <= min(labels.sum(), Halfspaces(2).best_in_class(points, labels)[1])


def test_local_search_of_halfspaces_against_the_exact_one():
    """The local search is forced by its work limit and stays within a few errors of the exact search."""
    numbers = rng(22)
    exact = local = 0
    for _ in range(8):
        points = numbers.random((60, 2))
        labels = (points.sum(axis=1) > 1) ^ (numbers.random(60) < 0.2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dp_experts_env.hypotheses.separators.is_exact", lambda *sizes: False)
            weights, bias = best_separator(points, labels)
        one = int((((points @ weights) >= bias) != labels).sum())
        best = Halfspaces(2).best_in_class(points, labels)[1]
        assert best <= one
        exact, local = exact + best, local + one
    assert local <= 1.25 * exact
    assert is_exact(1000, 2)
    assert not is_exact(1000, 3)


def test_best_box_recursion():
    """The best box in three dimensions against all boxes with ends at coordinates of six points."""
    numbers = rng(23)
    for _ in range(5):
        points, weights = numbers.random((6, 3)), numbers.integers(-2, 3, 6)
        cls = Boxes(3)
        boxes = cls.dichotomies(points)
        assert max(0, _best_box(points, weights)[0]) == (cls.predict(boxes, points) @ weights).max()


# --------------------------------------------------------------------------------------------------- finite classes


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(1, 10), st.integers(1, 8), st.integers(0, 2**32), st.sampled_from([0.05, 0.2, 0.5, 1.0]))
def test_finite_class(rows, columns, seed, mass):
    numbers = rng(seed)
    matrix = numbers.integers(0, 2, (rows, columns))
    cls = FiniteClass(matrix)
    apart = (matrix[:, None] != matrix).mean(axis=2)
    cover = cls.cover(mass)[:, 0]
    assert (apart[:, cover].min(axis=1) <= mass + 1e-9).all()
    assert (apart[np.ix_(cover, cover)] + 2 * np.eye(len(cover)) > mass).all()
    assert len(cover) <= cls.cover_size_bound(mass)
    brackets = cls.brackets(mass)
    lower, upper = brackets.predict(np.arange(columns), brackets.locate(np.arange(rows)))
    assert ((lower <= matrix) & (matrix <= upper)).all()
    assert (upper != lower).mean(axis=1).max() == pytest.approx(brackets.gap)
    assert brackets.gap <= mass + 1e-9
    # The VC dimension by its definition.
    patterns = [
        size
        for size in range(columns + 1)
        for chosen in itertools.combinations(range(columns), size)
        if len(np.unique(matrix[:, list(chosen)], axis=0)) == 2**size
    ]
    assert (cls.vc_dimension, cls.vc_is_exact) == (max(patterns), True)
    sample, labels = numbers.integers(0, columns, 20), numbers.integers(0, 2, 20)
    found, errors = cls.best_in_class(sample, labels)
    assert errors == (matrix[:, sample] != labels).sum(axis=1).min() == (cls.predict(found, sample)[0] != labels).sum()
    assert len(cls.dichotomies(sample)) == len(np.unique(matrix[:, sample], axis=0))


def test_vc_dimension_of_a_large_class_is_a_bound():
    cls = FiniteClass(rng(1).integers(0, 2, (1500, 300)))
    assert not cls.vc_is_exact
    assert cls.vc_dimension == 10


# ----------------------------------------------------------------------------------------------------- bad arguments


def test_bad_points_labels_and_parameters_are_named():
    cls = Halfspaces(2)
    points = np.full((4, 2), 0.5)
    points[2, 1] = 1.5
    with pytest.raises(ArgumentError, match=r"points: expected \[0, 1\]\^2 but found point 2: \[0\.5 1\.5\]"):
        cls.predict([1.0, 0.0, 0.5], points)
    points[2, 1] = np.nan
    with pytest.raises(ArgumentError, match="found point 2"):
        cls.best_in_class(points, [0, 1, 0, 1])
    with pytest.raises(ArgumentError, match=r"labels: expected 0 or 1 but found .*2.* for point 1"):
        cls.best_in_class(np.full((2, 2), 0.5), [0, 2])
    with pytest.raises(ArgumentError, match=r"labels: expected shape \(2,\)"):
        cls.best_in_class(np.full((2, 2), 0.5), [0, 1, 1])
    for wrong in ([1.0, 2.0], [["a", "b", "c"]], [[np.nan, 0.0, 0.0]], [[1.0], [1.0, 2.0]]):
        with pytest.raises(ArgumentError, match="parameters: expected"):
            cls.predict(wrong, np.full((2, 2), 0.5))
    with pytest.raises(ArgumentError, match=r"points: expected shape \(n, 2\)"):
        cls.predict([1.0, 0.0, 0.5], [0.5, 0.5])
    for wrong in ([[0, 2]], [0, 1], [[]], [["a"]]):
        with pytest.raises(ArgumentError, match="matrix: expected"):
            FiniteClass(wrong)
    with pytest.raises(ArgumentError, match=r"points: expected 0\.\.1 but found 2 at 1"):
        FiniteClass([[0, 1]]).predict([0], [0, 2])
    with pytest.raises(ArgumentError, match="points: expected integers"):
        FiniteClass([[0, 1]]).predict([0], [0.0])
    for build in (lambda: Boxes(0), lambda: Halfspaces(0), lambda: Polytopes(2, 0), lambda: PolynomialThresholds(2, 0)):
        with pytest.raises(ArgumentError, match="expected an integer >= 1"):
            build()
    with pytest.raises(ArgumentError, match="points: expected few enough"):
        Halfspaces(2).dichotomies(rng(0).random((200, 2)))


def test_predictions_by_hand():
    assert Thresholds().predict([0.5, 2.0], [0.4, 0.5, 1.0]).tolist() == [[0, 1, 1], [0, 0, 0]]
    assert Thresholds().signs([0.5], [0.4, 0.5, 1.0]).tolist() == [[-1, 1, 1]]
    assert Intervals().predict([0.2, 0.5], [0.1, 0.2, 0.5, 0.6]).tolist() == [[0, 1, 1, 0]]
    assert Boxes(2).predict([0, 0, 1, 0.5], [[0.5, 0.5], [0.5, 0.6]]).tolist() == [[1, 0]]
    assert Halfspaces(2).predict([1, 1, 1], [[0.5, 0.5], [0.2, 0.3]]).tolist() == [[1, 0]]
    # z = 2x - 1: 0.25 - z^2 >= 0 for x in [0.25, 0.75].
    assert PolynomialThresholds(1, 2).predict([0.25, 0, -1], [0.2, 0.25, 0.75, 0.8]).tolist() == [[0, 1, 1, 0]]
    assert PolynomialThresholds(2, 2).exponents.tolist() == [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    assert Polytopes(1, 2).predict([1, 0.2, -1, -0.6], [0.1, 0.3, 0.7]).tolist() == [[0, 1, 0]]
    assert repr(Polytopes(3, 2)) == "Polytopes(dimension=3, faces=2)"
    for cls in (Thresholds(), Intervals(), Boxes(2), Polytopes(2, 2), PolynomialThresholds(2, 2), FiniteClass([[1]])):
        assert repr(pickle.loads(pickle.dumps(cls))) == repr(cls)


# -------------------------------------------------------------------------------------------------------- projection


def divergence(p, q):
    return rel_entr(p, q).sum(axis=-1)


def random_smooth(numbers, base, sigma):
    """A random point of K that is not a projection: mixtures of greedy fillings of the caps."""
    laws = []
    for _ in range(3):
        left, law = 1.0, np.zeros(len(base))
        for point in numbers.permutation(len(base)):
            law[point] = min(left, base[point] / sigma)
            left -= law[point]
        laws.append(law)
    return numbers.dirichlet(np.ones(3)) @ np.array(laws)


def random_case(seed):
    numbers = rng(seed)
    size = int(numbers.integers(1, 8))
    base = numbers.dirichlet(np.ones(size)) if seed % 2 else np.full(size, 1 / size)
    law = numbers.dirichlet(np.full(size, numbers.choice([0.1, 1.0, 5.0]))) + 1e-6
    return numbers, law / law.sum(), base, float(numbers.choice([0.15, 0.4, 0.8, 1.0]))


@pytest.mark.parametrize("seed", range(30))
def test_projection_equals_a_convex_solver(seed):
    """SLSQP on KL(p || q) over the box and the simplex, from a point inside, to 1e-8 in value."""
    _, law, base, sigma = random_case(seed)
    caps = base / sigma
    p = project(law, sigma, base)
    assert p.sum() == pytest.approx(1.0, abs=1e-14)
    assert (p <= caps).all()
    assert (p >= 0).all()
    solved = minimize(
        lambda x: (x * np.log(x / law)).sum(),
        base,
        jac=lambda x: np.log(x / law) + 1,
        bounds=[(1e-15, cap) for cap in caps],
        constraints=[{"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like}],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    assert divergence(p, law) == pytest.approx(solved.fun, abs=1e-8)
    assert divergence(p, law) <= solved.fun + 1e-10
    # By strong convexity the argument agrees, to the square root of the solver's error.
    assert np.abs(p - solved.x).max() < 1e-4


def test_projection_satisfies_the_conditions_of_lagrange():
    """What identifies the minimum: p = min(c q, cap) for one c >= 1; to rounding, over 800 cases."""
    for seed in range(800):
        _, law, base, sigma = random_case(seed)
        p, caps = project(law, sigma, base), base / sigma
        free = p < caps * (1 - 1e-12)
        if free.any():
            c = p[free] / law[free]
            assert np.ptp(c) <= 1e-12 * c.max()
            assert (c[0] * law[~free] >= caps[~free] * (1 - 1e-10)).all()
            assert c[0] >= 1 - 1e-12


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_pythagoras(seed):
    numbers, law, base, sigma = random_case(seed)
    nearest, other = project(law, sigma, base), random_smooth(numbers, base, sigma)
    assert divergence(other, law) >= divergence(other, nearest) + divergence(nearest, law) - 1e-12
    # A law that is smooth already is its own projection, and scale does not matter.
    np.testing.assert_allclose(project(other, sigma, base), other, atol=1e-14)
    np.testing.assert_allclose(project(7.0 * law, sigma, base), nearest, atol=1e-14)
    np.testing.assert_allclose(project(np.log(law) + 900.0, sigma, base, log=True), nearest, atol=1e-13)


def test_projection_of_batches_and_extremes():
    laws = rng(3).dirichlet(np.full(50, 0.1), size=(4, 5)) + 1e-12
    batch = project(laws, 0.2)
    assert batch.shape == (4, 5, 50)
    for row in itertools.product(range(4), range(5)):
        np.testing.assert_array_equal(batch[row], project(laws[row], 0.2))
    # By hand: q = (.7, .2, .1), caps 1/2: p = (1/2, 1/3, 1/6).
    np.testing.assert_allclose(project([0.7, 0.2, 0.1], 2 / 3), [1 / 2, 1 / 3, 1 / 6], rtol=1e-15)
    # sigma = 1 leaves the base alone; weights that underflow do not matter in logarithms.
    np.testing.assert_allclose(project([5.0, 1e-300, 0.0][:2], 1.0, [0.25, 0.75]), [0.25, 0.75])
    np.testing.assert_allclose(project([0.0, -2000.0, -2000.0, -5000.0], 0.5, log=True), [0.5, 0.25, 0.25, 0.0])
    # Caps that just fill up: what is outside gets nothing.
    np.testing.assert_allclose(project([1.0, 1.0, 0.0, 0.0], 0.5), [0.5, 0.5, 0.0, 0.0])
    np.testing.assert_allclose(project([1.0, 1.0, 1.0], 0.5, [0.5, 0.5, 0.0]), [0.5, 0.5, 0.0])
    np.testing.assert_array_equal(project([3.0], 1.0), [1.0])
    # A hundred thousand points keep their caps and their sum.
    law = rng(4).exponential(size=100_000) ** 4
    p = project(law, 0.01)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p.max() == 1 / 100_000 / 0.01


def test_projection_refuses_what_has_no_answer():
    with pytest.raises(ArgumentError, match=r"law: expected weight on points that can hold mass 1 .* can hold 0\.5"):
        project([1.0, 0.0, 0.0, 0.0], 0.5)
    with pytest.raises(ArgumentError, match=r"row \(1,\)"):
        project([[1.0, 1.0], [1.0, 0.0]], 0.9)
    for wrong in ([0.5, -0.1], [0.5, np.nan], [np.inf, 1.0], [], 3.0, ["a"]):
        with pytest.raises(ArgumentError, match="law: expected"):
            project(wrong, 0.5)
    with pytest.raises(ArgumentError, match=r"law: expected weights but found -0\.1 at \(1,\)"):
        project([0.5, -0.1], 0.5)
    for sigma in (0.0, 1.1, math.nan):
        with pytest.raises(ArgumentError, match="sigma: expected"):
            project([0.5, 0.5], sigma)
    for base in ([0.5, 0.6], [1.0], [-0.5, 1.5]):
        with pytest.raises(ArgumentError, match="base: expected"):
            project([0.5, 0.5], 0.5, base)


# ------------------------------------------------------------------------------------------------------- smooth laws


def tent(points):
    """Density 2 - 2 abs(2x - 1) on [0, 1]: at most 2."""
    return 2.0 - 2.0 * np.abs(2.0 * points[..., 0] - 1.0)


def test_errors_name_point_and_value():
    law = [0.25, 0.5, 0.25]
    np.testing.assert_array_equal(check_smooth(law, 0.6), law)
    with pytest.raises(ArgumentError, match=r"at most base/sigma = 0\.416667 .* found 0\.5 at point 1$"):
        check_smooth(law, 0.8)
    with pytest.raises(ArgumentError, match=r"found 0\.5 at point 1 of law \(1,\)"):
        check_smooth([[0.3, 0.3, 0.4], law], 0.8)
    with pytest.raises(ArgumentError, match=r"found -0\.1 at point 0"):
        check_smooth([-0.1, 0.6, 0.5], 0.5)
    with pytest.raises(ArgumentError, match=r"sum to 1 but found 0\.75"):
        check_smooth([0.25, 0.25, 0.25], 0.5)
    with pytest.raises(ArgumentError, match=r"= 0 and at least 0 but found 0\.5 at point 0"):
        check_smooth([0.5, 0.5], 0.5, base=[0.0, 1.0])
    points = np.array([[0.1], [0.5], [0.9]])
    np.testing.assert_allclose(check_smooth(tent, 0.5, points=points), [0.4, 2.0, 0.4])
    with pytest.raises(ArgumentError, match=r"at most 1/sigma = 1\.66667 .* found 2\.0 at the point \[0\.5\]"):
        check_smooth(tent, 0.6, points=points)
    with pytest.raises(ArgumentError, match=r"found nan at the point \[0\.1\]"):
        check_smooth(lambda x: np.full(x.shape[:-1], np.nan), 0.6, points=points)
    with pytest.raises(ArgumentError, match=r"density: expected shape \(3,\)"):
        check_smooth(lambda x: x, 0.6, points=points)
    with pytest.raises(ArgumentError, match="points: expected"):
        check_smooth(tent, 0.6)
    with pytest.raises(ArgumentError, match="density: expected a callable"):
        SmoothDensity(0.5, 0.5)


def test_densities_are_checked_where_they_are_sampled():
    """A peak of mass 1/1000 above the bound is met by one of 20000 samples but with probability below e^-20."""

    def peak(points):
        x = points[..., 0]
        return np.where((x > 0.3) & (x < 0.301), 3.0, 0.998 / 0.999)

    with pytest.raises(ArgumentError, match=r"found 3\.0 at the point \[0\.300"):
        SmoothDensity(peak, 0.5).sample(rng(0), 20_000)


def test_a_density_of_another_mass_is_found_out():
    """Mass 0.8 at sigma = 1/2 would sample a density of 2.5; the watch finds it in 20000 samples, not at mass 1."""
    law = SmoothDensity(lambda points: 0.8 * tent(points), 0.5)
    with pytest.raises(ArgumentError, match=r"integrates to 1 but found about 0\.8"):
        law.sample(rng(0), 20_000)
    with pytest.raises(ArgumentError, match=r"integrates to 1 but found about 1\.2"):
        SmoothDensity(lambda points: 1.2 * tent(points), 0.4).couple(rng(0), 3, 20_000)
    with pytest.raises(ArgumentError, match="integrates to 1"):
        SmoothDensity(lambda points: np.zeros(points.shape[:-1]), 0.5).sample(rng(0))
    sound = SmoothDensity(tent, 0.5)
    assert math.isnan(sound.mass)
    for _ in range(200):
        sound.sample(rng(_), 100)
    assert sound.mass == pytest.approx(1.0, abs=0.05)


def chi_square(counts, expected):
    """False alarm 1e-7."""
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-7, len(counts) - 1)


def test_samples_have_the_law():
    """40000 samples, by rejection and coupled, on a finite domain with a base and on [0, 1]^2: chi-square at 1e-7."""
    base = np.array([0.1, 0.2, 0.3, 0.4])
    p = np.array([0.2, 0.3, 0.1, 0.4])
    law = SmoothLaw(p, 0.5, base)
    count = 40_000
    chi_square(np.bincount(law.sample(rng(1), count), minlength=4), count * p)
    coupled = law.couple(rng(2), 2, count)
    chi_square(np.bincount(coupled.samples, minlength=4), count * p)
    chi_square(np.bincount(coupled.candidates[:, 0], minlength=4), count * base)
    # The uncovered have the law too, and so have the covered.
    for part in (coupled.covered, ~coupled.covered):
        chi_square(np.bincount(coupled.samples[part], minlength=4), part.sum() * p)
    density = SmoothDensity(lambda x: tent(x) * (0.5 + x[..., 1]), 1 / 3, 2)
    for samples in (density.sample(rng(3), count), density.couple(rng(4), 3, count).samples):
        assert samples.shape == (count, 2)
        places = (samples * 4).astype(int)
        mass = np.outer([1 / 8, 3 / 8, 3 / 8, 1 / 8], [5 / 32, 7 / 32, 9 / 32, 11 / 32])
        chi_square(np.bincount(places[:, 0] * 4 + places[:, 1], minlength=16), count * mass.ravel())


class Script:
    """Stands in for a generator: hands out prepared arrays of uniform numbers, one a call, then draws."""

    def __init__(self, *arrays):
        self.arrays = list(arrays)

    def random(self, shape):
        if not self.arrays:
            self.rest = getattr(self, "rest", rng(1))
            return self.rest.random(shape)
        array = self.arrays.pop(0)
        assert array.shape == shape
        return array


@pytest.mark.parametrize("candidates", [1, 2, 3])
@pytest.mark.parametrize(
    ("p", "base", "sigma"),
    [
        ([0.5, 0.3, 0.2], None, 0.6),
        ([1.0, 0.0, 0.0], None, 1 / 3),
        ([0.2, 0.35, 0.45], [0.5, 0.25, 0.25], 0.5),
        ([1 / 3] * 3, None, 1.0),
    ],
)
def test_coupling_exactly(p, base, sigma, candidates):
    """All candidates, coins and orders of keys are enumerated with their probabilities: the marginal is p exactly.

    The share of the uncovered is (1 - sigma)^k exactly; a fresh sample there has law p by the test of rejection.
    """
    p, u = np.array(p), np.full(3, 1 / 3) if base is None else np.array(base)
    law = SmoothLaw(p, sigma, base)
    keep = sigma * p / u
    rows = list(
        itertools.product(
            itertools.product(range(3), repeat=candidates),
            itertools.product([True, False], repeat=candidates),
            itertools.permutations(range(candidates)),
        )
    )
    drawn, coins, keys = (np.array([row[part] for row in rows]) for part in range(3))
    weights = (u[drawn] * np.where(coins, keep[drawn], 1 - keep[drawn])).prod(axis=1) / math.factorial(candidates)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    # A coin of impossible outcome has weight 0 whatever is scripted for it.
    numbers = [(np.cumsum(u) - u / 2)[drawn], np.where(coins, 0.0, 1.0 - 1e-16), (keys + 0.5) / candidates]
    size = len(rows)
    result = law.couple(Script(*numbers), candidates, size)
    np.testing.assert_array_equal(result.candidates, drawn)
    uncovered = weights[~result.covered].sum()
    assert uncovered == pytest.approx((1 - sigma) ** candidates, abs=1e-12)
    marginal = np.bincount(result.samples[result.covered], weights[result.covered], 3)
    np.testing.assert_allclose(marginal + uncovered * p, p, atol=1e-12)
    assert all(one in row for one, row in zip(result.samples[result.covered], drawn[result.covered], strict=True))


def test_coverage():
    """Closed form, its inverse, and the frequency over 20000 couplings (5 sigma: false alarm 6e-7)."""
    assert coverage(0.5, 3) == pytest.approx(7 / 8)
    assert coverage(1.0, 1) == 1.0
    assert coverage(1e-9, 1) == pytest.approx(1e-9, rel=1e-12)
    for sigma in (0.01, 0.3, 0.9, 1.0):
        for failure in (0.5, 0.1, 1e-6):
            k = candidates_for(sigma, failure)
            assert 1 - coverage(sigma, k) <= failure * (1 + 1e-9)
            assert k == 1 or 1 - coverage(sigma, k - 1) > failure
    # T rounds are all covered but with probability 1/T for k = ceil(ln(T^2)/sigma).
    assert candidates_for(0.1, 1e-6) <= math.ceil(math.log(1e6) / 0.1)
    law = SmoothDensity(lambda x: np.where(x[..., 0] < 0.1, 10.0, 0.0), 0.1)
    covered = law.couple(rng(7), 8, 20_000).covered.mean()
    expected = coverage(0.1, 8)
    assert abs(covered - expected) < 5 * math.sqrt(expected * (1 - expected) / 20_000)
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(ArgumentError, match="failure: expected"):
            candidates_for(0.5, wrong)


def test_laws_that_differ_from_game_to_game():
    """Two games, one on each half of the domain; densities tell the games by their axis."""
    laws = SmoothLaw([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]], 0.5)
    samples = laws.sample(rng(0), (1000, 2))
    assert (samples[:, 0] < 2).all()
    assert (samples[:, 1] >= 2).all()
    assert laws.couple(rng(1), 3, 2).samples.shape == (2,)
    with pytest.raises(ArgumentError, match="shape: expected samples"):
        laws.sample(rng(0), 3)
    starts = np.array([0.0, 0.4, 0.75])

    def density(points):
        offset = points[..., 0] - starts[:, None]
        return np.where((offset >= 0) & (offset < 0.25), 4.0, 0.0)

    law = SmoothDensity(density, 0.25)
    for _ in range(20):
        points = law.sample(rng(_), 3)[:, 0]
        assert ((points >= starts) & (points < starts + 0.25)).all()
    coupled = law.couple(rng(5), 6, (40, 3))
    assert coupled.candidates.shape == (40, 3, 6, 1)
    same = (coupled.candidates == coupled.samples[..., None, :]).all(axis=-1).any(axis=-1)
    np.testing.assert_array_equal(same, coupled.covered)
    assert SmoothDensity(tent, 0.5).sample(rng(0)).shape == (1,)
    assert np.shape(SmoothLaw([0.5, 0.5], 1.0).sample(rng(0))) == ()
    # The same generator gives the same samples.
    np.testing.assert_array_equal(law.sample(rng(9), 3), law.sample(rng(9), 3))


# -------------------------------------------------------------------------------------------------- smooth data sets


def test_least_chi_of_a_point_mass():
    """One point, the query that singles it out: p holds at most base/sigma, so chi = 1 - base/sigma."""
    data, query = np.array([0, 3, 0, 0]), np.array([[0, 1, 0, 0]])
    for sigma in (0.1, 0.25, 0.5, 1.0):
        found = least_chi(data, query, sigma)
        assert found.value == pytest.approx(max(0.0, 1 - 0.25 / sigma), abs=1e-9)
        check_smooth(found.law, sigma)
    base = [0.1, 0.2, 0.3, 0.4]
    assert least_chi(data, query, 0.5, base).value == pytest.approx(0.6, abs=1e-9)
    for chi in (0.0, 0.3, 0.6):
        found = largest_sigma(data, query, chi)
        assert found.value == pytest.approx(0.25 / (1 - chi), abs=1e-6)
        assert abs(found.law[1] - 1.0) <= chi + 1e-6
    assert largest_sigma(data, query, 0.9).value == 1.0
    # A base that misses the data: no sigma will do.
    assert largest_sigma(data, query, 0.5, [0.5, 0.0, 0.5, 0.0]).value == 0.0


@pytest.mark.parametrize("seed", range(15))
def test_the_two_programmes_are_inverse(seed):
    numbers = rng(seed)
    size = int(numbers.integers(2, 9))
    data, queries = numbers.integers(0, 9, size) + np.eye(size, dtype=int)[0], numbers.integers(0, 2, (5, size))
    values = []
    for sigma in (0.9, 0.5, 0.2):
        found = least_chi(data, queries, sigma)
        check_smooth(found.law, sigma)
        answers = queries @ (data / data.sum())
        assert found.value == np.abs(queries @ found.law - answers).max()
        assert largest_sigma(data, queries, found.value + 1e-9).value >= sigma * (1 - 1e-6)
        if found.value > 1e-6:
            assert largest_sigma(data, queries, found.value * 0.999).value < sigma
        # No random smooth law does better.
        for _ in range(30):
            law = random_smooth(numbers, np.full(size, 1 / size), sigma)
            assert np.abs(queries @ law - answers).max() >= found.value - 1e-9
        values.append(found.value)
    assert (np.diff(values) <= 1e-9).all()
    # The data themselves are a witness for chi = 0 at sigma = 1/(X max p).
    assert least_chi(data, queries, data.sum() / (size * data.max())).value <= 1e-9


def test_smoothness_refuses_bad_data():
    for data in ([0, 0], [1, -1], [[1, 1]], []):
        with pytest.raises(ArgumentError, match="data: expected"):
            least_chi(data, [[0, 1]], 0.5)
    for queries in ([0, 1], [[0, 1, 1]], [[0, np.nan]], np.zeros((0, 2))):
        with pytest.raises(ArgumentError, match="queries: expected"):
            largest_sigma([1, 1], queries, 0.1)
    with pytest.raises(ArgumentError, match="chi: expected"):
        largest_sigma([1, 1], [[0, 1]], -0.1)


# ----------------------------------------------------------------------------------------------------- bad input


def test_ragged_arrays_are_named():
    ragged = [[1], [1, 2]]
    finite = FiniteClass(np.eye(3))
    with pytest.raises(ArgumentError, match="matrix"):
        FiniteClass(ragged)
    with pytest.raises(ArgumentError, match="parameters"):
        finite.predict(ragged, [0])
    with pytest.raises(ArgumentError, match="points"):
        finite.predict([0], ragged)
    with pytest.raises(ArgumentError, match="labels"):
        Thresholds().best_in_class([0.1, 0.2], ragged)


@pytest.mark.parametrize("hypotheses", [Thresholds(), Halfspaces(2), FiniteClass(np.eye(3))])
def test_brackets_that_there_are_not_are_refused(hypotheses):
    brackets = hypotheses.brackets(0.9)
    points = [0, 1] if isinstance(hypotheses, FiniteClass) else np.full((2, hypotheses.dimension), 0.5)
    for bad in ([-1], [len(brackets)], [0.5], 0, "x", [[1], [1, 2]], np.zeros(len(brackets), dtype=bool)):
        with pytest.raises(ArgumentError, match="which"):
            brackets.predict(points, bad)
    assert brackets.predict(points, [])[0].shape == (0, 2)


@pytest.mark.parametrize("hypotheses", [Halfspaces(2), PolynomialThresholds(1, 1)])
def test_weights_too_large_to_be_added_are_refused(hypotheses):
    brackets = hypotheses.brackets(0.9)
    points = np.full((1, hypotheses.dimension), 0.5)
    for bad in (math.inf, -math.inf, 1e308):
        row = np.full((1, hypotheses.num_parameters), bad)
        with pytest.raises(ArgumentError, match="parameters: expected weights"):
            hypotheses.predict(row, points)
        with pytest.raises(ArgumentError, match="parameters: expected weights"):
            brackets.locate(row)


def test_a_halfspace_of_tiny_weights_is_the_constant_that_it_is():
    brackets = Halfspaces(2).brackets(0.5)
    number = brackets.locate([[1e-300, 1e-300, 1e10]])
    points = np.random.default_rng(0).random((50, 2))
    lower, _ = brackets.predict(points, number)
    assert not lower.any()


def test_the_smallest_masses_and_samples_are_refused():
    with pytest.raises(ArgumentError, match="gamma"):
        Boxes(2).cover(5e-324)
    with pytest.raises(ArgumentError, match="points: expected at least one"):
        Halfspaces(2).dichotomies(np.zeros((0, 2)))


def test_laws_refuse_what_is_no_generator_and_points_that_there_are_not():
    law = SmoothLaw(np.full(4, 0.25), 0.5)
    for bad in (None, 0, "x"):
        with pytest.raises(ArgumentError, match="rng"):
            law.sample(bad, (2,))
        with pytest.raises(ArgumentError, match="rng"):
            law.couple(bad, 2, (2,))
    for bad in (None, 3, [4], [-1], [0.5]):
        with pytest.raises(ArgumentError, match="points"):
            law.ratio(bad)


def test_the_projection_of_huge_logarithms_sums_to_one():
    """Equal weights whatever their size; and those too far apart for their differences to be told are refused."""
    for size in (1e308, -1e308, 1e12):
        base = [1e-3, 0.5, 0.499, 0.0]
        found = project([size] * 3 + [-np.inf], 0.5, base, log=True)
        np.testing.assert_allclose(found, project([1.0, 1.0, 1.0, 0.0], 0.5, base), rtol=1e-12)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
    for far in ([1e308, 0.0], [0.0, -1e7], [1e308, -1e308]):
        with pytest.raises(ArgumentError, match="law: expected logarithms at most 1e"):
            project(far, 0.5, log=True)


def test_programmes_refuse_numbers_that_no_solver_takes():
    queries = np.eye(4)
    for programme in (least_chi, largest_sigma):
        with pytest.raises(ArgumentError, match="data"):
            programme([1e308] * 4, queries, 0.5)
        with pytest.raises(ArgumentError, match="queries"):
            programme([1.0] * 4, queries * 1e300, 0.5)
