"""Accounting against dp-accounting, whose numeric accountants round upwards ("pessimistic") or downwards on a grid.

A grid much finer than epsilon / k is needed: rounding adds up over k compositions.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_experts_env.privacy import accounting as acc
from dp_experts_env.privacy.accounting import composition

dp_accounting = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
rdp = pytest.importorskip("dp_accounting.rdp")


def two_point_losses(step, top, count, interval, pessimistic):
    """The privacy-loss distribution of ``count`` two-point steps with losses top and top - step."""
    p = math.expm1(top) / math.expm1(step)
    upper = {0: math.log1p(-p), 1: math.log(p)}
    lower = {0: math.log1p(-p) - top, 1: math.log(p) - top + step}
    one = pld.from_two_probability_mass_functions(
        lower, upper, pessimistic_estimate=pessimistic, value_discretization_interval=interval, symmetric=False
    )
    return one.self_compose(count)


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"), [(0.1, 100, 1e-6), (1.0, 10, 1e-5), (0.5, 40, 1e-9), (3.0, 5, 0.01)]
)
def test_optimal_composition_against_randomised_response(epsilon, count, delta):
    interval = epsilon / (50 * count)
    response = pld.from_randomized_response(
        2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=interval
    ).self_compose(count)
    above = response.get_epsilon_for_delta(delta)
    ours = acc.compose(epsilon, count, delta)
    assert ours.method == "optimal"
    assert above * (1 - 0.03) <= ours.epsilon <= above + 1e-9
    for total in (0.3 * above, 0.9 * above):
        assert composition.optimal_delta(total, epsilon, count) <= response.get_delta_for_epsilon(total) + 1e-12


def test_optimal_composition_with_step_deltas_against_privacy_parameters():
    epsilon, leak, count = 0.2, 1e-4, 20
    step = dp_accounting.pld.common.DifferentialPrivacyParameters(epsilon, leak)
    composed = pld.from_privacy_parameters(step, value_discretization_interval=1e-4).self_compose(count)
    for total in (0.2, 1.0, 2.0, 3.9):
        above = composed.get_delta_for_epsilon(total)
        ours = composition.optimal_delta(total, epsilon, count, leak)
        assert ours <= above * (1 + 1e-9)
        assert ours == pytest.approx(above, rel=0.03)


def peaks(total, step, count, low, high):
    """Local maxima of delta over the upper loss, from ``low * step`` to ``high * step``."""
    index = np.unique(np.rint((np.linspace(low, high, 11) * step * (count + 1) - total) / step - 1))
    tops = (total + step * (index + 1)) / (count + 1)
    return tops[(tops > 0) & (tops < step)]


@pytest.mark.parametrize(("step", "count", "delta"), [(0.1, 100, 1e-6), (1.0, 10, 1e-5), (0.3, 30, 1e-3)])
def test_bounded_range_composition_against_every_two_point_step(step, count, delta):
    total = acc.composition_bounds(step, count, delta, "bounded_range", adaptive=False)["bounded_range"]
    found = []
    for top in peaks(total, step, count, 0.1, 0.9):
        below = two_point_losses(step, top, count, step / (20 * count), pessimistic=False)
        found.append(below.get_delta_for_epsilon(total))
    assert max(found) <= delta * (1 + 1e-9)
    assert max(found) >= delta * 0.7  # attained, up to the grids of the oracle and of the steps


@pytest.mark.parametrize("rounds", [100, 1000])
def test_optimal_rate_against_the_worst_two_point_step(rounds):
    delta, affected = 1e-6, rounds - 1
    step = 2 * acc.learning_rate(1.0, delta, rounds, "optimal")
    tops = peaks(1.0, step, affected, 0.45, 0.55)
    interval = step / 100
    below, above = (
        max(two_point_losses(step, top, affected, interval, side).get_delta_for_epsilon(1.0) for top in tops)
        for side in (False, True)
    )
    assert below <= delta <= above
    assert composition.bounded_range_delta(1.0, step, affected) <= delta * (1 + 3e-4)


@pytest.mark.parametrize("mu", [0.05, 0.236704, 1.0, 4.0])
def test_gaussian_dp_against_the_gaussian_mechanism(mu):
    for delta in (1e-12, 1e-6, 1e-3, 0.2):
        theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta, tol=1e-13)
        assert acc.gaussian_epsilon(mu, delta) == pytest.approx(theirs, rel=1e-7, abs=1e-9)
    for epsilon in (0.1, 1.0, 5.0):
        sigma = dp_accounting.get_sigma_gaussian(epsilon, 1e-6, tol=1e-13)
        assert acc.gaussian_mu(epsilon, 1e-6) == pytest.approx(1 / sigma, rel=1e-7)
    loss = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    for epsilon in (0.0, 0.5, 2.0):
        assert acc.gaussian_delta(mu, epsilon) == pytest.approx(
            loss.get_delta_for_epsilon(epsilon), rel=1e-3, abs=1e-12
        )


@pytest.mark.parametrize("rho", [1e-4, 0.0174, 0.125, 1.25, 20.0])
def test_zcdp_against_the_renyi_accountant(rho):
    for delta in (1e-9, 1e-5, 0.01):
        accountant = rdp.RdpAccountant(orders=list(1 + np.geomspace(1e-3, 1e5, 4000)))
        accountant.compose(dp_accounting.ZCDpEvent(rho=rho))
        theirs = accountant.get_epsilon(delta)
        assert acc.zcdp_epsilon(rho, delta) <= theirs * (1 + 1e-12)
        assert acc.zcdp_epsilon(rho, delta) == pytest.approx(theirs, rel=1e-3)


def test_renyi_conversion_against_the_renyi_accountant():
    orders = acc.RENYI_ORDERS[acc.RENYI_ORDERS > 1.01]
    for curve in (0.03 * orders, 0.5 * np.log(orders), acc.bounded_range_divergence(0.7, orders) * 6):
        for delta in (1e-10, 1e-6, 1e-3):
            theirs, _ = rdp.compute_epsilon(orders, curve, delta)
            assert acc.renyi_epsilon(orders, curve, delta) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("step", "count", "delta"), [(0.1, 100, 1e-6), (1.0, 10, 1e-5), (0.02, 1000, 1e-6)])
def test_adaptive_bounds_cover_the_worst_fixed_step(step, count, delta):
    below = two_point_losses(step, step / 2, count, step / 100, pessimistic=False).get_epsilon_for_delta(delta)
    bounds = acc.composition_bounds(step, count, delta, "bounded_range")
    assert below <= min(bounds.values())
    if count <= 100:
        assert below <= acc.adaptive_bounded_range_epsilon(step, count, delta) <= min(bounds.values())


@pytest.mark.parametrize(("pure", "mu"), [(0.4, 0.14), (1.0, 0.5)])
def test_pure_then_concentrated_covers_the_composed_losses(pure, mu):
    response = pld.from_randomized_response(2 / (1 + math.exp(pure)), 2, value_discretization_interval=1e-4)
    composed = response.compose(
        pld.from_gaussian_mechanism(
            1 / mu,
            value_discretization_interval=1e-4,
            neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE,
            sensitivity=0.5,
        )
    )
    for epsilon in (0.2, 1.0, 1.8):
        exact, claimed = composed.get_delta_for_epsilon(epsilon), acc.mixed_delta(pure, mu**2 / 2, epsilon)
        assert exact <= claimed * (1 + 1e-6) + 1e-14
        assert claimed <= max(10 * exact, 1e-9)


def test_ledger_of_gaussian_steps_covers_the_gaussian_mechanism():
    ledger = acc.Ledger()
    ledger.compose(*[acc.Spend(rho=0.1**2 / 2)] * 25)
    exact = dp_accounting.get_epsilon_gaussian(1 / 0.5, 1e-6)
    assert exact <= ledger.epsilon(1e-6) <= 1.1 * exact


def test_a_coarse_numeric_grid_loses_to_basic_composition():
    response = pld.from_randomized_response(2 / (1 + math.exp(1e-5)), 2).self_compose(100)
    theirs = response.get_epsilon_for_delta(1e-6)
    assert theirs > 0.001 >= acc.compose(1e-5, 100, 1e-6).epsilon
