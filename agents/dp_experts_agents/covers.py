"""Online learning of a class of hypotheses in the smooth world: any learner on a cover, and leaders with an oracle.

S1 is the paper "Smoothed Analysis of Online and Differentially Private Learning". In each round a sigma-smooth law is
committed, the learner names a hypothesis, an instance is drawn and labelled, and the hypothesis pays 1 if it errs.

**Regret of a learner on a cover.** The experts are the hypotheses of a finite set, one loss vector an instance, so any
learner plays, with its own regret bound R against the best of them. What is added is the price of rounding the class to
the set:

- *adaptive adversaries* [DERIVED]: the experts represent a bracketing of n brackets whose ends differ on mass at most
  gamma. A hypothesis and its bracket's representative differ only where the ends do; under a law of density at most
  1/sigma that has probability at most p = gamma/sigma in each round, given the past. So a bracket's number of such
  rounds is dominated by Bin(T, p), and the largest of the n numbers, which bounds the price for all hypotheses at
  once, has an expectation of at most ``sum_(k = 1..T) min(1, n Pr[Bin(T, p) >= k])``. In closed form (Freedman): at
  most p T + sqrt(2 p T ln(n/beta)) + (2/3) ln(n/beta) with probability 1 - beta, so in expectation at most beta T more.
  The sum is never larger: if n Pr[Bin(T, p) >= s] <= beta, terms below s are at most 1 and the others at most beta.
- *oblivious adversaries*: a gamma-cover does, of (41/gamma)^v hypotheses at most, v the VC dimension: each fixed
  hypothesis differs from the nearest in at most p T rounds in expectation. This is regret against the hypothesis that
  is best in expectation, not against the best on the realised sample. [DERIVED]

With gamma = sigma/sqrt(T) and Hedge, against adaptive adversaries, expected regret at most sqrt(T ln n/2) + sqrt(T) +
sqrt(2 sqrt(T) ln(n/beta)) + (2/3) ln(n/beta) + beta T; for thresholds n = ceil(sqrt(T)/sigma).

**Privacy.** An example enters one loss vector. A learner that is (epsilon, delta)-private for the replacement of a
round's losses is so for the replacement of an example, with the same adversary model; what is protected is the sequence
of the hypotheses named. A label published for an instance of the sequence depends on that instance, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dp_experts_env.hypotheses import FiniteClass, HypothesisClass
from dp_experts_env.learner import Learner
from dp_experts_env.registry import make_learner
from dp_experts_env.spec import (
    ArgumentError,
    FloatArray,
    GameSpec,
    Guarantee,
    Parameters,
    check_count,
    check_name,
    check_number,
)

_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class CoverPlan:
    """Experts for a class, and what rounding the class to them costs; see :func:`plan_cover`.

    Attributes:
        hypotheses: the class.
        horizon: number of rounds T.
        sigma: smoothness.
        against: adversary model, "stochastic", "oblivious" or "adaptive".
        experts: their parameters, shape ``(n, P)``.
        gap: proved bound on the mass on which a hypothesis and its expert differ.
    """

    hypotheses: HypothesisClass
    horizon: int
    sigma: float
    against: str
    experts: NDArray[Any] = field(repr=False)
    gap: float

    @property
    def num_experts(self) -> int:
        """Number n of experts."""
        return len(self.experts)

    @property
    def spec(self) -> GameSpec:
        """Size of the game on the cover."""
        return GameSpec(self.num_experts, self.horizon)

    def rounding(self, beta: float | None = None) -> float:
        """Return a bound on the expected price of rounding the class to the experts, at most T.

        Args:
            beta: ``None`` for the sum of binomial tails; or in (0, 1) for the closed form with this failure
                probability. Against oblivious adversaries both are T gap/sigma. See the module.
        """
        horizon, size = self.horizon, self.num_experts
        share = min(1.0, self.gap / self.sigma)
        mean = share * horizon
        if beta is not None:
            beta = check_number("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
        if self.against != "adaptive":
            return mean
        if beta is not None:
            log = math.log(size / beta)
            return min(float(horizon), mean + math.sqrt(2.0 * mean * log) + 2.0 / 3.0 * log + beta * horizon)
        # Tails beyond e^-60 add nothing that shows; the last one stands for all that follow.
        log = math.log(size) + 60.0
        most = min(horizon, math.ceil(mean + math.sqrt(2.0 * mean * log) + 2.0 / 3.0 * log))
        # Tails fall, so that where they are too many the first of several stands for all of these.
        step = -(-most // _NUMBERS)
        tails = np.minimum(1.0, size * binom.sf(np.arange(0, most, step), horizon, share))
        return min(float(horizon), step * float(tails.sum()) + (horizon - most) * float(tails[-1]))

    def regret_bound(self, learner: str | Learner = "hedge", best_loss: float | None = None, beta: Any = None) -> float:
        """Return a bound on the expected regret against the whole class; NaN where the learner proves none.

        Args:
            learner: registered name, or a learner.
            best_loss: bound on the best expert's loss L*; ``None`` for T. The result is the largest of the learner's
                bounds, and of T - L*, for smaller L*. It is taken that they do not fall as L* rises until they meet
                T - L*; where some do, that L* plus the bound does not. All learners here are of one of these kinds.
            beta: as in :meth:`rounding`.

        Raises:
            ArgumentError: if an argument lies outside its range.
        """
        top = float(self.horizon)
        best = top if best_loss is None else check_number("best_loss", best_loss, 0.0, top)
        own = _built(learner)

        def bound(loss: float) -> float:
            return own.regret_bound(self.spec, loss, self.against)

        return min(top, _largest(bound, best, top) + self.rounding(beta)) if not math.isnan(bound(best)) else math.nan


def _largest(bound: Callable[[float], float], best: float, top: float) -> float:
    """Return a bound on min(bound(L), top - L) over L in [0, best]."""
    losses = np.linspace(0.0, best, 65)
    bounds = np.array([bound(float(loss)) for loss in losses])
    below = bounds < top - losses
    count = int(below.sum())
    if not below[:count].all() or np.any(np.diff(bounds[:count]) < -1e-9):
        # L + bound(L), on the learner's loss, does not fall: so between two losses bound rises by no more than a step.
        return float(np.minimum(bounds, top - losses).max() + losses[1])
    if count == len(losses):
        return float(bounds[-1])
    # It rises until it meets top - L, which falls.
    low, high = (float(losses[count - 1]) if count else 0.0), float(losses[count])
    while low < (low + high) / 2.0 < high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if bound(middle) >= top - middle else (middle, high)
    return top - low


def plan_cover(
    hypotheses: HypothesisClass, horizon: int, sigma: float, gamma: float | None = None, against: str = "adaptive"
) -> CoverPlan:
    """Return the experts to play a class with against sigma-smooth adversaries.

    Args:
        hypotheses: the class.
        horizon: number of rounds T, an integer >= 1.
        sigma: smoothness in [1e-12, 1].
        gamma: gap of the brackets, or radius of the cover, in (0, 1]; ``None`` for sigma/sqrt(T).
        against: "adaptive" for a bracketing; "oblivious" or "stochastic" for a cover. See the module.

    Raises:
        ArgumentError: if an argument lies outside its range, or the experts do not fit in memory: then a larger
            ``gamma`` does, at the price that :meth:`CoverPlan.rounding` says.
    """
    if not isinstance(hypotheses, HypothesisClass):
        raise ArgumentError(f"hypotheses: expected a HypothesisClass but found {hypotheses!r}")
    horizon, sigma = check_count("horizon", horizon), check_number("sigma", sigma, 1e-12, 1.0)
    mass = sigma / math.sqrt(horizon) if gamma is None else check_number("gamma", gamma, 0.0, 1.0, low_open=True)
    if check_name("against", against, ("stochastic", "oblivious", "adaptive")) == "adaptive":
        brackets = hypotheses.brackets(mass)
        return CoverPlan(hypotheses, horizon, sigma, against, brackets.representatives, brackets.gap)
    return CoverPlan(hypotheses, horizon, sigma, against, hypotheses.cover(mass), mass)


class OnlineClassifier(Parameters):
    """A learner of a class of hypotheses that sees instances: in each round it stands by a hypothesis.

    A round: :attr:`hypothesis` and :meth:`predict`, as often as one likes, then :meth:`update` with the example.
    """

    hypotheses: HypothesisClass
    horizon: int

    _round = 0

    @property
    def round(self) -> int:
        """Number of rounds completed."""
        return self._round

    @property
    def hypothesis(self) -> NDArray[Any]:
        """Parameters ``(P,)`` of this round's hypothesis: drawn when first asked for, from earlier rounds alone."""
        raise NotImplementedError

    def predict(self, points: Any) -> NDArray[np.uint8]:
        """Return this round's labels of points ``(n, d)``, 0 or 1 of shape ``(n,)``.

        Raises:
            ArgumentError: a point outside the space.
        """
        return np.asarray(self.hypotheses.predict(self.hypothesis[None], points)[0])

    def update(self, point: Any, label: Any) -> None:
        """Learn from the round's example and end the round.

        Args:
            point: shape ``(d,)``, or a number for d = 1.
            label: 0 or 1.

        Raises:
            ArgumentError: an example that is out of range, or one beyond the horizon.
        """
        if self._round >= self.horizon:
            raise ArgumentError(f"update: expected at most {self.horizon} rounds but found another one")
        # A list of one, so that a ragged point or label is refused where its kind is known.
        points, labels = self.hypotheses.check_sample([point], [label])
        # Before it sees the example.
        self.hypothesis  # noqa: B018
        self._learn(points, labels)
        self._round += 1

    def _learn(self, points: NDArray[Any], labels: NDArray[np.bool_]) -> None:
        raise NotImplementedError


