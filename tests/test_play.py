"""The one loop: what a match measures, held to slow oracles; blocks, chunks, workers, seeds, memory."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import tracemalloc
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_experts_env as dpe
from dp_experts_env import Adversary, GameSpec, Guarantee, Learner
from dp_experts_env.play import CHECKPOINTS, GAMES_PER_CHUNK

loop_module: Any = importlib.import_module("dp_experts_env.play")  # dpe.play is the function


# -- a cast of small learners and adversaries --------------------------------------------------------------------------


class Weights(Learner):
    """Exponential weights at rate 0.5, one game or many."""

    def start(self) -> None:
        self.total = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        weights = np.exp(-0.5 * (self.total - self.total.min(-1, keepdims=True)))
        below = (
            weights.cumsum(-1) <= self.rng.random(self.spec.shape)[..., None] * weights.sum(-1, keepdims=True)
            if self.spec.shape
            else weights.cumsum(-1) <= self.rng.random() * weights.sum()
        )
        return below.sum(-1)

    def observe(self, losses: Any) -> None:
        self.total = self.total + losses


class Leader(Learner):
    """Follows the leader, ties to the lowest index."""

    deterministic = True

    def start(self) -> None:
        self.total = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        return np.broadcast_to(self.total.argmin(-1), self.spec.shape)

    def observe(self, losses: Any) -> None:
        self.total = self.total + losses


class Uniform(Learner):
    """Names an expert uniformly at random."""

    def act(self) -> Any:
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)

    def run(self, block: Any) -> Any:
        return self.rng.integers(self.spec.num_experts, size=(len(block), *self.spec.shape))


class OneGame(Learner):
    """Follows Gumbel-perturbed losses, one game at a time."""

    batched = False

    def start(self) -> None:
        self.total = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        return int((self.total - self.rng.gumbel(size=self.spec.num_experts)).argmin())

    def observe(self, losses: Any) -> None:
        self.total += losses


class Claims(Uniform):
    """Claims privacy against oblivious adversaries, and regret bounds that tell the models apart."""

    def guarantee(self, spec: GameSpec) -> Guarantee:
        return Guarantee(1.0, against="oblivious", source="a theorem")

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        return {"stochastic": 1.0, "oblivious": 100.0 + best_loss, "adaptive": math.nan}[against]


class Table(Adversary):
    """Shows the rows of a matrix, the same in every game."""

    def __init__(self, rows: Any = ((0.0, 1.0),), **game: Any) -> None:
        self.rows = np.asarray(rows, dtype=float)
        game = {"num_experts": self.rows.shape[1], "horizon": len(self.rows), **game}
        super().__init__(**game)

    def emit(self) -> Any:
        return self.rows[self.round]


class Noise(Adversary):
    """Uniform losses, each game its own."""

    stochastic = True

    def emit(self) -> Any:
        return self.np_random.random((*self.game.shape, self.num_experts))


class SeenNoise(Noise):
    """The same losses from an adversary that counts as adaptive, so that it is played round by round."""

    def see(self, choices: Any) -> None:
        pass


class SharedNoise(Noise):
    """Uniform losses that all games share."""

    def emit(self) -> Any:
        return self.np_random.random(self.num_experts)


class SpawnedNoise(Noise):
    """Uniform losses that all games share, from a child stream: spawning leaves a mark on a seed."""

    def start(self) -> None:
        self.scale, self.stream = self.np_random.spawn(2)
        self.high = self.scale.random()

    def emit(self) -> Any:
        return self.high * self.stream.random(self.num_experts)


class ChargeLast(Adversary):
    """Charges the last choice."""

    def start(self) -> None:
        self.losses = self.zeros(self.num_experts)

    def emit(self) -> Any:
        return self.losses

    def see(self, choices: Any) -> None:
        self.losses = self.one_hot(choices)


class ChargeLastOfOne(Adversary):
    """Charges the last choice, in one game."""

    batched = False

    def start(self) -> None:
        self.losses = np.zeros(self.num_experts)

    def emit(self) -> Any:
        return self.losses

    def see(self, choices: Any) -> None:
        self.losses = np.eye(self.num_experts)[choices]


class ForgetsGames(ChargeLastOfOne):
    """The same, without saying that it plays one game."""

    batched = True

    def see(self, choices: Any) -> None:
        self.losses = np.eye(self.num_experts)[np.max(choices)]


def arrays(match: dpe.Match) -> dict[str, bytes]:
    """Everything measured in a match but the time it took."""
    measured = {}
    for name, value in vars(match).items():
        if name == "seconds":
            continue
        measured[name] = value.dtype.str.encode() + value.tobytes() if isinstance(value, np.ndarray) else repr(value)
    return measured


def recount(choices: Any, rows: Any) -> tuple[list[float], list[float], list[list[float]]]:
    """A slow oracle: learner's losses, best losses and regret after each round, by plain sums over one game each.

    Args:
        choices: ``(G, T)``.
        rows: losses ``(T, G, N)``.
    """
    lost, best, curves = [], [], []
    for game, named in enumerate(choices):
        totals, loss, curve = [0.0] * rows.shape[2], 0.0, []
        for number, expert in enumerate(named):
            for other in range(rows.shape[2]):
                totals[other] += float(rows[number, game, other])
            loss += float(rows[number, game, expert])
            curve.append(loss - min(totals))
        lost.append(loss)
        best.append(min(totals))
        curves.append(curve)
    return lost, best, curves


# -- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_games", [None, 1, 5])
@pytest.mark.parametrize("learner", [Weights(), Leader(), Uniform(), OneGame()], ids=repr)
def test_a_match_against_a_table_equals_a_slow_recount(learner: Learner, num_games: int | None) -> None:
    rows = np.random.default_rng(3).random((37, 4))
    match = dpe.play(learner, Table(rows), num_games, seed=11, record="choices")
    games = num_games or 1
    assert match.choices is not None
    assert match.choices.shape == (games, 37)
    assert match.choices.dtype == np.int64
    lost, best, curves = recount(match.choices, np.repeat(rows[:, None], games, axis=1))
    for measured, expected in (
        (match.learner_loss, lost),
        (match.best_loss, best),
        (match.regret, np.subtract(lost, best)),
        (match.regret_curve, curves),
    ):
        assert measured.dtype == np.float64
        np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-12)
    assert match.rounds.tolist() == list(range(1, 38))
    np.testing.assert_array_equal(match.regret, match.regret_curve[:, -1])


@pytest.mark.parametrize("num_games", [None, 1, 6])
@pytest.mark.parametrize("adversary", [ChargeLast, ChargeLastOfOne])
def test_a_match_against_an_adaptive_adversary_equals_a_slow_recount(adversary: Any, num_games: int | None) -> None:
    match = dpe.play(Weights(), adversary(num_experts=3, horizon=25), num_games, seed=4, record="choices")
    assert match.choices is not None
    rows = np.zeros((25, num_games or 1, 3))
    for game, named in enumerate(match.choices):
        for number in range(1, 25):
            rows[number, game, named[number - 1]] = 1.0
    lost, best, curves = recount(match.choices, rows)
    assert match.learner_loss.tolist() == lost
    assert match.best_loss.tolist() == best
    assert match.regret_curve.tolist() == curves
    assert match.kind == "adaptive"


def test_the_leader_on_a_known_table() -> None:
    """The sequence that ruins the leader: losses (1/2, 0), (0, 1), (1, 0), (0, 1): it loses in every round."""
    rows = [[0.5, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    match = dpe.play(Leader(), Table(rows), seed=0, record="choices")
    assert match.choices is not None
    assert match.choices.tolist() == [[0, 1, 0, 1]]
    assert match.regret_curve.tolist() == [[0.5, 1.0, 1.5, 2.0]]
    assert (match.learner_loss.tolist(), match.best_loss.tolist(), match.regret.tolist()) == ([3.5], [1.5], [2.0])


def test_regret_may_be_negative() -> None:
    """A learner that happens to switch with the best expert beats every fixed one: never clipped."""

    class Alternates(Learner):
        """Names 0, 1, 0, 1."""

        def act(self) -> Any:
            return np.full(self.spec.shape, self.round % 2)

    match = dpe.play(Alternates(), Table([[0.0, 1.0], [1.0, 0.0]] * 5))
    assert match.regret.tolist() == [-5.0]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(0, 2**32),
    st.integers(1, 15),
)
def test_any_small_match_equals_a_slow_recount(
    horizon: int, experts: int, games: int | None, seed: int, checkpoints: int
) -> None:
    rows = np.random.default_rng(seed).integers(0, 2, (horizon, experts)).astype(float)
    match = dpe.play(Weights(), Table(rows), games, seed=seed, record=["choices"], checkpoints=checkpoints)
    assert match.choices is not None
    lost, best, curves = recount(match.choices, np.repeat(rows[:, None], games or 1, axis=1))
    assert match.learner_loss.tolist() == lost
    assert match.best_loss.tolist() == best
    assert 1 <= len(match.rounds) <= min(checkpoints, horizon)
    assert match.rounds[-1] == horizon
    assert match.regret_curve.tolist() == [[curve[number - 1] for number in match.rounds] for curve in curves]


def test_checkpoints_are_at_most_two_hundred_and_end_at_the_horizon() -> None:
    match = dpe.play(Uniform(), Noise(num_experts=2, horizon=12_345), seed=0, record="choices")
    assert CHECKPOINTS == 200
    assert len(match.rounds) == 200
    assert (match.rounds[0], match.rounds[-1]) == (1, 12_345)
    gaps = np.diff(match.rounds)
    assert gaps.min() >= 61
    assert gaps.max() <= 63
    few = dpe.play(Uniform(), Noise(num_experts=2, horizon=12_345), seed=0, checkpoints=3)
    assert few.rounds.tolist() == [1, 6173, 12_345]
    np.testing.assert_allclose(few.regret_curve[:, -1], match.regret)
    for checkpoints in (1, 2):
        assert dpe.play(Uniform(), Noise(horizon=9), checkpoints=checkpoints).rounds.tolist() == [1, 9][-checkpoints:]


def test_choices_are_kept_on_request_only() -> None:
    foe = Noise(num_experts=3, horizon=6)
    assert dpe.play(Uniform(), foe).choices is None
    with pytest.raises(dpe.UnknownNameError, match=r"record: unknown name 'choice'; did you mean 'choices'\?"):
        dpe.play(Uniform(), foe, record="choice")


def test_a_match_prints_what_was_played() -> None:
    foe = Noise(num_experts=3, horizon=6)
    match = dpe.play(Claims(), foe, num_games=4, seed=[1, 2])
    assert match.learner == "Claims()"
    assert match.adversary.startswith("Noise(num_experts=3, horizon=6")
    assert match.spec == GameSpec(3, 6)
    assert match.mean_regret == pytest.approx(sum(match.regret) / 4)
    spread = [(value - match.mean_regret) ** 2 for value in match.regret]
    assert match.standard_error == pytest.approx(math.sqrt(sum(spread) / 3 / 4))
    assert match.seconds > 0.0
    for word in ("Claims()", "Noise(", "4 game(s) of 6 rounds", "bound 1.0", "(1, 0)-DP"):
        assert word in str(match)
    single = dpe.play(Uniform(), foe)
    assert math.isnan(single.standard_error)
    assert "bound none" in str(single)
    assert "privacy none" in str(single)


# -- blocks and rounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_games", [None, 1, 7])
@pytest.mark.parametrize("learner", [Weights(), Uniform(), OneGame()], ids=repr)
def test_blocks_are_choice_for_choice_the_rounds(learner: Learner, num_games: int | None) -> None:
    """The same losses from an adversary that hides that it is oblivious are played round by round."""
    blocks = dpe.play(learner, Noise(num_experts=4, horizon=101), num_games, seed=8, record="choices")
    rounds = dpe.play(learner, SeenNoise(num_experts=4, horizon=101), num_games, seed=8, record="choices")
    assert (blocks.kind, rounds.kind) == ("stochastic", "adaptive")
    np.testing.assert_array_equal(blocks.choices, rounds.choices)
    np.testing.assert_array_equal(blocks.rounds, rounds.rounds)
    for name in ("learner_loss", "best_loss", "regret_curve"):
        np.testing.assert_allclose(getattr(blocks, name), getattr(rounds, name), rtol=0, atol=1e-10)


@pytest.mark.parametrize("adversary", [Noise, SharedNoise, SpawnedNoise])
@pytest.mark.parametrize("num_games", [None, 6])
def test_the_length_of_a_block_changes_nothing(
    adversary: Any, num_games: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = []
    for rounds, elements in ((4096, 2**17), (1, 2**17), (7, 2**17), (4096, 50), (1000, 1)):
        monkeypatch.setattr(loop_module, "BLOCK_ROUNDS", rounds)
        monkeypatch.setattr(loop_module, "BLOCK_ELEMENTS", elements)
        played.append(
            dpe.play(
                Weights(), adversary(num_experts=3, horizon=90), num_games, seed=5, record="choices", checkpoints=13
            )
        )
    for other in played[1:]:
        np.testing.assert_array_equal(other.choices, played[0].choices)
        np.testing.assert_allclose(other.regret_curve, played[0].regret_curve, rtol=0, atol=1e-10)


@pytest.mark.parametrize("num_games", [None, 3])
def test_the_built_in_learners_play_blocks_as_rounds(num_games: int | None) -> None:
    """Every learner against 400 rounds of coins, and against the same coins from an adversary played by rounds."""
    bernoulli = dpe.adversary_class("bernoulli")
    hidden = type("Hidden", (bernoulli,), {"see": lambda self, choices: None})
    for name in dpe.learners():
        blocks, rounds = (
            dpe.play(
                dpe.make_learner(name),
                cls(num_experts=4, horizon=400),
                num_games,
                seed=2,
                record="choices",
                override=True,
            )
            for cls in (bernoulli, hidden)
        )
        assert rounds.kind == "adaptive"
        np.testing.assert_array_equal(blocks.choices, rounds.choices, err_msg=name)


# -- games, chunks and workers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [Weights(), OneGame()], ids=repr)
@pytest.mark.parametrize("adversary", [Noise, SharedNoise, SpawnedNoise, ChargeLast, ChargeLastOfOne])
def test_one_game_without_an_axis_is_a_batch_of_one(learner: Learner, adversary: Any) -> None:
    foe = adversary(num_experts=3, horizon=40)
    bare, batch = (dpe.play(learner, foe, games, seed=6, record="choices") for games in (None, 1))
    assert bare.regret.shape == (1,)
    assert arrays(bare) == arrays(batch)


def test_the_same_seed_gives_the_same_bytes() -> None:
    for foe in (Noise(num_experts=3, horizon=60), ChargeLast(num_experts=3, horizon=60)):
        first, second = (dpe.play(Weights(), foe, 9, seed=6, record="choices") for _ in range(2))
        assert arrays(first) == arrays(second)
        other = dpe.play(Weights(), foe, 9, seed=7, record="choices")
        assert not np.array_equal(other.choices, first.choices)


def test_chunks_do_not_depend_on_how_many_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "GAMES_PER_CHUNK", 4)
    for adversary in (Noise, SharedNoise, SpawnedNoise, ChargeLast):
        foe = adversary(num_experts=3, horizon=20)
        many, few = (dpe.play(Weights(), foe, games, seed=1, record="choices") for games in (11, 8))
        assert many.choices is not None
        assert few.choices is not None
        np.testing.assert_array_equal(many.choices[:8], few.choices)
        assert len({row.tobytes() for row in many.choices}) > 8


def test_all_games_meet_the_same_shared_sequence() -> None:
    """2500 games in three chunks: one sequence where it is shared, 2500 where it is not."""
    assert GAMES_PER_CHUNK < 2500
    for adversary in (SharedNoise, SpawnedNoise):
        foe = adversary(num_experts=3, horizon=10)
        shared = dpe.play(Uniform(), foe, 2500, seed=3)
        assert len(set(shared.best_loss)) == 1
        assert dpe.play(Uniform(), foe, seed=3).best_loss[0] == shared.best_loss[0]
        assert len(set(shared.learner_loss)) > 2400
    own = dpe.play(Uniform(), Noise(num_experts=3, horizon=10), 2500, seed=3)
    assert len(set(own.best_loss)) == 2500


def test_the_number_of_workers_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "GAMES_PER_CHUNK", 50)
    learner = dpe.make_learner("hedge")
    for name, keywords in (("punish_last", {}), ("bernoulli", {"shared": True}), ("bernoulli", {})):
        foe = dpe.make_adversary(name, num_experts=3, horizon=30, **keywords)
        one, two = (dpe.play(learner, foe, 120, seed=9, record="choices", workers=workers) for workers in (1, 2))
        assert arrays(one) == arrays(two)


def test_neither_side_is_changed() -> None:
    learner, foe = Weights(), Noise(num_experts=3, horizon=20)
    learner.reset(GameSpec(3, 9), np.random.default_rng(0))
    learner.act()
    before = pickle.dumps(learner), pickle.dumps(foe)
    first = dpe.play(learner, foe, 3, seed=0, record="choices")
    assert (pickle.dumps(learner), pickle.dumps(foe)) == before
    assert arrays(first) == arrays(dpe.play(Weights(), foe, 3, seed=0, record="choices"))
    other = dpe.play(Weights(), foe.clone(num_games=7), 3, seed=0, record="choices")
    np.testing.assert_array_equal(other.choices, first.choices)


# -- seeds -------------------------------------------------------------------------------------------------------------


def test_a_match_remembers_the_seed_that_replays_it() -> None:
    foe = Noise(num_experts=3, horizon=30)
    child = np.random.SeedSequence(5).spawn(3)[2]
    for seed in (0, 2**200, [3, 4], np.int64(7), np.random.SeedSequence(8), child, None):
        match = dpe.play(Uniform(), foe, 2, seed=seed, record="choices")
        again = dpe.play(Uniform(), foe, 2, seed=match.seed, record="choices")
        np.testing.assert_array_equal(again.choices, match.choices)
        np.testing.assert_array_equal(again.best_loss, match.best_loss)
    assert child.n_children_spawned == 0


@pytest.mark.parametrize("seed", [-1, 1.5, "seed", [0.5], np.random.default_rng(0), object()])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(dpe.ArgumentError, match="seed: expected an integer >= 0"):
        dpe.play(Uniform(), Noise(horizon=2), seed=seed)


def test_no_seed_never_means_a_constant() -> None:
    foe = Noise(num_experts=100, horizon=50)
    matches = [dpe.play(Uniform(), foe, seed=None, record="choices") for _ in range(4)]
    assert len({match.choices.tobytes() for match in matches if match.choices is not None}) == 4
    assert len({float(match.best_loss[0]) for match in matches}) == 4
    assert len({match.seed for match in matches}) == 4


def test_the_two_sides_have_independent_randomness() -> None:
    """Both draw a uniform number from their generator: over 400 matches, and 1000 games of one, they are unrelated.

    The mean of at least 150 fair coins is off by more than 0.25 with probability below 2 exp(-2 * 150 / 16) = 1.5e-8
    (Hoeffding), and that of at least 400 by more than 0.14 with probability below 4e-7.
    """

    class Shows(Learner):
        """Names expert 1 if its first number is above one half."""

        def act(self) -> Any:
            return (self.rng.random(self.spec.shape) > 0.5) * 1

    class ShowsToo(Adversary):
        """Charges expert 1 if its first number is above one half."""

        def emit(self) -> Any:
            above = (self.np_random.random(self.game.shape) > 0.5) * 1.0
            return np.stack([np.zeros_like(above), above], axis=-1)

    foe = ShowsToo(num_experts=2, horizon=1)
    matches = [dpe.play(Shows(), foe, seed=seed, record="choices") for seed in range(400)]
    named = np.array([match.choices[0, 0] for match in matches if match.choices is not None])
    charged = np.array([match.learner_loss[0] for match in matches])
    assert 150 <= named.sum() <= 250
    # Where expert 1 was named, the loss tells the adversary's coin.
    rate = charged[named == 1].mean()
    assert abs(rate - 0.5) < 0.25
    games = dpe.play(Shows(), foe, 1000, seed=0, record="choices")
    assert games.choices is not None
    assert (games.choices == 1).sum() >= 400
    rate = games.learner_loss[games.choices[:, 0] == 1].mean()
    assert abs(rate - 0.5) < 0.14


def test_two_copies_of_a_learner_share_no_randomness() -> None:
    """Copies in two worlds, each with a child stream: draws of 1000 runs are uncorrelated (|r| < 0.16, 1e-6)."""
    learner = dpe.make_learner("uniform")
    spec = GameSpec(1000, 1)
    draws = []
    for seed in range(1000):
        pair = []
        for stream in np.random.default_rng(seed).spawn(2):
            player = copy.deepcopy(learner)
            player.reset(spec, stream)
            pair.append(player.act())
        draws.append(pair)
    left, right = np.array(draws).T
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.16


# -- claims ------------------------------------------------------------------------------------------------------------


def test_a_claim_is_not_advertised_outside_its_model() -> None:
    for foe in (Noise(num_experts=3, horizon=5), Table([[0.0, 1.0]])):
        assert dpe.play(Claims(), foe).guarantee == Guarantee(1.0, against="oblivious", source="a theorem")
    foe = ChargeLast(num_experts=3, horizon=5)
    with pytest.raises(dpe.AdversaryModelError, match=r"Claims\(\) is proved private against oblivious .* is adaptive"):
        dpe.play(Claims(), foe)
    match = dpe.play(Claims(), foe, override=True)
    assert match.guarantee is None
    assert "privacy none" in str(match)
    assert dpe.play(Uniform(), foe).guarantee is None
    built_in = dpe.play(dpe.make_learner("uniform"), foe).guarantee
    assert built_in is not None
    assert built_in.epsilon == 0.0


def test_the_bound_is_the_mean_over_the_games_for_this_kind_of_adversary() -> None:
    assert dpe.play(Claims(), Noise(num_experts=3, horizon=5), 4).regret_bound == 1.0
    match = dpe.play(Claims(), SharedNoise(num_experts=3, horizon=5).clone(), 4)
    assert match.regret_bound == 1.0
    table = Table([[0.25, 1.0], [0.5, 1.0]])
    assert dpe.play(Claims(), table, 3).regret_bound == 100.75
    assert math.isnan(dpe.play(Claims(), ChargeLast(num_experts=3, horizon=5), override=True).regret_bound)

    class Mixed(Noise):
        """Not stochastic by its own account."""

        stochastic = False

    match = dpe.play(Claims(), Mixed(num_experts=3, horizon=5), 50, seed=0)
    assert match.regret_bound == pytest.approx(100.0 + match.best_loss.mean(), abs=1e-9)


# -- rules -------------------------------------------------------------------------------------------------------------


def test_an_adaptive_adversary_in_a_batch_emits_one_vector_a_game() -> None:
    """A single-game author's vector is never read as shared by all games."""
    foe = ForgetsGames(num_experts=3, horizon=5)
    assert dpe.play(Uniform(), foe, None).regret.shape == (1,)
    with pytest.raises(dpe.LossError, match=r"ForgetsGames\.emit of round 1: .* \(2, 3\) .* batched = False"):
        dpe.play(Uniform(), foe, 2)


