"""Names to classes, lazily; built-in and third-party classes come in by the same door.

A distribution registers classes through the entry-point groups ``dp_experts_env.agents`` and
``dp_experts_env.adversaries``; a script calls :func:`register_learner` and :func:`register_adversary`. Nothing is
imported before it is asked for. Every adversary also becomes a Gymnasium environment ``dp_experts/<CamelCase>-v0``.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from dp_experts_env.adversary import Adversary, AdversaryVectorEnv
from dp_experts_env.learner import Learner
from dp_experts_env.spec import ADVERSARY_MODELS, ArgumentError, GameError, check_name

Registered = TypeVar("Registered")

OWN_DISTRIBUTION = "dp-experts-env"

CHAIRS = {"dp_experts/Adversary-v0": "adversary", "dp_experts/Judge-v0": "judge"}
"""Gymnasium ids of the other chairs, which are imported when one is made."""


class Registry(Generic[Registered]):
    """Classes of one kind by name.

    Args:
        what: "learner" or "adversary", for messages.
        base: class that every registered class must derive from.
        group: entry-point group that is read when the registry is built.
    """

    def __init__(self, what: str, base: type[Registered], group: str) -> None:
        self._what = what
        self.base = base
        self._targets: dict[str, str | type[Registered]] = {}
        # Ours first, so that a plug-in cannot take a built-in name.
        found = sorted(entry_points(group=group), key=lambda point: (_distribution(point) != OWN_DISTRIBUTION, point))
        for point in found:
            known = self._targets.setdefault(point.name, point.value)
            if known != point.value:
                warnings.warn(
                    f"{what} {point.name!r} of distribution {_distribution(point)!r} is ignored: "
                    f"the name already belongs to {known!r}",
                    stacklevel=2,
                )

    def register(self, name: str, target: type[Registered] | str) -> None:
        """Add a class, or its ``"module:Class"``, under a snake_case name.

        A class may be registered again under its name, and a new definition of it (a notebook cell run twice)
        replaces the old one.

        Raises:
            ArgumentError: if the name is not snake_case or taken, or the class has the wrong base.
        """
        # A word that began with a digit would let two names share one Gymnasium id.
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z][a-z0-9]*)*", name):
            raise ArgumentError(
                f"name: expected a snake_case name, words of a-z and 0-9 that begin with a letter, but found {name!r}"
            )
        if not isinstance(target, str):
            self._check(target, name)
        known = self._targets.get(name)
        if known is not None and _address(known) != _address(target):
            raise ArgumentError(f"name: {self._what} {name!r} is already registered as {_address(known)!r}")
        self._targets[name] = target

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._targets))

    def load(self, name: str) -> type[Registered]:
        """Return the class of this name, importing its module if needed.

        Raises:
            UnknownNameError: if the name is not registered; the nearest are suggested.
            GameError: if the class cannot be imported or has the wrong base.
        """
        check_name(self._what, name, self.names())
        target = self._targets[name]
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            try:
                loaded = getattr(importlib.import_module(module), attribute)
            except Exception as error:  # whatever a plug-in's import raises
                raise GameError(f"{self._what} {name!r} cannot be imported from {target!r}: {error}") from error
            self._check(loaded, name)
            target = self._targets[name] = loaded
        return target

    def name_of(self, cls: type[Any]) -> str | None:
        """Return the name that a class is registered under, ``None`` if it is not."""
        address = _address(cls)
        return next((name for name, target in self._targets.items() if _address(target) == address), None)

    def make(self, name: str, **parameters: Any) -> Registered:
        """Build the class of this name with these constructor keywords.

        Raises:
            UnknownNameError: if the name, or a keyword, is unknown; the nearest are suggested.
        """
        cls = self.load(name)
        known = constructor_keywords(cls)
        for keyword in parameters:
            check_name(f"keyword of {self._what} {name!r}", keyword, known)
        return cls(**parameters)

    def _check(self, loaded: Any, name: str) -> None:
        if not (isinstance(loaded, type) and issubclass(loaded, self.base)):
            raise ArgumentError(
                f"{self._what} {name!r}: expected a subclass of {self.base.__name__} but found {loaded!r}"
            )


def constructor_keywords(cls: type[Any]) -> tuple[str, ...]:
    """Names of the keywords that building ``cls`` takes, through ``**game`` up to its bases."""
    names: list[str] = []
    for owner in cls.__mro__:
        if "__init__" not in owner.__dict__:
            continue
        signature = inspect.signature(owner.__dict__["__init__"])
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        names += [
            name
            for name, parameter in list(signature.parameters.items())[1:]
            if parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        ]
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
    return tuple(dict.fromkeys(names))


def _address(target: type[Any] | str) -> str:
    return target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"


def _distribution(point: Any) -> str:
    return str(point.dist.name) if point.dist is not None else ""


_learners: Registry[Learner] = Registry("learner", Learner, "dp_experts_env.agents")
_adversaries: Registry[Adversary] = Registry("adversary", Adversary, "dp_experts_env.adversaries")


def learners(private: bool | None = None, leaky: bool = False) -> tuple[str, ...]:
    """Sorted names of the registered learners.

    Args:
        private: ``True`` for those that take ``epsilon`` and ``delta``, ``False`` for the others, ``None`` for all.
        leaky: ``True`` for the positive controls, which knowingly violate what they state, instead of the others.
    """
    chosen = []
    for name in _learners.names():
        cls = _learners.load(name)
        takes_budget = {"epsilon", "delta"} <= set(constructor_keywords(cls))
        if cls.leaky == leaky and private in (None, takes_budget):
            chosen.append(name)
    return tuple(chosen)


def adversaries(kind: str | None = None) -> tuple[str, ...]:
    """Sorted names of the registered adversaries.

    Args:
        kind: "stochastic", "oblivious" (which the stochastic ones are too) or "adaptive", for those that are so with
            their default arguments; ``None`` for all.
    """
    if kind is None:
        return _adversaries.names()
    check_name("kind", kind, ADVERSARY_MODELS)
    wanted = {"oblivious": ("stochastic", "oblivious")}.get(kind, (kind,))
    return tuple(name for name in _adversaries.names() if _adversaries.load(name)().kind in wanted)


def learner_class(name: str) -> type[Learner]:
    """Return the learner class registered under ``name``."""
    return _learners.load(name)


def adversary_class(name: str) -> type[Adversary]:
    """Return the adversary class registered under ``name``."""
    return _adversaries.load(name)


def make_learner(name: str, **parameters: Any) -> Learner:
    """Build the learner registered under ``name``; see :meth:`Registry.make`."""
    return _learners.make(name, **parameters)


def make_adversary(name: str, **parameters: Any) -> Adversary:
    """Build the adversary registered under ``name``; see :meth:`Registry.make`."""
    return _adversaries.make(name, **parameters)


def register_learner(name: str, cls: type[Learner] | str) -> None:
    """Register a learner class, or its ``"module:Class"``; see :meth:`Registry.register`."""
    _learners.register(name, cls)


def register_adversary(name: str, cls: type[Adversary] | str) -> None:
    """Register an adversary class, or its ``"module:Class"``, and its Gymnasium id; see :meth:`Registry.register`."""
    if name in CHAIRS.values():
        raise ArgumentError(f"name: {name!r} is refused, since {env_id(name)!r} is the id of a chair")
    _adversaries.register(name, cls)
    _register_env(name)


def env_id(name: str) -> str:
    """Return the Gymnasium id of an adversary: ``punish_last`` is ``dp_experts/PunishLast-v0``."""
    return f"dp_experts/{''.join(part.capitalize() for part in name.split('_'))}-v0"


def make_env(adversary: str, **parameters: Any) -> Adversary:
    """Build an adversary for ``gymnasium.make``.

    Raises:
        ArgumentError: if an array is handed in, which an environment spec cannot hold.
    """
    for keyword, value in parameters.items():
        if isinstance(value, np.ndarray):
            raise ArgumentError(
                f"{keyword}: expected a name, a path or plain numbers but found an array {value.shape}, which a "
                "Gymnasium spec cannot store; save it with numpy.save and pass the path, or build the class directly"
            )
    return make_adversary(adversary, **parameters)


def make_vector_env(
    adversary: str,
    num_envs: int = 1,
    max_episode_steps: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **parameters: Any,
) -> AdversaryVectorEnv:
    """Build the native vector environment for ``gymnasium.make_vec``; see :class:`AdversaryVectorEnv`."""
    return AdversaryVectorEnv(make_env(adversary, **parameters), num_envs, max_episode_steps, autoreset_mode)


def register_envs() -> None:
    """Register every adversary and the other chairs with Gymnasium; calling it again changes nothing."""
    for name in _adversaries.names():
        _register_env(name)
    for number, chair in CHAIRS.items():
        if number not in gym.registry:
            gym.register(
                number,
                entry_point="dp_experts_env.chairs:make_chair",
                vector_entry_point="dp_experts_env.chairs:make_vector_chair",
                kwargs={"chair": chair},
            )


def _register_env(name: str) -> None:
    if env_id(name) not in gym.registry:
        gym.register(
            env_id(name),
            entry_point="dp_experts_env.registry:make_env",
            vector_entry_point="dp_experts_env.registry:make_vector_env",
            kwargs={"adversary": name},
        )
