"""Playing: one match, or everybody against everybody."""

from __future__ import annotations

import csv
import io
import math
import time
from pathlib import Path
from typing import Annotated, Any

import joblib
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import dp_experts_env as dpe
from dp_experts_env.cli.options import (
    Delta,
    Epsilon,
    Experts,
    Games,
    Horizon,
    Seed,
    Set,
    Workers,
    assignments,
    build_learner,
    check_replaceable,
    make_console,
    once,
    writing,
)
from dp_experts_env.data import bundled
from dp_experts_env.play import Match, play
from dp_experts_env.spec import check_name
from dp_experts_env.study.tournament import Tournament, intervals, is_data, opponent, tournament

BENCH_ADVERSARIES = (
    "bernoulli",
    "planted",
    "alternating",
    "switching",
    "punish_last",
    "punish_leader",
    "foreseer",
    "smooth_threshold",
    "tumour",
    "temperature_2F",
    "rain",
)
"""The main job's opponents: stochastic, oblivious, adaptive, and three games on real data."""

BENCH: dict[str, Any] = {"num_experts": 10, "horizon": 1000, "num_games": 64}
"""Sizes of the main job."""

QUICK: dict[str, Any] = {"num_experts": 5, "horizon": 100, "num_games": 8}
"""Sizes of ``bench --quick``; recorded games are cut to this horizon as well."""

GAMES_HEADER = ("game", "regret", "learner_loss", "best_loss", "seed", "epsilon", "delta", "learner", "adversary")
"""First line of the CSV file that ``play`` writes, by which a later run knows it as its own."""


# -- one match ---------------------------------------------------------------------------------------------------------


def play_match(
    learner: Annotated[str, typer.Argument(help="Name of the learner.", show_default=False)],
    adversary: Annotated[
        str, typer.Argument(help="Name of the adversary or bundled game, or a loss file.", show_default=False)
    ],
    num_experts: Experts = None,
    horizon: Horizon = None,
    games: Games = 100,
    seed: Seed = 0,
    epsilon: Epsilon = None,
    delta: Delta = None,
    assigned: Set = None,
    adversary_assigned: Annotated[
        list[str] | None,
        typer.Option(
            "--adversary-set",
            metavar="KEY=VALUE",
            help="A keyword of the adversary; repeat for several.",
            show_default=False,
        ),
    ] = None,
    override: Annotated[
        bool, typer.Option("--override", help="Play on where the learner's guarantee does not cover the adversary.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; results do not depend on it.")] = 1,
    plot: Annotated[
        Path | None, typer.Option(help="PNG of the regret curve to write.", dir_okay=False, show_default=False)
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="CSV to write, one row a game.", dir_okay=False, show_default=False)
    ] = None,
) -> None:
    """Play one learner against one adversary and say what came of it."""
    for file, mark in ((plot, b"dp-experts-env"), (table, ",".join(GAMES_HEADER).encode())):
        if file is not None:
            check_replaceable(file, mark)
    player = build_learner(learner, epsilon, delta, assignments("--set", assigned, dpe.learner_class(learner)))
    name = "replay" if is_data(adversary) else check_name("adversary", adversary, (*dpe.adversaries(), *bundled()))
    keywords = assignments("--adversary-set", adversary_assigned, dpe.adversary_class(name))
    for option, size in (("num_experts", num_experts), ("horizon", horizon)):
        if size is not None:
            once(keywords, option, "--adversary-set")
            keywords[option] = size
    foe = opponent(adversary, **keywords)
    try:
        match = play(player, foe, games, seed=seed, override=override, workers=workers)
    except dpe.AdversaryModelError as error:
        raise dpe.AdversaryModelError(str(error).replace("override=True", "--override")) from error
    _print_match(match)
    if plot is not None:
        with writing(plot):
            plot.write_bytes(_plotted(match))
    if table is not None:
        with writing(table):
            table.write_text(_games_csv(match), encoding="utf-8")


def _print_match(match: Match) -> None:
    from dp_experts_env.study.report import games, number, plus_minus

    console = make_console()
    (mean,), _, (half,) = intervals(match.regret[:, None])
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    size = f"N={match.spec.num_experts}, T={match.spec.horizon}, {games(len(match.regret))}, seed {match.seed}"
    interval = " (95% interval of the mean)" if half is not None else ""
    for key, value in {
        "learner": match.learner,
        "adversary": f"{match.adversary}, {match.kind}",
        "size": size,
        "mean regret": plus_minus(mean, math.nan if half is None else half) + interval,
        "proved floor": number(match.regret_floor),
        "proved bound": number(match.regret_bound),
        "learner's loss": number(float(match.learner_loss.mean())),
        "best loss": number(float(match.best_loss.mean())),
        "privacy": match.privacy,
        "seconds": f"{match.seconds:.2f}",
    }.items():
        grid.add_row(key, Text(value))
    console.print(grid)
    if match.kind == "adaptive":
        console.print("Against an adaptive adversary this is not policy regret.", style="dim")


