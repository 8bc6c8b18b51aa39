"""Plays learners against the lower-bound opponents: floor <= measured <= bound. Writes results/floors.* and a picture.

    python benchmarks/floors.py                      # plays all, a few minutes
    python benchmarks/floors.py --again separation   # plays this study anew
    python benchmarks/floors.py --report             # plays nothing, writes results/floors.md and the picture

The studies, each a block of rows in results/floors.csv:

- "floors": every private learner, at several budgets, beside the floor that its own claim of privacy implies and the
  regret bound that it certifies against adaptive adversaries; non-private Hedge beside the same floors.
- "curve": those of pure privacy against hidden signs, at more budgets, for the picture.
- "separation": learners made for small losses against hidden signs; on the losses of a game like that, recorded with
  the learner's twin and replayed; and on one perfect expert among coins. L* = 0 in all three.
- "identity": both sides of the fingerprinting identity, for five learners.
- "coins": the floor of all learners, divided by sqrt(L* ln N) + ln N, and Hedge tuned with L*.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import dp_experts_env as dpe
from dp_experts_adversaries.lower_bounds import Fingerprint, HiddenSign, SignEstimation, SmallLossFloor, Subsets
from dp_experts_adversaries.replay import Replay
from dp_experts_env.spec import ArgumentError

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parent / "results"
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "floors.png"
SEED = 20_250_301
SEPARATED = ("small_loss", "realizable", "fade", "private_hedge", "hedge")
EPSILONS = (1.0, 3.0, 8.0)


class Row(NamedTuple):
    """A cell: what was played, the mean regret and its standard error, and what is proved about it (NaN: nothing)."""

    study: str
    adversary: str
    num_experts: int
    horizon: int
    learner: str
    epsilon: float
    delta: float
    games: int
    floor: float
    regret: float
    standard_error: float
    bound: float
    best_loss: float


def made(name: str, epsilon: float, delta: float, **parameters: Any) -> dpe.Learner | None:
    """Build a private learner, or ``None`` if it has no variant for this budget."""
    try:
        return dpe.make_learner(name, epsilon=epsilon, delta=delta, **parameters)
    except ArgumentError:
        return None


def cell(
    study: str, foe: Any, label: str, learner: dpe.Learner, name: str, budget: tuple[float, float], games: int
) -> Row:
    """Play a cell. The floor is that of what the learner claims, or of the budget for one that claims nothing."""
    claim = learner.guarantee(foe.game)
    epsilon, delta = budget if claim is None else (claim.epsilon, claim.delta)
    floor = foe.regret_floor(foe.game, epsilon, delta) if hasattr(foe, "regret_floor") else math.nan
    match = dpe.play(learner, foe, num_games=games, seed=SEED, progress=False)
    regret = match.regret
    error = float(regret.std(ddof=1) / math.sqrt(games))
    size = (foe.num_experts, foe.horizon)
    best = float(match.best_loss.mean())
    return Row(study, label, *size, name, *budget, games, floor, float(regret.mean()), error, match.regret_bound, best)


def hedge() -> dpe.Learner:
    """Hedge without privacy, tuned for L* = 0."""
    return dpe.make_learner("hedge", learning_rate="small_loss", best_loss=1.0)


def floors() -> Iterator[Row]:
    """Floor, measured and bound of all private learners."""
    for epsilon in (0.01, 0.1, 1.0):
        foes = [
            ("hidden_sign", HiddenSign(horizon=100)),
            ("fingerprint, atoms", Fingerprint.tuned(epsilon, 1e-6, num_experts=1000, horizon=50)),
            ("fingerprint, uniform", Fingerprint.tuned(epsilon, 1e-6, prior="uniform", horizon=50)),
            ("sign_estimation", SignEstimation(horizon=100)),
            ("subsets", Subsets.tuned(epsilon, 1e-6, horizon=8)),
        ]
        for label, foe in foes:
            games = 24
            for name in dpe.learners(private=True):
                for delta in (0.0, 1e-6):
                    learner = made(name, epsilon, delta)
                    if learner is not None:
                        yield cell("floors", foe, label, learner, name, (epsilon, delta), games)
            yield cell("floors", foe, label, hedge(), "hedge", (epsilon, 0.0), games)


def curve() -> Iterator[Row]:
    """Pure learners against hidden signs."""
    foe = HiddenSign(horizon=100)
    for epsilon in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0):
        for name in dpe.learners(private=True):
            learner = made(name, epsilon, 0.0)
            if learner is not None:
                yield cell("curve", foe, "hidden_sign", learner, name, (epsilon, 0.0), 60)
    yield cell("curve", foe, "hidden_sign", hedge(), "hedge", (math.inf, 0.0), 60)


def recorded(learner: dpe.Learner, foe: HiddenSign, seed: int) -> np.ndarray:
    """Return the losses of one game, ``(T, N)``."""
    streams = np.random.SeedSequence([SEED, seed]).spawn(2)
    foe.np_random = np.random.default_rng(streams[0])
    foe.reset()
    learner.reset(foe.game, np.random.default_rng(streams[1]))
    rows = []
    for _ in range(foe.horizon):
        losses, choice = foe.emit(), learner.act()
        learner.observe(losses)
        foe.see(choice)
        rows.append(losses)
    return np.array(rows)


def separation() -> Iterator[Row]:
    """The same learners, adaptive and oblivious sequences of L* = 0."""
    horizon = 600
    foe = HiddenSign(horizon=horizon)
    planted = dpe.make_adversary("planted", num_experts=2 * horizon, horizon=horizon)
    for name in SEPARATED:
        for epsilon in EPSILONS:
            parameters: dict[str, Any] = {"best_loss": 1.0} if name in ("small_loss", "realizable") else {}
            learner = hedge() if name == "hedge" else made(name, epsilon, 1e-6, **parameters)
            assert learner is not None
            budget = (epsilon, 1e-6)
            yield cell("separation", foe, "hidden_sign", learner, name, budget, 8)
            replays = [
                dpe.play(learner, Replay(source=recorded(learner, foe.clone(), game)), 8, seed=game, progress=False)
                for game in range(3)
            ]
            means = np.array([match.regret.mean() for match in replays])
            best = max(float(match.best_loss.max()) for match in replays)
            values = (math.nan, float(means.mean()), float(means.std(ddof=1) / math.sqrt(3.0)), math.nan, best)
            yield Row("separation", "hidden_sign replayed", 2 * horizon, horizon, name, *budget, 24, *values)
            yield cell("separation", planted, "planted", learner, name, budget, 8)


def identity() -> Iterator[Row]:
    """Correlation in place of regret and what it equals in expectation in place of the bound, difference's error."""
    learners = {
        "uniform": {},
        "hedge": {"learning_rate": 0.5},
        "follow_the_perturbed_leader": {"learning_rate": 0.7},
        "private_hedge": {"epsilon": 3.0},
        "private_dartboard": {"epsilon": 10.0},
    }
    for prior in ("uniform", "atoms"):
        for number, (name, parameters) in enumerate(learners.items()):
            foe = Fingerprint(prior=prior, num_experts=200, horizon=50, active_rounds=50, num_games=10_000)
            foe.reset(seed=SEED + number)
            learner = dpe.make_learner(name, **parameters)
            learner.reset(foe.game, np.random.default_rng([SEED, number]))
            for _ in range(foe.horizon):
                losses, choices = foe.emit(), learner.act()
                learner.observe(losses)
                foe.see(choices)
            correlation, expected = foe.fingerprint()
            error = float((correlation - expected).std(ddof=1) / math.sqrt(10_000))
            values = (math.nan, float(correlation.mean()), error, float(expected.mean()), math.nan)
            yield Row("identity", f"fingerprint, {prior}", 200, 50, name, math.nan, math.nan, 10_000, *values)


