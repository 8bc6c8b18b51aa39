"""Families of public queries over a public domain, read in blocks; cells from records; covers of a family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from dp_experts_env.hypotheses.classes import as_array, as_floats
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, check_count, check_number

BLOCK = 2**20
"""Entries of a block of queries: 8 MiB as float64, about what stays in cache while it is read twice."""

QUERY_RANGES = ((0.0, 1.0), (-1.0, 1.0))


class Queries:
    """A family of Q queries over X cells, given by a function that returns any block of its rows.

    Nothing but one block of about :data:`BLOCK` entries (at least one row) is held at a time, as float64 beside what
    the function itself returns; so a family of any size is answered in O(Q + X) memory.

    Args:
        block: ``block(first, last)`` returns rows first..last-1, shape ``(last - first, X)``, numbers in the query
            range; the same ones at each call. Queries are public: they must not depend on the data.
        num_queries: Q >= 1.
        domain_size: X >= 1.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, block: Callable[[int, int], Any], num_queries: int, domain_size: int) -> None:
        if not callable(block):
            raise ArgumentError(f"block: expected a function of (first, last) but found {block!r}")
        self._block = block
        self.num_queries = check_count("num_queries", num_queries)
        self.domain_size = check_count("domain_size", domain_size)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Queries:
        """Return the rows of a matrix ``(Q, X)`` as queries; it is kept as it is, so uint8 or int8 save memory."""
        rows = as_array("queries", matrix)
        if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "biuf":
            raise ArgumentError(f"queries: expected numbers of shape (Q, X) but found {rows.dtype} {rows.shape}")
        return cls(lambda first, last: rows[first:last], *rows.shape)

    @classmethod
    def packed(cls, bits: Any, domain_size: int) -> Queries:
        """Return {0, 1} queries from bits ``(Q, ceil(X/8))``, uint8, as ``numpy.packbits(matrix, axis=1)`` gives them.

        Raises:
            ArgumentError: not uint8, or not as many bytes a row as the domain needs.
        """
        packed, width = as_array("bits", bits), -(-check_count("domain_size", domain_size) // 8)
        if packed.dtype != np.uint8 or packed.ndim != 2 or not packed.size or packed.shape[1] != width:
            raise ArgumentError(f"bits: expected uint8 of shape (Q, {width}) but found {packed.dtype} {packed.shape}")

        def block(first: int, last: int) -> NDArray[np.uint8]:
            return np.unpackbits(packed[first:last], axis=1, count=domain_size)

        return cls(block, len(packed), domain_size)

    def rows(self, first: int, last: int, query_range: tuple[float, float]) -> FloatArray:
        """Return rows first..last-1 as float64, shape ``(last - first, X)``.

        Raises:
            ArgumentError: rows that there are not, a block of the wrong shape, or a number outside the query range.
        """
        first = check_count("first", first, 0, self.num_queries - 1)
        last = check_count("last", last, first + 1, self.num_queries)
        rows, shape = as_array("queries", self._block(first, last)), (last - first, self.domain_size)
        if rows.shape != shape or rows.dtype.kind not in "biuf":
            raise ArgumentError(f"queries: expected numbers of shape {shape} but found {rows.dtype} {rows.shape}")
        low, high = check_query_range(query_range)
        if not (rows.min() >= low and rows.max() <= high):
            row, cell = np.argwhere(~((rows >= low) & (rows <= high)))[0]
            raise ArgumentError(
                f"queries: expected numbers in [{low:g}, {high:g}] but found {rows[row, cell]!r} "
                f"in query {first + int(row)}, cell {int(cell)}"
            )
        return rows.astype(np.float64, copy=False)

    def blocks(self, query_range: tuple[float, float]) -> Iterator[tuple[int, FloatArray]]:
        """Yield ``(first, rows)`` of consecutive blocks."""
        step = max(1, BLOCK // self.domain_size)
        for first in range(0, self.num_queries, step):
            yield first, self.rows(first, min(first + step, self.num_queries), query_range)

    def answers(self, weights: FloatArray, query_range: tuple[float, float]) -> FloatArray:
        """Return every query's sum over cells of weight times value, shape ``(Q,)``; weights ``(X,)``."""
        weights = as_floats("weights", weights)
        if weights.shape != (self.domain_size,):
            raise ArgumentError(f"weights: expected shape ({self.domain_size},) but found {weights.shape}")
        found = np.empty(self.num_queries)
        for first, rows in self.blocks(query_range):
            found[first : first + len(rows)] = rows @ weights
        return found

    def __repr__(self) -> str:
        return f"Queries(num_queries={self.num_queries}, domain_size={self.domain_size})"


def as_queries(queries: Any, domain_size: int) -> Queries:
    """Return ``queries``, or the rows of a matrix, as :class:`Queries` over exactly ``domain_size`` cells."""
    family = queries if isinstance(queries, Queries) else Queries.from_matrix(queries)
    if family.domain_size != domain_size:
        raise ArgumentError(f"queries: expected {domain_size} cells, the domain's, but found {family.domain_size}")
    return family


def check_query_range(query_range: Any) -> tuple[float, float]:
    """Return (0.0, 1.0) or (-1.0, 1.0), or raise ArgumentError."""
    try:
        found = tuple(float(end) for end in query_range)
    except (TypeError, ValueError):
        found = ()
    for allowed in QUERY_RANGES:
        if found == allowed:
            return allowed
    raise ArgumentError(f"query_range: expected (0, 1) or (-1, 1) but found {query_range!r}")


def histogram(records: Any, edges: Sequence[Any]) -> IntArray:
    """Count records in the cells of a public grid.

    The edges are public and are never read off the data: neighbouring data sets get the same cells by the same code,
    whatever their extreme values. A value beyond the outermost edges counts in the outermost cell.

    Args:
        records: shape ``(n, d)``, numbers, no NaN; or ``(n,)`` with one attribute.
        edges: for each of the d attributes an increasing sequence of k + 1 edges of its k >= 1 cells; a cell holds its
            lower edge. Cells of several attributes are numbered in C order, the last attribute fastest.

    Returns:
        Counts, shape ``(X,)``, X the product of the numbers of cells.

    Raises:
        ArgumentError: edges that are missing or do not increase, or records that do not fit.
    """
    lines: Any = edges
    lines = list(lines) if isinstance(lines, np.ndarray) and lines.ndim else lines
    if not isinstance(lines, Sequence) or isinstance(lines, (str, bytes)) or not lines:
        raise ArgumentError(f"edges: expected public edges of each attribute's cells but found {edges!r}")
    grid = [as_floats("edges", line) for line in lines]
    for attribute, line in enumerate(grid):
        if line.ndim != 1 or len(line) < 2 or not (np.diff(line) > 0).all():
            raise ArgumentError(f"edges: expected two or more increasing numbers for attribute {attribute}")
    values = as_floats("records", records)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] != len(grid) or np.isnan(values).any():
        raise ArgumentError(f"records: expected numbers of shape (n, {len(grid)}), no NaN, but found {values.shape}")
    sizes = tuple(len(line) - 1 for line in grid)
    cells = [np.searchsorted(line[1:-1], column, side="right") for line, column in zip(grid, values.T, strict=True)]
    return np.bincount(np.ravel_multi_index(cells, sizes), minlength=int(np.prod(sizes)))


def greedy_cover(queries: Any, gamma: float, query_range: tuple[float, float] = (0.0, 1.0)) -> IntArray:
    """Return the numbers of queries that are more than ``gamma`` from each other and within ``gamma`` of all others.

    Distance is E_U abs(q - q') / w, U uniform over the cells and w the width of the query range: where queries take the
    range's ends only, the share of cells on which they differ. The result is a gamma-cover from the class itself, and a
    packing: for a class of VC dimension d it has at most (41/gamma)^d queries (S1's count, after Haussler 1995 [TEXT]).
    It takes O(Q Q' X) time and O(Q' X) memory for Q' queries found.

    Args:
        queries: a matrix ``(Q, X)`` or :class:`Queries`.
        gamma: >= 0; 0 leaves out repetitions only.
        query_range: (0, 1) or (-1, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    family = queries if isinstance(queries, Queries) else Queries.from_matrix(queries)
    gamma, query_range = check_number("gamma", gamma, 0.0), check_query_range(query_range)
    found: list[int] = []
    kept = Cover(np.empty((0, family.domain_size)), query_range)
    for first, rows in family.blocks(query_range):
        far = kept.nearest(rows)[1] > gamma
        block, new = Cover(rows[far], query_range), np.zeros(int(far.sum()), dtype=bool)
        among = block.distances(rows[far])
        for index in range(len(new)):
            new[index] = not (among[index, new] <= gamma).any()
        found.extend((first + np.flatnonzero(far)[new]).tolist())
        kept = kept.extended(rows[far][new])
    return np.array(found, dtype=np.int64)


class Cover:
    """Rows of queries to which distances E_U abs(q - q') / w are computed; see :func:`greedy_cover`.

    Args:
        rows: shape ``(Q', X)``.
        query_range: (0, 1) or (-1, 1).
    """

    def __init__(self, rows: FloatArray, query_range: tuple[float, float]) -> None:
        self.query_range = query_range
        self._unit, self._binary = self._scaled(rows)

    def _scaled(self, rows: FloatArray) -> tuple[FloatArray, bool]:
        low, high = self.query_range
        unit: FloatArray = (rows - low) / (high - low)
        return unit, bool(((unit == 0.0) | (unit == 1.0)).all())

    def extended(self, rows: FloatArray) -> Cover:
        """Return a cover with more rows."""
        if not len(rows):
            return self
        more, binary = self._scaled(rows)
        cover = Cover(np.empty((0, rows.shape[1])), self.query_range)
        cover._unit, cover._binary = np.concatenate([self._unit, more]), self._binary and binary
        return cover

    def distances(self, rows: FloatArray) -> FloatArray:
        """Return the distances of rows ``(A, X)`` to the cover's, shape ``(A, Q')``."""
        unit, binary = self._scaled(rows)
        if binary and self._binary:
            differ = unit.sum(-1)[:, None] + self._unit.sum(-1) - 2.0 * (unit @ self._unit.T)
        else:
            differ = cdist(unit, self._unit, "cityblock")
        shares: FloatArray = np.asarray(differ / unit.shape[1])
        return shares

    def nearest(self, rows: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return, for rows ``(A, X)``, each one's nearest row, the first if several, and its distance."""
        if not len(self._unit):
            return np.zeros(len(rows), dtype=np.int64), np.full(len(rows), np.inf)
        distances = self.distances(rows)
        index: IntArray = distances.argmin(-1)
        return index, np.take_along_axis(distances, index[:, None], -1)[:, 0]
