"""Builds the table by which ``Auto`` picks a learner: mean regrets of all private learners on the public suite.

    python benchmarks/recommend.py                     # plays what has no result yet, writes the table
    python benchmarks/recommend.py --again small_loss  # plays this learner anew, after a change of it
    python benchmarks/recommend.py --minutes 0         # writes the table from the results that there are

At each horizon, number of experts, epsilon and delta every learner plays the families of ``SCREEN``, then the others
unless it is dropped: its worst mean regret so far is more than twice the least of the learners' worst so far. That
least one grows, so what was dropped is looked at again until nothing changes; then whoever is dropped has a worst more
than twice that of one who played everything, and cannot have the least ratio as ``Auto`` defines it. The same holds
for the families whose best expert's expected loss is at most 2 sqrt(T), which learners that take ``best_loss`` also
play told so. All learners meet the same sequences, one a game. Results are written family by family, and an
interrupted run goes on from there; seeds are fixed.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dp_experts_env as dpe
from dp_experts_adversaries.families import FAMILIES
from dp_experts_agents.auto import SMALL
from dp_experts_env.adversary import charged
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results" / "recommend.csv"
TABLE = ROOT.parent / "agents" / "dp_experts_agents" / "tables" / "recommend.csv"
EPSILONS = (1.0, 0.3, 3.0)
GAMES = {
    (1_000, 10): (64, EPSILONS),
    (10_000, 10): (32, EPSILONS),
    (100_000, 10): (8, (1.0,)),
    (1_000, 100): (32, EPSILONS),
    (10_000, 100): (16, EPSILONS),
}
"""Games and budgets of each size, horizon and number of experts; the last one is costly."""
DELTAS = (1e-6, 0.0)
SCREEN = ("A", "L0", "D", "ALT")
MARGIN = 2.0
SEED = 20_240_601
BLOCK = 2**17


class Key(NamedTuple):
    """What a result is the result of; ``told``: the learner's L' is 2 sqrt(T), otherwise, where it takes one, T."""

    learner: str
    told: int
    horizon: int
    num_experts: int
    epsilon: float
    delta: float
    family: str


class Result(NamedTuple):
    """Mean regret over the games, its standard error, the mean best loss, and the seconds it took."""

    games: int
    regret: float
    standard_error: float
    best_loss: float
    seconds: float


def sequences(foe: dpe.Adversary, seed: list[int]) -> list[FloatArray]:
    """Draw the losses of an oblivious adversary, in blocks ``(R, G, N)``."""
    foe.np_random = np.random.default_rng(seed)
    foe.reset()
    length = max(1, BLOCK // (foe.game.num_games * foe.num_experts))
    return [foe.emit_block(min(length, foe.horizon - first)) for first in range(0, foe.horizon, length)]


def regrets(learner: dpe.Learner, blocks: list[FloatArray], horizon: int, seed: list[int]) -> FloatArray:
    """Play a learner against blocks of losses and return its regret in each game."""
    games, experts = blocks[0].shape[1:]
    learner.reset(GameSpec(experts, horizon, games), np.random.default_rng(seed))
    lost = sum(charged(block, learner.run(block)).sum(0) for block in blocks)
    return np.asarray(lost - sum(block.sum(0) for block in blocks).min(-1))


def built(key: Key) -> dpe.Learner | None:
    """Build the learner of a key, ``None`` if it does not serve the budget."""
    told = 2.0 * math.sqrt(key.horizon) if key.told else float(key.horizon)
    takes = "best_loss" in constructor_keywords(dpe.learner_class(key.learner))
    try:
        learner = dpe.make_learner(
            key.learner, epsilon=key.epsilon, delta=key.delta, **({"best_loss": told} if takes else {})
        )
        learner.guarantee(GameSpec(key.num_experts, key.horizon))
    except ArgumentError:
        return None
    return learner


def entrants(names: list[str]) -> list[tuple[str, int]]:
    """Learners, and whether they are told a bound on L*."""
    takes = [name for name in names if "best_loss" in constructor_keywords(dpe.learner_class(name))]
    return [(name, 0) for name in names] + [(name, 1) for name in takes]


def dropped(results: dict[Key, Result], key: Key, promise: bool, takers: set[str]) -> bool:
    """Whether a learner lost too much so far, where L* <= 2 sqrt(T) is promised or where nothing is.

    Args:
        results: what was played so far.
        key: the learner and the game.
        promise: whether the small families alone count, and learners that take L' are told so.
        takers: the learners that take L'.
    """
    worst: dict[tuple[str, int], float] = {}
    for other, result in results.items():
        told = int(promise and other.learner in takers)
        if other[2:6] == key[2:6] and other.told == told and (other.family in SMALL or not promise):
            worst[other[:2]] = max(worst.get(other[:2], -math.inf), result.regret)
    return worst.get(key[:2], math.inf) > MARGIN * min(worst.values(), default=math.inf)


def wanted(results: dict[Key, Result], size: tuple[int, int], family: str, names: list[str]) -> Iterator[Key]:
    """What is still to be played on a family."""
    takers = {name for name, told in entrants(names) if told}
    for (name, told), epsilon, delta in itertools.product(entrants(names), GAMES[size][1], DELTAS):
        key = Key(name, told, *size, epsilon, delta, family)
        if key in results or (told and family not in SMALL):
            continue
        promises = [True] if told else [False] if family not in SMALL or name in takers else [False, True]
        if family in SCREEN or not all(dropped(results, key, promise, takers) for promise in promises):
            yield key


def read() -> dict[Key, Result]:
    """Read the results that there are."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {
            Key(
                line["learner"],
                int(line["told"]),
                int(line["horizon"]),
                int(line["num_experts"]),
                float(line["epsilon"]),
                float(line["delta"]),
                line["family"],
            ): Result(int(line["games"]), *(float(line[name]) for name in Result._fields[1:]))
            for line in csv.DictReader(file)
        }


