"""The shrinking dartboard: Hedge's law round by round, with few switches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_experts_agents.hedge import hedge_regret
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities, sample_inverse_cdf
from dp_experts_env.spec import FloatArray, GameSpec, IntArray, check_number


class ShrinkingDartboard(Learner):
    """Keeps its expert with probability exp(-eta * its last loss), else redraws it (Geulen, Voecking, Winkler 2010).

    The marginal law of each choice is exactly Hedge's P_t(i) proportional to exp(-eta L_{t-1}(i)): if x_t has law
    P_t, keeping contributes P_t(i) e^{-eta l_t(i)} = Z P_{t+1}(i) with Z = sum_j P_t(j) e^{-eta l_t(j)}, and the
    remaining mass 1 - Z is redrawn from P_{t+1}. Hence on oblivious sequences the regret is at most
    ln N/eta + eta T/8 [DERIVED], and the expected number of redraws after the first is at most ln N + eta L*, since
    1 - Z_t <= ln(W_t/W_{t+1}) telescopes [DERIVED]. An adaptive adversary sees which expert is held: no bound there.
    Not private: without forced redraws the moment of a switch reveals a loss.

    Args:
        learning_rate: eta > 0; ``None`` for sqrt(8 ln N/T).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, learning_rate: float | None = None) -> None:
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate

    def start(self) -> None:
        """Forget all losses; the first round redraws."""
        self._rate = self._rate_for(self.spec)
        self._total: FloatArray = np.zeros(self.spec.num_experts)
        self._held: IntArray = np.zeros(self.spec.shape, dtype=np.int64)
        self._keep: FloatArray = np.zeros(self.spec.shape)
        self._coins, self._selections = self.rng.spawn(2)

    def act(self) -> Any:
        """Keep or redraw, one coin and one uniform a game; see :meth:`Learner.act`."""
        kept = self._coins.random(self.spec.shape) < self._keep
        uniforms = self._selections.random(self.spec.shape)
        if not np.all(kept):
            redrawn = ~np.asarray(kept)
            totals = self._total[redrawn] if self._total.ndim > 1 else self._total
            law = np.exp(exponential_log_probabilities(totals, self._rate))
            held = self._held.copy()
            held[redrawn] = sample_inverse_cdf(law, np.asarray(uniforms)[redrawn])
            self._held = held
        self.note("kept", kept)
        return self._held

    def observe(self, losses: FloatArray) -> None:
        """Add the losses and set the chance to keep the held expert; see :meth:`Learner.observe`."""
        self._total = self._total + losses
        own = losses[self._held] if losses.ndim == 1 else np.take_along_axis(losses, self._held[:, None], -1)[:, 0]
        self._keep = np.exp(-self._rate * own)

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of "redrawn to i", i in 0..N-1, then of "kept"; ``(N + 1,)`` or ``(G, N + 1)``."""
        law = exponential_log_probabilities(self._total, self._rate)
        with np.errstate(divide="ignore"):
            keep, redraw = np.log(self._keep)[..., None], np.log1p(-self._keep)[..., None]
        return np.concatenate([np.broadcast_to(law + redraw, (*self.spec.shape, law.shape[-1])), keep], axis=-1)

    def take(self, outcome: Any) -> Any:
        """Keep the held expert if ``outcome`` is N, else hold expert ``outcome``."""
        outcome = np.asarray(outcome)
        self._held = np.where(outcome == self.spec.num_experts, self._held, outcome)
        self.note("kept", outcome == self.spec.num_experts)
        return self._held

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return ln N/eta + eta T/8 against oblivious adversaries, NaN against adaptive ones."""
        if against == "adaptive":
            return math.nan
        return hedge_regret(self._rate_for(spec), spec.horizon, spec.num_experts)

    def _rate_for(self, spec: GameSpec) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return math.sqrt(8.0 * math.log(max(spec.num_experts, 2)) / spec.horizon)
