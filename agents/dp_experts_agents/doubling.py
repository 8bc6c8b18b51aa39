"""The small-loss paper's Algorithm 3: an unknown L*, by an inner learner that is restarted with doubled guesses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_experts_agents.baselines import running_totals
from dp_experts_env.learner import Learner, looped
from dp_experts_env.privacy.mechanisms import AboveThreshold
from dp_experts_env.registry import constructor_keywords, make_learner
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    check_adjacency,
    check_delta,
    check_epsilon,
    check_number,
)


class DoublingSmallLoss(Learner):
    """The small-loss paper's Algorithm 3: an inner learner that needs a bound on L*, restarted with doubled guesses.

    The game is cut into buckets. In bucket k (from 0) a fresh inner learner, which sees this bucket's rounds only, is
    given ``best_loss`` = L_k. After every few rounds AboveThreshold is asked whether the least cumulative loss of the
    bucket has reached theta_k; if so, bucket k + 1 begins. theta_k = 2^k b + B ln(T q), q the number of queries, and
    L_k = theta_k + A ln T + the rounds between queries; b = ``first``; A and B are the scales of the threshold and the
    query noise, one-sided exponential.

    **Buckets** [DERIVED]: a bucket k that ends has a best expert with loss at least 2^k b, unless some query noise
    exceeds B ln(T q), which has probability at most 1/T. The losses of the buckets' best experts add up to at most L*,
    so then there are at most 1 + log2(1 + L*/b) buckets.

    **Privacy** [DERIVED]: epsilon/2 for AboveThreshold, (epsilon/2, delta) for the inner learners. Buckets are disjoint
    sets of rounds that end by earlier answers, so one changed round enters one AboveThreshold instance and one inner
    learner. The minimum over experts moves by at most 1, not by a constant: noise for a general stream (``replace``) or
    a monotone one (``zero_out``); the better noise for one fixed expert is not valid here. The two run side by side,
    and the adversary may answer each with the other's output. Write M_b A_c for the view when the inner learners see
    side b and AboveThreshold side c. A_0 with the adversary is an adversary of M: Pr[M_0 A_0] <= e^{epsilon/2} Pr[M_1
    A_0] + delta; M_1 with the adversary is one of A: Pr[M_1 A_0] <= e^{epsilon/2} Pr[M_1 A_1]. Together (epsilon,
    delta), against adaptive adversaries if the inner claim is. The ends of the buckets are part of the transcript.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); all for the inner learner.
        learner: the inner learner: a registered name, or a learner to build others like. Its ``epsilon``, ``delta``,
            and where it takes them ``best_loss`` and ``adjacency``, are set by this one.
        first: b > 0, the first guess; ``None`` for B ln(T q), the accuracy of the queries.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range, or the inner learner takes no epsilon and delta.
        BudgetError: at reset, if a learning rate given to the inner learner costs more than its budget in some bucket.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        learner: str | Learner = "small_loss",
        first: float | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.learner = learner
        self.first = None if first is None else check_number("first", first, 0.0, low_open=True)
        self.adjacency = check_adjacency(adjacency)
        self._inner = budgeted(learner, self.epsilon / 2, self.delta, self.adjacency)

    def watch(self) -> AboveThreshold:
        """Return the AboveThreshold instance of one bucket: epsilon/2 in all, split where the noise is least."""
        half = self.epsilon / 2
        if self.adjacency is Adjacency.ZERO_OUT:
            return AboveThreshold.monotone(half / 2, half / 2, noise="exponential")
        part = half / (1.0 + 2.0 ** (2.0 / 3.0))
        # The difference may be rounded up; the factor covers it.
        return AboveThreshold.general(part * (1 - 1e-15), half - part, noise="exponential")

    def stride(self, spec: GameSpec) -> int:
        """Return the rounds between queries."""
        return min(max(1, round(8.0 / self.epsilon)), max(1, spec.horizon // 50))

    def guesses(self, spec: GameSpec, buckets: int) -> tuple[FloatArray, FloatArray]:
        """Return theta_k and L_k of the first buckets, each ``(buckets,)``."""
        slack = self._accuracy(spec)
        levels = np.asarray(np.exp2(np.arange(buckets)) * (self.first or slack) + slack, dtype=np.float64)
        return levels, levels + self.watch().threshold_scale * math.log(max(spec.horizon, 2)) + self.stride(spec)

    def most_buckets(self, spec: GameSpec, best_loss: float) -> int:
        """Return the most buckets there are with probability at least 1 - 1/T: 1 + floor(log2(1 + L*/b))."""
        return 1 + math.floor(math.log2(1.0 + best_loss / (self.first or self._accuracy(spec))))

    def _accuracy(self, spec: GameSpec) -> float:
        """B ln(T q): with probability 1 - 1/T no query noise exceeds it."""
        queries = spec.horizon / self.stride(spec)
        return self.watch().query_scale * math.log(max(2.0, spec.horizon * queries))

    def start(self) -> None:
        """Begin the first bucket in every game."""
        games = self.spec.num_games or 1
        self._watch, self._stride = self.watch(), self.stride(self.spec)
        # No bucket ends without a query.
        self._levels, self._bounds = self.guesses(self.spec, min(self.spec.horizon // self._stride, 60) + 2)
        if self._inner.parameters.get("learning_rate") is not None:
            # A rate that costs too much in some bucket is refused now, not when that bucket begins.
            for bucket in range(1 + int((self._bounds < self.spec.horizon).sum())):
                self._learner(min(bucket, len(self._bounds) - 1)).guarantee(self.spec)
        self._thresholds, self._queries, self._opening, *self._streams = self.rng.spawn(3 + games)
        self._sum: FloatArray = np.zeros(self.spec.num_experts)
        self._bucket: IntArray = np.zeros(games, dtype=np.int64)
        self._level = self._levels[0] + self._watch.threshold_scale * self._thresholds.standard_exponential(games)
        self._cohorts: list[_Cohort] = []
        self._cohort_of: IntArray = np.full(games, -1, dtype=np.int64)
        self._number = 0
        self._begin(np.arange(games))

    @property
    def buckets(self) -> IntArray:
        """Number of the current bucket, from 0, in each game, ``(G,)`` (``(1,)`` for one game)."""
        return self._bucket.copy()

    def act(self) -> Any:
        """Ask the inner learners of the current buckets; see :meth:`Learner.act`."""
        choices = np.empty(self._bucket.shape, dtype=np.int64)
        notes: dict[str, Any] = {}
        for cohort in self._cohorts:
            cohort.learner._notes = None if self._notes is None else {}
            answers = np.reshape(cohort.learner.act(), -1)
            mine = self._cohort_of[cohort.games] == cohort.number
            choices[cohort.games[mine]] = answers[mine]
            for name, values in (cohort.learner._notes or {}).items():
                rows = np.reshape(values[-1], (len(mine), *np.shape(values[-1])[len(self.spec.shape) :]))
                table = notes.setdefault(name, np.zeros((len(choices), *rows.shape[1:]), dtype=rows.dtype))
                table[cohort.games[mine]] = rows[mine]
        self.note("bucket", self._bucket.reshape(self.spec.shape))
        for name, table in notes.items():
            self.note(name, table.reshape((*self.spec.shape, *table.shape[1:])))
        return choices.reshape(self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Show the losses to the inner learners, and end buckets; see :meth:`Learner.observe`."""
        for cohort in self._cohorts:
            cohort.learner.observe(losses if losses.ndim == 1 else cohort.own(losses))
        self._sum = self._sum + losses
        self._begin(self._ended(self.round + 1))
        self._drop()

    def run(self, block: FloatArray) -> IntArray:
        """Play a block: the ends of the buckets first, then each inner learner at once; see :meth:`Learner.run`."""
        if self._notes is not None:
            return super().run(block)
        plays = {cohort.number: (cohort, 0, len(block)) for cohort in self._cohorts}
        row = 0
        while row < len(block):
            start, row = row, min(len(block), row + self._stride - (self.round + row) % self._stride)
            self._sum = running_totals(self._sum, block[start:row])[1]
            ended = self._ended(self.round + row)
            if ended.size:
                for cohort in self._begin(ended):
                    plays[cohort.number] = cohort, row, len(block)
                for cohort in self._drop():
                    plays[cohort.number] = cohort, plays[cohort.number][1], row
        choices = np.empty((len(block), *self._bucket.shape), dtype=np.int64)
        # In the order in which they began, since a game that moved on is written over.
        for cohort, first, last in plays.values():
            rows = block[first:last]
            if len(rows):
                answers = cohort.learner.run(rows if rows.ndim == 2 else cohort.own(rows))
                choices[first:last, cohort.games] = answers.reshape(len(rows), -1)
        return choices.reshape(len(block), *self.spec.shape)

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return (epsilon, delta)-DP, against the adversaries that the inner claim covers.

        The inner learners of different buckets have different constants and may cost different parts of their budget,
        so all of it is claimed; more, if the inner learner says that it costs more than it was given.
        """
        inner = self._inner.guarantee(spec)
        if inner is None:
            return None
        half = self.epsilon / 2
        epsilon = self.epsilon if inner.epsilon <= half else (half + inner.epsilon) * (1 + 1e-15)
        source = f"AboveThreshold on the best loss and disjoint buckets, with: {inner.source} [DERIVED]"
        return Guarantee(epsilon, max(self.delta, inner.delta), self.adjacency, inner.against, source)

    def _learner(self, bucket: int) -> Learner:
        """A fresh inner learner for a bucket, told its guess where it takes one."""
        if "best_loss" not in constructor_keywords(type(self._inner)):
            return self._inner.clone()
        return self._inner.clone(best_loss=float(min(self._bounds[bucket], self.spec.horizon)))

    def _begin(self, games: IntArray) -> list[_Cohort]:
        """Give games whose bucket begins an inner learner, and return the cohorts.

        All first buckets begin together and share one. Later each game gets its own, with its own stream, so that its
        choices do not depend on when other games' buckets end.
        """
        known = len(self._cohorts)
        for mine in [games] if self._number == 0 else games[:, None]:
            learner, count = self._learner(int(self._bucket[mine[0]])), None
            if self.spec.num_games is not None:
                learner, count = looped(learner), len(mine)
            stream = self._opening if self._number == 0 else self._streams[mine[0]].spawn(1)[0]
            learner.reset(GameSpec(self.spec.num_experts, self.spec.horizon, count), stream)
            self._cohort_of[mine] = self._number
            self._cohorts.append(_Cohort(self._number, mine, learner))
            self._number += 1
        return self._cohorts[known:]

    def _ended(self, rounds: int) -> IntArray:
        """Ask where it is time, and return the games whose bucket ends after that many rounds."""
        if rounds % self._stride or rounds >= self.spec.horizon:
            return np.empty(0, dtype=np.int64)
        noise = self._watch.query_scale * self._queries.standard_exponential(self._bucket.shape)
        fresh = self._watch.threshold_scale * self._thresholds.standard_exponential(self._bucket.shape)
        games = np.flatnonzero(self._sum.min(-1) + noise >= self._level)
        if games.size:
            self._sum = np.array(np.broadcast_to(self._sum, (len(noise), self.spec.num_experts)))
            self._sum[games] = 0.0
            self._bucket = self._bucket.copy()
            self._bucket[games] = np.minimum(self._bucket[games] + 1, len(self._levels) - 1)
            self._level[games] = self._levels[self._bucket[games]] + fresh[games]
        return games

    def _drop(self) -> list[_Cohort]:
        """Drop the cohorts that no game is left in, and return them."""
        alive = set(self._cohort_of.tolist())
        dropped = [cohort for cohort in self._cohorts if cohort.number not in alive]
        self._cohorts = [cohort for cohort in self._cohorts if cohort.number in alive]
        return dropped


@dataclass
class _Cohort:
    """Games whose bucket began together, and the inner learner that plays them; some may have moved on."""

    number: int
    games: IntArray
    learner: Learner

    def own(self, losses: FloatArray) -> FloatArray:
        """The losses of these games, from ``(..., G, N)``."""
        return losses[..., self.games, :] if self.learner.spec.num_games is not None else losses[..., 0, :]


def budgeted(learner: str | Learner, epsilon: float, delta: float, adjacency: Adjacency) -> Learner:
    """Return a private learner with this budget: built by name, or like the one given.

    Raises:
        ArgumentError: if it takes no epsilon and delta, or another adjacency only.
    """
    if not isinstance(learner, (str, Learner)):
        raise ArgumentError(f"learner: expected a registered name or a Learner but found {learner!r}")
    inner = make_learner(learner) if isinstance(learner, str) else learner
    keywords = constructor_keywords(type(inner))
    if not {"epsilon", "delta"} <= set(keywords):
        raise ArgumentError(f"learner: expected one that takes epsilon and delta but found {inner!r}")
    changes: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if "adjacency" in keywords:
        changes["adjacency"] = adjacency
    return inner.clone(**changes)
