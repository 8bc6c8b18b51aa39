"""The smooth world: regret against whole classes of hypotheses. Writes results/smooth.* and a picture.

    python benchmarks/smooth.py              # plays all, some minutes
    python benchmarks/smooth.py --studies learners   # plays some anew and keeps the others
    python benchmarks/smooth.py --studies            # plays nothing, writes results/smooth.md and the picture

Three studies, each a block of rows in results/smooth.csv. Regret is against all hypotheses of the class in hindsight:

- "growth": Hedge on a bracketing of gap sigma/sqrt(T) against adaptive smooth bisection of all thresholds, for several
  horizons and sigmas, beside the bound on its expected regret.
- "limit": the cover is fixed and sigma goes to 0, where the bisection is unsmoothed.
- "learners": Hedge, private learners on the same experts, and leaders with hallucinated examples, against every
  adversary of the smooth world.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import dp_experts_env as dpe
from dp_experts_adversaries.smooth import (
    ClassRegret,
    SmoothBisection,
    SmoothGreedy,
    SmoothHalfspace,
    SmoothOblivious,
    SmoothPolytope,
    class_regret,
)
from dp_experts_agents.covers import HallucinatedExperts, HallucinatedLeader, plan_cover
from dp_experts_env.hypotheses import Thresholds

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parent / "results"
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "smooth.png"
SEED = 20_250_301
HORIZONS = (250, 500, 1000, 2000, 4000)
SIGMAS = (0.3, 0.1, 0.03, 0.01)
SMALL_SIGMAS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-6, 0.0)
COVER = 100
SOME = ("private_hedge", "private_dartboard", "lazy_to_private", "small_loss")


class Row(NamedTuple):
    """A cell: mean regret against the class with its standard error, that against the experts, and the bound."""

    study: str
    adversary: str
    sigma: float
    noise: float
    num_experts: int
    horizon: int
    learner: str
    privacy: str
    games: int
    regret: float
    standard_error: float
    expert_regret: float
    expert_error: float
    class_best_loss: float
    exact: bool
    bound: float
    closed_bound: float


def cell(study: str, label: str, foe: Any, name: str, learner: dpe.Learner, games: int, bounds: Any) -> Row:
    match = dpe.play(learner, foe, num_games=games, seed=SEED, record="choices", progress=False)
    found = class_regret(match, foe)
    return row(study, label, foe, name, match.privacy, found, match.regret, bounds)


def row(study: str, label: str, foe: Any, name: str, privacy: str, found: Any, experts: Any, bounds: Any) -> Row:
    games = len(found.regret)
    mean, error = float(found.regret.mean()), float(found.regret.std(ddof=1) / math.sqrt(games))
    size = (foe.num_experts, foe.horizon)
    other = float(experts.mean()), float(experts.std(ddof=1) / math.sqrt(games))
    best, exact = float(found.best_loss.mean()), bool(found.exact.all())
    return Row(
        study, label, foe.sigma, foe.noise, *size, name, privacy, games, mean, error, *other, best, exact, *bounds
    )


def growth() -> Iterator[Row]:
    for noise in (0.0, 0.2):
        for sigma in SIGMAS:
            for horizon in HORIZONS:
                plan = plan_cover(Thresholds(), horizon, sigma)
                foe = SmoothBisection(sigma=sigma, noise=noise, num_experts=plan.num_experts, horizon=horizon)
                bounds = plan.regret_bound("hedge"), plan.regret_bound("hedge", beta=1.0 / horizon)
                yield cell("growth", "smooth_bisection", foe, "hedge", dpe.make_learner("hedge"), 24, bounds)


def limit() -> Iterator[Row]:
    for horizon in (500, 1000, 2000):
        for sigma in SMALL_SIGMAS:
            foe = SmoothBisection(sigma=sigma, num_experts=COVER, horizon=horizon)
            bounds = (math.nan, math.nan)
            if sigma > 0.0:
                plan = plan_cover(Thresholds(), horizon, sigma, gamma=1.0 / COVER)
                bounds = plan.regret_bound("hedge"), plan.regret_bound("hedge", beta=1.0 / horizon)
            yield cell("limit", "smooth_bisection", foe, "hedge", dpe.make_learner("hedge"), 24, bounds)


def duel(player: Any, foe: Any, brackets: Any, seed: int) -> tuple[float, float]:
    """Play a game of a player of the whole class: its loss, and the best expert's."""
    foe.reset(seed=seed)
    lost, experts = 0, np.zeros(foe.num_experts)
    for _ in range(foe.horizon):
        hypothesis = player.hypothesis
        experts += foe.emit()
        point = np.reshape(foe.instances, (1, -1))
        lost += int(player.predict(point)[0] != foe.labels)
        # The adversary knows names of experts only: the one whose bracket holds the hypothesis.
        foe.see(int(brackets.locate(hypothesis[None])[0]))
        player.update(point[0], int(foe.labels))
    return float(lost), float(experts.min())


