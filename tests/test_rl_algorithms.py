"""Stable-Baselines3's algorithms learn in every learner's chair without a warning; its tools work there."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

import dp_experts_env as dpe
from dp_experts_env import rl
from dp_experts_env.chairs import Lead

SETTINGS: dict[Any, dict[str, Any]] = {
    A2C: {"n_steps": 8},
    DQN: {"buffer_size": 50, "learning_starts": 4, "train_freq": 4, "batch_size": 4},
    PPO: {"n_steps": 16, "batch_size": 8, "n_epochs": 1},
}


def small(algorithm: Any, env: Any, policy: str = "MlpPolicy", **settings: Any) -> Any:
    given = {**SETTINGS.get(algorithm, {}), "policy_kwargs": {"net_arch": [8]}, **settings}
    return algorithm(policy, env, device="cpu", seed=0, **given)


@pytest.fixture(autouse=True)
def global_state_untouched() -> Any:
    torch.set_num_threads(1)
    held = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    yield
    random.setstate(held[0])
    np.random.set_state(held[1])  # noqa: NPY002
    torch.set_rng_state(held[2])


@pytest.mark.parametrize("name", dpe.adversaries())
@pytest.mark.parametrize("algorithm", SETTINGS, ids=lambda algorithm: algorithm.__name__)
def test_an_algorithm_learns_in_this_chair(name: str, algorithm: Any) -> None:
    """Warnings are errors here. What it then is plays on as a learner."""
    env = Monitor(gym.make(dpe.env_id(name)))
    model = small(algorithm, env)
    before = [weights.clone() for weights in model.policy.parameters()]
    model.learn(16)
    assert any(not torch.equal(old, new) for old, new in zip(before, model.policy.parameters(), strict=True))
    foe = env.unwrapped
    learner = rl.PolicyLearner(model)
    learner.reset(dpe.GameSpec(foe.num_experts, foe.horizon, 3), np.random.default_rng(0))
    assert learner.act().shape == (3,)


def test_policies_are_evaluated_and_observations_normalised() -> None:
    def build() -> Any:
        return Monitor(Lead(gym.make("dp_experts/PunishLast-v0", num_experts=3, horizon=8)))

    envs = VecNormalize(DummyVecEnv([build] * 2), gamma=0.9)
    model = small(PPO, envs)
    model.learn(64)
    envs.training = False
    envs.norm_reward = False
    returns, lengths = evaluate_policy(model, envs, n_eval_episodes=4, return_episode_rewards=True)
    assert lengths == [8] * 4
    assert all(-8.0 <= value <= 0.0 for value in returns)
    match = dpe.play(
        rl.PolicyLearner(model, lead=True), dpe.make_adversary("punish_last", num_experts=3, horizon=8), seed=0
    )
    assert 0.0 <= match.learner_loss[0] <= 8.0


def test_processes_know_the_module_form_of_an_id() -> None:
    envs = make_vec_env(
        "dp_experts_env:dp_experts/PunishLeader-v0",
        n_envs=2,
        seed=3,
        env_kwargs={"num_experts": 3, "horizon": 8},
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "spawn"},
    )
    try:
        model = small(A2C, envs)
        model.learn(32)
        assert [info["l"] for info in model.ep_info_buffer] == [8] * 4
    finally:
        envs.close()


def test_frames_and_memory_learn_behind_the_lead() -> None:
    recurrent = pytest.importorskip("sb3_contrib").RecurrentPPO
    foe = dpe.make_adversary("punish_last", num_experts=3, horizon=8)
    short = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "num_envs": 2, "seed": 0, "progress": False}
    for keywords in ({"frames": 4}, {"algorithm": recurrent}, {"algorithm": recurrent, "frames": 2}):
        trained = rl.train_learner(foe, 64, lead=True, **keywords, **short)
        assert dpe.play(trained.player(), foe, num_games=3, seed=0).regret.shape == (3,)
