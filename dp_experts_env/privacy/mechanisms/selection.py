"""The exponential mechanism in log space, and how to draw from it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dp_experts_env.privacy.mechanisms.noise import SAMPLERS, check_rng, gumbel, load_opendp
from dp_experts_env.spec import ArgumentError, FloatArray, IntArray, check_name

_TINY = float(np.finfo(np.float64).tiny)
_FEW_COLUMNS, _MANY_ROWS, _SLAB = 32, 256, 16384


def softmax(logits: ArrayLike) -> FloatArray:
    """Return ``exp(logits)`` normalised over the last axis, shape ``(..., N)``.

    The largest logit of each row is subtracted first, so nothing overflows; an expert more than 745 below it
    underflows to probability 0 exactly.

    Raises:
        ArgumentError: a row has NaN or infinity as its largest logit.
    """
    return _normalise(_below_max(np.asarray(logits, dtype=np.float64), "logits"))


def exponential_log_probabilities(
    losses: ArrayLike, learning_rate: ArrayLike, log_base: ArrayLike | None = None
) -> FloatArray:
    """Return the log-probabilities of the exponential mechanism ``p_i ~ base_i * exp(-learning_rate * loss_i)``.

    The sign is that of losses: for scores hand in ``-scores``. The answer stays in log space, so it is finite
    at any finite gap, where :func:`exponential_probabilities` underflows once ``learning_rate * gap > 745``.

    Privacy [DERIVED]: if a neighbour moves the vector of losses by ``d``, the log-ratio of the two laws is
    ``-learning_rate * d_i`` plus a constant, so it lies in an interval of length
    ``learning_rate * (max d - min d)``. For a sum of loss vectors in [0, 1]^N: ``replace`` moves it by
    ``d`` in [-1, 1]^N, bounded range ``2 * learning_rate``; ``zero_out`` by ``d`` in [0, 1]^N, bounded range
    ``learning_rate``. A bounded range r is r-DP (McSherry and Talwar 2007; Durfee and Rogers 2019) and
    r^2/8-zCDP. The base measure has to be public.

    Args:
        losses: shape ``(..., N)``, finite.
        learning_rate: >= 0, finite; a number, or an array that broadcasts against ``losses`` (shape ``(G, 1)``
            for one rate per game).
        log_base: log of the base measure, up to a constant, broadcasts against ``losses``; ``-inf`` leaves an
            expert out. Uniform if absent.

    Returns:
        Shape ``(..., N)``; each row's exponentials sum to 1.

    Raises:
        ArgumentError: a negative or infinite rate, losses that are not finite, or a row without any base measure.
    """
    logits = _logits(losses, learning_rate, log_base)
    logits -= np.log(_fold(np.add, np.exp(logits)))
    return logits


def exponential_probabilities(
    losses: ArrayLike, learning_rate: ArrayLike, log_base: ArrayLike | None = None
) -> FloatArray:
    """Return the probabilities of the exponential mechanism, at half the cost of exponentiating their logarithms.

    Arguments, privacy and errors are those of :func:`exponential_log_probabilities`.
    """
    return _normalise(_logits(losses, learning_rate, log_base))


def _logits(losses: ArrayLike, learning_rate: ArrayLike, log_base: ArrayLike | None) -> FloatArray:
    rate, values = np.asarray(learning_rate, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    low, high = _span(rate)
    if not (low >= 0.0 and high < math.inf):
        raise ArgumentError(f"learning_rate: expected a number in [0, inf) but found {learning_rate!r}")
    low, high = _span(values)
    if not (low > -math.inf and high < math.inf):
        raise ArgumentError("losses: expected finite numbers; leave an expert out by log_base = -inf")
    # the least loss is subtracted before the rate multiplies: the gap is what counts, and is nearly exact
    logits: FloatArray = rate * _below_max(-values, "losses")
    return logits if log_base is None else _below_max(logits + np.asarray(log_base, dtype=np.float64), "log_base")


def _normalise(logits: FloatArray) -> FloatArray:
    np.exp(logits, out=logits)
    logits /= _fold(np.add, logits)
    return logits


def _span(values: FloatArray) -> tuple[float, float]:
    if values.size == 1:
        return values.item(), values.item()
    return (values.min(), values.max()) if values.size else (0.0, 0.0)


def _below_max(logits: FloatArray, name: str) -> FloatArray:
    if not (logits.ndim and logits.shape[-1]):
        raise ArgumentError(f"{name}: expected shape (..., N) with N >= 1 but found {logits.shape}")
    top = _fold(np.maximum, logits)
    low, high = _span(top)
    if not (low > -math.inf and high < math.inf):
        raise ArgumentError(
            f"{name}: expected each row's largest number to be finite but found {low if low == low else high}"
        )
    # C order whatever the input's, so that one row rounds like many
    below: FloatArray = np.subtract(logits, top, order="C")
    return below


def _fold(ufunc: np.ufunc, rows: FloatArray) -> FloatArray:
    """Reduce the last axis, kept with size 1: if short, from left to right however many the rows.

    numpy pays per row for reducing a short last axis, and sums it in an order of its own: reduce columns instead.
    """
    columns = rows.shape[-1]
    folded: FloatArray
    if columns >= _FEW_COLUMNS:
        folded = ufunc.reduce(rows, axis=-1, keepdims=True)
    elif rows.size < _MANY_ROWS * columns:
        folded = ufunc.accumulate(rows, axis=-1)[..., -1:]
    else:
        folded = ufunc.reduce(np.array(rows.reshape(-1, columns).T, order="C"), axis=0).reshape(*rows.shape[:-1], 1)
    return folded


def sample_inverse_cdf(weights: ArrayLike, uniforms: ArrayLike) -> IntArray:
    """Draw one index per uniform by inverting the cumulative distribution over the last axis of ``weights``.

    The index is the first whose cumulative weight exceeds ``uniform * total``: it never has weight 0. Weights
    below about 1e-16 of their row's total are never drawn (see :func:`sample_gumbel`). Each row is summed from
    left to right, so one game equals a batch of one and a block of rounds equals its rows, bit for bit.

    Args:
        weights: probabilities, or anything proportional to them, shape ``(*rows, N)``; >= 0, each row's sum
            positive and finite.
        uniforms: numbers in [0, 1), shape ``(*rows, *games)``: weights ``(N,)`` serve any shape of uniforms;
            ``(G, N)`` take ``(G,)``; ``(R, N)`` take ``(R,)`` or ``(R, G)``; ``(R, G, N)`` take ``(R, G)``.

    Returns:
        Indices in 0..N-1, int64, of the shape of ``uniforms``.

    Raises:
        ArgumentError: shapes that do not fit, weights or uniforms out of range.
    """
    w, u = np.asarray(weights, dtype=np.float64), np.asarray(uniforms, dtype=np.float64)
    if not (w.ndim and w.shape[-1]) or u.shape[: w.ndim - 1] != w.shape[:-1]:
        raise ArgumentError(
            f"uniforms: expected a shape that starts with {w.shape[:-1]}, as weights have shape {w.shape}, "
            f"but found {u.shape}"
        )
    low, high = _span(u)
    if not (low >= 0.0 and high < 1.0):
        raise ArgumentError("uniforms: expected numbers in [0, 1)")
    if not u.size:
        return np.empty(u.shape, dtype=np.int64)
    if not w.min() >= 0.0:
        raise ArgumentError("weights: expected numbers >= 0")
    if w.ndim == 1:
        indices: IntArray = _invert_shared(w.cumsum(), u)
        return indices
    rows = w.reshape(-1, w.shape[-1])
    if u.size == len(rows):
        return _invert_rows(rows, u.reshape(-1)).reshape(u.shape)
    indices = np.empty((len(rows), u.size // len(rows)), dtype=np.int64)
    for index, cdf, uniform in zip(indices, rows.cumsum(-1), u.reshape(indices.shape), strict=True):
        index[:] = _invert_shared(cdf, uniform)
    return indices.reshape(u.shape)


def _invert_shared(cdf: FloatArray, u: FloatArray) -> IntArray:
    _check_total(cdf[-1:])
    indices: IntArray = cdf.searchsorted(u * cdf[-1], side="right")
    return indices


def _invert_rows(w: FloatArray, u: FloatArray) -> IntArray:
    indices: IntArray
    if len(w) < _MANY_ROWS:
        cdf = w.cumsum(-1)
        _check_total(cdf[:, -1])
        indices = (cdf > (u * cdf[:, -1])[:, None]).argmax(-1)
        return indices
    # as in _fold: whole columns, in the same order as a cumulative sum
    cdf = np.array(w.T, order="C")
    for i in range(1, len(cdf)):
        cdf[i] += cdf[i - 1]
    _check_total(cdf[-1])
    passed = (cdf <= u * cdf[-1]).view(np.int8)
    indices = passed.sum(0, dtype=np.int8 if len(cdf) < 128 else np.int64).astype(np.int64)
    return indices


def _check_total(totals: FloatArray) -> None:
    low, high = _span(totals)
    # a subnormal total could round up to itself when multiplied by a uniform below 1
    if not (low >= _TINY and high < math.inf):
        raise ArgumentError("weights: expected each row to have a positive, finite sum")


def sample_exponential(losses: ArrayLike, learning_rate: float, uniforms: ArrayLike) -> IntArray:
    """Draw from the exponential mechanism ``p_i ~ exp(-learning_rate * loss_i)`` in one pass.

    The index is that of :func:`sample_inverse_cdf` with the weights ``exp(learning_rate * (min loss - loss))``, bit
    for bit, however many the rows; they are weighed and inverted in slabs that stay in cache. Privacy is that of
    :func:`exponential_log_probabilities`; experts whose gap exceeds about 36 divided by the rate are hardly ever drawn,
    those beyond 745 never (floating point).

    Args:
        losses: shape ``(*rows, N)``, finite.
        learning_rate: a number >= 0.
        uniforms: numbers in [0, 1), shape ``(*rows, *games)`` as in :func:`sample_inverse_cdf`.

    Returns:
        Indices in 0..N-1, int64, of the shape of ``uniforms``.

    Raises:
        ArgumentError: a negative rate, losses that are not finite, or shapes that do not fit.
    """
    rate, values, u = float(learning_rate), np.asarray(losses, dtype=np.float64), np.asarray(uniforms, dtype=np.float64)
    if not 0.0 <= rate < math.inf:
        raise ArgumentError(f"learning_rate: expected a number in [0, inf) but found {learning_rate!r}")
    if not (values.ndim and values.shape[-1]):
        raise ArgumentError(f"losses: expected shape (..., N) with N >= 1 but found {values.shape}")
    if u.shape != values.shape[:-1] or u.size < _MANY_ROWS or values.shape[-1] >= _SLAB:
        weights = np.subtract(values.min(-1, keepdims=True), values, order="C")
        weights *= rate
        return sample_inverse_cdf(np.exp(weights, out=weights), u)
    low, high = _span(u)
    if not (low >= 0.0 and high < 1.0):
        raise ArgumentError("uniforms: expected numbers in [0, 1)")
    rows, flat = values.reshape(-1, values.shape[-1]), u.reshape(-1)
    indices = np.empty(len(rows), dtype=np.int64)
    step = max(64, _SLAB // rows.shape[1])
    for first in range(0, len(rows), step):
        slab = np.array(rows[first : first + step].T, order="C")
        np.subtract(slab.min(0), slab, out=slab)
        slab *= rate
        np.exp(slab, out=slab)
        # as in _invert_rows: whole columns, in the same order as a cumulative sum
        for i in range(1, len(slab)):
            slab[i] += slab[i - 1]
        _check_total(slab[-1])
        passed = (slab <= flat[first : first + step] * slab[-1]).view(np.int8)
        indices[first : first + step] = passed.sum(0, dtype=np.int8 if len(slab) < 128 else np.int64)
    return indices.reshape(u.shape)


def sample_outcomes(log_probabilities: ArrayLike, uniforms: ArrayLike) -> IntArray:
    """Draw like :func:`sample_inverse_cdf` from log-probabilities, which need not be normalised; -inf is never drawn.

    Raises:
        ArgumentError: see :func:`sample_inverse_cdf`.
    """
    weights = _below_max(np.asarray(log_probabilities, dtype=np.float64), "log_probabilities")
    return sample_inverse_cdf(np.exp(weights, out=weights), uniforms)


def sample_gumbel(
    log_weights: ArrayLike,
    rng: np.random.Generator | None,
    size: tuple[int, ...] | None = None,
    *,
    sampler: str = "simulation",
) -> IntArray:
    """Draw from ``p ~ exp(log_weights)`` as the largest of ``log_weights`` plus standard Gumbel noise.

    Works in log space without normalising: N draws per result, and weights far below 1e-16 of the total keep
    their probabilities. ``-inf`` is never drawn. ``sampler="secure"`` is OpenDP's noisy-max with Gumbel noise.

    Args:
        log_weights: shape ``(..., N)``.
        rng: the generator; may be None with ``sampler="secure"``.
        size: shape of the result, against which the leading axes of ``log_weights`` broadcast; theirs if absent.
        sampler: "simulation" or "secure".

    Returns:
        Indices in 0..N-1, int64.

    Raises:
        ArgumentError: a row whose largest log-weight is not finite.
        MissingExtraError: ``sampler="secure"`` without OpenDP.
    """
    logits = _below_max(np.asarray(log_weights, dtype=np.float64), "log_weights")
    shape = logits.shape[:-1] if size is None else tuple(size)
    lead = logits.shape[:-1]
    if len(lead) > len(shape) or any(a not in (1, b) for a, b in zip(lead[::-1], shape[::-1], strict=False)):
        raise ArgumentError(f"size: expected a shape to which {lead} broadcasts but found {shape}")
    if check_name("sampler", sampler, SAMPLERS) == "simulation":
        noisy = gumbel(check_rng(rng), 1.0, (*shape, logits.shape[-1]))
        noisy += logits
        largest: IntArray = noisy.argmax(-1)
        return largest
    dp = load_opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    select = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=1.0)
    rows = np.broadcast_to(logits, (*shape, logits.shape[-1])).reshape(-1, logits.shape[-1])
    kept = [np.flatnonzero(row > -math.inf) for row in rows]
    chosen = [index[select(row[index].tolist())] for row, index in zip(rows, kept, strict=True)]
    return np.array(chosen, dtype=np.int64).reshape(shape)
