"""Halfspaces and polytopes: the offset of each face is bisected along its direction, in strips of mass sigma."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_adversaries.smooth.base import SmoothAdversary, bracketed, thinned
from dp_experts_env.hypotheses import Halfspaces, Polytopes
from dp_experts_env.spec import FloatArray, check_count, check_name, check_number

# Offsets closer than this are no longer told apart, so that rounding of <w, x> cannot matter.
_CLOSE = 1e-9


def projected_cdf(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return Pr[<w, x> <= s] for x uniform on [0, 1]^d: s -> sum_v (-1)^abs(v) (s - <w, v>)_+^d / (d! prod w).

    The sum is over the corners v of the cube, for w > 0; a negative weight is mirrored, x_i to 1 - x_i.

    Args:
        weights: shape ``(..., d)``, none 0.
        values: s, shape ``(..., k)``.

    Returns:
        Shape ``(..., k)``.
    """
    size = np.abs(weights)
    shifted = values - np.minimum(weights, 0.0).sum(axis=-1)[..., None]
    dimension = weights.shape[-1]
    total = np.zeros(shifted.shape)
    for corner in itertools.product((0, 1), repeat=dimension):
        sign = -1.0 if sum(corner) % 2 else 1.0
        total += sign * np.maximum(shifted - (size @ np.array(corner, dtype=np.float64))[..., None], 0.0) ** dimension
    volume = math.factorial(dimension) * size.prod(axis=-1)
    return np.asarray(np.clip(total / volume[..., None], 0.0, 1.0), dtype=np.float64)


