"""Uniform play and the leaders: laws, bounds on every sequence, what one lazy draw is, and how they fail."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import dp_experts_env as dpe
from dp_experts_adversaries.adaptive import Foreseer
from dp_experts_adversaries.oblivious import Alternating
from dp_experts_agents.baselines import FollowTheLeader, FollowThePerturbedLeader, Uniform, running_totals
from dp_experts_agents.hedge import Hedge
from dp_experts_env.spec import ArgumentError, GameSpec, UnknownNameError
from dp_experts_env.testing.suite import check_frequencies

LOSSES = st.integers(0, 4).map(lambda quarter: quarter / 4)
SEQUENCES = st.integers(1, 4).flatmap(
    lambda experts: st.lists(st.lists(LOSSES, min_size=experts, max_size=experts), min_size=1, max_size=25)
)


def begun(learner, experts, horizon, games=None, seed=0):
    learner.reset(GameSpec(experts, horizon, games), np.random.default_rng(seed))
    return learner


def exponential_law(totals, rate):
    """The law of argmin(totals - Z), Z exponential: expert i wins with Z_i = z if no other reaches z + L_j - L_i."""
    totals = np.asarray(totals, dtype=float)

    def density(z, i):
        others = np.delete(totals, i) - totals[i] + z
        return (
            rate * math.exp(-rate * z) * np.where(others > 0.0, -np.expm1(-rate * np.maximum(others, 0.0)), 0.0).prod()
        )

    law = []
    for i in range(len(totals)):
        low = max(0.0, totals[i] - np.delete(totals, i).min()) if len(totals) > 1 else 0.0
        kinks = sorted({low, *(k for k in totals[i] - totals if k > low), low + 60.0 / rate})
        law.append(sum(quad(density, a, b, (i,), epsabs=1e-12)[0] for a, b in itertools.pairwise(kinks)))
    return np.array(law)


def two_expert_law(totals, rate):
    """Z_0 - Z_1 is Laplace of scale 1/rate."""
    gap = totals[..., 0] - totals[..., 1]
    tail = 0.5 * np.exp(-rate * np.abs(gap))
    first = np.where(gap > 0.0, tail, 1.0 - tail)
    return np.stack([first, 1.0 - first], -1)


# --------------------------------------------------------------------------------------------------------- uniform


@settings(derandomize=True, max_examples=100, deadline=None)
@given(SEQUENCES)
def test_uniform_bound_on_every_sequence(rows):
    losses = np.array(rows)
    learner = begun(Uniform(), losses.shape[1], len(losses))
    best = losses.sum(0).min()
    expected = (learner.probabilities() * losses).sum()
    for against in ("stochastic", "oblivious", "adaptive"):
        assert expected - best <= learner.regret_bound(learner.spec, best, against) + 1e-9


def test_uniform_bound_is_reached_and_the_claim_is_zero():
    losses = np.ones((10, 4))
    losses[:, 2] = [0.0, 1.0] * 5
    learner = begun(Uniform(), 4, 10)
    assert losses.mean(1).sum() - 5.0 == pytest.approx(learner.regret_bound(learner.spec, 5.0))
    claim = learner.guarantee(learner.spec)
    assert (claim.epsilon, claim.delta, claim.against) == (0.0, 0.0, "adaptive")
    assert learner.regret_bound(GameSpec(1, 10), 3.0) == 0.0


def test_uniform_law_does_not_see_the_losses():
    """40,000 draws each of 3 experts over 4 rounds; all frequencies, false alarm 1e-9."""
    block = np.tile([0.0, 1.0, 1.0], (4, 1))
    choices = begun(Uniform(), 3, 4, 40_000).run(block)
    counts = np.array([np.bincount(row, minlength=3) for row in choices])
    check_frequencies(counts, 40_000, np.full((4, 3), 1 / 3), 12, "uniform")
    np.testing.assert_array_equal(choices, begun(Uniform(), 3, 4, 40_000).run(1.0 - block))


# ------------------------------------------------------------------------------------------------ follow the leader


def test_follow_the_leader_is_ruined_by_alternating():
    for horizon in (1, 2, 101, 1000):
        match = dpe.play(FollowTheLeader(), Alternating(num_experts=5, horizon=horizon), num_games=2, seed=0)
        assert match.learner_loss.tolist() == [horizon] * 2
        assert match.best_loss.tolist() == [0.5 if horizon == 1 else horizon / 2] * 2
        assert math.isnan(match.regret_bound)
        assert match.guarantee is None


def test_follow_the_leader_is_foreseen():
    match = dpe.play(FollowTheLeader(), Foreseer(num_experts=10, horizon=1000), seed=0)
    assert match.learner_loss.tolist() == [1000.0]
    assert match.best_loss.tolist() == [100.0]
    assert match.regret.tolist() == [900.0]


def test_follow_the_leader_by_hand():
    rows = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.25], [0.0, 0.0, 0.5], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    learner = begun(FollowTheLeader(), 3, 5)
    assert learner.run(rows).tolist() == [0, 1, 0, 0, 0]
    learner = begun(FollowTheLeader(), 3, 5)
    learner.run(rows[:2])
    assert learner.probabilities().tolist() == [1.0, 0.0, 0.0]
    with np.errstate(divide="ignore"):
        assert learner.outcomes().tolist() == np.log(learner.probabilities()).tolist()


# -------------------------------------------------------------------------------------- follow the perturbed leader


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("rate", [0.3, 2.0])
def test_exponential_noise_has_its_law(fresh, rate):
    """60,000 games, 4 rounds, 3 experts, against quadrature: false alarm 1e-9. Another rate would be noticed."""
    block = np.array([[1.0, 0.5, 0.0], [1.0, 0.0, 0.75], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    games = 60_000
    choices = begun(FollowThePerturbedLeader(rate, fresh=fresh), 3, 4, games, 1).run(block)
    counts = np.array([np.bincount(row, minlength=3) for row in choices])
    totals = np.concatenate([np.zeros((1, 3)), block.cumsum(0)[:-1]])
    laws = np.array([exponential_law(total, rate) for total in totals])
    np.testing.assert_allclose(laws.sum(1), 1.0, atol=1e-9)
    check_frequencies(counts, games, laws, 12, "exponential noise")
    wrong = np.array([exponential_law(total, 1.15 * rate) for total in totals])
    with pytest.raises(AssertionError):
        check_frequencies(counts, games, wrong, 12, "exponential noise")


def test_the_two_expert_law_is_the_general_one():
    for gap in (-3.0, -0.5, 0.0, 1.0, 4.0):
        np.testing.assert_allclose(
            two_expert_law(np.array([gap, 0.0]), 0.7), exponential_law([gap, 0.0], 0.7), atol=1e-9
        )


def exact_regret(losses, rate):
    totals = np.concatenate([np.zeros((1, 2)), losses.cumsum(0)[:-1]])
    return (two_expert_law(totals, rate) * losses).sum() - losses.sum(0).min()


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(st.tuples(LOSSES, LOSSES), min_size=1, max_size=60), st.floats(0.01, 5.0))
def test_exponential_bound_on_every_sequence(rows, rate):
    """e^eta (L* + (1 + ln 2)/eta), the expected loss being exact; lazy noise has the same marginals."""
    losses = np.array(rows)
    spec, best = GameSpec(2, len(losses)), losses.sum(0).min()
    for learner in (FollowThePerturbedLeader(rate), FollowThePerturbedLeader(rate, fresh=False)):
        bound = learner.regret_bound(spec, best)
        assert bound == pytest.approx(math.exp(rate) * (best + (1.0 + math.log(2.0)) / rate) - best)
        assert exact_regret(losses, rate) <= bound + 1e-9


@pytest.mark.parametrize("rate", [0.02, 0.2, 1.0, 3.0])
def test_exponential_bound_against_adaptive_adversaries(rate):
    """The expert more likely to be named is charged, or only when it is very likely; the law is exact."""
    horizon = 400
    spec = GameSpec(2, horizon)
    for threshold in (0.5, 0.6, 0.9, 0.99):
        total, expected = np.zeros(2), 0.0
        for _ in range(horizon):
            law = two_expert_law(total, rate)
            charged = law.argmax() if law.max() >= threshold else law.argmin()
            losses = (np.arange(2) == charged).astype(float)
            expected, total = expected + law @ losses, total + losses
        bound = FollowThePerturbedLeader(rate).regret_bound(spec, total.min(), "adaptive")
        assert expected - total.min() <= bound


def test_exponential_bound_against_an_adversary_that_sees_the_choices():
    """N = 10, T = 200, 300 games: mean regret plus 6 standard errors (about 1e-9) below the bound, here by far."""
    horizon, games, experts = 200, 300, 10
    learner = begun(FollowThePerturbedLeader(), experts, horizon, games, 3)
    losses, total, lost = np.zeros((games, experts)), np.zeros((games, experts)), np.zeros(games)
    for _ in range(horizon):
        choices = learner.act()
        learner.observe(losses)
        lost += losses[np.arange(games), choices]
        total += losses
        losses = (choices[:, None] == np.arange(experts)).astype(float)
    best = total.min(1)
    slack = best + [learner.regret_bound(learner.spec, value, "adaptive") for value in best] - lost
    assert slack.mean() - 6.0 * slack.std() / math.sqrt(games) > 0.0


def test_default_rate_and_bounds_by_hand():
    spec = GameSpec(7, 900)
    rate = math.sqrt((1.0 + math.log(7.0)) / 900)
    expected = math.exp(rate) * (30.0 + (1.0 + math.log(7.0)) / rate) - 30.0
    assert FollowThePerturbedLeader().regret_bound(spec, 30.0) == pytest.approx(expected, rel=1e-12)
    gumbel = FollowThePerturbedLeader(0.2, "gumbel")
    assert gumbel.regret_bound(spec, 30.0, "adaptive") == pytest.approx(math.log(7.0) / 0.2 + 0.2 * 900 / 8)
    for noise in ("exponential", "gumbel"):
        lazy = FollowThePerturbedLeader(noise=noise, fresh=False)
        assert math.isnan(lazy.regret_bound(spec, 30.0, "adaptive"))
        assert lazy.regret_bound(spec, 30.0) == FollowThePerturbedLeader(noise=noise).regret_bound(spec, 30.0)
    assert FollowThePerturbedLeader(1e4).regret_bound(spec, 0.0) == 900.0
    assert FollowThePerturbedLeader().guarantee(spec) is None


@pytest.mark.parametrize("fresh", [True, False])
def test_gumbel_noise_is_hedge(fresh):
    """60,000 games, 5 rounds, against Hedge's probabilities: false alarm 1e-9. Fresh draws are independent, too."""
    games, rate = 60_000, 0.9
    block = np.random.default_rng(5).random((5, 4))
    learner = begun(FollowThePerturbedLeader(rate, "gumbel", fresh), 4, 5, games, 2)
    choices = learner.run(block)
    laws, hedge = [], begun(Hedge(rate), 4, 5)
    again = begun(FollowThePerturbedLeader(rate, "gumbel"), 4, 5)
    for row in block:
        laws.append(hedge.probabilities())
        np.testing.assert_allclose(again.probabilities(), laws[-1], rtol=1e-13)
        for player in (hedge, again):
            player.act()
            player.observe(row)
    laws = np.array(laws)
    check_frequencies(np.array([np.bincount(row, minlength=4) for row in choices]), games, laws, 20, "gumbel")
    pairs = np.bincount(choices[0] * 4 + choices[4], minlength=16)
    product = np.outer(laws[0], laws[4]).ravel()
    if fresh:
        check_frequencies(pairs, games, product, 16, "two rounds")
    else:
        with pytest.raises(AssertionError):
            check_frequencies(pairs, games, product, 16, "two rounds")


