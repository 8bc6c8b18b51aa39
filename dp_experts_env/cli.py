"""The command line ``dp-experts``: look around, play one match, play them all."""

from __future__ import annotations

import ast
import csv
import inspect
import io
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import joblib
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import dp_experts_env as dpe
from dp_experts_env.data import bundled, expert_names
from dp_experts_env.play import Match, play
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import ADVERSARY_MODELS, ArgumentError, GameError, GameSpec, Guarantee, check_name
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

EPILOG = "Regret, best loss and seeds are non-private diagnostics. A seed makes a command repeat itself exactly."

app = typer.Typer(
    name="dp-experts",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)

Experts = Annotated[int | None, typer.Option("-N", "--num-experts", help="Number of experts.", show_default=False)]
Horizon = Annotated[int | None, typer.Option("-T", "--horizon", help="Number of rounds.", show_default=False)]
Games = Annotated[int, typer.Option("-G", "--games", help="Number of independent games.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness, an integer >= 0.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Privacy budget of a learner that takes one, > 0.", show_default=False)
]
Delta = Annotated[
    float | None, typer.Option(help="Failure probability of a learner that takes one.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A keyword of the learner; repeat for several.", show_default=False
    ),
]
Workers = Annotated[int | None, typer.Option(help="Processes; results do not depend on it.", show_default="one a core")]


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Private online learners meet their opponents: play, measure and compare.

    Start with [bold]dp-experts list[/bold], then [bold]dp-experts play private_hedge bernoulli[/bold];
    [bold]dp-experts bench[/bold] plays every learner against the chosen opponents.
    """


# -- looking around ----------------------------------------------------------------------------------------------------


@app.command("list")
def list_names() -> None:
    """List the learners, the adversaries and the bundled data, a line each."""
    console = _console()
    learners = _listing("Learners", "privacy")
    for name in (*dpe.learners(), *dpe.learners(leaky=True)):
        cls = dpe.learner_class(name)
        claim = cls().guarantee(GameSpec(BENCH["num_experts"], BENCH["horizon"]))
        kind = "leaky" if cls.leaky else "none" if _claim(claim) == "none" else "private"
        learners.add_row(name, kind, _first_line(cls))
    console.print(learners)
    console.print()
    adversaries = _listing("Adversaries", "kind")
    for name in dpe.adversaries():
        adversary = dpe.adversary_class(name)
        adversaries.add_row(name, adversary().kind, _first_line(adversary))
    console.print(adversaries)
    console.print()
    data = _listing("Bundled data, replayed as adversaries", "rounds x experts", "best expert")
    for name in bundled():
        losses = dpe.load_losses(name)
        best = losses.sum(0)
        data.add_row(
            name,
            f"{losses.shape[0]} x {losses.shape[1]}",
            f"{int(best.argmin())} loses {best.min():g}: {expert_names(name)[int(best.argmin())]}",
        )
    console.print(data)
    console.print()
    console.print("dp-experts show NAME says more of any of them.", style="dim")


def _listing(title: str, second: str, third: str = "what it does") -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("name", no_wrap=True, style="cyan")
    table.add_column(second, no_wrap=True)
    table.add_column(third, overflow="fold")
    return table


def _first_line(cls: type[Any]) -> Text:
    return Text(_plain((cls.__doc__ or "").strip().partition("\n")[0]))


def _plain(text: str) -> str:
    """Return text without the markup of docstrings."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?([^`]*)`", r"\1", text).replace("`", "")


def _print_docstring(console: Console, cls: type[Any]) -> None:
    """Print a docstring with its lines filled anew to the width of the screen; items hang by their indent."""
    indent, hanging, words = 0, 0, ""

    def flush() -> None:
        if words:
            console.print(Padding(Text(_plain(words.lstrip("# "))), (0, 0, 0, indent), expand=False))

    for line in (inspect.getdoc(cls) or "(no description)").splitlines():
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        begins = re.match(r"- |#|\*{0,2}\w+: |\w+:$", text)
        if words and text and not begins and depth == hanging:
            words += " " + text
            continue
        flush()
        if not text:
            console.print()
        indent, words = depth, text
        hanging = depth + (2 if text.startswith("- ") else 4) if begins else depth
    flush()


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A learner, an adversary or a bundled game.", show_default=False)],
    num_experts: Annotated[int, typer.Option("-N", "--num-experts", help="Size of the game to state claims for.")] = 10,
    horizon: Annotated[int, typer.Option("-T", "--horizon", help="Rounds of the game to state claims for.")] = 1000,
    epsilon: Epsilon = None,
    delta: Delta = None,
    assigned: Set = None,
) -> None:
    """Show the description, the parameters, and what a learner claims in a game of a stated size."""
    console = _console()
    learners = (*dpe.learners(), *dpe.learners(leaky=True))
    check_name("name", name, (*learners, *dpe.adversaries(), *bundled()))
    if name in bundled():
        _show_data(console, name)
        return
    cls: type[Any] = dpe.learner_class(name) if name in learners else dpe.adversary_class(name)
    keywords = _assignments("--set", assigned, cls)
    player: Any
    if name in learners:
        player, what, spec = _learner(name, epsilon, delta, keywords), "learner", GameSpec(num_experts, horizon)
    else:
        if epsilon is not None or delta is not None:
            raise ArgumentError(f"--epsilon and --delta are for learners, and {name!r} is an adversary")
        player, what = dpe.make_adversary(name, **keywords), "adversary"
    console.print(Text.assemble((name, "bold cyan"), f"  {what}, {cls.__module__}.{cls.__qualname__}"))
    console.print()
    _print_docstring(console, cls)
    console.print()
    _show_parameters(console, cls)
    if what == "learner":
        _show_claims(console, player, spec)
    else:
        console.print(f"kind            {player.kind}")
        console.print(Text(f'environment     gymnasium.make("{dpe.env_id(name)}")'))


