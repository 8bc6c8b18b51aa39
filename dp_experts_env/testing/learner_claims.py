"""What a learner says of itself: guarantee, regret bound, law of its choices. Checked on small games."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable

import numpy as np

from dp_experts_env.learner import Learner
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import ADVERSARY_MODELS, Adjacency, FloatArray, GameSpec, Guarantee
from dp_experts_env.testing.learner_case import LearnerCase, loop
from dp_experts_env.testing.suite import Suite, check_frequencies, demand, mean_margin, same

CLAIMS: Suite[LearnerCase] = Suite()


def _offers(name: str) -> Callable[[LearnerCase], bool]:
    def applies(case: LearnerCase) -> bool:
        try:
            getattr(case.start(), name)()
        except NotImplementedError:
            return False
        except Exception:
            # Something is there, and broken: the check will say so.
            return True
        return True

    return applies


def _bounded(case: LearnerCase) -> bool:
    bounds = [case.build().regret_bound(case.spec(), 0.0, model) for model in ADVERSARY_MODELS]
    return not all(math.isnan(bound) for bound in bounds)


def _provable(case: LearnerCase) -> bool:
    learner = case.build()
    guarantee = learner.guarantee(case.spec())
    claims = isinstance(guarantee, Guarantee) and math.isfinite(guarantee.epsilon)
    return claims and not learner.leaky and _offers("outcomes")(case)


@CLAIMS.add()
def guarantee(case: LearnerCase) -> None:
    """The guarantee is a Guarantee or None, a function of the game's public size, and no more than was asked."""
    for spec in (case.spec(), case.spec(num_experts=1, horizon=1), case.spec(horizon=50 * case.horizon)):
        learner = case.build()
        claim = learner.guarantee(spec)
        demand(claim is None or isinstance(claim, Guarantee), f"guarantee() returned {claim!r}")
        batch = GameSpec(spec.num_experts, spec.horizon, 5)
        demand(learner.guarantee(batch) == claim, f"{learner.guarantee(batch)} for five games, {claim} for one")
        for losses in (case.losses(), np.zeros((case.horizon, case.num_experts))):
            player = case.start()
            player.run(losses)
            demand(player.guarantee(spec) == claim, f"{player.guarantee(spec)} after a game, {claim} before it")
    learner = case.build()
    if not {"epsilon", "delta"} <= set(constructor_keywords(type(learner))):
        return
    for changes in ({}, {"epsilon": 0.5, "delta": 1e-5}, {"epsilon": 3.0, "delta": 1e-3}):
        asked = learner.clone(**changes)
        claim = asked.guarantee(case.spec())
        demand(claim is not None, f"{asked!r} takes epsilon and delta but claims nothing")
        assert claim is not None
        epsilon, delta = (float(asked.parameters[name]) for name in ("epsilon", "delta"))
        demand(
            claim.epsilon <= epsilon * (1.0 + 1e-12) and claim.delta <= delta,
            f"{asked!r} claims {claim}, less privacy than was asked",
        )


@CLAIMS.add(_provable)
def privacy(case: LearnerCase) -> None:
    """In a few games of two experts and four rounds the choices keep the claim, by exact enumeration.

    A learner's ``outcomes`` give the exact law of its choices; the largest delta of a claim's epsilon is the sum of
    the positive parts of P - e^epsilon Q over all sequences of choices.
    """
    learner = case.build()
    horizon = _enumerable(case, 4)
    claim = learner.guarantee(case.spec(num_experts=2, horizon=horizon))
    demand(claim is not None, "no guarantee for a game of two experts")
    assert claim is not None
    corners = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    changes = [(0, 1), (1, 0)] if claim.adjacency is Adjacency.REPLACE else [(0, 2), (1, 2), (3, 2)]
    bases = [
        np.tile(corners[2], (horizon, 1)),
        corners[np.arange(horizon) % 2],
        case.losses(rounds=horizon, num_experts=2),
    ]
    laws: dict[bytes, FloatArray] = {}

    def law(block: FloatArray) -> FloatArray:
        if block.tobytes() not in laws:
            laws[block.tobytes()] = choice_law(case, block)
        return laws[block.tobytes()]

    for base in bases:
        for number in range(horizon):
            for one, other in changes:
                left, right = base.copy(), base.copy()
                left[number], right[number] = corners[one], corners[other]
                for here, there in ((left, right), (right, left)):
                    excess = np.maximum(law(here) - math.exp(claim.epsilon) * law(there), 0.0).sum()
                    demand(
                        excess <= claim.delta + 1e-9,
                        f"claims {claim}, but delta is {excess:.6g} at epsilon {claim.epsilon:.6g} when round "
                        f"{number + 1} of the losses {here.tolist()} becomes {there[number].tolist()}",
                    )


