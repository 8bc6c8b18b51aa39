"""The privacy game: the rules of a pair, the environment that hides a bit, and many games at once.

Statistical tests state their false-alarm probability and sample size where they stand.
"""

import copy
import functools
import math
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from scipy import stats

import dp_experts_env as dpe
from dp_experts_env.adversary import seated
from dp_experts_env.privacy.game import (
    Pair,
    PrivacyGame,
    _pairs,
    covered,
    make_pair,
    pair_class,
    pairs,
    plain,
    register_pair,
    run_privacy_game,
)
from dp_experts_env.privacy.game import worlds as game_worlds


@pytest.fixture(autouse=True)
def pairs_as_found(monkeypatch):
    monkeypatch.setattr(_pairs, "_targets", dict(_pairs._targets))


class FlipOnce(Pair):
    """Nobody loses, but in one round everybody does on side 1."""

    def __init__(self, when=2, **game):
        super().__init__(**game)
        self.when = when

    def emit(self):
        losses = np.zeros(self.num_experts)
        return np.stack([losses, losses + (self.round + 1 == self.when)])


class ChargeLast(Pair):
    """Charges the last choice, and flips the round after the second choice of expert 0; adaptive, own losses."""

    def start(self):
        self.last = self.zeros(self.num_experts)
        self.seen = self.zeros()
        self.done = self.zeros() > 0

    def emit(self):
        now = (self.seen >= 2) & ~self.done
        self.done = self.done | now
        return np.stack([self.last, np.where(now[..., None], 1.0 - self.last, self.last)])

    def see(self, choices):
        self.last = self.one_hot(choices)
        self.seen = self.seen + (np.asarray(choices) == 0)


class LoopedCharge(ChargeLast):
    """The same, one game at a time."""

    batched = False


class Rows(Pair):
    """Emits what it is handed, whatever it is."""

    def __init__(self, rows=(), **game):
        super().__init__(**game)
        self.rows = rows

    def emit(self):
        return self.rows[self.round]


def begun(pair, seed=0):
    pair.reset(seed=seed)
    return pair


# -- the rules of a pair -----------------------------------------------------------------------------------------------

SAME = np.full((2, 2), 0.5)
DIFFERENT = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_sides_that_differ_twice_are_refused_with_both_rounds_named():
    pair = begun(Rows([SAME, DIFFERENT, SAME, DIFFERENT, SAME], num_experts=2, horizon=5))
    for expected in (0, 2, 2):
        pair.emit()
        assert pair.challenge == expected
    with pytest.raises(
        dpe.AdjacencyError, match=r"Rows\.emit of round 4: the two sides differ, .* already in round 2;"
    ):
        pair.emit()
    assert pair.challenge == 2
    assert pair.round == 3
    # Another move of the same round is free to be legal.
    pair.rows = [SAME] * 5
    pair.emit()
    assert pair.round == 4


def test_in_a_batch_each_game_has_one_round_and_the_game_is_named():
    rows = np.stack([np.stack([SAME] * 3, axis=1)] * 4)  # rounds, sides, games, experts
    rows[0, :, 1] = rows[1, :, 2] = rows[3, :, 2] = DIFFERENT
    pair = begun(Rows(rows, num_experts=2, horizon=4, num_games=3))
    pair.emit()
    assert pair.challenge.tolist() == [0, 1, 0]
    pair.emit()
    pair.emit()
    held = pair.challenge
    assert held.tolist() == [0, 1, 2]
    with pytest.raises(dpe.AdjacencyError, match=r"round 4: the two sides differ in game 2, .* already in round 2"):
        pair.emit()
    assert pair.challenge.tolist() == [0, 1, 2]
    held[:] = 7
    assert pair.challenge.tolist() == [0, 1, 2]


def test_sides_shared_by_all_games_challenge_them_all():
    pair = begun(FlipOnce(when=1, num_experts=3, horizon=2, num_games=4))
    assert pair.emit().shape == (2, 3)
    assert pair.challenge.tolist() == [1] * 4


@pytest.mark.parametrize("side", [0, 1])
def test_zero_out_wants_zeros_on_one_side(side):
    zeroed = np.zeros((2, 2))
    zeroed[side] = (0.25, 1.0)
    pair = begun(Rows([zeroed], num_experts=2, horizon=1, adjacency="zero_out"))
    pair.emit()
    assert pair.challenge == 1
    batch = np.stack([zeroed, DIFFERENT], axis=1)
    pair = begun(Rows([batch], num_experts=2, horizon=1, num_games=2, adjacency=dpe.Adjacency.ZERO_OUT))
    with pytest.raises(dpe.AdjacencyError, match=r"round 1: the two sides differ in game 1 but neither is all zeros"):
        pair.emit()
    assert pair.challenge.tolist() == [0, 0]
    assert pair.round == 0