def _show_data(console: Console, name: str) -> None:
    losses = dpe.load_losses(name)
    totals = losses.sum(0)
    best = int(totals.argmin())
    console.print(Text.assemble((name, "bold cyan"), "  bundled data, replayed as an oblivious adversary"))
    console.print()
    console.print(f"rounds T        {losses.shape[0]}")
    console.print(f"experts N       {losses.shape[1]}, ids 0 to {losses.shape[1] - 1}")
    console.print(Text(f"best loss L*    {totals.min():g}, expert {best}: {expert_names(name)[best]}"))
    rounds = (
        "one patient; a neighbour is one patient's data replaced"
        if name.startswith("tumour")
        else "one observation; it enters the forecasts of later rounds too, so that replacing a\n"
        "                round (a neighbour) is not replacing an observation"
    )
    console.print(f"a round is      {rounds}")
    console.print(Text(f'losses          dpe.load_losses("{name}")'))


def _show_parameters(console: Console, cls: type[Any]) -> None:
    table = Table(title="Parameters", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("default", overflow="fold")
    for name, parameter in _parameters(cls).items():
        default = "required" if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        table.add_row(name, Text(default))
    console.print(table if table.row_count else Text("no parameters"))
    console.print()


def _show_claims(console: Console, learner: dpe.Learner, spec: GameSpec) -> None:
    console.print(Text(f"In a game of N={spec.num_experts}, T={spec.horizon}, {learner!r} claims", style="bold"))
    guarantee = learner.guarantee(spec)
    console.print(Text(f"privacy         {_claim(guarantee)}"))
    if guarantee is not None and guarantee.source:
        console.print(Text(f"                {guarantee.source}"))
    if learner.leaky:
        console.print("                a positive control: it knowingly violates this", style="red")
    best_losses = sorted({0.0, float(round(math.sqrt(spec.horizon))), spec.horizon / 4})
    table = Table(title="expected regret at most", title_justify="left", title_style="", box=None, pad_edge=False)
    table.add_column("against")
    for best_loss in best_losses:
        table.add_column(f"L*={best_loss:g}", justify="right")
    from dp_experts_env.study.report import number

    for model in ADVERSARY_MODELS:
        table.add_row(model, *(number(learner.regret_bound(spec, best_loss, model)) for best_loss in best_losses))
    console.print(table)


@app.command()
def recommend(
    num_experts: Annotated[int, typer.Option("-N", "--num-experts", help="Number of experts.")] = 10,
    horizon: Annotated[int, typer.Option("-T", "--horizon", help="Number of rounds.")] = 1000,
    epsilon: Annotated[float, typer.Option(help="Privacy budget, > 0.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Failure probability, in [0, 1).")] = 1e-6,
    best_loss: Annotated[
        float | None,
        typer.Option(help="A public bound on the best expert's total loss, if there is one.", show_default=False),
    ] = None,
    by: Annotated[
        str, typer.Option(help='"simulated" regret on the public suite, or "certified" bound.')
    ] = "simulated",
) -> None:
    """Say which private learner suits a game of this size and a budget, and why.

    Looks at public sizes and the budget alone. The learner "auto" plays what is recommended here.
    """
    from dp_experts_env.study.report import number

    auto: Any = dpe.make_learner("auto", epsilon=epsilon, delta=delta, best_loss=best_loss, by=by)
    spec = GameSpec(num_experts, horizon)
    choice = auto.choice(spec)
    console = _console()
    promise = "" if best_loss is None else f", best loss at most {best_loss:g}"
    title = f"T={horizon}, N={num_experts}, epsilon={epsilon:g}, delta={delta:g}{promise}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("learner", no_wrap=True, style="cyan")
    table.add_column("simulated ratio", justify="right")
    table.add_column("worst regret", justify="right")
    table.add_column("on family")
    table.add_column("certified bound", justify="right")
    table.add_column("")
    for row in auto.candidates(spec):
        dropped = math.isnan(row.ratio)
        table.add_row(
            row.name,
            number(row.ratio, "dropped"),
            number(row.regret) + (" or more" if dropped else ""),
            row.family,
            number(row.regret_bound),
            "picked" if row.name == choice.name else "",
            style="bold" if row.name == choice.name else "dim" if dropped else None,
        )
    console.print(table)
    console.print()
    console.print(Text.assemble(("pick    ", "bold"), f"{auto.learner(spec)!r}"))
    console.print(Text.assemble(("why     ", "bold"), choice.why))
    console.print(
        Text.assemble(("bound   ", "bold"), number(choice.regret_bound), " on the expected regret, certified")
    )
    console.print(Text.assemble(("privacy ", "bold"), _claim(auto.guarantee(spec))))
    console.print(
        "Ratios and regrets are simulated at the nearest game of a table, see dp-experts show auto.", style="dim"
    )


def _claim(guarantee: Guarantee | None) -> str:
    if guarantee is None or math.isinf(guarantee.epsilon):
        return "none"
    return str(guarantee)


# -- one match ---------------------------------------------------------------------------------------------------------


@app.command("play")
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
            _check_replaceable(file, mark)
    player = _learner(learner, epsilon, delta, _assignments("--set", assigned, dpe.learner_class(learner)))
    name = "replay" if is_data(adversary) else check_name("adversary", adversary, (*dpe.adversaries(), *bundled()))
    keywords = _assignments("--adversary-set", adversary_assigned, dpe.adversary_class(name))
    for option, size in (("num_experts", num_experts), ("horizon", horizon)):
        if size is not None:
            _once(keywords, option, "--adversary-set")
            keywords[option] = size
    foe = opponent(adversary, **keywords)
    try:
        match = play(player, foe, games, seed=seed, override=override, workers=workers)
    except dpe.AdversaryModelError as error:
        raise dpe.AdversaryModelError(str(error).replace("override=True", "--override")) from error
    _print_match(match)
    if plot is not None:
        with _writing(plot):
            plot.write_bytes(_plotted(match))
    if table is not None:
        with _writing(table):
            table.write_text(_games_csv(match), encoding="utf-8")


def _print_match(match: Match) -> None:
    from dp_experts_env.study.report import games, number, plus_minus

    console = _console()
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


@app.command()
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
    console = _console()
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

    with _writing(out / "report.html"):
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


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"dp-experts-env {dpe.__version__}")


