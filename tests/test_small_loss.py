"""The small-loss paper's Algorithms 1, 2 and 3: exact privacy, exact marginals, the lemmas and the regret bound."""

import dataclasses
import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import poisson

from dp_experts_agents.doubling import DoublingSmallLoss
from dp_experts_agents.hedge import PrivateHedge
from dp_experts_agents.realizable import Realizable
from dp_experts_agents.small_loss import SmallLoss, SmallLossMarginal, paper_plan, small_loss_bound
from dp_experts_agents.subsampled import Subsampled
from dp_experts_agents.watch_plans import Plan, holds, solve, table
from dp_experts_agents.watched import WatchedExpert
from dp_experts_env.learner import Learner
from dp_experts_env.spec import Adjacency, ArgumentError, BudgetError, GameSpec, Guarantee
from dp_experts_env.testing import learner_checks

SMALL_GAMES = [
    SmallLoss(tuning="certified", delta=0.0),
    SmallLoss(tuning="paper", best_loss=2.0, adjacency="zero_out"),
    SmallLossMarginal(delay=3),
    DoublingSmallLoss(learner="private_hedge", epsilon=8.0, first=0.5),
]


@pytest.mark.parametrize(
    ("name", "check"),
    [(f"{k}-{name}", check) for k, learner in enumerate(SMALL_GAMES) for name, check in learner_checks(learner)],
)
def test_conformance(name, check):
    check()


class Fixed(WatchedExpert):
    """A watched expert with the plan handed in."""

    def __init__(self, constants=None):
        self.constants = constants

    def plan(self, spec):
        return self.constants


def played(learner, block, games=None, seed=0):
    learner.reset(GameSpec(block.shape[-1], len(block), games), np.random.default_rng(seed))
    return learner.run(block)


def transcripts(learner, horizon, emit, experts=2):
    """Exact probabilities of all transcripts (alarms, coins, choices) against ``emit(prefix) -> (G, N)``."""
    learner.reset(GameSpec(experts, horizon, 1), np.random.default_rng(0))
    number = learner.outcomes().shape[-1]
    games = np.arange(number**horizon)
    digits = games[:, None] // number ** np.arange(horizon) % number
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    logs = np.zeros(len(games))
    for row in range(horizon):
        law = np.broadcast_to(learner.outcomes(), (len(games), number))
        step = np.take_along_axis(law, digits[:, row : row + 1], -1)[:, 0]
        logs = np.where(np.isneginf(logs), -np.inf, logs + step)
        learner.take(digits[:, row])
        learner.observe(emit(digits[:, : row + 1]))
    return np.exp(logs), digits


def worst_ratio(left, right):
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(left) - np.log(right))
    return float(np.where((left == 0) & (right == 0), 0.0, ratios).max())


def adaptive_pair(rng, horizon, experts, number, replace=True):
    """Two worlds of one random adaptive adversary: losses in {0, 1} by the transcript so far, one round changed."""
    rows = [rng.integers(0, 2, (number ** (row + 1), experts)).astype(float) for row in range(horizon)]
    changed = int(rng.integers(horizon - 1))
    vectors = np.array(list(itertools.product((0.0, 1.0), repeat=experts)))
    one, other = vectors[rng.choice(len(vectors), 2, replace=False)]
    if not replace:
        other = np.zeros(experts)

    def world(vector):
        def emit(prefix):
            row = prefix.shape[1] - 1
            if row == changed:
                return np.tile(vector, (len(prefix), 1))
            # The challenge is the same after every prefix; all other rounds depend on it.
            return rows[row][prefix @ number ** np.arange(row + 1)]

        return emit

    return world(one), world(other)


TIGHT = {"watch_epsilon": 0.6, "coin_epsilon": 0.35, "learning_rate": 0.2, "threshold": 0.3, "cap": 2, "stride": 1}


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_pure_privacy_by_exact_enumeration_against_adaptive_adversaries(adjacency):
    # All 256 transcripts of 4 rounds, 40 random adaptive adversaries each; no ratio may exceed the claim.
    learner = SmallLoss(epsilon=1.5, delta=0.0, adjacency=adjacency, **TIGHT)
    claim = learner.guarantee(GameSpec(2, 4))
    assert claim.epsilon == pytest.approx(0.6 + 2 * (0.2 if adjacency == "zero_out" else 0.4))
    assert (claim.delta, claim.against) == (0.0, "adaptive")
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(40):
        left, right = adaptive_pair(rng, 4, 2, 4, adjacency == "replace")
        laws = [transcripts(learner, 4, emit)[0] for emit in (left, right)]
        assert abs(laws[0].sum() - 1) < 1e-9
        worst = max(worst, worst_ratio(*laws))
    assert 0.45 * claim.epsilon < worst <= claim.epsilon + 1e-9


