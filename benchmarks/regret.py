"""Plays the private learners for mean regret beside certified bounds and non-private Hedge, to results/regret.csv.

    python benchmarks/regret.py                  # plays what has no result yet
    python benchmarks/regret.py --again auto     # plays this entry anew
    python benchmarks/regret_report.py           # writes results/regret.md

Sequences are fresh: their seeds are not those of ``recommend.py``. Four columns, families of the public suite: one
perfect expert (L* = 0), best at rate T^-1/2 (L* about sqrt(T)), best at 1/4 (L* about T/4), a leader swap at T/2; then
all families of the suite, in fewer games, for the worst mean regret. The largest of many noisy means is too large, so
a robust entry's three worst families are played again, in more games with other seeds, and count with those.

All learners meet the same sequences, one a game, and have the same coins, so that ``auto`` repeats the learner that it
picks. "told": the learner is given L' = 2 sqrt(T), on the families where that holds. "told L*": given the planted
expected loss L of the best expert plus three standard deviations, sqrt(L), and one. Hedge, for the ratio, is tuned
with the mean L* of the family.
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
from typing import Any, NamedTuple

import numpy as np
from recommend import SMALL, regrets, sequences

import dp_experts_env as dpe
from dp_experts_adversaries.families import FAMILIES
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import ArgumentError, GameSpec

RESULTS = Path(__file__).resolve().parent / "results"
SEED = 20_241_111
COLUMNS = {"A": "L\\* = 0", "B": "L\\* about √T", "C": "L\\* about T/4", "D": "leader swap"}
HEDGE = "hedge, tuned with L*"
ENTRIES: dict[str, tuple[str, dict[str, Any]]] = {
    HEDGE: ("hedge", {}),
    "auto": ("auto", {}),
    "auto, certified": ("auto", {"by": "certified"}),
    "fade": ("fade", {}),
    "gaussian_leader": ("gaussian_leader", {}),
    "small_loss": ("small_loss", {}),
    "small_loss, told": ("small_loss", {"told": True}),
    "small_loss, certified, told": ("small_loss", {"told": True, "tuning": "certified"}),
    "realizable": ("realizable", {}),
    "realizable, told": ("realizable", {"told": True}),
    "realizable, certified, told": ("realizable", {"told": True, "tuning": "certified"}),
    "small_loss, certified, told L*": ("small_loss", {"own": True, "tuning": "certified"}),
    "realizable, certified, told L*": ("realizable", {"own": True, "tuning": "certified"}),
    "private_dartboard": ("private_dartboard", {}),
    "private_fixed_share": ("private_fixed_share", {}),
    "lazy_hedge": ("lazy_hedge", {}),
    "lazy_to_private": ("lazy_to_private", {}),
    "private_leader": ("private_leader", {}),
    "phased_selection": ("phased_selection", {}),
    "private_hedge": ("private_hedge", {}),
}
ROBUST = ("auto", "auto, certified", "fade", "gaussian_leader", "small_loss", "realizable")
"""Entries that play all families."""
GROWING = (
    HEDGE,
    "fade",
    "gaussian_leader",
    "private_dartboard",
    "lazy_hedge",
    "lazy_to_private",
    "small_loss",
    "realizable",
    "small_loss, told",
    "realizable, told",
    "small_loss, certified, told",
    "realizable, certified, told",
    "private_hedge",
)
"""Entries whose regret is fitted against T and L*."""

GAMES = (
    (1_000, 10, 1e-6, 128),
    (10_000, 10, 1e-6, 64),
    (10_000, 100, 1e-6, 32),
    (10_000, 10, 0.0, 64),
    (10_000, 100, 0.0, 32),
)
"""Horizon, experts and delta of the games in which all families are played, and the games of a column."""

LONG = (100_000, 10, 1e-6, 12)
"""The same for the longest game, which fewer entries play."""


class Key(NamedTuple):
    """What a result is the result of."""

    entry: str
    horizon: int
    num_experts: int
    epsilon: float
    delta: float
    sequence: str


class Result(NamedTuple):
    """Learner, games, mean regret, its standard error, mean L*, mean certified bound (NaN: none) and seconds."""

    learner: str
    games: int
    regret: float
    standard_error: float
    best_loss: float
    bound: float
    seconds: float


class Task(NamedTuple):
    """Entries that play one sequence."""

    horizon: int
    num_experts: int
    epsilon: float
    delta: float
    sequence: str
    games: int
    entries: tuple[str, ...]


def tasks() -> Iterator[Task]:
    """All that is played, the most wanted first, but for the families that are played again."""
    few = (HEDGE, *ROBUST, "small_loss, told", "realizable, told")
    costly = ("private_leader", "private_hedge", "phased_selection")
    for horizon, size, delta, games in GAMES:
        entries = tuple(name for name in ENTRIES if size == 10 or name not in costly)
        for family in COLUMNS:
            yield Task(horizon, size, 1.0, delta, family, games, entries)
    for horizon, size, delta, games in GAMES:
        for family in FAMILIES:
            if family not in COLUMNS:
                yield Task(horizon, size, 1.0, delta, family, games // (2 if horizon > 1_000 else 1), (HEDGE, *ROBUST))
    # How regret grows with T at L* = 0, and with L* at a fixed T.
    for horizon, games in ((1_000, 128), (3_000, 64), (10_000, 64), (30_000, 32), (100_000, 12)):
        for delta in (1e-6, 0.0):
            yield Task(horizon, 10, 1.0, delta, "A", games, GROWING)
    own = ("small_loss, certified, told L*", "realizable, certified, told L*")
    for best_loss in (0, 100, 300, 1_000, 3_000):
        yield Task(10_000, 10, 1.0, 1e-6, f"planted {best_loss}", 64, (*GROWING[:-1], *own))
    for best_loss in (0, 300, 1_000, 3_000, 10_000, 30_000):
        entries = (HEDGE, "small_loss", "realizable", "lazy_hedge", "private_dartboard", *own)
        yield Task(100_000, 10, 1.0, 1e-6, f"planted {best_loss}", 16, entries)
    for family in COLUMNS:
        yield Task(*LONG[:2], 1.0, LONG[2], family, LONG[3], few)
    for epsilon, horizon, delta, family in itertools.product((3.0, 0.1), (1_000, 10_000), (1e-6, 0.0), COLUMNS):
        yield Task(horizon, 10, epsilon, delta, family, 32, few)
    for family in COLUMNS:
        yield Task(1_000, 10, 1.0, 0.0, family, 128, few)
    for delta, family in itertools.product((1e-6, 0.0), COLUMNS):
        yield Task(1_000, 100, 1.0, delta, family, 64, tuple(name for name in ENTRIES if name not in costly))
    for epsilon, horizon, delta, family in itertools.product((3.0, 0.1), (1_000, 10_000), (1e-6, 0.0), COLUMNS):
        yield Task(horizon, 100, epsilon, delta, family, 16, few)
    for delta, family in itertools.product((1e-6, 0.0), COLUMNS):
        yield Task(100_000, 100, 1.0, delta, family, 4, few)
    for family in COLUMNS:
        yield Task(100_000, 10, 1.0, 0.0, family, 12, few)
    for epsilon, (size, games), delta, family in itertools.product(
        (3.0, 0.1), ((10, 8), (100, 4)), (1e-6, 0.0), COLUMNS
    ):
        yield Task(100_000, size, epsilon, delta, family, games, few)
    for family in FAMILIES:
        if family not in COLUMNS:
            yield Task(*LONG[:2], 1.0, LONG[2], family, LONG[3] // 2, (HEDGE, *ROBUST))


def suspects(results: dict[Key, Result], entry: str, game: tuple[Any, ...]) -> tuple[str, ...]:
    """Return an entry's three worst families in a game, the worst first; () unless it played all of them."""
    found = {family: results[key] for family in FAMILIES if (key := Key(entry, *game, family)) in results}
    if len(found) < len(FAMILIES):
        return ()
    return tuple(sorted(found, key=lambda family: -found[family].regret)[:3])


