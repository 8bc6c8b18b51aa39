"""Fixed-Share on a private dartboard: exact laws, privacy by enumeration, static and dynamic regret."""

import itertools
import math

import numpy as np
import pytest

from dp_experts_agents.dartboard import PrivateDartboard
from dp_experts_agents.tracking import PrivateFixedShare, dynamic_best_loss, dynamic_regret
from dp_experts_env.spec import ArgumentError, BudgetError, GameSpec, LossError
from dp_experts_env.testing import check_learner

LOOSE = 1e9


def loose(**keywords):
    """Fixed-Share with parameters of our own and a budget that they cannot exceed."""
    return PrivateFixedShare(**{"epsilon": LOOSE, "delta": 1e-6, **keywords})


def transcripts(learner, losses):
    """Play every sequence of outcomes; return log-probabilities, choices (T, G) and outcomes of the decisions."""
    horizon, experts = losses.shape
    learner = learner.clone()
    learner.reset(GameSpec(experts, horizon), np.random.default_rng(0))
    size, number = learner._size, 2 * experts
    games = np.arange(number ** math.ceil(horizon / size))
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    logs, choices, taken = np.zeros(len(games)), [], []
    for row, loss in enumerate(losses):
        law = learner.outcomes()
        outcome = law.argmax(-1) if row % size else games // number ** (row // size) % number
        if row % size == 0:
            taken.append(outcome)
        # After an impossible outcome the state means nothing.
        step = np.take_along_axis(law, outcome[:, None], -1)[:, 0]
        logs = np.where(np.isneginf(logs), -np.inf, logs + step)
        choices.append(learner.take(outcome))
        learner.observe(loss)
    return logs, np.array(choices), np.array(taken)


def fixed_share(losses, rate, share, size):
    """Fixed-Share's law in each round, sharing at the head of each batch: shape (T, N)."""
    experts = losses.shape[1]
    weights, laws = np.full(experts, 1.0 / experts), []
    for row, loss in enumerate(losses):
        if row and row % size == 0:
            weights = weights / weights.sum()
            weights = (1 - share) * weights + share / experts
        if row % size == 0:
            law = weights
        laws.append(law)
        weights = weights * np.exp(-rate * loss)
    return np.array(laws)


@pytest.mark.parametrize(
    ("size", "rate", "forced", "share"),
    [(1, 0.8, 0.2, 0.3), (1, 3.0, 0.05, 0.01), (3, 0.5, 0.3, 0.2), (2, 0.7, 1.0, 1.0)],
)
def test_marginals_are_fixed_shares(size, rate, forced, share):
    learner = loose(
        batch_size=size, learning_rate=rate, switch_probability=forced, mixing=share, certificate="uncapped"
    )
    losses = np.random.default_rng(1).random((4 * size, 3))
    logs, choices, _ = transcripts(learner, losses)
    found = np.array([np.bincount(row, np.exp(logs), minlength=3) for row in choices])
    np.testing.assert_allclose(found, fixed_share(losses, rate, share, size), atol=1e-12)


def test_a_capped_game_moves_on_by_the_share():
    learner = loose(batch_size=1, learning_rate=0.9, switch_probability=0.3, mixing=0.2, cap=1)
    losses = np.random.default_rng(2).random((5, 2))
    logs, choices, taken = transcripts(learner, losses)
    possible = logs > -np.inf
    redraws = (taken[1:, possible] < 2).sum(0)
    assert redraws.max() == 1
    # Out of redraws after round 2, the choice moves by the share alone.
    spent = possible & (taken[1] < 2)
    masses = np.exp(logs[spent])
    moved = (masses * (choices[3, spent] != choices[2, spent])).sum() / masses.sum()
    assert moved == pytest.approx(0.1, abs=1e-12)
    free = transcripts(learner.clone(cap=None, certificate="uncapped"), losses)
    exceeded = np.exp(free[0])[(free[2][1:] < 2).sum(0) > 1].sum()
    found = np.array([np.bincount(row, np.exp(logs), minlength=2) for row in choices])
    distance = np.abs(found - fixed_share(losses, 0.9, 0.2, 1)).sum(-1) / 2
    assert 0.0 < distance.max() <= exceeded


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_privacy_by_enumeration(adjacency):
    """Exact epsilon of coins and choices over all neighbouring pairs in {0, 1}^2, three losses, two redraws.

    For pure privacy the worst adaptive adversary is a fixed sequence: the ratio of a transcript is that against the
    losses along it.
    """
    corners = [np.array(corner, dtype=float) for corner in itertools.product((0, 1), repeat=2)]
    pairs = [(one, two) for one in corners for two in corners if one is not two]
    if adjacency == "zero_out":
        pairs = [(one, two) for one, two in pairs if not one.any() or not two.any()]
    nearest = 0.0
    for rate, forced, share in ((2.0, 0.1, 0.01), (0.5, 0.5, 0.3)):
        learner = loose(
            delta=0.0,
            batch_size=1,
            learning_rate=rate,
            switch_probability=forced,
            mixing=share,
            cap=1,
            adjacency=adjacency,
        )
        claimed = learner.guarantee(GameSpec(2, 4)).epsilon
        plain = PrivateDartboard(
            LOOSE, 0.0, batch_size=1, learning_rate=rate, switch_probability=forced, cap=1, adjacency=adjacency
        )
        assert claimed == plain.guarantee(GameSpec(2, 4)).epsilon
        laws = {
            sequence: transcripts(learner, np.array([corners[i] for i in sequence] + [corners[0]]))[0]
            for sequence in itertools.product(range(4), repeat=3)
        }
        for sequence, turn in itertools.product(laws, range(3)):
            for one, two in pairs:
                if corners[sequence[turn]] is one:
                    index = next(i for i, corner in enumerate(corners) if corner is two)
                    other = laws[(*sequence[:turn], index, *sequence[turn + 1 :])]
                    possible = laws[sequence] > -np.inf
                    ratio = np.abs(laws[sequence][possible] - other[possible]).max()
                    assert ratio <= claimed + 1e-9
                    nearest = max(nearest, ratio / claimed)
    assert nearest > 0.75


