"""Golden traces: games as text that says how it was made. ``python tests/golden/golden_traces.py`` writes them anew.

A trace is replayed from its own header and compared line by line, so that an unmeant change of what a learner or an
adversary does with its randomness shows, and a meant one is one command and a diff to read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dp_experts_env as dpe

FOLDER = Path(__file__).parent
COMMAND = "python tests/golden/golden_traces.py"


def headers() -> dict[str, dict[str, Any]]:
    """What is recorded, by file name: each learner against coins and against its own last choice; each adversary."""
    found: dict[str, dict[str, Any]] = {}
    for name in (*dpe.learners(), *dpe.learners(leaky=True)):
        for adversary, seed in (("bernoulli", 11), ("punish_last", 12)):
            found[f"learner_{name}_v_{adversary}.txt"] = {
                "learner": {"name": name},
                "adversary": {"name": adversary, "num_experts": 4, "horizon": 40},
                "num_games": 2,
                "seed": seed,
            }
    for name in dpe.adversaries():
        # The size of recorded games is that of their data.
        size = {"horizon": 4} if name == "replay" else {"num_experts": 5, "horizon": 20}
        found[f"adversary_{name}.txt"] = {"adversary": {"name": name, **size}, "num_games": 2, "seed": 13}
    return found


def trace(header: dict[str, Any]) -> list[str]:
    """Play the game of a header: the choices of each round of a match, or the losses emitted to changing choices."""
    return _match_lines(header) if "learner" in header else _loss_lines(header)


def _match_lines(header: dict[str, Any]) -> list[str]:
    learner, adversary = dpe.make_learner(**header["learner"]), dpe.make_adversary(**header["adversary"])
    match = dpe.play(
        learner, adversary, header["num_games"], seed=header["seed"], record="choices", override=True, progress=False
    )
    assert match.choices is not None
    lines = [f"round {number}: {_row(row)}" for number, row in enumerate(match.choices.T, 1)]
    return [*lines, f"learner_loss: {_row(match.learner_loss)}", f"best_loss: {_row(match.best_loss)}"]


def _loss_lines(header: dict[str, Any]) -> list[str]:
    adversary = dpe.make_adversary(**header["adversary"], num_games=header["num_games"])
    adversary.reset(seed=header["seed"])
    lines = []
    for number in range(1, adversary.horizon + 1):
        losses = np.atleast_2d(adversary.emit())
        lines.append(f"round {number}: {' | '.join(_row(row) for row in losses)}")
        adversary.see((number * np.arange(1, header["num_games"] + 1)) % adversary.num_experts)
    return lines


def _row(values: Any) -> str:
    # Ten digits: the last bits of a sum or an exponential may differ between processors.
    return " ".join(f"{value:.10g}" for value in values)


def parse(text: str) -> tuple[dict[str, Any], list[str]]:
    """Split the text of a trace into its header and the lines of the game."""
    header, lines = {}, []
    for line in text.splitlines():
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            header[key] = json.loads(value)
        else:
            lines.append(line)
    return header, lines


def write() -> None:
    """Write all traces anew and remove those of names that are no longer registered."""
    wanted = headers()
    for path in FOLDER.glob("*.txt"):
        if path.name not in wanted:
            path.unlink()
    for name, header in wanted.items():
        made = {"command": COMMAND, "versions": {"dp-experts-env": dpe.__version__, "numpy": np.__version__}}
        lines = [f"# {key}: {json.dumps(value)}" for key, value in {**made, **header}.items()]
        (FOLDER / name).write_text("\n".join([*lines, *trace(header)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{len(headers())} traces in {FOLDER}\n")
