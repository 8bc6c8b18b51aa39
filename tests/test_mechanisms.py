"""Mechanisms: closed forms, slow oracles, exact privacy, and distribution tests.

A distribution test fixes its seed and fails at a p-value below 1e-6: that is its false-alarm probability over seeds.
Each comes with a control that the same test must reject, so that a wrong scale cannot pass.
"""

import importlib.util
import itertools
import math
import pickle
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.linalg import solve_triangular, toeplitz

import dp_experts_env.privacy.mechanisms as m
from dp_experts_env.privacy.mechanisms.counters import _exponential_sum
from dp_experts_env.spec import ArgumentError, MissingExtraError, ProtocolError

FALSE_ALARM = 1e-6
FAMILIES = ("laplace", "exponential")
COUNTERS = (m.BinaryTreeCounter, m.HonakerCounter, m.SquareRootToeplitzCounter)
LAST_UNIFORM = 1.0 - 2.0**-53

check = settings(derandomize=True, deadline=None, max_examples=100)


def generator(seed=0):
    return np.random.default_rng(seed)


def chi_square(counts, probabilities):
    return stats.chisquare(counts, counts.sum() * np.asarray(probabilities)).pvalue


# ---- exponential mechanism


@check
@given(
    losses=st.lists(st.floats(0, 1e6), min_size=1, max_size=12),
    rate=st.floats(0, 5),
    data=st.data(),
)
def test_exponential_mechanism_equals_its_formula(losses, rate, data):
    base = data.draw(st.lists(st.floats(-3, 3), min_size=len(losses), max_size=len(losses)))
    least = min(losses)
    logits = [b - rate * (x - least) for b, x in zip(base, losses, strict=True)]
    top = max(logits)
    log_total = top + math.log(math.fsum(math.exp(x - top) for x in logits))
    log_p = m.exponential_log_probabilities(losses, rate, base)
    assert np.allclose(log_p, np.array(logits) - log_total, rtol=1e-13, atol=1e-12)
    p = m.exponential_probabilities(losses, rate, base)
    assert np.allclose(p, np.exp(log_p), rtol=1e-9, atol=1e-300)
    assert p.sum() == pytest.approx(1.0, abs=1e-13)


def test_log_space_survives_where_probabilities_underflow():
    losses = [0.0, 746.0, 1e9]
    assert m.exponential_log_probabilities(losses, 1.0).tolist() == [0.0, -746.0, -1e9]
    assert m.exponential_probabilities(losses, 1.0).tolist() == [1.0, 0.0, 0.0]
    # the gap is taken before the rate multiplies: a huge common offset costs no accuracy
    shifted = m.exponential_log_probabilities(np.array([0.0, 1.0]) + 2.0**52, 1e3)
    assert shifted.tolist() == m.exponential_log_probabilities([0.0, 1.0], 1e3).tolist()


def test_base_measure_and_rates_per_game():
    log_p = m.exponential_log_probabilities(
        [0.0, 0.0, 5.0], 2.0, np.log([3.0, 1.0, 0.0], where=[1, 1, 0], out=np.full(3, -np.inf))
    )
    assert np.exp(log_p).tolist() == pytest.approx([0.75, 0.25, 0.0], abs=1e-15)
    rates = np.array([[0.0], [1.0]])
    both = m.exponential_log_probabilities([0.0, 1.0], rates)
    assert both.shape == (2, 2)
    for row, rate in zip(both, (0.0, 1.0), strict=True):
        assert np.array_equal(row, m.exponential_log_probabilities([0.0, 1.0], rate))


@pytest.mark.parametrize(
    ("losses", "rate", "base"),
    [
        ([0.0, 1.0], -0.1, None),
        ([0.0, 1.0], math.inf, None),
        ([0.0, 1.0], math.nan, None),
        ([0.0, math.nan], 1.0, None),
        ([0.0, math.inf], 1.0, None),
        ([0.0, 1.0], 1.0, [-math.inf, -math.inf]),
        ([0.0, 1.0], 1.0, [0.0, math.inf]),
        ([], 1.0, None),
        (0.5, 1.0, None),
    ],
)
def test_exponential_mechanism_refuses(losses, rate, base):
    for function in (m.exponential_log_probabilities, m.exponential_probabilities):
        with pytest.raises(ArgumentError, match=r"rate|losses|base"):
            function(losses, rate, base)


def test_privacy_loss_of_one_step_in_closed_form():
    def log_ratio(one, other, rate):
        return m.exponential_log_probabilities(one, rate) - m.exponential_log_probabilities(other, rate)

    assert log_ratio([0.0, 1.0], [1.0, 0.0], 0.5).tolist() == pytest.approx([0.5, -0.5], abs=1e-15)
    up, down = np.ones(1000), np.zeros(1000)
    up[0], down[0] = 0.0, 1.0
    assert abs(log_ratio(up, down, 0.5)[0]) == pytest.approx(0.999, abs=5e-4)


@check
@given(st.integers(0, 2**32 - 1))
def test_privacy_loss_range_of_neighbours(seed):
    rng = generator(seed)
    total, rate = rng.random(6) * 50, rng.random()
    one, other = rng.integers(0, 2, (2, 6)).astype(float)
    for move, bound in ((one - other, 2 * rate), (one, rate)):
        ratio = m.exponential_log_probabilities(total + move, rate) - m.exponential_log_probabilities(total, rate)
        assert np.ptp(ratio) <= bound + 1e-12
        assert np.abs(ratio).max() <= bound + 1e-12


@pytest.mark.parametrize("experts", [1, 2, 10, 31, 32, 200])
@pytest.mark.parametrize("function", [m.softmax, lambda x: m.exponential_log_probabilities(x, 0.3)])
def test_one_row_equals_many_bit_for_bit(function, experts):
    block = generator(experts).random((3, 200, experts)) * 20
    whole = function(block)
    assert np.array_equal(whole, function(np.asfortranarray(block)))
    for r in range(3):
        assert np.array_equal(whole[r], function(block[r]))
        for g in range(0, 200, 37):
            assert np.array_equal(whole[r, g], function(block[r, g]))
            assert np.array_equal(whole[r, g], function(block[r, g][None])[0])


# ---- sampling


def first_beyond(weights, uniform):
    total, sums = 0.0, []
    for weight in weights:
        total += weight
        sums.append(total)
    return next(i for i, partial in enumerate(sums) if partial > uniform * total)


