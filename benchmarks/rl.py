"""What policies learn in the three chairs, beside what is written by hand.

    python benchmarks/rl.py [--seed 0] [--only killers,judges,...] [--out benchmarks/results/rl.csv]

Five studies on one core, ten minutes in all, each measured in fresh games that training never saw. A row of the CSV is
one trained policy; rl.md is written beside it. The null control is a learner that loses exactly what it claims, so that
an audit has the most to accuse it of. Seconds are those of training.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dp_experts_env as dpe
from dp_experts_env.rl import CHARGES, OPPONENTS, Trained, train_adversary, train_judge, train_learner
from dp_experts_env.study.survey import small_exact

GAMES = 100_000
"""Games in each world of an audit."""

LEAKY = ("leaky_copy_last", "leaky_triple_rate", "leaky_ada_hedge", "leaky_perturbed_leader", "leaky_dartboard")
HONEST = ("private_hedge", "private_dartboard", "lazy_hedge")

TEXT = {
    "killers": "The best response to follow-the-leader. Foreseer carries a copy of the learner and so forces all that "
    "can be forced; the policy sees the leads and the last choice.",
    "adversaries": "Regret forced on learners that draw, charging one expert, all but one or half of them, beside the "
    "best opponent written by hand. The bound is the learner's against adaptive adversaries where the best expert "
    "loses what it lost to the policy; against the one written by hand it may be another.",
    "judges": "Audited epsilon at the claimed delta, N = 2, T = 4, and the exact epsilon against all adaptive "
    "adversaries where enumeration can compute it. Trained at epsilon 0.",
    "control": "A judge trained against randomised response that claims exactly the ln 3 it loses: audits of 2000 "
    "fresh games a world at confidence 0.95, and how many of them accuse it; each does with probability at most 0.05.",
    "learners": "Regret of a policy in the learner's chair, trained against this opponent alone; it is not private.",
}


class RandomisedResponse(dpe.Learner):
    """Two experts: from round 2 on names the better one of round 1, or with probability 1/4 the other: exactly ln 3."""

    def start(self):
        """Draw everything at once."""
        self.named = self.rng.integers(2, size=self.spec.shape)
        self.lie = self.rng.random(self.spec.shape) < 0.25

    def act(self):
        """Name an expert."""
        return self.named

    def observe(self, losses):
        """Answer round 1."""
        if self.round == 0:
            better = np.broadcast_to(losses.argmin(-1), self.spec.shape)
            self.named = np.where(self.lie, 1 - better, better)

    def guarantee(self, spec):
        """Return what is exact."""
        return dpe.Guarantee(math.log(3.0), source="randomised response")


def row(
    study: str, trained: Trained, name: str, value: float, error: float, by: str, beside: float, bound: float
) -> dict[str, Any]:
    return {
        "study": study,
        "policy": trained.seat,
        "opponent": name,
        "num_experts": trained.game.num_experts,
        "horizon": trained.game.horizon,
        "rounds": trained.rounds,
        "seed": trained.seed,
        "learned": value,
        "standard_error": error,
        "by_hand": by,
        "by_hand_value": beside,
        "bound": bound,
        "seconds": trained.seconds,
    }


def killers(seeds: np.random.SeedSequence) -> Iterator[dict[str, Any]]:
    learner = dpe.make_learner("follow_the_leader")
    sizes = [(4, 100, 20_000)] * 5 + [(10, 1000, 200_000)]
    for (experts, horizon, budget), seed in zip(sizes, seeds.spawn(len(sizes)), strict=True):
        train, fresh = seed.spawn(2)
        trained = train_adversary(learner, budget, num_experts=experts, horizon=horizon, seed=train)
        match = dpe.play(learner, trained.player(True), num_games=20, seed=fresh)
        foreseen = dpe.play(learner, dpe.make_adversary("foreseer", num_experts=experts, horizon=horizon), seed=0)
        yield row(
            "killers",
            trained,
            "follow_the_leader",
            match.mean_regret,
            match.standard_error,
            "foreseer",
            foreseen.mean_regret,
            math.nan,
        )


def adversaries(seeds: np.random.SeedSequence) -> Iterator[dict[str, Any]]:
    for name, seed in zip(("hedge", "private_hedge", "private_dartboard"), seeds.spawn(3), strict=True):
        learner = dpe.make_learner(name)
        train, fresh, other = seed.spawn(3)
        trained = train_adversary(learner, 60_000, num_experts=4, horizon=100, losses=CHARGES, seed=train)
        match = dpe.play(learner, trained.player(True), num_games=2000, seed=fresh)
        found = {}
        for foe, own in zip(OPPONENTS, other.spawn(len(OPPONENTS)), strict=True):
            opponent = dpe.make_adversary(foe, num_experts=4, horizon=100)
            found[foe] = dpe.play(learner, opponent, num_games=2000, seed=own).mean_regret
        best = max(found, key=found.__getitem__)
        yield row(
            "adversaries",
            trained,
            name,
            match.mean_regret,
            match.standard_error,
            best,
            found[best],
            match.regret_bound,
        )


def judges(seeds: np.random.SeedSequence) -> Iterator[dict[str, Any]]:
    names = LEAKY + HONEST
    for name, seed in zip(names, seeds.spawn(len(names)), strict=True):
        learner = dpe.make_learner(name)
        train, fresh, other = seed.spawn(3)
        trained = train_judge(learner, 60_000, num_experts=2, horizon=4, seed=train)
        variants = [trained.player(certain) for certain in (True, False)]
        learned = dpe.audit(learner, variants, GAMES, seed=fresh)
        found = {}
        for pair, own in zip(dpe.pairs(), other.spawn(len(dpe.pairs())), strict=True):
            foe = dpe.make_pair(pair, num_experts=2, horizon=4)
            found[pair] = dpe.audit(learner, foe, GAMES, seed=own).epsilon_lower
        best = max(found, key=found.__getitem__)
        exact = small_exact(learner, "choices")
        yield row("judges", trained, name, learned.epsilon_lower, math.nan, best, found[best], exact)


def control(seeds: np.random.SeedSequence) -> Iterator[dict[str, Any]]:
    learner = RandomisedResponse()
    train, fresh = seeds.spawn(2)
    trained = train_judge(learner, 30_000, num_experts=2, horizon=4, seed=train)
    judge = trained.player(True)
    shown = [dpe.audit(learner, judge, 2000, seed=own) for own in fresh.spawn(100)]
    accused = sum(found.violated for found in shown)
    largest = max(found.epsilon_lower for found in shown)
    yield row("control", trained, "randomised_response", accused, math.nan, "largest bound", largest, math.log(3.0))


def learners(seeds: np.random.SeedSequence) -> Iterator[dict[str, Any]]:
    for name, seed in zip(("bernoulli", "punish_leader", "alternating"), seeds.spawn(3), strict=True):
        train, fresh, *others = seed.spawn(4)
        foe = dpe.make_adversary(name, num_experts=4, horizon=100)
        trained = train_learner(foe, 60_000, lead=name != "punish_leader", seed=train)
        match = dpe.play(trained.player(), foe, num_games=1000, seed=fresh)
        found = {
            other: dpe.play(dpe.make_learner(other), foe, num_games=1000, seed=own).mean_regret
            for other, own in zip(("hedge", "private_hedge"), others, strict=True)
        }
        best = min(found, key=found.__getitem__)
        yield row("learners", trained, name, match.mean_regret, match.standard_error, best, found[best], math.nan)


STUDIES = {"killers": killers, "adversaries": adversaries, "judges": judges, "control": control, "learners": learners}


def markdown(table: pd.DataFrame) -> str:
    lines = ["# Learned policies", "", "From `benchmarks/rl.py`; PPO throughout, networks of two layers of 32."]
    for study, rows in table.groupby("study", sort=False):
        lines += ["", f"## {str(study).capitalize()}", "", TEXT[str(study)], ""]
        bound = {"judges": "exact ε", "control": "claimed ε"}.get(str(study), "bound")
        learned = {"judges": "learned ε ≥", "control": "accused of 100"}.get(str(study), "learned regret")
        lines += [
            f"| opponent | N | T | rounds trained | {learned} | best by hand | {bound} | seconds |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for item in rows.itertuples():
            error = "" if math.isnan(item.standard_error) else f" ± {item.standard_error:.2f}"
            limit = "" if math.isnan(item.bound) else f"{item.bound:.4g}"
            lines.append(
                f"| {item.opponent} | {item.num_experts} | {item.horizon} | {item.rounds} | {item.learned:.4g}{error} "
                f"| {item.by_hand_value:.4g} ({item.by_hand}) | {limit} | {item.seconds:.0f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(STUDIES))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/rl.csv"))
    chosen = parser.parse_args()
    wanted = chosen.only.split(",")
    rows: list[dict[str, Any]] = []
    for name, own in zip(STUDIES, np.random.SeedSequence(chosen.seed).spawn(len(STUDIES)), strict=True):
        if name not in wanted:
            continue
        for found in STUDIES[name](own):
            rows.append(found)
            print(" ".join(f"{key}={value}" for key, value in found.items()), flush=True)
    table = pd.DataFrame(rows)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(chosen.out, index=False, float_format="%.6g", lineterminator="\n")
    chosen.out.with_suffix(".md").write_text(markdown(table), encoding="utf-8")


if __name__ == "__main__":
    main()
