"""Trained policies in the three chairs: they see what the environments show, and play by our randomness alone."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import random
import subprocess
import sys
import types
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.env_checker import check_env as check_sb3
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

import dp_experts_env as dpe
from dp_experts_env import rl
from dp_experts_env.chairs import AdversaryEnv, ChairVectorEnv, JudgeEnv, Lead
from dp_experts_env.rl.games import training_games
from dp_experts_env.testing import check_adversary, check_learner

SMALL = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 3}
PAIR = ("zeros", "one_hot")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def global_state_untouched() -> Any:
    """Whatever these tests do with Stable-Baselines3 themselves is theirs to put back."""
    held = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    yield
    random.setstate(held[0])
    np.random.set_state(held[1])  # noqa: NPY002
    torch.set_rng_state(held[2])


def learner_model(algorithm: Any = PPO, lead: bool = False, frames: int = 1, **keywords: Any) -> Any:
    def build() -> Any:
        env = gym.make("dp_experts/Bernoulli-v0", num_experts=3, horizon=6)
        return Lead(env) if lead else env

    envs: Any = DummyVecEnv([build])
    if frames > 1:
        envs = VecFrameStack(envs, frames)
    policy = "MlpLstmPolicy" if "Recurrent" in algorithm.__name__ else "MlpPolicy"
    return algorithm(policy, envs, **copy.deepcopy({**SMALL, **keywords}))


def chair_model(chair: Any, algorithm: Any = PPO, frames: int = 1, **keywords: Any) -> Any:
    envs: Any = DummyVecEnv([lambda: chair.clone()])
    if frames > 1:
        envs = VecFrameStack(envs, frames)
    policy = "MlpLstmPolicy" if "Recurrent" in algorithm.__name__ else "MlpPolicy"
    return algorithm(policy, envs, **copy.deepcopy({**SMALL, **keywords}))


def sharpened(model: Any) -> Any:
    """An untrained network hardly looks at what it is shown; this one does."""
    with torch.no_grad():
        for weights in model.policy.parameters():
            weights.mul_(3.0)
        model.policy.action_net.weight.mul_(100.0)
    return model


def states() -> tuple[Any, ...]:
    numpy = np.random.get_state()  # noqa: NPY002
    return (
        random.getstate(),
        numpy[1].tobytes(),
        numpy[2],
        torch.get_rng_state().numpy().tobytes(),
        torch.get_num_threads(),
    )


# -- what a policy is shown, and what it does --------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [False, True])
@pytest.mark.parametrize("frames", [1, 3])
def test_a_learner_does_in_play_what_the_model_does_in_the_environment(lead: bool, frames: int) -> None:
    """Likeliest actions against an adaptive adversary, whose losses would diverge with the first other choice."""
    model = sharpened(learner_model(lead=lead, frames=frames))
    foe = dpe.make_adversary("punish_likely", window=3, num_experts=3, horizon=6)
    envs: Any = DummyVecEnv([lambda: Lead(foe.clone()) if lead else foe.clone()])
    envs = VecFrameStack(envs, frames) if frames > 1 else envs
    seen, choices = envs.reset(), []
    for _ in range(6):
        action, _ = model.predict(seen, deterministic=True)
        choices.append(int(action[0]))
        seen, *_ = envs.step(action)
    match = dpe.play(rl.PolicyLearner(model, lead, deterministic=True), foe, num_games=2, record="choices", seed=0)
    assert match.choices is not None
    assert match.choices.tolist() == [choices] * 2
    assert len(set(choices)) > 1


@pytest.mark.parametrize("losses", ["one_hot", "corners", "box"])
def test_an_adversary_does_in_play_what_the_model_does_in_the_environment(losses: str) -> None:
    chair = AdversaryEnv("follow_the_leader", losses=losses, num_experts=3, horizon=8)
    model = sharpened(chair_model(chair))
    seen, _ = chair.reset(seed=0)
    emitted = []
    for _ in range(8):
        action, _ = model.predict(seen, deterministic=True)
        seen, _, _, _, info = chair.step(action)
        emitted.append(info["losses"])
    foe = rl.PolicyAdversary(model, losses, deterministic=True, num_experts=3, horizon=8, num_games=2)
    foe.reset(seed=0)
    learner = dpe.make_learner("follow_the_leader")
    learner.reset(foe.game, np.random.default_rng(0))
    for row in emitted:
        found = foe.emit()
        choices = learner.act()
        learner.observe(found)
        foe.see(choices)
        np.testing.assert_allclose(found, [row, row], atol=1e-6)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_a_judge_commits_in_an_audit_what_the_model_commits_in_the_environment(adjacency: str) -> None:
    chair = JudgeEnv("follow_the_leader", losses=PAIR, adjacency=adjacency, num_experts=3, horizon=6)
    for number in range(6):
        model = sharpened(chair_model(chair, seed=number))
        seen, _ = chair.reset(seed=number)
        judge = rl.PolicyJudge(model, PAIR, True, num_experts=3, horizon=6, adjacency=adjacency)
        judge.reset(seed=0)
        for _ in range(5):
            action, _ = model.predict(seen, deterministic=True)
            expected = chair.sides(action, chair._seen.challenge)
            seen, _, _, _, info = chair.step(action)
            assert np.array_equal(judge.emit(), expected)
            judge.see(info["choice"] if chair.round == 5 else _last_choice(chair))
            assert np.array_equal(judge._view_of.challenge, info["challenge"])
        assert not judge.emit().any()


def _last_choice(chair: JudgeEnv) -> int:
    return int(chair._shown_choices)


def test_every_choice_but_the_last_reaches_the_judge_in_the_same_round() -> None:
    """The environment's choice of round t is shown before the action of round t + 1, as ``see`` tells the pair."""
    chair = JudgeEnv("uniform", losses=PAIR, num_experts=3, horizon=6)
    judge = rl.PolicyJudge(chair_model(chair), PAIR, num_experts=3, horizon=6)
    chair.reset(seed=0)
    judge.reset(seed=0)
    for _ in range(4):
        sides = judge.emit()
        first, second = (int(np.flatnonzero((chair.loss_vectors == side).all(-1))[0]) for side in sides)
        observation, *_ = chair.step(np.array([first, second, 0]))
        judge.see(_last_choice(chair))
        assert np.array_equal(judge._view_of.observation(), observation)


