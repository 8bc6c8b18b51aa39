"""An opponent that plays recorded losses: a bundled real game, a file, or an array."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

from dp_experts_env.adversary import Adversary
from dp_experts_env.data import load_losses
from dp_experts_env.spec import ArgumentError, FloatArray, check_count, check_name


class Replay(Adversary):
    """Plays a loss matrix row by row: one of the bundled real games, a file, or any array.

    ## Description
    Round t shows row t of the matrix, the same in every game; all games of a batch share it, and nothing is copied.
    L* is a property of the data: the least column sum. With ``order="shuffled"`` the rows come in an order drawn
    afresh at the start of each game (of each batch, whose games share it): a fixed sequence still, with the same L*
    if the whole matrix is played, and a sample without replacement if the horizon is shorter. The losses do not
    depend on the learner, however often it switches.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        source: the name of a bundled game, the path of a .npy, .csv or .parquet file, or an array of shape
            ``(T, N)`` in [0, 1], which must not be changed while in use; see :func:`dp_experts_env.load_losses`.
            Another ``Replay`` lends its matrix. A pickle holds a name or path instead of the losses.
        order: "file", or "shuffled" for a random order of the rows.
        num_experts: number of experts N; ``None`` or the number of columns.
        horizon: number of rounds T, at most the number of rows; ``None`` for all rows.
        **game: ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range or does not fit the data.
        DataError: if the source cannot be read as a loss matrix.

    ## Version History
    v0: first version.
    """

    examples = (
        {"source": [[0.25]]},
        {"source": [[0.0, 1.0], [0.5, 0.25], [1.0, 0.0]], "order": "shuffled", "horizon": 2},
        {"source": "tumour_realizable", "num_experts": 257, "horizon": 20},
    )

    def __init__(
        self,
        source: Any = "tumour",
        order: str = "file",
        num_experts: int | None = None,
        horizon: int | None = None,
        **game: Any,
    ) -> None:
        if isinstance(source, Replay):
            self._losses: FloatArray = source._losses
            self._given["source"] = source.parameters["source"]
        else:
            self._losses = load_losses(source)
            if not isinstance(source, (str, os.PathLike)):
                self._given["source"] = self._losses
        self.order = check_name("order", order, ("file", "shuffled"))
        rows, columns = self._losses.shape
        if num_experts is not None and check_count("num_experts", num_experts) != columns:
            raise ArgumentError(f"num_experts: expected {columns}, as in the data, but found {num_experts!r}")
        if horizon is not None and check_count("horizon", horizon) > rows:
            raise ArgumentError(f"horizon: expected at most {rows}, as in the data, but found {horizon!r}")
        super().__init__(columns, rows if horizon is None else horizon, **game)

    @property
    def source(self) -> Any:
        """What the losses came from: a name, a path, or the matrix."""
        return self._given["source"]

    def clone(self, **changes: Any) -> Self:
        """Build a fresh copy with the same arguments but ``changes``; it shares the losses."""
        return super().clone(**{"source": self, **changes})

    def start(self) -> None:
        """Draw the order of the rows."""
        self._rows = self.np_random.spawn(1)[0].permutation(len(self._losses)) if self.order == "shuffled" else None

    def emit(self) -> FloatArray:
        """Show the next row; see :meth:`Adversary.emit`."""
        row: FloatArray = self._losses[self.round if self._rows is None else self._rows[self.round]]
        return row

    def emit_block(self, rounds: int) -> FloatArray:
        """Show the next rows; see :meth:`Adversary.emit_block`."""
        rows = slice(self.round, self.round + rounds)
        return self._losses[rows if self._rows is None else self._rows[rows]]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The losses are read-only, so that copies can share them.
        twin: Self = type(self).__new__(type(self))
        memo[id(self)] = twin
        memo[id(self._losses)] = self._losses
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._given["source"] is not self._losses:
            del state["_losses"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_losses" in state:
            self._losses.flags.writeable = False
            return
        self._losses = load_losses(self._given["source"])
        rows, columns = self._losses.shape
        if columns != self.num_experts or rows < self.horizon:
            raise ArgumentError(
                f"source: expected at least {self.horizon} rounds of {self.num_experts} experts, as when this was "
                f"saved, but found shape {self._losses.shape} in {self._given['source']!r}"
            )
