"""Conversions between zero-concentrated, Rényi and Gaussian DP and (epsilon, delta)-DP.

Every conversion rounds towards privacy: an epsilon or delta is never below what is proved, a rho or mu that was
solved for is checked by converting it back. Deltas are handled as logarithms, so 1e-300 is as good as 1e-6.

The conversion from Rényi divergence (derived here; the same formula is Proposition 12 of Canonne, Kamath and Steinke
2020, "The Discrete Gaussian for Differential Privacy"). Let L be the privacy loss under P, alpha = 1 + beta > 1 and
E[exp(beta L)] <= exp(beta D). The mechanism is (epsilon, delta)-DP with delta = E[(1 - exp(epsilon - L))_+]
<= E[exp(beta L)] sup_u (1 - exp(epsilon - u)) exp(-beta u). The supremum is at exp(epsilon - u) = beta / (1 + beta)
and gives, for every beta > 0,

    log delta = beta (D - epsilon) - beta log(1 + 1/beta) - log(1 + beta).                                  [DERIVED]

It is valid at every order, so an order that was badly chosen costs accuracy, never privacy. For D = alpha rho, or any
D for which beta D is a cumulant function or a supremum of such, it is convex in beta; the best order is therefore
found by nested grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from dp_experts_env.spec import ArgumentError, FloatArray, check_delta, check_epsilon, check_number

RENYI_ORDERS: FloatArray = 1.0 + np.geomspace(1e-3, 1e6, 1801)
"""A grid of orders alpha > 1 for :func:`renyi_epsilon`; neighbours differ by 1.2% in alpha - 1."""
RENYI_ORDERS.setflags(write=False)

_SLACK = 4e-15  # relative rounding error granted to each term of a conversion
_TINY = 5e-324  # the least positive float: an underflowing delta is rounded up to it, never down to zero
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def search(excess: Callable[[float], float], good: float, bad: float, tolerance: float = 1e-13) -> float:
    """The end of the private side: a point next to a root of ``excess``, at which it was found to be <= 0.

    Args:
        excess: <= 0 where enough privacy is left, as at ``good``; continuous in practice, but not trusted to be.
        good: a point known to be private; the answer where nothing better was found.
        bad: a point that need not be.
        tolerance: relative accuracy of the root.
    """

    @cache
    def clipped(value: float) -> float:
        return min(max(excess(value), -1e3), 1e3)

    if clipped(bad) <= 0:
        return bad
    if clipped(good) >= 0:
        return good
    root = float(brentq(clipped, good, bad, xtol=1e-300, rtol=max(tolerance, 1e-15), maxiter=1000))
    step = tolerance
    while clipped(root) > 0:
        root = min(good, root * (1 + step)) if good > bad else max(good, root * (1 - step))
        step *= 4
    return root


def log_ratio(delta: float, target: float) -> float:
    """``log(delta / target)``: positive exactly where ``delta`` is above ``target``; -inf at 0."""
    return math.log(delta / target) if delta > 0 else -math.inf


def grow(excess: Callable[[float], float], good: float) -> float:
    """Double ``good`` until ``excess`` is positive; return that point (at most the largest float)."""
    while good < 1e300 and excess(2 * good) <= 0:
        good *= 2
    return 2 * good


def shrink(holds: Callable[[float], bool], value: float) -> float:
    """Lower ``value`` by 1e-15, 4e-15, ... of itself until ``holds`` is true: the last rounding, towards privacy."""
    step = 1e-15
    while value > 0 and not holds(value):
        value, step = max(0.0, value * (1 - step)), 4 * step
    return value


def exp_up(log_delta: float) -> float:
    """``exp`` capped at 1 and rounded up, so that a positive delta never underflows to zero."""
    if log_delta == -math.inf:
        return 0.0
    return min(1.0, max(_TINY, math.exp(min(log_delta, 0.0)) * (1 + 1e-15)))


def least_over_orders(function: Callable[[FloatArray], FloatArray]) -> float:
    """Minimum over beta > 0 of a quasi-convex function, by nested grids in log beta."""
    low, high = -700.0, 700.0
    best = math.inf
    for _ in range(11):
        grid = np.linspace(low, high, 65)
        with np.errstate(all="ignore"):
            values = function(np.exp(grid))
        values = np.where(np.isnan(values), np.inf, values)
        index = int(values.argmin())
        best = min(best, float(values[index]))
        low, high = float(grid[max(index - 1, 0)]), float(grid[min(index + 1, 64)])
    return best


def _log_delta(divergence: FloatArray, beta: FloatArray, epsilon: float) -> FloatArray:
    first, second = beta * (divergence - epsilon), beta * np.log1p(1 / beta) + np.log1p(beta)
    result: FloatArray = first - second + _SLACK * (beta * (divergence + abs(epsilon)) + second)
    return result


def _epsilon(divergence: FloatArray, beta: FloatArray, log_delta: float) -> FloatArray:
    second = np.log1p(1 / beta) + np.log1p(beta) / beta
    result: FloatArray = divergence - second - log_delta / beta
    return result + _SLACK * (divergence + second - log_delta / beta)


def epsilon_over_orders(divergence: Callable[[FloatArray], FloatArray], log_delta: float) -> float:
    """Least epsilon >= 0 at ``log_delta`` over all orders 1 + beta of a Rényi curve given as a function of beta."""
    return max(0.0, least_over_orders(lambda beta: _epsilon(divergence(beta), beta, log_delta)))


# ------------------------------------------------------------------------------------------------ zero-concentrated DP


def log_zcdp_delta(rho: float, epsilon: float) -> float:
    """Logarithm of :func:`zcdp_delta` for any real ``epsilon``; at most 0."""
    if epsilon < 0:  # for a factor g < 1: sup_S P(S) - g Q(S) = 1 - g + g sup_S (Q(S) - P(S) / g)
        return min(0.0, math.log(-math.expm1(epsilon) + math.exp(epsilon + log_zcdp_delta(rho, -epsilon))))
    if rho == 0:
        return -math.inf
    return min(0.0, least_over_orders(lambda beta: _log_delta((1 + beta) * rho, beta, epsilon)))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Least delta in [0, 1] at which rho-zCDP implies (epsilon, delta)-DP by the tight conversion [DERIVED].

    Args:
        rho: zero-concentrated DP parameter, >= 0.
        epsilon: privacy parameter, >= 0.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    rho, epsilon = check_number("rho", rho, 0.0), check_number("epsilon", epsilon, 0.0)
    return exp_up(log_zcdp_delta(rho, epsilon))


def zcdp_epsilon(rho: float, delta: float, tight: bool = True) -> float:
    """Epsilon at which rho-zCDP implies (epsilon, delta)-DP; infinite for rho > 0, delta = 0.

    Args:
        rho: zero-concentrated DP parameter, >= 0.
        delta: failure probability in [0, 1).
        tight: the conversion of this module, optimised over orders [DERIVED]; or else the closed form
            rho + 2 sqrt(rho ln(1/delta)) of Bun and Steinke 2016, Proposition 1.3 [TEXT].

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    rho, delta = check_number("rho", rho, 0.0), check_delta(delta)
    if rho == 0 or delta == 0:
        return 0.0 if rho == 0 else math.inf
    if not tight:
        return rho + 2 * math.sqrt(rho) * math.sqrt(-math.log(delta))
    return epsilon_over_orders(lambda beta: (1 + beta) * rho, math.log(delta))