@pytest.mark.parametrize(
    ("row", "words"), [([0.0, 1.5, 0.0], "expert 1"), ([0.0, 0.0, math.nan], "expert 2"), ([0.0, 0.0], "shape")]
)
@pytest.mark.parametrize("seen", [False, True])
def test_bad_losses_name_adversary_round_and_expert(row: Any, words: str, seen: bool) -> None:
    class Breaks(Adversary):
        """Emits a bad row in round 4."""

        def emit(self) -> Any:
            losses = np.zeros((*self.game.shape, 3))
            return row if self.round == 3 else losses

    class BreaksSeen(Breaks):
        """The same, round by round."""

        def see(self, choices: Any) -> None:
            pass

    foe = (BreaksSeen if seen else Breaks)(num_experts=3, horizon=6)
    with pytest.raises(dpe.LossError, match=r"Breaks.*emit of round 4") as caught:
        dpe.play(Uniform(), foe, None)
    assert words in str(caught.value)


@pytest.mark.parametrize("foe", [Noise(num_experts=3, horizon=6), ChargeLast(num_experts=3, horizon=6)], ids=repr)
def test_bad_choices_name_learner_round_and_game(foe: Adversary) -> None:
    class Breaks(Learner):
        """Names expert 3 of 0..2 in round 4 of game 1."""

        def act(self) -> Any:
            choices = np.zeros(self.spec.shape, dtype=np.int64)
            choices[1] += 3 * (self.round == 3)
            return choices

    with pytest.raises(dpe.ChoiceError, match=r"Breaks\.act of round 4 in game 1: expected an expert in 0\.\.2 but"):
        dpe.play(Breaks(), foe, 2)


