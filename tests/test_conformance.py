"""The conformance suites over the registries, with the exact checks of each class: no list can shrink unseen."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dp_experts_env as dpe
from dp_experts_env.testing import (
    ConformanceError,
    adversary_checks,
    check_adversary,
    check_learner,
    learner_checks,
)
from dp_experts_env.testing.suite import check_frequencies, global_randomness, mean_margin

# In the order in which they are made; "seeds" becomes "deterministic" for a learner that declares it.
LEARNER_RULES = (
    "builds",
    "pickles",
    "docstring",
    "choices",
    "same_seed",
    "reset",
    "seeds",
    "instances",
    "batch_of_one",
    "shared_losses",
    "run",
    "causality",
    "inputs",
    "global_generators",
    "small_games",
    "extremes",
    "protocol",
    "bad_losses",
    "games",
    "notes",
    "guarantee",
    "regret_bound",
)
ADVERSARY_RULES = (
    "builds",
    "pickles",
    "docstring",
    "gymnasium",
    "losses",
    "same_seed",
    "seeded_then_unseeded",
    "instances",
    "oblivious",
    "kind",
    "emit_block",
    "batch_of_one",
    "games",
    "fresh_arrays",
    "simultaneity",
    "horizon",
    "step",
    "vector_env",
    "bad_actions",
    "protocol",
    "small_games",
    "global_generators",
)
STOCHASTIC = {"seeds", "identical_rounds"}

# What each learner claims besides, which is checked where it is there.
LAW = {"probabilities", "outcomes"}
CLAIMS: dict[str, set[str]] = {
    "auto": set(),
    "doubling_small_loss": set(),
    "fade": set(),
    "follow_the_leader": LAW,
    "follow_the_perturbed_leader": {"regret"},
    "gaussian_leader": {"regret"},
    "hedge": {"regret", *LAW},
    "lazy_hedge": {"privacy", "regret", *LAW},
    "lazy_to_private": {"privacy", "regret", *LAW},
    "leaky_ada_hedge": {"regret", *LAW},
    "leaky_copy_last": set(),
    "leaky_dartboard": {"regret", *LAW},
    "leaky_never_halting": set(),
    "leaky_no_query_noise": set(),
    "leaky_no_threshold_noise": set(),
    "leaky_perturbed_leader": {"regret"},
    "leaky_sensitivity": set(),
    "leaky_triple_rate": {"regret", *LAW},
    "phased_selection": {"privacy", "regret", *LAW},
    "private_dartboard": {"privacy", "regret", *LAW},
    "private_fixed_share": {"privacy", "regret", *LAW},
    "private_hedge": {"privacy", "regret", *LAW},
    "private_leader": {"probabilities", "regret"},
    "realizable": {"outcomes", "privacy"},
    "shrinking_dartboard": {"regret", *LAW},
    "small_loss": {"outcomes", "privacy"},
    "small_loss_marginal": {"outcomes"},
    "subsampled": {"privacy", "regret", *LAW},
    "uniform": {"privacy", "regret", *LAW},
}
DETERMINISTIC = {"follow_the_leader", "leaky_copy_last"}
# The constructor arguments that change what a learner is.
VARIANTS: tuple[tuple[str, dict[str, Any], set[str]], ...] = (
    ("follow_the_perturbed_leader", {"fresh": False}, {"regret"}),
    ("follow_the_perturbed_leader", {"noise": "gumbel", "learning_rate": 0.7}, {"regret", "probabilities"}),
    ("follow_the_perturbed_leader", {"noise": "gumbel", "fresh": False}, {"regret"}),
    ("hedge", {"learning_rate": 1.0}, {"regret", *LAW}),
    ("hedge", {"learning_rate": "small_loss", "best_loss": 2.0}, {"regret", *LAW}),
    ("hedge", {"learning_rate": "adahedge"}, {"regret", *LAW}),
    ("hedge", {"learning_rate": "adahedge", "mixing": 0.3}, {"regret", *LAW}),
    ("private_hedge", {"method": "seed", "epsilon": 3.0}, {"privacy", "regret", *LAW}),
    ("private_hedge", {"method": "optimal", "delta": 1e-3}, {"privacy", "regret", *LAW}),
    ("private_hedge", {"delta": 0.0, "epsilon": 4.0}, {"privacy", "regret", *LAW}),
    ("private_hedge", {"adjacency": "zero_out", "epsilon": 4.0}, {"privacy", "regret", *LAW}),
    ("shrinking_dartboard", {"learning_rate": 1.5}, {"regret", *LAW}),
    ("lazy_hedge", {"delta": 0.0, "epsilon": 5.0}, {"privacy", "regret", *LAW}),
    ("private_dartboard", {"delta": 0.0, "epsilon": 5.0}, {"privacy", "regret", *LAW}),
    ("private_dartboard", {"tuning": "paper", "epsilon": 2.0}, {"privacy", "regret", *LAW}),
    ("private_dartboard", {"certificate": "uncapped", "epsilon": 5.0}, {"privacy", "regret", *LAW}),
    ("private_fixed_share", {"switches": 3, "epsilon": 5.0}, {"privacy", "regret", *LAW}),
    ("fade", {"delta": 0.0, "epsilon": 5.0}, set()),
    ("fade", {"adjacency": "zero_out", "epsilon": 5.0}, set()),
    ("gaussian_leader", {"adjacency": "zero_out", "epsilon": 9.0}, {"regret"}),
    ("phased_selection", {"adjacency": "zero_out", "epsilon": 5.0}, {"privacy", "regret", *LAW}),
    ("private_leader", {"delta": 0.0, "epsilon": 9.0}, {"regret", "probabilities"}),
    ("private_leader", {"counter": "tree", "rule": "perturbed", "epsilon": 9.0}, {"regret"}),
    ("private_leader", {"counter": "honaker", "epsilon": 9.0}, {"regret", "probabilities"}),
)

ADVERSARIES: dict[str, set[str]] = {
    "alternating": set(),
    "bernoulli": STOCHASTIC,
    "family": set(),
    "fingerprint": set(),
    "foreseer": set(),
    "hidden_sign": set(),
    "planted": STOCHASTIC,
    "punish_last": set(),
    "punish_leader": set(),
    "punish_likely": set(),
    "punish_used": set(),
    "replay": set(),
    "rescaled": set(),
    "sign_estimation": set(),
    "small_loss_floor": STOCHASTIC,
    "smooth_bisection": set(),
    "smooth_greedy": set(),
    "smooth_halfspace": set(),
    "smooth_oblivious": set(),
    "smooth_polytope": set(),
    "smooth_threshold": set(),
    "subsets": set(),
    "switching": set(),
}


def outcome(checks: Any) -> tuple[set[str], list[str]]:
    """Run checks; return the names of all and the complaints of those that fail."""
    made, complaints = set(), []
    for name, check in checks:
        made.add(name)
        try:
            check()
        except ConformanceError as error:
            complaints.append(str(error))
    return made, complaints


def rules(deterministic: bool) -> set[str]:
    return {name for name in LEARNER_RULES if name != "seeds"} | {"deterministic" if deterministic else "seeds"}


def test_the_tables_hold_every_registered_name() -> None:
    assert set(CLAIMS) == {*dpe.learners(), *dpe.learners(leaky=True)}
    assert set(ADVERSARIES) == set(dpe.adversaries())
    assert len(LEARNER_RULES) == 22
    assert len(ADVERSARY_RULES) == 22


@pytest.mark.parametrize("name", CLAIMS)
def test_learner(name: str) -> None:
    made, complaints = outcome(learner_checks(name))
    assert complaints == []
    assert made == rules(name in DETERMINISTIC) | CLAIMS[name]


@pytest.mark.parametrize(("name", "parameters", "claims"), VARIANTS, ids=[f"{v[0]}-{v[1]}" for v in VARIANTS])
def test_learner_variant(name: str, parameters: dict[str, Any], claims: set[str]) -> None:
    made, complaints = outcome(learner_checks(dpe.make_learner(name, **parameters)))
    assert complaints == []
    assert made == rules(name in DETERMINISTIC) | claims


@pytest.mark.parametrize("name", ADVERSARIES)
def test_adversary(name: str) -> None:
    made, complaints = outcome(adversary_checks(name, headings=True))
    assert complaints == []
    assert made == set(ADVERSARY_RULES) | ADVERSARIES[name]


# -- the suites as a user meets them -------------------------------------------------------------------------------


class Favourite(dpe.Learner):
    """Names expert 0 in all games, and does not say that it is deterministic."""

    def act(self) -> Any:
        return np.zeros(self.spec.shape, dtype=np.int64)


class Half(dpe.Adversary):
    """Charges everybody one half."""

    def emit(self) -> Any:
        return self.zeros(self.num_experts) + 0.5


SINGLE_CHECKS = [*learner_checks("uniform", skip=["regret"]), *adversary_checks(Half)]


@pytest.mark.parametrize(("name", "check"), SINGLE_CHECKS, ids=[name for name, _ in SINGLE_CHECKS])
def test_one_case_a_check(name: str, check: Callable[[], None]) -> None:
    assert check.__name__ == name
    assert (check.__doc__ or "").strip()
    check()


def test_one_call_returns_the_checks_made_in_order() -> None:
    assert check_learner("follow_the_leader") == (
        *LEARNER_RULES[:6],
        "deterministic",
        *LEARNER_RULES[7:-1],
        "regret_bound",
        "probabilities",
        "outcomes",
    )
    assert check_adversary(Half()) == ADVERSARY_RULES


def test_the_first_broken_rule_is_named() -> None:
    with pytest.raises(
        ConformanceError, match=r"^Favourite fails the check 'seeds': .* deterministic = True$"
    ) as caught:
        check_learner(Favourite)
    assert caught.value.check == "seeds"
    assert isinstance(caught.value, AssertionError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.check) == (str(caught.value), "seeds")
    with pytest.raises(ConformanceError, match=r"^Favourite\(\) fails the check 'games'"):
        check_learner(Favourite(), skip=["seeds"])
    assert len(check_learner(Favourite, skip=["seeds", "games"])) == 20


def test_only_known_checks_are_skipped() -> None:
    with pytest.raises(dpe.UnknownNameError, match=r"skip: unknown name 'seed'; did you mean .*'seeds'"):
        check_learner("uniform", skip=["seed"])
    with pytest.raises(dpe.UnknownNameError, match="skip"):
        check_adversary(Half, skip=["regret"])


@pytest.mark.parametrize("wrong", [7, int, None, Half, Half()])
def test_what_is_no_learner_is_refused(wrong: Any) -> None:
    with pytest.raises(dpe.ArgumentError, match="learner: expected a registered name, a Learner or a class of it"):
        check_learner(wrong)


@pytest.mark.parametrize("wrong", [7, int, None, Favourite, Favourite()])
def test_what_is_no_adversary_is_refused(wrong: Any) -> None:
    with pytest.raises(dpe.ArgumentError, match="adversary: expected a name, an Adversary or a class of it"):
        check_adversary(wrong)
    with pytest.raises(dpe.UnknownNameError):
        check_adversary("nobody")


@pytest.mark.parametrize("options", [{"num_experts": 1}, {"horizon": 5}, {"horizon": 9.0}])
def test_too_small_games_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(dpe.ArgumentError, match=next(iter(options))):
        check_learner("uniform", **options)


@pytest.mark.parametrize("options", [{"num_experts": 2, "horizon": 6}, {"num_experts": 9, "horizon": 25, "seed": 3}])
def test_other_sizes_and_seeds_pass_too(options: dict[str, Any]) -> None:
    for name in ("uniform", "hedge", "follow_the_leader"):
        assert len(check_learner(name, **options)) >= 24


def test_a_warning_is_a_failure() -> None:
    class Deprecated(Half):
        """Warns once in a game."""

        def start(self) -> None:
            warnings.warn("old", DeprecationWarning, stacklevel=2)

    with warnings.catch_warnings():
        # As in a script that hides them.
        warnings.simplefilter("ignore")
        with pytest.raises(ConformanceError, match="fails the check 'kind': DeprecationWarning: old"):
            dict(adversary_checks(Deprecated))["kind"]()


def test_an_example_is_checked_too() -> None:
    class Picky(Half):
        """Emits twice as much in games of three experts."""

        examples = ({"num_experts": 3, "horizon": 4},)

        def emit(self) -> Any:
            return super().emit() * (4.0 if self.num_experts == 3 else 1.0)

    with pytest.raises(ConformanceError, match=r"Picky\.emit of round 1, expert 0: expected a loss in \[0, 1\]"):
        dict(adversary_checks(Picky))["losses"]()
    dict(adversary_checks(Picky()))["losses"]()


def test_headings_are_demanded_where_asked() -> None:
    dict(adversary_checks(Half))["docstring"]()
    with pytest.raises(ConformanceError, match=r"lacks the headings .*'Action Space'.*'Version History'"):
        dict(adversary_checks(Half, headings=True))["docstring"]()


def test_a_registered_adversary_is_checked_through_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's checker compares games of one seed only on an environment with a spec: we always give it one."""
    specs: list[Any] = []

    def watched(env: Any) -> None:
        specs.append(env.spec)
        check_env(env)

    monkeypatch.setattr("dp_experts_env.testing.adversaries.check_env", watched)
    dict(adversary_checks("punish_last"))["gymnasium"]()
    assert [spec.id for spec in specs][-1] == "dp_experts/PunishLast-v0"
    assert len(specs) == 2 + len(dpe.adversary_class("punish_last").examples)
    assert all(spec is not None for spec in specs)


