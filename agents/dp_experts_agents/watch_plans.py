"""Constants of a watched expert: what they certify, rates solved for a budget, and the table found by simulation.

Pure functions of the size of the game and the budget; no loss is ever looked at. The privacy that they refer to is
proved in :mod:`dp_experts_agents.watched`. The table comes from ``benchmarks/calibrate_small_loss.py``.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from dp_experts_env.privacy.accounting import mixed_delta, mixed_epsilon, mixed_rho, zcdp_epsilon, zcdp_rho
from dp_experts_env.privacy.mechanisms import AboveThreshold, laplace_scale
from dp_experts_env.spec import Adjacency, ArgumentError, BudgetError, FloatArray, check_number

_SLACK = 1e-12

SOURCES = {
    "pure": "watched expert: one watch and coin, then bounded-range redraws, basic composition [DERIVED]",
    "mixed": "watched expert: one watch and coin (pure DP), then bounded-range redraws (zCDP) [DERIVED]",
    "zcdp": "watched expert: one watch and coin and bounded-range redraws, zCDP, tight conversion [DERIVED]",
}


# ------------------------------------------------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class Plan:
    """The constants of a watched expert and what is proved for them; see the module.

    Attributes:
        learning_rate: eta > 0, of the first redraw.
        threshold: tau >= 0, of the first window.
        threshold_epsilon: e_a > 0, rate of the threshold noise.
        query_epsilon: e_b > 0, rate of the query noise.
        coin_epsilon: e_c > 0; ``None`` for no coin: every alarm redraws.
        stride: rounds between queries, an integer >= 1.
        cap: most redraws after the first draw; ``None`` for no cap.
        taper: p >= 0.
        growth: g >= 0.
        scale: m > 0.
        lift: cumulative losses below it count as this much in a redraw, >= 0.
        noise: "exponential" or "laplace".
        epsilon: what is certified at ``delta``.
        delta: failure probability of that certificate.
        method: a key of ``SOURCES``, or "paper".
    """

    learning_rate: float
    threshold: float
    threshold_epsilon: float
    query_epsilon: float
    coin_epsilon: float | None = None
    stride: int = 1
    cap: int | None = None
    taper: float = 0.0
    growth: float = 0.0
    scale: float = 1.0
    lift: float = 0.0
    noise: str = "exponential"
    epsilon: float = math.inf
    delta: float = 0.0
    method: str = "pure"

    @property
    def floor(self) -> float:
        """C, the least loss that the coin is flipped with; 0 without a coin."""
        # A larger floor is private too; beyond 700 the exponential would overflow.
        return 0.0 if self.coin_epsilon is None else 1.0 / math.expm1(min(self.coin_epsilon, 700.0))

    def redraws(self, horizon: int) -> int:
        """Most redraws after the first draw in a game of this horizon."""
        alarms = (horizon - 1) // self.stride
        return alarms if self.cap is None else min(alarms, self.cap)

    def rates(self, horizon: int) -> FloatArray:
        """eta_j of the redraws there can be, shape ``(redraws,)``."""
        return np.asarray(self.learning_rate * _schedule(self.redraws(horizon), self.scale, -self.taper))

    def thresholds(self, horizon: int) -> FloatArray:
        """tau_j after j redraws, shape ``(redraws + 1,)``; infinite where the cap is reached."""
        number = self.redraws(horizon)
        levels = np.asarray(self.threshold * _schedule(number + 1, self.scale, self.growth))
        if number == self.cap:
            levels[-1] = np.inf
        return levels

    def watch(self) -> AboveThreshold:
        """The AboveThreshold instance of one window, with its scales rounded towards privacy."""
        return AboveThreshold(
            laplace_scale(1.0, self.threshold_epsilon), laplace_scale(1.0, self.query_epsilon), noise=self.noise
        )

    def costs(self, horizon: int, adjacency: Adjacency) -> tuple[float, float, float, float]:
        """Return w, the bounded range of watch and coin, the sum of a_j and the sum of a_j^2/8, rounded up."""
        down, up = self.watch().privacy_loss_range("suffix_constant")
        if self.coin_epsilon is not None:
            down, up = down + self.learning_rate, up + self.coin_epsilon
        steps = self.rates(horizon) * (1.0 if adjacency is Adjacency.ZERO_OUT else 2.0)
        grown = 1 + _SLACK
        total, squares = math.fsum(steps), math.fsum(steps * steps) / 8
        return max(down, up) * grown, (down + up) * grown, total * grown, squares * grown

    def certified(self, horizon: int, epsilon: float, delta: float, adjacency: Adjacency) -> Plan:
        """Return the plan with the least epsilon that is certified at ``delta``, and its method.

        Raises:
            BudgetError: if it exceeds ``epsilon``.
        """
        pure, span, steps, squares = self.costs(horizon, adjacency)
        found = [(pure + steps, 0.0, "pure")]
        if delta > 0:
            found += [
                (zcdp_epsilon(span * span / 8 + squares, delta), delta, "zcdp"),
                (mixed_epsilon(pure, squares, delta), delta, "mixed"),
            ]
        spent, at, method = min(found)
        if spent > epsilon:
            raise BudgetError(
                f"learning_rate: {self.learning_rate:.6g} with threshold_epsilon={self.threshold_epsilon:.6g}, "
                f"query_epsilon={self.query_epsilon:.6g}, coin_epsilon={self.coin_epsilon}, cap={self.cap} certifies "
                f"epsilon={spent:.6g} at delta={delta:g}, T={horizon}, but epsilon={epsilon:g} was asked; lower it, or "
                "the cap"
            )
        return replace(self, epsilon=spent, delta=at, method=method)


def _schedule(number: int, scale: float, power: float) -> Any:
    return np.ones(number) if power == 0.0 else (1.0 + np.arange(number) / scale) ** power


def solve(plan: Plan, watch_epsilon: float, horizon: int, epsilon: float, delta: float, adjacency: Adjacency) -> Plan:
    """Return the plan with its rates solved for: watch and coin cost ``watch_epsilon``, the redraws all that is left.

    e_b = w - e_c and e_a = w - eta with a coin, e_a = e_b = w without; eta is the largest that some method allows,
    at most w/2 with a coin.

    Args:
        plan: the constants but ``learning_rate``, ``threshold_epsilon`` and ``query_epsilon``, which are ignored; a
            coin needs e_c < w.
        watch_epsilon: w, in (0, epsilon).
        horizon: T.
        epsilon: budget, > 0.
        delta: in [0, 1).
        adjacency: neighbouring relation.
    """
    span = 2.0 * watch_epsilon
    weights = _schedule(plan.redraws(horizon), plan.scale, -plan.taper)
    weights = weights * (1.0 if adjacency is Adjacency.ZERO_OUT else 2.0)
    spare = 1 - 4 * _SLACK
    total, squares = max(math.fsum(weights), 1e-300), max(math.fsum(weights * weights) / 8, 1e-300)
    rates = [((epsilon - watch_epsilon * (1 + _SLACK)) / total * spare, 0.0, "pure")]
    if delta > 0:
        for method, budget in (
            ("zcdp", zcdp_rho(epsilon, delta) - span * span / 8 * (1 + 2 * _SLACK)),
            ("mixed", mixed_rho(watch_epsilon * (1 + 2 * _SLACK), epsilon, delta)),
        ):
            rates.append((math.sqrt(max(budget, 0.0) / squares) * spare, delta, method))
    rate, at, method = max(rates)
    noise = watch_epsilon
    if plan.coin_epsilon is not None:
        rate = min(rate, watch_epsilon / 2)
        noise = watch_epsilon - plan.coin_epsilon
    # Without a redraw, or with a huge budget, nothing bounds the rate.
    rate = min(rate, 1e3)
    return replace(
        plan,
        learning_rate=rate,
        threshold_epsilon=watch_epsilon - (rate if plan.coin_epsilon is not None else 0.0),
        query_epsilon=noise,
        epsilon=epsilon,
        delta=at,
        method=method,
    )


def holds(plan: Plan, horizon: int, adjacency: Adjacency) -> bool:
    """Whether the plan's costs, rounded up, are within its epsilon and delta by its method."""
    pure, span, steps, squares = plan.costs(horizon, adjacency)
    if plan.method == "pure":
        return pure + steps <= plan.epsilon
    if plan.method == "zcdp":
        return zcdp_epsilon(span * span / 8 + squares, plan.delta) <= plan.epsilon
    return mixed_delta(pure, squares, plan.epsilon) <= plan.delta


