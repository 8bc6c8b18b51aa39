"""The conformance suite of adversaries: every rule of the contract as a named check."""

from __future__ import annotations

import copy
import functools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from dp_experts_env.adversary import Adversary, AdversaryVectorEnv, seated
from dp_experts_env.registry import adversary_class, constructor_keywords, env_id
from dp_experts_env.spec import (
    ADVERSARY_MODELS,
    ArgumentError,
    ChoiceError,
    FloatArray,
    IntArray,
    ProtocolError,
    check_count,
)
from dp_experts_env.testing.suite import FALSE_ALARM, Suite, demand, expect, global_randomness, same

Target = str | type[Adversary] | Adversary

HEADINGS = (
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Information",
    "Arguments",
    "Version History",
)
"""What Gymnasium's documentation pages are made of."""


RESERVED = frozenset(
    {
        "adversary",
        "autoreset_mode",
        "disable_env_checker",
        "id",
        "max_episode_steps",
        "name",
        "num_envs",
        "vector_kwargs",
        "vectorization_mode",
        "wrappers",
    }
)
"""Keywords that an adversary cannot have of its own."""


@dataclass(frozen=True)
class AdversaryCase:
    """An adversary under test: the ways to build it, and how much of a game most checks play."""

    builds: tuple[Callable[[], Adversary], ...]
    rounds: int
    seed: int
    name: str | None
    headings: bool

    def instances(self) -> Iterator[Adversary]:
        """Build every instance: the class's own arguments, and its examples."""
        for build in self.builds:
            yield build()

    def begun(self, num_games: int | None = None) -> Iterator[tuple[Adversary, Adversary]]:
        """Build every instance twice, seated for this many games, and begin the same game."""
        for build in self.builds:
            yield self.begin(build, num_games), self.begin(build, num_games)

    def begin(self, build: Callable[[], Adversary], num_games: int | None = None, shift: int = 0) -> Adversary:
        """Build an adversary and begin a game."""
        adversary = seated(build(), num_games)
        adversary.reset(seed=self.seed + shift)
        return adversary

    def length(self, adversary: Adversary) -> int:
        """Return how many rounds to play of its games."""
        return min(self.rounds, adversary.horizon)

    def choices(self, adversary: Adversary, variant: int = 0) -> IntArray:
        """Return choices ``(R,)`` or ``(R, G)``; the same at each call with one ``variant``."""
        rng = np.random.default_rng([self.seed, variant])
        return rng.integers(adversary.num_experts, size=(self.length(adversary), *adversary.game.shape))


def check_adversary(
    adversary: Target, *, headings: bool = False, rounds: int = 24, seed: int = 0, skip: Iterable[str] = ()
) -> tuple[str, ...]:
    """Check that an adversary keeps the rules of the game, and Gymnasium's.

    Args:
        adversary: registered name, class that builds without arguments, or instance (copies of it are tested). Of a
            name or class the instances in ``examples`` are tested too.
        headings: whether the class's docstring must carry Gymnasium's headings.
        rounds: rounds that most checks play, an integer >= 2.
        seed: seed of all randomness in the checks.
        skip: names of checks to leave out.

    Returns:
        The names of the checks that were made.

    Raises:
        ConformanceError: at the first rule broken.
        ArgumentError: if an argument lies outside its range.
    """
    made = []
    for name, check in adversary_checks(adversary, headings=headings, rounds=rounds, seed=seed, skip=skip):
        check()
        made.append(name)
    return tuple(made)


