"""Every opponent under Stable-Baselines3: its checker, its vectors in worker processes, a deterministic policy."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

import dp_experts_env as dpe
from dp_experts_adversaries.adaptive import Foreseer


@pytest.mark.parametrize("name", dpe.adversaries())
def test_the_checker_has_no_complaint(name):
    """E8. Warnings are errors here."""
    check_env(gym.make(dpe.env_id(name)))


def test_spawned_workers_know_the_module_form_of_an_id():
    """E4, and the vector of processes against single environments: seeds s, s + 1 as SB3 hands them out."""
    envs = make_vec_env(
        "dp_experts_env:dp_experts/Bernoulli-v0",
        n_envs=2,
        seed=7,
        env_kwargs={"num_experts": 4, "horizon": 3},
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "spawn"},
    )
    try:
        references = [gym.make("dp_experts/Bernoulli-v0", num_experts=4, horizon=3) for _ in range(2)]
        seen = envs.reset()
        assert np.array_equal(seen, [env.reset(seed=7 + k)[0] for k, env in enumerate(references)])
        for t in range(3):
            seen, rewards, dones, infos = envs.step(np.array([1, 2]))
            steps = [env.step(action) for env, action in zip(references, (1, 2), strict=True)]
            assert np.array_equal(rewards, np.array([step[1] for step in steps], dtype=np.float32))
            assert dones.tolist() == [t == 2] * 2
            views = seen if t < 2 else np.array([info["terminal_observation"] for info in infos])
            assert np.array_equal(views, [step[0] for step in steps])
        # SB3 resets in the same step; its monitor has the whole episode.
        assert not seen.any()
        assert [info["episode"]["l"] for info in infos] == [3, 3]
        assert [info["episode"]["r"] for info in infos] == [-env.unwrapped._score.learner_loss for env in references]
        assert not any(info["TimeLimit.truncated"] for info in infos)
    finally:
        envs.close()


class DeterministicPolicy(dpe.Learner):
    """A policy of Stable-Baselines3 that never samples."""

    batched = False
    deterministic = True

    def __init__(self, model):
        self.model = model

    def __deepcopy__(self, memo):
        return type(self)(self.model)

    def start(self):
        self.view = np.zeros(self.spec.num_experts + 1, dtype=np.float32)

    def act(self):
        return int(self.model.predict(self.view, deterministic=True)[0])

    def observe(self, losses):
        self.view = np.append(losses, (self.round + 1) / self.spec.horizon).astype(np.float32)


def test_a_deterministic_policy_is_punishable():
    """E10: N = 10, T = 1000, loss 1000, L* <= 100, regret >= 900. Untrained, since training cannot help it."""
    model = PPO("MlpPolicy", gym.make("dp_experts/PunishLast-v0", num_experts=10), seed=0, device="cpu")
    learner = DeterministicPolicy(model)
    match = dpe.play(learner, Foreseer(learner=learner, num_experts=10, horizon=1000), seed=0)
    assert match.learner_loss.tolist() == [1000]
    assert match.best_loss[0] <= 100
    assert match.regret[0] >= 900
    # In the environment's chair the same policy is foreseen just as well.
    env = gym.make("dp_experts/Foreseer-v0", learner=learner, num_experts=10, horizon=100)
    observation, info = env.reset(seed=0)
    terminated = False
    while not terminated:
        action, _ = model.predict(observation, deterministic=True)
        observation, _, terminated, _, info = env.step(int(action))
    assert info["learner_loss"] == 100
