"""Many games of a chair at once: the native vector environment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from dp_experts_env.adversary import _Infos
from dp_experts_env.chairs.chair import Chair
from dp_experts_env.spec import ArgumentError, IntArray, ProtocolError, check_count, check_name


@dataclass(eq=False)
class _Cohort:
    """Games that began together, the rows they hold in the vector, and their seats in the batch."""

    chair: Chair
    rows: IntArray
    seats: IntArray
    over: bool = False


class ChairVectorEnv(VectorEnv[Any, Any, Any]):
    """Many games of one chair, each against a copy of the same learner.

    All games that began together are played in lockstep as one batch; ``reset`` with a list of seeds, or of some
    games only, splits them. One integer seeds the whole batch; with a list, game k equals the single environment
    reset with seed k of the list. Without a seed randomness goes on: that of each batch, or of each game reset from a
    list. Spaces, rewards and information are those of the chair, with Gymnasium's ``_key`` masks.

    Args:
        chair: the chair; its own ``num_games`` is ignored.
        num_envs: number of games G >= 1.
        max_episode_steps: rounds after which an outer time limit truncates a game, as Gymnasium's ``TimeLimit`` does
            (a horizon reached in the same round terminates it as well); ``None`` for no limit.
        autoreset_mode: Gymnasium's ``AutoresetMode`` or its value: next step (default), same step or disabled.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        chair: Chair,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        super().__init__()
        if not isinstance(chair, Chair):
            raise ArgumentError(f"chair: expected an AdversaryEnv or a JudgeEnv but found {chair!r}")
        self.chair = chair
        self.num_envs = check_count("num_envs", num_envs)
        self._limit = None if max_episode_steps is None else check_count("max_episode_steps", max_episode_steps)
        if not isinstance(autoreset_mode, AutoresetMode):
            check_name("autoreset_mode", autoreset_mode, [mode.value for mode in AutoresetMode])
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**chair.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = chair.render_mode
        self.single_action_space = chair.action_space
        self.single_observation_space = chair.observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._cohorts: list[_Cohort] = []
        self._last: NDArray[np.float32] = np.zeros(self.observation_space.shape or (), np.float32)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new games, all of them or those in ``options["reset_mask"]``.

        Args:
            seed: ``None``, one integer for the batch, or a sequence with one integer (or ``None``) a game.
            options: ``reset_mask``, a boolean array ``(G,)``, begins only some games anew; the others go on.

        Returns:
            Observations ``(G, D)`` and information.

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
        observations, infos = self._last.copy(), _Infos(self.num_envs)
        for cohort in begun:
            self._fill(observations, infos, cohort)
        self._last = observations
        return observations.copy(), infos.arrays

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one round of every game, or begin anew those that have ended, as the autoreset mode says.

        Args:
            actions: one action a game, as in ``action_space``; that of a game that begins anew is ignored.

        Returns:
            Observations ``(G, D)``, rewards, terminated and truncated ``(G,)``, and information.

        Raises:
            ArgumentError: if an action is none of the action space; the games are as before the call.
            ProtocolError: before :meth:`reset`, or for a finished game with autoreset disabled.
        """
        if not self._cohorts:
            raise ProtocolError("step: expected reset() first")
        over = np.zeros(self.num_envs, dtype=bool)
        for cohort in self._cohorts:
            over[cohort.rows] = cohort.over
        if self.autoreset_mode is AutoresetMode.DISABLED and over.any():
            raise ProtocolError(
                f"step: game(s) {np.flatnonzero(over)[:8].tolist()} have ended and autoreset is disabled; "
                "reset them with options={'reset_mask': mask}"
            )
        actions = self._read(actions, over)
        observations, infos = self._last.copy(), _Infos(self.num_envs)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros(self.num_envs, dtype=bool), np.zeros(self.num_envs, dtype=bool)
        for cohort in self._cohorts:
            chair, rows = cohort.chair, cohort.rows
            if cohort.over:
                self._restart(cohort)
            else:
                # Games that have left the batch play on unheeded.
                seated = np.zeros((*chair.game.shape, *actions.shape[1:]), dtype=actions.dtype)
                seated[cohort.seats] = actions[rows]
                rewards[rows] = chair._advance(seated)[cohort.seats]
                terminated[rows] = ended = chair.round >= chair.horizon
                truncated[rows] = cut = self._limit is not None and chair.round >= self._limit
                cohort.over = ended or cut
                if cohort.over and self.autoreset_mode is AutoresetMode.SAME_STEP:
                    final = _Infos(self.num_envs)
                    self._fill(observations, final, cohort)
                    infos.final(rows, observations, final)
                    self._restart(cohort)
            self._fill(observations, infos, cohort)
        self._last = observations
        return observations.copy(), rewards, terminated, truncated, infos.arrays

    def render(self) -> tuple[str, ...] | None:
        """Return one line of text a game in render mode "ansi", else ``None``."""
        if self.render_mode != "ansi" or not self._cohorts:
            return None
        lines = [""] * self.num_envs
        for cohort in self._cohorts:
            for row, seat in zip(cohort.rows, cohort.seats, strict=True):
                lines[row] = cohort.chair._line((int(seat),))
        return tuple(lines)

    def _read(self, actions: Any, ignored: NDArray[np.bool_]) -> NDArray[Any]:
        round = self._cohorts[0].chair.round + 1
        try:
            array: NDArray[Any] = np.asarray(actions)
        except ValueError as error:
            raise ArgumentError(
                f"actions of round {round}: expected shape {self.action_space.shape} but found {actions!r}"
            ) from error
        if ignored.any() and array.shape == self.action_space.shape:
            array = array.copy()
            array[ignored] = 0
        return self.chair._read(array, (self.num_envs,), round, "actions")

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
            stream = cohort.chair.np_random
            if chosen.any():
                # What stays behind keeps the stream.
                parts.append((cohort.rows[chosen], stream if chosen.all() else stream.spawn(1)[0]))
        return parts

    def _begin(self, rows: IntArray, stream: np.random.Generator) -> _Cohort:
        chair = self.chair.clone(num_games=len(rows))
        chair.np_random = stream
        chair.reset()
        return _Cohort(chair, rows, np.arange(len(rows)))

    def _restart(self, cohort: _Cohort) -> None:
        cohort.chair.reset()
        cohort.over = False

    def _fill(self, observations: Any, infos: _Infos, cohort: _Cohort) -> None:
        seen, values = cohort.chair._view()
        observations[cohort.rows] = seen[cohort.seats]
        for key, array in values.items():
            infos.put(key, cohort.rows, array[cohort.seats], (self.num_envs, *array.shape[1:]), array.dtype)
