"""Judging: what a learner's privacy loss is at least, beside what it claims."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dp_experts_env as dpe
from dp_experts_env.cli.options import (
    Delta,
    Epsilon,
    Experts,
    Horizon,
    Seed,
    Set,
    assignments,
    build_learner,
    check_replaceable,
    make_console,
    once,
    writing,
)
from dp_experts_env.privacy.audit import STATISTICS, Audit, load_audit
from dp_experts_env.privacy.game import VIEWS
from dp_experts_env.spec import ArgumentError, check_name
from dp_experts_env.study.survey import SMALL, STAGES, Row, hunt, survey

HEADER = (
    "learner",
    "pair",
    "view",
    "claimed_epsilon",
    "delta",
    "exact_epsilon_small_game",
    "epsilon_lower",
    "epsilon_limit",
    "confidence",
    "num_games",
    "verdict",
    "seed",
    "event",
    "learner_parameters",
    "pair_parameters",
    "claim_source",
)
"""First line of the CSV file that ``audit`` writes, by which a later run knows it as its own."""


def audit_learner(
    learner: Annotated[
        str | None, typer.Argument(help="Name of the learner; or --all, --leaky, --replay.", show_default=False)
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--pair", help="Only this pair; repeat for several.", show_default="all in its model"),
    ] = None,
    games: Annotated[int, typer.Option("-G", "--games", help="Games in each world, fixed beforehand.")] = 10_000,
    view: Annotated[
        str, typer.Option(help='What the adversary sees: "choices", "transcript" (noted coins as well) or "both".')
    ] = "both",
    confidence: Annotated[float, typer.Option(help="Probability that all bounds of the table are right.")] = 0.95,
    everybody: Annotated[
        bool, typer.Option("--all", help="Every private learner against every pair within its claim.")
    ] = False,
    leaky: Annotated[
        bool, typer.Option("--leaky", help="The positive controls: at how many games is each caught, and how.")
    ] = False,
    num_experts: Experts = None,
    horizon: Horizon = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    assigned: Set = None,
    pair_assigned: Annotated[
        list[str] | None,
        typer.Option(
            "--pair-set",
            metavar="KEY=VALUE",
            help="A keyword of the pair, instead of a pilot among its variants; repeat for several.",
            show_default=False,
        ),
    ] = None,
    at_delta: Annotated[
        float | None, typer.Option(help="Audit epsilon at this delta.", show_default="that of the claim")
    ] = None,
    statistic: Annotated[str, typer.Option(help=f"How the event is found: {', '.join(STATISTICS)}.")] = "auto",
    exact: Annotated[
        bool, typer.Option(help=f"Compute exact privacy at N={SMALL[0]}, T={SMALL[1]} where that can be done.")
    ] = True,
    override: Annotated[
        bool, typer.Option("--override", help="Try pairs that the claim does not cover; then nothing is claimed.")
    ] = False,
    seed: Seed = 0,
    workers: Annotated[int, typer.Option(help="Processes; results do not depend on it.")] = 1,
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Count the event of this saved audit in fresh games, of seed --seed.",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="JSON of the most telling audit to write.", dir_okay=False, show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="PNG of its trade-off to write.", dir_okay=False, show_default=False),
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="CSV to write, one row an audit.", dir_okay=False, show_default=False)
    ] = None,
) -> None:
    """Play the two-world privacy game: claimed epsilon beside what an adversary can show.

    A claim is an accounted upper bound, an audit a lower bound at a stated confidence. The exit code is 1 if a claim is
    refuted. That none is does not prove privacy: "at most" is what so many games could have shown.
    """
    files = ((plot, b"dp-experts-env"), (table, ",".join(HEADER).encode()), (save, b'"format": "dp-experts-audit"'))
    for file, mark in files:
        if file is not None:
            check_replaceable(file, mark)
    if sum((learner is not None, everybody, leaky, replay is not None)) != 1:
        raise ArgumentError("audit: expected one of a learner's name, --all, --leaky and --replay")
    check_name("view", view, (*VIEWS, "both"))
    views = VIEWS if view == "both" else (view,)
    console = make_console(width=120)
    if replay is not None:
        found = load_audit(replay).replay(seed, workers=workers)
        _finish(console, [Row(found.learner, found.sides[0], found.pair, found.view, found)], save, plot, table)
        return
    if learner is None and (assigned or epsilon is not None or delta is not None):
        raise ArgumentError("--set, --epsilon and --delta are for one learner")
    if learner is not None:
        keywords = assignments("--set", assigned, dpe.learner_class(learner))
        players = {learner: build_learner(learner, epsilon, delta, keywords)}
    else:
        names = dpe.learners(leaky=True) if leaky else dpe.learners(private=True)
        players = {name: dpe.make_learner(name) for name in names}
    size = {"num_experts": num_experts, "horizon": horizon}
    foes = _variants(
        pairs or dpe.pairs(), pair_assigned, {key: value for key, value in size.items() if value is not None}
    )
    options = {"statistic": statistic, "override": override, "workers": workers, "delta": at_delta}
    rows: Iterable[Row]
    if leaky:
        stages = [stage for stage in STAGES if stage < games] + [games]
        # A transcript shows more than the choices, so it is tried first.
        rows = hunt(players, foes, stages=stages, views=views[::-1], confidence=confidence, seed=seed, **options)
    else:
        rows = survey(players, foes, games, views=views, confidence=confidence, seed=seed, exact=exact, **options)
    found_rows, stopped = _followed(rows, console)
    _finish(console, found_rows, save, plot, table)
    if stopped:
        Console(stderr=True).print(
            f"stopped; the {len(found_rows)} rows above were finished, the others were not tried"
        )
        raise typer.Exit(130)


def _variants(names: Sequence[str], assigned: list[str] | None, size: dict[str, Any]) -> dict[str, list[dpe.Pair]]:
    found: dict[str, list[dpe.Pair]] = {}
    for name in names:
        cls = dpe.pair_class(name)
        keywords = assignments("--pair-set", assigned, cls)
        for key in size:
            once(keywords, key, "--pair-set")
        given = [keywords] if assigned else [{}, *cls.examples]
        variants: dict[str, dpe.Pair] = {}
        for parameters in given:
            try:
                pair = dpe.make_pair(name, **{**parameters, **size})
            except ArgumentError:
                # An example that does not fit the size asked for is no variant of the game; the plain pair must fit.
                if parameters is given[0]:
                    raise
                continue
            variants.setdefault(repr(pair), pair)
        sizes = {(pair.num_experts, pair.horizon) for pair in variants.values()}
        first = next(iter(variants.values()))
        # Variants of other sizes are for tests; a pilot compares those of one.
        found[name] = [
            pair
            for pair in variants.values()
            if len(sizes) == 1 or (pair.num_experts, pair.horizon) == (first.num_experts, first.horizon)
        ]
    return found


def _followed(rows: Iterable[Row], console: Console) -> tuple[list[Row], bool]:
    """Collect the rows, saying on the screen which one is being played, and whether they were cut short."""
    found, stopped = [], False
    with console.status("playing") as status:
        try:
            for row in rows:
                found.append(row)
                status.update(f"{len(found)} audits, last {row.name} against {row.pair}")
        except KeyboardInterrupt:
            if not found:
                raise
            stopped = True
    return found, stopped


def _finish(console: Console, rows: list[Row], save: Path | None, plot: Path | None, table: Path | None) -> None:
    from dp_experts_env.study.report import number, png, trade_off_figure

    experts, horizon = SMALL
    played = dict.fromkeys(f"N={row.audit.spec.num_experts}, T={row.audit.spec.horizon}" for row in rows if row.audit)
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    if played:
        grid.title = f"audited games: {' and '.join(played)}"
        grid.title_justify, grid.title_style = "left", "bold"
    for name, justify in (
        ("learner", "left"),
        ("pair", "left"),
        ("view", "left"),
        ("claimed ε, δ", "left"),
        (f"exact ε\nN={experts}, T={horizon}", "right"),
        ("audited ε\nat least", "right"),
        ("at\nmost", "right"),
        ("games\na world", "right"),
        ("verdict", "left"),
    ):
        grid.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        found = row.audit
        if found is None:
            grid.add_row(row.name, row.pair, "", "", number(row.exact, ""), "", "", "", "not tried", style="dim")
            continue
        claim = "none" if found.claimed is None else f"{found.claimed.epsilon:.4g}, {found.claimed.delta:g}"
        grid.add_row(
            row.name,
            row.pair,
            found.view,
            claim,
            "" if math.isnan(row.exact) else f"{row.exact:.3f}",
            f"{found.epsilon_lower:.3f}",
            f"{found.epsilon_limit:.2f}",
            f"{found.num_games}",
            found.verdict,
            style="red" if found.violated else None,
        )
    console.print(grid)
    console.print()
    audits = [row.audit for row in rows if row.audit is not None]
    for reason in dict.fromkeys(row.why_not for row in rows if row.why_not):
        console.print(Text(f"not tried: {reason}", style="dim"))
    claims: dict[str, list[str]] = {}
    for row in rows:
        if row.audit is not None and row.audit.claimed is not None:
            claims.setdefault(_source(row.audit), []).append(row.name)
    for claim, names in claims.items():
        console.print(Text(f"claim of {', '.join(dict.fromkeys(names))}: {claim}", style="dim"))
    if audits:
        levels = sorted({found.confidence for found in audits})
        level = f"{levels[0]:.6g}" + (f" to {levels[-1]:.6g}" if len(levels) > 1 else "")
        console.print(
            Text(
                f"claimed: an accounted upper bound. audited: a lower bound, each at confidence {level}, so that all "
                "hold together at that of the table. Consistent is not proved: at most is all that so many games could "
                "have shown.",
                style="dim",
            )
        )
        refuted = sum(found.violated for found in audits)
        style = "bold" if refuted else None
        console.print(f"refuted: {refuted} of {len(audits)}", style=style)
    if table is not None:
        with writing(table):
            table.write_text(_csv(rows), encoding="utf-8")
    if audits:
        telling = max(audits, key=_telling)
        if len(audits) == 1 or telling.violated:
            console.print(Text(f"witness: {telling}"))
        if save is not None:
            with writing(save):
                telling.save(save)
        if plot is not None:
            with writing(plot):
                plot.write_bytes(png(trade_off_figure(telling)))
    if any(found.violated for found in audits):
        raise typer.Exit(1)


def _source(found: Audit | None) -> str:
    assert found is not None
    assert found.claimed is not None
    return f"{found.claimed}; {found.claimed.source}"


def _telling(found: Audit) -> tuple[bool, float]:
    claim = found.claimed
    scale = claim.epsilon if claim is not None and 0.0 < claim.epsilon < math.inf else 1.0
    return found.violated, found.epsilon_lower / scale


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADER)
    for row in rows:
        found = row.audit
        exact = "" if math.isnan(row.exact) else row.exact
        if found is None:
            values = {"learner": row.name, "pair": row.pair, "view": row.view, "verdict": f"not tried: {row.why_not}"}
            lines.writerow([values.get(key, "") for key in HEADER])
            continue
        claim = found.claimed
        lines.writerow(
            (
                row.name,
                row.pair,
                found.view,
                "" if claim is None else claim.epsilon,
                found.delta,
                exact,
                found.epsilon_lower,
                found.epsilon_limit,
                found.confidence,
                found.num_games,
                found.verdict,
                found.seed,
                found.event,
                found.learner,
                found.pair,
                "" if claim is None else claim.source,
            )
        )
    return text.getvalue()
