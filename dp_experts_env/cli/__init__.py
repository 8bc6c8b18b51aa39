"""The command line ``dp-experts``: look around, play one match, play them all."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import dp_experts_env as dpe
from dp_experts_env.cli import attack, games, judge, look
from dp_experts_env.spec import GameError

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


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Private online learners meet their opponents: play, measure and compare.

    Start with [bold]dp-experts list[/bold], then [bold]dp-experts play private_hedge bernoulli[/bold];
    [bold]dp-experts bench[/bold] plays every learner against the chosen opponents.
    """


app.command("list")(look.list_names)
app.command()(look.show)
app.command()(look.recommend)
app.command("play")(games.play_match)
app.command()(games.bench)
app.command("audit")(judge.audit_learner)
app.command("attack")(attack.attack_learner)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"dp-experts-env {dpe.__version__}")


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