@check
@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 1e-17, 0.1, 1.0, 3.0]), min_size=1, max_size=9).filter(any),
    uniform=st.floats(0, LAST_UNIFORM),
)
def test_inverse_cdf_equals_a_plain_loop(weights, uniform):
    for u in (0.0, uniform, LAST_UNIFORM):
        index = m.sample_inverse_cdf(weights, u)
        assert index == first_beyond(weights, u)
        assert weights[index] > 0.0
        assert np.array_equal(m.sample_inverse_cdf(np.tile(weights, (300, 1)), np.full(300, u)), np.full(300, index))


@pytest.mark.parametrize(
    ("weights", "uniforms"),
    [
        ((10,), (50,)),
        ((10,), (5, 6)),
        ((7, 10), (7,)),
        ((600, 10), (600,)),
        ((260, 150), (260,)),
        ((5, 10), (5, 40)),
        ((3, 200, 4), (3, 200)),
        ((3, 4, 10), (3, 4, 5)),
        ((6, 1), (6, 1)),
    ],
)
def test_shapes_of_weights_and_uniforms_row_by_row(weights, uniforms):
    rng = generator(3)
    w, u = rng.random(weights), rng.random(uniforms)
    w[..., ::3] *= rng.random(w[..., ::3].shape) < 0.5
    w[..., -1] += 0.01
    drawn = m.sample_inverse_cdf(w, u)
    assert drawn.shape == u.shape
    assert drawn.dtype == np.int64
    assert np.array_equal(drawn, m.sample_inverse_cdf(np.asfortranarray(w), u))
    for position in np.ndindex(u.shape):
        row = w[position[: w.ndim - 1]]
        assert drawn[position] == m.sample_inverse_cdf(row, u[position]) == first_beyond(row, u[position])
        assert row[drawn[position]] > 0.0


def test_no_draws_from_no_games():
    assert m.sample_inverse_cdf(np.ones((0, 3)), np.ones(0)).shape == (0,)
    assert m.sample_inverse_cdf(np.ones(3), np.ones(0)).shape == (0,)


@pytest.mark.parametrize(
    ("weights", "uniforms", "name"),
    [
        ([1.0, 1.0], 1.0, "uniforms"),
        ([1.0, 1.0], -1e-9, "uniforms"),
        ([1.0, 1.0], [0.5, math.nan], "uniforms"),
        ([1.0, -1e-9], 0.5, "weights"),
        ([1.0, math.nan], 0.5, "weights"),
        ([1.0, math.inf], 0.5, "weights"),
        ([0.0, 0.0], 0.5, "weights"),
        ([5e-324, 0.0], 0.5, "weights"),
        ([[1.0, 1.0], [0.0, 0.0]], [0.5, 0.5], "weights"),
        ([[1.0, 1.0], [0.0, 0.0]], [[0.5] * 2] * 2, "weights"),
        ([[1.0, 1.0]], [0.5, 0.5], "uniforms"),
        ([[1.0, 1.0]], 0.5, "uniforms"),
        (1.0, 0.5, "uniforms"),
    ],
)
def test_inverse_cdf_refuses(weights, uniforms, name):
    with pytest.raises(ArgumentError, match=name):
        m.sample_inverse_cdf(weights, uniforms)


def test_samplers_follow_the_law_and_the_test_would_notice():
    """200,000 draws each; a rate 3% too large is rejected by the same test."""
    losses, rate, draws = np.array([0.0, 1.0, 2.5, 0.3, 60.0]), 0.7, 200_000
    law = m.exponential_probabilities(losses, rate)
    log_law = m.exponential_log_probabilities(losses, rate)
    rng = generator(11)
    samples = {
        "shared": m.sample_inverse_cdf(law, rng.random(draws)),
        "per game": m.sample_inverse_cdf(np.tile(law, (draws, 1)), rng.random(draws)),
        "outcomes": m.sample_outcomes(log_law - 900.0, rng.random(draws)),
        "gumbel": m.sample_gumbel(log_law + 900.0, rng, (draws,)),
    }
    wrong = m.exponential_probabilities(losses, 1.03 * rate)
    for name, sample in samples.items():
        counts = np.bincount(sample, minlength=5)
        assert counts[4] == 0
        assert chi_square(counts[:4], law[:4] / law[:4].sum()) > FALSE_ALARM, name
        assert chi_square(counts[:4], wrong[:4] / wrong[:4].sum()) < FALSE_ALARM, name


def test_gumbel_leaves_out_impossible_outcomes_and_draws_a_fixed_number():
    logits = np.array([-math.inf, -1e6, -1e6, -math.inf])
    assert set(m.sample_gumbel(logits, generator(), (500,)).tolist()) == {1, 2}
    one, block = generator(4), generator(4)
    table = generator(5).normal(size=(6, 3, 4))
    rows = [m.sample_gumbel(row, one) for row in table]
    assert np.array_equal(rows, m.sample_gumbel(table, block))
    assert one.random() == block.random()
    assert m.sample_gumbel(logits, generator()).shape == ()
    with pytest.raises(ArgumentError, match="log_weights"):
        m.sample_gumbel([-math.inf, -math.inf], generator())
    with pytest.raises(ArgumentError, match="size"):
        m.sample_gumbel(np.zeros((3, 4)), generator(), (2,))
    with pytest.raises(ArgumentError, match="log_probabilities"):
        m.sample_outcomes([-math.inf, -math.inf], 0.5)


def test_inputs_are_left_alone():
    values, uniforms = generator().random((300, 5)), generator().random(300)
    before = values.copy(), uniforms.copy()
    m.softmax(values)
    m.exponential_probabilities(values, 1.0)
    m.exponential_log_probabilities(values, 1.0, values)
    m.sample_inverse_cdf(values, uniforms)
    m.sample_outcomes(values, uniforms)
    m.sample_gumbel(values, generator())
    counter = m.BinaryTreeCounter(generator(), (5,), 300, 1.0)
    counter.add_block(values)
    m.RunningSum().add_block(values)
    assert np.array_equal(values, before[0])
    assert np.array_equal(uniforms, before[1])


# ---- noise

LAWS = {
    "laplace": stats.laplace,
    "exponential": stats.expon,
    "gaussian": stats.norm,
    "gumbel": stats.gumbel_r,
}