def _enumerable(case: LearnerCase, horizon: int) -> int:
    """Return the number of rounds, at most ``horizon``, whose transcripts are few enough to enumerate."""
    number = case.start(num_experts=2, horizon=horizon).outcomes().shape[-1]
    while horizon > 1 and number**horizon > 20_000:
        horizon -= 1
    return horizon


def choice_law(case: LearnerCase, block: FloatArray) -> FloatArray:
    """Return the exact law of the choices in a game, by a batch that takes every sequence of outcomes.

    Args:
        case: the learner.
        block: losses ``(T, N)``.

    Returns:
        Probabilities of the N^T sequences, shape ``(N,) * T``.
    """
    horizon, experts = block.shape
    number = case.start(num_experts=experts, horizon=horizon).outcomes().shape[-1]
    games = np.arange(number**horizon)
    learner = case.start(len(games), num_experts=experts, horizon=horizon)
    logs, codes = np.zeros(len(games)), np.zeros(len(games), dtype=np.int64)
    for row, losses in enumerate(block):
        outcomes = games // number**row % number
        law = np.broadcast_to(learner.outcomes(), (len(games), number))
        step = np.take_along_axis(law, outcomes[:, None], -1)[:, 0]
        # After an impossible outcome the state means nothing.
        logs = np.where(np.isneginf(logs), -np.inf, logs + step)
        codes = codes * experts + learner.take(outcomes)
        learner.observe(losses)
    return np.bincount(codes, np.exp(logs), minlength=experts**horizon).reshape((experts,) * horizon)


@CLAIMS.add()
def regret_bound(case: LearnerCase) -> None:
    """The bound is a float >= 0, or NaN where none is proved, and no less against a stronger adversary."""
    for spec in (case.spec(), case.spec(num_experts=1, horizon=1), case.spec(horizon=50 * case.horizon)):
        for best_loss in (0.0, spec.horizon / 4, float(spec.horizon)):
            learner = case.build()
            bounds = {model: learner.regret_bound(spec, best_loss, model) for model in ADVERSARY_MODELS}
            for model, bound in bounds.items():
                demand(isinstance(bound, float), f"against {model} adversaries: {bound!r} is no float")
                demand(math.isnan(bound) or bound >= 0.0, f"against {model} adversaries: {bound!r} is negative")
            proved = [(model, bound) for model, bound in bounds.items() if not math.isnan(bound)]
            claimed = [model for model, _ in proved]
            demand(
                tuple(claimed) == ADVERSARY_MODELS[: len(claimed)],
                f"a bound against {claimed} adversaries holds against all weaker ones, {ADVERSARY_MODELS} in order",
            )
            for (weak, less), (strong, more) in itertools.pairwise(proved):
                demand(less <= more, f"{less} against {weak} adversaries exceeds {more} against {strong} ones")
            learner.reset(spec, np.random.default_rng(case.seed))
            learner.act()
            learner.observe(np.ones(spec.num_experts))
            for model, bound in bounds.items():
                later = learner.regret_bound(spec, best_loss, model)
                demand(
                    later == bound or (math.isnan(later) and math.isnan(bound)), f"{later} after a game, {bound} before"
                )


@CLAIMS.add(_bounded)
def regret(case: LearnerCase) -> None:
    """The mean regret of small games does not exceed the claimed bound, beyond what chance explains."""
    horizon, experts = 40, case.num_experts
    games = case.games(2000, 40)
    spec = case.spec(horizon=horizon)
    coins = np.random.default_rng(case.seed)
    rounds = np.arange(horizon)[:, None]
    sequences = {
        "a perfect expert": np.where(np.arange(experts) == experts - 1, 0.0, coins.random((horizon, experts)) < 0.5),
        "the leader charged each round": ((rounds % experts) == np.arange(experts)).astype(float),
        "fair coins": (coins.random((horizon, experts)) < 0.5).astype(float),
    }
    for name, block in sequences.items():
        learner = case.start(games, horizon=horizon)
        lost = np.take_along_axis(block, learner.run(block), -1).sum(0)
        best = np.full(games, block.sum(0).min())
        _compare_regret(learner, spec, lost, best, "oblivious", name)
    own = (coins.random((horizon, games, experts)) < np.linspace(0.3, 0.6, experts)).astype(float)
    learner = case.start(games, horizon=horizon)
    lost = np.take_along_axis(own, learner.run(own)[..., None], -1)[..., 0].sum(0)
    _compare_regret(learner, spec, lost, own.sum(0).min(-1), "stochastic", "independent coins")
    learner = case.start(games, horizon=horizon)
    lost, totals = np.zeros(games), np.zeros((games, experts))
    losses = np.zeros((games, experts))
    for _ in range(horizon):
        choice = learner.act()
        learner.observe(losses)
        lost, totals = lost + losses[np.arange(games), choice], totals + losses
        losses = (choice[:, None] == np.arange(experts)).astype(float)
    _compare_regret(learner, spec, lost, totals.min(-1), "adaptive", "an adversary that charges the last choice")


