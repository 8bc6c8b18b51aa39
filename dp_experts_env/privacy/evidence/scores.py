"""Numbers per game that tell two worlds apart: plug-in log-ratios of features, of chains, of a classifier.

Everything here decides about power alone: a statistic is fitted to games that are not counted, so that it may be any.
"""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.privacy.evidence.outcomes import Outcomes
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, MissingExtraError, check_count, check_flag

MOST_CODES = 2**16
"""Most entries of a table that is indexed by its codes."""

FEW = 12
"""Alphabets of up to so many symbols are also counted symbol by symbol."""

MOST_LABELS = 64
"""Events of features with at most so many values are told value by value."""

PRIOR = 1.0
"""Added to each count of a plug-in ratio, so that what was seen rarely says little."""


# -- what a statistic is -----------------------------------------------------------------------------------------------


class Score(abc.ABC):
    """A number per game that was fitted to two worlds; a subclass gives ``name`` and ``__call__``."""

    name: str

    @abc.abstractmethod
    def __call__(self, outcomes: Outcomes) -> FloatArray:
        """Return a number per game, shape ``(G,)``, higher where world 0 is likelier; infinities are allowed."""

    def tally(self, outcomes: Outcomes) -> tuple[FloatArray, IntArray]:
        """Return the distinct :func:`numbers`, ascending, and in how many games each occurs."""
        values, counts = np.unique(numbers(self, outcomes), return_counts=True)
        return values, counts

    def describe(self, threshold: float, above: bool) -> str:
        """Return in words the event that the number is on one side of the threshold, or there."""
        return f"{self.name} {'>=' if above else '<='} {threshold:.6g}"