def test_approximate_privacy_by_exact_enumeration():
    # delta of the claimed epsilon over all transcripts, mixed accounting, at a delta large enough to be used.
    learner = SmallLoss(
        epsilon=0.8, delta=0.05, **{**TIGHT, "learning_rate": None, "watch_epsilon": 0.4, "coin_epsilon": 0.2}
    )
    spec = GameSpec(2, 4)
    claim = learner.guarantee(spec)
    assert claim.delta == 0.05
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(25):
        left, right = (transcripts(learner, 4, emit)[0] for emit in adaptive_pair(rng, 4, 2, 4))
        for one, other in ((left, right), (right, left)):
            worst = max(worst, np.maximum(one - math.exp(claim.epsilon) * other, 0).sum())
    assert worst <= claim.delta


def test_watch_and_coin_reach_their_budget():
    # One window, a loss that rises by one before the query: "alarm, kept" moves by e_a + eta and "alarm, redrawn" by
    # e_b + e_c, both w. No redraw differs, as expert 1 loses as much as expert 0 in both worlds.
    plan = Plan(0.2, 40.0, 0.4, 0.45, 0.15, 1)
    learner = Fixed(plan)
    worlds = [transcripts(learner, 2, lambda prefix, loss=loss: np.full((len(prefix), 2), loss)) for loss in (0.0, 1.0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(worlds[1][0]) - np.log(worlds[0][0])
    kept = (worlds[0][1][:, 1] == 2) & (worlds[0][1][:, 0] < 2)
    moved = (worlds[0][1][:, 1] < 2) & (worlds[0][1][:, 0] < 2)
    assert worst_ratio(worlds[0][0], worlds[1][0]) <= 0.6 + 1e-9
    floor = plan.floor
    assert floor > 1  # so that the coin does not move here, and the alarm does by e_b exactly
    np.testing.assert_allclose(ratios[kept], 0.45, atol=1e-6)
    np.testing.assert_allclose(ratios[moved], 0.45, atol=1e-6)


class NoFloor(SmallLoss):
    """Broken: the coin is flipped with the loss as it is."""

    def start(self):
        super().start()
        self._floor = np.zeros_like(self._floor)


class NoCap(SmallLoss):
    """Broken: redraws on after the cap."""

    def start(self):
        super().start()
        self._rates = np.full((1, 8), self._rates[0, 0])
        self._thresholds = np.full((1, 9), self._thresholds[0, 0])


class QuietQueries(SmallLoss):
    """Broken: a quarter of the query noise."""

    def start(self):
        super().start()
        watch = self._watches[0]
        self._watches = [type(watch)(watch.threshold_scale, watch.query_scale / 4, noise=watch.noise)]


@pytest.mark.parametrize(
    ("broken", "rate", "head", "other", "tail"),
    [
        (NoFloor, 0.14, [0.0, 0.0], [1.0, 1.0], [[0.0, 0.0], [0.0, 0.0]]),
        (NoCap, 0.14, [0.0, 1.0], [1.0, 0.0], [[0.0, 1.0], [0.0, 1.0]]),
        (QuietQueries, 0.01, [0.0, 0.0], [1.0, 1.0], [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
def test_broken_variants_exceed_the_claim(broken, rate, head, other, tail):
    # Exact; the honest learner with the same constants and sequences keeps the claim.
    options = {
        "watch_epsilon": 0.3,
        "coin_epsilon": 0.15,
        "learning_rate": rate,
        "threshold": 0.3,
        "cap": 1,
        "stride": 1,
    }
    claim = SmallLoss(epsilon=2.0, delta=0.0, **options).guarantee(GameSpec(2, 4)).epsilon
    assert claim == pytest.approx(0.3 + 2 * rate)
    worst = {}
    for cls in (broken, SmallLoss):
        laws = []
        for first in (head, other):
            rows = np.array([first, *tail, [0.0, 0.0]])
            laws.append(
                transcripts(
                    cls(epsilon=2.0, delta=0.0, **options),
                    4,
                    lambda prefix, rows=rows: np.tile(rows[prefix.shape[1] - 1], (len(prefix), 1)),
                )[0]
            )
        worst[cls] = worst_ratio(*laws)
    assert worst[SmallLoss] <= claim + 1e-9
    assert worst[broken] > claim + 1e-3


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("cap", [None, 4])
@pytest.mark.parametrize("games", [None, 6])
@pytest.mark.parametrize("shared", [True, False])
def test_blocks_equal_the_loop(noise, cap, games, shared):
    horizon, experts = 700, 4
    draft = Plan(0.0, 6.0, 0.0, 0.0, 0.08, 4, cap, 1.0, 1.0, 8.0, noise=noise)
    constants = solve(draft, 0.4, horizon, 1.0, 1e-6, Adjacency.REPLACE)
    rng = np.random.default_rng(3)
    shape = (horizon, experts) if shared or games is None else (horizon, games, experts)
    block = np.where(rng.random(shape) < 0.3, rng.random(shape).round(), rng.random(shape))
    loop, blocks = Fixed(constants), Fixed(constants)
    for learner in (loop, blocks):
        learner.reset(GameSpec(experts, horizon, games), np.random.default_rng(4))
    expected = []
    for losses in block:
        expected.append(loop.act())
        loop.observe(losses)
    cuts = [0, 3, 4, 5, 60, 61, 400, 700]
    found = np.concatenate([blocks.run(block[a:b]) for a, b in itertools.pairwise(cuts)])
    np.testing.assert_array_equal(found, np.array(expected))
    assert np.array_equal(loop._drawn, blocks._drawn)
    assert loop._drawn.min() >= 3


# ------------------------------------------------------------------------------------------ the lemmas of Algorithm 2


def enumerated(learner, block):
    """All transcripts of Algorithm 2: probabilities, choices ``(G, T)`` and numbers of redraws."""
    horizon, experts = block.shape
    number = experts + 1
    games = np.arange(number**horizon)
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    logs, redraws, choices = np.zeros(len(games)), np.zeros(len(games), dtype=int), []
    for row, losses in enumerate(block):
        outcome = games // number**row % number
        step = np.take_along_axis(np.broadcast_to(learner.outcomes(), (len(games), number)), outcome[:, None], -1)
        logs = np.where(np.isneginf(logs), -np.inf, logs + step[:, 0])
        redraws += (outcome < experts) & (row > 0)
        choices.append(learner.take(outcome))
        learner.observe(losses)
    return np.exp(logs), np.array(choices).T, redraws


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 2.0]))
@settings(max_examples=12, derandomize=True, deadline=None)
def test_marginal_of_algorithm_2_is_exact_where_windows_are_forced_to_end(seed, rate):
    rng = np.random.default_rng(seed)
    horizon, experts = 5, 3
    block = rng.random((horizon, experts)).round(int(rng.integers(3)))
    delay = rng.integers(1, 4, (horizon, experts))
    totals = np.concatenate([np.zeros((1, experts)), block.cumsum(0)])
    for forced in range(1, horizon + 1):
        weights, choices, _ = enumerated(SmallLossMarginal(rate, delay, forced), block)
        law = np.bincount(choices[:, forced - 1], weights, minlength=experts)
        np.testing.assert_allclose(law, softmax(-rate * totals[forced - 1]), atol=1e-12)
    # In between it is within e^(+-eta D), D the most that an expert loses in a window of at most three rounds.
    weights, choices, _ = enumerated(SmallLossMarginal(rate, delay), block)
    longest = max(block[k : k + 3].sum(0).max() for k in range(horizon))
    for row in range(horizon):
        law = np.bincount(choices[:, row], weights, minlength=experts)
        gap = np.abs(np.log(law) - np.log(softmax(-rate * totals[row])))
        assert gap.max() <= rate * longest + 1e-9


def test_the_marginal_differs_where_windows_do_not_end():
    block = np.array([[0.0, 1.0]] * 4)
    weights, choices, _ = enumerated(SmallLossMarginal(2.0, 4), block)
    law = np.bincount(choices[:, 3], weights, minlength=2)
    assert abs(law[1] - softmax([0.0, -6.0])[1]) > 0.4


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 3.0]))
@settings(max_examples=12, derandomize=True, deadline=None)
def test_redraws_are_at_most_poisson(seed, rate):
    # Exact law of the number of redraws; tail by tail below Poisson(ln N + eta L*), whatever the delays.
    rng = np.random.default_rng(seed)
    horizon, experts = 5, 3
    block = (rng.random((horizon, experts)) < 0.5).astype(float)
    delay = rng.integers(1, 3, (horizon, experts))
    weights, _, redraws = enumerated(SmallLossMarginal(rate, delay), block)
    needed = math.log(experts) + rate * block.sum(0).min()
    for number in range(1, horizon):
        assert weights[redraws >= number].sum() <= poisson.sf(number - 1, needed) + 1e-12
    assert weights @ redraws <= needed + 1e-12


