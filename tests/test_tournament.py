"""Tournaments and what is made of them: the cells, their seeds, their privacy labels, the store, the figures."""

from __future__ import annotations

import html.parser
import importlib
import io
import json
import math
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

import dp_experts_env as dpe
from dp_experts_env.study import report
from dp_experts_env.study import tournament as module
from dp_experts_env.study.tournament import intervals, opponent

SMALL: dict[str, Any] = {"num_experts": 4, "horizon": 30, "num_games": 6}
EPSILONS = (0.5, 4.0)


class Halved(dpe.Learner):
    """Is asked for epsilon and proves half of it, under the other adjacency."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6) -> None:
        self.epsilon = epsilon
        self.delta = delta

    def act(self) -> Any:
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)

    def guarantee(self, spec: dpe.GameSpec) -> dpe.Guarantee:
        return dpe.Guarantee(self.epsilon / 2, self.delta / 2, "zero_out", "oblivious", "half of what was asked")


class Liar(Halved):
    leaky = True


class Claimless(Halved):
    def guarantee(self, spec: dpe.GameSpec) -> dpe.Guarantee:
        return dpe.Guarantee(math.inf)


class Clumsy(dpe.Learner):
    def act(self) -> Any:
        if self.round == 3:
            raise KeyError("expert")
        return np.zeros(self.spec.shape, dtype=np.int64)


class Unsendable(dpe.Learner):
    def act(self) -> Any:
        return np.zeros(self.spec.shape, dtype=np.int64)

    def __reduce__(self) -> Any:
        raise TypeError("this one stays here")

    def __deepcopy__(self, memo: dict[int, Any]) -> Unsendable:
        return self


def same(left: pd.DataFrame, right: pd.DataFrame, **tolerance: Any) -> None:
    pd.testing.assert_frame_equal(
        left.drop(columns="seconds", errors="ignore").reset_index(drop=True),
        right.drop(columns="seconds", errors="ignore").reset_index(drop=True),
        **(tolerance or {"check_exact": True}),
    )


def cell_files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "cells").iterdir()}


# -- what is in the tables ---------------------------------------------------------------------------------------------


def test_one_row_a_cell_in_order() -> None:
    result = dpe.tournament(["uniform", "private_hedge", "hedge"], ["bernoulli", "punish_last"], EPSILONS, **SMALL)
    learners = [("uniform", None), ("private_hedge", 0.5), ("private_hedge", 4.0), ("hedge", None)]
    expected = [(adversary, *learner) for adversary in ("bernoulli", "punish_last") for learner in learners]
    asked = [None if math.isnan(value) else value for value in result.table["asked_epsilon"]]
    assert list(zip(result.table["adversary"], result.table["learner"], asked, strict=True)) == expected
    assert list(result.table.columns) == list(module.COLUMNS)
    assert list(result.curves.columns) == list(module.CURVE_COLUMNS)
    assert set(result.table["kind"]) == {"stochastic", "adaptive"}
    assert (result.table[["num_experts", "horizon", "num_games"]] == [4, 30, 6]).all().all()
    assert (result.curves.groupby(["adversary", "learner", "asked_epsilon"], dropna=False).size() == 30).all()
    assert repr(result) == "Tournament(8 matches: 3 learners, 2 adversaries, seed 0)"


def test_a_row_is_the_match_that_its_seed_replays() -> None:
    result = dpe.tournament("private_hedge", ["bernoulli", "foreseer"], 2.0, delta=1e-5, **SMALL)
    for row in result.table.itertuples():
        learner = dpe.make_learner("private_hedge", epsilon=2.0, delta=1e-5)
        adversary = dpe.make_adversary(row.adversary, num_experts=4, horizon=30)
        match = dpe.play(learner, adversary, 6, seed=json.loads(row.seed))
        assert row.mean_regret == match.mean_regret
        low, high = stats.t.interval(0.95, 5, loc=match.mean_regret, scale=match.standard_error)
        assert row.ci95 == pytest.approx((high - low) / 2, rel=1e-12)
        assert row.best_loss == match.best_loss.mean()
        assert row.learner_loss == match.learner_loss.mean()
        assert row.regret_bound == match.regret_bound
        assert math.isnan(row.regret_floor)
        assert math.isnan(match.regret_floor)
        assert match.guarantee is not None
        assert (row.epsilon, row.delta, row.against) == (2.0, 1e-5, match.guarantee.against)
        assert (row.learner_parameters, row.adversary_parameters) == (match.learner, match.adversary)
        curve = result.curves[result.curves["adversary"] == row.adversary]
        assert curve["round"].tolist() == match.rounds.tolist()
        assert curve["mean_regret"].tolist() == match.regret_curve.mean(0).tolist()
        assert curve["mean_regret"].iloc[-1] == row.mean_regret
        assert curve["ci95"].iloc[-1] == row.ci95


def test_interval_closed_form() -> None:
    # Two samples 1 and 3: standard error 1, and Student's quantile with one degree of freedom is tan(0.475 pi).
    means, errors, halves = intervals(np.array([[1.0], [3.0]]))
    assert (means, errors) == ([2.0], [1.0])
    assert halves == pytest.approx([math.tan(0.475 * math.pi)])


def test_interval_covers() -> None:
    # 4000 intervals of 5 standard normal samples, nominal 95%. The number that cover is Binomial(4000, 0.95); by
    # Hoeffding it leaves 3800 +- 4000 * 0.0426 with probability at most 2 exp(-2 * 4000 * 0.0426^2) = 1e-6.
    samples = np.random.default_rng(7).standard_normal((5, 4000))
    means, _, halves = intervals(samples)
    covered = np.mean(np.abs(means) <= np.array(halves, dtype=float))
    assert abs(covered - 0.95) <= 0.0426


def test_a_single_game_has_no_interval() -> None:
    result = dpe.tournament("hedge", "bernoulli", **{**SMALL, "num_games": 1})
    assert result.table["ci95"].isna().all()
    assert result.curves[["ci95", "standard_error"]].isna().all().all()
    assert result.table["mean_regret"].notna().all()


def test_labels_come_from_the_record() -> None:
    # The asked epsilon is 4, the proved one 2: only the latter may be called epsilon.
    row = next(dpe.tournament(Halved, "bernoulli", 4.0, delta=1e-4, **SMALL).table.itertuples())
    assert (row.asked_epsilon, row.epsilon, row.delta) == (4.0, 2.0, 5e-5)
    assert (row.adjacency, row.against, row.source) == ("zero_out", "oblivious", "half of what was asked")
    assert report.budget(row) == "ε=2, δ=5e-05"


def test_privacy_is_said_as_it_is() -> None:
    result = dpe.tournament(
        {"halved": Halved, "liar": Liar, "claimless": Claimless, "hedge": "hedge", "uniform": "uniform"},
        ["bernoulli", "punish_last"],
        **SMALL,
    )
    said = {(row.adversary, row.learner): row for row in result.table.itertuples()}
    assert {key: row.privacy for key, row in said.items()} == {
        ("bernoulli", "halved"): "private",
        ("bernoulli", "liar"): "leaky",
        ("bernoulli", "claimless"): "not private",
        ("bernoulli", "hedge"): "not private",
        ("bernoulli", "uniform"): "private",
        ("punish_last", "halved"): "not private here",
        ("punish_last", "liar"): "leaky",
        ("punish_last", "claimless"): "not private",
        ("punish_last", "hedge"): "not private",
        ("punish_last", "uniform"): "private",
    }
    for row in said.values():
        assert (row.privacy in ("private", "leaky")) or (math.isnan(row.epsilon) and math.isnan(row.delta))
        assert row.adjacency == "" or row.privacy in ("private", "leaky")
    here = said["punish_last", "halved"]
    assert report.budget(here) == "none here"
    assert report.name(here) == "halved (asked ε=1)"
    assert report.budget(said["bernoulli", "liar"]) == "leaky, says ε=0.5"
    assert said["punish_last", "uniform"].epsilon == 0.0


def test_bounds_that_do_not_hold_here_are_none() -> None:
    table = dpe.tournament("shrinking_dartboard", ["alternating", "punish_last"], **SMALL).table
    assert table["regret_bound"].notna().tolist() == [True, False]


def test_ratio_is_to_hedge_in_the_same_games_and_safe() -> None:
    record = {"mean_regret": 6.0, "ci95": 1.0}
    assert module._compared(record, {"mean_regret": 4.0, "ci95": 1.0}) == {"reference_regret": 4.0, "ratio": 1.5}
    assert module._compared({"mean_regret": -2.0}, {"mean_regret": 4.0, "ci95": 1.0})["ratio"] == -0.5
    for regret, half in ((0.0, 0.0), (-4.0, 1.0), (4.0, 5.0), (0.0, None)):
        compared = module._compared(record, {"mean_regret": regret, "ci95": half})
        assert compared["reference_regret"] == regret
        assert math.isnan(compared["ratio"])
    assert module._compared(record, {"mean_regret": 3.0, "ci95": None})["ratio"] == 2.0

    result = dpe.tournament(["hedge", "uniform"], "planted", **{**SMALL, "horizon": 100})
    hedge, uniform = result.table["mean_regret"]
    assert result.table["ratio"].tolist() == [1.0, uniform / hedge]
    alone = dpe.tournament(["uniform"], "planted", **{**SMALL, "horizon": 100})
    assert len(alone.table) == 1
    assert alone.table["ratio"].tolist() == [uniform / hedge]
    other = dpe.tournament(["uniform"], "planted", reference="uniform", **{**SMALL, "horizon": 100})
    assert other.table["ratio"].tolist() == [1.0]
    none = dpe.tournament(["uniform"], "planted", reference=None, **SMALL)
    assert none.table[["ratio", "reference_regret"]].isna().all().all()


# -- seeds -------------------------------------------------------------------------------------------------------------


def test_a_cell_is_the_same_whoever_else_plays() -> None:
    learners, adversaries = ["uniform", "private_hedge", "hedge"], ["bernoulli", "punish_last", "alternating"]
    whole = dpe.tournament(learners, adversaries, EPSILONS, seed=3, **SMALL)
    turned = dpe.tournament(learners[::-1], adversaries[::-1], EPSILONS[::-1], seed=3, **SMALL)
    alone = dpe.tournament("private_hedge", "punish_last", EPSILONS[1], seed=3, **SMALL)
    order = ["adversary", "learner", "asked_epsilon"]
    same(whole.table.sort_values(order), turned.table.sort_values(order))
    same(
        whole.curves.sort_values([*order, "round"]),
        turned.curves.sort_values([*order, "round"]),
    )
    row = whole.table.query("adversary == 'punish_last' and learner == 'private_hedge' and asked_epsilon == 4")
    same(row, alone.table)


def test_all_learners_meet_the_same_draws_and_labels_part_them() -> None:
    result = dpe.tournament(["uniform", "hedge"], {"a": "bernoulli", "b": "bernoulli"}, **SMALL)
    best = result.table.groupby("adversary")["best_loss"]
    assert (best.nunique() == 1).all()
    assert best.first().nunique() == 2
    assert result.table.groupby("adversary")["seed"].nunique().tolist() == [1, 1]


def test_seeds_matter_and_a_fresh_one_is_recorded() -> None:
    results = [dpe.tournament("uniform", "bernoulli", seed=seed, **SMALL) for seed in (0, 0, 1, None, None)]
    regrets = [float(result.table["mean_regret"].iloc[0]) for result in results]
    assert regrets[0] == regrets[1] != regrets[2]
    # Two fresh games of so few rounds may end alike.
    assert len({str(result.run["seed"]) for result in results}) == 4
    again = dpe.tournament("uniform", "bernoulli", seed=results[3].run["seed"], **SMALL)
    same(again.table, results[3].table)


def test_workers_and_repetition_change_no_byte(tmp_path: Path) -> None:
    def folder(name: str, workers: int) -> Path:
        dpe.tournament(
            ["uniform", "private_hedge"],
            ["bernoulli", "punish_last"],
            EPSILONS,
            out=tmp_path / name,
            workers=workers,
            progress=False,
            **SMALL,
        )
        return tmp_path / name

    one, again, two = folder("one", 1), folder("again", 1), folder("two", 2)
    for file in ("results.csv", "curves.csv"):
        assert (one / file).read_bytes() == (again / file).read_bytes() == (two / file).read_bytes()
    assert sorted(cell_files(one)) == sorted(cell_files(two))


# -- the folder --------------------------------------------------------------------------------------------------------


def test_the_files_hold_the_tables(tmp_path: Path) -> None:
    result = dpe.tournament(["uniform", "private_hedge"], "bernoulli", out=tmp_path / "new" / "deep", **SMALL)
    out = tmp_path / "new" / "deep"
    text = {
        "dtype": {name: "str" for name, kind in module.COLUMNS.items() if kind == "str"},
        "keep_default_na": False,
    }
    empty = {name: [""] for name in ("asked_epsilon", "epsilon", "regret_floor")}
    table = pd.read_csv(out / "results.csv", na_values=empty, **text)
    # Some releases of pandas read the last digit wrongly.
    same(table.astype({k: v for k, v in module.COLUMNS.items() if k != "seconds"}), result.table, rtol=1e-14)
    assert "seconds" not in table
    same(pd.read_csv(out / "curves.csv").astype(module.CURVE_COLUMNS), result.curves, rtol=1e-14)
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert run == result.run
    assert run["finished"] is True
    assert run["versions"]["dp-experts-env"] == dpe.__version__
    assert run["arguments"]["num_games"] == 6
    assert not [path for path in out.rglob(".*")], "no draft is left"


def test_finished_cells_are_reused_and_only_they(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = dpe.tournament(["uniform", "hedge"], ["bernoulli", "punish_last"], out=out, **SMALL)
    assert first.run["reused"] == 0
    before = cell_files(out)
    assert len(before) == 4
    more = dpe.tournament(["uniform", "hedge", "follow_the_leader"], ["bernoulli", "punish_last"], out=out, **SMALL)
    assert more.run["reused"] == 4
    assert before.items() <= cell_files(out).items()
    same(more.table[more.table["learner"] != "follow_the_leader"], first.table)
    # The stored seconds come back with the cell.
    kept = more.table[more.table["learner"] != "follow_the_leader"]["seconds"].tolist()
    assert kept == first.table["seconds"].tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"num_games": 7},
        {"num_experts": 5},
        {"horizon": 31},
        {"checkpoints": 10},
        {"learners": {"uniform": Halved(delta=0.5)}},
        {"adversaries": {"bernoulli": dpe.make_adversary("bernoulli", means=0.5, num_experts=4, horizon=30)}},
        {"adversaries": {"another": "bernoulli"}},
    ],
    ids=str,
)
def test_a_cell_of_other_arguments_is_not_reused(tmp_path: Path, change: dict[str, Any]) -> None:
    arguments = {"learners": ["uniform"], "adversaries": ["bernoulli"], "reference": None, "out": tmp_path, **SMALL}
    dpe.tournament(**arguments)
    assert dpe.tournament(**arguments).run["reused"] == 1
    changed = {**arguments, **change}
    result = dpe.tournament(**changed)
    assert result.run["reused"] == 0
    same(result.table, dpe.tournament(**{**changed, "out": None}).table)


def test_a_cell_of_another_version_is_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dpe.tournament("uniform", "bernoulli", out=tmp_path, reference=None, **SMALL)
    versions = {**module._versions(), "dp-experts-env": "99.0"}
    monkeypatch.setattr(module, "_versions", lambda: versions)
    assert dpe.tournament("uniform", "bernoulli", out=tmp_path, reference=None, **SMALL).run["reused"] == 0


def test_a_cell_of_edited_code_is_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        import numpy as np
        import dp_experts_env as dpe

        class Stubborn(dpe.Learner):
            def act(self):
                return np.full(self.spec.shape, EXPERT)
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    regrets = []
    for turn, expert in enumerate((0, 0, 1)):
        (tmp_path / "third_party.py").write_text(textwrap.dedent(source).replace("EXPERT", str(expert)))
        sys.modules.pop("third_party", None)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        module._source.cache_clear()
        learner = importlib.import_module("third_party").Stubborn
        result = dpe.tournament(learner, "bernoulli", out=tmp_path / "out", reference=None, **SMALL)
        assert result.run["reused"] == (turn == 1)
        regrets.append(result.table["mean_regret"].iloc[0])
    assert regrets[0] == regrets[1] != regrets[2]
    sys.modules.pop("third_party", None)


def test_the_inner_learner_is_part_of_a_cell() -> None:
    inner = dpe.make_learner("follow_the_leader")
    foreseer = dpe.make_adversary("foreseer", learner=inner, num_experts=4, horizon=30)
    assert type(inner) in {type(one) for one in module._inner(foreseer)}
    assert module._identity(foreseer) == module._identity(foreseer.clone())


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"digest": "x", "record": {}}', '{"record": 3}'])
def test_a_damaged_cell_is_played_again(tmp_path: Path, damage: str) -> None:
    first = dpe.tournament("uniform", "bernoulli", out=tmp_path, reference=None, **SMALL)
    (cell,) = (tmp_path / "cells").iterdir()
    whole = json.loads(cell.read_bytes())
    cell.write_text(damage)
    again = dpe.tournament("uniform", "bernoulli", out=tmp_path, reference=None, **SMALL)
    assert again.run["reused"] == 0
    same(again.table, first.table)
    repaired = json.loads(cell.read_bytes())
    assert {**repaired["record"], "seconds": 0} == {**whole["record"], "seconds": 0}


SWEEP = """
import sys, time
import numpy as np
import dp_experts_env as dpe