def _plotted(match: Match) -> bytes:
    from dp_experts_env.study.report import curve_figure, games, png

    means, _, halves = intervals(match.regret_curve)
    title = f"{match.learner}\nagainst {match.adversary}"
    mean = "one game" if len(match.regret) == 1 else f"mean of {games(len(match.regret))}, 95% interval"
    label = f"{mean}\nprivacy: {match.privacy}"
    half = np.array(halves, dtype=np.float64)
    return png(curve_figure(match.rounds, np.array(means), half, title, label, match.regret_bound))


def _games_csv(match: Match) -> str:
    claim = match.guarantee
    common = (
        match.seed,
        "" if claim is None else claim.epsilon,
        "" if claim is None else claim.delta,
        match.learner,
        match.adversary,
    )
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(GAMES_HEADER)
    losses = zip(match.regret.tolist(), match.learner_loss.tolist(), match.best_loss.tolist(), strict=True)
    rows.writerows((game, *values, *common) for game, values in enumerate(losses))
    return text.getvalue()


# -- all matches -------------------------------------------------------------------------------------------------------


def bench(
    out: Annotated[Path, typer.Option(help="Folder for the tables, the figures and the page.")] = Path("results/bench"),
    learners: Annotated[
        list[str] | None, typer.Option("--learner", help="Only this learner; repeat for several.", show_default="all")
    ] = None,
    adversaries: Annotated[
        list[str] | None,
        typer.Option(
            "--adversary",
            help="Only this adversary, bundled game or loss file; repeat for several.",
            show_default=f"{len(BENCH_ADVERSARIES)} of them",
        ),
    ] = None,
    epsilons: Annotated[
        list[float] | None,
        typer.Option("--epsilon", help="Privacy budget; repeat for several.", show_default="0.5, 1 and 4"),
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability of the learners that take one.")] = 1e-6,
    num_experts: Annotated[
        int | None,
        typer.Option("-N", "--num-experts", help="Number of experts.", show_default=str(BENCH["num_experts"])),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option("-T", "--horizon", help="Number of rounds.", show_default=str(BENCH["horizon"]))
    ] = None,
    games: Annotated[
        int | None, typer.Option("-G", "--games", help="Games a match.", show_default=str(BENCH["num_games"]))
    ] = None,
    seed: Seed = 0,
    workers: Workers = None,
    top: Annotated[
        int, typer.Option(help="Learners a budget to show on the screen; 0 for all. Files hold all of them.", min=0)
    ] = 5,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small games and one budget: a look at everything in seconds.")
    ] = False,
) -> None:
    """The main job: play every learner against the chosen adversaries, at several budgets.

    Shows mean regret with its 95% interval, best loss, proved bound and the ratio to non-private Hedge, and writes
    results.csv, curves.csv, figures and report.html. Recorded games are played whole. What was finished before in the
    same folder is not played again.
    """
    began = time.perf_counter()
    console = make_console()
    size = {**(QUICK if quick else BENCH)}
    given = {"num_experts": num_experts, "horizon": horizon, "num_games": games}
    size.update({key: value for key, value in given.items() if value is not None})
    names = adversaries or BENCH_ADVERSARIES
    foes: dict[str, Any] = {name: name for name in names}
    if quick:
        foes.update({name: _cut(name, size["horizon"]) for name in names if is_data(name)})
    budgets = epsilons or ((1.0,) if quick else (0.5, 1.0, 4.0))
    try:
        result = tournament(
            learners or dpe.learners(),
            foes,
            epsilons=budgets,
            seed=seed,
            out=out,
            workers=joblib.cpu_count() if workers is None else workers,
            delta=delta,
            **size,
        )
    except KeyboardInterrupt:
        Console(stderr=True).print(f"stopped; the same command goes on from the finished matches in {escape(str(out))}")
        raise typer.Exit(130) from None
    _print_bench(console, result, top or None)
    from dp_experts_env.study import report

    with writing(out / "report.html"):
        paths = report.write(result.table, result.curves, result.run, out)
    matches, reused = len(result.table), result.run["reused"]
    console.print(
        Text(
            f"{matches} matches in {time.perf_counter() - began:.0f} s"
            + (f", {reused} of them finished before" if reused else "")
            + f"; written to {out}: results.csv, curves.csv, {', '.join(path.name for path in paths)}"
        )
    )


def _print_bench(console: Console, result: Tournament, top: int | None) -> None:
    from dp_experts_env.study import report

    for table in report.screen(result.table, top):
        console.print(table)
        console.print()
    for heading in ("What is private", "The best of many runs", "Regret"):
        console.print(Text.assemble((f"{heading}. ", "bold"), report.NOTES[heading]), style="dim")
    console.print()


def _cut(name: str, horizon: int) -> dpe.Adversary:
    whole = opponent(name)
    return opponent(name, horizon=min(horizon, whole.horizon))
