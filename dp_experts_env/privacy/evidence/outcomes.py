"""What was seen of many games of one world."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, check_flag


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What was seen of G games of one world: small integers per game, round and column.

    Args:
        symbols: shape ``(G, T, C)``, non-negative integers, kept in the smallest unsigned dtype that fits: noted coins
            and threshold outcomes in the first columns, the choice in the last.
        challenge: shape ``(G,)``: number of the round, 1..T, in which the two sides differed; 0 where they never did.
        score: shape ``(G,)`` or ``None``: any number per game that tells the worlds apart, such as the exact
            log-likelihood ratio of its outcomes, world 0 over world 1; infinities are allowed.
        columns: C names of the columns.
        identical: whether the games have one law. If not they are independent all the same, each with a law of its own,
            the same one in both worlds' game of a number but for the side played: as where a pair flips coins.

    Raises:
        ArgumentError: wrong shape, nothing in an axis, negative or fractional symbols, a challenge outside 0..T, NaN.
    """

    symbols: NDArray[np.unsignedinteger[Any]]
    challenge: IntArray
    score: FloatArray | None = None
    columns: tuple[str, ...] = ("choice",)
    identical: bool = True

    def __post_init__(self) -> None:
        symbols, challenge = _array("symbols", self.symbols), _array("challenge", self.challenge)
        if symbols.ndim != 3 or 0 in symbols.shape:
            raise ArgumentError(f"symbols: expected shape (games, rounds, columns), none 0, but found {symbols.shape}")
        if symbols.dtype.kind not in "biu":
            raise ArgumentError(f"symbols: expected non-negative integers but found dtype {symbols.dtype}")
        if symbols.dtype.kind != "u":
            if symbols.dtype.kind == "i" and (low := int(symbols.min())) < 0:
                raise ArgumentError(f"symbols: expected non-negative integers but found {low}")
            symbols = symbols.astype(np.min_scalar_type(int(symbols.max())))
        games, horizon, width = symbols.shape
        if challenge.shape != (games,) or challenge.dtype.kind not in "iu":
            raise ArgumentError(
                f"challenge: expected integers of shape ({games},) but found {challenge.dtype} {challenge.shape}"
            )
        if challenge.min() < 0 or challenge.max() > horizon:
            bad = challenge[(challenge < 0) | (challenge > horizon)][0]
            raise ArgumentError(f"challenge: expected a round in 1..{horizon}, or 0 for none, but found {bad}")
        named = isinstance(self.columns, (tuple, list)) and all(isinstance(name, str) for name in self.columns)
        if not named or len(self.columns) != width:
            raise ArgumentError(f"columns: expected {width} names but found {self.columns!r}")
        object.__setattr__(self, "symbols", symbols)
        object.__setattr__(self, "challenge", challenge.astype(np.int64, copy=False))
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.score is not None:
            score = _array("score", self.score)
            if score.shape != (games,) or score.dtype.kind not in "biuf" or np.isnan(score).any():
                raise ArgumentError(f"score: expected numbers of shape ({games},), no NaN, but found {score!r}")
            object.__setattr__(self, "score", score.astype(np.float64, copy=False))
        check_flag("identical", self.identical)

    @property
    def num_games(self) -> int:
        """Number of games G."""
        return len(self.symbols)

    def part(self, games: slice) -> Outcomes:
        """Return the games of a slice, as views."""
        score = None if self.score is None else self.score[games]
        return Outcomes(self.symbols[games], self.challenge[games], score, self.columns, self.identical)

    @functools.cached_property
    def memo(self) -> dict[Any, Any]:
        """What statistics keep of these outcomes, to be read again."""
        return {}

    @functools.cached_property
    def rounds(self) -> NDArray[np.unsignedinteger[Any]]:
        """Symbols by column and round, plus 1 so that 0 is free, shape ``(C, T, G)``; 65534 stands for larger ones."""
        width = np.uint8 if self.symbols.max() < 255 else np.uint16
        found = np.minimum(self.symbols.T, np.uint16(65534)).astype(width, order="C")
        return np.asarray(found + width(1))

    @functools.cached_property
    def offsets(self) -> NDArray[np.unsignedinteger[Any]]:
        """Like ``rounds``, from the round of the challenge on, shape ``(C, T, G)``; 0 where there is no such round."""
        found = np.zeros_like(self.rounds)
        horizon = found.shape[1]
        if self.challenge.min() == self.challenge.max():
            if self.challenge[0] > 0:
                found[:, : horizon + 1 - self.challenge[0]] = self.rounds[:, self.challenge[0] - 1 :]
            return found
        for offset in range(horizon):
            row = self.challenge - 1 + offset
            seen = np.flatnonzero((self.challenge > 0) & (row < horizon))
            found[:, offset, seen] = self.rounds[:, row[seen], seen]
        return found


def _array(name: str, values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ArgumentError(f"{name}: expected a rectangular array but found {values!r}") from error