class CoverClassifier(OnlineClassifier):
    """Any learner of the experts' game, private or not, on the experts of a plan. See the module for the proofs.

    Args:
        plan: the experts, from :func:`plan_cover`.
        learner: registered name, or a learner; a copy of it plays.
        rng: where all randomness comes from.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, plan: CoverPlan, learner: str | Learner = "hedge", *, rng: np.random.Generator) -> None:
        if not isinstance(plan, CoverPlan):
            raise ArgumentError(f"plan: expected a CoverPlan but found {plan!r}")
        self.plan, self.hypotheses, self.horizon = plan, plan.hypotheses, plan.horizon
        self.learner = _built(learner)
        self.rng = rng
        self.learner.reset(plan.spec, rng)
        self._named: int | None = None

    @property
    def expert(self) -> int:
        """Number of this round's expert."""
        if self._named is None:
            self._named = int(self.learner.act())
        return self._named

    @property
    def hypothesis(self) -> NDArray[Any]:
        """Parameters of this round's expert; see :class:`OnlineClassifier`."""
        return np.asarray(self.plan.experts[self.expert])

    def guarantee(self) -> Guarantee | None:
        """Return the learner's guarantee, of the sequence of hypotheses, for the replacement of an example.

        With adjacency "zero_out" it is for an example that is withheld: a round in which nobody pays.
        """
        return self.learner.guarantee(self.plan.spec)

    def regret_bound(self, best_loss: float | None = None) -> float:
        """Return :meth:`CoverPlan.regret_bound` of the learner."""
        return self.plan.regret_bound(self.learner, best_loss)

    def _learn(self, points: NDArray[Any], labels: NDArray[np.bool_]) -> None:
        self.learner.observe((self.hypotheses.predict(self.plan.experts, points)[:, 0] != labels[0]).astype(np.float64))
        self._named = None


