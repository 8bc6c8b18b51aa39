"""Leaders of privately counted losses: noise is added to the cumulative losses once, choices are post-processing.

**Proof note.** Mechanism: after round t the learner knows only L_t + Z_t, the cumulative losses under correlated
noise from a private counter over the T - 1 prefixes that matter (the first choice is uniform, the last loss unused).
Sensitivity: replacing or zeroing out one loss vector moves it by at most sqrt(N) in L2 norm and N in L1 norm; the
counter's class says how far its basic noise variables move with it. Composition: one Gaussian mechanism of sensitivity
sqrt(N) * (L2 sensitivity of the counter), exactly mu-Gaussian DP, calibrated to (epsilon, delta) exactly; for delta = 0
one Laplace mechanism in L1 norm. Choosing is post-processing of the noisy sums and of fresh randomness. Adversary
model: adaptive, since given the past transcript the shift of each noise variable does not depend on later losses (for
the square-root Toeplitz counter the log-likelihood ratio of the worlds is exactly normal). Status: [DERIVED].

Regret, for oblivious losses: only the marginal law of Z_t enters each round's expected loss, so Z_t may be replaced by
a multiple s_t of one G (Toeplitz: s_t grows; trees: every prefix is topped up by fresh noise to the law of the noisiest
one, which costs no privacy). An adaptive adversary meets noise that is correlated over time; no bound is claimed there.

- *Regularised* (softmax with rate eta): Hedge with the prior exp(-eta Z), ln N/eta + eta T/8 + E max_i(-Z_i) at the
  last s_t, as the smoothed potential falls in s with slope at least -E max(-G) [DERIVED].
- *Perturbed* (argmin), Gaussian noise: s_n g_N + (kappa_N/2) sum_t 1/s_t with g_N the expected maximum of N standard
  normals and kappa_N = (N^2/4) * integral of phi^2 Phi^(N-2). [DERIVED] Phi(L, s) = E min_i (L_i + s G_i) has gradient
  the law of the choice; a Taylor step costs (1/2s) sup l' W l with W = -s * Hessian, a graph Laplacian of
  non-negative weights, so the supremum is at an indicator of a set and is a cut of W; with F the law of the maximum of
  the shifted normals and r = phi/Phi the cut is at most E[R(M)]/4, R = F'/F, and by concavity of r in -ln Phi and
  Jensen's inequality it is greatest when all shifts are equal, where it is kappa_N. Phi falls in s with slope in
  [-g_N, 0], so the differences telescope to L* + s_n g_N for non-decreasing s_t.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
from scipy import integrate, optimize
from scipy.special import log_ndtr

from dp_experts_env.learner import Learner
from dp_experts_env.privacy.accounting import gaussian_mu
from dp_experts_env.privacy.mechanisms import (
    BinaryTreeCounter,
    Counter,
    HonakerCounter,
    SquareRootToeplitzCounter,
    exponential_probabilities,
    gaussian_scale,
    laplace_scale,
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

COUNTERS: dict[str, type[Counter]] = {
    "tree": BinaryTreeCounter,
    "honaker": HonakerCounter,
    "toeplitz": SquareRootToeplitzCounter,
}
BLOCK_NUMBERS = 2**18


class CountedLosses(Learner):
    """Plays from privately counted losses; a subclass plans the counter and chooses from the noisy sums."""

    counter: str
    epsilon: float
    delta: float
    adjacency: Adjacency

    def start(self) -> None:
        """Forget all losses and set up the counter."""
        first, counts, self._extra, self._selections = self.rng.spawn(4)
        size = self.spec.num_experts
        self._first: IntArray = np.asarray(first.integers(size, size=self.spec.shape))
        self._noisy: FloatArray = np.zeros((*self.spec.shape, size))
        if self.spec.horizon > 1:
            self._counter = COUNTERS[self.counter](
                counts,
                (*self.spec.shape, size),
                self.spec.horizon - 1,
                noise_scale(self.counter, size, self.spec.horizon, self.epsilon, self.delta),
                noise="gaussian" if self.delta else "laplace",
            )

    def act(self) -> Any:
        """Name an expert from the noisy sums, the first uniformly; see :meth:`Learner.act`."""
        choices = self._choose(self._noisy[None])[0]
        return self._first if self.round == 0 else choices

    def observe(self, losses: FloatArray) -> None:
        """Count the losses; see :meth:`Learner.observe`."""
        if self.round + 1 < self.spec.horizon:
            self._noisy = self._count(losses[None])[0]

    def run(self, block: FloatArray) -> IntArray:
        """Play a block at once; see :meth:`Learner.run`."""
        choices = np.empty((len(block), *self.spec.shape), dtype=np.int64)
        step = max(1, BLOCK_NUMBERS // self._noisy.size)
        for start in range(0, len(block), step):
            rows = block[start : start + step]
            first = self.round + start
            counted = min(len(rows), self.spec.horizon - 1 - first)
            noisy = np.empty((len(rows) + 1, *self._noisy.shape))
            noisy[0] = self._noisy
            if counted:
                noisy[1 : counted + 1] = self._count(rows[:counted], first)
                self._noisy = noisy[counted].copy()
            choices[start : start + len(rows)] = self._choose(noisy[: len(rows)])
            if first == 0:
                choices[0] = self._first
        return choices

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return (epsilon, delta)-DP against adaptive adversaries."""
        kind = "exact Gaussian DP" if self.delta else "Laplace mechanism in L1 norm"
        return Guarantee(
            self.epsilon, self.delta, self.adjacency, "adaptive", f"{self.counter} counter, {kind} [DERIVED]"
        )

    def _count(self, rows: FloatArray, first: int | None = None) -> FloatArray:
        start = self.round if first is None else first
        noisy = self._counter.add_block(rows)
        self._top_up(noisy, start)
        return noisy

    def _top_up(self, noisy: FloatArray, start: int) -> None:
        """Add post-processing noise to the sums after rounds ``start + 1`` and on."""

    def _choose(self, noisy: FloatArray) -> IntArray:
        raise NotImplementedError


