"""Phased selection: phases at powers of two, every loss in one draw, exact privacy, the stochastic bound."""

import itertools
import math

import numpy as np
import pytest

import dp_experts_env as dpe
from dp_experts_adversaries.stochastic import Bernoulli
from dp_experts_agents.phased import PhasedSelection
from dp_experts_env.spec import ArgumentError, GameSpec
from dp_experts_env.testing.suite import check_frequencies


def begun(learner, experts, horizon, games=None, seed=0):
    learner.reset(GameSpec(experts, horizon, games), np.random.default_rng(seed))
    return learner


def phase_laws(losses, epsilon):
    """The law of each draw, before rounds 1, 2, 4, ...: coefficient epsilon/2 on the losses of rounds t/2..t-1."""
    laws = [np.full(losses.shape[1], 1.0 / losses.shape[1])]
    begin = 2
    while begin <= len(losses):
        weights = np.exp(-epsilon / 2.0 * losses[begin // 2 - 1 : begin - 1].sum(0))
        laws.append(weights / weights.sum())
        begin *= 2
    return laws


def transcript_law(learner, losses):
    """Exact law of the choices (T of them): all sequences of draws, as a batch."""
    horizon, experts = losses.shape
    begins = [t for t in range(horizon) if (t + 1) & t == 0]
    draws = np.array(list(itertools.product(range(experts), repeat=len(begins))))
    begun(learner, experts, horizon, len(draws))
    logs, choices = np.zeros(len(draws)), []
    for t, row in enumerate(losses):
        law = np.broadcast_to(learner.outcomes(), (len(draws), experts))
        outcome = draws[:, begins.index(t)] if t in begins else law.argmax(-1)
        logs += np.take_along_axis(law, outcome[:, None], -1)[:, 0]
        choices.append(learner.take(outcome))
        learner.observe(row)
    return logs, np.array(choices).T, draws


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 7, 8, 33])
def test_draws_fall_at_powers_of_two_with_the_law_of_their_phase(horizon):
    losses = np.random.default_rng(1).random((horizon, 3))
    learner = begun(PhasedSelection(4.0), 3, horizon)
    expected, held = iter(phase_laws(losses, 4.0)), None
    for t, row in enumerate(losses, start=1):
        if t & (t - 1) == 0:
            np.testing.assert_allclose(learner.probabilities(), next(expected), rtol=1e-12)
        else:
            assert learner.probabilities().tolist() == [float(i == held) for i in range(3)]
        choice = learner.act()
        assert t & (t - 1) == 0 or choice == held
        held = choice
        learner.observe(row)
    assert next(expected, None) is None


def test_choices_have_their_law():
    """50,000 games of 9 rounds: each draw's frequencies and the last two draws' joint ones, false alarm 1e-9."""
    games, losses = 50_000, np.random.default_rng(2).random((9, 3))
    choices = begun(PhasedSelection(3.0), 3, 9, games, 1).run(losses)
    for first, last in ((0, 1), (1, 3), (3, 7), (7, 9)):
        assert (choices[first:last] == choices[first]).all()
    laws = phase_laws(losses, 3.0)
    counts = [np.bincount(choices[t], minlength=3) for t in (0, 1, 3, 7)]
    check_frequencies(np.array(counts), games, np.array(laws), 21, "draws")
    joint = np.bincount(3 * choices[3] + choices[7], minlength=9)
    check_frequencies(joint, games, np.outer(laws[2], laws[3]).ravel(), 21, "pairs")
    with pytest.raises(AssertionError):
        check_frequencies(np.array(counts), games, np.array(phase_laws(losses, 3.5)), 21, "draws")


@pytest.mark.parametrize("place", range(9))
def test_every_loss_is_used_once(place):
    """Changing the losses of one round moves one draw's law: the next power of two's; the last phase's is not used."""
    losses = np.random.default_rng(3).random((9, 3))
    changed = losses.copy()
    changed[place] = 1.0 - changed[place]
    moved = [
        number
        for number, (one, two) in enumerate(zip(phase_laws(losses, 2.0), phase_laws(changed, 2.0), strict=True))
        if not np.allclose(one, two, atol=1e-12)
    ]
    assert moved == ([] if place >= 7 else [(place + 1).bit_length()])
    one, two = (transcript_law(PhasedSelection(2.0), rows) for rows in (losses, changed))
    ratio = one[0] - two[0]
    for column in range(4):
        # The log-ratio of the transcripts is a function of the draw that moved alone.
        spread = max(np.ptp(ratio[one[2][:, column] == expert]) for expert in range(3))
        assert (spread < 1e-12) == (column in moved or not moved)


