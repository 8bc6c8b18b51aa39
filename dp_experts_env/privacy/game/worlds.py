"""Both worlds of the privacy game, played many times: who may meet whom, and what is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from tqdm.auto import tqdm

from dp_experts_env.learner import Learner, looped
from dp_experts_env.play import _seed_sequence
from dp_experts_env.privacy.evidence import Outcomes
from dp_experts_env.privacy.game.pair import Pair, _seated
from dp_experts_env.spec import (
    Adjacency,
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

GAMES_PER_CHUNK = 16384
"""Games of one world played in lockstep; each chunk has child seeds of its own, so the number of workers changes
nothing."""

VIEWS = ("choices", "transcript")
"""What is seen: the choices, or what the learner notes of its coins and threshold outcomes as well."""


class Plain(Learner):
    """A third party's object in a learner's seat; see :func:`plain`."""

    batched = False

    def __init__(self, factory: Callable[[GameSpec, np.random.Generator], Any], claim: Guarantee | None = None) -> None:
        if not callable(factory):
            raise ArgumentError(f"factory: expected a function of (spec, rng) but found {factory!r}")
        if claim is not None and not isinstance(claim, Guarantee):
            raise ArgumentError(f"claim: expected a Guarantee or None but found {claim!r}")
        self.factory = factory
        self.claim = claim

    def start(self) -> None:
        """Build the object of this game."""
        self._player = self.factory(self.spec, self.rng)
        for name in ("act", "observe"):
            if not callable(getattr(self._player, name, None)):
                raise ArgumentError(f"factory: expected an object with act() and observe(losses) but {name} is missing")

    def act(self) -> Any:
        """Ask the object."""
        return self._player.act()

    def observe(self, losses: FloatArray) -> None:
        """Show the object its losses."""
        self._player.observe(losses)

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return the claim."""
        return self.claim


def plain(factory: Callable[[GameSpec, np.random.Generator], Any], claim: Guarantee | None = None) -> Learner:
    """Return a learner that plays by any object with ``act()`` and ``observe(losses)``.

    Args:
        factory: function of the game's :class:`~dp_experts_env.GameSpec` and of a generator, called at the beginning of
            each game; returns a fresh object whose ``act()`` names an expert 0..N-1 and whose ``observe(losses)`` takes
            losses ``(N,)``. All its randomness must come from the generator, or the two worlds may share it.
        claim: the privacy guarantee to hold it to; ``None`` for none.

    Raises:
        ArgumentError: if an argument is of the wrong type.
    """
    return Plain(factory, claim)


def covered(learner: Learner, pair: Pair, override: bool = False) -> Guarantee | None:
    """Return the learner's guarantee if it covers this pair, ``None`` if it has none.

    A guarantee for "replace" covers pairs of "zero_out" too.

    Args:
        learner: the agent.
        pair: the pair, with the size of the game.
        override: return ``None``, too, where the guarantee does not cover the pair.

    Raises:
        AdversaryModelError: if the guarantee does not cover the pair, and no override.
        ArgumentError: if an argument is of the wrong type.
    """
    if not isinstance(learner, Learner):
        raise ArgumentError(
            f"learner: expected a Learner but found {learner!r}; plain(factory) seats any object that has act() and "
            "observe(losses), where factory(spec, rng) builds one"
        )
    if not isinstance(pair, Pair):
        raise ArgumentError(f"pair: expected a Pair but found {pair!r}; make_pair(name) builds one")
    check_flag("override", override)
    guarantee = learner.guarantee(GameSpec(pair.num_experts, pair.horizon))
    if guarantee is None:
        return None
    if not guarantee.covers(pair.kind):
        found = f"proved private against {guarantee.against} adversaries only, but this pair is {pair.kind}"
    elif guarantee.adjacency is Adjacency.ZERO_OUT and pair.adjacency is Adjacency.REPLACE:
        found = 'proved private for adjacency "zero_out" only, but this pair may replace a round ("replace")'
    else:
        return guarantee
    if not override:
        raise AdversaryModelError(f"{learner!r} is {found}; override=True plays on and claims nothing")
    return None


def refusal(learner: Learner, pairs: Iterable[Pair], override: bool = False) -> str:
    """Return why :func:`covered` refuses the first of these pairs that it refuses, "" if it refuses none.

    Args:
        learner: the agent.
        pairs: the pairs, with the size of the game.
        override: see :func:`covered`.

    Raises:
        ArgumentError: if an argument is of the wrong type.
    """
    try:
        for pair in pairs:
            covered(learner, pair, override)
    except AdversaryModelError as error:
        return str(error)
    return ""