def learners() -> Iterator[Row]:
    horizon, sigma = 1000, 0.1
    plan = plan_cover(Thresholds(), horizon, sigma)
    foes: list[tuple[str, Any]] = [
        ("smooth_bisection", SmoothBisection(sigma=sigma, num_experts=plan.num_experts, horizon=horizon)),
        ("smooth_halfspace", SmoothHalfspace(sigma=sigma, gamma=0.1, horizon=horizon)),
        ("smooth_polytope", SmoothPolytope(sigma=sigma, horizon=horizon)),
        ("smooth_greedy", SmoothGreedy(sigma=sigma, gamma=0.2, horizon=horizon)),
        ("smooth_oblivious", SmoothOblivious(sigma=sigma, gamma=sigma / math.sqrt(horizon), horizon=horizon)),
    ]
    for label, foe in foes:
        # All private learners against the first, some against the others.
        private = dpe.learners(private=True) if label == "smooth_bisection" else SOME
        for name in ("hedge", "follow_the_leader", *private):
            learner = dpe.make_learner(name)
            claim = learner.guarantee(foe.game)
            if claim is not None and not claim.covers(foe.kind):
                continue
            bounds = (math.nan, math.nan)
            if label == "smooth_bisection":
                bounds = plan.regret_bound(learner), plan.regret_bound(learner, beta=1.0 / horizon)
            yield cell("learners", label, foe, name, learner, 8, bounds)
        if label in ("smooth_bisection", "smooth_greedy"):
            perturbed = HallucinatedExperts(foe.hypotheses, foe.experts, sigma)
            yield cell("learners", label, foe, "HallucinatedExperts", perturbed, 8, (math.nan, math.nan))
    foe = foes[0][1]
    brackets = foe.hypotheses.brackets(1.0 / foe.num_experts)
    losses = []
    for game in range(8):
        player = HallucinatedLeader(foe.hypotheses, horizon, sigma, rng=np.random.default_rng([SEED, game]))
        losses.append((*duel(player, foe, brackets, game), float(foe.class_best_loss())))
    lost, experts, best = np.array(losses).T
    found = ClassRegret(lost - best, best, np.ones(8, dtype=bool))
    name, both = "HallucinatedLeader", (math.nan, math.nan)
    yield row("learners", "smooth_bisection", foe, name, "none", found, lost - experts, both)


# ---------------------------------------------------------------------------------------------------------- the report


def fit(values: Any, errors: Any, design: Any, logarithms: bool = True) -> tuple[Any, Any, Any]:
    """Least squares of values or of their logarithms, with 95% intervals from normal draws of the means."""
    draws = values + errors * np.random.default_rng(0).standard_normal((4000, len(values)))
    solve = np.linalg.pinv(design)
    if logarithms:
        values, draws = np.log(values), np.log(np.maximum(draws, 1e-9))
    return solve @ values, *np.quantile(draws @ solve.T, [0.025, 0.975], axis=0)


def shown(names: tuple[str, ...], found: tuple[Any, Any, Any]) -> str:
    return ", ".join(
        f"{name} {best:.3f} [{low:.3f}, {high:.3f}]" for name, best, low, high in zip(names, *found, strict=True)
    )


