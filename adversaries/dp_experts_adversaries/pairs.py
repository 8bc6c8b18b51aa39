"""Pairs for the privacy game: hand-written attacks, each on something that a broken learner may leak.

In all of them the sides differ in one round and one round only, and what comes after gives the learner time to show
what it remembers. With adjacency "replace" the changed loss vector l becomes 1 - l on side 1, which moves the sum of
losses as far as any replacement can; with "zero_out" it becomes all zeros.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np

from dp_experts_env.adversary import Adversary, seated
from dp_experts_env.data import load_losses
from dp_experts_env.privacy.game import Pair
from dp_experts_env.registry import make_adversary
from dp_experts_env.spec import (
    MOST_COUNT,
    Adjacency,
    AdjacencyError,
    ArgumentError,
    FloatArray,
    IntArray,
    check_count,
    check_name,
    check_number,
)

SPLITS = ("half", "one", "all")
"""Who loses in the changed round on side 0: the first half of the experts, expert 0 alone, or everybody."""

STEADY = ("zeros", "ones", "swing")
"""Losses of the other rounds: nobody loses, everybody loses, or the two halves of the experts lose in turn."""


def split_losses(split: str, num_experts: int) -> FloatArray:
    """Return the loss vector ``(N,)`` of a split, one of :data:`SPLITS`."""
    losing = {"half": (num_experts + 1) // 2, "one": 1, "all": num_experts}[split]
    return np.asarray(np.arange(num_experts) < losing, dtype=np.float64)


def steady_losses(name: str, round: int, num_experts: int) -> FloatArray:
    """Return the loss vector ``(N,)`` of one of :data:`STEADY` after ``round`` rounds."""
    if name != "swing":
        return np.full(num_experts, float(name == "ones"))
    half = split_losses("half", num_experts)
    return half if round % 2 else 1.0 - half


class _Attack(Pair):
    """Says what both sides are where they are alike, and where they are not."""

    def alike(self, losses: FloatArray) -> FloatArray:
        """Return the same losses on both sides."""
        return np.broadcast_to(losses, (2, *losses.shape))

    def opposed(self, losses: FloatArray, where: Any = True) -> FloatArray:
        """Return ``losses`` on side 0 and what they are changed to on side 1, in the games ``where`` says so."""
        if not np.any(where):
            return self.alike(losses)
        changed = 1.0 - losses if self.adjacency is Adjacency.REPLACE else np.zeros_like(losses)
        return np.stack([losses, np.where(np.asarray(where)[..., None], changed, losses)])

    @property
    def last_chance(self) -> int:
        """The last round whose losses a choice can still depend on: T - 1, or 1 if there is no other."""
        return max(1, self.horizon - 1)


class FirstRound(_Attack):
    """The first round differs; then the same losses on both sides until the end.

    Attacks whatever remembers a loss for long: exponential weights at too high a rate (each later choice adds to the
    evidence; the exact log-likelihood ratio is the best statistic), rates that adapt to the losses, one draw of noise
    for all rounds, switches without a cause. Neutral rounds afterwards keep the law of the choices where the
    difference shows most.

    Args:
        split: who loses in the first round on side 0, "half", "one" or "all"; see :data:`SPLITS`.
        after: the losses of later rounds, "zeros", "ones" or "swing"; see :data:`STEADY`. "ones" makes learners that
            watch a loss draw again and again.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    examples = (
        {"after": "swing"},
        {"split": "one"},
        {"split": "all"},
        {"after": "ones"},
    )

    def __init__(self, split: str = "half", after: str = "zeros", **game: Any) -> None:
        super().__init__(**game)
        self.split = check_name("split", split, SPLITS)
        self.after = check_name("after", after, STEADY)

    def emit(self) -> FloatArray:
        """Change the first round; see :meth:`Pair.emit`."""
        if self.round == 0:
            return self.opposed(split_losses(self.split, self.num_experts))
        return self.alike(steady_losses(self.after, self.round, self.num_experts))


