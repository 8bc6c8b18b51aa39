"""The base class of learners: order of calls, checks in and out, batches by copies, transcripts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from dp_experts_env import ArgumentError, ChoiceError, GameSpec, Learner, LossError, ProtocolError
from dp_experts_env.learner import LoopedLearner, looped


class Told(Learner):
    """Answers from a list; records what it was shown."""

    def __init__(self, answers: Any = 0, runs: Any = None) -> None:
        self.answers = answers
        self.runs = runs

    def start(self) -> None:
        self.seen: list[Any] = []

    def act(self) -> Any:
        return self.answers

    def observe(self, losses: Any) -> None:
        self.seen.append(losses)


class ToldBlocks(Told):
    """Answers a block from a list."""

    def run(self, block: Any) -> Any:
        return self.runs


class Noisy(Learner):
    """Follows Gumbel-perturbed losses in one game; notes its noise and what it observed."""

    batched = False

    def start(self) -> None:
        self.total = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        noise = self.rng.gumbel(size=self.spec.num_experts)
        self.note("noise", noise.max())
        return int((self.total - noise).argmin())

    def observe(self, losses: Any) -> None:
        self.total = self.total + losses
        self.note("best", self.total.min())

    def probabilities(self) -> Any:
        weights = np.exp(-self.total)
        return weights / weights.sum()

    def outcomes(self) -> Any:
        return np.log(self.probabilities())

    def take(self, outcome: Any) -> Any:
        return outcome


def begin(learner: Learner, num_experts: int = 3, horizon: int = 4, num_games: int | None = None) -> Any:
    learner.reset(GameSpec(num_experts, horizon, num_games), np.random.default_rng(0))
    return learner


ROW = np.array([0.0, 0.5, 1.0])


def test_only_act_must_be_written() -> None:
    bare = begin(Learner())
    with pytest.raises(NotImplementedError, match=r"Learner must implement act\(\)"):
        bare.act()
    told = begin(Told())
    for method in (told.probabilities, told.outcomes, lambda: told.take(0)):
        with pytest.raises(NotImplementedError, match="Told has no"):
            method()
    assert told.guarantee(told.spec) is None
    assert math.isnan(told.regret_bound(told.spec, 0.0))


def test_rounds_are_counted_once_however_they_are_played() -> None:
    learner = begin(Told())
    assert learner.round == 0
    learner.act()
    assert learner.round == 0
    learner.observe(ROW)
    assert learner.round == 1
    learner.run(np.stack([ROW, ROW]))
    assert learner.round == 3
    begin(learner)
    assert learner.round == 0


def test_calls_out_of_order_name_the_call_and_the_round() -> None:
    learner = Told()
    for call in (learner.act, lambda: learner.run(ROW[None]), lambda: learner.take(0)):
        with pytest.raises(ProtocolError, match=r"Told\.(act|run|take): expected reset\(spec, rng\) first"):
            call()
    begin(learner, horizon=2)
    with pytest.raises(ProtocolError, match=r"Told\.observe: expected act\(\) first in round 1"):
        learner.observe(ROW)
    learner.act()
    with pytest.raises(ProtocolError, match=r"Told\.act: expected observe\(\) to end round 1 first"):
        learner.act()
    learner.observe(ROW)
    with pytest.raises(ProtocolError, match=r"2 round\(s\) asked after 1 of horizon 2 were played"):
        learner.run(np.stack([ROW, ROW]))
    learner.run(ROW[None])
    with pytest.raises(ProtocolError, match=r"1 round\(s\) asked after 2 of horizon 2 .* reset\(\) for a new game"):
        learner.act()
    assert learner.round == 2


def test_a_failed_start_is_no_start() -> None:
    class FailsOnce(Told):
        """Fails to start a game of two experts."""

        def start(self) -> None:
            super().start()
            if self.spec.num_experts == 2:
                raise ArithmeticError("two")

    learner = begin(FailsOnce())
    with pytest.raises(ArithmeticError):
        begin(learner, num_experts=2)
    with pytest.raises(ProtocolError, match="expected reset"):
        learner.act()
    begin(learner).act()


def test_reset_checks_its_arguments() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ArgumentError, match="spec: expected a GameSpec but found"):
        Told().reset((3, 4), rng)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"rng: expected a numpy\.random\.Generator but found 7"):
        Told().reset(GameSpec(3, 4), 7)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"Noisy has batched = False and plays one game .* num_games=2; looped"):
        Noisy().reset(GameSpec(3, 4, 2), rng)


@pytest.mark.parametrize(
    ("answers", "num_games"), [(3, None), (-1, None), (1.0, None), (None, None), ([0, 3], 2), ([0.0, 1.0], 2), (0, 2)]
)
def test_an_illegal_choice_is_refused_with_class_and_round(answers: Any, num_games: int | None) -> None:
    learner = begin(Told(answers), num_games=num_games)
    with pytest.raises(ChoiceError, match=r"^Told\.act of round 1"):
        learner.act()
    with pytest.raises(ProtocolError):
        learner.observe(ROW)


@pytest.mark.parametrize("runs", [[0], [0, 3], [0, -1], [0.0, 1.0], [[0], [1]], None])
def test_an_illegal_block_of_choices_is_refused(runs: Any) -> None:
    learner = begin(ToldBlocks(runs=runs))
    learner.act()
    learner.observe(ROW)
    with pytest.raises(ChoiceError, match=r"^ToldBlocks\.run (from|of) round [23]"):
        learner.run(np.stack([ROW, ROW]))


def test_choices_come_out_in_one_form() -> None:
    choice = begin(Told(np.uint8(2))).act()
    assert type(choice) is int
    assert choice == 2
    answers = np.array([0, 1], dtype=np.int32)
    batch = begin(Told(answers), num_games=2).act()
    assert batch.dtype == np.int64
    state = np.array([0, 1])
    batch = begin(Told(state), num_games=2).act()
    batch += 1
    assert state.tolist() == [0, 1]


@pytest.mark.parametrize("bad", [[0.0, math.nan, 0.0], [0.0, 1e10, 0.0], [0.0, -3.0, 0.0], [0.0, 0.0], "abc", None])
def test_a_bad_row_changes_nothing_and_a_good_one_goes_on(bad: Any) -> None:
    learner = begin(Told())
    learner.act()
    learner.observe(ROW)
    learner.act()
    with pytest.raises(LossError, match="losses of round 2") as caught:
        learner.observe(bad)
    if isinstance(bad, list) and len(bad) == 3:
        assert "expert 1" in str(caught.value)
    assert learner.round == 1
    assert len(learner.seen) == 1
    learner.observe(ROW)
    assert learner.round == 2
    with pytest.raises(LossError):
        learner.run([bad])
    assert learner.round == 2
    assert learner.run([ROW]).tolist() == [0]


def test_losses_are_never_clipped() -> None:
    learner = begin(Told(), num_experts=2)
    learner.act()
    with pytest.raises(LossError, match=r"round 1, expert 0: expected a loss in \[0, 1\] but found -3.0; rescale"):
        learner.observe([-3.0, 1.0])


def test_a_method_may_call_its_base_class() -> None:
    class Loud(Told):
        """Calls what it overrides."""

        calls: ClassVar[list[str]] = []

        def act(self) -> Any:
            self.calls.append("act")
            return super().act()

        def observe(self, losses: Any) -> None:
            self.calls.append("observe")
            super().observe(losses)

        def run(self, block: Any) -> Any:
            self.calls.append("run")
            return super().run(block)

    learner = begin(Loud())
    learner.run(np.stack([ROW, ROW]))
    assert Loud.calls == ["run", "act", "observe", "act", "observe"]
    assert learner.round == 2
    assert len(learner.seen) == 2


def test_an_error_within_a_round_leaves_the_guards_intact() -> None:
    class Stumbles(Told):
        """Fails the first time it is asked or told."""

        def act(self) -> Any:
            if not hasattr(self, "asked"):
                self.asked = True
                raise ArithmeticError
            return super().act()

        def observe(self, losses: Any) -> None:
            if not hasattr(self, "told"):
                self.told = True
                raise ArithmeticError
            super().observe(losses)

    learner = begin(Stumbles())
    with pytest.raises(ArithmeticError):
        learner.act()
    learner.act()
    with pytest.raises(ArithmeticError):
        learner.observe(ROW)
    with pytest.raises(LossError):
        learner.observe([2.0, 0.0, 0.0])
    learner.observe(ROW)
    assert learner.round == 1


def test_a_block_is_checked_before_any_of_it_is_played() -> None:
    learner = begin(Told())
    with pytest.raises(LossError, match="losses of round 2, expert 2"):
        learner.run([[0.0, 0.0, 0.0], [0.0, 0.0, 7.0]])
    assert learner.round == 0
    assert learner.seen == []
    with pytest.raises(LossError, match="expected shape"):
        learner.run(np.empty((0, 3)))


# -- batches by copies -----------------------------------------------------------------------------------------------


def test_looped_wraps_only_what_plays_one_game() -> None:
    batched, single = Told(), Noisy()
    assert looped(batched) is batched
    wrapped = looped(single)
    assert isinstance(wrapped, LoopedLearner)
    assert repr(wrapped) == "LoopedLearner(learner=Noisy())"


def test_copies_play_each_its_own_stream() -> None:
    """Game g of a looped batch equals the single game on child stream g."""
    rows = np.random.default_rng(5).random((4, 3, 3))
    batch = begin(looped(Noisy()), num_games=3)
    streams = np.random.default_rng(0).spawn(3)
    singles = []
    for stream in streams:
        single = Noisy()
        single.reset(GameSpec(3, 4), stream)
        singles.append(single)
    for losses in rows:
        laws = np.stack([single.probabilities() for single in singles])
        np.testing.assert_array_equal(batch.probabilities(), laws)
        np.testing.assert_array_equal(batch.outcomes(), np.log(laws))
        assert batch.act().tolist() == [single.act() for single in singles]
        batch.observe(losses)
        for single, row in zip(singles, losses, strict=True):
            single.observe(row)


def test_a_looped_batch_of_one_is_the_single_game() -> None:
    rows = np.random.default_rng(5).random((4, 3))
    single, batch, alone = begin(Noisy()), begin(looped(Noisy()), num_games=1), begin(looped(Noisy()))
    for losses in rows:
        choice = single.act()
        assert batch.act().tolist() == [choice]
        answer = alone.act()
        assert type(answer) is int
        assert answer == choice
        for learner in (single, batch, alone):
            learner.observe(losses)


def test_a_looped_batch_takes_an_outcome_a_game() -> None:
    batch = begin(looped(Noisy()), num_games=3)
    assert batch.take(np.array([2, 0, 1])).tolist() == [2, 0, 1]
    batch.observe(ROW)
    assert batch.take(1).tolist() == [1, 1, 1]


def test_a_looped_batch_does_not_touch_the_learner_it_copies() -> None:
    inner = Noisy()
    begin(looped(inner), num_games=2).act()
    with pytest.raises(ProtocolError, match="expected reset"):
        inner.act()


# -- transcripts -----------------------------------------------------------------------------------------------------


def test_notes_are_kept_only_when_someone_records() -> None:
    learner = begin(Noisy())
    learner.act()
    learner.observe(ROW)
    assert learner._notes is None
    learner._notes = {}
    learner.act()
    learner.observe(ROW)
    assert {name: len(values) for name, values in learner._notes.items()} == {"noise": 1, "best": 1}
    assert learner._notes["best"][0] == 0.0


def test_a_note_is_a_copy() -> None:
    learner = begin(Told(), num_games=2)
    learner._notes = {}
    coins = np.array([True, False])
    learner.note("coin", coins)
    coins[:] = False
    assert learner._notes["coin"][0].tolist() == [True, False]


def test_a_looped_batch_hands_on_the_notes_of_its_copies() -> None:
    batch = begin(looped(Noisy()), num_games=2)
    batch.act()
    batch.observe(ROW)
    batch._notes = {}
    for number in (1, 2):
        batch.act()
        batch.observe(np.stack([ROW, np.array([0.25, 0.5, 1.0])]))
        assert [len(values) for values in batch._notes.values()] == [number, number]
    assert list(batch._notes) == ["noise", "best"]
    assert all(values.shape == (2,) for kept in batch._notes.values() for values in kept)
    assert batch._notes["best"][-1].tolist() == [0.0, 0.5]
    assert batch._notes["noise"][0][0] != batch._notes["noise"][0][1]
