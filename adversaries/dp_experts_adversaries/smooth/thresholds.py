"""Thresholds on the unit interval: bisection as far as smoothness allows, among experts and among all thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_experts_adversaries.smooth.base import SmoothAdversary
from dp_experts_env.hypotheses import Thresholds
from dp_experts_env.spec import FloatArray, LossError, check_count, check_name, check_number


def aimed(first: Any, last: Any, named: Any, sigma: float) -> Any:
    """Return the low end of the interval of length sigma, between ``first..last`` and ``named``; may leave [0, 1]."""
    low = (first + last - sigma) / 2
    if named is None:
        return low
    low = np.where(named < first, np.maximum(named, first - sigma), low)
    return np.where(named > last, np.minimum(named, last + sigma) - sigma, low)


class SmoothThreshold(SmoothAdversary):
    """A sigma-smooth adversary on the unit interval: threshold experts classify instances of bounded density.

    ## Description
    Expert i is the threshold theta_i = i/(N - 1) (theta_0 = 0 for N = 1) and says 1 to an instance x >= theta_i,
    else 0. Each round an instance is drawn uniformly from an interval of length sigma, so its density is at most
    1/sigma; a label y follows, and the experts that say otherwise lose 1. The experts that agree with all labels so
    far are consecutive, theta_a..theta_b. A label on which they all agree is theirs; where they differ (x from
    theta_a to theta_b) the adversary is free to choose, and the interval shrinks. That is bisection, as far as
    smoothness allows: the experts that remain can differ with probability at most (theta_b - theta_a)/sigma.

    Mode "adaptive": a free label contradicts the expert that the learner named last (in round 1: expert floor(N/2)).
    The interval lies around the middle of theta_a..theta_b if that expert is among those that remain; else between
    it and them, next to them if it is sigma or further away, beginning at it if it is nearer. Mode "oblivious": a
    free label is a fair coin and the interval always lies around the middle; nothing depends on the learner. In both
    modes the interval is moved to stay in [0, 1], and finally each label is flipped with probability ``noise``.

    Without noise L* = 0 (the realizable case): an expert always remains. With it, that expert's total loss is
    Binomial(T, noise), so the expected L* is at most noise * T, over all thresholds of [0, 1] too.

    In the adaptive mode without noise, a learner that repeats its last choice c loses with probability at least
    min(1, abs(theta_c - theta_i)/sigma) in that round, given the past, for every expert i that remains: the instances
    on which c will be contradicted form an interval that includes the part between theta_c and theta_i, and the drawn
    interval lies inside it or covers it. So a learner that switches at most K times pays in each repeated round in
    proportion to its distance from the expert that remains at the end, and 1 where that is sigma or more. In the
    oblivious mode every learner errs with probability 1/2 on each free label. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness in [1e-9, 1]; 1 is the uniform distribution, and below 1e-9 the rounding of instances would
            show.
        mode: "adaptive" or "oblivious".
        noise: probability in [0, 1/2] that a label is flipped.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        thresholds: the experts, shape ``(N,)``.
        instances: the last instances, shape ``()`` or ``(G,)``.
        labels: their labels after flipping, bool of the same shape.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 1, "horizon": 1},
        {"mode": "oblivious", "num_experts": 6, "horizon": 20},
        {"sigma": 1.0, "noise": 0.25, "num_experts": 5, "horizon": 20},
    )

    def __init__(self, sigma: float = 0.1, mode: str = "adaptive", noise: float = 0.0, **game: Any) -> None:
        grid = np.linspace(0.0, 1.0, check_count("num_experts", game.get("num_experts", 10)))
        self.hypotheses, self.experts = Thresholds(), grid
        super().__init__(sigma, **game)
        self.mode = check_name("mode", mode, ("adaptive", "oblivious"))
        self.noise = check_number("noise", noise, 0.0, 0.5)
        self.thresholds = grid

    @property
    def oblivious(self) -> bool:
        """Whether the mode is "oblivious"."""
        return self.mode == "oblivious"

    def start(self) -> None:
        """Let all experts be consistent."""
        self._draws, self._coins, self._flips = self.np_random.spawn(3)
        self._points = None
        shape = self.game.shape
        self._first = np.zeros(shape, dtype=np.int64)
        self._last = np.full(shape, self.num_experts - 1)
        self._named: Any = np.full(shape, self.num_experts // 2)

    def support(self) -> tuple[Any, Any]:
        """Return the ends of the interval on which the next instance is uniform, arrays ``()`` or ``(G,)``.

        An override must keep each interval in [0, 1] and its density 1/(high - low) at most 1/sigma.
        """
        first, last = self.thresholds[self._first], self.thresholds[self._last]
        named = None if self.oblivious else self.thresholds[self._named]
        low = np.clip(aimed(first, last, named, self.sigma), 0.0, 1.0 - self.sigma)
        return low, low + self.sigma

    def emit(self) -> FloatArray:
        """Draw an instance, label it and charge the experts that say otherwise; see :meth:`Adversary.emit`.

        Raises:
            LossError: if the density exceeds 1/sigma or the interval leaves [0, 1].
        """
        low, high = self._checked_support()
        shape = self.game.shape
        instances = low + (high - low) * self._draws.random(shape)
        # Experts 0..ones - 1 say 1.
        ones = np.searchsorted(self.thresholds, instances, side="right")
        contradicted = self._coins.random(shape) < 0.5 if self.oblivious else self._named < ones
        label = np.where(ones > self._last, True, (ones > self._first) & ~contradicted)
        self._last = np.where(label, np.minimum(self._last, ones - 1), self._last)
        self._first = np.where(label, self._first, np.maximum(self._first, ones))
        self._keep(instances, label ^ (self._flips.random(shape) < self.noise))
        says = np.arange(self.num_experts) < ones[..., None]
        return np.asarray(says != self.labels[..., None], dtype=np.float64)

    def see(self, choices: Any) -> None:
        """Remember the choice; see :meth:`Adversary.see`."""
        self._named = choices

    def _checked_support(self) -> tuple[FloatArray, FloatArray]:
        low, high = np.broadcast_arrays(*self.support())
        # The ends are rounded.
        dense = ~(high - low >= self.sigma - 1e-15)
        outside = ~((low >= 0.0) & (high <= 1.0))
        for bad, rule in ((dense, f"a density of at most 1/sigma = {1 / self.sigma:g}"), (outside, "a part of [0, 1]")):
            if bad.any():
                game = f", game {int(np.flatnonzero(bad)[0])}" if bad.ndim else ""
                left, right = float(low[bad][0]), float(high[bad][0])
                density = np.inf if right <= left else 1 / (right - left)
                raise LossError(
                    f"{type(self).__name__}.support of round {self.round + 1}{game}: expected {rule} "
                    f"but found density {density:g} on [{left!r}, {right!r}]"
                )
        return low, high


class SmoothBisection(SmoothAdversary):
    """Bisects all thresholds of [0, 1], not only the experts; at sigma = 0 the unsmoothed bisection.

    ## Description
    Expert i is the threshold (i + 1/2)/N, the middle of a cell of width 1/N. The adversary keeps an interval (a, b] of
    thresholds that agree with all labels so far; instances up to a are labelled 0, from b on 1, and between them it
    is free. The instance is uniform on an interval of length sigma that lies where that of :class:`SmoothThreshold`
    would, with a and b in place of the remaining experts. Free labels contradict the expert named last (in round 1:
    expert floor(N/2)) in mode "adaptive" and are fair coins in mode "oblivious"; finally each is flipped with
    probability ``noise``.

    Without noise the best threshold of [0, 1] never errs, whereas the best expert may: with N fixed, once sigma is far
    below 1/N, no expert can tell the instances apart. The experts are a bracketing of gap 1/N, so N =
    ceil(sqrt(T)/sigma) of them are enough for a regret of order sqrt(T ln N) against all thresholds.

    At sigma = 0 the instance is the middle of (a, b]; in mode "adaptive", if the expert named last is outside, it is
    the end next to that expert, on which it errs. So there a learner that repeats its last choice loses in each round,
    but perhaps one that has become b. In mode "oblivious" no number is left between a and b after some fifty rounds;
    then a fair coin says which of the two is the instance. So without noise every label is a fair coin that is
    independent of the past, and every learner, whatever it does, loses T/2 in expectation, unless it names an expert
    of the last (a, b], which holds at most one; the class loses 0. [DERIVED]

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness, 0 or a number in [1e-9, 1]; at 0 the instances have no density.
        mode: "adaptive" or "oblivious".
        noise: probability in [0, 1/2] that a label is flipped.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    ## Version History
    v0: first version.
    """

    least_sigma = 0.0
    examples = (
        {"num_experts": 1, "horizon": 1},
        {"sigma": 0.0, "num_experts": 5, "horizon": 80},
        {"sigma": 0.0, "mode": "oblivious", "num_experts": 4, "horizon": 80},
        {"mode": "oblivious", "noise": 0.1, "num_experts": 6, "horizon": 20},
    )

    def __init__(self, sigma: float = 0.1, mode: str = "adaptive", noise: float = 0.0, **game: Any) -> None:
        size = check_count("num_experts", game.get("num_experts", 10))
        self.hypotheses, self.experts = Thresholds(), (np.arange(size) + 0.5) / size
        super().__init__(sigma, **game)
        if self.sigma > 0.0:
            check_number("sigma", sigma, 1e-9, 1.0)
        self.mode = check_name("mode", mode, ("adaptive", "oblivious"))
        self.noise = check_number("noise", noise, 0.0, 0.5)

    @property
    def oblivious(self) -> bool:
        """Whether the mode is "oblivious"."""
        return self.mode == "oblivious"

    def start(self) -> None:
        """Let all thresholds be consistent."""
        self._draws, self._coins, self._flips = self.np_random.spawn(3)
        self._points = None
        self._low, self._high = self.zeros(), self.zeros() + 1.0
        self._named: Any = np.full(self.game.shape, self.num_experts // 2)

    def emit(self) -> FloatArray:
        """Draw an instance, label it and charge the experts that say otherwise; see :meth:`Adversary.emit`."""
        shape, low, high = self.game.shape, self._low, self._high
        named = self.experts[self._named, 0]
        begin = np.clip(aimed(low, high, None if self.oblivious else named, self.sigma), 0.0, 1.0 - self.sigma)
        draws, coins = self._draws.random(shape), self._coins.random(shape) < 0.5
        instances = begin + self.sigma * draws
        if self.sigma == 0.0 and self.oblivious:
            instances = np.where((low < begin) & (begin < high), begin, np.where(coins, high, low))
        wanted = coins if self.oblivious else instances < named
        label = np.where(instances >= high, True, (instances > low) & wanted)
        self._high = np.where(label, np.minimum(high, instances), high)
        self._low = np.where(label, low, np.maximum(low, instances))
        self._keep(instances, label ^ (self._flips.random(shape) < self.noise))
        says = instances[..., None] >= self.experts[:, 0]
        return np.asarray(says != self.labels[..., None], dtype=np.float64)

    def see(self, choices: Any) -> None:
        """Remember the choice; see :meth:`Adversary.see`."""
        self._named = choices

    def witness(self) -> FloatArray:
        """Return the threshold b; see :meth:`SmoothAdversary.witness`."""
        return np.asarray(self._high)[..., None]
