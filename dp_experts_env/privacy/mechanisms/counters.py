"""Streaming counters: prefix sums in bounded memory, exact or with correlated noise, a round or a block at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dp_experts_env.privacy.mechanisms.noise import SAMPLERS, draw_noise, round_up
from dp_experts_env.spec import ArgumentError, FloatArray, ProtocolError, check_count, check_name, check_number


class RunningSum:
    """Compensated running sums (Neumaier 1974) of arrays of any shape.

    The error does not grow with the number of terms: a plain float64 sum that has reached 2^53 no longer moves when 1
    is added to it, this one does. Values broadcast: sums of ``(N,)`` that all games share stay ``(N,)``. Rows and
    blocks give the same bits.
    """

    def __init__(self) -> None:
        self._sum: FloatArray = np.zeros(())
        self._error: FloatArray = np.zeros(())

    @property
    def total(self) -> FloatArray:
        """The sum so far, of the values' shape; a fresh array."""
        return np.asarray(self._sum + self._error)

    def add(self, values: ArrayLike) -> FloatArray:
        """Add one array of values; return the new total."""
        total: FloatArray = self.add_block(np.asarray(values, dtype=np.float64)[None])[0]
        return total

    def add_block(self, values: ArrayLike) -> FloatArray:
        """Add R rows of values, shape ``(R, ...)``; return the total after each, shape ``(R, ...)``."""
        rows = np.asarray(values, dtype=np.float64)
        rows = rows.reshape(len(rows), *(1,) * (self._sum.ndim + 1 - rows.ndim), *rows.shape[1:])
        shape = (len(rows), *np.broadcast_shapes(rows.shape[1:], self._sum.shape))
        if not len(rows):
            return np.zeros(shape)
        sums = np.empty((len(rows) + 1, *shape[1:]))
        sums[0] = self._sum
        sums[1:] = rows
        np.add.accumulate(sums, axis=0, out=sums)
        before, after = sums[:-1], sums[1:]
        # the exact rounding error of each addition (Knuth's two-sum)
        arrived = after - before
        errors: FloatArray = (before - (after - arrived)) + (rows - arrived)
        errors[0] += self._error
        np.add.accumulate(errors, axis=0, out=errors)
        self._sum, self._error = after[-1].copy(), errors[-1].copy()
        errors += after
        return errors

    def reset(self, where: ArrayLike | None = None) -> None:
        """Set the sum to zero: everywhere, or where a mask that broadcasts from the left, such as ``(G,)``, is True."""
        if where is None:
            self._sum, self._error = np.zeros(()), np.zeros(())
            return
        mask = np.asarray(where, dtype=np.bool_)
        if self._sum.shape[: mask.ndim] != mask.shape:
            raise ArgumentError(f"where: expected to start the shape {self._sum.shape} but found {mask.shape}")
        self._sum[mask], self._error[mask] = 0.0, 0.0


