"""The one loop in which a learner and an adversary meet, and what is measured there."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm.auto import tqdm

from dp_experts_env.adversary import Adversary, Score, charged, seated
from dp_experts_env.learner import Learner, looped
from dp_experts_env.spec import (
    AdversaryModelError,
    ArgumentError,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    check_count,
    check_flag,
    check_name,
)

GAMES_PER_CHUNK = 1024
"""Games played in lockstep; each chunk has child seeds of its own, so the number of workers changes nothing."""

BLOCK_ELEMENTS = 2**17
"""Most numbers in a block of rounds; one megabyte of float64 stays in cache."""

BLOCK_ROUNDS = 4096
"""Most rounds in a block."""

CHECKPOINTS = 200
"""Most rounds at which the regret curve is kept."""


@dataclass(frozen=True, eq=False)
class Match:
    """What came of a match. Losses, regret and seed are non-private diagnostics.

    Regret is measured against the best fixed expert of the realised losses. Against an adaptive adversary this is
    not policy regret: another learner would have met other losses.

    Attributes:
        learner: the learner, printed with its parameters.
        adversary: the adversary, printed with its parameters.
        kind: the adversary model, "stochastic", "oblivious" or "adaptive".
        spec: the size of the game.
        seed: what replays the match: an integer, a sequence of them or a ``SeedSequence``.
        regret: shape ``(num_games,)``, learner's loss minus best fixed expert's; may be negative.
        best_loss: shape ``(num_games,)``, total loss L* of the best fixed expert.
        learner_loss: shape ``(num_games,)``.
        rounds: shape ``(C,)``, rounds of the checkpoints, the last one the horizon.
        regret_curve: shape ``(num_games, C)``, regret after each checkpoint.
        choices: shape ``(num_games, T)`` expert ids if ``record="choices"``, else ``None``.
        guarantee: the learner's privacy guarantee where it holds in this match, else ``None``.
        regret_bound: mean over the games of the learner's bound for this kind of adversary; NaN if none is proved.
        regret_floor: what the adversary proves the expected regret of every learner with this guarantee to be at least;
            NaN if nothing.
        seconds: wall-clock time played.
        leaky: whether the learner is a positive control, so that the guarantee it states is false.
    """

    learner: str
    adversary: str
    kind: str
    spec: GameSpec
    seed: Any
    regret: FloatArray = field(repr=False)
    best_loss: FloatArray = field(repr=False)
    learner_loss: FloatArray = field(repr=False)
    rounds: IntArray = field(repr=False)
    regret_curve: FloatArray = field(repr=False)
    choices: IntArray | None = field(repr=False)
    guarantee: Guarantee | None
    regret_bound: float
    regret_floor: float
    seconds: float = field(repr=False)
    leaky: bool = False

    @property
    def mean_regret(self) -> float:
        """Mean regret over the games."""
        return float(self.regret.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean regret; NaN for a single game."""
        games = len(self.regret)
        return float(self.regret.std(ddof=1) / math.sqrt(games)) if games > 1 else math.nan

    @property
    def privacy(self) -> str:
        """What may be said of the learner's privacy in this match, in words."""
        if self.leaky:
            return f"FALSE claim of {self.guarantee}: a positive control"
        if self.guarantee is None or math.isinf(self.guarantee.epsilon):
            return "none"
        return str(self.guarantee)

    def __str__(self) -> str:
        bound = "none" if math.isnan(self.regret_bound) else f"{self.regret_bound:.1f}"
        floor = "" if math.isnan(self.regret_floor) else f"floor {self.regret_floor:.1f}, "
        error = "" if math.isnan(self.standard_error) else f" +- {self.standard_error:.1f}"
        return (
            f"{self.learner} against {self.adversary}: regret {self.mean_regret:.1f}{error} in {len(self.regret)} "
            f"game(s) of {self.spec.horizon} rounds, best expert's loss {self.best_loss.mean():.1f}, "
            f"{floor}bound {bound}, privacy {self.privacy}"
        )


