"""Sigma-smooth distributions: checked, sampled by rejection, and coupled with uniform points.

A distribution is sigma-smooth if its density with respect to a base distribution u is at most 1/sigma: on [0, 1]^d the
base is uniform, on a finite domain any. Both kinds of law draw candidates from u and keep a candidate z with
probability ``sigma p(z)/u(z)``; a kept one has law p, and a candidate is kept with probability sigma.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.hypotheses.classes import as_array, as_floats
from dp_experts_env.hypotheses.projection import MASS_TOLERANCE, check_base, check_sigma
from dp_experts_env.spec import ArgumentError, FloatArray, Parameters, check_count, check_number

# Densities are compared up to rounding.
_SLACK = 1e-9
# Candidates that are drawn at once, over all samples.
_CHUNK = 2**20
# A candidate is kept with probability sigma: so many over 1/sigma without one happen with probability e^-60.
_PATIENCE = 60.0


def check_smooth(density: Any, sigma: float, *, points: Any = None, base: Any = None) -> FloatArray:
    """Return values of a density if it is that of a sigma-smooth law as far as can be seen, or name the bad point.

    Args:
        density: probabilities of a finite domain, shape ``(..., X)``; or a callable, that maps points ``(..., d)`` to
            densities ``(...)``.
        sigma: smoothness in [1e-12, 1].
        points: for a callable: where to look, shape ``(..., d)``.
        base: for probabilities: the base distribution u, shape ``(X,)``; ``None`` for the uniform one.

    Returns:
        The probabilities, or the densities at the points, float64.

    Raises:
        ArgumentError: a value that is negative, NaN or above u/sigma or 1/sigma (the message names point and value),
            probabilities that do not sum to 1, or a wrong shape.
    """
    sigma = check_sigma(sigma)
    if callable(density):
        if points is None:
            raise ArgumentError("points: expected the points at which the density is checked but found None")
        where = as_floats("points", points)
        values = as_floats("density", density(where))
        if values.shape != where.shape[:-1]:
            raise ArgumentError(
                f"density: expected shape {where.shape[:-1]} for points of shape {where.shape} but found {values.shape}"
            )
        bad = ~((values >= 0.0) & (values <= (1.0 + _SLACK) / sigma))
        if bad.any():
            first = tuple(int(index) for index in np.argwhere(bad)[0])
            raise ArgumentError(
                f"density: expected at most 1/sigma = {1 / sigma:g} and at least 0 "
                f"but found {float(values[first])!r} at the point {where[first].tolist()}"
            )
        return values
    values = as_floats("density", density)
    if values.ndim < 1 or not values.size:
        raise ArgumentError(f"density: expected shape (..., X), X >= 1, but found {values.shape}")
    caps = check_base(base, values.shape[-1]) / sigma
    bad = ~((values >= 0.0) & (values <= caps * (1.0 + _SLACK)))
    if bad.any():
        *row, point = (int(index) for index in np.argwhere(bad)[0])
        of = f" of law {tuple(row)}" if row else ""
        raise ArgumentError(
            f"density: expected a probability of at most base/sigma = {caps[point]:g} and at least 0 "
            f"but found {float(values[(*row, point)])!r} at point {point}{of}"
        )
    sums = values.sum(axis=-1)
    if (np.abs(sums - 1.0) > MASS_TOLERANCE).any():
        worst = float(sums.flat[int(np.abs(sums - 1.0).argmax())])
        raise ArgumentError(f"density: expected probabilities that sum to 1 but found {worst!r}")
    return values


def coverage(sigma: float, candidates: int) -> float:
    """Return ``1 - (1 - sigma)^k``: the probability that one of k uniform candidates is kept.

    Haghtalab, Roughgarden and Shetty 2021; Block et al. 2022, Lemma 14 [TEXT].
    """
    sigma, count = check_sigma(sigma), check_count("candidates", candidates)
    return 1.0 if sigma == 1.0 else -math.expm1(count * math.log1p(-sigma))


def candidates_for(sigma: float, failure: float) -> int:
    """Return the least number k of candidates with ``(1 - sigma)^k <= failure``, failure in (0, 1)."""
    sigma = check_sigma(sigma)
    failure = check_number("failure", failure, 0.0, 1.0, low_open=True, high_open=True)
    return 1 if sigma == 1.0 else max(1, math.ceil(math.log(failure) / math.log1p(-sigma)))


class Coupling(NamedTuple):
    """Samples of a law among uniform candidates.

    Attributes:
        samples: shape ``(*shape, d)``, or ``(*shape,)`` on a finite domain; each has the law.
        candidates: shape ``(*shape, k, d)`` or ``(*shape, k)``: independent draws from the base distribution.
        covered: bool, ``(*shape,)``: whether the sample is one of its candidates.
    """

    samples: NDArray[Any]
    candidates: NDArray[Any]
    covered: NDArray[np.bool_]


class SmoothBase(Parameters, ABC):
    """What both kinds of smooth law share: rejection sampling and the coupling, vectorised over all samples."""

    sigma: float

    @abstractmethod
    def candidates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        """Draw points of the base distribution, shape ``shape`` and then ``(d,)`` where points are vectors."""

    @abstractmethod
    def ratio(self, points: Any) -> FloatArray:
        """Return ``sigma p/u`` at points of shape ``(*shape, k)``, then ``(d,)``: in [0, 1]."""

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> Any:
        """Draw independent samples by rejection, shape ``shape``, then ``(d,)`` where points are vectors.

        A law that differs from game to game gives the last axes of ``shape`` to the games.

        Raises:
            ArgumentError: a density above 1/sigma (the message names the point), or one that never keeps a candidate
                and so cannot integrate to 1.
        """
        return self._reject(_check_rng(rng), _as_shape(shape))

    def couple(self, rng: np.random.Generator, candidates: int, shape: int | tuple[int, ...] = ()) -> Coupling:
        """Draw samples coupled with k candidates each: a uniform one of those kept, or where none is, a fresh one.

        Each sample has the law, since every kept candidate has; the candidates are independent draws from the base
        distribution; a sample is covered with probability :func:`coverage`. (Haghtalab, Roughgarden and Shetty 2021;
        Block et al. 2022, Lemma 14 [TEXT].)

        Args:
            rng: where all draws come from.
            candidates: k, an integer >= 1.
            shape: of the samples.

        Raises:
            ArgumentError: see :meth:`sample`.
        """
        shape, count = _as_shape(shape), check_count("candidates", candidates)
        drawn = self.candidates(_check_rng(rng), (*shape, count))
        kept = rng.random((*shape, count)) < self.ratio(drawn)
        # The largest of independent uniform keys is a uniform choice among the kept.
        choice = np.where(kept, rng.random((*shape, count)), -1.0).argmax(axis=-1)
        samples = _pick(drawn, choice, len(shape))
        covered = kept.any(axis=-1)
        if not covered.all():
            fresh = self._reject(rng, shape)
            samples = np.where(covered.reshape(covered.shape + (1,) * (samples.ndim - covered.ndim)), samples, fresh)
        return Coupling(samples, drawn, np.asarray(covered))

    def _reject(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        count = max(1, min(math.ceil(1.0 / self.sigma), _CHUNK // max(1, math.prod(shape))))
        samples: Any = None
        settled = np.zeros(shape, dtype=bool)
        tried = 0
        while samples is None or not settled.all():
            if tried * self.sigma > _PATIENCE:
                raise ArgumentError(
                    f"density: expected one that integrates to 1 but found none of {tried} candidates kept, "
                    f"where one in {1 / self.sigma:g} should be"
                )
            drawn = self.candidates(rng, (*shape, count))
            kept = rng.random((*shape, count)) < self.ratio(drawn)
            first = _pick(drawn, kept.argmax(axis=-1), len(shape))
            samples = first if samples is None else samples
            new = kept.any(axis=-1) & ~settled
            samples = np.where(new.reshape(new.shape + (1,) * (samples.ndim - new.ndim)), first, samples)
            settled |= new
            tried += count
        return samples


class SmoothLaw(SmoothBase):
    """A sigma-smooth distribution on a finite domain 0..X-1, or one for each game.

    Args:
        probabilities: shape ``(..., X)``, each at most base/sigma.
        sigma: smoothness in [1e-12, 1].
        base: the base distribution u, shape ``(X,)``; ``None`` for the uniform one.

    Raises:
        ArgumentError: see :func:`check_smooth`.
    """

    def __init__(self, probabilities: Any, sigma: float, base: Any = None) -> None:
        self.sigma = check_sigma(sigma)
        self.probabilities = check_smooth(probabilities, sigma, base=base)
        self.base = check_base(base, self.probabilities.shape[-1])
        held = self.base > 0.0
        ratios = self.sigma * self.probabilities / np.where(held, self.base, 1.0)
        self._ratios = np.minimum(np.where(held, ratios, 0.0), 1.0)
        self._upper = self.base.cumsum()
        # Rounding must not leave room for a point beyond the last of positive mass.
        self._upper[np.flatnonzero(held)[-1] :] = np.inf

    def candidates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        """Draw points of the base distribution; see :class:`SmoothBase`."""
        return np.searchsorted(self._upper, rng.random(shape), side="right")

    def ratio(self, points: Any) -> FloatArray:
        """Return ``sigma p/u``; see :class:`SmoothBase`."""
        games = self._ratios.shape[:-1]
        points = as_array("points", points)
        if points.ndim < 1 or points.dtype.kind not in "iu":
            raise ArgumentError(f"points: expected integers (..., k) but found {points.dtype} of shape {points.shape}")
        if points.size and (points.min() < 0 or points.max() >= len(self.base)):
            raise ArgumentError(f"points: expected 0..{len(self.base) - 1} but found {points.min()}..{points.max()}")
        if points.shape[points.ndim - 1 - len(games) : -1] != games:
            raise ArgumentError(f"shape: expected samples (..., {', '.join(map(str, games))}) as there are laws")
        return np.take_along_axis(np.broadcast_to(self._ratios, (*points.shape[:-1], len(self.base))), points, axis=-1)


class SmoothDensity(SmoothBase):
    """A sigma-smooth distribution on [0, 1]^d, or one for each game, from a density that is at most 1/sigma.

    Every density that is evaluated is checked against the bound. That the density integrates to 1 cannot be read off
    it: a candidate is kept with probability sigma times the integral, so the share kept is watched, and sampling
    fails where it differs from sigma more than chance allows (Bernstein's inequality; false alarms over all calls
    together have probability below 1e-9). A density of a smaller integral would make samples of a larger density.

    Args:
        density: callable that maps points ``(*shape, k, d)`` to densities ``(*shape, k)``, in [0, 1/sigma].
        sigma: smoothness in [1e-12, 1].
        dimension: d, an integer >= 1.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, density: Callable[[Any], Any], sigma: float, dimension: int = 1) -> None:
        if not callable(density):
            raise ArgumentError(f"density: expected a callable but found {density!r}")
        self.density = density
        self.sigma = check_sigma(sigma)
        self.dimension = check_count("dimension", dimension)
        self._seen, self._sum, self._calls = 0, 0.0, 0

    def candidates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        """Draw uniform points; see :class:`SmoothBase`."""
        return rng.random((*shape, self.dimension))

    def ratio(self, points: Any) -> FloatArray:
        """Return sigma times the density, and watch its mean; see :class:`SmoothBase`."""
        ratios = np.minimum(self.sigma * check_smooth(self.density, self.sigma, points=points), 1.0)
        self._watch(ratios)
        return ratios

    @property
    def mass(self) -> float:
        """Estimate of the density's integral from all candidates seen; NaN before the first."""
        return self._sum / (self._seen * self.sigma) if self._seen else math.nan

    def _watch(self, ratios: FloatArray) -> None:
        self._calls += 1
        self._seen += ratios.size
        self._sum += float(ratios.sum())
        # Two sides, all calls: sum over n of 2 e^-level, level = 22 + 2 ln(n + 1), is below 1e-9.
        level = 22.0 + 2.0 * math.log(self._calls + 1.0)
        # If the integral is 1, ratios in [0, 1] have mean sigma and so variance at most sigma.
        allowed = math.sqrt(2.0 * self.sigma * level / self._seen) + 2.0 * level / (3.0 * self._seen)
        if abs(self._sum / self._seen - self.sigma) > allowed:
            raise ArgumentError(
                f"density: expected one that integrates to 1 but found about {self.mass:.4g} "
                f"over {self._seen} uniform points"
            )


def _check_rng(rng: np.random.Generator) -> np.random.Generator:
    if not callable(getattr(rng, "random", None)):
        raise ArgumentError(f"rng: expected a numpy.random.Generator but found {rng!r}")
    return rng


def _as_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, tuple) else (shape,)
    return tuple(check_count("shape", size) for size in sizes)


def _pick(drawn: NDArray[Any], choice: Any, axis: int) -> Any:
    index = np.asarray(choice)[..., None]
    index = index.reshape(index.shape + (1,) * (drawn.ndim - index.ndim))
    return np.take_along_axis(drawn, index, axis=axis).squeeze(axis)
