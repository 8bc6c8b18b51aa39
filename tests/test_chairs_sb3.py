"""The chairs under Stable-Baselines3: its checker, its algorithms and its vectors, without a warning."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize

from dp_experts_env.chairs import AdversaryEnv, ChairVectorEnv, JudgeEnv, Lead, make_chair

IDS = {"adversary": "dp_experts/Adversary-v0", "judge": "dp_experts/Judge-v0"}
KNOWN = set(gym.registry)
SMALL = {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}


@pytest.fixture(autouse=True)
def registered(registries_as_found):
    torch.set_num_threads(1)
    for name, number in IDS.items():
        if number not in gym.registry:
            gym.register(number, entry_point="dp_experts_env.chairs:make_chair", kwargs={"chair": name})


@pytest.fixture(autouse=True)
def numpys_global_state():
    """Stable-Baselines3 seeds it; nobody else is to notice."""
    before = np.random.get_state()  # noqa: NPY002
    yield
    np.random.set_state(before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("chair", "keywords"),
    [
        ("adversary", {}),
        ("adversary", {"losses": ["zeros", "corners"], "learner": "private_dartboard"}),
        ("adversary", {"num_experts": 1, "horizon": 1}),
        ("judge", {}),
        ("judge", {"learner": "leaky_copy_last", "adjacency": "zero_out", "horizon": 2}),
    ],
)
def test_the_checker_has_no_complaint(chair, keywords):
    """Warnings are errors here."""
    check_env(gym.make(IDS[chair], **keywords))


def test_of_a_box_the_checker_says_that_it_is_not_symmetric_and_no_more():
    with pytest.warns(UserWarning, match=r"symmetric and normalized Box action space") as said:
        check_env(gym.make(IDS["adversary"], losses="box"))
    assert len(said) == 1


def test_the_checker_likes_the_lead():
    check_env(Lead(gym.make("dp_experts/Bernoulli-v0", num_experts=4, horizon=6)))


@pytest.mark.parametrize(
    ("algorithm", "build"),
    [
        (A2C, lambda: make_chair("adversary", horizon=10)),
        (PPO, lambda: make_chair("adversary", losses="box", learner="hedge", horizon=10)),
        (DQN, lambda: make_chair("adversary", horizon=10)),
        (A2C, lambda: make_chair("judge", horizon=4)),
        (PPO, lambda: make_chair("judge", horizon=4)),
        (DQN, lambda: Lead(gym.make("dp_experts/PunishLast-v0", num_experts=3, horizon=8))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_its_algorithms_learn_without_a_warning(algorithm, build):
    short = {"n_steps": 32} if algorithm is not DQN else {"learning_starts": 8}
    if algorithm is PPO:
        short["batch_size"] = 32
    model = algorithm("MlpPolicy", Monitor(build()), **short, **SMALL)
    model.learn(64)
    mean, _ = evaluate_policy(model, Monitor(build()), n_eval_episodes=2, deterministic=False)
    assert np.isfinite(mean)


def test_frames_can_be_stacked_and_normalised():
    envs = VecNormalize(VecFrameStack(DummyVecEnv([lambda: make_chair("judge", horizon=4)] * 2), 3))
    assert envs.reset().shape == (2, 3 * (5 * 4 + 2))
    PPO("MlpPolicy", envs, n_steps=16, batch_size=16, **SMALL).learn(32)


QUICK = {"n_steps": 32, "batch_size": 256, "n_epochs": 6, "learning_rate": 2e-2, **SMALL}


def test_a_policy_learns_to_defeat_a_copying_learner():
    """The best return is 1/2 a game: charge one expert on side 0 and the other on side 1, and read the next choice.

    Guessing blindly has return 0. A policy that has learned it is right in every game, so that only the bit is random:
    the mean of 4000 fair bits lies below 0.45 with probability at most exp(-2 * 4000 * 0.05^2) < 3e-9 (Hoeffding).
    """
    keywords = {"learner": "leaky_copy_last", "losses": "one_hot", "epsilon": 0.0, "num_experts": 2, "horizon": 2}
    envs = make_vec_env(JudgeEnv, n_envs=16, seed=0, env_kwargs=keywords)
    model = PPO("MlpPolicy", envs, ent_coef=0.01, gamma=1.0, **QUICK)
    model.learn(6144)
    judged = ChairVectorEnv(JudgeEnv(**keywords), 4000)
    observations, _ = judged.reset(seed=1)
    for _ in range(2):
        actions, _ = model.predict(observations, deterministic=True)
        observations, rewards, *_ = judged.step(actions)
    assert rewards.mean() > 0.45


def test_a_policy_learns_to_punish_a_leader():
    """Charging the leader forces T - floor(T/N) = 10 of T = 20 on follow-the-leader; the learner and the trained policy
    play with certainty."""
    keywords = {"learner": "follow_the_leader", "num_experts": 2, "horizon": 20}
    envs = make_vec_env(AdversaryEnv, n_envs=16, seed=0, env_kwargs=keywords)
    model = PPO("MlpPolicy", envs, gamma=0.5, **QUICK)
    model.learn(4096)
    env = AdversaryEnv(**keywords)
    observation, info = env.reset(seed=0)
    terminated = False
    while not terminated:
        observation, _, terminated, _, info = env.step(model.predict(observation, deterministic=True)[0])
    assert info["regret"] >= 8


@pytest.mark.skipif(not set(IDS.values()) <= KNOWN, reason="the package does not register the chairs")
@pytest.mark.parametrize("chair", IDS)
def test_spawned_workers_know_the_module_form_of_an_id(chair):
    """The vector of processes against single environments: seeds s, s + 1 as SB3 hands them out."""
    keywords = {"learner": "hedge", "num_experts": 3, "horizon": 3}
    envs = make_vec_env(
        f"dp_experts_env:{IDS[chair]}",
        n_envs=2,
        seed=7,
        env_kwargs=keywords,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "spawn"},
    )
    try:
        references = [make_chair(chair, **keywords) for _ in range(2)]
        seen = envs.reset()
        assert np.array_equal(seen, [env.reset(seed=7 + k)[0] for k, env in enumerate(references)])
        actions = np.array([1, 2]) if chair == "adversary" else np.array([[1, 2, 1], [0, 0, 1]])
        for t in range(3):
            seen, rewards, dones, infos = envs.step(actions)
            steps = [env.step(action) for env, action in zip(references, actions, strict=True)]
            assert np.array_equal(rewards, np.array([step[1] for step in steps], dtype=np.float32))
            assert dones.tolist() == [t == 2] * 2
            views = seen if t < 2 else np.array([info["terminal_observation"] for info in infos])
            assert np.array_equal(views, [step[0] for step in steps])
        assert [info["episode"]["l"] for info in infos] == [3, 3]
    finally:
        envs.close()
