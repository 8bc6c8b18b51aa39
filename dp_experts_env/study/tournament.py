"""Tournaments: every learner against every adversary at every epsilon, stored cell by cell.

A cell is one match of :func:`~dp_experts_env.play.play`. What is printed about its privacy is read from the match;
what the figures and pages show is read from the tables here.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import os
import pickle
import platform
import secrets
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import joblib
import numpy as np
from scipy.special import stdtrit
from tqdm.auto import tqdm

from dp_experts_env.adversary import Adversary
from dp_experts_env.data import SUFFIXES, bundled
from dp_experts_env.learner import Learner
from dp_experts_env.play import play
from dp_experts_env.registry import adversaries as adversary_names
from dp_experts_env.registry import adversary_class, constructor_keywords, learner_class, make_adversary
from dp_experts_env.spec import (
    ArgumentError,
    FloatArray,
    GameError,
    Parameters,
    check_count,
    check_delta,
    check_epsilon,
    check_name,
)

if TYPE_CHECKING:
    # Slow to import, and no worker process needs it.
    import pandas as pd

BACKENDS = ("local",)
"""Where cells can be played: "local" is this machine's processes."""

FORMAT = 1
"""Version of what is stored in a cell; another one is never reused."""

RUN_FILE = "run.json"
"""The record of a tournament; a folder that holds one belongs to a tournament."""

MADE_BY = "dp_experts_env.tournament"


@dataclass(frozen=True, eq=False, repr=False)
class Tournament:
    """What came of a tournament. Regret, losses and seeds are non-private diagnostics.

    Attributes:
        table: one row a cell, in the order of the adversaries, then the learners, then the epsilons:

            - ``adversary``, ``kind`` (its model), ``learner``: labels;
            - ``asked_epsilon``: the budget the learner was built with, NaN where it takes none;
            - ``privacy``: "private"; "not private"; "not private here", where the learner's guarantee does not cover
              this kind of adversary and it played without; or "leaky", where the guarantee is knowingly violated;
            - ``epsilon``, ``delta``, ``adjacency``, ``against``, ``source``: the match's guarantee, an accounted upper
              bound for this one run; NaN or empty where there is none;
            - ``mean_regret``, ``ci95``: mean over the games, half the width of its 95% confidence interval (Student's
              t; NaN for one game). It covers what differs between the games: the learner's coins, and the
              losses where each game has its own;
            - ``best_loss``, ``learner_loss``: means over the games;
            - ``regret_bound``: proved bound on the expected regret, NaN where none is proved for this kind;
            - ``regret_floor``: what the adversary proves the expected regret of every learner with this guarantee to be
              at least, NaN if nothing;
            - ``reference_regret``, ``ratio``: the reference learner's mean regret in the same cell, and the quotient;
              NaN unless the reference's is positive and beyond its own interval, so the sign is the learner's;
            - ``num_experts``, ``horizon``, ``num_games``, ``seed`` (what ``play`` takes to replay the cell),
              ``learner_parameters``, ``adversary_parameters``, ``seconds``.
        curves: one row a cell and checkpoint: ``adversary``, ``learner``, ``asked_epsilon``, ``round``,
            ``mean_regret``, ``standard_error``, ``ci95``.
        run: the arguments, the versions, the command and the seed.
    """

    table: pd.DataFrame
    curves: pd.DataFrame
    run: dict[str, Any]

    def __repr__(self) -> str:
        learners, adversaries = (self.table[side].nunique() for side in ("learner", "adversary"))
        size = f"{len(self.table)} matches: {learners} learners, {adversaries} adversaries"
        return f"Tournament({size}, seed {self.run['seed']})"


