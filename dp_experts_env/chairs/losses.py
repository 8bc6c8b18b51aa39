"""Named sets of loss vectors: what a player who picks from a list may charge the experts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from dp_experts_env.spec import ArgumentError, FloatArray, check_count, check_name

LOSS_SETS = ("one_hot", "all_but_one", "halves", "zeros", "ones", "corners")
"""The names; see :func:`loss_vectors`."""

MOST_VECTORS = 4096
"""Most loss vectors to pick from."""


def loss_vectors(names: str | Iterable[str], num_experts: int) -> FloatArray:
    """Return the loss vectors of one or several named sets, in the order named and each vector once.

    ========================  ==================================================================================
    "one_hot"                 N vectors: expert i alone loses 1, i = 0..N-1
    "all_but_one"             N vectors: all but expert i lose 1
    "halves"                  2 vectors: the first ceil(N/2) experts lose 1; the others do
    "zeros", "ones"           1 vector each: nobody, everybody loses 1
    "corners"                 2^N vectors: all of {0, 1}^N; expert 0 is the highest bit of the vector's number
    ========================  ==================================================================================

    Args:
        names: one of :data:`LOSS_SETS` or a sequence of them.
        num_experts: N, an integer >= 1.

    Returns:
        Shape ``(M, N)``, all rows different. A vector that several sets have (for N = 2 "one_hot" and "all_but_one"
        are the same two) is where it came first.

    Raises:
        ArgumentError: no set is named, or there are more than ``MOST_VECTORS`` vectors.
        UnknownNameError: a name is unknown.
    """
    num_experts = check_count("num_experts", num_experts)
    if not isinstance(names, Iterable) or (isinstance(names, np.ndarray) and not names.ndim):
        raise ArgumentError(f"losses: expected the name of a set of loss vectors or several but found {names!r}")
    given = [check_name("losses", name, LOSS_SETS) for name in ([names] if isinstance(names, str) else names)]
    chosen = list(dict.fromkeys(given))
    if not chosen:
        raise ArgumentError(f"losses: expected at least one set of loss vectors of {', '.join(LOSS_SETS)}")
    sizes = {"one_hot": num_experts, "all_but_one": num_experts, "corners": 2 ** min(num_experts, 64)}
    count = sum(sizes.get(name, 2) for name in chosen)
    if count > MOST_VECTORS:
        raise ArgumentError(
            f"losses: expected at most {MOST_VECTORS} vectors to pick from but {', '.join(chosen)} have more "
            f"with num_experts={num_experts}"
        )
    rows = np.concatenate([_loss_set(name, num_experts) for name in chosen])
    _, first = np.unique(rows, axis=0, return_index=True)
    return np.asarray(rows[np.sort(first)])


def _loss_set(name: str, num_experts: int) -> FloatArray:
    if name == "one_hot":
        return np.eye(num_experts)
    if name == "all_but_one":
        return 1.0 - np.eye(num_experts)
    if name == "halves":
        first = np.arange(num_experts) < (num_experts + 1) // 2
        return np.array([first, ~first], dtype=np.float64)
    if name == "corners":
        return np.array(list(itertools.product((0.0, 1.0), repeat=num_experts)))
    return np.full((1, num_experts), float(name == "ones"))


def one_hot(experts: Any, num_experts: int) -> FloatArray:
    """Return float64 vectors ``(..., N)`` with a one at each expert id of ``experts`` ``(...)``."""
    return np.asarray(np.asarray(experts)[..., None] == np.arange(num_experts), dtype=np.float64)


def lead(totals: FloatArray) -> FloatArray:
    """Return min(1, L - min L): how far each expert is behind the leader, from totals ``(..., N)``.

    Ties and near-ties, where the next loss decides who leads, keep their scale however long the game is.
    """
    return np.asarray(np.minimum(1.0, totals - totals.min(-1, keepdims=True)))
