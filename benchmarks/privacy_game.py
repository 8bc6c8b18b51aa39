"""Privacy games per second against the same games written by hand, as a ratio in one run, and peak memory.

    python benchmarks/privacy_game.py [--games 1000000] [--out benchmarks/results/privacy_game.csv]

Games of T = 20 rounds and N = 4 experts against PrivateHedge, half of them in each world, recorded alike as one byte a
choice. Two kinds of losses: shared by all games (the first round differs), and every game's own (the last choice is
charged, the second round differs; adaptive). By hand they are one numpy loop over rounds, all games at once; and, as a
harder yardstick, the same loop over chunks that fit the cache. Nobody checks anything there. The three are timed in
turn, and a ratio is the median over the repeats of the ratios within one. Peak memory is that of a fresh process that
plays the games and does nothing else.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import dp_experts_env as dpe
from dp_experts_env.privacy.game import GAMES_PER_CHUNK, make_pair, run_privacy_game

EXPERTS, HORIZON = 4, 20
LOSSES = ("shared", "own")


def by_hand(losses: str, games: int, rate: float, seed: int, chunk: int) -> list[np.ndarray]:
    """Choices ``(games, T)`` of the two worlds."""
    worlds = []
    for world in range(2):
        rng = np.random.default_rng([seed, world])
        choices = np.empty((games, HORIZON), dtype=np.uint8)
        for first in range(0, games, chunk):
            part = choices[first : first + chunk]
            (hand_shared if losses == "shared" else hand_own)(part, rate, world, rng)
        worlds.append(choices)
    return worlds


def hand_shared(choices: np.ndarray, rate: float, world: int, rng: np.random.Generator) -> None:
    total = np.zeros(EXPERTS)
    half = np.arange(EXPERTS) < EXPERTS // 2
    for t in range(HORIZON):
        law = np.exp(-rate * (total - total.min())).cumsum()
        choices[:, t] = law.searchsorted(rng.random(len(choices)) * law[-1], side="right")
        total = total + (half ^ bool(world)) * (t == 0)


def hand_own(choices: np.ndarray, rate: float, world: int, rng: np.random.Generator) -> None:
    total = np.zeros((len(choices), EXPERTS))
    losses = np.zeros((len(choices), EXPERTS))
    for t in range(HORIZON):
        weights = np.exp(-rate * (total - total.min(-1, keepdims=True)))
        law = weights.cumsum(-1)
        named = (law <= (rng.random(len(choices)) * law[:, -1])[:, None]).sum(-1)
        choices[:, t] = named
        total += 1.0 - losses if t == 1 and world else losses
        losses = (named[:, None] == np.arange(EXPERTS)).astype(np.float64)


def played(losses: str, games: int, seed: int) -> None:
    """The same games by the package."""
    pair = make_pair("first_round") if losses == "shared" else make_pair("replace_round", adversary="punish_last", at=2)
    run_privacy_game(dpe.make_learner("private_hedge"), pair, games, seed=seed, progress=False)


def seconds(work: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def peak_memory(losses: str, games: int) -> float:
    """GiB that a fresh process needs at most."""
    command = [sys.executable, __file__, "--games", str(2 * games), "--only", losses]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=1_000_000, help="in both worlds together")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/privacy_game.csv"))
    parser.add_argument("--only", choices=LOSSES, help="play once and print the peak memory in KiB")
    arguments = parser.parse_args()
    games = arguments.games // 2
    if arguments.only:
        played(arguments.only, games, 0)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    rate = dpe.make_learner("private_hedge").learning_rate(dpe.GameSpec(EXPERTS, HORIZON))
    rows = []
    for losses in LOSSES:
        times = pd.DataFrame(
            {
                "package": seconds(played, losses, games, repeat),
                "hand": seconds(by_hand, losses, games, rate, repeat, games),
                "hand_chunked": seconds(by_hand, losses, games, rate, repeat, GAMES_PER_CHUNK),
            }
            for repeat in range(arguments.repeats)
        )
        rows.append(
            {
                "losses": losses,
                "games": 2 * games,
                "games_per_second": 2 * games / times["package"].median(),
                "ratio": (times["package"] / times["hand"]).median(),
                "ratio_to_chunked": (times["package"] / times["hand_chunked"]).median(),
                "hand_games_per_second": 2 * games / times["hand"].median(),
                "peak_memory_gib": peak_memory(losses, games),
            }
        )
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
