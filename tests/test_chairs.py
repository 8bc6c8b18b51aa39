"""The adversary's and the judge's chairs: scores against a second reckoning, secrets kept, exact returns, vectors."""

import copy
import itertools
import json
import math
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_experts_env as dpe
from dp_experts_env.chairs import (
    LOSS_SETS,
    AdversaryEnv,
    AdversaryView,
    ChairVectorEnv,
    JudgeEnv,
    JudgeView,
    Lead,
    VectorLead,
    loss_vectors,
    make_chair,
    multi,
    parallel_env,
)
from dp_experts_env.spec import ArgumentError, MissingExtraError, ProtocolError, UnknownNameError

N, T = 3, 5
IDS = {"adversary": "dp_experts/Adversary-v0", "judge": "dp_experts/Judge-v0"}
CHAIRS = ("adversary", "judge")
LEARNERS = dpe.learners() + dpe.learners(leaky=True)


@pytest.fixture(autouse=True)
def registered(registries_as_found):
    for name, number in IDS.items():
        if number not in gym.registry:
            gym.register(
                number,
                entry_point="dp_experts_env.chairs:make_chair",
                vector_entry_point="dp_experts_env.chairs:make_vector_chair",
                kwargs={"chair": name},
            )


class OneGameOnly(dpe.Learner):
    """Random, written for a single game: a batch of it is looped over."""

    batched = False

    def start(self):
        self.total = np.zeros(self.spec.num_experts)

    def act(self):
        return int((self.total - self.rng.standard_exponential(self.spec.num_experts)).argmin())

    def observe(self, losses):
        self.total += losses


class Told(dpe.Learner):
    """Names what it was given, and keeps what it is told."""

    def __init__(self, choices):
        self.choices = choices

    def start(self):
        self.told = []

    def act(self):
        return np.broadcast_to(self.choices[self.round], self.spec.shape)

    def observe(self, losses):
        self.told.append(np.array(losses))


class Forced(dpe.Learner):
    """Plays the outcomes that the digits of a game's number name, and keeps their log-probability."""

    def __init__(self, learner, outcomes):
        self.learner, self.outcomes_of_games = learner, outcomes

    def start(self):
        self.learner.reset(self.spec, self.rng)
        self.logs = np.zeros(self.spec.shape)
        self.named = []

    def act(self):
        outcome = self.outcomes_of_games[:, self.round]
        law = np.broadcast_to(self.learner.outcomes(), (len(outcome), self.learner.outcomes().shape[-1]))
        self.logs = self.logs + law[np.arange(len(outcome)), outcome]
        self.named.append(self.learner.take(outcome))
        return self.named[-1]

    def observe(self, losses):
        self.learner.observe(losses)


def constant(choice):
    return Told([choice] * 100)


# -- the loss vectors ------------------------------------------------------------------------------------------------


