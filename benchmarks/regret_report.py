"""Writes results/regret.md from results/regret.csv, which ``regret.py`` plays.

python benchmarks/regret_report.py
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from regret import COLUMNS, ENTRIES, HEDGE, RESULTS, Key, Result, read, robust, suspects
from scipy.special import stdtrit

import dp_experts_env as dpe
from dp_experts_env.spec import GameSpec

TARGETS = {
    (1_000, 10, 1e-6): (45, 46, 50, 50, 70),
    (10_000, 10, 1e-6): (45, 50, 60, 75, 100),
    (10_000, 100, 1e-6): (100, 103, 105, 210, 240),
    (10_000, 10, 0.0): (55, 66, 65, 130, 210),
    (10_000, 100, 0.0): (125, 130, 135, 350, 330),
    (100_000, 10, 1e-6): (85, 80, 80, 70, 200),
}
"""At epsilon = 1: what the best private learner should lose at most in the four columns, and in the worst family."""

THREE_SIGMA = 0.99865
"""Probability that a normal number is at most three standard deviations above its mean."""

CERTIFIED = {
    (1_000, 10): 72,
    (1_000, 100): 182,
    (10_000, 10): 125,
    (10_000, 100): 424,
    (100_000, 10): 365,
    (100_000, 100): 670,
}
"""At epsilon = 1, delta = 1e-6: what the least certified bound should be at most."""


def worst(results: dict[Key, Result], entry: str, game: tuple[Any, ...]) -> tuple[Result, str] | None:
    """Return an entry's result on its worst family and the family, ``None`` unless it played all of them."""
    found = {}
    for family in suspects(results, entry, game):
        key = Key(entry, *game, family)
        found[family] = results.get(key._replace(sequence=f"{family} again"), results[key])
    if not found:
        return None
    family = max(found, key=lambda name: found[name].regret)
    return found[family], family


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
    """What the best private learners reach beside the targets, and ``auto`` beside the best robust one."""
    wanted = TARGETS.get((game[0], game[1], game[3])) if game[2] == 1.0 else None
    sturdy = [entry for entry in robust(results, game) if not entry.startswith("auto")]
    lines = [f"Robust, worst family at most twice the least such: {', '.join(sturdy)}.", ""] if sturdy else []
    for column, (family, name) in enumerate((*COLUMNS.items(), ("", "worst family"))):

        def found(entry: str, family: str = family) -> Result | None:
            last = worst(results, entry, game)
            return results.get(Key(entry, *game, family)) if family else last and last[0]

        played = {entry: result for entry in ENTRIES if (result := found(entry)) is not None}
        private = sorted(
            (entry for entry in played if entry != HEDGE and not entry.startswith("auto")),
            key=lambda entry: played[entry].regret,
        )
        if not private:
            continue
        line = f"- {name}: least {private[0]} {shown(played[private[0]])}"
        best = next((entry for entry in private if entry in sturdy), None)
        if best is not None:
            line += f", robust {best} {shown(played[best])}"
            if wanted is not None:
                line += f", target ≤ {wanted[column]}: {verdict(played[best], wanted[column])}"
        if "auto" in played:
            line += f"; auto {shown(played['auto'])}"
            if best is not None and played[best].regret > 0:
                line += f", {played['auto'].regret / played[best].regret:.2f} times robust"
            if wanted is not None and not family:
                line += f", target ≤ {wanted[column]}: {verdict(played['auto'], wanted[column])}"
        lines.append(line)
    return lines


def verdict(result: Result, target: float) -> str:
    """Say whether a mean regret meets its target."""
    if result.regret <= target:
        return "met"
    return "met within two standard errors" if result.regret - 2.0 * result.standard_error <= target else "not met"


def certificates() -> list[str]:
    """The least certified bounds at epsilon = 1, delta = 1e-6, beside their targets."""
    lines = ["| T | N | least certified bound | learner | target | |", "|---|---|---|---|---|---|"]
    for (horizon, size), target in CERTIFIED.items():
        choice = dpe.make_learner("auto", by="certified").choice(GameSpec(size, horizon))
        met = "met" if round(choice.regret_bound) <= target else "not met"
        lines.append(f"| {horizon} | {size} | {choice.regret_bound:.1f} | {choice.name} | {target} | {met} |")
    return lines


def checked(results: dict[Key, Result]) -> list[str]:
    """Whether the certified bounds hold in every cell."""
    cells = [(key, result) for key, result in results.items() if not math.isnan(result.bound)]
    over = [
        f"{key.entry} on {key.sequence} at T={key.horizon}, N={key.num_experts}: {shown(result)} > {result.bound:.1f}"
        for key, result in cells
        if result.regret - float(stdtrit(result.games - 1, THREE_SIGMA)) * result.standard_error > result.bound
    ]
    closest = max(cells, key=lambda cell: cell[1].regret / max(cell[1].bound, 1.0))
    lines = [
        f"{len(cells)} cells have a certified bound; the lower end of a one-sided 99.865% Student interval of the mean "
        f"regret (three standard errors, more where the games are few) exceeds it in {len(over)}. "
        f"The closest: {closest[0].entry} on {closest[0].sequence} at T={closest[0].horizon}, "
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
    for horizon in (10_000, 100_000):
        lines += growth_in_best_loss(results, horizon)
    return lines


def growth_in_best_loss(results: dict[Key, Result], horizon: int) -> list[str]:
    """Fitted exponents of the regret, and of the certified bound, against L* at a fixed T."""
    losses = sorted(
        (
            key.sequence
            for key in results
            if key.sequence.startswith("planted ") and (key.entry, key.horizon) == (HEDGE, horizon)
        ),
        key=lambda name: float(name.split()[1]),
    )
    lines = [
        f"Mean regret against L\\* at T = {horizon}, N = 10, ε = 1, δ = 1e-06 (one planted expert, others 1/2):",
        "",
        "| learner | "
        + " | ".join(f"L\\* = {name.split()[1]}" for name in losses)
        + " | exponent of L\\* (L\\* > 0) | of the certified bound |",
        "|---" * (len(losses) + 3) + "|",
    ]
    for entry in ENTRIES:
        found = {name: results.get(Key(entry, horizon, 10, 1.0, 1e-6, name)) for name in losses}
        played = [
            (float(name.split()[1]), result)
            for name, result in found.items()
            if result is not None and not name.endswith(" 0")
        ]
        if len(played) < 3:
            continue
        best_losses = [loss for loss, _ in played]
        value, half = slope(best_losses, [result for _, result in played])
        bound = "none"
        if not any(math.isnan(result.bound) for _, result in played):
            bound = f"{np.polyfit(np.log(best_losses), np.log([result.bound for _, result in played]), 1)[0]:.2f}"
        cells = [shown(found[name]) for name in losses] + [f"{value:.2f} ± {half:.2f}", bound]
        lines.append(f"| {entry} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def summary(results: dict[Key, Result]) -> str:
    """The results in Markdown."""
    games = sorted(
        {key[1:5] for key in results}, key=lambda game: (game[2] != 1.0, -game[2], game[0], game[1], -game[3])
    )
    lines = [
        "# Regret of the private learners",
        "",
        "From `benchmarks/regret.py`. Mean regret ± standard error over independent games on fresh sequences; in",
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
    (RESULTS / "regret.md").write_text(summary(read()), encoding="utf-8")


if __name__ == "__main__":
    main()
