"""Mean regret of the private learners beside their certified bounds and non-private Hedge, with fitted exponents.

    python benchmarks/regret.py                  # plays what has no result yet, writes results/regret.csv and regret.md
    python benchmarks/regret.py --again auto     # plays this entry anew
    python benchmarks/regret.py --minutes 0      # writes the summary of the results that there are

Sequences are fresh: their seeds are not those of ``recommend.py``. Four columns, families of the public suite: one
perfect expert (L* = 0), best at rate T^-1/2 (L* about sqrt(T)), best at 1/4 (L* about T/4), a leader swap at T/2; then
the worst mean regret over all families of the suite, in fewer games. All learners meet the same sequences, one a game,
and have the same coins, so that ``auto`` repeats the learner that it picks. "told": the learner is given
L' = 2 sqrt(T), on the families where that holds. Hedge, for the ratio, is tuned with the mean L* of the family.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from recommend import regrets, sequences

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
SMALL = ("A", "B", "As", "Bs", "L0", "Ls")

TARGETS = {
    (1_000, 10, 1e-6): (45, 46, 50, 50, 70),
    (10_000, 10, 1e-6): (45, 50, 60, 75, 100),
    (10_000, 100, 1e-6): (100, 103, 105, 210, 240),
    (10_000, 10, 0.0): (55, 66, 65, 130, 210),
    (10_000, 100, 0.0): (125, 130, 135, 350, 330),
    (100_000, 10, 1e-6): (85, 80, 80, 70, 200),
}
"""At epsilon = 1: what the best private learner should lose at most in the four columns, and in the worst family."""

CERTIFIED = {
    (1_000, 10): 72,
    (1_000, 100): 182,
    (10_000, 10): 125,
    (10_000, 100): 424,
    (100_000, 10): 365,
    (100_000, 100): 670,
}
"""At epsilon = 1, delta = 1e-6: what the least certified bound should be at most."""


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
    """All that is played, the most wanted first."""
    every = tuple(ENTRIES)
    few = (HEDGE, *ROBUST, "small_loss, told", "realizable, told")
    for horizon, size, delta in TARGETS:
        if horizon > 10_000:
            continue
        games = 128 if horizon == 1_000 else 64 if size == 10 else 32
        for family in COLUMNS:
            entries = (
                every
                if size == 10
                else tuple(
                    name for name in every if name not in ("private_leader", "private_hedge", "phased_selection")
                )
            )
            yield Task(horizon, size, 1.0, delta, family, games, entries)
    for horizon, size, delta in TARGETS:
        if horizon > 10_000:
            continue
        games = 128 if horizon == 1_000 else 32 if size == 10 else 16
        for family in FAMILIES:
            if family not in COLUMNS:
                yield Task(horizon, size, 1.0, delta, family, games, (HEDGE, *ROBUST))
    # The growth with T at L* = 0 and with L* at fixed T.
    growing = (
        "small_loss, told",
        "small_loss",
        "small_loss, certified, told",
        "realizable, told",
        "realizable",
        "realizable, certified, told",
        "fade",
        "gaussian_leader",
        "private_dartboard",
        "lazy_hedge",
        "lazy_to_private",
        "private_hedge",
        HEDGE,
    )
    for horizon, games in ((1_000, 128), (3_000, 64), (10_000, 64), (30_000, 32), (100_000, 12)):
        for delta in (1e-6, 0.0):
            yield Task(horizon, 10, 1.0, delta, "A", games, growing)
    for best_loss in (0, 100, 300, 1_000, 3_000):
        entries = (HEDGE, "small_loss", "realizable", "fade", "gaussian_leader", "private_dartboard", "lazy_hedge")
        yield Task(10_000, 10, 1.0, 1e-6, f"planted {best_loss}", 64, entries)
    for family in ("B", "C", "D"):
        yield Task(100_000, 10, 1.0, 1e-6, family, 12, few)
    for epsilon in (3.0, 0.1):
        for horizon in (1_000, 10_000):
            for delta in (1e-6, 0.0):
                for family in COLUMNS:
                    yield Task(horizon, 10, epsilon, delta, family, 32, few)
    for delta in (0.0,):
        for family in COLUMNS:
            yield Task(1_000, 10, 1.0, delta, family, 64, few)


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
    if given.pop("told", False):
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


# -- the summary -------------------------------------------------------------------------------------------------------


def worst(results: dict[Key, Result], entry: str, game: tuple[Any, ...]) -> tuple[Result, str] | None:
    """Return an entry's result on its worst family and the family, ``None`` unless it played all of them."""
    found = {family: results.get(Key(entry, *game, family)) for family in FAMILIES}
    if any(result is None for result in found.values()):
        return None
    family = max(found, key=lambda name: found[name].regret)  # type: ignore[union-attr]
    return found[family], family  # type: ignore[return-value]