def write(results: dict[Key, Result]) -> None:
    """Write all results, sorted."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow((*Key._fields, *Result._fields))
        for key, result in sorted(results.items()):
            figures = (
                f"{value:.4g}" if name == "seconds" else f"{value:.3f}"
                for name, value in zip(Result._fields[1:], result[1:], strict=True)
            )
            rows.writerow((*key[:4], f"{key.epsilon:g}", f"{key.delta:g}", key.family, result.games, *figures))


def tabulate(results: dict[Key, Result]) -> None:
    """Write the table that is shipped: a line for each learner and game, a column for each family."""
    lines: dict[Key, dict[str, Result]] = {}
    for key, result in results.items():
        lines.setdefault(key._replace(family=""), {})[key.family] = result
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow((*Key._fields[:-1], "games", *FAMILIES))
        for key, found in sorted(lines.items(), key=lambda item: (*item[0][2:6], item[0])):
            games = next(iter(found.values())).games
            figures = (f"{found[family].regret:.1f}" if family in found else "" for family in FAMILIES)
            rows.writerow((*key[:4], f"{key.epsilon:g}", f"{key.delta:g}", games, *figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", nargs="*", default=[], metavar="LEARNER", help="learners to play anew")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; a later run goes on")
    arguments = parser.parse_args()
    results = {key: result for key, result in read().items() if key.learner not in arguments.again}
    names = [name for name in dpe.learners(private=True) if name != "auto"]
    until = time.monotonic() + 60.0 * arguments.minutes
    families = (*SCREEN, *(family for family in FAMILIES if family not in SCREEN))
    waiting = list(itertools.product(GAMES, families))
    while waiting:
        size, family = waiting.pop(0)
        keys = [key for key in wanted(results, size, family, names) if built(key) is not None]
        if not keys or time.monotonic() > until:
            continue
        began = time.perf_counter()
        numbers = [*size, zlib.crc32(family.encode())]
        game = {"num_experts": size[1], "horizon": size[0], "num_games": GAMES[size][0]}
        blocks = sequences(dpe.make_adversary("family", family=family, **game), [SEED, *numbers])
        best_loss = float(sum(block.sum(0) for block in blocks).min(-1).mean())
        for key in keys:
            started = time.perf_counter()
            learner = built(key)
            regret = regrets(learner, blocks, size[0], [SEED + 1, *numbers, zlib.crc32(key.learner.encode())])
            error = float(regret.std(ddof=1) / math.sqrt(len(regret)))
            seconds = time.perf_counter() - started
            results[key] = Result(len(regret), float(regret.mean()), error, best_loss, seconds)
        write(results)
        # What was played may bring back who was dropped.
        waiting += [item for item in itertools.product(GAMES, families) if item[0] == size and item not in waiting]
        print(f"T={size[0]} N={size[1]} {family}: {len(keys)} matches, {time.perf_counter() - began:.1f} s", flush=True)
    tabulate(results)


if __name__ == "__main__":
    main()