def test_the_named_sets():
    assert loss_vectors("one_hot", 3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert loss_vectors("all_but_one", 3).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert loss_vectors("halves", 3).tolist() == [[1, 1, 0], [0, 0, 1]]
    assert loss_vectors(["zeros", "ones"], 2).tolist() == [[0, 0], [1, 1]]
    assert loss_vectors("corners", 2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert loss_vectors("corners", 12).shape == (4096, 12)


@given(st.lists(st.sampled_from(LOSS_SETS), min_size=1, max_size=7), st.integers(1, 6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_every_vector_stands_where_it_came_first(names, size):
    rows = [tuple(row) for name in names for row in loss_vectors(name, size).tolist()]
    found = loss_vectors(names, size)
    assert [tuple(row) for row in found.tolist()] == list(dict.fromkeys(rows))
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("names", "size", "message"),
    [
        ("one_hott", 3, "losses: unknown name 'one_hott'; did you mean 'one_hot'"),
        ([], 3, "at least one set"),
        ("corners", 13, "at most 4096 vectors"),
        (["corners", "one_hot"], 12, "at most 4096 vectors"),
        (["one_hot", 3], 3, "losses: unknown name 3"),
        (None, 3, "expected the name of a set"),
        ("one_hot", 0, "num_experts"),
    ],
)
def test_bad_sets(names, size, message):
    with pytest.raises(ArgumentError, match=message):
        loss_vectors(names, size)


# -- as environments of Gymnasium ------------------------------------------------------------------------------------

VARIANTS = [
    ("adversary", {}),
    ("adversary", {"losses": "box", "learner": "hedge"}),
    ("adversary", {"losses": ["zeros", "corners"], "learner": "private_dartboard", "horizon": 2}),
    ("adversary", {"num_experts": 1, "horizon": 1}),
    ("judge", {}),
    ("judge", {"learner": "hedge", "learner_parameters": {"learning_rate": 0.5}, "adjacency": "zero_out"}),
    ("judge", {"learner": "leaky_copy_last", "losses": "corners", "num_experts": 2, "horizon": 3, "epsilon": 0}),
    ("judge", {"num_experts": 1, "horizon": 1}),
]


@pytest.mark.parametrize("render_mode", [None, "ansi"])
@pytest.mark.parametrize(("chair", "keywords"), VARIANTS)
def test_gymnasiums_checker_has_no_complaint(chair, keywords, render_mode):
    """Warnings are errors here; on ``unwrapped``, which has a spec, so that determinism is checked too."""
    env = gym.make(IDS[chair], render_mode=render_mode, **keywords).unwrapped
    assert env.spec is not None
    check_env(env)


@pytest.mark.parametrize(("chair", "keywords"), VARIANTS)
def test_specs_are_json(chair, keywords):
    env = gym.make(IDS[chair], **keywords)
    rebuilt = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert rebuilt.unwrapped.parameters == env.unwrapped.parameters
    json.loads(gym.make_vec(IDS[chair], num_envs=2, **keywords).spec.to_json())


@pytest.mark.parametrize("chair", CHAIRS)
@pytest.mark.parametrize("maker", [gym.make, gym.make_vec])
def test_what_a_maker_refuses(chair, maker):
    with pytest.raises(ArgumentError, match=r"learner_parameters: .*array \(3,\)"):
        maker(IDS[chair], learner_parameters={"prior": np.ones(3)})
    with pytest.raises(ArgumentError, match=r"losses: .*array \(2, 3\)"):
        maker(IDS[chair], losses=np.ones((2, 3)))
    with pytest.raises(UnknownNameError, match="did you mean 'horizon'"):
        maker(IDS[chair], horizonn=3)
    with pytest.raises(UnknownNameError, match="did you mean 'hedge'"):
        maker(IDS[chair], learner="hedgee")
    with pytest.raises(UnknownNameError, match="did you mean 'learning_rate'"):
        maker(IDS[chair], learner="hedge", learner_parameters={"learning_rat": 0.1})
    with pytest.raises(ArgumentError, match="num_experts"):
        maker(IDS[chair], num_experts=0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AdversaryEnv(learner=3), "learner: expected the name"),
        (lambda: AdversaryEnv(dpe.make_learner("hedge"), {"learning_rate": 1.0}), "the learner is an instance"),
        (lambda: AdversaryEnv("hedge", [3]), "learner_parameters: expected keywords"),
        (lambda: AdversaryEnv("hedge", {3: 3}), "learner_parameters: expected keywords"),
        (lambda: AdversaryEnv(losses="boxx"), "losses: unknown name"),
        (lambda: AdversaryEnv(horizon=0), "horizon"),
        (lambda: JudgeEnv(epsilon=-1.0), "epsilon"),
        (lambda: JudgeEnv(epsilon=701.0), "epsilon"),
        (lambda: JudgeEnv(losses="box"), "losses: unknown name"),
        (lambda: JudgeEnv(losses="one_hot", adjacency="zero_out"), 'losses: expected "zeros"'),
        (lambda: JudgeEnv(adjacency="add"), "adjacency"),
        (lambda: ChairVectorEnv(JudgeEnv), "chair: expected"),
        (lambda: ChairVectorEnv(JudgeEnv(), 0), "num_envs"),
        (lambda: ChairVectorEnv(JudgeEnv(), 2, 0), "max_episode_steps"),
        (lambda: ChairVectorEnv(JudgeEnv(), 2, None, "NextStop"), "did you mean 'NextStep'"),
        (lambda: make_chair("jugde"), "did you mean 'judge'"),
    ],
)
def test_bad_arguments(build, message):
    with pytest.raises(ArgumentError, match=message):
        build()


@pytest.mark.parametrize("chair", CHAIRS)
def test_seeded_then_unseeded(chair):
    """What follows an unseeded reset is a function of the last seed; so is a game that broke off."""
    seen = []
    for rounds in (T, T, 1):
        env = gym.make(IDS[chair], learner="hedge", num_experts=40, horizon=T).unwrapped
        env.action_space.seed(1)
        actions = [env.action_space.sample() for _ in range(T)]
        env.reset(seed=123)
        for action in actions[:rounds]:
            env.step(action)
        env.reset()
        seen.append([env.step(action)[0].tolist() for action in actions])
    assert seen[0] == seen[1] == seen[2]
    env.reset(seed=123)
    first = [env.step(action)[0].tolist() for action in actions]
    env.reset(seed=124)
    assert first != seen[0]
    assert first != [env.step(action)[0].tolist() for action in actions]


@pytest.mark.parametrize("chair", CHAIRS)
def test_calls_out_of_order(chair):
    env = make_chair(chair, horizon=1)
    action = env.action_space.sample()
    assert env.clone(render_mode="ansi").render() is None
    with pytest.raises(ProtocolError, match="reset"):
        env.step(action)
    env.reset(seed=0)
    env.step(action)
    with pytest.raises(ProtocolError, match="all 1 rounds"):
        env.step(action)
    batch = env.clone(num_games=3)
    batch.reset(seed=0)
    with pytest.raises(ProtocolError, match="make_vec"):
        batch.step(action)
    for error in (UnknownNameError, TypeError):
        with pytest.raises(error, match="render_mode: unknown name 'rgb_array'"):
            make_chair(chair, render_mode="rgb_array")


BAD_ACTIONS = {
    "adversary": [99, -1, N, 1.0, [1], "1", None, [[1], [2, 3]]],
    "judge": [[0, 0, 2], [0, -1, 0], [7, 0, 0], [0, 0], 1, [0.0, 0.0, 1.0], [[0, 0, 0]], None, [[0], 1, 1]],
    "box": [[0.0, 0.5, 1.5], [0.0, -0.1, 0.5], [0.0, math.nan, 0.5], [0.0, 0.5], 0.5, [["a"] * 3], None],
}


@pytest.mark.parametrize(("kind", "action"), [(kind, action) for kind, all in BAD_ACTIONS.items() for action in all])
def test_actions_out_of_range(kind, action):
    """Refused, with the round named, and the game goes on as if nothing had been asked."""
    keywords = {"learner": "hedge", "num_experts": N, "horizon": T}
    env, twin = (
        make_chair(
            "judge" if kind == "judge" else "adversary", **keywords, **({"losses": "box"} if kind == "box" else {})
        )
        for _ in range(2)
    )
    good = {"adversary": 2, "judge": [1, 2, 0], "box": [0.0, 0.25, 1.0]}[kind]
    for each in (env, twin):
        each.reset(seed=0)
        each.step(good)
    with pytest.raises(ValueError, match="action of round 2"):
        env.step(action)
    for _ in range(T - 1):
        same(env.step(good), twin.step(good))


@pytest.mark.parametrize("chair", CHAIRS)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_can_be_played(name, chair):
    """Single and in a vector, to the end and into the next game."""
    keywords = {"learner": name, "num_experts": 2, "horizon": 3}
    env = make_chair(chair, **keywords)
    envs = ChairVectorEnv(make_chair(chair, **keywords), 2)
    for each in (env, envs):
        each.action_space.seed(0)
        each.reset(seed=0)
        for _ in range(3):
            observation, _, terminated, truncated, _ = each.step(each.action_space.sample())
            assert observation in each.observation_space
            assert not np.any(truncated)
        assert np.all(terminated)
        each.reset()


def test_the_learner_handed_in_is_never_played():
    learner = dpe.make_learner("hedge")
    before = pickle.dumps(learner)
    for env in (AdversaryEnv(learner, num_experts=N, horizon=2), JudgeEnv(learner, num_experts=N, horizon=2)):
        env.reset(seed=0)
        env.step(env.action_space.sample())
    assert pickle.dumps(learner) == before


@pytest.mark.parametrize("chair", CHAIRS)
def test_numpys_global_state_is_left_alone(chair):
    before = np.random.get_state()  # noqa: NPY002
    env = make_chair(chair, horizon=3)
    env.reset()
    for _ in range(3):
        env.step(env.action_space.sample())
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("chair", CHAIRS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_the_middle_plays_on(chair, copied):
    for env in (
        make_chair(chair, learner="hedge", num_experts=N, horizon=T),
        ChairVectorEnv(make_chair(chair, learner="hedge", num_experts=N, horizon=T), 2),
    ):
        env.action_space.seed(0)
        env.reset(seed=1)
        actions = [env.action_space.sample() for _ in range(T)]
        env.step(actions[0])
        twin = copied(env)
        for action in actions[1:]:
            same(twin.step(action), env.step(action))


def test_import_of_the_package_leaves_the_chairs_alone():
    code = "import sys, dp_experts_env; print([name for name in sys.modules if 'chairs' in name or 'torch' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(vars(multi), "ParallelGame", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'dp-experts-env\[multi\]'"):
        parallel_env()
    with pytest.raises(AttributeError, match="no attribute 'ParallelGames'"):
        multi.ParallelGames  # noqa: B018


# -- the adversary's chair -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("losses", ["one_hot", "box", ("zeros", "corners")])
@pytest.mark.parametrize("learner", ["follow_the_leader", "hedge", "private_dartboard"])
def test_scores_and_view_against_a_second_reckoning(learner, losses):
    """Exact: all losses are multiples of 1/8, so that sums in any order are the same floating-point numbers."""
    env = AdversaryEnv(learner, losses=losses, num_experts=N, horizon=8)
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=3)
    assert not observation.any()
    assert (info["choice"], info["round"], info["regret"]) == (-1, 0, 0.0)
    keys = {key: type(value) for key, value in info.items()}
    total, counts, mine, returned = np.zeros(N), np.zeros(N), 0.0, 0.0
    for t in range(1, 9):
        if losses == "box":
            action = (rng.integers(9, size=N) / 8).astype(np.float32)
            vector = action.astype(np.float64)
        else:
            action = rng.integers(env.action_space.n)
            vector = env.loss_vectors[action]
        observation, reward, terminated, truncated, info = env.step(action)
        assert {key: type(value) for key, value in info.items()} == keys
        choice, best = info["choice"], total.min()
        total, mine, returned = total + vector, mine + vector[choice], returned + reward
        counts[choice] += 1
        assert type(reward) is float
        assert reward == vector[choice] - (total.min() - best)
        assert returned == info["regret"] == mine - total.min()
        assert (info["learner_loss"], info["best_loss"], info["round"]) == (mine, total.min(), t)
        assert info["losses"].tolist() == vector.tolist()
        expected = [np.arange(N) == choice, np.minimum(1, total - total.min()), counts / t, [t / 8]]
        assert observation.tolist() == np.concatenate(expected).astype(np.float32).tolist()
        assert observation in env.observation_space
        assert (terminated, truncated) == (t == 8, False)


