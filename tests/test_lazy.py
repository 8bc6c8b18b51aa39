"""Lazy Hedge and L2P: exact laws, certificates against exact games, the batch that the calibration takes."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from dp_experts_agents.lazy import LazyHedge, LazyToPrivate
from dp_experts_env.privacy.accounting import learning_rate, zcdp_rho
from dp_experts_env.spec import ArgumentError, BudgetError, GameSpec
from dp_experts_env.testing import check_learner

LOOSE = 1e9


def loose(**keywords):
    """L2P with parameters of our own and a budget that they cannot exceed."""
    return LazyToPrivate(**{"epsilon": LOOSE, "delta": 1e-6, **keywords})


def transcripts(learner, losses):
    """Play every sequence of outcomes; return log-probabilities, the choices (T, G) and the references (T, G)."""
    horizon, experts = losses.shape
    learner = learner.clone()
    learner.reset(GameSpec(experts, horizon), np.random.default_rng(0))
    size, number = learner._size, (experts + 1) ** 2
    games = np.arange(number ** math.ceil(horizon / size))
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    learner._notes = {}
    logs, choices = np.zeros(len(games)), []
    for row, loss in enumerate(losses):
        law = learner.outcomes()
        outcome = law.argmax(-1) if row % size else games // number ** (row // size) % number
        # After an impossible outcome the state means nothing.
        step = np.take_along_axis(law, outcome[:, None], -1)[:, 0]
        logs = np.where(np.isneginf(logs), -np.inf, logs + step)
        choices.append(learner.take(outcome))
        learner.observe(loss)
    return logs, np.array(choices), np.array(learner._notes["reference"])


def laws_of(measure, losses, size):
    totals = np.concatenate([np.zeros((1, losses.shape[1])), losses.cumsum(0)])
    logs = measure(totals[np.arange(len(losses)) // size * size])
    weights = np.exp(logs - logs.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


# ------------------------------------------------------------------------------------------------------- L2P's laws


@pytest.mark.parametrize(("size", "rate", "forced"), [(1, 0.4, 0.2), (1, 1.5, 0.05), (3, 0.3, 0.4)])
def test_marginals_are_the_measures(size, rate, forced):
    """x has law nu_s, given every path of y; y has not."""
    losses = np.random.default_rng(1).random((4 * size, 2))
    learner = loose(batch_size=size, switch_probability=forced, learning_rate=rate, certificate="uncapped")
    logs, choices, references = transcripts(learner, losses)
    masses = np.exp(logs)
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    laws = laws_of(lambda total: -rate * total, losses, size)
    paths = (references[::size] * 2 ** np.arange(4)[:, None]).sum(0)
    for row in range(4 * size):
        joint = np.zeros((2, 16))
        np.add.at(joint, (choices[row], paths), masses)
        np.testing.assert_allclose(joint, laws[row][:, None] * joint.sum(0), atol=1e-12)
    other = np.bincount(references[-1], masses, minlength=2)
    assert np.abs(other - laws[-1]).max() > 1e-3


def prior(total):
    """A measure that is not uniform at the start and counts the second expert's losses half."""
    return np.log([0.7, 0.3]) - 0.4 * total * [1.0, 0.5]


class Prior(LazyToPrivate):
    """The same measure by subclassing."""

    def measure(self, total):
        return prior(total)


OWN = {"batch_size": 2, "switch_probability": 0.2, "learning_rate": 0.4}


@pytest.mark.parametrize("learner", [LazyToPrivate(**OWN, log_measure=prior), Prior(**OWN)])
def test_marginals_of_other_measures(learner):
    losses = np.random.default_rng(2).random((8, 2))
    logs, choices, _ = transcripts(learner, losses)
    found = np.array([np.bincount(row, np.exp(logs), minlength=2) for row in choices])
    np.testing.assert_allclose(found, laws_of(prior, losses, 2), atol=1e-12)
    assert learner.guarantee(GameSpec(2, 8)) is None
    assert math.isnan(learner.regret_bound(GameSpec(2, 8), 0.0))


def test_hedge_handed_in_is_hedge():
    losses = np.random.default_rng(3).random((8, 2))
    own = {**OWN, "epsilon": LOOSE}
    one = transcripts(LazyToPrivate(**own, certificate="uncapped"), losses)
    two = transcripts(LazyToPrivate(**own, log_measure=lambda total: -0.4 * total), losses)
    np.testing.assert_allclose(np.exp(one[0]), np.exp(two[0]), atol=1e-14)
    for first, second in zip(one[1:], two[1:], strict=True):
        np.testing.assert_array_equal(first, second)


