"""Phased selection for stochastic losses: one private choice per doubling phase.

**Proof note.** Mechanism: before round t = 2, 4, 8, ... the expert is drawn by the exponential mechanism with
coefficient epsilon/2 on the summed losses of rounds t/2..t-1 and kept until the next power of two (Asi, Feldman, Koren
and Talwar 2023, Algorithm 2, with this selection). Sensitivity: each loss vector enters one draw, whose log-weights
move by epsilon/2 * d, d in [-1, 1]^N: bounded range epsilon, hence epsilon-DP (coefficient epsilon under zero-out).
Composition: parallel; given the transcript an adaptive adversary's other losses are equal in both worlds, so the
claim holds against adaptive adversaries. Status: [DERIVED] from [TEXT].

Regret, losses independent and identically distributed: with n = t/2 samples the drawn expert's mean exceeds the best
by at most sqrt(ln N/(2n)) + ln N/(n c) in expectation, c the coefficient, so a phase of 2n rounds costs at most
sqrt(2 n ln N) + 2 ln N/c. That bounds the pseudo-regret, against the expert of least mean; the best expert of the
realised losses is below it by at most sqrt(T ln N/2) in expectation, which is added here. [DERIVED]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_experts_agents.baselines import running_totals
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.mechanisms import (
    exponential_log_probabilities,
    exponential_probabilities,
    sample_inverse_cdf,
)
from dp_experts_env.spec import (
    Adjacency,
    FloatArray,
    GameSpec,
    Guarantee,
    IntArray,
    check_adjacency,
    check_delta,
    check_epsilon,
)


class PhasedSelection(Learner):
    """Keeps one privately selected expert per phase of doubling length; see the module. For stochastic losses.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); ignored, the guarantee is pure.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, adjacency: str | Adjacency = "replace") -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.adjacency = check_adjacency(adjacency)

    @property
    def coefficient(self) -> float:
        """The exponential mechanism's coefficient: epsilon/2 under replacement, epsilon under zero-out."""
        return self.epsilon / 2.0 if self.adjacency is Adjacency.REPLACE else self.epsilon

    def start(self) -> None:
        """Forget all losses; the first round draws uniformly."""
        self._phase: FloatArray = np.zeros(self.spec.num_experts)
        self._held: IntArray = np.zeros(self.spec.shape, dtype=np.int64)

    def act(self) -> Any:
        """Name the phase's expert, drawn at its beginning; see :meth:`Learner.act`."""
        if self._begins(self.round):
            self._draw()
        return self._held

    def observe(self, losses: FloatArray) -> None:
        """Add the losses to the phase's; see :meth:`Learner.observe`."""
        self._phase = losses + (0.0 if self._begins(self.round) else self._phase)

    def run(self, block: FloatArray) -> IntArray:
        """Play a block phase by phase; see :meth:`Learner.run`."""
        choices = np.empty((len(block), *self.spec.shape), dtype=np.int64)
        start = 0
        while start < len(block):
            number = self.round + start + 1
            end = min(len(block), start + (1 << number.bit_length()) - number)
            if self._begins(number - 1):
                self._draw()
                self._phase = np.zeros(self.spec.num_experts)
            choices[start:end] = self._held
            self._phase = running_totals(self._phase, block[start:end])[1]
            start = end
        return choices

    def outcomes(self) -> FloatArray:
        """Return the log-probabilities of the next choice: drawn when a phase begins, else the held expert."""
        if self._begins(self.round):
            return exponential_log_probabilities(self._phase, self.coefficient)
        return np.where(self._held[..., None] == np.arange(self.spec.num_experts), 0.0, -np.inf)

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice given the held expert."""
        return np.exp(self.outcomes())

    def take(self, outcome: Any) -> Any:
        """Hold the expert ``outcome``."""
        self._held = np.asarray(outcome, dtype=np.int64)
        return self._held

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return epsilon-DP against adaptive adversaries: every loss is used in one draw."""
        source = "exponential mechanism on disjoint phases (Asi et al. 2023, Algorithm 2) [DERIVED]"
        return Guarantee(self.epsilon, 0.0, self.adjacency, "adaptive", source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the module text against stochastic adversaries, NaN against the others."""
        if spec.num_experts == 1:
            return 0.0
        if against != "stochastic":
            return math.nan
        log_experts = math.log(spec.num_experts)
        bound = 1.0
        begin = 2
        while begin <= spec.horizon:
            samples, rounds = begin // 2, min(begin, spec.horizon - begin + 1)
            excess = math.sqrt(log_experts / (2.0 * samples)) + log_experts / (samples * self.coefficient)
            bound += rounds * min(1.0, excess)
            begin *= 2
        return bound + math.sqrt(spec.horizon * log_experts / 2.0)

    @staticmethod
    def _begins(completed: int) -> bool:
        """Whether the round after this many completed ones begins a phase: rounds 1, 2, 4, 8, ..."""
        return (completed + 1) & completed == 0

    def _draw(self) -> None:
        law = exponential_probabilities(self._phase, self.coefficient)
        self._held = np.asarray(sample_inverse_cdf(law, self.rng.random(self.spec.shape)))
