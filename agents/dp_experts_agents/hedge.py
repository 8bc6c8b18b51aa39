"""Multiplicative weights: Hedge with its learning rates, and the private Hedge of S0.

S0 is the paper "Private ERM and private online learning".

**Proof note for PrivateHedge.** Mechanism: round t draws x_t from P_t(i) proportional to exp(-eta L_{t-1}(i)), the
exponential mechanism on cumulative losses, with fresh randomness. Sensitivity: replacing one earlier loss vector
moves each log-weight by -eta d(i), d in [-1, 1]^N, so the log-ratio of the two laws lies in an interval of length
2 eta (bounded range 2 eta, hence 2 eta-DP and, by Cesar and Rogers 2021, eta^2/2-zCDP); zeroing it out moves them by
half as much. Composition: the first draw is uniform, at most T - 1 draws are affected, and given a common transcript
prefix an adaptive adversary's other losses are fixed and equal in both worlds, so the costs add up along every path
and the claim holds against adaptive adversaries. ``method`` says how they are added: "seed" is the composition of the
source paper, "zcdp" adds eta^2/2 a step and converts tightly, "optimal" is the exact optimum of non-adaptive
composition of bounded-range mechanisms (Dong, Durfee and Rogers 2020), proved for fixed neighbouring sequences only.
Status: [TEXT] for "seed", [DERIVED] for "zcdp" and "optimal".

Regret: sum_t <P_t, l_t> <= L* + ln N / eta + eta T / 8 on every sequence, so also against adaptive adversaries. What
is really lost exceeds that sum by at most sqrt(T ln(1/beta) / 2) with probability at least 1 - beta: given the past,
l_t(x_t) - <P_t, l_t> has mean 0 and lies in an interval of length 1 (Azuma and Hoeffding) [DERIVED]. With "seed",
ln N / eta is ln N times the largest of sqrt(32 T ln(1/delta)) / epsilon, 2 and sqrt(16 T / epsilon).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_experts_agents.baselines import running_totals
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.accounting import learning_rate as private_learning_rate
from dp_experts_env.privacy.mechanisms import (
    exponential_log_probabilities,
    exponential_probabilities,
    sample_exponential,
    sample_inverse_cdf,
)
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
    check_name,
    check_number,
)

LEAST_GAP = 1e-300
"""Sums of mixability gaps up to here count as zero: a rate that is their reciprocal would overflow."""


class ExponentialWeights(Learner):
    """Draws each choice afresh from weights exp(-rate * cumulative loss); the rate is a subclass's business."""

    def start(self) -> None:
        """Forget all losses."""
        self._total: FloatArray = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        """Draw an expert by one uniform number a game; see :meth:`Learner.act`."""
        return self._sample(self._total, self._rate_now(), self.rng.random(self.spec.shape))

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._total = self._total + losses

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice, ``(N,)`` or ``(G, N)``."""
        return self._law(self._total, self._rate_now())

    def outcomes(self) -> FloatArray:
        """Return the log-probabilities of the next choice, ``(N,)`` or ``(G, N)``."""
        return self._log_law(self._total, self._rate_now())

    def take(self, outcome: Any) -> Any:
        """Name the expert ``outcome``."""
        return outcome

    def run(self, block: FloatArray) -> IntArray:
        """Play a block at once; see :meth:`Learner.run`."""
        rates = self._block_rates(len(block))
        if rates is None:
            return super().run(block)
        totals, self._total = running_totals(self._total, block)
        return self._sample(totals, rates, self.rng.random((len(block), *self.spec.shape)))

    def _rate_now(self) -> Any:
        raise NotImplementedError

    def _block_rates(self, rounds: int) -> Any:
        return self._rate_now()

    def _sample(self, totals: FloatArray, rate: Any, uniforms: FloatArray) -> IntArray:
        return sample_exponential(totals, rate, uniforms)

    def _law(self, totals: FloatArray, rate: Any) -> FloatArray:
        return exponential_probabilities(totals, rate)

    def _log_law(self, totals: FloatArray, rate: Any) -> FloatArray:
        return exponential_log_probabilities(totals, rate)


class Hedge(ExponentialWeights):
    """Exponential weights with a chosen learning rate (Freund and Schapire 1997). Not private.

    The rate of the round multiplies the whole cumulative loss ("current rate times cumulative loss"), also where it
    varies over time: with rates (1, 0.5, 0.5) and losses (0, 1), (1, 0) the log-weights before round 3 are
    (-0.5, -0.5).

    Regret, on every sequence:

    - rate eta fixed: the least of ln N/eta + eta T/8 and (eta L* + ln N)/(1 - e^-eta) - L* [DERIVED];
    - "adahedge", eta_t = ln N / (mixability gaps so far), infinite before the first (de Rooij et al. 2014): the
      least of sqrt(T ln N) + 2 and 2 sqrt(L* ln N) + 4 ln N + 2 [DERIVED]. Proof: the mix losses telescope to at
      most L* + Delta, the gaps add Delta more, so the regret is at most 2 Delta; Delta^2 <= sum 2 delta_t ln N/eta_t
      + Delta, and a gap delta_t is at most eta_t/8 and at most eta_t/2 times the round's expected loss.

    Args:
        learning_rate: "fixed" for sqrt(8 ln N/T); "small_loss" for ln(1 + sqrt(2 ln N/best_loss)); "adahedge"; or a
            number > 0; or a sequence of T of them, one a round.
        best_loss: for "small_loss" an upper bound on L*, a number > 0; ``None`` for T.
        mixing: gamma in [0, 1]: the law is (1 - gamma) times the weights' plus gamma/N; costs gamma T of regret.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        learning_rate: str | float | Sequence[float] = "fixed",
        best_loss: float | None = None,
        mixing: float = 0.0,
    ) -> None:
        if isinstance(learning_rate, str):
            check_name("learning_rate", learning_rate, ("fixed", "small_loss", "adahedge"))
        else:
            for rate in np.atleast_1d(learning_rate):
                check_number("learning_rate", rate, 0.0, low_open=True)
        self.learning_rate = learning_rate
        self.best_loss = None if best_loss is None else check_number("best_loss", best_loss, 0.0, low_open=True)
        self.mixing = check_number("mixing", mixing, 0.0, 1.0)

    def start(self) -> None:
        """Forget all losses and set the first learning rate."""
        super().start()
        self._rates = self._fixed_rates(self.spec)
        self._gap, self._adaptive_rate = np.zeros(()), np.ones(())

    def observe(self, losses: FloatArray) -> None:
        """Add the losses, and under "adahedge" the mixability gap."""
        if self._rates is None:
            self._gap = self._gap + self._mixability_gap(losses)
            # At gap 0 all experts are level and any finite rate gives the law of the infinite one.
            self._adaptive_rate = np.ones(self._gap.shape)
            np.divide(self._log_experts(self.spec), self._gap, out=self._adaptive_rate, where=self._gap > LEAST_GAP)
        super().observe(losses)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the class text for every adversary model; NaN for a varying sequence of rates."""
        log_experts = math.log(spec.num_experts)
        if log_experts == 0.0:
            return 0.0
        rates = self._fixed_rates(spec)
        if rates is None:
            bound = min(
                math.sqrt(spec.horizon * log_experts) + 2.0,
                2.0 * math.sqrt(best_loss * log_experts) + 4.0 * log_experts + 2.0,
            )
        elif np.ndim(rates):
            return math.nan
        else:
            rate = float(rates)
            bound = min(
                hedge_regret(rate, spec.horizon, spec.num_experts),
                (rate * best_loss + log_experts) / -math.expm1(-rate) - best_loss,
            )
        return (1.0 - self.mixing) * bound + self.mixing * (spec.horizon - best_loss)

    @staticmethod
    def _log_experts(spec: GameSpec) -> float:
        # One expert needs some rate too.
        return math.log(max(spec.num_experts, 2))

    def _fixed_rates(self, spec: GameSpec) -> Any:
        log_experts = self._log_experts(spec)
        if not isinstance(self.learning_rate, str):
            rates = np.asarray(self.learning_rate, dtype=np.float64)
            if rates.ndim and rates.shape != (spec.horizon,):
                raise ArgumentError(
                    f"learning_rate: expected one number or {spec.horizon} of them, one a round, "
                    f"but found shape {rates.shape}"
                )
            return rates
        if self.learning_rate == "fixed":
            return np.asarray(math.sqrt(8.0 * log_experts / spec.horizon))
        if self.learning_rate == "small_loss":
            target = self.best_loss if self.best_loss is not None else spec.horizon
            return np.asarray(math.log1p(math.sqrt(2.0 * log_experts / target)))
        return None

    def _rate_now(self) -> Any:
        if self._rates is None:
            return self._adaptive_rate
        return self._rates if self._rates.ndim == 0 else self._rates[min(self.round, self.spec.horizon - 1)]

    def _block_rates(self, rounds: int) -> Any:
        if self._rates is None or self._rates.ndim == 0:
            return self._rates
        return self._rates[self.round : self.round + rounds]

    def _sample(self, totals: FloatArray, rate: Any, uniforms: FloatArray) -> IntArray:
        if self.mixing or np.ndim(rate):
            return sample_inverse_cdf(self._law(totals, rate), uniforms)
        return super()._sample(totals, rate, uniforms)

    def _law(self, totals: FloatArray, rate: Any) -> FloatArray:
        law = super()._law(totals, _behind(np.asarray(rate), totals))
        return (1.0 - self.mixing) * law + self.mixing / law.shape[-1] if self.mixing else law

    def _log_law(self, totals: FloatArray, rate: Any) -> FloatArray:
        if self.mixing:
            return np.asarray(np.log(self._law(totals, rate)))
        return super()._log_law(totals, _behind(np.asarray(rate), totals))

    def _mixability_gap(self, losses: FloatArray) -> FloatArray:
        """Return the expected loss minus the mix loss -ln(sum of law * e^(-rate * loss))/rate of the unmixed law."""
        rate = self._adaptive_rate[..., None]
        behind = self._total - self._total.min(-1, keepdims=True)
        # An expert whose weight underflows may lead after this round: the mix loss has to see it.
        after = behind + losses
        least = after.min(-1, keepdims=True)
        weights, later = np.exp(-rate * behind), np.exp(-rate * (after - least))
        normaliser = weights.sum(-1)
        mixed = least[..., 0] - np.log(later.sum(-1) / normaliser) / self._adaptive_rate
        # The first gap is at an infinite rate. Rounding may make an exact zero slightly negative.
        mixed = np.where(self._gap > LEAST_GAP, mixed, least[..., 0])
        gap: FloatArray = np.maximum((weights * losses).sum(-1) / normaliser - mixed, 0.0)
        return gap


class PrivateHedge(ExponentialWeights):
    """Private multiplicative weights (S0): Hedge at a learning rate that composes to (epsilon, delta).

    Private against adaptive adversaries with ``method`` "seed" and "zcdp"; with "optimal" against oblivious ones
    only, and ``play`` then refuses an adaptive adversary. See the module for the proof.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); at 0 every method is basic composition, eta = epsilon/(2 (T - 1)).
        method: "seed", eta = min{epsilon/sqrt(32 T ln(1/delta)), 1/2, sqrt(epsilon/(16 T))}; "zcdp"; or "optimal".
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        method: str = "zcdp",
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.method = check_name("method", method, ("seed", "zcdp", "optimal"))
        self.adjacency = check_adjacency(adjacency)

    def learning_rate(self, spec: GameSpec) -> float:
        """Return eta for a game of this size, a function of T, epsilon and delta alone."""
        return private_learning_rate(self.epsilon, self.delta, spec.horizon, self.method, self.adjacency.value)

    def start(self) -> None:
        """Forget all losses and set the learning rate."""
        super().start()
        self._rate = self.learning_rate(self.spec)

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return (epsilon, delta)-DP, adaptive unless ``method`` is "optimal"."""
        source = {
            "seed": "private multiplicative weights, three-cap learning rate (S0) [TEXT]",
            "zcdp": "bounded range to zCDP, tight conversion [DERIVED]",
            "optimal": "optimal non-adaptive bounded-range composition [DERIVED]",
        }[self.method]
        against = "oblivious" if self.method == "optimal" and self.delta > 0.0 else "adaptive"
        return Guarantee(self.epsilon, self.delta, self.adjacency, against, source)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return ln N/eta + eta T/8, which holds against every adversary."""
        return hedge_regret(self.learning_rate(spec), spec.horizon, spec.num_experts)

    def _rate_now(self) -> Any:
        return self._rate


def _behind(rates: FloatArray, totals: FloatArray) -> FloatArray:
    return rates.reshape(rates.shape + (1,) * (totals.ndim - rates.ndim)) if rates.ndim else rates


def hedge_regret(learning_rate: float, horizon: int, num_experts: int) -> float:
    """Return ln N/eta + eta T/8, the regret of exponential weights at a fixed learning rate on every sequence."""
    return math.log(num_experts) / learning_rate + learning_rate * horizon / 8.0
