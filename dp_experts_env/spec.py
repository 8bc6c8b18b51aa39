"""The vocabulary of the game: its size, privacy claims, adjacency, valid losses and choices, the errors.

Everything else in the package speaks in these words. Arrays carry an optional leading axis of games:
with ``num_games=None`` there is one game and choices are an ``int``, losses have shape ``(N,)``; with
``num_games=G`` choices have shape ``(G,)`` and losses ``(G, N)``, or ``(N,)`` where all games share them.
"""

from __future__ import annotations

import difflib
import enum
import inspect
import math
import operator
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


class GameError(Exception):
    """Base class of every error that this package raises on purpose."""


class ArgumentError(GameError, ValueError):
    """Raised when an argument lies outside its allowed range."""


class LossError(ArgumentError):
    """Raised when a loss vector has the wrong shape, is not a number or leaves [0, 1]."""


class ChoiceError(ArgumentError):
    """Raised when a choice has the wrong shape or names no expert."""


class UnknownNameError(ArgumentError, LookupError):
    """Raised when a name is not registered; the message suggests the nearest ones."""


class DataError(ArgumentError):
    """Raised when a file cannot be read as a loss matrix."""


class ProtocolError(GameError, RuntimeError):
    """Raised when the calls of a round come out of order, or after the horizon."""


class AdversaryModelError(GameError):
    """Raised when a guarantee would be advertised outside the adversary model it is proved for."""


class AdjacencyError(ArgumentError):
    """Raised when two neighbouring loss sequences differ in more than the adjacency allows."""


class BudgetError(GameError):
    """Raised when a privacy spend would exceed the budget; nothing has been spent."""


class MissingExtraError(GameError, ImportError):
    """Raised when an optional dependency is needed; the message names the extra to install."""


class Adjacency(str, enum.Enum):
    """What one neighbouring loss sequence may change: one whole round's loss vector.

    ``REPLACE``: the vector is replaced by any other in [0, 1]^N. ``ZERO_OUT``: it is replaced by zeros
    (the add/remove relation).
    """

    REPLACE = "replace"
    ZERO_OUT = "zero_out"

    def __str__(self) -> str:
        return self.value


ADVERSARY_MODELS = ("stochastic", "oblivious", "adaptive")
"""Adversary models from weakest to strongest; a claim against one holds against those before it."""


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy claim about a learner's sequence of choices: data, never a mechanism.

    Args:
        epsilon: privacy-loss bound, >= 0; ``math.inf`` claims nothing.
        delta: failure probability in [0, 1).
        adjacency: which loss sequences are neighbours, by name or as an :class:`Adjacency`.
        against: the strongest adversary model the proof covers: "oblivious" (any two neighbouring fixed
            sequences) or "adaptive" (the two-world privacy game).
        source: the theorem or section that proves it, with a status tag.

    Raises:
        ArgumentError: if a field lies outside its range.
    """

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = Adjacency.REPLACE
    against: str = "adaptive"
    source: str = ""

    def __post_init__(self) -> None:
        epsilon = math.inf if self.epsilon == math.inf else check_number("epsilon", self.epsilon, 0.0)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "adjacency", check_adjacency(self.adjacency))
        check_name("against", self.against, ("oblivious", "adaptive"))

    def covers(self, model: str) -> bool:
        """Whether the claim holds against ``model``, one of "stochastic", "oblivious", "adaptive"."""
        check_name("model", model, ADVERSARY_MODELS)
        return ADVERSARY_MODELS.index(model) <= ADVERSARY_MODELS.index(self.against)

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-DP, {self.adjacency}, {self.against} adversaries"


@dataclass(frozen=True)
class GameSpec:
    """The public size of a game.

    Args:
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1.
        num_games: ``None`` for one game without a games axis, or an integer G >= 1 for a batch.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    num_experts: int
    horizon: int
    num_games: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_experts", check_count("num_experts", self.num_experts))
        object.__setattr__(self, "horizon", check_count("horizon", self.horizon))
        if self.num_games is not None:
            object.__setattr__(self, "num_games", check_count("num_games", self.num_games))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one round's choices: ``()`` for one game, ``(G,)`` for a batch."""
        return () if self.num_games is None else (self.num_games,)


MOST_COUNT = 2**53
"""Largest count: every integer up to it is a float64, so that a count can enter a formula unrounded."""