def growth_fits(rows: list[Row]) -> Iterator[str]:
    rounds, sizes = np.array([[entry.horizon, entry.num_experts] for entry in rows], dtype=float).T
    smooth = np.log(1.0 / np.array([entry.sigma for entry in rows]))
    one = np.ones(len(rows))
    kinds = {
        "all thresholds": ([entry.regret for entry in rows], [entry.standard_error for entry in rows]),
        "the experts": ([entry.expert_regret for entry in rows], [entry.expert_error for entry in rows]),
    }
    yield "Fits, 95% intervals in brackets:"
    yield ""
    for what, (means, errors) in kinds.items():
        values, spread = np.array(means), np.array(errors)
        exponents = np.stack([one, np.log(rounds), np.log(np.log(sizes))], axis=1)
        found = tuple(part[1:] for part in fit(values, spread, exponents))
        yield f"- against {what}, exponents: {shown(('of T', 'of ln n'), found)}"
        found = tuple(part[1:] for part in fit(values, spread, np.stack([one, np.log(rounds), np.log(smooth)], axis=1)))
        yield f"- against {what}, exponents: {shown(('of T', 'of ln(1/sigma)'), found)}"
        parts = np.stack([np.sqrt(rounds * np.log(sizes) / 2.0), np.sqrt(rounds)], axis=1)
        weights = 1.0 / spread
        found = fit(values * weights, one, parts * weights[:, None], logarithms=False)
        yield f"- against {what}, multiples: {shown(('of sqrt(T ln n/2)', 'of sqrt(T)'), found)}"
    yield ""


