"""Adaptive composition of bounded-range steps by a recursion that is an upper bound at every step.

Derived here [DERIVED]. Write V_k(x) for the largest delta at level x = epsilon of k steps whose pairs of laws may
depend on all earlier outputs. Then V_0(x) = (1 - e^x)_+ and V_k(x) = sup E_P V_{k-1}(x - loss) over one step. As a
function W of y = e^x, V is convex and falling (V_0 is; sums and suprema keep it), exp(-loss) has mean 1 under P and
lies in an interval [e^-t, e^(epsilon - t)], so the two ends are the worst case:

    V_k(x) = sup over t in [0, epsilon] of q V_{k-1}(x - t) + (1 - q) V_{k-1}(x - t + epsilon),
    q = (1 - e^(t - epsilon)) / (1 - e^-epsilon).

On a grid that is even in x, and whose spacing divides epsilon, W is replaced by its chords in y, which lie above a
convex function; below the grid by the chord to W(0) = 1, above it by its last value. With z = e^(x - t), on a piece
where W(z) and W(E z), E = e^epsilon, are straight lines a + b z and c + d E z, the supremum is over a constant minus
A z + B / z with A, B >= 0 (b <= d and a >= c by convexity), so it is taken exactly, at z = sqrt(B / A). What is
computed is therefore never below V_k.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dp_experts_env.privacy.accounting.composition import compose
from dp_experts_env.spec import FloatArray, check_count, check_delta, check_number


@lru_cache(maxsize=8)
def _curve(anchor: float, ceiling: float, epsilon: float, count: int, cells: int) -> tuple[float, FloatArray]:
    """Upper bounds on V_count at the points anchor + j epsilon / cells, j = 0, 1, ..., up to ``ceiling``."""
    spacing = epsilon / cells
    # beyond three standard deviations of the loss the extensions of the grid cost nothing that shows
    reach = min(count * epsilon, 1.5 * epsilon * math.sqrt(count) + count * epsilon * epsilon / 8 + epsilon)
    below = math.ceil((anchor + reach) / spacing)
    x = anchor + spacing * np.arange(-below, math.ceil((ceiling - anchor + reach) / spacing) + 1)
    size = x.size
    value = -np.expm1(np.minimum(x, 0.0))
    fall = np.exp(spacing * np.arange(-cells, 0))
    # pieces are single cells about t = epsilon/2, where the supremum lies, and grow away from it: a chord over a longer
    # stretch is still an upper bound, and there it is far from the supremum
    half = cells // 2
    steps = {min(half, round(step)) for step in (0, 1, 2, 3, 4, *(4 * 1.5**j for j in range(1, 20)))}
    cuts = sorted({half - step for step in steps} | {half + step for step in steps})
    end = math.exp(epsilon)
    for _ in range(count):
        padded = np.concatenate([1 + (value[0] - 1) * fall, value, np.full(cells, value[-1])])
        fallen = padded[:-cells] - padded[cells:]
        best = value
        for first, last in pairwise(cuts):  # u = z / y runs over [low, low + width]
            low = math.exp((first - cells) * spacing)
            width = math.exp((last - cells) * spacing) - low
            near, far = padded[first : first + size], padded[first + cells : first + cells + size]
            rise, far_rise = padded[last : last + size] - near, padded[last + cells : last + cells + size] - far
            gap = fallen[first : first + size]
            gap_rise = fallen[last : last + size] - gap
            drop = np.maximum(gap - gap_rise * (low / width), 0.0)
            bend = np.maximum((far_rise - end * rise) / width, 1e-200)
            u = np.clip(np.sqrt(drop / bend), low, low + width)
            part = (u - low) / width
            p = (1 - u) / (u * math.expm1(epsilon))
            best = np.maximum(best, near + part * rise - p * (gap + part * gap_rise))
        value = best
    rounded = np.minimum(1.0, value * (1 + 1e-15 * (4 * count + 4)))[below:]
    rounded.setflags(write=False)
    return spacing, rounded


def adaptive_bounded_range_delta(total: float, epsilon: float, count: int, cells: int = 32) -> float:
    """An upper bound on the delta at ``total`` of ``count`` adaptive epsilon-bounded-range steps [DERIVED].

    The recursion of this module. With 32 cells it is within about 1% of exact at delta = 1e-6. Slow: about 0.1 s for
    count = 100, 2 s for 1,000 and 2 minutes for 10,000 (time grows as count^1.5, and linearly in ``cells``).

    Args:
        total: epsilon of the whole composition, >= 0.
        epsilon: width of the range of each step, in (0, 100].
        count: number of steps, an integer >= 1.
        cells: grid points to one step's range, an even integer >= 4.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    total, epsilon = check_number("total", total, 0.0), check_number("epsilon", epsilon, 0.0, 100.0, low_open=True)
    count, cells = check_count("count", count), 2 * (check_count("cells", cells, 4) // 2)
    if total >= count * epsilon:
        return 0.0
    return float(_curve(total, total, epsilon, count, cells)[1][0])


def adaptive_bounded_range_epsilon(epsilon: float, count: int, delta: float, cells: int = 32) -> float:
    """The least epsilon found, rounded up, at which ``count`` adaptive epsilon-bounded-range steps cost ``delta``.

    See :func:`adaptive_bounded_range_delta`; one run of the recursion serves every level.

    Args:
        epsilon: width of the range of each step, in (0, 100].
        count: number of steps, an integer >= 1.
        delta: failure probability of the whole composition, in [0, 1).
        cells: grid points to one step's range, an even integer >= 4.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, delta = check_number("epsilon", epsilon, 0.0, 100.0, low_open=True), check_delta(delta)
    count, cells = check_count("count", count), 2 * (check_count("cells", cells, 4) // 2)
    ceiling = compose(epsilon, count, delta, kind="bounded_range").epsilon
    if delta == 0:
        return ceiling
    spacing, value = _curve(0.0, ceiling, epsilon, count, cells)
    where = int(np.argmax(value <= delta)) if value.min() <= delta else value.size
    if where == 0:
        return 0.0
    if where * spacing - spacing >= ceiling or where == value.size:
        return ceiling
    # between two grid points the chord in e^x lies above the convex truth: solve it for delta
    part = float((value[where - 1] - delta) / (value[where - 1] - value[where]))
    return min(ceiling, spacing * (where - 1) + math.log1p(part * math.expm1(spacing)) * (1 + 1e-12))
