"""SmallDB: an exponential mechanism over all small databases, on the whole domain or on a pool of uniform cells.

Proofs and constants: see the docstring of this folder. For small domains only, since all candidates are enumerated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import binom

from dp_experts_agents.mwem.base import Covered, PrivateRelease
from dp_experts_agents.mwem.queries import BLOCK, Queries, as_queries
from dp_experts_env.hypotheses.classes import as_array
from dp_experts_env.privacy.accounting import Filter, Ledger
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities, sample_gumbel
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    IntArray,
    check_count,
    check_number,
)

MOST_RECORDS = 2**22
"""Largest number of records that all small databases together may have, as they are enumerated: 32 MiB."""

PLANNED_BETA = 0.05
"""Failure probability at which the error bound decides the size of the small database where it is left open."""


def _check_candidates(number: int, records: int, words: str) -> int:
    if number * records > MOST_RECORDS:
        shown = f"{number:.3g} of them" if number < 10**300 else "far more"
        raise ArgumentError(
            f"{words}: expected small databases of at most {MOST_RECORDS} records together but there are {shown}"
        )
    return number


class SmallDB(PrivateRelease):
    """Draws a small database that answers a family of queries, by the exponential mechanism (BLR 2008).

    Each ``fit`` is epsilon-DP under ``adjacency``, whatever the data and queries [DERIVED]; it spends epsilon anew.
    Time and memory: all multisets of m cells are enumerated, at most :data:`MOST_RECORDS` cells.

    Args:
        domain_size: number X of cells of the public domain.
        epsilon: privacy budget, > 0.
        records: m, the number of records of the small database, an integer >= 1; ``None`` for the least error bound
            among those that can be enumerated, which public numbers decide.
        adjacency: "replace" or "zero_out"; see :class:`PrivateRelease`.
        query_range: (0, 1) or (-1, 1).
        size: public number of records; needed with "zero_out".
        rng: the ``numpy.random.Generator`` that every draw comes from.

    Attributes:
        cells_: the cells of the small database, shape ``(m,)``.
        law_: its distribution, shape ``(X,)``; :meth:`release` copies it.
        ledger_: the ``Ledger`` with the one spend.
        size_: the public number of records.

    Raises:
        ArgumentError: if an argument lies outside its range, or there are too many candidates.
    """

    cells_: IntArray
    ledger_: Ledger

    def __init__(
        self,
        domain_size: int,
        epsilon: float = 1.0,
        records: int | None = None,
        adjacency: str | Adjacency = Adjacency.REPLACE,
        query_range: tuple[float, float] = (0.0, 1.0),
        size: int | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(domain_size, epsilon, adjacency, query_range, size, rng)
        self.records = None if records is None else check_count("records", records, most=MOST_RECORDS)
        if self.records is not None and type(self) is SmallDB:
            self._num_candidates(self.records)

    def fit(self, histogram: Any, queries: Any) -> SmallDB:
        """Draw a small database that answers the queries.

        Args:
            histogram: number of records in each cell, shape ``(X,)``.
            queries: a matrix ``(Q, X)`` or :class:`~dp_experts_agents.mwem.Queries`; public.

        Raises:
            ArgumentError: counts or queries that do not fit.
        """
        counts, size = self._counts(histogram)
        family = as_queries(queries, self.domain_size)
        self._draw(self.candidates(family.num_queries, size), counts, size, family)
        return self

    def candidates(self, num_queries: int, size: int | None = None) -> IntArray:
        """Return the multisets of cells that ``fit`` chooses from, one a row, shape ``(C, m)``. Data never enter."""
        records = self._planned(num_queries, self._public_size(size))
        return _table(
            itertools.combinations_with_replacement(range(self.domain_size), records),
            (self._num_candidates(records), records),
        )

    def selection_log_probabilities(self, histogram: Any, queries: Any) -> FloatArray:
        """Return the log-probabilities with which each of :meth:`candidates` is drawn, shape ``(C,)``. Not private."""
        counts, size = self._counts(histogram)
        family = as_queries(queries, self.domain_size)
        return self._log_law(self.candidates(family.num_queries, size), counts, size, family)

    def error_bound(self, beta: float, num_queries: int, size: int | None = None) -> float:
        """Return what all errors ``|q(data) - q(release)|`` are at most, with probability at least 1 - beta [DERIVED].

        It may exceed the width of the query range and then says nothing.

        Args:
            beta: in (0, 1).
            num_queries: Q >= 1.
            size: public number of records; the declared one or that of the last fit if absent. The data must have
                exactly that many.

        Raises:
            ArgumentError: if an argument lies outside its range, or no size is known.
        """
        beta = check_number("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
        size, num_queries = self._public_size(size), check_count("num_queries", num_queries)
        return self._error(self._planned(num_queries, size), beta, num_queries, size)

    def _planned(self, num_queries: int, size: int) -> int:
        if self.records is not None:
            return self.records
        self._num_candidates(1)
        # none are left where a given pool has fewer cells
        most = next(m for m in itertools.count(1) if not 0 < self._count(m + 1) * (m + 1) <= MOST_RECORDS or m == 1000)
        return min(range(1, most + 1), key=lambda m: self._error(m, PLANNED_BETA, num_queries, size))

    def _error(self, records: int, beta: float, num_queries: int, size: int) -> float:
        slack = (math.log(self._count(records)) - math.log(beta)) / (self.coefficient * size)
        return self._sampling_error(records, 1.0, num_queries) + slack

    def _sampling_error(self, records: int, probability: float, num_queries: int) -> float:
        """Return what m draws err by more than with at most this probability, over all queries (Hoeffding)."""
        return self.width * math.sqrt(math.log(2.0 * num_queries / probability) / (2.0 * records))

    @property
    def coefficient(self) -> float:
        """What multiplies a candidate's largest error in counts in the exponent: epsilon/(2 Delta)."""
        # Delta is 1 or 2, so nothing is rounded
        return self.epsilon / (2.0 * self.sensitivity)

    def _count(self, records: int) -> int:
        return math.comb(self.domain_size + records - 1, records)

    def _num_candidates(self, records: int) -> int:
        return _check_candidates(self._count(records), records, f"domain_size {self.domain_size}, records {records}")

    def _log_law(self, candidates: IntArray, counts: FloatArray, size: int, queries: Queries) -> FloatArray:
        worst = np.zeros(len(candidates))
        for _, rows in queries.blocks(self.query_range):
            truth, columns = rows @ counts, np.ascontiguousarray(rows.T)
            step = max(1, BLOCK // (len(rows) * candidates.shape[1]))
            for first in range(0, len(candidates), step):
                answers = columns[candidates[first : first + step]].mean(1)
                gaps = np.abs(size * answers - truth).max(-1)
                worst[first : first + step] = np.maximum(worst[first : first + step], gaps)
        # Where a budget is huge what overflows has no probability.
        with np.errstate(over="ignore"):
            return exponential_log_probabilities(worst, self.coefficient)

    def _draw(self, candidates: IntArray, counts: FloatArray, size: int, queries: Queries) -> None:
        budget = Filter(self.epsilon)
        budget.spend(self.epsilon, label="selection")
        law = self._log_law(candidates, counts, size, queries)
        self.cells_ = candidates[int(sample_gumbel(law, self.rng))].copy()
        self.law_ = np.bincount(self.cells_, minlength=self.domain_size) / len(self.cells_)
        self.ledger_, self.size_ = budget.ledger, size


def _table(rows: Iterator[tuple[int, ...]], shape: tuple[int, int]) -> IntArray:
    flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=shape[0] * shape[1])
    return flat.reshape(shape)


