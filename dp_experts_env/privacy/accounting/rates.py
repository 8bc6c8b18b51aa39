"""Learning rates of private multiplicative weights: pure functions of epsilon, delta and the number of rounds.

Multiplicative weights draws round t's expert with probability proportional to exp(-eta L_{t-1}). Where one loss vector
in [0, 1]^N is replaced ("replace"), a draw's log-ratio is -eta d(i) plus a constant with d in [-1, 1]^N: the draw is
2 eta-bounded-range, hence 2 eta-DP and eta^2/2-zCDP. Where it is zeroed out ("zero_out"), d is in [0, 1]^N and 2 eta
becomes eta, so every rate doubles. A changed round touches later draws only, so of T draws at most T - 1 are affected
[DERIVED]. A learner that draws once every B rounds, from sums of losses, has T / B draws of the same kind: hand in the
number of draws as ``rounds``.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dp_experts_env.privacy.accounting.composition import share, step_epsilon
from dp_experts_env.privacy.accounting.recursion import adaptive_bounded_range_delta
from dp_experts_env.spec import (
    Adjacency,
    check_adjacency,
    check_count,
    check_delta,
    check_epsilon,
    check_name,
    check_number,
)

RATE_METHODS = ("seed", "zcdp", "optimal")
"""Methods of :func:`learning_rate`: the first two hold against adaptive adversaries, "optimal" does not."""


def learning_rate(
    epsilon: float, delta: float, rounds: int, method: str = "seed", adjacency: str | Adjacency = Adjacency.REPLACE
) -> float:
    """The learning rate at which multiplicative weights over ``rounds`` rounds is (epsilon, delta)-DP.

    - "seed": min(epsilon / sqrt(32 T ln(1/delta)), 1/2, sqrt(epsilon / (16 T))), the rule of "Private ERM and private
      online learning" [TEXT]; adaptive adversaries. By advanced composition of T steps of size s = 2 eta <= 1:
      s sqrt(2 T ln(1/delta)) <= epsilon/2 and T s (e^s - 1) <= (e - 1) T s^2 <= (e - 1) epsilon/4.
    - "zcdp": the larger of sqrt(2 rho / (T - 1)), rho by the tight conversion, and the pure rate [DERIVED]; adaptive
      adversaries.
    - "optimal": exact composition of T - 1 bounded-range steps [TEXT]; valid for two neighbouring fixed loss sequences
      (oblivious adversaries) only.
    - delta = 0, any method: the pure rate epsilon / (2 (T - 1)); adaptive adversaries.

    These are for "replace"; under "zero_out" every rate doubles. Rates are rounded towards privacy; "optimal" gives up
    2e-5 of the rate to be certified, and may be non-monotone in its arguments by that much.
    With one round no draw is affected and every rate is private; the rate of two rounds is returned ("seed": its
    formula at T = 1). Results are cached; "optimal" takes about 0.1 s at 100,000 rounds, 1 s at 10 million.

    Args:
        epsilon: privacy parameter, > 0.
        delta: failure probability in [0, 1).
        rounds: number of rounds T (draws), an integer >= 1.
        method: "seed", "zcdp" or "optimal".
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    epsilon, delta, rounds = check_epsilon(epsilon), check_delta(delta), check_count("rounds", rounds)
    check_name("method", method, RATE_METHODS)
    step = _step(epsilon, delta, rounds, method)
    return step / 2 if check_adjacency(adjacency) is Adjacency.REPLACE else step


@lru_cache(maxsize=4096)
def _step(epsilon: float, delta: float, rounds: int, method: str) -> float:
    affected = max(rounds - 1, 1)
    if delta == 0:
        return share(epsilon, affected)
    if method == "seed":
        capped = min(epsilon / math.sqrt(32 * rounds * -math.log(delta)), 0.5, math.sqrt(epsilon / (16 * rounds)))
        return 2 * capped
    names = ("basic", "zcdp") if method == "zcdp" else ("basic", "zcdp", "bounded_range")
    return max(step_epsilon(epsilon, delta, affected, name) for name in names)


def certify_rate(
    rate: float,
    epsilon: float,
    rounds: int,
    adjacency: str | Adjacency = Adjacency.REPLACE,
    cells: int = 32,
) -> float:
    """An upper bound on delta at ``epsilon`` of multiplicative weights at ``rate``, against adaptive adversaries.

    By the recursion of :func:`adaptive_bounded_range_delta` over ``rounds - 1`` draws, with its cost: 2 s for 1,000
    rounds, 2 minutes for 10,000. It certifies rates a little below those of ``method="optimal"``, which is itself not
    valid against adaptive adversaries [DERIVED].

    Args:
        rate: the learning rate, > 0; times 2 ("replace") at most 100.
        epsilon: privacy parameter, > 0.
        rounds: number of rounds T, an integer >= 1.
        adjacency: "replace" or "zero_out".
        cells: grid points to one draw's range, an even integer >= 4.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """
    rate, epsilon = check_number("rate", rate, 0.0, 50.0, low_open=True), check_epsilon(epsilon)
    rounds = check_count("rounds", rounds)
    step = 2 * rate if check_adjacency(adjacency) is Adjacency.REPLACE else rate
    if rounds == 1:
        check_count("cells", cells, 4)
        return 0.0
    return adaptive_bounded_range_delta(epsilon, step, rounds - 1, cells)
