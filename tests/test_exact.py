"""Exact privacy: closed forms, explicit strategies one by one, and every registered learner keeps its claim."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_experts_env as dpe
from dp_experts_agents.dartboard import PrivateDartboard
from dp_experts_agents.erm import PrivateERM
from dp_experts_agents.hedge import Hedge, PrivateHedge
from dp_experts_agents.lazy import LazyHedge, LazyToPrivate
from dp_experts_agents.realizable import Realizable
from dp_experts_agents.small_loss import SmallLoss
from dp_experts_agents.subsampled import Subsampled
from dp_experts_agents.tracking import PrivateFixedShare
from dp_experts_env.learner import Learner
from dp_experts_env.privacy import exact
from dp_experts_env.privacy.accounting import optimal_delta
from dp_experts_env.privacy.exact import ExactGame, exact_delta, exact_privacy, laws_delta, laws_privacy
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities
from dp_experts_env.spec import ArgumentError, GameSpec, UnknownNameError

APART = [[0.0, 1.0], [1.0, 0.0]]
VIEWS = ("choices", "transcript")
LN3 = math.log(3.0)


class Answers(Learner):
    """Names the better expert of round 1 in every later round, wrongly with probability 1/(1 + e^epsilon)."""

    def __init__(self, epsilon=LN3):
        self.epsilon = epsilon

    def start(self):
        self.truth = None

    def outcomes(self):
        if self.truth is None:
            return np.log([0.5, 0.5])
        right = self.truth[..., None] == np.arange(2)
        return np.where(right, self.epsilon, 0.0) - np.log1p(np.exp(self.epsilon))

    def take(self, outcome):
        return outcome

    def observe(self, losses):
        if self.truth is None:
            self.truth = losses.argmin(-1)


class Blabs(Learner):
    """Names the better of experts 0 and 1 with probability q in every round, expert 2 otherwise."""

    def __init__(self, q=0.01):
        self.q = q

    def start(self):
        self.law = np.log([1.0, 1.0, 1.0]) - LN3

    def outcomes(self):
        return self.law

    def take(self, outcome):
        return outcome

    def observe(self, losses):
        better = losses[..., :2].argmin(-1)[..., None] == np.arange(3)
        with np.errstate(divide="ignore"):
            self.law = np.log(np.where(better, self.q, np.where(np.arange(3) == 2, 1.0 - self.q, 0.0)))


class OneGame(PrivateHedge):
    """Private Hedge that plays one game at a time."""

    batched = False


# --------------------------------------------------------------------------------------------------- closed forms


def hedge_round(rate, experts):
    """The largest log-ratio of one draw after losses (0, 1, ..., 1) or (1, 0, ..., 0)."""
    low, rest = math.exp(-rate), experts - 1.0
    return math.log((low + rest) / (low * (1.0 + rest * low)))


def test_one_multiplicative_weights_round():
    assert exact_privacy(Hedge(0.5), 2, 2) == pytest.approx(0.5, rel=1e-13)
    for experts in (2, 5, 100):
        sides = [np.arange(experts) > 0, np.arange(experts) == 0]
        found = exact_privacy(Hedge(0.5), experts, 2, losses=sides)
        assert found == pytest.approx(hedge_round(0.5, experts), rel=1e-12)
    # A thousand experts, from the law itself; it tends to twice the rate, which replacement charges.
    for experts, expected in ((1000, 0.999), (10**6, 1.0)):
        sides = np.stack([np.arange(experts) > 0, np.arange(experts) == 0])
        found = laws_privacy(exponential_log_probabilities(sides, 0.5))
        assert found == pytest.approx(hedge_round(0.5, experts), rel=1e-9)
        assert found == pytest.approx(expected, abs=5e-4)
        assert found < 1.0


def test_zeroing_out_charges_half():
    assert exact_privacy(Hedge(0.5), 2, 2, adjacency="zero_out") == pytest.approx(
        math.log((1.0 + math.exp(0.5)) / 2.0), rel=1e-12
    )
    sides = np.stack([np.zeros(10**6), np.arange(10**6) == 0])
    assert 0.4999 < laws_privacy(exponential_log_probabilities(sides, 0.5)) < 0.5
    # One loss more on the expert that nobody names: 0 against (1, 0), after a long lead of the other.
    lead = laws_privacy(exponential_log_probabilities([[30.0, 0.0], [31.0, 0.0]], 0.5))
    assert lead == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.49, 0.5, 3.0])
def test_two_rounds_have_a_closed_form(epsilon):
    likely = 1.0 / (1.0 + math.exp(-0.5))
    expected = max(0.0, likely - math.exp(epsilon) * (1.0 - likely))
    assert exact_delta(Hedge(0.5), 2, 2, epsilon) == pytest.approx(expected, abs=1e-15)
    for adaptive in (False, True):
        delta = exact_delta(Hedge(0.5), 2, 2, epsilon, adaptive=adaptive)
        if delta > 0.0:
            assert exact_privacy(Hedge(0.5), 2, 2, delta, adaptive=adaptive) == pytest.approx(epsilon, abs=1e-11)


def test_randomised_response_composes_to_its_closed_form():
    # k answers about one round are k-fold randomised response, whose curve is known.
    assert exact_privacy(Answers(), 2, 2) == pytest.approx(LN3, rel=1e-13)
    assert exact_delta(Answers(), 2, 2, 0.0) == pytest.approx(0.5, rel=1e-13)
    for answers in (2, 4):
        game = ExactGame(Answers(), 2, answers + 1, losses=APART)
        assert game.epsilon() == pytest.approx(answers * LN3, rel=1e-13)
        for total in (0.0, 0.5, 1.0, 2.0, 3.5):
            expected = optimal_delta(total, LN3, answers)
            for adaptive in (False, True):
                assert game.delta(total, adaptive=adaptive) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_what_is_given_away_has_no_epsilon_below_its_probability():
    game = ExactGame(Blabs(0.01), 3, 2, losses=[[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    assert game.epsilon() == game.epsilon(0.0099) == math.inf
    assert game.epsilon(0.011) == 0.0
    assert game.delta(0.0) == game.delta(50.0) == game.delta(1e200) == pytest.approx(0.01, rel=1e-12)
    # Said in every round, the challenge is still one round's.
    assert exact_delta(Blabs(0.01), 3, 4, 2.0, losses=game.losses) == pytest.approx(0.01, rel=1e-12)


def test_nothing_is_lost_where_no_loss_matters():
    for game in (ExactGame(PrivateHedge(), 3, 1), ExactGame(PrivateHedge(), 1, 5)):
        assert (game.epsilon(), game.epsilon(1e-6), game.delta(0.0)) == (0.0, 0.0, 0.0)
        assert game.delta(0.0, adaptive=False) == 0.0
    # No level loss moves Hedge, and the last round's losses reach nobody.
    assert exact_privacy(Hedge(1.0), 2, 4, losses=[[0.0, 0.0], [1.0, 1.0]]) == pytest.approx(0.0, abs=1e-12)
    assert ExactGame(Hedge(1.0), 2, 4).num_paths == 4**3 * 2**4


def worst_hedge_path(rate, horizon):
    """Largest log-ratio of Hedge with two experts, losses in {0, 1}: along a path, by its gap in one of the worlds."""

    @functools.cache
    def most(draws, gap, shift):
        if draws == 0:
            return 0.0
        one, other = rate * gap, rate * (gap + shift)
        step = max(np.logaddexp(0.0, -sign * other) - np.logaddexp(0.0, -sign * one) for sign in (-1, 1))
        return float(step) + max(most(draws - 1, gap + move, shift) for move in (-1, 0, 1))

    return max(
        most(horizon - number, before + one, other - one)
        for number in range(1, horizon)
        for before in range(1 - number, number)
        for one, other in itertools.permutations((-1, 0, 1), 2)
    )


def test_hedge_with_two_experts_along_its_worst_path():
    for rate, horizon in ((0.01, 6), (0.1, 6), (2.0, 5)):
        assert exact_privacy(Hedge(rate), 2, horizon) == pytest.approx(worst_hedge_path(rate, horizon), rel=1e-12)
    # Of the 2 eta (T - 1) that basic composition charges: close to a half for short games, nearly all for long ones.
    for rate, horizon, share in ((0.01, 6, 0.505), (0.1, 6, 0.55), (0.1, 20, 0.70), (0.1, 100, 0.93)):
        assert worst_hedge_path(rate, horizon) / (2 * rate * (horizon - 1)) == pytest.approx(share, abs=5e-3)


# ---------------------------------------------------------------------------------- against strategies, one by one


def view_laws(learner, experts, horizon, vectors, view):
    """The law of the views for each sequence of losses told: one path at a time, in a single game."""

    def led(told, taken):
        learner.reset(GameSpec(experts, horizon), np.random.default_rng(7))
        log, seen = 0.0, []
        for number, outcome in enumerate(taken):
            log += learner.outcomes()[outcome]
            learner._notes = {}
            symbol = (learner.take(outcome), *(int(values[0]) for values in learner._notes.values()))
            seen.append(symbol if view == "transcript" else symbol[0])
            if number < len(told):
                learner.observe(np.array(vectors[told[number]]))
        return log, tuple(seen)

    learner.reset(GameSpec(experts, horizon), np.random.default_rng(7))
    number = len(learner.outcomes())
    laws = {}
    for told in itertools.product(range(len(vectors)), repeat=horizon - 1):
        laws[told] = {}
        for taken in itertools.product(range(number), repeat=horizon):
            log, seen = led(told, taken)
            if log > -math.inf:
                laws[told][seen] = laws[told].get(seen, 0.0) + math.exp(log)
    return laws


def strategies(rounds, kinds, symbols, challenged=False):
    """Every deterministic strategy for so many rounds: the sides of the next round, then what follows each symbol."""
    if rounds == 0:
        yield None
        return
    for sides in itertools.product(range(kinds), repeat=2):
        here = sides[0] != sides[1]
        if here and challenged:
            continue
        later = list(strategies(rounds - 1, kinds, symbols, challenged or here))
        for follow in itertools.product(later, repeat=len(symbols)):
            yield sides, dict(zip(symbols, follow, strict=True))


def told_by(strategy, seen, world):
    told = []
    for symbol in seen:
        if strategy is None:
            break
        sides, follow = strategy
        told.append(sides[world])
        strategy = follow[symbol]
    return tuple(told)


@pytest.mark.parametrize(
    ("learner", "horizon", "vectors", "view"),
    [
        (Hedge(0.8), 3, [*APART, [0.0, 0.0], [1.0, 1.0]], "choices"),
        (Hedge(0.8), 4, APART, "choices"),
        (Hedge([0.3, 1.0, 0.2, 0.9]), 4, [[0.0, 1.0], [0.5, 0.25]], "transcript"),
        (
            PrivateDartboard(9.0, 0.0, batch_size=1, switch_probability=0.3, learning_rate=0.7, cap=1),
            4,
            APART,
            "choices",
        ),
        (
            PrivateDartboard(9.0, 0.0, batch_size=1, switch_probability=0.3, learning_rate=0.7, cap=1),
            3,
            [[0.0, 1.0], [1.0, 0.0]],
            "transcript",
        ),
        (Subsampled(PrivateHedge(), 0.3, 2.0, 0.0), 3, APART, "choices"),
        (SmallLoss(1.5, 0.0, watch_epsilon=0.6, coin_epsilon=0.3, threshold=0.2, cap=2, stride=1), 3, APART, "choices"),
    ],
    ids=["hedge-3", "hedge-4", "varying-rates", "dartboard-choices", "dartboard-coins", "subsampled", "small-loss"],
)
def test_every_strategy_one_by_one(learner, horizon, vectors, view):
    laws = view_laws(learner, 2, horizon, vectors, view)
    views = sorted({seen for law in laws.values() for seen in law})
    symbols = sorted({symbol for seen in views for symbol in seen})
    # A strategy names the losses of a round before it sees the round's symbol.
    worlds = np.array(
        [
            [[laws[told_by(strategy, seen, world)].get(seen, 0.0) for seen in views] for world in (0, 1)]
            for strategy in strategies(horizon - 1, len(vectors), symbols)
        ]
    )
    np.testing.assert_allclose(worlds.sum(-1), 1.0, rtol=1e-9)
    fixed = np.array(
        [
            [[laws[told].get(seen, 0.0) for seen in views] for told in (one, other)]
            for one, other in itertools.product(laws, repeat=2)
            if sum(a != b for a, b in zip(one, other, strict=True)) == 1
        ]
    )
    game = ExactGame(learner, 2, horizon, losses=vectors, view=view)
    for epsilon in (0.0, 0.05, 0.2, 0.5, 1.0):
        for adaptive, cases in ((True, worlds), (False, fixed)):
            expected = np.maximum(cases[:, 0] - math.exp(epsilon) * cases[:, 1], 0.0).sum(-1).max()
            assert game.delta(epsilon, adaptive=adaptive) == pytest.approx(expected, abs=1e-12)
    possible = fixed[:, 0] > 0
    with np.errstate(divide="ignore"):
        ratio = np.log(fixed[:, 0][possible]) - np.log(fixed[:, 1][possible])
    assert game.epsilon() == pytest.approx(ratio.max(), abs=1e-9)


def test_adaptive_adversaries_are_stronger_at_positive_delta_only():
    game = ExactGame(LazyHedge(1.0, 0.05, batch_size=2), 2, 8, losses=APART)
    assert game.epsilon(0.05) > 1.01 * game.epsilon(0.05, adaptive=False) > 0.5
    assert game.epsilon() == game.epsilon(adaptive=False)


# ----------------------------------------------------------------------------------------- claims of the learners

# Every registered private learner that has outcomes, but the uniform one, which takes no budget.
FINITE = [
    "lazy_hedge",
    "lazy_to_private",
    "phased_selection",
    "private_dartboard",
    "private_fixed_share",
    "private_hedge",
    "realizable",
    "small_loss",
    "subsampled",
]

WATCH = {"watch_epsilon": 0.6, "learning_rate": 0.2, "threshold": 0.3, "cap": 2, "stride": 1}

# Constants at which small games cost something: learner, horizon, losses.
TUNED = {
    "hedge, seed": (PrivateHedge(1.0, 1e-6, "seed"), 4, None),
    "hedge, zcdp": (PrivateHedge(1.0, 0.05), 5, None),
    "hedge, optimal": (PrivateHedge(1.0, 0.05, "optimal"), 5, None),
    "hedge, zero_out": (PrivateHedge(1.0, 0.05, adjacency="zero_out"), 5, None),
    "hedge, three experts": (PrivateHedge(0.5, 0.01), 4, [[0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]]),
    "lazy hedge": (LazyHedge(1.0, 0.05, batch_size=2), 8, APART),
    "lazy to private": (
        LazyToPrivate(9.0, 0.0, batch_size=1, switch_probability=0.3, learning_rate=0.2, cap=1),
        4,
        None,
    ),
    "dartboard, pure": (PrivateDartboard(1.0, 0.0, batch_size=1, switch_probability=0.3, cap=2), 5, None),
    "dartboard, zcdp": (PrivateDartboard(1.0, 0.02, batch_size=1, switch_probability=0.3, cap=2), 5, None),
    "dartboard, uncapped": (
        PrivateDartboard(1.0, 0.02, certificate="uncapped", batch_size=1, switch_probability=0.4),
        4,
        None,
    ),
    "dartboard, zero_out": (
        PrivateDartboard(1.0, 0.0, batch_size=1, switch_probability=0.3, cap=2, adjacency="zero_out"),
        5,
        None,
    ),
    "dartboard, paper": (PrivateDartboard(1.0, 0.0, tuning="paper"), 5, None),
    "fixed share": (PrivateFixedShare(1.0, 0.0, batch_size=1, switch_probability=0.3, cap=2), 4, None),
    "small loss": (SmallLoss(1.5, 0.0, coin_epsilon=0.35, **WATCH), 4, None),
    "small loss, delta": (
        SmallLoss(0.8, 0.05, watch_epsilon=0.4, coin_epsilon=0.2, threshold=0.3, cap=2, stride=1),
        4,
        None,
    ),
    "small loss, paper": (SmallLoss(1.0, 0.0, tuning="paper"), 4, None),
    "small loss, zero_out": (SmallLoss(1.5, 0.0, coin_epsilon=0.35, adjacency="zero_out", **WATCH), 4, None),
    "realizable": (Realizable(1.5, 0.0, **WATCH), 4, None),
    "realizable, laplace": (Realizable(1.0, 0.0, tuning="paper"), 4, None),
    "subsampled dartboard": (
        Subsampled(PrivateDartboard(batch_size=1, switch_probability=0.3, cap=1), 0.5, 1.0, 0.0),
        4,
        APART,
    ),
    "subsampled, zero_out": (Subsampled(PrivateHedge(), 0.3, 1.0, 0.01, "zero_out"), 4, None),
}


def check_claim(learner, horizon, losses=None, experts=2):
    claim = learner.guarantee(GameSpec(experts, horizon))
    adaptive = claim.covers("adaptive")
    games = [
        ExactGame(learner, experts, horizon, losses=losses, adjacency=claim.adjacency, view=view) for view in VIEWS
    ]
    for game in games:
        assert game.epsilon(claim.delta, adaptive=adaptive) <= claim.epsilon * (1 + 1e-9)
        assert game.delta(claim.epsilon, adaptive=adaptive) <= claim.delta + 1e-12
        assert game.epsilon() == game.epsilon(adaptive=False)
    # An adversary that may adapt, or sees more, is no weaker.
    for delta in {claim.delta, 0.01}:
        found = np.array([[game.epsilon(delta, adaptive=adaptive) for adaptive in (False, True)] for game in games])
        assert (np.diff(found, axis=0) >= -1e-9).all()
        assert (np.diff(found, axis=1) >= -1e-9).all()
    return games[1].epsilon(claim.delta, adaptive=adaptive) / claim.epsilon if claim.epsilon else 0.0


def test_the_finite_learners_are_all_there():
    found = []
    for name in dpe.learners():
        learner = dpe.make_learner(name)
        if learner.guarantee(GameSpec(2, 3)) is None:
            continue
        try:
            exact_privacy(learner, 2, 3)
        except ArgumentError as error:
            assert "no finite outcome law" in str(error)  # noqa: PT017 (all other learners have none)
        else:
            found.append(name)
    assert found == [*FINITE, "uniform"]
    check_claim(dpe.make_learner("uniform"), 4)


@pytest.mark.parametrize("name", FINITE)
def test_no_registered_learner_claims_more_than_it_keeps(name):
    for epsilon, delta in ((1.0, 0.0), (1.0, 1e-6), (0.4, 0.03)):
        check_claim(dpe.make_learner(name, epsilon=epsilon, delta=delta), 4)
    check_claim(dpe.make_learner(name, adjacency="zero_out", delta=0.0), 4)
    check_claim(dpe.make_learner(name, delta=0.0), 3, experts=3)


@pytest.mark.parametrize("name", TUNED)
def test_no_tuned_learner_claims_more_than_it_keeps(name):
    learner, horizon, losses = TUNED[name]
    share = check_claim(learner, horizon, losses, 3 if "three" in name else 2)
    assert 0.02 < share <= 1.0


def test_certificates_that_are_reached():
    # The dartboard's pure certificate, with one redraw after batches of three; and the optimal composition of Hedge.
    board = PrivateDartboard(9.0, 0.0, batch_size=3, switch_probability=0.1, learning_rate=2.0, cap=1)
    assert check_claim(board, 12, APART) > 0.9999
    assert check_claim(PrivateHedge(1.0, 0.02, "optimal"), 5) > 0.99


def test_alarms_and_coins_give_away_more_than_choices():
    game = [ExactGame(TUNED["small loss"][0], 2, 4, view=view).epsilon() for view in VIEWS]
    assert game[0] < 0.7 * game[1]


def test_coins_of_a_subsampled_learner_must_stay_secret():
    class ShowsCoins(Subsampled):
        def observe(self, losses):
            super().observe(losses)
            self.shown = self._used

        def take(self, outcome):
            choice = super().take(outcome)
            self.note("used", self.shown if self.round else self._used & False)
            return choice

    honest, loose = Subsampled("private_hedge", 0.2, 1.0, 0.0), ShowsCoins("private_hedge", 0.2, 1.0, 0.0)
    claim = honest.guarantee(GameSpec(2, 4)).epsilon
    assert exact_privacy(loose, 2, 4) == exact_privacy(honest, 2, 4, view="transcript") <= claim
    assert exact_privacy(loose, 2, 4, view="transcript") > 1.3 * claim


@pytest.mark.parametrize("name", ["leaky_ada_hedge", "leaky_dartboard", "leaky_triple_rate"])
def test_leaky_learners_are_caught(name):
    for delta in (0.0, 1e-6):
        game = ExactGame(dpe.make_learner(name, delta=delta), 2, 5)
        assert game.epsilon(delta) > 1.8
        assert game.delta(1.0) > 0.04
    assert exact_privacy(dpe.make_learner("leaky_dartboard"), 2, 4) == math.inf


# ----------------------------------------------------------------------------------------------------- invariants

GAME = ExactGame(PrivateHedge(1.0, 0.02), 2, 4)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.floats(0.0, 3.0), st.floats(0.0, 3.0), st.booleans())
def test_the_curve_falls_and_is_convex(one, other, adaptive):
    low, high = sorted((one, other))
    middle = math.log((math.exp(low) + math.exp(high)) / 2)
    deltas = [GAME.delta(epsilon, adaptive=adaptive) for epsilon in (low, middle, high)]
    assert 1.0 >= deltas[0] >= deltas[1] - 1e-15 >= deltas[2] - 2e-15
    assert deltas[2] >= 0.0
    assert deltas[1] <= (deltas[0] + deltas[2]) / 2 + 1e-15


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.floats(-7.0, 0.0).map(lambda power: min(10.0**power, 0.99)), st.booleans())
def test_epsilon_is_never_understated_and_hardly_overstated(delta, adaptive):
    epsilon = GAME.epsilon(delta, adaptive=adaptive)
    assert GAME.delta(epsilon, adaptive=adaptive) <= delta
    if epsilon > 0.0:
        assert GAME.delta(epsilon - 1e-9, adaptive=adaptive) > delta
    assert epsilon <= GAME.epsilon() + 1e-12


def test_chunks_and_single_games_change_nothing(monkeypatch):
    learner, deltas = TUNED["dartboard, zcdp"][0], (0.0, 1e-3, 0.02)
    whole = ExactGame(learner, 2, 4, view="transcript")
    loop = ExactGame(OneGame(), 2, 3)
    monkeypatch.setattr(exact, "_CELLS", 146)
    parts = ExactGame(learner, 2, 4, view="transcript")
    for delta in deltas:
        assert parts.epsilon(delta) == pytest.approx(whole.epsilon(delta), rel=1e-12)
        assert loop.epsilon(delta) == pytest.approx(exact_privacy(PrivateHedge(), 2, 3, delta), rel=1e-12)


def test_the_learner_itself_is_not_touched():
    learner = PrivateHedge()
    learner.reset(GameSpec(3, 7), np.random.default_rng(0))
    learner.act()
    state = repr(vars(learner))
    exact_privacy(learner, 2, 3)
    assert repr(vars(learner)) == state


def test_how_the_set_of_losses_is_written_does_not_matter():
    expected = exact_privacy(Hedge(0.4), 2, 4)
    corners = [[1, 1], [0, 1], [1, 0], [0, 0], [1, 1]]
    assert exact_privacy(Hedge(0.4), 2, 4, losses=corners) == expected
    # A larger set makes the adversary no weaker.
    assert exact_privacy(Hedge(0.4), 2, 4, losses=APART) <= expected
    assert exact_privacy(Hedge(0.4), 2, 4, losses=[*corners, [0.5, 0.5], [0.2, 0.7]]) == pytest.approx(expected)


# ------------------------------------------------------------------------------------------------ given output laws


def test_laws_have_closed_forms():
    laws = np.log([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    assert laws_privacy(laws) == pytest.approx(LN3)
    assert laws_privacy(laws, neighbours=[[0, 2]]) == pytest.approx(math.log(2.0))
    assert laws_delta(laws, 0.5) == pytest.approx(0.75 - 0.25 * math.exp(0.5))
    assert laws_privacy(laws, laws_delta(laws, 0.5)) == pytest.approx(0.5, abs=1e-11)
    with np.errstate(divide="ignore"):
        sure = np.log([[1.0, 0.0], [0.9, 0.1]])
    assert laws_privacy(sure) == laws_privacy(sure, 0.09) == math.inf
    assert laws_privacy(sure, 0.1001) == 0.0
    assert laws_delta(sure, 5.0) == pytest.approx(0.1)


def test_private_erm_over_all_samples_of_a_small_domain():
    # Thresholds on four points, labels 0 or 1: every sample of two or three examples, every pair that differs by one.
    epsilon, kinds = 1.0, list(itertools.product(range(4), range(2)))
    rules = [lambda x, cut=cut: np.asarray(x) >= cut for cut in range(5)]
    learner = PrivateERM(2, rules, epsilon, rng=np.random.default_rng(0))
    samples = [bag for size in (2, 3) for bag in itertools.combinations_with_replacement(kinds, size)]
    index = {bag: number for number, bag in enumerate(samples)}
    laws = [learner.log_law(*np.array(bag).T) for bag in samples]
    pairs = [(index[bag], index[tuple(sorted((*bag, extra)))]) for bag in samples if len(bag) < 3 for extra in kinds]
    found = laws_privacy(laws, neighbours=pairs)
    # A mean over m >= 2 examples moves by at most 1/(m + 1), so the coefficient epsilon n/2 moves ratios by less.
    assert 0.3 * epsilon < found < 2 / 3 * epsilon
    assert laws_delta(laws, found * (1 + 1e-12), pairs) == pytest.approx(0.0, abs=1e-15)
    # Samples that are no neighbours are farther apart.
    assert laws_privacy(laws) > epsilon


RECORDS = 12
HISTOGRAMS = [
    (a, b, size - a - b) for size in (RECORDS, RECORDS + 1) for a in range(size + 1) for b in range(size + 1 - a)
]


def selection_epsilon(queries, adjacency, sensitivity, share=0.5):
    """Exact epsilon of one selection of the multiplicative weights mechanism (MWEM), twelve records, three cells.

    Scores |q(data) - q(synthetic)| in counts, the synthetic data uniform, coefficient share/(2 sensitivity).
    """
    data = np.array(HISTOGRAMS)
    scores = np.abs(data @ np.transpose(queries) - RECORDS * np.mean(queries, axis=1))
    laws = exponential_log_probabilities(-scores, share / (2 * sensitivity))
    change = {"replace": 2, "zero_out": 1}[adjacency]
    pairs = [
        (one, other)
        for one, other in itertools.combinations(range(len(data)), 2)
        if np.abs(data[one] - data[other]).sum() == change
        and (adjacency == "zero_out" or data[one].sum() == data[other].sum() == RECORDS)
    ]
    return laws_privacy(laws, neighbours=pairs)


@pytest.mark.parametrize(
    ("queries", "adjacency", "sensitivity"),
    [
        ([[1, -1, 1], [1, -1, -1]], "replace", 2),
        ([[1, -1, 1], [1, -1, -1]], "zero_out", 1),
        ([[1, 0, 1], [0, 1, 1]], "replace", 1),
    ],
)
def test_selection_sensitivity_follows_adjacency(queries, adjacency, sensitivity):
    share = 0.5
    assert 0.6 * share < selection_epsilon(queries, adjacency, sensitivity) <= share
    # Half the sensitivity is too little in each case: 1 is no sensitivity of [-1, 1] under replacement.
    assert selection_epsilon(queries, adjacency, sensitivity / 2) > 1.3 * share


# --------------------------------------------------------------------------------------------------------- errors


class Restless(Answers):
    """Has a law that depends on a draw which no outcome shows."""

    def start(self):
        super().start()
        self.epsilon = self.rng.random()


class Short(Answers):
    """Has outcomes that do not add up to one."""

    def outcomes(self):
        return super().outcomes() - 0.01


class Murmurs(Answers):
    """Notes a number that is no integer."""

    def take(self, outcome):
        self.note("weight", outcome + 0.5)
        return outcome


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: exact_privacy(PrivateHedge(), 3, 9), "horizon: expected at most 4194304 .* in 5 of 9 rounds"),
        (lambda: exact_privacy(PrivateHedge(), 30, 2), r"losses: expected a set of vectors, since \{0, 1\}\^30"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses=[[0, 1]]), "losses: expected at least two different"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses=[[0, 1], [0, 2]]), "losses: expected at least two"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses=[[0, 1], [0, math.nan]]), "losses: expected"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses=[[0], [1]]), "losses: expected .* vectors of 2 numbers"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses=[[0, 1], [1]]), "losses: expected"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses="corners"), "losses: expected"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, losses=APART, adjacency="zero_out"), "losses: .* zeros"),
        (lambda: exact_privacy(PrivateHedge(), 2, 3, 1.0), r"delta: expected a number in \[0, 1\)"),
        (lambda: exact_privacy(PrivateHedge(), 2, 0), "horizon: expected an integer >= 1"),
        (lambda: exact_privacy(PrivateHedge(), 0), "num_experts: expected an integer >= 1"),
        (lambda: exact_delta(PrivateHedge(), 2, 3, -1.0), "epsilon: expected a number in"),
        (lambda: exact_delta(PrivateHedge(), 2, 3, math.nan), "epsilon: expected a number in"),
        (lambda: ExactGame(PrivateHedge(), 2, 3).epsilon(-0.1), "delta: expected"),
        (lambda: exact_privacy("private_hedge"), "learner: expected a Learner but found 'private_hedge'"),
        (lambda: exact_privacy(dpe.make_learner("fade")), "outcomes and take but Fade has no finite outcome law"),
        (lambda: exact_privacy(Short()), "outcomes of total probability one"),
        (lambda: exact_privacy(Restless()), "no function of past losses and outcomes"),
        (lambda: exact_privacy(Murmurs(), view="transcript"), "notes of integers but 'weight' has dtype float64"),
        (lambda: laws_privacy(np.log([[0.5, 0.4], [0.5, 0.5]])), "log_laws: expected"),
        (lambda: laws_privacy(np.log([0.5, 0.5])), "log_laws: expected"),
        (lambda: laws_privacy([[math.nan, 0.0], [0.0, math.nan]]), "log_laws: expected"),
        (lambda: laws_privacy(np.log([[0.5, 0.5]])), r"neighbours: expected pairs of numbers in 0\.\.0"),
        (lambda: laws_privacy(np.log([[0.5, 0.5]] * 2), neighbours=[[0, 2]]), r"neighbours: .* in 0\.\.1"),
        (lambda: laws_privacy(np.log([[0.5, 0.5]] * 2), neighbours=[[0.0, 1.0]]), "neighbours: expected"),
        (lambda: laws_delta(np.log([[0.5, 0.5]] * 2), -1.0), "epsilon: expected"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


def test_unknown_names_are_named():
    with pytest.raises(UnknownNameError, match=r"view: unknown name 'choice'.*did you mean 'choices'"):
        exact_privacy(PrivateHedge(), view="choice")
    with pytest.raises(UnknownNameError, match="adjacency: unknown name"):
        exact_privacy(PrivateHedge(), adjacency="swap")
    assert exact_privacy(Murmurs(), losses=APART) == pytest.approx(4 * LN3)


# ----------------------------------------------------------------------------------------------------- bad input


def test_too_many_loss_vectors_are_refused_at_once():
    """All pairs of them are compared, and all subsets of so many experts are not even listed."""
    for experts in (12, 20):
        with pytest.raises(ArgumentError, match="losses: expected at most 2048 vectors"):
            exact_privacy(PrivateHedge(), experts, 2)
    for experts in (23, 10**12):
        with pytest.raises(ArgumentError, match="losses: expected a set of vectors"):
            exact_privacy(PrivateHedge(), experts, 2)


def test_numbers_that_are_none_are_refused():
    game = ExactGame(PrivateHedge(), 2, 3)
    for bad in (None, "x", 1, np.zeros(2)):
        with pytest.raises(ArgumentError, match="adaptive: expected True or False"):
            game.epsilon(adaptive=bad)
        with pytest.raises(ArgumentError, match="adaptive: expected True or False"):
            game.delta(1.0, adaptive=bad)
    for bad in (10**400, "x", 1j, [[10**400, 0]]):
        with pytest.raises(ArgumentError, match="losses: expected"):
            ExactGame(PrivateHedge(), 2, 3, losses=bad)
        with pytest.raises(ArgumentError, match="log_laws: expected"):
            laws_privacy(bad)
    for bad in ([[0], [0, 1]], "x", [[0, 5]], [[0.0, 1.0]]):
        with pytest.raises(ArgumentError, match="neighbours: expected"):
            laws_privacy(np.log([[0.5, 0.5], [0.2, 0.8]]), 0.0, bad)
