"""Auto: plays whichever private learner suits the public size of the game and the budget best.

**Proof note.** The pick is a function of T, N, epsilon, delta, the adjacency and a public bound L' on the best expert's
loss; nothing looks at a private loss. The rest is the picked learner, coin for coin, so that its guarantee, its regret
bound and their adversary models are Auto's. Status: those of the picked learner.

Two rules. "certified" computes, for every learner, the largest of its proved bounds on the expected regret against
oblivious adversaries over all L* in [0, L'] (L' = T without a bound) and picks the least. "simulated" reads a table of
mean regrets that ``benchmarks/recommend.py`` measured on the public suite, the families of the adversary ``family``:

- *Where.* The table's nearest game: delta = 0 or not, then the least
  abs(ln T/T') + abs(ln N/N') + abs(ln epsilon/epsilon'); of two as near, the one with more rounds, more experts, more
  budget. Beyond the table it is the outermost game.
- *Whom.* With L' <= 2 sqrt(T), only the families count whose best expert's expected loss is below that, played by
  learners that were told so where they take an L'. Those that take one are told T where none is known. A learner whose
  worst mean regret on the families that it played first is more than 2 R, R as below, was dropped and is no candidate.
- *Ratio.* Let R be the least, over the learners, of the worst mean regret over the families. On a family the regret is
  divided by the least mean regret there of a robust learner, one whose worst is at most 2 R; but by no less than R/2,
  since where the best expert changes the regret of a learner that follows may be near zero or negative. (So divisors
  lie between R/2 and R, the learner of R has a ratio of at most 2, and one that was dropped would have more.)
- *Pick.* The least worst ratio over the families. Ratios within a factor 1 + 0.4/sqrt(games) of it are a tie, about a
  standard error: on its worst family a learner's regret varies from game to game by 0.3 of its mean in the median of
  the table's lines, and by 0.15 to 0.5 in half of them. The least certified bound breaks it, then the ratio.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from dp_experts_env.learner import Learner, looped
from dp_experts_env.registry import constructor_keywords, learner_class, make_learner
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
    check_name,
    check_number,
)

RULES = ("simulated", "certified")

SMALL = ("A", "B", "As", "Bs", "L0", "Ls")
"""Families whose best expert's expected loss is at most 2 sqrt(T) at every T: 0 or sqrt(T)."""

CERTIFIED: Mapping[str, dict[str, Any]] = {
    "small_loss": {"tuning": "certified"},
    "realizable": {"tuning": "certified"},
}
"""Parameters with which a learner has a proved regret bound, where its defaults have none; for the certified rule."""

SPREAD = 0.4
"""Standard deviation of a game's regret over its mean, about; ratios within a standard error are a tie."""

ROBUST = 2.0
"""A learner is robust whose worst mean regret is at most this many times the least such."""

FLOOR = 0.5
"""A yardstick of a ratio is at least this many times the least worst mean regret."""


class Choice(NamedTuple):
    """Which learner is picked.

    Attributes:
        name: its registered name.
        why: the reason, a sentence without a full stop.
        regret_bound: its certified bound on the expected regret against oblivious adversaries, the largest over all
            L* in [0, L']; NaN if it has none.
    """

    name: str
    why: str
    regret_bound: float


@dataclass(frozen=True)
class Candidate:
    """One learner as the rules see it.

    Attributes:
        name: registered name.
        ratio: worst simulated regret ratio; NaN if it was dropped.
        regret: worst mean regret in the table's nearest game; that so far if it was dropped.
        family: the family of ``regret``.
        regret_bound: certified bound, the largest over all L* in [0, L']; NaN if it has none.
    """

    name: str
    ratio: float
    regret: float
    family: str
    regret_bound: float


# ----------------------------------------------------------------------------------------------------------- the table


class Game(NamedTuple):
    """A game of the table."""

    horizon: int
    num_experts: int
    epsilon: float
    delta: float


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        learner: registered name.
        told: whether it was told that L* <= 2 sqrt(T).
        games: independent games in each mean.
        regrets: mean regret by family, those that it played.
    """

    learner: str
    told: bool
    games: int
    regrets: dict[str, float]


@lru_cache(maxsize=1)
def families() -> tuple[str, ...]:
    """Return the families of the table."""
    keys = (*Game._fields, *Row._fields)
    return tuple(name for name in _lines()[0] if name not in keys)


@lru_cache(maxsize=1)
def table() -> dict[Game, tuple[Row, ...]]:
    """Return the lines of the table by their game."""
    found: dict[Game, list[Row]] = {}
    for line in _lines():
        game = Game(int(line["horizon"]), int(line["num_experts"]), float(line["epsilon"]), float(line["delta"]))
        regrets = {name: float(line[name]) for name in families() if line[name]}
        found.setdefault(game, []).append(Row(line["learner"], line["told"] == "1", int(line["games"]), regrets))
    return {game: tuple(rows) for game, rows in found.items()}


def _lines() -> list[dict[str, str]]:
    path = resources.files("dp_experts_agents") / "tables" / "recommend.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def nearest_game(horizon: int, num_experts: int, epsilon: float, delta: float) -> Game:
    """Return the table's game that is nearest; see the module."""

    def distance(game: Game) -> tuple[float, ...]:
        away = (
            abs(math.log(horizon / game.horizon))
            + abs(math.log(num_experts / game.num_experts))
            + abs(math.log(epsilon / game.epsilon))
        )
        # Rounded, so that what is equally far in theory is so here.
        return round(away, 9), -game.horizon, -game.num_experts, -game.epsilon, -game.delta

    return min((game for game in table() if (game.delta > 0) == (delta > 0)), key=distance)