@pytest.mark.parametrize(
    ("rows", "games", "message"),
    [
        (np.zeros(2), None, r"Rows\.emit of round 1: expected both sides, shape \(2, 2\), but found \(2,\)"),
        (np.zeros((3, 2)), None, r"expected both sides, shape \(2, 2\), but found \(3, 2\)"),
        (np.zeros((2, 3)), None, r"Rows\.emit, side 0, of round 1: expected shape \(2,\) but found \(3,\)"),
        (np.zeros((2, 2, 2)), None, r"side 0, of round 1: expected shape \(2,\)"),
        (np.zeros((1, 2)), 2, r"shape \(2, 2\) or \(2, 2, 2\), but found \(1, 2\)"),
        ([np.zeros(2), np.zeros(3)], None, r"round 1: expected two sides of one shape"),
        ([[0.0, 1.0], [0.0, 1.5]], None, r"side 1, of round 1, expert 1: expected a loss in \[0, 1\] but found 1\.5"),
        ([[0.0, math.nan], [0.0, 1.0]], None, r"side 0, of round 1, expert 1: .* found nan"),
        (np.array([["a", "b"]] * 2), None, r"side 0, of round 1: expected numbers"),
        (
            [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [-1.0, 0.0]]],
            2,
            r"side 1, of round 1, game 1, expert 0: expected a loss in \[0, 1\] but found -1\.0",
        ),
    ],
)
def test_what_is_wrong_with_a_side_is_named(rows, games, message):
    pair = begun(Rows([rows], num_experts=2, horizon=1, num_games=games))
    with pytest.raises(dpe.LossError, match=message):
        pair.emit()
    assert pair.round == 0


def test_an_adaptive_pair_that_emits_one_game_in_a_batch_is_refused():
    class Narrow(ChargeLast):
        def emit(self):
            return np.zeros((2, self.num_experts))

    pair = begun(Narrow(num_games=3))
    with pytest.raises(
        dpe.LossError, match=r"must emit shape \(2, 3, 4\) in a batch but found \(2, 4\).*batched = Fal"
    ):
        pair.emit()


def test_the_order_of_calls_is_kept():
    with pytest.raises(dpe.ProtocolError, match=r"expected reset\(\) first"):
        FlipOnce().emit()
    pair = begun(FlipOnce(horizon=1))
    pair.emit()
    with pytest.raises(dpe.ProtocolError, match="horizon 1"):
        pair.emit()
    pair = begun(ChargeLast())
    pair.emit()
    with pytest.raises(dpe.ProtocolError, match=r"expected see\(\) to end round 1"):
        pair.emit()


def test_a_pair_is_no_environment_and_no_adversary():
    pair = begun(FlipOnce())
    with pytest.raises(dpe.ProtocolError, match=r"PrivacyGame\(pair\)"):
        pair.step(0)
    with pytest.raises(dpe.ProtocolError, match="round by round"):
        pair.emit_block(2)
    for refused in (
        lambda: dpe.play(dpe.make_learner("hedge"), pair, seed=0),
        lambda: dpe.AdversaryVectorEnv(ChargeLast(), 2).reset(seed=0),
        lambda: seated(pair, None),
    ):
        with pytest.raises(dpe.ArgumentError, match=r"found the pair .*run_privacy_game"):
            refused()


def test_what_is_emitted_is_fresh_and_a_reset_forgets_the_challenge():
    pair = begun(ChargeLast(num_experts=2, horizon=6))
    for _ in range(4):
        pair.emit()[:] = 9.0
        pair.see(0)
    assert pair.last.max() <= 1.0
    assert pair.challenge == 3
    pair.reset(seed=1)
    assert pair.challenge == 0


def test_defaults_parameters_and_pickles():
    pair = FlipOnce(when=3, num_experts=5, adjacency="zero_out")
    assert (pair.num_experts, pair.horizon, pair.kind, pair.adjacency) == (5, 20, "oblivious", dpe.Adjacency.ZERO_OUT)
    assert repr(pair) == "FlipOnce(when=3, num_experts=5, adjacency='zero_out')"
    assert pair.clone(num_games=2).adjacency is dpe.Adjacency.ZERO_OUT
    assert (FlipOnce().num_experts, FlipOnce().adjacency, ChargeLast().kind) == (4, dpe.Adjacency.REPLACE, "adaptive")
    with pytest.raises(dpe.UnknownNameError, match="adjacency"):
        FlipOnce(adjacency="replaced")
    begun(pair).emit()
    for twin in (pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair)):
        twin.emit()
        twin.emit()
        assert twin.challenge == 3
    assert pair.round == 1


# -- registry ----------------------------------------------------------------------------------------------------------


def test_pairs_are_made_by_name():
    assert set(pairs()) == {*pairs("oblivious"), *pairs("adaptive")}
    assert {"replace_round", "leader_flip", "first_round", "last_round", "suffix_push", "worst_for_hedge"} <= set(
        pairs()
    )
    assert "leader_flip" in pairs("adaptive")
    assert "first_round" in pairs("oblivious")
    register_pair("flip_once", FlipOnce)
    assert "flip_once" in pairs()
    assert pair_class("flip_once") is FlipOnce
    assert make_pair("flip_once", when=3, horizon=9).horizon == 9
    for refused, message in (
        (lambda: make_pair("flip_twice"), "pair: unknown name 'flip_twice'; did you mean 'flip_once'"),
        (lambda: make_pair("flip_once", whem=3), "did you mean 'when'"),
        (lambda: pairs("stochastic"), "kind: unknown name"),
    ):
        with pytest.raises(dpe.UnknownNameError, match=message):
            refused()
    with pytest.raises(dpe.ArgumentError, match="expected a subclass of Pair"):
        register_pair("bernoulli", dpe.adversary_class("bernoulli"))