def test_a_learner_samples_from_the_models_law() -> None:
    """20000 independent games; each count of an expert deviates by less than 5.2 standard deviations with probability
    1 - 2e-7, by Bonferroni over three experts and two rounds 1.2e-6 in all for the normal law."""
    model = sharpened(learner_model())
    learner = rl.PolicyLearner(model)
    learner.reset(dpe.GameSpec(3, 6, 20_000), np.random.default_rng(5))
    for losses in ([1.0, 0.0, 0.5], [0.0, 0.0, 1.0]):
        law = learner.probabilities()
        assert np.ptp(law, axis=0).max() < 1e-6
        row = np.array([*learner._shown, learner.round / 6], dtype=np.float32)
        direct = model.policy.get_distribution(torch.as_tensor(row[None])).distribution.probs.detach().numpy()[0]
        np.testing.assert_allclose(law[0], direct, atol=1e-5)
        counts = np.bincount(learner.act(), minlength=3)
        assert (np.abs(counts - 20_000 * law[0]) <= 5.2 * np.sqrt(20_000 * law[0] * (1 - law[0])) + 1).all()
        learner.observe(np.array(losses))


def test_the_law_is_exact_for_enumeration() -> None:
    """The exact epsilon, which plays all transcripts by ``outcomes`` and ``take``, against the law by hand: the policy
    is memoryless, so one round's losses matter in the next round only, and choices are independent."""
    model = sharpened(learner_model())
    envs = DummyVecEnv([lambda: gym.make("dp_experts/Bernoulli-v0", num_experts=2, horizon=3)])
    model = sharpened(PPO("MlpPolicy", envs, **SMALL))
    exact = dpe.exact_privacy(rl.PolicyLearner(model), num_experts=2, horizon=3)
    policy = rl.Policy(model)
    worst = 0.0
    for t in (1, 2):
        rows = np.array([[a, b, t / 3] for a in (0, 1) for b in (0, 1)], dtype=np.float32)
        memory = policy.begin(4, gym.spaces.Box(0, 1, (3,), np.float32), gym.spaces.Discrete(2))
        law = np.log(policy.law(memory, rows).probabilities[0])
        worst = max(worst, float(np.ptp(law, axis=0).max()))
    assert worst > 0.01
    assert exact == pytest.approx(worst, rel=1e-5)


