"""Amplification by subsampling, exactly; and losses in other units."""

import math
import pickle

import numpy as np
import pytest

from dp_experts_adversaries.rescaled import Rescaled
from dp_experts_agents.dartboard import PrivateDartboard
from dp_experts_agents.hedge import Hedge, PrivateHedge
from dp_experts_agents.subsampled import Subsampled
from dp_experts_env.play import play
from dp_experts_env.privacy.accounting import subsample
from dp_experts_env.spec import ArgumentError, DataError, GameSpec, LossError
from dp_experts_env.testing import adversary_checks, learner_checks

SMALL_GAMES = [
    Subsampled(PrivateDartboard(), 0.25, delta=0.0, adjacency="zero_out"),
]


@pytest.mark.parametrize(
    ("name", "check"),
    [(f"{k}-{name}", check) for k, learner in enumerate(SMALL_GAMES) for name, check in learner_checks(learner)],
)
def test_conformance(name, check):
    check()


def choice_law(learner, block):
    """Exact law of the choices: every sequence of coins and inner outcomes, the coins summed out."""
    horizon, experts = block.shape
    learner.reset(GameSpec(experts, horizon, 1), np.random.default_rng(0))
    number = learner.outcomes().shape[-1]
    games = np.arange(number**horizon)
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    logs, codes = np.zeros(len(games)), np.zeros(len(games), dtype=int)
    for row, losses in enumerate(block):
        outcome = games // number**row % number
        law = np.broadcast_to(learner.outcomes(), (len(games), number))
        logs = logs + np.take_along_axis(law, outcome[:, None], -1)[:, 0]
        codes = codes * experts + learner.take(outcome)
        learner.observe(losses)
    return np.bincount(codes, np.exp(logs), minlength=experts**horizon)


def hockey_stick(left, right, epsilon):
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((left, right), (right, left)))


@pytest.mark.parametrize("q", [0.1, 0.5])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_amplification_is_exact(q, adjacency):
    # Two experts, four rounds, pure inner Hedge: every change of one round between the corners, over all choices.
    learner = Subsampled("private_hedge", q, epsilon=0.8, delta=0.0, adjacency=adjacency)
    claim = learner.guarantee(GameSpec(2, 4))
    assert claim.epsilon <= 0.8 < claim.epsilon + 1e-9
    inner = PrivateHedge(math.log1p((math.exp(0.8) - 1) / q) * (1 - 1e-9), 0.0, adjacency=adjacency)
    assert learner._inner.epsilon == pytest.approx(inner.epsilon)
    corners = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    worst = 0.0
    for row in range(3):
        for others in ([0, 0, 0], [0, 1, 0], [2, 2, 2]):
            rows = corners[[*others[:row], 0, *others[row:]]]
            base = choice_law(learner, rows)
            for corner in [2] if adjacency == "zero_out" else [1, 2, 3]:
                changed = rows.copy()
                changed[row] = corners[corner]
                law = choice_law(learner, changed)
                worst = max(worst, float(np.abs(np.log(base / law)).max()))
                assert hockey_stick(base, law, claim.epsilon) <= 1e-12
    assert worst <= claim.epsilon + 1e-9
    # The inner learner's own loss, where the coin is known to be 1, is far larger: the coins do the hiding.
    assert worst < 0.5 * learner._inner.epsilon


def test_amplification_is_reached():
    # One draw is affected, after a long gap: ln(1 + q (e^e - 1)) is exact for the mixtures against "not used". The
    # inner ratio of "the loser is drawn" tends to e with the gap; zeroing out the round gives it back.
    q, rate = 0.3, 0.4
    inner = Hedge(rate)
    gap = np.array([[0.0, 1.0]])
    head = np.repeat(gap, 8, axis=0)

    def law(losses):
        totals = head.sum(0) + losses
        return np.exp(-rate * totals) / np.exp(-rate * totals).sum()

    unused, used = law(np.zeros(2)), law(np.array([1.0, 0.0]))
    epsilon = math.log(used[1] / unused[1])
    mixed = (1 - q) * unused + q * used
    assert math.log(mixed[1] / unused[1]) == pytest.approx(subsample(epsilon, q)[0], rel=1e-12)
    assert subsample(epsilon, q)[0] < 0.4 * epsilon
    assert inner.learning_rate == rate


def test_skipping_unused_rounds_would_amplify_nothing():
    # The variant that shows used rounds only and repeats its choice in between. Hedge at rate eta, N = 2, T = 2, losses
    # (0, 1) or (1, 0) in round 1. A choice that changes shows that round 1 was used, so its log-ratio is the inner one,
    # eta, above the ln(1 + q (e^(2 eta) - 1)) that the lemma would give. With zeros the same event keeps the claim.
    q, rate = 0.1, 1.0
    draw = 1 / (1 + math.exp(rate)), 1 / (1 + math.exp(-rate))  # expert 1 in round 2, if round 1 was used
    skipping = [0.5 * q * chance for chance in draw]
    zeros = [0.5 * ((1 - q) / 2 + q * chance) for chance in draw]
    claim = subsample(2 * rate, q)[0]
    assert math.log(skipping[1] / skipping[0]) == pytest.approx(rate)
    assert math.log(zeros[1] / zeros[0]) < claim < 0.5 * rate
    # The learner here is the second: the event "expert 0, then expert 1" has exactly these probabilities.
    learner = Subsampled(PrivateHedge(), q, epsilon=claim, delta=0.0)
    assert learner._inner.learning_rate(GameSpec(2, 2)) == pytest.approx(rate)
    for chance, first in zip(zeros, ([0.0, 1.0], [1.0, 0.0]), strict=True):
        assert choice_law(learner, np.array([first, [0.0, 0.0]]))[1] == pytest.approx(chance)


