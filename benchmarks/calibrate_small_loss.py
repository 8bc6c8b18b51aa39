"""Finds the constants of SmallLoss and Realizable that have no proof, by simulation on public synthetic sequences.

    python benchmarks/calibrate_small_loss.py              # all cells, about ten minutes on two cores
    python benchmarks/calibrate_small_loss.py --rounds 1e3 --workers 1

For each cell (T, N, delta) at epsilon = 1, candidates are drawn at random, all of them play the same sequences of the
suite at once, the best are played again on more sequences, then their neighbours. Privacy is no part of the search:
every candidate's learning rate is solved for from the budget. The suite has stationary sequences, experts that fail
late, leaders that swap, regimes and drifts, so that no candidate wins that goes deaf after a few redraws.

Score of a candidate: with y = sqrt(L* ln N) + 2 ln N ln T/epsilon, the scale of what is possible, the worst ratio of
mean regret to y over the family's sequences, plus half their mean ratio. "any" takes all families; "small" those whose
best expert loses at most 2 sqrt(T), plus a tenth of the mean positive ratio of the others.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable
from dataclasses import astuple, fields, replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from dp_experts_agents.watch_plans import Entry, Plan
from dp_experts_agents.watched import WatchedExpert
from dp_experts_env.spec import Adjacency, FloatArray, GameSpec, IntArray

TABLE = Path(__file__).parent.parent / "agents" / "dp_experts_agents" / "tables" / "small_loss.csv"
EPSILON = 1.0
GRID: dict[str, tuple[float, ...]] = {
    "watch": (0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
    "coin": (0.0, 0.1, 0.15, 0.2, 0.3, 0.45),
    "offset": (-3.0, -2.0, -1.0, 0.0, 1.0, 3.0, 6.0, 12.0, 20.0, 35.0),
    "scale": (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0),
    "taper": (0.75, 1.0, 1.25, 1.5, 2.0, 3.0),
    "growth": (0.0, 0.5, 1.0, 1.5, 2.0),
    "stride": (2.0, 4.0, 8.0, 16.0),
}


class Candidates(WatchedExpert):
    """Many plans in one batch: game g plays plan g // repeats."""

    def __init__(self, plans: tuple[Plan, ...] = (), repeats: int = 1) -> None:
        self.candidates, self.repeats = plans, repeats

    def plans(self) -> tuple[list[Plan], IntArray]:
        """Return the plans and which of them each game plays."""
        return list(self.candidates), np.repeat(np.arange(len(self.candidates)), self.repeats)


