"""The choice of an event on one half of the games, its count on the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dp_experts_env.privacy.evidence.bounds import check_trials, epsilon_limit, lower_bound, two
from dp_experts_env.privacy.evidence.outcomes import Outcomes
from dp_experts_env.privacy.evidence.scores import Score, Statistic, numbers, statistics
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, check_count, check_delta, check_flag, check_number

Worlds: TypeAlias = tuple[Outcomes, Outcomes]
Tally: TypeAlias = tuple[FloatArray, IntArray]

LEAST_GAMES = 4
"""Least number of games a world: one to fit, one to choose, two to count."""

MOST_THRESHOLDS = 2000
"""Most thresholds of one score that are compared; of more, those in the tails."""

CAUTION = 1.0
"""Share of the error of the best of independent thresholds that an event's promise is lowered by."""


@dataclass(frozen=True, eq=False)
class Event:
    """An event of a game's outcomes that was chosen to tell two worlds apart.

    Attributes:
        score: a number per game.
        threshold: where the event begins.
        above: whether the event is that the score is at least the threshold, else at most.
        favoured: the world, 0 or 1, that the event was found likelier in.
        expected: how often it was seen in world 0 and in world 1 when it was chosen, in [0, 1].
    """

    score: Score
    threshold: float
    above: bool
    favoured: int
    expected: tuple[float, float]

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            raise ArgumentError(f"score: expected a Score but found {self.score!r}")
        # Infinite thresholds are those of events that always or never occur.
        if not (isinstance(self.threshold, float) and math.isinf(self.threshold)):
            check_number("threshold", self.threshold)
        check_flag("above", self.above)
        check_count("favoured", self.favoured, 0, 1)
        for world, rate in enumerate(two("expected", self.expected)):
            check_number(f"expected[{world}]", rate, 0.0, 1.0)

    def occurs(self, outcomes: Outcomes) -> NDArray[np.bool_]:
        """Return whether the event occurs, a boolean per game, shape ``(G,)``."""
        found = numbers(self.score, outcomes)
        return np.asarray(found >= self.threshold if self.above else found <= self.threshold)

    def __str__(self) -> str:
        return self.score.describe(self.threshold, self.above)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What counted games show about epsilon.

    Attributes:
        epsilon_lower: with probability at least ``confidence`` the mechanism is (epsilon, delta)-private for no
            epsilon below this; >= 0.
        epsilon_limit: the most that so many games can show.
        delta: the delta of both.
        confidence: the confidence of both.
        hits: in how many of the counted games of world 0 and of world 1 the event occurred.
        trials: how many games of world 0 and of world 1 were counted.
        event: the event, fixed before the count.
    """

    epsilon_lower: float
    epsilon_limit: float
    delta: float
    confidence: float
    hits: tuple[int, int]
    trials: tuple[int, int]
    event: Event
    _tallies: tuple[Tally, Tally] = field(repr=False)

    def curve(self, points: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the trade-off of the event's score over all its thresholds, on the counted games.

        It is an estimate for a figure: its best point was not fixed beforehand and bounds nothing.

        Args:
            points: most points of the curve, >= 2, or ``None`` for all.

        Returns:
            False alarm and detection, each of shape ``(P,)``, ascending from 0 to 1: how often the event with this
            threshold occurred in the world that it does not favour, and in the one that it does.
        """
        if points is not None:
            check_count("points", points, 2)
        values = np.union1d(self._tallies[0][0], self._tallies[1][0])
        rates = []
        for tally, games in zip(self._tallies, self.trials, strict=True):
            hits = _occurrences(tally, values, self.event.above)
            rates.append(np.append(0, hits[::-1] if self.event.above else hits) / games)
        false_alarm, detection = rates[1 - self.event.favoured], rates[self.event.favoured]
        if points is not None and len(detection) > points:
            # Evenly along the curve, since its steep parts have few thresholds.
            walked = false_alarm + detection
            kept = np.searchsorted(walked, np.linspace(0.0, 2.0, points)).clip(max=len(walked) - 1)
            kept[-1] = len(walked) - 1
            false_alarm, detection = false_alarm[kept], detection[kept]
        return false_alarm, detection


