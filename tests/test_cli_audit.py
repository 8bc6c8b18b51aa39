"""The command ``dp-experts audit``: its table, its exit code, its files, its errors."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import dp_experts_env as dpe
from dp_experts_env import cli
from dp_experts_env.cli import judge


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("NO_COLOR", "1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run ``dp-experts audit`` in this process; exit code, output, errors."""
    argv, sys.argv = sys.argv, ["dp-experts", "audit", *arguments]
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
    finally:
        sys.argv = argv
    shown = capsys.readouterr()
    return int(stop.value.code or 0), shown.out, shown.err


SMALL = ("-G", "400", "-N", "2", "-T", "4", "--pair", "first_round")


def test_an_honest_learner(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "realizable", *SMALL)
    assert (code, err) == (0, "")
    assert out.count("consistent") == 2
    assert "transcript" in out
    claim = dpe.make_learner("realizable").guarantee(dpe.GameSpec(2, 4))
    assert claim is not None
    assert f"claim of realizable: {claim}; " in " ".join(out.split())
    for view in ("choices", "transcript"):
        exact = dpe.exact_privacy(dpe.make_learner("realizable"), 2, 4, claim.delta, view=view)
        assert f"{exact:.3f}" in out
    assert "0.975" in out, "two audits share the error of the table"
    assert "audited games: N=2, T=4" in out
    assert "refuted: 0 of 2" in out


def test_a_liar_is_named_and_the_exit_code_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "leaky_copy_last", *SMALL)
    assert code == 1
    assert "VIOLATED" in out
    assert "witness: LeakyCopyLast" in out
    assert "refuted: 1 of 1" in out


def test_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = {"--csv": tmp_path / "a" / "table.csv", "--save": tmp_path / "audit.json", "--plot": tmp_path / "plot.png"}
    files = [part for option, path in paths.items() for part in (option, str(path))]
    code, _, _ = run(capsys, "leaky_copy_last", *SMALL, *files, "--seed", "5")
    assert code == 1
    assert paths["--plot"].read_bytes().startswith(b"\x89PNG")
    (row,) = csv.DictReader(paths["--csv"].read_text().splitlines())
    saved = json.loads(paths["--save"].read_text())
    assert (row["learner"], row["pair"], row["view"], row["verdict"]) == (
        "leaky_copy_last",
        "first_round",
        "choices",
        "VIOLATED",
    )
    assert float(row["epsilon_lower"]) == saved["epsilon_lower"]
    assert tuple(row) == judge.HEADER
    found = dpe.load_audit(paths["--save"])
    assert found.replay().hits == found.hits
    # The same command replaces its own files, and no others.
    assert run(capsys, "leaky_copy_last", *SMALL, *files)[0] == 1
    code, out, _ = run(capsys, "--replay", str(paths["--save"]), "--seed", "6")
    assert code == 1
    assert "VIOLATED" in out
    for path in paths.values():
        path.write_text("something else")
    for option, path in paths.items():
        code, _, err = run(capsys, "leaky_copy_last", *SMALL, option, str(path))
        assert code == 2
        assert "was not made by this command" in err
        assert path.read_text() == "something else"


def test_all_private_learners_within_their_claims(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "all.csv"
    code, out, _ = run(
        capsys, "--all", "-G", "100", "-N", "2", "-T", "3", "--pair", "first_round", "--pair", "leader_flip",
        "--pair-set", "adjacency=replace", "--statistic", "plug_in", "--no-exact", "--csv", str(table),
    )  # fmt: skip
    assert code == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["learner"] for row in rows} == set(dpe.learners(private=True))
    assert {row["pair"] for row in rows} == {"first_round", "leader_flip"}
    refused = {row["learner"] for row in rows if row["verdict"].startswith("not tried")}
    claims = {name: dpe.make_learner(name).guarantee(dpe.GameSpec(2, 3)) for name in dpe.learners(private=True)}
    assert refused == {name for name, claim in claims.items() if claim is not None and claim.against == "oblivious"}
    assert "VIOLATED" not in out


def test_what_is_not_tried_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("private_hedge", "--set", "method=optimal", "-G", "100", "-N", "2", "-T", "4", "--pair", "leader_flip")
    arguments += ("--pair-set", "window=2")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "not tried" in out
    assert "proved private against oblivious adversaries only" in " ".join(out.split())
    code, out, _ = run(capsys, *arguments, "--override")
    assert "no claim" in out


def test_the_positive_controls(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "STAGES", (200, 1_000))
    monkeypatch.setattr(dpe, "learners", lambda leaky: ("leaky_ada_hedge", "leaky_copy_last"))
    code, out, _ = run(capsys, "--leaky", "-G", "1000", "--pair", "first_round", "--pair-set", "split=half")
    assert code == 1
    assert out.count("VIOLATED") == 2 + 1
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("leaky_")}
    assert "200" in lines["leaky_copy_last"], "the number of games that was needed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected one of a learner's name, --all, --leaky and --replay"),
        (("hedge", "--all"), "expected one of"),
        (("heddge",), "did you mean 'hedge'"),
        (("hedge", "--pair", "first"), "did you mean 'first_round'"),
        (("hedge", "--view", "choice"), "did you mean 'choices'"),
        (("hedge", "--set", "rate=1"), "--set"),
        (("hedge", "--pair", "first_round", "--pair-set", "splitt=half"), "did you mean 'split'"),
        (("hedge", "--pair", "first_round", "--pair-set", "horizon=3", "-T", "4"), "given twice"),
        (("hedge", "-G", "3"), "num_games"),
        (("hedge", "--confidence", "1.5"), "confidence"),
        (("hedge", "--at-delta", "1"), "delta"),
        (("--all", "--epsilon", "2"), "for one learner"),
        (("--replay", "none.json"), "none.json: cannot be read as an audit"),
        (("hedge", "-T", "0"), "horizon"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err


def test_the_pilot_tries_variants_of_one_size() -> None:
    found: dict[str, Any] = judge._variants(["scripted", "first_round"], None, {})
    assert len(found["first_round"]) == 1 + len(dpe.pair_class("first_round").examples)
    assert len({(pair.num_experts, pair.horizon) for pair in found["scripted"]}) == 1
    (only,) = judge._variants(["first_round"], ["split=one"], {})["first_round"]
    assert only.split == "one"


def test_variants_that_do_not_fit_the_size_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """An example of a pair may need more rounds, or another number of experts, than the game that was asked for."""
    found = judge._variants(list(dpe.pairs()), None, {"num_experts": 3, "horizon": 2})
    assert set(found) == set(dpe.pairs())
    assert {(pair.num_experts, pair.horizon) for variants in found.values() for pair in variants} == {(3, 2)}
    code, _, err = run(capsys, "hedge", "--pair", "worst_for_hedge", "--pair-set", "lead=3", "-T", "2")
    assert code == 2
    assert "lead: expected an integer in 0..1" in err


def test_what_was_found_before_an_interrupt_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        rows = survey(*arguments, **options)
        yield next(rows)
        raise KeyboardInterrupt

    survey = judge.survey
    monkeypatch.setattr(judge, "survey", interrupted)
    table = tmp_path / "audits.csv"
    code, out, err = run(capsys, "private_hedge", *SMALL, "--view", "choices", "--csv", str(table))
    assert code == 130
    assert "first_round" in out
    assert "stopped; the 1 rows above were finished" in " ".join(err.split())
    assert len(list(csv.reader(table.read_text().splitlines()))) == 2