def tournament(
    learners: Any,
    adversaries: Any,
    epsilons: Iterable[float] | float | None = (1.0,),
    num_games: int = 64,
    seed: int | None = 0,
    out: str | os.PathLike[str] | None = None,
    workers: int = 1,
    backend: str = "local",
    delta: float = 1e-6,
    num_experts: int = 10,
    horizon: int = 1000,
    checkpoints: int = 100,
    reference: str | Learner | None = "hedge",
    progress: bool | None = None,
) -> Tournament:
    """Play every learner against every adversary, learners that take ``epsilon`` at every epsilon.

    All cells of an adversary have one seed, made of ``seed`` and the adversary's label: every learner meets the same
    draws of the adversary and has the same coins of its own, so that differences between learners are less noisy than
    the learners, and a cell is the same whoever else takes part, in whatever order and with any number of workers.
    Errors of different cells of one adversary are therefore not independent.

    Args:
        learners: names, classes or instances, or one of them, or a dict of them by label. A name or class is built
            with ``epsilon`` and ``delta`` where it takes them; an instance is cloned at each epsilon and keeps its
            own ``delta``.
        adversaries: names, classes or instances, or one of them, or a dict of them by label. A name or class is built
            with ``num_experts`` and ``horizon``; the name of a bundled game or a loss file is replayed whole.
        epsilons: budgets > 0; ``None`` plays every learner once, at its own.
        num_games: games a cell, an integer >= 1.
        seed: an integer >= 0, or ``None`` for a fresh one, which is recorded.
        out: folder to write to, made if missing: ``results.csv`` (the table without its seconds, so that two runs are
            byte-identical), ``curves.csv``, ``run.json``, and ``cells/``; figures and a page come from
            :func:`dp_experts_env.study.report.write`. Each cell is stored as soon as it is finished, and a later call
            takes it from there if everything that determines it is unchanged: players, sizes, seed, the sources of
            their classes, and the versions of this package, numpy and scipy.
        workers: processes, an integer >= 1; the result does not depend on it.
        backend: one of :data:`BACKENDS`.
        delta: in [0, 1).
        num_experts: experts N of the adversaries that are built here, an integer >= 1.
        horizon: rounds T of the adversaries that are built here, an integer >= 1.
        checkpoints: most rounds at which the curves are kept, an integer >= 1.
        reference: the learner whose regret is the denominator of ``ratio``, a name or an instance; the default is
            non-private ``Hedge`` with its default, fixed learning rate. It is played besides the learners. ``None``
            for no ratio.
        progress: ``True`` or ``False`` for a progress bar, ``None`` for one on work that takes over two seconds.

    Returns:
        The tables.

    Raises:
        ArgumentError: if an argument lies outside its range, ``out`` cannot be written, or holds other files.
        GameError: if a match fails, with the learner and the adversary named; finished cells stay in ``out``.
    """
    _check_backend(backend)
    check_count("num_games", num_games)
    check_count("workers", workers)
    check_count("checkpoints", checkpoints)
    check_count("num_experts", num_experts)
    check_count("horizon", horizon)
    check_delta(delta)
    budgets = _budgets(epsilons)
    root = secrets.randbits(64) if seed is None else check_count("seed", seed, least=0, most=None)
    entrants = list(_entrants(learners, budgets, delta))
    opponents = dict(_opponents(adversaries, num_experts, horizon))
    referees = [] if reference is None else list(_entrants({"reference": reference}, None, delta))
    names = {
        id(player): _identity(player) for player in (*(entry[2] for entry in entrants + referees), *opponents.values())
    }

    def cell(learner_label: str, learner: Learner, adversary_label: str) -> _Cell:
        adversary, own = opponents[adversary_label], _cell_seed(root, adversary_label)
        parts = [FORMAT, _versions(), names[id(learner)], names[id(adversary)], num_games, own, checkpoints]
        digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()
        return _Cell(
            f"{learner_label} against {adversary_label}", learner, adversary, num_games, own, checkpoints, digest
        )

    rows = [(foe, label, asked, cell(label, player, foe)) for foe in opponents for label, asked, player in entrants]
    references = {foe: cell("reference", player, foe) for foe in opponents for _, _, player in referees}
    cells = {one.digest: one for one in (*(row[3] for row in rows), *references.values())}
    run: dict[str, Any] = {
        "made_by": MADE_BY,
        "command": _command(),
        "seed": root,
        "arguments": {
            "learners": [repr(player) for _, _, player in entrants],
            "adversaries": {label: repr(adversary) for label, adversary in opponents.items()},
            "epsilons": budgets,
            "delta": delta,
            "num_games": num_games,
            "num_experts": num_experts,
            "horizon": horizon,
            "checkpoints": checkpoints,
            "reference": repr(referees[0][2]) if referees else None,
            "workers": workers,
            "backend": backend,
        },
        "versions": {**_versions(), "python": platform.python_version(), "platform": platform.platform()},
        "finished": False,
    }
    if not (out is None or isinstance(out, (str, os.PathLike))):
        raise ArgumentError(f"out: expected a folder's path or None but found {out!r}")
    folder = None if out is None else _prepared(Path(out), run)
    began = time.perf_counter()
    records, reused = _played(cells, folder, workers, progress)
    run.update(finished=True, reused=reused, seconds=round(time.perf_counter() - began, 3))
    table, curves = _tables(rows, records, {foe: records[one.digest] for foe, one in references.items()})
    if folder is not None:
        # The seconds stay out, so that equal arguments give equal bytes.
        _write(folder / "results.csv", table.drop(columns="seconds").to_csv(index=False, lineterminator="\n"))
        _write(folder / "curves.csv", curves.to_csv(index=False, lineterminator="\n"))
        _write(folder / RUN_FILE, json.dumps(run, indent=2))
    return Tournament(table, curves, run)