class LastRound(_Attack):
    """The last round that can matter, T - 1, differs; before it the losses are the same on both sides.

    Attacks whatever shows its last loss at once: copies of it, a coin that depends on it alone. The choice of round T
    is the only one that can tell.

    Args:
        split: who loses in round T - 1 on side 0, "half", "one" or "all"; see :data:`SPLITS`.
        before: the losses of earlier rounds, "zeros", "ones" or "swing"; see :data:`STEADY`.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    examples = ({"before": "swing"}, {"split": "one"}, {"split": "all"}, {"split": "all", "before": "ones"})

    def __init__(self, split: str = "half", before: str = "zeros", **game: Any) -> None:
        super().__init__(**game)
        self.split = check_name("split", split, SPLITS)
        self.before = check_name("before", before, STEADY)

    def emit(self) -> FloatArray:
        """Change round T - 1; see :meth:`Pair.emit`."""
        if self.round == self.last_chance - 1:
            return self.opposed(split_losses(self.split, self.num_experts))
        return self.alike(steady_losses(self.before, self.round, self.num_experts))


class WorstForHedge(_Attack):
    """One expert up, all others down: the change that moves exponential weights most.

    Expert 0 loses alone in the first ``lead`` rounds, so that its weight w is small. Then on side 0 all others lose and
    it does not, on side 1 the reverse (with "zero_out": nobody loses). The log-ratio of the probabilities of naming it
    is eta + ln((1 - w + w e^-eta)/(w + (1 - w) e^-eta)), which tends to 2 eta as w tends to 0 [DERIVED]. It catches
    learners that pay eta for it, more clearly the more experts there are. Nobody loses afterwards.

    Args:
        lead: number of rounds before the change in which expert 0 alone loses, in 0..T - 1.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    examples = ({"lead": 3},)

    def __init__(self, lead: int = 0, **game: Any) -> None:
        super().__init__(**game)
        self.lead = check_count("lead", lead, 0)
        if self.lead >= self.horizon:
            raise ArgumentError(f"lead: expected an integer in 0..{self.horizon - 1} (horizon - 1) but found {lead!r}")

    def emit(self) -> FloatArray:
        """Hold expert 0 back, then change all; see :meth:`Pair.emit`."""
        first = split_losses("one", self.num_experts)
        if self.round == self.lead:
            return self.opposed(1.0 - first if self.num_experts > 1 else first)
        return self.alike(first * (self.round < self.lead))


class LeaderFlip(_Attack):
    """Waits until the learner's margin is informative, then charges the leader on one side and the others on the other.

    The margin is informative when the last ``window`` choices are spread over two experts or more. Until then the
    expert named last loses ``charge``, so that the leaders come level; then, or in round T - 1 at the latest, that
    expert alone loses 1 on side 0, and all others on side 1 (with "zero_out": nobody). Nobody loses afterwards.

    Attacks learners that hold an expert: at the moment of a switch two experts are within ``charge`` of each other,
    whatever the noise was, and one that draws its noise once then does what the changed round says with certainty.

    Args:
        window: number of choices looked back, an integer >= 2.
        charge: what the expert named last loses in a round until the flip, in [0, 1].
        **game: ``num_experts``, ``horizon``, ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    examples = ({"window": 2, "charge": 0.5}, {"charge": 0.0})

    def __init__(self, window: int = 3, charge: float = 1.0, **game: Any) -> None:
        super().__init__(**game)
        self.window = check_count("window", window, 2)
        self.charge = check_number("charge", charge, 0.0, 1.0)

    def start(self) -> None:
        """Forget the choices."""
        self._recent: list[IntArray] = []
        self._flipped = np.zeros(self.game.shape, dtype=bool)

    def emit(self) -> FloatArray:
        """Charge the leader, or flip; see :meth:`Pair.emit`."""
        if not self._recent:
            leader = self.one_hot(np.zeros(self.game.shape, dtype=np.int64))
            spread = np.zeros(self.game.shape, dtype=bool)
        else:
            leader = self.one_hot(self._recent[-1])
            spread = np.any([choices != self._recent[-1] for choices in self._recent], axis=0)
        flips = ~self._flipped & (spread | (self.round + 1 >= self.last_chance))
        quiet = self._flipped | (not self._recent)
        losses = leader * np.where(flips, 1.0, np.where(quiet, 0.0, self.charge))[..., None]
        self._flipped = self._flipped | flips
        return self.opposed(losses, flips)

    def see(self, choices: Any) -> None:
        """Remember the last choices; see :meth:`Adversary.see`."""
        self._recent = [*self._recent[1 - self.window :], np.asarray(choices)]


class SuffixPush(_Attack):
    """Brings the watched loss to one unit under a threshold, adds that unit on side 0 only, and then holds still.

    Attacks learners that compare the cumulative loss of the expert they hold with a threshold: from the changed round
    on the watched sums differ by a constant one, in every query until the end, and nothing else moves. Without query
    noise an alarm in the next round is impossible on side 1; without threshold noise each quiet round tells as much as
    the first. The alarms are in the transcript; with ``charged="held"`` they show in the choices as well, since an
    expert that has lost so much is seldom drawn again.

    Args:
        threshold: the watched sum that side 0 is pushed to, a number >= 1; ``None`` to draw one for each game, an
            integer uniform in 1..T - 2, which finds every threshold at the price of using a fraction of the games. One
            that is not reached in time is pushed at in round T - 1 all the same.
        charged: "held": only the expert named last loses, and the sum starts anew when another one is named (adaptive);
            "all": everybody loses alike, whoever is held (oblivious).
        **game: ``num_experts``, ``horizon``, ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    examples = (
        {"threshold": 5.0},
        {"threshold": 10.0},
        {"threshold": 12.0},
        {"charged": "all"},
        {"threshold": 9.0, "charged": "all"},
        {"threshold": 10.0, "charged": "all"},
        {"threshold": 12.0, "charged": "all"},
    )

    def __init__(self, threshold: float | None = None, charged: str = "held", **game: Any) -> None:
        super().__init__(**game)
        self.threshold = None if threshold is None else check_number("threshold", threshold, 1.0)
        self.charged = check_name("charged", charged, ("held", "all"))

    @property
    def oblivious(self) -> bool:
        """Whether everybody is charged alike, whatever the learner does."""
        return self.charged == "all"

    def start(self) -> None:
        """Draw the thresholds where none is given; nothing is lost yet."""
        # Where nothing differs between the games of a batch they share the losses.
        shape = () if self.charged == "all" and self.threshold is not None else self.game.shape
        if self.threshold is None:
            self._goal = self.np_random.integers(1, max(2, self.horizon - 1), size=shape) - 1.0
        else:
            # What no number of rounds reaches may as well be as near as that, where sums are exact.
            self._goal = np.full(shape, min(self.threshold, float(MOST_COUNT)) - 1.0)
        self._sum = np.zeros(shape)
        self._pushed = np.zeros(shape, dtype=bool)
        self._held: IntArray | None = None

    def emit(self) -> FloatArray:
        """Charge up to the goal, push once, then nothing; see :meth:`Pair.emit`."""
        known = self.charged == "all" or self._held is not None
        # Rounded, since what is left of a broken unit after its step would be charged as another.
        missing = np.round(self._goal - self._sum, 9)
        pushes = ~self._pushed & (((missing <= 0.0) & known) | (self.round + 1 >= self.last_chance))
        # The broken unit comes first, so that the last steps up are whole.
        step = np.where(missing % 1.0 > 0.0, missing % 1.0, np.clip(missing, 0.0, 1.0))
        charge = np.where(pushes, 1.0, np.where(self._pushed | (not known), 0.0, step))
        self._sum = self._sum + charge
        self._pushed = self._pushed | pushes
        if self.charged == "all":
            losses = np.repeat(charge[..., None], self.num_experts, axis=-1)
        else:
            held = np.zeros(self.game.shape, dtype=np.int64) if self._held is None else self._held
            losses = self.one_hot(held) * charge[..., None]
        return np.stack([losses, losses * ~pushes[..., None]]) if pushes.any() else self.alike(losses)

    def see(self, choices: Any) -> None:
        """Notice which expert is held now; see :meth:`Adversary.see`."""
        choices = np.asarray(choices)
        if self._held is not None and self.charged == "held":
            self._sum = np.where(choices == self._held, self._sum, 0.0)
        self._held = choices


