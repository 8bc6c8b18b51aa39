"""Rounds x games per second of batched play against a plain Gymnasium loop, as ratios in one run.

python benchmarks/speed.py [--out benchmarks/results/speed.csv]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd

import dp_experts_env as dpe

EXPERTS, HORIZON = 10, 1000


def gymnasium_loop(games: int, seed: int) -> float:
    """Game rounds a second of Hedge, one game after another, each round through ``env.step``."""
    env = gym.make("dp_experts/Bernoulli-v0", num_experts=EXPERTS, horizon=HORIZON)
    learner = dpe.make_learner("hedge")
    spec = dpe.GameSpec(EXPERTS, HORIZON)
    began = time.perf_counter()
    for game in range(games):
        env.reset(seed=seed + game)
        learner.reset(spec, np.random.default_rng(seed + game))
        over = False
        while not over:
            _, _, over, _, info = env.step(learner.act())
            learner.observe(info["losses"])
    return games * HORIZON / (time.perf_counter() - began)


def batched(games: int, shared: bool, seed: int) -> float:
    """Game rounds a second of ``play``."""
    adversary = dpe.make_adversary("bernoulli", num_experts=EXPERTS, horizon=HORIZON, shared=shared)
    return games * HORIZON / dpe.play(dpe.make_learner("hedge"), adversary, games, seed=seed, progress=False).seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/speed.csv"))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for repeat in range(arguments.repeats):
        loop = gymnasium_loop(5, seed=repeat)
        rows.append({"what": "gymnasium loop", "games": 1, "repeat": repeat, "rounds_per_second": loop, "ratio": 1.0})
        for shared in (False, True):
            for games in (1, 100, 10_000):
                speed = batched(games, shared, seed=repeat)
                what = "shared losses" if shared else "losses per game"
                rows.append(
                    {
                        "what": what,
                        "games": games,
                        "repeat": repeat,
                        "rounds_per_second": speed,
                        "ratio": speed / loop,
                    }
                )
    table = pd.DataFrame(rows)
    summary = table.groupby(["what", "games"], sort=False)[["rounds_per_second", "ratio"]].median()
    print(summary.to_string(float_format=lambda value: f"{value:.3g}"))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    summary.reset_index().to_csv(arguments.out, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
