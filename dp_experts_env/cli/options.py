"""What the commands share: their options, what the user typed, and the screen."""

from __future__ import annotations

import ast
import inspect
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import dp_experts_env as dpe
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import ArgumentError, Guarantee, check_name

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


def build_learner(name: str, epsilon: float | None, delta: float | None, keywords: dict[str, Any]) -> dpe.Learner:
    """Build a learner from its name, its budget and its other keywords."""
    for option, value in (("epsilon", epsilon), ("delta", delta)):
        if value is None:
            continue
        if option not in constructor_keywords(dpe.learner_class(name)):
            raise ArgumentError(f"--{option}: learner {name!r} takes none; dp-experts show {name} lists what it takes")
        once(keywords, option, "--set")
        keywords[option] = value
    return dpe.make_learner(name, **keywords)


def once(keywords: dict[str, Any], key: str, option: str) -> None:
    """Refuse a keyword that was given by two options."""
    if key in keywords:
        raise ArgumentError(f"{key}: given twice, once by an option of its own and once by {option} {key}=...")


def parameters_of(cls: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the keywords that building a class takes, with their defaults."""
    found: dict[str, inspect.Parameter] = {}
    for owner in cls.__mro__:
        if "__init__" in vars(owner):
            for name, parameter in inspect.signature(vars(owner)["__init__"]).parameters.items():
                found.setdefault(name, parameter)
    return {name: found[name] for name in constructor_keywords(cls)}


def assignments(option: str, assigned: list[str] | None, cls: type[Any]) -> dict[str, Any]:
    """Return keywords from KEY=VALUE; a value is a Python literal where it can be read as one, else text."""
    keywords: dict[str, Any] = {}
    parameters = parameters_of(cls)
    for text in assigned or []:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not key:
            raise ArgumentError(f"{option}: expected KEY=VALUE but found {text!r}")
        check_name(option, key, parameters)
        if key in keywords:
            raise ArgumentError(f"{option}: {key!r} is given twice")
        keywords[key] = value if parameters[key].annotation in (str, "str") else literal(value)
    return keywords


def literal(text: str) -> Any:
    """Return what was typed as a Python value where it can be read as one, else as text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def check_replaceable(path: Path, mark: bytes) -> None:
    """Refuse, before anything is played, a path that cannot be written or a file that this command did not make."""
    with writing(path):
        if not path.exists():
            return
        with path.open("rb") as file:
            ours = mark in file.read(4096)
    if not ours:
        raise ArgumentError(f"{path}: exists and was not made by this command; choose another name or remove it")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file that is about to be written; a file system that refuses is an error in a line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ArgumentError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from error


def make_console(width: int = 100) -> Console:
    """Return a console of the screen's width, or of this width where there is no screen."""
    # A pipe has no width; the tables need about this much.
    narrow = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=width if narrow else None, highlight=False)


def claimed(guarantee: Guarantee | None) -> str:
    """Return a guarantee in words."""
    if guarantee is None or math.isinf(guarantee.epsilon):
        return "none"
    return str(guarantee)
