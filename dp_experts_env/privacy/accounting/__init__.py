"""Privacy accounting: composition, calibration, the ledger and the filter. Nothing here looks at a loss.

``compose`` tells what steps cost together, ``step_epsilon`` and ``learning_rate`` what a step may cost; the ``zcdp_``,
``renyi_``, ``gaussian_`` and ``mixed_`` functions convert to and from (epsilon, delta); ``Ledger`` and ``Filter`` keep
the books. Everything rounds towards privacy.
"""

from dp_experts_env.privacy.accounting.composition import (
    METHODS,
    Composition,
    bounded_range_delta,
    bounded_range_divergence,
    compose,
    composition_bounds,
    optimal_delta,
    parallel,
    share,
    step_epsilon,
    subsample,
    subsample_inverse,
)
from dp_experts_env.privacy.accounting.curves import (
    RENYI_ORDERS,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    mixed_delta,
    mixed_epsilon,
    mixed_rho,
    renyi_delta,
    renyi_epsilon,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from dp_experts_env.privacy.accounting.ledger import Filter, Ledger, Spend
from dp_experts_env.privacy.accounting.rates import RATE_METHODS, certify_rate, learning_rate
from dp_experts_env.privacy.accounting.recursion import adaptive_bounded_range_delta, adaptive_bounded_range_epsilon

__all__ = [
    "METHODS",
    "RATE_METHODS",
    "RENYI_ORDERS",
    "Composition",
    "Filter",
    "Ledger",
    "Spend",
    "adaptive_bounded_range_delta",
    "adaptive_bounded_range_epsilon",
    "bounded_range_delta",
    "bounded_range_divergence",
    "certify_rate",
    "compose",
    "composition_bounds",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "learning_rate",
    "mixed_delta",
    "mixed_epsilon",
    "mixed_rho",
    "optimal_delta",
    "parallel",
    "renyi_delta",
    "renyi_epsilon",
    "share",
    "step_epsilon",
    "subsample",
    "subsample_inverse",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
