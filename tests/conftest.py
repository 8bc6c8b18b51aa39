"""What every test gets."""

from collections.abc import Iterator

import gymnasium as gym
import pytest

from dp_experts_env import registry


@pytest.fixture(autouse=True)
def registries_as_found() -> Iterator[None]:
    """Whatever a test registers is gone after it."""
    held = [
        (store, dict(store)) for store in (registry._learners._targets, registry._adversaries._targets, gym.registry)
    ]
    yield
    for store, before in held:
        store.clear()
        store.update(before)