def test_window_losses_and_redraws_of_algorithm_1():
    # Windows end with a loss between tau - alpha and tau + x + stride: too early with probability at most
    # e^(-alpha/B) a query, too late at most e^(-x/A) a window; 300 games of 3000 rounds; and the number of redraws
    # stays below the Poisson tail. Each frequency is allowed five standard deviations, false alarms below 1e-6.
    constants = dataclasses.replace(Plan(0.03, 60.0, 0.25, 0.25, 0.1, 4), cap=None)
    horizon, games, experts = 3000, 300, 5
    rng = np.random.default_rng(5)
    block = (rng.random((horizon, experts)) < [0.02, 0.3, 0.4, 0.5, 0.6]).astype(float)
    learner = Fixed(constants)
    learner.reset(GameSpec(experts, horizon, games), np.random.default_rng(6))
    learner._notes = {}
    since, ended = np.zeros(games), []
    for row, losses in enumerate(block):
        choices = learner.act()
        above = learner._notes["above"][row]
        ended.extend(since[above])
        since = np.where(above, 0.0, since) + losses[choices]
        learner.observe(losses)
    ended = np.array(ended)
    queries = games * horizon / constants.stride
    for alpha in (10.0, 20.0, 30.0):
        most = queries * math.exp(-alpha * constants.query_epsilon)
        assert (ended < constants.threshold - alpha).sum() <= most + 5 * math.sqrt(most) + 5
    for extra in (4.0, 10.0, 20.0):
        share = math.exp(-extra * constants.threshold_epsilon)
        late = (ended >= constants.threshold + extra + constants.stride).mean()
        assert late <= share + 5 * math.sqrt(share / len(ended))
    # The lemma is not vacuous: some windows do end early and some late.
    assert ended.min() < constants.threshold - 10
    assert ended.max() > constants.threshold + 5
    needed = math.log(experts) + constants.learning_rate * block.sum(0).min()
    drawn = learner._drawn
    assert drawn.mean() <= needed + 5 * math.sqrt(needed / games)
    for number in (3, 6, 9):
        tail = poisson.sf(number - 1, needed)
        assert (drawn >= number).mean() <= tail + 5 * math.sqrt(tail / games) + 5 / games


