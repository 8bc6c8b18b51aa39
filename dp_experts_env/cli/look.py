"""Looking around: what there is, what it claims, what is recommended."""

from __future__ import annotations

import inspect
import math
import re
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import dp_experts_env as dpe
from dp_experts_env.cli.options import (
    Delta,
    Epsilon,
    Set,
    assignments,
    build_learner,
    claimed,
    make_console,
    parameters_of,
)
from dp_experts_env.data import bundled, expert_names
from dp_experts_env.spec import ADVERSARY_MODELS, ArgumentError, GameSpec, check_name

SIZE = {"num_experts": 10, "horizon": 1000}
"""Size of the game that claims are listed for."""


def list_names() -> None:
    """List the learners, the adversaries, the pairs of the privacy game and the bundled data, a line each."""
    console = make_console()
    learners = _listing("Learners", "privacy")
    for name in (*dpe.learners(), *dpe.learners(leaky=True)):
        cls = dpe.learner_class(name)
        claim = cls().guarantee(GameSpec(**SIZE))
        kind = "leaky" if cls.leaky else "none" if claimed(claim) == "none" else "private"
        learners.add_row(name, kind, _first_line(cls))
    console.print(learners)
    console.print()
    adversaries = _listing("Adversaries", "kind")
    for name in dpe.adversaries():
        adversary = dpe.adversary_class(name)
        adversaries.add_row(name, adversary().kind, _first_line(adversary))
    console.print(adversaries)
    console.print()
    pairs = _listing("Pairs, for dp-experts audit", "kind")
    for name in dpe.pairs():
        pair = dpe.pair_class(name)
        pairs.add_row(name, pair().kind, _first_line(pair))
    console.print(pairs)
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


def show(
    name: Annotated[str, typer.Argument(help="A learner, an adversary, a pair or a bundled game.", show_default=False)],
    num_experts: Annotated[int, typer.Option("-N", "--num-experts", help="Size of the game to state claims for.")] = 10,
    horizon: Annotated[int, typer.Option("-T", "--horizon", help="Rounds of the game to state claims for.")] = 1000,
    epsilon: Epsilon = None,
    delta: Delta = None,
    assigned: Set = None,
) -> None:
    """Show the description, the parameters, and what a learner claims in a game of a stated size."""
    console = make_console()
    learners = (*dpe.learners(), *dpe.learners(leaky=True))
    check_name("name", name, (*learners, *dpe.adversaries(), *dpe.pairs(), *bundled()))
    if name in bundled():
        _show_data(console, name)
        return
    cls: type[Any]
    if name in learners:
        cls = dpe.learner_class(name)
    else:
        cls = dpe.adversary_class(name) if name in dpe.adversaries() else dpe.pair_class(name)
    keywords = assignments("--set", assigned, cls)
    player: Any
    if name in learners:
        player, what, spec = build_learner(name, epsilon, delta, keywords), "learner", GameSpec(num_experts, horizon)
    else:
        if epsilon is not None or delta is not None:
            raise ArgumentError(f"--epsilon and --delta are for learners, and {name!r} is none")
        player, what = cls(**keywords), "pair" if issubclass(cls, dpe.Pair) else "adversary"
    console.print(Text.assemble((name, "bold cyan"), f"  {what}, {cls.__module__}.{cls.__qualname__}"))
    console.print()
    _print_docstring(console, cls)
    console.print()
    _show_parameters(console, cls)
    if what == "learner":
        _show_claims(console, player, spec)
    else:
        console.print(f"kind            {player.kind}")
        if what == "pair":
            console.print(Text(f"audit           dp-experts audit LEARNER --pair {name}"))
        else:
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
    for name, parameter in parameters_of(cls).items():
        default = "required" if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        table.add_row(name, Text(default))
    console.print(table if table.row_count else Text("no parameters"))
    console.print()


def _show_claims(console: Console, learner: dpe.Learner, spec: GameSpec) -> None:
    console.print(Text(f"In a game of N={spec.num_experts}, T={spec.horizon}, {learner!r} claims", style="bold"))
    guarantee = learner.guarantee(spec)
    console.print(Text(f"privacy         {claimed(guarantee)}"))
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
    console = make_console()
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
    console.print(Text.assemble(("privacy ", "bold"), claimed(auto.guarantee(spec))))
    console.print(
        "Ratios and regrets are simulated at the nearest game of a table, see dp-experts show auto.", style="dim"
    )