class GaussianLeader(CountedLosses):
    """The leader of cumulative losses under square-root Toeplitz Gaussian noise, without softmax. Ours.

    Best known certified regret at delta > 0 for N up to about 80. See the module for the proof note; the bound holds
    for oblivious losses. One fixed N(0, sx^2 I) draw is added to every sum where that lowers the certified bound.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in (0, 1).
        adjacency: "replace" or "zero_out"; both move a loss vector by at most sqrt(N).

    Raises:
        ArgumentError: if an argument lies outside its range; delta = 0 is not possible with Gaussian noise.
    """

    counter = "toeplitz"

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, adjacency: str | Adjacency = "replace") -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_number("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
        self.adjacency = check_adjacency(adjacency)

    def start(self) -> None:
        """Forget all losses, set up the counter and draw the fixed noise."""
        super().start()
        fixed = plan_gaussian_leader(self.spec.num_experts, self.spec.horizon, self.epsilon, self.delta)[0]
        self._fixed: FloatArray = fixed * self._extra.standard_normal(self._noisy.shape)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return s_n g_N + (kappa_N/2) sum_t 1/s_t against oblivious adversaries, NaN against adaptive ones."""
        if against == "adaptive":
            return math.nan
        return plan_gaussian_leader(spec.num_experts, spec.horizon, self.epsilon, self.delta)[1]

    def _top_up(self, noisy: FloatArray, start: int) -> None:
        noisy += self._fixed

    def _choose(self, noisy: FloatArray) -> IntArray:
        leaders: IntArray = noisy.argmin(-1)
        return leaders


class PrivateLeader(CountedLosses):
    """Follow the regularised or perturbed leader on a private counter (Agarwal and Singh 2017 and kin).

    See the module for the proof note. Memory is O(N log T) for the trees and O(N) for the Toeplitz counter, times the
    number of games.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); 0 needs the binary tree, with Laplace noise.
        counter: "tree", "honaker", "toeplitz", or "auto": Toeplitz for delta > 0, else the tree.
        rule: "regularised", softmax with a learning rate, or "perturbed", argmin of the noisy sums.
        learning_rate: eta > 0 for the softmax; ``None`` for sqrt(8 ln N/T).
        adjacency: "replace" or "zero_out"; both move a loss vector by at most sqrt(N) in L2 and N in L1 norm.

    Raises:
        ArgumentError: if an argument lies outside its range, or delta = 0 comes with a counter that needs delta > 0.
    """

    rules: ClassVar[tuple[str, ...]] = ("regularised", "perturbed")

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        counter: str = "auto",
        rule: str = "regularised",
        learning_rate: float | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        check_name("counter", counter, ("auto", *COUNTERS))
        if counter == "auto":
            counter = "toeplitz" if self.delta else "tree"
        if not self.delta and counter != "tree":
            raise ArgumentError(f"delta: expected a number in (0, 1) for the {counter} counter but found {delta!r}")
        self.counter = counter
        self.rule = check_name("rule", rule, self.rules)
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate
        self.adjacency = check_adjacency(adjacency)

    def start(self) -> None:
        """Forget all losses and set up the counter."""
        super().start()
        self._rate = self._rate_for(self.spec)

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice given the noisy sums, for the regularised rule.

        The noise is part of the state, so a sequence of these is not the law of the choices.
        """
        if self.rule != "regularised":
            return super().probabilities()
        if self.round == 0:
            return np.full(self.spec.num_experts, 1.0 / self.spec.num_experts)
        return exponential_probabilities(self._noisy, self._rate)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the bound of the module text against oblivious adversaries, NaN where none is proved."""
        size, horizon = spec.num_experts, spec.horizon
        if size == 1:
            return 0.0
        if against == "adaptive":
            return math.nan
        if horizon == 1:
            return 1.0 - 1.0 / size
        scale = noise_scale(self.counter, size, horizon, self.epsilon, self.delta)
        deviations = COUNTERS[self.counter].standard_deviations(horizon - 1, scale)
        if self.rule == "regularised":
            rate = self._rate_for(spec)
            if self.delta:
                worst = float(deviations.max()) * expected_maximum(size)
            else:
                worst = laplace_sum_maximum(size, round(float(deviations.max() / scale) ** 2), scale)
            return math.log(size) / rate + rate * horizon / 8.0 + worst
        if not self.delta:
            return math.nan
        if self.counter != "toeplitz":
            deviations = np.full(horizon - 1, deviations.max())
        return perturbed_bound(size, deviations)

    def _rate_for(self, spec: GameSpec) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return math.sqrt(8.0 * math.log(max(spec.num_experts, 2)) / spec.horizon)

    def _top_up(self, noisy: FloatArray, start: int) -> None:
        if self.counter == "toeplitz":
            return
        rows = slice(start, start + len(noisy))
        missing = _missing_draws(self.counter, self.spec.horizon - 1)[rows].reshape(-1, *(1,) * self._noisy.ndim)
        if self.delta:
            noisy += np.sqrt(missing) * self._counter.scale * self._extra.standard_normal(noisy.shape)
        else:
            # A sum of m Laplace draws is a difference of two Gamma(m) draws.
            both = self._extra.standard_gamma(np.broadcast_to(missing[:, None], (len(noisy), 2, *noisy.shape[1:])))
            noisy += self._counter.scale * (both[:, 0] - both[:, 1])

    def _choose(self, noisy: FloatArray) -> IntArray:
        if self.rule == "perturbed":
            leaders: IntArray = noisy.argmin(-1)
            return leaders
        uniforms = self._selections.random(noisy.shape[:-1])
        return sample_inverse_cdf(exponential_probabilities(noisy, self._rate), uniforms)


@functools.lru_cache(maxsize=32)
def _missing_draws(counter: str, prefixes: int) -> FloatArray:
    """Return the variance, in draws, by which each prefix falls short of the noisiest; whole numbers for the tree."""
    variances = np.square(COUNTERS[counter].standard_deviations(prefixes))
    if counter == "tree":
        variances = variances.round()
    return np.asarray(variances.max() - variances)


@functools.lru_cache(maxsize=256)
def noise_scale(counter: str, num_experts: int, horizon: int, epsilon: float, delta: float) -> float:
    """Return the scale of the counter's basic noise variables, rounded towards privacy.

    Args:
        counter: "tree", "honaker" or "toeplitz".
        num_experts: N >= 1.
        horizon: T >= 2; the counter covers T - 1 prefixes.
        epsilon: > 0.
        delta: in [0, 1); 0 for Laplace noise on the tree.
    """
    if delta:
        # The product may round down by half a unit; one step up covers it.
        moved = math.nextafter(math.sqrt(num_experts), math.inf) * COUNTERS[counter].l2_sensitivity(horizon - 1)
        return gaussian_scale(math.nextafter(moved, math.inf), gaussian_mu(epsilon, delta))
    return laplace_scale(num_experts * BinaryTreeCounter.l1_sensitivity(horizon - 1), epsilon)


@functools.lru_cache(maxsize=256)
def plan_gaussian_leader(num_experts: int, horizon: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the standard deviation of the fixed noise that makes the certified regret least, and that regret."""
    if num_experts == 1 or horizon == 1:
        return 0.0, 1.0 - 1.0 / num_experts
    scale = noise_scale("toeplitz", num_experts, horizon, epsilon, delta)
    variances = np.square(SquareRootToeplitzCounter.standard_deviations(horizon - 1, scale))

    def bound(log_fixed: float) -> float:
        return perturbed_bound(num_experts, np.sqrt(variances + math.exp(2.0 * log_fixed)))

    centre = 0.5 * math.log(horizon) + math.log1p(scale)
    best = optimize.minimize_scalar(bound, bounds=(centre - 12.0, centre + 4.0), method="bounded")
    without = perturbed_bound(num_experts, np.sqrt(variances))
    return (math.exp(best.x), bound(best.x)) if best.fun < without else (0.0, without)


