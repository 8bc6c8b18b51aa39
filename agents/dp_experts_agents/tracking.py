"""Tracking a comparator that switches: Fixed-Share on a private dartboard, and dynamic regret.

**Mechanism.** The dartboard with Fixed-Share's law in place of Hedge's (Herbster and Warmuth 1998): with
M = (1 - a) I + (a/N) 11^T, P_1 uniform and P_{b+1} proportional to (P_b e^{-eta L_b}) M, L_b the losses of batch b. The
held expert x is kept with probability kappa = (1 - p) e^{-eta L_b(x)}, and one that is kept moves to M[x, .], by a
draw that no loss enters; otherwise it is redrawn from P_{b+1}. When the cap is exhausted it only moves by M.

**Marginals** [DERIVED]. Without a cap the expert held in batch b has law exactly P_b: keeping contributes
sum_x P_b(x) (1 - p) e^{-eta L_b(x)} M[x, i] = (1 - p) Z P_{b+1}(i), and the remaining mass is redrawn from P_{b+1}.

**Privacy** [DERIVED] is that of the dartboard, letter for letter: the coins are the same, moves by M depend on the
transcript only, and P_b is the marginal of the exponential mechanism over paths (i_1, ..., i_b) with a public prior
and loss sum_s L_s(i_s), in which one changed loss vector enters one term: its log-ratio lies in an interval of length
2 eta (eta under ``zero_out``), and so does the marginal's, being a weighted mean of the paths' ratios. Hence the same
guarantees against adaptive adversaries, coins and cap counter included.

**Dynamic regret** [DERIVED], oblivious adversaries. Against a comparator that is constant on batches with S switches,
Hedge over paths gives C/eta + eta B T/8, C = ln N + S ln(N/a) - (n - 1 - S) ln(1 - a + a/N), n = ceil(T/B). A
comparator that switches inside batches costs floor(B/2) a switch more, and a cap what it costs the dartboard. The
share is a = S/(n - 1)/(1 - 1/N), the minimiser of C. Static regret is the case S = 0 of the same bound, at the same a.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_experts_agents.dartboard import CalibratedDartboard, Scheme
from dp_experts_env.adversary import charged
from dp_experts_env.spec import (
    Adjacency,
    FloatArray,
    GameSpec,
    IntArray,
    LossError,
    check_block,
    check_count,
    check_number,
)


class PrivateFixedShare(CalibratedDartboard):
    """Fixed-Share on a private dartboard: regret against the best sequence of experts with S switches.

    Private against adaptive adversaries, coins included; the regret bounds are for oblivious ones. Calibrated for
    least certified dynamic regret. See the module for the proofs.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); at 0 the cap is needed.
        switches: S, an integer >= 0, how often the comparator may switch.
        mixing: the share a in [0, 1]; ``None`` for the one tuned to S.
        certificate: "capped" (zCDP, or pure), "uncapped" (Rényi, delta > 0 only) or "auto", the one of less regret.
        batch_size: B, an integer >= 1; ``None`` to calibrate it.
        switch_probability: p in (0, 1]; ``None`` to calibrate it.
        learning_rate: eta > 0; ``None`` to calibrate it.
        cap: K, an integer >= 0, most redraws after the first; ``None`` to calibrate it.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range or contradicts another.
        BudgetError: at reset, if parameters that were given cost more than epsilon; the message says how much.
    """

    label = "Fixed-Share dartboard"
    _streams: ClassVar[int] = 3

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        switches: int = 1,
        mixing: float | None = None,
        certificate: str = "auto",
        batch_size: int | None = None,
        switch_probability: float | None = None,
        learning_rate: float | None = None,
        cap: int | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        super().__init__(epsilon, delta, certificate, batch_size, switch_probability, learning_rate, cap, adjacency)
        self.switches = check_count("switches", switches, 0)
        # Without a share no path that switches has a prior.
        self.mixing = None if mixing is None else check_number("mixing", mixing, 0.0, 1.0, low_open=switches > 0)

    def scheme(self, spec: GameSpec) -> Scheme:
        """Return the game and the variant that the bounds are for."""
        return Scheme(spec.horizon, spec.num_experts, self.adjacency, self.switches, self.mixing)

    def dynamic_regret_bound(self, spec: GameSpec, switches: int | None = None) -> float:
        """Return the bound on the expected regret against every sequence of experts with that many switches.

        For oblivious adversaries; at most T. The parameters stay those calibrated for ``self.switches``.

        Args:
            spec: the game.
            switches: S, an integer >= 0; ``None`` for the learner's own.

        Raises:
            ArgumentError: if ``switches`` lies outside its range.
            BudgetError: see the class.
        """
        switches = self.switches if switches is None else check_count("switches", switches, 0)
        plan = self.plan(spec)
        if spec.num_experts == 1:
            return 0.0
        parameters = plan.batch_size, plan.switch_probability, plan.learning_rate, plan.cap
        with np.errstate(divide="ignore"):
            return float(min(self.scheme(spec).regret(*parameters, switches), spec.horizon))

    def start(self) -> None:
        """Forget all losses; the first round draws."""
        super().start()
        self._share = float(self.scheme(self.spec).mixing(self._size)) if self.spec.num_experts > 1 else 0.0

    def observe(self, losses: FloatArray) -> None:
        """Add the losses, and at the end of a batch share; see :meth:`Learner.observe`."""
        self._batch = (0.0 if self._decides() else self._batch) + losses
        if (self.round + 1) % self._size == 0:
            self._score = self._shared(self._score + self._batch)

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of "redrawn to i", i in 0..N-1, then of "kept, then at i".

        Shape ``(2 N,)`` or ``(G, 2 N)``.
        """
        size = self.spec.num_experts
        joint = super().outcomes().reshape(-1, size + 1)
        with np.errstate(divide="ignore"):
            joint = np.concatenate([joint[:, :size], joint[:, size:] + np.log(self._kept_law())], axis=-1)
        return joint.reshape(*self.spec.shape, -1)

    def take(self, outcome: Any) -> Any:
        """Hold expert ``outcome`` modulo N, as a redraw if ``outcome`` is below N."""
        outcome = np.broadcast_to(outcome, self._held.shape)
        redrawn = outcome < self.spec.num_experts
        self._move(redrawn, outcome)
        self._held = outcome % self.spec.num_experts
        self._record(~redrawn)
        return self._held.reshape(self.spec.shape)

    def _kept_law(self) -> FloatArray:
        share = self._share if self._decides() else 0.0
        return super()._kept_law() * (1.0 - share) + share / self.spec.num_experts

    def _moving(self, coins: FloatArray, *others: FloatArray) -> NDArray[np.bool_]:
        moving: NDArray[np.bool_] = (coins >= self._surely) | (others[1] < self._share)
        return moving

    def _decide(self, score: FloatArray, charge: FloatArray, *draws: FloatArray) -> Any:
        coins, uniforms, moves = draws
        kept = super()._decide(score, charge, coins, uniforms)
        moved = kept & (moves < self._share)
        if moved.any():
            # Given that it is below the share the draw is uniform again.
            experts = np.minimum(moves[moved] / self._share * self.spec.num_experts, self.spec.num_experts - 1)
            self._held = self._held.copy()
            self._held[moved] = experts.astype(np.int64)
        return kept

    def _at(self, block: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        charges = self._batches_at(block, rows)
        scores = []
        for row, charge in zip(rows, charges, strict=True):
            if row > 0:
                self._score = self._shared(self._score + charge)
            scores.append(self._score)
        if (self.round + len(block)) % self._size == 0:
            self._score = self._shared(self._score + self._batch)
        return np.stack(np.broadcast_arrays(*scores)) if scores else charges, charges

    def _shared(self, score: FloatArray) -> FloatArray:
        """Losses whose exponential weights are the mixed ones."""
        if self._share == 0.0:
            return score
        # Every decision passes here, so the weights are taken without the checks of the mechanism that draws.
        weights = np.exp(self._rate * (score.min(-1, keepdims=True) - score))
        weights *= (1.0 - self._share) / weights.sum(-1, keepdims=True)
        weights += self._share / self.spec.num_experts
        shared: FloatArray = np.log(weights) / -self._rate
        return shared


def dynamic_best_loss(losses: FloatArray, switches: int) -> Any:
    """Return the least total loss of a sequence of experts that switches at most S times, by dynamic programming.

    Time O(T N (S + 1)), memory O(N (S + 1)) a game. A non-private diagnostic.

    Args:
        losses: shape ``(T, N)``, or ``(T, G, N)`` for G games; in [0, 1].
        switches: S, an integer >= 0.

    Returns:
        A float, or shape ``(G,)``.

    Raises:
        ArgumentError: if ``switches`` is not an integer >= 0.
        LossError: wrong shape, NaN, or a loss outside [0, 1].
    """
    block = np.asarray(losses)
    switches = check_count("switches", switches, 0)
    if block.ndim not in (2, 3) or not block.size:
        raise LossError(f"losses: expected shape (T, N) or (T, G, N) but found {block.shape}")
    games = block.shape[1] if block.ndim == 3 else None
    block = check_block(block, GameSpec(block.shape[-1], len(block), games), 1)
    # best[..., s, i]: the least loss so far of a sequence that is at i after at most s switches.
    best = np.zeros((*block.shape[1:-1], min(switches, len(block) - 1) + 1, block.shape[-1]))
    for row in block:
        if best.shape[-2] > 1:
            arrived = best[..., :-1, :].min(-1, keepdims=True)
            np.minimum(best[..., 1:, :], arrived, out=best[..., 1:, :])
        best += row[..., None, :]
    total = best[..., -1, :].min(-1)
    return total if block.ndim == 3 else float(total)


def dynamic_regret(losses: FloatArray, choices: IntArray, switches: int) -> Any:
    """Return the loss of the choices minus :func:`dynamic_best_loss`, the realised dynamic regret.

    Args:
        losses: shape ``(T, N)``, or ``(T, G, N)``; in [0, 1].
        choices: expert ids of shape ``(T,)`` or ``(T, G)``; G games may share losses ``(T, N)``.
        switches: S, an integer >= 0.

    Returns:
        A float, or shape ``(G,)``.

    Raises:
        ArgumentError, LossError: see :func:`dynamic_best_loss`.
    """
    best = dynamic_best_loss(losses, switches)
    return charged(np.asarray(losses, dtype=np.float64), np.asarray(choices)).sum(0) - best