@pytest.mark.parametrize("name", ["hedge", "private_hedge", "private_dartboard", "small_loss"])
def test_it_plays_as_the_four_lines_do(name):
    """Choice for choice what the learner does when driven by hand with the same stream."""
    env = AdversaryEnv(name, num_experts=N, horizon=40)
    learner = dpe.make_learner(name)
    learner.reset(dpe.GameSpec(N, 40), seeding.np_random(11)[0].spawn(2)[0])
    env.reset(seed=11)
    for action in np.random.default_rng(0).integers(N, size=40):
        assert env.step(action)[4]["choice"] == learner.act()
        learner.observe(env.loss_vectors[action])


@pytest.mark.parametrize("name", ["follow_the_leader", "hedge", "private_dartboard", "leaky_copy_last"])
def test_the_learner_acts_before_it_is_told(name):
    """Simultaneity: whatever is charged in round t, the choice of round t is the same."""
    past = np.random.default_rng(2).integers(N, size=T)
    for t in range(T):
        choices = set()
        for action in range(N):
            env = AdversaryEnv(name, num_experts=N, horizon=T)
            env.reset(seed=9)
            for earlier in past[:t]:
                env.step(earlier)
            choices.add(env.step(action)[4]["choice"])
        assert len(choices) == 1


@pytest.mark.parametrize("t", range(T))
def test_the_adversarys_view_does_not_show_the_choice_to_come(t):
    """Learners that differ in round t alone (from 0) look alike until its losses are committed."""
    seen = []
    for choice in range(N):
        choices = [0, 1, 2, 0, 1]
        choices[t] = choice
        env = AdversaryEnv(Told(choices), num_experts=N, horizon=T, render_mode="ansi")
        views = [env.reset(seed=0)]
        texts = [env.render()]
        for action in (1, 2, 0, 1, 2):
            step = env.step(action)
            views.append((step[0], {**step[4], "reward": step[1]}))
            texts.append(env.render())
        seen.append([(view.tolist(), str(info), text) for (view, info), text in zip(views, texts, strict=True)])
    for other in seen[1:]:
        assert seen[0][: t + 1] == other[: t + 1]
        assert seen[0][t + 1] != other[t + 1]


def test_an_action_may_be_changed_after_it_was_played():
    class Keeper(dpe.Learner):
        def act(self):
            return np.zeros(self.spec.shape, dtype=int)

        def observe(self, losses):
            self.kept = losses

    for games in ((), (2,)):
        env = AdversaryEnv(Keeper(), losses="box", num_experts=N, horizon=T, num_games=games[0] if games else None)
        env.reset(seed=0)
        action = np.full((*games, N), 0.25)
        env._advance(env._read(action, games, 1, "action"))
        action[...] = 0.75
        assert (env._player.kept == 0.25).all()