def tie(game: Game) -> float:
    """Return the factor within which two ratios of a game of the table are a tie; see the module."""
    return 1.0 + SPREAD / math.sqrt(min(row.games for row in table()[game]))


@lru_cache(maxsize=256)
def ratios(game: Game, told: bool) -> dict[str, tuple[float, float, str]]:
    """Return worst ratio (NaN if dropped), worst mean regret and its family of each learner; see the module.

    Args:
        game: a game of the table.
        told: whether L* <= 2 sqrt(T) is known.
    """
    wanted = SMALL if told else families()
    kept = {
        row.learner: {family: regret for family, regret in row.regrets.items() if family in wanted}
        for row in sorted(table()[game], key=lambda row: row.told)
        if told or not row.told
    }
    worst = {name: max((regret, family) for family, regret in regrets.items()) for name, regrets in kept.items()}
    playing = {name for name, regrets in kept.items() if len(regrets) == len(wanted)}
    least = min(worst[name][0] for name in playing)
    robust = [name for name in playing if worst[name][0] <= ROBUST * least]
    yardstick = {family: max(FLOOR * least, min(kept[name][family] for name in robust)) for family in wanted}

    def ratio(name: str) -> float:
        return max(kept[name][family] / yardstick[family] for family in wanted) if name in playing else math.nan

    return {name: (ratio(name), *worst[name]) for name in kept}


# ---------------------------------------------------------------------------------------------------------- the bounds


@lru_cache(maxsize=4096)
def build(
    name: str, epsilon: float, delta: float, adjacency: Adjacency, best_loss: float, certified: bool
) -> Learner | None:
    """Return the learner of this name with this budget and L', ``None`` if it does not serve it.

    It is shared, and for its claims only: what plays is a clone.
    """
    keywords = constructor_keywords(learner_class(name))
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, **(CERTIFIED.get(name, {}) if certified else {})}
    if "best_loss" in keywords:
        given["best_loss"] = best_loss
    if "adjacency" in keywords:
        given["adjacency"] = adjacency.value
    try:
        learner = make_learner(name, **given)
        guarantee = learner.guarantee(GameSpec(1, 1))
    except ArgumentError:
        return None
    return learner if guarantee is not None and guarantee.adjacency is adjacency else None


@lru_cache(maxsize=4096)
def worst_bound(learner: Learner, num_experts: int, horizon: int, best_loss: float) -> float:
    """Return the largest of a learner's bounds over all L* in [0, L'], at most T; NaN if it has none.

    Bounds rise with L* until T - L* is less. So they have one peak, which a grid and a ternary search close in on; what
    is left of the search is added, since the bound falls by no more than L* grows.
    """
    spec = GameSpec(num_experts, horizon)

    def bound(loss: float) -> float:
        return learner.regret_bound(spec, loss, "oblivious")

    grid = np.linspace(0.0, best_loss, 17)
    values = [bound(float(loss)) for loss in grid]
    if any(math.isnan(value) for value in values):
        return math.nan
    peak = int(np.argmax(values))
    low, high = float(grid[max(peak - 1, 0)]), float(grid[min(peak + 1, 16)])
    if max(values) > min(values):
        while high - low > 1e-3:
            left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
            low, high = (left, high) if bound(left) < bound(right) else (low, right)
        values += [bound(low), bound(high) + high - low]
    return min(max(values), float(horizon))


# --------------------------------------------------------------------------------------------------------- the learner