def play(
    learner: Learner,
    adversary: Adversary,
    num_games: int | None = 1,
    *,
    seed: Any = None,
    record: str | Iterable[str] = (),
    checkpoints: int = CHECKPOINTS,
    override: bool = False,
    progress: bool | None = None,
    workers: int = 1,
) -> Match:
    """Play a match of one or many independent games. Neither side is changed: copies of them play.

    Oblivious adversaries are played in blocks of rounds, adaptive ones round by round; memory is
    O(games x experts) unless choices are recorded. The learner and the adversary get independent children of one
    ``SeedSequence``, and each chunk of ``GAMES_PER_CHUNK`` games children of its own.

    Args:
        learner: the agent.
        adversary: the opponent, with the size of the game; its own ``num_games`` is ignored.
        num_games: number of games G >= 1, or ``None`` for one game played without a games axis.
        seed: integer >= 0, sequence of integers, ``SeedSequence``, or ``None`` for fresh entropy.
        record: ``"choices"`` to keep every choice, memory O(games x rounds).
        checkpoints: most rounds at which the regret curve is kept, an integer >= 1; evenly spread.
        override: play on where the learner's guarantee does not cover the adversary model; the match then
            advertises no guarantee.
        progress: ``True`` or ``False`` for a progress bar, ``None`` for one on work that takes over two seconds.
        workers: number of processes, an integer >= 1; the result does not depend on it.

    Returns:
        The match.

    Raises:
        AdversaryModelError: if the learner is proved private only against weaker adversaries than this one.
        ArgumentError: if an argument lies outside its range.
        LossError, ChoiceError, ProtocolError: if a side breaks the rules, with the round named.
    """
    if not isinstance(learner, Learner):
        raise ArgumentError(f"learner: expected a Learner but found {learner!r}; make_learner(name) builds one")
    if not isinstance(adversary, Adversary):
        raise ArgumentError(
            f"adversary: expected an Adversary but found {adversary!r}; make_adversary(name) builds one"
        )
    games = 1 if num_games is None else check_count("num_games", num_games)
    if not isinstance(record, Iterable):
        raise ArgumentError(f'record: expected "choices" or a sequence of such names but found {record!r}')
    recorded = {check_name("record", name, ("choices",)) for name in ([record] if isinstance(record, str) else record)}
    check_flag("override", override)
    if progress is not None:
        check_flag("progress", progress)
    check_count("checkpoints", checkpoints)
    check_count("workers", workers)
    spec = GameSpec(adversary.num_experts, adversary.horizon)
    kind = adversary.kind
    guarantee = _advertised(learner, spec, kind, override)
    rounds = np.unique(np.linspace(1, spec.horizon, min(checkpoints, spec.horizon)).round().astype(np.int64))
    if len(rounds) and rounds[-1] != spec.horizon:
        rounds = np.array([spec.horizon])

    root = _seed_sequence(seed)
    learner_seed, adversary_seed = root.spawn(2)
    sizes = [min(GAMES_PER_CHUNK, games - first) for first in range(0, games, GAMES_PER_CHUNK)]
    learner_seeds, adversary_seeds = learner_seed.spawn(len(sizes)), adversary_seed.spawn(len(sizes))
    jobs = [
        (learner, adversary, None if num_games is None else size, rounds, "choices" in recorded, own, seeds)
        for size, own, seeds in zip(
            sizes, learner_seeds, [(adversary_seeds[0], own) for own in adversary_seeds], strict=True
        )
    ]
    began = time.perf_counter()
    parts: list[_Part] = []
    with tqdm(
        total=spec.horizon * games,
        unit="round",
        unit_scale=True,
        desc=f"{type(learner).__name__} v {type(adversary).__name__}",
        delay=0.0 if progress else 2.0,
        disable=None if progress is None else not progress,
        leave=False,
    ) as bar:
        if workers == 1 or len(jobs) == 1:
            for job in jobs:
                chunk = _Chunk(*job)
                for done in chunk.play():
                    bar.update(done)
                parts.append(chunk.part())
        else:
            for part in Parallel(n_jobs=workers, return_as="generator")(delayed(_play_chunk)(job) for job in jobs):
                parts.append(part)
                bar.update(spec.horizon * len(part.learner_loss))
    learner_loss = np.concatenate([part.learner_loss for part in parts])
    best_loss = np.concatenate([part.best_loss for part in parts])
    return Match(
        learner=repr(learner),
        adversary=repr(adversary),
        kind=kind,
        spec=spec,
        seed=root if root.spawn_key else root.entropy,
        regret=learner_loss - best_loss,
        best_loss=best_loss,
        learner_loss=learner_loss,
        rounds=rounds,
        regret_curve=np.concatenate([part.curve for part in parts]),
        choices=np.concatenate([part.choices for part in parts]) if "choices" in recorded else None,
        guarantee=guarantee,
        regret_bound=_mean_bound(learner, spec, best_loss, kind),
        regret_floor=_floor(learner, adversary, spec, guarantee),
        seconds=time.perf_counter() - began,
        leaky=learner.leaky,
    )


@dataclass
class _Part:
    learner_loss: FloatArray
    best_loss: FloatArray
    curve: FloatArray
    choices: IntArray


