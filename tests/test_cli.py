"""The command line: what it prints, writes, refuses, and how it fails."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_experts_env as dpe
from dp_experts_env import cli
from dp_experts_env.cli import games, look, options
from dp_experts_env.study.tournament import opponent

ENVIRONMENT = {
    key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM")
} | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


class Run:
    """Runs the program in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("COLUMNS", "110")
        monkeypatch.setenv("NO_COLOR", "1")

    def __call__(self, *arguments: Any) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["dp-experts", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = self._capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    def good(self, *arguments: Any) -> str:
        code, out, err = self(*arguments)
        assert (code, err) == (0, ""), err
        return out

    def refused(self, *arguments: Any) -> str:
        code, out, err = self(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("dp-experts: ")
        assert err.count("\n") == 1, "one line"
        assert "Traceback" not in err
        return err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "dp_experts_env", *arguments],
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


# -- looking around ----------------------------------------------------------------------------------------------------


def test_list(run: Run) -> None:
    out = run.good("list")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip() and not line.startswith(" ")}
    for name in (*dpe.learners(), *dpe.learners(leaky=True), *dpe.adversaries()):
        assert name in lines, f"{name} is listed"
    assert "none" in lines["hedge"].split()
    assert {"private"} <= set(lines["private_hedge"].split()) & set(lines["uniform"].split())
    assert "Exponential weights with a chosen learning rate" in lines["hedge"]
    assert "adaptive" in lines["punish_last"].split()
    assert "stochastic" in lines["bernoulli"].split()
    assert "1461 x 53" in lines["rain"]
    assert "0 loses 408: as yesterday" in lines["rain"]
    assert "`" not in out


def test_show_learner(run: Run) -> None:
    out = run.good("show", "private_hedge", "-N", 10, "-T", 1000, "--epsilon", 2, "--set", "method=seed")
    learner = dpe.make_learner("private_hedge", epsilon=2.0, method="seed")
    spec = dpe.GameSpec(10, 1000)
    assert "dp_experts_agents.hedge.PrivateHedge" in out
    assert "Private multiplicative weights (S0)" in out
    assert re.search(r"delta +1e-06", out)
    assert f"privacy         {learner.guarantee(spec)}" in out
    assert "three-cap learning rate" in out
    for model in ("stochastic", "oblivious", "adaptive"):
        bounds = [f"{learner.regret_bound(spec, best, model):.1f}" for best in (0.0, 32.0, 250.0)]
        assert re.search(rf"{model} +{' +'.join(bounds)}", out)


def test_show_without_claims(run: Run) -> None:
    out = run.good("show", "shrinking_dartboard")
    assert "privacy         none" in out
    assert re.search(r"adaptive +none +none +none", out)


def test_show_adversary_and_data(run: Run) -> None:
    out = run.good("show", "planted", "--set", "best_loss=3")
    assert "kind            stochastic" in out
    assert 'gymnasium.make("dp_experts/Planted-v0")' in out
    assert re.search(r"best_loss +0\.0", out)
    out = run.good("show", "tumour")
    assert "rounds T        569" in out
    assert "ids 0 to 256" in out
    assert "47, expert 108: benign if worst radius <= 16.875" in out
    assert "one patient" in out
    assert "not replacing an observation" in run.good("show", "rain")


def test_every_name_can_be_shown(run: Run) -> None:
    for name in (*dpe.learners(), *dpe.learners(leaky=True), *dpe.adversaries(), *dpe.pairs()):
        assert name in run.good("show", name, "-N", 3, "-T", 10).splitlines()[0]


def test_docstrings_are_filled_to_the_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Documented:
        """First line.

        Words that go on and on, over the end of
        one line of the source.

        - an item that is long enough to be
          broken

        Args:
            number: how many ``of`` these, a :class:`~package.module.Thing` or
                more.
        """

    monkeypatch.setenv("COLUMNS", "40")
    look._print_docstring(options.make_console(), Documented)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["First line.", "", "Words that go on and on, over the end of", "one line of the source."]
    assert max(map(len, lines)) <= 40
    assert "    number: how many of these, a Thing" in lines
    assert "- an item that is long enough to be" in lines


# -- one match ---------------------------------------------------------------------------------------------------------


