"""The learner's side of the game: the base class of every agent.

A learner implements :meth:`Learner.act` and, unless it ignores the past, :meth:`Learner.observe`. Its
hyper-parameters are constructor keywords; the size of the game and the randomness arrive with
:meth:`Learner.reset`. The base class checks the order of the calls, every choice and every loss vector, so that
an author writes only the algorithm.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np

from dp_experts_env.spec import (
    ADVERSARY_MODELS,
    ArgumentError,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    Parameters,
    ProtocolError,
    check_block,
    check_choice_block,
    check_choices,
    check_losses,
    check_name,
    check_number,
)

Method = TypeVar("Method", bound=Callable[..., Any])


class Learner(Parameters):
    """An agent that names one expert a round and then sees the whole loss vector.

    Subclasses override :meth:`act`, usually :meth:`observe` and :meth:`start`, and whichever of
    :meth:`guarantee`, :meth:`regret_bound`, :meth:`probabilities`, :meth:`outcomes`, :meth:`take` and :meth:`run`
    they have. One implementation serves a single game and a batch: index arrays with ``...``.

    Attributes:
        batched: set to ``False`` on a class that can only play one game; a batch then loops over copies of it.
        deterministic: set to ``True`` on a class whose choices are a function of the losses alone.
        leaky: set to ``True`` on a class that knowingly violates the guarantee it states (a positive control).
        spec: the game being played, once :meth:`reset` was called.
        rng: the ``numpy.random.Generator`` handed to :meth:`reset`, the only source of randomness. An author who
            needs several independent streams takes ``self.rng.spawn(n)`` in :meth:`start`.
    """

    batched: ClassVar[bool] = True
    deterministic: ClassVar[bool] = False
    leaky: ClassVar[bool] = False

    spec: GameSpec
    rng: np.random.Generator

    _round = 0
    _started = False
    _acted = False
    _inside = False
    _trusted = False
    _notes: dict[str, list[Any]] | None = None
    _num_outcomes: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, guard in _GUARDS.items():
            if name in cls.__dict__:
                setattr(cls, name, guard(cls.__dict__[name]))

    # -- the game ----------------------------------------------------------------------------------------------

    def reset(self, spec: GameSpec, rng: np.random.Generator) -> None:
        """Begin a new game (or batch of games) and forget the last one.

        Args:
            spec: public size of the game.
            rng: source of all randomness of this learner.

        Raises:
            ArgumentError: if an argument is of the wrong type, ``spec`` is a batch and the class plays one game, or
                the game is too large for the memory of the machine.
        """
        _check_spec(spec)
        if not isinstance(rng, np.random.Generator):
            raise ArgumentError(f"rng: expected a numpy.random.Generator but found {rng!r}")
        if spec.num_games is not None and not self.batched:
            raise ArgumentError(
                f"spec: {type(self).__name__} has batched = False and plays one game (num_games=None) but found "
                f"num_games={spec.num_games}; looped(learner) plays a batch with copies of it"
            )
        self.spec = spec
        self.rng = rng
        self._round = 0
        self._num_outcomes = None
        self._started = self._acted = self._inside = self._trusted = False
        with _in_memory(self, spec):
            self.start()
        self._started = True

    def start(self) -> None:
        """Hook called by :meth:`reset` with ``self.spec`` and ``self.rng`` set: build the initial state."""

    def act(self) -> Any:
        """Name this round's expert from earlier rounds alone.

        Returns:
            An expert id in 0..N-1; in a batch an integer array of shape ``(G,)``.

        Raises:
            ProtocolError: before :meth:`reset`, twice in one round, or past the horizon.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement act()")

    def observe(self, losses: FloatArray) -> None:
        """See the losses of the round just played. The array must not be changed.

        Args:
            losses: shape ``(N,)`` or, in a batch, ``(G, N)``, or ``(N,)`` where all games share them; in [0, 1].

        Raises:
            LossError: wrong shape, NaN or out of range; the state is as before the call.
            ProtocolError: before :meth:`act`.
        """

    def run(self, block: FloatArray) -> IntArray:
        """Play R consecutive rounds against losses that were fixed beforehand.

        An override must make the same choices as this loop, bit for bit.

        Args:
            block: losses of shape ``(R, N)`` or, in a batch, ``(R, G, N)``, or ``(R, N)`` where games share them.

        Returns:
            The choices, int64 of shape ``(R,)`` or ``(R, G)``.

        Raises:
            LossError: wrong shape, NaN or out of range; nothing has been played.
            ProtocolError: before :meth:`reset`, in the middle of a round, or past the horizon.
        """
        choices = np.empty((len(block), *self.spec.shape), dtype=np.int64)
        for row, losses in enumerate(block):
            choices[row] = self.act()
            self.observe(losses)
        return choices

    @property
    def round(self) -> int:
        """Number of rounds completed in the current game, 0..T."""
        return self._round

    # -- what is claimed ---------------------------------------------------------------------------------------

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return the guarantee for the sequence of choices in a game of this size, ``None`` if none is proved.

        Args:
            spec: the game.

        Raises:
            ArgumentError: if ``spec`` is not a GameSpec.
        """
        return None

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return a proved bound on the expected regret, ``math.nan`` where none is proved.

        Args:
            spec: the game.
            best_loss: total loss L* of the best fixed expert, in [0, T].
            against: the adversary model, "stochastic", "oblivious" or "adaptive".

        Raises:
            ArgumentError: if an argument lies outside its range.
        """
        return math.nan

    # -- what is random ----------------------------------------------------------------------------------------

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice given what is fixed so far, where the learner has one in closed form.

        Returns:
            Probabilities of shape ``(N,)`` or ``(G, N)``, summing to one over the last axis.
        """
        raise NotImplementedError(f"{type(self).__name__} has no closed-form probabilities")

    def outcomes(self) -> FloatArray:
        """Return the log-probabilities of the next joint outcome of coins and choice, given the state.

        Returns:
            Shape ``(K,)`` or ``(G, K)`` with a fixed number K of outcomes, ``-inf`` where impossible.
            :meth:`act` draws an outcome with these probabilities.
        """
        raise NotImplementedError(f"{type(self).__name__} has no finite outcome law")

    def take(self, outcome: Any) -> Any:
        """Play the round with this outcome instead of a drawn one; otherwise like :meth:`act`.

        Args:
            outcome: index into the last axis of :meth:`outcomes`; in a batch an integer array of shape ``(G,)``.

        Returns:
            The choice that the outcome implies, as from :meth:`act`.

        Raises:
            ArgumentError: if ``outcome`` is no such index; the state is as before the call.
            ProtocolError: as :meth:`act`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no finite outcome law")

    def note(self, name: str, values: Any) -> None:
        """Record part of this round's transcript (a coin, a threshold outcome) that the privacy proof covers.

        Args:
            name: what is recorded; the same names in the same order each round.
            values: one value, or in a batch an array of shape ``(G,)``.
        """
        if self._notes is not None:
            try:
                self._notes.setdefault(name, []).append(np.array(values))
            except ValueError as error:
                raise ArgumentError(f"note {name!r}: expected one value a game but found {values!r}") from error

    # -- order of the calls ------------------------------------------------------------------------------------

    def _require_outcome(self, outcome: Any) -> None:
        if self._num_outcomes is None:
            self._num_outcomes = self.outcomes().shape[-1]
        index = np.asarray(outcome)
        if (
            index.shape not in ((), self.spec.shape)
            or index.dtype.kind not in "iu"
            or not (index.min() >= 0 and index.max() < self._num_outcomes)
        ):
            raise ArgumentError(
                f"outcome: expected integers in 0..{self._num_outcomes - 1} of shape {self.spec.shape} "
                f"but found {outcome!r}"
            )

    def _require_turn(self, call: str, rounds: int = 1) -> None:
        name = f"{type(self).__name__}.{call}"
        if not self._started:
            raise ProtocolError(f"{name}: expected reset(spec, rng) first")
        if self._acted:
            raise ProtocolError(f"{name}: expected observe() to end round {self._round + 1} first")
        if self._round + rounds > self.spec.horizon:
            raise ProtocolError(
                f"{name}: {rounds} round(s) asked after {self._round} of horizon {self.spec.horizon} were played; "
                "call reset() for a new game"
            )


