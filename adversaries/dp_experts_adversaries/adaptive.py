"""Adaptive opponents: they charge what they have seen the learner do, or what they foresee.

Regret against them is measured on the realised losses. Many regret bounds hold for oblivious sequences only, and a
learner that switches rarely pays here for what makes it private or cheap.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from dp_experts_env.adversary import Adversary
from dp_experts_env.learner import Learner
from dp_experts_env.registry import make_learner
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec, check_count


class PunishLast(Adversary):
    """Charges the expert that the learner named in the last round.

    ## Description
    Round 1 costs nothing; in round t >= 2 the expert named in round t - 1 loses 1 and all others 0.

    L* <= (T - 1)/N, since the N totals sum to T - 1. A learner that switches at most K times loses at least
    T - 1 - K: each of the rounds 2..T in which it repeats itself costs it 1. Its regret is then at least
    (T - 1)(1 - 1/N) - K. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    ## Version History
    v0: first version.
    """

    examples = ({"num_experts": 1, "horizon": 1}, {"num_experts": 2, "horizon": 9})

    def start(self) -> None:
        """Charge nobody in round 1."""
        self._charges = self.zeros(self.num_experts)

    def emit(self) -> FloatArray:
        """Charge the last choice; see :meth:`Adversary.emit`."""
        return self._charges

    def see(self, choices: Any) -> None:
        """Remember the choice; see :meth:`Adversary.see`."""
        self._charges = self.one_hot(choices)


class PunishUsed(Adversary):
    """Charges every expert that the learner has named before.

    ## Description
    In round t every expert named in rounds 1..t - 1 loses 1, all others 0.

    L* = 0 if an expert stays unnamed in rounds 1..T - 1, for which N >= T suffices; else L* = T - s, where s is the
    round in which the last of the experts was named first. A learner that switches at most K times names at most
    K + 1 experts and loses in every round but the first of each: at least T - 1 - K. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    ## Version History
    v0: first version.
    """

    examples = ({"num_experts": 1, "horizon": 1}, {"num_experts": 12, "horizon": 9})

    def start(self) -> None:
        """Forget which experts were named."""
        self._used = self.zeros(self.num_experts)

    def emit(self) -> FloatArray:
        """Charge the experts named before; see :meth:`Adversary.emit`."""
        return self._used

    def see(self, choices: Any) -> None:
        """Remember the choice; see :meth:`Adversary.see`."""
        self._used = np.maximum(self._used, self.one_hot(choices))


class PunishLeader(Adversary):
    """Charges the expert that the learner has named most often.

    ## Description
    In each round the expert named most often so far, ties to the lowest index, loses 1 and all others 0; round 1
    charges expert 0.

    L* <= T/N, since the N totals sum to T. A learner that switches at most K times loses at least
    T / min(N, K + 1) - (K + 1): it names at most min(N, K + 1) experts, so the highest count ends at or above
    T / min(N, K + 1). The count rises by one only when an expert of highest count is named; that costs 1 unless
    another one of highest count with a lower index is charged instead, which happens at most once in each of the
    K + 1 runs, as the expert named then has the highest count alone. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    ## Version History
    v0: first version.
    """

    examples = ({"num_experts": 1, "horizon": 1}, {"num_experts": 2, "horizon": 9})

    def start(self) -> None:
        """Forget all counts."""
        self._counts = self.zeros(self.num_experts)

    def emit(self) -> FloatArray:
        """Charge the expert of highest count; see :meth:`Adversary.emit`."""
        return self.one_hot(self._counts.argmax(-1))

    def see(self, choices: Any) -> None:
        """Count the choice; see :meth:`Adversary.see`."""
        self._counts += self.one_hot(choices)


class PunishLikely(Adversary):
    """Charges the experts that the learner named most in the last ``window`` rounds: those it is likely to name.

    ## Description
    In each round the ``num_charged`` experts named most often in the last ``window`` rounds, ties to the lowest
    index, lose 1; those not named in the window are spared, and so is everybody in round 1. The counts estimate the
    law of a learner that draws afresh each round; a window of 1 is ``PunishLast``.

    L* <= num_charged * (T - 1)/N, since the N totals sum to at most num_charged * (T - 1). A learner that switches
    at most K times loses at least T - 1 - K * (floor(window / 2) + 1): within a run, after floor(window / 2) + 1
    rounds, the expert named has more than half of the window and is charged; in the first run it is charged from
    the second round on. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        window: number of rounds looked back, an integer >= 1.
        num_charged: most experts charged in a round, an integer in 1..N.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 1, "horizon": 1},
        {"window": 1, "num_experts": 2, "horizon": 9},
        {"window": 4, "num_charged": 2, "num_experts": 5, "horizon": 12},
    )

    def __init__(self, window: int = 10, num_charged: int = 1, **game: Any) -> None:
        super().__init__(**game)
        self.window = check_count("window", window)
        self.num_charged = check_count("num_charged", num_charged)
        if self.num_charged > self.num_experts:
            raise ArgumentError(
                f"num_charged: expected at most the number of experts {self.num_experts} but found {num_charged!r}"
            )

    def start(self) -> None:
        """Empty the window."""
        self._counts = self.zeros(self.num_experts)
        # -1 names nobody: one_hot of it is zero.
        self._recent = np.full((min(self.window, self.horizon), *self.game.shape), -1)

    def emit(self) -> FloatArray:
        """Charge the experts of highest count in the window; see :meth:`Adversary.emit`."""
        size = self.num_experts
        # Distinct keys, so that ties go to the lowest index.
        keys = self._counts * size - np.arange(size)
        top = np.argpartition(keys, size - self.num_charged, axis=-1)[..., size - self.num_charged :]
        losses = self.zeros(size)
        np.put_along_axis(losses, top, 1.0, axis=-1)
        return losses * (self._counts > 0)

    def see(self, choices: Any) -> None:
        """Move the window on; see :meth:`Adversary.see`."""
        slot = self.round % len(self._recent)
        self._counts += self.one_hot(choices) - self.one_hot(self._recent[slot])
        self._recent[slot] = choices