def shown(result: Result | None) -> str:
    """Print a mean regret with its standard error."""
    return "" if result is None else f"{result.regret:.0f} ± {result.standard_error:.0f}"


def game_table(results: dict[Key, Result], game: tuple[int, int, float, float]) -> list[str]:
    """A table of one game: regret, bound and ratio in each column."""
    horizon, size, epsilon, delta = game
    lines = [f"### T = {horizon}, N = {size}, ε = {epsilon:g}, δ = {delta:g}", ""]
    lines += ["| learner | " + " | ".join(COLUMNS.values()) + " | worst family |", "|---" * (len(COLUMNS) + 2) + "|"]
    for entry in ENTRIES:
        cells = []
        for family in COLUMNS:
            result, hedge = results.get(Key(entry, *game, family)), results.get(Key(HEDGE, *game, family))
            if result is None:
                cells.append("")
                continue
            bound = "none" if math.isnan(result.bound) else f"{result.bound:.0f}"
            ratio = ""
            if entry != HEDGE and hedge is not None and hedge.regret > 2.0 * hedge.standard_error:
                ratio = f"; {result.regret / hedge.regret:.1f} times"
            cells.append(f"{shown(result)} (≤ {bound}{ratio})")
        last = worst(results, entry, game)
        cells.append("" if last is None else f"{shown(last[0])} ({last[1]})")
        if any(cells):
            picks = {results[key].learner.partition("(")[0] for key in results if key[:5] == (entry, *game)}
            name = f"{entry}: {', '.join(sorted(picks))}" if entry.startswith("auto") else entry
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    best = targets(results, game)
    return [*lines, "", *best, ""]


def targets(results: dict[Key, Result], game: tuple[int, int, float, float]) -> list[str]:
    """What the best private learner reaches, beside its target."""
    wanted = TARGETS.get((game[0], game[1], game[3])) if game[2] == 1.0 else None
    private = [entry for entry in ENTRIES if entry != HEDGE]
    lines = []
    for column, (family, name) in enumerate((*COLUMNS.items(), ("", "worst family"))):
        found = {}
        for entry in private:
            if entry.startswith("auto"):
                continue
            result = (
                (worst(results, entry, game) or (None,))[0] if not family else results.get(Key(entry, *game, family))
            )
            if result is not None:
                found[entry] = result
        if not found:
            continue
        entry = min(found, key=lambda name: found[name].regret)
        mine = results.get(Key("auto", *game, family)) if family else (worst(results, "auto", game) or (None,))[0]
        line = f"- {name}: best {entry} {shown(found[entry])}, auto {shown(mine) or 'not played'}"
        if wanted is not None:
            target, regret, error = wanted[column], found[entry].regret, found[entry].standard_error
            verdict = (
                "met"
                if regret <= target
                else "met within two standard errors"
                if (regret - 2.0 * error <= target)
                else "not met"
            )
            line += f"; target ≤ {target}: {verdict}"
        lines.append(line)
    return lines


def certificates() -> list[str]:
    """The least certified bounds at epsilon = 1, delta = 1e-6, beside their targets."""
    lines = ["| T | N | least certified bound | learner | target | |", "|---|---|---|---|---|---|"]
    for (horizon, size), target in CERTIFIED.items():
        choice = dpe.make_learner("auto", by="certified").choice(GameSpec(size, horizon))
        verdict = "met" if choice.regret_bound <= target else "not met"
        lines.append(f"| {horizon} | {size} | {choice.regret_bound:.1f} | {choice.name} | {target} | {verdict} |")
    return lines


def checked(results: dict[Key, Result]) -> list[str]:
    """Whether the certified bounds hold in every cell."""
    cells = [(key, result) for key, result in results.items() if not math.isnan(result.bound)]
    over = [
        f"{key.entry} on {key.sequence} at T={key.horizon}, N={key.num_experts}: {shown(result)} > {result.bound:.1f}"
        for key, result in cells
        if result.regret - 3.0 * result.standard_error > result.bound
    ]
    closest = max(cells, key=lambda cell: cell[1].regret / max(cell[1].bound, 1.0))
    lines = [
        f"{len(cells)} cells have a certified bound; the mean regret less three standard errors exceeds it in "
        f"{len(over)}. The closest: {closest[0].entry} on {closest[0].sequence} at T={closest[0].horizon}, "
        f"N={closest[0].num_experts}, ε={closest[0].epsilon:g}, δ={closest[0].delta:g}: {shown(closest[1])} against "
        f"{closest[1].bound:.0f}."
    ]
    return lines + [f"- {line}" for line in over]


