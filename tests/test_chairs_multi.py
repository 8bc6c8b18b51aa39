"""Both chairs at once under PettingZoo: its own tests, a seed test that looks at whole games, and the single chairs."""

import copy
import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium.utils.env_checker import data_equivalence
from pettingzoo import ParallelEnv
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils import parallel_to_aec

import dp_experts_env as dpe
from dp_experts_env.chairs import AdversaryEnv, parallel_env
from dp_experts_env.spec import ArgumentError, ProtocolError

N, T = 3, 6
VARIANTS = [{}, {"losses": "box"}, {"losses": ["zeros", "corners"]}, {"num_experts": 1, "horizon": 1}]


def build(**keywords):
    return parallel_env(**{"num_experts": N, "horizon": T, **keywords})


def sampled(env, seed):
    """Actions for a game, from spaces that are seeded with the agent's own number."""
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + number)
    return [{agent: env.action_space(agent).sample() for agent in env.possible_agents} for _ in range(env.game.horizon)]


def whole_game(env, seed, actions):
    steps = [env.reset(seed=seed)]
    for action in actions:
        assert env.agents == env.possible_agents
        steps.append(env.step(action))
    assert env.agents == []
    return steps


def seed_test(build, games=3):
    """Two copies under one seed show the same in every step of whole games, to the last bit; so does one played anew.

    PettingZoo's own test stops after the first step, since it looks for an ended agent among the names of all.
    """
    one, other = build(), build()
    for seed in range(games):
        actions, again = sampled(one, seed), sampled(other, seed)
        assert data_equivalence(actions, again, exact=True)
        first = copy.deepcopy(whole_game(one, seed, actions))
        assert len(first) == one.game.horizon + 1
        assert data_equivalence(first, whole_game(other, seed, actions), exact=True), f"seed {seed}: copies differ"
        assert data_equivalence(first, whole_game(one, seed, actions), exact=True), f"seed {seed}: not the same again"