def test_a_bad_block_of_choices_never_indexes_from_the_end() -> None:
    class Breaks(Uniform):
        """Names expert -1 in a block."""

        def run(self, block: Any) -> Any:
            return super().run(block) - 1

    with pytest.raises(dpe.ChoiceError, match=r"Breaks\.run of round"):
        dpe.play(Breaks(), Noise(num_experts=3, horizon=40), seed=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learner": "hedge"}, r"learner: expected a Learner but found 'hedge'; make_learner\(name\) builds one"),
        ({"learner": Uniform}, "learner: expected a Learner"),
        ({"adversary": "bernoulli"}, r"adversary: expected an Adversary but found 'bernoulli'; make_adversary"),
        ({"num_games": 0}, "num_games: expected an integer >= 1 but found 0"),
        ({"num_games": 2.0}, "num_games"),
        ({"checkpoints": 0}, "checkpoints: expected an integer >= 1"),
        ({"workers": 0}, "workers: expected an integer >= 1"),
        ({"record": ["choices", "losses"]}, "record: unknown name 'losses'"),
    ],
)
def test_arguments_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(dpe.ArgumentError, match=words):
        dpe.play(**{"learner": Uniform(), "adversary": Noise(horizon=3), **changes})


# -- progress and memory -----------------------------------------------------------------------------------------------