def zcdp_rho(epsilon: float, delta: float, tight: bool = True) -> float:
    """Largest rho, rounded down, such that rho-zCDP implies (epsilon, delta)-DP; 0 for delta = 0.

    Args:
        epsilon: privacy parameter, > 0.
        delta: failure probability in [0, 1).
        tight: which conversion, see :func:`zcdp_epsilon`.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if delta == 0:
        return 0.0
    log_delta = math.log(delta)
    if tight:  # the same inequality solved for rho at each order; the best order is again found by nested grids
        rho = -least_over_orders(
            lambda beta: -(epsilon + np.log1p(1 / beta) + (np.log1p(beta) + log_delta) / beta) / (1 + beta)
        )
    else:  # (sqrt(l + epsilon) - sqrt(l))^2 without the cancellation
        rho = (epsilon / (math.sqrt(epsilon - log_delta) + math.sqrt(-log_delta))) ** 2
    return shrink(lambda value: zcdp_epsilon(value, delta, tight) <= epsilon, rho)


# ------------------------------------------------------------------------------------------------------------ Rényi DP


def _curve(orders: Any, divergences: Any) -> tuple[FloatArray, FloatArray]:
    alpha, curve = np.asarray(orders, dtype=np.float64), np.asarray(divergences, dtype=np.float64)
    if alpha.ndim != 1 or not alpha.size or not (alpha > 1).all():
        raise ArgumentError(f"orders: expected a non-empty sequence of numbers > 1 but found {orders!r}")
    if curve.shape != alpha.shape or not (curve >= 0).all():
        raise ArgumentError(f"divergences: expected one number >= 0 for each of {alpha.size} orders")
    return alpha - 1, curve


def renyi_delta(orders: Any, divergences: Any, epsilon: float) -> float:
    """Least delta in [0, 1] over the given orders at which a Rényi curve implies (epsilon, delta)-DP [DERIVED].

    Args:
        orders: shape ``(K,)``, numbers alpha > 1, for example :data:`RENYI_ORDERS`.
        divergences: shape ``(K,)``, bounds on the Rényi divergence of each order, >= 0; ``inf`` where there is none.
        epsilon: privacy parameter, >= 0.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    beta, curve = _curve(orders, divergences)
    epsilon = check_number("epsilon", epsilon, 0.0)
    finite = np.isfinite(curve)
    return exp_up(min(0.0, float(_log_delta(curve[finite], beta[finite], epsilon).min(initial=0.0))))


