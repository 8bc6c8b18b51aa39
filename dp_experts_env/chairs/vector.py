"""Many games of a chair at once: the native vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from dp_experts_env.chairs.chair import Chair
from dp_experts_env.spec import ArgumentError, IntArray, ProtocolError
from dp_experts_env.vector import Cohort, CohortVectorEnv, Infos


class ChairVectorEnv(CohortVectorEnv):
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
        if not isinstance(chair, Chair):
            raise ArgumentError(f"chair: expected an AdversaryEnv or a JudgeEnv but found {chair!r}")
        super().__init__(chair, num_envs, max_episode_steps, autoreset_mode)
        self.chair = chair

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
        observations, infos = self._last.copy(), Infos(self.num_envs)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros(self.num_envs, dtype=bool), np.zeros(self.num_envs, dtype=bool)
        for cohort in self._cohorts:
            chair, rows = cohort.player, cohort.rows
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
                    final = Infos(self.num_envs)
                    self._show(observations, final, cohort)
                    infos.final(rows, observations, final)
                    self._restart(cohort)
            self._show(observations, infos, cohort)
        self._last = observations
        return observations.copy(), rewards, terminated, truncated, infos.arrays

    def render(self) -> tuple[str, ...] | None:
        """Return one line of text a game in render mode "ansi", else ``None``."""
        if self.render_mode != "ansi" or not self._cohorts:
            return None
        lines = [""] * self.num_envs
        for cohort in self._cohorts:
            for row, seat in zip(cohort.rows, cohort.seats, strict=True):
                lines[row] = cohort.player._line((int(seat),))
        return tuple(lines)

    def _read(self, actions: Any, ignored: NDArray[np.bool_]) -> NDArray[Any]:
        round = self._cohorts[0].player.round + 1
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

    def _begin(self, rows: IntArray, stream: np.random.Generator) -> Cohort:
        chair = self.chair.clone(num_games=len(rows))
        chair.np_random = stream
        chair.reset()
        return Cohort(chair, rows, np.arange(len(rows)))

    def _restart(self, cohort: Cohort) -> None:
        cohort.player.reset()
        cohort.over = False

    def _show(self, observations: Any, infos: Infos, cohort: Cohort) -> None:
        seen, values = cohort.player._view()
        observations[cohort.rows] = seen[cohort.seats]
        for key, array in values.items():
            infos.put(key, cohort.rows, array[cohort.seats], (self.num_envs, *array.shape[1:]), array.dtype)
