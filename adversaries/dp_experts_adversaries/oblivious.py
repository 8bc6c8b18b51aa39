"""Oblivious opponents: the sequence is fixed in advance, but its rounds are not identically distributed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_experts_env.adversary import Adversary
from dp_experts_env.spec import FloatArray, check_count, check_flag, check_number


class Alternating(Adversary):
    """The sequence that ruins follow-the-leader: two experts swap the lead every round.

    ## Description
    Deterministic, and the same in every game. Round 1 costs expert 0 one and expert 1 a half; after it, expert 1
    loses 1 in even rounds and expert 0 in odd ones; all other experts always lose 1.

    Before round t >= 2 the leader of the cumulative losses is unique and is the expert about to lose 1: the totals
    of experts 0 and 1 are (k, k - 1/2) before round 2k and (k, k + 1/2) before round 2k + 1. So follow-the-leader
    with ties to the lowest index loses exactly T, with any other tie-breaking at least T - 1/2, while L* = T/2
    exactly for N >= 2. With N = 1 the only expert loses every other round, and regret is 0. A learner that never
    switches loses at most (T + 1)/2 if it stays with expert 0 or 1: what is punished here is switching. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    ## Version History
    v0: first version.
    """

    examples = ({"num_experts": 1, "horizon": 1}, {"num_experts": 2, "horizon": 7})

    def emit(self) -> FloatArray:
        """Charge the leader; see :meth:`Adversary.emit`."""
        losses: FloatArray = self._rounds(1)[0]
        return losses

    def emit_block(self, rounds: int) -> FloatArray:
        """Charge the leader of several rounds; see :meth:`Adversary.emit_block`."""
        return self._rounds(rounds)

    def _rounds(self, rounds: int) -> FloatArray:
        numbers = np.arange(self.round, self.round + rounds)
        losses = np.ones((rounds, self.num_experts))
        for expert in range(min(2, self.num_experts)):
            losses[:, expert] = numbers % 2 == expert
        if self.round == 0:
            # The half makes every later leader unique, so that no rule for ties escapes.
            losses[0, 1:2] = 0.5
        return losses


class Switching(Adversary):
    """Coins whose best expert changes ``switches`` times, at evenly spaced rounds.

    ## Description
    The game is cut into S + 1 stretches: round t (from 1) lies in stretch floor((t - 1)(S + 1) / T). In each one
    expert loses 1 with probability ``good`` and all others with probability ``bad``, independently. The good expert
    of the first stretch is drawn uniformly, each later one uniformly among the others, at the start of the game and
    from a stream of their own. If S >= T some stretches are empty; with one expert nothing can change.

    A comparator that changes with the good expert has expected loss ``good * T``. A fixed expert that is good in m
    of the S + 1 stretches has about ``bad * T - (bad - good) * T * m / (S + 1)``, and L* is the least of these, so a
    learner that follows the changes can have negative regret. One that switches at most K times expects to lose at
    least ``good * T + (bad - good) * floor(T / (S + 1)) * (floor((S + 1) / 2) - K)`` if N >= 2: cut the stretches
    into adjacent pairs; in a pair without a switch it names a bad expert throughout one of the two. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        switches: number S >= 0 of changes.
        good: mean loss of the good expert, in [0, bad].
        bad: mean loss of the others, in [0, 1].
        shared: ``True`` for one sequence that all games of a batch share; ``False`` for one each.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        best_experts: the good expert of each stretch, shape ``(S + 1,)`` or ``(S + 1, G)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 1, "horizon": 1},
        {"switches": 0, "num_experts": 3, "horizon": 10},
        {"switches": 4, "good": 0.0, "bad": 1.0, "shared": True, "num_experts": 3, "horizon": 23},
    )

    def __init__(
        self, switches: int = 3, good: float = 0.1, bad: float = 0.5, shared: bool = False, **game: Any
    ) -> None:
        super().__init__(**game)
        self.switches = check_count("switches", switches, least=0)
        self.bad = check_number("bad", bad, 0.0, 1.0)
        self.good = check_number("good", good, 0.0, self.bad)
        self.shared = check_flag("shared", shared)

    def start(self) -> None:
        """Draw the good experts."""
        choices, self._coins = self.np_random.spawn(2)
        shape = () if self.shared else self.game.shape
        hops = choices.integers(1, max(2, self.num_experts), size=(self.switches + 1, *shape))
        hops[0] = choices.integers(self.num_experts, size=shape)
        self.best_experts = hops.cumsum(0) % self.num_experts

    def emit(self) -> FloatArray:
        """Toss a coin for each expert; see :meth:`Adversary.emit`."""
        losses: FloatArray = self._toss(1)[0]
        return losses

    def emit_block(self, rounds: int) -> FloatArray:
        """Toss the coins of several rounds at once; see :meth:`Adversary.emit_block`."""
        return self._toss(rounds)

    def _toss(self, rounds: int) -> FloatArray:
        stretches = np.arange(self.round, self.round + rounds) * (self.switches + 1) // self.horizon
        good = self.best_experts[stretches][..., None] == np.arange(self.num_experts)
        return np.asarray(self._coins.random(good.shape) < np.where(good, self.good, self.bad), dtype=np.float64)
