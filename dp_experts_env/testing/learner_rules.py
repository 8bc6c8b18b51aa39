"""What every learner owes to the game: choices, seeds, batches, blocks, order of calls, bad input."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dp_experts_env.learner import looped
from dp_experts_env.spec import ArgumentError, FloatArray, LossError, ProtocolError
from dp_experts_env.testing.learner_case import LearnerCase, loop
from dp_experts_env.testing.suite import FALSE_ALARM, Suite, demand, expect, global_randomness, same

RULES: Suite[LearnerCase] = Suite()


def _deterministic(case: LearnerCase) -> bool:
    return case.build().deterministic


def _random(case: LearnerCase) -> bool:
    return not case.build().deterministic


@RULES.add()
def builds(case: LearnerCase) -> None:
    """It builds, prints its parameters, keeps them under their names, clones, and refuses unknown keywords."""
    learner = case.build()
    text, parameters = repr(learner), learner.parameters
    demand(text.startswith(type(learner).__name__ + "("), f"repr does not begin with the class name: {text}")
    for name, given in parameters.items():
        demand(f"{name}=" in text, f"repr leaves out the parameter {name!r}: {text}")
        demand(hasattr(learner, name), f"the constructor keyword {name!r} is not stored as self.{name}")
        if isinstance(given, (bool, int, float)):
            kept = getattr(learner, name)
            demand(kept == given, f"self.{name} is {kept!r}, but {given!r} was given")
    twin = learner.clone()
    demand(twin is not learner and type(twin) is type(learner), "clone() does not build another of the same class")
    demand(repr(twin) == text, f"clone() changes the parameters: {twin!r}")
    twin.reset(case.spec(), np.random.default_rng(case.seed))
    same(loop(twin, case.losses()), loop(case.start(), case.losses()), "a clone chooses otherwise")
    expect(TypeError, "an unknown constructor keyword", type(learner), no_such_keyword=0)
    demand("name" not in parameters, "the constructor keyword 'name' would be read by make_learner instead")


@RULES.add()
def pickles(case: LearnerCase) -> None:
    """It pickles and deep-copies before and within a game, and both copies play on alike."""
    block, half = case.losses(), case.horizon // 2
    copies: tuple[Callable[[Any], Any], ...] = (lambda player: pickle.loads(pickle.dumps(player)), copy.deepcopy)
    for copied in copies:
        fresh = copied(case.build())
        demand(repr(fresh) == repr(case.build()), f"a copy has other parameters: {fresh!r}")
        fresh.reset(case.spec(), np.random.default_rng(case.seed))
        same(loop(fresh, block), loop(case.start(), block), "a copy of an unstarted learner chooses otherwise")
        for games in (None, case.batch):
            reference, learner = loop(case.start(games), block), case.start(games)
            loop(learner, block[:half])
            twin = copied(learner)
            same(loop(twin, block[half:]), reference[half:], "a copy made within a game plays on otherwise")
            same(loop(learner, block[half:]), reference[half:], "making a copy changes the learner")


@RULES.add()
def docstring(case: LearnerCase) -> None:
    """The class has a docstring of its own, and a guarantee names its source."""
    learner = case.build()
    demand((type(learner).__dict__.get("__doc__") or "").strip(), "the class has no docstring of its own")
    guarantee = learner.guarantee(case.spec())
    demand(guarantee is None or guarantee.source.strip(), "the guarantee names no source")


@RULES.add()
def choices(case: LearnerCase) -> None:
    """Choices are an int, or an int64 array in a batch, in 0..N-1; the round counter counts."""
    for games in (None, 1, 3):
        learner = case.start(games)
        for number, losses in enumerate(case.losses()):
            demand(learner.round == number, f"round is {learner.round} after {number} rounds")
            choice = learner.act()
            if games is None:
                demand(type(choice) is int, f"act() returned {choice!r}, not an int")
            else:
                demand(
                    isinstance(choice, np.ndarray) and choice.dtype == np.int64 and choice.shape == (games,),
                    f"act() returned {choice!r}, not an int64 array of shape ({games},)",
                )
            demand(np.all((np.asarray(choice) >= 0) & (np.asarray(choice) < case.num_experts)), f"act(): {choice!r}")
            learner.observe(losses)
        block = case.start(games).run(case.losses())
        shape = (case.horizon,) if games is None else (case.horizon, games)
        demand(
            isinstance(block, np.ndarray) and block.dtype == np.int64 and block.shape == shape,
            f"run() returned {block!r}, not an int64 array of shape {shape}",
        )
        demand(np.all((block >= 0) & (block < case.num_experts)), f"run() returned {block!r}")


@RULES.add()
def same_seed(case: LearnerCase) -> None:
    """The same generator and losses give the same choices."""
    for games in (None, case.batch):
        block = case.losses()
        same(loop(case.start(games), block), loop(case.start(games), block), "two games with one seed differ")


@RULES.add()
def reset(case: LearnerCase) -> None:
    """Nothing is left of the last game after a reset, whatever its size and wherever it stopped."""
    block = case.losses()
    for games in (None, case.batch):
        reference = loop(case.start(games), block)
        for size, rounds, stop in ((case.num_experts, case.horizon, case.horizon), (case.num_experts + 3, 9, 5)):
            learner = case.start(games, seed=case.seed + 1, num_experts=size, horizon=rounds)
            loop(learner, 1.0 - case.losses(rounds=stop, num_experts=size))
            if stop < rounds:
                learner.act()
            learner.reset(case.spec(games), np.random.default_rng(case.seed))
            demand(learner.round == 0, f"round is {learner.round} after reset()")
            same(loop(learner, block), reference, "a learner that was reset chooses otherwise than a fresh one")


@RULES.add(_random)
def seeds(case: LearnerCase) -> None:
    """Another seed gives other choices, unless the class declares ``deterministic = True``."""
    games = [loop(case.start(32, seed=case.seed + shift), case.losses()) for shift in range(3)]
    demand(
        any(not np.array_equal(games[0], other) for other in games[1:]),
        "three seeds gave the same choices: draw from self.rng, or declare deterministic = True",
    )


@RULES.add(_deterministic)
def deterministic(case: LearnerCase) -> None:
    """As declared, choices depend on the losses alone, not on the seed or the batch."""
    reference = loop(case.start(), case.losses())
    other = loop(case.start(seed=case.seed + 1), case.losses())
    same(other, reference, "the class declares deterministic = True, but two seeds gave different choices")
    batch = loop(case.start(case.batch), case.losses())
    same(batch, np.repeat(reference[:, None], case.batch, axis=1), "deterministic = True, but games of a batch differ")


@RULES.add()
def instances(case: LearnerCase) -> None:
    """Two instances do not influence each other: no state is kept on the class or in a shared argument."""
    block = case.losses()
    reference = loop(case.start(), block)
    first, original = case.start(), case.build()
    second = original.clone()
    second.reset(case.spec(), np.random.default_rng(case.seed + 1))
    original.reset(case.spec(), np.random.default_rng(case.seed))
    for player, name in ((first, "another instance"), (original, "its clone")):
        rival = case.start(seed=case.seed + 1) if player is first else second
        mine = []
        for losses in block:
            mine.append(player.act())
            rival.act()
            rival.observe(1.0 - losses)
            player.observe(losses)
        same(mine, reference, f"choices change when {name} plays at the same time")


@RULES.add()
def batch_of_one(case: LearnerCase) -> None:
    """A batch of one game equals the single game, bit for bit."""
    block = case.losses()
    reference = loop(case.start(), block)
    same(loop(case.start(1), block)[:, 0], reference, "act() in a batch of one, losses (N,)")
    same(loop(case.start(1), block[:, None])[:, 0], reference, "act() in a batch of one, losses (1, N)")
    same(case.start(1).run(block)[:, 0], reference, "run() in a batch of one, losses (R, N)")
    same(case.start(1).run(block[:, None])[:, 0], reference, "run() in a batch of one, losses (R, 1, N)")


@RULES.add()
def shared_losses(case: LearnerCase) -> None:
    """Losses shared as (N,) and the same losses given to every game as (G, N) lead to the same choices."""
    block = case.losses()
    each = np.repeat(block[:, None], case.batch, axis=1)
    same(
        loop(case.start(case.batch), each), loop(case.start(case.batch), block), "losses (G, N) and (N,) that are equal"
    )


@RULES.add()
def run(case: LearnerCase) -> None:
    """Blocks of rounds, however they are cut, lead to the choices of the loop and leave the same state."""
    for games, rows in _histories(case):
        reference = loop(case.start(games), rows)
        for cut in ((case.horizon,), (1,) * case.horizon, (1, 3), (case.horizon - 1,)):
            learner = case.start(games)
            played: list[Any] = []
            for block in _blocks(rows, cut):
                played.extend(learner.run(block))
                demand(learner.round == len(played), f"round is {learner.round} after {len(played)} rounds of run()")
            played.extend(loop(learner, rows[len(played) :]))
            where = f"{'one game' if games is None else f'{games} games'}, blocks {cut}, then act()"
            same(np.array(played), reference, f"run() differs from the loop ({where})")


def _histories(case: LearnerCase) -> Iterator[tuple[int | None, list[FloatArray]]]:
    """Rows of losses in each form in which they may arrive, and the number of games that play them."""
    games, half = case.batch, case.horizon // 2
    shared, own = list(case.losses()), list(case.losses(games))
    yield None, shared
    yield games, shared
    yield games, own
    yield games, shared[:half] + own[half:]
    yield games, own[:half] + shared[half:]


def _blocks(rows: Sequence[FloatArray], cut: Sequence[int]) -> Iterator[FloatArray]:
    """Cut rows into blocks of these lengths, and further where their shape changes."""
    first = 0
    for length in cut:
        block: list[FloatArray] = []
        for row in rows[first : first + length]:
            if block and row.shape != block[-1].shape:
                yield np.stack(block)
                block = []
            block.append(row)
        yield np.stack(block)
        first += length


@RULES.add()
def causality(case: LearnerCase) -> None:
    """Changing the losses of a round and of all later ones leaves the choices up to that round as they were."""
    batch = case.batch
    for games, losses in ((None, case.losses()), (batch, case.losses()), (batch, case.losses(batch))):
        reference = case.start(games).run(losses)
        for number in range(case.horizon):
            changed = losses.copy()
            changed[number:] = 1.0 - np.roll(losses[number:], 1, axis=-1)
            ways = {"run()": case.start(games).run(changed)}
            if number in (0, case.horizon // 2):
                ways["act()"] = loop(case.start(games), changed)
            for way, played in ways.items():
                same(
                    played[: number + 1],
                    reference[: number + 1],
                    f"{way}: a choice changes with losses from round {number + 1} on, not yet revealed",
                )


@RULES.add()
def inputs(case: LearnerCase) -> None:
    """Losses handed in are neither changed nor kept, and choices handed out are no part of the state."""
    batch = case.batch
    for games, losses in ((None, case.losses()), (batch, case.losses()), (batch, case.losses(batch))):
        reference = loop(case.start(games), losses)
        learner, played = case.start(games), []
        for row in losses:
            choice = learner.act()
            played.append(np.array(choice))
            if games is not None:
                choice[...] = (choice + 1) % case.num_experts
            handed = row.copy()
            learner.observe(handed)
            same(handed, row, "observe() changes the losses handed in")
            handed[...] = 1.0 - handed
        same(played, reference, "choices depend on arrays that were changed after they were handed in or out")
        learner, half = case.start(games), case.horizon // 2
        block = losses[:half].copy()
        first = learner.run(block)
        same(block, losses[:half], "run() changes the losses handed in")
        block[...] = 1.0 - block
        second = learner.run(losses[half:].copy())
        same(np.concatenate([first, second]), reference, "run() keeps the block handed in, and its later changes")


@RULES.add()
def global_generators(case: LearnerCase) -> None:
    """Python's and numpy's global random generators are neither drawn from nor seeded."""
    played = []
    for seed in (1, 2):
        with global_randomness(seed):
            learner = case.start(case.batch)
            played.append(np.concatenate([loop(learner, case.losses()[:5]), learner.run(case.losses()[5:])]))
    same(played[0], played[1], "choices depend on the global random generators")


@RULES.add()
def small_games(case: LearnerCase) -> None:
    """One expert, one round, and one of both work."""
    for experts, horizon in ((1, 1), (1, 5), (2, 1), (case.num_experts, 1), (2, 2)):
        for games in (None, 2):
            block = case.losses(rounds=horizon, num_experts=experts)
            played = loop(case.start(games, num_experts=experts, horizon=horizon), block)
            fast = case.start(games, num_experts=experts, horizon=horizon).run(block)
            same(fast, played, f"run() differs from the loop with {experts} experts and {horizon} rounds")
            demand(np.all((played >= 0) & (played < experts)), f"with {experts} experts: choices {played.tolist()}")


@RULES.add()
def extremes(case: LearnerCase) -> None:
    """A thousand rounds of losses 1 for all experts, or for all but one, keep the choices in range; 0 for all too."""
    horizon, experts = 1000, case.num_experts
    good = np.tile(np.where(np.arange(experts) == 1, 0.0, 1.0), (horizon, 1))
    for name, games, block in (
        ("all 0", None, np.zeros((horizon // 10, experts))),
        ("all 1", None, np.ones((horizon, experts))),
        ("0 for one expert and 1 for the others", None, good),
        ("0 for one expert in one game, 1 for it in the other", 2, np.stack([good, 1.0 - good], axis=1)),
    ):
        played = case.start(games, horizon=horizon).run(block)
        demand(np.all((played >= 0) & (played < experts)), f"choices out of range after losses {name}")


@RULES.add()
def protocol(case: LearnerCase) -> None:
    """Calls out of order or past the horizon are refused and change nothing."""
    block = case.losses()
    for games in (None, 3):
        learner = case.build() if games is None else looped(case.build())
        expect(ArgumentError, "reset() without a GameSpec", learner.reset, "a game", np.random.default_rng(0))
        expect(ArgumentError, "reset() without a Generator", learner.reset, case.spec(games), 7)
        expect(ProtocolError, "act() before reset()", learner.act)
        expect(ProtocolError, "observe() before reset()", learner.observe, block[0])
        expect(ProtocolError, "run() before reset()", learner.run, block)
        learner.reset(case.spec(games), np.random.default_rng(case.seed))
        expect(ProtocolError, "observe() before act()", learner.observe, block[0])
        expect(ProtocolError, "run() past the horizon", learner.run, np.concatenate([block, block]))
        played = []
        for losses in block:
            played.append(learner.act())
            expect(ProtocolError, "act() twice in a round", learner.act)
            expect(ProtocolError, "run() in the middle of a round", learner.run, block[:1])
            learner.observe(losses)
            expect(ProtocolError, "observe() twice in a round", learner.observe, block[0])
        expect(ProtocolError, "act() past the horizon", learner.act)
        expect(ProtocolError, "run() past the horizon", learner.run, block[:1])
        same(played, loop(case.start(games), block), "refused calls change the choices")


@RULES.add()
def bad_losses(case: LearnerCase) -> None:
    """Losses of the wrong shape, NaN or outside [0, 1] are refused, with round and expert, and change nothing."""
    size = case.num_experts
    for games in (None, 3):
        block = case.losses() if games is None else case.losses(games)
        wrong: dict[str, Any] = {}
        for value in (math.nan, 1e10, -0.1):
            wrong[f"a loss of {value} for expert 1"] = np.full(block.shape[1:], 0.5)
            wrong[f"a loss of {value} for expert 1"][..., 1] = value
        shapeless: dict[str, Any] = {
            "losses for N + 1 experts": np.zeros(size + 1),
            "losses for 5 games": np.zeros((5, size)),
            "one number": 0.5,
            "text": ["a"] * size,
            "None": None,
        }
        learner, played = case.start(games), []
        for number, losses in enumerate(block, 1):
            if number < case.horizon:
                for what, row in wrong.items():
                    error = expect(LossError, f"a block with {what}", learner.run, np.stack([losses, row]))
                    _demand_named(error, f"round {number + 1}", "expert 1")
            played.append(learner.act())
            for what, row in (wrong | shapeless).items():
                error = expect(LossError, what, learner.observe, row)
                _demand_named(error, f"round {number}", *(["expert 1"] if what in wrong else []))
            learner.observe(losses)
        same(played, loop(case.start(games), block), "refused losses change the choices")


def _demand_named(error: Exception, *words: str) -> None:
    for word in words:
        demand(word in str(error), f"the error does not name {word}: {error}")


@RULES.add()
def games(case: LearnerCase) -> None:
    """Games of a batch are independent: their losses do not reach, and their draws do not follow, each other."""
    batch = case.batch
    half = batch // 2
    for own in (case.losses(batch), np.repeat(case.losses()[:, None], batch, axis=1)):
        changed = own.copy()
        changed[:, :half] = 1.0 - np.roll(own[:, :half], 1, axis=-1)
        here, there = loop(case.start(batch), own), loop(case.start(batch), changed)
        same(here[:, half:], there[:, half:], "choices of a game change with the losses of other games")
        fast = case.start(batch).run(changed)
        same(fast[:, half:], here[:, half:], "run(): choices of a game change with the losses of other games")
    if case.build().deterministic:
        return
    count = case.games(4000, 400)
    played = loop(case.start(count), case.losses())
    demand(
        np.any(played != played[:, :1]),
        f"{count} games made the same choices: draw one number a game, or declare deterministic = True",
    )
    # Games 4k and 4k+1 agree as often as games 4k and 4k+2 do, if all are independent and alike; Hoeffding's bound.
    groups = played[:, : count // 4 * 4].reshape(len(played), -1, 4)
    lags = [(groups[:, :, 0] == groups[:, :, lag]).mean(1) for lag in (1, 2, 3)]
    margin = 2.0 * math.sqrt(math.log(4.0 * 3 * len(played) / FALSE_ALARM) / (2.0 * groups.shape[1]))
    worst = max(float(np.abs(lags[i] - lags[j]).max()) for i, j in ((0, 1), (0, 2), (1, 2)))
    demand(worst <= margin, f"some games of a batch agree more often than others, by {worst:.3f}: they share draws")


@RULES.add()
def notes(case: LearnerCase) -> None:
    """What note() records has the same names in the same order each round, one value a game, and changes nothing."""
    for games in (None, 3):
        learner = case.start(games)
        block, played = case.losses(), []
        first: list[tuple[str, tuple[int, ...]]] = []
        for number, losses in enumerate(block, 1):
            learner._notes = {}
            played.append(learner.act())
            learner.observe(losses)
            for name, values in learner._notes.items():
                demand(len(values) == 1, f"note {name!r} was made {len(values)} times in round {number}")
                demand(
                    values[0].shape == learner.spec.shape,
                    f"note {name!r} of round {number} has shape {values[0].shape}, not {learner.spec.shape}",
                )
            names = [(name, values[0].shape) for name, values in learner._notes.items()]
            first = first or names
            demand(number == 1 or names == first, f"notes {names} in round {number}, {first} in round 1")
        same(played, loop(case.start(games), block), "recording notes changes the choices")