SCRIPT = """
import sys
sys.modules["pytest"] = None
import numpy as np
import dp_experts_env as dpe
from dp_experts_env.testing import ConformanceError, check_adversary, check_learner
print(len(check_learner("uniform")), len(check_adversary("punish_last")))
class Stuck(dpe.Learner):
    "Ignores its generator."
    def act(self):
        return np.zeros(self.spec.shape, dtype=int)
try:
    check_learner(Stuck, skip=["pickles"])
except ConformanceError as error:
    print(error.check)
"""


@pytest.mark.parametrize("flag", ["-B", "-O"])
def test_a_script_needs_no_pytest_and_no_assert_statements(flag: str) -> None:
    run = subprocess.run([sys.executable, flag, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert (run.stderr, run.stdout.splitlines()) == ("", ["26 22", "seeds"])


# -- the statistics of the suites ----------------------------------------------------------------------------------


def test_frequencies_pass_and_fail_where_they_should() -> None:
    """10,000 draws of a known law pass in each of 300 samples; a shift of 0.06 fails in each (8 sigma beyond)."""
    law = np.array([0.5, 0.3, 0.2, 0.0])
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.multinomial(10_000, law)
        check_frequencies(counts, 10_000, law, 4, "draws")
        shifted = rng.multinomial(10_000, np.array([0.56, 0.24, 0.2, 0.0]))
        with pytest.raises(AssertionError, match=r"draws: event \([01],\) came \d+ times in 10000"):
            check_frequencies(shifted, 10_000, law, 4, "draws")
    with pytest.raises(AssertionError, match=r"event \(3,\) came 1 times in 10000, but its probability is 0$"):
        check_frequencies([5000, 3000, 1999, 1], 10_000, law, 4, "draws")


def test_the_margin_of_a_mean_is_wide_enough_and_not_too_wide() -> None:
    """Values in [0, 1] with mean 0.1: in 300 samples of 2000 the mean stays within the margin, of 0.05 to 0.08."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        values = (rng.random(2000) < 0.1).astype(float)
        margin = mean_margin(values, 1.0, tests=5)
        assert values.mean() - 0.1 <= margin
        assert 0.05 < margin < 0.08


def test_global_generators_are_restored_and_watched() -> None:
    state = repr(np.random.get_state())  # noqa: NPY002
    with global_randomness(3):
        pass
    assert repr(np.random.get_state()) == state  # noqa: NPY002
    for draw, name in ((np.random.rand, "numpy.random"), (random.random, "random")):
        with pytest.raises(AssertionError, match=f"the global generator of {name} was used"), global_randomness(3):
            draw()
    assert repr(np.random.get_state()) == state  # noqa: NPY002
