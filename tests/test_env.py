"""Every opponent as a Gymnasium environment: what users of similar software have tripped over, and the right answer."""

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import dp_experts_env as dpe

NAMES = dpe.adversaries()
OWN = (
    "alternating",
    "bernoulli",
    "foreseer",
    "planted",
    "punish_last",
    "punish_leader",
    "punish_likely",
    "punish_used",
    "replay",
    "smooth_threshold",
    "switching",
)
HORIZON = 6


def make(name, **keywords):
    sizes = {"horizon": HORIZON} if name == "replay" else {"num_experts": 4, "horizon": HORIZON}
    return gym.make(dpe.env_id(name), **{**sizes, **keywords})


def run(code, *options):
    """Run Python code in a fresh interpreter."""
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=False)


def test_the_list_has_not_shrunk():
    assert set(OWN) <= set(NAMES)
    assert {dpe.env_id(name) for name in NAMES} <= set(gym.registry)


@pytest.mark.parametrize("render_mode", [None, "ansi"])
@pytest.mark.parametrize("name", NAMES)
def test_gymnasiums_checker_has_no_complaint(name, render_mode):
    """E8. Warnings are errors here; on ``unwrapped``, which has a spec, so that determinism is checked too."""
    env = make(name, render_mode=render_mode).unwrapped
    assert env.spec is not None
    check_env(env)


@pytest.mark.parametrize("name", NAMES)
def test_seeded_then_unseeded(name):
    """E1."""
    seen = []
    for _ in range(2):
        env = make(name).unwrapped
        env.reset(seed=123)
        env.step(1)
        first, _ = env.reset()
        seen.append([first, *(env.step(t % 2)[0] for t in range(3))])
    assert np.array_equal(seen[0], seen[1])


@pytest.mark.parametrize("name", ["bernoulli", "planted", "switching", "smooth_threshold"])
def test_seeds_and_games_matter(name):
    env = gym.make(dpe.env_id(name), num_experts=40, horizon=3).unwrapped

    def first_losses(seed):
        env.reset(seed=seed)
        return np.array([env.step(0)[4]["losses"] for _ in range(3)])

    one, again, other, next_game = (first_losses(seed) for seed in (1, 1, 2, None))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert not np.array_equal(other, next_game)


def test_spaces_are_seeded_apart():
    """E2. Two unseeded spaces agree on 20 samples of 4 experts with probability 4^-20 < 1e-6."""
    one, other = make("bernoulli"), make("bernoulli")
    for env in (one, other):
        env.reset(seed=5)
    assert [one.action_space.sample() for _ in range(20)] != [other.action_space.sample() for _ in range(20)]
    for env in (one, other):
        env.action_space.seed(5)
    assert [one.action_space.sample() for _ in range(20)] == [other.action_space.sample() for _ in range(20)]


def test_import_registers_once_and_quietly():
    """E4: registered on import, again without an override warning, and found through the module form of the id."""
    code = (
        "import gymnasium as gym, warnings\n"
        "warnings.simplefilter('error')\n"
        "assert not any(id.startswith('dp_experts/') for id in gym.registry)\n"
        "env = gym.make('dp_experts_env:dp_experts/PunishLast-v0', num_experts=3, horizon=2)\n"
        "import importlib, dp_experts_env\n"
        "before = dict(gym.registry)\n"
        "importlib.reload(dp_experts_env)\n"
        "dp_experts_env.register_envs()\n"
        "assert gym.registry == before\n"
        "env.reset(seed=0); env.step(0)\n"
        "envs = gym.make_vec('dp_experts_env:dp_experts/PunishLast-v0', num_envs=2)\n"
    )
    done = run(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_import_imports_no_opponent_and_no_learner():
    code = (
        "import sys, dp_experts_env\n"
        "print([name for name in sys.modules if name.startswith(('dp_experts_adversaries', 'dp_experts_agents'))])"
    )
    assert run(code).stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_specs_are_json(name):
    """E5."""
    spec = make(name).spec
    rebuilt = gym.make(EnvSpec.from_json(spec.to_json()))
    assert rebuilt.unwrapped.parameters == make(name).unwrapped.parameters
    assert json.loads(gym.spec(dpe.env_id(name)).to_json())["id"] == dpe.env_id(name)
    json.loads(gym.make_vec(dpe.env_id(name), num_envs=2).spec.to_json())


@pytest.mark.parametrize("maker", [gym.make, gym.make_vec])
def test_arrays_do_not_go_into_a_spec(maker, tmp_path):
    losses = np.random.default_rng(0).random((5, 3))
    with pytest.raises(dpe.ArgumentError, match=r"source: .*array \(5, 3\).*save it"):
        maker("dp_experts/Replay-v0", source=losses)
    np.save(tmp_path / "losses.npy", losses)
    env = maker("dp_experts/Replay-v0", source=str(tmp_path / "losses.npy"))
    env.spec.to_json()
    env.reset(seed=0)
    observation = env.step(np.zeros(getattr(env, "num_envs", ()), dtype=int))[0]
    assert np.allclose(observation[..., :-1], losses[0], atol=1e-7)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'best_loss'"):
        gym.make("dp_experts/Planted-v0", best_los=3)
    with pytest.raises(gym.error.NameNotFound, match="Bernoulli"):
        gym.make("dp_experts/Bernouli-v0")


@pytest.mark.parametrize("name", NAMES)
def test_types_shapes_and_score(name):
    """E8: what either checker would refuse, and the numbers in ``info`` against a second reckoning."""
    env = make(name).unwrapped
    size = env.num_experts
    observation, info = env.reset(seed=3)
    assert not observation.any()
    keys = list(info)
    total, mine = np.zeros(size), 0.0
    for t in range(HORIZON):
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        assert (observation.dtype, observation.shape) == (np.float32, (size + 1,))
        assert observation in env.observation_space
        assert type(reward) is float
        assert type(terminated) is bool
        assert truncated is False
        assert list(info) == keys
        losses = info["losses"]
        assert (losses.dtype, losses.shape) == (np.float64, (size,))
        assert np.array_equal(observation[:-1], losses.astype(np.float32))
        assert observation[-1] == np.float32((t + 1) / HORIZON)
        assert reward == -losses[action]
        total, mine = total + losses, mine + losses[action]
        assert info["round"] == t + 1
        assert info["learner_loss"] == pytest.approx(mine, abs=1e-12)
        assert info["best_loss"] == pytest.approx(total.min(), abs=1e-12)
        assert info["regret"] == pytest.approx(mine - total.min(), abs=1e-12)
        assert terminated == (t == HORIZON - 1)
    with pytest.raises(dpe.ProtocolError, match="of horizon 6 were played"):
        env.step(0)
    env.reset()
    env.step(0)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([0.5, float("nan"), 0.5], "round 1, expert 1"),
        ([0.5, 0.5, 1.5], "round 1, expert 2"),
        ([-0.25, 0.5, 0.5], "round 1, expert 0"),
        ([0.5, 0.5], "expected shape"),
        (["a", "b", "c"], "dtype"),
    ],
)
def test_bad_losses_are_refused(losses, message):
    class Bad(dpe.Adversary):
        def emit(self):
            return np.array(losses)

    env = Bad(3, 4)
    env.reset(seed=0)
    with pytest.raises(dpe.LossError, match=message):
        env.step(0)


