"""AboveThreshold: the sparse vector technique, its privacy on three kinds of stream, and its exact law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_experts_env.privacy.mechanisms.noise import SAMPLERS, Size, check_sensitivity, draw_noise, laplace_scale
from dp_experts_env.spec import (
    ArgumentError,
    FloatArray,
    IntArray,
    ProtocolError,
    check_count,
    check_epsilon,
    check_name,
    check_number,
)

BoolArray: TypeAlias = NDArray[np.bool_]
Source: TypeAlias = np.random.Generator | ArrayLike | None
"""Where noise comes from: a generator, or the noise itself."""

STREAMS = ("general", "monotone", "suffix_constant")
"""How one neighbour may move the queries of an :class:`AboveThreshold`; see :meth:`AboveThreshold.epsilon`."""

_FAMILIES = ("laplace", "exponential")


class AboveThreshold:
    """AboveThreshold (the sparse vector technique) over a batch of games, its two noise scales explicit.

    At the start of an instance the threshold noise ``xi`` is drawn. Each query q is then answered

        above  if and only if  q + nu >= threshold + xi,

    with fresh query noise ``nu``, and the instance halts at its ``count``-th "above". Queries and thresholds are
    real numbers: without noise 37.0 is below 37.3, and a tie is above. Only the answers may be released: neither
    the noise nor a noisy query.

    Both noises are Laplace or one-sided exponential ("exponential", not centred). The privacy is that of
    :meth:`epsilon`; its proofs only shift the noise upwards, so they are the same for both families, and
    exponential noise has half the variance (and the means ``query_scale`` and ``threshold_scale``).

    Every call to :meth:`start` or :meth:`test` draws one number per game, whatever the mask.

    Args:
        threshold_scale: scale of the threshold noise, >= 0. Zero is private for no epsilon.
        query_scale: scale of the query noise, >= 0. Zero is private for no epsilon.
        count: number of "above" answers after which an instance halts.
        noise: "laplace" or "exponential".
        sampler: "simulation" or "secure", see the package.

    Raises:
        ArgumentError: an argument out of range.
    """

    def __init__(
        self,
        threshold_scale: float,
        query_scale: float,
        *,
        count: int = 1,
        noise: str = "laplace",
        sampler: str = "simulation",
    ) -> None:
        self.threshold_scale = check_number("threshold_scale", threshold_scale, 0.0)
        self.query_scale = check_number("query_scale", query_scale, 0.0)
        self.count = check_count("count", count)
        self.noise = check_name("noise", noise, _FAMILIES)
        self.sampler = check_name("sampler", sampler, SAMPLERS)
        self._offset: FloatArray | None = None
        self._left: IntArray = np.zeros((), dtype=np.int64)

    @classmethod
    def general(
        cls,
        epsilon_threshold: float,
        epsilon_query: float,
        sensitivity: float = 1.0,
        count: int = 1,
        **options: Any,
    ) -> AboveThreshold:
        """Scales ``D/epsilon_threshold`` and ``2*count*D/epsilon_query``, D the sensitivity: DP with the sum.

        Dwork and Roth 2014, in the form of Lyu, Su and Li 2017. ``options`` go to the constructor.

        Raises:
            ArgumentError: an argument out of range.
        """
        return cls._scaled(
            epsilon_threshold, epsilon_query, sensitivity, 2 * check_count("count", count), count, options
        )

    @classmethod
    def monotone(
        cls,
        epsilon_threshold: float,
        epsilon_query: float,
        sensitivity: float = 1.0,
        count: int = 1,
        **options: Any,
    ) -> AboveThreshold:
        """Scales ``D/epsilon_threshold`` and ``count*D/epsilon_query``: DP with the sum, for monotone streams.

        Raises:
            ArgumentError: an argument out of range.
        """
        return cls._scaled(epsilon_threshold, epsilon_query, sensitivity, check_count("count", count), count, options)

    @classmethod
    def suffix_constant(
        cls, epsilon_threshold: float, epsilon_query: float, sensitivity: float = 1.0, **options: Any
    ) -> AboveThreshold:
        """Scales ``D/epsilon``: DP with the *larger* epsilon, for streams that one constant shifts on a suffix.

        Raises:
            ArgumentError: an argument out of range.
        """
        return cls._scaled(epsilon_threshold, epsilon_query, sensitivity, 1, 1, options)

    @classmethod
    def _scaled(
        cls, threshold: float, query: float, sensitivity: float, factor: int, count: int, options: dict[str, Any]
    ) -> AboveThreshold:
        check_epsilon(threshold, "epsilon_threshold")
        check_epsilon(query, "epsilon_query")
        check_sensitivity(sensitivity)
        query_scale = laplace_scale(factor * sensitivity, query)
        return cls(laplace_scale(sensitivity, threshold), query_scale, count=count, **options)

    def privacy_loss_range(self, stream: str, sensitivity: float = 1.0) -> tuple[float, float]:
        """Return (down, up): for any outcome, ``ln(P'/P)`` lies in [-down, up]; see :meth:`epsilon`.

        For directed streams P is the side whose queries are lower; the other direction is the mirror image.
        """
        check_name("stream", stream, STREAMS)
        shift = Fraction(check_sensitivity(sensitivity))
        threshold, query = _ratio(shift, self.threshold_scale), _ratio(shift, self.query_scale)
        down: float | Fraction
        up: float | Fraction
        if stream == "general":
            down = up = threshold + 2 * self.count * query
        elif stream == "monotone":
            down, up = threshold + self.count * query, self.count * query
        elif self.count == 1:
            down, up = threshold, query
        else:
            raise ArgumentError(f"stream: 'suffix_constant' is proved for count=1 only but count is {self.count}")
        return float(down), float(up)

    def epsilon(self, stream: str = "general", sensitivity: float = 1.0) -> float:
        """Return the epsilon for which one instance's answers are (epsilon, 0)-DP, adaptive queries included.

        Write D for ``sensitivity``, c for ``count``, a and b for the two scales, F and S = 1 - F for the query
        noise's distribution and tail functions, f for the threshold noise's density. Given the answers, the
        outcome's probability is ``P = integral of f(xi) * product of F(tau_t + xi - q_t) over below * product of
        S(tau_t + xi - q_t) over above``. For both families ``f(x + s) >= exp(-s/a) f(x)`` and ``S(x + s) >=
        exp(-s/b) S(x)`` for s >= 0, wherever f(x) > 0.

        * ``general``: every query may move by D either way. ``D/a + 2cD/b`` [TEXT: Dwork and Roth 2014; DERIVED
          for exponential noise]. Proof: replace xi by xi + D in P'. No factor F falls, each of at most c factors S
          keeps exp(-2D/b), f keeps exp(-D/a).
        * ``monotone``: the queries move in one direction only, by at most D each. ``D/a + cD/b`` [DERIVED].
          Proof: if they rise, shift as above: S keeps exp(-D/b); if they fall, no shift is needed, F only grows
          and S keeps exp(-D/b).
        * ``suffix_constant``: all queries from some time on move by one constant s in [-D, D], such as the
          cumulative loss of one fixed expert; c = 1. ``max(D/a, D/b)``, and bounded range ``D/a + D/b``
          [DERIVED]. Proof for s > 0: P = integral of f A G S, with A the factors before the change, increasing in
          xi, G the factors F after it and S that of the stop. P' = integral of f(xi) A(xi) G(xi-s) S(xi-s) <=
          exp(s/b) P, as G increases; and, xi replaced by xi + s, P' = integral of f(xi+s) A(xi+s) G(xi) S(xi) >=
          exp(-s/a) P, as A increases. A stop before the change has P' = P, no stop at all drops S. For s < 0
          exchange the sides. It does not hold for a minimum over experts, whose shift is not one constant.

        Args:
            stream: "general", "monotone" or "suffix_constant".
            sensitivity: D, how far one query may move, >= 0.

        Raises:
            ArgumentError: ``suffix_constant`` with ``count`` > 1, for which it is not proved.
        """
        return max(self.privacy_loss_range(stream, sensitivity))

    def bounded_range(self, stream: str = "general", sensitivity: float = 1.0) -> float:
        """Return r such that one instance's answers have bounded range r, hence are r^2/8-zCDP; see :meth:`epsilon`."""
        return sum(self.privacy_loss_range(stream, sensitivity))

    def accuracy(self, queries: int, beta: float, starts: int = 1) -> float:
        """Return alpha such that with probability >= 1 - beta no answer is wrong by more than alpha.

        That is: every query answered "above" was >= its threshold - alpha, every one answered "below" was <= its
        threshold + alpha, over ``queries`` queries and ``starts`` instances in all. [DERIVED] by union bounds: all
        threshold noises lie within ``a ln(starts/x)`` and all query noises within ``b ln(queries/y)`` with
        probability 1 - x - y. Laplace noises add up, and x : y = a : b is best; of exponential ones only the larger
        counts, and x = y is used.

        Raises:
            ArgumentError: an argument out of range.
        """
        queries, starts = check_count("queries", queries), check_count("starts", starts)
        beta = check_number("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
        a, b = self.threshold_scale, self.query_scale
        if self.noise == "exponential":
            return max(a * math.log(2 * starts / beta), b * math.log(2 * queries / beta))
        parts = ((a, starts), (b, queries))
        return sum(scale * math.log(number * (a + b) / (scale * beta)) for scale, number in parts if scale)

    def draw_threshold_noise(self, rng: np.random.Generator | None, size: Size = None) -> FloatArray:
        """Draw threshold noise ahead of time, a block of rounds say, to be handed to :meth:`start`."""
        return draw_noise(self.noise, rng, self.threshold_scale, size, self.sampler)

    def draw_query_noise(self, rng: np.random.Generator | None, size: Size = None) -> FloatArray:
        """Draw query noise ahead of time, a block of rounds say, to be handed to :meth:`test`."""
        return draw_noise(self.noise, rng, self.query_scale, size, self.sampler)

    def start(self, where: tuple[int, ...] | ArrayLike, noise: Source) -> None:
        """Start a fresh instance, with fresh threshold noise, in some games.

        Args:
            where: the shape of a batch, ``()`` for one game, to start it anew in every game; or a mask of the
                games to start, the others keeping their state.
            noise: a generator; or the threshold noise, one number per game (those of unmasked games are unused).

        Raises:
            ArgumentError: a mask or noise of the wrong shape.
        """
        if isinstance(where, tuple):
            mask = np.ones(where, dtype=np.bool_)
        else:
            mask = _check_mask(where, None if self._offset is None else self._left.shape)
        fresh = self._take(noise, self.threshold_scale, mask.shape)
        if isinstance(where, tuple) or self._offset is None:
            self._offset, self._left = fresh.copy(), np.where(mask, self.count, 0)
        else:
            self._offset, self._left = np.where(mask, fresh, self._offset), np.where(mask, self.count, self._left)

    @property
    def running(self) -> BoolArray:
        """Which games have an instance that has not halted, of the batch's shape."""
        return np.asarray(self._left > 0)

    def test(
        self, queries: ArrayLike, thresholds: ArrayLike, noise: Source, where: ArrayLike | None = None
    ) -> BoolArray:
        """Answer one query per game: True where it is above, ``query + nu >= threshold + xi``.

        Args:
            queries: real numbers that broadcast to the batch's shape.
            thresholds: the same; public.
            noise: a generator; or the query noise, one number per game.
            where: mask of the games that ask; the others get False and stay as they are. All if absent.

        Raises:
            ProtocolError: a game asks that was never started, or has halted.
            ArgumentError: NaN, or an argument of the wrong shape.
        """
        if self._offset is None:
            raise ProtocolError("AboveThreshold: expected start() before the first query")
        asks = np.True_ if where is None else _check_mask(where, self._left.shape)
        idle = asks & (self._left <= 0)
        if idle.any():
            game = f" in game {np.flatnonzero(idle)[0]}" if idle.ndim else ""
            raise ProtocolError(f"AboveThreshold{game}: expected a running instance but it halted or was not started")
        nu = self._take(noise, self.query_scale, self._left.shape)
        left = np.asarray(queries, dtype=np.float64) + nu
        right = np.asarray(thresholds, dtype=np.float64) + self._offset
        above = left >= right
        if above.shape != self._left.shape:
            raise ArgumentError(f"queries: expected to broadcast to {self._left.shape} but found {above.shape}")
        if not (above | (left < right)).all():
            raise ArgumentError("queries: expected numbers but found NaN in a query, a threshold or a noise")
        above = np.asarray(above & asks)
        self._left = self._left - above
        return above

    def _take(self, noise: Source, scale: float, shape: tuple[int, ...]) -> FloatArray:
        if noise is None or isinstance(noise, np.random.Generator):
            return draw_noise(self.noise, noise, scale, shape, self.sampler)
        given = np.asarray(noise, dtype=np.float64)
        if given.shape != shape:
            raise ArgumentError(f"noise: expected a generator or shape {shape} but found shape {given.shape}")
        return given

    def log_probability(self, queries: ArrayLike, thresholds: ArrayLike, outcome: ArrayLike) -> float:
        """Return the log-probability that one instance gives these answers to these queries; ``-inf`` if impossible.

        Deterministic: Gauss-Legendre quadrature over the threshold noise, split at the kinks of the integrand,
        the query noise being integrated in closed form. The integrand is log-concave, so what lies outside the
        interval where it is within exp(-45) of its maximum is dropped. Relative error about 1e-13.

        Args:
            queries: shape ``(k,)``.
            thresholds: a number or shape ``(k,)``.
            outcome: shape ``(k,)``, True for "above"; nothing may follow the answer at which the instance halts.

        Raises:
            ArgumentError: shapes that do not fit, or answers after the halt.
        """
        above = np.asarray(outcome, dtype=np.bool_)
        lags = np.asarray(thresholds, dtype=np.float64) - np.asarray(queries, dtype=np.float64)
        if above.ndim != 1 or np.shape(queries) != above.shape or lags.shape != above.shape:
            raise ArgumentError(
                f"outcome: expected the shape of queries, (k,), but found {above.shape} and {np.shape(queries)}"
            )
        if not np.isfinite(lags).all():
            raise ArgumentError("queries: expected finite queries and thresholds")
        if above[:-1].sum() >= self.count or above.sum() > self.count:
            raise ArgumentError(f"outcome: expected at most {self.count} times above, and no answer after the last")
        a, b = self.threshold_scale, self.query_scale

        def log_density(xi: FloatArray) -> FloatArray:
            tails = _log_tail(self.noise, xi[..., None] + lags[above], b)
            answers: FloatArray = tails.sum(-1) + _log_cdf(self.noise, xi[..., None] + lags[~above], b).sum(-1)
            return answers + _log_pdf(self.noise, xi, a) if a else answers

        if a == 0:
            return float(log_density(np.zeros(())))
        one_sided = self.noise == "exponential"
        kinks = np.unique(np.append(-lags, 0.0))
        # beyond this distance from the outermost kink the log-density has fallen by more than 80: its slope is
        # at most -1/a plus what the k factors add, and they add less than 1/(2a) after the logarithmic term
        reach = 160 * a + (b * math.log1p(2 * len(lags) * a / b) if b else 0.0)
        ends = np.array([0.0 if one_sided else kinks[0] - reach, max(kinks[-1], 0.0) + reach])
        kinks = np.unique(np.concatenate([kinks[kinks >= ends[0]], ends]))
        edges = _split(kinks, np.full(len(kinks) - 1, 32))
        heights = log_density(edges)
        if heights.max() == -math.inf:
            return -math.inf
        near = np.flatnonzero(heights >= heights.max() - 45)
        low, high = edges[max(near[0] - 1, 0)], edges[min(near[-1] + 1, len(edges) - 1)]
        kinks = np.unique(np.concatenate([[low], kinks[(kinks > low) & (kinks < high)], [high]]))
        # sixteen nodes resolve about nine e-foldings of the integrand to full precision
        width = min(a, b or a) * 8 / (len(lags) + 8)
        edges = _split(kinks, np.ceil(np.diff(kinks) / width).astype(np.int64))
        nodes, weights = np.polynomial.legendre.leggauss(16)
        half = np.diff(edges)[:, None] / 2
        heights = log_density(edges[:-1, None] + half * (nodes + 1))
        top = heights.max()
        if top == -math.inf:
            return -math.inf
        return min(0.0, float(top + np.log((half * weights * np.exp(heights - top)).sum())))

    def __repr__(self) -> str:
        return (
            f"AboveThreshold(threshold_scale={self.threshold_scale!r}, query_scale={self.query_scale!r}, "
            f"count={self.count!r}, noise={self.noise!r}, sampler={self.sampler!r})"
        )


def _ratio(numerator: Fraction, scale: float) -> Fraction | float:
    if scale:
        return numerator / Fraction(scale)
    return math.inf if numerator else Fraction(0)


def _check_mask(where: ArrayLike, shape: tuple[int, ...] | None) -> BoolArray:
    mask = np.asarray(where)
    if mask.dtype != np.bool_ or (shape is not None and mask.shape != shape):
        expected = "" if shape is None else f" of shape {shape}"
        raise ArgumentError(f"where: expected a boolean mask{expected} but found {mask.dtype} of shape {mask.shape}")
    return mask


def _split(kinks: FloatArray, pieces: IntArray) -> FloatArray:
    gaps = zip(kinks[:-1], kinks[1:], pieces.tolist(), strict=True)
    parts = [np.linspace(low, high, number, endpoint=False) for low, high, number in gaps]
    return np.concatenate([*parts, kinks[-1:]])


def _log_pdf(family: str, x: FloatArray, scale: float) -> FloatArray:
    z = x / scale
    if family == "laplace":
        return np.asarray(-np.abs(z) - math.log(2 * scale))
    return np.where(z >= 0, -z - math.log(scale), -math.inf)


def _log_cdf(family: str, x: FloatArray, scale: float) -> FloatArray:
    if scale == 0:
        return np.where(x > 0, 0.0, -math.inf)
    z = x / scale
    with np.errstate(divide="ignore"):
        if family == "laplace":
            return np.where(z >= 0, np.log1p(-0.5 * np.exp(-np.abs(z))), z - math.log(2))
        return np.where(z > 0, np.log(-np.expm1(-np.maximum(z, 0.0))), -math.inf)


def _log_tail(family: str, x: FloatArray, scale: float) -> FloatArray:
    if scale == 0:
        return np.where(x > 0, -math.inf, 0.0)
    if family == "laplace":
        return _log_cdf(family, -x, scale)
    return -np.maximum(x / scale, 0.0)
