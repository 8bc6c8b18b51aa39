"""The exact log-likelihood ratio of what a privacy game shows, for learners that have ``outcomes``.

Two twins of the learner, one a side, are led along the game that was played: each is told, by ``take``, the outcome
that explains what was seen, and is shown its own side's losses. The sum of the rounds' log-probability ratios is the
most powerful statistic there is (Neyman and Pearson 1933).

The twins have randomness of their own and see nothing that the adversary does not see, so the statistic is a
post-processing of the adversary's view: whatever the learner's code does, an event chosen by it is a valid witness. A
law that ``outcomes`` states wrongly costs power, never soundness.

Where one view has several explanations (the coin of a lazy learner that redraws the expert it holds, seen through
choices alone; the coin of a subsampled learner), their probabilities are added, and the twins go on along one of them,
drawn by its probability: then the ratio is an approximation of the exact one, as sound and less powerful.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from dp_experts_env.learner import Learner, looped
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec, IntArray, check_name


def has_law(learner: Learner, spec: GameSpec) -> bool:
    """Whether the learner has ``outcomes`` and ``take`` in a game of this size.

    Args:
        learner: the learner; a copy is asked.
        spec: the game.
    """
    twin = _twin(learner, spec)
    try:
        # An outcome that is possible, if the law is one.
        twin.take(int(np.argmax(twin.outcomes())))
    except NotImplementedError:
        return False
    return True


def has_transcript(learner: Learner, spec: GameSpec) -> bool:
    """Whether the learner notes coins or threshold outcomes, so that there is a transcript besides the choices.

    Args:
        learner: the learner; a copy plays one round.
        spec: the game.
    """
    twin = _twin(learner, spec)
    twin._notes = {}
    twin.act()
    return bool(twin._notes)


def _twin(learner: Learner, spec: GameSpec) -> Learner:
    if not isinstance(learner, Learner):
        raise ArgumentError(f"learner: expected a Learner but found {learner!r}")
    if not isinstance(spec, GameSpec):
        raise ArgumentError(f"spec: expected a GameSpec but found {spec!r}")
    twin = copy.deepcopy(learner)
    twin.reset(GameSpec(spec.num_experts, spec.horizon), np.random.default_rng(0))
    return twin


class LikelihoodRatio:
    """Watches a batch of games and adds up the log-likelihood ratio of side 0 against side 1.

    Args:
        learner: the learner being watched; copies of it are the twins.
        view: "choices", or "transcript" to tell outcomes apart by what the learner notes as well.
        spec: the games, ``num_games`` included.
        rng: source of the twins' own randomness.

    Raises:
        ArgumentError: if an argument is of the wrong type.
    """

    def __init__(self, learner: Learner, view: str, spec: GameSpec, rng: np.random.Generator) -> None:
        if not isinstance(learner, Learner):
            raise ArgumentError(f"learner: expected a Learner but found {learner!r}")
        if not isinstance(rng, np.random.Generator):
            raise ArgumentError(f"rng: expected a numpy.random.Generator but found {rng!r}")
        check_name("view", view, ("choices", "transcript"))
        self._twins = [copy.deepcopy(looped(learner)) for _ in range(2)]
        *streams, self._rng = rng.spawn(3)
        for twin, stream in zip(self._twins, streams, strict=True):
            twin.reset(spec, stream)
        self._noted = view == "transcript"
        self._spec = spec
        self._total: FloatArray = np.zeros(spec.shape)

    def round(self, sides: FloatArray, choices: Any, notes: Mapping[str, Any]) -> None:
        """Take in one round.

        Args:
            sides: the two sides' losses, ``(2, N)`` or ``(2, G, N)``.
            choices: what the learner named, an id or ``(G,)``.
            notes: what it noted in this round, by name; ignored in the view of choices.
        """
        laws = [twin.outcomes() for twin in self._twins]
        outcomes = self._plainly(laws, choices, notes)
        if outcomes is None:
            matches = self._matches(laws[0].shape[-1], choices, notes if self._noted else {})
            seen = [np.where(matches, law, -np.inf) for law in laws]
            likely = np.logaddexp(*seen)
            # The largest of Gumbel-perturbed log-probabilities is a draw by them.
            outcomes = (likely + self._rng.gumbel(size=likely.shape)).argmax(-1)
            ratios = [np.logaddexp.reduce(law, axis=-1) for law in seen]
            for twin in self._twins:
                twin.take(outcomes if self._spec.shape else int(outcomes))
        else:
            ratios = [_at(law, outcomes) for law in laws]
        with np.errstate(invalid="ignore"):
            # What neither world can show says nothing.
            self._total = self._total + np.nan_to_num(ratios[0] - ratios[1], nan=0.0, posinf=np.inf, neginf=-np.inf)
            self._total = np.nan_to_num(self._total, nan=0.0, posinf=np.inf, neginf=-np.inf)
        for twin, side in zip(self._twins, sides, strict=True):
            twin.observe(side)

    def result(self) -> FloatArray:
        """Return the log-likelihood ratio of each game so far, shape ``()`` or ``(G,)``; may be infinite."""
        return self._total

    def _plainly(self, laws: list[FloatArray], choices: Any, notes: Mapping[str, Any]) -> Any:
        """Let the twins take the choices as outcomes where these are the same thing, else return ``None``."""
        if laws[0].shape[-1] != self._spec.num_experts or (self._noted and notes):
            return None
        trial = copy.deepcopy(self._twins[0])
        if not np.array_equal(trial.take(choices), choices):
            return None
        self._twins[0] = trial
        self._twins[1].take(choices)
        return choices

    def _matches(self, number: int, choices: Any, notes: Mapping[str, Any]) -> Any:
        """Which outcomes show these choices and notes, boolean ``(K,)`` or ``(G, K)``."""
        found = []
        for outcome in range(number):
            twin = copy.deepcopy(self._twins[0])
            twin._notes = {}
            match = np.asarray(twin.take(np.broadcast_to(outcome, self._spec.shape) if self._spec.shape else outcome))
            match = match == choices
            for name, values in notes.items():
                told = np.asarray(twin._notes[name][-1]) if name in twin._notes else None
                if told is None or told.shape != np.shape(values):
                    match = np.zeros_like(match)
                    continue
                same = told == values
                match = match & same.reshape((*self._spec.shape, -1)).all(-1)
            found.append(match)
        return np.stack(found, axis=-1)


def _at(law: FloatArray, outcomes: IntArray) -> FloatArray:
    """The law at each game's outcome; a law ``(K,)`` is shared by all games."""
    if law.ndim == 1:
        return np.asarray(law[outcomes])
    return np.take_along_axis(law, np.asarray(outcomes)[..., None], -1)[..., 0]
