"""The base class of the smooth world's opponents: an author gives a law of bounded density and a labelling.

The experts are hypotheses of a class, so that losses, labels and the class's best hypothesis follow from the instances.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_experts_env.adversary import Adversary, charged, seated
from dp_experts_env.hypotheses import (
    Boxes,
    FiniteClass,
    Halfspaces,
    HypothesisClass,
    Intervals,
    Polytopes,
    SmoothDensity,
    Thresholds,
    check_smooth,
)
from dp_experts_env.play import GAMES_PER_CHUNK, Match
from dp_experts_env.privacy.mechanisms import sample_inverse_cdf
from dp_experts_env.spec import (
    ArgumentError,
    FloatArray,
    IntArray,
    LossError,
    ProtocolError,
    check_count,
    check_name,
    check_number,
)

CLASSES = ("thresholds", "intervals", "boxes", "halfspaces", "polytopes")
"""Names of hypothesis classes; the last three take a dimension."""


def named_class(hypotheses: str | HypothesisClass, dimension: int = 2) -> HypothesisClass:
    """Return a class by its name in ``CLASSES``, or the class itself.

    Raises:
        UnknownNameError: another name.
    """
    if isinstance(hypotheses, HypothesisClass):
        return hypotheses
    name = check_name("hypotheses", hypotheses, CLASSES)
    if name == "thresholds":
        return Thresholds()
    if name == "intervals":
        return Intervals()
    classes: dict[str, Any] = {"boxes": Boxes, "halfspaces": Halfspaces, "polytopes": Polytopes}
    built: HypothesisClass = classes[name](dimension)
    return built


def bracketed(hypotheses: HypothesisClass, gamma: float, num_experts: int | None = None) -> NDArray[Any]:
    """Return the representatives of a bracketing of gap gamma, or so many of them, evenly spread over their list.

    Raises:
        ArgumentError: gamma out of (0, 1] or too small for memory, or more experts than there are.
    """
    gamma = check_number("gamma", gamma, 0.0, 1.0, low_open=True)
    try:
        parameters = hypotheses.brackets(gamma).representatives
    except ArgumentError as error:
        # Its gap has another name there.
        raise ArgumentError(f"gamma: {error}") from error
    return thinned(parameters, num_experts)


def thinned(parameters: NDArray[Any], num_experts: int | None) -> NDArray[Any]:
    """Return so many of the rows, evenly spread; all for ``None``.

    Raises:
        ArgumentError: more than there are.
    """
    if num_experts is None:
        return parameters
    count = check_count("num_experts", num_experts)
    if count > len(parameters):
        raise ArgumentError(
            f"num_experts: expected at most {len(parameters)}, as gamma makes, but found {num_experts!r}"
        )
    return np.asarray(parameters[np.arange(count) * len(parameters) // count])


class ClassBest(NamedTuple):
    """The best of the whole class in hindsight.

    Attributes:
        loss: fewest errors found, integers ``()`` or ``(G,)``: those of a hypothesis of the class.
        exact: whether no hypothesis of the class has fewer, bool ``()`` or ``(G,)``. Where false, regret against
            the class may be larger than ``loss`` makes it.
    """

    loss: IntArray
    exact: NDArray[np.bool_]


class SmoothAdversary(Adversary):
    """A sigma-smooth adversary: each round's instance has a density of at most 1/sigma, and experts classify it.

    ## Description
    Each round the adversary commits a law of the instances and how they are labelled. An instance x_t is drawn and
    labelled y_t; expert i, the hypothesis h_i, loses 1 if h_i(x_t) differs from y_t, else 0.

    An author overrides :meth:`label` and one of two hooks, both functions of the past:

    - :meth:`density`, the density of the law on [0, 1]^d with respect to the uniform law. Instances are drawn by
      rejection: uniform candidates are kept with probability sigma times the density. All densities evaluated are
      checked against 1/sigma, and their mean against 1.
    - :meth:`probabilities`, for a finite ``domain`` of X instances: the law itself, checked at every instance against
      1/(sigma X).

    A law that breaks the rule is refused in the round in which it is committed, and the message names the point. An
    override of :meth:`start` calls ``super().start()``; ``self.coins`` is a generator for the labels' randomness. The
    number of candidates drawn differs from game to game, so each round draws from a generator of its own: games stay
    independent of each other.

    Instances and labels are kept (8 d + 1 bytes a game and round), so that regret can be reported against the whole
    class: :meth:`class_best`, :func:`play_in_class`.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        sigma: smoothness in [1e-9, 1]; 1 is the uniform distribution.
        **game: ``num_experts`` (``None``, or as many as there are experts), ``horizon``, ``num_games``,
            ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        hypotheses: the class. An author sets it, ``experts`` and perhaps ``domain`` on the class, or on the instance
            before ``super().__init__()``.
        experts: parameters of the experts, shape ``(N, P)``; :func:`bracketed` chooses them.
        domain: ``None`` for [0, 1]^d; or a finite domain: points ``(X, d)``, for a ``FiniteClass`` column numbers
            ``(X,)`` (all of them by default).
        instances: the last instances, shape ``(d,)`` or ``(G, d)``; without the last axis for column numbers.
        labels: their labels, bool ``()`` or ``(G,)``.
        places: their rows in ``domain``, where there is one.

    ## Version History
    v0: first version.
    """

    least_sigma: ClassVar[float] = 1e-9

    hypotheses: HypothesisClass
    experts: Any
    domain: Any = None

    instances: NDArray[Any]
    labels: NDArray[np.bool_]
    places: IntArray
    coins: np.random.Generator

    _points: NDArray[Any] | None = None

    def __init__(self, sigma: float = 0.1, **game: Any) -> None:
        hypotheses = self.hypotheses
        if not isinstance(hypotheses, HypothesisClass):
            raise ArgumentError(f"hypotheses: expected a HypothesisClass but found {hypotheses!r}")
        self.experts = hypotheses.check_parameters(self.experts)
        found, asked = len(self.experts), game.pop("num_experts", None)
        if asked is not None and check_count("num_experts", asked) != found:
            raise ArgumentError(f"num_experts: expected {found}, as there are hypotheses, but found {asked!r}")
        super().__init__(found, **game)
        self.sigma = check_number("sigma", sigma, self.least_sigma, 1.0)
        if self.domain is None and isinstance(hypotheses, FiniteClass):
            self.domain = np.arange(hypotheses.matrix.shape[1])
        elif self.domain is not None:
            self.domain = hypotheses.check_points(self.domain)

    # -- what an author writes ---------------------------------------------------------------------------------

    def density(self, points: FloatArray) -> FloatArray:
        """Return the density of the next instance's law at points ``(..., k, d)``, shape ``(..., k)``, at most 1/sigma.

        ``...`` is the games axis of a batch. A density that all games share may ignore it.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement density() or, with a domain, probabilities()")

    def probabilities(self) -> FloatArray:
        """Return the law of the next instance on the domain, ``(X,)`` or ``(..., X)``, at most 1/(sigma X) each."""
        raise NotImplementedError(f"{type(self).__name__} must implement probabilities() for its finite domain")

    def label(self, points: NDArray[Any]) -> Any:
        """Return labels ``(...)``, 0 or 1, of the instances just drawn, shape ``(..., d)``; once a round."""
        raise NotImplementedError(f"{type(self).__name__} must implement label()")

    def witness(self) -> NDArray[Any] | None:
        """Return parameters ``(..., P)`` of hypotheses that do well on all rounds so far, or ``None``.

        They help :meth:`class_best` where the best of the class is hard to find.
        """
        return None

    # -- a round -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Forget all instances; an override calls this first."""
        self._draws, self.coins = self.np_random.spawn(2)
        self._sampler = SmoothDensity(self.density, self.sigma, self.hypotheses.dimension)
        self._points = None

    def emit(self) -> FloatArray:
        """Draw instances, label them and charge the experts that say otherwise; see :meth:`Adversary.emit`.

        Raises:
            LossError: a law that is not sigma-smooth (the message names the point), or labels other than 0 and 1.
        """
        stream = self._draws.spawn(1)[0]
        hook = "density" if self.domain is None else "probabilities"
        try:
            points = self._draw(stream)
        except ArgumentError as error:
            raise LossError(f"{type(self).__name__}.{hook} of round {self.round + 1}: {error}") from error
        labels = np.asarray(self.label(points))
        if labels.shape != self.game.shape or not ((labels == 0) | (labels == 1)).all():
            raise LossError(
                f"{type(self).__name__}.label of round {self.round + 1}: expected 0 or 1 of shape {self.game.shape} "
                f"but found {labels!r}"
            )
        self._keep(points, labels.astype(bool))
        says = self.hypotheses.predict(self.experts, points.reshape(-1, *points.shape[len(self.game.shape) :])).T
        return np.asarray(says.reshape(*self.game.shape, -1) != self.labels[..., None], dtype=np.float64)

    def _draw(self, stream: np.random.Generator) -> NDArray[Any]:
        if self.domain is None:
            drawn: NDArray[Any] = self._sampler.sample(stream, self.game.shape)
            return drawn
        law = check_smooth(self.probabilities(), self.sigma)
        if law.shape[-1] != len(self.domain):
            raise ArgumentError(f"density: expected shape (..., {len(self.domain)}) but found {law.shape}")
        self.places = np.asarray(sample_inverse_cdf(law, stream.random(self.game.shape)))
        return np.asarray(self.domain[self.places])

    def _keep(self, points: NDArray[Any], labels: NDArray[np.bool_]) -> None:
        if self._points is None:
            # Pages that are not written take no memory.
            self._points = np.empty((self.horizon, *points.shape), dtype=points.dtype)
            self._truth = np.empty((self.horizon, *labels.shape), dtype=bool)
        self._points[self.round], self._truth[self.round] = points, labels
        self.instances, self.labels = points, labels

    # -- the whole class ---------------------------------------------------------------------------------------

    def sample(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return instances ``(R, ..., d)`` and labels ``(R, ...)`` of the R rounds so far.

        Raises:
            ProtocolError: before the first round.
        """
        if not self._started or self._points is None or not self.round:
            raise ProtocolError(f"{type(self).__name__}.sample: expected a round first")
        return self._points[: self.round].copy(), self._truth[: self.round].copy()

    def class_best(self) -> ClassBest:
        """Return the fewest errors of a hypothesis of the whole class on the rounds so far. A non-private diagnostic.

        It is what ``best_in_class`` finds, exact where that says so; else the best of it, of the experts and of
        :meth:`witness`. No errors at all are exact in any case.

        Raises:
            ProtocolError: before the first round.
        """
        points, labels = self.sample()
        games = self.game.num_games or 1
        points = points.reshape(len(points), games, *points.shape[1 + len(self.game.shape) :])
        labels = labels.reshape(-1, games)
        known = self.witness()
        witnesses = [None] * games if known is None else list(np.reshape(known, (games, -1)))
        exact = self.hypotheses.best_is_exact(len(points))
        losses = [
            self._game_best(points[:, game], labels[:, game], witness, exact) for game, witness in enumerate(witnesses)
        ]
        loss = np.array(losses, dtype=np.int64).reshape(self.game.shape)
        return ClassBest(loss, np.asarray((loss == 0) | exact))

    def class_best_loss(self) -> IntArray:
        """Return the losses of :meth:`class_best`."""
        return self.class_best().loss

    def _game_best(self, points: Any, labels: Any, witness: Any, exact: bool) -> int:
        least = len(points) + 1
        if witness is not None:
            least = int((self.hypotheses.predict(witness[None], points)[0] != labels).sum())
        if least and not exact:
            least = min(least, int((self.hypotheses.predict(self.experts, points) != labels).sum(axis=1).min()))
        return min(least, self.hypotheses.best_in_class(points, labels)[1]) if least else 0


class ClassRegret(NamedTuple):
    """Regret against a whole class; non-private diagnostics, each of shape ``(G,)``.

    Attributes:
        regret: the learner's loss minus the class's fewest errors found.
        best_loss: the class's fewest errors found.
        exact: whether no hypothesis of the class has fewer; where false, the regret may be larger.
    """

    regret: FloatArray
    best_loss: IntArray
    exact: NDArray[np.bool_]


def class_regret(match: Match, adversary: SmoothAdversary) -> ClassRegret:
    """Replay the adversary's side of a match and return the regret against its whole class of hypotheses.

    Args:
        match: from ``play(..., record="choices")``.
        adversary: the adversary of that match.

    Raises:
        ArgumentError: if the match has no choices, or was not played against this adversary.
    """
    if not isinstance(adversary, SmoothAdversary):
        raise ArgumentError(f"adversary: expected a SmoothAdversary but found {adversary!r}")
    if match.choices is None:
        raise ArgumentError('match: expected one with its choices, from play(..., record="choices")')
    if match.adversary != repr(adversary):
        raise ArgumentError(f"match: expected one against {adversary!r} but found one against {match.adversary}")
    # The seeds of play.
    seed = match.seed
    root = np.random.SeedSequence(
        **(
            {"entropy": seed.entropy, "spawn_key": seed.spawn_key, "pool_size": seed.pool_size}
            if isinstance(seed, np.random.SeedSequence)
            else {"entropy": seed}
        )
    )
    cuts = range(0, len(match.choices), GAMES_PER_CHUNK)
    found = []
    for first, own in zip(cuts, root.spawn(2)[1].spawn(len(cuts)), strict=True):
        choices = match.choices[first : first + GAMES_PER_CHUNK]
        seat: Any = seated(adversary, len(choices))
        seat.np_random = np.random.default_rng(own)
        seat.reset()
        total = np.zeros(len(choices))
        for named in choices.T:
            total += charged(seat.emit(), named)
            seat.see(named)
        if not np.array_equal(total, match.learner_loss[first : first + len(choices)]):
            raise ArgumentError(f"match: its losses are not those of {adversary!r} under its seed and choices")
        found.append(seat.class_best())
    best = np.concatenate([part.loss for part in found])
    return ClassRegret(match.learner_loss - best, best, np.concatenate([part.exact for part in found]))