@pytest.mark.parametrize("family", LAWS)
@pytest.mark.parametrize("scale", [0.03, 2.5])
def test_noise_has_its_law_and_scale(family, scale):
    """Kolmogorov-Smirnov on 60,000 draws; a scale wrong by 8% is rejected by the same test."""
    noise = getattr(m, family)(generator(21), scale, (300, 200)).ravel()
    assert stats.kstest(noise, LAWS[family](scale=scale).cdf).pvalue > FALSE_ALARM
    for wrong in (1.08, 1 / 1.08):
        assert stats.kstest(noise, LAWS[family](scale=scale * wrong).cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("family", LAWS)
def test_noise_shapes_blocks_and_refusals(family):
    draw = getattr(m, family)
    assert draw(generator(), 1.0).shape == ()
    assert draw(generator(), 1.0, 3).shape == (3,)
    assert not draw(generator(), 0.0, (4, 2)).any()
    one, block, zero = generator(1), generator(1), generator(1)
    rows = [draw(one, 1.5, (3, 2)) for _ in range(5)]
    assert np.array_equal(rows, draw(block, 1.5, (5, 3, 2)))
    draw(zero, 0.0, (5, 3, 2))
    assert one.random() == block.random() == zero.random()
    for scale in (-1.0, math.nan, math.inf, "1"):
        with pytest.raises(ArgumentError, match="scale"):
            draw(generator(), scale)
    for rng in (None, np.random, 7):
        with pytest.raises(ArgumentError, match="rng"):
            draw(rng, 1.0)


positive = st.floats(1e-6, 1e6)


@check
@given(sensitivity=positive, parameter=positive)
def test_scales_are_the_least_private_floats_that_are_private_enough(sensitivity, parameter):
    target, exact = Fraction(parameter), Fraction(sensitivity)
    costs = {
        m.laplace_scale: lambda b: exact / b <= target,
        m.gaussian_scale: lambda s: exact / s <= target,
        m.gaussian_zcdp_scale: lambda s: exact**2 / (2 * s**2) <= target,
    }
    for plan, private in costs.items():
        scale = plan(sensitivity, parameter)
        assert private(Fraction(scale))
        assert not private(Fraction(scale * (1 - 4e-16)))


def test_scales_in_closed_form():
    assert m.laplace_scale(1.0, 1.0) == 1.0
    assert m.laplace_scale(10.0, 0.5) == 20.0
    assert m.gaussian_scale(3.0, 0.5) == 6.0
    assert m.gaussian_zcdp_scale(2.0, 0.5) == 2.0
    assert m.laplace_scale(0.0, 1.0) == 0.0
    # mu-Gaussian DP with mu = 0.2367 is (1, 1e-6)-DP: Dong, Roth and Su's conversion for N(0, s^2) against N(1, s^2)
    s = m.gaussian_scale(1.0, 0.236704)
    delta = stats.norm.cdf(-s + 0.5 / s) - math.e * stats.norm.cdf(-s - 0.5 / s)
    assert delta == pytest.approx(1e-6, rel=1e-4)
    for plan in (m.laplace_scale, m.gaussian_scale, m.gaussian_zcdp_scale):
        for bad in ((-1.0, 1.0), (1.0, 0.0), (1.0, math.nan), (math.inf, 1.0), (1e300, 1e-300)):
            with pytest.raises(ArgumentError):
                plan(*bad)


def test_generators_of_two_worlds_give_unrelated_noise():
    """The correlation of 1000 pairs lies within 5 standard errors of 0 (false alarm 6e-7); a reused generator, at 1."""
    worlds = generator(8).spawn(2)
    one, other = (m.laplace(rng, 1.0, 1000) for rng in worlds)
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(1000)
    assert np.corrcoef(one, m.laplace(generator(8).spawn(2)[0], 1.0, 1000))[0, 1] == pytest.approx(1.0)


# ---- the secure sampler


def test_secure_sampler_without_opendp_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    for draw in (m.laplace, m.exponential, m.gaussian):
        with pytest.raises(MissingExtraError, match=r"dp-experts-env\[secure\]"):
            draw(None, 1.0, 3, sampler="secure")
    with pytest.raises(MissingExtraError, match="secure"):
        m.sample_gumbel([0.0, 1.0], None, sampler="secure")
    with pytest.raises(ArgumentError, match="sampler"):
        m.laplace(generator(), 1.0, sampler="quantum")


secure = pytest.mark.skipif(importlib.util.find_spec("opendp") is None, reason="needs the extra 'secure'")


@secure
@pytest.mark.parametrize("family", ["laplace", "exponential", "gaussian"])
def test_secure_noise_has_its_law_and_scale(family):
    """Kolmogorov-Smirnov on 20,000 draws (not seeded: false alarm 1e-6 a run); a scale wrong by 30% is rejected."""
    rng = generator(1)
    noise = getattr(m, family)(rng, 2.5, (200, 100), sampler="secure")
    assert noise.shape == (200, 100)
    assert rng.random() == generator(1).random()
    assert stats.kstest(noise.ravel(), LAWS[family](scale=2.5).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(noise.ravel(), LAWS[family](scale=2.5 * 1.3).cdf).pvalue < FALSE_ALARM
    assert getattr(m, family)(None, 2.5, sampler="secure").shape == ()
    assert not getattr(m, family)(None, 0.0, 3, sampler="secure").any()


@secure
def test_secure_selection_has_its_law():
    """8,000 draws (not seeded: false alarm 1e-6 a run); permute-and-flip, the other noisy-max, is rejected."""
    logits = np.array([0.0, 1.0, -math.inf])
    drawn = m.sample_gumbel(logits, None, (8000,), sampler="secure")
    counts = np.bincount(drawn, minlength=3)
    assert counts[2] == 0
    assert chi_square(counts[:2], m.softmax([0.0, 1.0])) > FALSE_ALARM
    assert chi_square(counts[:2], [0.5 / math.e, 1 - 0.5 / math.e]) < FALSE_ALARM
    assert m.sample_gumbel(np.zeros((2, 3)), None, sampler="secure").shape == (2,)


@secure
def test_secure_noise_runs_through_above_threshold_and_counters():
    watch = m.AboveThreshold(1.0, 1.0, sampler="secure")
    watch.start((4,), None)
    assert watch.test(1e6, 0.0, None).all()
    counter = m.BinaryTreeCounter(None, (2,), 4, 1.0, sampler="secure")
    assert np.unique(counter.noise_block(4)).size == 8


# ---- AboveThreshold


def test_a_threshold_is_a_real_number_and_a_tie_is_above():
    watch = m.AboveThreshold(0.0, 0.0, count=9)
    watch.start((4,), generator())
    assert watch.test([37.0, 37.3, 37.4, 37], 37.3, generator()).tolist() == [False, True, True, False]
    single = m.AboveThreshold(0.0, 0.0)
    single.start((), generator())
    answer = single.test(37, 37.3, generator())
    assert answer.shape == ()
    assert not answer
    assert single.running
    assert single.test(37.3, 37.3, generator())
    assert not single.running


def test_answers_are_the_stated_comparison():
    watch = m.AboveThreshold(2.0, 3.0, count=50)
    xi = watch.draw_threshold_noise(generator(1), (6,))
    nu = watch.draw_query_noise(generator(2), (40, 6))
    queries = generator(3).normal(size=(40, 6))
    watch.start((6,), xi)
    stream, block = generator(2), m.AboveThreshold(2.0, 3.0, count=50)
    block.start((6,), generator(1))
    for q, row in zip(queries, nu, strict=True):
        answer = watch.test(q, 0.5, row)
        assert np.array_equal(answer, q + row >= 0.5 + xi)
        assert np.array_equal(answer, block.test(q, 0.5, stream))
    one = m.AboveThreshold(2.0, 3.0, count=50)
    one.start((), xi[0])
    batch = m.AboveThreshold(2.0, 3.0, count=50)
    batch.start((1,), xi[:1])
    for q, row in zip(queries[:, 0], nu[:, 0], strict=True):
        assert one.test(q, 0.5, row) == batch.test([q], 0.5, [row])[0]


def test_instances_halt_game_by_game_and_restart_by_mask():
    watch = m.AboveThreshold(0.0, 0.0, count=2)
    with pytest.raises(ProtocolError, match=r"start\(\)"):
        watch.test(0.0, 0.0, generator())
    watch.start(np.array([True, True, False]), generator())
    assert watch.running.tolist() == [True, True, False]
    with pytest.raises(ProtocolError, match="game 2"):
        watch.test([0.0, 0.0, 0.0], 1.0, generator())
    mask = np.array([True, True, False])
    assert watch.test([1.0, 0.0, 1.0], 1.0, generator(), mask).tolist() == [True, False, False]
    assert watch.running.tolist() == [True, True, False]
    assert watch.test([1.0, 0.0, 1.0], 1.0, generator(), mask).tolist() == [True, False, False]
    assert watch.running.tolist() == [False, True, False]
    with pytest.raises(ProtocolError, match="game 0"):
        watch.test(0.0, 1.0, generator(), mask)
    assert not watch.test(0.0, 1.0, generator(), watch.running).any()
    watch.start(np.array([True, False, False]), generator())
    assert watch.running.tolist() == [True, True, False]
    watch.start((), generator())
    assert watch.running.shape == ()
    for wrong in (np.array([1, 0]), np.array([True, False])):
        with pytest.raises(ArgumentError, match="where"):
            watch.start(wrong, generator())
    with pytest.raises(ArgumentError, match="noise"):
        watch.test(0.0, 0.0, [1.0, 2.0])
    with pytest.raises(ArgumentError, match="queries"):
        watch.test([0.0, 1.0], 0.0, generator())
    for query, threshold in ((math.nan, 0.0), (0.0, math.nan)):
        with pytest.raises(ArgumentError, match="NaN"):
            watch.test(query, threshold, generator())
    assert watch.running


@pytest.mark.parametrize("noise", FAMILIES)
def test_a_restart_renews_the_threshold_noise_of_its_games_only(noise):
    watch = m.AboveThreshold(1.0, 0.0, noise=noise, count=10**6)
    one, other = generator(1), generator(1)
    watch.start((3,), one)

    def threshold_noise():
        low, high = np.full(3, -50.0), np.full(3, 50.0)
        for _ in range(80):
            middle = (low + high) / 2
            above = watch.test(middle, 0.0, np.zeros(3))
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return high

    first = threshold_noise()
    watch.start(np.array([False, True, False]), one)
    second = threshold_noise()
    assert (first == second).tolist() == [True, False, True]
    # the number of draws does not depend on the mask
    watch.start((3,), other)
    watch.start(np.array([True, True, True]), other)
    assert one.random() == other.random()


@pytest.mark.parametrize("noise", FAMILIES)
def test_simulated_answers_follow_the_exact_law(noise):
    """100,000 games; the law of an AboveThreshold with 10% less query noise is rejected by the same test."""
    queries, thresholds, games = [0.0, 1.5, 0.5], [1.0, 1.2, 0.8], 100_000
    watch = m.AboveThreshold(1.0, 1.5, noise=noise)
    rng = generator(33)
    watch.start((games,), rng)
    halted = np.full(games, 3)
    for t in range(3):
        above = watch.test(queries[t], thresholds[t], rng, watch.running)
        halted[above] = t
    counts = np.bincount(halted, minlength=4)

    def law(mechanism):
        stops = [
            mechanism.log_probability(queries[: t + 1], thresholds[: t + 1], np.arange(t + 1) == t) for t in range(3)
        ]
        return np.exp([*stops, mechanism.log_probability(queries, thresholds, [False] * 3)])

    assert chi_square(counts, law(watch)) > FALSE_ALARM
    assert chi_square(counts, law(m.AboveThreshold(1.0, 1.35, noise=noise))) < FALSE_ALARM


def outcomes(length, count):
    """All answers to ``length`` queries of an instance that halts at its ``count``-th above."""
    if length == 0:
        return [()]
    shorter = outcomes(length - 1, count)
    return [o for o in shorter if sum(o) == count] + [(*o, x) for o in shorter if sum(o) < count for x in (False, True)]


@pytest.mark.parametrize("noise", FAMILIES)
@pytest.mark.parametrize(
    ("threshold_scale", "query_scale", "count"),
    [(1.0, 1.0, 1), (0.2, 3.0, 2), (4.0, 0.1, 3), (1.0, 0.0, 2), (0.0, 2.0, 1)],
)
def test_exact_law_sums_to_one(noise, threshold_scale, query_scale, count):
    watch = m.AboveThreshold(threshold_scale, query_scale, noise=noise, count=count)
    queries = generator(count).normal(0, 3, 4)
    total = math.fsum(math.exp(watch.log_probability(queries[: len(o)], 0.4, o)) for o in outcomes(4, count))
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("noise", FAMILIES)
def test_exact_law_agrees_with_scipy(noise):
    law = stats.laplace if noise == "laplace" else stats.expon
    queries, answer, a, b = np.array([-2.0, 3.0, 0.5]), np.array([False, False, True]), 2.0, 0.7
    watch = m.AboveThreshold(a, b, noise=noise)

    def integrand(xi):
        x = 1.0 + xi - queries
        return law.pdf(xi, scale=a) * np.where(answer, law.sf(x, scale=b), law.cdf(x, scale=b)).prod()

    ends = [
        0.0 if noise == "exponential" else -60.0,
        *(p for p in (-3.0, -0.5, 0.0, 2.0) if noise == "laplace" or p > 0),
        60.0,
    ]
    slow = sum(integrate.quad(integrand, *pair, epsabs=1e-14)[0] for pair in itertools.pairwise(ends))
    assert watch.log_probability(queries, 1.0, answer) == pytest.approx(math.log(slow), abs=1e-10)


def test_exact_law_of_the_variant_without_query_noise():
    for threshold in (0.0, 1.0):
        watch = m.AboveThreshold(2.0, 0.0)
        likely = math.exp(watch.log_probability([0.0, 1.0], threshold, [False, True]))
        assert likely == pytest.approx(0.5 - 0.5 * math.exp(-0.5), abs=1e-12)
        assert watch.log_probability([1.0, 0.0], threshold, [False, True]) == -math.inf
        assert watch.epsilon() == math.inf
        right = m.AboveThreshold.general(0.5, 0.5)
        one, other = (right.log_probability(q, threshold, [False, True]) for q in ([0.0, 1.0], [1.0, 0.0]))
        assert abs(one - other) <= right.epsilon() == 1.0
    assert m.AboveThreshold(0.0, 4.0).epsilon("suffix_constant") == math.inf


def test_exact_law_refuses():
    watch = m.AboveThreshold(1.0, 1.0)
    for queries, threshold, answer in (
        ([0.0, 1.0], 0.0, [True, False]),
        ([0.0, 1.0], 0.0, [True, True]),
        ([0.0, 1.0], 0.0, [False]),
        ([0.0], [0.0, 1.0], [False]),
        ([math.nan], 0.0, [False]),
        (0.0, 0.0, False),
    ):
        with pytest.raises(ArgumentError, match=r"outcome|queries"):
            watch.log_probability(queries, threshold, answer)
    assert watch.log_probability([], 0.0, []) == pytest.approx(0.0, abs=1e-13)


def log_ratios(watch, queries, shifts):
    """Log-ratio of every outcome for ``queries + shifts`` against ``queries``."""
    return np.array(
        [
            watch.log_probability((queries + shifts)[: len(o)], 0.0, o)
            - watch.log_probability(queries[: len(o)], 0.0, o)
            for o in outcomes(len(queries), watch.count)
        ]
    )


def shifts_of(stream, rng, length):
    if stream == "general":
        return rng.choice([-1.0, 0.0, 1.0], length)
    if stream == "monotone":
        return rng.choice([0.0, 0.5, 1.0], length)
    return np.where(np.arange(length) >= rng.integers(length), rng.choice([0.3, 1.0]), 0.0)


@pytest.mark.parametrize("noise", FAMILIES)
@pytest.mark.parametrize("stream", m.STREAMS)
@settings(derandomize=True, deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_privacy_loss_of_random_streams_lies_in_the_stated_range(noise, stream, seed):
    rng = generator(seed)
    count = 1 if stream == "suffix_constant" else int(rng.integers(1, 3))
    watch = m.AboveThreshold(*rng.choice([0.5, 1.0, 2.0, 4.0], 2), count=count, noise=noise)
    queries = rng.choice([-30.0, -8.0, 0.0, 8.0], 4) + rng.normal(size=4)
    ratios = log_ratios(watch, queries, shifts_of(stream, rng, 4))
    down, up = watch.privacy_loss_range(stream)
    assert ratios.min() >= -down - 1e-9
    assert ratios.max() <= up + 1e-9
    assert watch.epsilon(stream) == max(down, up)
    assert watch.bounded_range(stream) == down + up


@pytest.mark.parametrize("noise", FAMILIES)
def test_privacy_loss_is_attained(noise):
    """Noise of scales 2 and 4 costs exactly 1 on general, 3/4 on monotone and 1/2 on suffix-constant streams."""
    watch = m.AboveThreshold.general(0.5, 0.5, noise=noise)
    assert (watch.threshold_scale, watch.query_scale) == (2.0, 4.0)
    assert [watch.epsilon(stream) for stream in m.STREAMS] == [1.0, 0.75, 0.5]
    answer = np.arange(21) == 20

    def most(shifts):
        """Largest absolute log-ratio over a grid of 20 equal queries, answered below, and one, answered above."""
        grid = [np.where(answer, last, base) for base in (-20.0, -5.0, 0.0, 5.0, 10.0) for last in (-60.0, 0.0)]
        laws = [
            (watch.log_probability(q + d, 0.0, answer), watch.log_probability(q, 0.0, answer))
            for q in grid
            for d in shifts
        ]
        return max(abs(one - other) for one, other in laws)

    assert most([np.where(answer, -1.0, 1.0)]) == pytest.approx(1.0, abs=1e-6)
    assert most([np.where(answer, 0.0, 1.0), np.where(answer, 1.0, 0.0)]) == pytest.approx(0.75, abs=1e-6)
    assert most([np.where(np.arange(21) >= cut, 1.0, 0.0) for cut in (0, 10, 20)]) == pytest.approx(0.5, abs=1e-6)
    # the suffix lemma's own scales attain their max, and both ends of their range
    tight = m.AboveThreshold.suffix_constant(1.0, 0.5, noise=noise)
    assert tight.privacy_loss_range("suffix_constant") == (1.0, 0.5)
    stop = [tight.log_probability([q, -60.0 + s], 0.0, [False, True]) for q, s in ((-40.0, 0.0), (-40.0, 1.0))]
    assert stop[1] - stop[0] == pytest.approx(0.5, abs=1e-6)
    quiet = [tight.log_probability([0.0] * 5 + [60.0 + s] * 40, 0.0, [False] * 45) for s in (0.0, 1.0)]
    assert quiet[1] - quiet[0] == pytest.approx(-1.0, abs=1e-6)


@check
@given(
    e1=st.floats(1e-3, 10),
    e2=st.floats(1e-3, 10),
    sensitivity=st.floats(1e-3, 10),
    count=st.integers(1, 50),
)
def test_constructors_never_cost_more_than_asked(e1, e2, sensitivity, count):
    general = m.AboveThreshold.general(e1, e2, sensitivity, count)
    monotone = m.AboveThreshold.monotone(e1, e2, sensitivity, count)
    suffix = m.AboveThreshold.suffix_constant(e1, e2, sensitivity)
    assert general.epsilon("general", sensitivity) <= e1 + e2
    assert monotone.epsilon("monotone", sensitivity) <= e1 + e2
    assert suffix.epsilon("suffix_constant", sensitivity) <= max(e1, e2)
    assert general.epsilon("general", sensitivity) == pytest.approx(e1 + e2, rel=1e-14)
    assert monotone.epsilon("monotone", sensitivity) == pytest.approx(e1 + e2, rel=1e-14)
    assert suffix.epsilon("suffix_constant", sensitivity) == pytest.approx(max(e1, e2), rel=1e-14)
    assert suffix.bounded_range("suffix_constant", sensitivity) == pytest.approx(e1 + e2, rel=1e-14)
    assert general.epsilon("general", 2 * sensitivity) == pytest.approx(2 * (e1 + e2), rel=1e-14)


def test_above_threshold_refuses_prints_and_pickles():
    for bad in (
        {"threshold_scale": -1.0},
        {"query_scale": math.nan},
        {"count": 0},
        {"noise": "gaussian"},
        {"sampler": "x"},
    ):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            m.AboveThreshold(**{"threshold_scale": 1.0, "query_scale": 1.0, **bad})
    with pytest.raises(ArgumentError, match="count=1"):
        m.AboveThreshold(1.0, 1.0, count=2).epsilon("suffix_constant")
    with pytest.raises(ArgumentError, match="stream"):
        m.AboveThreshold(1.0, 1.0).epsilon("any")
    with pytest.raises(ArgumentError, match="epsilon_query"):
        m.AboveThreshold.monotone(1.0, 0.0)
    watch = m.AboveThreshold.monotone(0.5, 0.25, 2.0, 3, noise="exponential")
    assert repr(watch) == (
        "AboveThreshold(threshold_scale=4.0, query_scale=24.0, count=3, noise='exponential', sampler='simulation')"
    )
    watch.start((2,), generator())
    copy = pickle.loads(pickle.dumps(watch))
    assert np.array_equal(copy.test(3.0, 0.0, generator(1)), watch.test(3.0, 0.0, generator(1)))


@pytest.mark.parametrize("noise", FAMILIES)
def test_accuracy_bound_holds_and_is_not_loose(noise):
    """20,000 games of 50 queries: the rate is below beta + 5 standard errors (false alarm 3e-7), above beta/20."""
    games, k, beta = 20_000, 50, 0.05
    watch = m.AboveThreshold(2.0, 1.0, noise=noise, count=k)
    alpha = watch.accuracy(k, beta)
    rng = generator(2)
    errors = np.zeros(games, dtype=bool)
    # queries just beyond alpha on either side: any wrong answer breaks the promise
    queries = np.where(np.arange(k) % 2, 1.0, -1.0) * (alpha + 1e-9)
    watch.start((games,), rng)
    for q in queries:
        errors |= watch.test(q, 0.0, rng, watch.running) != (q > 0)
    slack = 5 * math.sqrt(beta / games)
    assert errors.mean() <= beta + slack
    assert errors.mean() >= beta / 20


def test_accuracy_bound_in_closed_form():
    unit = m.AboveThreshold.suffix_constant(0.5, 0.5)
    assert unit.accuracy(1000, 0.1, starts=1000) == pytest.approx(2 * math.log(2 * 1000 / 0.1) / 0.5)
    textbook = m.AboveThreshold.general(0.5, 0.5)
    assert textbook.accuracy(100, 0.1) <= 8 * (math.log(100) + math.log(2 / 0.1))
    assert m.AboveThreshold(0.0, 3.0).accuracy(10, 0.1) == pytest.approx(3 * math.log(100))
    assert m.AboveThreshold(2.0, 3.0, noise="exponential").accuracy(10, 0.1) == pytest.approx(3 * math.log(200))
    with pytest.raises(ArgumentError, match="beta"):
        unit.accuracy(10, 1.0)


# ---- running sums


def test_ones_are_not_lost_on_top_of_two_to_the_53():
    values = np.ones((1001, 3))
    values[0] = 2.0**53
    assert np.cumsum(values, axis=0)[-1, 0] == 2.0**53
    sums = m.RunningSum()
    assert sums.add_block(values)[-1].tolist() == [2.0**53 + 1000] * 3
    rows = m.RunningSum()
    for value in values:
        rows.add(value)
    assert rows.total.tolist() == [2.0**53 + 1000] * 3


@check
@given(values=st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40), cut=st.integers(0, 40))
def test_running_sums_are_nearly_exact_and_blocks_equal_rows(values, cut):
    block, rows = m.RunningSum(), m.RunningSum()
    column = np.array(values)[:, None]
    whole = np.concatenate([block.add_block(column[:cut]).reshape(-1, 1), block.add_block(column[cut:]).reshape(-1, 1)])
    assert np.array_equal(whole, [rows.add(value) for value in column])
    assert np.array_equal(block.total, rows.total)
    size = math.fsum(abs(x) for x in values)
    for t, total in enumerate(whole[:, 0], 1):
        # one final rounding, and Neumaier's second-order term
        assert abs(total - math.fsum(values[:t])) <= 2**-52 * abs(total) + t * t * 2**-105 * size


def test_running_sums_broadcast_and_reset():
    sums = m.RunningSum()
    assert sums.add([1.0, 2.0]).shape == (2,)
    assert sums.add(np.ones((3, 2))).tolist() == [[2.0, 3.0]] * 3
    sums.reset(np.array([True, False, False]))
    assert sums.add_block(np.full((2, 2), 0.5))[-1].tolist() == [[1.0, 1.0], [3.0, 4.0], [3.0, 4.0]]
    total = sums.total
    total[:] = 9.0
    assert sums.total[1].tolist() == [3.0, 4.0]
    with pytest.raises(ArgumentError, match="where"):
        sums.reset(np.array([True, False]))
    sums.reset()
    assert sums.add([7.0]).tolist() == [7.0]
    assert m.RunningSum().add_block(np.zeros((0, 4))).shape == (0, 4)


# ---- counters


def linear_map(cls, horizon):
    """The matrix from all basic draws to the noise on prefixes 1..T, by feeding the counter unit vectors as noise."""
    total = sum(horizon >> j for j in range(horizon.bit_length())) if cls is m.HonakerCounter else horizon

    class Probe(cls):
        drawn = 0

        def _draw(self, count):
            units = np.eye(total)[self.drawn : self.drawn + count]
            self.drawn += count
            return units

    probe = Probe(None, (total,), horizon, 1.0)
    sizes = [1, 2, 5, 1, 40, 3] * horizon
    blocks = []
    while probe.rounds < horizon:
        blocks.append(probe.noise_block(min(sizes.pop(), horizon - probe.rounds)))
    assert probe.drawn == total
    return np.concatenate(blocks)


def tree_nodes(horizon):
    """All completed dyadic nodes (height, start, stop), in the order in which they complete, small before large."""
    return [(h, t - (1 << h), t) for t in range(1, horizon + 1) for h in range(t.bit_length()) if t % (1 << h) == 0]


def decomposition(prefix):
    parts, start = [], 0
    for height in reversed(range(prefix.bit_length())):
        if prefix >> height & 1:
            parts.append((height, start, start + (1 << height)))
            start += 1 << height
    return parts


@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 21, 64])
def test_tree_noise_is_that_of_the_dyadic_decomposition(horizon):
    matrix = linear_map(m.BinaryTreeCounter, horizon)
    for t in range(1, horizon + 1):
        stops = [stop for _, _, stop in decomposition(t)]
        assert np.flatnonzero(matrix[t - 1]).tolist() == [stop - 1 for stop in stops]
        assert matrix[t - 1].sum() == len(stops)
    used = {node for t in range(1, horizon + 1) for node in decomposition(t)}
    load = max(sum(start < t <= stop for _, start, stop in used) for t in range(1, horizon + 1))
    assert load == m.BinaryTreeCounter.levels(horizon) == m.BinaryTreeCounter.l1_sensitivity(horizon)