def renyi_epsilon(orders: Any, divergences: Any, delta: float) -> float:
    """Least epsilon >= 0 over the given orders at which a Rényi curve implies (epsilon, delta)-DP [DERIVED].

    Rényi divergences of the same order add up under adaptive composition, so for k steps hand in the summed curves.
    With delta = 0 the result is infinite unless the curve is zero.

    Args:
        orders: shape ``(K,)``, numbers alpha > 1, for example :data:`RENYI_ORDERS`.
        divergences: shape ``(K,)``, bounds on the Rényi divergence of each order, >= 0; ``inf`` where there is none.
        delta: failure probability in [0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    beta, curve = _curve(orders, divergences)
    delta = check_delta(delta)
    if not curve.any():
        return 0.0
    finite = np.isfinite(curve)
    if delta == 0 or not finite.any():
        return math.inf
    return max(0.0, float(_epsilon(curve[finite], beta[finite], math.log(delta)).min()))


# --------------------------------------------------------------------------------------------------------- Gaussian DP


def _mills_fall(low: float, width: float) -> float:
    """M(low) - M(low + width) of the Mills ratio M(y) = Phi(-y) / phi(y), for low >= -1."""

    def mills(y: Any) -> Any:
        return math.sqrt(math.pi / 2) * erfcx(y / math.sqrt(2))

    if width > 0.5:
        return float(mills(low) - mills(low + width))
    y = low + width * (_NODES + 1) / 2  # the difference would cancel: integrate -M'(y) = 1 - y M(y)
    slope = np.where(y > 1e3, 1 / (1 + y * y), 1 - y * mills(y))  # far out by its upper bound, M >= y / (1 + y^2)
    return float(width * (_WEIGHTS @ slope) / 2)


def _log_gaussian_delta(mu: float, epsilon: float) -> float:
    x = min(epsilon / mu, 1e150) - mu / 2
    if x < -1:
        stay, leave = float(log_ndtr(-x)), epsilon + float(log_ndtr(-x - mu))
        return stay + math.log1p(-math.exp(leave - stay))
    # exp(epsilon) phi(x + mu) = phi(x), so delta = phi(x) (M(x) - M(x + mu)): no large numbers, no cancellation
    return -x * x / 2 - math.log(2 * math.pi) / 2 + math.log(max(_mills_fall(x, mu), _TINY))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta of mu-Gaussian DP, Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).

    Dong, Roth and Su 2022, Corollary 2.13; Balle and Wang 2018, Theorem 8 [TEXT]. A Gaussian mechanism of
    sensitivity Delta and standard deviation sigma has mu = Delta / sigma exactly, and k of them have
    mu = sqrt(sum of squares), adaptively.

    Args:
        mu: Gaussian DP parameter, >= 0.
        epsilon: privacy parameter, >= 0.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    mu, epsilon = check_number("mu", mu, 0.0), check_number("epsilon", epsilon, 0.0)
    if mu == 0:
        return 0.0
    # Far out, a rounding of epsilon/mu moves the exponent by its square.
    return exp_up(_log_gaussian_delta(mu, epsilon) + 1e-13 + 1e-15 * min(epsilon / mu, 1e150) ** 2)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Least epsilon, rounded up, at which mu-Gaussian DP implies (epsilon, delta)-DP; infinite for mu > 0, delta = 0.

    Args:
        mu: Gaussian DP parameter, >= 0.
        delta: failure probability in [0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    mu, delta = check_number("mu", mu, 0.0), check_delta(delta)
    if mu == 0 or delta == 0:
        return 0.0 if mu == 0 else math.inf
    return search(lambda value: log_ratio(gaussian_delta(mu, value), delta), zcdp_epsilon(mu * mu / 2, delta), 0.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu, rounded down, such that mu-Gaussian DP implies (epsilon, delta)-DP; 0 for delta = 0.

    Args:
        epsilon: privacy parameter, > 0.
        delta: failure probability in [0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if delta == 0:
        return 0.0

    def excess(mu: float) -> float:
        return log_ratio(gaussian_delta(mu, epsilon), delta)

    start = shrink(lambda mu: excess(mu) <= 0, math.sqrt(2 * zcdp_rho(epsilon, delta)))
    return search(excess, start, grow(excess, start))


# ------------------------------------------------------------------------------------- pure DP, then zero-concentrated


def _log_mixed_delta(pure_epsilon: float, rho: float, epsilon: float) -> float:
    near = log_zcdp_delta(rho, epsilon - pure_epsilon) - math.log1p(math.exp(-pure_epsilon))
    far = log_zcdp_delta(rho, epsilon + pure_epsilon) - pure_epsilon - math.log1p(math.exp(-pure_epsilon))
    return float(np.logaddexp(near, far)) + 1e-15


def mixed_delta(pure_epsilon: float, rho: float, epsilon: float) -> float:
    """Delta at ``epsilon`` of a pure_epsilon-DP mechanism followed by a rho-zCDP one that may depend on its output.

    Derived here [DERIVED]. With Lambda the privacy loss of the first output y and D(g) the largest hockey-stick
    divergence of factor g over rho-zCDP pairs, delta <= E_y D(exp(epsilon - Lambda)), and D is convex. exp(-Lambda)
    lies in [exp(-e), exp(e)], e = pure_epsilon, and has mean exactly 1 (both laws have the same support), so the worst
    law sits on the two ends: delta <= exp(e) / (1 + exp(e)) D(exp(epsilon - e)) + 1 / (1 + exp(e)) D(exp(epsilon + e)).

    Args:
        pure_epsilon: parameter of the first, pure mechanism, >= 0.
        rho: parameter of the second mechanism, >= 0.
        epsilon: privacy parameter, >= 0.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    pure_epsilon, rho = check_number("pure_epsilon", pure_epsilon, 0.0), check_number("rho", rho, 0.0)
    return exp_up(_log_mixed_delta(pure_epsilon, rho, check_number("epsilon", epsilon, 0.0)))


