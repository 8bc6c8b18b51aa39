"""Pairs of loss sequences that differ in one round: what an author writes, the rules, and the registry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.adversary import Adversary, LoopedAdversary
from dp_experts_env.registry import Registry
from dp_experts_env.spec import (
    ADVERSARY_MODELS,
    Adjacency,
    AdjacencyError,
    FloatArray,
    IntArray,
    LossError,
    ProtocolError,
    check_adjacency,
    check_losses,
    check_name,
)


class Pair(Adversary):
    """An adversary of the privacy game: each round it commits two loss vectors, which differ in at most one round.

    An author overrides :meth:`emit`, usually :meth:`start`, and :meth:`see` if what is emitted depends on the learner's
    choices. All that is said of :class:`~dp_experts_env.Adversary` holds: index arrays with ``...``, build state with
    ``zeros`` and ``one_hot``, take randomness from ``self.np_random`` only, own keywords before ``**game``. What
    differs is that :meth:`emit` returns both sides, and that a pair alone cannot be stepped: it sees which side is
    which. :class:`PrivacyGame` is its environment::

        class FlipLast(dpe.Pair):
            def emit(self):
                losses = self.zeros(self.num_experts)
                return np.stack([losses, losses + 1.0 if self.round == self.horizon - 2 else losses])

    In a batch both sides must have the games axis or neither: ``one_hot(expert)`` of a single id has none,
    ``one_hot(np.full(self.game.shape, expert))`` has it.

    The games of a batch should be independent of each other: a coin is drawn for each. Both worlds of
    :func:`run_privacy_game` meet the same coins.

    Args:
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1.
        num_games: ``None``, or a number of games G >= 1 that :meth:`emit` serves at once.
        adjacency: "replace", or "zero_out": then one side of the round in which the sides differ must be all zeros.
        render_mode: ``None`` or "ansi".

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        adjacency: the :class:`~dp_experts_env.Adjacency`.
    """

    _sides = 2
    _challenge: IntArray

    def __init__(
        self,
        num_experts: int = 4,
        horizon: int = 20,
        num_games: int | None = None,
        adjacency: str | Adjacency = "replace",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(num_experts, horizon, num_games, render_mode)
        self.adjacency = check_adjacency(adjacency)
        self._challenge = np.zeros(self.game.shape, dtype=np.int64)

    def emit(self) -> FloatArray:
        """Commit both sides of this round from earlier rounds alone.

        Returns:
            Shape ``(2, N)``; in a batch ``(2, G, N)``, or ``(2, N)`` where all games share an oblivious pair of
            sequences. Numbers in [0, 1]; side 0 first.

        Raises:
            LossError: wrong shape, NaN or out of range.
            AdjacencyError: the sides differ for a second time in a game, or not as the adjacency allows; the round
                does not count as emitted, and :attr:`challenge` is as before.
            ProtocolError: before :meth:`reset`, past the horizon, or before :meth:`see` ended an adaptive round.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement emit()")

    @property
    def challenge(self) -> IntArray:
        """The round 1..T in which the sides differed, 0 while there was none; shape ``()`` or ``(G,)``."""
        return self._challenge.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game; see :meth:`Adversary.reset`."""
        self._challenge = np.zeros(self.game.shape, dtype=np.int64)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Refuse: who steps a pair would have to be told a side.

        Raises:
            ProtocolError: always.
        """
        raise ProtocolError(
            f"{type(self).__name__}.step: a pair emits two sides and is no environment by itself; "
            "PrivacyGame(pair) draws the hidden side and steps it"
        )

    def emit_block(self, rounds: int) -> FloatArray:
        """Refuse: the privacy game goes round by round.

        Raises:
            ProtocolError: always.
        """
        raise ProtocolError(f"{type(self).__name__}.emit_block: a pair is played round by round; use emit()")

    def _checked(self, raw: Any) -> FloatArray:
        round, source = self._emitted + 1, f"{type(self).__name__}.emit"
        try:
            sides: NDArray[Any] = np.asarray(raw)
        except ValueError as error:
            raise LossError(f"{source} of round {round}: expected two sides of one shape but found {raw!r}") from error
        if sides.ndim < 2 or len(sides) != 2:
            games = "" if self.game.num_games is None else f" or (2, {self.game.num_games}, {self.num_experts})"
            raise LossError(
                f"{source} of round {round}: expected both sides, shape (2, {self.num_experts}){games}, "
                f"but found {sides.shape}"
            )
        for number, side in enumerate(sides):
            check_losses(side, self.game, round, source=f"{source}, side {number},")
        self._require_own_losses(sides.ndim, 3)
        sides = sides.astype(np.float64, copy=False)
        differing = self._differing(sides[0] != sides[1])
        if differing is not None:
            self._check_adjacent(sides, differing, round, source)
            # A new array: the round that is refused leaves the old one as it was.
            self._challenge = np.where(differing, round, self._challenge)
        return sides

    def _differing(self, unequal: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """In which games the sides differ, shape ``()`` or ``(G,)``; ``None`` for none of them, the usual case."""
        if not unequal.any():
            return None
        if unequal.ndim == 1:
            return np.ones(self.game.shape, dtype=bool)
        differing = np.zeros(self.game.shape, dtype=bool)
        # Rows are short, so that reducing each of them would be slow.
        differing[np.flatnonzero(unequal) // self.num_experts] = True
        return differing

    def _check_adjacent(self, sides: FloatArray, differing: Any, round: int, source: str) -> None:
        again = differing & (self._challenge > 0)
        if again.any():
            game = np.flatnonzero(again)[0]
            where = "" if self.game.num_games is None else f" in game {game}"
            raise AdjacencyError(
                f"{source} of round {round}: the two sides differ{where}, but they differed already in round "
                f"{self._challenge.ravel()[game]}; they may differ in one round only"
            )
        if self.adjacency is Adjacency.ZERO_OUT:
            neither = differing & sides.any(-1).all(0)
            if neither.any():
                where = "" if self.game.num_games is None else f" in game {np.flatnonzero(neither)[0]}"
                raise AdjacencyError(
                    f"{source} of round {round}: the two sides differ{where} but neither is all zeros, "
                    'as adjacency="zero_out" demands'
                )


class LoopedPair(LoopedAdversary, Pair):
    """A batch of games played by single-game copies of one pair; see :class:`LoopedAdversary`."""

    def __init__(self, adversary: Pair, num_games: int | None = None) -> None:
        super().__init__(adversary, num_games)
        self.adjacency = adversary.adjacency


def _seated(pair: Pair, num_games: int | None) -> Pair:
    if num_games is not None and not pair.batched:
        return LoopedPair(pair, num_games)
    return pair.clone(num_games=num_games)


_pairs: Registry[Pair] = Registry("pair", Pair, "dp_experts_env.pairs")


def pairs(kind: str | None = None) -> tuple[str, ...]:
    """Sorted names of the registered pairs.

    Args:
        kind: "oblivious" or "adaptive", for those that are so with their default arguments; ``None`` for all.
    """
    if kind is None:
        return _pairs.names()
    check_name("kind", kind, ADVERSARY_MODELS[1:])
    return tuple(name for name in _pairs.names() if _pairs.load(name)().kind == kind)


def pair_class(name: str) -> type[Pair]:
    """Return the pair class registered under ``name``."""
    return _pairs.load(name)


def make_pair(name: str, **parameters: Any) -> Pair:
    """Build the pair registered under ``name``; see :meth:`Registry.make`."""
    return _pairs.make(name, **parameters)


def register_pair(name: str, cls: type[Pair] | str) -> None:
    """Register a pair class, or its ``"module:Class"``; see :meth:`Registry.register`."""
    _pairs.register(name, cls)