# -- the environment ---------------------------------------------------------------------------------------------------


BUILDS = (FlipOnce, ChargeLast, LoopedCharge, *(functools.partial(make_pair, name) for name in pairs()))


@pytest.mark.parametrize("build", BUILDS)
def test_the_checker_of_gymnasium_is_content(build):
    """Warnings are errors here."""
    check_env(PrivacyGame(build()))
    game = PrivacyGame(build(), bit=1)
    made = gym.make(EnvSpec.from_json(game.spec.to_json()))
    assert isinstance(made.unwrapped, PrivacyGame)
    assert made.unwrapped._fixed == 1
    assert repr(made.unwrapped._pair) == repr(game._pair)


@pytest.mark.parametrize("build", BUILDS)
def test_the_checker_of_stable_baselines_is_content(build):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(PrivacyGame(build()))


def played(game, seed, actions):
    """Everything that an environment shows in a game."""
    observation, info = game.reset(seed=seed)
    shown = [observation.tolist(), {key: np.array(value).tolist() for key, value in info.items()}]
    for action in actions:
        observation, reward, terminated, truncated, info = game.step(action)
        shown += [observation.tolist(), reward, terminated, truncated, game.render(), repr(game), str(game)]
        shown += [{key: np.array(value).tolist() for key, value in info.items()}]
    return shown


@pytest.mark.parametrize("bit", [0, 1])
def test_nothing_shows_the_other_side(bit):
    """The whole trace stays as it is when the other side becomes another."""
    rows = np.random.default_rng(0).random((6, 2, 3)).round(2)
    rows[:, 1] = rows[:, 0]
    rows[3, 1] = (1.0, 0.0, 0.5)
    others = rows.copy()
    others[3, 1 - bit] = (0.125, 0.25, 0.0)

    class Hidden(Pair):
        script = rows

        def emit(self):
            return self.script[self.round]

    actions = [0, 1, 2, 0, 1, 2]
    traces = []
    for script in (rows, others):
        Hidden.script = script
        game = PrivacyGame(Hidden(num_experts=3, horizon=6, render_mode="ansi"), bit=bit)
        traces.append(played(game, 5, actions))
        assert game.reveal() == bit
    assert traces[0] == traces[1]
    assert [row["losses"] for row in traces[0] if isinstance(row, dict)][1:] == rows[:, bit].tolist()
    assert "round 6/6" in traces[0][-4]


def test_before_the_challenge_both_worlds_look_alike():
    worlds = [played(PrivacyGame(FlipOnce(when=9, render_mode="ansi"), bit=bit), 3, [1] * 8) for bit in (0, 1)]
    assert worlds[0] == worlds[1]


def test_reward_observation_and_information_are_those_of_the_side():
    game = PrivacyGame(FlipOnce(when=2, num_experts=3, horizon=3), bit=1)
    game.reset(seed=0)
    game.step(0)
    observation, reward, terminated, truncated, info = game.step(2)
    assert observation == pytest.approx([1, 1, 1, 2 / 3])
    assert observation in game.observation_space
    assert (reward, terminated, truncated) == (-1.0, False, False)
    assert info["losses"].tolist() == [1.0, 1.0, 1.0]
    assert (info["regret"], info["best_loss"], info["learner_loss"], info["round"]) == (0.0, 1.0, 1.0, 2)
    assert game.step(0)[2]
    with pytest.raises(dpe.ProtocolError, match="horizon"):
        game.step(0)


def test_the_bit_is_hidden_until_the_end():
    game = PrivacyGame(FlipOnce(horizon=3))
    for _ in range(2):
        with pytest.raises(dpe.ProtocolError, match="the bit is hidden until round 3 has been played; 0 were"):
            game.reveal()
        with pytest.raises(dpe.ProtocolError, match=r"expected reset\(\)|horizon"):
            [game.step(0) for _ in range(4)]
        game.reset(seed=0)
    game = PrivacyGame(FlipOnce(horizon=3))
    game.reset(seed=0)
    game.step(0)
    game.step(0)
    with pytest.raises(dpe.ProtocolError, match="2 were"):
        game.reveal()
    game.step(0)
    assert game.reveal() in (0, 1)
    assert game.reveal() == game.reveal()
    shown = vars(game)
    assert {name for name, value in shown.items() if isinstance(value, int) and not isinstance(value, bool)} == {"_bit"}


def bits(games, reseeded):
    game = PrivacyGame(FlipOnce(when=1, num_experts=2, horizon=1))
    found = []
    for number in range(games):
        game.reset(seed=number if reseeded or number == 0 else None)
        game.step(0)
        found.append(game.reveal())
    return np.array(found)


