"""Attacking: what a judge and an adversary that learned find, beside those written by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_experts_env as dpe
from dp_experts_env.cli.options import (
    Delta,
    Epsilon,
    Seed,
    Set,
    assignments,
    build_learner,
    check_replaceable,
    claimed,
    make_console,
    writing,
)

if TYPE_CHECKING:
    from dp_experts_env.rl import Attack

MARKS = {
    "judge.json": b'"format": "dp-experts-policy"',
    "adversary.json": b'"format": "dp-experts-policy"',
    "audit.json": b'"format": "dp-experts-audit"',
}
"""The records that ``attack --save`` writes, and by what a later run knows them as ours."""


def attack_learner(
    learner: Annotated[str, typer.Argument(help="Name of the learner.", show_default=False)],
    budget: Annotated[int, typer.Option(help="Rounds of training, of the judge and of the adversary each.")] = 100_000,
    games: Annotated[
        int, typer.Option("-G", "--games", help="Fresh games in each world of each audit, fixed beforehand.")
    ] = 20_000,
    regret_games: Annotated[int, typer.Option(help="Fresh games against each opponent.")] = 200,
    num_experts: Annotated[int, typer.Option("-N", "--num-experts", help="Number of experts.")] = 4,
    horizon: Annotated[int, typer.Option("-T", "--horizon", help="Number of rounds of the privacy game.")] = 20,
    regret_horizon: Annotated[int, typer.Option(help="Number of rounds of the games of regret.")] = 100,
    confidence: Annotated[float, typer.Option(help="Probability that all bounds of the table are right.")] = 0.95,
    view: Annotated[
        str, typer.Option(help='What the audits see: "choices" or "transcript" (noted coins as well).')
    ] = "choices",
    pairs: Annotated[
        list[str] | None,
        typer.Option("--pair", help="Only this pair written by hand; repeat for several.", show_default="all"),
    ] = None,
    adversaries: Annotated[
        list[str] | None,
        typer.Option(
            "--adversary", help="Only this opponent written by hand; repeat for several.", show_default="many"
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    assigned: Set = None,
    at_delta: Annotated[
        float | None, typer.Option(help="Audit epsilon at this delta.", show_default="that of the claim")
    ] = None,
    override: Annotated[
        bool, typer.Option("--override", help="Try pairs that the claim does not cover; then nothing is claimed.")
    ] = False,
    seed: Seed = 0,
    workers: Annotated[int, typer.Option(help="Processes; results do not depend on it.")] = 1,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the judge, the adversary (model.zip and how it was made, .json) and the judge's audit.",
            file_okay=False,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a judge and an adversary against a learner, then measure both in fresh games.

    Training games never count. The learned judge is audited like the pairs written by hand, the learned adversary
    plays like the opponents written by hand, all in equally many games. The exit code is 1 if a claim is refuted. That
    learning found nothing does not prove that there is nothing. Needs the extra rl.
    """
    from dp_experts_env.rl import attack

    if save is not None:
        for name, mark in MARKS.items():
            check_replaceable(save / name, mark)
    player = build_learner(learner, epsilon, delta, assignments("--set", assigned, dpe.learner_class(learner)))
    found = attack(
        player,
        budget,
        num_experts=num_experts,
        horizon=horizon,
        regret_horizon=regret_horizon,
        num_games=games,
        regret_games=regret_games,
        confidence=confidence,
        delta=at_delta,
        view=view,
        against=pairs,
        opponents=adversaries,
        override=override,
        seed=seed,
        workers=workers,
    )
    console = make_console()
    _show_privacy(console, found)
    console.print()
    _show_regret(console, found)
    if save is not None:
        with writing(save / "adversary.json"):
            found.adversary.save(save / "adversary")
            if found.judge is not None:
                found.judge.save(save / "judge")
            learned = found.leakage[0].audit
            if learned is not None:
                learned.save(save / "audit.json")
    if found.violated:
        raise typer.Exit(1)


def _show_privacy(console: Console, found: Attack) -> None:
    grid = _grid(
        ("privacy", "left"),
        ("claimed ε, δ", "left"),
        ("audited ε\nat least", "right"),
        ("at\nmost", "right"),
        ("games\na world", "right"),
        ("verdict", "left"),
    )
    for line in found.leakage:
        shown = line.audit
        if shown is None:
            grid.add_row(line.name, "", "", "", "", "not tried", style="dim")
            continue
        grid.add_row(
            line.name,
            claimed(shown.claimed),
            f"{shown.epsilon_lower:.3f}",
            f"{shown.epsilon_limit:.2f}",
            f"{shown.num_games}",
            shown.verdict,
            style="red" if shown.violated else None,
        )
    console.print(Text(found.learner))
    console.print(grid)
    for reason in dict.fromkeys(line.why_not for line in found.leakage if line.why_not):
        console.print(Text(f"not tried: {reason}", style="dim"))
    if found.judge is not None:
        console.print(
            _compared(
                "leakage",
                f"an ε of at least {found.learned_epsilon:.3f}",
                f"{found.written_epsilon:.3f}",
                found.learned_epsilon > found.written_epsilon,
            )
        )
        console.print(Text(f"the judge trained for {found.judge.rounds} rounds, none of which count", style="dim"))


def _show_regret(console: Console, found: Attack) -> None:
    grid = _grid(
        ("regret", "left"),
        ("kind", "left"),
        ("mean", "right"),
        ("± s.e.", "right"),
        ("bound", "right"),
        ("L*", "right"),
    )
    for name, match in found.regret:
        bound = match.regret_bound
        grid.add_row(
            name,
            match.kind,
            f"{match.mean_regret:.2f}",
            "" if math.isnan(match.standard_error) else f"{match.standard_error:.2f}",
            "none" if math.isnan(bound) else f"{bound:.1f}",
            f"{match.best_loss.mean():.1f}",
        )
    console.print(grid)
    spec = found.regret[0][1].spec
    console.print(
        _compared(
            f"regret in {spec.horizon} rounds",
            f"{found.learned_regret:.2f}",
            f"{found.written_regret:.2f}",
            found.learned_regret > found.written_regret,
        )
    )
    console.print(Text(f"the adversary trained for {found.adversary.rounds} rounds, none of which count", style="dim"))


def _compared(what: str, learned: str, written: str, more: bool) -> Text:
    return Text(f"learning found {'more' if more else 'no more'} {what}: {learned}; the best written by hand {written}")


def _grid(*columns: tuple[str, str]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, justify in columns:
        grid.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return grid