def adversary_checks(
    adversary: Target, *, headings: bool = False, rounds: int = 24, seed: int = 0, skip: Iterable[str] = ()
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name and the callable of each check that applies to an adversary; see :func:`check_adversary`.

    ``seeds`` and ``identical_rounds`` apply only to classes that declare ``stochastic = True``; the others to all.
    """
    check_count("rounds", rounds, least=2)
    name = adversary if isinstance(adversary, str) else None
    case = AdversaryCase(_builders(adversary), rounds, seed, name, headings)
    subject = name or (adversary.__name__ if isinstance(adversary, type) else repr(adversary))
    return ADVERSARY_SUITE.checks(case, subject, skip)


def _builders(adversary: Any) -> tuple[Callable[[], Adversary], ...]:
    if isinstance(adversary, Adversary):
        return (adversary.clone,)
    cls = adversary_class(adversary) if isinstance(adversary, str) else adversary
    if not (isinstance(cls, type) and issubclass(cls, Adversary)):
        raise ArgumentError(f"adversary: expected a name, an Adversary or a class of it but found {adversary!r}")
    return (cls, *(functools.partial(cls, **keywords) for keywords in cls.examples))


def emit_loop(adversary: Adversary, choices: Iterable[Any]) -> list[FloatArray]:
    """Play rounds one by one and return the losses."""
    played = []
    for choice in choices:
        played.append(adversary.emit())
        adversary.see(choice if adversary.game.shape else int(choice))
    return played


def step_loop(adversary: Adversary, choices: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Play rounds in the learner's chair and return what was seen: observation, reward, ends and information."""
    return [adversary.step(int(choice)) for choice in choices]


def _stochastic(case: AdversaryCase) -> bool:
    return all(adversary.stochastic for adversary in case.instances())


ADVERSARY_SUITE: Suite[AdversaryCase] = Suite()


@ADVERSARY_SUITE.add()
def builds(case: AdversaryCase) -> None:
    """It builds, prints its parameters, keeps them under their names, clones, and refuses unknown keywords."""
    for adversary in case.instances():
        text, parameters = repr(adversary), adversary.parameters
        demand(text.startswith(type(adversary).__name__ + "("), f"repr does not begin with the class name: {text}")
        for name in parameters:
            demand(f"{name}=" in text, f"repr leaves out the parameter {name!r}: {text}")
            demand(
                hasattr(adversary, name) or hasattr(adversary.game, name),
                f"the constructor keyword {name!r} is not stored as self.{name}",
            )
        twin = adversary.clone()
        demand(twin is not adversary and type(twin) is type(adversary), "clone() builds no other of the same class")
        demand(repr(twin) == text, f"clone() changes the parameters of {text}: {twin!r}")
        for games in (None, 1, 3):
            seat = seated(adversary, games)
            demand(seat.game.num_games == games, f"clone(num_games={games}) plays {seat.game.num_games} games")
            demand(
                (seat.num_experts, seat.horizon) == (adversary.num_experts, adversary.horizon),
                f"clone(num_games={games}) changes the size of the game to {seat.game}",
            )
        keywords = set(constructor_keywords(type(adversary)))
        for name in ("num_games", "render_mode"):
            demand(name in keywords, f"the constructor does not take {name}: pass **game on to Adversary.__init__")
        taken = sorted(keywords & RESERVED)
        demand(not taken, f"the constructor keywords {taken} would be read by gymnasium.make or make_adversary instead")
        expect(TypeError, "an unknown constructor keyword", type(adversary), no_such_keyword=0)


@ADVERSARY_SUITE.add()
def pickles(case: AdversaryCase) -> None:
    """It pickles and deep-copies before and within a game, and both copies play on alike."""
    copies: tuple[Callable[[Any], Any], ...] = (lambda player: pickle.loads(pickle.dumps(player)), copy.deepcopy)
    for copied in copies:
        for adversary, reference in case.begun():
            fresh = copied(adversary.clone())
            demand(repr(fresh) == repr(adversary), f"a copy has other parameters: {fresh!r}")
            choices = case.choices(adversary)
            half = len(choices) // 2
            expected = emit_loop(reference, choices)
            fresh.reset(seed=case.seed)
            same(emit_loop(fresh, choices), expected, f"a copy of {adversary!r} plays otherwise")
            emit_loop(adversary, choices[:half])
            twin = copied(adversary)
            same(
                emit_loop(twin, choices[half:]), expected[half:], f"{adversary!r} copied within a game plays otherwise"
            )
            same(emit_loop(adversary, choices[half:]), expected[half:], f"making a copy changes {adversary!r}")


@ADVERSARY_SUITE.add()
def docstring(case: AdversaryCase) -> None:
    """The class has a docstring of its own, with Gymnasium's headings where they are asked for."""
    adversary = next(case.instances())
    text = (type(adversary).__dict__.get("__doc__") or "").strip()
    demand(text, "the class has no docstring of its own")
    titles = [line.strip() for line in text.splitlines() if line.strip().startswith("## ")]
    missing = [heading for heading in HEADINGS if not any(heading in title for title in titles)]
    demand(not (case.headings and missing), f"the docstring lacks the headings {missing}")


@ADVERSARY_SUITE.add()
def gymnasium(case: AdversaryCase) -> None:
    """Gymnasium's own checker passes, without a warning."""
    for build in case.builds:
        env: Any = build()
        # Without a spec the checker would skip determinism and rendering.
        env.spec = EnvSpec("dp_experts/Conformance-v0", entry_point=lambda env=env, **changes: env.clone(**changes))
        _check_env(env, case.seed)
    if case.name is not None:
        made = gym.make(env_id(case.name))
        demand(made.spec is not None and made.spec.to_json(), "its spec has no JSON form")
        _check_env(made.unwrapped, case.seed)
        vector = gym.make_vec(env_id(case.name), num_envs=2)
        demand(isinstance(vector.unwrapped, AdversaryVectorEnv), f"gymnasium.make_vec makes {vector.unwrapped!r}")
        observations, _ = vector.reset(seed=case.seed)
        demand(observations in vector.observation_space, f"the vector environment shows {observations!r}")


def _check_env(env: Any, seed: int) -> None:
    env.action_space.seed(seed)
    check_env(env)


@ADVERSARY_SUITE.add()
def losses(case: AdversaryCase) -> None:
    """Losses are float64 in [0, 1] of shape (N,), in a batch (G, N), or (N,) from an oblivious adversary."""
    for games in (None, 1, 3):
        for adversary, _ in case.begun(games):
            shapes: list[tuple[int, ...]] = [(adversary.num_experts,)]
            if games is not None:
                shapes = [(games, adversary.num_experts), *(shapes if adversary.oblivious else [])]
            for number, row in enumerate(emit_loop(adversary, case.choices(adversary)), 1):
                demand(row.dtype == np.float64, f"{adversary!r} emits {row.dtype}")
                demand(row.shape in shapes, f"{adversary!r} emits shape {row.shape}, not one of {shapes}")
                demand(np.all((row >= 0.0) & (row <= 1.0)), f"{adversary!r} emits {row.tolist()} in round {number}")
                demand(adversary.round >= number, f"round is {adversary.round} after {number} rounds")


@ADVERSARY_SUITE.add()
def same_seed(case: AdversaryCase) -> None:
    """A game is a function of the seed and the choices, whatever was played before."""
    for games in (None, 3):
        for adversary, other in case.begun(games):
            choices = case.choices(adversary)
            expected = emit_loop(other, choices)
            same(emit_loop(adversary, choices), expected, f"two games of {adversary!r} with one seed differ")
            adversary.reset(seed=case.seed + 1)
            emit_loop(adversary, case.choices(adversary, 1)[: len(choices) // 2])
            adversary.reset(seed=case.seed)
            same(emit_loop(adversary, choices), expected, f"{adversary!r} does not forget the last game at reset()")


@ADVERSARY_SUITE.add()
def seeded_then_unseeded(case: AdversaryCase) -> None:
    """The games after a seeded one are functions of that seed too."""
    for pair in case.begun():
        games = []
        for adversary in pair:
            adversary.reset(seed=123)
            adversary.emit()
            first, _ = adversary.reset()
            games.append([first[:-1], *emit_loop(adversary, case.choices(adversary))])
        same(games[0], games[1], f"{pair[0]!r}: reset(seed=123) and then reset() leads to different games")


@ADVERSARY_SUITE.add(_stochastic)
def seeds(case: AdversaryCase) -> None:
    """Another seed, and the next game without one, give other losses, unless the losses are constant."""
    for build in case.builds:
        games = []
        for shift in range(3):
            adversary = case.begin(build, shift=shift)
            games.append(np.array(emit_loop(adversary, case.choices(adversary))))
            adversary.reset()
            games.append(np.array(emit_loop(adversary, case.choices(adversary))))
        if any(np.ptp(game, axis=0).any() for game in games):
            demand(
                all(any(not np.array_equal(games[i], games[j]) for j in range(6) if j != i) for i in range(6))
                and any(not np.array_equal(games[0], games[i]) for i in (2, 4))
                and any(not np.array_equal(games[i], games[i + 1]) for i in (0, 2, 4)),
                f"{adversary!r} plays the same game with other seeds: draw from self.np_random",
            )


@ADVERSARY_SUITE.add()
def instances(case: AdversaryCase) -> None:
    """Two instances do not influence each other: no state is kept on the class or in a shared argument."""
    for adversary, reference in case.begun():
        rival = adversary.clone()
        rival.reset(seed=case.seed + 1)
        mine, others, emitted = case.choices(adversary), case.choices(adversary, 1), []
        for choice, other in zip(mine, others, strict=True):
            emitted.append(adversary.emit())
            rival.emit()
            rival.see(int(other))
            adversary.see(int(choice))
        same(emitted, emit_loop(reference, mine), f"losses of {adversary!r} change when its clone plays too")


@ADVERSARY_SUITE.add()
def oblivious(case: AdversaryCase) -> None:
    """If it counts as oblivious, its losses are the same whatever the learner names."""
    for games in (None, 3):
        for adversary, other in case.begun(games):
            if not adversary.oblivious:
                continue
            size = adversary.num_experts
            fixed, varied = np.zeros_like(case.choices(adversary)), case.choices(adversary)
            expected = emit_loop(adversary, fixed)
            message = f"{adversary!r} counts as oblivious, but its losses depend on the choices: override see()"
            same(emit_loop(other, (varied + 1) % size), expected, message)
            if games is None:
                adversary.reset(seed=case.seed)
                stepped = [info["losses"] for *_, info in step_loop(adversary, (varied + 2) % size)]
                same(stepped, expected, message)


@ADVERSARY_SUITE.add()
def kind(case: AdversaryCase) -> None:
    """Its kind is one of the adversary models, agrees with ``oblivious``, and stays the same in a batch and a game."""
    for adversary in case.instances():
        demand(adversary.kind in ADVERSARY_MODELS, f"kind is {adversary.kind!r}, not one of {ADVERSARY_MODELS}")
        demand(
            isinstance(adversary.oblivious, bool) and adversary.oblivious == (adversary.kind != "adaptive"),
            f"{adversary!r}: kind is {adversary.kind!r} but oblivious is {adversary.oblivious!r}",
        )
        batch = seated(adversary, 3)
        before = adversary.kind
        adversary.reset(seed=case.seed)
        emit_loop(adversary, case.choices(adversary))
        demand(batch.kind == before == adversary.kind, f"{adversary!r}: kind changes in a batch or within a game")


@ADVERSARY_SUITE.add(_stochastic)
def identical_rounds(case: AdversaryCase) -> None:
    """As ``stochastic`` declares, the rounds are not told apart by their means, nor by how neighbours agree.

    Given the game's parameters, l_t - l_(t + R/2) and l_t l_(t+1) - l_t l_(t+2) have mean 0 and lie in [-1, 1]; those
    on disjoint rounds are independent. Hoeffding's bound.
    """
    for build in case.builds:
        adversary = case.begin(build, 64)
        rounds = min(adversary.horizon, 200)
        if rounds < 3:
            continue
        games = np.stack([np.broadcast_to(row, (64, adversary.num_experts)) for row in _rounds(adversary, rounds)])
        sequences = games[:, :1] if all(np.array_equal(game, games[:, 0]) for game in games.swapaxes(0, 1)) else games
        half, thirds = rounds // 2, sequences[: rounds // 3 * 3].reshape(-1, 3, *sequences.shape[1:])
        differences = {
            "the first half of the rounds costs another mean than the second": sequences[:half]
            - sequences[half : 2 * half],
            "losses of neighbouring rounds depend on each other": thirds[:, 0] * (thirds[:, 1] - thirds[:, 2]),
        }
        for what, values in differences.items():
            means = values.mean((0, 1))
            size = values.shape[0] * values.shape[1]
            margin = math.sqrt(2.0 * math.log(4.0 * adversary.num_experts / FALSE_ALARM) / size)
            demand(np.abs(means).max() <= margin, f"{adversary!r} declares stochastic = True, but {what}")


def _rounds(adversary: Adversary, rounds: int) -> Sequence[FloatArray]:
    return emit_loop(adversary, np.zeros((rounds, *adversary.game.shape), dtype=np.int64))


@ADVERSARY_SUITE.add()
def emit_block(case: AdversaryCase) -> None:
    """Blocks of rounds, however they are cut, are the losses of the loop; an adaptive adversary refuses them."""
    for games in (None, 1, 3):
        for build in case.builds:
            reference = case.begin(build, games)
            if not reference.oblivious:
                expect(ProtocolError, f"emit_block() of {reference!r}", reference.emit_block, 1)
                continue
            length = case.length(reference)
            expected = np.stack(_rounds(reference, length))
            cuts: tuple[tuple[int, ...], ...] = ((length,), (1,) * length, (length // 3, 1), (length - 1,))
            for cut in cuts:
                adversary, emitted = case.begin(build, games), [expected[:0]]
                for rounds in filter(None, cut):
                    if adversary.round + rounds <= length:
                        emitted.append(adversary.emit_block(rounds))
                done = sum(map(len, emitted))
                demand(adversary.round == done, f"round is {adversary.round} after blocks of {done} rounds")
                emitted.append(np.reshape(_rounds(adversary, length - done), (length - done, *expected.shape[1:])))
                same(np.concatenate(emitted), expected, f"{adversary!r} in blocks {cut} differs from the loop")


@ADVERSARY_SUITE.add()
def batch_of_one(case: AdversaryCase) -> None:
    """A batch of one game equals the single game, bit for bit."""
    for build in case.builds:
        single, batch = case.begin(build), case.begin(build, 1)
        choices = case.choices(single)
        expected = emit_loop(single, choices)
        emitted = [row.reshape(-1) for row in emit_loop(batch, choices[:, None])]
        same(emitted, expected, f"{single!r} in a batch of one")


@ADVERSARY_SUITE.add()
def games(case: AdversaryCase) -> None:
    """Games of a batch are independent: choices in one do not reach the others, and random losses are their own."""
    for adversary, other in case.begun(3):
        here = case.choices(adversary)
        there = here.copy()
        there[:, 0] = (here[:, 0] + 1 + np.arange(len(here))) % adversary.num_experts
        left, right = np.array(emit_loop(adversary, here)), np.array(emit_loop(other, there))
        if left.ndim < 3:
            continue
        same(left[:, 1:], right[:, 1:], f"losses of other games change with the choices in game 0 of {adversary!r}")
        if adversary.stochastic and np.ptp(left, axis=0).any():
            demand(
                np.any(left != left[:, :1]),
                f"{adversary!r} emits the same random losses for all games: emit (N,) if they share them",
            )


@ADVERSARY_SUITE.add()
def fresh_arrays(case: AdversaryCase) -> None:
    """Arrays handed out are no part of the state: changing them changes nothing, and they do not change later."""
    for games in (None, 3):
        for build in case.builds:
            reference, adversary = case.begin(build, games), case.begin(build, games)
            choices = case.choices(adversary)
            expected = emit_loop(reference, choices)
            emitted: list[FloatArray] = []
            for number, choice in enumerate(choices):
                block = adversary.oblivious and number % 2 == 1
                row = adversary.emit_block(1)[0] if block else adversary.emit()
                same(row, expected[number], f"{adversary!r}: changing losses that were handed out changes later ones")
                emitted.append(row)
                named = np.array(choice)
                adversary.see(named if games is not None else int(choice))
                named[...] = 0
                if row.flags.writeable and number % 3:
                    emitted[-1] = row.copy()
                    row[...] = 1.0 - row
            same(emitted, expected, f"{adversary!r}: losses that were handed out change later")
            adversary = case.begin(build)
            kept = [
                (seen, copy.deepcopy(seen)) for seen in (adversary.step(0)[::4] for _ in range(case.length(adversary)))
            ]
            for (observation, info), (was, had) in kept:
                same(observation, was, f"{adversary!r}: an observation that was handed out changes later")
                same(info["losses"], had["losses"], f"{adversary!r}: information that was handed out changes later")


@ADVERSARY_SUITE.add()
def simultaneity(case: AdversaryCase) -> None:
    """The losses of a round, and all before it, are the same whatever is named in that round."""
    for build in case.builds:
        adversary = case.begin(build)
        choices = case.choices(adversary)
        expected = [info["losses"] for *_, info in step_loop(adversary, choices)]
        for number in range(min(len(choices), 8)):
            changed = choices.copy()
            changed[number:] = (choices[number:] + 1) % adversary.num_experts
            adversary.reset(seed=case.seed)
            seen = [info["losses"] for *_, info in step_loop(adversary, changed[: number + 1])]
            same(seen, expected[: number + 1], f"{adversary!r}: losses of round {number + 1} follow the choice in it")


@ADVERSARY_SUITE.add()
def horizon(case: AdversaryCase) -> None:
    """The horizon ends the game with ``terminated``, after it every call is refused, and a reset begins anew."""
    for adversary in case.instances():
        adversary.reset(seed=case.seed)
        for number in range(1, adversary.horizon + 1):
            *_, terminated, truncated, _ = adversary.step(number % adversary.num_experts)
            demand(
                terminated is (number == adversary.horizon) and truncated is False,
                f"{adversary!r}: round {number} gives terminated={terminated!r}, truncated={truncated!r}",
            )
        expect(ProtocolError, "step() past the horizon", adversary.step, 0)
        expect(ProtocolError, "emit() past the horizon", adversary.emit)
        adversary.reset(seed=case.seed)
        demand(adversary.round == 0, f"round is {adversary.round} after reset()")
        adversary.step(0)


@ADVERSARY_SUITE.add()
def step(case: AdversaryCase) -> None:
    """Observation, reward and information are those of the rules, recounted here."""
    for adversary in case.instances():
        twin = adversary.clone(render_mode="ansi")
        twin.reset(seed=case.seed)
        observation, info = adversary.reset(seed=case.seed)
        demand(not observation.any() and info["round"] == 0, f"{adversary!r} begins with {observation}, {info}")
        keys, totals, lost = list(info), np.zeros(adversary.num_experts), 0.0
        demand(keys == ["losses", "regret", "best_loss", "learner_loss", "round"], f"information has the keys {keys}")
        for number, choice in enumerate(case.choices(adversary), 1):
            observation, reward, _, _, info = adversary.step(int(choice))
            demand(isinstance(twin.render(), str), f"render() in mode 'ansi' returned {twin.render()!r}")
            same(twin.step(np.int64(choice))[0], observation, f"{adversary!r} plays otherwise when rendered")
            demand(list(info) == keys, f"information has the keys {list(info)} in round {number}, {keys} at first")
            losses = info["losses"]
            demand(type(reward) is float and reward == -losses[choice], f"reward {reward!r} for {losses}, {choice}")
            expected = np.append(losses, number / adversary.horizon).astype(np.float32)
            same(observation, expected, f"the observation of round {number} is not the losses and t/T")
            totals, lost = totals + losses, lost + float(losses[choice])
            counted = {"regret": lost - totals.min(), "best_loss": totals.min(), "learner_loss": lost, "round": number}
            for key, value in counted.items():
                demand(
                    abs(info[key] - value) <= 1e-9, f"information: {key} is {info[key]} in round {number}, not {value}"
                )


@ADVERSARY_SUITE.add()
def vector_env(case: AdversaryCase) -> None:
    """The vector environment equals the single one: with one game, and with a list of seeds, game by game."""
    for adversary in case.instances():
        seed_forms: tuple[Any, ...] = (case.seed, [case.seed + 7, case.seed, case.seed + 8])
        for seeds in seed_forms:
            singles = [adversary.clone() for _ in np.atleast_1d(seeds)]
            vector = AdversaryVectorEnv(adversary, len(singles))
            observations, infos = vector.reset(seed=seeds)
            results = [single.reset(seed=int(seed)) for single, seed in zip(singles, np.atleast_1d(seeds), strict=True)]
            _same_row(observations, infos, results, adversary)
            choices = case.choices(adversary)
            for choice in choices:
                named = (int(choice) + np.arange(len(singles))) % adversary.num_experts
                observations, rewards, terminated, truncated, infos = vector.step(named)
                steps = [single.step(int(one)) for single, one in zip(singles, named, strict=True)]
                _same_row(observations, infos, [(one[0], one[4]) for one in steps], adversary)
                ends = np.stack([rewards, terminated, truncated], axis=-1)
                same(ends, [one[1:4] for one in steps], f"{adversary!r}: rewards or ends of the vector environment")
            if len(choices) == adversary.horizon:
                observations, _, _, _, infos = vector.step(named)
                _same_row(observations, infos, [single.reset() for single in singles], adversary)


def _same_row(
    observations: Any, infos: dict[str, Any], results: Sequence[tuple[Any, Any]], adversary: Adversary
) -> None:
    same(observations, [row for row, _ in results], f"{adversary!r}: observations of the vector environment")
    for key in results[0][1]:
        expected = [info[key] for _, info in results]
        same(infos[key], expected, f"{adversary!r}: information {key!r} of the vector environment")


@ADVERSARY_SUITE.add()
def bad_actions(case: AdversaryCase) -> None:
    """What names no expert is refused, never read as an index from the end, and changes nothing."""
    for adversary, reference in case.begun():
        size, choices = adversary.num_experts, case.choices(adversary)
        expected = [info["losses"] for *_, info in step_loop(reference, choices)]
        seen = []
        for choice in choices:
            for bad in (size + 95, size, -1, 1.5, 0.0, True, None, "0", [0], np.zeros(size, dtype=np.int64)):
                expect(ChoiceError, f"action {bad!r} with {size} experts", adversary.step, bad)
            seen.append(adversary.step(int(choice))[4]["losses"])
        same(seen, expected, f"refused actions change {adversary!r}")


@ADVERSARY_SUITE.add()
def protocol(case: AdversaryCase) -> None:
    """Calls out of order are refused and change nothing."""
    for games in (None, 3):
        for build in case.builds:
            adversary = seated(build(), games)
            choices = case.choices(adversary)
            first: Any = choices[0] if games else int(choices[0])
            expect(ProtocolError, f"emit() of {adversary!r} before reset()", adversary.emit)
            expect(ProtocolError, f"see() of {adversary!r} before reset()", adversary.see, first)
            if games is None:
                expect(ProtocolError, f"step() of {adversary!r} before reset()", adversary.step, first)
            adversary.reset(seed=case.seed)
            emitted = []
            for choice in choices:
                named: Any = choice if games else int(choice)
                expect(ProtocolError, f"see() of {adversary!r} before emit()", adversary.see, named)
                emitted.append(adversary.emit())
                if not adversary.oblivious:
                    expect(ProtocolError, f"emit() of {adversary!r} before see()", adversary.emit)
                expect(
                    ChoiceError, f"see() of {adversary!r} of no expert", adversary.see, named + adversary.num_experts
                )
                adversary.see(named)
            same(emitted, emit_loop(case.begin(build, games), choices), f"refused calls change {adversary!r}")


@ADVERSARY_SUITE.add()
def small_games(case: AdversaryCase) -> None:
    """One expert and one round work, where the class takes such a game."""
    for adversary in case.instances():
        for experts, rounds in ((1, 1), (1, 3), (2, 1), (3, 5)):
            try:
                small = adversary.clone(num_experts=experts, horizon=rounds)
            except (ArgumentError, TypeError):
                # Its data or its other arguments fix the size.
                continue
            for games in (None, 2):
                seat = seated(small, games)
                seat.reset(seed=case.seed)
                emitted = emit_loop(seat, case.choices(seat))
                demand(len(emitted) == rounds and all(row.shape[-1] == experts for row in emitted), f"{small!r}")


@ADVERSARY_SUITE.add()
def global_generators(case: AdversaryCase) -> None:
    """Python's and numpy's global random generators are neither drawn from nor seeded."""
    played = []
    for seed in (1, 2):
        with global_randomness(seed):
            played.append([emit_loop(adversary, case.choices(adversary)) for adversary, _ in case.begun(3)])
    for first, second in zip(*played, strict=True):
        same(first, second, "losses depend on the global random generators")