def mixed_epsilon(pure_epsilon: float, rho: float, delta: float) -> float:
    """Least epsilon, rounded up, at which :func:`mixed_delta` is at most ``delta``.

    Args:
        pure_epsilon: parameter of the first, pure mechanism, >= 0.
        rho: parameter of the second mechanism, >= 0.
        delta: failure probability in [0, 1).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    pure_epsilon, delta = check_number("pure_epsilon", pure_epsilon, 0.0), check_delta(delta)
    ceiling = pure_epsilon + zcdp_epsilon(rho, delta)
    if math.isinf(ceiling) or ceiling == pure_epsilon:
        return ceiling
    return search(lambda value: log_ratio(mixed_delta(pure_epsilon, rho, value), delta), ceiling, 0.0)


def mixed_rho(pure_epsilon: float, epsilon: float, delta: float) -> float:
    """Largest rho, rounded down, such that pure_epsilon-DP followed by rho-zCDP is (epsilon, delta)-DP.

    Args:
        pure_epsilon: what the first, pure mechanism spends, in [0, epsilon).
        epsilon: privacy parameter, > 0.
        delta: failure probability in [0, 1); 0 gives 0.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    pure_epsilon = check_number("pure_epsilon", pure_epsilon, 0.0, epsilon, high_open=True)
    if delta == 0:
        return 0.0

    def excess(rho: float) -> float:
        return log_ratio(mixed_delta(pure_epsilon, rho, epsilon), delta)

    start = shrink(lambda rho: excess(rho) <= 0, zcdp_rho(epsilon - pure_epsilon, delta))
    return search(excess, start, grow(excess, start)) if start > 0 else 0.0
