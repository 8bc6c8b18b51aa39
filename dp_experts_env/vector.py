"""Many games of one kind in a vector environment: which began together, how they begin anew, what is told of them.

Whatever seats many learners, adversaries or judges at once derives from :class:`CohortVectorEnv`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from dp_experts_env.spec import ArgumentError, IntArray, ProtocolError, check_count, check_name


@dataclass(eq=False)
class Cohort:
    """Games that began together and are played in lockstep as one batch.

    Attributes:
        player: the batch: an environment with ``np_random``.
        rows: shape ``(C,)``, the rows that the games hold in the vector.
        seats: shape ``(C,)``, their places in the batch; games that have left it play on unheeded.
        over: whether they have ended.
    """

    player: Any
    rows: IntArray
    seats: IntArray
    over: bool = False


class CohortVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment of games that are played in cohorts; a subclass steps them.

    ``reset`` with a list of seeds, or of some games only, splits the cohorts.

    Args:
        single: an environment of one game, whose spaces, metadata and render mode are taken over.
        num_envs: number of games G >= 1.
        max_episode_steps: rounds after which an outer time limit truncates a game; ``None`` for no limit.
        autoreset_mode: Gymnasium's ``AutoresetMode`` or its value.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self, single: Any, num_envs: int, max_episode_steps: int | None, autoreset_mode: AutoresetMode | str
    ) -> None:
        super().__init__()
        self.num_envs = check_count("num_envs", num_envs)
        self._limit = None if max_episode_steps is None else check_count("max_episode_steps", max_episode_steps)
        if not isinstance(autoreset_mode, AutoresetMode):
            check_name("autoreset_mode", autoreset_mode, [mode.value for mode in AutoresetMode])
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**single.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = single.render_mode
        self.single_action_space = single.action_space
        self.single_observation_space = single.observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._cohorts: list[Any] = []
        self._last: NDArray[np.float32] = np.zeros(self.observation_space.shape or (), np.float32)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new games, all of them or those in ``options["reset_mask"]``.

        Args:
            seed: ``None``, one integer for the batch, or a sequence with one integer (or ``None``) a game.
            options: ``reset_mask``, a boolean array ``(G,)``, begins only some games anew; the others go on.

        Returns:
            Observations, one row a game, and information.

        Raises:
            ArgumentError: a seed list or mask of the wrong length or type.
        """
        mask = self._reset_mask(options)
        if seed is None:
            begun = [self._begin(*part) for part in self._going_on(mask)]
        elif isinstance(seed, (int, np.integer)):
            check_count("seed", seed, 0, most=None)
            if mask.all():
                super().reset(seed=int(seed))
            stream = self.np_random if mask.all() else seeding.np_random(int(seed))[0]
            begun = [self._begin(np.flatnonzero(mask), stream)]
        else:
            begun = []
            for row, own in zip(np.flatnonzero(mask), self._seeds(seed)[mask], strict=True):
                if own is None:
                    [(_, stream)] = self._going_on(np.arange(self.num_envs) == row)
                else:
                    stream = seeding.np_random(int(own))[0]
                begun.append(self._begin(np.array([row]), stream))
        for cohort in self._cohorts:
            stay = ~mask[cohort.rows]
            cohort.rows, cohort.seats = cohort.rows[stay], cohort.seats[stay]
        self._cohorts = [cohort for cohort in self._cohorts if len(cohort.rows)] + begun
        observations, infos = self._last.copy(), Infos(self.num_envs)
        for cohort in begun:
            self._show(observations, infos, cohort)
        self._last = observations
        return observations.copy(), infos.arrays

    def _begin(self, rows: IntArray, stream: np.random.Generator) -> Cohort:
        """Begin the games of these rows as one batch with this randomness."""
        raise NotImplementedError

    def _show(self, observations: Any, infos: Infos, cohort: Cohort) -> None:
        """Write what is seen of games that have just begun."""
        raise NotImplementedError

    def _seeds(self, seed: Any) -> NDArray[np.object_]:
        if isinstance(seed, (str, bytes)) or not isinstance(seed, Iterable) or getattr(seed, "ndim", 1) == 0:
            raise ArgumentError(f"seed: expected an integer >= 0, one a game, or None but found {seed!r}")
        given = list(seed)
        if len(given) != self.num_envs:
            raise ArgumentError(f"seed: expected {self.num_envs} seeds, one a game, but found {len(given)}")
        seeds = np.full(self.num_envs, None, dtype=object)
        for game, own in enumerate(given):
            seeds[game] = None if own is None else check_count(f"seed of game {game}", own, 0, most=None)
        return seeds

    def _reset_mask(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        if options is not None and not isinstance(options, dict):
            raise ArgumentError(f"options: expected a dictionary or None but found {options!r}")
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, dtype=bool)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ArgumentError(f"reset_mask: expected a boolean array of shape ({self.num_envs},) but found {mask!r}")
        if not mask.any():
            raise ArgumentError("reset_mask: expected at least one True")
        if not self._cohorts and not mask.all():
            raise ProtocolError("reset_mask: expected a reset of all games first")
        return mask

    def _going_on(self, mask: NDArray[np.bool_]) -> list[tuple[IntArray, np.random.Generator]]:
        """Split the games of ``mask`` by the randomness that they go on with."""
        if not self._cohorts:
            rows = np.flatnonzero(mask)
            return [(rows, self.np_random if len(rows) == self.num_envs else self.np_random.spawn(1)[0])]
        parts = []
        for cohort in self._cohorts:
            chosen = mask[cohort.rows]
            stream = cohort.player.np_random
            if chosen.any():
                # What stays behind keeps the stream.
                parts.append((cohort.rows[chosen], stream if chosen.all() else stream.spawn(1)[0]))
        return parts


class Infos:
    """Information of a vector step, in Gymnasium's layout: an array and a ``_key`` mask for each key."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.arrays: dict[str, Any] = {}

    def put(self, key: str, rows: IntArray, values: Any, shape: tuple[int, ...], dtype: Any) -> None:
        """Write the values of a key for games ``rows`` ``(C,)`` into its array of this shape and dtype."""
        array = self.arrays.setdefault(key, np.zeros(shape, dtype=dtype))
        array[rows] = values
        self._mark(key, rows)

    def final(self, rows: IntArray, observations: Any, final: Infos) -> None:
        """Write the last observations ``(G, ...)`` and information of games ``rows`` that begin anew in this step."""
        array = self.arrays.setdefault("final_obs", np.full(self.num_envs, None, dtype=object))
        for row in rows:
            array[row] = observations[row].copy()
        self._mark("final_obs", rows)
        known = self.arrays.setdefault("final_info", {})
        for key, values in final.arrays.items():
            if key in known:
                known[key][rows] = values[rows]
            else:
                known[key] = values
        self._mark("final_info", rows)

    def _mark(self, key: str, rows: IntArray) -> None:
        self.arrays.setdefault(f"_{key}", np.zeros(self.num_envs, dtype=bool))[rows] = True