def numbers(score: Score, outcomes: Outcomes) -> FloatArray:
    """Return a score of each game, rounded so that games of one likelihood ratio tie however it was summed.

    Raises:
        ArgumentError: if the score has the wrong shape or is not a number.
    """
    try:
        found = np.asarray(score(outcomes), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{score.name}: does not apply to these outcomes: {error}") from error
    if found.shape != (outcomes.num_games,) or np.isnan(found).any():
        raise ArgumentError(f"{score.name}: expected {outcomes.num_games} numbers, no NaN, but found {found!r}")
    return _rounded(found)


def _rounded(values: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.round(values, 7) + 0.0)


class Statistic(abc.ABC):
    """A way to find numbers that tell two worlds apart; a subclass gives ``fit``."""

    @abc.abstractmethod
    def fit(self, zero: Outcomes, one: Outcomes, rng: np.random.Generator) -> Iterable[Score]:
        """Return scores fitted to games of the two worlds; none where it does not apply.

        Args:
            zero: games of world 0.
            one: games of world 1.
            rng: source of randomness.
        """


def statistics(classifier: bool = False) -> tuple[Statistic, ...]:
    """Return the statistics that an audit tries: the given score, histograms, chains.

    Args:
        classifier: also try gradient-boosted trees (scikit-learn, the extra ``audit``).
    """
    check_flag("classifier", classifier)
    found: tuple[Statistic, ...] = (LikelihoodRatio(), Histogram(), Markov())
    return (*found, Classifier()) if classifier else found


class LikelihoodRatio(Statistic):
    """The score that came with the outcomes, where there is one; nothing is fitted."""

    def fit(self, zero: Outcomes, one: Outcomes, rng: np.random.Generator) -> Iterable[Score]:
        """Return the given score; see :meth:`Statistic.fit`."""
        return [_Given()] if zero.score is not None and one.score is not None else []


class _Given(Score):
    name = "given score"

    def __call__(self, outcomes: Outcomes) -> FloatArray:
        if outcomes.score is None:
            raise ArgumentError("score: expected outcomes with a score, as those had that the event was chosen on")
        return outcomes.score


# -- tracks: which symbols are read, and from which round on -----------------------------------------------------------


@dataclass(frozen=True)
class _Track:
    """Symbols of some columns, a row a round; larger than was seen in fitting counts as the largest."""

    name: str
    columns: tuple[int, ...]
    bases: tuple[int, ...]
    aligned: bool
    length: int

    @property
    def base(self) -> int:
        return math.prod(self.bases)

    def read(self, outcomes: Outcomes) -> NDArray[Any]:
        """Codes below ``base``, shape ``(length, G)``."""
        found = outcomes.memo.get(self)
        if found is None:
            rows = outcomes.offsets if self.aligned else outcomes.rounds
            if rows.shape[0] <= max(self.columns) or rows.shape[1] < self.length:
                raise ArgumentError(
                    f"{self.name}: expected outcomes with as many rounds and columns as those that it was fitted to, "
                    f"but found {outcomes.symbols.shape[1:]}"
                )
            found = np.zeros((self.length, outcomes.num_games), dtype=np.min_scalar_type(self.base))
            for column, base in zip(self.columns, self.bases, strict=True):
                found *= found.dtype.type(base)
                found += np.minimum(rows[column, : self.length], base - 1).astype(found.dtype)
            outcomes.memo[self] = found
        return found

    def show(self, code: int) -> str:
        """A code as the symbols it stands for."""
        digits = []
        for base in reversed(self.bases):
            code, digit = divmod(code, base)
            digits.append(str(digit - 1) if digit else "none")
        return digits[0] if len(digits) == 1 else f"({', '.join(reversed(digits))})"

    def at(self, row: int) -> str:
        """A row in words."""
        if not self.aligned:
            return f"in round {row + 1}"
        return f"{row} round{'s' * (row > 1)} after the challenge" if row else "at the challenge"


def _tracks(zero: Outcomes, one: Outcomes) -> Iterator[_Track]:
    """Each column alone and all of them together, in absolute rounds and from the challenge on."""
    _, horizon, width = zero.symbols.shape
    challenges = np.concatenate([zero.challenge, one.challenge])
    alignments = [(False, horizon)]
    if challenges.any():
        alignments.append((True, horizon + 1 - int(challenges[challenges > 0].min())))
    for aligned, length in alignments:
        rows = [outcomes.offsets if aligned else outcomes.rounds for outcomes in (zero, one)]
        bases = [1 + max(int(row[column, :length].max()) for row in rows) for column in range(width)]
        groups: list[tuple[int, ...]] = [(column,) for column in range(width)]
        if width > 1 and math.prod(bases) <= MOST_CODES:
            groups.append(tuple(range(width)))
        for group in groups:
            name = " and ".join(zero.columns[column] for column in group)
            yield _Track(name, group, tuple(bases[column] for column in group), aligned, length)


# -- histograms of features --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Feature:
    """A code per game. ``size`` bounds the codes; ``None`` for hashes."""

    name: str
    size: int | None
    codes: Callable[[], NDArray[Any]]
    show: Callable[[int], str] = str


def _features(track: _Track, outcomes: Outcomes) -> Iterator[_Feature]:
    x, base, length, name = track.read(outcomes), track.base, track.length, track.name
    # What is seen in the round of the challenge has the same law in both worlds.
    first = int(track.aligned)
    since = " from the challenge on" if track.aligned else ""

    def pair(row: int, later: int) -> _Feature:
        return _Feature(
            f"{name} {track.at(row)} and {track.at(later)}",
            base * base,
            lambda: x[row].astype(np.int64) * base + x[later],
            lambda code: " then ".join(track.show(part) for part in divmod(code, base)),
        )

    def leads_to(hit: NDArray[np.bool_], none: int) -> IntArray:
        if not len(hit):
            return np.full(hit.shape[1], none)
        return np.asarray(np.where(hit.any(0), hit.argmax(0), none))

    def number_of(symbol: int) -> Callable[[], IntArray]:
        return lambda: (x[first:] == symbol).sum(0)

    def first_of(symbol: int) -> Callable[[], IntArray]:
        return lambda: leads_to(x[first:] == symbol, length - first) + first

    def change() -> IntArray:
        return leads_to(x[1:] != x[:-1], length - 1)

    def changed() -> IntArray:
        rows = np.minimum(change() + 1, length - 1)
        return np.asarray(rows * base + x[rows, np.arange(x.shape[1])])

    for row in range(first, length):
        yield _Feature(f"{name} {track.at(row)}", base, functools.partial(x.__getitem__, row), track.show)
    for row in range(1, length):
        yield pair(row - 1, row)
    if track.aligned:
        for row in range(2, length):
            yield pair(0, row)
    if base <= FEW:
        for symbol in range(1, base):
            shown = track.show(symbol)
            yield _Feature(f"number of rounds with {name} {shown}{since}", length + 1, number_of(symbol))
            yield _Feature(f"rounds before the first with {name} {shown}{since}", length + 1, first_of(symbol))
    if length > 1:
        yield _Feature(f"changes of {name}{since}", length, lambda: (x[1:] != x[:-1]).sum(0))
        yield _Feature(f"rounds before {name} changes{since}", length, change)
        yield _Feature(
            f"first change of {name}{since}",
            length * base,
            changed,
            lambda code: f"{track.show(code % base)} {track.at(code // base)}",
        )
    reach = 3
    while reach < length:
        yield _Feature(f"first {reach} of {name}{since}", None, functools.partial(_hash, x[:reach]))
        reach += (reach + 1) // 2
    if length > 2:
        yield _Feature(f"all of {name}{since}", None, lambda: _hash(x))


def _hash(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """One code per column of an array; two that collide cost power, nothing else."""
    code = np.zeros(rows.shape[1], dtype=np.uint64)
    for row in rows:
        code += row.astype(np.uint64) + np.uint64(1)
        code *= np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code


class Histogram(Statistic):
    """Plug-in log-ratio of the counts of a feature.

    Args:
        feature: from outcomes to an integer code per game, shape ``(G,)``; ``None`` tries many: for each column and
            all together, in absolute rounds and from the challenge on, the symbol in each round, pairs of symbols, how
            often and when first each symbol came, changes, prefixes and the whole.
        name: what to call the feature.
    """

    def __init__(self, feature: Callable[[Outcomes], NDArray[Any]] | None = None, name: str = "feature") -> None:
        if feature is not None and not callable(feature):
            raise ArgumentError(f"feature: expected a function of outcomes or None but found {feature!r}")
        self.feature, self.name = feature, str(name)

    def fit(self, zero: Outcomes, one: Outcomes, rng: np.random.Generator) -> Iterator[Score]:
        """Yield a table of log-ratios for each feature; see :meth:`Statistic.fit`."""
        if self.feature is not None:
            feature = functools.partial(_codes, self.name, self.feature)
            codes = [feature(outcomes) for outcomes in (zero, one)]
            yield _table(self.name, feature, codes, None, None)
            return
        for track in _tracks(zero, one):
            for index, (ours, theirs) in enumerate(zip(_features(track, zero), _features(track, one), strict=True)):
                codes = [ours.codes(), theirs.codes()]
                yield _table(ours.name, _Nth(track, index), codes, ours.size, ours.show)


def _codes(name: str, feature: Callable[[Outcomes], NDArray[Any]], outcomes: Outcomes) -> NDArray[Any]:
    found = np.asarray(feature(outcomes))
    if found.shape != (outcomes.num_games,) or found.dtype.kind not in "biu":
        raise ArgumentError(
            f"{name}: expected {outcomes.num_games} integers, one a game, but found {found.dtype} {found.shape}"
        )
    return found


@dataclass(frozen=True)
class _Nth:
    """The feature of this number, to be read off other outcomes."""

    track: _Track
    index: int

    def __call__(self, outcomes: Outcomes) -> NDArray[Any]:
        return next(itertools.islice(_features(self.track, outcomes), self.index, None)).codes()


def _table(
    name: str,
    feature: Callable[[Outcomes], NDArray[Any]],
    codes: list[NDArray[Any]],
    size: int | None,
    show: Callable[[int], str] | None,
) -> _Table:
    games = [len(code) for code in codes]
    keys = None
    if size is None or size > MOST_CODES:
        keys, joined = np.unique(np.concatenate(codes), return_inverse=True)
        codes, size, show = np.split(joined, games[:1]), len(keys), None
    counts = [np.bincount(code, minlength=size) for code in codes]
    seen = counts[0] + counts[1] > 0
    total = PRIOR * seen.sum()
    # The ratio of what was seen in neither world, which is also part of every other one.
    unseen = math.log((games[1] + total) / (games[0] + total))
    ratios = np.log((counts[0] + PRIOR) / (counts[1] + PRIOR)) + unseen
    labels = None
    if show is not None and seen.sum() <= MOST_LABELS:
        labels = {int(code): show(int(code)) for code in np.flatnonzero(seen)}
    return _Table(name, feature, keys, _rounded(np.append(ratios, unseen)), labels)


@dataclass(frozen=True, eq=False)
class _Table(Score):
    """Log-ratios of the codes of a feature, of those named by ``keys`` where there are keys; unseen codes last."""

    name: str
    feature: Callable[[Outcomes], NDArray[Any]]
    keys: NDArray[Any] | None
    ratios: FloatArray
    labels: dict[int, str] | None

    def _places(self, outcomes: Outcomes) -> IntArray:
        codes = self.feature(outcomes)
        last = len(self.ratios) - 1
        if self.keys is None:
            return np.asarray(np.minimum(codes, last))
        places = np.minimum(np.searchsorted(self.keys, codes), last - 1)
        return np.asarray(np.where(self.keys[places] == codes, places, last))

    def __call__(self, outcomes: Outcomes) -> FloatArray:
        return np.asarray(self.ratios[self._places(outcomes)])

    def tally(self, outcomes: Outcomes) -> tuple[FloatArray, IntArray]:
        counts = np.bincount(self._places(outcomes), minlength=len(self.ratios))
        order = np.argsort(self.ratios[counts > 0], kind="stable")
        values, starts = np.unique(self.ratios[counts > 0][order], return_index=True)
        return values, np.add.reduceat(counts[counts > 0][order], starts)

    def describe(self, threshold: float, above: bool) -> str:
        if self.labels is None:
            return f"log-ratio of {super().describe(threshold, above)}"
        inside = self.ratios >= threshold if above else self.ratios <= threshold
        named = [label for code, label in self.labels.items() if inside[code]]
        return f"{self.name}: {' or '.join([*named, *(['unseen'] if inside[-1] else [])])}"


# -- chains and trees --------------------------------------------------------------------------------------------------


class Markov(Statistic):
    """Plug-in log-ratio of a chain: each round's symbol given those just before it, with laws of the round's own.

    Where a context of full length came too rarely, a shorter one is used. Each column and all together, in absolute
    rounds and from the challenge on.

    Args:
        orders: lengths of the context that are tried, integers >= 0, as far as the games of an audit bear them.
        least: in how many games of the two worlds a context must have come, an integer >= 1.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, orders: Iterable[int] = (0, 1, 2, 4, 8), least: int = 20) -> None:
        if not isinstance(orders, Iterable) or getattr(orders, "ndim", 1) == 0:
            raise ArgumentError(f"orders: expected lengths of a context but found {orders!r}")
        self.orders = sorted(check_count("orders", order, 0) for order in orders)
        if not self.orders:
            raise ArgumentError("orders: expected at least one length of a context")
        self.least = check_count("least", least)

    def fit(self, zero: Outcomes, one: Outcomes, rng: np.random.Generator) -> Iterator[Score]:
        """Yield a chain for each order; see :meth:`Statistic.fit`."""
        for track in _tracks(zero, one):
            base, length = track.base, track.length
            longest = min(self.orders[-1], length - 1)
            while longest >= 0 and base ** (longest + 1) > MOST_CODES:
                longest -= 1
            if longest < 0:
                continue
            grams = np.stack([_count(track.read(outcomes), base, base ** (longest + 1)) for outcomes in (zero, one)])
            table = np.zeros((length, 1))
            for order in range(longest + 1):
                contexts = base**order
                counts = grams.reshape(2, length, -1, contexts, base).sum(2)
                totals = counts.sum(-1, keepdims=True)
                ratios = np.log((counts[0] + PRIOR) / (counts[1] + PRIOR))
                ratios -= np.log((totals[0] + PRIOR * base) / (totals[1] + PRIOR * base))
                if track.aligned:
                    ratios[0] = 0.0
                # A context reads as a number, its oldest symbol first, so that shorter ones repeat.
                shorter = np.tile(table, (1, ratios[0].size // table.shape[1])).reshape(ratios.shape)
                table = np.where(totals.sum(0) >= self.least, ratios, shorter).reshape(length, -1)
                if order in self.orders or order == longest:
                    yield _Chain(order, track, table)


def _walk(x: NDArray[Any], base: int, size: int) -> Iterator[IntArray]:
    """Codes, row by row, of the symbols so far, as many of the last ones as ``size`` tells apart."""
    code = np.zeros(x.shape[1], dtype=np.int64)
    for row in x:
        code = (code * base + row) % size
        yield code


def _count(x: NDArray[Any], base: int, size: int) -> IntArray:
    return np.stack([np.bincount(code, minlength=size) for code in _walk(x, base, size)])


@dataclass(frozen=True, eq=False)
class _Chain(Score):
    order: int
    track: _Track
    table: FloatArray

    @property
    def name(self) -> str:  # type: ignore[override]
        since = " from the challenge on" if self.track.aligned else ""
        return f"log-ratio of a chain of order {self.order} of {self.track.name}{since}"

    def __call__(self, outcomes: Outcomes) -> FloatArray:
        steps = _walk(self.track.read(outcomes), self.track.base, self.table.shape[1])
        total: FloatArray = np.zeros(outcomes.num_games)
        for row, code in zip(self.table, steps, strict=True):
            total += row[code]
        return total


class Classifier(Statistic):
    """Log-odds of gradient-boosted trees on all symbols, in absolute rounds and from the challenge on.

    Args:
        most_games: how many games of each world are learned from at most, an integer >= 1.

    Raises:
        ArgumentError: if the argument lies outside its range.
    """

    def __init__(self, most_games: int = 100_000) -> None:
        self.most_games = check_count("most_games", most_games)

    def fit(self, zero: Outcomes, one: Outcomes, rng: np.random.Generator) -> Iterator[Score]:
        """Yield one classifier; see :meth:`Statistic.fit`.

        Raises:
            MissingExtraError: if scikit-learn is not installed.
        """
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier
        except ImportError as error:
            raise MissingExtraError("the classifier needs scikit-learn: pip install 'dp-experts-env[audit]'") from error
        worlds = [outcomes.part(slice(self.most_games)) for outcomes in (zero, one)]
        rows = np.concatenate([_rows(outcomes) for outcomes in worlds])
        labels = np.repeat([1, 0], [outcomes.num_games for outcomes in worlds])
        # Without early stopping it needs no second split, which few games do not bear.
        model = HistGradientBoostingClassifier(early_stopping=False, random_state=int(rng.integers(2**31)))
        yield _Boosted(model.fit(rows, labels))


@dataclass(frozen=True, eq=False)
class _Boosted(Score):
    model: Any
    name: str = "log-odds of a classifier"

    def __call__(self, outcomes: Outcomes) -> FloatArray:
        return np.asarray(self.model.decision_function(_rows(outcomes)))


def _rows(outcomes: Outcomes) -> NDArray[Any]:
    tracks = [outcomes.rounds, outcomes.offsets]
    return np.concatenate([track.reshape(-1, outcomes.num_games) for track in tracks]).T
