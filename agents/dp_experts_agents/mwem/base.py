"""What the estimators of this folder share: the public domain, sensitivity, and answering from a release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_experts_agents.mwem.queries import Cover, as_queries, check_query_range, greedy_cover
from dp_experts_env.hypotheses.classes import as_array
from dp_experts_env.hypotheses.projection import check_sigma
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    Parameters,
    ProtocolError,
    check_adjacency,
    check_count,
    check_epsilon,
    check_number,
)


class PrivateRelease(Parameters):
    """Base of the estimators that release a distribution over a public domain, privately.

    Attributes whose names end in an underscore exist after ``fit`` and are private: functions of what the proof covers.

    Args:
        domain_size: number X of cells of the domain, an integer >= 1; public.
        epsilon: privacy budget of each ``fit``, > 0.
        adjacency: "replace" (one record moves to another cell; the number of records is public) or "zero_out" (one
            record is added or removed; the number of records is private).
        query_range: (0, 1) or (-1, 1): where the queries take their values.
        size: number n of records; public. With "replace" it may be left out; with "zero_out" it is declared, the
            number at hand is neither used nor checked.
        rng: the ``numpy.random.Generator`` that every draw comes from.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    law_: FloatArray
    size_: int

    def __init__(
        self,
        domain_size: int,
        epsilon: float,
        adjacency: str | Adjacency,
        query_range: tuple[float, float],
        size: int | None,
        rng: np.random.Generator,
    ) -> None:
        self.domain_size = check_count("domain_size", domain_size)
        self.epsilon = check_epsilon(epsilon)
        self.adjacency = check_adjacency(adjacency)
        self.query_range = check_query_range(query_range)
        self.size = None if size is None else check_count("size", size)
        if self.adjacency is Adjacency.ZERO_OUT and size is None:
            raise ArgumentError("size: expected the declared, public number of records, as adjacency is zero_out")
        if not isinstance(rng, np.random.Generator):
            raise ArgumentError(f"rng: expected a numpy.random.Generator but found {rng!r}")
        self.rng = rng

    @property
    def width(self) -> float:
        """Width w of the query range: 1 or 2."""
        return self.query_range[1] - self.query_range[0]

    @property
    def sensitivity(self) -> float:
        """Delta, the most by which one record moves a query's count: w under replace, max abs(q) = 1 under zero_out."""
        return self.width if self.adjacency is Adjacency.REPLACE else max(map(abs, self.query_range))

    def answer(self, queries: Any) -> FloatArray:
        """Answer queries from the release; post-processing, so it spends nothing.

        Args:
            queries: a matrix ``(Q, X)`` or :class:`~dp_experts_agents.mwem.Queries`.

        Returns:
            Answers in the query range, shape ``(Q,)``.

        Raises:
            ArgumentError: queries that do not fit the domain or the query range.
            ProtocolError: before ``fit``.
        """
        law = self.release()
        return self._clipped(as_queries(queries, self.domain_size).answers(law, self.query_range))

    def release(self) -> FloatArray:
        """Return the released distribution over the cells, shape ``(X,)``.

        Raises:
            ProtocolError: before ``fit``.
        """
        if not hasattr(self, "law_"):
            raise ProtocolError(f"{type(self).__name__}: expected fit() first")
        return self.law_.copy()

    def _clipped(self, answers: FloatArray) -> FloatArray:
        return np.clip(answers, *self.query_range)

    def _counts(self, histogram: Any) -> tuple[FloatArray, int]:
        """Return the histogram as float64 and the public number of records."""
        counts = as_array("histogram", histogram)
        if counts.shape != (self.domain_size,) or counts.dtype.kind not in "iuf":
            raise ArgumentError(
                f"histogram: expected counts of shape ({self.domain_size},), one for each cell of the domain, "
                f"but found {counts.dtype} {counts.shape}"
            )
        counts = counts.astype(np.float64)
        # A fraction would be a record of another weight than the sensitivity speaks of.
        if not ((counts >= 0.0) & (counts < math.inf) & (counts == np.floor(counts))).all():
            raise ArgumentError("histogram: expected whole numbers of records, >= 0")
        if self.adjacency is Adjacency.ZERO_OUT:
            return counts, self._public_size(None)
        found = int(counts.sum())
        if found < 1 or self.size not in (None, found):
            raise ArgumentError(f"histogram: expected {self.size or 'one or more'} records but found {found}")
        return counts, found

    def _public_size(self, size: int | None) -> int:
        known = size if size is not None else self.size if self.size is not None else getattr(self, "size_", None)
        if known is None:
            raise ArgumentError("size: expected the number of records, as there has been no fit")
        return check_count("size", known)


class Covered(PrivateRelease):
    """Base of the estimators that work on a cover of the class of queries; see :class:`PrivateRelease`.

    Args:
        sigma: the data are assumed (sigma, chi)-smooth, sigma in [1e-12, 1]; utility only.
        gamma: radius of the cover in E_U abs(q - q') / w, >= 0; ``None`` for sigma/(2 n).
    """

    cover_: FloatArray
    gamma_: float

    def _set_smoothness(self, sigma: float, gamma: float | None) -> None:
        self.sigma = check_sigma(sigma)
        self.gamma = None if gamma is None else check_number("gamma", gamma, 0.0)

    def radius(self, size: int | None = None) -> float:
        """Return gamma, by default sigma/(2 n), n the number of records."""
        return self.gamma if self.gamma is not None else self.sigma / (2.0 * self._public_size(size))

    def _make_cover(self, queries: Any, cover: Any, size: int) -> FloatArray:
        if (queries is None) == (cover is None):
            raise ArgumentError("queries, cover: expected exactly one of them")
        if cover is not None:
            family = as_queries(cover, self.domain_size)
            return np.concatenate([rows for _, rows in family.blocks(self.query_range)])
        family = as_queries(queries, self.domain_size)
        numbers = greedy_cover(family, self.radius(size), self.query_range)
        return np.concatenate([family.rows(number, number + 1, self.query_range) for number in numbers.tolist()])

    def answer(self, queries: Any) -> FloatArray:
        """Answer each query by its nearest one in the cover; post-processing, so it spends nothing.

        Args:
            queries: queries of the class, a matrix ``(Q, X)`` or :class:`~dp_experts_agents.mwem.Queries`.

        Returns:
            Answers in the query range, shape ``(Q,)``.

        Raises:
            ArgumentError: queries that do not fit, or one farther than gamma from the cover: it is not of the class.
            ProtocolError: before ``fit``.
        """
        law = self.release()
        family, known = as_queries(queries, self.domain_size), self.cover_ @ law
        cover, answers = Cover(self.cover_, self.query_range), np.empty(family.num_queries)
        for first, rows in family.blocks(self.query_range):
            index, distance = cover.nearest(rows)
            if distance.max() > self.gamma_ * (1.0 + 1e-9) + 1e-12:
                raise ArgumentError(
                    f"queries: expected queries within gamma = {self.gamma_:g} of the cover but number "
                    f"{first + int(distance.argmax())} is at {distance.max():g}"
                )
            answers[first : first + len(rows)] = known[index]
        return self._clipped(answers)

    def _bias(self, size: int | None) -> float:
        """Return w gamma/sigma: how far a query and its nearest are apart on a sigma-smooth distribution."""
        return self.width * self.radius(size) / self.sigma