@pytest.mark.parametrize(("adjacency", "epsilon"), [("replace", 1.0), ("replace", 4.0), ("zero_out", 1.5)])
def test_exact_epsilon_by_enumeration(adjacency, epsilon):
    """All transcripts of 8 rounds, a loss of each phase replaced by every corner: log-ratios <= epsilon."""
    learner, worst = PhasedSelection(epsilon, adjacency=adjacency), 0.0
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    for seed in range(3):
        losses = np.random.default_rng(seed).integers(2, size=(8, 3)).astype(float)
        for place in range(8):
            base, _, _ = transcript_law(learner, losses)
            assert np.exp(base).sum() == pytest.approx(1.0, abs=1e-12)
            others = corners if adjacency == "replace" else np.zeros((1, 3))
            for other in others:
                changed = losses.copy()
                changed[place] = other
                ratio = np.abs(base - transcript_law(learner, changed)[0]).max()
                assert ratio <= epsilon * (1.0 + 1e-12)
                worst = max(worst, ratio)
                assert place < 7 or ratio == 0.0
    assert worst > 0.6 * epsilon


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_epsilon_is_tight_with_many_experts(adjacency):
    """One expert from 1 to 0, all others from 0 to 1 (zero-out: all others from 1 to 0): epsilon as N grows."""
    experts, epsilon = 10**5, 1.3
    laws = []
    alone = np.arange(experts) == 0
    pair = (alone.astype(float), 1.0 - alone) if adjacency == "replace" else ((1.0 - alone), np.zeros(experts))
    for row in pair:
        learner = begun(PhasedSelection(epsilon, adjacency=adjacency), experts, 8)
        for t in range(3):
            learner.act()
            learner.observe(row if t == 1 else np.full(experts, 0.5))
        laws.append(learner.outcomes())
    ratio = np.abs(laws[0] - laws[1]).max()
    assert (0.999 if adjacency == "replace" else 0.99) * epsilon < ratio <= epsilon


def test_claim_and_coefficient():
    spec = GameSpec(5, 100)
    assert (PhasedSelection(3.0).coefficient, PhasedSelection(3.0, adjacency="zero_out").coefficient) == (1.5, 3.0)
    claim = PhasedSelection(3.0, 1e-3, "zero_out").guarantee(spec)
    assert (claim.epsilon, claim.delta, claim.against, claim.adjacency.value) == (3.0, 0.0, "adaptive", "zero_out")
    for arguments in ({"epsilon": 0.0}, {"delta": -0.1}, {"adjacency": "swap"}):
        with pytest.raises(ArgumentError, match=next(iter(arguments))):
            PhasedSelection(**arguments)


def test_bound_by_hand():
    learner, spec = PhasedSelection(2.0), GameSpec(10, 11)
    log = math.log(10)
    excess = [math.sqrt(log / (2 * n)) + log / n for n in (1, 2, 4)]
    expected = 1.0 + sum(r * min(1.0, e) for r, e in zip((2, 4, 4), excess, strict=True)) + math.sqrt(11 * log / 2)
    assert learner.regret_bound(spec, 3.0, "stochastic") == pytest.approx(expected)
    for against in ("oblivious", "adaptive"):
        assert math.isnan(learner.regret_bound(spec, 3.0, against))
    assert learner.regret_bound(GameSpec(1, 11), 3.0, "adaptive") == 0.0
    # the closed form of the pseudo-regret, for a coefficient of epsilon/2
    for horizon in (10, 1000, 10**5):
        for experts in (2, 100):
            bound = learner.regret_bound(GameSpec(experts, horizon), 0.0, "stochastic")
            log = math.log(experts)
            pseudo = 3.42 * math.sqrt(horizon * log) + 4.0 * log / 2.0 * math.log2(horizon) + 2.0
            assert bound <= pseudo + math.sqrt(horizon * log / 2.0)


@pytest.mark.parametrize(
    ("experts", "spread", "epsilon"), [(2, 0.02, 1.0), (10, 0.1, 1.0), (10, 0.5, 0.1), (30, 0.0, 5.0)]
)
def test_stochastic_bound(experts, spread, epsilon):
    """T = 1000, 200 games of coins: the bound plus 6 standard errors of the mean regret (false alarm 1e-9)."""
    means = 0.5 + spread * np.linspace(-1.0, 1.0, experts) / 2.0
    foe = Bernoulli(means=means.tolist(), num_experts=experts, horizon=1000)
    match = dpe.play(PhasedSelection(epsilon), foe, num_games=200, seed=5)
    assert match.kind == "stochastic"
    assert match.mean_regret - 6.0 * match.standard_error < match.regret_bound
    assert match.standard_error < 0.1 * match.regret_bound


@pytest.mark.parametrize("games", [None, 3])
def test_blocks_equal_the_loop(games):
    own = np.random.default_rng(3).random((60, 4) if games is None else (60, games, 4))
    shared = np.random.default_rng(4).random((40, 4))
    loop, blocks = begun(PhasedSelection(), 4, 100, games), begun(PhasedSelection(), 4, 100, games)
    one = []
    for row in [*shared, *own]:
        one.append(loop.act())
        loop.observe(row)
    parts = (shared[:1], shared[1:2], shared[2:7], shared[7:36], shared[36:], own[:23], own[23:24], own[24:])
    np.testing.assert_array_equal(one, np.concatenate([blocks.run(part) for part in parts]))
    np.testing.assert_array_equal(loop._phase, blocks._phase)


def test_one_expert_and_one_round():
    assert begun(PhasedSelection(), 1, 9).run(np.ones((9, 1))).tolist() == [0] * 9
    assert set(begun(PhasedSelection(), 3, 1, 200).run(np.ones((1, 3)))[0]) == {0, 1, 2}
    assert PhasedSelection().regret_bound(GameSpec(3, 1), 0.0, "stochastic") == 1.0 + math.sqrt(math.log(3) / 2)