@pytest.mark.parametrize(("size", "horizon"), [(4, 100), (10, 1000), (1, 5), (3, 7)])
def test_one_hot_vectors_punish_a_deterministic_learner(size, horizon):
    """Charging the leader of the view forces T - floor(T/N) on follow-the-leader, ties to the lowest index."""
    env = AdversaryEnv("follow_the_leader", num_experts=size, horizon=horizon)
    observation, _ = env.reset(seed=0)
    returned, terminated = 0.0, False
    while not terminated:
        observation, reward, terminated, _, info = env.step(int(observation[size : 2 * size].argmin()))
        returned += reward
    assert returned == info["regret"] == horizon - horizon // size


def test_the_view_serves_shared_losses_and_batches():
    single, batch = AdversaryView(dpe.GameSpec(N, T)), AdversaryView(dpe.GameSpec(N, T, 2))
    for losses, choice in (([0.5, 0.0, 1.0], 1), ([0.0, 0.25, 1.0], 2)):
        single.add(np.array(losses), choice)
        batch.add(np.array(losses), np.array([0, choice]))
    assert single.observation().tolist() == batch.observation()[1].tolist()
    assert batch.observation()[0].tolist() != batch.observation()[1].tolist()
    assert single.observation().tolist() == np.float32([0, 0, 1, 0.25, 0, 1, 0, 0.5, 0.5, 0.4]).tolist()


# -- the judge's chair -----------------------------------------------------------------------------------------------


def play_judge(env, actions, seed=0):
    observation, info = env.reset(seed=seed)
    steps = [(observation, 0.0, False, False, info)]
    steps += [env.step(action) for action in actions]
    return steps


def on_side(env, bit):
    """Fix the bit, by way of the seed: the first in which it is drawn so."""
    for seed in range(60):
        env.reset(seed=seed)
        if int(env._bits) == bit:
            return seed
    raise AssertionError("sixty coins fell alike, probability 2^-59")


@pytest.mark.parametrize("bit", [0, 1])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.5])
def test_rewards_of_a_judge(bit, epsilon):
    env = JudgeEnv(constant(0), losses="corners", epsilon=epsilon, num_experts=2, horizon=3)
    for guess, expected in ((0, 0.0), (1, 1.0 if bit else -math.exp(epsilon))):
        # What is guessed before the last round is not read.
        steps = play_judge(env, [(1, 2, 1), (3, 3, 1), (0, 1, guess)], on_side(env, bit))
        assert [step[1] for step in steps] == [0.0, 0.0, 0.0, expected]
        assert all(type(step[1]) is float for step in steps)
        assert [step[2] for step in steps] == [False, False, False, True]
        assert [step[4]["bit"] for step in steps] == [-1, -1, -1, bit]
        assert [step[4]["challenge"] for step in steps] == [0, 1, 1, 1]
        assert env.reveal() == bit
    env.reset()
    with pytest.raises(ProtocolError, match="hidden until round 3"):
        env.reveal()


ACTIONS = st.lists(st.tuples(*[st.integers(0, 6)] * 2, st.integers(0, 1)), min_size=T, max_size=T)


@given(ACTIONS, st.booleans(), st.lists(st.integers(0, N - 1), min_size=T, max_size=T), st.integers(0, 50))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_any_sequence_of_actions_is_a_legal_game(actions, zero_out, choices, seed):
    """The learner gets side b of a pair that differs at most once, as the adjacency allows; the view against a second
    reckoning."""
    env = JudgeEnv(Told(choices), adjacency="zero_out" if zero_out else "replace", num_experts=N, horizon=T)
    steps = play_judge(env, actions, seed)
    bit = env.reveal()
    vectors = env.loss_vectors
    assert vectors.shape == (7, N)
    sides, challenge = [], 0
    for t, (first, second, _) in enumerate(actions[:-1], 1):
        if first != second and not challenge and (not zero_out or 0 in (first, second)):
            challenge = t
            sides.append((vectors[first], vectors[second]))
        else:
            sides.append((vectors[first], vectors[first]))
    assert np.array_equal(env._player.told, [pair[bit] for pair in sides])
    assert steps[-1][4]["challenge"] == challenge
    total, difference, at_challenge = np.zeros(N), np.zeros(N), np.zeros(N)
    since: list[int] = []
    for t in range(1, T + 1):
        since.append(choices[t - 1])
        if t < T:
            total = total + sides[t - 1][0]
            if t == challenge:
                difference, since = sides[t - 1][1] - sides[t - 1][0], []
                at_challenge = np.arange(N) == choices[t - 1]
        shares = np.bincount(since, minlength=N) / max(1, len(since))
        parts = [np.arange(N) == choices[t - 1], np.minimum(1, total - total.min()), (1 + difference) / 2]
        parts += [at_challenge, shares, [0 < challenge <= t], [t / T]]
        expected = np.concatenate(parts).astype(np.float32).tolist()
        if t == T:
            # The last choice is shown together with the one before: the guess may use it.
            assert steps[T - 1][0].tolist() == steps[T][0].tolist() == expected
        elif t < T - 1:
            assert steps[t][0].tolist() == expected
        assert steps[t][4]["choice"] == choices[min(t if t == T - 1 else t - 1, T - 1)]
    for step in steps:
        assert step[0] in env.observation_space
        assert list(step[4]) == list(steps[0][4])


def test_a_game_of_one_round_is_a_blind_guess():
    env = JudgeEnv(constant(1), num_experts=2, horizon=1)
    observation, info = env.reset(seed=0)
    assert observation.tolist() == np.float32([0, 1, 0, 0, 0.5, 0.5, 0, 0, 0, 1, 0, 1]).tolist()
    assert info == {"choice": 1, "challenge": 0, "bit": -1, "round": 0}
    _, _, terminated, _, info = env.step([0, 1, 1])
    assert terminated
    assert info["challenge"] == 0


def folded(values, join, shorten):
    found: dict = {}
    for key, value in values.items():
        short = shorten(*key)
        found[short] = join(found[short], value) if short in found else value
    return found