@pytest.mark.parametrize("reseeded", [True, False])
def test_the_bit_is_a_fair_coin_and_a_function_of_the_seed(reseeded):
    """2000 coins: more than 115 from the mean of 1000 has probability below 5e-7 (5.1 standard deviations)."""
    found = bits(2000, reseeded)
    assert abs(found.sum() - 1000) <= 115
    assert np.array_equal(found, bits(2000, reseeded))


def test_the_bit_has_a_stream_of_its_own():
    """2000 games: the bit is as good as independent of the pair's first coin, |correlation| below 5.1/sqrt(2000)
    but for probability 5e-7; and the pair's coins are what they are without the game."""

    class Coin(Pair):
        def start(self):
            self.coin = self.np_random.random()
            self.spawned = self.np_random.spawn(2)[0].random()

        def emit(self):
            return np.zeros((2, self.num_experts))

    coins, children, drawn = [], [], []
    for seed in range(2000):
        game = PrivacyGame(Coin(horizon=1))
        game.reset(seed=seed)
        game.step(0)
        coins.append(game._pair.coin)
        children.append(game._pair.spawned)
        drawn.append(game.reveal())
    for found in (coins, children):
        assert abs(np.corrcoef(found, drawn)[0, 1]) < 5.1 / math.sqrt(2000)
    assert coins[7] == begun(Coin(horizon=1), 7).coin


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": 3}, "env: expected a Pair but found 3"),
        ({"env": gym.make("dp_experts/Bernoulli-v0")}, "expected a Pair"),
        ({"env": FlipOnce(num_games=2)}, "num_games=None"),
        ({"env": FlipOnce(), "bit": 2}, "bit: expected an integer <= 1"),
        ({"env": FlipOnce(), "bit": "0"}, "bit: expected an integer"),
    ],
)
def test_a_game_refuses_what_it_cannot_play(arguments, message):
    with pytest.raises(dpe.ArgumentError, match=message):
        PrivacyGame(**arguments)


def test_a_bad_action_changes_nothing():
    game = PrivacyGame(ChargeLast(horizon=4), bit=0)
    game.reset(seed=0)
    with pytest.raises(dpe.ChoiceError, match="action of round 1"):
        game.step(4)
    game.step(0)
    assert game.unwrapped._pair.round == 1


def test_a_game_pickles_midway():
    game = PrivacyGame(make_pair("suffix_push"))
    game.reset(seed=4)
    game.step(1)
    twins = [pickle.loads(pickle.dumps(game)), copy.deepcopy(game), game]
    traces = [[twin.step(1)[0].tolist() for _ in range(19)] for twin in twins]
    assert traces[0] == traces[1] == traces[2]
    assert len({twin.reveal() for twin in twins}) == 1


# -- many games --------------------------------------------------------------------------------------------------------


def seeds(seed, chunks):
    """The documented tree: the pair's chunks, then for each world the learner's and the scores'."""
    pair_root, *worlds = np.random.SeedSequence(seed).spawn(3)
    pair_seeds = pair_root.spawn(chunks)
    return pair_seeds, [[child.spawn(chunks) for child in world.spawn(2)] for world in worlds]


LEARNERS = (
    "private_hedge",
    "private_dartboard",
    "realizable",
    "small_loss",
    "gaussian_leader",
    "leaky_perturbed_leader",
)


@pytest.mark.parametrize("build", BUILDS)
def test_many_games_equal_a_loop_of_single_games(monkeypatch, build):
    """Chunks of one game, choice for choice, note for note, in both worlds."""
    monkeypatch.setattr(game_worlds, "GAMES_PER_CHUNK", 1)
    pair, count = build(horizon=9), 6
    spec = dpe.GameSpec(4, 9)
    for name in LEARNERS:
        worlds = run_privacy_game(dpe.make_learner(name), pair, count, seed=11, view="transcript")
        pair_seeds, world_seeds = seeds(11, count)
        for bit, (outcomes, (learner_seeds, _)) in enumerate(zip(worlds, world_seeds, strict=True)):
            for number in range(count):
                game = PrivacyGame(pair.clone(), bit=bit)
                # A copy of the seed, since a pair that spawns leaves a mark on it.
                game.np_random = np.random.default_rng(copy.deepcopy(pair_seeds[number]))
                game.reset()
                learner = dpe.make_learner(name)
                learner.reset(spec, np.random.default_rng(copy.deepcopy(learner_seeds[number])))
                for row in outcomes.symbols[number]:
                    learner._notes = {}
                    choice = learner.act()
                    noted = [int(values[0]) for values in learner._notes.values()]
                    assert row.tolist() == [*noted, choice]
                    *_, info = game.step(choice)
                    learner.observe(info["losses"])
                assert outcomes.challenge[number] == game._pair.challenge


