"""The likelihood-ratio watcher: exact against closed forms, and a post-processing of what was seen."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import dp_experts_env as dpe
from dp_experts_env.privacy.likelihood import LikelihoodRatio, has_law, has_transcript

SPEC = dpe.GameSpec(3, 6, 400)


def sides_of(horizon: int, num_experts: int) -> np.ndarray:
    """Two sequences ``(2, T, N)`` that differ in round 2."""
    losses = np.random.default_rng(3).random((2, horizon, num_experts)).round(1)
    losses[1] = losses[0]
    losses[1, 1] = 1.0 - losses[0, 1]
    return losses


def watched(learner: dpe.Learner, view: str, world: int, spec: dpe.GameSpec = SPEC, seed: int = 0):
    """Play a batch in one world under the watcher; the ratios, the choices ``(T, G)`` and the notes of each round."""
    sides = sides_of(spec.horizon, spec.num_experts)
    player = copy.deepcopy(learner)
    player.reset(spec, np.random.default_rng(seed))
    watcher = LikelihoodRatio(learner, view, spec, np.random.default_rng(seed + 100))
    choices, told = [], []
    for round in range(spec.horizon):
        player._notes = {}
        choices.append(player.act())
        notes = {name: values[-1] for name, values in player._notes.items()}
        told.append(notes)
        watcher.round(sides[:, round], choices[-1], notes)
        player.observe(sides[world, round])
    return watcher.result(), np.array(choices), told


@pytest.mark.parametrize("world", [0, 1])
def test_hedge_in_closed_form(world):
    learner = dpe.make_learner("hedge", learning_rate=0.7)
    ratios, choices, _ = watched(learner, "choices", world)
    totals = np.cumsum(sides_of(6, 3), axis=1)
    logs = np.zeros((2, 6, 3))
    logs[:, 1:] = -0.7 * totals[:, :-1]
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    by_hand = sum(logs[0, t, choices[t]] - logs[1, t, choices[t]] for t in range(6))
    np.testing.assert_allclose(ratios, by_hand, rtol=0, atol=1e-12)


def test_one_game_without_a_games_axis():
    learner = dpe.make_learner("hedge", learning_rate=0.7)
    spec = dpe.GameSpec(3, 6)
    single, choices, _ = watched(learner, "choices", 0, spec)
    assert np.shape(single) == ()
    batch, again, _ = watched(learner, "choices", 0, dpe.GameSpec(3, 6, 1))
    np.testing.assert_array_equal(choices, again[:, 0])
    assert float(single) == batch[0]


@pytest.mark.parametrize("name", ["private_dartboard", "lazy_to_private", "realizable", "small_loss"])
def test_a_transcript_by_its_definition(name):
    """Walk both laws along the outcome that the notes spell, one game at a time."""
    learner = dpe.make_learner(name)
    spec = dpe.GameSpec(3, 6, 25)
    ratios, choices, told = watched(learner, "transcript", 1, spec)
    sides = sides_of(6, 3)
    for game in range(25):
        twins = [copy.deepcopy(learner) for _ in range(2)]
        for twin in twins:
            twin.reset(dpe.GameSpec(3, 6), np.random.default_rng(0))
        total = 0.0
        for round in range(6):
            laws = [twin.outcomes() for twin in twins]
            found = []
            for outcome in range(len(laws[0])):
                trial = copy.deepcopy(twins[0])
                trial._notes = {}
                same = trial.take(outcome) == choices[round, game]
                if same and all(trial._notes[key][-1] == told[round][key][game] for key in told[round]):
                    found.append(outcome)
            with np.errstate(divide="ignore"):
                total += np.log(np.exp(laws[0][found]).sum()) - np.log(np.exp(laws[1][found]).sum())
            (likely,) = [k for k in found if np.isfinite(laws[0][k]) or np.isfinite(laws[1][k])]
            for twin, side in zip(twins, sides[:, round], strict=True):
                twin.take(likely)
                twin.observe(side)
        assert ratios[game] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("view", ["choices", "transcript"])
@pytest.mark.parametrize("name", ["private_hedge", "private_dartboard", "private_fixed_share", "phased_selection"])
def test_mean_likelihood_is_one(name, view):
    """In world 1 the ratio's exponential has mean 1 (exactly where no coin is hidden).

    4000 games; the sample mean is asked to be within 6 of its standard errors: a false alarm has probability below 1e-6
    by the normal approximation, for a ratio that is bounded here.
    """
    learner = dpe.make_learner(name, epsilon=3.0)
    ratios, _, _ = watched(learner, view, 1, dpe.GameSpec(3, 6, 4000))
    values = np.exp(ratios)
    assert abs(values.mean() - 1.0) <= 6.0 * values.std() / np.sqrt(len(values)) + 1e-12
    assert values.std() > 0.0


class Liar(dpe.Learner):
    """Names experts uniformly and says that it names expert 0 on side 0, expert 1 on side 1."""

    def start(self):
        self._total = np.zeros(self.spec.num_experts)

    def act(self):
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)

    def observe(self, losses):
        self._total = self._total + losses

    def outcomes(self):
        law = np.full(self.spec.num_experts, -np.inf)
        law[int(self._total[0] > 0.4)] = 0.0
        return law

    def take(self, outcome):
        return outcome


def test_a_law_that_lies_gives_numbers_and_no_power():
    """What no world can show counts as nothing, infinities stay, and no NaN comes out."""
    for world in (0, 1):
        ratios, _, _ = watched(Liar(), "choices", world)
        assert not np.isnan(ratios).any()


def test_twins_do_not_see_what_the_learner_keeps_to_itself():
    """The ratio is the same whatever the generator of the learner in play, given what was seen."""
    learner = dpe.make_learner("private_dartboard")
    spec = dpe.GameSpec(3, 6, 50)
    ratios, choices, told = watched(learner, "transcript", 0, spec)
    watcher = LikelihoodRatio(learner, "transcript", spec, np.random.default_rng(987))
    for round, side in enumerate(sides_of(6, 3).swapaxes(0, 1)):
        watcher.round(side, choices[round], told[round])
    np.testing.assert_array_equal(watcher.result(), ratios)


def test_who_has_a_law_and_who_has_a_transcript():
    spec = dpe.GameSpec(3, 6)
    law = {name: has_law(dpe.make_learner(name), spec) for name in ("private_hedge", "realizable", "gaussian_leader")}
    assert law == {"private_hedge": True, "realizable": True, "gaussian_leader": False}
    assert not has_law(dpe.make_learner("realizable"), dpe.GameSpec(3, 10_000))
    noted = {name: has_transcript(dpe.make_learner(name), spec) for name in ("private_hedge", "realizable", "fade")}
    assert noted == {"private_hedge": False, "realizable": True, "fade": True}


# -- learners that state nonsense --------------------------------------------------------------------------------------


class Odd(dpe.Learner):
    """Names expert 0 and says what it is told to say."""

    def __init__(self, law=None, claim=None, note=None):
        self.law, self.claim, self.noted = law, claim, note

    def act(self):
        if self.noted is not None:
            self.note("odd", self.noted)
        return np.zeros(self.spec.shape, dtype=np.int64) if self.spec.shape else 0

    def observe(self, losses):
        pass

    def guarantee(self, spec):
        return self.claim

    def outcomes(self):
        if self.law is None:
            return super().outcomes()
        return self.law


@pytest.mark.parametrize("law", ["x", 0.5, np.float64(0.0), np.zeros(0), np.zeros((3, 2)), np.zeros(2, dtype=int)])
def test_a_law_that_is_none_is_named(law):
    pair = dpe.make_pair("first_round", num_experts=2, horizon=3)
    with pytest.raises(dpe.ArgumentError, match=r"Odd\.outcomes: expected log-probabilities"):
        dpe.audit(Odd(law), pair, 20, seed=0)
    with pytest.raises(dpe.ArgumentError, match=r"Odd\.outcomes: expected log-probabilities"):
        dpe.exact_privacy(Odd(law), 2, 3)


def test_a_law_without_take_is_no_law():
    """The audit does without; exact privacy says what is missing."""
    learner = Odd(np.log(np.full(2, 0.5)))
    assert not has_law(learner, dpe.GameSpec(2, 3))
    pair = dpe.make_pair("first_round", num_experts=2, horizon=3)
    assert dpe.audit(learner, pair, 20, seed=0).epsilon_lower == 0.0
    with pytest.raises(dpe.ArgumentError, match="expected one with outcomes and take"):
        dpe.exact_privacy(learner, 2, 3)


@pytest.mark.parametrize("claim", ["x", (1.0, 0.0), 1.0])
def test_a_claim_that_is_none_is_named(claim):
    pair = dpe.make_pair("first_round", num_experts=2, horizon=3)
    with pytest.raises(dpe.ArgumentError, match=r"Odd\.guarantee: expected a Guarantee or None"):
        dpe.audit(Odd(claim=claim), pair, 20, seed=0)


def test_a_ragged_note_is_named():
    pair = dpe.make_pair("first_round", num_experts=2, horizon=3)
    with pytest.raises(dpe.ArgumentError, match="note 'odd'"):
        dpe.audit(Odd(note=[[1], [1, 2]]), pair, 20, seed=0, view="transcript")


def test_what_is_no_learner_is_refused():
    spec = dpe.GameSpec(2, 3)
    for ask in (has_law, has_transcript):
        with pytest.raises(dpe.ArgumentError, match="learner: expected a Learner"):
            ask("hedge", spec)
        with pytest.raises(dpe.ArgumentError, match="spec: expected a GameSpec"):
            ask(Odd(), (2, 3))
    with pytest.raises(dpe.ArgumentError, match="learner: expected a Learner"):
        LikelihoodRatio("hedge", "choices", spec, np.random.default_rng(0))
    with pytest.raises(dpe.ArgumentError, match="rng: expected"):
        LikelihoodRatio(Odd(), "choices", spec, None)