def slope(x: list[float], results: list[Result]) -> tuple[float, float]:
    """Return the exponent of a power law fitted to mean regrets, weighted by their errors, and 1.96 standard errors.

    The error is the larger of what the errors of the means give and what the scatter about the line gives.
    """
    means = np.array([result.regret for result in results])
    spread = np.maximum([result.standard_error for result in results], 1e-3 * np.abs(means)) / means
    weights = 1.0 / spread**2
    logs, values = np.log(x), np.log(means)
    centred = logs - np.average(logs, weights=weights)
    precision = float((weights * centred**2).sum())
    exponent = float((weights * centred * values).sum() / precision)
    residuals = values - np.average(values, weights=weights) - exponent * centred
    scatter = float((weights * residuals**2).sum() / max(len(x) - 2, 1))
    return exponent, 1.96 * math.sqrt(max(scatter, 1.0) / precision)


def growth(results: dict[Key, Result]) -> list[str]:
    """Fitted exponents of the regret against T at L* = 0, and against L* at fixed T."""
    lines = []
    for delta in (1e-6, 0.0):
        horizons = sorted({key.horizon for key in results if key[2:] == (10, 1.0, delta, "A")})
        lines += [f"Mean regret at L\\* = 0 (family A), N = 10, ε = 1, δ = {delta:g}:", ""]
        lines += [
            "| learner | " + " | ".join(f"T = {t}" for t in horizons) + " | exponent of T | first half | last half |"
        ]
        lines += ["|---" * (len(horizons) + 4) + "|"]
        for entry in ENTRIES:
            found = {t: results.get(Key(entry, t, 10, 1.0, delta, "A")) for t in horizons}
            played = [(float(t), result) for t, result in found.items() if result is not None and result.regret > 0]
            if len(played) < 4:
                continue
            x, y = [t for t, _ in played], [result for _, result in played]
            middle = len(x) // 2
            fits = (slope(x, y), slope(x[: middle + 1], y[: middle + 1]), slope(x[middle:], y[middle:]))
            cells = [shown(found[t]) for t in horizons] + [f"{value:.2f} ± {half:.2f}" for value, half in fits]
            lines.append(f"| {entry} | " + " | ".join(cells) + " |")
        lines.append("")
    losses = sorted(
        (key.sequence for key in results if key.sequence.startswith("planted ") and key.entry == HEDGE),
        key=lambda name: float(name.split()[1]),
    )
    if losses:
        lines += [
            "Mean regret against L\\* at T = 10000, N = 10, ε = 1, δ = 1e-06 (one planted expert, others 1/2):",
            "",
        ]
        lines += [
            "| learner | "
            + " | ".join(f"L\\* = {name.split()[1]}" for name in losses)
            + " | exponent of L\\* (L\\* > 0) |",
            "|---" * (len(losses) + 2) + "|",
        ]
        for entry in ENTRIES:
            found = {name: results.get(Key(entry, 10_000, 10, 1.0, 1e-6, name)) for name in losses}
            played = [
                (float(name.split()[1]), result)
                for name, result in found.items()
                if result is not None and not name.endswith(" 0")
            ]
            if len(played) < 3:
                continue
            value, half = slope([loss for loss, _ in played], [result for _, result in played])
            cells = [shown(found[name]) for name in losses]
            lines.append(f"| {entry} | " + " | ".join(cells) + f" | {value:.2f} ± {half:.2f} |")
        lines.append("")
    return lines


def summary(results: dict[Key, Result]) -> str:
    """The results in Markdown."""
    games = sorted(
        {key[1:5] for key in results}, key=lambda game: (game[2] != 1.0, -game[2], game[0], game[1], -game[3])
    )
    lines = [
        "# Regret of the private learners",
        "",
        "Made by `benchmarks/regret.py`. Mean regret ± standard error over independent games on fresh sequences; in",
        'brackets the certified bound ("none": none is proved) and the ratio to non-private Hedge tuned with L\\*,',
        "where that regret is positive beyond two standard errors. Regret is a non-private diagnostic.",
        "",
        "## Certified bounds hold",
        "",
        *checked(results),
        "",
        "The least certified bounds at ε = 1, δ = 1e-06, the largest over all L\\*:",
        "",
        *certificates(),
        "",
        "## Growth",
        "",
        "Power laws fitted by weighted least squares on logarithms, with 95% intervals.",
        "",
        *growth(results),
        "## Games",
        "",
    ]
    for game in games:
        if any(Key("auto", *game, family) in results for family in COLUMNS):
            lines += game_table(results, game)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", nargs="*", default=[], metavar="ENTRY", help="entries to play anew")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; a later run goes on")
    arguments = parser.parse_args()
    results = {key: result for key, result in read().items() if key.entry not in arguments.again}
    until = time.monotonic() + 60.0 * arguments.minutes
    registered = dpe.learners()
    for task in tasks():
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
    (RESULTS / "regret.md").write_text(summary(results), encoding="utf-8")


if __name__ == "__main__":
    main()