def perturbed_bound(num_experts: int, deviations: FloatArray) -> float:
    """Return s_n g_N + (kappa_N/2) sum over t = 1..T of 1/s_{max(t-1, 1)}; see the module.

    Args:
        num_experts: N >= 2.
        deviations: s_1..s_{T-1}, non-decreasing, positive, shape ``(T - 1,)``.
    """
    inverse = float((1.0 / deviations).sum() + 1.0 / deviations[0])
    return float(deviations[-1]) * expected_maximum(num_experts) + 0.5 * curvature(num_experts) * inverse


@functools.lru_cache(maxsize=256)
def expected_maximum(num_experts: int) -> float:
    """Return g_N, the expected maximum of N standard normals."""
    if num_experts == 1:
        return 0.0

    def density(x: float) -> float:
        # N phi Phi^(N-1) x, folded so that the two halves do not cancel for N = 2
        log_phi = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        right = math.exp((num_experts - 1) * float(log_ndtr(x)) + log_phi)
        left = math.exp((num_experts - 1) * float(log_ndtr(-x)) + log_phi)
        return num_experts * x * (right - left)

    return float(integrate.quad(density, 0.0, 40.0, epsabs=1e-13, epsrel=1e-12, limit=400, points=[1.0, 3.0, 6.0])[0])


@functools.lru_cache(maxsize=256)
def curvature(num_experts: int) -> float:
    """Return kappa_N = (N^2/4) * integral of phi(x)^2 Phi(x)^(N-2) dx for N >= 2."""

    def density(x: float) -> float:
        return math.exp(-x * x - math.log(2.0 * math.pi) + (num_experts - 2) * float(log_ndtr(x)))

    whole = integrate.quad(density, -12.0, 12.0, epsabs=1e-15, epsrel=1e-12, limit=400, points=[-2.0, 0.0, 2.0, 4.0])[0]
    return 0.25 * num_experts**2 * float(whole)


@functools.lru_cache(maxsize=256)
def laplace_sum_maximum(num_experts: int, count: int, scale: float) -> float:
    """Return a bound on the expected maximum of N sums of ``count`` Laplace draws of this scale.

    E max <= (ln N + count * (-ln(1 - x^2)))/(x / scale) for every x in (0, 1), by the moment generating function.
    """

    def bound(x: float) -> float:
        return scale * (math.log(num_experts) - count * math.log1p(-x * x)) / x

    return bound(float(optimize.minimize_scalar(bound, bounds=(1e-6, 1.0 - 1e-9), method="bounded").x))