def coins() -> Iterator[Row]:
    """The floor of all learners and Hedge."""
    for size in (10, 100, 1000):
        for best_loss in (0.0, 1.0, 10.0, 100.0):
            foe = SmallLossFloor(best_loss=best_loss, num_experts=size, horizon=1000)
            tuned = dpe.make_learner("hedge", learning_rate="small_loss", best_loss=max(best_loss, 1.0))
            yield cell("coins", foe, f"small_loss_floor, L* = {best_loss:g}", tuned, "hedge", (math.inf, 0.0), 200)


# -- files -------------------------------------------------------------------------------------------------------------


def write(rows: list[Row]) -> None:
    """Write all rows."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "floors.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(Row._fields)
        for row in rows:
            table.writerow([f"{value:.5g}" if isinstance(value, float) else value for value in row])


def read() -> list[Row]:
    """Read what was written."""
    kinds = (str, str, int, int, str, float, float, int, float, float, float, float, float)
    with (RESULTS / "floors.csv").open(encoding="utf-8", newline="") as file:
        return [
            Row(*(kind(value) for kind, value in zip(kinds, line, strict=True))) for line in list(csv.reader(file))[1:]
        ]


def number(value: float, digits: int = 1) -> str:
    """Print a number, "none" for NaN."""
    return "none" if math.isnan(value) else f"{value:.{digits}f}"


def shown(row: Row) -> str:
    """Print a mean and its standard error."""
    return f"{row.regret:.1f} ± {row.standard_error:.1f}"


def report(rows: list[Row]) -> str:
    """The results in Markdown."""
    private = [row for row in rows if row.study in ("floors", "curve") and row.learner != "hedge"]
    below = [row for row in private if row.regret + 3.0 * row.standard_error < row.floor]
    above = [row for row in private if row.regret - 3.0 * row.standard_error > row.bound]
    bounded = [row for row in private if not math.isnan(row.bound)]
    floored = [row for row in private if not math.isnan(row.floor)]
    closest = min(floored, key=lambda row: row.regret / row.floor)
    lines = [
        "# Floors of private learners",
        "",
        "From `benchmarks/floors.py`. Mean regret ± standard error over independent games. The floor is what every",
        "learner with the learner's claim of privacy loses on average against this adversary, the bound what the",
        "learner certifies against adaptive adversaries (none: nothing is proved). Regret is a non-private diagnostic.",
        "",
        "## Floor, measured, bound",
        "",
        f"{len(private)} cells of private learners, {len(floored)} with a floor and {len(bounded)} with a bound. In "
        f"{len(below)} the mean regret lies below the floor by more than three standard errors, in {len(above)} above "
        f"the bound. The closest to its floor: {closest.learner} against {closest.adversary} at ε = "
        f"{closest.epsilon:g}, δ = {closest.delta:g}: {shown(closest)} against {closest.floor:.1f}.",
        "",
        "Floors of pure privacy and with δ = 1e-6, the least of the private learners' mean regrets, the least "
        "certified bound, and non-private Hedge:",
        "",
        "| adversary | N | T | ε | δ | floor | least measured | least bound | Hedge | Hedge below the floor |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = list(
        dict.fromkeys(
            (row.adversary, row.num_experts, row.horizon, row.epsilon) for row in rows if row.study == "floors"
        )
    )
    for key in keys:
        here = [
            row
            for row in rows
            if row.study == "floors" and (row.adversary, row.num_experts, row.horizon, row.epsilon) == key
        ]
        free = next(row for row in here if row.learner == "hedge")
        for delta in (0.0, 1e-6):
            cells = [row for row in here if row.delta == delta and row.learner != "hedge"]
            least = min(cells, key=lambda row: row.regret)
            floor = min((row.floor for row in cells if not math.isnan(row.floor)), default=math.nan)
            bound = min((row.bound for row in cells if not math.isnan(row.bound)), default=math.nan)
            beats = "yes" if free.regret + 3.0 * free.standard_error < floor else "no"
            lines.append(
                f"| {key[0]} | {key[1]} | {key[2]} | {key[3]:g} | {delta:g} | {number(floor)} | "
                f"{shown(least)} ({least.learner}) | {number(bound)} | {shown(free)} | {beats} |"
            )
    lines += ["", "## Small losses against adaptive and oblivious sequences", ""]
    lines += [
        "T = 600, N = 1200, δ = 1e-6, L\\* = 0 throughout. Replayed: the losses of games of hidden signs against",
        "",
    ]
    lines[-2] += " the same learner, met again with other coins."
    lines += ["| learner | ε | hidden signs | the same losses replayed | one perfect expert |", "|---|---|---|---|---|"]
    for name in SEPARATED:
        for epsilon in EPSILONS[:1] if name == "hedge" else EPSILONS:
            found = {
                row.adversary: row
                for row in rows
                if row.study == "separation" and (row.learner, row.epsilon) == (name, epsilon)
            }
            cells = " | ".join(shown(found[foe]) for foe in ("hidden_sign", "hidden_sign replayed", "planted"))
            lines.append(f"| {name} | {'none' if name == 'hedge' else f'{epsilon:g}'} | {cells} |")
    lines += ["", "## The fingerprinting identity", ""]
    lines += ["T = 50, N = 200, 10000 games; the last column is the difference in its standard errors.", ""]
    lines += ["| prior | learner | C | what it equals in expectation | difference |", "|---|---|---|---|---|"]
    for row in (row for row in rows if row.study == "identity"):
        ratio = (row.regret - row.bound) / row.standard_error
        prior = row.adversary.partition(", ")[2]
        lines.append(f"| {prior} | {row.learner} | {row.regret:.2f} | {row.bound:.2f} | {ratio:+.1f} |")
    lines += ["", "## The floor without privacy", "", "T = 1000, 200 games; Hedge is told L\\*.", ""]
    lines += ["| N | L\\* | floor | floor/(√(L\\* ln N) + ln N) | Hedge | mean L\\* |", "|---|---|---|---|---|---|"]
    for row in (row for row in rows if row.study == "coins"):
        asked = float(row.adversary.rpartition(" ")[2])
        order = math.sqrt(asked * math.log(row.num_experts)) + math.log(row.num_experts)
        lines.append(
            f"| {row.num_experts} | {asked:g} | {row.floor:.2f} | {row.floor / order:.2f} | {shown(row)} | "
            f"{row.best_loss:.2f} |"
        )
    return "\n".join(lines) + "\n"


def picture(rows: list[Row]) -> None:
    """Floor against measured regret under hidden signs; the separation."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
    cells = [row for row in rows if row.study == "curve" and row.learner != "hedge"]
    foe = HiddenSign(horizon=100)
    grid = np.geomspace(0.01, 2.0, 120)
    left.fill_between(
        grid,
        [foe.regret_floor(foe.game, float(epsilon)) for epsilon in grid],
        color="tab:red",
        alpha=0.25,
        lw=0,
        label="no ε-private learner gets here",
    )
    left.plot(
        [row.epsilon for row in cells], [row.regret for row in cells], ".", color="0.65", label="private learners"
    )
    epsilons = sorted({row.epsilon for row in cells})
    least = [min(row.regret for row in cells if row.epsilon == epsilon) for epsilon in epsilons]
    left.plot(epsilons, least, "o-", color="tab:blue", label="best of them")
    free = next(row for row in rows if row.study == "curve" and row.learner == "hedge")
    left.axhline(free.regret, color="tab:green", ls="--", label="Hedge, not private")
    left.set(
        xscale="log",
        xlabel="ε",
        ylabel="mean regret",
        ylim=(0, 103),
        title="Hidden signs: T = 100, N = 200, δ = 0, L* = 0",
    )
    left.legend(loc="center right", fontsize=8, bbox_to_anchor=(1.0, 0.38))
    epsilon = 3.0
    foes = {
        "hidden_sign": "hidden signs (adaptive)",
        "hidden_sign replayed": "the same losses, replayed",
        "planted": "one perfect expert",
    }
    for place, (adversary, label) in enumerate(foes.items()):
        found = {
            row.learner: row
            for row in rows
            if row.study == "separation" and row.epsilon == epsilon and row.adversary == adversary
        }
        heights = [max(found[name].regret, 0.0) for name in SEPARATED]
        errors = [found[name].standard_error for name in SEPARATED]
        where = np.arange(len(SEPARATED)) + 0.27 * (place - 1)
        right.bar(where, heights, 0.25, yerr=errors, label=label, color=("tab:red", "tab:blue", "tab:cyan")[place])
    names = [name if name != "hedge" else "hedge\n(not private)" for name in SEPARATED]
    right.set_xticks(np.arange(len(SEPARATED)), names, fontsize=8)
    right.set(ylabel="mean regret", title=f"L* = 0: T = 600, N = 1200, ε = {epsilon:g}, δ = 1e-6")
    right.legend(fontsize=8)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="play nothing")
    parser.add_argument("--again", nargs="*", metavar="STUDY", help="play these studies only, and keep the others")
    arguments = parser.parse_args()
    studies = (identity, coins, curve, separation, floors)
    if not arguments.report:
        rows = [] if arguments.again is None else read()
        for study in studies:
            if arguments.again is not None and study.__name__ not in arguments.again:
                continue
            began = time.perf_counter()
            rows = [row for row in rows if row.study != study.__name__] + list(study())
            write(rows)
            print(f"{study.__name__}: {time.perf_counter() - began:.0f} s", flush=True)
    rows = read()
    (RESULTS / "floors.md").write_text(report(rows), encoding="utf-8")
    picture(rows)


if __name__ == "__main__":
    main()
