"""Six published sparse-vector mechanisms, two of them private: which ones does an audit catch?

Lyu, Su and Li ("Understanding the sparse vector technique for differential privacy", VLDB 2017) compare six published
versions of one mechanism [RECALLED]. It is asked whether queries of sensitivity 1 reach a threshold, adds noise to the
threshold and to each answer, and stops after c answers "above". Here each of them answers the same two neighbouring
lists of queries many times, and the evidence in its answers is judged: no learner, no game, arrays only.

    python examples/sparse_vector_variants.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from dp_experts_env.privacy import evidence

BELOW, ABOVE, HALTED = 0, 1, 2

GAMES = (1_000, 10_000, 100_000)
CONFIDENCE = 0.999
EPSILON = 1.0
CUTOFF = 1
THRESHOLD = 0.5
QUERIES = np.repeat([0.0, 1.0], [6, 6])
NEIGHBOUR = np.repeat([1.0, 0.0], [6, 6])


@dataclass(frozen=True)
class Variant:
    """A sparse-vector mechanism; scales are for queries of sensitivity 1 and functions of (epsilon, c).

    Args:
        source: who published it.
        fault: what is wrong, or "".
        truth: the epsilon that it really has.
        threshold_scale: scale of the threshold's Laplace noise.
        query_scale: scale of each answer's Laplace noise.
        renews: whether the threshold gets fresh noise after each answer "above".
        releases: whether the noisy answer that reached the threshold is published.
        halts: whether it stops after c answers "above".
    """

    source: str
    fault: str
    truth: Callable[[float, int], float]
    threshold_scale: Callable[[float, int], float]
    query_scale: Callable[[float, int], float]
    renews: bool = False
    releases: bool = False
    halts: bool = True

    def __call__(
        self, queries: np.ndarray, threshold: float, epsilon: float, c: int, rng: np.random.Generator, games: int
    ) -> evidence.Outcomes:
        """Answer a list of queries in many independent games.

        Args:
            queries: the true answers, shape (T,).
            threshold: the threshold.
            epsilon: nominal epsilon.
            c: how many answers "above" it may give.
            rng: source of randomness.
            games: number of games G.

        Returns:
            The answers BELOW, ABOVE, HALTED; where noisy answers are released, also these, in bins of width 1
            (whoever audits may look at less than there is).
        """
        scale = self.threshold_scale(epsilon, c)
        level = threshold + rng.laplace(scale=scale, size=games)
        given = np.zeros(games, dtype=np.int64)
        answers = np.full((games, len(queries)), HALTED, dtype=np.uint8)
        released = np.zeros_like(answers)
        for t, query in enumerate(queries):
            noisy = query + self.query_scale(epsilon, c) * rng.laplace(size=games)
            going = (given < c) | (not self.halts)
            above = going & (noisy >= level)
            answers[going, t] = BELOW
            answers[above, t] = ABOVE
            released[above, t] = 1 + np.clip(np.floor(noisy[above]) + 16, 0, 31)
            given += above
            if self.renews:
                level = np.where(above, threshold + rng.laplace(scale=scale, size=games), level)
        columns = {"released": released, "answer": answers} if self.releases else {"answer": answers}
        symbols = np.stack(list(columns.values()), axis=-1)
        return evidence.Outcomes(symbols, np.zeros(games, dtype=np.int64), columns=tuple(columns))


VARIANTS = (
    Variant("Lyu, Su, Li 2017", "", lambda e, c: e, lambda e, c: 2 / e, lambda e, c: 4 * c / e),
    Variant("Dwork, Roth 2014", "", lambda e, c: e, lambda e, c: 2 * c / e, lambda e, c: 4 * c / e, renews=True),
    Variant(
        "Roth 2011",
        "releases noisy answers",
        lambda e, c: math.inf,
        lambda e, c: 2 / e,
        lambda e, c: 2 * c / e,
        releases=True,
    ),
    Variant(
        "Lee, Clifton 2014",
        "noise does not grow with c",
        lambda e, c: (1 + 6 * c) / 4 * e,
        lambda e, c: 4 / e,
        lambda e, c: 4 / (3 * e),
    ),
    Variant(
        "Stoddard et al. 2014",
        "no query noise, never stops",
        lambda e, c: math.inf,
        lambda e, c: 2 / e,
        lambda e, c: 0.0,
        halts=False,
    ),
    Variant(
        "Chen et al. 2015", "never stops", lambda e, c: math.inf, lambda e, c: 2 / e, lambda e, c: 2 / e, halts=False
    ),
)


def audit(variant: Variant, games: int, seed: int, confidence: float = CONFIDENCE) -> evidence.Evidence:
    """Judge a variant by so many games on each of the two neighbouring lists."""
    ours, theirs = np.random.default_rng(seed).spawn(2)
    zero = variant(QUERIES, THRESHOLD, EPSILON, CUTOFF, ours, games)
    one = variant(NEIGHBOUR, THRESHOLD, EPSILON, CUTOFF, theirs, games)
    return evidence.judge(zero, one, confidence=confidence)


def main() -> None:
    table = Table(title=f"Sparse vector at nominal epsilon {EPSILON:g}, c={CUTOFF}; each bound at {CONFIDENCE:.1%}")
    for column in ("variant", "fault", "truth", *(f"{games:,}" for games in GAMES), "verdict (games a list)"):
        table.add_column(column, overflow="fold")
    for number, variant in enumerate(VARIANTS, 1):
        bounds = [audit(variant, games, seed=number, confidence=CONFIDENCE).epsilon_lower for games in GAMES]
        caught = [games for games, bound in zip(GAMES, bounds, strict=True) if bound > EPSILON]
        verdict = f"caught at {caught[0]:,}" if caught else "not accused"
        truth = f"{variant.truth(EPSILON, CUTOFF):g}"
        shown = (f"{bound:.2f}" for bound in bounds)
        table.add_row(f"{number} {variant.source}", variant.fault or "none", truth, *shown, verdict)
    Console(width=140).print(table)
    found = audit(VARIANTS[-1], GAMES[-1], seed=len(VARIANTS), confidence=CONFIDENCE)
    print(
        f"What betrays variant {len(VARIANTS)}: {found.event}; in {found.hits[0]} of {found.trials[0]} games on one "
        f"list, {found.hits[1]} of {found.trials[1]} on the other"
    )


if __name__ == "__main__":
    main()