@pytest.mark.parametrize("noise", ["exponential", "gumbel"])
def test_lazy_noise_is_drawn_once_a_game(noise):
    games = 300
    learner = begun(FollowThePerturbedLeader(noise=noise, fresh=False), 5, 40, games, 4)
    state = learner.rng.bit_generator.state
    choices = learner.run(np.zeros((40, 5)))
    assert learner.rng.bit_generator.state == state
    assert (choices == choices[0]).all()
    assert set(choices[0]) == set(range(5))
    other = begun(FollowThePerturbedLeader(noise=noise), 5, 40, games, 4).run(np.zeros((40, 5)))
    assert (np.diff(other, axis=0) != 0).any(0).all()
    # An expert that was left behind by the same losses never comes back: the head start is the same all along.
    block = np.zeros((39, 5))
    block[:, 0] = 0.01
    learner = begun(FollowThePerturbedLeader(0.5, noise, fresh=False), 5, 40, games, 4)
    kept = learner.run(block) == 0
    assert (np.diff(kept.astype(int), axis=0) <= 0).all()
    assert (~kept[-1] & kept[0]).any()


def test_perturbed_leader_has_no_closed_form_elsewhere():
    for learner in (
        FollowThePerturbedLeader(),
        FollowThePerturbedLeader(noise="gumbel", fresh=False),
    ):
        with pytest.raises(NotImplementedError):
            begun(learner, 3, 4).probabilities()