def test_progress_goes_to_standard_error_and_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    foe = Noise(num_experts=3, horizon=50)
    for progress in (None, False):
        dpe.play(Uniform(), foe, progress=progress)
        assert capsys.readouterr() == ("", "")
    dpe.play(Uniform(), foe, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Uniform v Noise" in shown.err


@pytest.mark.parametrize(
    ("learner", "adversary", "horizon"),
    [("uniform", "alternating", 10**6), ("hedge", "bernoulli", 5 * 10**4), ("hedge", "punish_last", 3000)],
)
def test_memory_does_not_grow_with_the_horizon(learner: str, adversary: str, horizon: int) -> None:
    """N = 100 experts, one game: the losses alone would take 800, 40 and 2.4 MB; the peak stays below 8, 8 and 1."""
    foe = dpe.make_adversary(adversary, num_experts=100, horizon=horizon)
    agent = dpe.make_learner(learner)
    dpe.play(agent, foe.clone(horizon=10), seed=0)
    tracemalloc.start()
    try:
        match = dpe.play(agent, foe, seed=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert match.rounds[-1] == horizon
    assert peak < (8e6 if horizon > 3000 else 1e6)


def test_global_random_state_is_neither_used_nor_changed() -> None:
    import random

    state, numpy_state = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    first = dpe.play(dpe.make_learner("hedge"), dpe.make_adversary("bernoulli", horizon=50), 3, seed=1)
    assert random.getstate() == state
    assert repr(np.random.get_state()) == numpy_state  # noqa: NPY002
    random.seed(3)
    second = dpe.play(dpe.make_learner("hedge"), dpe.make_adversary("bernoulli", horizon=50), 3, seed=1)
    random.setstate(state)
    assert arrays(first) == arrays(second)


# -- figures ---------------------------------------------------------------------------------------------------------


def test_the_runner_really_updates() -> None:
    """Expert 2 always loses 0 and three others 1: Hedge at rate 1 has mass 1/(1 + 3 e^-10) on it after 10 rounds."""
    hedge = dpe.learner_class("hedge")
    told: list[int] = []

    class Watched(hedge):  # type: ignore[misc, valid-type]
        """Hedge that counts what it is told."""

        def run(self, block: Any) -> Any:
            return Learner.run(self, block)

        def observe(self, losses: Any) -> None:
            super().observe(losses)
            told.append(self.round)

    rows = np.tile([1.0, 1.0, 0.0, 1.0], (200, 1))
    learner = Watched(learning_rate=1.0)
    learner.reset(GameSpec(4, 200), np.random.default_rng(0))
    learner.run(rows[:10])
    mass = learner.probabilities()[2]
    assert mass == pytest.approx(1.0 / (1.0 + 3.0 * math.exp(-10.0)), abs=1e-12)
    assert round(float(mass), 5) == 0.99986
    told.clear()
    match = dpe.play(learner, Table(rows), seed=0, record="choices")
    assert told == list(range(200))
    assert match.best_loss.tolist() == [0.0]
    # Beyond round 40 the other experts have mass below 3 e^-40.
    assert match.choices is not None
    assert match.choices[0, 40:].tolist() == [2] * 160


def test_mixing_adds_its_share_to_every_expert() -> None:
    """Weights (1, 1, 2) mixed with gamma = 0.3: (0.275, 0.275, 0.45)."""
    learner = dpe.make_learner("hedge", learning_rate=math.log(2.0), mixing=0.3)
    learner.reset(GameSpec(3, 2), np.random.default_rng(0))
    learner.run(np.array([[1.0, 1.0, 0.0]]))
    np.testing.assert_allclose(learner.probabilities(), [0.275, 0.275, 0.45], rtol=0, atol=1e-12)


def test_the_rate_of_the_round_multiplies_the_whole_loss() -> None:
    """Rates (1, 0.5, 0.5), losses (0, 1), (1, 0): log-weights (-0.5, -0.5) before round 3, as the docstring says.

    Before round 2 they are (0, -0.5): with each round at a rate of its own they would be (-0.5, -1) before round 3.
    """
    learner = dpe.make_learner("hedge", learning_rate=[1.0, 0.5, 0.5])
    learner.reset(GameSpec(2, 3), np.random.default_rng(0))
    learner.run(np.array([[0.0, 1.0]]))
    assert learner.probabilities()[0] == pytest.approx(1.0 / (1.0 + math.exp(-0.5)), abs=1e-12)
    learner.run(np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(learner.probabilities(), [0.5, 0.5], rtol=0, atol=1e-12)
    assert "current rate times cumulative loss" in (type(learner).__doc__ or "")


def test_a_deterministic_player_is_punishable() -> None:
    """Foreseer against follow-the-leader, N = 10, T = 1000: loss 1000, L* = 100, regret 900."""
    foe = dpe.make_adversary("foreseer", num_experts=10, horizon=1000)
    match = dpe.play(dpe.make_learner("follow_the_leader"), foe, seed=0)
    assert (match.learner_loss[0], match.best_loss[0], match.regret[0]) == (1000.0, 100.0, 900.0)


@pytest.mark.parametrize("name", dpe.learners())
def test_nothing_moves_before_the_reveal(name: str) -> None:
    """Permuting the losses of round t changes no choice up to round t, played in blocks or by rounds."""
    rows = np.random.default_rng(1).random((12, 4))
    learner = dpe.make_learner(name)

    class Seen(Table):
        """Plays round by round."""

        def emit(self) -> Any:
            return np.broadcast_to(super().emit(), (*self.game.shape, self.num_experts))

        def see(self, choices: Any) -> None:
            pass

    for cls in (Table, Seen):
        whole = dpe.play(learner, cls(rows), 20, seed=1, record="choices", override=True).choices
        for number in range(12):
            changed = rows.copy()
            changed[number] = changed[number, [2, 3, 0, 1]]
            other = dpe.play(learner, cls(changed), 20, seed=1, record="choices", override=True).choices
            assert whole is not None
            assert other is not None
            np.testing.assert_array_equal(other[:, : number + 1], whole[:, : number + 1])


def test_an_observation_never_shows_the_losses_to_come() -> None:
    rows = np.random.default_rng(1).random((6, 4))
    for number in range(6):
        changed = rows.copy()
        changed[number] = changed[number, ::-1]
        shown = []
        for table in (Table(rows), Table(changed)):
            observation, info = table.reset(seed=0)
            seen = [(observation, info)]
            for _ in range(number):
                observation, _, _, _, info = table.step(2)
                seen.append((observation, info))
            shown.append(seen)
        for (left, known), (right, also) in zip(*shown, strict=True):
            np.testing.assert_array_equal(left, right)
            assert repr(known) == repr(also)


@pytest.mark.parametrize("name", dpe.adversaries())
def test_what_names_no_expert_is_a_value_error(name: str) -> None:
    env = gym.make(dpe.env_id(name), disable_env_checker=True).unwrapped
    env.reset(seed=0)
    for action in (99 + env.action_space.n, -1):
        with pytest.raises(
            ValueError, match=rf"expected an expert in 0\.\.{env.action_space.n - 1} but found {action}"
        ):
            env.step(action)
    assert env.step(0)[4]["round"] == 1


def test_every_learner_meets_every_adversary_without_adapters() -> None:
    for name in (*dpe.learners(), *dpe.learners(leaky=True)):
        for other in dpe.adversaries():
            foe = dpe.make_adversary(other, horizon=12)
            for games in (None, 2):
                match = dpe.play(dpe.make_learner(name), foe, games, seed=0, override=True, record="choices")
                assert match.choices is not None
                assert match.choices.shape == (games or 1, 12)
                assert match.choices.min() >= 0
                assert match.choices.max() < foe.num_experts
                assert np.all(match.learner_loss <= 12.0)