class HedgeByHand:
    """A batch of games in plain Python: one loop over rounds, games and experts."""

    def __init__(self, rate, experts, rounds, games, rng):
        self.rate, self.experts, self.rounds, self.games, self.rng = rate, experts, rounds, games, rng

    def play(self, sides, bit):
        """``sides(round, game, past choices)`` gives both loss lists."""
        totals = [[0.0] * self.experts for _ in range(self.games)]
        choices = [[] for _ in range(self.games)]
        for t in range(self.rounds):
            uniforms = self.rng.random(self.games)
            for g in range(self.games):
                weights = [math.exp(-self.rate * (total - min(totals[g]))) for total in totals[g]]
                level, passed = uniforms[g] * sum(weights), 0.0
                losses = sides(t, g, choices[g])[bit]
                for expert, weight in enumerate(weights):
                    passed += weight
                    if passed > level:
                        choices[g].append(expert)
                        break
                totals[g] = [total + loss for total, loss in zip(totals[g], losses, strict=True)]
        return choices


def charge_last_by_hand(t, g, past):
    last = [float(bool(past) and past[-1] == expert) for expert in range(4)]
    twice = [number for number in range(len(past)) if past[: number + 1].count(0) >= 2]
    changed = bool(twice) and t == twice[0] + 1
    return last, [1.0 - loss for loss in last] if changed else last


def flip_once_by_hand(t, g, past):
    return [0.0] * 4, [float(t == 1)] * 4


@pytest.mark.parametrize(("pair", "sides"), [(ChargeLast(), charge_last_by_hand), (FlipOnce(), flip_once_by_hand)])
def test_many_games_equal_a_reference_in_plain_python(monkeypatch, pair, sides):
    """Own losses and shared ones; two chunks of 300 and 100 games."""
    monkeypatch.setattr(game_worlds, "GAMES_PER_CHUNK", 300)
    learner = dpe.make_learner("private_hedge", epsilon=20.0)
    worlds = run_privacy_game(learner, pair, 400, seed=3)
    rate = learner.learning_rate(dpe.GameSpec(4, 20))
    _, world_seeds = seeds(3, 2)
    for bit, (outcomes, (learner_seeds, _)) in enumerate(zip(worlds, world_seeds, strict=True)):
        assert outcomes.symbols.shape == (400, 20, 1)
        assert outcomes.symbols.dtype == np.uint8
        assert outcomes.columns == ("choice",)
        for chunk, (first, games) in enumerate(((0, 300), (300, 100))):
            hand = HedgeByHand(rate, 4, 20, games, np.random.default_rng(learner_seeds[chunk]))
            assert outcomes.symbols[first : first + games, :, 0].tolist() == hand.play(sides, bit)


def test_the_result_does_not_depend_on_the_number_of_workers(monkeypatch):
    monkeypatch.setattr(game_worlds, "GAMES_PER_CHUNK", 50)
    learner, pair = dpe.make_learner("realizable"), make_pair("suffix_push")
    results = [
        run_privacy_game(learner, pair, 120, seed=2, view="transcript", score=Sum, workers=workers, progress=False)
        for workers in (1, 2)
    ]
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one.symbols, two.symbols)
        assert np.array_equal(one.challenge, two.challenge)
        assert np.array_equal(one.score, two.score)
        assert one.columns == two.columns == ("above", "kept", "choice")


def test_a_pair_written_for_one_game_is_looped():
    """Game by game it equals the batched class."""
    learner = dpe.make_learner("hedge")
    batched, copies = (run_privacy_game(learner, pair, 50, seed=1) for pair in (ChargeLast(), LoopedCharge()))
    for outcomes, others in zip(batched, copies, strict=True):
        assert np.array_equal(outcomes.symbols, others.symbols)
        assert np.array_equal(outcomes.challenge, others.challenge)


def test_two_worlds_two_noises():
    """1000 runs: the learner's draws in the two worlds, and in neighbouring chunks, are uncorrelated.

    20,000 pairs of draws; |correlation| >= 5.1/sqrt(20000) has probability below 5e-7 each.
    """
    zero, one = run_privacy_game(dpe.make_learner("uniform"), FlipOnce(when=20), 1000, seed=0)
    limit = 5.1 / math.sqrt(20_000)
    assert abs(np.corrcoef(zero.symbols.ravel(), one.symbols.ravel())[0, 1]) < limit
    assert not np.array_equal(zero.symbols, one.symbols)


def test_chunks_have_streams_of_their_own(monkeypatch):
    """As above, for 20 chunks of 50 games."""
    monkeypatch.setattr(game_worlds, "GAMES_PER_CHUNK", 50)
    zero, one = run_privacy_game(dpe.make_learner("uniform"), FlipOnce(when=20), 1050, seed=0)
    limit = 5.1 / math.sqrt(20_000)
    for first, second in ((zero, zero), (one, one), (zero, one)):
        pairs_of_draws = first.symbols[:-50].ravel(), second.symbols[50:].ravel()
        assert abs(np.corrcoef(*pairs_of_draws)[0, 1]) < limit


def test_without_a_seed_no_two_runs_are_alike():
    """20 rounds of 100 fair draws of four agree with probability 4^-2000."""
    runs = [run_privacy_game(dpe.make_learner("uniform"), FlipOnce(), 100)[0].symbols for _ in range(2)]
    assert not np.array_equal(*runs)
    again = [run_privacy_game(dpe.make_learner("uniform"), FlipOnce(), 100, seed=5)[0].symbols for _ in range(2)]
    assert np.array_equal(*again)


