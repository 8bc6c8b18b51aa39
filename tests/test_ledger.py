"""The ledger of claims, docs/theorems.md: its tests exist, its names are real, and no claim is without a verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import dp_experts_env as dpe

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
LEDGER = (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")
PACKAGES = {
    "dp_experts_env": ROOT / "dp_experts_env",
    "dp_experts_agents": ROOT / "agents" / "dp_experts_agents",
    "dp_experts_adversaries": ROOT / "adversaries" / "dp_experts_adversaries",
}
HEADER = ["Claim", "Statement", "Where it lives", "Test or verdict"]
TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")
VERDICT = re.compile(r"\*\*(Wrong|Not checked)\*\*: (.+)")
NAME = re.compile(r"`([\w.]+)`")


class Row(NamedTuple):
    """A row of one of the ledger's tables, with the number of its line."""

    line: int
    cells: list[str]


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of all tables, without headers and rules; a pipe after a backslash belongs to the cell."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
            if cells != HEADER and not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                yield Row(number, cells)


def collected() -> dict[str, set[str]]:
    """Names of the tests of every test file, read from its source: functions, and methods of test classes."""
    found = {}
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        scopes = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[:4] == "Test")]
        found[path.name] = {
            node.name
            for scope in scopes
            for node in scope.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
        }
    return found


def defined() -> set[str]:
    """Names of all modules, classes, functions and methods of the three packages, methods as ``Class.method``."""
    names = set()
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            module = [package, *parts[: -1 if parts[-1] == "__init__" else None]]
            names |= {".".join(module), module[-1]}
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    names.add(node.name)
                if isinstance(node, ast.ClassDef):
                    names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def faults(text: str, tests: dict[str, set[str]], names: Iterable[str]) -> Iterator[str]:
    """What is wrong with a ledger, by line."""
    known = set(names)
    for line, cells in rows(text):
        if len(cells) != len(HEADER) or not all(cells):
            yield f"{line}: expected {len(HEADER)} cells with something in each but found {cells}"
            continue
        for name in NAME.findall(cells[2]):
            if name not in known:
                yield f"{line}: nothing is called {name}"
        judged = VERDICT.search(cells[3])
        if judged is None and not TEST.search(cells[3]):
            yield f"{line}: {cells[0]} has no test and no verdict"
        if judged is not None and len(judged[2].split()) < 3:
            yield f"{line}: {cells[0]} has a verdict without a reason"
    for file, name in set(TEST.findall(text)):
        if name not in tests.get(file, set()):
            yield f"{file} has no test {name}"
    for mention in sorted(set(re.findall(r"test_\w+\.py\S*", text))):
        if not re.fullmatch(r"test_\w+\.py::test_\w+`[,;.:)]*", mention):
            yield f"{mention} is not `file::test`"


def test_the_ledger_has_no_fault() -> None:
    assert len(list(rows(LEDGER))) > 100
    assert len(set(TEST.findall(LEDGER))) > 100
    assert list(faults(LEDGER, collected(), defined())) == []


def ours(name: str, find: object) -> bool:
    """Whether a registered name is one of this distribution: tests register others."""
    return find(name).__module__.split(".")[0] in PACKAGES  # type: ignore[operator]


@pytest.mark.parametrize(
    ("names", "find"),
    [
        ((*dpe.learners(), *dpe.learners(leaky=True)), dpe.learner_class),
        (dpe.adversaries(), dpe.adversary_class),
    ],
    ids=["learners", "adversaries"],
)
def test_every_registered_name_is_in_the_ledger(names: tuple[str, ...], find: object) -> None:
    own = [name for name in names if ours(name, find)]
    assert len(own) >= 12
    entered = {name for row in rows(LEDGER) for name in NAME.findall(row.cells[2])}
    assert [name for name in own if find(name).__name__ not in entered] == []  # type: ignore[operator]


def test_no_document_of_the_house_is_named() -> None:
    assert re.findall(r"(?i)\b(?:design|algorithms|findings)\.md\b|\bissues?\s*#?\d|#\d", LEDGER) == []


SOUND = "\n".join(
    (
        "| Claim | Statement | Where it lives | Test or verdict |",
        "|---|---|---|---|",
        "| a | \\|C\\| >= 1 | `Hedge` | `test_a.py::test_b` |",
        "| b | b | none | **Not checked**: it is not built |",
    )
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("test_b", "test_c", "test_a.py has no test test_c"),
        ("test_a.py", "test_z.py", "test_z.py has no test test_b"),
        ("`test_a.py::test_b`", "test_a.py::test_b", "has no test and no verdict"),
        ("`test_a.py::test_b`", "`test_a.py`", "is not `file::test`"),
        ("`test_a.py::test_b`", "", "something in each"),
        ("`test_a.py::test_b`", "believed", "has no test and no verdict"),
        ("`Hedge`", "`Ledge`", "nothing is called Ledge"),
        ("| none ", "", "expected 4 cells"),
        ("**Not checked**: it is not built", "**Not checked**: why", "verdict without a reason"),
        ("**Not checked**", "Not checked", "has no test and no verdict"),
    ],
)
def test_a_faulty_ledger_is_caught(old: str, new: str, expected: str) -> None:
    tests, names = {"test_a.py": {"test_b"}}, {"Hedge"}
    assert list(faults(SOUND, tests, names)) == []
    assert any(expected in fault for fault in faults(SOUND.replace(old, new), tests, names))


def test_tests_and_names_are_collected() -> None:
    assert {"test_the_ledger_has_no_fault", "test_tests_and_names_are_collected"} <= collected()["test_ledger.py"]
    assert "rows" not in collected()["test_ledger.py"]
    assert {"dp_experts_agents.hedge", "hedge", "PrivateHedge", "PrivateHedge.guarantee", "compose"} <= defined()