def _guard_act(method: Method) -> Method:
    @functools.wraps(method)
    def act(self: Learner, *args: Any, **kwargs: Any) -> Any:
        if self._inside:
            return method(self, *args, **kwargs)
        self._require_turn(method.__name__)
        self._inside = True
        try:
            choices = method(self, *args, **kwargs)
        finally:
            self._inside = False
        choices = check_choices(choices, self.spec, self._round + 1, source=f"{type(self).__name__}.{method.__name__}")
        self._acted = True
        # A copy, since an author may return the array that holds the state.
        return choices if self.spec.num_games is None else choices.copy()

    return act  # type: ignore[return-value]


def _guard_take(method: Method) -> Method:
    guarded = _guard_act(method)

    @functools.wraps(method)
    def take(self: Learner, outcome: Any) -> Any:
        if not self._inside:
            self._require_turn("take")
            self._require_outcome(outcome)
        return guarded(self, outcome)

    return take  # type: ignore[return-value]


def _guard_observe(method: Method) -> Method:
    @functools.wraps(method)
    def observe(self: Learner, losses: Any) -> None:
        if self._inside:
            method(self, losses)
            return
        if not self._acted:
            raise ProtocolError(f"{type(self).__name__}.observe: expected act() first in round {self._round + 1}")
        if not self._trusted:
            losses = check_losses(losses, self.spec, self._round + 1)
        self._inside = True
        try:
            method(self, losses)
        finally:
            self._inside = False
        self._round += 1
        self._acted = False

    return observe  # type: ignore[return-value]