def _command() -> str:
    program = Path((sys.argv or [""])[0])
    name = ["python", "-m", program.parent.name] if program.name == "__main__.py" else [program.name]
    return shlex.join([*name, *sys.argv[1:]])


# -- who plays ---------------------------------------------------------------------------------------------------------


def _check_backend(backend: Any) -> None:
    if backend not in BACKENDS:
        raise ArgumentError(
            f"backend: {backend!r} is not available (available: {', '.join(map(repr, BACKENDS))}, which plays in as "
            "many processes of this machine as workers says)"
        )


def _budgets(epsilons: Any) -> list[float] | None:
    if epsilons is None:
        return None
    values = [epsilons] if isinstance(epsilons, (int, float, str)) else epsilons
    if not isinstance(values, Iterable):
        raise ArgumentError(f"epsilons: expected numbers > 0 or None but found {epsilons!r}")
    budgets = list(dict.fromkeys(check_epsilon(value, "epsilons") for value in values))
    if not budgets:
        raise ArgumentError("epsilons: expected at least one number > 0, or None, but found none")
    return budgets


def _by_label(argument: str, given: Any, base: type[Any]) -> dict[str, Any]:
    if isinstance(given, Mapping):
        players = {str(label): player for label, player in given.items()}
    else:
        listed = [given] if isinstance(given, (str, os.PathLike, type, base)) else given
        if not isinstance(listed, Iterable):
            raise ArgumentError(f"{argument}: expected names, classes or instances but found {given!r}")
        players = {}
        for player in listed:
            label = _label(player)
            if label in players:
                raise ArgumentError(f"{argument}: two are called {label!r}; pass a dict with a label for each")
            players[label] = player
    if not players:
        raise ArgumentError(f"{argument}: expected at least one but found none")
    for label, player in players.items():
        if not isinstance(player, (str, os.PathLike, base)) and not _is_class(player, base):
            raise ArgumentError(
                f"{argument}: expected a name, a {base.__name__} or a subclass of it but found {player!r} as {label!r}"
            )
    return players


def _is_class(player: Any, base: type[Any]) -> bool:
    return isinstance(player, type) and issubclass(player, base)


def _label(player: Any) -> str:
    if isinstance(player, (str, os.PathLike)):
        return os.fspath(player)
    if not isinstance(player, Parameters):
        return getattr(player, "__name__", repr(player))
    # The size of the game and the budget stand in columns of their own.
    apart = ("num_experts", "horizon", "num_games", "render_mode", "epsilon", "delta")
    shown = [
        f"{name}={_short(value)}"
        for name, value in player.parameters.items()
        if name not in apart and not _is_default(type(player), name, value)
    ]
    return type(player).__name__ + (f"({', '.join(shown)})" if shown else "")


def _short(value: Any) -> str:
    text = f"<array {value.shape}>" if isinstance(value, np.ndarray) and value.size > 8 else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_default(cls: type[Any], name: str, value: Any) -> bool:
    for owner in cls.__mro__:
        if "__init__" in vars(owner):
            parameter = inspect.signature(vars(owner)["__init__"]).parameters.get(name)
            if parameter is not None:
                return type(parameter.default) is type(value) and bool(np.all(parameter.default == value))
    return False