class Counter(ABC):
    """A private counter: the prefix sums of a stream of vectors, each with correlated noise added.

    The noise does not depend on the stream, so it can be had apart from it, a block of rounds at a time:
    ``noise_block(R)`` gives the noise of the next R prefixes and equals R blocks of one, bit for bit.

    Args:
        rng: the generator; may be None with ``sampler="secure"``.
        shape: shape of one round's vector, ``(N,)`` or ``(G, N)``: every game gets noise of its own.
        horizon: number of prefixes T.
        scale: scale of the basic noise variables, >= 0 (from :func:`laplace_scale` or :func:`gaussian_scale` and
            the class's ``l1_sensitivity`` or ``l2_sensitivity``).
        noise: "gaussian" or "laplace".
        sampler: "simulation" or "secure".

    Raises:
        ArgumentError: an argument out of range.
    """

    noises: tuple[str, ...] = ("gaussian", "laplace")

    def __init__(
        self,
        rng: np.random.Generator | None,
        shape: tuple[int, ...],
        horizon: int,
        scale: float,
        *,
        noise: str = "gaussian",
        sampler: str = "simulation",
    ) -> None:
        self.shape = tuple(check_count("shape", size) for size in shape)
        self.horizon = check_count("horizon", horizon)
        self.scale = check_number("scale", scale, 0.0)
        self.noise = check_name("noise", noise, self.noises)
        self.sampler = check_name("sampler", sampler, SAMPLERS)
        self.rounds = 0
        self._rng = rng
        self._sums = RunningSum()

    @classmethod
    @abstractmethod
    def l2_sensitivity(cls, horizon: int) -> float:
        """How far the basic variables move in L2 norm, per unit by which one round's vector moves; rounded up."""

    @classmethod
    def standard_deviations(cls, horizon: int, scale: float = 1.0, noise: str = "gaussian") -> FloatArray:
        """Return the exact standard deviation of the noise on each prefix 1..T, shape ``(T,)``."""
        factor = scale * (math.sqrt(2.0) if check_name("noise", noise, cls.noises) == "laplace" else 1.0)
        return np.asarray(factor * np.sqrt(cls._variances(check_count("horizon", horizon))))

    @classmethod
    @abstractmethod
    def _variances(cls, horizon: int) -> FloatArray:
        """Variance of the noise on each prefix, per variance of one draw."""

    def noise_block(self, rounds: int) -> FloatArray:
        """Return the noise of the next prefixes, shape ``(rounds, *shape)``; a fresh array.

        Raises:
            ProtocolError: it would go beyond the horizon.
        """
        rounds = check_count("rounds", rounds)
        if self.rounds + rounds > self.horizon:
            raise ProtocolError(
                f"rounds: expected at most {self.horizon - self.rounds} more before the horizon {self.horizon} "
                f"but found {rounds}"
            )
        block = self._next(rounds)
        self.rounds += rounds
        return block

    def add(self, values: ArrayLike) -> FloatArray:
        """Add one round's vector; return the noisy prefix sum, shape ``shape``.

        Values of shape ``(N,)`` that all games share are summed once.

        Raises:
            ProtocolError: beyond the horizon.
        """
        noisy: FloatArray = self.add_block(np.asarray(values, dtype=np.float64)[None])[0]
        return noisy

    def add_block(self, values: ArrayLike) -> FloatArray:
        """Add R rounds' vectors, shape ``(R, *shape)`` or ``(R, N)``; return the noisy prefix sums, ``(R, *shape)``.

        Raises:
            ProtocolError: beyond the horizon.
        """
        rows = np.asarray(values, dtype=np.float64)
        if not rows.ndim or rows.shape[1:] not in (self.shape, self.shape[-1:]):
            raise ArgumentError(f"values: expected shape {self.shape} or {self.shape[-1:]} but found {rows.shape[1:]}")
        noisy = self.noise_block(len(rows))
        sums = self._sums.add_block(rows)
        noisy += sums.reshape(len(rows), *(1,) * (noisy.ndim - sums.ndim), *sums.shape[1:])
        return noisy

    @abstractmethod
    def _next(self, rounds: int) -> FloatArray:
        """Noise of the next rounds, the horizon having been checked."""

    def _draw(self, count: int) -> FloatArray:
        return draw_noise(self.noise, self._rng, self.scale, (count, *self.shape), self.sampler)


class BinaryTreeCounter(Counter):
    """The binary tree counter (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011).

    A dyadic tree of partial sums over rounds 1..T, each node with noise of its own; the prefix t is the sum of the
    popcount(t) nodes of its binary expansion. A round lies in at most ``levels`` = floor(log2 T) + 1 nodes, so a
    vector that moves by D1 in L1 or D2 in L2 norm moves the nodes by ``levels * D1`` or ``sqrt(levels) * D2``; the
    rest is post-processing, and streams may be adaptive: given the past answers a node's shift is fixed. [DERIVED]

    Memory O(log T) times ``shape``; one draw of ``shape`` per round.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # the noise on the prefix (rounds >> j) << j, for each j: all that later prefixes can refer to
        self._path = np.zeros((self.levels(self.horizon), *self.shape))

    @classmethod
    def levels(cls, horizon: int) -> int:
        """Return floor(log2 T) + 1, the most nodes that one round lies in."""
        return check_count("horizon", horizon).bit_length()

    @classmethod
    def l1_sensitivity(cls, horizon: int) -> float:
        """How far the nodes move in L1 norm, per unit of one round's vector: ``levels``."""
        return float(cls.levels(horizon))

    @classmethod
    def l2_sensitivity(cls, horizon: int) -> float:
        """How far the nodes move in L2 norm, per unit of one round's vector: ``sqrt(levels)``, rounded up."""
        levels = cls.levels(horizon)
        return round_up(math.sqrt(levels), lambda root: root * root >= levels)

    @classmethod
    def node_variances(cls, horizon: int) -> FloatArray:
        """Return the variance of the estimate of a node at each height, leaves first, per variance of one draw."""
        return np.ones(cls.levels(horizon))

    @classmethod
    def _variances(cls, horizon: int) -> FloatArray:
        rounds = np.arange(1, horizon + 1)
        total = np.zeros(horizon)
        for height, variance in enumerate(cls.node_variances(horizon)):
            total += variance * (rounds >> height & 1)
        return total

    def _next(self, rounds: int) -> FloatArray:
        start, stop = self.rounds, self.rounds + rounds
        block = self._nodes(rounds)
        # prefix t is prefix t & (t - 1) plus one node: those with the most trailing zeros come first
        top = (start ^ stop).bit_length() - 1
        for height in range(top, -1, -1):
            odd = (start >> height) + 1 | 1
            first, step = (odd << height) - start - 1, 2 << height
            rows, parent = block[first::step], first - (1 << height)
            if parent < 0:
                rows[:1] += self._path[height]
                rows, parent = rows[1:], parent + step
            rows += block[parent::step][: len(rows)]
        for height in range(top + 1):
            self._path[height] = block[(stop >> height << height) - start - 1]
        return block

    def _nodes(self, rounds: int) -> FloatArray:
        """Noise of the node that each of the next rounds completes and its prefix uses."""
        return self._draw(rounds)