class Watcher(Protocol):
    """What sees a batch of games being played and gives each a number."""

    def round(self, sides: FloatArray, choices: Any, notes: Mapping[str, Any]) -> None:
        """See both sides ``(2, N)`` or ``(2, G, N)``, the choices ``(G,)`` and, in a transcript, the notes."""

    def result(self) -> FloatArray:
        """Return one number a game, ``(G,)``."""


Score = Callable[[GameSpec, np.random.Generator], Watcher]


def run_privacy_game(
    learner: Learner,
    pair: Pair,
    num_games: int,
    *,
    seed: Any = None,
    view: str = "choices",
    score: Score | None = None,
    override: bool = False,
    progress: bool | None = None,
    workers: int = 1,
) -> tuple[Outcomes, Outcomes]:
    """Play the privacy game ``num_games`` times in each of the two worlds. Neither side is changed: copies play.

    The learner's randomness is independent between the worlds, and between the chunks of ``GAMES_PER_CHUNK`` games. The
    pair's is independent between the chunks and the same in both worlds: privacy is a claim for every value of the
    adversary's coins, so that what the two worlds then differ in is the learner's doing, even if a pair draws one coin
    for all games of a batch. [DERIVED: given the pair's coins the games are independent, with probabilities p_g and
    q_g of an event, p_g <= e^epsilon q_g + delta in each game and so on average. Games whose pair flips coins are
    marked as not identical and judged so, see :func:`~dp_experts_env.privacy.evidence.lower_bound`.]

    Memory is O(games x rounds) bytes.

    Args:
        learner: the agent; see :func:`plain` for third parties' objects.
        pair: the adversary of both worlds, with the size of the game; its own ``num_games`` is ignored.
        num_games: number of games in each world, an integer >= 1.
        seed: integer >= 0, sequence of integers, ``SeedSequence``, or ``None`` for fresh entropy.
        view: "choices", or "transcript" for what the learner notes as well: booleans or non-negative integers, the same
            names in each round, one column for each value.
        score: function of the batch's :class:`~dp_experts_env.GameSpec` and of a generator that returns a
            :class:`Watcher`; it sees what the view shows, and its result becomes the outcomes' score.
        override: play where the learner's guarantee does not cover the pair.
        progress: ``True`` or ``False`` for a progress bar, ``None`` for one on work that takes over two seconds.
        workers: number of processes, an integer >= 1; the result does not depend on it.

    Returns:
        What was seen in world 0 and in world 1.

    Raises:
        AdversaryModelError: see :func:`covered`.
        ArgumentError: if an argument lies outside its range, or a note is of the wrong type.
        AdjacencyError, LossError, ChoiceError, ProtocolError: if a side breaks the rules, with the round named.
    """
    covered(learner, pair, override)
    games = check_count("num_games", num_games)
    check_name("view", view, VIEWS)
    if score is not None and not callable(score):
        raise ArgumentError(f"score: expected a function of (spec, rng) or None but found {score!r}")
    if progress is not None:
        check_flag("progress", progress)
    check_count("workers", workers)
    sizes = [min(GAMES_PER_CHUNK, games - first) for first in range(0, games, GAMES_PER_CHUNK)]
    pair_root, *world_roots = _seed_sequence(seed).spawn(3)
    pair_seeds = pair_root.spawn(len(sizes))
    jobs: list[tuple[Any, ...]] = []
    for world, root in enumerate(world_roots):
        learner_seeds, score_seeds = (child.spawn(len(sizes)) for child in root.spawn(2))
        for size, *seeds in zip(sizes, learner_seeds, pair_seeds, score_seeds, strict=True):
            jobs.append((learner, pair, size, world, view, score, *seeds))
    parts: list[Outcomes] = []
    with tqdm(
        total=2 * games,
        unit="game",
        unit_scale=True,
        desc=f"{type(learner).__name__} v {type(pair).__name__}",
        delay=0.0 if progress else 2.0,
        disable=None if progress is None else not progress,
        leave=False,
    ) as bar:
        played = (
            (_play_chunk(*job) for job in jobs)
            if workers == 1 or len(jobs) == 1
            else Parallel(n_jobs=workers, return_as="generator")(delayed(_play_chunk)(*job) for job in jobs)
        )
        for part in played:
            parts.append(part)
            bar.update(len(part.challenge))
    dtype = np.result_type(*(part.symbols for part in parts))
    zero, one = (_joined(parts[: len(sizes)], dtype), _joined(parts[len(sizes) :], dtype))
    return zero, one