def test_dqn_explores_in_every_game_by_itself() -> None:
    """20000 games; 5.2 standard deviations as above, for one count."""
    model = learner_model(DQN, buffer_size=10)
    model.exploration_rate = 0.3
    learner = rl.PolicyLearner(model)
    learner.reset(dpe.GameSpec(3, 6, 20_000), np.random.default_rng(5))
    best = int(model.predict(np.zeros(4, dtype=np.float32), deterministic=True)[0])
    law = learner.probabilities()[0]
    assert law[best] == pytest.approx(0.8)
    assert np.delete(law, best) == pytest.approx([0.1, 0.1])
    count = np.count_nonzero(learner.act() == best)
    assert abs(count - 16_000) <= 5.2 * np.sqrt(20_000 * 0.16)
    learner = rl.PolicyLearner(model, deterministic=True)
    learner.reset(dpe.GameSpec(3, 6, 50), np.random.default_rng(5))
    assert learner.act().tolist() == [best] * 50


def test_recurrent_policies_remember_the_game() -> None:
    """Round by round the law is that of the model with its own state carried along, whoever asks for it how often."""
    contrib = pytest.importorskip("sb3_contrib")
    model = sharpened(learner_model(contrib.RecurrentPPO, policy_kwargs={"lstm_hidden_size": 8, "net_arch": []}))
    learner = rl.PolicyLearner(model)
    learner.reset(dpe.GameSpec(3, 6), np.random.default_rng(0))
    shape = model.policy.lstm_hidden_state_shape
    state = tuple(torch.zeros(shape[0], 1, shape[2]) for _ in range(2))
    losses, laws = np.zeros(3), []
    for t in range(6):
        row = torch.as_tensor(np.array([[*losses, t / 6]], dtype=np.float32))
        with torch.no_grad():
            law, state = model.policy.get_distribution(row, state, torch.full((1,), float(t == 0)))
        for _ in range(2):
            np.testing.assert_allclose(learner.probabilities(), law.distribution.probs[0], atol=1e-5)
        laws.append(learner.probabilities())
        learner.act()
        losses = np.eye(3)[t % 2]
        learner.observe(losses)
    # The last losses of rounds 4 and 6 are alike; what came before is not.
    assert np.abs(laws[3] - laws[5]).max() > 1e-4
    judge = JudgeEnv("uniform", losses=PAIR, num_experts=3, horizon=6)
    small = {"policy_kwargs": {"lstm_hidden_size": 8, "net_arch": []}}
    pair = rl.PolicyJudge(chair_model(judge, contrib.RecurrentPPO, **small), PAIR, num_experts=3, horizon=6)
    assert dpe.audit(dpe.make_learner("uniform"), pair, 100, seed=0).epsilon_lower == 0.0