def judge(
    zero: Outcomes,
    one: Outcomes,
    delta: float = 0.0,
    confidence: float = 0.95,
    rng: np.random.Generator | None = None,
    statistics: Sequence[Statistic] | None = None,
    *,
    counted: Worlds | None = None,
) -> Evidence:
    """Bound epsilon from below by games of two worlds whose number was fixed beforehand.

    The first half of each world's games, by index, chooses one event and the world that it favours; the second half
    counts it, once. Since it is fixed when the count begins, it may have been chosen in any way, and the bound of
    :func:`lower_bound` holds with the stated confidence whatever the mechanism is. Handing in the worlds the other way
    round changes nothing but their names.

    Args:
        zero: games of world 0, independent of each other and of the other world's; at least 4.
        one: games of world 1, of the same horizon and columns.
        delta: delta in [0, 1).
        confidence: confidence in (0, 1).
        rng: source of randomness of fitting (a classifier's); ``None`` for a fixed one.
        statistics: what to try, ``None`` for :func:`statistics`.
        counted: fresh games of the two worlds to count instead of the second halves, all of them.

    Raises:
        ArgumentError: if an argument lies outside its range, or no statistic applies.
    """
    _check_worlds(zero, one, LEAST_GAMES)
    halves = [outcomes.num_games // 2 for outcomes in (zero, one)]
    choosing = zero.part(slice(halves[0])), one.part(slice(halves[1]))
    if counted is None:
        counted = zero.part(slice(halves[0], None)), one.part(slice(halves[1], None))
    counted = two("counted", counted)
    _check_worlds(*counted, 1, ("counted[0]", "counted[1]"))
    _check_worlds(zero, counted[0], 1, ("zero", "counted[0]"))
    trials = counted[0].num_games, counted[1].num_games
    event = choose_event(*choosing, delta, confidence, statistics, trials, rng)
    return count_event(event, *counted, delta, confidence)


def count_event(event: Event, zero: Outcomes, one: Outcomes, delta: float = 0.0, confidence: float = 0.95) -> Evidence:
    """Bound epsilon from below by an event that was fixed beforehand: all games are counted.

    Args:
        event: the event; nothing about it may depend on these games.
        zero: games of world 0.
        one: games of world 1; as many where the games have no common law, see :class:`Outcomes`.
        delta: delta in [0, 1).
        confidence: confidence in (0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    if not isinstance(event, Event):
        raise ArgumentError(f"event: expected an Event but found {event!r}")
    _check_worlds(zero, one, 1)
    identical = zero.identical and one.identical
    if not identical and zero.num_games != one.num_games:
        # The claim binds each game's two probabilities: the means of other games' are not bound.
        raise ArgumentError(
            f"one: expected as many games as of world 0, {zero.num_games}, since their laws differ from game to game, "
            f"but found {one.num_games}"
        )
    tallies = event.score.tally(zero), event.score.tally(one)
    here = np.array([event.threshold])
    hits = int(_occurrences(tallies[0], here, event.above)[0]), int(_occurrences(tallies[1], here, event.above)[0])
    trials = zero.num_games, one.num_games
    us, them = event.favoured, 1 - event.favoured
    bound = lower_bound(
        (hits[us], hits[them]),
        (trials[us], trials[them]),
        delta,
        confidence,
        (event.expected[us], event.expected[them]),
        identical,
    )
    limit = epsilon_limit(trials, delta, confidence)
    return Evidence(bound, limit, delta, confidence, hits, trials, event, tallies)


def trade_off(event: Event, zero: Outcomes, one: Outcomes) -> tuple[FloatArray, FloatArray]:
    """Return the trade-off of an event's score on the games that :func:`judge` would have counted of these.

    Args:
        event: the event that :func:`judge` chose on their first half.
        zero: games of world 0, those of the first half included.
        one: games of world 1.

    Returns:
        False alarm and detection; see :meth:`Evidence.curve`.
    """
    _check_worlds(zero, one, 2)
    rest = [outcomes.part(slice(outcomes.num_games // 2, None)) for outcomes in (zero, one)]
    return count_event(event, rest[0], rest[1]).curve()


def choose_event(
    zero: Outcomes,
    one: Outcomes,
    delta: float = 0.0,
    confidence: float = 0.95,
    statistics: Sequence[Statistic] | None = None,
    trials: tuple[int, int] | None = None,
    rng: np.random.Generator | None = None,
) -> Event:
    """Choose the event that promises the largest bound when it is counted in other games.

    One half of the games fits the statistics, the other compares all their thresholds, on both sides and in favour of
    both worlds: by the logarithm of (rate - delta) / rate less the error of the count to come and a share of
    that of the comparison, which grows with the number of thresholds.

    Args:
        zero: games of world 0 that will not be counted, at least 2.
        one: games of world 1 that will not be counted.
        delta: delta in [0, 1).
        confidence: confidence in (0, 1).
        statistics: what to try, ``None`` for :func:`statistics`.
        trials: how many games will be counted in the two worlds, ``None`` for as many as are given.
        rng: source of randomness of fitting; ``None`` for a fixed one.

    Raises:
        ArgumentError: if an argument lies outside its range, or no statistic applies.
    """
    _check_worlds(zero, one, LEAST_GAMES // 2)
    check_delta(delta)
    check_number("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    tried = _checked(statistics)
    trials = (zero.num_games, one.num_games) if trials is None else check_trials(trials)
    rng = np.random.default_rng(0) if rng is None else rng
    # Worlds in an order of their own, so that the order in which they are handed in decides nothing.
    order = _compare(zero, one)
    worlds = [zero, one] if order <= 0 else [one, zero]
    trials = trials if order <= 0 else trials[::-1]
    fit = [outcomes.part(slice(outcomes.num_games // 2)) for outcomes in worlds]
    held = [outcomes.part(slice(outcomes.num_games // 2, None)) for outcomes in worlds]
    best, found = -math.inf, None
    for statistic in tried:
        fitted = statistic.fit(fit[0], fit[1], rng)
        if not isinstance(fitted, Iterable):
            raise ArgumentError(f"statistics: expected scores of {statistic!r} but its fit returned {fitted!r}")
        for score in fitted:
            if not isinstance(score, Score):
                raise ArgumentError(f"statistics: expected scores of {statistic!r} but found {score!r}")
            if order == 0:
                # The two look the same: nothing favours a world.
                return Event(score, -math.inf, True, 0, (1.0, 1.0))
            promise, event = _best_event(score, (held[0], held[1]), trials, delta, confidence)
            if promise > best:
                best, found = promise, event
    if found is None:
        raise ArgumentError(f"statistics: none of {tried!r} applies to these outcomes")
    if order > 0:
        return replace(found, favoured=1 - found.favoured, expected=found.expected[::-1])
    return found


def _best_event(
    score: Score, held: Worlds, trials: tuple[int, int], delta: float, confidence: float
) -> tuple[float, Event]:
    tallies = [score.tally(outcomes) for outcomes in held]
    games = [outcomes.num_games for outcomes in held]
    values = np.union1d(tallies[0][0], tallies[1][0])
    if len(values) > MOST_THRESHOLDS:
        ranks = np.unique(np.geomspace(1, len(values), MOST_THRESHOLDS // 2).astype(np.int64)) - 1
        values = values[np.union1d(ranks, len(values) - 1 - ranks)]
    caution = CAUTION * math.sqrt(2.0 * math.log(len(values)))
    best, found = -math.inf, None
    for above in (True, False):
        hits = [_occurrences(tally, values, above) for tally in tallies]
        # Anscombe's arcsine of a rate, with nearly the same error whatever the rate.
        angles = [np.arcsin(np.sqrt((hit + 0.375) / (number + 0.75))) for hit, number in zip(hits, games, strict=True)]
        for us, them in ((0, 1), (1, 0)):
            logs = []
            for world, sign in ((us, -1.0), (them, 1.0)):
                error = 0.5 * math.sqrt(special.ndtri(confidence) ** 2 / trials[world] + caution**2 / games[world])
                rates = np.sin(np.clip(angles[world] + [[0.0], [sign * error]], 0.0, math.pi / 2)) ** 2
                logs.append(np.log(np.maximum(rates - (delta if world == us else 0.0), 1e-300)))
            (ours, low), (theirs, high) = logs
            promises = ours - theirs - np.hypot(ours - low, high - theirs)
            place = int(promises.argmax())
            if promises[place] > best:
                seen = float(hits[0][place]) / games[0], float(hits[1][place]) / games[1]
                best, found = float(promises[place]), Event(score, float(values[place]), above, us, seen)
    assert found is not None
    return best, found


def _occurrences(tally: Tally, thresholds: FloatArray, above: bool) -> IntArray:
    values, counts = tally
    below = np.append(0, counts.cumsum())
    if above:
        return np.asarray(below[-1] - below[np.searchsorted(values, thresholds, "left")])
    return np.asarray(below[np.searchsorted(values, thresholds, "right")])


def _checked(tried: Sequence[Statistic] | None) -> Sequence[Statistic]:
    if tried is None:
        return statistics()
    if not isinstance(tried, Sequence) or not tried or not all(isinstance(item, Statistic) for item in tried):
        raise ArgumentError(f"statistics: expected a sequence of Statistic but found {tried!r}")
    return tried


def _check_worlds(zero: Outcomes, one: Outcomes, least: int, names: tuple[str, str] = ("zero", "one")) -> None:
    for name, outcomes in zip(names, (zero, one), strict=True):
        if not isinstance(outcomes, Outcomes):
            raise ArgumentError(f"{name}: expected Outcomes but found {type(outcomes).__name__}")
        if outcomes.num_games < least:
            raise ArgumentError(f"{name}: expected at least {least} games but found {outcomes.num_games}")
    shapes = [(outcomes.symbols.shape[1:], outcomes.columns, outcomes.score is None) for outcomes in (zero, one)]
    if shapes[0] != shapes[1]:
        raise ArgumentError(
            f"{names[1]}: expected rounds, columns and presence of a score as in {names[0]}, {zero.symbols.shape[1:]} "
            f"{zero.columns}, but found {one.symbols.shape[1:]} {one.columns}"
        )


def _compare(zero: Outcomes, one: Outcomes) -> int:
    """Order two worlds by what was seen: -1, 0 (the same) or 1."""
    if zero.num_games != one.num_games:
        return -1 if zero.num_games < one.num_games else 1
    for ours, theirs in ((zero.symbols, one.symbols), (zero.challenge, one.challenge), (zero.score, one.score)):
        if ours is None or theirs is None:
            continue
        differ = np.flatnonzero((ours != theirs).ravel())
        if differ.size:
            return -1 if ours.ravel()[differ[0]] < theirs.ravel()[differ[0]] else 1
    return 0