@pytest.mark.parametrize("horizon", [1, 2, 6, 8, 21, 32])
def test_honaker_noise_is_least_squares_from_below(horizon):
    """The estimate of a node is the best linear unbiased one from the noisy nodes under it (by a pseudo-inverse)."""
    matrix, nodes = linear_map(m.HonakerCounter, horizon), tree_nodes(horizon)
    for t in range(1, horizon + 1):
        expected = np.zeros(len(nodes))
        for _, low, high in decomposition(t):
            under = [i for i, (_, start, stop) in enumerate(nodes) if low <= start and stop <= high]
            design = np.array(
                [[nodes[i][1] < r <= nodes[i][2] for r in range(low + 1, high + 1)] for i in under], dtype=float
            )
            expected[under] = np.linalg.pinv(design).sum(0)
        assert np.allclose(matrix[t - 1], expected, atol=1e-12)


@pytest.mark.parametrize("horizon", [1, 31, 32, 33, 64, 65, 97, 700])
def test_toeplitz_noise_has_exactly_the_covariance_of_the_factorisation(horizon):
    matrix = linear_map(m.SquareRootToeplitzCounter, horizon)
    factor = toeplitz(m.toeplitz_coefficients(horizon), np.zeros(horizon))
    assert np.allclose(matrix, factor, rtol=1e-12, atol=0)
    assert np.allclose(matrix @ matrix.T, factor @ factor.T, rtol=1e-12, atol=0)
    # the privacy claim itself: whitened by the noise that is really added, one round's unit change has norm sqrt(gamma)
    shift = solve_triangular(matrix, np.tri(horizon), lower=True)
    norms = np.square(shift).sum(0)
    assert norms.max() <= m.toeplitz_gamma(horizon) * (1 + 1e-12)
    assert norms.max() == pytest.approx(m.toeplitz_gamma(horizon), rel=1e-11)