def _joined(parts: list[Outcomes], dtype: Any) -> Outcomes:
    scores = [part.score for part in parts if part.score is not None]
    return Outcomes(
        symbols=np.concatenate([part.symbols for part in parts], dtype=dtype),
        challenge=np.concatenate([part.challenge for part in parts]),
        score=np.concatenate(scores) if scores else None,
        columns=parts[0].columns,
        identical=all(part.identical for part in parts),
    )


def _play_chunk(
    learner: Learner,
    pair: Pair,
    num_games: int,
    world: int,
    view: str,
    score: Score | None,
    learner_seed: np.random.SeedSequence,
    pair_seed: np.random.SeedSequence,
    score_seed: np.random.SeedSequence,
) -> Outcomes:
    spec = GameSpec(pair.num_experts, pair.horizon, num_games)
    learner, pair = copy.deepcopy(looped(learner)), _seated(pair, num_games)
    # Fresh copies of the seeds, since spawning leaves a mark on them.
    coins = pair.np_random = np.random.default_rng(_seed_sequence(pair_seed))
    untouched = _state(coins)
    pair.reset()
    learner.reset(spec, np.random.default_rng(_seed_sequence(learner_seed)))
    watcher = None if score is None else score(spec, np.random.default_rng(_seed_sequence(score_seed)))
    if watcher is not None and not all(callable(getattr(watcher, name, None)) for name in ("round", "result")):
        raise ArgumentError(f"score: expected an object with round and result but found {watcher!r}")
    record = _Record(spec)
    for _ in range(spec.horizon):
        sides = pair.emit()
        if view == "transcript":
            learner._notes = {}
        choices = learner.act()
        notes = record.add(learner._notes or {}, choices)
        if watcher is not None:
            watcher.round(sides, choices, notes)
        # The pair's side has checked the losses.
        learner._trusted = True
        learner.observe(sides[world])
        learner._trusted = False
        if not pair.oblivious:
            pair.see(choices)
    result = None if watcher is None else watcher.result()
    identical = _state(coins) == untouched
    return Outcomes(record.symbols, pair.challenge, result, record.columns, identical)


def _state(coins: np.random.Generator) -> tuple[Any, int]:
    """What drawing from a generator, or spawning from it, changes."""
    source: Any = coins.bit_generator
    return source.state, source.seed_seq.n_children_spawned


class _Record:
    """The symbols of a batch of games, round by round."""

    def __init__(self, spec: GameSpec) -> None:
        self.spec = spec
        self.columns: tuple[str, ...] = ()
        self.symbols: NDArray[Any] = np.empty((0, 0, 0), dtype=np.min_scalar_type(spec.num_experts - 1))
        self._round = 0

    def add(self, notes: Mapping[str, list[Any]], choices: IntArray) -> dict[str, Any]:
        """Write one round; return the notes by name."""
        self._round += 1
        values = {name: self._one(name, given) for name, given in notes.items()}
        rows = {
            name if table.shape[1] == 1 else f"{name}[{column}]": table[:, column]
            for name, table in ((name, array.reshape(len(array), -1)) for name, array in values.items())
            for column in range(table.shape[1])
        }
        columns = (*rows, "choice")
        if self._round == 1:
            self.columns = columns
            shape = (len(choices), self.spec.horizon, len(columns))
            self.symbols = np.empty(shape, dtype=self.symbols.dtype)
        elif columns != self.columns:
            raise ArgumentError(
                f"notes of round {self._round}: expected {self.columns[:-1]} as in round 1 but found {columns[:-1]}"
            )
        for column, row in enumerate(rows.values()):
            if row.dtype != np.bool_:
                wider = np.promote_types(self.symbols.dtype, np.min_scalar_type(int(row.max())))
                self.symbols = self.symbols.astype(wider, copy=False)
            self.symbols[:, self._round - 1, column] = row
        self.symbols[:, self._round - 1, -1] = choices
        return values

    def _one(self, name: str, given: list[Any]) -> NDArray[Any]:
        what = f"note {name!r} of round {self._round}"
        if len(given) != 1:
            raise ArgumentError(f"{what}: expected one value a round but found {len(given)}")
        values: NDArray[Any] = np.asarray(given[0])
        if values.shape[:1] != self.spec.shape:
            raise ArgumentError(f"{what}: expected shape {self.spec.shape} or more axes but found {values.shape}")
        # The codes are the values themselves: a code that was fitted to all games would let the games that are
        # counted have a say in which event is counted.
        if values.dtype.kind not in "bui" or (values.dtype.kind == "i" and values.size and values.min() < 0):
            found = f"dtype {values.dtype}" if values.dtype.kind not in "bui" else str(values.min())
            raise ArgumentError(
                f"{what}: expected booleans or integers >= 0 but found {found}; note what the proof covers of a "
                "number, such as on which side of a threshold it lies"
            )
        return values