def best_return(learner, losses, epsilon, adjacency, size, horizon):
    """The best expected return of all judges: every sequence of sides, outcomes and bits is played in the environment,
    and the judge's choices are maximised backwards. Fails if anything shown before the guess depends on the bit."""
    probe = copy.deepcopy(learner)
    probe.reset(dpe.GameSpec(size, horizon), np.random.default_rng(0))
    half = np.array(list(itertools.product(range(probe.outcomes().shape[-1]), repeat=horizon)))
    outcomes, bits = np.concatenate([half, half]), np.repeat([0, 1], len(half))

    class BitsInTurn(JudgeEnv):
        def _start(self, rng):
            super()._start(rng)
            self._bits = bits

    env = BitsInTurn(Forced(learner, outcomes), None, losses, epsilon, adjacency, size, horizon, len(bits))
    kinds = range(len(env.loss_vectors))
    leaves: dict = {}
    for sides in itertools.product(itertools.product(kinds, kinds), repeat=horizon - 1):
        env.reset(seed=0)
        for pair in (*sides, (0, 0)):
            seen, info = env._view()
            named = np.array(env._player.named).reshape(-1, 2, len(half))
            alike = (named[:, 0] == named[:, 1]).all(0)
            assert np.array_equal(seen[: len(half)][alike], seen[len(half) :][alike])
            for key in ("choice", "challenge", "bit", "round"):
                assert np.array_equal(info[key][: len(half)][alike], info[key][len(half) :][alike])
            rewards = env._advance(np.tile([*pair, 1], (len(bits), 1)))
        worth = 0.5 * np.exp(env._player.logs) * rewards
        for view, value in zip(zip(*np.array(env._player.named).tolist(), strict=True), worth, strict=True):
            leaves[sides, view] = leaves.get((sides, view), 0.0) + value
    # The history is: sides 1, choice 1, ..., sides T - 1, choice T - 1, choice T, guess.
    values = {key: max(0.0, value) for key, value in leaves.items()}
    values = folded(values, lambda a, b: a + b, lambda sides, view: (sides, view[:-1]))
    for _ in range(horizon - 1):
        values = folded(values, lambda a, b: a + b, lambda sides, view: (sides, view[:-1]))
        values = folded(values, max, lambda sides, view: (sides[:-1], view))
    return values[(), ()]


GAMES = [
    ("hedge", {"learning_rate": 0.7}, ("zeros", "one_hot"), "replace", 2, 3, 0.0),
    ("hedge", {"learning_rate": 0.7}, ("zeros", "one_hot"), "replace", 2, 3, 0.25),
    ("hedge", {"learning_rate": 2.0}, ("zeros", "one_hot"), "zero_out", 2, 3, 1.0),
    ("hedge", {"learning_rate": 1.0}, ("one_hot", "all_but_one"), "replace", 3, 2, 0.25),
    ("hedge", {"learning_rate": 1.0}, "corners", "replace", 2, 2, 0.0),
    ("private_hedge", {"epsilon": 0.5}, "one_hot", "replace", 2, 4, 0.1),
    ("shrinking_dartboard", {}, ("zeros", "one_hot"), "replace", 2, 3, 0.25),
    ("private_dartboard", {"epsilon": 5.0, "delta": 0.1}, ("zeros", "one_hot"), "zero_out", 2, 3, 0.0),
    ("follow_the_leader", {}, "one_hot", "replace", 2, 3, 1.0),
    ("uniform", {}, "one_hot", "replace", 2, 3, 0.0),
    ("hedge", {}, "one_hot", "replace", 2, 1, 0.0),
]


@pytest.mark.parametrize(("name", "parameters", "losses", "adjacency", "size", "horizon", "epsilon"), GAMES)
def test_the_best_expected_return_is_half_the_exact_delta(name, parameters, losses, adjacency, size, horizon, epsilon):
    learner = dpe.make_learner(name, **parameters)
    vectors = loss_vectors(losses, size)
    delta = dpe.exact_delta(learner, size, horizon, epsilon, losses=vectors, adjacency=adjacency)
    best = best_return(learner, losses, epsilon, adjacency, size, horizon)
    assert best == pytest.approx(delta / 2, abs=1e-12)
    # A game in which nothing can be learned would show little.
    assert (best > 1e-3) == (name != "uniform" and horizon > 1)


def test_a_learner_that_copies_is_told_from_any_other_with_certainty():
    """Expert 0 loses on side 0, expert 1 on side 1: whoever copies names the other one, and the return is b."""
    env = JudgeEnv("leaky_copy_last", num_experts=2, horizon=2, losses="one_hot", epsilon=700.0)
    drawn = set()
    for seed in range(40):
        env.reset(seed=seed)
        observation, reward, *_ = env.step([0, 1, 0])
        named = int(observation[:2].argmax())
        _, guessed, *_ = env.step([0, 0, 1 - named])
        assert (reward, guessed) == (0.0, float(env.reveal()))
        drawn.add(env.reveal())
    assert drawn == {0, 1}


def test_the_bit_is_fair_and_independent_of_the_learner():
    """40000 games. Each frequency is within 0.0143 of 1/2 but with probability 1e-6 (2 exp(-2 n d^2), Hoeffding: for
    n = 40000 that is 8e-8 and for the agreement with the learner's coin the same)."""
    env = JudgeEnv("uniform", num_experts=2, horizon=1, num_games=40000)
    env.reset(seed=5)
    assert abs(env._bits.mean() - 0.5) < 0.0143
    assert abs((env._bits == env._choices).mean() - 0.5) < 0.0143
    singles = JudgeEnv("uniform", num_experts=2, horizon=1)
    drawn = []
    singles.reset(seed=1)
    for _ in range(2000):
        singles.reset()
        singles.step([0, 0, 0])
        drawn.append(singles.reveal())
    # n = 2000 games of one after another: 2 exp(-2 n d^2) < 1e-6 for d = 0.0603.
    assert abs(np.mean(drawn) - 0.5) < 0.0603
    agree = np.mean(np.array(drawn[1:]) == np.array(drawn[:-1]))
    assert abs(agree - 0.5) < 0.0603


def test_nothing_printed_tells_the_bit():
    """Repeated until both bits were drawn; the learner names the same expert in both."""
    seen = {}
    for bit in (0, 1):
        env = JudgeEnv(constant(1), num_experts=2, horizon=3, render_mode="ansi")
        env.reset(seed=on_side(env, bit))
        texts = [repr(env), env.render()]
        for action in ([0, 1, 0], [1, 1, 0]):
            step = env.step(action)
            texts += [repr(env), env.render(), str(step)]
        seen[bit] = texts
    assert seen[0] == seen[1]
    assert seen[0][-2] == "round 2/3  challenge in round 1  last choice 1"
    assert seen[0][1] == "round 0/3  no challenge yet  last choice -1"