class _Strips(SmoothAdversary):
    """Faces <w_j, x> >= theta_j with directions drawn once a game and offsets that are bisected; see the subclasses."""

    faces = 1

    def __init__(self, sigma: float, mode: str, noise: float, **game: Any) -> None:
        super().__init__(sigma, **game)
        self.dimension = self.hypotheses.dimension
        self.mode = check_name("mode", mode, ("adaptive", "oblivious"))
        self.noise = check_number("noise", noise, 0.0, 0.5)
        self._expert_faces = self.experts.reshape(-1, self.faces, self.dimension + 1)

    @property
    def oblivious(self) -> bool:
        """Whether the mode is "oblivious"."""
        return self.mode == "oblivious"

    def start(self) -> None:
        """Draw the directions and let all offsets be consistent."""
        super().start()
        directions, aims, self._flips = self.coins.spawn(3)
        drawn = directions.random((*self.game.shape, self.faces, self.dimension, 2))
        self.directions: FloatArray = np.where(drawn[..., 0] < 0.5, -1.0, 1.0) * (0.5 + drawn[..., 1] / 2.0)
        self._low: FloatArray = np.minimum(self.directions, 0.0).sum(axis=-1)
        self._high: FloatArray = np.maximum(self.directions, 0.0).sum(axis=-1)
        self._named: Any = np.full(self.game.shape, self.num_experts // 2)
        if not self.oblivious:
            count = min(4096, max(256, math.ceil(8.0 / self.sigma)))
            self._aim = aims.random((*self.game.shape, count, self.dimension))
            self._aim_values = self.directions @ np.swapaxes(self._aim, -1, -2)
            self._aim_order = self._aim_values.argsort(axis=-1, kind="stable")
        self._choose_strip()

    def density(self, points: FloatArray) -> FloatArray:
        """Return 1/sigma on the strip; see :meth:`SmoothAdversary.density`."""
        weights = self._of_face(self.directions)
        quantiles = projected_cdf(weights, (points @ weights[..., None])[..., 0])
        begin = self._begin[..., None]
        return np.asarray((quantiles >= begin) & (quantiles <= begin + self.sigma)) / self.sigma

    def label(self, points: NDArray[Any]) -> NDArray[np.bool_]:
        """Contradict the expert named last where labels are free; see :meth:`SmoothAdversary.label`."""
        values = (self.directions @ points[..., None])[..., 0]
        low, high = self._low, self._high
        # Offsets that are not told apart any more are settled in the middle.
        open_ = high - low > _CLOSE
        middle = low + (high - low) / 2.0
        above, below = (
            np.where(open_, values >= high, values >= middle),
            np.where(open_, values <= low, values < middle),
        )
        between = ~(above | below)
        free = between.any(axis=-1) & ~below.any(axis=-1)
        coins = self._flips.random((*self.game.shape, 2))
        wanted = coins[..., 0] < 0.5 if self.oblivious else ~self._named_says(points)
        label = np.where(free, wanted, above.all(axis=-1))
        lowered = between & (free & label)[..., None]
        self._high = np.where(lowered, values, high)
        # One face that may cut the instance off does: that of the strip, else the first.
        first = (between * np.where(np.arange(self.faces) == self._face[..., None], 2, 1)).argmax(axis=-1)
        raised = (np.arange(self.faces) == first[..., None]) & (free & ~label)[..., None]
        self._low = np.where(raised, values, low)
        return np.asarray(label ^ (coins[..., 1] < self.noise))

    def emit(self) -> FloatArray:
        """Draw and label an instance of the strip; see :meth:`SmoothAdversary.emit`."""
        losses = super().emit()
        if self.oblivious:
            self._choose_strip(self.round + 1)
        return losses

    def see(self, choices: Any) -> None:
        """Remember the choice and aim at it; see :meth:`Adversary.see`."""
        self._named = choices
        if not self.oblivious:
            self._choose_strip()

    def witness(self) -> FloatArray:
        """Return the faces with their offsets in the middle; see :meth:`SmoothAdversary.witness`."""
        middle = self._low + (self._high - self._low) / 2.0
        faces = np.concatenate([self.directions, middle[..., None]], axis=-1)
        return faces.reshape(*self.game.shape, -1)

    def _of_face(self, values: Any) -> FloatArray:
        """Take the attacked face's entries of an array ``(..., faces, d)``."""
        return np.asarray(np.take_along_axis(values, self._face[..., None, None], axis=-2)[..., 0, :])

    def _named_says(self, points: NDArray[Any]) -> NDArray[np.bool_]:
        faces = self._expert_faces[self._named]
        return np.asarray(((faces[..., :-1] @ points[..., None])[..., 0] >= faces[..., -1]).all(axis=-1))

    def _choose_strip(self, number: int = 0) -> None:
        """Set the attacked face and the quantile at which the strip of mass sigma begins."""
        middle = self._low + (self._high - self._low) / 2.0
        centre = projected_cdf(self.directions, middle[..., None])[..., 0]
        if self.oblivious:
            self._face = np.full(self.game.shape, number % self.faces)
            begin = centre[..., number % self.faces] - self.sigma / 2.0
        else:
            self._face, begin = self._aimed(middle, centre)
        self._begin = np.clip(begin, 0.0, 1.0 - self.sigma)

    def _aimed(self, middle: FloatArray, centre: FloatArray) -> tuple[Any, FloatArray]:
        faces = self._expert_faces[self._named]
        says = (faces[..., :-1] @ np.swapaxes(self._aim, -1, -2) >= faces[..., -1:]).all(axis=-2)
        right = (self._aim_values >= middle[..., None]).all(axis=-2)
        inside = (self._aim_values > self._low[..., None]) & (self._aim_values < self._high[..., None])
        free = inside.any(axis=-2) & (self._aim_values > self._low[..., None]).all(axis=-2)
        wrong = np.take_along_axis(((says != right) | free)[..., None, :], self._aim_order, axis=-1)
        count = wrong.shape[-1]
        length = max(1, round(self.sigma * count))
        sums = np.concatenate([np.zeros((*wrong.shape[:-1], 1)), wrong.cumsum(axis=-1)], axis=-1)
        hits = sums[..., length:] - sums[..., :-length]
        # Of strips that hurt alike the nearest to the face's own boundary.
        begins = np.arange(hits.shape[-1]) / count
        score = hits - np.abs(begins + self.sigma / 2.0 - centre[..., None])
        best = score.reshape(*self.game.shape, -1).argmax(axis=-1)
        return np.asarray(best // len(begins)), begins[best % len(begins)]


class SmoothHalfspace(_Strips):
    """A sigma-smooth adversary of halfspaces in [0, 1]^d: it bisects the offset along a direction it has drawn.

    ## Description
    The experts are the representatives of a bracketing of the halfspaces. At the start of a game a direction w is
    drawn, each weight uniform in [1/2, 1] with a random sign. The adversary keeps an interval (a, b] of offsets such
    that ``<w, x> >= theta`` agrees with all labels so far for each theta in it. An instance with <w, x> up to a is
    labelled 0, from b on 1, and between them it is free to choose. Free labels contradict the expert named last in
    mode "adaptive" (in round 1 expert floor(N/2)), and are fair coins in mode "oblivious"; finally each label is
    flipped with probability ``noise``. Once b - a is at most 1e-9 the offset is settled.

    Instances are uniform on a strip of mass exactly sigma: those x for which the quantile of <w, x> under the uniform
    law lies in [q, q + sigma]; the quantile is a polynomial of degree d between the corners of the cube, in closed
    form. In mode "oblivious" the strip lies around the middle of (a, b]. In mode "adaptive" it lies where the expert
    named last errs most, counted on a sample of uniform points that is drawn once a game; the nearest to (a, b] of
    those that are level.

    Without noise a halfspace of the class never errs; the experts may all err.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness in [1e-9, 1].
        dimension: d, an integer in 1..6.
        gamma: gap of the bracketing in (0, 1]; it decides the number of experts.
        mode: "adaptive" or "oblivious".
        noise: probability in [0, 1/2] that a label is flipped.
        num_experts: number of experts N; ``None`` for all that ``gamma`` makes, or fewer, spread evenly over them.
        **game: ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        directions: shape ``(..., 1, d)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"dimension": 1, "gamma": 0.2, "horizon": 20},
        {"mode": "oblivious", "noise": 0.2, "gamma": 0.7, "horizon": 20},
        {"sigma": 1.0, "gamma": 1.0, "horizon": 20},
    )

    def __init__(
        self,
        sigma: float = 0.1,
        dimension: int = 2,
        gamma: float = 0.3,
        mode: str = "adaptive",
        noise: float = 0.0,
        num_experts: int | None = None,
        **game: Any,
    ) -> None:
        self.hypotheses = Halfspaces(check_count("dimension", dimension, most=6))
        self.experts = bracketed(self.hypotheses, gamma, num_experts)
        super().__init__(sigma, mode, noise, **game)
        self.gamma = gamma


class SmoothPolytope(_Strips):
    """A sigma-smooth adversary of polytopes, intersections of k halfspaces in [0, 1]^d.

    ## Description
    As :class:`SmoothHalfspace` with k faces, each with a direction of its own and an interval (a_j, b_j] of offsets;
    every polytope with offsets in these intervals agrees with all labels so far. An instance that some face cuts off
    for sure (<w_j, x> <= a_j) is labelled 0, one inside all faces for sure 1, else the adversary is free. A free label
    1 lowers all b_j to what the instance has; a free label 0 raises one a_j: that of the attacked face if it is
    undecided there, else the first undecided one's.

    The strip belongs to one face: in mode "oblivious" to each in turn, in mode "adaptive" to that where the expert
    named last errs most. The experts are a cover: bracketings of polytopes are too large to play with.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness in [1e-9, 1].
        dimension: d, an integer in 1..6.
        faces: k, an integer >= 1.
        gamma: radius of the cover in (0, 1]; it decides the number of experts.
        mode: "adaptive" or "oblivious".
        noise: probability in [0, 1/2] that a label is flipped.
        num_experts: number of experts N; ``None`` for all that ``gamma`` makes, or fewer, spread evenly over them.
        **game: ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        directions: shape ``(..., k, d)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"dimension": 1, "gamma": 0.5, "horizon": 20},
        {"mode": "oblivious", "noise": 0.2, "gamma": 1.0, "horizon": 20},
        {"dimension": 1, "faces": 3, "sigma": 1.0, "gamma": 1.0, "horizon": 20},
    )

    def __init__(
        self,
        sigma: float = 0.1,
        dimension: int = 2,
        faces: int = 2,
        gamma: float = 0.7,
        mode: str = "adaptive",
        noise: float = 0.0,
        num_experts: int | None = None,
        **game: Any,
    ) -> None:
        polytopes = Polytopes(check_count("dimension", dimension, most=6), faces)
        self.hypotheses, self.faces = polytopes, polytopes.faces
        self.experts = thinned(polytopes.cover(check_number("gamma", gamma, 0.0, 1.0, low_open=True)), num_experts)
        super().__init__(sigma, mode, noise, **game)
        self.gamma = gamma