class ReplaceRound(_Attack):
    """Any adversary, with one of its rounds changed on side 1: l becomes 1 - l, or zeros with adjacency "zero_out".

    The adversary sees the learner's choices and goes on from its own side, 0. A round that the change leaves as it was
    (zeros under "zero_out") makes the sides equal.

    Args:
        adversary: the adversary, by its registered name (built with the size of the game) or as an instance.
        at: the round to change, in 1..T; or ``None`` for the first round after the learner has left an expert, round
            T - 1 at the latest (adaptive).
        num_experts: number of experts N; ``None`` for the instance's, or 4.
        horizon: number of rounds T; ``None`` for the instance's, or 20.
        **game: ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range or does not fit the instance.
        UnknownNameError: if no adversary of that name is registered.
    """

    examples = (
        {"at": None},
        {"adversary": "alternating"},
        {"adversary": "punish_last", "at": 2},
        {"adversary": "punish_last", "at": None},
    )

    def __init__(
        self,
        adversary: str | Adversary = "bernoulli",
        at: int | None = 1,
        num_experts: int | None = None,
        horizon: int | None = None,
        **game: Any,
    ) -> None:
        own = adversary.game if isinstance(adversary, Adversary) else None
        super().__init__(
            num_experts if num_experts is not None else own.num_experts if own else 4,
            horizon if horizon is not None else own.horizon if own else 20,
            **game,
        )
        if isinstance(adversary, str):
            self._base = make_adversary(adversary, num_experts=self.num_experts, horizon=self.horizon)
        elif own is None or isinstance(adversary, Pair):
            raise ArgumentError(f"adversary: expected the name of an adversary or an Adversary but found {adversary!r}")
        else:
            self._base = adversary
        for name in ("num_experts", "horizon"):
            found = getattr(self._base, name)
            if found != getattr(self, name):
                raise ArgumentError(f"{name}: expected {found}, as the adversary has, but found {getattr(self, name)}")
        self.adversary = adversary
        self.at = None if at is None else check_count("at", at, 1, self.horizon)

    @property
    def oblivious(self) -> bool:
        """Whether the adversary is and the round is fixed."""
        return self.at is not None and self._base.oblivious

    def start(self) -> None:
        """Begin a game of the adversary."""
        self._played = seated(self._base, self.game.num_games)
        self._played.np_random = self.np_random.spawn(1)[0]
        self._played.reset()
        self._changed = np.zeros(self.game.shape, dtype=bool)
        self._left = np.zeros(self.game.shape, dtype=bool)
        self._last: Any = None

    def emit(self) -> FloatArray:
        """Emit the adversary's round, changed on side 1 where it is time; see :meth:`Pair.emit`."""
        losses = self._played.emit()
        if self.at is not None:
            return self.opposed(losses, self.round + 1 == self.at)
        now = ~self._changed & (self._left | (self.round + 1 >= self.last_chance))
        self._changed = self._changed | now
        return self.opposed(np.broadcast_to(losses, (*self.game.shape, self.num_experts)), now)

    def see(self, choices: Any) -> None:
        """Show the adversary the choices; see :meth:`Adversary.see`."""
        self._played.see(choices)
        if self._last is not None:
            self._left = self._left | (np.asarray(choices) != self._last)
        self._last = copy.copy(choices)