def test_keep_probability_is_cut_at_one():
    """Measures that move further than they promised break the marginal, never the coin."""
    learner = LazyToPrivate(batch_size=1, switch_probability=0.2, learning_rate=0.01, log_measure=lambda t: -5.0 * t)
    learner.reset(GameSpec(2, 3, 9), np.random.default_rng(0))
    outcomes = np.arange(9)
    learner.take(outcomes)
    learner.observe(np.array([0.0, 1.0]))
    kept = np.exp(learner.outcomes()).reshape(9, 3, 3).sum(-1)[:, 2]
    expert, reference = outcomes // 3, outcomes % 3
    drawn = (expert < 2) & (reference < 2)
    gap = 0.02 + 5.0 * (expert - reference)
    np.testing.assert_allclose(kept[drawn], 0.8 * np.exp(-np.maximum(gap, 0.0))[drawn], rtol=1e-12)


def test_caps_are_never_exceeded():
    learner = loose(batch_size=2, switch_probability=0.3, learning_rate=0.2, cap=4)
    learner.reset(GameSpec(3, 200, 300), np.random.default_rng(1))
    learner._notes = {}
    learner.run(np.random.default_rng(2).random((200, 3)))
    assert (~np.array(learner._notes["kept"])[1:]).sum(0).max() == 4
    changes = (np.diff(learner._notes["reference"], axis=0) != 0).sum(0)
    assert 0 < changes.max() <= math.ceil(99 * 0.3)


# ------------------------------------------------------------------------------------ certificates against exact games


def exact_game(decisions, batch, forced, rate, caps, zero_out, add, times):
    """The worst value of L2P's game on batch sums in {0..B}^2 over all adaptive adversaries, by recursion.

    ``times(p, q, rest)`` extends a value by one outcome, ``add`` joins the outcomes of one decision. An independent
    transcription: x, y, both caps and both worlds' losses are the state.
    """
    sums = list(itertools.product(range(batch + 1), repeat=2))
    same = [(one, one) for one in sums]
    moved = []
    for one, two in itertools.product(sums, sums):
        change = [a - b for a, b in zip(one, two, strict=True)]
        if max(map(abs, change)) <= 1 and not (zero_out and min(change) < 0 < max(change)):
            moved.append((one, two))

    def weights(total):
        law = np.exp(-rate * (np.array(total) - min(total)))
        return law / law.sum()

    @functools.cache
    def value(turns, totals, x, y, left, spare, used):
        if turns == 0:
            return times(1.0, 1.0, None)
        best = -math.inf
        for losses in same if used else (*same, *moved):
            after = tuple(tuple(a + b for a, b in zip(*pair, strict=True)) for pair in zip(totals, losses, strict=True))
            keep = [
                (1 - forced) * math.exp(-rate * (2 * batch + loss[x] - loss[y])) if left > 0 else 1.0 for loss in losses
            ]
            leave = forced if spare > 0 else 0.0
            one, two = (weights(total) for total in after)
            least = min(after[0])
            after = tuple(tuple(a - least for a in total) for total in after)
            parts = []
            for i, j in itertools.product((0, 1, None), repeat=2):
                p, q = keep if i is None else ((1 - keep[0]) * one[i], (1 - keep[1]) * two[i])
                p, q = (p * (1 - leave), q * (1 - leave)) if j is None else (p * leave * one[j], q * leave * two[j])
                if p > 0:
                    rest = value(
                        turns - 1,
                        after,
                        x if i is None else i,
                        y if j is None else j,
                        left - (i is not None),
                        spare - (j is not None),
                        used or losses[0] != losses[1],
                    )
                    parts.append(times(p, q, rest))
            best = max(best, add(parts))
        return best

    start = ((0, 0), (0, 0))
    return max(value(decisions - 1, start, 0, y, *caps, False) for y in (0, 1))


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_pure_certificate_holds_in_every_adaptive_game(adjacency):
    nearest = 0.0
    for batch, forced, rate, cap in ((1, 0.1, 0.3, 1), (1, 0.1, 2.0, 1), (2, 0.4, 0.5, 1), (1, 0.1, 0.3, 0)):
        learner = loose(
            delta=0.0, batch_size=batch, switch_probability=forced, learning_rate=rate, cap=cap, adjacency=adjacency
        )
        claimed = learner.guarantee(GameSpec(2, 3 * batch)).epsilon
        caps = cap, math.ceil(2 * forced)
        exact = exact_game(
            3,
            batch,
            forced,
            rate,
            caps,
            adjacency == "zero_out",
            max,
            lambda p, q, rest: 0.0 if rest is None else math.log(p / q) + rest,
        )
        assert exact <= claimed + 1e-9
        nearest = max(nearest, exact / claimed)
    assert nearest > 0.6


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_renyi_curve_holds_in_every_adaptive_game(adjacency):
    nearest = 0.0
    for batch, forced, rate in ((1, 0.1, 0.1), (1, 0.3, 0.8), (2, 0.2, 0.3)):
        scheme = loose(adjacency=adjacency).scheme(GameSpec(2, 3 * batch))
        for alpha in (1.5, 6.0):
            exact = exact_game(
                3,
                batch,
                forced,
                rate,
                (math.inf, math.inf),
                adjacency == "zero_out",
                sum,
                lambda p, q, rest, alpha=alpha: 1.0 if rest is None else p**alpha * q ** (1 - alpha) * rest,
            )
            bound = float(scheme.spend("renyi", batch, forced, rate, alpha - 1.0))
            assert math.log(exact) / (alpha - 1.0) <= bound * (1 + 1e-12)
            nearest = max(nearest, math.log(exact) / (alpha - 1.0) / bound)
    assert nearest > 0.5


