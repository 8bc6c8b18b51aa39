"""The sparse-vector learner: exact privacy, the certified bound, the paper's constants, unknown L*."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_experts_agents.realizable import Realizable, paper_plan, realizable_bound
from dp_experts_agents.watch_plans import Plan, holds
from dp_experts_agents.watched import WatchedExpert
from dp_experts_env.spec import Adjacency, ArgumentError, BudgetError, GameSpec
from dp_experts_env.testing import learner_checks

SMALL_GAMES = [
    Realizable(tuning="certified", delta=0.0, adjacency="zero_out"),
    Realizable(best_loss=None, epsilon=6.0),
]


@pytest.mark.parametrize(
    ("name", "check"),
    [(f"{k}-{name}", check) for k, learner in enumerate(SMALL_GAMES) for name, check in learner_checks(learner)],
)
def test_conformance(name, check):
    check()


def played(learner, block, games=None, seed=0):
    learner.reset(GameSpec(block.shape[-1], len(block), games), np.random.default_rng(seed))
    return learner.run(block)


def transcript_law(learner, block):
    """Exact probabilities of all transcripts: alarms and choices."""
    horizon, experts = block.shape
    learner.reset(GameSpec(experts, horizon, 1), np.random.default_rng(0))
    number = learner.outcomes().shape[-1]
    games = np.arange(number**horizon)
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    logs = np.zeros(len(games))
    for row, losses in enumerate(block):
        outcome = games // number**row % number
        law = np.broadcast_to(learner.outcomes(), (len(games), number))
        step = np.take_along_axis(law, outcome[:, None], -1)[:, 0]
        logs = np.where(np.isneginf(logs), -np.inf, logs + step)
        learner.take(outcome)
        learner.observe(losses)
    return np.exp(logs)


def worst_ratio(left, right):
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(left) - np.log(right))
    return float(np.where((left == 0) & (right == 0), 0.0, ratios).max())


OPTIONS = {"watch_epsilon": 0.3, "learning_rate": 0.15, "threshold": 0.2, "cap": 2, "stride": 1}
CORNERS = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_pure_privacy_by_exact_enumeration(adjacency):
    # Every change of one round of 30 random games of 4 rounds, all 256 transcripts.
    learner = Realizable(epsilon=1.0, delta=0.0, adjacency=adjacency, **OPTIONS)
    claim = learner.guarantee(GameSpec(2, 4)).epsilon
    assert claim == pytest.approx(0.3 + 2 * (0.15 if adjacency == "zero_out" else 0.3))
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(30):
        block = CORNERS[rng.integers(4, size=4)]
        other = block.copy()
        row = rng.integers(3)
        other[row] = np.zeros(2) if adjacency == "zero_out" else CORNERS[rng.integers(4)]
        worst = max(worst, worst_ratio(transcript_law(learner, block), transcript_law(learner, other)))
    assert 0.4 * claim < worst <= claim + 1e-9


class DeafToTheCap(Realizable):
    """Broken: redraws on after the cap."""

    def start(self):
        super().start()
        self._rates = np.full((1, 8), self._rates[0, 0])
        self._thresholds = np.full((1, 9), self._thresholds[0, 0])


class Quiet(Realizable):
    """Broken: a third of the threshold noise."""

    def start(self):
        super().start()
        watch = self._watches[0]
        self._watches = [type(watch)(watch.threshold_scale / 3, watch.query_scale / 3, noise=watch.noise)]


@pytest.mark.parametrize(
    ("broken", "changes", "rows"),
    [
        (DeafToTheCap, {"cap": 1, "learning_rate": 0.3}, [[0, 1, 2, 2], [1, 0, 0, 2]]),
        (Quiet, {"cap": 1, "learning_rate": 0.01}, [[2, 2, 2, 2], [3, 2, 2, 2]]),
    ],
)
def test_broken_variants_exceed_the_claim(broken, changes, rows):
    options = {**OPTIONS, **changes}
    base, other = CORNERS[rows[1]], CORNERS[rows[1]].copy()
    other[0] = CORNERS[rows[0][0]]
    claim = Realizable(epsilon=3.0, delta=0.0, **options).guarantee(GameSpec(2, 4)).epsilon
    found = {}
    for cls in (broken, Realizable):
        learner = cls(epsilon=3.0, delta=0.0, **options)
        found[cls] = worst_ratio(transcript_law(learner, base), transcript_law(learner, other))
    assert found[Realizable] <= claim + 1e-9
    assert found[broken] > claim + 1e-3


@given(
    st.integers(1, 10**5),
    st.integers(1, 500),
    st.floats(0.02, 10.0),
    st.sampled_from([0.0, 1e-9, 1e-3]),
    st.sampled_from([0.0, 5.0, 1e4]),
    st.sampled_from(["calibrated", "certified", "paper"]),
    st.sampled_from(["replace", "zero_out"]),
)
@settings(max_examples=15, derandomize=True, deadline=None)
def test_plans_keep_their_budget(horizon, experts, epsilon, delta, best_loss, tuning, adjacency):
    learner = Realizable(epsilon, delta, best_loss, tuning, adjacency=adjacency)
    spec = GameSpec(experts, horizon)
    plan, claim = learner.plan(spec), learner.guarantee(spec)
    assert plan.coin_epsilon is None
    assert claim.epsilon <= epsilon
    assert claim.delta <= delta
    if plan.method == "paper":
        assert plan.certified(horizon, epsilon, delta, learner.adjacency).epsilon <= epsilon
    else:
        assert holds(plan, horizon, learner.adjacency)


def test_paper_constants():
    horizon, experts = 10_000, 100
    plan = paper_plan(horizon, experts, 1.0, 0.0, 7.0, Adjacency.REPLACE)
    cap = 6 * 5 + math.ceil(24 * math.log(horizon))
    assert (plan.cap, plan.lift) == (cap, 7.0)
    assert plan.learning_rate == pytest.approx(0.5 / cap / 2)
    assert plan.threshold == pytest.approx(7.0 + 4 * 2 * cap + 8 * math.log(2 * horizon**3))
    assert (1 / plan.threshold_epsilon, 1 / plan.query_epsilon) == pytest.approx((4.0, 8.0))
    approximate = paper_plan(horizon, experts, 1.0, 1e-6, 7.0, Adjacency.REPLACE)
    step = 2 * approximate.learning_rate
    cost = step * math.sqrt(2 * cap * math.log(1e6)) + cap * step * math.expm1(step)
    assert cost == pytest.approx(0.5, rel=1e-6)
    assert approximate.learning_rate > plan.learning_rate


def test_lift_hides_losses_below_it():
    # With all losses below the lift a redraw is uniform, without it the loser has probability e^-3/(1 + e^-3).
    laws = {}
    for lift in (0.0, 5.0):
        learner = WatchedOnce(lift)
        learner.reset(GameSpec(2, 10), np.random.default_rng(0))
        for _ in range(3):
            learner.act()
            learner.observe(np.array([0.0, 1.0]))
        law = np.exp(learner.outcomes()[:2])
        laws[lift] = law / law.sum()
    np.testing.assert_allclose(laws[5.0], 0.5)
    np.testing.assert_allclose(laws[0.0][1], 1 / (1 + math.exp(3.0)))


class WatchedOnce(WatchedExpert):
    """Queries in every round, far below the threshold."""

    def __init__(self, lift=0.0):
        self.lift = lift

    def plan(self, spec):
        return Plan(1.0, 50.0, 1.0, 1.0, lift=self.lift)


@pytest.mark.parametrize(
    ("horizon", "experts", "delta", "most"),
    [(1000, 10, 1e-6, 425.0), (10_000, 10, 1e-6, 500.0), (10_000, 100, 0.0, 1350.0), (1_000_000, 10, 1e-6, 650.0)],
)
def test_certified_bounds(horizon, experts, delta, most):
    learner, spec = Realizable(1.0, delta, tuning="certified"), GameSpec(experts, horizon)
    bound = learner.regret_bound(spec, 0.0)
    assert 0.5 * most < bound <= most
    assert holds(learner.plan(spec), horizon, Adjacency.REPLACE)
    assert math.isnan(learner.regret_bound(spec, 0.0, "adaptive"))
    assert math.isnan(Realizable(1.0, delta).regret_bound(spec, 0.0))
    for change in ({"taper": 1.0}, {"growth": 0.5}, {"noise": "laplace"}, {"coin_epsilon": 0.1}, {"lift": 2.0}):
        assert math.isnan(realizable_bound(dataclasses.replace(learner.plan(spec), **change), horizon, experts, 0.0))


def test_redraws_are_few():
    # 400 games a sequence: mean number of windows at most (Lambda + 1)/mu, tail at most min over theta of e^(theta
    # Lambda) E[e^(-theta g)]^k, but for query noise above alpha (probability 1e-4 a game, charged with all windows
    # there can be). Five standard deviations are allowed, false alarms below 1e-6 each.
    plan, experts, horizon, games = Plan(0.08, 90.0, 0.5, 0.5, stride=4), 10, 3000, 400
    alpha = math.log(1e4 * horizon / 4) / plan.query_epsilon
    needed, kappa = math.log(experts), math.exp(-plan.learning_rate * (plan.threshold - alpha))
    mean = 1 - kappa - kappa * math.log(1 / kappa)
    t, rng = np.arange(horizon)[:, None], np.random.default_rng(6)
    blocks = [np.c_[np.zeros(horizon), t >= np.geomspace(5, horizon, experts - 1)], np.ones((horizon, experts))]
    blocks[1][:, 0] = 0.0
    seen = []
    for block in blocks:
        learner = Constant(plan)
        played(learner, block[:, rng.permutation(experts)].astype(float), games)
        drawn = learner._drawn
        assert drawn.mean() + 1 <= (needed + 1) / mean + 5 * drawn.std() / math.sqrt(games) + 1e-4 * horizon / 4
        for number in (4, 6, 8):
            theta = np.geomspace(0.1, 50, 200)
            moment = 1 - theta / (1 + theta) * (1 - kappa ** (1 + theta)) + kappa * (1 - kappa**theta)
            tail = min(1.0, float((np.exp(theta * needed) * moment**number).min())) + 1e-4
            assert (drawn >= number).mean() <= tail + 5 * math.sqrt(tail / games)
        seen.append(drawn.mean())
    assert max(seen) > 0.4 * (needed + 1) / mean - 1


class Constant(WatchedExpert):
    """A watched expert with the plan handed in."""

    def __init__(self, constants=None):
        self.constants = constants

    def plan(self, spec):
        return self.constants


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_measured_regret_stays_below_the_certified_bound(delta):
    # 300 games a sequence; five standard errors are allowed, false alarms below 1e-6 each.
    horizon, experts, games = 2000, 10, 300
    learner = Realizable(1.0, delta, tuning="certified")
    bound = learner.regret_bound(GameSpec(experts, horizon), 0.0)
    t, rng = np.arange(horizon)[:, None], np.random.default_rng(2)
    failing = [horizon * np.arange(1, experts) / experts, np.geomspace(5, horizon, experts - 1)]
    blocks = [np.c_[np.zeros(horizon), t >= times] for times in failing]
    blocks.append(np.c_[np.zeros(horizon), rng.random((horizon, experts - 1)) < 0.5])
    blocks.append(np.c_[np.zeros(horizon), np.ones((horizon, experts - 1))])
    measured = []
    for block in blocks:
        block = block[:, rng.permutation(experts)].astype(float)
        regret = np.take_along_axis(block, played(learner, block, games), 1).sum(0)
        assert regret.mean() - 5 * regret.std() / math.sqrt(games) <= bound
        measured.append(regret.mean())
    assert max(measured) > 0.3 * bound


def test_calibrated_constants_hear_late_failures():
    # A cap of a few redraws would be used up early: then a late failure costs T/10 = 600 and more.
    horizon, experts, games = 6000, 10, 64
    t, rng = np.arange(horizon)[:, None], np.random.default_rng(3)
    block = np.c_[np.zeros(horizon), t >= horizon * np.arange(1, experts) / experts]
    block = block[:, rng.permutation(experts)].astype(float)
    regret = np.take_along_axis(block, played(Realizable(), block, games), 1).sum(0)
    assert regret.mean() < 150


@pytest.mark.parametrize("games", [None, 4])
def test_blocks_equal_the_loop_with_buckets(games):
    block = np.random.default_rng(4).random((300, 3) if games is None else (300, games, 3))
    learner = Realizable(epsilon=6.0, best_loss=None)
    learner.reset(GameSpec(3, 300, games), np.random.default_rng(5))
    choices = []
    for losses in block:
        choices.append(learner.act())
        learner.observe(losses)
    learner.reset(GameSpec(3, 300, games), np.random.default_rng(5))
    found = np.concatenate([learner.run(block[a:b]) for a, b in itertools.pairwise([0, 7, 8, 200, 300])])
    np.testing.assert_array_equal(found, np.array(choices))


def test_unknown_best_loss_costs_half_for_the_buckets():
    learner, spec = Realizable(epsilon=1.0, delta=1e-6, best_loss=None), GameSpec(10, 1000)
    claim = learner.guarantee(spec)
    assert claim.epsilon <= 1.0 < claim.epsilon + 1e-9
    assert claim.delta == 1e-6
    # The plan is that of the first bucket.
    guess = float(learner._buckets.guesses(spec, 1)[1][0])
    assert learner.plan(spec) == Realizable(epsilon=0.5, delta=1e-6, best_loss=guess).plan(spec)
    assert math.isnan(learner.regret_bound(spec, 0.0))


def test_given_constants_are_charged():
    spec = GameSpec(10, 1000)
    plan = Realizable(cap=5, threshold=20.0, stride=2).plan(spec)
    assert (plan.cap, plan.threshold, plan.stride, plan.taper) == (5, 20.0, 2, 0.0)
    assert holds(plan, 1000, Adjacency.REPLACE)
    with pytest.raises(BudgetError, match="certifies epsilon="):
        Realizable(cap=5, learning_rate=0.5).plan(spec)
    with pytest.raises(ArgumentError, match="threshold: expected None with tuning='paper'"):
        Realizable(tuning="paper", threshold=1.0)
    with pytest.raises(ArgumentError, match="best_loss"):
        Realizable(best_loss=-1.0)