@pytest.mark.parametrize("horizon", [1000, 10**5, 10**6])
def test_far_lags_agree_with_the_coefficients_in_bounded_memory(horizon):
    f = m.toeplitz_coefficients(horizon)
    rates, weights = _exponential_sum(horizon, 32)
    lags = np.unique(np.concatenate([np.arange(33, 200), np.geomspace(33, horizon - 1, 300).astype(int)]))
    assert np.allclose(np.exp(-np.outer(lags, rates)) @ weights, f[lags], rtol=1e-12, atol=0)
    counter = m.SquareRootToeplitzCounter(generator(), (2, 5), horizon, 1.0)
    counter.noise_block(100)
    kept = sum(value.nbytes for value in vars(counter).values() if isinstance(value, np.ndarray) and value.shape[1:])
    assert kept <= 8 * ((3 * 32 + 60) * 10 + 32 * (64 + 2 * 60) + 60)


@pytest.mark.parametrize("cls", COUNTERS)
@pytest.mark.parametrize("horizon", [1, 2, 7, 64, 100, 129])
def test_standard_deviations_are_exact(cls, horizon):
    matrix = linear_map(cls, horizon)
    exact = np.sqrt(np.square(matrix).sum(1))
    assert np.allclose(cls.standard_deviations(horizon, 3.0), 3.0 * exact, rtol=1e-12)
    if "laplace" in cls.noises:
        assert np.allclose(cls.standard_deviations(horizon, 3.0, "laplace"), 3.0 * math.sqrt(2) * exact, rtol=1e-12)