class OneCoin(Pair):
    """Draws one coin for all games of a batch, as no author should: who always loses. The sides never differ."""

    def start(self):
        self.loser = int(self.np_random.integers(2))

    def emit(self):
        losses = np.zeros((*self.game.shape, self.num_experts))
        losses[..., self.loser] = 1.0
        return np.stack([losses, losses])

    def see(self, choices):
        pass


def test_a_pairs_coins_never_tell_the_worlds_apart():
    """Follow-the-leader avoids the loser that one coin of the pair has named: the worlds must agree on it.

    Over 20 seeds independent coins would agree every time with probability 2^-20 < 1e-6.
    """
    for seed in range(20):
        zero, one = run_privacy_game(dpe.make_learner("follow_the_leader"), OneCoin(num_experts=2), 10, seed=seed)
        assert np.array_equal(zero.symbols, one.symbols)
        assert not zero.challenge.any()


@pytest.mark.parametrize(
    ("name", "keywords", "identical"),
    [
        ("first_round", {}, True),
        ("leader_flip", {}, True),
        ("suffix_push", {"threshold": 5.0}, True),
        ("suffix_push", {}, False),
        ("replace_round", {"adversary": "bernoulli"}, False),
    ],
)
def test_games_whose_pair_flips_coins_are_marked(name, keywords, identical):
    worlds = dpe.run_privacy_game(dpe.make_learner("uniform"), dpe.make_pair(name, **keywords), 5, seed=0)
    assert [world.identical for world in worlds] == [identical, identical]


def test_the_view_of_an_event_has_the_right_law():
    """Hedge's choice of round 2 in 200,000 games a world against its exact law: chi-square, false alarm 1e-7 each."""
    learner = dpe.make_learner("private_hedge", epsilon=30.0)
    pair = make_pair("first_round", split="one", horizon=3)
    rate = learner.learning_rate(dpe.GameSpec(4, 3))
    for losses, outcomes in zip(
        ([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]), run_privacy_game(learner, pair, 200_000, seed=8), strict=True
    ):
        law = np.exp(-rate * np.array(losses))
        counts = np.bincount(outcomes.symbols[:, 1, 0], minlength=4)
        assert stats.chisquare(counts, 200_000 * law / law.sum()).pvalue > 1e-7
        assert (outcomes.challenge == 1).all()


def test_neither_side_is_changed():
    learner, pair = dpe.make_learner("realizable"), make_pair("suffix_push")
    before = pickle.dumps((learner, pair))
    seed = np.random.SeedSequence(4)
    first = run_privacy_game(learner, pair, 30, seed=seed, view="transcript")
    assert pickle.dumps((learner, pair)) == before
    assert seed.n_children_spawned == 0
    second = run_privacy_game(learner, pair, 30, seed=seed, view="transcript")
    assert np.array_equal(first[0].symbols, second[0].symbols)


# -- views and scores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*dpe.learners(), *dpe.learners(leaky=True)])
def test_every_learner_plays_in_both_views(name):
    """The transcript holds what is noted, then the choices; and the choices are the same in both views."""
    learner = dpe.make_learner(name)
    views = [
        run_privacy_game(learner, make_pair("first_round", horizon=12), 7, seed=6, view=view, override=True)
        for view in ("choices", "transcript")
    ]
    for seen, told in zip(*views, strict=True):
        assert seen.columns == ("choice",)
        assert told.columns[-1] == "choice"
        assert np.array_equal(seen.symbols[..., -1], told.symbols[..., -1])
        assert seen.symbols.shape[:2] == told.symbols.shape[:2] == (7, 12)
        assert told.symbols.dtype.kind == "u"


class Noting(dpe.Learner):
    """Notes what it is told to."""

    def __init__(self, notes=None):
        self.notes = notes

    def act(self):
        for name, values in (self.notes or (lambda *_: {}))(self.round, self.spec).items():
            self.note(name, values)
        return np.zeros(self.spec.shape, dtype=np.int64)


def wide(round, spec):
    (games,) = spec.shape
    return {
        "coin": np.arange(games) % 2 == 0,
        "table": np.arange(games * 6).reshape(games, 2, 3) + 70_000 * round,
        "small": np.full(games, round, dtype=np.uint8),
    }


def test_notes_become_columns_and_the_dtype_fits():
    zero, _ = run_privacy_game(Noting(wide), FlipOnce(horizon=3), 2, seed=0, view="transcript")
    assert zero.columns == ("coin", *(f"table[{column}]" for column in range(6)), "small", "choice")
    assert zero.symbols.dtype == np.uint32
    assert zero.symbols[0, :, 0].tolist() == [1, 1, 1]
    assert zero.symbols[1, :, 0].tolist() == [0, 0, 0]
    assert zero.symbols[1, 2, 1:7].tolist() == [140_006 + column for column in range(6)]
    assert zero.symbols[:, 2, 7].tolist() == [2, 2]
    assert run_privacy_game(Noting(wide), FlipOnce(horizon=3), 2, view="choices")[0].symbols.dtype == np.uint8