def test_statistics_of_normalised_observations_are_kept() -> None:
    for stacked in (True, False):
        inner: Any = DummyVecEnv([lambda: gym.make("dp_experts/Bernoulli-v0", num_experts=3, horizon=6)])
        envs: Any = VecNormalize(VecFrameStack(inner, 2)) if stacked else VecFrameStack(VecNormalize(inner), 2)
        model = sharpened(PPO("MlpPolicy", envs, n_steps=32, batch_size=32, **SMALL))
        envs.seed(0)
        envs.reset()
        for _ in range(50):
            envs.step(np.array([1]))
        envs.training = False
        if not stacked:
            envs.venv.training = False
        foe = dpe.make_adversary("alternating", num_experts=3, horizon=6)
        learner = rl.PolicyLearner(model)
        learner.reset(dpe.GameSpec(3, 6), np.random.default_rng(0))
        foe.reset(seed=0)
        frames = [np.zeros(4, dtype=np.float32)] * 2
        losses = np.zeros(3)
        normal = model.get_vec_normalize_env()
        for t in range(6):
            row = np.array([*losses, t / 6], dtype=np.float32)
            frames = [frames[1], row if stacked else normal.normalize_obs(row)]
            seen = np.concatenate(frames)
            seen = normal.normalize_obs(seen) if stacked else seen
            direct = model.policy.get_distribution(torch.as_tensor(seen[None].astype(np.float32))).distribution.probs
            np.testing.assert_allclose(learner.probabilities(), direct.detach().numpy()[0], atol=1e-5)
            learner.act()
            losses = foe.emit()
            learner.observe(losses)


# -- players are learners, adversaries and pairs like others -----------------------------------------------------------


def test_a_policy_learner_keeps_the_rules() -> None:
    envs = DummyVecEnv([lambda: gym.make("dp_experts/Bernoulli-v0", num_experts=4, horizon=20)])
    model = sharpened(PPO("MlpPolicy", envs, **SMALL))
    spec = dpe.GameSpec(4, 20)
    for certain in (False, True):
        learner = rl.PolicyLearner(model, deterministic=certain)
        assert learner.guarantee(spec) is None
        assert np.isnan(learner.regret_bound(spec, 0.0))
        assert learner.deterministic == certain
    foe = dpe.make_adversary("foreseer", learner=rl.PolicyLearner(model, deterministic=True), num_experts=4, horizon=20)
    assert dpe.play(rl.PolicyLearner(model, deterministic=True), foe, seed=0).learner_loss.tolist() == [20]
    with pytest.raises(dpe.ArgumentError, match="deterministic"):
        dpe.make_adversary("foreseer", learner=rl.PolicyLearner(model))


def test_a_batch_of_one_is_the_single_game_and_a_seed_repeats_it() -> None:
    model = sharpened(learner_model())
    foe = dpe.make_adversary("punish_last", num_experts=3, horizon=6)
    chair = AdversaryEnv("hedge", num_experts=3, horizon=6)
    adversary = rl.PolicyAdversary(sharpened(chair_model(chair)), num_experts=3, horizon=6)
    for learner, opponent in ((rl.PolicyLearner(model), foe), (dpe.make_learner("hedge"), adversary)):
        batch = dpe.play(learner, opponent, num_games=1, seed=4, record="choices")
        single = dpe.play(learner, opponent, num_games=None, seed=4, record="choices")
        assert batch.choices is not None
        assert single.choices is not None
        assert np.array_equal(np.ravel(batch.choices), np.ravel(single.choices))
        np.random.seed(99)  # noqa: NPY002
        torch.manual_seed(98)
        again = dpe.play(learner, opponent, num_games=64, seed=7, record="choices")
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(2)
        other = dpe.play(copy.deepcopy(learner), opponent.clone(), num_games=64, seed=7, record="choices")
        assert np.array_equal(again.choices, other.choices)
        third = dpe.play(learner, opponent, num_games=64, seed=8, record="choices")
        assert not np.array_equal(again.choices, third.choices)