def check_count(name: str, value: Any, least: int = 1, most: int | None = MOST_COUNT) -> int:
    """Return ``value`` as an ``int`` from ``least`` to ``most``, or raise :class:`ArgumentError` that names it."""
    if not isinstance(value, (bool, np.bool_)):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if number >= least:
                if most is None or number <= most:
                    return number
                # Python prints no integer of more than some thousand digits.
                shown = repr(number) if number < 10**100 else f"one of {number.bit_length()} bits"
                raise ArgumentError(f"{name}: expected an integer <= {most} but found {shown}")
    raise ArgumentError(f"{name}: expected an integer >= {least} but found {value!r}")


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a ``bool`` if it is ``True`` or ``False``, or raise :class:`ArgumentError` that names it."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ArgumentError(f"{name}: expected True or False but found {value!r}")


def check_number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return ``value`` as a ``float`` in the interval from ``low`` to ``high``, or raise :class:`ArgumentError`.

    An end is excluded where it is said to be open; an infinite end is always excluded.
    """
    low_open, high_open = low_open or low == -math.inf, high_open or high == math.inf
    try:
        refused = (bool, np.bool_, str, bytes, np.complexfloating)
        number = math.nan if isinstance(value, refused) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    above = number > low if low_open else number >= low
    below = number < high if high_open else number <= high
    if above and below:
        return number
    left, right = "(" if low_open else "[", ")" if high_open else "]"
    raise ArgumentError(f"{name}: expected a number in {left}{low:g}, {high:g}{right} but found {value!r}")


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a finite privacy parameter epsilon > 0, or raise :class:`ArgumentError`.

    Positive numbers below 2.3e-308 are refused too: with so few significant bits no share of a budget is exact.
    """
    number = check_number(name, value, 0.0, math.inf, low_open=True)
    if number < sys.float_info.min:
        raise ArgumentError(f"{name}: expected a number of at least {sys.float_info.min:g} but found {value!r}")
    return number


def check_delta(value: Any, name: str = "delta") -> float:
    """Return a privacy parameter delta in [0, 1), or raise :class:`ArgumentError`."""
    return check_number(name, value, 0.0, 1.0, high_open=True)


def check_adjacency(value: Any, name: str = "adjacency") -> Adjacency:
    """Return an :class:`Adjacency` from itself or its name, or raise :class:`UnknownNameError`."""
    return Adjacency(check_name(name, getattr(value, "value", value), tuple(item.value for item in Adjacency)))