def _compare_regret(
    learner: Learner, spec: GameSpec, lost: FloatArray, best: FloatArray, model: str, where: str
) -> None:
    # All losses here are 0 or 1, so these are the only totals there can be.
    possible = np.unique(best) if model == "oblivious" else np.arange(spec.horizon + 1.0)
    claims = np.array([learner.regret_bound(spec, float(value), model) for value in possible])
    if np.isnan(claims).any():
        return
    allowed = best + claims[np.searchsorted(possible, best)]
    width = spec.horizon + float(np.ptp(possible + claims))
    demand(
        (lost - allowed).mean() <= mean_margin(lost - allowed, width, tests=5),
        f"mean regret {(lost - best).mean():.4g} in {len(lost)} games exceeds the bound "
        f"{(allowed - best).mean():.4g} against {model} adversaries ({where})",
    )


@CLAIMS.add(_offers("probabilities"))
def probabilities(case: LearnerCase) -> None:
    """The probabilities are a law at any time, act() draws by it, and asking for it changes nothing."""
    block = case.losses()
    shapes = [(case.num_experts,), (3, case.num_experts)]
    for games in (None, 3):
        learner, unasked = (case.start(games, horizon=2 * len(block) + 800) for _ in range(2))
        for heavy in (np.ones((800, case.num_experts)), None):
            for losses in block:
                number = learner.round + 1
                law = learner.probabilities()
                demand(law.shape in shapes[: 1 if games is None else 2], f"shape {law.shape} in round {number}")
                demand(np.all(law >= 0.0), f"round {number}: {law.tolist()} has a negative entry, or a NaN")
                excess = float(np.abs(law.sum(-1) - 1.0).max())
                demand(excess <= 1e-12, f"round {number}: {law.tolist()} sums to one but for {excess:.3g}")
                same(learner.act(), unasked.act(), "asking for probabilities() changes the choices")
                learner.observe(losses)
                unasked.observe(losses)
            if heavy is not None:
                same(learner.run(heavy), unasked.run(heavy), "asking for probabilities() changes the choices")
    games, rounds = case.games(4000, 300), 6
    for block in (case.losses(), case.losses(games)):
        learner = case.start(games)
        for number in range(rounds):
            law = np.broadcast_to(learner.probabilities(), (games, case.num_experts))
            choice = learner.act()
            demand(
                np.all(np.take_along_axis(law, choice[:, None], -1) > 0.0),
                f"act() made a choice of probability zero in round {number + 1}",
            )
            check_frequencies(
                np.bincount(choice, minlength=case.num_experts),
                games,
                law.mean(0),
                2 * rounds * case.num_experts,
                f"act() of round {number + 1} and probabilities()",
            )
            learner.observe(block[number])


@CLAIMS.add(_offers("outcomes"))
def outcomes(case: LearnerCase) -> None:
    """The outcomes have total probability one, take() plays each of them, and together they are the law of act()."""
    number = case.start().outcomes().shape[-1]
    block = case.losses()
    for games in (None, 3):
        learner, unasked = case.start(games), case.start(games)
        for row, losses in enumerate(block):
            logs = learner.outcomes()
            shapes = [(number,)] if games is None else [(number,), (games, number)]
            demand(logs.shape in shapes, f"shape {logs.shape} in round {row + 1}, not one of {shapes}")
            total = np.exp(logs).sum(-1)
            demand(np.abs(total - 1.0).max() <= 1e-9, f"round {row + 1}: the outcomes have total probability {total}")
            if games is None:
                _check_take(learner, logs)
            same(learner.act(), unasked.act(), "asking for outcomes() changes the choices")
            learner.observe(losses)
            unasked.observe(losses)
    horizon, games = min(3, _enumerable(case, 3)), case.games(4000, 300)
    short = case.losses(rounds=horizon, num_experts=2)
    law = choice_law(case, short)
    demand(abs(law.sum() - 1.0) <= 1e-9, f"the transcripts of {horizon} rounds have total probability {law.sum()}")
    played = loop(case.start(games, num_experts=2, horizon=horizon), short)
    counts = np.zeros(law.shape, dtype=np.int64)
    np.add.at(counts, tuple(played), 1)
    check_frequencies(counts, games, law, law.size, "sequences of choices by act() and by outcomes()")


def _check_take(learner: Learner, logs: FloatArray) -> None:
    marginal = np.zeros(learner.spec.num_experts)
    for outcome in np.flatnonzero(np.isfinite(logs)):
        marginal[copy.deepcopy(learner).take(int(outcome))] += math.exp(logs[outcome])
    try:
        law = learner.probabilities()
    except NotImplementedError:
        return
    worst = float(np.abs(marginal - law).max())
    demand(worst <= 1e-9, f"outcomes() and take() give choices the law {marginal}, probabilities() {law}")