class HallucinatedLeader(OnlineClassifier):
    """Follows the leader among all hypotheses of the class, on the past and on hallucinated examples. Not private.

    In each round a Poisson number of examples is drawn afresh, points from the uniform law and labels by fair coins.
    The round's hypothesis is the one with the fewest errors on them and on the examples seen, found by one call of
    ``best_in_class``: the optimisation oracle. It names any hypothesis of the class, no cover is built. (Haghtalab,
    Han, Shetty and Yang 2022: expected regret of order sqrt(T) (v/sigma)^(1/4) up to logarithms, v the VC dimension,
    against adaptive sigma-smooth adversaries, for about T/sqrt(v sigma) examples [RECALLED]; its constants are
    unknown, so no bound is certified.) Where ``best_in_class`` is not exact, it is no oracle, and nothing is claimed.

    A round costs an oracle call on all examples. It needs the instances, so it is no learner of the experts' game;
    :class:`HallucinatedExperts` is.

    Args:
        hypotheses: the class.
        horizon: number of rounds T, an integer >= 1.
        sigma: smoothness in [1e-12, 1].
        hallucinations: mean number of hallucinated examples, a number >= 0; ``None`` for T/sqrt(v sigma).
        rng: where all randomness comes from.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        hypotheses: HypothesisClass,
        horizon: int,
        sigma: float,
        hallucinations: float | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        if not isinstance(hypotheses, HypothesisClass):
            raise ArgumentError(f"hypotheses: expected a HypothesisClass but found {hypotheses!r}")
        self.hypotheses = hypotheses
        self.horizon = check_count("horizon", horizon)
        self.sigma = check_number("sigma", sigma, 1e-12, 1.0)
        self.hallucinations = _mean_examples(hypotheses, horizon, sigma, hallucinations)
        self.rng = rng
        self._points: list[NDArray[Any]] = []
        self._labels: list[NDArray[np.bool_]] = []
        self._current: NDArray[Any] | None = None

    @property
    def hypothesis(self) -> NDArray[Any]:
        """The leader; see :class:`OnlineClassifier`."""
        if self._current is None:
            count = int(self.rng.poisson(self.hallucinations))
            points = [*self._points, _uniform(self.hypotheses, self.rng, count)]
            labels = [*self._labels, self.rng.random(count) < 0.5]
            if self._points or count:
                self._current = self.hypotheses.best_in_class(np.concatenate(points), np.concatenate(labels))[0]
            else:
                # Nothing to go by.
                self._current = self.hypotheses.cover(1.0)[0]
        return self._current

    def _learn(self, points: NDArray[Any], labels: NDArray[np.bool_]) -> None:
        self._points.append(points)
        self._labels.append(labels)
        self._current = None


class HallucinatedExperts(Learner):
    """Follows the perturbed leader: each expert's loss on the past and on hallucinated examples. Not private.

    :class:`HallucinatedLeader` in the experts' game. It must know the class and which hypothesis each expert is, but
    not the instances: the oracle over finitely many hypotheses is the least of their cumulative losses, and each
    expert's loss on hallucinated examples can be worked out. Drawn afresh in each round. No bound is certified.

    Args:
        hypotheses: the class.
        experts: parameters of the experts, shape ``(N, P)``.
        sigma: smoothness in [1e-12, 1].
        hallucinations: mean number of hallucinated examples, a number >= 0; ``None`` for T/sqrt(v sigma).

    Raises:
        ArgumentError: if an argument lies outside its range; at ``reset`` if the game has another number of experts.
    """

    def __init__(
        self, hypotheses: HypothesisClass, experts: Any, sigma: float = 0.1, hallucinations: float | None = None
    ) -> None:
        if not isinstance(hypotheses, HypothesisClass):
            raise ArgumentError(f"hypotheses: expected a HypothesisClass but found {hypotheses!r}")
        self.hypotheses = hypotheses
        self.experts = hypotheses.check_parameters(experts)
        self.sigma = check_number("sigma", sigma, 1e-12, 1.0)
        self.hallucinations = (
            None if hallucinations is None else check_number("hallucinations", hallucinations, 0.0, 1e9)
        )

    def start(self) -> None:
        """Forget all losses."""
        if self.spec.num_experts != len(self.experts):
            raise ArgumentError(
                f"spec: expected a game of {len(self.experts)} experts, the hypotheses given, but found {self.spec}"
            )
        self._numbers, self._places, self._signs = self.rng.spawn(3)
        self._mean = _mean_examples(self.hypotheses, self.spec.horizon, self.sigma, self.hallucinations)
        self._total: FloatArray = np.zeros(self.spec.num_experts)

    def act(self) -> Any:
        """Name the leader, the first of those that are level; see :meth:`Learner.act`."""
        counts = self._numbers.poisson(self._mean, self.spec.num_games or 1)
        own = np.repeat(np.arange(len(counts)), counts)
        signs = 1.0 - 2.0 * (self._signs.random(len(own)) < 0.5)
        extra = np.zeros((len(self.experts), len(counts)))
        step = max(1, _NUMBERS // len(self.experts))
        for first in range(0, len(own), step):
            part = slice(first, first + step)
            points = _uniform(self.hypotheses, self._places, len(own[part]))
            # Errors up to what all experts share: a 1 costs where the label is 0, and saves where it is 1.
            charges = self.hypotheses.predict(self.experts, points) * signs[part]
            games, starts = np.unique(own[part], return_index=True)
            extra[:, games] += np.add.reduceat(charges, starts, axis=1)
        return (self._total + extra.T.reshape(*self.spec.shape, -1)).argmin(axis=-1)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._total = self._total + losses


def _built(learner: str | Learner) -> Learner:
    built = make_learner(learner) if isinstance(learner, str) else learner
    if not isinstance(built, Learner):
        raise ArgumentError(f"learner: expected a registered name or a Learner but found {learner!r}")
    return built.clone()


def _mean_examples(hypotheses: HypothesisClass, horizon: int, sigma: float, given: float | None) -> float:
    if given is not None:
        return check_number("hallucinations", given, 0.0, 1e9)
    return horizon / math.sqrt(max(1, hypotheses.vc_dimension) * sigma)


def _uniform(hypotheses: HypothesisClass, rng: np.random.Generator, count: int) -> NDArray[Any]:
    if isinstance(hypotheses, FiniteClass):
        return rng.integers(hypotheses.matrix.shape[1], size=count)
    return rng.random((count, hypotheses.dimension))
