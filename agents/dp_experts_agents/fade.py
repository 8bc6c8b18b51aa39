"""FADE: a fading exponential mechanism under an AboveThreshold watch. Ours; measured regret, no certificate.

**Proof note.** The learner holds an expert and redraws it now and then. A draw weighs the losses S since the last draw
by a K_0, those before it by a K_1, and so on: the weights of one loss over all later draws have a finite sum, so draws
are unlimited. In between, AboveThreshold instances on disjoint windows watch the held expert's losses minus a public
drift; their outcomes say when to redraw.

Mechanism: AboveThreshold with one-sided exponential noises of rate e0 = 0.4 epsilon for threshold and queries;
draws x ~ exp(-(u_s + u_l)), u_s <- clip(0.5 u_s + 0.6 a S), u_l <- clip(0.93 u_l + 0.4 a S), with
clip(u) = min(u - min u, C) (delta = 0: one vector, u <- clip(0.8 u + a S)).

Sensitivity: (a) windows are disjoint, so one instance sees the changed round, and its queries shift by one constant in
[-1, 1] on a suffix (fixed expert, public drift): e0-DP by the suffix lemma of AboveThreshold. (b) Every draw ends an
instance and uses earlier losses only, so affected draws come after; the first has S moved by d in [-1, 1]^N, clipping
is non-expansive in max-min range, so the j-th affected draw moves by range 2 a K_j.

Composition: everything else is a function of the transcript of trigger bits and draws, and the costs add up along
every path. delta = 0: e0 + sum_j 2 a K_j = epsilon. delta > 0: the draws are rho-zCDP with rho = a^2 sum_j K_j^2 / 2,
and e0-DP followed by rho-zCDP is (epsilon, delta)-DP for the rho of the worst mixture (see
``privacy.accounting.mixed_rho``); or the pure sum if that allows a larger a. Theorem: epsilon-DP or
(epsilon, delta)-DP against adaptive adversaries, trigger bits and draws in the transcript. Status: [DERIVED].

S is summed afresh after each draw: a difference of running totals would leak the changed loss by its rounding.
No regret bound is proved; linear regret can be forced by an adversary tuned to its memory.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.learner import Learner
from dp_experts_env.privacy.accounting import mixed_rho
from dp_experts_env.privacy.mechanisms import AboveThreshold, exponential_probabilities, sample_inverse_cdf
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

BoolArray: TypeAlias = NDArray[np.bool_]

CHECK_EVERY = 8
FIRST_WAIT = 8
EMERGENCY_WAIT = 256
WATCH_SHARE = 0.4
PURE_MEMORY = ((1.0, 0.8),)
APPROXIMATE_MEMORY = ((0.6, 0.5), (0.4, 0.93))


@dataclass(frozen=True)
class FadePlan:
    """What FADE is run with; a function of T, N, epsilon and delta alone.

    Attributes:
        watch_epsilon: e0, the budget of the AboveThreshold instances and the rate of their noises.
        memory: pairs (share, decay); K_j is the sum of share * decay^j.
        weight: a, the weight of a new loss in a draw.
        threshold: tau of the instances.
        longest_wait: most rounds between scheduled draws.
        clip: C, the largest exponent kept.
    """

    watch_epsilon: float
    memory: tuple[tuple[float, float], ...]
    weight: float
    threshold: float
    longest_wait: int
    clip: float


@functools.lru_cache(maxsize=256)
def plan_fade(num_experts: int, horizon: int, epsilon: float, delta: float, adjacency: str = "replace") -> FadePlan:
    """Return the constants for a game of this size, rounded towards privacy.

    Args:
        num_experts: N >= 1.
        horizon: T >= 1.
        epsilon: > 0.
        delta: in [0, 1).
        adjacency: "replace", or "zero_out", where a draw's range is half as wide.
    """
    watch = WATCH_SHARE * epsilon
    memory = APPROXIMATE_MEMORY if delta else PURE_MEMORY
    total = sum(share / (1.0 - decay) for share, decay in memory)
    # Draws move by range (span * weight * K_j).
    span = 2.0 if Adjacency(adjacency) is Adjacency.REPLACE else 1.0
    weight = (epsilon - watch) / (span * total)
    if delta:
        squares = sum(s * t / (1.0 - d * e) for s, d in memory for t, e in memory)
        weight = max(weight, math.sqrt(8.0 * mixed_rho(watch, epsilon, delta) / squares) / span)
    noise = 1.0 / watch
    return FadePlan(
        watch_epsilon=watch,
        memory=memory,
        weight=weight * (1.0 - 1e-12),
        threshold=noise * max(1.0, math.log(horizon / CHECK_EVERY) - 1.0),
        longest_wait=max(CHECK_EVERY, horizon // 20),
        clip=math.log(num_experts) + 20.0,
    )


class Fade(Learner):
    """Holds an expert, watches its rate of loss privately, and redraws it from fading memory; see the module.

    Decisions are taken every eight rounds, so a round costs O(1) beyond accumulating losses.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1).
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, adjacency: str | Adjacency = "replace") -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.adjacency = check_adjacency(adjacency)

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return (epsilon, delta)-DP against adaptive adversaries."""
        source = "fading exponential mechanism and AboveThreshold on disjoint windows [DERIVED]"
        return Guarantee(self.epsilon, self.delta, self.adjacency, "adaptive", source)

    def start(self) -> None:
        """Hold a uniform expert and begin to measure it."""
        size, games = self.spec.num_experts, self.spec.num_games or 1
        self._plan = plan_fade(size, self.spec.horizon, self.epsilon, self.delta, self.adjacency.value)
        self._query_noise, self._threshold_noise, self._selections = self.rng.spawn(3)
        watch = self._plan.watch_epsilon
        self._watch = AboveThreshold.suffix_constant(watch, watch, noise="exponential")
        self._watch.start((games,), self._threshold_noise)
        self._held: IntArray = self._selections.integers(size, size=games)
        self._memory = [np.zeros((games, size)) for _ in self._plan.memory]
        self._recent = np.zeros((games, size))
        self._windowed = np.zeros(games)
        self._window_start = np.zeros(games, dtype=np.int64)
        self._drift, self._margin = np.zeros(games), np.zeros(games)
        self._watching, self._good = np.zeros(games, dtype=bool), np.zeros(games, dtype=bool)
        self._quiet = np.zeros(self.spec.shape, dtype=bool)
        self._usual = np.full(games, np.nan)
        self._last_emergency = np.zeros(games, dtype=np.int64)
        self._next_draw = np.full(games, FIRST_WAIT)

    def act(self) -> Any:
        """Name the held expert, redrawn if it is time; see :meth:`Learner.act`."""
        self._decide(self.round)
        return self._held.reshape(self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._add(losses[None])

    def run(self, block: FloatArray) -> IntArray:
        """Play a block from decision to decision; see :meth:`Learner.run`."""
        choices = np.empty((len(block), len(self._held)), dtype=np.int64)
        start = 0
        while start < len(block):
            now = self.round + start
            end = min(len(block), start + CHECK_EVERY - now % CHECK_EVERY)
            for later in range(now, self.round + end):
                self._decide(later)
            choices[start:end] = self._held
            self._add(block[start:end])
            start = end
        return choices.reshape(len(block), *self.spec.shape)

    def _add(self, rows: FloatArray) -> None:
        charges = rows[:, self._held] if rows.ndim == 2 else rows[:, np.arange(len(self._held)), self._held]
        for losses, charge in zip(rows, charges, strict=True):
            self._recent += losses
            self._windowed += charge

    def _decide(self, now: int) -> None:
        """Decide before the round after ``now`` completed ones."""
        if now == 0 or now % CHECK_EVERY:
            self.note("triggered", self._quiet)
            self.note("redrawn", self._quiet)
            return
        plan, games = self._plan, self._held.shape
        query_noise = self._watch.draw_query_noise(self._query_noise, games)
        threshold_noise = self._watch.draw_threshold_noise(self._threshold_noise, games)
        uniforms = self._selections.random(games)

        width = now - self._window_start
        triggered = self._watch.test(self._windowed - self._drift * width, plan.threshold, query_noise)
        long = np.where(self._watching, 2.0 * self._margin * width >= plan.threshold, width >= 6.0 * plan.threshold)
        ended, due = triggered | long, now >= self._next_draw
        redrawn = np.zeros(games, dtype=bool)
        if (ended | due).any():
            alarm = self._watching & triggered
            worse = self._measure(ended & ~self._watching, triggered, width)
            redrawn = self._schedule(now, alarm | worse, due)
            if redrawn.any():
                self._redraw(redrawn, uniforms)
            renewed = ended | redrawn
            self._watch.start(renewed, threshold_noise)
            self._window_start = np.where(renewed, now, self._window_start)
            self._windowed = np.where(renewed, 0.0, self._windowed)
        self.note("triggered", triggered.reshape(self.spec.shape))
        self.note("redrawn", redrawn.reshape(self.spec.shape))

    def _measure(self, measured: BoolArray, triggered: BoolArray, width: IntArray) -> BoolArray:
        """Estimate the held expert's rate of loss where a measurement ended; return where it got worse."""
        rate = np.where(triggered, np.minimum(1.0, self._plan.threshold / width), 1.0 / 12.0)
        first = measured & np.isnan(self._usual)
        usual = np.where(first, rate, self._usual)
        worse = measured & (rate > 1.35 * usual + 0.03)
        step = np.where(rate >= usual, 0.25, 0.5)
        self._usual = np.where(measured, usual + step * (rate - usual), usual)
        self._good = np.where(measured, ~triggered, self._good)
        self._margin = np.where(measured, np.maximum(0.05, 0.3 * rate), self._margin)
        self._drift = np.where(measured, rate + self._margin, self._drift)
        self._watching = self._watching | measured
        return worse

    def _schedule(self, now: int, emergency: BoolArray, due: BoolArray) -> BoolArray:
        """Set the next scheduled draws; return where to draw now."""
        due = due & ~emergency
        wait = np.minimum(self._plan.longest_wait, np.maximum(FIRST_WAIT, now - self._last_emergency))
        self._next_draw = np.where(emergency, now + EMERGENCY_WAIT, np.where(due, now + wait, self._next_draw))
        self._last_emergency = np.where(emergency, now, self._last_emergency)
        return emergency | (due & ~self._good)

    def _redraw(self, where: Any, uniforms: FloatArray) -> None:
        exponents = np.zeros((int(where.sum()), self.spec.num_experts))
        for kept, (share, decay) in zip(self._memory, self._plan.memory, strict=True):
            faded = decay * kept[where] + share * self._plan.weight * self._recent[where]
            kept[where] = faded = np.minimum(faded - faded.min(-1, keepdims=True), self._plan.clip)
            exponents += faded
        self._held = self._held.copy()
        self._held[where] = sample_inverse_cdf(exponential_probabilities(exponents, 1.0), uniforms[where])
        self._recent[where] = 0.0
        self._watching[where] = self._good[where] = False
        self._drift[where] = 0.0
