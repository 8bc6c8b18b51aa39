"""The learner's chair in the privacy game, as a Gymnasium environment that hides a bit."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs

from dp_experts_env.privacy.game.pair import Pair
from dp_experts_env.spec import ArgumentError, ProtocolError, check_choices, check_count

BIT_STREAM = (2**31, 1)
"""Spawn key of the hidden bit's stream; no stream that a pair spawns has one like it."""


class PrivacyGame(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """The learner's chair in the privacy game: plays side b of a pair, b hidden.

    Spaces, rewards and information are those of :class:`~dp_experts_env.Adversary`, all of side b: nothing that
    ``reset``, ``step``, ``render`` or ``repr`` shows depends on the other side or on b. After the last round
    :meth:`reveal` gives the bit.

    At each reset the bit is drawn from a stream of its own, a function of ``seed`` too. The pair's randomness is
    another: with one seed the pair plays alike in both worlds.

    Args:
        env: the pair, of a single game (``num_games=None``).
        bit: ``None`` to draw the bit, or 0 or 1 to fix it, for experiments.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, env: Pair, bit: int | None = None) -> None:
        pair = env.unwrapped if isinstance(env, gym.Env) else env
        if not isinstance(pair, Pair):
            raise ArgumentError(f"env: expected a Pair but found {env!r}; make_pair(name) builds one")
        if pair.game.num_games is not None:
            raise ArgumentError(
                f"env: expected a pair of one game (num_games=None) but found num_games={pair.game.num_games}; "
                "run_privacy_game plays a batch"
            )
        fixed = None if bit is None else check_count("bit", bit, 0, 1)
        RecordConstructorArgs.__init__(self, bit=fixed)
        super().__init__(pair)
        self._pair = pair
        self._fixed = fixed
        self._bit: int | None = None
        self._bits: np.random.Generator | None = None
        if pair.spec is None:
            # Whoever rebuilds the game from its spec, as the checkers do, needs that of the pair.
            address = f"{type(pair).__module__}:{type(pair).__qualname__}"
            pair.spec = EnvSpec(f"dp_experts/{type(pair).__name__}-v0", entry_point=address, kwargs=pair.parameters)

    @property
    def unwrapped(self) -> gym.Env[Any, Any]:
        """This game: beneath it there is no environment, only a pair that shows both sides."""
        return self

    @property
    def _np_random(self) -> Any:  # type: ignore[override]
        return self._pair._np_random

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game and draw the hidden bit; see :meth:`Adversary.reset`."""
        view = self._pair.reset(seed=seed, options=options)
        if seed is not None or self._bits is None:
            self._bits = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=BIT_STREAM))
        drawn = int(self._bits.integers(2))
        self._bit = drawn if self._fixed is None else self._fixed
        return view

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one round with the learner naming expert ``action``; the losses are those of side b.

        Returns:
            Observation, reward, terminated, truncated and information; see the class.

        Raises:
            ChoiceError: if ``action`` is no expert id.
            AdjacencyError, LossError: if the pair breaks the rules.
            ProtocolError: before :meth:`reset`, or after the horizon.
        """
        pair = self._pair
        if self._bit is None or pair._score is None:
            raise ProtocolError("PrivacyGame.step: expected reset() first")
        choice = check_choices(action, pair.game, pair.round + 1, source="action")
        losses = pair.emit()[self._bit]
        pair.see(choice)
        pair._score.add(losses, choice)
        observation, info = pair._view(losses)
        return observation, -float(losses[choice]), pair.round >= pair.horizon, False, info

    def reveal(self) -> int:
        """Return the bit, once the game is over.

        Raises:
            ProtocolError: before the last round has been played.
        """
        if self._bit is None or self._pair.round < self._pair.horizon:
            raise ProtocolError(
                f"PrivacyGame.reveal: the bit is hidden until round {self._pair.horizon} has been played; "
                f"{self._pair.round} were"
            )
        return self._bit