def test_play_says_what_play_says(run: Run) -> None:
    out = run.good("play", "private_hedge", "planted", "-N", 4, "-T", 50, "-G", 20, "--seed", 3, "--epsilon", 2)
    learner = dpe.make_learner("private_hedge", epsilon=2.0)
    match = dpe.play(learner, dpe.make_adversary("planted", num_experts=4, horizon=50), 20, seed=3)
    said = {line[:16].strip(): line[16:].strip() for line in out.splitlines()}
    assert said["learner"] == repr(learner)
    assert said["size"] == "N=4, T=50, 20 games, seed 3"
    assert said["mean regret"].startswith(f"{match.mean_regret:.1f} ± ")
    assert said["proved bound"] == f"{match.regret_bound:.1f}"
    assert said["best loss"] == "0"
    assert said["privacy"] == str(match.guarantee)
    assert "policy regret" not in out
    assert "policy regret" in run.good("play", "hedge", "punish_last", "-T", 9, "-G", 2)


def test_play_takes_typed_keywords(run: Run) -> None:
    out = run.good("play", "hedge", "bernoulli", "-G", 2, "-T", 9, "-N", 2, "--set", "learning_rate=adahedge")
    assert "Hedge(learning_rate='adahedge'" in out
    arguments = ["--set", "learning_rate=0.25", "--set", "mixing = 0.1", "--adversary-set", "means=[0.5, 1.0]"]
    out = run.good(
        "play", "hedge", "bernoulli", "-G", 2, "-T", 9, "-N", 2, *arguments, "--adversary-set", "shared=true"
    )
    assert "Hedge(learning_rate=0.25, best_loss=None, mixing=0.1)" in out
    assert "shared=True" in out
    out = run.good("play", "follow_the_perturbed_leader", "bernoulli", "-G", 2, "-T", 9, "--set", "fresh=False")
    assert "fresh=False" in out
    assert "method='zcdp'" in run.good("play", "private_hedge", "bernoulli", "-T", 9, "--set", "method=zcdp")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("3", 3),
        ("True", True),
        ("none", None),
        ("adahedge", "adahedge"),
        ("[1, 2]", [1, 2]),
        ("1e-6", 1e-6),
        ("../a.csv", "../a.csv"),
        ("'3'", "3"),
        ("", ""),
    ],
)
def test_literals(text: str, value: Any) -> None:
    assert options.literal(text) == value
    assert type(options.literal(text)) is type(value)


def test_text_stays_text_where_text_is_wanted() -> None:
    class Named(dpe.Learner):
        def __init__(self, name: str = "a", number: float = 0.0) -> None:
            self.name = name
            self.number = number

    assert options.assignments("--set", ["name=7", "number=7"], Named) == {"name": "7", "number": 7}


def test_play_recorded_losses(run: Run, tmp_path: Path) -> None:
    out = run.good("play", "follow_the_leader", "tumour", "-G", 1, "-T", 100)
    assert "N=257, T=100, 1 game, seed 0" in out
    np.savetxt(tmp_path / "mine.csv", np.eye(3)[[0, 1, 2, 0]], delimiter=",", fmt="%g", header="a,b,c", comments="")
    out = run.good("play", "uniform", tmp_path / "mine.csv", "-G", 3)
    assert "N=3, T=4, 3 games" in out
    assert re.search(r"best loss +1\.00", out)


def test_play_files(run: Run, tmp_path: Path) -> None:
    plot, table = tmp_path / "new" / "plot.png", tmp_path / "other" / "games.csv"
    command = ["play", "private_hedge", "bernoulli", "-G", 5, "-T", 40, "--plot", plot, "--csv", table]
    run.good(*command)
    assert plot.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    match = dpe.play(
        dpe.make_learner("private_hedge"), dpe.make_adversary("bernoulli", num_experts=10, horizon=40), 5, seed=0
    )
    assert [float(row["regret"]) for row in rows] == match.regret.tolist()
    assert [float(row["best_loss"]) for row in rows] == match.best_loss.tolist()
    assert {(row["epsilon"], row["delta"], row["seed"]) for row in rows} == {("1.0", "1e-06", "0")}
    assert [row["game"] for row in rows] == ["0", "1", "2", "3", "4"]
    before = plot.read_bytes(), table.read_bytes()
    run.good(*command)
    assert (plot.read_bytes(), table.read_bytes()) == before, "its own files are replaced, and are the same"


def test_play_replaces_no_file_of_another(run: Run, tmp_path: Path) -> None:
    losses, picture = tmp_path / "losses.csv", tmp_path / "cat.png"
    losses.write_text("0.5,1\n1,0.25\n")
    picture.write_bytes(b"\x89PNG of a cat")
    for option, path in (("--csv", losses), ("--plot", picture)):
        before = path.read_bytes()
        message = run.refused("play", "hedge", losses, option, path)
        assert "exists and was not made by this command; choose another name" in message
        assert path.read_bytes() == before
    message = run.refused("play", "hedge", "bernoulli", "--csv", losses / "below" / "games.csv")
    assert "cannot be written" in message