# ---------------------------------------------------------------------------------------------------- plans and bounds


@given(
    st.integers(1, 10**5),
    st.integers(1, 1000),
    st.floats(0.01, 20.0),
    st.sampled_from([0.0, 1e-12, 1e-6, 1e-2]),
    st.sampled_from([None, 0.0, 3.0, 1e4]),
    st.sampled_from(["calibrated", "certified", "paper"]),
    st.sampled_from(["replace", "zero_out"]),
)
@settings(max_examples=20, derandomize=True, deadline=None)
def test_plans_keep_their_budget(horizon, experts, epsilon, delta, best_loss, tuning, adjacency):
    learner = SmallLoss(epsilon, delta, best_loss, tuning, adjacency=adjacency)
    spec = GameSpec(experts, horizon)
    plan, claim = learner.plan(spec), learner.guarantee(spec)
    assert claim.epsilon <= epsilon
    assert claim.delta <= delta
    pure, _, steps, squares = plan.costs(horizon, learner.adjacency)
    if plan.method == "paper":
        assert pure <= epsilon
        exact = plan.certified(horizon, epsilon, delta, learner.adjacency)
        assert exact.epsilon <= epsilon
    else:
        assert holds(plan, horizon, learner.adjacency)
        # Nothing is left over where the budget is what limits the rate.
        richer = dataclasses.replace(plan, learning_rate=plan.learning_rate * 1.001)
        if tuning == "calibrated" and plan.redraws(horizon) and plan.threshold_epsilon > 1.01 * plan.learning_rate:
            assert not holds(richer, horizon, learner.adjacency)
    assert np.all(plan.thresholds(horizon) >= 0)
    assert np.all(np.diff(plan.rates(horizon)) <= 0)
    assert steps >= 0 <= squares