class Slow(dpe.Learner):
    def __init__(self, number=0):
        self.number = number
    def start(self):
        time.sleep(0.15 if sys.argv[2] == "slow" else 0)
    def act(self):
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)

if __name__ == "__main__":
    result = dpe.tournament(
        {f"slow {number}": Slow(number) for number in range(40)}, "bernoulli", out=sys.argv[1],
        workers=int(sys.argv[3]), num_games=3, num_experts=3, horizon=10, reference=None, progress=False)
    print(result.run["reused"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_sweep_loses_nothing(tmp_path: Path) -> None:
    script = tmp_path / "sweep.py"
    # The time a cell takes is an argument, so that the text of the code, and with it the cells, stay the same.
    script.write_text(SWEEP, encoding="utf-8")
    out, clean = tmp_path / "out", tmp_path / "clean"
    process = subprocess.Popen([sys.executable, str(script), str(out), "slow", "1"])
    try:
        deadline = time.monotonic() + 60
        while len(list((out / "cells").glob("*.json"))) < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = {path.name: path.read_bytes() for path in (out / "cells").glob("*.json")}
    assert 3 <= len(finished) < 40
    assert json.loads((out / "run.json").read_text())["finished"] is False

    def finish(folder: Path, workers: str) -> int:
        command = [sys.executable, str(script), str(folder), "fast", workers]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)

    assert finish(out, "2") == len(finished)
    assert finished.items() <= cell_files(out).items()
    assert finish(clean, "1") == 0
    for file in ("results.csv", "curves.csv"):
        assert (out / file).read_bytes() == (clean / file).read_bytes()


def test_an_error_names_both_sides_and_keeps_what_is_finished(tmp_path: Path) -> None:
    learners = {"uniform": "uniform", "clumsy": Clumsy}
    with pytest.raises(dpe.GameError, match=r"^clumsy against bernoulli: KeyError: 'expert'$") as caught:
        dpe.tournament(learners, "bernoulli", out=tmp_path, reference=None, **SMALL)
    assert isinstance(caught.value.__cause__, KeyError)
    assert len(cell_files(tmp_path)) == 1
    short = dpe.make_learner("hedge", learning_rate=[0.5, 0.25])
    with pytest.raises(dpe.ArgumentError, match=r"against bernoulli: learning_rate: expected one number or 30"):
        dpe.tournament(short, "bernoulli", **SMALL)


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("precious")
    (other / "run.json").write_text('{"made_by": "someone else"}')
    with pytest.raises(
        dpe.ArgumentError, match=r"thesis holds files .*chapter\.tex, run\.json.*choose a new or an emp"
    ):
        dpe.tournament("uniform", "bernoulli", out=other, **SMALL)
    assert sorted(path.name for path in other.iterdir()) == ["chapter.tex", "run.json"]
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(dpe.ArgumentError, match="expected a folder but found the file"):
        dpe.tournament("uniform", "bernoulli", out=file, **SMALL)
    with pytest.raises(dpe.ArgumentError, match=r"out: cannot write to .*below"):
        dpe.tournament("uniform", "bernoulli", out=file / "below", **SMALL)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / ".gitignore").write_text("*")
    assert len(dpe.tournament("uniform", "bernoulli", out=hidden, **SMALL).table) == 1