# -- what the user typed -----------------------------------------------------------------------------------------------


def _learner(name: str, epsilon: float | None, delta: float | None, keywords: dict[str, Any]) -> dpe.Learner:
    for option, value in (("epsilon", epsilon), ("delta", delta)):
        if value is None:
            continue
        if option not in constructor_keywords(dpe.learner_class(name)):
            raise ArgumentError(f"--{option}: learner {name!r} takes none; dp-experts show {name} lists what it takes")
        _once(keywords, option, "--set")
        keywords[option] = value
    return dpe.make_learner(name, **keywords)


def _once(keywords: dict[str, Any], key: str, option: str) -> None:
    if key in keywords:
        raise ArgumentError(f"{key}: given twice, once by an option of its own and once by {option} {key}=...")


def _parameters(cls: type[Any]) -> dict[str, inspect.Parameter]:
    found: dict[str, inspect.Parameter] = {}
    for owner in cls.__mro__:
        if "__init__" in vars(owner):
            for name, parameter in inspect.signature(vars(owner)["__init__"]).parameters.items():
                found.setdefault(name, parameter)
    return {name: found[name] for name in constructor_keywords(cls)}


def _assignments(option: str, assigned: list[str] | None, cls: type[Any]) -> dict[str, Any]:
    """Return keywords from KEY=VALUE; a value is a Python literal where it can be read as one, else text."""
    keywords: dict[str, Any] = {}
    parameters = _parameters(cls)
    for text in assigned or []:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not key:
            raise ArgumentError(f"{option}: expected KEY=VALUE but found {text!r}")
        check_name(option, key, parameters)
        if key in keywords:
            raise ArgumentError(f"{option}: {key!r} is given twice")
        keywords[key] = value if parameters[key].annotation in (str, "str") else _literal(value)
    return keywords


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _check_replaceable(path: Path, mark: bytes) -> None:
    """Refuse, before anything is played, a path that cannot be written or a file that this command did not make."""
    with _writing(path):
        if not path.exists():
            return
        with path.open("rb") as file:
            ours = mark in file.read(4096)
    if not ours:
        raise ArgumentError(f"{path}: exists and was not made by this command; choose another name or remove it")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ArgumentError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from error


def _console() -> Console:
    # A pipe has no width; the tables need about this much.
    narrow = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=100 if narrow else None, highlight=False)


def main() -> None:
    """Run the command line. An error of ours is one line on stderr and exit code 2; ``--debug`` shows where."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot print a character gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        app([argument for argument in arguments if argument != "--debug"], prog_name="dp-experts")
    except (GameError, OSError) as error:
        if debug:
            raise
        print(f"dp-experts: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(2) from None