def test_certificate_by_hand():
    scheme = loose().scheme(GameSpec(2, 100))
    batch, forced, rate, cap = 4, 0.1, 0.05, 9
    most = (1 - forced) * math.exp(-rate * batch)
    switch = math.log1p(most * (1 - math.exp(-2 * rate)) / (1 - most))
    both = cap + math.ceil(24 * forced)
    assert scheme.spend("pure", batch, forced, rate, cap) == pytest.approx(max(switch, 2 * rate) + 2 * rate * both)
    assert scheme.spend("zcdp", batch, forced, rate, cap) == pytest.approx(
        (switch + 2 * rate) ** 2 / 8 + both * rate**2 / 2
    )
    odds = 1 - (1 - forced) * math.exp(-3 * rate * batch)
    tail = batch * sum(binom.sf(cap, coins, odds) for coins in range(1, 25))
    assert scheme.regret(batch, forced, rate, cap) == pytest.approx(math.log(2) / rate + rate * batch * 12.5 + tail)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_calibrated_within_the_budget(delta):
    for horizon, experts in ((1, 1), (1000, 10), (10**4, 100)):
        spec = GameSpec(experts, horizon)
        learner = LazyToPrivate(1.0, delta)
        claim = learner.guarantee(spec)
        assert 0.0 <= claim.epsilon <= 1.0
        assert claim.delta <= delta
        assert claim.against == "adaptive"
        assert math.isnan(learner.regret_bound(spec, 0.0, "adaptive"))
        assert learner.regret_bound(spec, 0.0) <= horizon
    assert LazyToPrivate(1.0, 1e-6).regret_bound(GameSpec(10, 10**4), 5000.0) < 290
    assert LazyToPrivate(1.0, 0.0).regret_bound(GameSpec(10, 10**4), 5000.0) < 730


def test_bad_arguments_of_l2p():
    with pytest.raises(ArgumentError, match=r"switch_probability.*log_measure"):
        LazyToPrivate(batch_size=2, learning_rate=0.1, log_measure=prior)
    with pytest.raises(ArgumentError, match="batch_size"):
        Prior()
    with pytest.raises(BudgetError, match="learning_rate=2"):
        LazyToPrivate(learning_rate=2.0, batch_size=1).plan(GameSpec(3, 100))


# -------------------------------------------------------------------------------------------------------- lazy Hedge


def test_the_batch_is_the_best_one():
    """The calibrated bound is the least over all B of ln N/eta + eta B T/8 at the largest private rate."""
    for horizon, experts, epsilon, delta, adjacency in (
        (1000, 10, 1.0, 1e-6, "replace"),
        (1000, 10, 1.0, 0.0, "replace"),
        (777, 100, 0.3, 1e-4, "zero_out"),
        (500, 3, 20.0, 1e-6, "replace"),
    ):
        learner = LazyHedge(epsilon, delta, adjacency=adjacency)
        bounds = []
        for batch in range(1, horizon + 1):
            rate = math.sqrt(8 * math.log(experts) / batch / horizon)
            draws = math.ceil(horizon / batch)
            if draws > 1:
                rate = min(rate, learning_rate(epsilon, delta, draws, "zcdp", adjacency))
            bounds.append(math.log(experts) / rate + rate * batch * horizon / 8)
        assert learner.plan(GameSpec(experts, horizon)).regret == pytest.approx(min(bounds), rel=1e-9)


