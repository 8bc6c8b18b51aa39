"""What every test gets, and which tests run on one Python only."""

from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

from dp_experts_env import registry
from dp_experts_env.privacy import game

# Bounds, laws and budgets of single classes, checked at length: the same on every Python. That a class behaves the
# same there is seen by the conformance suite, the golden traces and the matches of everybody with everybody.
ONE_PYTHON = frozenset(
    {
        "test_accounting",
        "test_accounting_oracle",
        "test_attack",
        "test_audit",
        "test_auto",
        "test_cases",
        "test_chairs",
        "test_chairs_multi",
        "test_chairs_sb3",
        "test_cli_audit",
        "test_conformance_mutants",
        "test_counters",
        "test_covers",
        "test_dartboard",
        "test_erm",
        "test_evidence",
        "test_exact",
        "test_fade",
        "test_hedge",
        "test_hypotheses",
        "test_lazy",
        "test_leaky",
        "test_ledger",
        "test_likelihood",
        "test_lower_bounds",
        "test_mechanisms",
        "test_mwem",
        "test_pairs",
        "test_phased",
        "test_privacy_game",
        "test_realizable",
        "test_rl",
        "test_rl_algorithms",
        "test_small_loss",
        "test_smooth",
        "test_sparse_vector_variants",
        "test_subsampled",
        "test_tracking",
    }
)


@pytest.fixture(autouse=True)
def registries_as_found() -> Iterator[None]:
    """Whatever a test registers is gone after it."""
    stores = (registry._learners._targets, registry._adversaries._targets, game._pairs._targets, gym.registry)
    held = [(store, dict(store)) for store in stores]
    yield
    for store, before in held:
        store.clear()
        store.update(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the files that run on one Python only as ``slow``, and refuse a name that no file bears."""
    lost = sorted(name for name in ONE_PYTHON if not (Path(__file__).parent / f"{name}.py").is_file())
    if lost:
        raise pytest.UsageError(f"tests/conftest.py names files that are not there: {', '.join(lost)}")
    for item in items:
        if item.path.stem in ONE_PYTHON:
            item.add_marker(pytest.mark.slow)