def _missed(records: int, pool: int, sigma: float) -> float:
    """Return P[Bin(N, sigma) < m]."""
    return float(binom.cdf(records - 1, pool, sigma))


@lru_cache(maxsize=4096)
def _least_pool(records: int, sigma: float) -> int:
    low, high = records - 1, records
    while _missed(records, high, sigma) > PLANNED_BETA / 3.0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _missed(records, middle, sigma) <= PLANNED_BETA / 3.0 else (middle, high)
    return high


class SmoothSmallDB(Covered, SmallDB):
    """SmallDB on a cover, over the m-subsets of a pool of uniform cells: on smooth data the domain does not matter.

    It is epsilon-DP whatever the data; smoothness is for utility alone. Answers come from the nearest query of the
    cover.

    Args:
        domain_size: number X of cells of the public domain; it may be large.
        sigma: smoothness of the data, in [1e-12, 1].
        epsilon: privacy budget, > 0.
        records: m, or ``None`` for the least error bound.
        pool: N, the number of uniform cells, at least m; ``None`` for the least at which m of them or more are kept
            with probability 59/60.
        gamma: radius of the cover, in E_U abs(q - q') / w; ``None`` for sigma/(2 n).
        adjacency: "replace" or "zero_out"; see :class:`PrivateRelease`.
        query_range: (0, 1) or (-1, 1).
        size: public number of records; needed with "zero_out".
        rng: the ``numpy.random.Generator`` that every draw comes from.

    Attributes:
        pool_: the cells of the pool, shape ``(N,)``.
        cover_: the cover's queries, shape ``(Q', X)``, 8 Q' X bytes.
        gamma_: its radius.

    Raises:
        ArgumentError: if an argument lies outside its range, or there are too many candidates.
    """

    pool_: IntArray

    def __init__(
        self,
        domain_size: int,
        sigma: float,
        epsilon: float = 1.0,
        records: int | None = None,
        pool: int | None = None,
        gamma: float | None = None,
        adjacency: str | Adjacency = Adjacency.REPLACE,
        query_range: tuple[float, float] = (0.0, 1.0),
        size: int | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        SmallDB.__init__(self, domain_size, epsilon, records, adjacency, query_range, size, rng=rng)
        self._set_smoothness(sigma, gamma)
        self.pool = None if pool is None else check_count("pool", pool, records or 1)
        self._num_candidates(self.records or 1)

    def fit(self, histogram: Any, queries: Any = None, *, cover: Any = None) -> SmoothSmallDB:
        """Draw a small database that answers the class through its cover; arguments as in :meth:`SmoothMWEM.fit`."""
        counts, size = self._counts(histogram)
        kept = self._make_cover(queries, cover, size)
        pool = self.draw_pool(len(kept), size)
        self._draw(self.candidates(len(kept), size, pool), counts, size, Queries.from_matrix(kept))
        self.cover_, self.gamma_, self.pool_ = kept, self.radius(size), pool
        return self

    def draw_pool(self, num_queries: int, size: int | None = None) -> IntArray:
        """Draw N uniform cells, shape ``(N,)``. Data never enter."""
        records = self._planned(num_queries, self._public_size(size))
        cells: IntArray = self.rng.integers(self.domain_size, size=self.pool_size(records))
        return cells

    def candidates(self, num_queries: int, size: int | None = None, pool: Any = None) -> IntArray:
        """Return the m-subsets of a pool (of the last fit if absent) that ``fit`` chooses from, shape ``(C, m)``."""
        cells = as_array("pool", getattr(self, "pool_", None) if pool is None else pool)
        if cells.ndim != 1 or cells.dtype.kind not in "iu" or not ((cells >= 0) & (cells < self.domain_size)).all():
            raise ArgumentError(f"pool: expected cells 0..{self.domain_size - 1} of shape (N,) but found {cells!r}")
        records = self._planned(num_queries, self._public_size(size))
        number = _check_candidates(math.comb(len(cells), records), records, f"pool {len(cells)}, records {records}")
        chosen: IntArray = cells[_table(itertools.combinations(range(len(cells)), records), (number, records))]
        return chosen

    def selection_log_probabilities(self, histogram: Any, queries: Any, pool: Any = None) -> FloatArray:
        """Return the log-probabilities of :meth:`candidates`, ``queries`` being the cover's. Not private."""
        counts, size = self._counts(histogram)
        family = as_queries(queries, self.domain_size)
        return self._log_law(self.candidates(family.num_queries, size, pool), counts, size, family)

    def pool_size(self, records: int) -> int:
        """Return N: as given, or the least with P[Bin(N, sigma) < m] <= 1/60, a third of the planned 1/20."""
        records = check_count("records", records, most=MOST_RECORDS)
        return _least_pool(records, self.sigma) if self.pool is None else self.pool

    def _count(self, records: int) -> int:
        return math.comb(self.pool_size(records), records)

    def _num_candidates(self, records: int) -> int:
        return _check_candidates(self._count(records), records, f"pool {self.pool_size(records)}, records {records}")

    def error_bound(self, beta: float, num_queries: int, size: int | None = None, chi: float = 0.0) -> float:
        """Return what all errors ``|q(data) - answer|`` are at most, with probability at least 1 - beta [DERIVED].

        For all q of the class, on (sigma, chi)-smooth data; infinite where the pool misses with more than beta.

        Args:
            beta: in (0, 1).
            num_queries: number Q' of the cover's queries; (41/gamma)^d for a class of VC dimension d bounds it.
            size: public number of records; the data must have exactly that many.
            chi: how far the data may be from smooth, >= 0.
        """
        return super().error_bound(beta, num_queries, size) + 3.0 * check_number("chi", chi, 0.0)

    def _error(self, records: int, beta: float, num_queries: int, size: int) -> float:
        rest = (beta - _missed(records, self.pool_size(records), self.sigma)) / 2.0
        if rest <= 0.0:
            return math.inf
        slack = (math.log(self._count(records)) - math.log(rest)) / (self.coefficient * size)
        return self._sampling_error(records, rest, num_queries) + slack + self._bias(size)