# -- who may play ------------------------------------------------------------------------------------------------------


def test_names_classes_instances_and_labels() -> None:
    class Local(Halved):
        """Known to no registry and to no module."""

    private = dpe.make_learner("private_hedge", epsilon=3.0, delta=1e-9, method="seed")
    result = dpe.tournament(
        ["hedge", Local, private, dpe.make_learner("hedge", learning_rate=0.5)],
        ["tumour_realizable", dpe.make_adversary("planted", best_loss=2, num_experts=3, horizon=20)],
        1.0,
        num_games=3,
        workers=2,
        progress=False,
    )
    assert list(dict.fromkeys(result.table["learner"])) == [
        "hedge",
        "Local",
        "PrivateHedge(method='seed')",
        "Hedge(learning_rate=0.5)",
    ]
    assert list(dict.fromkeys(result.table["adversary"])) == ["tumour_realizable", "Planted(best_loss=2)"]
    assert result.table.groupby("adversary")["horizon"].first().to_dict() == {
        "Planted(best_loss=2)": 20,
        "tumour_realizable": 522,
    }
    row = result.table[result.table["learner"] == "PrivateHedge(method='seed')"].iloc[0]
    assert (row.epsilon, row.delta) == (1.0, 1e-9)
    own = dpe.tournament({"mine": private}, "bernoulli", None, **SMALL).table.iloc[0]
    assert (own.learner, own.asked_epsilon, own.epsilon, own.delta) == ("mine", 3.0, 3.0, 1e-9)