def test_worst_noise_multipliers():
    table = {
        m.BinaryTreeCounter: (9.49, 13.49, 16.49),
        m.HonakerCounter: (7.28, 10.11, 12.23),
        m.SquareRootToeplitzCounter: (3.27, 4.00, 4.73),
    }
    for cls, figures in table.items():
        for horizon, figure in zip((10**3, 10**4, 10**5), figures, strict=True):
            worst = cls.l2_sensitivity(horizon) * cls.standard_deviations(horizon).max()
            assert worst == pytest.approx(figure, abs=0.005), (cls, horizon)


def test_toeplitz_coefficients_and_gamma():
    f = m.toeplitz_coefficients(12)
    assert f.tolist() == pytest.approx([math.comb(2 * k, k) / 4**k for k in range(12)], rel=1e-15)
    factor = toeplitz(m.toeplitz_coefficients(300), np.zeros(300))
    assert np.allclose(factor @ factor, np.tri(300), atol=1e-12)
    for n in (1, 2, 10, 1000):
        k, exact = Fraction(1), Fraction(0)
        for i in range(n):
            exact += k * k
            k *= Fraction(2 * i + 1, 2 * i + 2)
        assert exact <= Fraction(m.toeplitz_gamma(n)) <= exact * (1 + Fraction(1, 10**12))
        assert Fraction(m.SquareRootToeplitzCounter.l2_sensitivity(n)) ** 2 >= exact
    assert [round(m.toeplitz_gamma(10**i), 3) for i in (3, 4, 5)] == [3.265, 3.998, 4.731]
    with pytest.raises(ArgumentError, match="n"):
        m.toeplitz_gamma(0)


