"""The exact privacy of a small game: its smallest epsilon at a given delta, over all adversaries there are.

The game. In each round the adversary names the losses and the learner its choice, both from the past alone; then the
learner sees the losses and the adversary the choice. There are two worlds, whose losses differ in one round, the
challenge. The learner is (epsilon, delta)-private if in both directions Pr[view in A | one world] <= e^epsilon
Pr[view in A | other world] + delta for every event A, whoever the adversary is: delta must be at least the sum of
(P_0(v) - e^epsilon P_1(v))_+ over all views v.

Method [DERIVED]. A learner with ``outcomes`` has finitely many transcripts: every *path*, a sequence of losses and
outcomes, is played in a batch, which gives its probability P(outcomes | losses). A *view* is what is visible of it: the
choices, or also what the learner notes. The probabilities of paths that look alike are added, so a secret coin stays
secret. The losses of both worlds stand in this one table.

The sum above is convex in (P_0, P_1), so an adversary that flips coins does no better than the best of its
deterministic strategies, and these are optimised backwards, round by round. Let h be what it has seen before a round,
and v the view of the round, on which the round's losses cannot depend. With F_{T+1} = (P_0 - e^epsilon P_1)_+ and
G_{T+1} = 0,

    F_t(h) = max over losses l of sum_v F_{t+1}(h, l, v)                          after the challenge,
    G_t(h) = max{ max_l sum_v G_{t+1}(h, l, v), max over neighbours (l, l') of sum_v F_{t+1}(h, (l, l'), v) }    before,

the exact delta of epsilon is G_1. Against an oblivious adversary, whose losses are fixed beforehand, all views are
summed first and one maximum over sequences comes last. The losses of the last round reach nobody.

At delta = 0 the smallest epsilon is the largest ln P_0(v)/P_1(v), which an adversary reaches that plays the losses of
that view blindly: there adaptive and oblivious adversaries are equally strong.

What the numbers mean. They are exact, up to rounding, for losses in the *stated set*, this number of experts and rounds
and the calibration that the learner has there; for all losses in [0, 1]^N they are lower bounds, which no claim may be
below. A proof that covers coins and alarms bounds the "transcript" view; the privacy of the definition, where choices
alone are seen, may be far better. Learners that hide noise behind a threshold are covered where their ``outcomes``
state the law of the next outcome given all past ones, the noise integrated out: by the chain rule the product is the
probability of the transcript, as exact as their quadrature.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dp_experts_env.learner import Learner, looped
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    GameSpec,
    IntArray,
    check_adjacency,
    check_delta,
    check_flag,
    check_name,
    check_number,
)

Folds: TypeAlias = list[tuple[np.ufunc, IntArray]]

MOST_PATHS = 2**22
"""Most sequences of losses and outcomes that are enumerated; each costs some microseconds and a few hundred bytes."""

_CELLS = 2**20
_CHECKED = 256
_MOST_EPSILON = 1e300  # beyond every finite log-ratio


class ExactGame:
    """All paths of a small game, played once, to be asked for epsilons and deltas.

    A copy of the learner plays. No randomness enters, since every outcome is imposed.

    Args:
        learner: a learner with ``outcomes`` and ``take``.
        num_experts: N, an integer >= 1.
        horizon: T, an integer >= 1; the learner is told so, and calibrates itself to it.
        losses: the loss vectors that the adversary may name, shape ``(L, N)`` in [0, 1], at least two different ones;
            ``None`` for all of {0, 1}^N.
        adjacency: "replace", where the sides of the challenge are any two different vectors of the set, or "zero_out",
            where one of them is zero, which must be in the set.
        view: "choices", or "transcript" for what the learner notes as well.

    Raises:
        ArgumentError: if an argument lies outside its range, the learner has no finite outcome law, its law does not
            add up to one or is no function of past losses and outcomes, or there are more than ``MOST_PATHS`` paths.

    Attributes:
        num_paths: how many sequences of losses and outcomes have positive probability.
    """

    def __init__(
        self,
        learner: Learner,
        num_experts: int = 2,
        horizon: int = 5,
        *,
        losses: Any = None,
        adjacency: str | Adjacency = "replace",
        view: str = "choices",
    ) -> None:
        if not isinstance(learner, Learner):
            raise ArgumentError(f"learner: expected a Learner but found {learner!r}")
        self.spec = GameSpec(num_experts, horizon)
        self.adjacency = check_adjacency(adjacency)
        self.view = check_name("view", view, ("choices", "transcript"))
        num_experts, horizon = self.spec.num_experts, self.spec.horizon
        self.losses = _loss_set(losses, num_experts)
        zero = self.losses.max(-1) == 0.0
        if self.adjacency is Adjacency.ZERO_OUT and not zero.any():
            raise ArgumentError("losses: expected the vector of zeros among them with adjacency='zero_out'")
        if len(self.losses) ** 2 > MOST_PATHS:
            raise ArgumentError(
                f"losses: expected at most {math.isqrt(MOST_PATHS)} vectors, as every two are compared, but found "
                f"{len(self.losses)} with num_experts={num_experts}; state fewer"
            )
        paths = _Paths(learner, self.spec, self.losses, self.view == "transcript")
        self._pairs = [
            (one, other)
            for one, other in itertools.permutations(range(len(self.losses)), 2)
            if self.adjacency is Adjacency.REPLACE or zero[one] or zero[other]
        ]
        self.num_paths = len(paths.logs)
        order = np.argsort(paths.keys, kind="stable")
        keys, starts = _grouped(paths.keys[order], 1)
        logs = np.logaddexp.reduceat(paths.logs[order], starts)
        self._challenges = [
            _challenge(keys, logs, place, len(self.losses), paths.sizes) for place in range(horizon - 1)
        ]

    def epsilon(self, delta: float = 0.0, *, adaptive: bool = True) -> float:
        """Return the smallest epsilon at ``delta``; infinite where there is none.

        For delta > 0 it is the root of a decreasing function, rounded up. The rounding of probabilities moves deltas by
        about 1e-15, so one below 1e-13, other than 0, means little.

        Args:
            delta: in [0, 1).
            adaptive: whether the adversary chooses losses and the challenge by what it has seen, or beforehand.

        Raises:
            ArgumentError: if an argument lies outside its range.
        """
        check_flag("adaptive", adaptive)
        if check_delta(delta) == 0.0:
            return max((_ratio(*sides) for now in self._challenges for sides in self._sides(now)), default=0.0)
        return _smallest_epsilon(lambda epsilon: self.delta(epsilon, adaptive=adaptive), delta)

    def delta(self, epsilon: float, *, adaptive: bool = True) -> float:
        """Return the smallest delta at ``epsilon``.

        Args:
            epsilon: a number >= 0.
            adaptive: see :meth:`epsilon`.

        Raises:
            ArgumentError: if an argument lies outside its range.
        """
        check_flag("adaptive", adaptive)
        epsilon = check_number("epsilon", epsilon, 0.0)
        best = np.zeros(1)
        for now in reversed(self._challenges):
            if adaptive:
                best = _folded(best, now.before)
            for sides in self._sides(now):
                excess = _excess(*sides, epsilon)
                worst = _folded(excess, now.after) if adaptive else np.bincount(now.sequences, excess).max()
                best = np.maximum(best, worst)
        return float(best[0])

    def _sides(self, now: _Challenge) -> Iterator[tuple[FloatArray, FloatArray]]:
        return ((now.logs[one], now.logs[other]) for one, other in self._pairs)


def exact_privacy(
    learner: Learner,
    num_experts: int = 2,
    horizon: int = 5,
    delta: float = 0.0,
    *,
    losses: Any = None,
    adaptive: bool = True,
    adjacency: str | Adjacency = "replace",
    view: str = "choices",
) -> float:
    """Return the smallest epsilon for which the learner is (epsilon, delta)-private in a small game.

    The module says what the number means; for the arguments and errors, and for several questions about one game, see
    :class:`ExactGame`.
    """
    check_delta(delta)
    game = ExactGame(learner, num_experts, horizon, losses=losses, adjacency=adjacency, view=view)
    return game.epsilon(delta, adaptive=adaptive)


def exact_delta(
    learner: Learner,
    num_experts: int = 2,
    horizon: int = 5,
    epsilon: float = 1.0,
    *,
    losses: Any = None,
    adaptive: bool = True,
    adjacency: str | Adjacency = "replace",
    view: str = "choices",
) -> float:
    """Return the smallest delta for which it is (epsilon, delta)-private; see :func:`exact_privacy`."""
    check_number("epsilon", epsilon, 0.0)
    game = ExactGame(learner, num_experts, horizon, losses=losses, adjacency=adjacency, view=view)
    return game.delta(epsilon, adaptive=adaptive)


def laws_privacy(log_laws: Any, delta: float = 0.0, neighbours: Any = None) -> float:
    """Return the smallest epsilon of a mechanism whose output laws on all its inputs are given.

    Args:
        log_laws: log-probabilities of the K outputs, one row an input, shape ``(M, K)``.
        delta: in [0, 1).
        neighbours: pairs of numbers of neighbouring inputs, shape ``(P, 2)``, P >= 1, taken both ways; ``None`` for all
            pairs.

    Raises:
        ArgumentError: if an argument lies outside its range, or a row's probabilities do not add up to one.
    """
    laws, pairs = _laws(log_laws, neighbours)
    if check_delta(delta) == 0.0:
        return max(_ratio(laws[one], laws[other]) for one, other in pairs)
    return _smallest_epsilon(lambda epsilon: laws_delta(laws, epsilon, pairs), delta)


def laws_delta(log_laws: Any, epsilon: float, neighbours: Any = None) -> float:
    """Return the smallest delta at ``epsilon`` >= 0 of a mechanism given by its laws; see :func:`laws_privacy`."""
    epsilon = check_number("epsilon", epsilon, 0.0)
    laws, pairs = _laws(log_laws, neighbours)
    return max(float(_excess(laws[one], laws[other], epsilon).sum()) for one, other in pairs)


# ---------------------------------------------------------------------------------------------------- the paths


class _Paths:
    """Every path of positive probability.

    Attributes:
        logs: log-probabilities of the outcomes given the losses, ``(P,)``.
        keys: a number for the view: its digits are the losses told in round 1, the symbol seen in round 1, and so on.
        sizes: how many symbols there are in each round.
    """

    def __init__(self, learner: Learner, spec: GameSpec, vectors: FloatArray, noted: bool) -> None:
        self._player, self._spec, self._vectors, self._noted = copy.deepcopy(looped(learner)), spec, vectors, noted
        self._taken: NDArray[np.int32] = np.zeros((1, 0), dtype=np.int32)
        self._told = self._taken
        self.logs: FloatArray = np.zeros(1)
        self.keys: IntArray = np.zeros(1, dtype=np.int64)
        self.sizes: list[int] = []
        for number in range(1, spec.horizon + 1):
            self._extend(number, len(vectors) if number < spec.horizon else 1)
        self._join([symbols for _, _, symbols in self._played()])
        self._check()

    def _extend(self, number: int, kinds: int) -> None:
        """Add a round: every possible outcome, then each of the ``kinds`` of losses."""
        parts, seen, count = [], [], 0
        for first, law, symbols in self._played():
            path, outcome = np.nonzero(law > -math.inf)
            parts.append((first + path, outcome, law[path, outcome]))
            seen.append(symbols)
            count += len(path) * kinds
            if count > MOST_PATHS:
                raise ArgumentError(
                    f"horizon: expected at most {MOST_PATHS} sequences of losses and outcomes but found {count} or "
                    f"more in {number} of {self._spec.horizon} rounds with num_experts={self._spec.num_experts} and "
                    f"{len(self._vectors)} loss vectors; lower horizon or num_experts, or state fewer losses"
                )
        self._join(seen)
        path, outcome, steps = (np.concatenate(column) for column in zip(*parts, strict=True))
        told = np.tile(np.arange(kinds), len(path))
        path, outcome, steps = (np.repeat(column, kinds) for column in (path, outcome, steps))
        self.logs, self.keys = self.logs[path] + steps, self.keys[path]
        self._taken = np.column_stack([self._taken[path], outcome]).astype(np.int32)
        self._told = self._told[path]
        if kinds > 1:
            self._told = np.column_stack([self._told, told]).astype(np.int32)

    def _join(self, seen: list[IntArray]) -> None:
        """Put the losses told and the symbols seen in the last round into the keys."""
        rounds = self._taken.shape[1]
        if not rounds:
            return
        symbols = np.concatenate(seen)
        codes: IntArray = np.zeros(len(symbols), dtype=np.int64)
        for column in symbols.T:
            values, places = np.unique(column, return_inverse=True)
            codes = np.unique(codes * len(values) + places, return_inverse=True)[1]
        self.sizes.append(int(codes.max()) + 1)
        if math.prod(self.sizes) * len(self._vectors) ** rounds >= 2**62:
            raise ArgumentError("horizon: expected fewer than 2^62 conceivable views; lower horizon or num_experts")
        if self._told.shape[1] == rounds:
            self.keys = self.keys * len(self._vectors) + self._told[:, -1]
        self.keys = self.keys * self.sizes[-1] + codes

    def _played(self) -> Iterator[tuple[int, FloatArray, IntArray]]:
        """Play all paths so far, some at a time.

        Yields:
            Number of the first, the log-law of the next outcome ``(G, K)``, empty after the last round, and what was
            visible in the last round played, ``(G, C)``.
        """
        step = max(1, _CELLS // self._spec.num_experts)
        for first in range(0, len(self.logs), step):
            games = np.arange(first, min(first + step, len(self.logs)))
            law: FloatArray = np.zeros((len(games), 0))
            symbols: IntArray = np.zeros((len(games), 0), dtype=np.int64)
            self._begin(len(games))
            for number in range(self._taken.shape[1]):
                symbols = self._step(games, number)
            if self._taken.shape[1] < self._spec.horizon:
                law = self._law(len(games))
            yield first, law, symbols

    def _begin(self, games: int, seed: int = 0) -> None:
        # No learner starts without a stream; what it says is never heard.
        spec = GameSpec(self._spec.num_experts, self._spec.horizon, games)
        self._player.reset(spec, np.random.default_rng(seed))

    def _step(self, games: IntArray, number: int) -> IntArray:
        self._player._notes = {} if self._noted else None
        try:
            columns = [np.asarray(self._player.take(self._taken[games, number]))]
        except NotImplementedError as error:
            raise ArgumentError(f"learner: expected one with outcomes and take but {error}") from error
        for name, values in (self._player._notes or {}).items():
            columns += values
            if any(column.dtype.kind not in "biu" for column in values):
                raise ArgumentError(f"learner: expected notes of integers but {name!r} has dtype {values[0].dtype}")
        if number < self._told.shape[1]:
            self._player.observe(self._vectors[self._told[games, number]])
        return np.concatenate([column.reshape(len(games), -1) for column in columns], axis=1, dtype=np.int64)

    def _law(self, games: int) -> FloatArray:
        try:
            law = self._player.outcomes()
        except NotImplementedError as error:
            raise ArgumentError(f"learner: expected one with outcomes and take but {error}") from error
        law = np.broadcast_to(law, (games, law.shape[-1]))
        if not (np.abs(np.exp(law).sum(-1) - 1.0) <= 1e-9).all():
            raise ArgumentError(f"learner: expected outcomes of total probability one from {self._player!r}")
        return law

    def _check(self) -> None:
        """Lead some paths once more, with other randomness: their probabilities must be the same."""
        games = np.unique(np.linspace(0, len(self.logs) - 1, _CHECKED).astype(np.int64))
        self._begin(len(games), seed=1)
        logs = np.zeros(len(games))
        for number in range(self._spec.horizon):
            logs += self._law(len(games))[np.arange(len(games)), self._taken[games, number]]
            self._step(games, number)
        if not (np.abs(logs - self.logs[games]) <= 1e-9 * (1.0 + np.abs(logs))).all():
            raise ArgumentError(
                f"learner: the outcomes of {self._player!r} are no function of past losses and outcomes"
            )


def _loss_set(losses: Any, num_experts: int) -> FloatArray:
    if losses is None and num_experts > math.log2(MOST_PATHS):
        raise ArgumentError(f"losses: expected a set of vectors, since {{0, 1}}^{num_experts} has too many")
    try:
        corners = itertools.product((0.0, 1.0), repeat=num_experts)
        vectors = np.array(list(corners) if losses is None else losses, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        vectors = np.zeros(0)
    fits = vectors.ndim == 2 and vectors.shape[1] == num_experts and ((vectors >= 0.0) & (vectors <= 1.0)).all()
    if not fits or len(different := np.unique(vectors, axis=0)) < 2:
        raise ArgumentError(
            f"losses: expected at least two different vectors of {num_experts} numbers in [0, 1] but found {losses!r}"
        )
    return different


# ---------------------------------------------------------------------------------------------------- the views


@dataclass(frozen=True)
class _Challenge:
    """The challenge in one round: the probabilities of the views, and how to maximise over the adversary.

    A fold takes the last thing off every history: a ufunc, and where in a sorted list the groups begin that it joins.

    Attributes:
        logs: log-probabilities, ``(L, R)``: by the vector told in this round, and by all else, the "row"; ``-inf``
            where impossible.
        after: folds from the rows to the histories before this round.
        before: folds from the histories before the next round to those before this one.
        sequences: of each row, a number for the losses told in other rounds.
    """

    logs: FloatArray
    after: Folds
    before: Folds
    sequences: IntArray


def _challenge(keys: IntArray, logs: FloatArray, place: int, kinds: int, sizes: list[int]) -> _Challenge:
    last = len(sizes) - 1
    tail = math.prod(sizes[place:]) * kinds ** (last - 1 - place)
    rows, where = np.unique(keys // (tail * kinds) * tail + keys % tail, return_inverse=True)
    table = np.full((kinds, len(rows)), -math.inf)
    table[keys // tail % kinds, where] = logs

    after: Folds = []
    nodes, rest, sequences = rows, rows, np.zeros(len(rows), dtype=np.int64)
    for number in range(last, -1, -1):
        rest = rest // sizes[number]
        if number not in (place, last):
            sequences, rest = sequences * kinds + rest % kinds, rest // kinds
        if number >= place:
            nodes, starts = _grouped(nodes, sizes[number])
            after.append((np.add, starts))
        if place < number < last:
            nodes, starts = _grouped(nodes, kinds)
            after.append((np.maximum, starts))

    before: Folds = []
    if place < last - 1:
        nodes, starts = _grouped(np.unique(keys // (tail // sizes[place])), sizes[place])
        before = [(np.add, starts), (np.maximum, _grouped(nodes, kinds)[1])]
    return _Challenge(table, after, before, sequences)


def _grouped(nodes: IntArray, base: int) -> tuple[IntArray, IntArray]:
    """Take the last digit off sorted numbers; return those that are left and where each begins."""
    parents = nodes // base
    starts = np.flatnonzero(np.diff(parents, prepend=-1))
    return parents[starts], starts


def _folded(values: FloatArray, folds: Folds) -> FloatArray:
    for ufunc, starts in folds:
        values = ufunc.reduceat(values, starts)
    return values


# -------------------------------------------------------------------------------------------------- the numbers


def _excess(one: FloatArray, other: FloatArray, epsilon: float) -> FloatArray:
    """Return (P - e^epsilon Q)_+ from log-probabilities."""
    # Where P is 0 the difference of two infinities would be NaN.
    shift = np.full(one.shape, 0.0)
    np.subtract(other, one, out=shift, where=one > -math.inf)
    return np.asarray(np.exp(one) * np.abs(np.expm1(np.minimum(shift + epsilon, 0.0))))


def _ratio(one: FloatArray, other: FloatArray) -> float:
    """Return the largest log-ratio where P > 0, or 0."""
    possible = one > -math.inf
    return float((one[possible] - other[possible]).max(initial=0.0))


def _smallest_epsilon(delta_at: Callable[[float], float], delta: float) -> float:
    """Return where the decreasing ``delta_at`` falls to ``delta`` > 0, rounded up."""
    if delta_at(0.0) <= delta:
        return 0.0
    if delta_at(_MOST_EPSILON) > delta:
        return math.inf
    top = 1.0
    while delta_at(top) > delta:
        top *= 2.0
    root = float(brentq(lambda epsilon: delta_at(epsilon) - delta, 0.0, top, xtol=1e-12, rtol=1e-12))
    step = 1e-13 * (1.0 + root)
    while delta_at(root) > delta:
        root, step = root + step, 2.0 * step
    return root


def _laws(log_laws: Any, neighbours: Any) -> tuple[FloatArray, IntArray]:
    try:
        laws = np.asarray(log_laws, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        laws = np.zeros(0)
    if laws.ndim != 2 or (laws > 1.0).any() or not laws.size or not (np.abs(np.exp(laws).sum(-1) - 1.0) <= 1e-9).all():
        raise ArgumentError(f"log_laws: expected (M, K) log-probabilities, each row's adding up to 1, not {log_laws!r}")
    try:
        pairs = np.array(list(itertools.combinations(range(len(laws)), 2)) if neighbours is None else neighbours)
    except ValueError:
        pairs = np.zeros(0)
    fits = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.size and pairs.dtype.kind in "iu"
    if not fits or pairs.min() < 0 or pairs.max() >= len(laws):
        raise ArgumentError(f"neighbours: expected pairs of numbers in 0..{len(laws) - 1} but found {neighbours!r}")
    return laws, np.concatenate([pairs, pairs[:, ::-1]])