def test_without_switches_it_is_the_dartboard():
    spec = GameSpec(10, 1000)
    for delta in (0.0, 1e-6):
        share, plain = PrivateFixedShare(delta=delta, switches=0), PrivateDartboard(delta=delta)
        assert share.plan(spec) == plain.plan(spec)
        assert share.regret_bound(spec, 100.0) == plain.regret_bound(spec, 100.0)
        losses = np.random.default_rng(0).random((1000, 10))
        played = []
        for learner in (share, plain):
            learner.reset(spec, np.random.default_rng(1))
            played.append(learner.run(losses))
        np.testing.assert_array_equal(*played)


def test_plan_and_bounds_by_hand():
    spec = GameSpec(5, 1200)
    learner = PrivateFixedShare(switches=3, batch_size=4, learning_rate=0.02, switch_probability=0.1, epsilon=LOOSE)
    share = 3 / 299 / 0.8
    prior = (1 / 5) * (share / 5) ** 3 * (1 - share + share / 5) ** 296
    assert learner.dynamic_regret_bound(spec) == pytest.approx(-math.log(prior) / 0.02 + 0.02 * 4 * 150 + 3 * 2)
    static = (math.log(5) - 299 * math.log(1 - share * 0.8)) / 0.02 + 12
    assert learner.dynamic_regret_bound(spec, 0) == pytest.approx(static)
    assert learner.regret_bound(spec, 600.0) == pytest.approx(static)
    assert math.isnan(learner.regret_bound(spec, 0.0, "adaptive"))
    # The share is the one of least bound.
    for mixing in (share * 0.8, share * 1.25):
        assert learner.clone(mixing=mixing).dynamic_regret_bound(spec) > learner.dynamic_regret_bound(spec)
    assert learner.dynamic_regret_bound(spec, 10**6) == 1200.0
    assert PrivateFixedShare().dynamic_regret_bound(GameSpec(1, 10)) == 0.0


def test_calibrated_within_the_budget():
    for delta, switches in itertools.product((0.0, 1e-6), (1, 10)):
        learner = PrivateFixedShare(1.0, delta, switches)
        for size in ((1, 1), (3, 1), (2, 7), (10, 10**4)):
            claim = learner.guarantee(GameSpec(*size))
            assert 0.0 <= claim.epsilon <= 1.0
            assert claim.delta <= delta
            assert claim.against == "adaptive"
            assert 0.0 <= learner.dynamic_regret_bound(GameSpec(*size)) <= size[1]
    assert PrivateFixedShare().dynamic_regret_bound(GameSpec(10, 10**4)) < 1036


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="switches"):
        PrivateFixedShare(switches=-1)
    with pytest.raises(ArgumentError, match="mixing"):
        PrivateFixedShare(mixing=0.0)
    assert PrivateFixedShare(switches=0, mixing=0.0).mixing == 0.0
    with pytest.raises(ArgumentError, match="switches"):
        PrivateFixedShare().dynamic_regret_bound(GameSpec(2, 9), -1)
    with pytest.raises(BudgetError, match="learning_rate=3"):
        PrivateFixedShare(learning_rate=3.0, batch_size=1).plan(GameSpec(2, 50))