def test_the_judges_view_serves_shared_sides_and_ignores_the_last_round():
    single, batch = JudgeView(dpe.GameSpec(2, 3)), JudgeView(dpe.GameSpec(2, 3, 2))
    for sides, choice in (([[0, 1], [0, 1]], 1), ([[1, 0], [0, 0]], 0), ([[1, 1], [0, 0]], 1)):
        single.add(np.array(sides, dtype=float), choice)
        batch.add(np.array(sides, dtype=float), np.array([0, choice]))
    assert single.observation().tolist() == batch.observation()[1].tolist()
    assert single.challenge == 2
    expected = [0, 1, 0, 0, 0, 0.5, 1, 0, 0, 1, 1, 1]
    assert single.observation().tolist() == expected


# -- the native vector environment -----------------------------------------------------------------------------------

SEATS = {
    "adversary": AdversaryEnv("hedge", {"learning_rate": 0.5}, num_experts=N, horizon=T),
    "box": AdversaryEnv("private_dartboard", losses="box", num_experts=N, horizon=T),
    "one_game_only": AdversaryEnv(OneGameOnly(), num_experts=N, horizon=T),
    "judge": JudgeEnv("hedge", {"learning_rate": 0.5}, num_experts=N, horizon=T),
    "judge_one_game_only": JudgeEnv(OneGameOnly(), adjacency="zero_out", num_experts=N, horizon=T),
    "judge_of_one_round": JudgeEnv("hedge", num_experts=N, horizon=1),
}
MODES = list(AutoresetMode)


def single(chair, limit):
    env = chair.clone(num_games=None)
    return env if limit is None else TimeLimit(env, limit)


def vectors_of(chair, games, mode, limit=None):
    native = ChairVectorEnv(chair, games, limit, mode)
    return native, SyncVectorEnv([lambda: single(chair, limit)] * games, autoreset_mode=mode)


def same(native, reference, where=""):
    """Equal in structure, type and every bit, dictionaries and object arrays inside too."""
    if isinstance(reference, dict):
        assert isinstance(native, dict), where
        assert set(native) == set(reference), where
        for key in reference:
            same(native[key], reference[key], f"{where}.{key}")
        return
    assert type(native) is type(reference), where
    if isinstance(reference, tuple):
        for index, (a, b) in enumerate(zip(native, reference, strict=True)):
            same(a, b, f"{where}[{index}]")
    elif isinstance(reference, np.ndarray):
        assert (native.dtype, native.shape) == (reference.dtype, reference.shape), where
        if reference.dtype == object:
            for index, (a, b) in enumerate(zip(native, reference, strict=True)):
                same(a, b, f"{where}[{index}]")
        else:
            assert np.array_equal(native, reference), f"{where}: {native} {reference}"
    else:
        assert native == reference, where


def reset_both(native, reference, seed=None, mask=None):
    # SyncVectorEnv takes the mask out of the dictionary that it is given.
    options = [None if mask is None else {"reset_mask": np.array(mask)} for _ in range(2)]
    same(native.reset(seed=seed, options=options[0]), reference.reset(seed=seed, options=options[1]), "reset")


def step_both(native, reference, count):
    for number in range(count):
        actions = reference.action_space.sample()
        same(native.step(actions), reference.step(actions), f"step {number}")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "limit"),
    [*((name, None) for name in SEATS), ("adversary", 3), ("adversary", T), ("judge", 3), ("judge", T)],
)
def test_equals_single_environments_under_a_list_of_seeds(name, mode, limit):
    native, reference = vectors_of(SEATS[name], 3, mode, limit)
    reference.action_space.seed(1)
    length = min(SEATS[name].horizon, limit or T)
    reset_both(native, reference, seed=[7, 8, 9])
    if mode is AutoresetMode.DISABLED:
        for _ in range(2):
            step_both(native, reference, length)
            reset_both(native, reference)
    else:
        step_both(native, reference, 3 * length + 2)
    # Unseeded and partly seeded resets, in the middle of games, go on as single environments do.
    reset_both(native, reference)
    step_both(native, reference, min(2, length))
    reset_both(native, reference, seed=[None, 11, None])
    step_both(native, reference, min(2, length))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in SEATS if SEATS[name].horizon == T])
def test_equals_single_environments_under_partial_resets(name, mode):
    native, reference = vectors_of(SEATS[name], 4, mode)
    reference.action_space.seed(2)
    reset_both(native, reference, seed=[1, 2, 3, 4])
    step_both(native, reference, 2)
    reset_both(native, reference, mask=[False, True, False, False])
    step_both(native, reference, 1)
    reset_both(native, reference, seed=[5, 6, 7, 8], mask=[True, False, False, True])
    step_both(native, reference, 2)
    # Games 0, 3 have played 2 rounds, game 1 three; game 2 has ended.
    if mode is AutoresetMode.DISABLED:
        reset_both(native, reference, mask=[False, False, True, False])
    step_both(native, reference, 2)
    if mode is AutoresetMode.DISABLED:
        reset_both(native, reference, seed=[None, None, 3, 3], mask=[False, True, False, False])
        step_both(native, reference, 1)
    else:
        step_both(native, reference, 3 * T)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SEATS)
def test_one_game_equals_the_single_environment_under_one_seed(name, mode):
    native, reference = vectors_of(SEATS[name], 1, mode)
    reference.action_space.seed(3)
    for seed in (42, None, [5], None):
        reset_both(native, reference, seed=seed)
        step_both(native, reference, SEATS[name].horizon)
    if mode is not AutoresetMode.DISABLED:
        step_both(native, reference, 2 * T)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", SEATS)