def test_both_worlds_have_one_dtype(monkeypatch):
    monkeypatch.setattr(game_worlds, "GAMES_PER_CHUNK", 2)

    class Tally(Noting):
        def start(self):
            self.total = np.zeros(self.spec.shape)

        def act(self):
            self.note("total", (300 * self.total).astype(np.int64))
            return np.zeros(self.spec.shape, dtype=np.int64)

        def observe(self, losses):
            self.total = self.total + losses[..., 0]

    worlds = run_privacy_game(Tally(), FlipOnce(), 3, seed=0, view="transcript")
    assert [world.symbols.dtype for world in worlds] == [np.uint16] * 2
    assert [int(world.symbols.max()) for world in worlds] == [0, 300]


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        (
            lambda t, s: {"x": np.full(s.shape, 0.5)},
            r"note 'x' of round 1: expected booleans or integers >= 0 .*float64",
        ),
        (lambda t, s: {"x": np.full(s.shape, 1 - t)}, r"note 'x' of round 3: .* but found -1"),
        (lambda t, s: {"x": np.zeros(3, dtype=bool)}, r"note 'x' of round 1: expected shape \(5,\)"),
        (lambda t, s: {"x": True}, r"expected shape \(5,\) or more axes but found \(\)"),
        (lambda t, s: {f"x{t}": np.zeros(s.shape, bool)}, r"notes of round 2: expected \('x0',\) as in .* \('x1',\)"),
        (lambda t, s: {"x": np.zeros((*s.shape, 1 + t), bool)}, r"notes of round 2: .*'x\[0\]', 'x\[1\]'"),
        (lambda t, s: {} if t else {"x": np.zeros(s.shape, bool)}, r"notes of round 2: expected \('x',\)"),
    ],
)
def test_notes_that_are_no_symbols_are_refused(notes, message):
    with pytest.raises(dpe.ArgumentError, match=message):
        run_privacy_game(Noting(notes), FlipOnce(), 5, seed=0, view="transcript")
    run_privacy_game(Noting(notes), FlipOnce(), 5, seed=0)


def test_a_note_that_is_made_twice_in_a_round_is_refused():
    class Twice(Noting):
        def act(self):
            self.note("x", np.zeros(self.spec.shape, dtype=bool))
            return super().act()

    twice = Twice(lambda t, s: {"x": np.zeros(s.shape, dtype=bool)})
    with pytest.raises(dpe.ArgumentError, match="note 'x' of round 1: expected one value a round but found 2"):
        run_privacy_game(twice, FlipOnce(), 5, seed=0, view="transcript")


class Sum:
    """Adds up what it sees, in a way that is easily redone."""

    def __init__(self, spec, rng):
        self.spec, self.total = spec, rng.random(spec.shape)

    def round(self, sides, choices, notes):
        assert sides.shape in ((2, self.spec.num_experts), (2, self.spec.num_games, self.spec.num_experts))
        assert choices.shape == self.spec.shape
        self.total = self.total + 10.0 * choices + 1000.0 * (sides[0] != sides[1]).any()
        self.total = self.total + sum(100.0 * np.asarray(values) for values in notes.values())

    def result(self):
        return self.total


@pytest.mark.parametrize(("view", "noted"), [("choices", False), ("transcript", True)])
def test_a_score_sees_what_the_view_shows(view, noted):
    worlds = run_privacy_game(dpe.make_learner("private_dartboard"), FlipOnce(), 40, seed=1, view=view, score=Sum)
    _, world_seeds = seeds(1, 1)
    for outcomes, (_, score_seeds) in zip(worlds, world_seeds, strict=True):
        fractions = np.random.default_rng(score_seeds[0]).random(40)
        whole = 10.0 * outcomes.symbols[..., -1].sum(1) + 1000.0
        if noted:
            assert outcomes.columns == ("kept", "choice")
            whole = whole + 100.0 * outcomes.symbols[..., 0].sum(1)
        assert outcomes.score == pytest.approx(fractions + whole)


def test_the_score_is_none_without_one():
    assert run_privacy_game(dpe.make_learner("uniform"), FlipOnce(), 3)[0].score is None


# -- who may meet whom -------------------------------------------------------------------------------------------------


class Claims(dpe.Learner):
    """Claims what it is told to."""

    def __init__(self, against="adaptive", adjacency="replace"):
        self.against, self.adjacency = against, adjacency

    def act(self):
        return np.zeros(self.spec.shape, dtype=np.int64)

    def guarantee(self, spec):
        return dpe.Guarantee(1.0, 0.0, self.adjacency, self.against)


@pytest.mark.parametrize(
    ("learner", "pair", "message"),
    [
        (Claims("oblivious"), ChargeLast(), "against oblivious adversaries only, but this pair is adaptive"),
        (Claims(adjacency="zero_out"), FlipOnce(), 'adjacency "zero_out" only, but this pair may replace'),
        (dpe.make_learner("private_hedge", method="optimal"), make_pair("leader_flip"), "oblivious adversaries only"),
    ],
)
def test_a_pair_outside_the_claim_is_refused(learner, pair, message):
    with pytest.raises(dpe.AdversaryModelError, match=message):
        run_privacy_game(learner, pair, 2, seed=0)
    assert covered(learner, pair, override=True) is None
    zero, one = run_privacy_game(learner, pair, 2, seed=0, override=True)
    assert len(zero.challenge) == len(one.challenge) == 2


