"""The native vector environment against Gymnasium's own vector of single environments, step by step."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import dp_experts_env as dpe
from dp_experts_adversaries.adaptive import Foreseer, PunishLeader, PunishLikely
from dp_experts_adversaries.oblivious import Alternating, Switching
from dp_experts_adversaries.replay import Replay
from dp_experts_adversaries.smooth import SmoothThreshold
from dp_experts_adversaries.stochastic import Bernoulli, Planted
from dp_experts_env import AdversaryVectorEnv

MODES = list(AutoresetMode)
N, T = 4, 5


class OneGameOnly(dpe.Adversary):
    """Random and adaptive, written for a single game."""

    batched = False

    def start(self):
        self.rates = self.np_random.random(self.num_experts)

    def emit(self):
        return (self.np_random.random(self.num_experts) < self.rates).astype(float)

    def see(self, choices):
        self.rates[choices] = min(1.0, self.rates[choices] + 0.25)


class Constant(dpe.Adversary):
    """Loss 1 for everyone: the bookkeeping case."""

    def emit(self):
        return np.ones(self.num_experts)


FOES = {
    "bernoulli": Bernoulli(num_experts=N, horizon=T),
    "bernoulli_shared": Bernoulli(shared=True, num_experts=N, horizon=T),
    "planted": Planted(best_loss=1.0, num_experts=N, horizon=T),
    "alternating": Alternating(num_experts=N, horizon=T),
    "switching": Switching(num_experts=N, horizon=T),
    "replay": Replay(np.random.default_rng(0).random((T, N)), order="shuffled"),
    "punish_leader": PunishLeader(num_experts=N, horizon=T),
    "punish_likely": PunishLikely(window=3, num_experts=N, horizon=T),
    "foreseer": Foreseer(num_experts=N, horizon=T),
    "smooth": SmoothThreshold(noise=0.2, num_experts=N, horizon=T),
    "smooth_oblivious": SmoothThreshold(mode="oblivious", num_experts=N, horizon=T),
    "one_game_only": OneGameOnly(N, T),
}


def single(adversary, limit):
    env = adversary.clone(num_games=None)
    return env if limit is None else TimeLimit(env, limit)


def pair(adversary, games, mode, limit=None):
    native = AdversaryVectorEnv(adversary, games, limit, mode)
    reference = SyncVectorEnv([lambda: single(adversary, limit)] * games, autoreset_mode=mode)
    return native, reference


def same(native, reference, where=""):
    """Equal in structure, type and every bit, dictionaries and object arrays inside too."""
    if isinstance(reference, dict):
        assert isinstance(native, dict), where
        assert set(native) == set(reference), where
        for key in reference:
            same(native[key], reference[key], f"{where}.{key}")
        return
    assert type(native) is type(reference), where
    if isinstance(reference, tuple):
        for index, (a, b) in enumerate(zip(native, reference, strict=True)):
            same(a, b, f"{where}[{index}]")
    elif isinstance(reference, np.ndarray):
        assert (native.dtype, native.shape) == (reference.dtype, reference.shape), where
        if reference.dtype == object:
            for index, (a, b) in enumerate(zip(native, reference, strict=True)):
                same(a, b, f"{where}[{index}]")
        else:
            assert np.array_equal(native, reference), f"{where}: {native} {reference}"
    else:
        assert native == reference, where


def reset_both(native, reference, seed=None, mask=None):
    # SyncVectorEnv takes the mask out of the dictionary that it is given.
    options = [None if mask is None else {"reset_mask": np.array(mask)} for _ in range(2)]
    same(native.reset(seed=seed, options=options[0]), reference.reset(seed=seed, options=options[1]), "reset")


def step_both(native, reference, rng, count):
    for number in range(count):
        actions = rng.integers(N, size=native.num_envs)
        same(native.step(actions), reference.step(actions), f"step {number}")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOES)
@pytest.mark.parametrize("limit", [None, 3, T])
def test_equals_single_environments_under_a_list_of_seeds(name, mode, limit):
    native, reference = pair(FOES[name], 3, mode, limit)
    rng = np.random.default_rng(1)
    length = min(T, limit or T)
    reset_both(native, reference, seed=[7, 8, 9])
    if mode is AutoresetMode.DISABLED:
        for _ in range(2):
            step_both(native, reference, rng, length)
            reset_both(native, reference)
    else:
        step_both(native, reference, rng, 3 * length + 2)
    # Unseeded and partly seeded resets, in the middle of games, go on as single environments do.
    reset_both(native, reference)
    step_both(native, reference, rng, 2)
    reset_both(native, reference, seed=[None, 11, None])
    step_both(native, reference, rng, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOES)
def test_equals_single_environments_under_partial_resets(name, mode):
    native, reference = pair(FOES[name], 4, mode)
    rng = np.random.default_rng(2)
    reset_both(native, reference, seed=[1, 2, 3, 4])
    step_both(native, reference, rng, 2)
    reset_both(native, reference, mask=[False, True, False, False])
    step_both(native, reference, rng, 1)
    reset_both(native, reference, seed=[5, 6, 7, 8], mask=[True, False, False, True])
    step_both(native, reference, rng, 2)
    # Games 0, 3 have played 2 rounds, game 1 three; game 2 has ended.
    if mode is AutoresetMode.DISABLED:
        reset_both(native, reference, mask=[False, False, True, False])
    step_both(native, reference, rng, 2)
    if mode is AutoresetMode.DISABLED:
        reset_both(native, reference, seed=[None, None, 3, 3], mask=[False, True, False, False])
        step_both(native, reference, rng, 1)
    else:
        step_both(native, reference, rng, 3 * T)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOES)
def test_one_game_equals_the_single_environment_under_one_seed(name, mode):
    native, reference = pair(FOES[name], 1, mode)
    rng = np.random.default_rng(3)
    for seed in (42, None, [5], None):
        reset_both(native, reference, seed=seed)
        step_both(native, reference, rng, T)
    if mode is not AutoresetMode.DISABLED:
        step_both(native, reference, rng, 2 * T)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", FOES)
def test_one_seed_for_a_batch_plays_the_batched_adversary(name, mode):
    """Losses of three games one after another equal those of the adversary driven by hand: a reset step in between
    draws nothing, sees nothing and charges nothing."""
    foe, games = FOES[name], 3
    actions = np.random.default_rng(4).integers(N, size=(3 * T, games))
    if foe.batched:
        by_hand = foe.clone(num_games=games)
        by_hand.np_random = seeding.np_random(13)[0]
        expected, totals, mine = [], 0.0, 0.0
        for episode in range(3):
            by_hand.reset()
            totals, mine = np.zeros((games, N)), np.zeros(games)
            for t in range(T):
                losses = np.broadcast_to(by_hand.emit(), (games, N))
                chosen = actions[episode * T + t]
                by_hand.see(chosen)
                totals, mine = totals + losses, mine + losses[np.arange(games), chosen]
                expected.append((losses, totals.min(-1), mine))
    native = AdversaryVectorEnv(foe, games, autoreset_mode=mode)
    native.reset(seed=13)
    played = []
    while len(played) < 3 * T:
        reset_step = mode is AutoresetMode.NEXT_STEP and played and len(played) % T == 0
        if reset_step:
            # The action of a reset step is ignored, whatever it is.
            observation, reward, terminated, truncated, info = native.step(np.full(games, 99))
            assert not any(array.any() for array in (observation, reward, terminated, truncated))
            assert not any(info[key].any() for key in ("losses", "regret", "best_loss", "learner_loss", "round"))
        _, reward, terminated, _, info = native.step(actions[len(played)])
        last = (len(played) + 1) % T == 0
        assert terminated.all() == last
        if last and mode is AutoresetMode.SAME_STEP:
            info = info["final_info"]
        played.append((info["losses"], info["best_loss"], info["learner_loss"]))
        assert np.array_equal(reward, -info["losses"][np.arange(games), actions[len(played) - 1]])
        assert np.array_equal(info["regret"], info["learner_loss"] - info["best_loss"])
    if foe.batched:
        for (losses, best, mine), (a, b, c) in zip(expected, played, strict=True):
            assert np.array_equal(losses, a)
            assert np.allclose(best, b, rtol=0, atol=1e-12)
            assert np.allclose(mine, c, rtol=0, atol=1e-12)
    again = AdversaryVectorEnv(foe, games, autoreset_mode=mode)
    again.reset(seed=13)
    assert np.array_equal(again.step(actions[0])[4]["losses"], played[0][0])


@pytest.mark.parametrize("seed", [13, [1, 2, 3]])
def test_seeded_then_unseeded_resets_agree(seed):
    """Case E1 for the vector: what follows an unseeded reset is a function of the last seed."""
    seen = []
    for _ in range(2):
        envs = AdversaryVectorEnv(FOES["bernoulli"], 3)
        envs.reset(seed=seed)
        envs.reset()
        envs.reset(options={"reset_mask": np.array([True, False, True])})
        seen.append([envs.step(np.zeros(3, dtype=int))[0] for _ in range(T)])
    assert np.array_equal(seen[0], seen[1])


def test_games_reset_from_one_batch_are_independent_of_those_that_stay():
    envs = AdversaryVectorEnv(Bernoulli(num_experts=50, horizon=20), 4)
    reference = AdversaryVectorEnv(Bernoulli(num_experts=50, horizon=20), 4)
    for env in (envs, reference):
        env.reset(seed=3)
        env.step(np.zeros(4, dtype=int))
    envs.reset(options={"reset_mask": np.array([False, True, False, True])})
    a, b = envs.step(np.zeros(4, dtype=int))[4], reference.step(np.zeros(4, dtype=int))[4]
    assert np.array_equal(a["losses"][[0, 2]], b["losses"][[0, 2]])
    assert a["round"].tolist() == [2, 1, 2, 1]
    # Fifty coins of a new game agree with the old one's, or with a neighbour's, with negligible probability.
    assert not np.array_equal(a["losses"][1], b["losses"][1])
    assert not np.array_equal(a["losses"][1], a["losses"][3])


def test_a_generator_set_by_hand_is_used():
    envs = AdversaryVectorEnv(FOES["bernoulli"], 2)
    envs.np_random = np.random.default_rng(5)
    first = envs.reset()[0], envs.step(np.zeros(2, dtype=int))[0]
    envs = AdversaryVectorEnv(FOES["bernoulli"], 2)
    envs.np_random = np.random.default_rng(5)
    assert np.array_equal(first, (envs.reset()[0], envs.step(np.zeros(2, dtype=int))[0]))


# -- E3: autoreset bookkeeping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "ends"), [(AutoresetMode.NEXT_STEP, [2, 6]), (AutoresetMode.SAME_STEP, [2, 5, 8])], ids=["next", "same"]
)
def test_episode_statistics(mode, ends):
    if mode is AutoresetMode.SAME_STEP and tuple(map(int, gym.__version__.split(".")[:2])) < (1, 4):
        pytest.skip("Gymnasium's own wrapper leaves a round out of each same-step episode before 1.4")
    envs = RecordEpisodeStatistics(AdversaryVectorEnv(Constant(N, 3), 2, autoreset_mode=mode))
    envs.reset(seed=0)
    found = []
    for step in range(9):
        _, rewards, terminated, truncated, info = envs.step(np.array([0, 3]))
        assert not truncated.any()
        if "episode" in info:
            found.append(step)
            assert terminated.all()
            assert info["_episode"].tolist() == [True, True]
            assert info["episode"]["r"].tolist() == [-3, -3]
            assert info["episode"]["l"].tolist() == [3, 3]
        else:
            assert not terminated.any()
            reset_step = mode is AutoresetMode.NEXT_STEP and step - 1 in ends
            assert rewards.tolist() == ([0, 0] if reset_step else [-1, -1])
    assert found == ends


def test_episode_statistics_under_partial_resets():
    envs = RecordEpisodeStatistics(AdversaryVectorEnv(Constant(N, 3), 2, autoreset_mode="Disabled"))
    envs.reset(seed=0)
    actions = np.array([0, 1])
    for _ in range(3):
        info = envs.step(actions)[4]
    assert info["episode"]["r"].tolist() == [-3, -3]
    with pytest.raises(dpe.ProtocolError, match=r"game\(s\) \[0, 1\] have ended and autoreset is disabled"):
        envs.step(actions)
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(dpe.ProtocolError, match=r"game\(s\) \[1\] have ended"):
        envs.step(actions)
    envs.reset(options={"reset_mask": np.array([False, True])})
    for _ in range(3):
        info = envs.step(actions)[4]
    assert info["episode"]["l"].tolist() == [3, 3]


# -- errors, spaces, rendering -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [[0, 4], [-1, 0], [0.0, 1.0], [0], [[0, 1]], [0, 99]])
def test_bad_actions_change_nothing(bad):
    envs = AdversaryVectorEnv(FOES["bernoulli"], 2)
    twin = AdversaryVectorEnv(FOES["bernoulli"], 2)
    for env in (envs, twin):
        env.reset(seed=1)
    with pytest.raises(ValueError, match="actions of round 1"):
        envs.step(np.array(bad))
    same(envs.step(np.array([0, 1])), twin.step(np.array([0, 1])))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"seed": [1, 2]}, "expected 3 seeds"),
        ({"options": {"reset_mask": [True, True, True]}}, "boolean array"),
        ({"options": {"reset_mask": np.array([True, True])}}, "boolean array"),
        ({"options": {"reset_mask": np.array([1, 1, 1])}}, "boolean array"),
        ({"options": {"reset_mask": np.zeros(3, dtype=bool)}}, "at least one True"),
    ],
)
def test_bad_resets_change_nothing(keywords, message):
    envs = AdversaryVectorEnv(FOES["bernoulli"], 3)
    twin = AdversaryVectorEnv(FOES["bernoulli"], 3)
    for env in (envs, twin):
        env.reset(seed=1)
    with pytest.raises(dpe.ArgumentError, match=message):
        envs.reset(**keywords)
    actions = np.array([0, 1, 2])
    same(envs.step(actions), twin.step(actions))


def test_calls_out_of_order():
    envs = AdversaryVectorEnv(FOES["bernoulli"], 2)
    with pytest.raises(dpe.ProtocolError, match="reset"):
        envs.step(np.zeros(2, dtype=int))
    with pytest.raises(dpe.ProtocolError, match="reset of all games first"):
        envs.reset(options={"reset_mask": np.array([True, False])})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"adversary": Bernoulli}, "expected an Adversary"),
        ({"num_envs": 0}, "num_envs"),
        ({"max_episode_steps": 0}, "max_episode_steps"),
        ({"autoreset_mode": "NextStop"}, "did you mean 'NextStep'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(dpe.ArgumentError, match=message):
        AdversaryVectorEnv(**{"adversary": FOES["bernoulli"], **arguments})


def test_returned_arrays_are_fresh():
    envs = AdversaryVectorEnv(FOES["bernoulli"], 2, autoreset_mode="SameStep")
    kept = [envs.reset(seed=0)] + [envs.step(np.array([0, 1])) for _ in range(2 * T)]
    before = copy.deepcopy(kept)
    envs.step(np.array([0, 1]))
    same(tuple(kept), tuple(before))
    observation, info = kept[0]
    observation += 5
    info["losses"] += 5
    assert envs.step(np.array([0, 1]))[0].max() <= 1


def test_render():
    envs = AdversaryVectorEnv(Constant(N, 3, render_mode="ansi"), 2)
    assert envs.render() is None
    envs.reset(seed=[1, 2])
    envs.step(np.array([0, 1]))
    assert envs.render() == ("round 1/3  learner 1  best 1  regret 0",) * 2
    assert AdversaryVectorEnv(Constant(N, 3), 2).render() is None


def test_pickled_in_the_middle_it_plays_on():
    envs = AdversaryVectorEnv(FOES["smooth"], 3)
    envs.reset(seed=2)
    envs.step(np.array([0, 1, 2]))
    twin = pickle.loads(pickle.dumps(envs))
    for _ in range(T - 1):
        same(twin.step(np.array([3, 2, 1])), envs.step(np.array([3, 2, 1])))


# -- the public door -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", dpe.adversaries())
def test_make_vec_gives_the_native_environment(name):
    envs = gym.make_vec(dpe.env_id(name), num_envs=3, autoreset_mode="SameStep")
    assert type(envs) is AdversaryVectorEnv
    envs.spec.to_json()
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observation, _ = envs.reset(seed=0)
    assert observation in envs.observation_space
    observation, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert observation in envs.observation_space
    assert (reward.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
    envs.close()


@pytest.mark.parametrize("name", [name for name in dpe.adversaries() if name != "replay"])
def test_make_vec_equals_make(name):
    """Through the public door, with an outer time limit: native against ``vectorization_mode="sync"``."""
    keywords = {"num_envs": 3, "num_experts": N, "horizon": T, "max_episode_steps": 4}
    native = gym.make_vec(dpe.env_id(name), **keywords)
    reference = gym.make_vec(dpe.env_id(name), vectorization_mode="sync", **keywords)
    reset_both(native, reference, seed=[7, 8, 9])
    step_both(native, reference, np.random.default_rng(0), 10)


def test_make_vec_hands_over_the_time_limit_of_the_spec():
    spec = copy.deepcopy(gym.spec("dp_experts/Bernoulli-v0"))
    spec.max_episode_steps = 2
    envs = gym.make_vec(spec, num_envs=2)
    envs.reset(seed=0)
    actions = np.zeros(2, dtype=int)
    assert not envs.step(actions)[3].any()
    _, _, terminated, truncated, _ = envs.step(actions)
    assert truncated.all()
    assert not terminated.any()