@dataclass(frozen=True)
class Entry:
    """Constants that were found by simulation, without dimension: a line of the table.

    Attributes:
        watch: w/epsilon, the share of the budget for watch and coin.
        coin: e_c/w; 0 for no coin.
        offset: of the threshold, tau = (ln(T/stride) + offset)/e_b.
        scale: m, how many redraws it takes for the schedules to set in.
        taper: p.
        growth: g.
        stride: rounds between queries, in units of 1/epsilon.
    """

    watch: float
    coin: float
    offset: float
    scale: float
    taper: float
    growth: float
    stride: float

    def plan(self, horizon: int, epsilon: float, delta: float, adjacency: Adjacency) -> Plan:
        """Return the plan for a game and a budget, its rates solved for."""
        watch = self.watch * epsilon
        coin = self.coin * watch if self.coin else None
        stride = min(max(1, round(self.stride / epsilon)), max(1, horizon // 50))
        threshold = max(0.0, (math.log(horizon / stride) + self.offset) / (watch - (coin or 0.0)))
        draft = Plan(1.0, threshold, 1.0, 1.0, coin, stride, None, self.taper, self.growth, self.scale)
        return solve(draft, watch, horizon, epsilon, delta, adjacency)


@lru_cache(maxsize=1)
def table() -> tuple[tuple[dict[str, str], Entry], ...]:
    """Return the lines of the table: its keys, and the constants."""
    path = resources.files("dp_experts_agents") / "tables" / "small_loss.csv"
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    names = tuple(Entry.__dataclass_fields__)
    return tuple((line, Entry(*(float(line[name]) for name in names))) for line in lines)


@lru_cache(maxsize=512)
def calibrated_plan(
    learner: str,
    horizon: int,
    num_experts: int,
    epsilon: float,
    delta: float,
    best_loss: float | None,
    adjacency: Adjacency,
) -> Plan:
    """Return the plan of the nearest line of the table, its rates solved for the budget.

    The lines are for pairs (epsilon T, N), with delta = 0 or not, and for best experts that lose at most 2 sqrt(T)
    ("small") or anything ("any"): a bound above 2 sqrt(T), or none, takes "any". Distances are in logarithms; where
    two lines are as near, the one for more rounds is taken. Between and beyond the lines their constants, which have no
    dimension, are scaled; privacy never depends on which line is taken.
    """
    group = "small" if best_loss is not None and best_loss <= 2.0 * math.sqrt(horizon) else "any"

    def distance(keys: dict[str, str]) -> tuple[float, float]:
        rounds = float(keys["epsilon"]) * float(keys["horizon"])
        away = abs(math.log(epsilon * horizon / rounds)) + abs(math.log(num_experts / float(keys["num_experts"])))
        return away, -rounds

    lines = [
        (distance(keys), number)
        for number, (keys, _) in enumerate(table())
        if (keys["learner"], keys["group"]) == (learner, group) and (float(keys["delta"]) > 0) == (delta > 0)
    ]
    return table()[min(lines)[1]][1].plan(horizon, epsilon, delta, adjacency)


def positive(name: str, value: float | None, high: float = math.inf) -> float | None:
    """Return ``None`` or a number in (0, high)."""
    return None if value is None else check_number(name, value, 0.0, high, low_open=True, high_open=True)


@lru_cache(maxsize=512)
def overridden(
    plan: Plan,
    game: tuple[int, int, float, float],
    adjacency: Adjacency,
    learning_rate: float | None = None,
    threshold: float | None = None,
    cap: int | None = None,
    watch_epsilon: float | None = None,
    coin_epsilon: float | None = None,
    stride: int | None = None,
) -> Plan:
    """Return the plan with the constants that are given, its rates solved for anew; as it is if none is.

    Args:
        plan: what the tuning says.
        game: T, N, epsilon, delta.
        adjacency: neighbouring relation.
        learning_rate: eta, of the first redraw.
        threshold: tau, of the first window.
        cap: most redraws, at constant rates and thresholds.
        watch_epsilon: w.
        coin_epsilon: e_c.
        stride: rounds between queries.

    Raises:
        ArgumentError: if the given parts of w exceed it.
        BudgetError: if a given rate costs more than epsilon.
    """
    given = (learning_rate, threshold, cap, watch_epsilon, coin_epsilon, stride)
    if all(value is None for value in given):
        return plan
    horizon, _, epsilon, delta = game
    was = plan.query_epsilon + (plan.coin_epsilon or 0.0)
    watch = was if watch_epsilon is None else watch_epsilon
    if watch > epsilon * (1 - 1e-9):
        raise ArgumentError(
            f"watch_epsilon: expected a number in (0, {epsilon:g}) that leaves something for the redraws "
            f"but found {watch!r}"
        )
    coin = coin_epsilon
    if coin is None and plan.coin_epsilon is not None:
        coin = plan.coin_epsilon * watch / was
    if coin is not None and coin >= watch:
        raise ArgumentError(
            f"coin_epsilon: expected a number in (0, {watch:g}), below watch_epsilon, but found {coin!r}"
        )
    plan = replace(plan, coin_epsilon=coin)
    if threshold is not None:
        plan = replace(plan, threshold=threshold)
    if stride is not None:
        plan = replace(plan, stride=stride)
    if cap is not None:
        plan = replace(plan, cap=cap, taper=0.0, growth=0.0)
    plan = solve(plan, watch, horizon, epsilon, delta, adjacency)
    if learning_rate is None:
        return plan
    noise = watch if coin is None else watch - learning_rate
    if noise <= 0:
        raise ArgumentError(
            f"learning_rate: expected a number in (0, {watch:g}), below watch_epsilon, but found {learning_rate!r}"
        )
    plan = replace(plan, learning_rate=learning_rate, threshold_epsilon=noise)
    return plan.certified(horizon, epsilon, delta, adjacency)
