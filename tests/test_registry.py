"""Names to classes: built-ins, classes of a script, entry points, Gymnasium ids."""

from __future__ import annotations

import json
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dp_experts_env as dpe
from dp_experts_env import registry
from dp_experts_env.registry import Registry, constructor_keywords
from dp_experts_env.testing import check_adversary, check_learner

# The two classes of the product's front door, word for word.


class PunishLeader(dpe.Adversary):
    """Charges whoever the learner named most often."""

    def start(self):
        self.counts = self.zeros(self.num_experts)  # leading games axis included

    def emit(self):
        return self.one_hot(self.counts.argmax(-1))

    def see(self, choices):
        self.counts += self.one_hot(choices)


class Uniform(dpe.Learner):
    """Names an expert uniformly at random: private for free, regret linear."""

    def act(self):
        return self.rng.integers(self.spec.num_experts, size=self.spec.shape)


class Tuned(Uniform):
    """Takes keywords, as private learners do."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, speed: float = 2.0) -> None:
        self.epsilon, self.delta, self.speed = epsilon, delta, speed


class Leaks(Tuned):
    """A positive control."""

    leaky = True


class Windowed(PunishLeader):
    """Takes a keyword before the game's."""

    def __init__(self, window: int = 10, **game: Any) -> None:
        super().__init__(**game)
        self.window = window


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test register what it likes and take it away again."""
    for known in (registry._learners, registry._adversaries):
        monkeypatch.setattr(known, "_targets", dict(known._targets))
    before = dict(gym.registry)
    yield
    for name in set(gym.registry) - set(before):
        del gym.registry[name]


# -- built-ins -------------------------------------------------------------------------------------------------------

LEARNERS = {
    "follow_the_leader",
    "follow_the_perturbed_leader",
    "hedge",
    "private_hedge",
    "shrinking_dartboard",
    "uniform",
}
ADVERSARIES = {
    "alternating": "oblivious",
    "bernoulli": "stochastic",
    "foreseer": "adaptive",
    "planted": "stochastic",
    "punish_last": "adaptive",
    "punish_leader": "adaptive",
    "punish_likely": "adaptive",
    "punish_used": "adaptive",
    "replay": "oblivious",
    "smooth_threshold": "adaptive",
    "switching": "oblivious",
}


def test_built_in_names() -> None:
    assert set(dpe.learners()) >= LEARNERS
    assert set(dpe.adversaries()) >= set(ADVERSARIES)
    for names in (dpe.learners(), dpe.adversaries(), dpe.learners(private=True), dpe.adversaries("adaptive")):
        assert list(names) == sorted(names)


def test_names_by_property() -> None:
    private, public = dpe.learners(private=True), dpe.learners(private=False)
    assert set(private) | set(public) == set(dpe.learners())
    assert not set(private) & set(public)
    assert "private_hedge" in private
    assert {"uniform", "hedge", "shrinking_dartboard"} <= set(public)
    assert all(dpe.learner_class(name).leaky for name in dpe.learners(leaky=True))
    assert not any(dpe.learner_class(name).leaky for name in dpe.learners())
    for name, kind in ADVERSARIES.items():
        assert name in dpe.adversaries(kind)
        assert (name in dpe.adversaries("oblivious")) == (kind in ("stochastic", "oblivious"))
        assert (name in dpe.adversaries("adaptive")) == (kind == "adaptive")
    with pytest.raises(dpe.UnknownNameError, match=r"kind: unknown name 'adaptve'; did you mean 'adaptive'\?"):
        dpe.adversaries("adaptve")


def test_a_registry_name_is_the_class_name() -> None:
    def camel(name: str) -> str:
        return "".join(word.capitalize() for word in name.split("_"))

    for name in (*dpe.learners(), *dpe.learners(leaky=True)):
        assert dpe.learner_class(name).__name__ == camel(name)
    for name in dpe.adversaries():
        assert dpe.adversary_class(name).__name__ == camel(name)
        assert dpe.env_id(name) == f"dp_experts/{camel(name)}-v0"
        assert dpe.env_id(name) in gym.registry


def test_every_name_builds_without_arguments() -> None:
    for name in (*dpe.learners(), *dpe.learners(leaky=True)):
        assert isinstance(dpe.make_learner(name), dpe.learner_class(name))
    for name in dpe.adversaries():
        assert isinstance(dpe.make_adversary(name), dpe.adversary_class(name))


def test_unknown_names_and_keywords_suggest_the_nearest() -> None:
    with pytest.raises(dpe.UnknownNameError, match=r"learner: unknown name 'hegde'; did you mean 'hedge'"):
        dpe.make_learner("hegde")
    with pytest.raises(dpe.UnknownNameError, match=r"adversary: unknown name 'PunishLast'.*'punish_last'"):
        dpe.make_adversary("PunishLast")
    with pytest.raises(dpe.UnknownNameError, match=r"keyword of learner 'private_hedge': .*did you mean 'epsilon'"):
        dpe.make_learner("private_hedge", epsilom=1.0)
    with pytest.raises(dpe.UnknownNameError, match=r"keyword of adversary 'punish_last': .*'num_experts'"):
        dpe.make_adversary("punish_last", n_experts=3)
    with pytest.raises(dpe.UnknownNameError, match="keyword of learner 'uniform'"):
        dpe.make_learner("uniform", epsilon=1.0)
    with pytest.raises(dpe.UnknownNameError):
        dpe.learner_class(7)  # type: ignore[arg-type]


def test_constructor_keywords_reach_through_game() -> None:
    game = ("num_experts", "horizon", "num_games", "render_mode")
    assert constructor_keywords(PunishLeader) == game
    assert constructor_keywords(Windowed) == ("window", *game)
    assert constructor_keywords(Uniform) == ()
    assert constructor_keywords(Tuned) == ("epsilon", "delta", "speed")


# -- registering -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("clean")
def test_the_front_door() -> None:
    """A registered adversary gets its env id, vector env, play and conformance for free; a learner likewise."""
    dpe.register_adversary("punish_leader_twice", PunishLeader)
    dpe.register_learner("uniform_twice", Uniform)
    assert "punish_leader_twice" in dpe.adversaries("adaptive")
    assert "uniform_twice" in dpe.learners(private=False)

    env = gym.make("dp_experts/PunishLeaderTwice-v0", num_experts=3, horizon=4)
    assert isinstance(env.unwrapped, PunishLeader)
    env.reset(seed=0)
    steps = [env.step(2) for _ in range(4)]
    assert [reward for _, reward, *_ in steps] == [0.0, -1.0, -1.0, -1.0]
    assert [terminated for _, _, terminated, *_ in steps] == [False, False, False, True]
    json.loads(env.spec.to_json())

    envs = gym.make_vec("dp_experts/PunishLeaderTwice-v0", num_envs=2, num_experts=3, horizon=4)
    envs.reset(seed=0)
    envs.step(np.array([1, 2]))
    assert envs.step(np.array([1, 1]))[1].tolist() == [-1.0, 0.0]

    learner, foe = dpe.make_learner("uniform_twice"), dpe.make_adversary("punish_leader_twice", horizon=50)
    match = dpe.play(learner, foe, num_games=20, seed=0)
    assert match.regret.shape == (20,)
    assert match.kind == "adaptive"
    check_learner("uniform_twice")
    check_adversary("punish_leader_twice")


@pytest.mark.usefixtures("clean")
def test_names_are_words_in_snake_case() -> None:
    for name in ("PunishLeader", "punish-leader", "punish__leader", "_punish", "punish_", "", "2nd", "top_2", 7):
        with pytest.raises(dpe.ArgumentError, match="name: expected a snake_case name"):
            dpe.register_adversary(name, PunishLeader)  # type: ignore[arg-type]
    dpe.register_adversary("top2_of3", PunishLeader)
    assert dpe.env_id("top2_of3") == "dp_experts/Top2Of3-v0"


@pytest.mark.usefixtures("clean")
def test_wrong_classes_are_refused() -> None:
    for wrong in (PunishLeader, int, Uniform(), None, Uniform.act):
        with pytest.raises(dpe.ArgumentError, match="learner 'thing': expected a subclass of Learner but found"):
            dpe.register_learner("thing", wrong)  # type: ignore[arg-type]
    with pytest.raises(dpe.ArgumentError, match="expected a subclass of Adversary"):
        dpe.register_adversary("thing", Uniform)  # type: ignore[arg-type]
    assert "thing" not in dpe.learners()
    assert dpe.env_id("thing") not in gym.registry


@pytest.mark.usefixtures("clean")
def test_a_name_belongs_to_one_class() -> None:
    with pytest.raises(dpe.ArgumentError, match=r"learner 'uniform' is already registered as '.*:Uniform'"):
        dpe.register_learner("uniform", Uniform)
    dpe.register_learner("mine", Uniform)
    dpe.register_learner("mine", Uniform)
    dpe.register_learner("mine", f"{__name__}:Uniform")
    with pytest.raises(dpe.ArgumentError, match=f"already registered as '{__name__}:Uniform'"):
        dpe.register_learner("mine", Tuned)


@pytest.mark.usefixtures("clean")
def test_a_new_definition_replaces_the_old_one() -> None:
    """A notebook cell that defines and registers a class may run twice."""

    def cell(choice: int) -> None:
        class Stubborn(dpe.Learner):
            """Always names the same expert."""

            def act(self) -> Any:
                return np.full(self.spec.shape, choice)

        dpe.register_learner("stubborn", Stubborn)

    for choice in (0, 1):
        cell(choice)
        match = dpe.play(dpe.make_learner("stubborn"), dpe.make_adversary("bernoulli", horizon=3), record="choices")
        assert match.choices is not None
        assert match.choices.tolist() == [[choice] * 3]


@pytest.mark.usefixtures("clean")
def test_private_and_leaky_learners_are_found_by_their_keywords() -> None:
    dpe.register_learner("tuned", Tuned)
    dpe.register_learner("leaks", Leaks)
    assert "tuned" in dpe.learners(private=True)
    assert "tuned" not in dpe.learners(private=False)
    assert "leaks" not in dpe.learners()
    assert "leaks" in dpe.learners(leaky=True)
    assert dpe.make_learner("tuned", epsilon=0.5).parameters == {"epsilon": 0.5, "delta": 1e-6, "speed": 2.0}


@pytest.mark.usefixtures("clean")
def test_a_string_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    dpe.register_learner("later", "a_module_of_tomorrow:Uniform")
    assert "later" in registry._learners.names()
    with pytest.raises(dpe.GameError, match="learner 'later' cannot be imported from 'a_module_of_tomorrow:Uniform'"):
        dpe.make_learner("later")
    module = types.ModuleType("a_module_of_tomorrow")
    monkeypatch.setitem(sys.modules, "a_module_of_tomorrow", module)
    with pytest.raises(dpe.GameError, match="has no attribute 'Uniform'"):
        dpe.make_learner("later")
    module.Uniform = PunishLeader  # type: ignore[attr-defined]
    with pytest.raises(dpe.ArgumentError, match="expected a subclass of Learner"):
        dpe.make_learner("later")
    module.Uniform = Uniform  # type: ignore[attr-defined]
    assert type(dpe.make_learner("later")) is Uniform


# -- entry points ----------------------------------------------------------------------------------------------------


def entry_point(name: str, value: str, distribution: str) -> EntryPoint:
    point = EntryPoint(name, value, "dp_experts_env.agents")
    vars(point).update(dist=types.SimpleNamespace(name=distribution))
    return point


def test_entry_points_of_any_distribution_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        entry_point("theirs", f"{__name__}:Tuned", "a-plug-in"),
        entry_point("ours", f"{__name__}:Uniform", "dp-experts-env"),
        # An editable and an ordinary install of one distribution may both be on the path.
        entry_point("ours", f"{__name__}:Uniform", "dp-experts-env"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Registry("learner", dpe.Learner, "dp_experts_env.agents")
    assert found.names() == ("ours", "theirs")
    assert type(found.make("theirs", epsilon=2.0)) is Tuned


def test_a_plug_in_cannot_take_a_built_in_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        entry_point("ours", f"{__name__}:Tuned", "a-plug-in"),
        entry_point("ours", f"{__name__}:Uniform", "dp-experts-env"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    with pytest.warns(UserWarning, match="learner 'ours' of distribution 'a-plug-in' is ignored: the name already"):
        found = Registry("learner", dpe.Learner, "dp_experts_env.agents")
    assert found.load("ours") is Uniform


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """Importing the package imports no learner, no adversary and no extra."""
    code = (
        "import sys, dp_experts_env\n"
        "wrong = [m for m in sys.modules if m.split('.')[0] in\n"
        "         ('dp_experts_agents', 'dp_experts_adversaries', 'torch', 'stable_baselines3', 'sklearn', 'pytest')]\n"
        "print(wrong)\n"
        "dp_experts_env.make_learner('uniform')\n"
        "print('dp_experts_agents.baselines' in sys.modules, 'dp_experts_agents.dartboard' in sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    assert shown.splitlines() == ["[]", "True False"]


# -- Gymnasium -------------------------------------------------------------------------------------------------------


def test_registering_again_changes_nothing() -> None:
    before = dict(gym.registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpe.register_envs()
    assert dict(gym.registry) == before
    code = "import importlib, dp_experts_env as dpe; importlib.reload(dpe); print(len(dpe.adversaries()))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.stderr, run.stdout.strip()) == ("", str(len(dpe.adversaries())))


def test_every_id_makes_both_environments_and_a_json_spec() -> None:
    for name in dpe.adversaries():
        env = gym.make(dpe.env_id(name))
        assert type(env.unwrapped) is dpe.adversary_class(name)
        spec = json.loads(env.spec.to_json())
        assert spec["kwargs"] == {"adversary": name}
        again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        assert repr(again.unwrapped) == repr(env.unwrapped)
        envs = gym.make_vec(dpe.env_id(name), num_envs=2)
        assert isinstance(envs.unwrapped, dpe.AdversaryVectorEnv)
        assert envs.num_envs == 2


def test_the_module_form_of_an_id_works() -> None:
    env = gym.make("dp_experts_env:dp_experts/PunishLast-v0", num_experts=3)
    assert env.action_space == gym.spaces.Discrete(3)


def test_an_array_is_refused_as_a_keyword_of_gymnasium() -> None:
    with pytest.raises(dpe.ArgumentError, match=r"source: expected a name, a path .* found an array \(2, 2\)"):
        gym.make("dp_experts/Replay-v0", source=np.zeros((2, 2)))