def _entrants(learners: Any, budgets: list[float] | None, delta: float) -> list[tuple[str, float, Learner]]:
    """Return label, budget (NaN where the learner takes none) and learner."""
    entrants = []
    for label, given in _by_label("learners", learners, Learner).items():
        player = learner_class(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else given
        keywords = constructor_keywords(player if isinstance(player, type) else type(player))
        own = {"delta": delta} if isinstance(player, type) and "delta" in keywords else {}
        choices: list[dict[str, float]] = [{}]
        if budgets is not None and "epsilon" in keywords:
            choices = [{"epsilon": epsilon} for epsilon in budgets]
        for choice in choices:
            built = _built("learner", label, player, {**own, **choice})
            asked = built.parameters.get("epsilon")
            entrants.append((label, float(asked) if isinstance(asked, (int, float)) else math.nan, built))
    return entrants


def _opponents(adversaries: Any, num_experts: int, horizon: int) -> Iterator[tuple[str, Adversary]]:
    for label, given in _by_label("adversaries", adversaries, Adversary).items():
        if isinstance(given, Adversary):
            yield label, given
            continue
        data = isinstance(given, (str, os.PathLike)) and is_data(given)
        player = given if isinstance(given, type) else os.fspath(given)
        yield label, opponent(player) if data else opponent(player, num_experts, horizon)


def is_data(name: str | os.PathLike[str]) -> bool:
    """Whether a name means recorded losses: a bundled game or a loss file."""
    text = os.fspath(name)
    return text in bundled() or (text not in adversary_names() and Path(text).suffix.lower() in SUFFIXES)


def opponent(
    given: str | type[Adversary], num_experts: int | None = None, horizon: int | None = None, **parameters: Any
) -> Adversary:
    """Build the adversary that a name or class means; a bundled game or loss file is replayed.

    Args:
        given: a registered name, the name of a bundled game, the path of a loss file, or a class.
        num_experts: experts N; ``None`` for its own default.
        horizon: rounds T; ``None`` for its own default.
        **parameters: further keywords of its constructor.

    Raises:
        UnknownNameError: if the name, or a keyword, is unknown; the nearest are suggested.
        ArgumentError: if it cannot be built so.
    """
    size = {"num_experts": num_experts, "horizon": horizon}
    if isinstance(given, str) and is_data(given):
        asked = {key: value for key, value in size.items() if value is not None}
        return make_adversary("replay", source=given, **asked, **parameters)
    if isinstance(given, str):
        label = check_name("adversary", given, (*adversary_names(), *bundled()))
        cls = adversary_class(label)
    else:
        label, cls = given.__name__, given
    taken = constructor_keywords(cls)
    for keyword in parameters:
        check_name(f"keyword of adversary {label!r}", keyword, taken)
    # A size that is None by default comes from the adversary's own data.
    own = {
        key: value
        for key, value in size.items()
        if value is not None and key in taken and not _is_default(cls, key, None)
    }
    return cast(Adversary, _built("adversary", label, cls, {**own, **parameters}))


def _built(what: str, label: str, player: Any, keywords: dict[str, Any]) -> Any:
    try:
        if isinstance(player, type):
            return player(**keywords)
        return player.clone(**keywords) if keywords else player
    except (TypeError, ArgumentError) as error:
        raise ArgumentError(f"{what} {label!r} cannot be built: {error}") from error


# -- what determines a cell --------------------------------------------------------------------------------------------


def _cell_seed(root: int, adversary_label: str) -> list[int]:
    digest = hashlib.blake2b(adversary_label.encode(), digest_size=8).digest()
    return [root, int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")]


@functools.cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("dp-experts-env", "numpy", "scipy")}


def _identity(player: Parameters) -> list[str]:
    """Return what tells a player from every other: its class, its state and the text of the code behind it."""
    cls = type(player)
    try:
        classes = {base for one in (player, *_inner(player)) for base in type(one).__mro__}
        code = sorted({_code(base) for base in classes if base.__module__ not in ("builtins", "abc", "typing")})
        return [f"{cls.__module__}.{cls.__qualname__}", joblib.hash(vars(player)), *code]
    except Exception:
        # Its parts cannot be read, as those of a lambda or of a class typed at a prompt: equal to nothing else.
        return [secrets.token_hex()]


def _inner(player: Parameters) -> Iterator[Parameters]:
    """Yield the players that a player carries, as a wrapper its inner learner."""
    for value in vars(player).values():
        if isinstance(value, Parameters):
            yield from (value, *_inner(value))


def _code(cls: type[Any]) -> str:
    top = sys.modules[cls.__module__.partition(".")[0]]
    if getattr(top, "__file__", None) is None and not hasattr(top, "__path__"):
        return hashlib.blake2b(inspect.getsource(cls).encode(), digest_size=20).hexdigest()
    return _source(top.__name__)


@functools.cache
def _source(top: str) -> str:
    """Return a digest of all files of a package, tables and data too, or of a module that belongs to none."""
    module = sys.modules[top]
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    found = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    files = found or [Path(str(module.__file__))]
    digest = hashlib.blake2b(digest_size=20)
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


# -- playing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Cell:
    title: str
    learner: Learner
    adversary: Adversary
    num_games: int
    seed: list[int]
    checkpoints: int
    digest: str


def _played(
    cells: dict[str, _Cell], folder: Path | None, workers: int, progress: bool | None
) -> tuple[dict[str, dict[str, Any]], int]:
    """Return the record of every cell by its digest, and how many came from the folder, finished before."""
    store = None if folder is None else folder / "cells"
    records = {digest: record for digest in cells if store and (record := _stored(store / f"{digest}.json", digest))}
    jobs = [(cell, store) for digest, cell in cells.items() if digest not in records]
    with tqdm(
        total=len(cells),
        initial=len(records),
        unit="match",
        desc="tournament",
        delay=0.0 if progress else 2.0,
        disable=None if progress is None else not progress,
        leave=False,
    ) as bar:
        for (cell, _), record in zip(jobs, _results(jobs, workers), strict=True):
            records[cell.digest] = record
            bar.update()
    return records, len(cells) - len(jobs)


def _results(jobs: list[tuple[_Cell, Path | None]], workers: int) -> Iterator[dict[str, Any]]:
    if workers == 1 or len(jobs) < 2:
        yield from (_play_cell(*job) for job in jobs)
        return
    try:
        yield from joblib.Parallel(n_jobs=workers, return_as="generator")(
            joblib.delayed(_play_cell)(*job) for job in jobs
        )
    except pickle.PicklingError as error:
        # The cause is a traceback in one text; its last line says what went wrong.
        reason = str(error.__cause__ or error).strip(' "\n').splitlines()[-1]
        raise GameError(
            f"a learner or an adversary cannot be sent to another process: {reason}; workers=1 plays in this one"
        ) from error


def _play_cell(cell: _Cell, store: Path | None) -> dict[str, Any]:
    """Play one cell and store it at once; runs in a worker process."""
    try:
        record = _measured(cell)
    except Exception as error:
        own = type(error).__module__ == GameError.__module__
        kind, name = (type(error), "") if own else (GameError, f"{type(error).__name__}: ")
        raise kind(f"{cell.title}: {name}{error}") from error
    if store is not None:
        _write(store / f"{cell.digest}.json", json.dumps({"digest": cell.digest, "record": record}, allow_nan=False))
    return record


def _measured(cell: _Cell) -> dict[str, Any]:
    match = play(
        cell.learner,
        cell.adversary,
        cell.num_games,
        seed=cell.seed,
        checkpoints=cell.checkpoints,
        override=True,
        progress=False,
    )
    claim = match.guarantee
    if claim is not None and math.isinf(claim.epsilon):
        claim = None
    privacy = "private"
    if cell.learner.leaky:
        privacy = "leaky"
    elif claim is None:
        stated = cell.learner.guarantee(match.spec)
        privacy = "not private here" if stated is not None and not stated.covers(match.kind) else "not private"
    (mean,), _, (half,) = intervals(match.regret[:, None])
    means, errors, halves = intervals(match.regret_curve)
    return {
        "kind": match.kind,
        "privacy": privacy,
        "epsilon": claim and claim.epsilon,
        "delta": claim and claim.delta,
        "adjacency": str(claim.adjacency) if claim else "",
        "against": claim.against if claim else "",
        "source": claim.source if claim else "",
        "mean_regret": mean,
        "ci95": half,
        "best_loss": float(match.best_loss.mean()),
        "learner_loss": float(match.learner_loss.mean()),
        "regret_bound": match.regret_bound if math.isfinite(match.regret_bound) else None,
        "regret_floor": match.regret_floor if math.isfinite(match.regret_floor) else None,
        "num_experts": match.spec.num_experts,
        "horizon": match.spec.horizon,
        "num_games": len(match.regret),
        "seed": json.dumps(cell.seed),
        "learner_parameters": match.learner,
        "adversary_parameters": match.adversary,
        "seconds": round(match.seconds, 4),
        "curve": {
            "round": match.rounds.tolist(),
            "mean_regret": means,
            "standard_error": errors,
            "ci95": halves,
        },
    }


def intervals(samples: FloatArray) -> tuple[list[float], list[float | None], list[float | None]]:
    """Return means, standard errors and half widths of 95% Student intervals of samples ``(G, C)``, each ``(C,)``.

    The latter two are ``None`` for a single game.
    """
    games = len(samples)
    means = samples.mean(0).tolist()
    if games == 1:
        return means, [None] * len(means), [None] * len(means)
    errors = samples.std(0, ddof=1) / math.sqrt(games)
    return means, errors.tolist(), (errors * stdtrit(games - 1, 0.975)).tolist()


# -- the tables --------------------------------------------------------------------------------------------------------


COLUMNS = {
    "adversary": "str",
    "kind": "str",
    "learner": "str",
    "asked_epsilon": "float64",
    "privacy": "str",
    "epsilon": "float64",
    "delta": "float64",
    "adjacency": "str",
    "against": "str",
    "source": "str",
    "mean_regret": "float64",
    "ci95": "float64",
    "best_loss": "float64",
    "learner_loss": "float64",
    "regret_bound": "float64",
    "regret_floor": "float64",
    "reference_regret": "float64",
    "ratio": "float64",
    "num_experts": "int64",
    "horizon": "int64",
    "num_games": "int64",
    "seed": "str",
    "learner_parameters": "str",
    "adversary_parameters": "str",
    "seconds": "float64",
}
"""Columns of a tournament's table and their types."""

CURVE_COLUMNS = {
    "adversary": "str",
    "learner": "str",
    "asked_epsilon": "float64",
    "round": "int64",
    "mean_regret": "float64",
    "standard_error": "float64",
    "ci95": "float64",
}
"""Columns of a tournament's curves and their types."""


def _tables(
    rows: list[tuple[str, str, float, _Cell]],
    records: dict[str, dict[str, Any]],
    references: dict[str, dict[str, Any]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    import pandas as pd

    table: list[dict[str, Any]] = []
    curves: dict[str, list[Any]] = {name: [] for name in CURVE_COLUMNS}
    for adversary, learner, asked, cell in rows:
        record = records[cell.digest]
        label = {"adversary": adversary, "learner": learner, "asked_epsilon": asked}
        table.append({**label, **record, **_compared(record, references.get(adversary))})
        checkpoints = len(record["curve"]["round"])
        for name, column in curves.items():
            column += record["curve"][name] if name in record["curve"] else [label[name]] * checkpoints
    return pd.DataFrame(table)[list(COLUMNS)].astype(COLUMNS), pd.DataFrame(curves).astype(CURVE_COLUMNS)


def _compared(record: dict[str, Any], reference: dict[str, Any] | None) -> dict[str, float]:
    if reference is None:
        return {"reference_regret": math.nan, "ratio": math.nan}
    regret: float = reference["mean_regret"]
    # A denominator that may be zero or negative would make the ratio noise, or turn its sign.
    sound = regret > (reference["ci95"] or 0.0)
    return {"reference_regret": regret, "ratio": record["mean_regret"] / regret if sound else math.nan}


# -- the folder --------------------------------------------------------------------------------------------------------


def _prepared(folder: Path, run: dict[str, Any]) -> Path:
    """Make the folder, or refuse one that is no tournament's, and say in it that this run has begun."""
    try:
        if folder.exists():
            if not folder.is_dir():
                raise ArgumentError(f"out: expected a folder but found the file {folder}")
            found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
            if found and not _is_ours(folder / RUN_FILE):
                raise ArgumentError(
                    f"out: {folder} holds files that are no tournament's ({', '.join(found[:3])}"
                    f"{', ...' if len(found) > 3 else ''}); choose a new or an empty folder"
                )
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        _write(folder / RUN_FILE, json.dumps(run, indent=2))
    except OSError as error:
        raise ArgumentError(f"out: cannot write to {folder}: {error.strerror or error}") from error
    return folder


def _is_ours(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["made_by"] == MADE_BY)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _stored(path: Path, digest: str) -> dict[str, Any] | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return dict(stored["record"]) if stored["digest"] == digest else None
    except (OSError, ValueError, KeyError, TypeError):
        # Not there, or cut short by a power failure: play it again.
        return None


def _write(path: Path, text: str) -> None:
    """Write a whole file or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