class Auto(Learner):
    """Picks a private learner by the size of the game and the budget, and plays it; see the module for the rules.

    Guarantee, regret bound, transcript and outcome law are the picked learner's.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1).
        best_loss: L' >= 0, a public bound on the total loss of the best expert; ``None`` for none. If it is wrong, the
            privacy holds and the pick may be a bad one.
        by: "simulated", the least worst simulated regret ratio, or "certified", the least certified bound.
        adjacency: "replace" or "zero_out"; the table was simulated under "replace".

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        best_loss: float | None = None,
        by: str = "simulated",
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.best_loss = None if best_loss is None else check_number("best_loss", best_loss, 0.0)
        self.by = check_name("by", by, RULES)
        self.adjacency = check_adjacency(adjacency)

    # -- the pick ------------------------------------------------------------------------------------------------------

    def choice(self, spec: GameSpec) -> Choice:
        """Return the learner that is picked for a game of this size, why, and its certified bound."""
        serving = self._serving(spec)
        if self.by == "certified":
            bounds = {name: self._bound(learner, spec) for name, learner in serving.items()}
            proved = {name: bound for name, bound in bounds.items() if not math.isnan(bound)}
            name = min(proved, key=lambda name: (proved[name], name))
            return Choice(name, f"least certified bound of the {len(proved)} learners that have one", proved[name])
        game, found = self._nearest(spec), ratios(self._nearest(spec), self._told(spec))
        playing = {name: found[name][0] for name in serving if not math.isnan(found[name][0])}
        least = min(playing.values())
        tied = [name for name, ratio in playing.items() if ratio <= tie(game) * least]
        bounds = {name: self._bound(serving[name], spec) for name in tied}

        def order(name: str) -> tuple[float, float, str]:
            return math.inf if math.isnan(bounds[name]) else bounds[name], playing[name], name

        name, *others = sorted(tied, key=order)
        ratio, regret, family = found[name]
        others = [f"{other} ({playing[other]:.2f})" for other in others]
        why = f"worst simulated regret ratio {ratio:.2f}, the least"
        if others:
            decides = "ratio" if math.isnan(bounds[name]) else "certified bound"
            why = f"worst simulated regret ratio {ratio:.2f}, a tie with {', '.join(others)} that the {decides} decides"
        why += (
            f"; mean regret at most {regret:.0f} (family {family}) at T={game.horizon}, N={game.num_experts}, "
            f"epsilon={game.epsilon:g}, delta={game.delta:g}"
        )
        return Choice(name, why, bounds[name])

    def learner(self, spec: GameSpec) -> Learner:
        """Return a fresh copy of the learner that is picked for a game of this size."""
        return self._picked(spec).clone()

    def candidates(self, spec: GameSpec) -> tuple[Candidate, ...]:
        """Return the table's learners that serve the budget as the rules see them, the best one by this rule first."""
        found = ratios(self._nearest(spec), self._told(spec))
        picked = self.choice(spec).name
        rows = []
        for name, learner in self._serving(spec).items():
            ratio, regret, family = found[name]
            rows.append(Candidate(name, ratio, regret, family, self._bound(learner, spec)))

        def order(row: Candidate) -> tuple[Any, ...]:
            figures = (row.ratio, row.regret_bound) if self.by == "simulated" else (row.regret_bound, row.ratio)
            return (row.name != picked, *(math.inf if math.isnan(value) else value for value in figures), row.name)

        return tuple(sorted(rows, key=order))

    def _nearest(self, spec: GameSpec) -> Game:
        return nearest_game(spec.horizon, spec.num_experts, self.epsilon, self.delta)

    def _promise(self, spec: GameSpec) -> float:
        # That L* is at most T is always true.
        return float(spec.horizon) if self.best_loss is None else min(self.best_loss, float(spec.horizon))

    def _told(self, spec: GameSpec) -> bool:
        return self.best_loss is not None and self.best_loss <= 2.0 * math.sqrt(spec.horizon)

    def _serving(self, spec: GameSpec) -> dict[str, Learner]:
        """The table's learners for such a game that serve this budget, by name; shared, for their claims only."""
        budget = self.epsilon, self.delta, self.adjacency, self._promise(spec), self.by == "certified"
        names = sorted({row.learner for row in table()[self._nearest(spec)]})
        built = {name: build(name, *budget) for name in names}
        return {name: learner for name, learner in built.items() if learner is not None}

    def _picked(self, spec: GameSpec) -> Learner:
        return self._serving(spec)[self.choice(spec).name]

    def _bound(self, learner: Learner, spec: GameSpec) -> float:
        return worst_bound(learner, spec.num_experts, spec.horizon, self._promise(spec))

    # -- the game ------------------------------------------------------------------------------------------------------

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return the picked learner's guarantee."""
        return self._picked(spec).guarantee(spec)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the picked learner's bound, NaN where it has none."""
        return self._picked(spec).regret_bound(spec, best_loss, against)

    def start(self) -> None:
        """Pick a learner and begin its game; it draws from the very stream that was handed in."""
        self._inner = looped(self.learner(self.spec)) if self.spec.shape else self.learner(self.spec)
        self._inner.reset(self.spec, self.rng)

    def _played(self) -> Learner:
        # The outer guards have checked the losses; what the inner one notes is this one's transcript.
        self._inner._trusted, self._inner._notes = True, self._notes
        return self._inner

    def act(self) -> Any:
        """Let the picked learner act; see :meth:`Learner.act`."""
        return self._played().act()

    def take(self, outcome: Any) -> Any:
        """Let the picked learner take an outcome; see :meth:`Learner.take`."""
        return self._played().take(outcome)

    def observe(self, losses: FloatArray) -> None:
        """Show the picked learner the losses; see :meth:`Learner.observe`."""
        self._played().observe(losses)

    def run(self, block: FloatArray) -> IntArray:
        """Let the picked learner play a block; see :meth:`Learner.run`."""
        return self._played().run(block)

    def probabilities(self) -> FloatArray:
        """Return the picked learner's law; see :meth:`Learner.probabilities`."""
        return self._inner.probabilities()

    def outcomes(self) -> FloatArray:
        """Return the picked learner's outcome law; see :meth:`Learner.outcomes`."""
        return self._inner.outcomes()
