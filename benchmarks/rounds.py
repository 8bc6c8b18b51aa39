"""Time a round of the lazy learners as the horizon grows, and how often they redraw, to results/rounds.csv.

    python benchmarks/rounds.py

One game of N=10 experts, one perfect and the others fair coins, in blocks of rounds. A round's time should not depend
on the horizon: state is touched where a coin or a watch says so, and the rest is a sum over losses, whose own cost
("sum") is the floor. (Fixed Share mixes its weights at every decision, and its batches are shorter in longer games:
its time a round nears that of one decision a round, and stays there.) Horizons take turns and the least of the repeats
counts. Redraws are counted as far as they change the expert.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dp_experts_env as dpe

EXPERTS, ROUNDS = 10, 4096
HORIZONS = (10_000, 100_000, 1_000_000)
LEARNERS = (
    "private_dartboard",
    "lazy_to_private",
    "private_fixed_share",
    "lazy_hedge",
    "small_loss",
    "doubling_small_loss",
    "realizable",
    "phased_selection",
    "fade",
)


def blocks(horizon: int) -> list[np.ndarray]:
    """The losses, in blocks."""
    adversary = dpe.make_adversary("family", family="A", num_experts=EXPERTS, horizon=horizon)
    adversary.reset(seed=0)
    return [adversary.emit_block(min(ROUNDS, horizon - first)) for first in range(0, horizon, ROUNDS)]


def floor(losses: list[np.ndarray]) -> float:
    """Seconds that adding up the losses takes."""
    began = time.perf_counter()
    total = np.zeros(EXPERTS)
    for block in losses:
        total = total + np.cumsum(block, axis=0)[-1]
    return time.perf_counter() - began


def play(name: str, losses: list[np.ndarray], horizon: int, seed: int) -> tuple[float, int]:
    """Seconds in ``run``, and changes of the expert."""
    learner = dpe.make_learner(name)
    learner.reset(dpe.GameSpec(EXPERTS, horizon), np.random.default_rng(seed))
    began = time.perf_counter()
    choices = np.concatenate([learner.run(block) for block in losses])
    return time.perf_counter() - began, int(np.count_nonzero(np.diff(choices)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results" / "rounds.csv")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    games = {horizon: blocks(horizon) for horizon in HORIZONS}
    for name in LEARNERS:
        times: dict[int, list[float]] = {horizon: [] for horizon in HORIZONS}
        floors: dict[int, list[float]] = {horizon: [] for horizon in HORIZONS}
        changes: dict[int, list[int]] = {horizon: [] for horizon in HORIZONS}
        for repeat in range(arguments.repeats):
            for horizon in HORIZONS:
                seconds, changed = play(name, games[horizon], horizon, repeat)
                times[horizon].append(seconds)
                floors[horizon].append(floor(games[horizon]))
                changes[horizon].append(changed)
        for horizon in HORIZONS:
            rows.append(
                {
                    "learner": name,
                    "horizon": horizon,
                    "microseconds_per_round": 1e6 * min(times[horizon]) / horizon,
                    "over_sum": min(times[horizon]) / min(floors[horizon]),
                    "over_shortest": min(times[horizon]) / horizon / (min(times[HORIZONS[0]]) / HORIZONS[0]),
                    "mean_redraws": float(np.mean(changes[horizon])),
                }
            )
        print(pd.DataFrame(rows[-len(HORIZONS) :]).to_string(index=False), flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(arguments.out, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
