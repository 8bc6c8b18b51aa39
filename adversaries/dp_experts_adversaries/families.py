"""The public suite: families of oblivious sequences on which constants are chosen and learners compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_experts_env.adversary import Adversary
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec, check_name


@dataclass(frozen=True)
class Pattern:
    """How a family's mean losses come about, before experts are relabelled.

    Attributes:
        draw: ``(game, rng) -> data``, what is random in a game, an array.
        means: ``(data, rounds, game) -> mean losses`` of shape ``(R, *games, N)`` at round numbers ``(R,)`` from 0;
            the games axis may be 1.
    """

    draw: Callable[[GameSpec, np.random.Generator], FloatArray]
    means: Callable[[FloatArray, Any, GameSpec], FloatArray]


def _nothing(game: GameSpec, rng: np.random.Generator) -> FloatArray:
    return np.zeros(0)


def _column(rounds: Any, ndim: int) -> Any:
    return rounds.reshape(-1, *(1,) * ndim)


def _regimes(table: Callable[[Any, int, int], FloatArray]) -> Pattern:
    """Mean losses that are a fixed function ``(rounds, N, T) -> (R, N)`` of time."""

    def means(data: FloatArray, rounds: Any, game: GameSpec) -> FloatArray:
        rates = table(rounds, game.num_experts, game.horizon)
        return rates.reshape(len(rounds), *(1,) * len(game.shape), game.num_experts)

    return Pattern(_nothing, means)


def _one_at(rate: Callable[[int], float]) -> Pattern:
    return _regimes(lambda rounds, size, horizon: _fill(rounds, size, rate(horizon)))


def _fill(rounds: Any, size: int, *columns: Any, others: float = 0.5) -> FloatArray:
    rates = np.full((len(rounds), size), others)
    for column, values in enumerate(columns[:size]):
        rates[:, column] = values
    return rates


def _failing(
    rate: Callable[[int], float], times: Callable[[GameSpec, np.random.Generator], FloatArray], after: float = 0.5
) -> Pattern:
    """All experts at ``rate`` until each but the first fails at its time."""

    def draw(game: GameSpec, rng: np.random.Generator) -> FloatArray:
        fail = np.array(np.broadcast_to(times(game, rng), (*game.shape, game.num_experts)))
        fail[..., 0] = math.inf
        return fail

    def means(fail: FloatArray, rounds: Any, game: GameSpec) -> FloatArray:
        return np.where(_column(rounds, fail.ndim) < fail, rate(game.horizon), after)

    return Pattern(draw, means)


def _log_uniform_times(game: GameSpec, rng: np.random.Generator) -> FloatArray:
    return np.asarray(np.exp(rng.random((*game.shape, game.num_experts)) * math.log(game.horizon)))


def _even_times(game: GameSpec, rng: np.random.Generator) -> FloatArray:
    return np.asarray(game.horizon * np.arange(game.num_experts) / game.num_experts)


def _exponential_times(game: GameSpec, rng: np.random.Generator) -> FloatArray:
    return np.asarray(-game.horizon * np.expm1(-rng.standard_exponential((*game.shape, game.num_experts))))


def _swap(rounds: Any, size: int, horizon: int) -> FloatArray:
    early = rounds < horizon / 2
    return _fill(rounds, size, np.where(early, 0.1, 0.6), np.where(early, 0.5, 0.05))


def _alternate(period: Callable[[int], float]) -> Pattern:
    def table(rounds: Any, size: int, horizon: int) -> FloatArray:
        even = (rounds // period(horizon)) % 2 == 0
        return _fill(rounds, size, 0.28, np.where(even, 0.1, 0.6), np.where(even, 0.6, 0.1))

    return _regimes(table)


def _late_star(rounds: Any, size: int, horizon: int) -> FloatArray:
    return _fill(rounds, size, 0.3, np.where(rounds < horizon / 3, 0.5, 0.0))


def _four_leaders(rounds: Any, size: int, horizon: int) -> FloatArray:
    regime = np.minimum(4 * rounds // horizon, 3)
    return _fill(rounds, size, 0.22, *(np.where(regime == r, 0.1, 0.5) for r in range(4)))


def _rotating(length: int) -> Pattern:
    def table(rounds: Any, size: int, horizon: int) -> FloatArray:
        rates = _fill(rounds, size, 0.3, others=0.6)
        turn = rounds // length
        for shift, rate in ((0, 0.0), (1, 1.0)):
            star = 1 + (turn - shift) % max(1, size - 1)
            on = np.flatnonzero((star < size) & (turn >= shift))
            rates[on, star[on]] = rate
        return rates

    return _regimes(table)


def _blocks(count: Callable[[int], int], low: float, high: float, share: float, steady: float) -> Pattern:
    """In each of ``count`` equal blocks a random share of the experts at ``high``, the rest at ``low``; one steady."""

    def draw(game: GameSpec, rng: np.random.Generator) -> FloatArray:
        size = game.num_experts
        ranks = rng.random((count(game.horizon), *game.shape, size)).argsort(-1)
        rates = np.where(ranks < max(1, round(share * size)), high, low)
        rates[..., 0] = steady
        return rates

    return Pattern(draw, _step)


def _step(data: FloatArray, rounds: Any, game: GameSpec) -> FloatArray:
    return np.asarray(data[rounds * len(data) // game.horizon])


def _walk(game: GameSpec, rng: np.random.Generator) -> FloatArray:
    start = rng.uniform(0.1, 0.9, (*game.shape, game.num_experts))
    walk = start + 0.05 * np.cumsum(rng.standard_normal((200, *game.shape, game.num_experts)), axis=0)
    # A walk reflected at both ends is the free walk folded into the interval.
    return np.abs((walk - 0.1 + 0.8) % 1.6 - 0.8) + 0.1


FAMILIES: dict[str, Pattern] = {
    "A": _one_at(lambda horizon: 0.0),
    "B": _one_at(lambda horizon: horizon**-0.5),
    "C": _one_at(lambda horizon: 0.25),
    "As": _failing(lambda horizon: 0.0, _log_uniform_times),
    "Bs": _failing(lambda horizon: horizon**-0.5, _log_uniform_times),
    "Cs": _failing(lambda horizon: 0.25, _log_uniform_times),
    "L0": _failing(lambda horizon: 0.0, _even_times),
    "Ls": _failing(lambda horizon: horizon**-0.5, _even_times),
    "Lq": _failing(lambda horizon: 0.25, _even_times),
    "D": _regimes(_swap),
    "E": _one_at(lambda horizon: 0.5),
    "G": _one_at(lambda horizon: 0.45),
    "g.1": _one_at(lambda horizon: 0.4),
    "ALT": _alternate(lambda horizon: max(20.0, horizon / 40)),
    "P200": _alternate(lambda horizon: 200.0),
    "K": _regimes(_late_star),
    "M4": _regimes(_four_leaders),
    "W": _blocks(lambda horizon: 50, 0.1, 0.9, 0.5, 0.2),
    "UD": Pattern(_walk, _step),
    "N0": _failing(lambda horizon: 0.02, _exponential_times, after=0.7),
    "b3": _one_at(lambda horizon: 0.5),
    "z50": _blocks(lambda horizon: max(1, horizon // 50), 0.3, 0.9, 1.0 / 3.0, 0.42),
    "r100": _rotating(100),
}
HELD = {"b3": 3}


class Family(Adversary):
    """One family of the public suite: coins whose means follow a known pattern, expert labels permuted.

    ## Description
    Each game draws its pattern and a permutation of the experts at its start, then independent coins. Names: "A" one
    perfect expert, "B" best at T^-1/2, "C" best at 1/4, the others at 1/2; "As", "Bs", "Cs" the others as good as
    the best until they fail to 1/2 at log-uniform times, "L0", "Ls", "Lq" at evenly spread times; "D" leader swap at
    T/2 (0.1 to 0.6 against 0.5 to 0.05); "E" all at 1/2; "G" one at 0.45; "g.1" one at 0.4; "ALT" and "P200" two
    experts swap 0.1 and 0.6 every max(20, T/40) or 200 rounds, a third steady at 0.28; "K" one steady at 0.3, one at
    1/2 for T/3 rounds and 0 after; "M4" four regimes, each with its own leader at 0.1, one steady at 0.22; "W" 50
    blocks, in each a random half at 0.9, the rest at 0.1, one steady at 0.2; "UD" reflected random walks in
    [0.1, 0.9]; "N0" all at 0.02, each fails to 0.7 at time T(1 - e^-X), X exponential, one never does; "b3" fair
    losses held for blocks of three rounds; "z50" in blocks of 50 a random third at 0.9, the rest at 0.3, one steady at
    0.42; "r100" in turn a fresh expert is perfect for 100 rounds and always wrong for the next 100, one steady at 0.3,
    others at 0.6. L* is at most the least total mean, and within sqrt(T ln(N)/2) of it in expectation where the means
    are those of one game. The losses do not depend on the learner.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        family: the name of the family.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        UnknownNameError: if there is no such family.

    ## Version History
    v0: first version.
    """

    # One a kind of pattern.
    examples = (
        {"num_experts": 1, "horizon": 1},
        *({"family": name, "num_experts": 4, "horizon": 30} for name in ("L0", "N0", "D", "r100", "W", "UD", "b3")),
    )

    def __init__(self, family: str = "As", **game: Any) -> None:
        super().__init__(**game)
        if not isinstance(family, str):
            raise ArgumentError(f"family: expected a name but found {family!r}")
        self.family = check_name("family", family, FAMILIES)

    def start(self) -> None:
        """Draw the pattern and the experts' labels."""
        pattern, self._coins = self.np_random.spawn(2)
        self._labels = pattern.random((*self.game.shape, self.num_experts)).argsort(-1)
        self._pattern = FAMILIES[self.family].draw(self.game, pattern)
        self._held: FloatArray | None = None

    def emit(self) -> FloatArray:
        """Toss a coin for each expert; see :meth:`Adversary.emit`."""
        losses: FloatArray = self._toss(1)[0]
        return losses

    def emit_block(self, rounds: int) -> FloatArray:
        """Toss the coins of several rounds at once; see :meth:`Adversary.emit_block`."""
        return self._toss(rounds)

    def _toss(self, rounds: int) -> FloatArray:
        numbers = np.arange(self.round, self.round + rounds)
        means = FAMILIES[self.family].means(self._pattern, numbers, self.game)
        means = np.broadcast_to(means, (rounds, *self.game.shape, self.num_experts))
        means = np.take_along_axis(means, self._labels[None], -1)
        losses = np.asarray(self._coins.random(means.shape) < means, dtype=np.float64)
        length = HELD.get(self.family)
        if length is None:
            return losses
        first = numbers // length * length - self.round
        if first[0] < 0:
            assert self._held is not None
            losses[first < 0] = self._held
        losses = losses[np.maximum(first, 0)]
        self._held = losses[-1].copy()
        return losses