@pytest.mark.parametrize("keywords", VARIANTS)
def test_pettingzoos_tests(keywords, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(build(**keywords), num_cycles=50)
        parallel_seed_test(lambda: build(**keywords), num_cycles=50)


def test_pettingzoos_test_of_turns(capsys):
    """The turn game made of it. What it warns of is meant: agents of two kinds, and nothing seen before round 1."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        api_test(parallel_to_aec(build()), num_cycles=50)
    meant = {"Observation numpy array is all zeros.", "Observations are different shapes"}
    meant |= {f"Agents have different {kind} space sizes" for kind in ("observation", "action")}
    assert {str(warning.message) for warning in said} <= meant


@pytest.mark.parametrize("keywords", VARIANTS)
def test_seeds(keywords):
    seed_test(lambda: build(**keywords))


@pytest.mark.parametrize("from_step", [1, 2, T])
def test_the_seed_test_catches_what_pettingzoos_does_not(from_step):
    """Random from a late step on: ours must fail; theirs sees the first step only."""
    rng = np.random.default_rng(0)

    def drifting():
        env = build()
        step = env.step

        def wrong(actions):
            observations, rewards, *rest = step(actions)
            if env._seen.round >= from_step:
                rewards["learner_0"] += rng.random()
            return (observations, rewards, *rest)

        env.step = wrong
        return env

    with pytest.raises(AssertionError, match="copies differ"):
        seed_test(drifting)
    if from_step > 1:
        parallel_seed_test(drifting, num_cycles=50)


@pytest.mark.parametrize("losses", ["one_hot", "box"])
def test_each_agent_sees_and_gains_what_its_chair_does(losses):
    """Against the adversary's chair with the same learner, and the learner's chair with the same losses."""
    env, chair = build(losses=losses), AdversaryEnv("hedge", losses=losses, num_experts=N, horizon=T)
    space = env.action_space("adversary_0")
    space.seed(0)
    charges = [space.sample() for _ in range(T)]
    observations, infos = env.reset()
    expected, info = chair.reset(seed=4)
    chairs = [(expected, 0.0, False, False, info), *(chair.step(charge) for charge in charges)]
    matrix = np.array([step[4]["losses"] for step in chairs[1:]])
    seat = dpe.make_adversary("replay", source=matrix)
    seated = [(*seat.reset(seed=0)[:1], 0.0, False, False, None)]
    seated += [seat.step(step[4]["choice"]) for step in chairs[1:]]
    returned = 0.0
    for t in range(T + 1):
        if t:
            actions = {"adversary_0": charges[t - 1], "learner_0": chairs[t][4]["choice"]}
            observations, rewards, terminated, truncated, infos = env.step(actions)
            assert rewards == {"learner_0": seated[t][1], "adversary_0": chairs[t][1]}
            assert terminated == dict.fromkeys(env.possible_agents, t == T)
            assert truncated == dict.fromkeys(env.possible_agents, False)
            returned += rewards["adversary_0"]
        assert np.array_equal(observations["learner_0"], seated[t][0])
        assert np.array_equal(observations["adversary_0"], chairs[t][0])
        assert np.array_equal(env.state(), np.concatenate([seated[t][0], chairs[t][0]]))
        for agent in env.possible_agents:
            assert observations[agent] in env.observation_space(agent)
            assert set(infos[agent]) == {"losses", "regret", "best_loss", "learner_loss", "round"}
            assert infos[agent]["round"] == t
            assert infos[agent]["regret"] == pytest.approx(chairs[t][4]["regret"], abs=1e-12)
    assert returned == pytest.approx(infos["learner_0"]["regret"], abs=1e-12)


def test_nobody_sees_the_others_current_move():
    """Observations of step t are a function of earlier actions: another move in step t changes nothing before it."""
    for t in range(T):
        seen = []
        for move in range(N):
            env = build()
            actions = [{"learner_0": 0, "adversary_0": 1} for _ in range(T)]
            actions[t] = {"learner_0": move, "adversary_0": move}
            seen.append([step[0] for step in whole_game(env, 0, actions)])
        for other in seen[1:]:
            assert data_equivalence(seen[0][: t + 1], other[: t + 1], exact=True)
            assert not data_equivalence(seen[0][t + 1], other[t + 1], exact=True)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"learner_0": 0}, "actions: expected one for each of learner_0, adversary_0"),
        ({"learner_0": 0, "adversary_0": 0, "judge": 0}, "actions: expected one for each"),
        ([0, 0], "actions: expected one for each"),
        ({"learner_0": N, "adversary_0": 0}, "action of the learner of round 2"),
        ({"learner_0": 0, "adversary_0": N}, "action of the adversary of round 2"),
        ({"learner_0": 0.5, "adversary_0": 0}, "action of the learner of round 2"),
    ],
)
def test_bad_actions_change_nothing(actions, message):
    env, twin = build(), build()
    good = {"learner_0": 1, "adversary_0": 1}
    for each in (env, twin):
        each.reset(seed=0)
        each.step(good)
    with pytest.raises(ArgumentError, match=message):
        env.step(actions)
    assert data_equivalence(env.step(good), twin.step(good), exact=True)


def test_calls_out_of_order_and_bad_arguments():
    env = build(horizon=1)
    with pytest.raises(ProtocolError, match="reset"):
        env.step({"learner_0": 0, "adversary_0": 0})
    env.reset()
    env.step({"learner_0": 0, "adversary_0": 0})
    with pytest.raises(ProtocolError, match="reset"):
        env.step({"learner_0": 0, "adversary_0": 0})
    for keywords, message in (
        ({"horizon": 0}, "horizon"),
        ({"losses": "boxes"}, "losses"),
        ({"render_mode": "human"}, "render_mode"),
    ):
        with pytest.raises(ArgumentError, match=message):
            build(**keywords)
    with pytest.raises(ArgumentError, match="did you mean 'learner_0'"):
        env.observation_space("lerner")


def test_rendering_pickling_and_kind():
    env = build(render_mode="ansi")
    assert isinstance(env, ParallelEnv)
    env.reset()
    env.step({"learner_0": 1, "adversary_0": 1})
    assert env.render() == "round 1/6  learner 1  best 0  regret 1"
    twin = pickle.loads(pickle.dumps(env))
    good = {"learner_0": 2, "adversary_0": 1}
    assert data_equivalence(env.step(good), twin.step(good), exact=True)
    assert build().render() is None
    assert str(env) == "dp_experts_v0"