@pytest.mark.parametrize("q", [0.2, 0.7])
def test_thinned_losses_are_q_times_the_learners(q):
    # E sum Z_t l_t(x_t) = q E sum l_t(x_t), and E min_i sum Z_t l_t(i) <= q L*: exact, all coins and draws.
    block = np.array([[0.0, 1.0], [1.0, 0.5], [0.25, 1.0], [1.0, 0.0]])
    learner = Subsampled(PrivateHedge(epsilon=1.0, delta=0.0), q, epsilon=3.0, delta=0.0)
    horizon, experts = block.shape
    number = 2 * experts
    games = np.arange(number**horizon)
    learner.reset(GameSpec(experts, horizon, len(games)), np.random.default_rng(0))
    logs = np.zeros(len(games))
    lost, thinned, totals = np.zeros(len(games)), np.zeros(len(games)), np.zeros((len(games), experts))
    for row, losses in enumerate(block):
        outcome = games // number**row % number
        logs += np.take_along_axis(np.broadcast_to(learner.outcomes(), (len(games), number)), outcome[:, None], -1)[
            :, 0
        ]
        choices, coins = learner.take(outcome), outcome // experts
        lost += losses[choices]
        thinned += coins * losses[choices]
        totals += coins[:, None] * losses
        learner.observe(losses)
    weights = np.exp(logs)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights @ thinned == pytest.approx(q * (weights @ lost), abs=1e-12)
    assert weights @ totals.min(-1) <= q * block.sum(0).min() + 1e-12


def test_regret_bound_scales_by_one_over_q():
    spec = GameSpec(10, 5000)
    learner = Subsampled("private_hedge", 0.2)
    inner = PrivateHedge(learner._inner.epsilon, learner._inner.delta)
    assert learner.regret_bound(spec, 0.0) == pytest.approx(min(inner.regret_bound(spec, 0.0) / 0.2, 5000))
    assert math.isnan(learner.regret_bound(spec, 0.0, "adaptive"))
    board = Subsampled(PrivateDartboard(), 0.5, epsilon=4.0)
    own = PrivateDartboard(board._inner.epsilon, board._inner.delta)
    assert board.regret_bound(spec, 40.0) == pytest.approx(own.regret_bound(spec, 20.0) / 0.5)
    # A bound that is not concave in L* is not used.
    assert math.isnan(Subsampled(Bent()).regret_bound(spec, 0.0))


class Bent(PrivateHedge):
    """A learner with a convex bound."""

    def regret_bound(self, spec, best_loss, against="oblivious"):
        return 1.0 + best_loss**2 / spec.horizon


def test_measured_regret_stays_below_the_bound():
    # 400 games; five standard errors are allowed, false alarms below 1e-6.
    learner, horizon = Subsampled("private_hedge", 0.5, epsilon=20.0), 2000
    block = (np.random.default_rng(0).random((horizon, 5)) < [0.2, 0.5, 0.5, 0.5, 0.5]).astype(float)
    spec = GameSpec(5, horizon, 400)
    learner.reset(spec, np.random.default_rng(1))
    regret = np.take_along_axis(block, learner.run(block), 1).sum(0) - block.sum(0).min()
    bound = learner.regret_bound(spec, float(block.sum(0).min()))
    assert regret.mean() - 5 * regret.std() / 20 <= bound < horizon


def test_the_inner_claim_decides_the_adversary():
    assert Subsampled().guarantee(GameSpec(4, 100)).against == "adaptive"
    assert Subsampled(PrivateHedge(method="optimal")).guarantee(GameSpec(4, 100)).against == "oblivious"
    claim = Subsampled(q=0.01, epsilon=0.2, delta=1e-7).guarantee(GameSpec(4, 100))
    assert claim.epsilon <= 0.2
    assert claim.delta <= 1e-7
    with pytest.raises(ArgumentError, match=r"delta: expected a number in \[0, 0\.1\), below q"):
        Subsampled(q=0.1, delta=0.1)
    with pytest.raises(ArgumentError, match=r"q: expected a number in \(0, 1\]"):
        Subsampled(q=0.0)
    with pytest.raises(ArgumentError, match="learner: expected one that takes epsilon and delta"):
        Subsampled("uniform")


@pytest.mark.parametrize("games", [None, 3])
def test_blocks_equal_the_loop(games):
    block = np.random.default_rng(2).random((200, 4))
    learner = Subsampled("private_hedge", 0.4, epsilon=30.0)
    learner.reset(GameSpec(4, 200, games), np.random.default_rng(3))
    choices = []
    for losses in block:
        choices.append(learner.act())
        learner.observe(losses)
    learner.reset(GameSpec(4, 200, games), np.random.default_rng(3))
    np.testing.assert_array_equal(np.concatenate([learner.run(block[:60]), learner.run(block[60:])]), choices)