def test_players_pickle_print_and_do_not_learn_on() -> None:
    model = sharpened(learner_model())
    learner = rl.PolicyLearner(model)
    foe = dpe.make_adversary("punish_last", num_experts=3, horizon=6)
    expected = dpe.play(learner, foe, num_games=50, seed=0)
    with torch.no_grad():
        model.policy.action_net.bias.add_(torch.tensor([50.0, 0.0, 0.0]))
    for same in (learner, pickle.loads(pickle.dumps(learner)), learner.clone(), copy.deepcopy(learner)):
        assert np.array_equal(dpe.play(same, foe, num_games=50, seed=0).regret, expected.regret)
        assert repr(same) == repr(learner)
    assert " at 0x" not in repr(learner)
    other = rl.PolicyLearner(model)
    assert repr(other) != repr(learner)
    assert not np.array_equal(dpe.play(other, foe, num_games=50, seed=0).regret, expected.regret)
    adversary = rl.PolicyAdversary(
        chair_model(AdversaryEnv("hedge", num_experts=3, horizon=6)), num_experts=3, horizon=6
    )
    assert repr(pickle.loads(pickle.dumps(adversary))) == repr(adversary)
    assert adversary.kind == "adaptive"


def test_adversaries_and_judges_pass_the_checkers_and_the_audit() -> None:
    chair = AdversaryEnv("hedge", num_experts=3, horizon=6)
    model = sharpened(chair_model(chair))
    check_sb3(rl.PolicyAdversary(model, num_experts=3, horizon=6))
    judge = rl.PolicyJudge(
        sharpened(chair_model(JudgeEnv("hedge", num_experts=3, horizon=6))), num_experts=3, horizon=6
    )
    env = dpe.PrivacyGame(judge)
    env.reset(seed=0)
    for _ in range(6):
        env.step(0)
    assert env.reveal() in (0, 1)
    learner = dpe.make_learner("private_hedge", epsilon=2.0)
    found = dpe.audit(learner, judge, 400, seed=0, workers=1)
    assert found.kind == "adaptive"
    assert not found.violated
    assert found.replay().hits == found.hits


@functools.lru_cache
def network(num_experts: int) -> Any:
    with rl.extra.states_as_found("test"):
        env = gym.make("dp_experts/Bernoulli-v0", num_experts=num_experts, horizon=6)
        return rl.Policy(sharpened(PPO("MlpPolicy", env, **copy.deepcopy(SMALL))))


class AnySize(rl.PolicyLearner):
    """A policy for each number of experts, since the checks play games of several."""

    def __init__(self, lead: bool = False, deterministic: bool = False) -> None:
        super().__init__(network(4), lead, deterministic)
        del self._given["policy"]

    def start(self) -> None:
        self.policy = network(self.spec.num_experts)
        super().start()