def robust(results: dict[Key, Result], game: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the entries whose worst mean regret over the families is at most twice the least such."""
    worst = {entry: suspects(results, entry, game) for entry in ROBUST}
    means = {entry: results[Key(entry, *game, found[0])].regret for entry, found in worst.items() if found}
    return tuple(entry for entry, mean in means.items() if mean <= 2.0 * min(means.values()))


def again(results: dict[Key, Result]) -> Iterator[Task]:
    """The worst families of the robust entries, in four times the games."""
    for horizon, size, delta, games in (*GAMES, LONG):
        game = (horizon, size, 1.0, delta)
        for family in FAMILIES:
            entries = tuple(name for name in robust(results, game) if family in suspects(results, name, game))
            yield Task(*game, f"{family} again", games * (2 if horizon > 1_000 else 4), entries)


def adversary(task: Task) -> dpe.Adversary:
    """Build the adversary of a task."""
    game = {"num_experts": task.num_experts, "horizon": task.horizon, "num_games": task.games}
    name, _, best_loss = task.sequence.partition(" ")
    if name == "planted":
        return dpe.make_adversary("planted", best_loss=float(best_loss), **game)
    return dpe.make_adversary("family", family=name, **game)


def learner(task: Task, entry: str, best_loss: float) -> dpe.Learner | None:
    """Build the learner of an entry, ``None`` if it does not serve the budget or cannot be told this."""
    name, given = ENTRIES[entry]
    given = dict(given)
    if name == "hedge":
        return dpe.make_learner("hedge", learning_rate="small_loss", best_loss=max(best_loss, 1e-3))
    if given.pop("own", False):
        planted = task.sequence.removeprefix("planted ")
        if planted == task.sequence:
            return None
        given["best_loss"] = min(float(planted) + 3.0 * math.sqrt(float(planted)) + 1.0, float(task.horizon))
    elif given.pop("told", False):
        if task.sequence not in SMALL:
            return None
        given["best_loss"] = 2.0 * math.sqrt(task.horizon)
    elif name != "auto" and "best_loss" in constructor_keywords(dpe.learner_class(name)):
        given["best_loss"] = float(task.horizon)
    try:
        found = dpe.make_learner(name, epsilon=task.epsilon, delta=task.delta, **given)
    except ArgumentError:
        return None
    spec = GameSpec(task.num_experts, task.horizon)
    return found.learner(spec) if name == "auto" else found


def play(task: Task, entries: list[str], done: dict[str, Result]) -> Iterator[tuple[Key, Result]]:
    """Play a task; the same learner under two names plays once, and what is done is not played again."""
    numbers = [task.horizon, task.num_experts, zlib.crc32(task.sequence.encode())]
    blocks = sequences(adversary(task), [SEED, *numbers])
    best = sum(block.sum(0) for block in blocks).min(-1)
    spec = GameSpec(task.num_experts, task.horizon)
    for entry in entries:
        player = learner(task, entry, float(best.mean()))
        if player is None:
            continue
        if repr(player) not in done:
            began = time.perf_counter()
            regret = regrets(player, blocks, task.horizon, [SEED + 1, *numbers])
            bound = float(np.mean([player.regret_bound(spec, float(loss), "oblivious") for loss in best]))
            error = float(regret.std(ddof=1) / math.sqrt(len(regret)))
            seconds = time.perf_counter() - began
            done[repr(player)] = Result(
                repr(player), len(regret), float(regret.mean()), error, float(best.mean()), bound, seconds
            )
        yield Key(entry, *task[:5]), done[repr(player)]


# -- files -------------------------------------------------------------------------------------------------------------


def read() -> dict[Key, Result]:
    """Read the results that there are."""
    path = RESULTS / "regret.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        found = {}
        for line in csv.DictReader(file):
            values = list(line.values())
            key = Key(values[0], int(values[1]), int(values[2]), float(values[3]), float(values[4]), values[5])
            found[key] = Result(
                values[6], int(values[7]), *(float(value) if value else math.nan for value in values[8:])
            )
        return found


def write(results: dict[Key, Result]) -> None:
    """Write all results, sorted."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "regret.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow((*Key._fields, *Result._fields))
        for key, result in sorted(results.items()):
            figures = ["" if math.isnan(value) else f"{value:.3f}" for value in result[2:]]
            rows.writerow((*key[:3], f"{key.epsilon:g}", f"{key.delta:g}", key.sequence, *result[:2], *figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", nargs="*", default=[], metavar="ENTRY", help="entries to play anew")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; a later run goes on")
    arguments = parser.parse_args()
    results = {key: result for key, result in read().items() if key.entry not in arguments.again}
    until = time.monotonic() + 60.0 * arguments.minutes
    registered = dpe.learners()
    # Which families are played again depends on what was played before.
    for task in itertools.chain(tasks(), again(results)):
        wanted = [
            entry for entry in task.entries if Key(entry, *task[:5]) not in results and ENTRIES[entry][0] in registered
        ]
        wanted = [entry for entry in wanted if learner(task, entry, 1.0) is not None]
        if not wanted or time.monotonic() > until:
            continue
        began = time.perf_counter()
        done = {result.learner: result for key, result in results.items() if key[1:] == task[:5]}
        results.update(play(task, wanted, done))
        write(results)
        print(f"{task[:6]}: {len(wanted)} matches, {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