def _guard_run(method: Method) -> Method:
    @functools.wraps(method)
    def run(self: Learner, block: Any) -> IntArray:
        if self._inside:
            result: IntArray = method(self, block)
            return result
        if not self._started:
            self._require_turn("run")
        trusted = self._trusted
        if not trusted:
            block = check_block(block, self.spec, self._round + 1)
        self._require_turn("run", len(block))
        first, rounds = self._round, len(block)
        self._trusted = True
        try:
            choices = method(self, block)
        finally:
            self._trusted = trusted
        self._round = first + rounds
        return check_choice_block(choices, self.spec, first + 1, rounds, source=f"{type(self).__name__}.run")

    return run  # type: ignore[return-value]


def _check_spec(spec: Any) -> None:
    if not isinstance(spec, GameSpec):
        raise ArgumentError(f"spec: expected a GameSpec but found {spec!r}")


@contextlib.contextmanager
def _in_memory(learner: Learner, spec: GameSpec) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise ArgumentError(
            f"spec: {type(learner).__name__} needs more memory than there is with num_experts={spec.num_experts}, "
            f"horizon={spec.horizon}, num_games={spec.num_games}: {error}"
        ) from error


def _guard_guarantee(method: Method) -> Method:
    @functools.wraps(method)
    def guarantee(self: Learner, spec: GameSpec) -> Guarantee | None:
        _check_spec(spec)
        with _in_memory(self, spec):
            claim: Guarantee | None = method(self, spec)
        if claim is not None and not isinstance(claim, Guarantee):
            raise ArgumentError(f"{type(self).__name__}.guarantee: expected a Guarantee or None but found {claim!r}")
        return claim

    return guarantee  # type: ignore[return-value]