def report(rows: list[Row]) -> str:
    lines = [
        "# The smooth world",
        "",
        "Written by `python benchmarks/smooth.py`. Regret is against all hypotheses.",
        "",
    ]
    for noise in (0.0, 0.2):
        chosen = [entry for entry in rows if entry.study == "growth" and entry.noise == noise]
        lines += [
            f"## Hedge on a bracketing of gap sigma/sqrt(T) against adaptive smooth bisection, label noise {noise:g}",
            "",
            "| sigma | T | experts n | regret | standard error | regret/sqrt(T ln n) | bound | closed form |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for entry in chosen:
            scaled = entry.regret / math.sqrt(entry.horizon * math.log(entry.num_experts))
            lines.append(
                f"| {entry.sigma:g} | {entry.horizon} | {entry.num_experts} | {entry.regret:.1f} | "
                f"{entry.standard_error:.1f} | {scaled:.2f} | {entry.bound:.1f} | {entry.closed_bound:.1f} |"
            )
        over = [entry for entry in chosen if entry.regret > entry.bound]
        lines += ["", f"Cells whose mean regret is above the bound: {len(over)} of {len(chosen)}.", ""]
        lines += growth_fits(chosen)
    lines += [
        f"## {COVER} experts fixed, sigma to 0",
        "",
        "| T | sigma | regret | standard error | regret/T | against the experts | bound |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in (entry for entry in rows if entry.study == "limit"):
        bound = "none" if math.isnan(entry.bound) else f"{entry.bound:.1f}"
        lines.append(
            f"| {entry.horizon} | {entry.sigma:g} | {entry.regret:.1f} | {entry.standard_error:.1f} | "
            f"{entry.regret / entry.horizon:.3f} | {entry.expert_regret:.1f} | {bound} |"
        )
    lines.append("")
    for sigma in SMALL_SIGMAS:
        chosen = [entry for entry in rows if entry.study == "limit" and entry.sigma == sigma]
        design = np.array([[1.0, math.log(entry.horizon)] for entry in chosen])
        values, errors = np.array([[entry.regret, entry.standard_error] for entry in chosen]).T
        found = tuple(part[1:] for part in fit(values, errors, design))
        lines.append(f"- sigma = {sigma:g}: exponent {shown(('of T',), found)}")
    lines += [
        "",
        "## Learners, T = 1000, sigma = 0.1",
        "",
        "| adversary | experts | learner | privacy | regret | standard error | against the experts | bound | exact |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in (entry for entry in rows if entry.study == "learners"):
        bound = "none" if math.isnan(entry.bound) else f"{entry.bound:.1f}"
        lines.append(
            f"| {entry.adversary} | {entry.num_experts} | {entry.learner} | {entry.privacy} | {entry.regret:.1f} | "
            f"{entry.standard_error:.1f} | {entry.expert_regret:.1f} | {bound} | {'yes' if entry.exact else 'no'} |"
        )
    lines += [
        "",
        "`exact`: whether no hypothesis of the class has fewer errors than the one found; else regret may be larger.",
        "HallucinatedLeader names hypotheses of the class; the adversary is told the expert whose bracket holds each.",
        "",
    ]
    return "\n".join(lines)


def picture(rows: list[Row]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for colour, sigma in enumerate(SIGMAS):
        chosen = [entry for entry in rows if entry.study == "growth" and entry.sigma == sigma and entry.noise == 0.0]
        rounds = [entry.horizon for entry in chosen]
        left.errorbar(
            rounds,
            [entry.regret for entry in chosen],
            [2.0 * entry.standard_error for entry in chosen],
            fmt="o-",
            color=f"C{colour}",
            label=f"sigma = {sigma:g}",
        )
        left.plot(rounds, [entry.bound for entry in chosen], ":", color=f"C{colour}")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="rounds T",
        ylabel="regret against all thresholds",
        title="Hedge on ceil(sqrt(T)/sigma) thresholds",
    )
    left.plot([], [], "k:", label="proved bound")
    left.set_xticks(HORIZONS, [str(horizon) for horizon in HORIZONS])
    left.set_xticks([], minor=True)
    left.set_yticks([20, 50, 100, 200], ["20", "50", "100", "200"])
    left.set_yticks([], minor=True)
    left.legend()
    for colour, horizon in enumerate((500, 1000, 2000)):
        chosen = [entry for entry in rows if entry.study == "limit" and entry.horizon == horizon and entry.sigma > 0.0]
        right.errorbar(
            [entry.sigma for entry in chosen],
            [entry.regret / horizon for entry in chosen],
            [2.0 * entry.standard_error / horizon for entry in chosen],
            fmt="o-",
            color=f"C{colour}",
            label=f"T = {horizon}",
        )
        [zero] = [e for e in rows if e.study == "limit" and e.horizon == horizon and e.sigma == 0.0]
        right.plot(2e-7, zero.regret / horizon, "*", markersize=11, color=f"C{colour}")
    right.set(xscale="log", ylim=(0.0, 1.0), xlabel="sigma (stars: 0, unsmoothed)", ylabel="regret/T")
    right.set_title(f"{COVER} thresholds fixed: linear as sigma goes to 0")
    right.axvline(1.0 / COVER, color="grey", linestyle=":")
    right.text(1.2 / COVER, 0.9, "cell width", color="grey")
    right.legend()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        text = {"study", "adversary", "learner", "privacy"}
        whole = {"num_experts", "horizon", "games"}
        rows = []
        for line in csv.DictReader(file):
            values: dict[str, Any] = {}
            for name, value in line.items():
                values[name] = value if name in text else int(value) if name in whole else value == "True"
                if name not in text | whole | {"exact"}:
                    values[name] = float(value)
            rows.append(Row(**values))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    studies = {study.__name__: study for study in (growth, limit, learners)}
    parser.add_argument("--table", type=Path, default=RESULTS / "smooth.csv", help="where the cells are kept")
    parser.add_argument("--studies", nargs="*", default=[*studies], choices=[*studies], help="what to play")
    arguments = parser.parse_args()
    path = arguments.table
    kept = [entry for entry in read(path) if entry.study not in arguments.studies] if path.is_file() else []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        for entry in itertools.chain(kept, *(studies[name]() for name in arguments.studies)):
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in entry])
            file.flush()
    rows = read(path)
    path.with_suffix(".md").write_text(report(rows), encoding="utf-8")
    picture(rows)


if __name__ == "__main__":
    main()