def suite(rounds: int, experts: int, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Draw one sequence of each family, losses ``(T, N)`` in {0, 1}, the experts in random order."""
    t = np.arange(rounds)[:, None]
    rare = 0.7 / math.sqrt(rounds)

    def flat(others: FloatArray | float, *special: FloatArray | float) -> FloatArray:
        rates = np.array(np.broadcast_to(others, (rounds, experts)), dtype=np.float64)
        for expert, rate in enumerate(special[:experts]):
            rates[:, expert] = np.reshape(rate, (-1,))
        return rates

    def failing(base: float, later: float, times: FloatArray) -> FloatArray:
        rates = flat(base)
        rates[:, 1:] = np.where(t >= times, later, base)
        return rates

    early = [np.exp(rng.uniform(0.0, math.log(rounds), experts - 1)) for _ in range(2)]
    even = rounds * np.arange(1, experts) / experts
    third, late, phase = t < rounds // 3, t < 0.8 * rounds, (t // max(20, rounds // 15)) % 2
    regime = np.minimum(t * 3 // rounds, 2)
    walk = np.clip(rng.uniform(0.1, 0.9, experts) + np.cumsum(rng.normal(0.0, 0.05, (150, experts)), 0), 0.05, 0.95)
    families: dict[str, FloatArray] = {
        "perfect": flat(rng.uniform(0.3, 0.7, experts), 0.0),
        "rare": flat(0.4, rare),
        "failing": failing(0.0, 0.6, early[0]),
        "failing evenly": failing(0.0, 0.4, even),
        "failing, rare": failing(rare, 0.5, even),
        "steady": flat(0.6, 0.3),
        "close": flat(0.5, 0.4),
        "failing, steady": failing(0.2, 0.5, early[1]),
        "failing evenly, steady": failing(0.2, 0.55, even),
        "swap after a third": flat(0.5, np.where(third, 0.15, 0.55), np.where(third, 0.5, 0.1)),
        "swap after four fifths": flat(0.55, np.where(late, 0.05, 0.9), 0.2),
        "regimes": flat(0.5, *(np.where(regime == k, 0.1, 0.5) for k in range(3)), 0.25),
        "alternating": flat(0.55, np.where(phase == 0, 0.1, 0.65), np.where(phase == 1, 0.1, 0.65), 0.3),
        "drift": walk[np.minimum(t[:, 0] * 150 // rounds, 149)],
        "fair": flat(0.5),
    }
    losses = {name: np.asarray(rng.random(rates.shape) < rates, dtype=np.float64) for name, rates in families.items()}
    losses["fair blocks"] = np.repeat(rng.random((rounds // 5 + 1, experts)) < 0.5, 5, axis=0)[:rounds].astype(float)
    return {name: rows[:, rng.permutation(experts)] for name, rows in losses.items()}


def regrets(
    entries: list[Entry], rounds: int, experts: int, delta: float, repeats: int, seeds: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return the mean regret of each candidate in each family, and the mean best loss of each family."""
    plans = [entry.plan(rounds, EPSILON, delta, Adjacency.REPLACE) for entry in entries]
    total, best = 0.0, 0.0
    for seed in seeds:
        columns, bests = [], []
        for losses in suite(rounds, experts, np.random.default_rng([seed, rounds, experts])).values():
            column = np.empty(len(plans))
            for stride in {plan.stride for plan in plans}:
                chosen = [number for number, plan in enumerate(plans) if plan.stride == stride]
                column[chosen] = played([plans[number] for number in chosen], repeats, losses, seed)
            columns.append(column - losses.sum(0).min())
            bests.append(losses.sum(0).min())
        total, best = total + np.array(columns).T, best + np.array(bests)
    return total / len(seeds), best / len(seeds)


def played(plans: list[Plan], repeats: int, losses: FloatArray, seed: int) -> FloatArray:
    """Return the mean total loss of each plan."""
    learner = Candidates(tuple(plans), repeats)
    games = len(plans) * repeats
    learner.reset(GameSpec(losses.shape[1], len(losses), games), np.random.default_rng(seed))
    total, step = np.zeros(games), max(64, 2**18 // games)
    for first in range(0, len(losses), step):
        block = losses[first : first + step]
        total += np.take_along_axis(block, learner.run(block), 1).sum(0)
    return total.reshape(len(plans), repeats).mean(1)


def score(regret: FloatArray, best: FloatArray, rounds: int, experts: int, group: str) -> FloatArray:
    """Return the score of each candidate; the less the better."""
    scale = np.sqrt(best * math.log(experts)) + 2.0 * math.log(experts) * math.log(rounds) / EPSILON
    ratio = regret / scale
    small = best <= 2.0 * math.sqrt(rounds)
    if group == "any":
        return ratio.max(1) + 0.5 * ratio.mean(1)
    return ratio[:, small].max(1) + 0.5 * ratio[:, small].mean(1) + 0.1 * np.maximum(ratio[:, ~small], 0.0).mean(1)


def draw(rng: np.random.Generator, delta: float, coin: bool) -> Entry:
    """Draw a candidate."""
    values = {name: float(rng.choice(grid)) for name, grid in GRID.items()}
    values["coin"] = float(rng.choice(GRID["coin"][1:])) if coin else 0.0
    # Without delta the rates themselves, not their squares, have to be summable.
    values["taper"] = float(rng.choice(GRID["taper"][:4] if delta else GRID["taper"][2:]))
    return Entry(**values)


def neighbour(entry: Entry, rng: np.random.Generator) -> Entry:
    """Move two constants a step along their grid."""
    for name in rng.choice([name for name in GRID if entry.coin or name != "coin"], 2, replace=False):
        grid = GRID[name][1:] if name == "coin" else GRID[name]
        at = int(np.abs(np.subtract(grid, getattr(entry, name))).argmin()) + int(rng.choice((-1, 1)))
        entry = replace(entry, **{name: grid[min(max(at, 0), len(grid) - 1)]})
    return entry


def search(
    rounds: int, experts: int, delta: float, learner: str, starts: tuple[Entry, ...], effort: int
) -> list[tuple[str, Entry, float]]:
    """Return the best candidate of one cell for each group."""
    rng = np.random.default_rng([rounds, experts, int(delta > 0), learner == "small_loss"])
    began = time.perf_counter()
    entries = [*starts, *(draw(rng, delta, learner == "small_loss") for _ in range(2 * effort))]
    if starts:
        entries = [*starts, *(neighbour(starts[k % len(starts)], rng) for k in range(effort))]
    rank: Callable[[FloatArray, FloatArray, str], FloatArray] = lambda regret, best, group: score(  # noqa: E731
        regret, best, rounds, experts, group
    )
    first = regrets(entries, rounds, experts, delta, 6, (1,))
    kept = sorted({int(k) for group in ("any", "small") for k in np.argsort(rank(*first, group))[: effort // 4]})
    entries = [entries[k] for k in kept]
    second = regrets(entries, rounds, experts, delta, 24, (2, 3))
    leaders = [entries[int(k)] for group in ("any", "small") for k in np.argsort(rank(*second, group))[:3]]
    entries = list(
        dict.fromkeys([*leaders, *(neighbour(entry, rng) for entry in leaders for _ in range(effort // 12))])
    )
    third = regrets(entries, rounds, experts, delta, 32, (4, 5))
    found = []
    for group in ("any", "small"):
        values = rank(*third, group)
        found.append((group, entries[int(values.argmin())], float(values.min())))
    shown = "; ".join(f"{group}: {value:.2f} {astuple(entry)}" for group, entry, value in found)
    print(
        f"{learner} T={rounds} N={experts} delta={delta:g} in {time.perf_counter() - began:.0f} s  {shown}", flush=True
    )
    return found


def chain(horizons: list[int], experts: int, delta: float, learner: str, effort: int) -> list[list[str]]:
    """Search the horizons in turn; those from 10^5 on start from what was found before."""
    lines: list[list[str]] = []
    last: tuple[Entry, ...] = ()
    for rounds in horizons:
        long = rounds >= 10**5
        found = search(rounds, experts, delta, learner, last if long else (), effort // 2 if long else effort)
        last = tuple(dict.fromkeys(entry for _, entry, _ in found))
        for group, entry, value in found:
            keys = [learner, group, str(experts), str(rounds), f"{EPSILON:g}", f"{delta:g}"]
            lines.append([*keys, *(f"{number:g}" for number in astuple(entry)), f"{value:.2f}"])
    return lines


def main() -> None:
    """Search every cell and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=float, nargs="+", default=[1e2, 1e3, 1e4])
    parser.add_argument("--experts", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--effort", type=int, default=36, help="candidates kept; 2 * effort are drawn")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=TABLE)
    options = parser.parse_args()
    jobs = [
        delayed(chain)([int(rounds) for rounds in options.rounds], experts, delta, learner, options.effort)
        for experts in sorted(options.experts, reverse=True)
        for delta in (1e-6, 0.0)
        for learner in ("small_loss", "realizable")
    ]
    began = time.perf_counter()
    tables = Parallel(n_jobs=options.workers)(jobs)
    keys = ["learner", "group", "num_experts", "horizon", "epsilon", "delta"]
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*keys, *(field.name for field in fields(Entry)), "score"])
        writer.writerows(sorted(line for table in tables for line in table))
    print(f"{options.out}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
