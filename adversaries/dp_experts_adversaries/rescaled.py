"""Losses in other units: an explicit map onto [0, 1]."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_experts_env.adversary import Adversary
from dp_experts_env.spec import (
    ArgumentError,
    DataError,
    FloatArray,
    LossError,
    check_count,
    check_number,
)


class Rescaled(Adversary):
    """Plays losses that live in [low, high], mapped onto [0, 1] by (l - low)/(high - low).

    ## Description
    The range is a public constant, stated beforehand; it is never read off the losses. A loss outside it is an error
    that names round and expert, never clipped. Where the raw losses come from:

    - ``None``: coins. At its start each game draws a mean for every expert; each round an expert's raw loss is
      ``high`` with that probability, else ``low``.
    - an array ``(T, N)``, or the path of a .npy, .csv (numbers only, no header) or .parquet file: played row by row,
      the same in every game.
    - a function ``losses(round, rng)`` of the round, from 1, and the game's generator.
    - an object with a method ``emit()``; ``start(game, rng)`` is called at the beginning of each game if there is
      one. With a method ``see(choices)`` it is adaptive. It is copied, so that games do not share its state.
    - a subclass that overrides :meth:`emit_raw` (and ``see``, to be adaptive).

    All may return ``(N,)``, or ``(G, N)`` in a batch (an adaptive one must).

    *Sensitivity.* Replacing one round moves a raw cumulative loss by up to ``high - low``: 4 for losses in [-3, 1].
    Learners work in mapped units, where it is 1, and their guarantees hold unchanged. Regret in raw units is
    ``high - low`` times as large: :meth:`to_raw`.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`, all in mapped units.

    ## Arguments
    Args:
        source: where the raw losses come from, see above.
        low: least raw loss.
        high: greatest raw loss, > ``low``.
        num_experts: number of experts N; ``None`` for the number of columns, or 10.
        horizon: number of rounds T; ``None`` for all rows, or 1000.
        **game: ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range or does not fit the data.
        DataError: if the source cannot be read as a matrix of numbers.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 1, "horizon": 1},
        {"source": [[-3.0, 1.0], [0.5, -0.25], [1.0, 1.0]]},
        {"source": [[0.0, 10.0, 2.5]], "low": 0.0, "high": 10.0},
    )

    def __init__(
        self,
        source: Any = None,
        low: float = -3.0,
        high: float = 1.0,
        num_experts: int | None = None,
        horizon: int | None = None,
        **game: Any,
    ) -> None:
        self.low = check_number("low", low)
        self.high = check_number("high", high, self.low, low_open=True)
        # Huge ends would overflow their difference.
        self.width = check_number("high - low", self.high - self.low, 0.0, low_open=True)
        self.source = source
        self._rows: FloatArray | None = None
        if isinstance(source, (str, os.PathLike)) or not (
            source is None or callable(source) or hasattr(source, "emit")
        ):
            self._rows = _matrix(source)
            rows, columns = self._rows.shape
            if num_experts is not None and check_count("num_experts", num_experts) != columns:
                raise ArgumentError(f"num_experts: expected {columns}, as in the data, but found {num_experts!r}")
            if horizon is not None and check_count("horizon", horizon) > rows:
                raise ArgumentError(f"horizon: expected at most {rows}, as in the data, but found {horizon!r}")
            num_experts, horizon = columns, rows if horizon is None else horizon
        super().__init__(10 if num_experts is None else num_experts, 1000 if horizon is None else horizon, **game)
        if self._rows is not None:
            self._rows = self._mapped(self._rows, 1)

    @property
    def oblivious(self) -> bool:
        """Whether the losses cannot depend on the learner's choices: nothing sees them."""
        return type(self).see is Rescaled.see and not hasattr(self.source, "see")

    def to_raw(self, regret: Any) -> Any:
        """Return a regret, or any difference of losses, in raw units: ``(high - low)`` times it."""
        return np.multiply(regret, self.width)[()]

    def to_raw_loss(self, total: Any, rounds: int) -> Any:
        """Return a total loss over ``rounds`` rounds in raw units: ``low * rounds + (high - low) * total``."""
        return np.add(self.low * check_count("rounds", rounds, 0), np.multiply(total, self.width))[()]

    def start(self) -> None:
        """Begin a new game of the source."""
        means, self._coins = self.np_random.spawn(2)
        self._played: Any = copy.deepcopy(self.source) if self._rows is None else None
        if self.source is None:
            self._means = means.random((*self.game.shape, self.num_experts))
        elif self._played is not None and hasattr(self._played, "start"):
            self._played.start(self.game, self._coins)

    def emit_raw(self) -> Any:
        """Commit this round's losses in raw units from earlier rounds alone; a subclass may override it.

        Returns:
            Shape ``(N,)``, or ``(G, N)`` in a batch; numbers in [low, high].
        """
        if self.source is None:
            return np.where(self._coins.random(self._means.shape) < self._means, self.high, self.low)
        if hasattr(self._played, "emit"):
            return self._played.emit()
        return self._played(self.round + 1, self._coins)

    def emit(self) -> FloatArray:
        """Map this round's raw losses; see :meth:`Adversary.emit`."""
        if self._rows is not None:
            row: FloatArray = self._rows[self.round]
            return row
        mapped: FloatArray = self._mapped(np.asarray(self.emit_raw())[None], self.round + 1)[0]
        return mapped

    def emit_block(self, rounds: int) -> FloatArray:
        """Map several rounds; see :meth:`Adversary.emit_block`."""
        if self._rows is None:
            return super().emit_block(rounds)
        return self._rows[self.round : self.round + rounds]

    def see(self, choices: Any) -> None:
        """Pass the choices on to a source that sees them; see :meth:`Adversary.see`."""
        if hasattr(self._played, "see"):
            self._played.see(choices)

    def _mapped(self, raw: Any, first_round: int) -> FloatArray:
        if raw.dtype.kind not in "biuf":
            raise LossError(f"raw losses of round {first_round}: expected numbers but found dtype {raw.dtype}")
        inside = (raw >= self.low) & (raw <= self.high)
        if not inside.all():
            row, *rest = (int(index) for index in np.argwhere(~inside)[0])
            value = float(raw[(row, *rest)])
            raise LossError(
                f"raw losses of round {first_round + row}, expert {rest[-1] if rest else 0}: expected a number in "
                f"[{self.low:g}, {self.high:g}] but found {value!r}"
            )
        return np.asarray((raw.astype(np.float64) - self.low) / self.width)


def _matrix(source: Any) -> FloatArray:
    try:
        if isinstance(source, (str, os.PathLike)):
            path = Path(source)
            readers: dict[str, Callable[[Path], Any]] = {
                ".npy": lambda file: np.load(file, allow_pickle=False),
                ".csv": lambda file: np.loadtxt(file, delimiter=",", ndmin=2),
                ".parquet": lambda file: pd.read_parquet(file).to_numpy(),
            }
            if path.suffix.lower() not in readers:
                raise ValueError(f"expected a .npy, .csv or .parquet file but found {str(source)!r}")
            array = readers[path.suffix.lower()](path)
        else:
            array = np.array(source)
    except (OSError, ValueError) as error:
        raise DataError(f"source: {error}") from error
    if array.ndim != 2 or not array.size or array.dtype.kind not in "biuf":
        raise DataError(
            f"source: expected numbers of shape (rounds, experts) but found dtype {array.dtype}, shape {array.shape}"
        )
    return np.asarray(array, dtype=np.float64)
