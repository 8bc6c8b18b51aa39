"""What the adversary's and the judge's chairs have in common: an environment around a fixed learner.

One implementation serves a single game, which is a ``gymnasium.Env``, and a batch of them, which
:class:`~dp_experts_env.chairs.ChairVectorEnv` plays in lockstep.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dp_experts_env.adversary import _RenderModeError
from dp_experts_env.learner import Learner, looped
from dp_experts_env.registry import make_learner
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec, Parameters, ProtocolError


class Chair(Parameters, gym.Env[Any, Any]):
    """A seat opposite a fixed learner, of which a copy plays.

    A subclass sets ``action_space`` and ``observation_space`` and implements ``_start``, ``_read``, ``_play`` and
    ``_view``, all with ``...`` indexing behind the games axis.

    Args:
        learner: the learner, by its registered name or as an instance.
        learner_parameters: its constructor keywords, if it is named.
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1.
        num_games: ``None``, or a number of games G >= 1. ``step`` needs ``None``; the vector environment sets it.
        render_mode: ``None`` or "ansi", one line of text.

    Raises:
        ArgumentError: if an argument lies outside its range.
        UnknownNameError: if no learner of that name is registered, or it knows no such keyword.

    Attributes:
        learner: the learner, which is never played itself.
        game: the :class:`~dp_experts_env.GameSpec`.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own declaration)

    game: GameSpec
    learner: Learner

    _rounds = 0
    _player: Learner | None = None
    _started = False

    def __init__(
        self,
        learner: str | Learner,
        learner_parameters: Mapping[str, Any] | None,
        num_experts: int,
        horizon: int,
        num_games: int | None,
        render_mode: str | None,
    ) -> None:
        self.game = GameSpec(num_experts, horizon, num_games)
        self.learner = _seated(learner, learner_parameters)
        if render_mode is not None and not (
            isinstance(render_mode, str) and render_mode in self.metadata["render_modes"]
        ):
            raise _RenderModeError(f"render_mode: unknown name {render_mode!r} (known: ansi)")
        self.render_mode = render_mode

    @property
    def num_experts(self) -> int:
        """Number of experts N."""
        return self.game.num_experts

    @property
    def horizon(self) -> int:
        """Number of rounds T."""
        return self.game.horizon

    @property
    def round(self) -> int:
        """Number of rounds played in the current game, 0..T."""
        return self._rounds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game. With ``seed`` the game is a function of it; without, randomness goes on.

        Returns:
            The observation and the information; see the class.
        """
        super().reset(seed=seed)
        self._rounds = 0
        if self._player is None:
            self._player = copy.deepcopy(self.learner if self.game.num_games is None else looped(self.learner))
        # Children that no other game has: a game's randomness does not depend on how long the last one was.
        learner_rng, own_rng = self.np_random.spawn(2)
        self._player.reset(self.game, learner_rng)
        self._start(own_rng)
        self._started = True
        return self._shown()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one round.

        Returns:
            Observation, reward, terminated, truncated and information; see the class.

        Raises:
            ArgumentError: if ``action`` is none of the action space; the game is as before the call.
            ProtocolError: before :meth:`reset`, or after the horizon.
        """
        if self.game.num_games is not None:
            raise ProtocolError(
                f"{type(self).__name__}.step: plays one game but found num_games={self.game.num_games}; "
                "use gymnasium.make_vec for a batch"
            )
        if not self._started:
            raise ProtocolError(f"{type(self).__name__}.step: expected reset() first")
        if self._rounds >= self.horizon:
            raise ProtocolError(
                f"{type(self).__name__}.step: all {self.horizon} rounds have been played; call reset() for a new game"
            )
        reward = self._advance(self._read(action, (), self._rounds + 1, "action"))
        observation, info = self._shown()
        return observation, float(reward), self._rounds >= self.horizon, False, info

    def _advance(self, actions: NDArray[Any]) -> FloatArray:
        rewards = self._play(actions)
        self._rounds += 1
        return rewards

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        observation, info = self._view()
        return observation, {key: value if value.ndim else value.item() for key, value in info.items()}

    # -- what a subclass writes --------------------------------------------------------------------------------

    def _start(self, rng: np.random.Generator) -> None:
        """Build the state of a new game; the learner has been reset. ``rng`` is a stream of the chair's own."""
        raise NotImplementedError

    def _read(self, action: Any, shape: tuple[int, ...], round: int, source: str) -> NDArray[Any]:
        """Check the actions of games of this ``shape``, ``()`` or ``(G,)``."""
        raise NotImplementedError

    def _play(self, actions: NDArray[Any]) -> FloatArray:
        """Play one round with checked actions, and return the rewards, shape ``()`` or ``(G,)``."""
        raise NotImplementedError

    def _view(self) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Return observations ``(..., D)`` and information, fresh arrays with the games axis first."""
        raise NotImplementedError

    def _line(self, game: tuple[int, ...]) -> str:
        """Return one line of text on game ``(g,)`` of a batch, or ``()``."""
        raise NotImplementedError

    def render(self) -> str | None:
        """Return one line of text on the game so far in render mode "ansi", else ``None``."""
        return self._line(()) if self.render_mode == "ansi" and self._started and not self.game.shape else None


def _seated(learner: str | Learner, parameters: Mapping[str, Any] | None) -> Learner:
    if isinstance(learner, Learner):
        if parameters:
            raise ArgumentError(
                "learner_parameters: expected none, since the learner is an instance; "
                f"learner.clone(...) changes its parameters; found {parameters!r}"
            )
        return learner
    if not isinstance(learner, str):
        raise ArgumentError(f"learner: expected the name of a learner or a Learner but found {learner!r}")
    keywords = {} if parameters is None else parameters
    if not isinstance(keywords, Mapping) or not all(isinstance(name, str) for name in keywords):
        raise ArgumentError(f"learner_parameters: expected keywords by name or None but found {parameters!r}")
    return make_learner(learner, **keywords)


def check_indices(actions: Any, sizes: Any, shape: tuple[int, ...], round: int, source: str) -> NDArray[np.int64]:
    """Return integers below ``sizes`` as int64, or raise an error that names the round and the game.

    Args:
        actions: integers, shape ``(*shape, *sizes.shape)``.
        sizes: how many values there are of each, an integer or an array of them.
        shape: ``()`` for one game, ``(G,)`` for a batch.
        round: number of the round, from 1, for the message.
        source: what is being checked, for the message.

    Raises:
        ArgumentError: wrong shape, not an integer, or out of range.
    """
    sizes = np.asarray(sizes)
    expected = (*shape, *sizes.shape)
    try:
        array: NDArray[Any] = np.asarray(actions)
    except ValueError as error:
        raise ArgumentError(f"{source} of round {round}: expected shape {expected} but found {actions!r}") from error
    if array.shape != expected or array.dtype.kind not in "iu":
        raise ArgumentError(
            f"{source} of round {round}: expected integers of shape {expected} but found {array.dtype} of shape "
            f"{array.shape}: {actions!r}"
        )
    bad = (array < 0) | (array >= sizes)
    if bad.any():
        place = tuple(np.argwhere(bad)[0])
        game = f" in game {place[0]}" if shape else ""
        most = np.broadcast_to(sizes, expected)[place] - 1
        raise ArgumentError(
            f"{source} of round {round}{game}: expected an integer in 0..{most} but found {array[place]}"
        )
    return array.astype(np.int64, copy=False)
