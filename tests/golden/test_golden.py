"""Golden traces are replayed from their own headers and compared line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_traces import COMMAND, FOLDER, headers, parse, trace

import dp_experts_env as dpe

FILES = sorted(FOLDER.glob("*.txt"))


def test_there_is_a_trace_of_every_registered_class() -> None:
    assert {path.name for path in FILES} == set(headers()), f"traces are missing or left over; run {COMMAND}"
    assert len(FILES) == 2 * len([*dpe.learners(), *dpe.learners(leaky=True)]) + len(dpe.adversaries())
    assert len(FILES) >= 23


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_trace(path: Path) -> None:
    header, recorded = parse(path.read_text(encoding="utf-8"))
    assert header["command"] == COMMAND
    versions = header["versions"]
    assert {key: header[key] for key in headers()[path.name]} == headers()[path.name]
    played = trace(header)
    assert len(recorded) == len(played) >= 4
    for line, (was, now) in enumerate(zip(recorded, played, strict=True), 1):
        assert now == was, (
            f"{path.name}, line {line} (made with {versions}, here numpy {np.__version__}); see {COMMAND}"
        )


@pytest.mark.parametrize("name", dpe.learners())
def test_a_trace_would_show_another_use_of_randomness(name: str) -> None:
    """Another seed gives another trace, where the learner draws at all."""
    header, recorded = parse((FOLDER / f"learner_{name}_v_punish_last.txt").read_text(encoding="utf-8"))
    changed = trace({**header, "seed": header["seed"] + 1}) != recorded
    assert changed != dpe.learner_class(name).deterministic
