"""Every example runs from another folder, without a warning, and says what it is there to say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

SAYS = {
    "learned_adversary": ("forces a regret of 75.0",),
    "learned_judge": ("leaky_triple_rate", "VIOLATED", "consistent"),
    "learned_learner": ("PrivateHedge", "its guarantee: None"),
    "quickstart": ("against PunishLast", "(1, 1e-06)-DP", "47 patients of 569", "private_hedge"),
    "write_an_adversary": ("costs 98.00", "Hedge(", "PunishLoyalty keeps the rules"),
    "sparse_vector_variants": ("caught", "not accused"),
    "write_a_learner": ("explore_then_commit", "temperature_2F", "ExploreThenCommit keeps the rules"),
}


def test_the_front_doors_are_there() -> None:
    assert set(SAYS) <= {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    if path.stem.startswith("learned_"):
        pytest.importorskip("stable_baselines3")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in SAYS.get(path.stem, ()):
        assert text in done.stdout
    assert done.stdout.strip()
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind that it was not told to write"


@pytest.mark.parametrize("stem", ["write_an_adversary", "write_a_learner"])
def test_the_front_door_is_short(stem: str) -> None:
    # The class itself, which is all an author has to write, without its docstring and blank lines.
    text = (EXAMPLES / f"{stem}.py").read_text(encoding="utf-8")
    body = text.partition("\nclass ")[2].partition("\n\n\n")[0]
    opening, _, rest = body.partition('"""')
    code = [line for line in (opening + rest.partition('"""')[2]).splitlines() if line.strip()]
    assert 8 <= len(code) <= 22
