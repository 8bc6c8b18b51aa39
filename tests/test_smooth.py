"""The smooth world's opponents: laws, labels, the class in hindsight, bisection, strips, greed."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dp_experts_env as dpe
from dp_experts_adversaries.smooth import (
    SmoothAdversary,
    SmoothBisection,
    SmoothGreedy,
    SmoothHalfspace,
    SmoothOblivious,
    SmoothPolytope,
    SmoothThreshold,
    bracketed,
    class_regret,
)
from dp_experts_adversaries.smooth.strips import projected_cdf
from dp_experts_env.hypotheses import FiniteClass, Intervals, Thresholds
from dp_experts_env.testing import check_adversary

REALIZABLE = (
    SmoothThreshold(num_experts=12, horizon=80),
    SmoothBisection(num_experts=12, horizon=80),
    SmoothBisection(sigma=0.0, num_experts=12, horizon=80),
    SmoothBisection(mode="oblivious", num_experts=12, horizon=80),
    SmoothHalfspace(horizon=80),
    SmoothHalfspace(mode="oblivious", dimension=3, gamma=1.0, horizon=80),
    SmoothPolytope(horizon=80),
    SmoothPolytope(dimension=1, faces=3, gamma=1.0, mode="oblivious", horizon=80),
    SmoothGreedy(horizon=80),
    SmoothOblivious(hypotheses="halfspaces", gamma=0.5, noise=0.0, horizon=80),
)


def begin(foe, seed=0, games=None):
    foe = foe.clone(num_games=games) if games is not None else foe
    foe.reset(seed=seed)
    return foe


def play_random(foe, seed=1):
    rng = np.random.default_rng(seed)
    losses = []
    for _ in range(foe.horizon):
        losses.append(foe.emit())
        choices = rng.integers(foe.num_experts, size=foe.game.shape)
        foe.see(choices if foe.game.shape else int(choices))
    return np.array(losses)


def hoeffding(count, failure):
    return math.sqrt(math.log(2 / failure) / (2 * count))


# -- the base class ------------------------------------------------------------------------------------------------


class Left(SmoothAdversary):
    """Instances of the left half of [0, 1]; label 1 from 1/4 on."""

    hypotheses = Thresholds()
    experts = (0.0, 0.25, 0.5)

    def __init__(self, height=2.0, **game):
        super().__init__(0.5, **game)
        self.height = height

    def density(self, points):
        return self.height * (points[..., 0] < 0.5)

    def label(self, points):
        return points[..., 0] >= 0.25


class Columns(SmoothAdversary):
    """Four columns, sigma = 1/2: at most 1/2 each."""

    hypotheses = FiniteClass([[0, 0, 1, 1], [0, 1, 0, 1]])
    experts = (0, 1)

    def __init__(self, law, labels=0, **game):
        super().__init__(0.5, **game)
        self.law, self.given = law, labels

    def probabilities(self):
        return np.array(self.law)

    def label(self, points):
        return np.full(points.shape, self.given)


def test_an_author_gives_a_density_and_a_labelling():
    """20,000 instances against the uniform law on [0, 1/2]: KS at 1e-6."""
    foe = begin(Left(num_games=20_000, horizon=2))
    losses = foe.emit()
    x = foe.instances[:, 0]
    assert stats.kstest(x, "uniform", (0, 0.5)).pvalue > 1e-6
    assert np.array_equal(foe.labels, x >= 0.25)
    assert np.array_equal(losses, (x[:, None] >= foe.experts[:, 0]) != (x >= 0.25)[:, None])
    assert foe.kind == "oblivious"
    assert check_adversary(Left(horizon=30))


def test_a_density_that_is_no_sigma_smooth_law_is_refused_when_it_is_committed():
    with pytest.raises(
        dpe.LossError, match=r"^Left\.density of round 1: .*at most 1/sigma = 2 .* 2.1 at the point \[0"
    ):
        begin(Left(2.1)).emit()
    with pytest.raises(dpe.LossError, match="at the point"):
        begin(Left(-1.0)).emit()
    # A density of integral 1/2: its samples would have twice the density.
    foe = begin(Left(1.0, num_games=1000))
    with pytest.raises(dpe.LossError, match=r"^Left\.density of round 1: .*integrates to 1"):
        foe.emit()


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ([0.6, 0.4, 0.0, 0.0], r"at most base/sigma = 0.5 .* 0.6 at point 0"),
        ([0.5, 0.5, -0.1, 0.1], "-0.1 at point 2"),
        ([0.25, 0.25, 0.25, 0.2], "sum to 1"),
        ([0.5, 0.5], "point 0|shape"),
    ],
)
def test_a_law_on_a_domain_is_checked(law, message):
    with pytest.raises(dpe.LossError, match=rf"^Columns\.probabilities of round 1: .*({message})"):
        begin(Columns(law)).emit()


def test_a_law_on_a_domain_is_drawn_from():
    """30,000 draws: chi-squared at 1e-6."""
    foe = begin(Columns([0.5, 0.3, 0.2, 0.0], 1, num_games=30_000))
    losses = foe.emit()
    counts = np.bincount(foe.instances, minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], 30_000 * np.array([0.5, 0.3, 0.2])).pvalue > 1e-6
    assert np.array_equal(losses, 1 - foe.hypotheses.matrix[:, foe.instances].T)
    few = begin(Columns([0.5, 0.3, 0.2, 0.0], 1, num_games=50))
    assert np.array_equal(few.emit().min(-1), few.class_best_loss())


@pytest.mark.parametrize("labels", [2, 0.5, np.nan, [0, 1]])
def test_labels_are_checked(labels):
    foe = begin(Columns([0.25] * 4))
    foe.label = lambda points: np.array(labels)
    with pytest.raises(dpe.LossError, match=r"Columns\.label of round 1: expected 0 or 1"):
        foe.emit()


def test_what_an_author_forgets_is_named():
    class Nothing(SmoothAdversary):
        hypotheses = Thresholds()
        experts = bracketed(Thresholds(), 0.5)

    with pytest.raises(NotImplementedError, match="density"):
        begin(Nothing()).emit()
    with pytest.raises(NotImplementedError, match="probabilities"):
        SmoothAdversary.probabilities(Nothing())
    with pytest.raises(NotImplementedError, match="label"):
        Nothing().label(None)
    with pytest.raises(dpe.ProtocolError, match="expected a round first"):
        begin(Left()).class_best()
    with pytest.raises(dpe.ProtocolError, match="expected a round first"):
        Left().sample()


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: type("Wrong", (Left,), {"hypotheses": "thresholds"})(), "hypotheses"),
        (lambda: type("Wrong", (Left,), {"domain": [2.0]})(), "points"),
        (lambda: type("Wrong", (Left,), {"experts": [[0.1, 0.2]]})(), "parameters"),
        (lambda: Left(num_experts=4), "num_experts: expected 3"),
        (lambda: SmoothHalfspace(sigma=0.0), "sigma"),
        (lambda: SmoothHalfspace(num_experts=1000), "num_experts: expected at most 168"),
        (lambda: SmoothHalfspace(dimension=5, gamma=0.01), "gamma"),
        (lambda: SmoothBisection(sigma=1e-10), "sigma"),
        (lambda: SmoothBisection(sigma=-0.1), "sigma"),
        (lambda: SmoothBisection(mode="adaptiv"), "mode"),
        (lambda: SmoothHalfspace(dimension=7), "dimension"),
        (lambda: SmoothHalfspace(gamma=0.0), "gamma"),
        (lambda: SmoothPolytope(noise=0.6), "noise"),
        (lambda: SmoothGreedy(hypotheses="halfspace"), "hypotheses"),
        (lambda: SmoothGreedy(side=2000), "side"),
        (lambda: SmoothOblivious(hypotheses=FiniteClass([[0, 1]])), "hypotheses"),
        (lambda: SmoothOblivious(period=0), "period"),
    ],
)
def test_bad_arguments_are_named(build, name):
    with pytest.raises(dpe.ArgumentError, match=name):
        build()


def test_fewer_experts_are_spread_over_the_bracketing():
    every = bracketed(Thresholds(), 0.1)
    assert np.array_equal(bracketed(Thresholds(), 0.1, 5), every[::2])
    assert np.array_equal(SmoothHalfspace(num_experts=168).experts, SmoothHalfspace().experts)
    assert SmoothPolytope(num_experts=7).num_experts == SmoothOblivious(num_experts=7).num_experts == 7


@pytest.mark.parametrize("foe", REALIZABLE, ids=repr)
def test_losses_are_those_of_the_hypotheses_and_some_hypothesis_never_errs(foe):
    foe = begin(foe, games=3)
    losses = play_random(foe)
    points, labels = foe.sample()
    for game in range(3):
        says = foe.hypotheses.predict(foe.experts, points[:, game])
        assert np.array_equal(losses[:, game].T, says != labels[:, game])
    best = foe.class_best()
    assert best.loss.tolist() == [0, 0, 0]
    assert best.exact.all()


@pytest.mark.parametrize(
    "foe",
    [
        SmoothBisection(noise=0.3, num_experts=6, horizon=14),
        SmoothHalfspace(noise=0.3, gamma=0.7, horizon=9),
        SmoothGreedy(noise=0.3, gamma=0.7, horizon=9),
        SmoothGreedy(hypotheses="intervals", gamma=0.3, noise=0.3, horizon=14),
        SmoothOblivious(hypotheses="halfspaces", noise=0.3, gamma=0.7, horizon=9),
        SmoothPolytope(noise=0.3, dimension=1, gamma=0.7, horizon=9),
    ],
    ids=repr,
)
def test_the_best_of_the_class_is_that_of_all_its_labellings(foe):
    foe = begin(foe, games=4)
    play_random(foe)
    points, labels = foe.sample()
    best = foe.class_best()
    for game in range(4):
        # A labelling each, of different points.
        used = foe.hypotheses.dichotomies(np.unique(points[:, game], axis=0))
        errors = (foe.hypotheses.predict(used, points[:, game]) != labels[:, game]).sum(axis=1)
        assert best.loss[game] == errors.min()
    assert best.exact.all()


def test_where_the_search_is_not_exact_it_says_so_and_the_experts_and_the_witness_help():
    foe = begin(SmoothPolytope(noise=0.2, gamma=1.0, horizon=40), seed=3)
    losses = play_random(foe)
    best = foe.class_best()
    points, labels = foe.sample()
    witness = (foe.hypotheses.predict(foe.witness(), points)[0] != labels).sum()
    assert not best.exact
    assert best.loss <= min(losses.sum(0).min(), witness)
    assert best.loss > 0


def test_regret_against_the_class_is_replayed_from_a_match():
    foe = SmoothBisection(noise=0.2, num_experts=8, horizon=60)
    match = dpe.play(dpe.make_learner("hedge"), foe, num_games=5, seed=4, record="choices")
    found = class_regret(match, foe)
    assert np.all(found.best_loss <= match.best_loss)
    assert np.any(found.best_loss < match.best_loss)
    assert np.array_equal(found.regret, match.learner_loss - found.best_loss)
    assert found.exact.all()
    single = dpe.play(dpe.make_learner("hedge"), foe, None, seed=np.random.SeedSequence(4), record="choices")
    assert class_regret(single, foe).regret.shape == (1,)
    calm = SmoothOblivious(horizon=30)
    fixed = dpe.play(dpe.make_learner("hedge"), calm, num_games=3, seed=4, record="choices")
    assert np.all(class_regret(fixed, calm).best_loss <= fixed.best_loss)
    with pytest.raises(dpe.ArgumentError, match="choices"):
        class_regret(dpe.play(dpe.make_learner("hedge"), foe, seed=4), foe)
    with pytest.raises(dpe.ArgumentError, match="expected one against"):
        class_regret(match, foe.clone(sigma=0.2))
    with pytest.raises(dpe.ArgumentError, match="adversary: expected a SmoothAdversary"):
        class_regret(match, dpe.make_adversary("planted"))
    object.__setattr__(match, "seed", 5)
    with pytest.raises(dpe.ArgumentError, match="its losses are not those"):
        class_regret(match, foe)


def test_replayed_matches_of_several_chunks(monkeypatch):
    # The package's own "play" is the function.
    monkeypatch.setattr(sys.modules["dp_experts_env.play"], "GAMES_PER_CHUNK", 2)
    monkeypatch.setattr("dp_experts_adversaries.smooth.base.GAMES_PER_CHUNK", 2)
    foe = SmoothBisection(num_experts=8, horizon=20)
    match = dpe.play(dpe.make_learner("hedge"), foe, num_games=5, seed=4, record="choices")
    assert np.array_equal(class_regret(match, foe).regret, match.learner_loss)


# -- bisection -----------------------------------------------------------------------------------------------------


def test_unsmoothed_every_learner_loses_half_to_coins():
    """500 games of 120 rounds, well beyond what float64 can halve: 60,000 fair coins, Hoeffding at 1e-7 an expert."""
    foe = begin(SmoothBisection(sigma=0.0, mode="oblivious", num_experts=7, horizon=120, num_games=500))
    losses = play_random(foe)
    assert np.all(np.abs(losses.mean((0, 1)) - 0.5) <= hoeffding(60_000, 1e-7))
    late = losses[60:].mean((0, 1))
    assert np.all(np.abs(late - 0.5) <= hoeffding(30_000, 1e-7))
    # The coins are independent of the past: neighbouring labels agree half of the time.
    labels = foe.sample()[1]
    assert abs((labels[1:] == labels[:-1]).mean() - 0.5) <= hoeffding(59_500, 1e-7)
    assert foe.class_best_loss().max() == 0


def test_unsmoothed_a_choice_that_is_repeated_loses():
    for size in (3, 8):
        foe = begin(SmoothBisection(sigma=0.0, num_experts=size, horizon=100))
        for number in range(100):
            choice = number // 20 % size
            loss = foe.emit()[choice]
            foe.see(choice)
            assert loss == 1.0 or number % 20 == 0
        assert foe.class_best_loss() == 0


def test_unsmoothed_every_registered_learner_fails():
    """Regret against all thresholds at least 0.4 T for each; T/2 is the mean of fair coins, T = 200 and 5 games."""
    foe = SmoothBisection(sigma=0.0, mode="oblivious", num_experts=16, horizon=200)
    for name in ("hedge", "follow_the_leader", "private_hedge", "uniform"):
        match = dpe.play(dpe.make_learner(name), foe, num_games=5, seed=1, record="choices")
        assert class_regret(match, foe).regret.mean() >= 80


@given(seed=st.integers(0, 2**32), sigma=st.sampled_from([0.0, 1e-9, 1e-3, 0.1, 1.0]), mode=st.booleans())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_bisection_keeps_an_interval_of_consistent_thresholds(seed, sigma, mode):
    mode = "adaptive" if mode else "oblivious"
    foe = begin(SmoothBisection(sigma=sigma, mode=mode, num_experts=9, horizon=70, num_games=4), seed)
    play_random(foe, seed)
    points, labels = foe.sample()
    assert np.all(foe._low < foe._high)
    for theta in (np.nextafter(foe._low, 2.0), foe._high):
        assert np.array_equal(points >= theta, labels)
    assert np.all((points >= 0) & (points <= 1))


def test_smooth_bisection_draws_where_the_threshold_adversary_does():
    """20,000 instances of round 2, after a contradiction of expert 4 of 10: KS of their place in the interval."""
    foe = begin(SmoothBisection(sigma=0.2, num_experts=10, horizon=2, num_games=20_000))
    foe._low[:], foe._high[:] = 0.5, 0.52
    foe._named = np.full(20_000, 8)
    foe.emit()
    assert stats.kstest(foe.instances, "uniform", (0.52, 0.2)).pvalue > 1e-6
    # Named says 0 below 0.85, where all labels are 1.
    assert foe.labels.all()


# -- halfspaces and polytopes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 6])
def test_quantiles_of_a_projection_are_uniform(dimension):
    """20,000 uniform points and random directions: KS at 1e-6 for each dimension."""
    rng = np.random.default_rng(dimension)
    weights = rng.uniform(0.5, 1.0, (20_000, dimension)) * rng.choice([-1, 1], (20_000, dimension))
    points = rng.random((20_000, dimension))
    values = (weights * points).sum(-1)
    assert stats.kstest(projected_cdf(weights, values[:, None])[:, 0], "uniform").pvalue > 1e-6
    low, high = np.minimum(weights, 0).sum(-1), np.maximum(weights, 0).sum(-1)
    ends = projected_cdf(weights, np.stack([low, (low + high) / 2, high], axis=-1))
    assert np.allclose(ends, [0.0, 0.5, 1.0], rtol=0, atol=1e-10)


def test_quantiles_of_a_projection_in_closed_form():
    assert projected_cdf(np.array([2.0]), np.array([0.5, -1.0, 3.0])).tolist() == [0.25, 0.0, 1.0]
    # x + y <= s has area s^2/2, x - y <= s area (1 + s)^2/2 for s <= 0.
    assert projected_cdf(np.array([1.0, 1.0]), np.array([0.5, 1.5])) == pytest.approx([0.125, 0.875])
    assert projected_cdf(np.array([1.0, -1.0]), np.array([-0.5, 0.0])) == pytest.approx([0.125, 0.5])


@pytest.mark.parametrize("mode", ["adaptive", "oblivious"])
@pytest.mark.parametrize("cls", [SmoothHalfspace, SmoothPolytope])
def test_strips_have_mass_sigma(cls, mode):
    """After 20 rounds, the quantile along the attacked face is uniform on the strip: 2,000 games, KS at 1e-6."""
    foe = begin(cls(sigma=0.25, gamma=1.0, mode=mode, horizon=21, num_games=2000))
    rng = np.random.default_rng(0)
    for _ in range(20):
        foe.emit()
        foe.see(rng.integers(foe.num_experts, size=2000))
    weights, begins = foe._of_face(foe.directions), foe._begin.copy()
    foe.emit()
    places = projected_cdf(weights, (weights * foe.instances).sum(-1)[:, None])[:, 0] - begins
    assert stats.kstest(places, "uniform", (0, 0.25)).pvalue > 1e-6


@pytest.mark.parametrize("foe", [SmoothHalfspace(horizon=60), SmoothPolytope(horizon=60)], ids=repr)
def test_a_stubborn_learner_is_hit_where_it_is_wrong(foe):
    """A repeated choice that differs from the target on more than sigma loses in nearly every round; 20 games."""
    foe = begin(foe, games=20)
    total = 0.0
    for number in range(60):
        losses = foe.emit()
        foe.see(np.zeros(20, dtype=np.int64))
        total += losses[:, 0].mean() if number else 0.0
    says = foe.hypotheses.predict(foe.experts[0], np.random.default_rng(0).random((4000, 2)))[0]
    target = foe.hypotheses.predict(foe.witness(), np.random.default_rng(0).random((4000, 2)))
    apart = (says != target).mean(axis=1)
    assert apart.mean() > 2 * foe.sigma
    assert total / 59 > 0.85


def test_oblivious_strips_take_turns_and_do_not_see():
    foe = SmoothPolytope(mode="oblivious", gamma=1.0, horizon=20)
    one, other = (play_random(begin(foe.clone(), games=3), seed) for seed in (1, 2))
    assert np.array_equal(one, other)
    seen = []
    foe = begin(foe)
    for _ in range(4):
        seen.append(int(foe._face))
        foe.emit()
        foe.see(0)
    assert seen == [0, 1, 0, 1]
    assert foe.kind == "oblivious"


# -- greedy --------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_law_that_hurts_most_of_all_smooth_laws():
    """Five columns, three rows; the learner named row 0 twice and row 1 once; sigma = 0.4, so two columns."""
    rows = [[0, 0, 1, 1, 0], [0, 1, 1, 0, 0], [1, 1, 1, 0, 0]]
    foe = begin(SmoothGreedy(0.4, FiniteClass(rows), gamma=0.1, horizon=9))
    assert foe.num_experts == 3
    foe._recent[:3] = foe._values[[0, 0, 1]]
    foe._seen = 3
    foe._best[:] = [True, True, False]
    foe._plan()
    # Rows 0 and 1 remain; they disagree on columns 1 and 3, where label 1 and label 0 hurt two thirds of the choices.
    assert foe._hurt == pytest.approx([0, 2 / 3, 0, 2 / 3, 0])
    assert foe.probabilities().tolist() == [0, 0.5, 0, 0.5, 0]
    losses = foe.emit()
    assert losses[0] == 1
    assert losses[1] == 0
    assert foe._best.tolist() == [False, True, False]


def test_greedy_puts_one_over_ceil_sigma_x_on_each_point():
    for sigma, count in ((0.1, 15), (1.0, 144), (1e-9, 1), (1 / 144, 1), (0.3, 44)):
        foe = begin(SmoothGreedy(sigma, horizon=3, num_games=2))
        law = foe.probabilities()
        assert np.allclose(law.sum(-1), 1)
        assert np.all((law > 0).sum(-1) == count)
        assert law.max() <= 1 / (sigma * 144) * (1 + 1e-9)


# -- oblivious -----------------------------------------------------------------------------------------------------


def test_the_window_moves_and_labels_are_the_targets():
    """The target's errors are Binomial(T, noise): 400 games of 100 rounds, Hoeffding at 1e-6."""
    foe = begin(SmoothOblivious(0.2, Intervals(), gamma=0.2, period=10, noise=0.3, horizon=100, num_games=400))
    errors = 0
    for number in range(100):
        way, step = divmod(number, 10)
        low = 0.8 * (step if way % 2 == 0 else 10 - step) / 10
        foe.emit()
        x = foe.instances[:, 0]
        assert low - 1e-12 <= x.min()
        assert x.max() <= low + 0.2 + 1e-12
        says = (x >= foe.target[:, 0]) & (x <= foe.target[:, 1])
        errors += (says != foe.labels).sum()
    assert abs(errors / 40_000 - 0.3) <= hoeffding(40_000, 1e-6)
    assert np.all(foe.class_best_loss() <= 0.3 * 100 + 40)


def test_an_expert_of_the_targets_bracket_is_nearly_as_good():
    """Expected disagreement at most gamma/sigma a round; 300 games of 100 rounds, Hoeffding over games at 1e-6."""
    foe = begin(SmoothOblivious(gamma=0.02, noise=0.0, horizon=100, num_games=300))
    losses = play_random(foe).sum(0)
    nearest = foe.hypotheses.brackets(0.02).locate(foe.target)
    own = losses[np.arange(300), nearest]
    assert own.mean() <= 100 * 0.02 / 0.1 + 100 * hoeffding(300, 1e-6)
    # It is near: a random expert is not.
    assert own.mean() < losses.mean() / 3