def test_the_best_batch_in_closed_form():
    """sqrt(4 ln N/(3 rho)) whatever T is, and (16 T ln N/epsilon^2)^(1/3) for pure privacy, within rounding."""
    for experts in (10, 100):
        best = math.sqrt(4 * math.log(experts) / (3 * zcdp_rho(1.0, 1e-6)))
        for horizon in (10**4, 10**5):
            assert abs(LazyHedge().plan(GameSpec(experts, horizon)).batch_size - best) <= 1
            pure = (16 * horizon * math.log(experts)) ** (1 / 3)
            assert LazyHedge(delta=0.0).plan(GameSpec(experts, horizon)).batch_size == pytest.approx(pure, rel=0.05)
    assert LazyHedge().plan(GameSpec(10, 10**4)).regret == pytest.approx(415.2, abs=0.1)
    assert LazyHedge(delta=0.0).plan(GameSpec(10, 10**4)).regret == pytest.approx(961.6, abs=0.1)


def test_lazy_guarantee():
    spec = GameSpec(10, 1000)
    for learner in (LazyHedge(), LazyHedge(delta=0.0), LazyHedge(0.2, 1e-4, batch_size=5, adjacency="zero_out")):
        claim = learner.guarantee(spec)
        assert 0.98 * learner.epsilon < claim.epsilon <= learner.epsilon
        assert claim.delta <= learner.delta
        assert (claim.adjacency, claim.against) == (learner.adjacency, "adaptive")
    pure = LazyHedge(5.0, 0.0, batch_size=10, learning_rate=0.01).guarantee(spec)
    assert pure.epsilon == pytest.approx(99 * 0.02)
    assert LazyHedge(batch_size=1000, learning_rate=9.0).guarantee(spec).epsilon == 0.0
    assert LazyHedge(learning_rate=0.02).plan(spec).epsilon <= 1.0
    with pytest.raises(BudgetError, match=r"learning_rate=0.5.*epsilon=1 but found"):
        LazyHedge(batch_size=10, learning_rate=0.5).reset(spec, np.random.default_rng(0))


def test_lazy_exact_privacy():
    """Exact epsilon of three draws over all pairs of sequences in {0, 1}: at most, and near, the pure claim."""
    learner = LazyHedge(LOOSE, 0.0, batch_size=1, learning_rate=1.0)
    claimed = learner.guarantee(GameSpec(2, 3)).epsilon
    assert claimed == 4.0
    worst = 0.0
    corners = [np.array(corner, dtype=float) for corner in itertools.product((0, 1), repeat=2)]

    def laws(losses):
        learner.reset(GameSpec(2, 3), np.random.default_rng(0))
        rows = []
        for loss in losses:
            rows.append(learner.outcomes())
            learner.take(0)
            learner.observe(loss)
        return np.array(rows)

    for first, second, other in itertools.product(corners, repeat=3):
        for one, two in (((first, second), (other, second)), ((second, first), (second, other))):
            gap = laws((*one, corners[0])) - laws((*two, corners[0]))
            worst = max(worst, float(np.abs(gap).max(-1).sum()))
    assert 0.6 * claimed < worst <= claimed


def test_lazy_probabilities_and_holding():
    learner = LazyHedge(LOOSE, batch_size=3, learning_rate=0.5)
    losses = np.random.default_rng(0).random((9, 4))
    learner.reset(GameSpec(4, 9, 5), np.random.default_rng(1))
    laws, choices = laws_of(lambda total: -0.5 * total, losses, 3), np.zeros(5, dtype=int)
    for row, loss in enumerate(losses):
        law = np.broadcast_to(learner.probabilities(), (5, 4))
        if row % 3:
            np.testing.assert_array_equal(law, np.eye(4)[choices])
        else:
            np.testing.assert_allclose(law, np.broadcast_to(laws[row], (5, 4)), atol=1e-12)
        choices = learner.act()
        learner.observe(loss)


def test_floor_of_frozen_learners():
    """Whoever holds its expert over batches pays B E max_i (n/2 - Bin_i(n, 1/2)) on losses constant in batches.

    Losses are fair coins, one a batch and expert, so every such learner loses T/2 on average and its mean regret is
    exactly that figure, of order sqrt(T B ln N/2). 2,000 games: two-sided test at 5.3 standard errors (false alarm
    1.2e-7). Hedge at the same rate but drawing each round has less than half of it.
    """
    games, batch, blocks, experts = 2000, 20, 50, 4
    tails = binom.cdf(np.arange(blocks + 1), blocks, 0.5)
    least = np.arange(blocks + 1) @ -np.diff((1 - np.concatenate([[0.0], tails])) ** experts)
    floor = batch * (blocks / 2 - least)
    assert 0.6 < floor / math.sqrt(batch * blocks * batch * math.log(experts) / 2) < 1.0
    losses = np.random.default_rng(5).integers(0, 2, size=(blocks, games, experts)).astype(float).repeat(batch, axis=0)
    regrets = []
    for size in (batch, 1):
        learner = LazyHedge(LOOSE, batch_size=size, learning_rate=0.3)
        learner.reset(GameSpec(experts, batch * blocks, games), np.random.default_rng(6))
        choices = learner.run(losses)
        played = np.take_along_axis(losses, choices[..., None], -1)[..., 0].sum(0)
        regrets.append(played - losses.sum(0).min(-1))
    frozen, fresh = regrets
    assert abs(frozen.mean() - floor) <= 5.3 * frozen.std() / math.sqrt(games)
    assert fresh.mean() < floor / 2


