"""Many audits: every learner against every pair that its claim covers, and how soon the positive controls are caught.

An honest learner whose loss is exactly its claim is accused by one audit in twenty at confidence 0.95. In a table of
many audits the error is therefore shared by all of them: the confidence is that of the table as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dp_experts_env.learner import Learner
from dp_experts_env.play import _seed_sequence
from dp_experts_env.privacy.audit import STATISTICS, Audit, audit, check_look
from dp_experts_env.privacy.exact import exact_privacy
from dp_experts_env.privacy.game import VIEWS, Pair, refusal
from dp_experts_env.privacy.likelihood import has_transcript
from dp_experts_env.spec import (
    ArgumentError,
    GameSpec,
    check_count,
    check_delta,
    check_flag,
    check_name,
    check_number,
)

SMALL = (2, 4)
"""Experts and rounds of the game in which exact privacy is computed."""

STAGES = (1_000, 10_000, 100_000, 1_000_000)
"""Games a world at which a hunt looks, each time at fresh ones."""


@dataclass(frozen=True, eq=False)
class Row:
    """A line of a survey.

    Attributes:
        name: what the learner is called.
        learner: the learner.
        pair: name of the pair.
        view: "choices" or "transcript".
        audit: what was found, ``None`` where the pair was not tried.
        why_not: why it was not tried, else "".
        exact: exact epsilon at the claimed delta in the small game, NaN where it is not computed.
    """

    name: str
    learner: Learner
    pair: str
    view: str
    audit: Audit | None = field(repr=False)
    why_not: str = ""
    exact: float = math.nan


def survey(
    learners: Mapping[str, Learner],
    pairs: Mapping[str, Sequence[Pair]],
    num_games: int = 100_000,
    *,
    views: Sequence[str] = VIEWS,
    confidence: float = 0.95,
    seed: Any = None,
    exact: bool = True,
    **options: Any,
) -> Iterator[Row]:
    """Audit every learner against every pair that its claim covers, in every view, and yield a row each.

    Args:
        learners: learners by name.
        pairs: for each name the pair, or several variants of it among which a pilot chooses.
        num_games: games in each world of each audit.
        views: "choices", "transcript" or both; a learner that notes nothing has no transcript.
        confidence: probability that all bounds of the survey are right.
        seed: as for :func:`audit`; every row has a child of its own.
        exact: whether to compute exact privacy in the small game where that can be done.
        options: further arguments of :func:`audit`.

    Raises:
        ArgumentError: if an argument lies outside its range; before anything is played.
    """
    check_number("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    check_flag("exact", exact)
    wanted = _checked(learners, pairs, views, [num_games], options)
    jobs = []
    for name, learner in learners.items():
        for title, variants in pairs.items():
            why = refusal(learner, variants, options.get("override", False))
            spec = GameSpec(variants[0].num_experts, variants[0].horizon)
            shown = [view for view in wanted if view != "transcript" or has_transcript(learner, spec)] or ["choices"]
            jobs += [(name, learner, title, variants, view, why) for view in (shown if not why else shown[:1])]
    tried = sum(not why for *_, why in jobs)
    each = 1.0 - (1.0 - confidence) / max(tried, 1)
    known: dict[tuple[str, str], float] = {}
    for (name, learner, title, variants, view, why), own in zip(
        jobs, _seed_sequence(seed).spawn(len(jobs)), strict=True
    ):
        if exact and (name, view) not in known:
            known[name, view] = small_exact(learner, view)
        found = None
        if not why:
            found = audit(learner, list(variants), num_games, view=view, confidence=each, seed=own, **options)
        yield Row(name, learner, title, view, found, why, known.get((name, view), math.nan))


def hunt(
    learners: Mapping[str, Learner],
    pairs: Mapping[str, Sequence[Pair]],
    *,
    stages: Iterable[int] = STAGES,
    views: Sequence[str] = VIEWS,
    confidence: float = 0.95,
    seed: Any = None,
    **options: Any,
) -> Iterator[Row]:
    """Look for a violation of each learner's claim in more and more games, and yield the first one that is found.

    At each stage every pair is tried in every view, in fresh games, until one refutes the claim; all these looks share
    the error. Where none does, the row of the largest bound is yielded.

    Args:
        learners: learners by name, with a claim.
        pairs: as in :func:`survey`.
        stages: games a world, growing.
        views: as in :func:`survey`, the first one tried first.
        confidence: probability that no look at any learner errs.
        seed: as for :func:`audit`.
        options: further arguments of :func:`audit`.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    check_number("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    if not isinstance(stages, Iterable) or getattr(stages, "ndim", 1) == 0:
        raise ArgumentError(f"stages: expected numbers of games but found {stages!r}")
    sizes = sorted(check_count("stages", size, 8) for size in stages)
    if not sizes:
        raise ArgumentError("stages: expected at least one number of games")
    views = _checked(learners, pairs, views, sizes, options)
    for (name, learner), seeds in zip(learners.items(), _seed_sequence(seed).spawn(len(learners)), strict=True):
        looks = []
        for title, variants in pairs.items():
            if refusal(learner, variants, options.get("override", False)):
                continue
            spec = GameSpec(variants[0].num_experts, variants[0].horizon)
            looks += [(view, title, variants) for view in views if view == "choices" or has_transcript(learner, spec)]
        looks.sort(key=lambda look: views.index(look[0]))
        each = 1.0 - (1.0 - confidence) / max(len(learners) * len(sizes) * len(looks), 1)
        rows = _looks(name, learner, looks, sizes, each, seeds, options)
        best: Row | None = None
        for row in rows:
            assert row.audit is not None
            if best is None or best.audit is None or row.audit.epsilon_lower >= best.audit.epsilon_lower:
                best = row
            if row.audit.violated:
                best = row
                break
        if best is None:
            why = refusal(learner, next(iter(pairs.values())), False)
            best = Row(name, learner, "", views[0], None, why or "no pair has a view of it")
        yield best


def _checked(learners: Any, pairs: Any, views: Any, sizes: Sequence[int], options: dict[str, Any]) -> list[str]:
    """Return the views, or refuse before anything is played what would end the survey midway."""
    for argument, value in (("learners", learners), ("pairs", pairs)):
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise ArgumentError(f"{argument}: expected a mapping by name but found {value!r}")
    if isinstance(views, str) or not isinstance(views, Iterable) or getattr(views, "ndim", 1) == 0:
        raise ArgumentError(f"views: expected a sequence of {', '.join(VIEWS)} but found {views!r}")
    wanted = [check_name("views", view, VIEWS) for view in views]
    if not (learners and pairs and wanted):
        raise ArgumentError("survey: expected at least one learner, one pair and one view")
    for keyword in options:
        check_name("option", keyword, ("delta", "statistic", "override", "workers", "progress"))
    check_name("statistic", options.get("statistic", "auto"), STATISTICS)
    check_count("workers", options.get("workers", 1))
    if options.get("delta") is not None:
        check_delta(options["delta"])
    for name, variants in pairs.items():
        if isinstance(variants, Pair):
            raise ArgumentError(f"pairs: expected a sequence of variants of {name!r} but found {variants!r}")
        for size in sizes:
            check_look(variants, size)
    for learner in learners.values():
        for variants in pairs.values():
            refusal(learner, variants, options.get("override", False))
    return wanted


def _looks(
    name: str,
    learner: Learner,
    looks: list[tuple[str, str, Sequence[Pair]]],
    sizes: list[int],
    confidence: float,
    seeds: np.random.SeedSequence,
    options: dict[str, Any],
) -> Iterator[Row]:
    for size, stage in zip(sizes, seeds.spawn(len(sizes)), strict=True):
        for (view, title, variants), own in zip(looks, stage.spawn(len(looks)), strict=True):
            found = audit(learner, list(variants), size, view=view, confidence=confidence, seed=own, **options)
            yield Row(name, learner, title, view, found)


def small_exact(learner: Learner, view: str) -> float:
    """Return the exact epsilon, at the claimed delta, against all adaptive adversaries of the small game; NaN if none.

    Args:
        learner: the learner.
        view: "choices" or "transcript".

    Raises:
        ArgumentError: if an argument is of the wrong type.
    """
    if not isinstance(learner, Learner):
        raise ArgumentError(f"learner: expected a Learner but found {learner!r}")
    check_name("view", view, VIEWS)
    experts, horizon = SMALL
    claim = learner.guarantee(GameSpec(experts, horizon))
    if claim is None:
        return math.nan
    try:
        return exact_privacy(
            learner,
            num_experts=experts,
            horizon=horizon,
            delta=claim.delta,
            adjacency=claim.adjacency,
            adaptive=claim.covers("adaptive"),
            view=view,
        )
    except (NotImplementedError, ArgumentError):
        return math.nan