class Scripted(_Attack):
    """Two written sequences, the same in every game.

    Without sources: two synthetic ones, in which the halves of the experts lose in turn, but for the round in the
    middle, in which the first half loses on side 0 and what "replace" or "zero_out" makes of it on side 1.

    Args:
        first: side 0: a bundled game's name, the path of a .npy, .csv or .parquet file, or an array ``(T, N)`` in
            [0, 1]; see :func:`dp_experts_env.load_losses`. ``None`` with ``second=None`` for the synthetic pair.
        second: side 1, of the same shape; it may differ in one row.
        num_experts: number of experts N; ``None`` or the number of columns; 4 for the synthetic pair.
        horizon: number of rounds T, at most the number of rows; ``None`` for all of them; 20 for the synthetic pair.
        **game: ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        AdjacencyError: if the sequences differ in more than one row, two of which are named, or not as "zero_out" says.
        ArgumentError: if an argument lies outside its range or does not fit the data.
        DataError: if a source cannot be read as a loss matrix.
    """

    examples = ({"first": [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]], "second": [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]},)

    def __init__(
        self,
        first: Any = None,
        second: Any = None,
        num_experts: int | None = None,
        horizon: int | None = None,
        **game: Any,
    ) -> None:
        if (first is None) != (second is None):
            raise ArgumentError("second: expected both sequences or neither but found one of them only")
        if first is None:
            super().__init__(4 if num_experts is None else num_experts, 20 if horizon is None else horizon, **game)
            rows = np.stack([steady_losses("swing", number, self.num_experts) for number in range(self.horizon)])
            changed = self.opposed(split_losses("half", self.num_experts))
            self._rows = np.stack([rows, rows])
            self._rows[:, (self.horizon - 1) // 2] = changed
        else:
            sides = []
            for name, source in (("first", first), ("second", second)):
                sides.append(load_losses(source))
                if not isinstance(source, (str, os.PathLike)):
                    # A copy, which the caller cannot change under our feet.
                    self._given[name] = sides[-1].copy()
            if sides[0].shape != sides[1].shape:
                raise ArgumentError(f"second: expected shape {sides[0].shape}, as first, but found {sides[1].shape}")
            size, columns = sides[0].shape
            if num_experts is not None and check_count("num_experts", num_experts) != columns:
                raise ArgumentError(f"num_experts: expected {columns}, as in the data, but found {num_experts!r}")
            if horizon is not None and check_count("horizon", horizon) > size:
                raise ArgumentError(f"horizon: expected at most {size}, as in the data, but found {horizon!r}")
            super().__init__(columns, size if horizon is None else horizon, **game)
            self._rows = np.stack(sides)[:, : self.horizon]
        self.first, self.second = self._given["first"], self._given["second"]
        self._check_rows()

    def emit(self) -> FloatArray:
        """Show the next row of both; see :meth:`Pair.emit`."""
        row: FloatArray = self._rows[:, self.round]
        return row

    def _check_rows(self) -> None:
        differing = np.flatnonzero((self._rows[0] != self._rows[1]).any(-1)) + 1
        if len(differing) > 1:
            raise AdjacencyError(
                f"second: expected one row that differs from first, but rounds {differing[0]} and {differing[1]} differ"
            )
        if len(differing) and self.adjacency is Adjacency.ZERO_OUT and self._rows[:, differing[0] - 1].any(-1).all():
            raise AdjacencyError(
                f'second: expected zeros on one side of round {differing[0]}, as adjacency="zero_out" demands'
            )
