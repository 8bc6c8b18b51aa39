"""A learner under test, and how it is played."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_experts_env.learner import Learner, looped
from dp_experts_env.spec import FloatArray, GameSpec, IntArray


@dataclass(frozen=True)
class LearnerCase:
    """A learner under test and the size of the games it is tested in."""

    build: Callable[[], Learner]
    num_experts: int
    horizon: int
    seed: int

    def start(
        self,
        num_games: int | None = None,
        *,
        seed: int | None = None,
        num_experts: int | None = None,
        horizon: int | None = None,
    ) -> Learner:
        """Build a learner and begin a game."""
        learner = self.build() if num_games is None else looped(self.build())
        learner.reset(
            self.spec(num_games, num_experts=num_experts, horizon=horizon),
            np.random.default_rng(self.seed if seed is None else seed),
        )
        return learner

    def spec(
        self, num_games: int | None = None, *, num_experts: int | None = None, horizon: int | None = None
    ) -> GameSpec:
        """Return the size of a game."""
        return GameSpec(num_experts or self.num_experts, horizon or self.horizon, num_games)

    def losses(self, *games: int, rounds: int | None = None, num_experts: int | None = None) -> FloatArray:
        """Return losses ``(R, *games, N)``, some of them exactly 0 or 1; the same at each call."""
        rng = np.random.default_rng([self.seed, *games])
        size = (rounds or self.horizon, *games, num_experts or self.num_experts)
        losses = rng.random(size)
        return np.where(rng.random(size) < 0.3, losses.round(), losses)

    def games(self, batched: int, looped: int) -> int:
        """Return a number of games: many make small faults show; loops over copies get fewer."""
        return batched if self.build().batched else looped

    @property
    def batch(self) -> int:
        """Number of games of the exact checks."""
        return self.games(32, 3)


def loop(learner: Learner, rows: Iterable[Any]) -> IntArray:
    """Play rounds one by one and return the choices."""
    choices = []
    for losses in rows:
        choices.append(learner.act())
        learner.observe(losses)
    return np.array(choices)