def test_the_horizon_terminates_and_a_time_limit_truncates():
    """E9."""
    env = gym.make("dp_experts/Bernoulli-v0", num_experts=4, horizon=100, max_episode_steps=10)
    env.reset(seed=0)
    for t in range(1, 11):
        observation, _, terminated, truncated, _ = env.step(0)
        assert (terminated, truncated) == (False, t == 10)
    assert observation[-1] == np.float32(0.1)
    env = gym.make("dp_experts/Bernoulli-v0", num_experts=4, horizon=10)
    env.reset(seed=0)
    for t in range(1, 11):
        _, _, terminated, truncated, _ = env.step(0)
        assert (terminated, truncated) == (t == 10, False)


def test_a_deterministic_player_is_punishable():
    """E10, in the environment; ``play`` and batches are with the opponents' own tests."""
    env = gym.make("dp_experts/Foreseer-v0", num_experts=10, horizon=1000)
    env.reset(seed=0)
    total, earned = np.zeros(10), 0.0
    for _ in range(1000):
        _, reward, terminated, _, info = env.step(total.argmin())
        earned += reward
        total += info["losses"]
    assert terminated
    assert earned == -1000
    assert (info["learner_loss"], info["best_loss"], info["regret"]) == (1000, 100, 900)


@pytest.mark.parametrize("action", [99, -1, 4, 1.0, [1], np.array([1]), "1", None])
def test_actions_out_of_range(action):
    """E11: refused, and the game goes on as if nothing had been asked."""
    env, twin = (gym.make("dp_experts/Bernoulli-v0", num_experts=4, horizon=3).unwrapped for _ in range(2))
    for each in (env, twin):
        each.reset(seed=0)
    with pytest.raises(ValueError, match="action of round 1"):
        env.step(action)
    assert np.array_equal(env.step(np.int64(3))[0], twin.step(3)[0])


@pytest.mark.parametrize("t", range(5))
def test_observations_do_not_leak_the_round(t):
    """E12: permuting the losses of round t (from 0) moves nothing that is seen before it."""
    losses = np.random.default_rng(0).random((5, 4))
    permuted = losses.copy()
    permuted[t] = permuted[t, [1, 2, 3, 0]]
    seen = []
    for matrix in (losses, permuted):
        env = dpe.make_adversary("replay", source=matrix)
        views = [env.reset(seed=0)]
        views += [env.step(1)[::4] for _ in range(5)]
        seen.append([(observation.tolist(), str(info)) for observation, info in views])
    assert seen[0][: t + 1] == seen[1][: t + 1]
    assert seen[0][t + 1] != seen[1][t + 1]


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_committed_before_the_choice(name):
    """Simultaneity: whatever is named in round t, the losses of round t are the same."""
    rng = np.random.default_rng(2)
    past = rng.integers(4, size=HORIZON).tolist()
    for t in range(HORIZON):
        revealed = []
        for choice in range(4):
            env = make(name).unwrapped
            env.reset(seed=9)
            for action in past[:t]:
                env.step(action)
            revealed.append(env.step(choice)[4]["losses"].tolist())
        assert revealed.count(revealed[0]) == 4


@pytest.mark.parametrize("name", NAMES)
def test_rendering(name):
    env = make(name, render_mode="ansi")
    env.reset(seed=0)
    env.step(1)
    assert env.render().startswith("round 1/6  learner ")
    # Stable-Baselines3 asks for "rgb_array" first, and without a render mode only after a TypeError.
    for error in (dpe.UnknownNameError, TypeError):
        with pytest.raises(error, match=r"render_mode: unknown name 'rgb_array' \(known: ansi\)"):
            gym.make(dpe.env_id(name), render_mode="rgb_array")


def test_a_batch_has_no_seat_for_one_learner():
    env = dpe.make_adversary("bernoulli", num_games=3)
    env.reset(seed=0)
    with pytest.raises(dpe.ProtocolError, match="make_vec or play"):
        env.step(0)
