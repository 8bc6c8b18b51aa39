"""A vector environment of ours in Stable-Baselines3's own form: a batch of games, one forward pass a round."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from dp_experts_env.rl.extra import library


class _Games:
    """The methods; :func:`training_games` adds Stable-Baselines3's base class, which belongs to an extra."""

    num_envs: int
    _seeds: list[Any]

    def __init__(self, games: VectorEnv[Any, Any, Any]) -> None:
        self.games = games
        self.returns: list[float] = []
        self._sums = np.zeros(games.num_envs)
        self._lengths = np.zeros(games.num_envs, dtype=np.int64)
        self._began = time.perf_counter()
        super().__init__(  # type: ignore[call-arg]
            games.num_envs, games.single_observation_space, games.single_action_space
        )

    def reset(self) -> Any:
        # One integer seeds the batch.
        observations, _ = self.games.reset(seed=self._seeds[0])
        self._sums[:], self._lengths[:] = 0.0, 0
        self._reset_seeds()  # type: ignore[attr-defined]
        self._reset_options()  # type: ignore[attr-defined]
        return observations

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        observations, rewards, terminated, truncated, infos = self.games.step(self._actions)
        self._sums += rewards
        self._lengths += 1
        ended = terminated | truncated
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for game in np.flatnonzero(ended):
            gained, rounds = float(self._sums[game]), int(self._lengths[game])
            self.returns.append(gained)
            told[game] = {
                "terminal_observation": infos["final_obs"][game],
                "TimeLimit.truncated": bool(truncated[game] and not terminated[game]),
                "episode": {"r": gained, "l": rounds, "t": time.perf_counter() - self._began},
            }
        self._sums[ended], self._lengths[ended] = 0.0, 0
        return observations, rewards.astype(np.float32), ended, told

    def close(self) -> None:
        self.games.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.games, attr_name)] * len(list(self._get_indices(indices)))  # type: ignore[attr-defined]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self.games, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        found = getattr(self.games, method_name)(*args, **kwargs)
        return [found] * len(list(self._get_indices(indices)))  # type: ignore[attr-defined]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        # Returns are told as Monitor tells them, so that none need be put around.
        watched = wrapper_class.__name__ == "Monitor"
        return [watched] * len(list(self._get_indices(indices)))  # type: ignore[attr-defined]


def training_games(games: VectorEnv[Any, Any, Any]) -> Any:
    """Return a ``stable_baselines3.common.vec_env.VecEnv`` that plays ``games``, which must reset in the same step.

    Its attribute ``returns`` lists the returns of the finished games in their order.

    Args:
        games: a vector environment with ``AutoresetMode.SAME_STEP`` and numpy observations.

    Raises:
        MissingExtraError: without Stable-Baselines3.
    """
    base = library("stable_baselines3.common.vec_env", "training_games").VecEnv
    return type("TrainingGames", (_Games, base), {"__module__": __name__, "__doc__": _Games.__doc__})(games)