def test_epsilons_are_each_played_once() -> None:
    table = dpe.tournament("private_hedge", "bernoulli", (1, 2.0, 1.0), **SMALL).table
    assert table["epsilon"].tolist() == [1.0, 2.0]


def test_loss_files_are_replayed(tmp_path: Path) -> None:
    losses = np.random.default_rng(0).integers(0, 2, (12, 3)).astype(float)
    np.save(tmp_path / "mine.npy", losses)
    for given in (tmp_path / "mine.npy", str(tmp_path / "mine.npy")):
        table = dpe.tournament("uniform", [given], num_games=2).table
        assert table["best_loss"].tolist() == [losses.sum(0).min()]
        assert table["adversary"].tolist() == [str(tmp_path / "mine.npy")]
    assert opponent("rain", horizon=7).horizon == 7
    assert opponent("replay").horizon == 569
    assert (opponent("bernoulli").num_experts, opponent("bernoulli", 3, 9, means=0.5).horizon) == (10, 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learners": "hegde"}, r"learner: unknown name 'hegde'; did you mean 'hedge'"),
        ({"adversaries": "tumor"}, r"adversary: unknown name 'tumor'; did you mean 'tumour'"),
        ({"adversaries": "missing.csv"}, r"missing\.csv: no such file"),
        ({"learners": []}, r"learners: expected at least one"),
        ({"adversaries": {}}, r"adversaries: expected at least one"),
        ({"learners": 3}, r"learners: expected names, classes or instances but found 3"),
        ({"learners": [dpe.Adversary]}, r"learners: expected a name, a Learner or a subclass"),
        ({"adversaries": {"x": 3}}, r"adversaries: expected a name, an? Adversary or a subclass of it but found 3"),
        ({"learners": ["hedge", "hedge"]}, r"learners: two are called 'hedge'; pass a dict"),
        ({"epsilons": 0.0}, r"epsilons: expected a number in \(0, inf\) but found 0\.0"),
        ({"epsilons": ()}, r"epsilons: expected at least one"),
        ({"epsilons": "1"}, r"epsilons: expected a number"),
        ({"epsilons": object}, r"epsilons: expected numbers"),
        ({"delta": 1.0}, r"delta: expected a number in \[0, 1\)"),
        ({"num_games": 0}, r"num_games: expected an integer >= 1"),
        ({"num_experts": 0}, r"num_experts: expected an integer >= 1"),
        ({"horizon": 1.5}, r"horizon: expected an integer >= 1"),
        ({"workers": 0}, r"workers: expected an integer >= 1"),
        ({"checkpoints": 0}, r"checkpoints: expected an integer >= 1"),
        ({"seed": -1}, r"seed: expected an integer >= 0"),
        ({"backend": "dask"}, r"backend: 'dask' is not available \(available: 'local'"),
        ({"backend": "ray"}, r"backend: 'ray' is not available"),
        ({"reference": "hegde"}, r"did you mean 'hedge'"),
    ],
    ids=str,
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dpe.ArgumentError, match=message):
        dpe.tournament(**{"learners": "hedge", "adversaries": "bernoulli", **SMALL, **arguments})