def check_name(argument: str, value: Any, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``allowed``, or raise :class:`UnknownNameError` with the nearest names."""
    names = tuple(allowed)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value).lower(), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    shown = ", ".join(names) if len(names) <= 40 else ", ".join(names[:40]) + ", ..."
    raise UnknownNameError(f"{argument}: unknown name {value!r}{hint} (known: {shown})")


def check_losses(losses: Any, spec: GameSpec, round: int, *, source: str = "losses") -> FloatArray:
    """Return one round's losses as float64, or raise an error that names round, game and expert.

    Args:
        losses: shape ``(N,)`` or, in a batch of G games, ``(G, N)`` or ``(N,)`` where all games share them;
            numbers in [0, 1].
        spec: the game.
        round: number of the round, from 1, for the message.
        source: what is being checked, for the message.

    Raises:
        LossError: wrong shape, NaN, or a loss outside [0, 1].
    """
    array = _as_float(losses, f"{source} of round {round}")
    allowed: list[tuple[int, ...]] = [(spec.num_experts,)]
    if spec.num_games is not None:
        allowed.append((spec.num_games, spec.num_experts))
    if array.shape not in allowed:
        shapes = " or ".join(str(shape) for shape in allowed)
        raise LossError(f"{source} of round {round}: expected shape {shapes} but found {array.shape}")
    if not (array.min() >= 0.0 and array.max() <= 1.0):
        _raise_bad_loss(array[None], round, source)
    return array


def check_block(block: Any, spec: GameSpec, first_round: int, *, source: str = "losses") -> FloatArray:
    """Return the losses of R consecutive rounds as float64; see :func:`check_losses`.

    Args:
        block: shape ``(R, N)`` or, in a batch of G games, ``(R, G, N)`` or ``(R, N)``; numbers in [0, 1].
        spec: the game.
        first_round: number of the block's first round, from 1.
        source: what is being checked, for the message.

    Raises:
        LossError: wrong shape, NaN, or a loss outside [0, 1].
    """
    array = _as_float(block, f"{source} from round {first_round}")
    allowed: list[tuple[int, ...]] = [(spec.num_experts,)]
    if spec.num_games is not None:
        allowed.append((spec.num_games, spec.num_experts))
    if array.ndim < 2 or array.shape[0] < 1 or array.shape[1:] not in allowed:
        shapes = " or ".join("(rounds, " + ", ".join(str(n) for n in shape) + ")" for shape in allowed)
        raise LossError(f"{source} from round {first_round}: expected shape {shapes} but found {array.shape}")
    if not (array.min() >= 0.0 and array.max() <= 1.0):
        _raise_bad_loss(array, first_round, source)
    return array


def check_choices(choices: Any, spec: GameSpec, round: int, *, source: str = "choices") -> Any:
    """Return one round's choices, an ``int`` or an int64 array ``(G,)``, or raise :class:`ChoiceError`.

    Args:
        choices: an integer, or in a batch an integer array of shape ``(G,)``; ids in 0..N-1.
        spec: the game.
        round: number of the round, from 1, for the message.
        source: what is being checked, for the message.

    Raises:
        ChoiceError: wrong shape, not an integer, or not in 0..N-1.
    """
    array = _as_experts(choices, spec.shape, f"{source} of round {round}")
    if array.min() < 0 or array.max() >= spec.num_experts:
        _raise_bad_choice(array[None], spec, round, source)
    return int(array) if spec.num_games is None else array.astype(np.int64, copy=False)


def check_choice_block(
    choices: Any, spec: GameSpec, first_round: int, rounds: int, *, source: str = "choices"
) -> IntArray:
    """Return the choices of consecutive rounds as int64; see :func:`check_choices`.

    Args:
        choices: integer array of shape ``(R,)`` or, in a batch, ``(R, G)``; ids in 0..N-1.
        spec: the game.
        first_round: number of the block's first round, from 1.
        rounds: number R of rounds.
        source: what is being checked, for the message.

    Raises:
        ChoiceError: wrong shape, not integers, or not in 0..N-1.
    """
    array = _as_experts(choices, (rounds, *spec.shape), f"{source} from round {first_round}")
    if array.min() < 0 or array.max() >= spec.num_experts:
        _raise_bad_choice(array, spec, first_round, source)
    return array.astype(np.int64, copy=False)


def _as_experts(choices: Any, shape: tuple[int, ...], source: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.asarray(choices)
    except ValueError as error:
        raise ChoiceError(f"{source}: expected a rectangular array of expert ids but found {choices!r}") from error
    if array.shape != shape:
        raise ChoiceError(f"{source}: expected shape {shape} but found {array.shape}")
    if array.dtype.kind not in "iu":
        raise ChoiceError(f"{source}: expected integer expert ids but found dtype {array.dtype}: {choices!r}")
    return array


def _raise_bad_choice(block: NDArray[Any], spec: GameSpec, first_round: int, source: str) -> None:
    row, *games = np.argwhere((block < 0) | (block >= spec.num_experts))[0]
    game = f" in game {games[0]}" if games else ""
    raise ChoiceError(
        f"{source} of round {first_round + int(row)}{game}: expected an expert in 0..{spec.num_experts - 1} "
        f"but found {int(block[(row, *games)])}"
    )


def _as_float(values: Any, source: str) -> FloatArray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise LossError(f"{source}: expected a rectangular array of numbers but found {values!r}") from error
    if array.dtype.kind not in "biuf":
        raise LossError(f"{source}: expected numbers but found dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def _raise_bad_loss(block: FloatArray, first_round: int, source: str) -> None:
    row, *games, expert = np.argwhere(~((block >= 0.0) & (block <= 1.0)))[0]
    game = f", game {games[0]}" if games else ""
    value = float(block[(row, *games, expert)])
    raise LossError(
        f"{source} of round {first_round + int(row)}{game}, expert {expert}: "
        f"expected a loss in [0, 1] but found {value!r}; rescale other ranges explicitly"
    )


class Parameters:
    """Mixin that remembers constructor arguments, for printing and for building changed copies."""

    _given: dict[str, Any]

    def __init__(self) -> None:
        # Without it a class that has no constructor of its own would take, and ignore, any argument.
        pass

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: D102 (object's own)
        instance = super().__new__(cls)
        given: dict[str, Any] = {}
        signature = inspect.signature(cls.__init__)
        try:
            bound = signature.bind(None, *args, **kwargs)
        except TypeError:
            # Unpickling calls without arguments; a wrong call is for __init__ to refuse.
            pass
        else:
            bound.apply_defaults()
            for name, value in list(bound.arguments.items())[1:]:
                if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                    given.update(value)
                else:
                    given[name] = value
        instance._given = given
        return instance

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor arguments, defaults included, by name."""
        return dict(self._given)

    def clone(self, **changes: Any) -> Self:
        """Build a fresh, unstarted copy with the same constructor arguments but ``changes``."""
        return type(self)(**{**self._given, **changes})

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"<array {value.shape}>"
    return repr(value)