def test_paper_constants():
    horizon, experts, epsilon = 10_000, 100, 1.0
    plan = paper_plan(horizon, experts, epsilon, 0.0, 50.0, Adjacency.REPLACE)
    base = 71 * (math.log(experts) + 1) + 280 * math.log(horizon)
    threshold = 8 * (math.log(horizon) + 2 * math.log(2 * horizon)) * 3 / epsilon
    rate = min(
        epsilon / (12 * (math.ceil(base) + 1)),
        math.sqrt(epsilon / (852 * 50)),
        math.sqrt(epsilon * math.log(experts) / (50 * math.log(horizon))),
        1 / threshold,
        epsilon / 3,
    )
    assert plan.learning_rate == pytest.approx(rate, rel=1e-12)
    assert plan.threshold == pytest.approx(threshold, rel=1e-12)
    assert plan.cap == math.ceil(base + 71 * rate * 50)
    assert plan.floor == pytest.approx(1 / math.expm1(epsilon / 3))
    # The lemma of the paper: epsilon_1 + max(eta, epsilon_2) + 2 eta V.
    assert epsilon / 3 + max(rate, epsilon / 3) + 2 * rate * plan.cap <= epsilon
    assert (1 / plan.threshold_epsilon, 1 / plan.query_epsilon) == pytest.approx((6.0, 12.0))
    # About 1e-4, so that ln N/eta exceeds T: vacuous, as known.
    approximate = paper_plan(horizon, experts, epsilon, 1e-6, 50.0, Adjacency.REPLACE)
    assert rate < approximate.learning_rate < 1e-3


@pytest.mark.parametrize(
    ("horizon", "experts", "delta", "best_loss", "most"),
    [
        (1000, 10, 1e-6, 0.0, 166.0),
        (10_000, 10, 1e-6, 0.0, 198.0),
        (10_000, 10, 0.0, 0.0, 228.0),
        (10_000, 100, 1e-6, 0.0, 372.0),
        (10_000, 100, 0.0, 0.0, 460.0),
        (100_000, 10, 1e-6, 0.0, 228.0),
        (100_000, 100, 1e-6, 0.0, 424.0),
        (100_000, 100, 1e-6, 316.0, 650.0),
        (1_000_000, 10, 1e-6, 0.0, 257.0),
    ],
)
def test_certified_bounds(horizon, experts, delta, best_loss, most):
    spec = GameSpec(experts, horizon)
    learner = SmallLoss(1.0, delta, best_loss, "certified")
    bound = learner.regret_bound(spec, best_loss)
    assert 0.5 * most < bound <= most
    assert holds(learner.plan(spec), horizon, Adjacency.REPLACE)
    assert math.isnan(learner.regret_bound(spec, best_loss, "adaptive"))
    assert math.isnan(SmallLoss(1.0, delta, best_loss).regret_bound(spec, best_loss))


def test_certified_bound_at_zero_loss_grows_like_log_of_the_horizon():
    # The headline: from 10^3 to 10^6 rounds the bound grows by less than 100, a sqrt(T) one by a factor of 31.
    bounds = [SmallLoss(best_loss=0.0, tuning="certified").regret_bound(GameSpec(10, 10**k), 0.0) for k in (3, 4, 5, 6)]
    steps = np.diff(bounds)
    assert (steps > 0).all()
    assert steps.max() < 40