def test_one_seed_for_a_batch_plays_the_batched_chair(name, mode):
    """Three games one after another equal those of the batch driven by hand: a reset step in between draws nothing,
    and its action is ignored, whatever it is."""
    chair, games = SEATS[name], 3
    horizon = chair.horizon
    native = ChairVectorEnv(chair, games, autoreset_mode=mode)
    native.action_space.seed(4)
    by_hand = chair.clone(num_games=games)
    by_hand.np_random = seeding.np_random(13)[0]
    native.reset(seed=13)
    for episode in range(3):
        by_hand.reset()
        for t in range(horizon):
            actions = native.action_space.sample()
            if mode is AutoresetMode.NEXT_STEP and episode and t == 0:
                ignored = np.full_like(actions, 99)
                seen, rewards, terminated, truncated, info = native.step(ignored)
                assert np.array_equal(seen, by_hand._view()[0])
                assert not any(array.any() for array in (rewards, terminated, truncated, info["round"]))
            rewards = by_hand._advance(by_hand._read(actions, (games,), t + 1, "actions"))
            seen, info = by_hand._view()
            step = native.step(actions)
            last = t == horizon - 1
            shown = step[4]["final_info"] if last and mode is AutoresetMode.SAME_STEP else step[4]
            observed = np.stack(step[4]["final_obs"]) if last and mode is AutoresetMode.SAME_STEP else step[0]
            assert np.array_equal(observed, seen)
            assert np.array_equal(step[1], rewards)
            assert (step[2] == last).all()
            for key, values in info.items():
                assert np.array_equal(shown[key], values)


@pytest.mark.parametrize("chair", CHAIRS)
def test_games_reset_from_one_batch_leave_those_that_stay_alone(chair):
    """Games 0 and 2 of a batch go on with their own actions, as if games 1 and 3 had not begun anew."""
    envs, reference = (
        ChairVectorEnv(make_chair(chair, learner="hedge", num_experts=N, horizon=9), 4) for _ in range(2)
    )
    envs.action_space.seed(1)
    for env in (envs, reference):
        env.reset(seed=3)
        env.step(np.ones(env.action_space.shape, dtype=int))
    before = reference._last
    observations, infos = envs.reset(options={"reset_mask": np.array([False, True, False, True])})
    assert np.array_equal(observations[[0, 2]], before[[0, 2]])
    assert infos["_round"].tolist() == [False, True, False, True]
    for t in range(2, 10):
        actions = envs.action_space.sample()
        mine, other = envs.step(actions), reference.step(actions)
        for one, two in zip(mine[:4], other[:4], strict=True):
            assert np.array_equal(one[[0, 2]], two[[0, 2]])
        for key in other[4]:
            assert np.array_equal(mine[4][key][[0, 2]], other[4][key][[0, 2]])
        assert mine[4]["round"].tolist() == [t, t - 1, t, t - 1]


def test_games_reset_from_one_batch_are_independent_of_it():
    envs, reference = (ChairVectorEnv(AdversaryEnv("uniform", num_experts=1000, horizon=20), 4) for _ in range(2))
    actions = np.zeros(4, dtype=int)
    for env in (envs, reference):
        env.reset(seed=3)
    envs.reset(options={"reset_mask": np.array([False, True, False, True])})
    mine, other = (np.array([env.step(actions)[4]["choice"] for _ in range(3)]) for env in (envs, reference))
    assert np.array_equal(mine[:, [0, 2]], other[:, [0, 2]])
    # Three uniform choices of a thousand agree with three others with probability 1e-9.
    for one, two in ((mine[:, 1], other[:, 1]), (mine[:, 3], other[:, 3]), (mine[:, 1], mine[:, 3])):
        assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("adversary", [0, N]),
        ("adversary", [0]),
        ("adversary", [0.0, 1.0]),
        ("adversary", [[0], [0, 1]]),
        ("judge", [[0, 0, 0], [0, 0, 2]]),
        ("judge", [0, 0]),
        ("box", [[0.0] * N, [2.0] * N]),
        ("box", [0.0] * N),
    ],
)
def test_bad_actions_change_nothing(name, bad):
    envs, twin = (ChairVectorEnv(SEATS[name], 2) for _ in range(2))
    for env in (envs, twin):
        env.reset(seed=1)
    with pytest.raises(ValueError, match="actions of round 1"):
        envs.step(bad)
    good = np.zeros(envs.action_space.shape, dtype=envs.action_space.dtype)
    same(envs.step(good), twin.step(good))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"seed": [1, 2]}, "expected 3 seeds"),
        ({"seed": [1, -2, 3]}, "seed of game 1"),
        ({"seed": "abc"}, "seed: expected"),
        ({"seed": 0.5}, "seed: expected"),
        ({"options": [3]}, "options: expected"),
        ({"options": {"reset_mask": [True, True, True]}}, "boolean array"),
        ({"options": {"reset_mask": np.array([True, True])}}, "boolean array"),
        ({"options": {"reset_mask": np.zeros(3, dtype=bool)}}, "at least one True"),
    ],
)
def test_bad_resets_change_nothing(keywords, message):
    envs, twin = (ChairVectorEnv(SEATS["judge"], 3) for _ in range(2))
    for env in (envs, twin):
        env.reset(seed=1)
    with pytest.raises(ArgumentError, match=message):
        envs.reset(**keywords)
    actions = np.ones((3, 3), dtype=int)
    same(envs.step(actions), twin.step(actions))


def test_calls_of_a_vector_out_of_order():
    envs = ChairVectorEnv(SEATS["judge_of_one_round"], 2, autoreset_mode="Disabled")
    actions = np.zeros((2, 3), dtype=int)
    with pytest.raises(ProtocolError, match="reset"):
        envs.step(actions)
    with pytest.raises(ProtocolError, match="reset of all games first"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    envs.step(actions)
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ProtocolError, match=r"game\(s\) \[1\] have ended"):
        envs.step(actions)


@pytest.mark.parametrize("name", SEATS)
def test_returned_arrays_are_fresh(name):
    envs = ChairVectorEnv(SEATS[name], 2, autoreset_mode="SameStep")
    envs.action_space.seed(0)
    kept = [envs.reset(seed=0)] + [envs.step(envs.action_space.sample()) for _ in range(2 * T)]
    before = copy.deepcopy(kept)
    envs.step(envs.action_space.sample())
    same(tuple(kept), tuple(before))
    for view, *_, info in kept:
        view += 5
        for key in info:
            if not key.startswith(("_", "final")):
                info[key] += 5
    assert envs.step(envs.action_space.sample())[0].max() <= 1