# ------------------------------------------------------------------------------------------------------ losses rescaled


@pytest.mark.parametrize(("name", "check"), list(adversary_checks(Rescaled)))
def test_rescaled_conformance(name, check):
    check()


def test_raw_losses_are_mapped_and_mapped_back():
    raw = np.array([[-3.0, 1.0, -1.0], [0.0, -3.0, 1.0]])
    foe = Rescaled(raw)
    assert (foe.num_experts, foe.horizon, foe.kind) == (3, 2, "oblivious")
    foe.reset(seed=0)
    block = foe.emit_block(2)
    np.testing.assert_allclose(block, (raw + 3) / 4)
    # Replace-one sensitivity: 4 in raw units, 1 in mapped ones.
    assert foe.to_raw(1.0) == 4.0
    match = play(Hedge(), foe, 5, seed=1, progress=False)
    choices = play(Hedge(), foe, 5, seed=1, progress=False, record="choices").choices
    lost = raw[np.arange(2), choices].sum(1)
    np.testing.assert_allclose(foe.to_raw(match.regret), lost - raw.sum(0).min())
    np.testing.assert_allclose(foe.to_raw_loss(match.learner_loss, 2), lost)
    assert isinstance(foe.to_raw(0.5), float)


def test_raw_losses_outside_the_range_are_refused():
    with pytest.raises(
        LossError, match=r"raw losses of round 2, expert 1: expected a number in \[-3, 1\] but found 1\.5"
    ):
        Rescaled([[0.0, 0.0], [0.0, 1.5]])
    foe = Rescaled(Fickle(), horizon=5, num_experts=2)
    foe.reset(seed=0)
    foe.emit()
    foe.see(0)
    with pytest.raises(LossError, match=r"raw losses of round 2, expert 0: .* found nan"):
        foe.emit()
    for options in ({"low": 1.0, "high": 1.0}, {"low": math.nan}, {"low": -1e308, "high": 1e308}):
        with pytest.raises(ArgumentError):
            Rescaled(**options)
    with pytest.raises(DataError, match="source"):
        Rescaled("losses.txt")
    with pytest.raises(ArgumentError, match="num_experts: expected 2, as in the data"):
        Rescaled([[0.0, 0.0]], num_experts=3)


class Fickle:
    """Emits NaN in its second round, and charges the expert that was named."""

    def __init__(self):
        self.named, self.rounds = 0, 0

    def emit(self):
        self.rounds += 1
        return np.where(np.arange(2) == self.named, math.nan if self.rounds == 2 else 1.0, -3.0)

    def see(self, choices):
        self.named = choices


class Punisher:
    """Adaptive, in raw units, for one game or many."""

    def start(self, game, rng):
        self.game, self.last = game, np.zeros(game.shape, dtype=int)

    def emit(self):
        return np.where(np.asarray(self.last)[..., None] == np.arange(self.game.num_experts), 2.0, -2.0)

    def see(self, choices):
        self.last = choices


@pytest.mark.parametrize("num_games", [None, 4])
def test_adaptive_sources_see_the_choices_of_their_own_game(num_games):
    foe = Rescaled(Punisher(), low=-2.0, high=2.0, num_experts=3, horizon=50)
    assert foe.kind == "adaptive"
    match = play(Hedge(), foe, num_games, seed=3, progress=False, record="choices")
    named = np.concatenate([np.zeros((len(match.choices), 1), dtype=int), match.choices[:, :-1]], 1)
    np.testing.assert_array_equal(match.learner_loss, (match.choices == named).sum(1))


def test_functions_files_and_subclasses(tmp_path):
    ramp = Rescaled(ramp_losses, low=0.0, high=20.0, num_experts=2, horizon=10)
    assert pickle.loads(pickle.dumps(ramp)).kind == "oblivious"
    ramp.reset(seed=0)
    np.testing.assert_allclose(ramp.emit_block(10)[:, 0], np.arange(1, 11) / 20)
    raw = np.array([[-1.0, 0.5], [0.25, -2.0]])
    np.save(tmp_path / "raw.npy", raw)
    np.savetxt(tmp_path / "raw.csv", raw, delimiter=",")
    for name in ("raw.npy", "raw.csv"):
        foe = Rescaled(str(tmp_path / name))
        foe.reset(seed=0)
        np.testing.assert_allclose(foe.emit_block(2), (raw + 3) / 4)
    own = Own(num_experts=4, horizon=3)
    own.reset(seed=0)
    np.testing.assert_allclose(own.emit_block(3), 0.75)
    with pytest.raises(DataError, match=r"source: .*none\.npy"):
        Rescaled(str(tmp_path / "none.npy"))


def ramp_losses(round, rng):
    return np.array([round, 20.0 - round])


class Own(Rescaled):
    """Raw losses of zero."""

    def emit_raw(self):
        return np.zeros(self.num_experts)
