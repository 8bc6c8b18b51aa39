"""Machinery of the conformance suites: named checks, their error, and bounds for the statistical ones."""

from __future__ import annotations

import contextlib
import importlib
import math
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.special import rel_entr

from dp_experts_env.spec import FloatArray, check_name

FALSE_ALARM = 1e-9
"""Most probability that a statistical check fails a class that keeps the rules."""

Case = TypeVar("Case")
Failure = TypeVar("Failure", bound=BaseException)


class ConformanceError(AssertionError):
    """Raised when a class breaks a rule of the game; it names the check, the class and what was found.

    Attributes:
        check: name of the check.
    """

    def __init__(self, check: str, subject: str, reason: str) -> None:
        super().__init__(check, subject, reason)
        self.check = check
        self._text = f"{subject} fails the check {check!r}: {reason}"

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class _Check(Generic[Case]):
    run: Callable[[Case], None]
    applies: Callable[[Case], bool]


class Suite(Generic[Case]):
    """Checks in the order in which they were added, by name.

    Args:
        *parts: suites to join.
    """

    def __init__(self, *parts: Suite[Case]) -> None:
        self._checks: dict[str, _Check[Case]] = {name: check for part in parts for name, check in part._checks.items()}

    def add(
        self, applies: Callable[[Case], bool] = lambda case: True
    ) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
        """Add the decorated function under its own name, for the cases to which it applies."""

        def decorate(run: Callable[[Case], None]) -> Callable[[Case], None]:
            self._checks[run.__name__] = _Check(run, applies)
            return run

        return decorate

    def checks(self, case: Case, subject: str, skip: Iterable[str]) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield name and callable of the checks that apply, but those to skip."""
        skipped = {check_name("skip", name, self._checks) for name in skip}
        for name, check in self._checks.items():
            if name not in skipped and check.applies(case):
                yield name, _callable(name, check.run, case, subject)


def _callable(name: str, run: Callable[[Case], None], case: Case, subject: str) -> Callable[[], None]:
    def check() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                run(case)
        except Exception as error:
            reason = str(error) if type(error) is AssertionError else f"{type(error).__name__}: {error}"
            raise ConformanceError(name, subject, reason) from error

    check.__name__, check.__doc__ = name, run.__doc__
    return check


def demand(condition: Any, message: str) -> None:
    """Raise ``AssertionError`` with this message unless the condition holds; works under ``python -O`` too."""
    if not condition:
        raise AssertionError(message)


def expect(kind: type[Failure], what: str, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Failure:
    """Return the error of this kind that the call raises, or raise ``AssertionError``."""
    try:
        answer = call(*arguments, **keywords)
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what}: expected {kind.__name__} but found {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what}: expected {kind.__name__} but found the answer {answer!r}")


def same(left: Any, right: Any, message: str) -> None:
    """Raise ``AssertionError`` with the first difference unless two arrays are equal."""
    left, right = np.asarray(left), np.asarray(right)
    demand(left.shape == right.shape, f"{message}: shapes {left.shape} and {right.shape} differ")
    if not np.array_equal(left, right):
        place = tuple(int(index) for index in np.argwhere(left != right)[0])
        raise AssertionError(f"{message}: they differ first at {place}: {left[place]} and {right[place]}")


def check_frequencies(counts: Any, total: int, probabilities: Any, tests: int, what: str) -> None:
    """Raise ``AssertionError`` if counts are too unlikely for sums of independent events.

    By Chernoff's bound the frequency f of ``total`` independent events of mean probability p has
    P(total * KL(f, p) >= x) <= 2 e^-x, also where their probabilities differ (Hoeffding 1963, theorem 1).

    Args:
        counts: how often each event came, any shape.
        total: number of trials.
        probabilities: mean probability of each event, shape of ``counts``.
        tests: number of events tested in all, over which :data:`FALSE_ALARM` is split.
        what: what is being counted, for the message.
    """
    means = np.clip(probabilities, 0.0, 1.0)
    frequencies = np.asarray(counts) / total
    surprise = total * (rel_entr(frequencies, means) + rel_entr(1.0 - frequencies, 1.0 - means))
    worst = np.unravel_index(int(np.argmax(surprise)), surprise.shape)
    demand(
        surprise[worst] <= math.log(2.0 * tests / FALSE_ALARM),
        f"{what}: event {tuple(int(i) for i in worst)} came {int(np.asarray(counts)[worst])} times in {total}, "
        f"but its probability is {float(means[worst]):.6g}",
    )


def mean_margin(values: FloatArray, width: float, tests: int) -> float:
    """Return how far the mean of independent values may exceed its expectation (Maurer and Pontil 2009, theorem 4).

    Args:
        values: shape ``(n,)``, n >= 2, each in an interval of length ``width``.
        width: length of that interval.
        tests: number of means tested in all, over which :data:`FALSE_ALARM` is split.
    """
    count, log_term = len(values), math.log(2.0 * tests / FALSE_ALARM)
    return math.sqrt(2.0 * float(values.var(ddof=1)) * log_term / count) + 7.0 * width * log_term / (3.0 * (count - 1))


_GLOBAL_STATES = (("random", "getstate", "setstate"), ("numpy.random", "get_state", "set_state"))


@contextlib.contextmanager
def global_randomness(seed: int) -> Iterator[None]:
    """Seed Python's and numpy's global generators, raise ``AssertionError`` if they are used, restore them."""
    modules = [(importlib.import_module(name), get, put) for name, get, put in _GLOBAL_STATES]
    before = [getattr(module, get)() for module, get, _ in modules]
    try:
        for module, _, _ in modules:
            module.seed(seed)
        seeded = [pickle.dumps(getattr(module, get)()) for module, get, _ in modules]
        yield
        for (module, get, _), state in zip(modules, seeded, strict=True):
            demand(
                pickle.dumps(getattr(module, get)()) == state,
                f"the global generator of {module.__name__} was used; draw from the generator handed in",
            )
    finally:
        for (module, _, put), state in zip(modules, before, strict=True):
            getattr(module, put)(state)
