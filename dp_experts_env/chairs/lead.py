"""The learner's chair with another view: how far each expert is behind the leader, instead of the last losses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from dp_experts_env.chairs.losses import lead
from dp_experts_env.spec import ArgumentError, FloatArray


class Lead(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Shows min(1, L - min L) of the experts' losses L so far, and t/T, to whoever sits in a learner's chair.

    The last losses alone, which :class:`~dp_experts_env.Adversary` shows, do not tell who leads; this does, and keeps
    its scale at any horizon. Space, rewards and information stay as they are: ``Box(0, 1, (N + 1,), float32)``.

    Args:
        env: an adversary, or a privacy game, in further wrappers or not.

    Raises:
        ArgumentError: if ``env`` is not a learner's chair.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        if not isinstance(env, gym.Env):
            raise ArgumentError(f"env: expected a learner's chair, a gymnasium.Env, but found {env!r}")
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        _require_learners_chair(env, env.observation_space, env.action_space)
        self._total: FloatArray = np.zeros(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._total = np.array(info["losses"])
        return _shown(self._total, observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play one round."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._total = self._total + info["losses"]
        return _shown(self._total, observation), reward, terminated, truncated, info


class VectorLead(VectorWrapper):  # (takes no types before Gymnasium 1.4)
    """:class:`Lead` for a vector environment in any autoreset mode, whose final observations it shows alike.

    Args:
        env: a vector of learners' chairs, native or Gymnasium's own.

    Raises:
        ArgumentError: if ``env`` is not a vector of learners' chairs.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(env, VectorEnv):
            raise ArgumentError(f"env: expected a vector of learners' chairs but found {env!r}")
        super().__init__(env)
        _require_learners_chair(env, env.single_observation_space, env.single_action_space)
        self._total: FloatArray = np.zeros((env.num_envs, (env.single_observation_space.shape or (1,))[0] - 1))

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new games, all of them or some."""
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._add(infos)
        return _shown(self._total, observations), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one round of every game, or begin anew those that have ended."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        if "final_obs" in infos:
            final = self._total + infos["final_info"]["losses"]
            for game in np.flatnonzero(infos["_final_obs"]):
                infos["final_obs"][game] = _shown(final[game], infos["final_obs"][game])
        self._add(infos)
        return _shown(self._total, observations), rewards, terminated, truncated, infos

    def _add(self, infos: dict[str, Any]) -> None:
        # A game without a round has just begun; nothing is told of those that a partial reset leaves alone.
        self._total = np.where(((infos["round"] == 0) & infos["_round"])[:, None], 0.0, self._total)
        self._total = self._total + np.where(infos["_losses"][:, None], infos["losses"], 0.0)


def _shown(total: FloatArray, observation: Any) -> NDArray[np.float32]:
    return np.concatenate([lead(total), observation[..., -1:]], axis=-1, dtype=np.float32)


def _require_learners_chair(env: Any, seen: gym.Space[Any], action: gym.Space[Any]) -> None:
    if not (isinstance(action, gym.spaces.Discrete) and seen.shape == (int(action.n) + 1,)):
        raise ArgumentError(
            "env: expected a learner's chair, with actions Discrete(N) and observations Box(0, 1, (N + 1,)), "
            f"but found {env!r} with {action} and {seen}"
        )
