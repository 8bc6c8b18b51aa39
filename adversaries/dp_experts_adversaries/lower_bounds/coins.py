"""The floor of all learners, private or not."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import optimize, stats

from dp_experts_adversaries.lower_bounds.columns import check_budget
from dp_experts_adversaries.stochastic import Planted
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec, check_number


class SmallLossFloor(Planted):
    """Coins that no learner predicts: regret of order sqrt(L* ln N) + ln N without any privacy.

    ## Description
    Independent losses in {0, 1}; the expected L* is ``best_loss``.

    ``best_loss > 0``: all experts lose 1 with the same probability p. Whatever a learner does it loses p a round on
    average, so its expected regret is exactly ``p T - E L*``, where ``E L* = sum_(k >= 0) Pr[Bin(T, p) > k]^N`` fixes
    p. By the normal law of minima this is about ``sqrt(2 L* ln N)`` where L* is much above ln N and N is large.

    ``best_loss = 0``: one expert, drawn uniformly, never loses; all others lose 1 with probability p. Given the past
    the perfect expert is uniform among the K_t that have not lost before round t, so that whoever names one of them
    loses ``p (1 - 1/K_t)``, and whoever names another one more. As K_t - 1 is Bin(N - 1, r_t), r_t = (1 - p)^(t - 1),
    E[1/K_t] = (1 - (1 - r_t)^N)/(N r_t), and expected regret is at least
    ``p sum_t (1 - (1 - (1 - r_t)^N)/(N r_t))``; following the leader reaches it. p is the best of a grid. As p falls
    and p T grows the floor tends to ``1/2 + 1/3 + ... + 1/N``, about ln N - 0.42.

    Divided by sqrt(L* ln N) + ln N the floor is at least 0.6 for N = 10, 100, 1000, T = 10^5 and L* from 0 to 1000,
    at most 1.2. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        best_loss: expected L*, in [0, T).
        shared: ``True`` for one sequence that all games of a batch share; ``False`` for one each.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        rates: the mean losses in the current game, shape ``(N,)`` or ``(G, N)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 1, "horizon": 1},
        {"best_loss": 4.0, "num_experts": 5, "horizon": 20},
        {"best_loss": 2.0, "shared": True, "num_experts": 3, "horizon": 20},
    )

    def __init__(self, best_loss: float = 0.0, shared: bool = False, **game: Any) -> None:
        super().__init__(shared=shared, **game)
        self.best_loss = check_number("best_loss", best_loss, 0.0, self.horizon, high_open=True)

    def draw_rates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return the common rate, or draw the perfect expert."""
        if self.best_loss > 0.0:
            return np.full(self.num_experts, _common_rate(self.num_experts, self.horizon, self.best_loss))
        self.best_expert = rng.integers(self.num_experts, size=shape)
        perfect = self.best_expert[..., None] == np.arange(self.num_experts)
        return np.where(perfect, 0.0, _realizable(self.num_experts, self.horizon)[1])

    def regret_floor(self, spec: GameSpec, epsilon: float = math.inf, delta: float = 0.0) -> float:
        """Return what every learner's expected regret against this adversary is at least, private or not.

        Args:
            spec: the game; its size may differ from this adversary's own.
            epsilon: not used: the floor is the same for every privacy; a number >= 0 or ``math.inf``.
            delta: not used; in [0, 1).

        Returns:
            The floor in units of loss; ``math.nan`` where it is 0. With ``best_loss > 0`` it is no mere bound: every
            learner's expected regret equals it.

        Raises:
            ArgumentError: if an argument lies outside its range, or the horizon is no more than ``best_loss``.
        """
        check_budget(epsilon, delta)
        size, horizon = spec.num_experts, spec.horizon
        if self.best_loss >= horizon:
            raise ArgumentError(f"spec: expected a horizon above best_loss={self.best_loss} but found {horizon}")
        if size == 1:
            return math.nan
        if self.best_loss > 0.0:
            floor = horizon * _common_rate(size, horizon, self.best_loss) - self.best_loss
        else:
            floor = _realizable(size, horizon)[0]
        return floor if floor > 0.0 else math.nan


def _least_of_coins(size: int, horizon: int, rate: float) -> float:
    """Expected least of ``size`` independent Bin(horizon, rate)."""
    mean = horizon * rate
    most = min(horizon, math.ceil(mean + 12.0 * math.sqrt(mean) + 60.0))
    return float((stats.binom.sf(np.arange(most), horizon, rate) ** size).sum())


@functools.lru_cache(maxsize=64)
def _common_rate(size: int, horizon: int, best_loss: float) -> float:
    if size == 1:
        return best_loss / horizon
    # The least is at most the mean, so the root lies above best_loss/horizon.
    return float(
        optimize.brentq(
            lambda rate: _least_of_coins(size, horizon, rate) - best_loss, best_loss / horizon, 1.0, xtol=1e-15
        )
    )


@functools.lru_cache(maxsize=64)
def _realizable(size: int, horizon: int) -> tuple[float, float]:
    """The floor of the realizable case and the rate that reaches it."""
    best = (0.0, 0.5)
    for rate in np.geomspace(0.999, max(0.5 / horizon, 1e-4), 80):
        # Later rounds have one expert left and add next to nothing; leaving them out keeps the floor a floor.
        rounds = min(horizon, math.ceil((math.log(size) + 40.0) / -math.log1p(-rate)))
        left = np.exp(np.arange(rounds) * math.log1p(-rate))
        with np.errstate(divide="ignore"):
            alone = -np.expm1(size * np.log1p(-left)) / (size * left)
        floor = float(rate * np.maximum(1.0 - alone, 0.0).sum())
        best = max(best, (floor, float(rate)))
    return best