def test_a_class_that_needs_arguments_is_named() -> None:
    class Needy(Halved):
        def __init__(self, friend: str) -> None:
            self.friend = friend

    with pytest.raises(dpe.ArgumentError, match=r"learner 'Needy' cannot be built: .*friend"):
        dpe.tournament(Needy, "bernoulli", **SMALL)


def test_what_cannot_be_sent_says_so() -> None:
    players = {"a": Unsendable(), "b": Unsendable()}
    with pytest.raises(dpe.GameError, match=r"cannot be sent to another process: .*workers=1"):
        dpe.tournament(players, {"x": "bernoulli", "y": "bernoulli"}, workers=2, progress=False, **SMALL)
    assert len(dpe.tournament(players, "bernoulli", **SMALL).table) == 2


def test_every_learner_meets_every_adversary() -> None:
    # Case L34: one signature, no adapters. Those whose source sets the size are given a short one.
    foes: dict[str, Any] = {name: name for name in dpe.adversaries()}
    # Its experts come in fours where the subsets are of one column.
    foes["subsets"] = dpe.make_adversary("subsets", size=1, num_experts=3, horizon=6)
    foes["replay"] = dpe.make_adversary("replay", source="tumour_realizable", horizon=6)
    foes["rescaled"] = dpe.make_adversary("rescaled", num_experts=3, horizon=6)
    result = dpe.tournament(dpe.learners(), foes, num_games=2, num_experts=3, horizon=6)
    assert len(result.table) == len(dpe.learners()) * len(foes)
    assert set(result.table["learner"]) == set(dpe.learners())
    assert result.table["mean_regret"].abs().max() <= 6
    private = result.table[result.table["learner"].isin(dpe.learners(private=True))]
    assert set(private["privacy"]) <= {"private", "not private here"}
    assert len(result.table) >= 60