def test_bad_arguments():
    for rate in (0.0, -1.0, math.inf, math.nan, "fast"):
        with pytest.raises(ArgumentError, match="learning_rate"):
            FollowThePerturbedLeader(rate)
    with pytest.raises(UnknownNameError, match="'gumbel'"):
        FollowThePerturbedLeader(noise="gumble")


LEARNERS = [
    Uniform(),
    FollowTheLeader(),
    FollowThePerturbedLeader(),
    FollowThePerturbedLeader(0.3, fresh=False),
    FollowThePerturbedLeader(0.3, "gumbel"),
    FollowThePerturbedLeader(0.3, "gumbel", fresh=False),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=range(len(LEARNERS)))
@pytest.mark.parametrize("games", [None, 3])
def test_blocks_equal_the_loop(learner, games):
    shared = np.random.default_rng(1).random((40, 3))
    own = np.random.default_rng(2).random((30, 3) if games is None else (30, games, 3))
    loop, blocks = (begun(learner.clone(), 3, 70, games, 5) for _ in range(2))
    one = []
    for row in [*shared, *own]:
        one.append(loop.act())
        loop.observe(row)
    parts = (shared[:1], shared[1:33], shared[33:], own[:29], own[29:])
    np.testing.assert_array_equal(one, np.concatenate([blocks.run(part) for part in parts]))


# ---------------------------------------------------------------------------------------------------- running totals


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.sampled_from([(3,), (2, 3), (70,), (5, 20), (1,), (1, 1)]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_running_totals_equal_the_loop_bit_for_bit(rows, shape, shared_total, shared_block, seed):
    rng = np.random.default_rng(seed)
    total = rng.random(shape[-1:] if shared_total else shape) * 1e6
    block = rng.random((rows, *(shape[-1:] if shared_block else shape)))
    before, after = running_totals(total, block)
    kept = total.copy()
    for found, losses in zip(before, block, strict=True):
        np.testing.assert_array_equal(found, np.broadcast_to(total, found.shape))
        total = total + losses
    np.testing.assert_array_equal(after, total)
    after += 1.0
    np.testing.assert_array_equal(running_totals(kept, block)[0], before)