# ------------------------------------------------------------------------------------------------------------ playing


@pytest.mark.parametrize(
    "learner",
    [
        LazyHedge(LOOSE, batch_size=4, learning_rate=0.2),
        loose(batch_size=3, switch_probability=0.2, learning_rate=0.1, certificate="uncapped"),
        loose(batch_size=1, switch_probability=0.2, learning_rate=0.1, cap=5),
        LazyToPrivate(**OWN, log_measure=lambda total: -0.3 * total),
    ],
)
@pytest.mark.parametrize("games", [None, 6])
def test_blocks_equal_the_loop(learner, games):
    rng = np.random.default_rng(11)
    lengths = [7, 1, 15, 2, 24, 3]
    spec = GameSpec(3, sum(lengths), games)
    one, two = learner.clone(), learner.clone()
    one.reset(spec, np.random.default_rng(4))
    two.reset(spec, np.random.default_rng(4))
    for index, rounds in enumerate(lengths):
        block = rng.random((rounds, *(() if games is None or index % 2 == 0 else (games,)), 3))
        looped = []
        for losses in block:
            looped.append(one.act())
            one.observe(losses)
        np.testing.assert_array_equal(two.run(block), looped)


def test_coins_fall_as_stated():
    """Shares of 100,000 games that keep x when it lost 1 and y nothing, and that keep y; within 5.3 standard errors."""
    learner = loose(batch_size=1, switch_probability=0.2, learning_rate=0.3, certificate="uncapped")
    learner.reset(GameSpec(2, 2, 100_000), np.random.default_rng(7))
    learner._notes = {}
    first = learner.act()
    learner.observe(np.array([1.0, 0.0]))
    learner.act()
    reference, kept = learner._notes["reference"], learner._notes["kept"][1]
    assert (np.bincount(2 * first + reference[0], minlength=4) > 24_000).all()
    for expert, other in itertools.product((0, 1), repeat=2):
        here = kept[(first == expert) & (reference[0] == other)]
        keep = 0.8 * math.exp(-0.3 * (2 + other - expert))
        assert abs(here.mean() - keep) <= 5.3 * math.sqrt(keep * (1 - keep) / len(here))
    same = 0.8 + 0.2 / (1 + np.exp([0.3, -0.3]))
    for expert in (0, 1):
        here = reference[1][reference[0] == expert] == expert
        assert abs(here.mean() - same[expert]) <= 5.3 * math.sqrt(same[expert] * (1 - same[expert]) / len(here))


def test_regret_stays_under_the_bound():
    """Mean regret of 2,000 games below the certified bound plus 5.2 standard errors (false alarm below 1e-6 in all)."""
    horizon, experts = 1000, 5
    rng = np.random.default_rng(9)
    steady = (rng.random((horizon, experts)) < np.where(np.arange(experts) == 3, 0.25, 0.5)).astype(float)
    blocks = np.repeat((rng.random((horizon // 10, experts)) < 0.5).astype(float), 10, axis=0)
    perfect = np.ones((horizon, experts))
    perfect[:, 2] = 0.0
    for learner in (LazyHedge(), LazyHedge(delta=0.0), LazyToPrivate(), LazyToPrivate(delta=0.0)):
        for losses in (steady, blocks, perfect):
            learner.reset(GameSpec(experts, horizon, 2000), np.random.default_rng(1))
            choices = learner.run(losses)
            regret = np.take_along_axis(losses, choices, -1).sum(0) - losses.sum(0).min()
            bound = learner.regret_bound(GameSpec(experts, horizon), losses.sum(0).min())
            assert regret.mean() <= bound + 5.2 * regret.std() / math.sqrt(2000)


@pytest.mark.parametrize(
    "learner", [LazyHedge(), LazyHedge(0.5, 0.0, batch_size=3), LazyToPrivate(), LazyToPrivate(2.0, 0.0)]
)
def test_conformance(learner):
    check_learner(learner)