def test_override(run: Run) -> None:
    command = ["play", "private_hedge", "punish_last", "-T", 20, "-G", 2, "--set", "method=optimal"]
    assert "--override plays on without a guarantee" in run.refused(*command)
    assert re.search(r"privacy +none", run.good(*command, "--override"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["play", "hegde", "bernoulli"], "unknown name 'hegde'; did you mean 'hedge'"),
        (["play", "hedge", "bernouli"], "unknown name 'bernouli'; did you mean 'bernoulli'"),
        (["play", "hedge", "tumor"], "unknown name 'tumor'; did you mean 'tumour'"),
        (["play", "hedge", "nowhere.csv"], "nowhere.csv: no such file"),
        (["play", "hedge", "tumour", "-N", "3"], "num_experts: expected 257, as in the data, but found 3"),
        (["play", "hedge", "tumour", "-T", "1000"], "horizon: expected at most 569"),
        (["play", "hedge", "bernoulli", "-N", "0"], "num_experts: expected an integer >= 1 but found 0"),
        (["play", "hedge", "bernoulli", "-G", "0"], "num_games: expected an integer >= 1 but found 0"),
        (["play", "hedge", "bernoulli", "--seed", "-1"], "seed: expected an integer >= 0"),
        (["play", "hedge", "bernoulli", "--epsilon", "1"], "--epsilon: learner 'hedge' takes none"),
        (["play", "private_hedge", "bernoulli", "--epsilon", "0"], "epsilon: expected a number in (0, inf)"),
        (["play", "private_hedge", "bernoulli", "--delta", "1"], "delta: expected a number in [0, 1)"),
        (["play", "private_hedge", "bernoulli", "--epsilon", "1", "--set", "epsilon=2"], "epsilon: given twice"),
        (["play", "hedge", "bernoulli", "--set", "mixing=0", "--set", "mixing=1"], "'mixing' is given twice"),
        (["play", "hedge", "bernoulli", "-T", "5", "--adversary-set", "horizon=6"], "horizon: given twice"),
        (["play", "hedge", "bernoulli", "--set", "mixing"], "--set: expected KEY=VALUE but found 'mixing'"),
        (["play", "hedge", "bernoulli", "--set", "mixin=1"], "unknown name 'mixin'; did you mean 'mixing'"),
        (["play", "hedge", "bernoulli", "--adversary-set", "mean=1"], "did you mean 'means'"),
        (
            ["play", "hedge", "bernoulli", "--set", "mixing=lots"],
            "mixing: expected a number in [0, 1] but found 'lots'",
        ),
        (["show", "privat_hedge"], "unknown name 'privat_hedge'; did you mean 'private_hedge'"),
        (["show", "bernoulli", "--epsilon", "1"], "are for learners"),
        (["bench", "--learner", "hegde"], "did you mean 'hedge'"),
        (["bench", "--adversary", "rian"], "did you mean 'rain'"),
        (["bench", "--epsilon", "-1"], "epsilons: expected a number in (0, inf)"),
        (["bench", "--workers", "0"], "workers: expected an integer >= 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_our_errors_are_one_line(
    run: Run, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in run.refused(*arguments)
    assert not list(tmp_path.iterdir()), "nothing is written before the arguments are known to be good"


def test_a_full_disk_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **keywords: Any) -> None:
        raise OSError(28, "No space left on device", "cells/x.json")

    monkeypatch.setattr(games, "tournament", full)
    assert "No space left on device: 'cells/x.json'" in run.refused("bench")


def test_debug_shows_where(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["--debug", "play", "hegde", "rain"], ["play", "hegde", "rain", "--debug"]):
        monkeypatch.setattr(sys, "argv", ["dp-experts", *arguments])
        with pytest.raises(dpe.UnknownNameError):
            cli.main()
    assert "--debug" in run.good("--help")


def test_usage_errors_are_typers(run: Run) -> None:
    for arguments in (["play", "hedge"], ["lsit"], ["bench", "--games", "many"]):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert "Usage" in err


# -- all matches -------------------------------------------------------------------------------------------------------


def test_bench(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "bench"
    command = ["bench", "--out", out, "--learner", "hedge", "--learner", "private_hedge", "--workers", 1]
    command += ["--adversary", "bernoulli", "--adversary", "rain", "--epsilon", 1, "--epsilon", 8]
    command += ["-N", 3, "-T", 40, "-G", 4, "--delta", "1e-4", "--seed", 5]
    said = run.good(*command)
    names = {"cells", "curves.csv", "regret_epsilon_1.png", "regret_epsilon_8.png", "report.html"}
    assert {path.name for path in out.iterdir()} == names | {"results.csv", "run.json"}
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["adversary"], row["learner"], row["epsilon"], row["delta"]) for row in rows] == [
        (adversary, learner, epsilon, delta)
        for adversary in ("bernoulli", "rain")
        for learner, epsilon, delta in (
            ("hedge", "", ""),
            ("private_hedge", "1.0", "0.0001"),
            ("private_hedge", "8.0", "0.0001"),
        )
    ]
    assert [row["horizon"] for row in rows] == ["40"] * 3 + ["1461"] * 3, "recorded games are played whole"
    for word in ("bernoulli", "rain", "ε=8, δ=0.0001", "mean regret", "best loss", "bound", "ratio"):
        assert word in said
    for note in ("non-private diagnostics", "not that of the choice", "not policy regret"):
        assert note in " ".join(said.split())
    assert re.search(r"6 matches in \d+ s; written to", said)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".csv", ".png")}
    again = run.good(*command)
    assert "6 of them finished before" in again
    assert {name: (out / name).read_bytes() for name in before} == before