class Foreseer(Adversary):
    """Carries its own copy of a deterministic learner and charges the expert that it is about to name.

    ## Description
    In each round the expert that the copy names loses 1 and all others 0; then the copy observes these losses. The
    adversary so plays by the rules: it commits before the learner's choice, which it merely foresees. Its losses do
    not depend on the choices that it sees, only on the copy; the copy moves on when the round is over, so it counts
    as an adaptive adversary.

    L* <= T/N, since the N totals sum to T. The foreseen learner loses T, so its regret is at least T(1 - 1/N): no
    deterministic learner has sublinear regret. For follow-the-leader with ties to the lowest index the charges go
    round, 0, 1, ..., N - 1, 0, ..., and L* = floor(T/N). Any other learner meets a sequence fixed in advance, and
    few switches do not hurt it: with the default copy, one that switches at most K times loses at most
    T/N + (K + 1)(1 - 1/N), since a run of m rounds at one expert costs at most ceil(m/N). [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        learner: the learner to foresee, by its registered name or as an instance, whose class declares
            ``deterministic = True``; the instance is copied. The default breaks ties to the lowest index.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if the learner is not deterministic or an argument lies outside its range.
        UnknownNameError: if no learner of that name is registered.

    ## Version History
    v0: first version.
    """

    examples = ({"num_experts": 1, "horizon": 1}, {"num_experts": 3, "horizon": 10})

    def __init__(self, learner: str | Learner = "follow_the_leader", **game: Any) -> None:
        super().__init__(**game)
        self.learner = learner
        self._copy = make_learner(learner) if isinstance(learner, str) else copy.deepcopy(learner)
        if not isinstance(self._copy, Learner):
            raise ArgumentError(f"learner: expected the name of a learner or a Learner but found {learner!r}")
        if not self._copy.deterministic:
            raise ArgumentError(
                f"learner: expected one whose class declares deterministic = True but found {self._copy!r}, "
                "whose next choice cannot be foreseen"
            )

    def start(self) -> None:
        """Let the copy begin a game."""
        # One copy serves all games of a batch: its losses, hence its choices, are the same in each.
        self._copy.reset(GameSpec(self.num_experts, self.horizon), self.np_random.spawn(1)[0])

    def emit(self) -> FloatArray:
        """Charge the expert that the copy names; see :meth:`Adversary.emit`."""
        self._losses = np.asarray(self._copy.act() == np.arange(self.num_experts), dtype=np.float64)
        return np.broadcast_to(self._losses, (*self.game.shape, self.num_experts))

    def see(self, choices: Any) -> None:
        """Move the copy on; see :meth:`Adversary.see`."""
        self._copy.observe(self._losses)
