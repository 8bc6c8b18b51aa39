"""Opponents for any class: greedy on a grid of instances, and an oblivious window that moves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_adversaries.smooth.base import SmoothAdversary, bracketed, named_class
from dp_experts_env.hypotheses import FiniteClass, HypothesisClass
from dp_experts_env.spec import ArgumentError, FloatArray, check_count, check_number

_MOST_POINTS = 2**20


class SmoothGreedy(SmoothAdversary):
    """Uniform on the sigma-fraction of a grid of instances on which the learner has most to fear.

    ## Description
    The instances are the middles of ``side``^d equal cells of [0, 1]^d, or the columns of a ``FiniteClass``; the base
    distribution is uniform on these X points. The experts are the representatives of a bracketing. The adversary
    keeps the experts without an error on its labels so far, before any is flipped. Where they disagree the label is
    free; where they agree it is theirs, so that one of them stays without an error. What the learner will say is
    estimated by the experts it named in the last ``window`` rounds: each point has a hurt, the share of those that
    would err under the worse of the labels allowed there. The law is uniform on the ceil(sigma X) points of largest
    hurt (ties to the lowest point), each of probability at most 1/(sigma X); the label of the point drawn is the
    worse one (a level one is 1), and is flipped with probability ``noise``. In round 1 nothing was named and all
    points are level.

    Without noise L* = 0: some expert never errs.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness in [1e-9, 1].
        hypotheses: "thresholds", "intervals", "boxes", "halfspaces" or "polytopes", or a ``HypothesisClass``.
        dimension: d of a class named "boxes", "halfspaces" or "polytopes", an integer >= 1.
        gamma: gap of the bracketing in (0, 1]; it decides the number of experts.
        side: cells an axis, an integer >= 1; not used for a ``FiniteClass``.
        window: number of rounds looked back, an integer >= 1.
        noise: probability in [0, 1/2] that a label is flipped.
        num_experts: number of experts N; ``None`` for all that ``gamma`` makes, or fewer, spread evenly over them.
        **game: ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        domain: the instances, shape ``(X, d)`` or ``(X,)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"hypotheses": "thresholds", "gamma": 0.2, "side": 30, "horizon": 20},
        {"hypotheses": "boxes", "dimension": 1, "gamma": 0.3, "side": 9, "window": 1, "noise": 0.2, "horizon": 20},
        {"sigma": 1.0, "gamma": 0.7, "side": 4, "horizon": 20},
    )

    def __init__(
        self,
        sigma: float = 0.1,
        hypotheses: str | HypothesisClass = "halfspaces",
        dimension: int = 2,
        gamma: float = 0.5,
        side: int = 12,
        window: int = 20,
        noise: float = 0.0,
        num_experts: int | None = None,
        **game: Any,
    ) -> None:
        chosen = named_class(hypotheses, dimension)
        self.dimension, self.side, self.window = dimension, check_count("side", side), check_count("window", window)
        if not isinstance(chosen, FiniteClass):
            if self.side**chosen.dimension > _MOST_POINTS:
                raise ArgumentError(f"side: expected at most {_MOST_POINTS} points but found {side}^{chosen.dimension}")
            cells = np.indices((self.side,) * chosen.dimension).reshape(chosen.dimension, -1).T
            self.domain = (cells + 0.5) / self.side
        self.hypotheses, self.experts = chosen, bracketed(chosen, gamma, num_experts)
        super().__init__(sigma, **game)
        self.gamma = gamma
        self.noise = check_number("noise", noise, 0.0, 0.5)
        self._values = self.hypotheses.predict(self.experts, self.domain).astype(np.float64)

    def start(self) -> None:
        """Let all experts be level."""
        super().start()
        self._best = np.ones((*self.game.shape, self.num_experts), dtype=bool)
        # A longer window than the game is the whole game.
        self._recent = self.zeros(min(self.window, self.horizon), len(self._values[0]))
        self._seen = 0
        self._plan()

    def probabilities(self) -> FloatArray:
        """Return the uniform law on the points of largest hurt; see :meth:`SmoothAdversary.probabilities`."""
        hurt, size = self._hurt, self._hurt.shape[-1]
        count = math.ceil(self.sigma * size * (1.0 - 1e-12))
        law = np.zeros(hurt.shape)
        np.put_along_axis(law, np.argsort(-hurt, axis=-1, kind="stable")[..., :count], 1.0 / count, axis=-1)
        return law

    def label(self, points: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the worse label that is allowed; see :meth:`SmoothAdversary.label`."""
        label = np.take_along_axis(self._worse, self.places[..., None], axis=-1)[..., 0]
        says = self._values.T[self.places] == 1.0
        self._best &= says == label[..., None]
        return np.asarray(label ^ (self.coins.random(self.game.shape) < self.noise))

    def see(self, choices: Any) -> None:
        """Remember what the expert named says of each point; see :meth:`Adversary.see`."""
        self._recent[..., self._seen % self._recent.shape[-2], :] = self._values[choices]
        self._seen += 1
        self._plan()

    def _plan(self) -> None:
        """Work out each point's hurt and worse label."""
        seen = min(self._seen, self.window)
        ones = self._recent.sum(axis=-2) / max(seen, 1)
        zeros = (1.0 - ones) if seen else ones
        kept = self._best.sum(axis=-1)[..., None]
        sayers = self._best.astype(np.float64) @ self._values
        # A label is allowed if an expert without errors gives it.
        if_one, if_zero = np.where(sayers > 0.0, zeros, -1.0), np.where(sayers < kept, ones, -1.0)
        self._worse = if_one >= if_zero
        self._hurt = np.maximum(if_one, if_zero)


class SmoothOblivious(SmoothAdversary):
    """An oblivious smooth adversary: a window of mass sigma moves through the instances of a hidden hypothesis.

    ## Description
    At the start of a game a target is drawn: its parameters lie between those of two random experts, so it is in the
    class but seldom among the experts. In round t the instance is uniform on the window whose first coordinate is in
    [c, c + sigma]; c goes from 0 to 1 - sigma and back, in ``period`` rounds each way. Its label is the target's,
    flipped with probability ``noise``. Nothing depends on the learner.

    The target's expected loss is ``noise * T``. The experts are the representatives of a bracketing of gap gamma. An
    expert of the target's bracket disagrees with it on mass at most gamma, so in each round with probability at most
    gamma/sigma: it loses at most (noise + gamma/sigma) T in expectation.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness in [1e-9, 1].
        hypotheses: "thresholds", "intervals", "boxes", "halfspaces" or "polytopes", or a ``HypothesisClass`` over
            [0, 1]^d.
        dimension: d of a class named "boxes", "halfspaces" or "polytopes", an integer >= 1.
        gamma: gap of the bracketing in (0, 1]; it decides the number of experts.
        period: rounds in which the window goes one way, an integer >= 1.
        noise: probability in [0, 1/2] that a label is flipped.
        num_experts: number of experts N; ``None`` for all that ``gamma`` makes, or fewer, spread evenly over them.
        **game: ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        target: parameters of the target, shape ``(..., P)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"hypotheses": "intervals", "gamma": 0.2, "horizon": 20},
        {"hypotheses": "halfspaces", "gamma": 0.7, "noise": 0.0, "period": 3, "horizon": 20},
        {"sigma": 1.0, "gamma": 1.0, "horizon": 20},
    )

    def __init__(
        self,
        sigma: float = 0.1,
        hypotheses: str | HypothesisClass = "thresholds",
        dimension: int = 2,
        gamma: float = 0.05,
        period: int = 50,
        noise: float = 0.1,
        num_experts: int | None = None,
        **game: Any,
    ) -> None:
        chosen = named_class(hypotheses, dimension)
        if isinstance(chosen, FiniteClass):
            raise ArgumentError(f"hypotheses: expected a class over [0, 1]^d but found {chosen!r}")
        self.dimension, self.period = dimension, check_count("period", period)
        self.hypotheses, self.experts = chosen, bracketed(chosen, gamma, num_experts)
        super().__init__(sigma, **game)
        self.gamma = gamma
        self.noise = check_number("noise", noise, 0.0, 0.5)

    def start(self) -> None:
        """Draw the target."""
        super().start()
        targets, self._flips = self.coins.spawn(2)
        share = targets.random((*self.game.shape, 3))
        one, other = (self.experts[(share[..., end] * self.num_experts).astype(np.int64)] for end in (0, 1))
        self.target: FloatArray = one + share[..., 2:] * (other - one)

    def density(self, points: FloatArray) -> FloatArray:
        """Return 1/sigma on the window; see :meth:`SmoothAdversary.density`."""
        way, step = divmod(self.round, self.period)
        begin = (1.0 - self.sigma) * (step if way % 2 == 0 else self.period - step) / self.period
        inside = (points[..., 0] >= begin) & (points[..., 0] <= begin + self.sigma)
        return inside / self.sigma

    def label(self, points: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the target's labels, some flipped; see :meth:`SmoothAdversary.label`."""
        targets = self.target.reshape(-1, self.target.shape[-1])
        # Each game's target on its own instance.
        says = self.hypotheses.predict(targets, points.reshape(len(targets), -1)).diagonal() == 1
        says = says.reshape(self.game.shape)
        return np.asarray(says ^ (self._flips.random(self.game.shape) < self.noise))

    def witness(self) -> FloatArray:
        """Return the target; see :meth:`SmoothAdversary.witness`."""
        return self.target