# ---------------------------------------------------------------------------------------------------- dynamic regret


def test_dynamic_best_loss_is_the_best_sequence():
    rng = np.random.default_rng(3)
    losses = rng.random((6, 4, 3))
    for switches in range(8):
        found = dynamic_best_loss(losses, switches)
        for game in range(4):
            best = min(
                losses[np.arange(6), game, list(path)].sum()
                for path in itertools.product(range(3), repeat=6)
                if np.count_nonzero(np.diff(path)) <= switches
            )
            assert found[game] == pytest.approx(best, abs=1e-12)
            assert dynamic_best_loss(losses[:, game], switches) == pytest.approx(best, abs=1e-12)
    assert dynamic_best_loss(losses[:, 0], 0) == pytest.approx(losses[:, 0].sum(0).min(), abs=1e-12)
    choices = rng.integers(3, size=(6, 4))
    played = np.take_along_axis(losses, choices[..., None], -1)[..., 0].sum(0)
    np.testing.assert_allclose(dynamic_regret(losses, choices, 2), played - dynamic_best_loss(losses, 2))
    shared = dynamic_regret(losses[:, 0], choices, 1)
    assert shared.shape == (4,)
    assert dynamic_regret(losses[:, 0], choices[:, 0], 1) == pytest.approx(shared[0])
    for bad in (losses[0, 0], np.full((2, 2), 1.5), np.zeros((0, 2))):
        with pytest.raises(LossError):
            dynamic_best_loss(bad, 1)
    with pytest.raises(ArgumentError, match="switches"):
        dynamic_best_loss(losses, -1)


def test_a_switch_inside_a_batch_costs_at_most_half_of_it():
    """The best batch-constant comparator loses at most S floor(B/2) more than the best one, on random sequences."""
    rng = np.random.default_rng(4)
    tight = 0.0
    for batch, switches in itertools.product((1, 2, 3, 4, 5), (0, 1, 2, 4)):
        losses = (rng.random((6 * batch, 300, 3)) < rng.random((6 * batch, 1, 3))).astype(float)
        sums = losses.reshape(6, batch, 300, 3).sum(1)
        excess = batch * dynamic_best_loss(sums / batch, switches) - dynamic_best_loss(losses, switches)
        assert excess.max() <= switches * (batch // 2) + 1e-9
        if switches == 1 and batch > 1:
            tight = max(tight, excess.max() / (batch // 2))
    assert tight == pytest.approx(1.0)


def test_dynamic_regret_stays_under_the_bound():
    """Mean of 1,000 games below the bound plus 5.2 standard errors (false alarm below 1e-6 in all)."""
    horizon, experts, switches = 2000, 5, 2
    rng = np.random.default_rng(5)
    leader = np.repeat([0, 3, 1], [700, 650, 650])
    rates = np.where(np.arange(experts) == leader[:, None], 0.05, 0.6)
    losses = (rng.random((horizon, experts)) < rates).astype(float)
    spec = GameSpec(experts, horizon)
    shared = []
    for learner in (PrivateFixedShare(3.0, switches=switches), PrivateFixedShare(3.0, 0.0, switches=switches)):
        learner.reset(GameSpec(experts, horizon, 1000), np.random.default_rng(1))
        choices = learner.run(losses)
        for count, bound in (
            (switches, learner.dynamic_regret_bound(spec)),
            (0, learner.regret_bound(spec, losses.sum(0).min())),
        ):
            regret = dynamic_regret(losses, choices, count)
            assert regret.mean() <= bound + 5.2 * regret.std() / math.sqrt(1000)
        shared.append(dynamic_regret(losses, choices, switches).mean())
    plain = PrivateDartboard(3.0)
    plain.reset(GameSpec(experts, horizon, 1000), np.random.default_rng(1))
    assert shared[0] < dynamic_regret(losses, plain.run(losses), switches).mean()


@pytest.mark.parametrize("games", [None, 6])
def test_blocks_equal_the_loop(games):
    rng = np.random.default_rng(11)
    lengths = [7, 1, 15, 2, 24, 3]
    spec = GameSpec(3, sum(lengths), games)
    for limits in ({"cap": 4, "batch_size": 1}, {"certificate": "uncapped", "batch_size": 4}):
        learner = loose(switch_probability=0.2, learning_rate=0.1, mixing=0.1, **limits)
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


@pytest.mark.parametrize(
    "learner", [PrivateFixedShare(), PrivateFixedShare(0.5, 0.0, switches=3, batch_size=2, mixing=0.4)]
)
def test_conformance(learner):
    check_learner(learner)