@pytest.mark.parametrize("cls", COUNTERS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_counter_blocks_equal_rows_value_for_value(cls, shape):
    horizon = 150
    values = generator(6).random((horizon, *shape))
    rows, blocks = (cls(generator(7), shape, horizon, 2.0) for _ in range(2))
    by_row = np.array([rows.add(value) for value in values])
    by_block = np.concatenate([blocks.add_block(part) for part in np.split(values, [1, 2, 7, 71, 72, 140])])
    assert np.array_equal(by_row, by_block)
    assert by_row.shape == (horizon, *shape)
    apart = cls(generator(7), shape, horizon, 2.0).noise_block(horizon)
    assert np.array_equal(by_row, apart + m.RunningSum().add_block(values))
    for counter in (rows, blocks):
        with pytest.raises(ProtocolError, match="horizon 150"):
            counter.add(values[0])


@pytest.mark.parametrize("cls", COUNTERS)
def test_one_game_equals_a_batch_of_one_and_games_are_summed_once(cls):
    one, batch = cls(generator(7), (4,), 80, 2.0), cls(generator(7), (1, 4), 80, 2.0)
    assert np.array_equal(one.noise_block(80), batch.noise_block(80)[:, 0])
    shared, own = (cls(generator(1), (3, 4), 10, 1.0) for _ in range(2))
    values = generator(2).random((10, 4))
    assert np.array_equal(shared.add_block(values), own.add_block(np.repeat(values[:, None], 3, 1)))
    assert shared._sums.total.shape == (4,)
    with pytest.raises(ArgumentError, match="values"):
        cls(generator(1), (3, 4), 10, 1.0).add(np.zeros(3))


@pytest.mark.parametrize(("cls", "noise"), [(m.BinaryTreeCounter, "laplace"), *((cls, "gaussian") for cls in COUNTERS)])
def test_counter_noise_has_its_law_and_covariance(cls, noise):
    """20,000 games, T = 70.

    Whitened by the exact matrix, each of the 70 x 70 empirical second moments lies within 6.5 standard errors of the
    identity's (false alarm 4900 * 8e-11 = 4e-7 for Gaussian moments), and not when one prefix's noise is 20% larger.
    The last prefix is tested by Kolmogorov-Smirnov where it is Gaussian; a scale 15% off is rejected.
    """
    games, horizon, scale = 20_000, 70, 1.7
    block = cls(generator(12), (games,), horizon, scale, noise=noise).noise_block(horizon)
    matrix = linear_map(cls, horizon)
    covariance = matrix @ matrix.T * scale**2 * (2 if noise == "laplace" else 1)
    root = np.linalg.cholesky(covariance)

    def worst(sample):
        white = solve_triangular(root, sample, lower=True)
        moments = white @ white.T / games
        errors = np.sqrt(np.square(np.square(white)).mean(1)[:, None] * np.square(np.square(white)).mean(1)) ** 0.5
        variance = np.where(np.eye(horizon, dtype=bool), errors**2 - 1, 1.0)
        return (np.abs(moments - np.eye(horizon)) / np.sqrt(variance / games)).max()

    assert worst(block) < 6.5
    wrong = block.copy()
    wrong[40] *= 1.2
    assert worst(wrong) > 6.5
    if noise == "gaussian":
        deviation = cls.standard_deviations(horizon, scale)[-1]
        assert stats.kstest(block[-1], stats.norm(scale=deviation).cdf).pvalue > FALSE_ALARM
        assert stats.kstest(block[-1], stats.norm(scale=deviation * 1.15).cdf).pvalue < FALSE_ALARM


def test_counters_refuse():
    with pytest.raises(ArgumentError, match="noise"):
        m.SquareRootToeplitzCounter(generator(), (2,), 4, 1.0, noise="laplace")
    for bad in ({"horizon": 0}, {"scale": -1.0}, {"shape": (0,)}, {"sampler": "x"}):
        for cls in COUNTERS:
            with pytest.raises(ArgumentError, match=next(iter(bad))):
                cls(generator(), **{"shape": (2,), "horizon": 4, "scale": 1.0, **bad})
    with pytest.raises(TypeError):
        m.Counter(generator(), (2,), 4, 1.0)
    counter = pickle.loads(pickle.dumps(m.SquareRootToeplitzCounter(generator(3), (2,), 80, 1.0)))
    assert np.array_equal(
        counter.noise_block(80), m.SquareRootToeplitzCounter(generator(3), (2,), 80, 1.0).noise_block(80)
    )


@pytest.mark.parametrize("experts", [1, 2, 10, 31, 100, 300])
@pytest.mark.parametrize("games", [1, 255, 256, 3000])
def test_one_pass_exponential_draws_equal_two_steps(experts, games):
    rng = np.random.default_rng(experts + games)
    losses, uniforms = 30.0 * rng.random((games, experts)), rng.random(games)
    drawn = m.sample_exponential(losses, 0.1, uniforms)
    weights = np.exp(0.1 * (losses.min(-1, keepdims=True) - losses))
    np.testing.assert_array_equal(drawn, m.sample_inverse_cdf(weights, uniforms))
    pairs = zip(losses[:300], uniforms[:300], strict=True)
    one_by_one = [m.sample_exponential(row, 0.1, uniform) for row, uniform in pairs]
    np.testing.assert_array_equal(drawn[:300], one_by_one)


@pytest.mark.parametrize(
    ("losses", "rate", "uniforms", "message"),
    [
        ([0.0, 1.0], -1.0, 0.5, "learning_rate"),
        ([0.0, 1.0], math.inf, 0.5, "learning_rate"),
        ([0.0, math.nan], 1.0, 0.5, "weights"),
        (np.full((300, 2), math.nan), 1.0, np.full(300, 0.5), "weights"),
        (np.zeros((300, 2)), 1.0, np.full(300, 1.0), "uniforms"),
        (np.zeros((300, 2)), 1.0, np.zeros(299), "uniforms"),
        (3.0, 1.0, 0.5, "losses"),
    ],
)
def test_one_pass_exponential_draws_refuse_bad_input(losses, rate, uniforms, message):
    with pytest.raises(ArgumentError, match=message):
        m.sample_exponential(losses, rate, uniforms)
