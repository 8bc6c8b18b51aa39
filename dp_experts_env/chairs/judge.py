"""The judge's chair: you play the privacy game against a fixed learner and say which of two worlds it was in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dp_experts_env.chairs.chair import Chair, check_indices
from dp_experts_env.chairs.losses import lead, loss_vectors, one_hot
from dp_experts_env.learner import Learner
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    GameSpec,
    IntArray,
    ProtocolError,
    check_adjacency,
    check_count,
    check_number,
)

MOST_EPSILON = 700.0
"""Largest epsilon of a judge: e^epsilon is a float64."""


class JudgeView:
    """What a judge has seen of a privacy game, as numbers in [0, 1]; nothing of it depends on the hidden bit.

    Args:
        spec: the game, or a batch of games.

    Attributes:
        challenge: the round 1..T - 1 in which the sides differed, 0 while there was none; shape ``()`` or ``(G,)``.
        round: number of rounds seen.
    """

    def __init__(self, spec: GameSpec) -> None:
        if not isinstance(spec, GameSpec):
            raise ArgumentError(f"spec: expected a GameSpec but found {spec!r}")
        self.spec = spec
        self.round = 0
        self.challenge: IntArray = np.zeros(spec.shape, dtype=np.int64)
        zeros = np.zeros((*spec.shape, spec.num_experts))
        self._total: FloatArray = zeros
        self._difference: FloatArray = zeros
        self._at_challenge: FloatArray = zeros
        self._counts: FloatArray = zeros
        self._last: FloatArray = zeros

    @staticmethod
    def space(num_experts: int) -> gym.spaces.Box:
        """Return the observation space, ``Box(0, 1, (5 N + 2,), float32)``."""
        return gym.spaces.Box(0.0, 1.0, (5 * check_count("num_experts", num_experts) + 2,), np.float32)

    def add(self, sides: FloatArray, choices: Any) -> None:
        """See one round. The losses of round T reach nobody and are ignored.

        Args:
            sides: both sides, ``(2, N)``, or ``(2, G, N)``, or ``(2, N)`` where all games share them.
            choices: an expert id, or ``(G,)``.
        """
        self.round += 1
        self._last = one_hot(choices, self.spec.num_experts)
        self._counts = self._counts + self._last
        if self.round == self.spec.horizon:
            return
        self._total = self._total + sides[0]
        now = (sides[0] != sides[1]).any(-1) & (self.challenge == 0)
        if now.any():
            self.challenge = np.where(now, self.round, self.challenge)
            now = now[..., None]
            self._difference = np.where(now, sides[1] - sides[0], self._difference)
            self._at_challenge = np.where(now, self._last, self._at_challenge)
            # Choices up to this round are alike in both worlds.
            self._counts = np.where(now, 0.0, self._counts)

    def observation(self) -> NDArray[np.float32]:
        """Return what :class:`JudgeEnv` shows, ``(5 N + 2,)`` or ``(G, 5 N + 2)``, a fresh array."""
        column = (*self.spec.shape, 1)
        parts = [
            self._last,
            lead(self._total),
            (1.0 + self._difference) / 2.0,
            self._at_challenge,
            self._counts / np.maximum(1, self.round - self.challenge)[..., None],
            np.reshape(self.challenge > 0, column),
            np.full(column, self.round / self.spec.horizon),
        ]
        return np.concatenate(parts, axis=-1, dtype=np.float32)


class JudgeEnv(Chair):
    """The judge's chair in the privacy game against a fixed learner.

    ## Description
    A bit b is drawn with a fair, hidden coin. In each of the rounds 1..T - 1 you commit two sides, a pair of loss
    vectors, while the learner names an expert, both from the past alone; then the learner sees side b and you see its
    choice. The first round in which the sides differ is the challenge; afterwards side 1 is a copy of side 0, whatever
    you name, so that every sequence of actions is legal. The losses of round T reach nobody: you see the learner's
    choice of that round first, and use the round to guess.

    ## Action Space
    ``MultiDiscrete([M, M, 2])``: the numbers in :attr:`loss_vectors` of side 0 and of side 1, and the guess. The sides
    are read in rounds 1..T - 1, the guess in round T.

    ## Observation Space
    ``Box(0, 1, (5 N + 2,), float32)``: the last choice as a one-hot vector (zeros before the first); min(1, L - min L)
    of the experts' losses L on side 0 so far; the difference d of side 1 from side 0 in the challenge as (1 + d)/2 (1/2
    before it); the choice of that round (zeros before it); the share of the rounds since the challenge, or since the
    beginning before it, in which each expert was named; 1 from the challenge on, 0 before it; and the fraction of the
    learner's T choices that has been seen, which is 1 when the guess is due.

    ## Rewards
    In round T for guess 1: +1 if b = 1 and -e^epsilon if b = 0; a Python float. Else 0.

    **What the best return means** [DERIVED]. Let P_b be the law under bit b of what a judge has seen when it guesses,
    its own coins included. If it guesses 1 on the event A, its expected return is

        1/2 P_1(A) - 1/2 e^epsilon P_0(A),

    since b is fair; for a guess that flips a coin A is an event of the view with that coin. Whatever it committed, this
    is largest for A = {P_1 > e^epsilon P_0}: half of the sum over all views v of (P_1(v) - e^epsilon P_0(v))_+, the
    hockey-stick divergence. So the best expected return of all is half the largest such divergence that an adaptive
    adversary reaches with these loss vectors, and that is half the smallest delta for which the learner is (epsilon,
    delta)-private against them: the definition asks for it in both directions, but a strategy with its sides exchanged
    has the worlds exchanged. Twice a judge's expected return is a lower bound on delta(epsilon); against an (epsilon,
    delta)-private learner none has an expected return above delta/2, and guessing 0 always has return 0.

    ## Starting State
    Nothing committed; the observation is zero but for the difference. With T = 1 the learner's only choice is shown.

    ## Episode End
    Round T ends the game with ``terminated=True``.

    ## Information
    The same keys at every reset and step: ``choice``, the last one seen (-1 before the first), ``challenge``, the round
    1..T - 1 of it (0 while there was none), ``bit``, -1 until the guess has been made, and ``round`` (rounds played).

    The bit comes from a stream of its own, a function of the seed as all randomness is; nothing that ``reset``,
    ``step``, ``render`` or ``repr`` shows before the guess depends on it but through the learner's choices.

    ## Arguments
    Args:
        learner: the learner, by its registered name or as an instance, which is copied.
        learner_parameters: its constructor keywords, if it is named.
        losses: one or several of :data:`~dp_experts_env.chairs.LOSS_SETS`; see
            :func:`~dp_experts_env.chairs.loss_vectors`.
        epsilon: of the divergence, in [0, 700]. At the epsilon that a learner claims, an expected return above half
            the delta that it claims refutes it; at 0 the best return is half the total variation distance.
        adjacency: "replace", or "zero_out": then sides of which neither is all zeros do not differ, side 1 being a copy
            of side 0, and "zeros" must be among the vectors.
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1; the learner is told so.
        num_games: ``None``, or a number of games G >= 1; see :class:`~dp_experts_env.chairs.Chair`.
        render_mode: ``None`` or "ansi", one line of text.

    Raises:
        ArgumentError: if an argument lies outside its range.
        UnknownNameError: if no learner, set of loss vectors or adjacency of that name is known.

    Attributes:
        loss_vectors: the loss vectors to pick from, ``(M, N)``.
        epsilon: as given.
        adjacency: the :class:`~dp_experts_env.Adjacency`.

    ## Version History
    v0: first version.
    """

    loss_vectors: FloatArray
    _seen: JudgeView
    _bits: IntArray

    def __init__(
        self,
        learner: str | Learner = "private_hedge",
        learner_parameters: Mapping[str, Any] | None = None,
        losses: str | Iterable[str] = ("zeros", "one_hot", "all_but_one"),
        epsilon: float = 1.0,
        adjacency: str | Adjacency = "replace",
        num_experts: int = 4,
        horizon: int = 20,
        num_games: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(learner, learner_parameters, num_experts, horizon, num_games, render_mode)
        self.loss_vectors = loss_vectors(losses, self.num_experts)
        self.epsilon = check_number("epsilon", epsilon, 0.0, MOST_EPSILON)
        self.adjacency = check_adjacency(adjacency)
        self._zero: NDArray[np.bool_] = np.asarray(~self.loss_vectors.any(-1))
        if self.adjacency is Adjacency.ZERO_OUT and not self._zero.any():
            raise ArgumentError(f'losses: expected "zeros" among them with adjacency="zero_out" but found {losses!r}')
        count = len(self.loss_vectors)
        self.action_space = gym.spaces.MultiDiscrete([count, count, 2])
        self.observation_space = JudgeView.space(self.num_experts)

    def reveal(self) -> int:
        """Return the bit, once the game is over.

        Raises:
            ProtocolError: before the guess has been made, or for a batch.
        """
        if self.game.shape or not self._started or self.round < self.horizon:
            raise ProtocolError(
                f"JudgeEnv.reveal: the bit is hidden until round {self.horizon} has been played; {self.round} were"
            )
        return int(self._bits)

    def sides(self, actions: Any, challenge: Any) -> FloatArray:
        """Return the two sides that actions mean.

        Args:
            actions: integers as in the action space, ``(3,)`` or ``(G, 3)``; the guess is ignored.
            challenge: the round of the challenge so far, 0 for none, shape ``()`` or ``(G,)``.

        Returns:
            Shape ``(2, N)`` or ``(2, G, N)``.

        Raises:
            ArgumentError: if the actions are none of the action space.
        """
        count = len(self.loss_vectors)
        shape = np.shape(challenge) if isinstance(challenge, np.ndarray) else ()
        pick = check_indices(actions, [count, count, 2], shape, self.round + 1, "actions")
        first, second = pick[..., 0], pick[..., 1]
        differ = np.asarray(challenge) == 0
        if self.adjacency is Adjacency.ZERO_OUT:
            differ = differ & (self._zero[first] | self._zero[second])
        return np.asarray(self.loss_vectors[np.stack([first, np.where(differ, second, first)])])

    def _start(self, rng: np.random.Generator) -> None:
        assert self._player is not None
        self._seen = JudgeView(self.game)
        self._bits = np.array(rng.integers(2, size=self.game.shape))
        # What it names next depends on the past alone, so that it may as well be asked now; it is shown when due.
        self._choices: Any = self._player.act()
        self._shown_choices: NDArray[np.int64] = np.full(self.game.shape, -1)
        self._show_last()

    def _read(self, action: Any, shape: tuple[int, ...], round: int, source: str) -> NDArray[Any]:
        count = len(self.loss_vectors)
        return check_indices(action, [count, count, 2], shape, round, source)

    def _play(self, actions: NDArray[Any]) -> FloatArray:
        assert self._player is not None
        if self.round == self.horizon - 1:
            stake = np.where(self._bits == 1, 1.0, -math.exp(self.epsilon))
            return np.where(actions[..., 2] == 1, stake, 0.0)
        sides = self.sides(actions, self._seen.challenge)
        self._player.observe(np.where(self._bits[..., None] == 1, sides[1], sides[0]))
        self._see(sides)
        self._choices = self._player.act()
        self._show_last()
        return np.zeros(self.game.shape)

    def _see(self, sides: FloatArray) -> None:
        self._seen.add(sides, self._choices)
        self._shown_choices = np.array(self._choices)

    def _show_last(self) -> None:
        if self._seen.round == self.horizon - 1:
            self._see(np.zeros((2, *self.game.shape, self.num_experts)))

    def _view(self) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        over = self.round >= self.horizon
        return self._seen.observation(), {
            "choice": self._shown_choices.copy(),
            "challenge": self._seen.challenge.copy(),
            "bit": self._bits.copy() if over else np.full(self.game.shape, -1),
            "round": np.full(self.game.shape, self.round),
        }

    def _line(self, game: tuple[int, ...]) -> str:
        challenge = int(self._seen.challenge[game])
        where = f"challenge in round {challenge}" if challenge else "no challenge yet"
        return f"round {self.round}/{self.horizon}  {where}  last choice {int(self._shown_choices[game])}"