def test_the_conformance_suites_accept_the_players() -> None:
    for learner in (AnySize(), AnySize(lead=True, deterministic=True)):
        assert {"batch_of_one", "outcomes", "probabilities", "global_generators"} <= set(
            check_learner(learner, skip=["docstring"])
        )
    foe = rl.PolicyAdversary(sharpened(chair_model(AdversaryEnv("hedge", num_experts=3, horizon=6))), num_experts=3)
    assert {"simultaneity", "vector_env", "batch_of_one"} <= set(check_adversary(foe, headings=True))


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused() -> None:
    model = learner_model()
    learner = rl.PolicyLearner(model)
    with pytest.raises(dpe.ArgumentError, match=r"policy: .* Discrete\(5\)"):
        learner.reset(dpe.GameSpec(5, 6), np.random.default_rng(0))
    with pytest.raises(dpe.ArgumentError, match="policy: "):
        rl.PolicyAdversary(model, num_experts=3, horizon=6)
    with pytest.raises(dpe.ArgumentError, match="policy: "):
        rl.PolicyJudge(model, num_experts=3, horizon=6)
    chair = chair_model(AdversaryEnv("hedge", num_experts=3, horizon=6))
    with pytest.raises(dpe.ArgumentError, match="policy: "):
        rl.PolicyAdversary(chair, "corners", num_experts=3, horizon=6)
    for wrong in (None, 3, "model.zip", object()):
        with pytest.raises(dpe.ArgumentError, match="policy: expected a trained"):
            rl.PolicyLearner(wrong)
    with pytest.raises(dpe.ArgumentError, match="lead"):
        rl.PolicyLearner(model, lead=1)
    box = AdversaryEnv("hedge", losses="box", num_experts=3, horizon=6)
    with pytest.raises(dpe.ArgumentError, match="found a SAC"):
        rl.PolicyAdversary(chair_model(box, SAC, buffer_size=10), "box", num_experts=3, horizon=6)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: rl.train_adversary("hedge", 0), "budget"),
        (lambda: rl.train_adversary("hedge", 10, algorithm="Q"), "algorithm"),
        (lambda: rl.train_adversary("hedge", 10, algorithm=3), "algorithm"),
        (lambda: rl.train_adversary("hedge", 10, frames=0), "frames"),
        (lambda: rl.train_adversary("hedge", 10, num_envs=0), "num_envs"),
        (lambda: rl.train_adversary("hedge", 10, seed=-1), "seed"),
        (lambda: rl.train_adversary("hedge", 10, progress="yes"), "progress"),
        (lambda: rl.train_adversary("hedge", 10, learning_rat=1.0), "learning_rat"),
        (lambda: rl.train_adversary("hedgehog", 10), "hedgehog"),
        (lambda: rl.train_adversary("hedge", 10, losses="all"), "losses"),
        (lambda: rl.train_adversary("hedge", 10, losses="box", algorithm="DQN"), "algorithm: DQN cannot act"),
        (lambda: rl.train_judge("hedge", 10, algorithm="DQN"), "algorithm: DQN cannot act"),
        (lambda: rl.train_judge("hedge", 10, epsilon=-1.0), "epsilon"),
        (lambda: rl.train_judge("hedge", 10, adjacency="near"), "adjacency"),
        (lambda: rl.train_learner("hedge", 10), "adversary"),
        (lambda: rl.train_learner(3, 10), "adversary"),
        (lambda: rl.train_learner("bernoulli", 10, lead=2), "lead"),
    ],
)
def test_bad_arguments_of_training_are_named(call: Any, named: str) -> None:
    with pytest.raises(dpe.GameError, match=named):
        call()


# -- training ----------------------------------------------------------------------------------------------------------


