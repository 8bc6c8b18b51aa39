"""Stochastic opponents: the loss vectors of a game are independent and identically distributed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_experts_env.adversary import Adversary
from dp_experts_env.spec import ArgumentError, FloatArray, check_flag, check_number


class _Coins(Adversary):
    """Independent losses in {0, 1} with one mean an expert; a subclass says which means."""

    stochastic = True

    rates: FloatArray

    def __init__(self, shared: bool = False, **game: Any) -> None:
        super().__init__(**game)
        self.shared = check_flag("shared", shared)

    def draw_rates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return the mean losses of a new game, ``(N,)`` or of shape ``(*shape, N)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement draw_rates()")

    def start(self) -> None:
        """Draw the means of the game."""
        choices, self._coins = self.np_random.spawn(2)
        self._shape = () if self.shared else self.game.shape
        self.rates = self.draw_rates(choices, self._shape)

    def emit(self) -> FloatArray:
        """Toss a coin for each expert; see :meth:`Adversary.emit`."""
        losses: FloatArray = self._toss(1)[0]
        return losses

    def emit_block(self, rounds: int) -> FloatArray:
        """Toss the coins of several rounds at once; see :meth:`Adversary.emit_block`."""
        return self._toss(rounds)

    def _toss(self, rounds: int) -> FloatArray:
        coins = self._coins.random((rounds, *self._shape, self.num_experts))
        return np.asarray(coins < self.rates, dtype=np.float64)


class Bernoulli(_Coins):
    """Independent coins: expert i loses 1 with probability ``means[i]``, else 0.

    ## Description
    Rounds and experts are independent. Without ``means``, each game draws its own at its start, uniformly on [0, 1]
    and from a stream of their own: in a batch, one vector of means a game. The expected L* is at most
    ``T * min(means)``, and at least that minus ``sqrt(T ln(N) / 2)``, by Hoeffding's lemma for the minimum of N sums.
    The losses do not depend on the learner, however often it switches. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        means: mean losses in [0, 1], shape ``(N,)``, or one number for all experts; ``None`` draws them.
        shared: ``True`` for one sequence that all games of a batch share; ``False`` for one each.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        rates: the means in force in the current game, shape ``(N,)``, or ``(G, N)`` where a batch drew its own.

    ## Version History
    v0: first version.
    """

    examples = (
        {"means": 0.5, "num_experts": 1, "horizon": 1},
        {"means": [0.0, 0.3, 1.0], "num_experts": 3, "horizon": 20},
        {"shared": True, "num_experts": 4, "horizon": 20},
    )

    def __init__(self, means: Any = None, shared: bool = False, **game: Any) -> None:
        super().__init__(shared=shared, **game)
        self.means = None if means is None else self._check_means(means)

    def draw_rates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return the means given, or drawn."""
        return self.means if self.means is not None else rng.random((*shape, self.num_experts))

    def _check_means(self, means: Any) -> FloatArray:
        expected = f"a number or {self.num_experts} numbers (num_experts) in [0, 1]"
        try:
            array = np.array(means)
        except ValueError as error:
            raise ArgumentError(f"means: expected {expected} but found {means!r}") from error
        if array.dtype.kind not in "iuf" or array.shape not in ((), (self.num_experts,)):
            raise ArgumentError(f"means: expected {expected} but found {means!r}")
        array = np.broadcast_to(array.astype(np.float64), (self.num_experts,))
        for expert, mean in enumerate(array):
            check_number(f"means[{expert}]", mean, 0.0, 1.0)
        return array


class Planted(_Coins):
    """One good expert among coins: its expected total loss is ``best_loss``, spread evenly over the rounds.

    ## Description
    At its start each game draws the good expert uniformly, from a stream of its own. In each round that expert loses
    1 with probability ``best_loss / T``, every other with probability ``others``, all independently. ``best_loss=0``
    is the realizable case: L* = 0. Otherwise the good expert's total loss is Binomial(T, best_loss / T), so the
    expected L* is at most ``best_loss``, and at least that minus ``sqrt(T ln(N) / 2)``, as for ``Bernoulli``. The
    losses do not depend on the learner, however often it switches. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        best_loss: expected total loss of the good expert, in [0, others * horizon].
        others: mean loss of every other expert, in [0, 1].
        shared: ``True`` for one sequence that all games of a batch share; ``False`` for one each.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        best_expert: the good expert, shape ``()`` or ``(G,)``.
        rates: the mean losses in the current game, shape ``(N,)`` or ``(G, N)``.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 1, "horizon": 1},
        {"best_loss": 5.0, "others": 0.75, "num_experts": 3, "horizon": 20},
        {"best_loss": 2.0, "shared": True, "num_experts": 4, "horizon": 20},
    )

    def __init__(self, best_loss: float = 0.0, others: float = 0.5, shared: bool = False, **game: Any) -> None:
        super().__init__(shared=shared, **game)
        self.others = check_number("others", others, 0.0, 1.0)
        self.best_loss = check_number("best_loss", best_loss, 0.0, self.others * self.horizon)

    def draw_rates(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw the good expert."""
        self.best_expert = rng.integers(self.num_experts, size=shape)
        good = self.best_expert[..., None] == np.arange(self.num_experts)
        return np.where(good, self.best_loss / self.horizon, self.others)