def test_progress_counts_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(learners: list[str], progress: bool) -> str:
        dpe.tournament(learners, "bernoulli", out=tmp_path, reference=None, progress=progress, **SMALL)
        return capsys.readouterr().err

    assert "0/1" in shown(["uniform"], True)
    assert "1/3" in shown(["uniform", "hedge", "private_hedge"], True), "what is finished counts from the start"
    assert shown(["follow_the_leader"], False) == ""


def test_the_name_is_lazy() -> None:
    code = (
        "import sys, dp_experts_env as dpe\n"
        "late = ('dp_experts_env.study.tournament', 'pandas', 'matplotlib')\n"
        "assert not [name for name in late if name in sys.modules]\n"
        "assert {'tournament', 'Tournament'} <= set(dir(dpe)) and set(dpe.__all__) <= set(dir(dpe))\n"
        "assert dpe.tournament.__module__ == late[0]\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
    with pytest.raises(AttributeError, match="has no attribute 'turnament'"):
        dpe.turnament  # noqa: B018


# -- the report --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result() -> Any:
    return dpe.tournament(
        {"hedge": "hedge", "halved <b>": Halved, "private_hedge": "private_hedge", "liar": Liar},
        ["bernoulli", "punish_last", "alternating"],
        EPSILONS,
        **SMALL,
    )


def at(result: Any, epsilon: float) -> pd.DataFrame:
    table = result.table
    return table[table["asked_epsilon"].isna() | (table["asked_epsilon"] == epsilon)]


def legend(figure: matplotlib.figure.Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_figure_has_a_panel_an_adversary_and_a_line_a_learner(result: Any) -> None:
    figure = report.regret_figure(at(result, 4.0), result.curves)
    panels = [panel for panel in figure.axes if panel.axison]
    assert [panel.get_title().split()[0] for panel in panels] == ["bernoulli", "punish_last", "alternating"]
    for panel, adversary in zip(panels, ("bernoulli", "punish_last", "alternating"), strict=True):
        rows = at(result, 4.0)
        rows = rows[rows["adversary"] == adversary]
        drawn = [line for line in panel.lines if len(line.get_xdata()) == 30]
        assert len(drawn) == len(rows) == 4
        assert [line.get_ydata()[-1] for line in drawn] == rows["mean_regret"].tolist()
        assert len(panel.collections) == 4, "a shaded interval each"
        styles = {(line.get_color(), str(line._dash_pattern)) for line in drawn}
        assert len(styles) == 4
    # One cross for each learner that plays without its guarantee, in the adaptive panel alone.
    assert [sum(line.get_marker() == "x" for line in panel.lines) for panel in panels] == [0, 1, 0]


def test_legend_is_read_from_the_records(result: Any) -> None:
    assert legend(report.regret_figure(at(result, 4.0), result.curves)) == [
        "halved <b>, ε=2",
        "private_hedge, ε=4",
        "liar, leaky, says ε=2",
        "hedge, not private",
    ]
    forged = at(result, 4.0).assign(epsilon=lambda table: table["epsilon"] * 10)
    assert legend(report.regret_figure(forged, result.curves))[1] == "private_hedge, ε=40"


def test_many_learners_are_told_apart() -> None:
    learners = [f"learner_{number}" for number in range(26)]
    table = pd.DataFrame({"learner": learners, "privacy": ["private"] * 20 + ["not private"] * 6})
    styles = report._styles(table)
    assert list(styles) == learners
    assert len({(style["color"], str(style["linestyle"])) for style in styles.values()}) == 26


def test_scale_follows_the_data() -> None:
    def scale(finals: list[float]) -> str:
        panel = matplotlib.figure.Figure().subplots()
        report._scale(panel, finals)
        return str(panel.get_yscale())

    assert scale([100.0, 60.0, 40.0]) == "linear"
    assert scale([3000.0, 40.0, 20.0, 1.0]) == "symlog"
    assert scale([0.0, 0.0]) == "linear"
    assert scale([-500.0, -400.0, 300.0]) == "linear"


def test_numbers_in_words() -> None:
    shown = [report.number(value) for value in (math.nan, 0.0, 0.123, -3.456, 12.34, 999.94, 12345.6, math.inf)]
    assert shown == ["none", "0", "0.12", "-3.46", "12.3", "999.9", "12346", "none"]
    assert report.plus_minus(12.34, 0.567) == "12.3 ± 0.57"
    assert report.plus_minus(12.34, math.nan) == "12.3"


def test_an_upper_bound_is_rounded_up() -> None:
    values = (0.999993, 0.977916, 3.99998, 0.1, 1.0, 1e-6, 1.0000001e-6, 0.0, 1234.0)
    shown = [report.upper(value) for value in values]
    assert shown == ["1", "0.978", "4", "0.1", "1", "1e-06", "1.01e-06", "0", "1240"]
    assert all(float(text) >= value for text, value in zip(shown, values, strict=True))


def text_of(table: pd.DataFrame, width: int, top: int | None = None) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for one in report.screen(table, top):
        console.print(one)
    return stream.getvalue()


def test_screen(result: Any) -> None:
    text = text_of(result.table, 110)
    for word in ("bernoulli", "adaptive", "N=4", "T=30", "6 games", "halved <b>", "ε=2, δ=5e-07", "none here", "leaky"):
        assert word in text
    rows = [line for line in text.splitlines() if "│" in line]
    assert len(rows) == len(result.table)
    narrow = text_of(result.table, 60)
    assert max(len(line) for line in narrow.splitlines()) <= 60
    regrets = [report.plus_minus(row.mean_regret, row.ci95) for row in result.table.itertuples()]
    assert all(regret in narrow for regret in regrets), "figures are never cut"


def test_screen_shows_the_best_of_each_budget(result: Any) -> None:
    text = text_of(result.table, 110, top=1)
    assert text.count("and 4 more in the files") == 3
    first = result.table[result.table["adversary"] == "bernoulli"].sort_values("mean_regret")
    best = first.groupby("asked_epsilon", dropna=False).head(1)
    shown = [line for line in text.partition("punish_last")[0].splitlines() if "│" in line]
    assert len(shown) == len(best) == 3
    assert "more" not in text_of(result.table, 110, top=3), "a single missing row is shown instead of announced"


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += " " + data


def test_page_is_whole_and_honest(result: Any, tmp_path: Path) -> None:
    made = report.figures(result.table, result.curves)
    assert list(made) == ["regret_epsilon_0.5.png", "regret_epsilon_4.png"]
    assert all(data.startswith(b"\x89PNG") for _, data in made.values())
    page = Page()
    source = report.page(result.table, result.run, made)
    page.feed(source)
    assert not page.open
    outside = [source for source in page.sources if not source.startswith(("data:image/png;base64,", "#"))]
    assert not outside
    assert "http" not in re.sub(r"base64,[^\"]*", "", source)
    assert len([source for source in page.sources if source.startswith("data:")]) == 2
    said = " ".join(page.text.split())
    for heading, note in report.NOTES.items():
        assert heading in said
        assert note in said
    assert "non-private diagnostics" in said
    assert "not policy regret" in said
    assert "The epsilon of the best run is not that of the choice" in said
    assert f"seed {result.run['seed']}" in said
    for row in result.table.itertuples():
        assert row.learner in said
        assert report.plus_minus(row.mean_regret, row.ci95) in said
        assert report.budget(row) in said
    assert "<b>" not in source
    assert source == report.page(result.table, result.run, made)


def test_report_runs_nothing_and_clears_its_old_figures(
    result: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "play", None)
    monkeypatch.setattr(dpe.Learner, "reset", None)
    (tmp_path / "regret_mine.png").write_bytes(b"a picture of my own")
    report.write(result.table, result.curves, result.run, tmp_path)
    assert (tmp_path / "regret_epsilon_0.5.png").exists()
    table = result.table[result.table["asked_epsilon"].isna()]
    paths = report.write(table, result.curves, result.run, tmp_path)
    assert [path.name for path in paths] == ["regret.png", "report.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["regret.png", "regret_mine.png", "report.html"]


def test_figures_are_the_same_bytes(result: Any) -> None:
    rows = at(result, 4.0)
    rows = rows[rows["adversary"] == "bernoulli"]
    first, second = (report.png(report.regret_figure(rows, result.curves)) for _ in range(2))
    assert first == second
    assert report.SOFTWARE.encode() in first[:4096]


def test_one_learner_figure() -> None:
    rounds = np.arange(1, 11)
    figure = report.curve_figure(rounds, rounds / 2.0, np.full(10, 0.1), "title", "label", bound=9.0)
    (panel,) = figure.axes
    labels = [text.get_text() for text in panel.get_legend().get_texts()]
    assert labels == ["label", "proved bound on the mean: 9.00"]
    assert panel.get_ylim()[1] > 9.0
    single = report.curve_figure(rounds, rounds / 2.0, np.full(10, math.nan), "title", "label")
    assert not single.axes[0].collections
    assert report.png(single).startswith(b"\x89PNG")