def test_rendering_a_vector():
    envs = ChairVectorEnv(AdversaryEnv(constant(1), num_experts=N, horizon=T, render_mode="ansi"), 2)
    assert envs.render() is None
    envs.reset(seed=[1, 2])
    envs.step(np.array([0, 1]))
    assert envs.render() == tuple(f"round 1/5  learner {loss}  best 0  regret {loss}" for loss in (0, 1))
    assert ChairVectorEnv(SEATS["judge"], 2).render() is None


@pytest.mark.parametrize("chair", CHAIRS)
def test_make_vec_gives_the_native_environment_and_equals_make(chair):
    """Through the public door, with an outer time limit: native against ``vectorization_mode="sync"``."""
    keywords = {"num_envs": 3, "num_experts": N, "horizon": T, "max_episode_steps": 4, "learner": "hedge"}
    native = gym.make_vec(IDS[chair], **keywords)
    reference = gym.make_vec(IDS[chair], vectorization_mode="sync", **keywords)
    assert type(native.unwrapped) is ChairVectorEnv
    reference.action_space.seed(0)
    reset_both(native, reference, seed=[7, 8, 9])
    step_both(native, reference, 10)
    native.close()


# -- the learner's chair with another view ---------------------------------------------------------------------------


def test_lead_against_a_second_reckoning():
    env = Lead(gym.make("dp_experts/Bernoulli-v0", num_experts=N, horizon=9))
    assert env.observation_space == gym.spaces.Box(0.0, 1.0, (N + 1,), np.float32)
    for seed in (1, None):
        observation, _ = env.reset(seed=seed)
        assert not observation.any()
        total = np.zeros(N)
        for t in range(1, 10):
            observation, _, _, _, info = env.step(0)
            total += info["losses"]
            expected = [*np.minimum(1, total - total.min()), t / 9]
            assert observation.tolist() == np.float32(expected).tolist()
            assert observation in env.observation_space
    rebuilt = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(rebuilt, Lead)


def test_lead_in_a_privacy_game():
    env = Lead(dpe.PrivacyGame(dpe.make_pair("first_round", num_experts=4, horizon=3)))
    env.reset(seed=0)
    observation = env.step(0)[0]
    bit = env.unwrapped._bit
    assert observation.tolist() == np.float32([bit == 0, bit == 0, bit == 1, bit == 1, 1 / 3]).tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [None, 3])
def test_the_vector_of_leads_equals_leads(mode, limit):
    def one():
        env = dpe.make_adversary("bernoulli", num_experts=N, horizon=T)
        return Lead(env if limit is None else TimeLimit(env, limit))

    native = VectorLead(
        dpe.AdversaryVectorEnv(dpe.make_adversary("bernoulli", num_experts=N, horizon=T), 3, limit, mode)
    )
    of_sync = VectorLead(SyncVectorEnv([lambda: one().env] * 3, autoreset_mode=mode))
    reference = SyncVectorEnv([one] * 3, autoreset_mode=mode)
    reference.action_space.seed(0)
    for each in (native, of_sync):
        assert each.single_observation_space == reference.single_observation_space

    def both(call):
        expected = call(reference)
        for each in (native, of_sync):
            same(call(each), expected)

    length = limit or T
    both(lambda envs: envs.reset(seed=[7, 8, 9]))
    for _ in range(length if mode is AutoresetMode.DISABLED else 3 * length + 2):
        actions = reference.action_space.sample()
        both(lambda envs, actions=actions: envs.step(actions))
    both(lambda envs: envs.reset())
    for mask in ([True, False, True], [False, True, False]):
        for _ in range(2 if mask[0] else 1):
            actions = reference.action_space.sample()
            both(lambda envs, actions=actions: envs.step(actions))
        if mode is AutoresetMode.DISABLED or limit is None:
            both(lambda envs, mask=mask: envs.reset(options={"reset_mask": np.array(mask)}))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Lead(AdversaryEnv()),
        lambda: Lead(JudgeEnv()),
        lambda: Lead(gym.make("CartPole-v1")),
        lambda: VectorLead(ChairVectorEnv(AdversaryEnv(), 2)),
    ],
)
def test_lead_wants_a_learners_chair(build):
    with pytest.raises(ArgumentError, match="expected a learner's chair"):
        build()


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_what_is_no_environment_no_view_and_no_set_is_refused():
    for bad in (None, 5, "dp_experts/Bernoulli-v0"):
        with pytest.raises(ArgumentError, match="env: expected"):
            Lead(bad)
        with pytest.raises(ArgumentError, match="env: expected"):
            VectorLead(bad)
        for view in (AdversaryView, JudgeView):
            with pytest.raises(ArgumentError, match="spec: expected a GameSpec"):
                view(bad)
            with pytest.raises(ArgumentError, match="num_experts"):
                view.space(bad if bad != 5 else -1)
    for chair in (AdversaryEnv, JudgeEnv):
        with pytest.raises(ArgumentError, match="losses: expected the name"):
            chair(losses=np.array(None))
        with pytest.raises(ArgumentError, match="render_mode"):
            chair(render_mode=np.zeros(2))
    with pytest.raises(ArgumentError, match="seed: expected"):
        ChairVectorEnv(AdversaryEnv(), 2).reset(seed=np.array(None))


def test_sides_of_actions_that_are_none_are_refused():
    chair = JudgeEnv(num_experts=2, horizon=3)
    chair.reset(seed=0)
    for bad in (None, "x", 5, [0, 1], [0, 99, 0], [[0], [0, 1]], [0.0, 1.0, 0.0]):
        with pytest.raises(ArgumentError, match="actions of round 1"):
            chair.sides(bad, 0)


def test_a_learner_that_names_nonsense_ends_no_round():
    """The round is named and does not count, and the game goes on when the learner does."""
    named = iter([0, 9, 0])

    class Odd(dpe.Learner):
        def act(self):
            return next(named)

        def observe(self, losses):
            pass

    chair = AdversaryEnv(learner=Odd(), num_experts=2, horizon=3)
    chair.reset(seed=0)
    chair.step(0)
    with pytest.raises(dpe.GameError, match=r"round 2: expected an expert in 0\.\.1 but found 9"):
        chair.step(0)
    assert chair.round == 1
    assert chair.step(0)[4]["round"] == 2