def test_a_pair_inside_the_claim_is_met():
    for learner, pair in (
        (Claims("oblivious"), FlipOnce()),
        (Claims(), ChargeLast()),
        (Claims(), FlipOnce(adjacency="zero_out")),
        (Claims(adjacency="zero_out"), FlipOnce(adjacency="zero_out")),
    ):
        claim = learner.guarantee(dpe.GameSpec(4, 20))
        assert covered(learner, pair) == covered(learner, pair, override=True) == claim
        run_privacy_game(learner, pair, 2, seed=0)
    assert covered(dpe.make_learner("hedge"), ChargeLast()) is None


class PlainUniform:
    """Knows nothing of the package."""

    def __init__(self, experts, rng):
        self.experts, self.rng, self.total = experts, rng, 0.0

    def act(self):
        return int(self.rng.integers(self.experts))

    def observe(self, losses):
        self.total += losses.sum()


def plain_uniform(spec, rng):
    return PlainUniform(spec.num_experts, rng)


def test_a_third_partys_object_plays():
    claim = dpe.Guarantee(0.0)
    learner = plain(plain_uniform, claim)
    assert covered(learner, FlipOnce()) == claim
    assert plain(plain_uniform).guarantee(dpe.GameSpec(2, 3)) is None
    zero, one = run_privacy_game(learner, ChargeLast(), 1, seed=0)
    reference, _ = run_privacy_game(dpe.make_learner("uniform"), ChargeLast(), 1, seed=0)
    assert np.array_equal(zero.symbols, reference.symbols)
    assert not np.array_equal(zero.symbols, one.symbols)
    many, _ = run_privacy_game(learner, ChargeLast(), 30, seed=0, workers=2)
    assert len({game.tobytes() for game in many.symbols}) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"learner": PlainUniform(2, None)},
            r"plain\(factory\) seats any object that has act\(\) and observe\(losses\)",
        ),
        ({"learner": "private_hedge"}, "learner: expected a Learner"),
        ({"pair": "first_round"}, r"pair: expected a Pair but found 'first_round'; make_pair\(name\)"),
        ({"pair": dpe.make_adversary("bernoulli")}, "pair: expected a Pair"),
        ({"num_games": 0}, "num_games: expected an integer >= 1"),
        ({"seed": -1}, "seed: expected"),
        ({"view": "coins"}, "view: unknown name 'coins'"),
        ({"score": 3}, "score: expected a function"),
        ({"override": 1}, "override: expected True or False"),
        ({"progress": "yes"}, "progress: expected True or False"),
        ({"workers": 0}, "workers: expected an integer >= 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    given = {"learner": Claims(), "pair": FlipOnce(), "num_games": 2, **arguments}
    with pytest.raises(dpe.ArgumentError, match=message):
        run_privacy_game(given.pop("learner"), given.pop("pair"), given.pop("num_games"), **given)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: plain(3), r"factory: expected a function of \(spec, rng\) but found 3"),
        (lambda: plain(plain_uniform, 1.0), "claim: expected a Guarantee or None"),
        (lambda: run_privacy_game(plain(lambda spec, rng: object()), FlipOnce(), 1), "act is missing"),
    ],
)
def test_a_factory_that_builds_no_player_is_named(build, message):
    with pytest.raises(dpe.ArgumentError, match=message):
        build()


def test_a_learner_that_breaks_the_rules_is_named():
    class Outside(Claims):
        def act(self):
            return np.full(self.spec.shape, 4)

    with pytest.raises(dpe.ChoiceError, match=r"Outside\.act of round 1 in game 0"):
        run_privacy_game(Outside(), FlipOnce(), 2)


# -- a pair of one's own -----------------------------------------------------------------------------------------------


class FlipFavourite(Pair):
    """Swaps the first two experts' losses once the learner has named one of them ``patience`` times."""

    def __init__(self, patience=3, **game):
        super().__init__(**game)
        self.patience = patience

    def start(self):
        self.counts = self.zeros(2)
        self.done = self.zeros() > 0

    def emit(self):
        now = (self.counts.max(-1) >= self.patience) & ~self.done
        self.done = self.done | now
        losses = self.zeros(self.num_experts)
        losses[..., 0] = now
        return np.stack([losses, losses[..., [1, 0, *range(2, self.num_experts)]]])

    def see(self, choices):
        self.counts += self.one_hot(choices)[..., :2]


def test_a_pair_of_twenty_lines_is_registered_and_played():
    register_pair("flip_favourite", FlipFavourite)
    pair = make_pair("flip_favourite", patience=2, horizon=15)
    zero, one = run_privacy_game(dpe.make_learner("leaky_copy_last"), pair, 20, seed=0)
    # The copy names expert 0 in rounds 1 and 2; the third round differs and the fourth choice tells.
    assert (zero.challenge == 3).all()
    assert (zero.symbols[:, 3, 0] == 1).all()
    assert (one.symbols[:, 3, 0] == 0).all()
    check_env(PrivacyGame(pair))
