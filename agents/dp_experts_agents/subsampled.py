"""Privacy amplification by subsampling: a learner that sees each round with probability q (the small-loss paper's A_q).

**Mechanism.** Before round t a coin Z_t is 1 with probability q, independently. The inner learner plays every round; at
its end it is shown Z_t l_t: the losses, or zeros. Coins stay secret.

The paper is "Private Online Prediction from Experts with Small Losses". Its text was not at hand; two lemmas (there C.4
and C.5) are rebuilt.

**Privacy** [DERIVED]. If the inner learner is (e, d)-DP, this one is (ln(1 + q (e^e - 1)), q d)-DP, under the same
adjacency and against the same adversaries. Let round t be the changed one, l and l' its two vectors, A the law of the
adversary's view if Z_t = 0, B and B' if Z_t = 1 and l or l' is shown. A, B and B' are pairwise (e, d)-close: an
adversary of the inner learner can flip the other rounds' coins itself and let its two sides differ in round t as (l,
0), (l', 0) or (l, l') do; "zeros" is one of the vectors that ``replace`` allows, and under ``zero_out`` l' = 0 and B' =
A. Until round t the views are the same, so this holds for adaptive adversaries if the inner claim does. The two worlds
are (1 - q) A + q B and (1 - q) A + q B'; the claim is advanced joint convexity (Balle, Barthe and Gaboardi 2018). The
inner learner's transcript is covered if its own claim covers it; the coins are not.

*Why zeros.* If the inner learner skipped the rounds that are not used and repeated its choice, the choices would show
which rounds are used (they can change after those only), and a view that shows that round t is used leaks as much as
without subsampling: nothing would be amplified.

**Regret** [DERIVED], oblivious losses. Z_t is independent of x_t, so E sum Z_t l_t(x_t) = q E sum l_t(x_t), and the
best thinned loss M = min_i sum Z_t l_t(i) has E M <= q L*. If the inner regret is at most R(M), R concave and M + R(M)
non-decreasing, then by Jensen's inequality the regret is at most R(q L*)/q. An adaptive adversary may correlate later
losses with the coins; no bound is claimed there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_experts_agents.doubling import budgeted
from dp_experts_env.learner import Learner, looped
from dp_experts_env.privacy.accounting import subsample, subsample_inverse
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    check_adjacency,
    check_delta,
    check_epsilon,
    check_number,
)

_NUMBERS = 2**20


class Subsampled(Learner):
    """Shows each round to an inner private learner with probability q, and zeros otherwise. See the module.

    The inner learner gets the larger budget (ln(1 + (e^epsilon - 1)/q), delta/q). In ``outcomes`` the round's coin is
    part of the outcome, since the next state depends on it: outcome z K + k is coin z and the inner outcome k of K. It
    is no part of the transcript that the guarantee covers.

    Args:
        learner: the inner learner: a registered name, or a learner to build others like. Its ``epsilon``, ``delta``
            and, where it takes it, ``adjacency`` are set by this one.
        q: probability in (0, 1] that a round is used.
        epsilon: privacy budget, a number > 0.
        delta: in [0, q).
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range, or the inner learner takes no epsilon and delta.
    """

    def __init__(
        self,
        learner: str | Learner = "private_hedge",
        q: float = 0.5,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.learner = learner
        self.q = check_number("q", q, 0.0, 1.0, low_open=True)
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        if self.delta >= self.q:
            raise ArgumentError(f"delta: expected a number in [0, {self.q:g}), below q, but found {delta!r}")
        self.adjacency = check_adjacency(adjacency)
        share = self.delta / self.q
        if share * self.q > self.delta:
            share = math.nextafter(share, 0.0)
        self._budget = subsample_inverse(self.epsilon, self.q)
        self._inner = budgeted(learner, self._budget, share, self.adjacency)

    def start(self) -> None:
        """Begin the inner learner's game."""
        self._coins, seeds = self.rng.spawn(2)
        self._player = self._inner.clone() if self.spec.num_games is None else looped(self._inner.clone())
        self._player.reset(self.spec, seeds)
        self._used: Any = np.zeros(self.spec.shape, dtype=bool)

    def act(self) -> Any:
        """Flip the coin and let the inner learner choose; see :meth:`Learner.act`."""
        self._player._notes = self._notes
        self._used = self._coins.random(self.spec.shape) < self.q
        return self._player.act()

    def observe(self, losses: FloatArray) -> None:
        """Show the losses or zeros; see :meth:`Learner.observe`."""
        self._player.observe(losses * np.asarray(self._used)[..., None])

    def run(self, block: FloatArray) -> IntArray:
        """Play a block at once; see :meth:`Learner.run`."""
        if self._notes is not None:
            return super().run(block)
        used = self._coins.random((len(block), *self.spec.shape)) < self.q
        rows = block if block.ndim == used.ndim + 1 else block[:, None]
        step = max(1, _NUMBERS // (self.spec.num_experts * (self.spec.num_games or 1)))
        cuts = range(0, len(block), step)
        return np.concatenate([self._player.run(rows[k : k + step] * used[k : k + step, ..., None]) for k in cuts])

    def probabilities(self) -> FloatArray:
        """Return the inner learner's law of the next choice."""
        return self._player.probabilities()

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of coin and inner outcome, ``(2 K,)`` or ``(G, 2 K)``; see the class."""
        inner = self._player.outcomes()
        with np.errstate(divide="ignore"):
            return np.concatenate([inner + np.log1p(-self.q), inner + math.log(self.q)], -1)

    def take(self, outcome: Any) -> Any:
        """Flip the coin to ``outcome // K`` and let the inner learner take ``outcome % K``."""
        number = self._player.outcomes().shape[-1]
        outcome = np.broadcast_to(outcome, self.spec.shape)
        self._player._notes = self._notes
        self._used = outcome >= number
        inner = outcome % number
        return self._player.take(inner if self.spec.shape else int(inner))

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return the amplified guarantee, against the adversaries that the inner claim covers."""
        inner = self._inner.guarantee(spec)
        if inner is None:
            return None
        epsilon, delta = subsample(inner.epsilon, self.q, inner.delta)
        if inner.epsilon <= self._budget:
            epsilon = min(epsilon, self.epsilon)
        source = f"amplification by subsampling with probability {self.q:g} of: {inner.source} [DERIVED]"
        return Guarantee(epsilon, delta, inner.adjacency, inner.against, source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return R(q L*)/q, at most T - L*, R the inner bound; NaN if adaptive, or where R is not seen to be concave.

        The conditions of the module are checked at 65 points, which settles them for bounds that are minima of a few
        affine and square-root functions of L*, as the built-in ones are.
        """
        if against == "adaptive":
            return math.nan
        points = np.linspace(0.0, spec.horizon, 65)
        values = np.array([self._inner.regret_bound(spec, float(point), against) for point in points])
        slack = 1e-9 * (1.0 + np.abs(values).max())
        if not (np.diff(values, 2) <= slack).all() or not (np.diff(values + points) >= -slack).all():
            return math.nan
        bound = self._inner.regret_bound(spec, self.q * best_loss, against) / self.q
        return float(min(bound, spec.horizon - best_loss))
