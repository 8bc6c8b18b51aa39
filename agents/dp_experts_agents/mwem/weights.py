"""Multiplicative weights with the exponential mechanism (MWEM), on all queries, on a cover, and projected.

Proofs and constants: see the docstring of this folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dp_experts_agents.mwem.base import Covered, PrivateRelease
from dp_experts_agents.mwem.queries import Queries, as_queries
from dp_experts_env.hypotheses import project
from dp_experts_env.hypotheses.classes import as_floats
from dp_experts_env.privacy.accounting import Filter, Ledger, Spend, zcdp_rho
from dp_experts_env.privacy.mechanisms import (
    exponential_log_probabilities,
    gaussian,
    gaussian_zcdp_scale,
    laplace,
    laplace_scale,
    sample_gumbel,
    softmax,
)
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    IntArray,
    check_count,
    check_delta,
    check_number,
)

MOST_ROUNDS = 10_000
"""Largest number of rounds that is considered where none is given."""

LEAST_PROBABILITY = 1e-300
"""What a cell's probability is raised to before a step if it is smaller."""

PLANNED_BETA = 0.05
"""Failure probability at which the error bound decides what is left open: rounds, and pure or concentrated noise."""


@dataclass(frozen=True)
class Plan:
    """What R rounds run with: a function of public numbers alone.

    Args:
        rounds: R.
        kind: "epsilon" (pure shares, Laplace noise) or "rho" (shares of zero-concentrated DP, Gaussian noise).
        budget: epsilon, or rho.
        sensitivity: Delta.
    """

    rounds: int
    kind: str
    budget: float
    sensitivity: float

    @property
    def share(self) -> float:
        """What each of the 2 R steps may spend, to rounding: the last step gets what is left."""
        return self.budget / (2 * self.rounds)

    def coefficient(self, granted: float) -> float:
        """The largest float kappa, in exact arithmetic, at which one selection by counts costs at most ``granted``."""
        return _coefficient(self.kind, self.sensitivity, granted)

    def scale(self, granted: float) -> float:
        """The least scale, in counts, at which one measurement costs at most ``granted``: Laplace's, or a deviation."""
        return _scale(self.kind, self.sensitivity, granted)

    def error(self, beta: float, potential: float, num_queries: int, size: int, width: float) -> float:
        """The bound (1) of this folder's docstring, ``potential`` being K."""
        log_rounds = math.log(2.0 * self.rounds / beta)
        coefficient = self.coefficient(self.share)
        if coefficient == 0.0:
            # A budget that is lost in rounding buys nothing.
            return math.inf
        slack = (math.log(num_queries) + log_rounds) / coefficient
        noise = log_rounds if self.kind == "epsilon" else math.sqrt(2.0 * log_rounds)
        noise *= self.scale(self.share) / size
        return math.sqrt(width * width * potential / (2.0 * self.rounds) + noise * noise) + slack / size


@lru_cache(maxsize=1024)
def _coefficient(kind: str, sensitivity: float, granted: float) -> float:
    if kind == "epsilon":
        # Delta is 1 or 2, so nothing is rounded
        return granted / (2.0 * sensitivity)
    kappa = math.sqrt(2.0 * granted) / sensitivity
    while (Fraction(kappa) * Fraction(sensitivity)) ** 2 > 2 * Fraction(granted):
        kappa = math.nextafter(kappa, 0.0)
    return kappa


@lru_cache(maxsize=1024)
def _scale(kind: str, sensitivity: float, granted: float) -> float:
    return (laplace_scale if kind == "epsilon" else gaussian_zcdp_scale)(sensitivity, granted)


@lru_cache(maxsize=256)
def make_plan(
    rounds: int | None,
    epsilon: float,
    delta: float,
    sensitivity: float,
    width: float,
    potential: float,
    num_queries: int,
    size: int,
) -> Plan:
    """Choose rounds, where ``None``, and pure or concentrated DP by the least error bound at :data:`PLANNED_BETA`."""
    budgets = {"epsilon": epsilon} if delta == 0.0 else {"epsilon": epsilon, "rho": zcdp_rho(epsilon, delta)}
    # the bound falls and then rises in R, slowly: steps of 2% miss little
    choices = {int(r) for r in np.geomspace(1, MOST_ROUNDS, 466)} if rounds is None else {rounds}
    plans = [Plan(r, kind, budget, sensitivity) for r in sorted(choices) for kind, budget in budgets.items()]
    return min(plans, key=lambda plan: plan.error(PLANNED_BETA, potential, num_queries, size, width))


