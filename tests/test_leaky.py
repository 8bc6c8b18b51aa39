"""Every positive control really violates its claim: one pair of neighbouring sequences and one event refute each.

The statistical ones play 20,000 games a world with a fixed seed; P(A) <= e^epsilon P(B) + delta is refuted by one-sided
Clopper-Pearson bounds at error 5e-7 each, so a control that was in truth private would pass with probability <= 1e-6.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import dp_experts_env as dpe

GAMES = 20_000
LEAKY = (
    "leaky_ada_hedge",
    "leaky_copy_last",
    "leaky_dartboard",
    "leaky_never_halting",
    "leaky_no_query_noise",
    "leaky_no_threshold_noise",
    "leaky_perturbed_leader",
    "leaky_sensitivity",
    "leaky_triple_rate",
)


def test_the_positive_controls_are_listed_apart():
    assert dpe.learners(leaky=True) == LEAKY
    assert not set(LEAKY) & set(dpe.learners())
    for name in LEAKY:
        learner = dpe.make_learner(name)
        guarantee = learner.guarantee(dpe.GameSpec(4, 100))
        assert (guarantee.epsilon, guarantee.delta, guarantee.against) == (1.0, 1e-6, "adaptive")
        assert "violates" in guarantee.source
        assert learner.leaky


def exact_delta(name, losses, others):
    """Exact delta at the claimed epsilon between two fixed sequences, by playing every transcript as one batch."""
    horizon, experts = losses.shape
    laws = []
    for world in (losses, others):
        learner = dpe.make_learner(name)
        learner.reset(dpe.GameSpec(experts, horizon, 1), np.random.default_rng(0))
        number = learner.outcomes().shape[-1]
        transcripts = np.array(list(itertools.product(range(number), repeat=horizon)))
        learner.reset(dpe.GameSpec(experts, horizon, len(transcripts)), np.random.default_rng(0))
        law = np.zeros(len(transcripts))
        for row, outcome in zip(world, transcripts.T, strict=True):
            step = np.broadcast_to(learner.outcomes(), (len(transcripts), number))
            law += np.take_along_axis(step, outcome[:, None], -1)[:, 0]
            learner.take(outcome)
            learner.observe(row)
        laws.append(np.exp(law))
    first, second = laws
    assert first.sum() == pytest.approx(1.0)
    return max(np.maximum(first - math.e * second, 0.0).sum(), np.maximum(second - math.e * first, 0.0).sum())


@pytest.mark.parametrize("name", ["leaky_dartboard", "leaky_ada_hedge", "leaky_triple_rate"])
def test_exact_delta_exceeds_the_claim(name):
    horizon = 8 if name == "leaky_triple_rate" else 4
    losses, others = np.zeros((horizon, 2)), np.zeros((horizon, 2))
    losses[0], others[0] = (0.0, 1.0), (1.0, 0.0)
    assert exact_delta(name, losses, others) > 10 * 1e-6


def test_the_honest_rate_does_not_exceed_the_claim():
    losses, others = np.zeros((8, 2)), np.zeros((8, 2))
    losses[0], others[0] = (0.0, 1.0), (1.0, 0.0)
    assert exact_delta("private_hedge", losses, others) <= 1e-6


def play(name, losses, seed):
    """Choices ``(T, G)`` and, where noted, alarms ``(T, G)`` of many games on one sequence."""
    learner = dpe.make_learner(name)
    learner.reset(dpe.GameSpec(losses.shape[1], len(losses), GAMES), np.random.default_rng(seed))
    learner._notes = {}
    choices = []
    for row in losses:
        choices.append(learner.act())
        learner.observe(row)
    return np.array(choices), np.array(learner._notes.get("above", []))


def refutes(hits, others):
    """Whether counts out of ``GAMES`` in two worlds refute (1, 1e-6)-DP."""
    low = stats.beta.ppf(5e-7, hits, GAMES - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - 5e-7, others + 1, GAMES - others) if others < GAMES else 1.0
    return low > math.e * high + 1e-6


def test_copying_the_last_loss_is_caught_by_one_choice():
    worlds = [np.array([first, (0.0, 0.0)]) for first in ((0.0, 1.0), (1.0, 0.0))]
    here, there = (play("leaky_copy_last", losses, 0)[0] for losses in worlds)
    assert refutes((here[1] == 0).sum(), (there[1] == 0).sum())


def test_one_draw_of_noise_never_leaves_the_leader_for_no_reason():
    worlds = [np.array([first, (0.0, 0.0)]) for first in ((1.0, 0.0), (0.0, 1.0))]
    here, there = (play("leaky_perturbed_leader", losses, seed)[0] for seed, losses in enumerate(worlds))
    left = [((choices[0] == 0) & (choices[1] == 1)).sum() for choices in (here, there)]
    assert left[1] == 0
    assert refutes(*left)


def watch_worlds(name, ones, zeros=12):
    """All experts lose alike: 1 for ``ones`` rounds, then 1 in one world and 0 in the other, then 0."""
    worlds = []
    for last in (1.0, 0.0):
        losses = np.concatenate([np.ones(ones), [last], np.zeros(zeros)])
        worlds.append(np.repeat(losses[:, None], 2, axis=1))
    return [play(name, losses, seed)[1] for seed, losses in enumerate(worlds)]


def threshold_of(name, horizon):
    learner = dpe.make_learner(name)
    plan = learner.plan(dpe.GameSpec(2, horizon))
    assert plan.stride == 1
    return plan.threshold


@pytest.mark.parametrize("name", ["leaky_no_query_noise", "leaky_no_threshold_noise", "leaky_sensitivity"])
def test_a_watch_with_a_fault_is_caught_in_the_transcript(name):
    ones = math.ceil(threshold_of(name, 40)) + (1 if name == "leaky_no_query_noise" else -1)
    here, there = watch_worlds(name, ones, zeros=40 - ones - 1)
    pairs = [(pattern(here), pattern(there)) for pattern in patterns(ones)]
    assert any(refutes(*pair) or refutes(*pair[::-1]) for pair in pairs)


@pytest.mark.parametrize("name", ["realizable"])
def test_the_same_events_do_not_accuse_the_honest_watch(name):
    for shift in (-1, 1):
        ones = math.ceil(threshold_of(name, 40)) + shift
        here, there = watch_worlds(name, ones, zeros=40 - ones - 1)
        for pattern in patterns(ones):
            pair = [pattern(alarms) for alarms in (here, there)]
            assert not refutes(*pair)
            assert not refutes(*pair[::-1])


def patterns(ones):
    return (
        lambda alarms: (~alarms[: ones + 1].any(0) & alarms[ones + 1]).sum(),
        lambda alarms: (~alarms.any(0)).sum(),
        lambda alarms: (~alarms[: ones + 2].any(0)).sum(),
        lambda alarms: (~alarms[: ones + 3].any(0)).sum(),
        lambda alarms: alarms.any(0).sum(),
        lambda alarms: (alarms.sum(0) >= 5).sum(),
    )


def test_going_on_after_an_alarm_is_caught_in_the_transcript():
    ones = math.ceil(threshold_of("leaky_never_halting", 40)) - 1
    here, there = watch_worlds("leaky_never_halting", ones, zeros=40 - ones - 1)
    counts = [alarms.sum(0) for alarms in (here, there)]
    found = [
        (((low <= counts[0]) & (counts[0] <= high)).sum(), ((low <= counts[1]) & (counts[1] <= high)).sum())
        for low, high in itertools.combinations(range(0, 40, 3), 2)
    ]
    assert any(refutes(*pair) or refutes(*pair[::-1]) for pair in found)


def test_a_false_claim_is_called_false_where_it_is_shown(capsys):
    from dp_experts_env import cli

    match = dpe.play(dpe.make_learner("leaky_copy_last"), dpe.make_adversary("bernoulli", horizon=20), seed=0)
    assert match.leaky
    assert match.privacy == f"FALSE claim of {match.guarantee}: a positive control"
    assert match.privacy in str(match)
    honest = dpe.play(dpe.make_learner("private_hedge"), dpe.make_adversary("bernoulli", horizon=20), seed=0)
    assert (honest.leaky, honest.privacy) == (False, str(honest.guarantee))
    cli.app(["play", "leaky_copy_last", "bernoulli", "-T", "20", "-G", "2"], standalone_mode=False)
    assert "FALSE claim of" in capsys.readouterr().out
    cli.app(["play", "private_hedge", "bernoulli", "-T", "20", "-G", "2"], standalone_mode=False)
    assert "FALSE" not in capsys.readouterr().out