def test_bench_refuses_a_folder_of_other_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    message = run.refused("bench", "--quick", "--out", tmp_path)
    assert "thesis.tex" in message
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert "expected a folder but found the file" in run.refused("bench", "--out", tmp_path / "thesis.tex")
    assert "cannot write to" in run.refused("bench", "--out", tmp_path / "thesis.tex" / "below")


def test_bench_stops_politely(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **keywords: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(games, "tournament", interrupted)
    code, out, err = run("bench", "--out", tmp_path / "x")
    assert (code, out) == (130, "")
    assert "the same command goes on from the finished matches in" in err


def test_bench_defaults() -> None:
    kinds = {name: opponent(name).kind for name in games.BENCH_ADVERSARIES}
    assert set(kinds.values()) == {"stochastic", "oblivious", "adaptive"}
    assert {"tumour", "temperature_2F", "rain"} <= set(kinds)
    assert games.BENCH == {"num_experts": 10, "horizon": 1000, "num_games": 64}


def test_quick_bench_plays_everything(run: Run, tmp_path: Path) -> None:
    said = run.good(
        "bench", "--quick", "-N", 3, "-T", 12, "-G", 2, "--workers", 1, "--top", 0, "--out", tmp_path / "out"
    )
    with (tmp_path / "out" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["learner"] for row in rows} == set(dpe.learners())
    assert list(dict.fromkeys(row["adversary"] for row in rows)) == list(games.BENCH_ADVERSARIES)
    assert len(rows) == len(dpe.learners()) * len(games.BENCH_ADVERSARIES)
    assert {row["horizon"] for row in rows} == {"12"}, "recorded games are cut"
    assert "more in the files" not in said


# -- the program -------------------------------------------------------------------------------------------------------


def test_version(run: Run) -> None:
    assert run.good("version") == f"dp-experts-env {dpe.__version__}\n"


def test_help_names_every_command(run: Run) -> None:
    out = run.good("--help")
    for command in ("list", "show", "play", "bench", "version"):
        assert re.search(rf"\b{command}\b", out)
        assert "Usage: dp-experts" in run.good(command, "--help")
    _, out, err = run()
    assert "Usage" in out + err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX pipe")
def test_a_closed_pipe_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dp_experts_env", "list"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) in (0, 1, 141)


def test_as_a_module_narrow_and_plain() -> None:
    done = program("play", "uniform", "rain", "-G", "2", "-T", "20", COLUMNS="44", NO_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 44
    assert "seed 0" in " ".join(done.stdout.split())


def test_ascii_terminal() -> None:
    done = program("play", "uniform", "rain", "-G", "3", "-T", "20", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"mean regret +\S+ \? \S+", done.stdout)


def test_error_of_the_program() -> None:
    done = program("play", "hegde", "rain")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dp-experts: learner: unknown name 'hegde'; did you mean 'hedge'")
    assert done.stderr.count("\n") == 1
    debug = program("play", "hegde", "rain", "--debug")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