class _Chunk:
    """Games played in lockstep."""

    def __init__(
        self,
        learner: Learner,
        adversary: Adversary,
        num_games: int | None,
        checkpoints: IntArray,
        record: bool,
        learner_seed: np.random.SeedSequence,
        adversary_seeds: tuple[np.random.SeedSequence, np.random.SeedSequence],
    ) -> None:
        self.spec = GameSpec(adversary.num_experts, adversary.horizon, num_games)
        self.learner = copy.deepcopy(learner if num_games is None else looped(learner))
        self.adversary = seated(adversary, num_games)
        self.checkpoints = checkpoints
        self.score = Score(self.spec)
        self.curve: list[FloatArray] = []
        self.record: list[IntArray] | None = [] if record else None
        self.shared = self._begin(adversary_seeds)
        self.learner.reset(self.spec, np.random.default_rng(learner_seed))

    def _begin(self, seeds: tuple[np.random.SeedSequence, np.random.SeedSequence]) -> bool:
        # Where all games share one sequence, every chunk must meet the same one: the first vector under the common
        # seed tells which case it is.
        common, own = seeds
        if self.adversary.oblivious:
            self._reset_adversary(common)
            if self.adversary.emit().ndim == 1:
                self._reset_adversary(common)
                return True
        self._reset_adversary(own)
        return False

    def _reset_adversary(self, seed: np.random.SeedSequence) -> None:
        # A fresh copy of the seed, since spawning in start() leaves a mark on the one in use.
        self.adversary.np_random = np.random.default_rng(_seed_sequence(seed))
        self.adversary.reset()

    def play(self) -> Iterator[int]:
        """Play to the horizon; yields the number of game rounds after each step."""
        games = self.spec.num_games or 1
        per_round = max(games, self.spec.num_experts * (1 if self.shared else games))
        length = min(BLOCK_ROUNDS, max(1, BLOCK_ELEMENTS // per_round)) if self.adversary.oblivious else 1
        first = 0
        while first < self.spec.horizon:
            rounds = min(length, self.spec.horizon - first)
            if self.adversary.oblivious:
                self._play_block(first, rounds)
            else:
                self._play_round(first)
            first += rounds
            yield rounds * games

    def _play_round(self, first: int) -> None:
        losses = self.adversary.emit()
        choices = self.learner.act()
        # The adversary's side has checked the losses.
        self.learner._trusted = True
        self.learner.observe(losses)
        self.learner._trusted = False
        self.adversary.see(choices)
        self.score.add(losses, choices)
        if self.record is not None:
            self.record.append(np.array(choices)[None])
        if first + 1 == self.checkpoints[len(self.curve)]:
            self.curve.append(self.score.regret)

    def _play_block(self, first: int, rounds: int) -> None:
        block = self.adversary.emit_block(rounds)
        self.learner._trusted = True
        choices = self.learner.run(block)
        self.learner._trusted = False
        charges = charged(block, choices)
        if self.record is not None:
            self.record.append(choices)
        start = 0
        while start < rounds:
            end = min(rounds, int(self.checkpoints[len(self.curve)]) - first)
            self.score.add_block(block[start:end], charges[start:end])
            if first + end == self.checkpoints[len(self.curve)]:
                self.curve.append(self.score.regret)
            start = end

    def part(self) -> _Part:
        games = self.spec.num_games or 1
        choices = np.empty((0, games), dtype=np.int64)
        if self.record:
            choices = np.concatenate([rows.reshape(len(rows), games) for rows in self.record])
        return _Part(
            learner_loss=np.reshape(self.score.learner_loss, (games,)),
            best_loss=np.array(self.score.best_loss).reshape(games),
            curve=np.stack([np.reshape(regret, (games,)) for regret in self.curve], axis=1),
            choices=choices.T,
        )


def _play_chunk(job: tuple[Any, ...]) -> _Part:
    chunk = _Chunk(*job)
    for _ in chunk.play():
        pass
    return chunk.part()


def _seed_sequence(seed: Any) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    try:
        return np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"seed: expected an integer >= 0, a sequence of them, a SeedSequence or None but found {seed!r}"
        ) from error


def _advertised(learner: Learner, spec: GameSpec, kind: str, override: bool) -> Guarantee | None:
    guarantee = learner.guarantee(spec)
    if guarantee is None or guarantee.covers(kind):
        return guarantee
    if not override:
        raise AdversaryModelError(
            f"{learner!r} is proved private against {guarantee.against} adversaries only, but this one is {kind}; "
            "override=True plays on without a guarantee"
        )
    return None


def _floor(learner: Learner, adversary: Adversary, spec: GameSpec, guarantee: Guarantee | None) -> float:
    if guarantee is None or learner.leaky:
        return adversary.regret_floor(spec, math.inf)
    return adversary.regret_floor(spec, guarantee.epsilon, guarantee.delta)


def _mean_bound(learner: Learner, spec: GameSpec, best_loss: FloatArray, kind: str) -> float:
    values, counts = np.unique(best_loss, return_counts=True)
    bounds = [learner.regret_bound(spec, float(value), kind) for value in values]
    return float(np.average(bounds, weights=counts))
