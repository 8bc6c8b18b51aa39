"""Additive noise: the scales that a privacy parameter needs, and the draws."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from dp_experts_env.spec import ArgumentError, FloatArray, MissingExtraError, check_epsilon, check_name, check_number

Size: TypeAlias = int | tuple[int, ...] | None

SAMPLERS = ("simulation", "secure")


def laplace_scale(l1_sensitivity: float, epsilon: float) -> float:
    """Return the least float scale b of Laplace noise that is epsilon-DP: ``l1_sensitivity / b <= epsilon`` exactly.

    Dwork, McSherry, Nissim and Smith 2006. A loss vector in [0, 1]^N that is replaced or zeroed moves by at
    most N in L1 norm.

    Raises:
        ArgumentError: a negative sensitivity, or epsilon <= 0.
    """
    sensitivity, target = check_sensitivity(l1_sensitivity), Fraction(check_epsilon(epsilon))
    return round_up(sensitivity / epsilon, lambda b: b * target >= Fraction(sensitivity))


def gaussian_scale(l2_sensitivity: float, mu: float) -> float:
    """Return the least float standard deviation s that is mu-GDP: ``l2_sensitivity / s <= mu`` exactly.

    Dong, Roth and Su 2022: shifting N(0, s^2 I) by at most ``l2_sensitivity`` in L2 norm is exactly mu-Gaussian
    DP. A loss vector in [0, 1]^N that is replaced or zeroed moves by at most sqrt(N).

    Raises:
        ArgumentError: a negative sensitivity, or mu <= 0.
    """
    sensitivity, target = check_sensitivity(l2_sensitivity), Fraction(check_epsilon(mu, "mu"))
    return round_up(sensitivity / mu, lambda s: s * target >= Fraction(sensitivity))


def gaussian_zcdp_scale(l2_sensitivity: float, rho: float) -> float:
    """Return the least float standard deviation s that is rho-zCDP: ``l2_sensitivity^2 / (2 s^2) <= rho`` exactly.

    Bun and Steinke 2016.

    Raises:
        ArgumentError: a negative sensitivity, or rho <= 0.
    """
    sensitivity, target = check_sensitivity(l2_sensitivity), 2 * Fraction(check_epsilon(rho, "rho"))
    return round_up(sensitivity / math.sqrt(2.0 * rho), lambda s: s * s * target >= Fraction(sensitivity) ** 2)


def check_sensitivity(value: Any) -> float:
    """Return a finite sensitivity >= 0, or raise ArgumentError."""
    return check_number("sensitivity", value, 0.0)


def round_up(scale: float, private: Callable[[Fraction], bool]) -> float:
    """Return the least float >= ``scale`` that is ``private``, decided in exact arithmetic."""
    if not scale < math.inf:
        raise ArgumentError("the scale that this sensitivity and privacy parameter need is not a finite float")
    while not private(Fraction(scale)):
        scale = math.nextafter(scale, math.inf)
    return scale


def laplace(
    rng: np.random.Generator | None, scale: float, size: Size = None, *, sampler: str = "simulation"
) -> FloatArray:
    """Draw Laplace noise of density ``exp(-|x|/scale) / (2 scale)``; standard deviation ``sqrt(2) * scale``.

    Args:
        rng: the generator; may be None with ``sampler="secure"``.
        scale: >= 0; 0 gives zeros, from as many draws.
        size: shape of the result, as in numpy.
        sampler: "simulation" or "secure".

    Raises:
        ArgumentError: a scale that is negative or not finite, no generator.
        MissingExtraError: ``sampler="secure"`` without OpenDP.
    """
    return draw_noise("laplace", rng, scale, size, sampler)


def exponential(
    rng: np.random.Generator | None, scale: float, size: Size = None, *, sampler: str = "simulation"
) -> FloatArray:
    """Draw one-sided exponential noise of density ``exp(-x/scale) / scale``, x >= 0; mean ``scale``.

    Arguments and errors are those of :func:`laplace`.
    """
    return draw_noise("exponential", rng, scale, size, sampler)


def gaussian(
    rng: np.random.Generator | None, scale: float, size: Size = None, *, sampler: str = "simulation"
) -> FloatArray:
    """Draw Gaussian noise of mean 0 and standard deviation ``scale``.

    Arguments and errors are those of :func:`laplace`.
    """
    return draw_noise("gaussian", rng, scale, size, sampler)


def gumbel(rng: np.random.Generator, scale: float, size: Size = None) -> FloatArray:
    """Draw Gumbel noise of distribution function ``exp(-exp(-x/scale))``; for simulation only.

    A secure draw of what Gumbel noise is for, selection, is ``sample_gumbel(..., sampler="secure")``.

    Raises:
        ArgumentError: a scale that is negative or not finite, no generator.
    """
    return np.asarray(check_rng(rng).gumbel(0.0, check_number("scale", scale, 0.0), size))


def draw_noise(family: str, rng: np.random.Generator | None, scale: float, size: Size, sampler: str) -> FloatArray:
    """Draw noise of the family "laplace", "exponential" or "gaussian"; see :func:`laplace`."""
    scale = check_number("scale", scale, 0.0)
    if check_name("sampler", sampler, SAMPLERS) == "simulation":
        rng = check_rng(rng)
        if family == "exponential":
            return np.asarray(rng.exponential(scale, size))
        return np.asarray(rng.laplace(0.0, scale, size) if family == "laplace" else rng.normal(0.0, scale, size))
    dp = load_opendp()
    zeros = np.zeros(() if size is None else size)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if family == "gaussian":
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    else:
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)
    noise = np.array(measurement(zeros.ravel().tolist()), dtype=np.float64).reshape(zeros.shape)
    # the absolute value of Laplace noise is exponential noise of the same scale
    return np.abs(noise) if family == "exponential" else noise


def check_rng(rng: Any) -> np.random.Generator:
    """Return the generator, or raise ArgumentError: numpy's global state has the same methods and is not one."""
    if not isinstance(rng, np.random.Generator):
        raise ArgumentError(f"rng: expected a numpy.random.Generator but found {rng!r}")
    return rng


def load_opendp() -> Any:
    """Return ``opendp.prelude``, or raise MissingExtraError that names the extra."""
    try:
        dp = importlib.import_module("opendp.prelude")
    except ImportError as error:
        raise MissingExtraError(
            "sampler: 'secure' needs OpenDP; install it with pip install 'dp-experts-env[secure]'"
        ) from error
    dp.enable_features("contrib")
    return dp