def _guard_regret_bound(method: Method) -> Method:
    @functools.wraps(method)
    def regret_bound(self: Learner, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        _check_spec(spec)
        best_loss = check_number("best_loss", best_loss, 0.0, float(spec.horizon))
        check_name("against", against, ADVERSARY_MODELS)
        with _in_memory(self, spec):
            return float(method(self, spec, best_loss, against))

    return regret_bound  # type: ignore[return-value]


def _guard_law(method: Method) -> Method:
    @functools.wraps(method)
    def law(self: Learner) -> FloatArray:
        if not (self._started or self._inside):
            raise ProtocolError(f"{type(self).__name__}.{method.__name__}: expected reset(spec, rng) first")
        result: FloatArray = method(self)
        return result

    return law  # type: ignore[return-value]


def _guard_outcomes(method: Method) -> Method:
    law = _guard_law(method)

    @functools.wraps(method)
    def outcomes(self: Learner) -> FloatArray:
        found: FloatArray = law(self)
        shape = np.shape(found) if isinstance(found, np.ndarray) and found.dtype.kind == "f" else ()
        if not shape or shape[-1] < 1 or shape[:-1] not in ((), self.spec.shape):
            expected = " or ".join(
                str((*games, "K")).replace("'", "") for games in dict.fromkeys(((), self.spec.shape))
            )
            raise ArgumentError(
                f"{type(self).__name__}.outcomes: expected log-probabilities, an array {expected}, but found {found!r}"
            )
        return found

    return outcomes  # type: ignore[return-value]


_GUARDS: dict[str, Callable[[Any], Any]] = {
    "act": _guard_act,
    "take": _guard_take,
    "observe": _guard_observe,
    "run": _guard_run,
    "guarantee": _guard_guarantee,
    "regret_bound": _guard_regret_bound,
    "probabilities": _guard_law,
    "outcomes": _guard_outcomes,
}
for _name, _guard in _GUARDS.items():
    setattr(Learner, _name, _guard(Learner.__dict__[_name]))


class LoopedLearner(Learner):
    """A batch of games played by single-game copies of one learner, each with its own child stream.

    Args:
        learner: the learner to copy.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def start(self) -> None:
        """Build one copy a game."""
        single = GameSpec(self.spec.num_experts, self.spec.horizon)
        self._players = [copy.deepcopy(self.learner) for _ in range(self.spec.num_games or 1)]
        # A single copy takes the stream itself, so that a batch of one equals the single game.
        streams = self.rng.spawn(len(self._players)) if len(self._players) > 1 else [self.rng]
        for player, stream in zip(self._players, streams, strict=True):
            player.reset(single, stream)

    def act(self) -> Any:
        """Ask every copy."""
        return self._ask(lambda player, _: player.act(), self._players)

    def take(self, outcome: Any) -> Any:
        """Tell every copy its outcome."""
        return self._ask(lambda player, value: player.take(value), np.broadcast_to(outcome, (len(self._players),)))

    def observe(self, losses: FloatArray) -> None:
        """Show every copy its losses."""
        rows = np.broadcast_to(losses, (len(self._players), self.spec.num_experts))
        self._ask(lambda player, row: player.observe(row), rows)

    def probabilities(self) -> FloatArray:
        """Stack the laws of the copies."""
        return np.reshape([player.probabilities() for player in self._players], (*self.spec.shape, -1))

    def outcomes(self) -> FloatArray:
        """Stack the outcome laws of the copies."""
        return np.reshape([player.outcomes() for player in self._players], (*self.spec.shape, -1))

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return the inner learner's guarantee: the games are independent."""
        return self.learner.guarantee(spec)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the inner learner's bound."""
        return self.learner.regret_bound(spec, best_loss, against)

    def _ask(self, call: Callable[[Learner, Any], Any], arguments: Iterable[Any]) -> Any:
        for player in self._players:
            player._notes = None if self._notes is None else {}
        answers = [call(player, argument) for player, argument in zip(self._players, arguments, strict=True)]
        for name in self._players[0]._notes or {}:
            values = [player._notes[name] for player in self._players if player._notes]
            for row in zip(*values, strict=True):
                self.note(name, row if self.spec.shape else row[0])
        return np.array(answers) if self.spec.shape else answers[0]


def looped(learner: Learner) -> Learner:
    """Return a learner that plays a batch: ``learner`` itself where its class can, else a loop over copies of it."""
    return learner if learner.batched else LoopedLearner(learner)
