"""Covers for the smooth world: sizes, the price of rounding, regret against the class, hallucinated examples."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dp_experts_env as dpe
from dp_experts_adversaries.smooth import SmoothBisection, SmoothGreedy, SmoothHalfspace, class_regret
from dp_experts_agents.covers import (
    CoverClassifier,
    CoverPlan,
    HallucinatedExperts,
    HallucinatedLeader,
    plan_cover,
)
from dp_experts_env.hypotheses import FiniteClass, Halfspaces, Thresholds
from dp_experts_env.testing import check_learner

TWO = FiniteClass([[0], [1]])


def synthetic(size, horizon, share, against="adaptive"):
    """A plan of so many experts whose gap is ``share`` at sigma = 1."""
    return CoverPlan(Thresholds(), horizon, 1.0, against, np.zeros((size, 1)), share)


# -- the plan ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 100, 1000, 10_000])
@pytest.mark.parametrize("sigma", [0.01, 0.1, 0.3, 1.0])
def test_thresholds_take_ceil_sqrt_t_over_sigma_experts(horizon, sigma):
    plan = plan_cover(Thresholds(), horizon, sigma)
    assert plan.num_experts == math.ceil(math.sqrt(horizon) / sigma * (1 - 1e-12))
    assert plan.gap <= sigma / math.sqrt(horizon) * (1 + 1e-12)
    assert plan.spec == dpe.GameSpec(plan.num_experts, horizon)


def test_the_closed_bound_is_the_one_that_is_printed():
    """gamma = sigma/sqrt(T) exactly: T = 400, sigma = 0.1, n = 200."""
    plan = plan_cover(Thresholds(), 400, 0.1)
    beta, size, horizon = 1 / 400, 200, 400
    log = math.log(size / beta)
    expected = math.sqrt(horizon * math.log(size) / 2) + math.sqrt(horizon) + math.sqrt(2 * math.sqrt(horizon) * log)
    assert plan.regret_bound(beta=beta) == pytest.approx(expected + 2 / 3 * log + beta * horizon, rel=1e-12)
    assert plan.regret_bound() < plan.regret_bound(beta=beta)


@given(
    size=st.integers(1, 10**6),
    horizon=st.integers(1, 5000),
    share=st.floats(1e-6, 1.0),
    beta=st.floats(1e-12, 0.5),
)
@settings(derandomize=True, max_examples=300, deadline=None)
def test_the_sum_of_tails_is_never_above_the_closed_form(size, horizon, share, beta):
    plan = synthetic(size, horizon, share)
    every = np.minimum(1.0, size * stats.binom.sf(np.arange(horizon), horizon, share)).sum()
    assert plan.rounding() == pytest.approx(every, rel=1e-9, abs=1e-9)
    assert plan.rounding() <= plan.rounding(beta) * (1 + 1e-9)
    assert horizon * share * (1 - 1e-9) <= plan.rounding() <= horizon
    calm = synthetic(size, horizon, share, "oblivious")
    assert calm.rounding() == calm.rounding(beta) == horizon * share


def test_one_bracket_costs_its_mean():
    assert synthetic(1, 700, 0.03).rounding() == pytest.approx(21.0, rel=1e-12)
    assert synthetic(5, 10, 1.0).rounding() == 10


@pytest.mark.parametrize("cells", [5, 30])
def test_the_price_covers_the_fullest_cell_and_not_much_more(cells):
    """Uniform instances: the fullest of n cells, T = n^2. 4,000 games; a margin of 6 standard errors (1e-8)."""
    counts = np.random.default_rng(0).multinomial(cells**2, np.full(cells, 1 / cells), 4000).max(-1)
    price = plan_cover(Thresholds(), cells**2, 1.0).rounding()
    assert counts.mean() + 6 * counts.std() / math.sqrt(4000) <= price <= 1.15 * counts.mean()


def test_oblivious_plans_take_a_cover():
    plan = plan_cover(Halfspaces(2), 100, 0.5, 0.3, "oblivious")
    assert np.array_equal(plan.experts, Halfspaces(2).cover(0.3))
    assert plan.num_experts < plan_cover(Halfspaces(2), 100, 0.5, 0.3).num_experts
    assert plan.rounding() == pytest.approx(60.0)
    assert plan.regret_bound("private_hedge") > plan.regret_bound("hedge")


def test_the_learners_bound_is_taken_where_it_is_largest():
    """Over all best losses up to the one given, 31 of them. L* plus a learner's bound never falls."""
    losses = np.linspace(0.0, 300.0, 31)
    found = 0
    for name, against in itertools.product(dpe.learners(), ("oblivious", "adaptive")):
        plan, learner = synthetic(50, 300, 1e-6, against), dpe.make_learner(name)
        bounds = np.array([learner.regret_bound(plan.spec, loss, against) for loss in losses])
        if np.isnan(bounds).any():
            assert math.isnan(plan.regret_bound(learner))
            continue
        found += 1
        assert np.all(np.diff(losses + bounds) >= -1e-9), name
        if name != "uniform":
            assert np.all(np.diff(bounds[bounds < 300.0 - losses - 1e-9]) >= -1e-9), name
        for count in (1, 11, 31):
            least = np.minimum(bounds, 300.0 - losses)[:count].max()
            bound = plan.regret_bound(learner, losses[count - 1])
            assert least - 1e-9 <= bound <= least + plan.rounding() + 10.0
    assert found >= 10
    assert synthetic(50, 300, 1.0).regret_bound() == 300.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: plan_cover("thresholds", 10, 0.1), "hypotheses"),
        (lambda: plan_cover(Thresholds(), 0, 0.1), "horizon"),
        (lambda: plan_cover(Thresholds(), 10, 0.0), "sigma"),
        (lambda: plan_cover(Thresholds(), 10, 0.1, 1.5), "gamma"),
        (lambda: plan_cover(Thresholds(), 10, 0.1, against="adaptiv"), "against"),
        (lambda: plan_cover(Halfspaces(3), 10**6, 1e-3), "epsilon"),
        (lambda: plan_cover(Thresholds(), 10, 0.1).rounding(0.0), "beta"),
        (lambda: plan_cover(Thresholds(), 10, 0.1).regret_bound(7), "learner"),
        (lambda: CoverClassifier("plan", rng=np.random.default_rng(0)), "plan"),
        (lambda: HallucinatedLeader("thresholds", 10, 0.1, rng=np.random.default_rng(0)), "hypotheses"),
        (lambda: HallucinatedLeader(Thresholds(), 10, 0.1, -1.0, rng=np.random.default_rng(0)), "hallucinations"),
        (lambda: HallucinatedExperts(None, [0.5]), "hypotheses"),
        (lambda: HallucinatedExperts(Thresholds(), [[0.5, 0.5]]), "parameters"),
        (lambda: HallucinatedExperts(Thresholds(), [0.5], 0.0), "sigma"),
        (lambda: HallucinatedExperts(Thresholds(), [0.5], hallucinations=math.nan), "hallucinations"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(dpe.ArgumentError, match=f"^{name}"):
        call()


# -- regret against the class --------------------------------------------------------------------------------------


def measured(horizon, sigma, games, noise=0.0, size=None):
    plan = plan_cover(Thresholds(), horizon, sigma or 1.0)
    foe = SmoothBisection(sigma=sigma, noise=noise, num_experts=size or plan.num_experts, horizon=horizon)
    match = dpe.play(dpe.make_learner("hedge"), foe, num_games=games, seed=7, record="choices", progress=False)
    return plan, class_regret(match, foe).regret


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_hedge_on_the_cover_stays_under_its_bound_and_grows_like_sqrt_t_ln_n(noise):
    """Mean of 24 games: six standard errors under the bound in each cell; fitted exponents of T and of ln n, whose
    spread is about 0.03 and 0.15."""
    design, target = [], []
    for horizon in (100, 300, 900):
        for sigma in (0.3, 0.03):
            plan, regret = measured(horizon, sigma, 24, noise)
            assert regret.mean() + 6 * regret.std() / math.sqrt(24) <= plan.regret_bound()
            design.append([1.0, math.log(horizon), math.log(math.log(plan.num_experts))])
            target.append(math.log(regret.mean()))
    _, of_rounds, of_log_size = np.linalg.lstsq(np.array(design), np.array(target), rcond=None)[0]
    assert 0.4 <= of_rounds <= 0.6
    assert 0.1 <= of_log_size <= 0.9


def test_regret_turns_linear_as_sigma_goes_to_zero_with_the_cover_fixed():
    """40 experts: regret/T at T = 200 and 800. Smooth, it falls by about half; unsmoothed, it stays above 0.4."""
    shares = {
        sigma: [measured(horizon, sigma, 16, size=40)[1].mean() / horizon for horizon in (200, 800)]
        for sigma in (1.0, 1e-3, 0.0)
    }
    assert shares[1.0][1] < 0.65 * shares[1.0][0] < 0.2
    for sigma in (1e-3, 0.0):
        assert min(shares[sigma]) > 0.4


def test_private_learners_on_the_cover_stay_under_their_bounds():
    horizon, sigma = 300, 0.2
    plan = plan_cover(Thresholds(), horizon, sigma)
    foe = SmoothBisection(sigma=sigma, num_experts=plan.num_experts, horizon=horizon)
    for name in ("private_hedge", "dartboard_psd") if "dartboard_psd" in dpe.learners() else ("private_hedge",):
        match = dpe.play(dpe.make_learner(name), foe, num_games=8, seed=1, record="choices")
        assert class_regret(match, foe).regret.mean() <= plan.regret_bound(name)


# -- players that see instances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hedge", "private_hedge"])
def test_a_classifier_on_the_cover_is_the_learner_of_the_experts_game(name):
    plan = plan_cover(Thresholds(), 60, 0.5)
    player = CoverClassifier(plan, name, rng=np.random.default_rng(3))
    learner = dpe.make_learner(name)
    learner.reset(plan.spec, np.random.default_rng(3))
    rng = np.random.default_rng(0)
    points, labels = rng.random(60), rng.random(60) < 0.5
    block = (Thresholds().predict(plan.experts, points) != labels).T.astype(float)
    named = []
    for number, (point, label) in enumerate(zip(points, labels, strict=True)):
        assert player.round == number
        if number % 2:
            assert np.array_equal(player.predict([0.1, 0.9]), Thresholds().predict(player.hypothesis, [0.1, 0.9])[0])
        named.append(player.expert if number % 3 else None)
        player.update(point, label)
    choices = learner.run(block)
    assert all(mine is None or mine == other for mine, other in zip(named, choices, strict=True))
    assert player.guarantee() == learner.guarantee(plan.spec)
    assert player.regret_bound() == plan.regret_bound(name)
    with pytest.raises(dpe.ArgumentError, match="at most 60 rounds"):
        player.update(0.5, 1)


def test_examples_are_checked():
    player = CoverClassifier(plan_cover(Halfspaces(2), 5, 1.0, 1.0), rng=np.random.default_rng(0))
    player.update([0.5, 0.5], True)
    for point, label in (([0.5], 1), ([0.5, 1.5], 1), ([0.5, 0.5], 2)):
        with pytest.raises(dpe.ArgumentError, match=r"points|labels"):
            player.update(point, label)
    assert player.round == 1


def test_a_leader_without_hallucinations_makes_the_fewest_errors():
    rng = np.random.default_rng(0)
    player = HallucinatedLeader(Thresholds(), 40, 0.1, 0.0, rng=rng)
    points = np.random.default_rng(1).random(40)
    labels = (points > 0.4) ^ (np.random.default_rng(2).random(40) < 0.1)
    for number in range(40):
        if number:
            errors = (player.predict(points[:number]) != labels[:number]).sum()
            assert errors == Thresholds().best_in_class(points[:number], labels[:number])[1]
        player.update(points[number], labels[number])


def test_a_leader_stays_with_its_hypothesis_within_a_round_only():
    player = HallucinatedLeader(Thresholds(), 9, 0.1, rng=np.random.default_rng(0))
    assert player.hallucinations == pytest.approx(9 / math.sqrt(0.1))
    first = player.hypothesis
    assert np.array_equal(first, player.hypothesis)
    player.update(0.5, 1)
    assert not np.array_equal(first, player.hypothesis)


def test_the_law_of_the_hallucinated_leader_is_a_skellam_tail():
    """One instance, rows that say 0 and 1. Losses (0, 2) after two labels 0; with Poisson(mu) coins, row 1 leads if
    ones - zeros of the coins >= 3, or at 2 by no tie: argmin takes row 0. Both players, 40,000 and 4,000 games, six
    standard errors (2e-9)."""
    mean, games = 6.0, 40_000
    law = stats.skellam(mean / 2, mean / 2)
    learner = HallucinatedExperts(TWO, [0, 1], hallucinations=mean)
    learner.reset(dpe.GameSpec(2, 3, games), np.random.default_rng(0))
    for behind in (0, 1, 2):
        share = learner.act().mean()
        expected = law.sf(behind)
        assert abs(share - expected) <= 6 * math.sqrt(expected * (1 - expected) / games)
        learner.observe(np.array([0.0, 1.0]))
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(4000):
        player = HallucinatedLeader(TWO, 3, 1.0, mean, rng=rng)
        player.update(0, 0)
        shares.append(player.predict([0])[0])
    expected = law.sf(1)
    assert abs(np.mean(shares) - expected) <= 6 * math.sqrt(expected * (1 - expected) / 4000)


def test_leaders_of_the_class_and_of_its_experts_have_the_same_law():
    """A finite class of four rows on six columns after five examples: 3,000 draws each, chi-squared at 1e-6."""
    rows = FiniteClass(np.random.default_rng(5).integers(0, 2, (4, 6)))
    examples = [(0, 1), (3, 0), (5, 1), (2, 1), (3, 1)]
    losses = np.array([rows.matrix[:, x] != y for x, y in examples], dtype=float)
    experts = HallucinatedExperts(rows, np.arange(4), hallucinations=8.0)
    experts.reset(dpe.GameSpec(4, 6, 3000), np.random.default_rng(0))
    for row in losses:
        experts.act()
        experts.observe(row)
    counts = np.bincount(experts.act(), minlength=4)
    rng, found = np.random.default_rng(1), np.zeros(4, dtype=int)
    player = HallucinatedLeader(rows, 6, 1.0, 8.0, rng=rng)
    for x, y in examples:
        player.update(x, y)
    for _ in range(3000):
        player._current = None
        found[player.hypothesis[0]] += 1
    table = np.array([counts, found])
    table = table[:, table.sum(0) > 0]
    assert len(table[0]) > 1
    assert stats.chi2_contingency(table).pvalue > 1e-6


def test_experts_with_hallucinations_keep_the_rules_of_learners():
    """Three checks play games of other sizes, which this learner refuses: its experts are fixed."""
    learner = HallucinatedExperts(Thresholds(), np.linspace(0, 1, 5), 0.1, 3.0)
    made = check_learner(learner, num_experts=5, skip=["reset", "small_games", "regret_bound"])
    assert len(made) == 19
    with pytest.raises(dpe.ArgumentError, match="expected a game of 5 experts"):
        learner.reset(dpe.GameSpec(4, 10), np.random.default_rng(0))


def test_memory_of_hallucinations_is_cut_without_a_trace(monkeypatch):
    learner = HallucinatedExperts(Thresholds(), np.linspace(0, 1, 5), 0.1, 30.0)
    chosen = []
    for numbers in (2**22, 50):
        monkeypatch.setattr("dp_experts_agents.covers._NUMBERS", numbers)
        learner.reset(dpe.GameSpec(5, 4, 20), np.random.default_rng(0))
        chosen.append(learner.act())
    assert np.array_equal(*chosen)


def test_hallucinations_are_enough_in_the_smooth_world():
    """Regret far below T/2, which bisection costs without smoothness; 6 games of 100 rounds."""
    plan = plan_cover(Thresholds(), 100, 0.1)
    foe = SmoothBisection(sigma=0.1, num_experts=plan.num_experts, horizon=100)
    perturbed = dpe.play(
        HallucinatedExperts(Thresholds(), plan.experts, 0.1), foe, num_games=6, seed=1, record="choices"
    )
    assert class_regret(perturbed, foe).regret.mean() < 100 / 4


@pytest.mark.parametrize("foe", [SmoothGreedy(gamma=0.3, horizon=200), SmoothHalfspace(gamma=0.2, horizon=200)])
def test_hedge_keeps_its_bound_on_other_classes(foe):
    """Regret against the experts in 12 games. The bound is nearly met: greed takes more than four fifths of it."""
    match = dpe.play(dpe.make_learner("hedge"), foe, num_games=12, seed=1)
    share = match.mean_regret / match.regret_bound
    assert (0.8 if isinstance(foe, SmoothGreedy) else 0.5) <= share <= 1.0


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("point", "label"), [([[1], [1, 2]], 1), (0.5, [[1], [1, 2]]), (None, 1), (2.0, 1), (0.5, 2)])
def test_an_example_that_is_none_is_refused_and_the_round_goes_on(point, label):
    classifier = CoverClassifier(plan_cover(Thresholds(), 10, 0.5, 0.2), rng=np.random.default_rng(0))
    with pytest.raises(dpe.ArgumentError, match=r"points|labels"):
        classifier.update(point, label)
    assert classifier.round == 0
    classifier.update(0.5, 1)
    assert classifier.round == 1


def test_the_price_of_rounding_of_very_long_games_is_bounded_in_little_memory():
    """Where there are too many tails to hold them all the bound is a little larger, and never smaller than the mean."""
    plan = plan_cover(Thresholds(), 2**40, 0.5, 0.01)
    mean = 2**40 * 0.02
    assert mean <= plan.rounding() <= 1.001 * mean
