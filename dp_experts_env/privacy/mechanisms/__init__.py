"""Differentially private mechanisms: selection, noise, AboveThreshold and streaming counters.

A plan is kept apart from its execution: ``*_scale``, ``toeplitz_*``, ``epsilon``, ``accuracy``, ``l2_sensitivity``
and ``standard_deviations`` are functions of public numbers and draw nothing; what draws takes the generator, or the
numbers already drawn, as an argument.

**Floating point.** Guarantees hold in ideal arithmetic. ``sampler="simulation"``, the default, draws numpy's
floating-point noise from the generator handed in: right for simulation, not for a release that an attacker reads bit
by bit (which floats a noisy answer can be depends on the answer, and numpy's tails end near 37 scales).
``sampler="secure"`` draws exact samples with OpenDP (extra ``secure``): it uses OpenDP's own source of randomness,
ignores the generator, cannot be seeded, and is a thousand times slower. Secure noise covers what is decided by it (a
comparison, a selection); a noisy *number* that is published should be released by OpenDP itself, since adding
noise to a float rounds once more.

**Axes.** Experts or coordinates are the last axis; games, rounds and the like lead.
"""

from .above_threshold import STREAMS, AboveThreshold
from .counters import (
    BinaryTreeCounter,
    Counter,
    HonakerCounter,
    RunningSum,
    SquareRootToeplitzCounter,
    toeplitz_coefficients,
    toeplitz_gamma,
)
from .noise import (
    SAMPLERS,
    exponential,
    gaussian,
    gaussian_scale,
    gaussian_zcdp_scale,
    gumbel,
    laplace,
    laplace_scale,
)
from .selection import (
    exponential_log_probabilities,
    exponential_probabilities,
    sample_exponential,
    sample_gumbel,
    sample_inverse_cdf,
    sample_outcomes,
    softmax,
)

__all__ = [
    "SAMPLERS",
    "STREAMS",
    "AboveThreshold",
    "BinaryTreeCounter",
    "Counter",
    "HonakerCounter",
    "RunningSum",
    "SquareRootToeplitzCounter",
    "exponential",
    "exponential_log_probabilities",
    "exponential_probabilities",
    "gaussian",
    "gaussian_scale",
    "gaussian_zcdp_scale",
    "gumbel",
    "laplace",
    "laplace_scale",
    "sample_exponential",
    "sample_gumbel",
    "sample_inverse_cdf",
    "sample_outcomes",
    "softmax",
    "toeplitz_coefficients",
    "toeplitz_gamma",
]