def hard_sequences(horizon, experts, rng):
    t = np.arange(horizon)[:, None]
    yield np.where(np.arange(experts) == 0, 0.0, rng.random((horizon, experts)) < 0.5)
    # Everyone is perfect until it fails for good, one after another: the survivor is the last to be drawn.
    for times in (horizon * np.arange(1, experts) / experts, np.geomspace(5, horizon, experts - 1)):
        block = np.zeros((horizon, experts))
        block[:, 1:] = t >= times
        yield block
    yield np.where(np.arange(experts) == 0, 0.0, np.ones((horizon, 1)))
    # Bursts: a random half loses for a while, the best never does.
    block = np.repeat(rng.random((horizon // 20 + 1, experts)) < 0.5, 20, axis=0)[:horizon].astype(float)
    block[:, 0] = 0.0
    yield block


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_measured_regret_stays_below_the_certified_bound(delta):
    # 400 games a sequence; the mean may exceed the bound by five standard errors, false alarms below 1e-6 each.
    horizon, experts, games = 2000, 10, 400
    learner = SmallLoss(1.0, delta, 0.0, "certified")
    rng = np.random.default_rng(8)
    measured = []
    for block in hard_sequences(horizon, experts, rng):
        block = np.asarray(block, dtype=np.float64)[:, rng.permutation(experts)]
        lost = np.take_along_axis(block, played(learner, block, games), 1).sum(0)
        regret = lost - block.sum(0).min()
        bound = learner.regret_bound(GameSpec(experts, horizon), float(block.sum(0).min()))
        assert regret.mean() - 5 * regret.std() / math.sqrt(games) <= bound
        measured.append(regret.mean())
    assert max(measured) > 0.3 * bound  # the bound is of the right size


def test_searched_sequences_stay_below_the_certified_bound():
    # Hill climbing over 8 x 6 tables of burst losses for the largest mean regret; the final table is played afresh.
    horizon, experts, games = 800, 6, 96
    learner = SmallLoss(1.0, 1e-6, 0.0, "certified")
    rng = np.random.default_rng(9)

    def regret(plays, number, seed):
        block = np.repeat(plays, horizon // len(plays), axis=0)
        lost = np.take_along_axis(block, played(learner, block, number, seed), 1).sum(0)
        return lost - block.sum(0).min()

    plays = (rng.random((8, experts)) < 0.5).astype(float)
    plays[:, 0] = 0.0
    best = regret(plays, games, 0).mean()
    for step in range(60):
        other = plays.copy()
        other[rng.integers(8), rng.integers(1, experts)] = rng.random().__round__(1)
        value = regret(other, games, step).mean()
        if value > best:
            plays, best = other, value
    final = regret(plays, 400, 999)
    bound = learner.regret_bound(GameSpec(experts, horizon), 0.0)
    assert final.mean() - 5 * final.std() / 20 <= bound


def test_calibrated_constants_hear_late_failures_and_follow_the_small_loss():
    # No linear regret where the held expert fails late (T/8 = 750 would be), and about what is known to be possible
    # where one expert is perfect. 64 games each; the margins are many standard errors wide.
    horizon, experts, games = 6000, 10, 64
    rng = np.random.default_rng(10)
    learner = SmallLoss()
    coins = rng.random((horizon, experts))
    failing = coins < np.where(np.arange(horizon)[:, None] < np.r_[horizon, horizon * np.arange(1, 10) / 10], 0.2, 0.6)
    perfect = (coins < 0.5) & (np.arange(experts) != 3)
    swap = coins < np.where(np.arange(horizon)[:, None] < horizon // 2, [0.1, 0.5] + [0.5] * 8, [0.6, 0.05] + [0.5] * 8)
    for block, most in ((failing, 300.0), (perfect, 80.0), (swap, 300.0)):
        block = block.astype(float)
        lost = np.take_along_axis(block, played(learner, block, games), 1).sum(0)
        assert (lost - block.sum(0).min()).mean() < most


def test_given_constants_are_charged():
    spec = GameSpec(10, 1000)
    plan = SmallLoss(cap=7, threshold=12.0, stride=3).plan(spec)
    assert (plan.cap, plan.threshold, plan.stride, plan.taper, plan.growth) == (7, 12.0, 3, 0.0, 0.0)
    assert holds(plan, 1000, Adjacency.REPLACE)
    lower = SmallLoss(cap=7, learning_rate=plan.learning_rate / 2).guarantee(spec)
    assert lower.epsilon < 1.0
    with pytest.raises(BudgetError, match=r"learning_rate: .* certifies epsilon="):
        SmallLoss(cap=7, watch_epsilon=0.5, learning_rate=0.2).plan(spec)
    with pytest.raises(ArgumentError, match=r"learning_rate: expected a number in \(0, 0\.5\)"):
        SmallLoss(cap=7, watch_epsilon=0.5, learning_rate=0.6).plan(spec)
    with pytest.raises(ArgumentError, match=r"coin_epsilon: .*\(0, 0\.1\)"):
        SmallLoss(watch_epsilon=0.1, coin_epsilon=0.2)
    with pytest.raises(ArgumentError, match="cap: expected None with tuning='paper'"):
        SmallLoss(tuning="paper", cap=3)
    with pytest.raises(ArgumentError, match=r"watch_epsilon: expected a number in \(0, 1\)"):
        SmallLoss(watch_epsilon=1.0)


def test_the_table_is_complete_and_serves_every_size():
    keys = {tuple(keys[name] for name in ("learner", "group", "num_experts", "delta")) for keys, _ in table()}
    assert len(keys) >= 16
    for entry in (entry for _, entry in table()):
        assert 0 < entry.watch < 1 > entry.coin >= 0
        assert entry.scale > 0 <= min(entry.taper, entry.growth)
    for horizon, experts in ((1, 1), (2, 1000), (10**6, 3)):
        plan = SmallLoss().plan(GameSpec(experts, horizon))
        assert 1 <= plan.stride <= max(1, horizon // 50)


def test_bound_is_not_claimed_where_it_is_not_proved():
    plan = SmallLoss(tuning="certified", best_loss=0.0).plan(GameSpec(10, 1000))
    assert math.isfinite(small_loss_bound(plan, 1000, 10, 0.0))
    for change in ({"taper": 1.0}, {"growth": 0.5}, {"noise": "laplace"}, {"coin_epsilon": None}, {"lift": 2.0}):
        assert math.isnan(small_loss_bound(dataclasses.replace(plan, **change), 1000, 10, 0.0))


# --------------------------------------------------------------------------------------------------------- Algorithm 3


class Recorder(Learner):
    """An inner learner that keeps what it was given and shown."""

    made: ClassVar[list] = []

    def __init__(self, epsilon=1.0, delta=0.0, best_loss=None):
        self.epsilon, self.delta, self.best_loss = epsilon, delta, best_loss

    def start(self):
        self.seen = 0
        Recorder.made.append(self)

    def act(self):
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)

    def observe(self, losses):
        self.seen += 1


def test_buckets_double_their_guess_and_are_few():
    # The count exceeds 1 + log2(1 + L*/b) with probability at most 1/T in each game; 60 games of T = 2000 rounds, so
    # that more than 6 do has probability below 1e-15. Everyone loses in every round: L* = T.
    horizon, games = 2000, 60
    learner = DoublingSmallLoss(epsilon=8.0, first=5.0, learner="uniform_budget")
    spec = GameSpec(3, horizon, games)
    learner.reset(spec, np.random.default_rng(11))
    learner.run(np.ones((horizon, 3)))
    most = learner.most_buckets(spec, float(horizon))
    assert most == 1 + math.floor(math.log2(1 + horizon / 5.0))
    assert (learner.buckets + 1 > most).sum() <= 6
    # Not vacuous: theta_k is reached in time, so that nearly as many buckets are used as theta allows.
    levels, bounds = learner.guesses(spec, most)
    reachable = int(np.searchsorted(np.cumsum(bounds), horizon))
    assert learner.buckets.min() >= reachable
    assert reachable >= 4
    np.testing.assert_allclose(np.diff(levels)[1:] / np.diff(levels)[:-1], 2.0)
    # Nothing is lost by a perfect expert: one bucket, but for noise.
    learner.reset(spec, np.random.default_rng(12))
    learner.run(np.tile([0.0, 1.0, 1.0], (horizon, 1)))
    assert (learner.buckets > 0).sum() <= 6


@pytest.fixture(autouse=True)
def uniform_budget():
    import dp_experts_env as dpe

    if "uniform_budget" not in dpe.learners():
        dpe.register_learner("uniform_budget", Recorder)
    Recorder.made.clear()


def test_inner_learners_see_their_bucket_only():
    learner = DoublingSmallLoss(epsilon=4.0, delta=1e-5, first=5.0, learner=Recorder())
    learner.reset(GameSpec(2, 600), np.random.default_rng(13))
    learner.run(np.ones((600, 2)))
    inner = Recorder.made
    assert len(inner) == learner.buckets[0] + 1 >= 3
    assert sum(player.seen for player in inner) == 600
    assert {(player.epsilon, player.delta) for player in inner} == {(2.0, 1e-5)}
    assert [player.best_loss for player in inner] == list(learner.guesses(learner.spec, len(inner))[1])


@pytest.mark.parametrize("inner", ["small_loss", "private_hedge", "uniform_budget"])
@pytest.mark.parametrize("games", [None, 5])
def test_blocks_of_buckets_equal_the_loop(inner, games):
    rng = np.random.default_rng(14)
    block = rng.random((400, 3) if games is None else (400, games, 3))
    choices = []
    learner = DoublingSmallLoss(epsilon=6.0, first=2.0, learner=inner)
    learner.reset(GameSpec(3, 400, games), np.random.default_rng(15))
    for losses in block:
        choices.append(learner.act())
        learner.observe(losses)
    last = learner.buckets
    learner.reset(GameSpec(3, 400, games), np.random.default_rng(15))
    found = np.concatenate([learner.run(block[a:b]) for a, b in itertools.pairwise([0, 1, 3, 130, 400])])
    np.testing.assert_array_equal(found, np.array(choices))
    np.testing.assert_array_equal(learner.buckets, last)
    assert last.min() >= 1


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_budget_of_algorithm_3(adjacency):
    learner = DoublingSmallLoss(epsilon=1.0, delta=1e-6, adjacency=adjacency)
    claim = learner.guarantee(GameSpec(10, 1000))
    assert claim.epsilon <= 1.0 < claim.epsilon + 1e-9
    assert (claim.delta, str(claim.adjacency), claim.against) == (1e-6, adjacency, "adaptive")
    watch = learner.watch()
    stream = "general" if adjacency == "replace" else "monotone"
    assert watch.epsilon(stream) <= 0.5 < watch.epsilon(stream) + 1e-9
    # What holds for one fixed expert does not for the best one: two neighbouring games, the first round's losses (0, 1)
    # or (1, 0) (zeroed out, (0, 0)), then (1, 0) twice, a while of zeros, and (0, 1) four times before the last query.
    # The minima are 1, then 2, in one game and 0, then 3, in the other: the shift changes its sign. Exact.
    first = np.array([[0.0, 1.0], [1.0, 0.0] if adjacency == "replace" else [0.0, 0.0]])
    later = np.array([[2.0, 0.0]] * 12 + [[2.0, 4.0]])
    queries = [(one + later).min(-1) for one in first]
    outcome = [False] * 12 + [True]
    ratio = abs(np.subtract(*(watch.log_probability(rows, 0.5, outcome) for rows in queries)))
    assert ratio <= 0.5
    if adjacency == "replace":
        wrong = type(watch).suffix_constant(0.5, 0.5, noise="exponential")
        assert abs(np.subtract(*(wrong.log_probability(rows, 0.5, outcome) for rows in queries))) > 0.5


def test_the_claim_of_algorithm_3_covers_the_inner_learner_of_every_bucket():
    # With a rate that is given, what an inner learner costs depends on its guess; without one it costs less here.
    inner = SmallLoss(learning_rate=1e-4)
    learner, spec = DoublingSmallLoss(epsilon=10.0, learner=inner), GameSpec(2, 1000)
    costs = [
        inner.clone(epsilon=5.0, best_loss=min(float(guess), 1000.0)).guarantee(spec)
        for guess in learner.guesses(spec, 8)[1]
    ]
    assert max(cost.epsilon for cost in costs) > 1.1 * inner.clone(epsilon=5.0).guarantee(spec).epsilon
    claim = learner.guarantee(spec)
    assert 5.0 + max(cost.epsilon for cost in costs) <= claim.epsilon <= 10.0
    assert max(cost.delta for cost in costs) <= claim.delta == 1e-6


def test_a_rate_that_a_later_bucket_cannot_pay_is_refused_at_reset():
    learner, spec = Realizable(epsilon=10.0, delta=0.0, best_loss=None, learning_rate=0.37), GameSpec(2, 300)
    assert learner.plan(spec).epsilon <= 5.0
    with pytest.raises(BudgetError, match="learning_rate"):
        learner.reset(spec, np.random.default_rng(0))


class Overspender(Recorder):
    """An inner learner that costs twice what it is given."""

    def guarantee(self, spec):
        return Guarantee(2.0 * self.epsilon, 2.0 * self.delta, source="none")


def test_an_inner_learner_that_costs_more_is_not_claimed_away():
    spec = GameSpec(2, 100)
    claim = DoublingSmallLoss(epsilon=1.0, delta=1e-6, learner=Overspender()).guarantee(spec)
    assert 1.5 <= claim.epsilon <= 1.5 * (1 + 1e-9)
    assert claim.delta == 2e-6
    sampled = Subsampled(Overspender(), q=0.5, epsilon=1.0, delta=1e-6)
    assert sampled.guarantee(spec).epsilon > 1.5
    assert sampled.guarantee(spec).delta == pytest.approx(2e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", [SmallLoss, Realizable])
def test_a_watch_that_leaves_nothing_for_the_redraws_is_refused(kind, delta):
    learner = kind(epsilon=1.0, delta=delta, watch_epsilon=math.nextafter(1.0, 0.0))
    with pytest.raises(ArgumentError, match="watch_epsilon: expected a number in"):
        learner.plan(GameSpec(3, 100))


@pytest.mark.parametrize("tuning", ["calibrated", "certified", "paper"])
def test_huge_budgets_do_not_overflow(tuning):
    for learner in (SmallLoss(1e5, best_loss=3.0, tuning=tuning), Realizable(1e5, best_loss=3.0, tuning=tuning)):
        assert learner.guarantee(GameSpec(3, 100)).epsilon <= 1e5


def test_the_inner_claim_decides_the_adversary():
    oblivious = DoublingSmallLoss(learner=PrivateHedge(method="optimal"))
    assert oblivious.guarantee(GameSpec(2, 100)).against == "oblivious"
    with pytest.raises(ArgumentError, match="learner: expected one that takes epsilon and delta"):
        DoublingSmallLoss(learner="hedge")
    with pytest.raises(ArgumentError, match="learner: expected a registered name"):
        DoublingSmallLoss(learner=3)
