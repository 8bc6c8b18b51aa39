"""The libraries of the extra ``rl``, imported when they are used, and the global random state they leave behind."""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from dp_experts_env.spec import MissingExtraError


def library(name: str, user: str) -> Any:
    """Return a module of the extra.

    Args:
        name: of the module.
        user: who needs it, for the message.

    Raises:
        MissingExtraError: if it cannot be imported; the message names the extra.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{user}: needs {name.partition('.')[0]}; install it with pip install 'dp-experts-env[rl]'"
        ) from error


@contextlib.contextmanager
def states_as_found(user: str) -> Iterator[Any]:
    """Yield torch, on one thread; afterwards global random states and the number of threads are what they were.

    Stable-Baselines3 seeds numpy, torch and the standard library globally whenever it builds or loads a model, and
    draws from them. Inside a training run begun with a seed that makes it repeatable; outside nobody is to notice. One
    thread, since networks this small are slower on more, and sums in another order would be other numbers.

    Args:
        user: who needs it, for the message.

    Raises:
        MissingExtraError: without torch.
    """
    torch = library("torch", user)
    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield torch
    finally:
        torch.set_num_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(own)
