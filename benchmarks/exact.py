"""Exact epsilon of small games beside what each private learner claims; writes results/exact.csv and results/exact.md.

python benchmarks/exact.py [--out benchmarks/results]

About three minutes of one core. Nothing is random.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dp_experts_env as dpe
from dp_experts_agents.dartboard import PrivateDartboard
from dp_experts_agents.erm import PrivateERM
from dp_experts_agents.hedge import PrivateHedge
from dp_experts_agents.lazy import LazyHedge, LazyToPrivate
from dp_experts_agents.realizable import Realizable
from dp_experts_agents.small_loss import SmallLoss
from dp_experts_agents.subsampled import Subsampled
from dp_experts_agents.tracking import PrivateFixedShare
from dp_experts_env.privacy.exact import ExactGame, laws_delta, laws_privacy
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities
from dp_experts_env.spec import GameSpec

VIEWS = ("choices", "transcript")
BUDGETS = ((1.0, 0.0), (1.0, 1e-6), (1.0, 0.01))
APART = [[0.0, 1.0], [1.0, 0.0]]

HORIZONS = {
    "lazy_hedge": 7,
    "lazy_to_private": 6,
    "phased_selection": 7,
    "private_dartboard": 6,
    "private_fixed_share": 6,
    "private_hedge": 7,
    "realizable": 5,
    "small_loss": 5,
    "subsampled": 5,
}
"""Every registered private learner with a finite outcome law, and how many rounds of two experts are played."""

WATCH = {"watch_epsilon": 0.6, "learning_rate": 0.2, "threshold": 0.3, "stride": 1}


class Case(NamedTuple):
    """A learner and a game: ``losses`` is ``None`` for all of {0, 1}^N."""

    group: str
    name: str
    learner: dpe.Learner
    experts: int
    horizon: int
    losses: Any = None


def cases() -> Iterator[Case]:
    for name, horizon in HORIZONS.items():
        for epsilon, delta in BUDGETS:
            learner = dpe.make_learner(name, epsilon=epsilon, delta=delta)
            yield Case("calibrated", f"{name}, δ={delta:g}", learner, 2, horizon)
        yield Case("calibrated", f"{name}, δ=0", dpe.make_learner(name, delta=0.0), 3, 4 if horizon > 5 else 3)
        zeroing = dpe.make_learner(name, delta=0.0, adjacency="zero_out")
        yield Case("calibrated", f"{name}, δ=0, zero_out", zeroing, 2, 5)

    def tuned(name: str, learner: dpe.Learner, horizon: int, losses: Any = None) -> Case:
        return Case("tuned", name, learner, 2, horizon, losses)

    for method, delta in itertools.product(("seed", "zcdp", "optimal"), (1e-6, 0.01)):
        yield tuned(f"private_hedge, {method}", PrivateHedge(1.0, delta, method), 7)
    for delta in (0.0, 0.01):
        yield tuned("lazy_hedge, B=2", LazyHedge(1.0, delta, batch_size=2), 12, APART)
        board: dict[str, Any] = {"batch_size": 1, "switch_probability": 0.3, "cap": 2}
        yield tuned("private_dartboard, B=1, K=2", PrivateDartboard(1.0, delta, **board), 6)
        yield tuned("private_fixed_share, B=1, K=2", PrivateFixedShare(1.0, delta, **board), 5)
        yield tuned("lazy_to_private, B=1, K=1", LazyToPrivate(1.0, delta, **{**board, "cap": 1}), 5, APART)
        yield tuned("small_loss, low threshold", SmallLoss(1.5, delta, coin_epsilon=0.35, cap=2, **WATCH), 5)
        yield tuned("realizable, low threshold", Realizable(1.5, delta, cap=2, **WATCH), 5)
        inner = PrivateDartboard(batch_size=1, switch_probability=0.3, cap=1)
        yield tuned("subsampled dartboard, q=0.5", Subsampled(inner, 0.5, 1.0, delta), 5, APART)
    yield tuned("private_dartboard, uncapped", PrivateDartboard(1.0, 0.01, "calibrated", "uncapped", 1, 0.4), 6)
    high = PrivateDartboard(9.0, 0.0, batch_size=3, switch_probability=0.1, learning_rate=2.0, cap=1)
    yield tuned("private_dartboard, B=3, K=1, eta=2", high, 12, APART)
    yield tuned("small_loss, paper", SmallLoss(1.0, 0.0, tuning="paper"), 5)
    yield tuned("realizable, paper", Realizable(1.0, 0.0, tuning="paper"), 5)

    for horizon in range(2, 8):
        yield Case("rounds", "private_hedge", PrivateHedge(1.0, 0.0), 2, horizon)
    for name in ("leaky_ada_hedge", "leaky_dartboard", "leaky_triple_rate"):
        yield Case("leaky", name, dpe.make_learner(name), 2, 5)


def measured(case: Case, view: str) -> dict[str, Any]:
    began = time.perf_counter()
    claim = case.learner.guarantee(GameSpec(case.experts, case.horizon))
    assert claim is not None
    game = ExactGame(case.learner, case.experts, case.horizon, losses=case.losses, adjacency=claim.adjacency, view=view)
    adaptive = claim.covers("adaptive")
    found = game.epsilon(claim.delta, adaptive=adaptive)
    return {
        "group": case.group,
        "learner": case.name,
        "experts": case.experts,
        "horizon": case.horizon,
        "losses": len(game.losses),
        "adjacency": str(claim.adjacency),
        "view": view,
        "against": claim.against,
        "claimed_epsilon": claim.epsilon,
        "claimed_delta": claim.delta,
        "exact_epsilon": found,
        "exact_epsilon_oblivious": game.epsilon(claim.delta, adaptive=False),
        "exact_delta": game.delta(claim.epsilon, adaptive=adaptive),
        "looseness": claim.epsilon / found if found > 0.0 else math.nan,
        "paths": game.num_paths,
        "seconds": time.perf_counter() - began,
    }


def law_rows() -> Iterator[dict[str, Any]]:
    """Two mechanisms from their output laws: private ERM, and the selection of multiplicative weights (MWEM)."""
    kinds = list(itertools.product(range(4), range(2)))
    rules = [lambda x, cut=cut: np.asarray(x) >= cut for cut in range(5)]
    for least in (2, 4):
        learner = PrivateERM(least, rules, 1.0, rng=np.random.default_rng(0))
        sizes = (least, least + 1)
        samples = [bag for size in sizes for bag in itertools.combinations_with_replacement(kinds, size)]
        index = {bag: number for number, bag in enumerate(samples)}
        pairs = [
            (index[bag], index[tuple(sorted((*bag, extra)))]) for bag in samples if len(bag) == least for extra in kinds
        ]
        laws = [learner.log_law(*np.array(bag).T) for bag in samples]
        yield law_row(f"PrivateERM, n={least}, thresholds on 4 points", "zero_out", 1.0, laws, pairs)

    records, share, queries = 30, 0.5, np.array([[1, -1, 1], [1, -1, -1]])
    data = np.array([(a, b, records - a - b) for a in range(records + 1) for b in range(records + 1 - a)])
    scores = np.abs(data @ queries.T - records * queries.mean(1))
    apart = np.abs(data[:, None] - data).sum(-1) == 2
    pairs = [(int(one), int(other)) for one, other in np.argwhere(np.triu(apart))]
    laws = exponential_log_probabilities(-scores, share / 4)
    yield law_row("MWEM selection, 2 queries in [-1, 1], 3 cells, n=30, sensitivity 2", "replace", share, laws, pairs)


def law_row(name: str, adjacency: str, claimed: float, laws: Any, pairs: Any) -> dict[str, Any]:
    found = laws_privacy(laws, neighbours=pairs)
    return {
        "group": "laws",
        "learner": name,
        "adjacency": adjacency,
        "claimed_epsilon": claimed,
        "claimed_delta": 0.0,
        "exact_epsilon": found,
        "exact_delta": laws_delta(laws, claimed, pairs),
        "looseness": claimed / found,
    }


HEADINGS = {
    "calibrated": (
        "Learners as they calibrate themselves",
        "The registered learners with their default constants at this N and T, told the δ beside their names. A claim "
        "of 0 is that of a learner which decides once, before any loss. Calibrated for small games their noise is "
        "large: what is claimed beyond what is exact is not lost by one step of the proof but by rounds that cannot "
        "all be worst.",
    ),
    "tuned": (
        "Constants at which small games cost something",
        "Short batches, low thresholds, few redraws: here the steps of the proofs can be near their worst together.",
    ),
    "rounds": (
        "More rounds",
        "Private Hedge under basic composition, eta = 1/(2 (T - 1)): one draw costs eta at even odds and nearly 2 eta "
        "only at long odds, which long games have and short ones do not.",
    ),
    "laws": ("Mechanisms by their output laws", "The largest ratio over all neighbouring data sets of a small domain."),
    "leaky": ("Positive controls", "Learners that do not keep what they claim: their looseness is below 1."),
}


def cell(value: float) -> str:
    # What is below is rounding.
    return "" if math.isnan(value) else f"{value if value > 1e-13 else 0.0:.4g}"


def report(table: pd.DataFrame) -> str:
    honest = table[table["group"] != "leaky"]
    broken = honest[
        (honest["exact_epsilon"] > honest["claimed_epsilon"] * (1 + 1e-9))
        | (honest["exact_delta"] > honest["claimed_delta"] + 1e-12)
    ]
    lines = [
        "# Exact privacy of small games",
        "",
        "From `benchmarks/exact.py`. The exact ε at the claimed δ over all adversaries, adaptive ones where the claim",
        "covers them, whose losses are in {0, 1}^N (where the column L says 2: the vectors (0, 1) and (1, 0)). In the",
        "choices view, that of the definition, the adversary sees the choices; in the transcript view also the coins",
        "and alarms that the proof covers. Looseness is claimed/exact in the transcript view.",
        "",
        f"Claims exceeded, of {len(honest)}: {len(broken)}.",
        "",
    ]
    for group, (heading, text) in HEADINGS.items():
        part = table[table["group"] == group]
        lines += [f"## {heading}", "", text, ""]
        if group == "laws":
            lines += ["| mechanism | neighbours | claimed ε | exact ε | looseness |", "|---" * 5 + "|"]
            for row in part.itertuples():
                numbers = " | ".join(cell(x) for x in (row.claimed_epsilon, row.exact_epsilon, row.looseness))
                lines.append(f"| {row.learner} | {row.adjacency} | {numbers} |")
        else:
            lines += [
                "| learner | N | T | L | claimed ε | claimed δ | exact ε, choices (oblivious) | exact ε, transcript | "
                "exact δ, transcript | looseness |",
                "|---" * 10 + "|",
            ]
            choices, transcript = (part[part["view"] == view].itertuples() for view in VIEWS)
            for less, more in zip(choices, transcript, strict=True):
                game = f"{more.learner} | {more.experts:g} | {more.horizon:g} | {more.losses:g}"
                model = "" if more.against == "adaptive" else " (oblivious)"
                seen = f"{cell(less.exact_epsilon)} ({cell(less.exact_epsilon_oblivious)})"
                lines.append(
                    f"| {game} | {cell(more.claimed_epsilon)}{model} | {cell(more.claimed_delta)} | {seen} | "
                    f"{cell(more.exact_epsilon)} | {cell(more.exact_delta)} | {cell(more.looseness)} |"
                )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    folder = parser.parse_args().out
    rows = []
    for case, view in itertools.product(cases(), VIEWS):
        rows.append(measured(case, view))
        print(f"{case.name}, N={case.experts}, T={case.horizon}, {view}: {rows[-1]['exact_epsilon']:.4g}", flush=True)
    table = pd.DataFrame([*rows, *law_rows()])
    folder.mkdir(parents=True, exist_ok=True)
    table.drop(columns="seconds").to_csv(folder / "exact.csv", index=False, float_format="%.6g")
    (folder / "exact.md").write_text(report(table), encoding="utf-8")
    print(f"{table['seconds'].sum():.0f} s, the longest {table['seconds'].max():.0f} s; {folder / 'exact.md'}")


if __name__ == "__main__":
    main()
