"""Accounting against closed forms, exact enumeration and the figures that were fixed beforehand."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dp_experts_env.privacy import accounting as acc
from dp_experts_env.privacy.accounting import composition, rates
from dp_experts_env.spec import ArgumentError, BudgetError, GameError, UnknownNameError

EPSILONS = st.floats(-7, 3).map(lambda power: 10.0**power)
DELTAS = st.one_of(
    st.floats(-300, -0.01).map(lambda power: 10.0**power),
    st.floats(-15, -1).map(lambda power: 1 - 10.0**power),
)
COUNTS = st.floats(0, 7).map(lambda power: round(10**power))
SMALL_COUNTS = st.integers(1, 60)


def two_points(step, top):
    """The laws (P, Q) of the two-point pair with privacy losses top and top - step."""
    p = math.expm1(top) / math.expm1(step)
    law = np.array([1 - p, p])
    return law, law * np.exp([-top, step - top])


def hockey_stick(pairs, epsilon):
    """Delta at epsilon of a product of finite pairs of laws, by enumeration of all outcomes."""
    first, second = np.ones(1), np.ones(1)
    for law, other in pairs:
        first, second = np.multiply.outer(first, law).ravel(), np.multiply.outer(second, other).ravel()
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


# ------------------------------------------------------------------------------------------------------- composition


def test_composition_table_of_a_hundred_steps():
    bounds = acc.composition_bounds(0.1, 100, 1e-6, kind="bounded_range", adaptive=False)
    assert bounds["basic"] == pytest.approx(10)
    assert bounds["advanced"] == pytest.approx(6.308, abs=5e-4)
    assert bounds["optimal"] == pytest.approx(4.775, abs=1e-3)
    assert bounds["zcdp"] == pytest.approx(2.42, abs=5e-3)
    assert bounds["zcdp_simple"] == pytest.approx(2.75, abs=5e-3)
    assert bounds["bounded_range"] < bounds["renyi"] < bounds["zcdp"] < bounds["zcdp_simple"]
    assert acc.compose(0.1, 100, 1e-6) == acc.Composition(bounds["optimal"], "optimal")
    assert acc.compose(0.1, 100, 1e-6, kind="bounded_range") == acc.Composition(bounds["renyi"], "renyi")
    free = acc.compose(0.1, 100, 1e-6, kind="bounded_range", adaptive=False)
    assert free == acc.Composition(bounds["bounded_range"], "bounded_range")


def test_composition_table_of_ten_large_steps():
    bounds = acc.composition_bounds(1.0, 10, 1e-5, kind="bounded_range")
    assert bounds["basic"] == 10
    assert bounds["advanced"] == pytest.approx(32.36, abs=5e-3)
    assert bounds["optimal"] < bounds["basic"] < bounds["advanced"]
    assert bounds["zcdp"] == pytest.approx(8.08, abs=5e-3)
    assert acc.compose(1.0, 10, 1e-5, kind="bounded_range").epsilon <= bounds["zcdp"]
    assert "bounded_range" not in bounds  # proved for non-adaptive composition only


def test_composition_of_tiny_steps_is_at_most_basic():
    result = acc.compose(1e-5, 100, 1e-6)  # a numeric accountant on its default grid says 0.0062
    assert result.epsilon <= 0.001
    exact = composition.optimal_delta(result.epsilon, 1e-5, 100)
    assert exact <= 1e-6 * (1 + 1e-12)
    assert composition.optimal_delta(result.epsilon * 0.999, 1e-5, 100) > 1e-6


def test_composition_of_huge_steps_is_finite():
    result = acc.compose(30.0, 3, 1e-6)
    assert result.epsilon == pytest.approx(90, abs=1e-5)
    # all three answers true has probability about 1 and loss 90: delta = 1 - exp(epsilon - 90)
    assert result.epsilon == pytest.approx(90 + math.log1p(-1e-6), abs=1e-9)
    for kind, adaptive in itertools.product(("pure", "bounded_range"), (True, False)):
        for name, bound in acc.composition_bounds(1000.0, 7, 1e-9, kind, adaptive).items():
            assert name == "advanced" or bound < math.inf
            assert not math.isnan(bound)


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 100), (1.0, 10), (1e-5, 100), (30.0, 3), (0.3, 10**5)])
@pytest.mark.parametrize("kind", ["pure", "bounded_range"])
def test_delta_zero_is_basic_exactly(epsilon, count, kind):
    assert acc.compose(epsilon, count, 0.0, kind=kind) == acc.Composition(count * epsilon, "basic")
    assert acc.compose(epsilon, count, 0.0, kind=kind, adaptive=False).method == "basic"


@pytest.mark.parametrize(
    ("epsilon", "count"), [(0.01, 1), (0.3, 1), (2.0, 1), (0.3, 5), (1.5, 7), (0.05, 10), (20.0, 3)]
)
def test_optimal_composition_equals_enumerated_randomised_response(epsilon, count):
    pair = two_points(2 * epsilon, epsilon)
    np.testing.assert_allclose(pair[0] / pair[1], [math.exp(epsilon), math.exp(-epsilon)], rtol=1e-9)
    for total in (0.0, 0.1 * epsilon, 0.6 * epsilon * math.sqrt(count), 0.9 * count * epsilon):
        exact = hockey_stick([pair] * count, total)
        assert composition.optimal_delta(total, epsilon, count) == pytest.approx(exact, rel=1e-9, abs=1e-15)
    assert composition.optimal_delta(count * epsilon, epsilon, count) == 0


def test_optimal_composition_with_step_deltas_equals_enumeration():
    epsilon, leak, count, total = 0.4, 0.01, 5, 0.9
    law, other = two_points(2 * epsilon, epsilon)
    pair = np.array([leak, *((1 - leak) * law), 0]), np.array([0, *((1 - leak) * other), leak])
    exact = hockey_stick([pair] * count, total)
    assert composition.optimal_delta(total, epsilon, count, leak) == pytest.approx(exact, rel=1e-9)


def test_optimal_composition_of_a_hundred_thousand_steps():
    # for small steps and many of them the losses are Gaussian with mu = epsilon sqrt(count)
    delta = composition.optimal_delta(1.0, 1e-3, 10**5)
    assert delta == pytest.approx(acc.gaussian_delta(1e-3 * math.sqrt(10**5), 1.0), rel=1e-3)
    result = acc.compose(1e-3, 10**5, 1e-6)
    assert composition.optimal_delta(result.epsilon, 1e-3, 10**5) <= 1e-6
    assert acc.compose(1e-3, 10**5, 1e-300).epsilon < 100


@pytest.mark.parametrize(("step", "count"), [(0.2, 2), (1.0, 2), (4.0, 2), (0.2, 3), (1.0, 3)])
def test_bounded_range_composition_equals_the_enumerated_maximum(step, count):
    for total in (0.0, 0.3 * step, 0.5 * step * math.sqrt(count)):
        claimed = composition.bounded_range_delta(total, step, count)
        grid = np.linspace(0, step, 22 if count == 2 else 12)[1:-1]
        mixed = max(
            hockey_stick([two_points(step, top) for top in tops], total)
            for tops in itertools.combinations_with_replacement(grid, count)
        )
        assert mixed <= claimed * (1 + 1e-12)
        same = max(hockey_stick([two_points(step, top)] * count, total) for top in np.linspace(0, step, 4001)[1:-1])
        assert same <= claimed * (1 + 1e-12)
        assert claimed == pytest.approx(same, rel=1e-3)


def test_bounded_range_single_step_closed_form():
    # one step: the maximum of (1 - e^(t - s))(1 - e^(total - t))/(1 - e^-s) over t is at t = (total + s)/2
    for total, step in ((0.0, 0.5), (1.0, 3.0), (2.0, 40.0), (1e-4, 2e-4)):
        exact = (-math.expm1((total - step) / 2)) ** 2 / -math.expm1(-step)
        assert composition.bounded_range_delta(total, step, 1) == pytest.approx(exact, rel=1e-9)


def test_certificate_of_long_bounded_range_composition_agrees_with_all_candidates():
    total, step, count = 1.0, 0.03, 700
    index = np.arange(count + 1)
    tops = (total + step * (index + 1)) / (count + 1)
    tops = tops[tops < step]
    exact = math.exp(composition._log_hockey_stick(total, np.array([step]), tops, count).max())
    claimed = composition.bounded_range_delta(total, step, count)
    assert exact <= claimed <= exact * (1 + 2e-4)
    assert not composition._bounded_range_holds(total, math.log(exact * 0.999), step, count)


def test_without_a_certificate_the_next_valid_bound_is_returned(monkeypatch):
    def forget():
        for cached in (rates._step, composition._step_epsilon, composition._bounds):
            cached.cache_clear()

    forget()
    monkeypatch.setattr(composition, "_bounded_range_holds", lambda *_: False)
    try:
        assert acc.learning_rate(1.0, 1e-6, 1000, "optimal") == acc.learning_rate(1.0, 1e-6, 1000, "zcdp")
        bounds = acc.composition_bounds(0.01, 1000, 1e-6, "bounded_range", adaptive=False)
        assert bounds["bounded_range"] == bounds["zcdp"]
        assert composition.bounded_range_delta(1.0, 0.01, 1000) == composition.optimal_delta(1.0, 0.01, 1000)
    finally:
        forget()


@pytest.mark.parametrize("seed", range(5))
def test_real_exponential_mechanisms_stay_within_the_bounded_range_bounds(seed):
    rng = np.random.default_rng(seed)
    count, rate = 5, 0.35
    pairs = []
    for _ in range(count):
        scores = rng.uniform(0, 3, size=3)
        shift = rng.choice([-1.0, 0.0, 1.0], size=3)
        weights, others = np.exp(-rate * scores), np.exp(-rate * (scores + shift))
        pairs.append((weights / weights.sum(), others / others.sum()))
    for total in (0.0, 0.3, 0.8):
        exact = hockey_stick(pairs, total)
        assert exact <= composition.bounded_range_delta(total, 2 * rate, count) * (1 + 1e-12)
        assert exact <= composition.optimal_delta(total, 2 * rate, count) * (1 + 1e-12)


@settings(derandomize=True, max_examples=15, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, count=SMALL_COUNTS)
def test_bounds_are_valid_and_ordered(epsilon, delta, count):
    bounds = acc.composition_bounds(epsilon, count, delta, "bounded_range", adaptive=False)
    assert all(bound >= 0 for bound in bounds.values())
    slack = 1 + 1e-9
    least = bounds["bounded_range"]  # exact for non-adaptive steps: no valid bound is below it
    assert all(least <= bound * slack for bound in bounds.values())
    assert bounds["optimal"] <= min(bounds["basic"], bounds["advanced"]) * slack
    assert bounds["zcdp"] <= bounds["zcdp_simple"] * slack
    assert bounds["renyi"] <= bounds["zcdp"] * slack
    assert composition.bounded_range_delta(least, epsilon, count) <= delta * (1 + 1e-12)
    assert composition.optimal_delta(bounds["optimal"], epsilon, count) <= delta * (1 + 1e-12)
    more = acc.composition_bounds(epsilon, count + 1, delta, "bounded_range", adaptive=False)
    assert all(more[name] >= bounds[name] / slack for name in bounds)


@settings(derandomize=True, max_examples=12, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, count=COUNTS)
def test_closed_bounds_survive_extreme_values(epsilon, delta, count):
    for kind in ("pure", "bounded_range"):
        result = acc.compose(epsilon, count, delta, kind)
        assert 0 <= result.epsilon <= count * epsilon


def test_bounded_range_divergence_is_the_supremum_over_two_point_laws():
    for step in (0.02, 0.5, 3.0, 50.0):
        tops = np.linspace(0, step, 20001)[1:-1]
        p = np.exp(tops - step) * np.expm1(-tops) / np.expm1(-step)
        for alpha in (1.02, 1.5, 2.0, 8.0, 60.0):
            beta = alpha - 1
            values = np.logaddexp(np.log1p(-p) + beta * tops, np.log(p) + beta * (tops - step)) / beta
            claimed = float(acc.bounded_range_divergence(step, [alpha])[0])
            assert values.max() <= claimed + 1e-12
            assert claimed <= min(alpha * step**2 / 8, step) * (1 + 1e-12)
            if step > 0.1:
                assert claimed == pytest.approx(values.max(), rel=1e-4)


# ----------------------------------------------------------------------------------------------- adaptive composition


def adaptive_value(total, step, count, grid):
    """Delta of the best adaptive strategy whose two-point steps come from a grid: a lower bound on the truth."""
    if count == 0:
        return max(0.0, -math.expm1(total))
    best = 0.0
    for top in grid:
        p = math.expm1(top) / math.expm1(step)
        stay = adaptive_value(total - top, step, count - 1, grid)
        best = max(best, (1 - p) * stay + p * adaptive_value(total - top + step, step, count - 1, grid))
    return best


@pytest.mark.parametrize(
    ("total", "step", "count", "points"),
    [(0.2, 0.5, 2, 101), (1.0, 1.5, 2, 101), (0.4, 0.5, 3, 25), (0.0, 0.3, 2, 101)],
)
def test_recursion_is_an_upper_bound_and_tight(total, step, count, points):
    found = adaptive_value(total, step, count, np.linspace(0, step, points))
    claimed = acc.adaptive_bounded_range_delta(total, step, count)
    assert found <= claimed <= found * 1.01
    assert composition.bounded_range_delta(total, step, count) <= claimed * (1 + 1e-12)


def test_adaptive_composition_can_be_strictly_worse_than_the_non_adaptive_optimum():
    claimed = composition.bounded_range_delta(0.4, 0.5, 3)
    assert adaptive_value(0.4, 0.5, 3, np.linspace(0, 0.5, 25)) > 1.01 * claimed


def test_recursion_epsilon_lies_between_the_optimum_and_the_closed_bounds():
    free = acc.compose(0.1, 100, 1e-6, "bounded_range", adaptive=False).epsilon
    found = acc.adaptive_bounded_range_epsilon(0.1, 100, 1e-6)
    assert free < found < acc.compose(0.1, 100, 1e-6, "bounded_range").epsilon
    assert found == pytest.approx(free, rel=0.01)
    assert acc.adaptive_bounded_range_delta(found, 0.1, 100) <= 1e-6 * (1 + 1e-6)
    assert acc.adaptive_bounded_range_epsilon(0.1, 100, 0.0) == pytest.approx(10)
    assert acc.adaptive_bounded_range_epsilon(0.1, 3, 0.9) == 0
    assert acc.adaptive_bounded_range_delta(3 * 0.1, 0.1, 3) == 0


def test_certified_rate_of_two_hundred_rounds():
    epsilon, delta, rounds = 1.0, 1e-6, 200
    rate = acc.learning_rate(epsilon, delta, rounds, "optimal")
    certified = acc.certify_rate(rate, epsilon, rounds)
    assert certified > delta  # the oblivious optimum is not private enough against adaptive adversaries, or barely
    assert acc.certify_rate(0.99 * rate, epsilon, rounds) < delta
    assert acc.certify_rate(2 * rate, epsilon, rounds, "zero_out") == certified
    assert acc.certify_rate(acc.learning_rate(epsilon, delta, rounds, "zcdp"), epsilon, rounds) < delta
    assert acc.certify_rate(3.0, epsilon, 1) == 0


# ------------------------------------------------------------------------------------------------------- conversions


def test_conversions_at_one_and_a_millionth():
    assert acc.zcdp_rho(1, 1e-6, tight=False) == pytest.approx(0.017469, abs=5e-7)
    assert acc.zcdp_rho(1, 1e-6) == pytest.approx(0.02435597, abs=5e-9)
    assert acc.gaussian_mu(1, 1e-6) == pytest.approx(0.236704, abs=5e-7)
    assert acc.mixed_rho(0.4, 1, 1e-6) == pytest.approx(0.0098298, abs=1e-7)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_conversions_convert_back_within_the_budget(epsilon, delta):
    for tight in (True, False):
        rho = acc.zcdp_rho(epsilon, delta, tight)
        assert rho > 0
        assert acc.zcdp_epsilon(rho, delta, tight) <= epsilon
        assert acc.zcdp_epsilon(rho * 1.001, delta, tight) > epsilon * (1 - 1e-9) or not tight
    assert acc.zcdp_rho(epsilon, delta) >= acc.zcdp_rho(epsilon, delta, tight=False) * (1 - 1e-12)
    mu = acc.gaussian_mu(epsilon, delta)
    assert acc.gaussian_delta(mu, epsilon) <= delta
    assert mu**2 / 2 >= acc.zcdp_rho(epsilon, delta) * (1 - 1e-9)  # a Gaussian mechanism is mu^2/2-zCDP, and better
    if delta < 0.999:  # nearer to 1 a relative rounding of delta is no longer small against 1 - delta
        assert acc.gaussian_epsilon(mu, delta) <= epsilon * (1 + 1e-9)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    rho=st.floats(-9, 3).map(lambda power: 10.0**power),
    epsilon=st.one_of(st.just(0.0), EPSILONS),
    factor=st.floats(1, 3),
)
def test_curves_are_monotone_and_zcdp_covers_gaussian(rho, epsilon, factor):
    mu = math.sqrt(2 * rho)
    for curve, parameter in ((acc.zcdp_delta, rho), (acc.gaussian_delta, mu)):
        delta = curve(parameter, epsilon)
        assert 0 < delta <= 1
        assert curve(parameter * factor, epsilon) >= delta * (1 - 1e-9)
        assert curve(parameter, epsilon * factor) <= delta * (1 + 1e-9)
    assert acc.gaussian_delta(mu, epsilon) <= acc.zcdp_delta(rho, epsilon) * (1 + 1e-9)


def test_gaussian_delta_equals_its_formula_and_its_limits():
    for mu in (0.1, 0.4999, 0.5001, 1.0, 3.0, 10.0):
        for epsilon in (0.0, 0.1, 1.0, 4.0):
            plain = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
            assert acc.gaussian_delta(mu, epsilon) == pytest.approx(plain, rel=1e-9, abs=1e-15)
    assert acc.gaussian_delta(1e-10, 0.0) == pytest.approx(1e-10 / math.sqrt(2 * math.pi), rel=1e-9)
    assert acc.gaussian_delta(0.0, 0.0) == 0
    assert acc.gaussian_delta(1e-200, 1000.0) > 0  # underflow is rounded up
    assert acc.gaussian_delta(1e200, 1.0) == 1


def test_tight_conversion_is_the_least_over_orders_of_the_formula():
    alpha = 1 + np.geomspace(1e-4, 1e4, 200_001)
    for rho, epsilon in ((0.02, 1.0), (1.25, 8.0), (5.0, 3.0), (1e-4, 0.1)):
        log_delta = (alpha - 1) * (alpha * rho - epsilon) + alpha * np.log1p(-1 / alpha) - np.log(alpha - 1)
        assert acc.zcdp_delta(rho, epsilon) == pytest.approx(min(1.0, math.exp(log_delta.min())), rel=1e-6)
        grid = acc.renyi_delta(acc.RENYI_ORDERS, rho * acc.RENYI_ORDERS, epsilon)
        assert acc.zcdp_delta(rho, epsilon) <= grid * (1 + 1e-12)
        assert grid <= acc.zcdp_delta(rho, epsilon) * 1.001
        delta = 1e-5
        ours = acc.renyi_epsilon(acc.RENYI_ORDERS, rho * acc.RENYI_ORDERS, delta)
        assert acc.zcdp_epsilon(rho, delta) <= ours * (1 + 1e-12)
        assert ours <= acc.zcdp_epsilon(rho, delta) * 1.001


def test_renyi_conversion_holds_for_randomised_response_by_enumeration():
    law, other = two_points(2.0, 1.0)
    alpha = acc.RENYI_ORDERS[acc.RENYI_ORDERS < 100]
    log_ratio = np.log(law) - np.log(other)
    curve = np.log((law * np.exp((alpha[:, None] - 1) * log_ratio)).sum(-1)) / (alpha - 1)
    for count, epsilon in itertools.product((1, 3, 6), (0.5, 1.5, 2.5)):
        exact = hockey_stick([(law, other)] * count, epsilon)
        assert exact <= acc.renyi_delta(alpha, count * curve, epsilon)
        if 0 < exact < 0.5:
            assert acc.renyi_epsilon(alpha, count * curve, exact) >= epsilon


def test_renyi_accounting_of_an_uncapped_dartboard():
    # T = 10,000, N = 100: B = 3, p = 0.0397, eta = 0.01224 certify epsilon = 1 at delta = 1e-6 (rounded parameters)
    batch, forced, rate, draws = 3, 0.0397, 0.01224, math.ceil(10_000 / 3)
    alpha = acc.RENYI_ORDERS[acc.RENYI_ORDERS < 1e4]
    drawn = 1 - (1 - forced) * math.exp(-rate * batch)
    step = alpha * (alpha - 1) * rate**2 / 2
    with np.errstate(over="ignore"):
        curve = (draws - 2) * np.log1p(drawn * np.expm1(step)) / (alpha - 1) + alpha * rate**2 / 2
    stay = np.array([forced, 1 - (1 - forced) * math.exp(-rate)])
    coins = []
    for q, r in (stay, stay[::-1]):
        moments = [np.log(a) + (alpha - 1) * np.log(a / b) for a, b in ((q, r), (1 - q, 1 - r))]
        coins.append(np.logaddexp(*moments) / (alpha - 1))
    assert acc.renyi_epsilon(alpha, curve + np.maximum(*coins), 1e-6) == pytest.approx(1.0, abs=2e-3)


def test_renyi_conversion_refuses_bad_curves_and_ignores_missing_orders():
    assert acc.renyi_epsilon([2.0, 3.0], [math.inf, 0.1], 1e-3) == acc.renyi_epsilon([3.0], [0.1], 1e-3)
    assert acc.renyi_epsilon([2.0], [0.1], 0.0) == math.inf
    assert acc.renyi_epsilon([2.0], [0.0], 0.0) == 0
    assert acc.renyi_delta([2.0], [math.inf], 1.0) == 1
    for orders, curve in (([1.0], [0.1]), ([], []), ([2.0], [-1.0]), ([2.0], [math.nan]), ([2.0, 3.0], [0.1])):
        with pytest.raises(ArgumentError, match=r"orders|divergences"):
            acc.renyi_epsilon(orders, curve, 1e-3)


@pytest.mark.parametrize(
    ("pure", "mu", "epsilon"), [(0.4, 0.15, 1.0), (0.4, 1.0, 0.2), (1.0, 0.5, 1.5), (0.0, 0.5, 1.0)]
)
def test_pure_then_concentrated_covers_randomised_response_then_gaussian(pure, mu, epsilon):
    def gaussian(level):
        return ndtr(mu / 2 - level / mu) - math.exp(level) * ndtr(-mu / 2 - level / mu)

    weight = 1 / (1 + math.exp(-pure))
    exact = weight * gaussian(epsilon - pure) + (1 - weight) * gaussian(epsilon + pure)
    claimed = acc.mixed_delta(pure, mu**2 / 2, epsilon)
    assert exact <= claimed <= max(8 * exact, 1e-12)
    assert acc.mixed_epsilon(pure, mu**2 / 2, claimed) <= epsilon * (1 + 1e-9)
    assert acc.mixed_epsilon(pure, mu**2 / 2, claimed) <= pure + acc.zcdp_epsilon(mu**2 / 2, claimed)


@settings(derandomize=True, max_examples=12, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, part=st.floats(0, 0.95))
def test_mixed_rho_converts_back(epsilon, delta, part):
    rho = acc.mixed_rho(part * epsilon, epsilon, delta)
    assert acc.mixed_delta(part * epsilon, rho, epsilon) <= delta
    assert rho <= acc.zcdp_rho(epsilon, delta) * (1 + 1e-6)
    if delta < 0.999:
        assert rho >= acc.zcdp_rho(epsilon * (1 - part), delta) * (1 - 1e-6)


# ---------------------------------------------------------------------------------------------- subsampling, parallel


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.5, 1.0])
def test_subsampled_randomised_response_by_enumeration(rate):
    for epsilon in (0.2, 1.0, 5.0):
        amplified, delta = acc.subsample(epsilon, rate, 1e-3)
        assert delta == rate * 1e-3
        assert amplified == pytest.approx(math.log(1 + rate * (math.exp(epsilon) - 1)), rel=1e-12)
        truth = 1 / (1 + math.exp(-epsilon))  # left out, the record counts as the value 0
        one, zero = np.array([1 - truth, truth]), np.array([truth, 1 - truth])
        losses = np.log(rate * one + (1 - rate) * zero) - np.log(zero)
        assert abs(losses).max() <= amplified * (1 + 1e-12)
        if rate > 0:
            assert abs(losses).max() == pytest.approx(amplified)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(epsilon=EPSILONS, rate=st.floats(-9, 0).map(lambda power: 10.0**power))
def test_subsampling_and_its_inverse(epsilon, rate):
    amplified, _ = acc.subsample(epsilon, rate)
    assert 0 < amplified <= epsilon
    inner = acc.subsample_inverse(epsilon, rate)
    assert acc.subsample(inner, rate)[0] <= epsilon
    assert inner == pytest.approx(math.log1p(math.expm1(min(epsilon, 700)) / rate) + max(0.0, epsilon - 700), rel=1e-9)


def test_parallel_composition():
    spends = [(0.1, 1e-7), (0.5, 0.0), (0.3, 1e-6)]
    assert acc.parallel(spends) == (0.5, 1e-6)
    assert acc.parallel(spends, "content", "zero_out") == (0.5, 1e-6)
    assert acc.parallel(spends, "content", "replace") == (0.8, 1.1e-6)  # the record may move from part to part
    assert acc.parallel([(0.2, 0.0)], "content") == (0.2, 0.0)
    assert acc.parallel([]) == (0.0, 0.0)
    with pytest.raises(UnknownNameError, match="partition"):
        acc.parallel(spends, "user")


# --------------------------------------------------------------------------------------------------------- the rates

# epsilon = 1, delta = 1e-6, rates of T affected steps: seed, advanced, optimal for pure steps, zCDP simple and tight,
# exact bounded range, Gaussian limit (a diagnostic only), pure
TABLE = {
    10**3: (0.001504, 0.002906, 0.003748, 0.005911, 0.006979, 0.007487, 0.007485, 0.0005),
    10**4: (0.0004756, 0.0009190, 0.0011837, 0.0018692, 0.0022071, 0.0023671, 0.0023670, 0.00005),
    10**5: (0.0001504, 0.0002906, 0.0003743, 0.0005911, 0.0006979, 0.0007485, 0.0007485, 0.000005),
}


@pytest.mark.parametrize("rounds", TABLE)
def test_table_of_rates(rounds):
    names = ("advanced", "optimal", "zcdp_simple", "zcdp", "bounded_range")
    found = [acc.learning_rate(1, 1e-6, rounds, "seed")]
    found += [acc.step_epsilon(1, 1e-6, rounds, name) / 2 for name in names]
    found += [acc.gaussian_mu(1, 1e-6) / math.sqrt(rounds), acc.step_epsilon(1, 0.0, rounds, "basic") / 2]
    digits = [1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6] if rounds == 10**3 else [1e-7] * 8
    for value, printed, digit in zip(found, TABLE[rounds], digits, strict=True):
        assert value == pytest.approx(printed, abs=0.51 * digit)
    # of T rounds, T - 1 draws are affected
    assert acc.learning_rate(1, 1e-6, rounds + 1, "zcdp") == found[4]
    assert acc.learning_rate(1, 1e-6, rounds + 1, "optimal") == found[5]
    assert acc.learning_rate(1, 0.0, rounds + 1) == found[7]


def test_seed_rate_of_a_thousand_rounds():
    assert acc.learning_rate(1.0, 1e-6, 1000) == pytest.approx(0.001504, abs=5e-7)
    assert acc.learning_rate(1e3, 0.9, 1) == 0.5  # the cap
    assert acc.learning_rate(0.5, 0.999, 1000) == pytest.approx(math.sqrt(0.5 / 16000))  # the third term


@pytest.mark.parametrize("method", acc.RATE_METHODS)
def test_rates_double_under_zero_out_and_one_round_is_free(method):
    for rounds in (1, 2, 10, 400):
        rate = acc.learning_rate(0.7, 1e-5, rounds, method)
        assert acc.learning_rate(0.7, 1e-5, rounds, method, adjacency="zero_out") == 2 * rate
        assert acc.learning_rate(0.7, 0.0, rounds, method) == pytest.approx(0.7 / (2 * max(rounds - 1, 1)))
    if method != "seed":
        assert acc.learning_rate(0.7, 1e-5, 1, method) == acc.learning_rate(0.7, 1e-5, 2, method)


@pytest.mark.parametrize("size", [2, 1000])
def test_adjacency_decides_what_a_rate_costs(size):
    # one draw at rate 0.5: losses (0, 1, ..., 1) against (1, 0, ..., 0), and against zeros
    rate = 0.5
    losses, swapped = np.ones(size), np.zeros(size)
    losses[0], swapped[0] = 0, 1

    def largest(one, other):
        logs = [-rate * v - np.log(np.exp(-rate * v).sum()) for v in (one, other)]
        return float(abs(logs[0] - logs[1]).max())

    assert largest(losses, swapped) == pytest.approx({2: 0.5, 1000: 0.999}[size], abs=1e-3)
    assert largest(losses, swapped) <= 2 * rate
    assert largest(losses, np.zeros(size)) <= rate


def exact_delta_of_hedge(first, second, rate, epsilon):
    """Delta between the laws of all choices of multiplicative weights on two fixed sequences, by enumeration."""
    pairs = []
    for t in range(first.shape[0]):
        logs = [np.exp(-rate * losses[:t].sum(0)) for losses in (first, second)]
        pairs.append((logs[0] / logs[0].sum(), logs[1] / logs[1].sum()))
    return hockey_stick(pairs, epsilon)


@pytest.mark.parametrize("method", acc.RATE_METHODS)
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
def test_hedge_on_fixed_sequences_is_as_private_as_asked(method, delta):
    rng = np.random.default_rng(7)
    worst = 0.0
    for rounds in (2, 4, 6):
        rate = acc.learning_rate(1.0, delta, rounds, method)
        for trial in range(40):
            first = rng.integers(0, 2, (rounds, 3)).astype(float)
            second = first.copy()
            second[0] = 1 - first[0] if trial % 2 else rng.uniform(size=3)
            worst = max(worst, exact_delta_of_hedge(first, second, rate, 1.0))
    assert worst <= delta + 1e-15
    if method == "optimal" and delta == 0.1:
        assert worst > 0.5 * delta  # not vacuous


@settings(derandomize=True, max_examples=12, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, rounds=COUNTS, shrink=st.floats(0.01, 1.0))
def test_rates_compose_back_and_smaller_rates_never_cost_more(epsilon, delta, rounds, shrink):
    affected = max(rounds - 1, 1)
    seed, zcdp = (acc.learning_rate(epsilon, delta, rounds, method) for method in ("seed", "zcdp"))
    for rate in (seed, zcdp):
        assert 0 < rate < math.inf
        spent = acc.compose(2 * rate, affected, delta, "bounded_range").epsilon
        assert spent <= epsilon * (1 + 1e-12)
        assert acc.compose(2 * rate * shrink, affected, delta, "bounded_range").epsilon <= spent * (1 + 1e-9)
        assert zcdp >= seed or seed <= epsilon / (2 * affected)


@settings(derandomize=True, max_examples=15, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, rounds=st.integers(1, 3000))
def test_optimal_rate_composes_back_and_beats_the_others(epsilon, delta, rounds):
    affected = max(rounds - 1, 1)
    rate = acc.learning_rate(epsilon, delta, rounds, "optimal")
    assert rate >= acc.learning_rate(epsilon, delta, rounds, "zcdp")
    # one two-point step, and all of them at once on short games, is never above delta
    tops = np.linspace(0, 2 * rate, 203)[1:-1]
    log_delta = composition._log_hockey_stick(epsilon, np.array([2 * rate]), tops, affected).max()
    assert log_delta <= math.log(delta) + 1e-9
    if affected <= 256:
        assert composition.bounded_range_delta(epsilon, 2 * rate, affected) <= delta * (1 + 1e-12)


@settings(derandomize=True, max_examples=12, deadline=None)
@given(epsilon=st.floats(0.01, 10), delta=st.floats(-12, -1), rounds=st.integers(1, 2000), more=st.floats(1.001, 4))
def test_rates_are_monotone(epsilon, delta, rounds, more):
    delta = 10.0**delta
    assume(delta * more < 1)
    for method in acc.RATE_METHODS:
        slack = 1 - (1e-4 if method == "optimal" else 1e-12)
        rate = acc.learning_rate(epsilon, delta, rounds, method)
        assert acc.learning_rate(epsilon * more, delta, rounds, method) >= rate * slack
        assert acc.learning_rate(epsilon, delta * more, rounds, method) >= rate * slack
        assert acc.learning_rate(epsilon, delta, math.ceil(rounds * more), method) <= rate / slack


@pytest.mark.parametrize("rounds", [10**6, 10**7])
def test_optimal_rate_of_very_long_games(rounds):
    rate = acc.learning_rate(1.0, 1e-6, rounds, "optimal")
    limit = acc.gaussian_mu(1.0, 1e-6) / math.sqrt(rounds - 1)
    assert rate == pytest.approx(limit, rel=2e-4)
    assert composition._log_bounded_range(1.0, 2 * rate, rounds - 1) <= math.log(1e-6)


def test_rates_are_cached():
    rates._step.cache_clear()
    composition._step_epsilon.cache_clear()
    first = acc.learning_rate(1.0, 1e-6, 10**4, "optimal")
    hits = rates._step.cache_info().hits
    assert acc.learning_rate(1.0, 1e-6, 10**4, "optimal") == first
    assert rates._step.cache_info().hits > hits


@pytest.mark.parametrize("method", [name for name in acc.METHODS if name != "bounded_range"])
@settings(derandomize=True, max_examples=5, deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS, count=COUNTS)
def test_step_epsilon_is_the_conservative_inverse(method, epsilon, delta, count):
    step = acc.step_epsilon(epsilon, delta, count, method)
    assert step > 0
    assert composition._BOUNDS[method](step, count, delta) <= epsilon * (1 + 1e-11)
    assert composition._BOUNDS[method](step * 1.01, count, delta) > epsilon * (1 - 1e-9)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(budget=st.floats(0, 1e300), parts=st.integers(1, 10**7))
def test_shares_never_exceed_the_budget(budget, parts):
    part = acc.share(budget, parts)
    assert Fraction(part) * parts <= Fraction(budget) < Fraction(math.nextafter(part, math.inf)) * parts


# ---------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: acc.compose(0.0, 10, 1e-6), "epsilon"),
        (lambda: acc.compose(math.nan, 10, 1e-6), "epsilon"),
        (lambda: acc.compose(0.1, 0, 1e-6), "count"),
        (lambda: acc.compose(0.1, 2.5, 1e-6), "count"),
        (lambda: acc.compose(0.1, 10, 1.0), "delta"),
        (lambda: acc.compose(0.1, 10, -1e-9), "delta"),
        (lambda: acc.compose(0.1, 10, 1e-6, kind="gaussian"), "kind"),
        (lambda: acc.learning_rate(-1.0, 1e-6, 10), "epsilon"),
        (lambda: acc.learning_rate(1.0, 1e-6, 0), "rounds"),
        (lambda: acc.learning_rate(1.0, 1e-6, 10, method="best"), "method"),
        (lambda: acc.learning_rate(1.0, 1e-6, 10, adjacency="user"), "adjacency"),
        (lambda: acc.step_epsilon(1.0, 1e-6, 10, "gdp"), "method"),
        (lambda: acc.certify_rate(0.0, 1.0, 10), "rate"),
        (lambda: acc.certify_rate(0.1, 1.0, 10, cells=2), "cells"),
        (lambda: acc.subsample(1.0, 1.5), "rate"),
        (lambda: acc.subsample_inverse(1.0, 0.0), "rate"),
        (lambda: acc.zcdp_epsilon(-1.0, 1e-6), "rho"),
        (lambda: acc.gaussian_mu(1.0, 2.0), "delta"),
        (lambda: acc.mixed_rho(1.0, 1.0, 1e-6), "pure_epsilon"),
        (lambda: acc.Spend(-0.1), "epsilon"),
        (lambda: acc.Filter(0.0), "epsilon"),
        (lambda: acc.Filter(), "epsilon, rho"),
        (lambda: acc.Filter(1.0, rho=0.1), "epsilon, rho"),
        (lambda: acc.Filter(delta=1e-6, rho=0.1), "delta"),
        (lambda: acc.Filter.zcdp(1.0, 0.0), "delta"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ArgumentError, match=f"^{name}: "):
        call()


# --------------------------------------------------------------------------------------------------- ledger and filter


def test_ledger_adds_up_and_is_atomic():
    ledger = acc.Ledger()
    ledger.compose(acc.Spend(0.5, 1e-7, "draw"), acc.Spend(0.25, 0.0, "count"))
    before = ledger.spends
    with pytest.raises(ArgumentError, match="nothing has been entered"):
        ledger.compose(acc.Spend(0.1), "an unknown mechanism")
    assert ledger.spends == before
    assert list(ledger) == list(before)
    assert len(ledger) == 2
    assert ledger.total() == acc.Spend(0.75, 1e-7, "total")
    assert ledger.epsilon(1e-7) == 0.75
    assert ledger.epsilon(1e-8) == math.inf  # delta is overspent
    assert pickle.loads(pickle.dumps(ledger)).spends == before
    assert "draw" in repr(ledger)


def test_ledger_converts_concentrated_spends():
    ledger = acc.Ledger()
    ledger.compose(acc.Spend(rho=0.01, label="draws"), acc.Spend(rho=0.004), acc.Spend(0.1, 1e-9))
    assert ledger.epsilon(1e-6) == 0.1 + acc.zcdp_epsilon(0.014, float(Fraction(1e-6) - Fraction(1e-9)))
    pure = acc.Ledger()
    pure.compose(*[acc.Spend(0.01)] * 400)
    assert pure.epsilon(0.0) == pytest.approx(4.0)
    assert pure.epsilon(1e-6) == pytest.approx(acc.zcdp_epsilon(400 * 0.01**2 / 2, 1e-6))
    assert acc.Ledger().epsilon(0.0) == 0


@pytest.mark.parametrize("budget", [1.0, 1.9, 0.7, 1 / 3, 1e-6])
@pytest.mark.parametrize("rounds", [1, 3, 5, 7, 49, 1000, 3333])
def test_equal_shares_sum_to_the_budget_exactly(budget, rounds):
    asked = budget / (2 * rounds)
    purse = acc.Filter(budget, 1e-6)
    granted = np.array([purse.spend(asked, 1e-6 / (2 * rounds)).epsilon for _ in range(2 * rounds)])
    assert granted.max() <= asked
    assert granted.min() >= asked * (1 - 1e-6)
    exact = sum((Fraction(spend.epsilon) for spend in purse.ledger), Fraction(0))
    assert exact <= Fraction(budget)  # not even by a rounding error
    assert purse.ledger.total().epsilon == pytest.approx(budget, rel=3e-16)
    assert purse.spent.epsilon <= budget
    with pytest.raises(BudgetError):
        purse.spend(asked / 100)


def test_overspend_is_refused_with_the_figures_and_the_filter_goes_on():
    purse = acc.Filter(2.0)
    for _ in range(3):
        purse.spend(0.6, label="update")
    before = purse.spent, purse.left, purse.ledger.spends
    with pytest.raises(BudgetError, match=r"epsilon: spent 1\.8 of the budget 2\.0, asked 0\.5, 0\.2 left") as caught:
        purse.spend(0.5, label="update")
    assert isinstance(caught.value, GameError)
    assert (purse.spent, purse.left, purse.ledger.spends) == before
    assert purse.spend(0.1).epsilon == 0.1
    assert purse.spend(0.0, label="post-processing").epsilon == 0
    with pytest.raises(BudgetError):
        purse.spend(0.1 + 1e-9)
    assert purse.spend(purse.left.epsilon).epsilon == pytest.approx(0.1)
    assert purse.left.epsilon == 0


def test_overspend_of_delta_leaves_epsilon_untouched():
    purse = acc.Filter(1.0, 1e-6)
    purse.spend(0.25, 9e-7)
    with pytest.raises(BudgetError, match="delta: spent 9e-07 of the budget 1e-06, asked 2e-07, 1e-07 left"):
        purse.spend(0.25, 2e-7)
    assert purse.spent == acc.Spend(0.25, 9e-7, "spent")
    with pytest.raises(BudgetError, match="delta"):
        acc.Filter(1.0).spend(0.1, 1e-12)


def test_tiny_requests_after_the_budget_is_gone_are_refused():
    purse = acc.Filter(1.0)
    purse.spend(1.0)
    for asked in (1e-3, 1e-13, 5e-324):
        with pytest.raises(BudgetError):
            purse.spend(asked)


def test_concentrated_filter_counts_pure_spends_and_refuses_what_it_cannot_count():
    purse = acc.Filter.zcdp(1.0, 1e-6)
    assert purse.budget.rho == acc.zcdp_rho(1.0, 1e-6)
    assert purse.spend(rho=0.01) == acc.Spend(rho=0.01)
    assert purse.spend(0.1) == acc.Spend(0.1)
    assert purse.spent.rho == pytest.approx(0.01 + 0.005)
    assert purse.ledger.epsilon(1e-6) <= 1.0
    with pytest.raises(BudgetError, match=r"rho: spent 0\.015 of the budget 0\.024356, asked 0\.02, 0\.00935597 left"):
        purse.spend(rho=0.02)
    for arguments, name in (
        ({"epsilon": 0.1, "delta": 1e-9}, "delta"),
        ({"epsilon": 0.1, "rho": 0.001}, "epsilon, rho"),
    ):
        with pytest.raises(ArgumentError, match=f"^{name}: "):
            purse.spend(**arguments)
    with pytest.raises(ArgumentError, match=r"^rho: "):
        acc.Filter(1.0).spend(rho=0.1)
    assert purse.spent.rho == pytest.approx(0.015)
    last = purse.spend(math.sqrt(2 * purse.left.rho) * (1 + 1e-15))
    assert sum((Fraction(s.rho) + Fraction(s.epsilon) ** 2 / 2 for s in purse.ledger), Fraction(0)) <= purse.budget.rho
    assert last.epsilon == pytest.approx(math.sqrt(2 * (purse.budget.rho - 0.015)))


def test_concentrated_shares_sum_to_the_budget_exactly():
    purse = acc.Filter(rho=0.024)
    for _ in range(777):
        purse.spend(rho=0.024 / 777)
    assert purse.spent.rho == pytest.approx(0.024, rel=3e-16)
    assert sum((Fraction(spend.rho) for spend in purse.ledger), Fraction(0)) <= Fraction(0.024)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(budget=st.floats(1e-3, 100), asked=st.lists(st.floats(0, 10), max_size=30))
def test_a_filter_never_overspends_and_never_refuses_what_fits(budget, asked):
    purse = acc.Filter(budget)
    spent = Fraction(0)
    for epsilon in asked:
        fits = spent + Fraction(epsilon) <= Fraction(budget)
        try:
            spent += Fraction(purse.spend(epsilon).epsilon)
        except BudgetError:
            assert not fits
        assert spent <= Fraction(budget)
    assert sum((Fraction(spend.epsilon) for spend in purse.ledger), Fraction(0)) == spent