def test_training_is_a_function_of_its_seed_and_leaves_global_state_alone() -> None:
    torch.set_num_threads(2)
    short = {"num_experts": 3, "horizon": 5, "num_envs": 4, "n_steps": 16, "batch_size": 32, "progress": False}
    digests = []
    for seed, noise in ((0, 5), (0, 6), (1, 5)):
        np.random.seed(noise)  # noqa: NPY002
        random.seed(noise)
        torch.manual_seed(noise)
        before = states()
        trained = rl.train_adversary("hedge", 128, seed=seed, **short)
        player = trained.player()
        dpe.play(dpe.make_learner("hedge"), player, num_games=3, seed=0)
        assert states() == before
        digests.append(rl.Policy(trained.model).digest)
    torch.set_num_threads(1)
    assert digests[0] == digests[1] != digests[2]
    assert trained.rounds == 128
    assert len(trained.returns) == 4 * (32 // 5)


def test_an_exploring_algorithm_is_a_function_of_its_seed_too() -> None:
    """DQN draws its exploration and its replays from numpy's global state."""
    digests = []
    for noise in (5, 6):
        np.random.seed(noise)  # noqa: NPY002
        before = states()
        trained = rl.train_learner(
            dpe.make_adversary("bernoulli", num_experts=3, horizon=5),
            200,
            algorithm="DQN",
            num_envs=4,
            learning_starts=20,
            buffer_size=100,
            seed=0,
            progress=False,
        )
        assert states() == before
        digests.append(rl.Policy(trained.model).digest)
    assert digests[0] == digests[1]


def test_no_training_changes_the_settings_of_the_next() -> None:
    """Stable-Baselines3 writes into the dictionaries that it is handed: A2C its optimiser."""
    before = copy.deepcopy(rl.SETTINGS)
    mine = {"net_arch": [4]}
    rl.train_adversary("hedge", 20, horizon=4, algorithm="A2C", policy_kwargs=mine, num_envs=2, progress=False)
    rl.train_adversary("hedge", 20, horizon=4, algorithm="A2C", num_envs=2, progress=False)
    assert before == rl.SETTINGS
    assert mine == {"net_arch": [4]}


def test_global_state_is_put_back_after_an_error_too() -> None:
    before = states()
    with pytest.raises(dpe.ArgumentError):
        rl.train_judge("hedge", 10, algorithm="DQN")

    def fails() -> None:
        with rl.extra.states_as_found("test"):
            np.random.seed(0)  # noqa: NPY002
            random.seed(0)
            torch.manual_seed(0)
            torch.set_num_threads(2)
            assert states() != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert states() == before


def test_the_games_of_training_are_those_of_the_chairs() -> None:
    """Against the vector environment itself, and what Stable-Baselines3 has to be told of an episode's end."""
    games = training_games(
        ChairVectorEnv(AdversaryEnv("hedge", num_experts=3, horizon=4), 2, autoreset_mode="SameStep")
    )
    reference = ChairVectorEnv(AdversaryEnv("hedge", num_experts=3, horizon=4), 2, autoreset_mode="SameStep")
    games.seed(5)
    assert np.array_equal(games.reset(), reference.reset(seed=5)[0])
    gained = np.zeros(2)
    for t in range(8):
        actions = np.array([t % 3, 1])
        seen, rewards, ended, infos = games.step(actions)
        expected = reference.step(actions)
        gained += expected[1]
        assert np.array_equal(seen, expected[0])
        assert rewards == pytest.approx(expected[1])
        assert ended.tolist() == expected[2].tolist() == [t % 4 == 3] * 2
        for game, info in enumerate(infos):
            if t % 4 == 3:
                assert np.array_equal(info["terminal_observation"], expected[4]["final_obs"][game])
                assert info["TimeLimit.truncated"] is False
                assert info["episode"]["r"] == pytest.approx(gained[game])
                assert info["episode"]["l"] == 4
                assert expected[4]["final_info"]["regret"][game] == pytest.approx(gained[game])
            else:
                assert info == {}
        gained = np.where(ended, 0.0, gained)
    assert len(games.returns) == 4
    mean, _ = evaluate_policy(chair_model(AdversaryEnv("hedge", num_experts=3, horizon=4)), games, n_eval_episodes=2)
    assert -4 <= mean <= 4
    games.close()


@pytest.mark.parametrize(
    ("algorithm", "keywords"),
    [
        ("PPO", {"frames": 3, "n_steps": 16, "batch_size": 32}),
        ("A2C", {}),
        ("RecurrentPPO", {"n_steps": 16, "batch_size": 32}),
        ("QRDQN", {"learning_starts": 20, "buffer_size": 100}),
        ("TRPO", {"n_steps": 16, "batch_size": 32}),
        (A2C, {"frames": 2}),
    ],
)
def test_all_algorithms_train_save_and_play(algorithm: Any, keywords: dict[str, Any], tmp_path: Any) -> None:
    if isinstance(algorithm, str) and algorithm not in ("PPO", "A2C"):
        pytest.importorskip("sb3_contrib")
    foe = dpe.make_adversary("punish_last", num_experts=3, horizon=5)
    trained = rl.train_learner(foe, 64, algorithm=algorithm, num_envs=4, seed=0, progress=False, **keywords)
    learner = trained.player()
    assert learner.lead
    expected = dpe.play(learner, foe, num_games=5, seed=0)
    trained.save(tmp_path / "policy")
    again = rl.load_trained(tmp_path / "policy.zip")
    assert np.array_equal(dpe.play(again.player(), foe, num_games=5, seed=0).regret, expected.regret)
    assert repr(again.player()) == repr(learner)


def test_what_is_saved_says_how_it_was_made(tmp_path: Any) -> None:
    trained = rl.train_judge(
        "leaky_copy_last",
        64,
        num_experts=3,
        horizon=4,
        losses=PAIR,
        adjacency="zero_out",
        num_envs=4,
        n_steps=16,
        batch_size=32,
        seed=7,
        progress=False,
    )
    before = states()
    trained.save(tmp_path / "deep" / "judge.zip")
    trained.save(tmp_path / "deep" / "judge")
    again = rl.load_trained(tmp_path / "deep" / "judge")
    assert states() == before
    record = json.loads((tmp_path / "deep" / "judge.json").read_text())
    assert record["seat"] == again.seat == "judge"
    assert record["opponent"] == "LeakyCopyLast(epsilon=1.0, delta=1e-06)"
    assert (record["num_experts"], record["horizon"], record["rounds"]) == (3, 4, 64)
    assert record["view"] == {"losses": list(PAIR), "adjacency": "zero_out"}
    assert record["settings"]["budget"] == 64
    assert record["settings"]["epsilon"] == 0.0
    assert {"python", "torch", "stable-baselines3", "dp-experts-env", "numpy"} <= set(record["versions"])
    assert again.seed == trained.seed
    assert np.array_equal(again.returns, trained.returns)
    assert repr(again.player(True)) == repr(trained.player(True))
    assert again.player(horizon=9, num_games=2).game == dpe.GameSpec(3, 9, 2)
    # Another model under the same record, a file of someone else's, and none at all.
    archive = tmp_path / "deep" / "judge.zip"
    archive.write_bytes(archive.read_bytes() + b" ")
    with pytest.raises(dpe.DataError, match="is not the model"):
        rl.load_trained(archive)
    (tmp_path / "other.zip").write_text("mine")
    with pytest.raises(dpe.DataError, match=r"other\.json"):
        trained.save(tmp_path / "other")
    assert (tmp_path / "other.zip").read_text() == "mine"
    (tmp_path / "other.json").write_text('{"format": "letter"}')
    with pytest.raises(dpe.DataError, match="dp-experts-policy"):
        rl.load_trained(tmp_path / "other")
    (tmp_path / "half.json").write_text('{"format": "dp-experts-policy", "version": 1}')
    (tmp_path / "half.zip").write_text("")
    with pytest.raises(dpe.DataError, match="not a model"):
        rl.load_trained(tmp_path / "half")


# -- what can be learned -----------------------------------------------------------------------------------------------


def test_a_policy_learns_to_force_on_follow_the_leader_what_foreseer_forces() -> None:
    """Foreseer forces T - floor(T/N) = 75. Learner and policy play with certainty: nothing is left to chance."""
    learner = dpe.make_learner("follow_the_leader")
    trained = rl.train_adversary(learner, 20_000, num_experts=4, horizon=100, seed=0, progress=False)
    foreseen = dpe.play(learner, dpe.make_adversary("foreseer", num_experts=4, horizon=100), seed=0).mean_regret
    assert foreseen == 75.0
    assert dpe.play(learner, trained.player(True), num_games=2, seed=0).regret.min() >= 0.8 * foreseen
    assert dpe.play(learner, trained.player(), num_games=20, seed=0).mean_regret >= 0.8 * foreseen


# -- without the extra -------------------------------------------------------------------------------------------------


def test_the_core_never_imports_torch() -> None:
    code = (
        "import sys, dp_experts_env as dpe; from dp_experts_env import chairs, cli, rl; "
        "dpe.play(dpe.make_learner('hedge'), dpe.make_adversary('bernoulli'), seed=0); "
        "assert not {'torch', 'stable_baselines3', 'sb3_contrib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_without_the_extra_a_use_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    model = learner_model()

    def gone(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(rl.extra, "importlib", types.SimpleNamespace(import_module=gone))
    for use in (
        lambda: rl.PolicyLearner(model),
        lambda: rl.PolicyAdversary(model),
        lambda: rl.PolicyJudge(model),
        lambda: rl.train_learner("bernoulli", 10),
        lambda: rl.train_adversary("hedge", 10),
        lambda: rl.train_judge("hedge", 10),
    ):
        with pytest.raises(dpe.MissingExtraError, match=r"pip install 'dp-experts-env\[rl\]'"):
            use()