class MWEM(PrivateRelease):
    """Multiplicative weights, exponential mechanism: a distribution that answers a family of queries (HLM 2012).

    Each ``fit`` is (epsilon, delta)-DP under ``adjacency``, whatever the data and queries [DERIVED]; it spends epsilon
    and delta anew. Memory: the queries as handed in, one block of them, and a few vectors of length Q and X. Time: the
    queries are read R + 1 times.

    Args:
        domain_size: number X of cells of the public domain.
        epsilon: privacy budget, > 0.
        delta: in [0, 1); with 0 all steps are pure, else concentrated ones are used where they err less.
        rounds: R, an integer >= 1; ``None`` for the least error bound (at ``passes = 0``), which public numbers decide.
        passes: 0 for the algorithm of the proof; k >= 1 for what is done in practice: k more passes over the answers of
            all past rounds in each round, and the last distribution instead of the mean. As private, since both are
            post-processing, and better on most data, but without an error bound. Needs 8 R X bytes more.
        adjacency: "replace" or "zero_out"; see :class:`PrivateRelease`.
        query_range: (0, 1) or (-1, 1).
        size: public number of records; needed with "zero_out".
        rng: the ``numpy.random.Generator`` that every draw comes from.

    Attributes:
        law_: the released distribution, shape ``(X,)``; :meth:`release` copies it.
        selected_: number of the query selected in each round, shape ``(R,)``.
        measured_: its noisy answer, clipped to the query range, shape ``(R,)``.
        plan_: the :class:`Plan` that was run.
        ledger_: the ``Ledger`` of the 2 R spends, which add up to the budget.
        size_: the public number of records.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    selected_: IntArray
    measured_: FloatArray
    plan_: Plan
    ledger_: Ledger

    def __init__(
        self,
        domain_size: int,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rounds: int | None = None,
        passes: int = 0,
        adjacency: str | Adjacency = Adjacency.REPLACE,
        query_range: tuple[float, float] = (0.0, 1.0),
        size: int | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(domain_size, epsilon, adjacency, query_range, size, rng)
        self.delta = check_delta(delta)
        self.rounds = None if rounds is None else check_count("rounds", rounds)
        self.passes = check_count("passes", passes, 0)

    def fit(self, histogram: Any, queries: Any) -> MWEM:
        """Release a distribution that answers the queries.

        Args:
            histogram: number of records in each cell, shape ``(X,)``; see :func:`~dp_experts_agents.mwem.histogram`.
            queries: a matrix ``(Q, X)`` of any dtype, or :class:`~dp_experts_agents.mwem.Queries`; public.

        Raises:
            ArgumentError: counts or queries that do not fit.
        """
        counts, size = self._counts(histogram)
        self._run(counts, size, as_queries(queries, self.domain_size))
        return self

    def _run(self, counts: FloatArray, size: int, queries: Queries) -> None:
        plan = self.plan(queries.num_queries, size)
        truth = queries.answers(counts, self.query_range)
        budget = Filter(plan.budget) if plan.kind == "epsilon" else Filter(rho=plan.budget)
        draw = laplace if plan.kind == "epsilon" else gaussian
        law = np.full(self.domain_size, 1.0 / self.domain_size)
        mean, selected, measured = np.zeros(self.domain_size), [], []
        seen: list[tuple[FloatArray, float]] = []
        for number in range(1, plan.rounds + 1):
            mean += law
            answers = queries.answers(law, self.query_range)
            granted = self._spend(budget, plan, plan.share, f"selection {number}")
            log_law = exponential_log_probabilities(-np.abs(size * answers - truth), plan.coefficient(granted))
            chosen = int(sample_gumbel(log_law, self.rng))
            granted = self._spend(
                budget, plan, plan.share if number < plan.rounds else math.inf, f"measurement {number}"
            )
            noise = float(draw(self.rng, plan.scale(granted)))
            answer = float(self._clipped(np.array((truth[chosen] + noise) / size)))
            row = queries.rows(chosen, chosen + 1, self.query_range)[0]
            for query, target in [(row, answer), *self.passes * seen]:
                law = self._step(law, 4.0 / self.width**2 * (target - query @ law) * query)
            if self.passes:
                seen.append((row, answer))
            selected.append(chosen)
            measured.append(answer)
        self.law_ = law if self.passes else mean / mean.sum()
        self.size_, self.plan_, self.ledger_ = size, plan, budget.ledger
        self.selected_, self.measured_ = np.array(selected, dtype=np.int64), np.array(measured)

    @staticmethod
    def _spend(budget: Filter, plan: Plan, asked: float, label: str) -> float:
        left: float = getattr(budget.left, plan.kind)
        granted: Spend = budget.spend(label=label, **{plan.kind: min(asked, left)})
        share: float = getattr(granted, plan.kind)
        return share

    def _step(self, law: FloatArray, exponents: FloatArray) -> FloatArray:
        """Return the next round's distribution, ``law * exp(exponents)`` normalised."""
        return softmax(self._logits(law, exponents))

    @staticmethod
    def _logits(law: FloatArray, exponents: FloatArray) -> FloatArray:
        # A cell that has underflowed to zero could never come back, nor hold its part of a projection.
        logits: FloatArray = np.log(np.maximum(law, LEAST_PROBABILITY)) + exponents
        return logits

    def selection_log_probabilities(self, histogram: Any, queries: Any, law: Any = None) -> FloatArray:
        """Return the log-probabilities with which a round selects each query, shape ``(Q,)``. Not private.

        The law of any round but that the last round's share may differ in the last digit.

        Args:
            histogram: see :meth:`fit`.
            queries: see :meth:`fit`.
            law: the distribution before the round, shape ``(X,)``; uniform, as before the first, if absent.

        Raises:
            ArgumentError: counts, queries or a law that do not fit.
        """
        counts, size = self._counts(histogram)
        return self._selection(counts, size, as_queries(queries, self.domain_size), law)

    def _selection(self, counts: FloatArray, size: int, queries: Queries, law: Any) -> FloatArray:
        plan = self.plan(queries.num_queries, size)
        before = np.full(self.domain_size, 1.0 / self.domain_size) if law is None else as_floats("law", law)
        if before.shape != counts.shape or not (before >= 0.0).all() or abs(before.sum() - 1.0) > 1e-9:
            raise ArgumentError(f"law: expected probabilities of shape ({self.domain_size},) that add up to 1")
        gaps = np.abs(size * queries.answers(before, self.query_range) - queries.answers(counts, self.query_range))
        return exponential_log_probabilities(-gaps, plan.coefficient(plan.share))

    def plan(self, num_queries: int, size: int | None = None) -> Plan:
        """Return what ``fit`` runs with: its rounds, its shares and scales. Data never enter.

        Args:
            num_queries: Q >= 1; on a cover the number of the cover's queries.
            size: public number of records; the declared one or that of the last fit if absent.

        Raises:
            ArgumentError: if an argument lies outside its range, or no size is known.
        """
        return make_plan(
            self.rounds,
            self.epsilon,
            self.delta,
            self.sensitivity,
            self.width,
            self._potential(),
            check_count("num_queries", num_queries),
            self._public_size(size),
        )

    def error_bound(self, beta: float, num_queries: int, size: int | None = None) -> float:
        """Return what all errors ``|q(data) - q(release)|`` are at most, with probability at least 1 - beta [DERIVED].

        It may exceed the width of the query range and then says nothing; it is NaN with ``passes > 0``.

        Args:
            beta: in (0, 1).
            num_queries: Q >= 1.
            size: public number of records; the declared one or that of the last fit if absent. The data must have
                exactly that many.

        Raises:
            ArgumentError: if an argument lies outside its range, or no size is known.
        """
        beta = check_number("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
        plan, size = self.plan(num_queries, size), self._public_size(size)
        return math.nan if self.passes else plan.error(beta, self._potential(), num_queries, size, self.width)

    def _potential(self) -> float:
        return math.log(self.domain_size)


class SmoothMWEM(Covered, MWEM):
    """MWEM on a cover of the class: on (sigma, 0)-smooth data its error grows with neither the domain nor the class.

    It is private whatever the data; smoothness is for utility alone. Answers come from the nearest query of the cover.
    The release is right on the cover only: for other queries use :meth:`answer`, or :class:`ProjectedSmoothMWEM`.

    Args:
        domain_size: number X of cells of the public domain.
        sigma: smoothness of the data, in [1e-12, 1].
        epsilon: privacy budget, > 0.
        delta: in [0, 1).
        rounds: R, or ``None`` for the least error bound.
        passes: as of :class:`MWEM`.
        gamma: radius of the cover, in E_U abs(q - q') / w; ``None`` for sigma/(2 n).
        adjacency: "replace" or "zero_out"; see :class:`PrivateRelease`.
        query_range: (0, 1) or (-1, 1).
        size: public number of records; needed with "zero_out".
        rng: the ``numpy.random.Generator`` that every draw comes from.

    Attributes:
        cover_: the cover's queries, shape ``(Q', X)``, 8 Q' X bytes.
        gamma_: its radius.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        domain_size: int,
        sigma: float,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rounds: int | None = None,
        passes: int = 0,
        gamma: float | None = None,
        adjacency: str | Adjacency = Adjacency.REPLACE,
        query_range: tuple[float, float] = (0.0, 1.0),
        size: int | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        MWEM.__init__(self, domain_size, epsilon, delta, rounds, passes, adjacency, query_range, size, rng=rng)
        self._set_smoothness(sigma, gamma)

    def fit(self, histogram: Any, queries: Any = None, *, cover: Any = None) -> SmoothMWEM:
        """Release a distribution that answers the class through its cover.

        Args:
            histogram: number of records in each cell, shape ``(X,)``.
            queries: the class, from which :func:`~dp_experts_agents.mwem.greedy_cover` takes a cover; public.
            cover: or else the queries of a gamma-cover of the class that are part of it, such as
                ``hypotheses.predict(hypotheses.cover(gamma), points)``; public.

        Raises:
            ArgumentError: both or none of them, or counts or queries that do not fit.
        """
        counts, size = self._counts(histogram)
        kept = self._make_cover(queries, cover, size)
        self._run(counts, size, Queries.from_matrix(kept))
        self.cover_, self.gamma_ = kept, self.radius(size)
        return self

    def selection_log_probabilities(self, histogram: Any, queries: Any, law: Any = None) -> FloatArray:
        """Return the log-probabilities with which a round selects each query of a cover. Not private.

        Args:
            histogram: see :meth:`fit`.
            queries: the cover's queries, a matrix ``(Q', X)``.
            law: see :meth:`MWEM.selection_log_probabilities`.
        """
        return super().selection_log_probabilities(histogram, queries, law)

    def error_bound(self, beta: float, num_queries: int, size: int | None = None, chi: float = 0.0) -> float:
        """Return what all errors ``|q(data) - answer|`` are at most, with probability at least 1 - beta [DERIVED].

        For all q of the class, on (sigma, chi)-smooth data.

        Args:
            beta: in (0, 1).
            num_queries: number Q' of the cover's queries; (41/gamma)^d for a class of VC dimension d bounds it.
            size: public number of records; the data must have exactly that many.
            chi: how far the data may be from smooth, >= 0.
        """
        bound = super().error_bound(beta, num_queries, size)
        return bound + self._bias(size) + 4.0 * check_number("chi", chi, 0.0)

    def _potential(self) -> float:
        return min(math.log(1.0 / self.sigma), math.log(self.domain_size))


class ProjectedSmoothMWEM(SmoothMWEM):
    """SmoothMWEM that projects each step onto {p <= U/sigma}: the release is sigma-smooth, and right on all the class.

    Arguments, attributes and errors are those of :class:`SmoothMWEM`.
    """

    def answer(self, queries: Any) -> FloatArray:
        """Answer queries from the release itself, whether or not they are in the class; see :meth:`MWEM.answer`."""
        return PrivateRelease.answer(self, queries)

    def error_bound(self, beta: float, num_queries: int, size: int | None = None, chi: float = 0.0) -> float:
        """Return what all errors ``|q(data) - q(release)|`` are at most; see :meth:`SmoothMWEM.error_bound`."""
        return super().error_bound(beta, num_queries, size, chi) + self._bias(size)

    def _step(self, law: FloatArray, exponents: FloatArray) -> FloatArray:
        return project(self._logits(law, exponents), self.sigma, log=True)