class HonakerCounter(BinaryTreeCounter):
    """The binary tree counter with Honaker's (2015) bottom-up estimates of each node.

    A node's own noisy sum and the sum of its children's estimates are averaged with the weights of least variance,
    so that a node of height k (a leaf has k = 1) has variance 1/(2(1 - 2^-k)) of one draw's. Privacy is the tree's:
    the estimates are post-processing of the same noisy nodes. [RECALLED; the variance DERIVED: with v_1 = 1,
    1/v_k = 1 + 1/(2 v_{k-1}) has this solution.]

    Memory O(log T) times ``shape``; less than two draws of ``shape`` per round on average, as many as nodes complete.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # how much each height trusts its own draw, and the last completed node's estimate there
        self._weights = self.node_variances(self.horizon)
        self._last = np.zeros((self.levels(self.horizon), *self.shape))

    @classmethod
    def node_variances(cls, horizon: int) -> FloatArray:
        """Return 1/(2(1 - 2^-k)) for heights k = 1, 2, ..."""
        return np.asarray(0.5 / -np.expm1(-math.log(2) * np.arange(1, cls.levels(horizon) + 1)))

    def _nodes(self, rounds: int) -> FloatArray:
        start, stop = self.rounds, self.rounds + rounds
        rows = np.arange(start, stop + 1)
        completed = np.add.reduce([rows >> height for height in range(stop.bit_length())])
        first = completed[:-1] - completed[0]
        draws = self._draw(int(completed[-1] - completed[0]))
        block: FloatArray = draws[first]
        estimates = block
        for height in range(1, (start ^ stop).bit_length()):
            children = np.concatenate([self._last[height - 1, None], estimates])
            self._last[height - 1] = children[-1]
            begin = (start >> height) + 1
            offset = (begin << height) - start - 1
            # children[i] ends at ((start >> (height-1)) + i) << (height-1); pairs end at multiples of 2^height
            right = (begin << 1) - (start >> height - 1)
            rights = children[right::2]
            pairs = children[right - 1 :: 2][: len(rights)] + rights
            weight = self._weights[height]
            estimates = weight * draws[first[offset :: 1 << height] + height] + (1 - weight) * pairs
            block[offset :: 1 << height] = estimates
        self._last[(start ^ stop).bit_length() - 1] = estimates[-1]
        return block


def toeplitz_coefficients(n: int) -> FloatArray:
    """Return f_0..f_{n-1}, the Taylor coefficients of (1-x)^(-1/2): ``f_k = C(2k, k) / 4^k``, shape ``(n,)``.

    The lower-triangular Toeplitz matrix F of f squares to the prefix-sum matrix (Fichtenberger, Henzinger and
    Upadhyay 2023; Henzinger, Upadhyay and Upadhyay 2023).
    """
    k = np.arange(1, check_count("n", n))
    return np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))


def toeplitz_gamma(n: int) -> float:
    """Return ``sum of f_k^2 over k < n``, the largest squared column norm of F, rounded upwards.

    3.265, 3.998, 4.731 for n = 10^3, 10^4, 10^5; about ``ln(n)/pi + 1.066``. The value is the float sum times
    ``1 + (4n + 2) 2^-53``, which covers its rounding errors: each coefficient carries at most 2k of them.
    """
    total = math.fsum(np.square(toeplitz_coefficients(n)))
    return math.nextafter(total * (1 + (4 * n + 2) * 2.0**-53), math.inf)


class SquareRootToeplitzCounter(Counter):
    """Prefix sums by the square-root Toeplitz factorisation: the noise on prefix t is ``sum_{k<=t} f_{t-k} g_k``.

    With A = F F the prefix-sum matrix and g i.i.d. Gaussian, ``A x + F g = F (F x + g)``: post-processing of F x + g,
    whose mean moves by ``sqrt(gamma_T) * D2`` when one round's vector moves by D2 in L2 norm. Streams may be
    adaptive: after the changed round t' the shift f_{t-t'} d does not depend on later history, so the log-likelihood
    ratio of the two sides is exactly N(m^2/2, m^2) with m at most ``sqrt(gamma_T) * D2 / scale``. [DERIVED; the
    general statement is Denisov et al. 2022]

    Streaming and exact to rounding: rows come in blocks of B = 32. Lags within the current and the previous block
    use f itself; longer ones use ``f_k = (2/pi) * integral over v > 0 of exp(-(k + 1/2) v^2) v / sqrt(1 - exp(-v^2))``,
    whose trapezoidal sum after v = sinh(s)/sqrt(T) converges geometrically: with about 30 to 60 terms the
    coefficients agree to 1e-12, relatively, and each term is an exponential in k, so the far past is
    kept in one state per term. Memory is about (3 B + 60) times ``shape`` in doubles, whatever the horizon, and the
    time per number about 200 multiplications. Noise is drawn B rounds ahead. Blocks of any size give the same bits;
    across machines, up to the rounding of the linear-algebra library.
    """

    noises = ("gaussian",)
    block_rounds = 32

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        size = self.block_rounds
        f = np.concatenate([np.zeros(size), toeplitz_coefficients(2 * size)])
        lag = np.arange(size)[:, None] - np.arange(-size, size)
        self._near = f[lag + size]
        rates, weights = _exponential_sum(self.horizon, size)
        ages = np.arange(size)
        self._far = weights * np.exp(-np.outer(ages, rates))
        self._decay = np.exp(-size * rates)[:, None]
        self._push = np.exp(-np.outer(rates, 2 * size - ages))
        self._states: FloatArray = np.zeros((len(rates), math.prod(self.shape)))
        self._draws = np.zeros((2 * size, math.prod(self.shape)))
        self._ready = np.zeros((0, *self.shape))
        self._drawn = 0

    @classmethod
    def l2_sensitivity(cls, horizon: int) -> float:
        """Return ``sqrt(gamma_T)``, rounded up."""
        gamma = Fraction(toeplitz_gamma(horizon))
        return round_up(math.sqrt(gamma), lambda root: root * root >= gamma)

    @classmethod
    def _variances(cls, horizon: int) -> FloatArray:
        return np.cumsum(np.square(toeplitz_coefficients(horizon)))

    def _next(self, rounds: int) -> FloatArray:
        parts = []
        while rounds:
            if not len(self._ready):
                self._ready = self._fill()
            parts.append(self._ready[:rounds].copy())
            self._ready = self._ready[rounds:]
            rounds -= len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _fill(self) -> FloatArray:
        size = self.block_rounds
        rows = min(size, self.horizon - self._drawn)
        self._drawn += rows
        # the block before the previous one moves from the window into the states
        self._states = self._decay * self._states + self._push @ self._draws[:size]
        self._draws[:size] = self._draws[size:]
        self._draws[size : size + rows] = self._draw(rows).reshape(rows, -1)
        noise: FloatArray = self._near @ self._draws
        noise += self._far @ self._states
        noise = noise[:rows].reshape(rows, *self.shape)
        return noise


def _exponential_sum(horizon: int, least: int) -> tuple[FloatArray, FloatArray]:
    """Rates y and weights w with ``f_k = sum w exp(-k y)`` to rounding for least <= k < horizon."""
    step = 0.14
    last = math.asinh(math.sqrt(38.0 * max(horizon / least, 1.0)))
    s = step * np.arange(math.ceil(last / step) + 1)
    v = np.sinh(s) / math.sqrt(horizon)
    rates = v * v
    ratio = np.ones_like(v)
    ratio[1:] = v[1:] / np.sqrt(-np.expm1(-rates[1:]))
    weights = (2 / math.pi) * step * np.cosh(s) / math.sqrt(horizon) * ratio * np.exp(-rates / 2)
    weights[0] /= 2
    return rates, weights
