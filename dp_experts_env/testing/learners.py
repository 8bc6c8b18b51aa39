"""The conformance suite of learners: one call, or one callable a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dp_experts_env.learner import Learner
from dp_experts_env.registry import learner_class
from dp_experts_env.spec import ArgumentError, check_count
from dp_experts_env.testing.learner_case import LearnerCase
from dp_experts_env.testing.learner_claims import CLAIMS
from dp_experts_env.testing.learner_rules import RULES
from dp_experts_env.testing.suite import Suite

Target = str | type[Learner] | Learner

LEARNER_SUITE: Suite[LearnerCase] = Suite(RULES, CLAIMS)


def check_learner(
    learner: Target, *, num_experts: int = 4, horizon: int = 16, seed: int = 0, skip: Iterable[str] = ()
) -> tuple[str, ...]:
    """Check that a learner keeps the rules of the game.

    Args:
        learner: registered name, class that builds without arguments, or instance (copies of it are tested).
        num_experts: number of experts in most test games, an integer >= 2.
        horizon: number of rounds in most test games, an integer >= 6.
        seed: seed of all randomness in the checks.
        skip: names of checks to leave out.

    Returns:
        The names of the checks that were made.

    Raises:
        ConformanceError: at the first rule broken.
        ArgumentError: if an argument lies outside its range.
    """
    made = []
    for name, check in learner_checks(learner, num_experts=num_experts, horizon=horizon, seed=seed, skip=skip):
        check()
        made.append(name)
    return tuple(made)


def learner_checks(
    learner: Target, *, num_experts: int = 4, horizon: int = 16, seed: int = 0, skip: Iterable[str] = ()
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name and the callable of each check that applies to a learner; see :func:`check_learner`.

    ``deterministic``, ``seeds``, ``privacy``, ``regret``, ``probabilities`` and ``outcomes`` apply only to learners
    that declare or claim something of the kind; the others apply to all.
    """
    check_count("num_experts", num_experts, least=2)
    check_count("horizon", horizon, least=6)
    case = LearnerCase(_builder(learner), num_experts, horizon, seed)
    return LEARNER_SUITE.checks(case, learner if isinstance(learner, str) else _name(learner), skip)


def _builder(learner: Any) -> Callable[[], Learner]:
    if isinstance(learner, str):
        return learner_class(learner)
    if isinstance(learner, Learner):
        return learner.clone
    if isinstance(learner, type) and issubclass(learner, Learner):
        return learner
    raise ArgumentError(f"learner: expected a registered name, a Learner or a class of it but found {learner!r}")


def _name(learner: Any) -> str:
    return learner.__name__ if isinstance(learner, type) else repr(learner)
