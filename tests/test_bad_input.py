"""Bad input to every registered learner and adversary: an error of ours that names the argument, and nothing lost."""

import math
import warnings

import gymnasium as gym
import numpy as np
import pytest

import dp_experts_env as dpe
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import (
    ArgumentError,
    ChoiceError,
    GameError,
    GameSpec,
    LossError,
    ProtocolError,
    check_count,
    check_epsilon,
    check_flag,
)

LEARNERS = (*dpe.learners(), *dpe.learners(leaky=True))
PRIVATE = (*dpe.learners(private=True), *dpe.learners(private=True, leaky=True))
SPEC = GameSpec(3, 6)
VALUES = [
    *(math.nan, math.inf, -math.inf, -1, -1.0, 0, 0.0, 1, 0.5, 1.0 - 2.0**-53, 1e308, 5e-324, 10**12, 10**400),
    *("", "x", b"x", None, True, np.True_, np.float64(0.5), np.float32(0.1), np.int64(3), 1j, (), (0.1,), {}, object),
    np.zeros((2, 2)),
]


def build(cls, keyword, value, **others):
    """Build, or see that the refusal is an error of ours which names the keyword."""
    try:
        return cls(**others, **{keyword: value})
    except GameError as error:
        return error


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_takes_a_value_or_names_the_argument(name):
    cls = dpe.learner_class(name)
    for keyword in constructor_keywords(cls):
        for value in VALUES:
            built = build(cls, keyword, value)
            if isinstance(built, GameError):
                assert keyword in str(built), f"{keyword}={value!r}"


@pytest.mark.parametrize("name", dpe.adversaries())
def test_an_adversary_takes_a_value_or_names_the_argument(name):
    cls = dpe.adversary_class(name)
    for keyword in constructor_keywords(cls):
        for value in VALUES:
            if keyword == "num_experts" and isinstance(value, int) and value == 10**12:
                continue  # a well-formed size that no memory holds
            built = build(cls, keyword, value)
            if isinstance(built, GameError):
                # Ranges depend on one another, so that another argument may be named; a replay speaks of its losses.
                names = (*constructor_keywords(cls), "losses")
                assert any(part in str(built) for part in names), f"{keyword}={value!r}: {built}"


@pytest.mark.parametrize("name", PRIVATE)
def test_budgets_are_refused(name):
    for bad in (math.nan, math.inf, -1.0, 0.0, 5e-324, "x", None, True, 1j):
        with pytest.raises(ArgumentError, match="epsilon: expected a number"):
            dpe.make_learner(name, epsilon=bad)
    for bad in (math.nan, math.inf, -1e-9, 1.0, 1e308, "x", None, True, 1j):
        with pytest.raises(ArgumentError, match="delta: expected a number"):
            dpe.make_learner(name, delta=bad)


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_claimed_refuses_nonsense(name):
    learner = dpe.make_learner(name)
    for bad in (None, (3, 6), 6, GameSpec):
        with pytest.raises(ArgumentError, match="spec: expected a GameSpec"):
            learner.guarantee(bad)
        with pytest.raises(ArgumentError, match="spec: expected a GameSpec"):
            learner.regret_bound(bad, 0.0)
    for bad in (math.nan, math.inf, -1e-9, -1, SPEC.horizon + 1, "x", None, True):
        with pytest.raises(ArgumentError, match=r"best_loss: expected a number in \[0, 6\]"):
            learner.regret_bound(SPEC, bad)
    for bad in ("nonsense", None, 3, ["oblivious"], ""):
        with pytest.raises(ArgumentError, match="against: unknown name"):
            learner.regret_bound(SPEC, 0.0, bad)
    with pytest.raises(ArgumentError, match="did you mean 'oblivious'"):
        learner.regret_bound(SPEC, 0.0, against="obliviuos")


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "auto"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1)])
def test_claims_in_the_smallest_games(name, shape):
    learner, spec = dpe.make_learner(name), GameSpec(*shape)
    claim = learner.guarantee(spec)
    if claim is not None and hasattr(learner, "epsilon"):
        assert claim.epsilon <= learner.epsilon
        assert claim.delta <= learner.delta
    for best_loss in (0.0, 0.5, float(spec.horizon)):
        for against in ("stochastic", "oblivious", "adaptive"):
            bound = learner.regret_bound(spec, best_loss, against)
            assert isinstance(bound, float)
            assert math.isnan(bound) or bound >= 0.0


@pytest.mark.parametrize("num_games", [None, 2])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_refused_call_changes_nothing(name, num_games):
    """Two learners on one seed, of which one is disturbed by bad calls throughout, make the same choices."""
    spec = GameSpec(3, 6, num_games)
    calm, disturbed = dpe.make_learner(name), dpe.make_learner(name)
    for call in (disturbed.act, disturbed.probabilities, disturbed.outcomes, lambda: disturbed.run(np.zeros((1, 3)))):
        with pytest.raises((ProtocolError, NotImplementedError)):
            call()
    for learner in (calm, disturbed):
        learner.reset(spec, np.random.default_rng(5))
    try:
        outcomes = disturbed.outcomes().shape[-1]
    except NotImplementedError:
        outcomes = None
    for losses in np.random.default_rng(6).random((6, 3)):
        with pytest.raises(ProtocolError, match="expected act"):
            disturbed.observe(losses)
        for bad in (np.zeros((7, 3)), np.zeros((0, 3)), np.full((1, 3), -1.0), None, 5):
            with pytest.raises((LossError, ProtocolError)):
                disturbed.run(bad)
        if outcomes is not None:
            for bad in (-1, outcomes, 10**30, "x", 1.5, math.nan, None, True, [0, 0, 0]):
                with pytest.raises(ArgumentError, match=r"outcome: expected integers in 0\.\."):
                    disturbed.take(bad)
        np.testing.assert_array_equal(calm.act(), disturbed.act())
        with pytest.raises(ProtocolError, match="observe"):
            disturbed.act()
        for bad in (np.zeros(2), np.full(3, math.nan), [2, 0, 0], "x", None, [[0], [0, 1]], 1.0, np.zeros((4, 3))):
            with pytest.raises(LossError, match=f"round {disturbed.round + 1}"):
                disturbed.observe(bad)
        calm.observe(losses)
        disturbed.observe(losses)
    assert calm.round == disturbed.round == 6
    for call in (disturbed.act, lambda: disturbed.run(np.zeros((1, 3)))):
        with pytest.raises(ProtocolError, match="horizon 6"):
            call()


@pytest.mark.parametrize("name", LEARNERS)
def test_reset_refuses_other_types(name):
    learner = dpe.make_learner(name)
    for spec, rng in ((None, np.random.default_rng(0)), (SPEC, 0), (SPEC, np.random.RandomState(0)), ((3, 6), None)):
        with pytest.raises(ArgumentError, match="expected a"):
            learner.reset(spec, rng)
    with pytest.raises(ProtocolError, match="reset"):
        learner.act()


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("epsilon", [1e-200, 1e-12, 500.0, 1e4])
def test_extreme_budgets_are_played_without_a_warning(name, epsilon):
    """A budget far from use is still kept: the claim is at most what was asked, and a game can be played."""
    if name == "auto":
        epsilon = min(epsilon, 8.0)
    learner, spec = dpe.make_learner(name, epsilon=epsilon), GameSpec(4, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        claim = learner.guarantee(spec)
        assert claim is not None
        assert claim.epsilon <= epsilon
        learner.reset(spec, np.random.default_rng(0))
        assert learner.run(np.random.default_rng(1).random((20, 4))).shape == (20,)
    for against in ("stochastic", "oblivious", "adaptive"):
        assert not learner.regret_bound(spec, 0.0, against) < 0.0


def test_a_game_beyond_memory_is_named():
    class Hoarder(dpe.Learner):
        def start(self):
            np.empty((self.spec.horizon, 2**10))

        def guarantee(self, spec):
            return np.empty((spec.horizon, 2**10))

        def regret_bound(self, spec, best_loss, against="oblivious"):
            return np.empty((spec.horizon, 2**10))

    spec = GameSpec(3, 2**45)
    for call in (
        lambda: Hoarder().guarantee(spec),
        lambda: Hoarder().regret_bound(spec, 0.0),
        lambda: Hoarder().reset(spec, np.random.default_rng(0)),
    ):
        with pytest.raises(ArgumentError, match=f"spec: Hoarder needs more memory .* horizon={2**45}"):
            call()


def test_counts_flags_and_subnormal_budgets():
    assert check_count("seed", 2**70, 0, most=None) == 2**70
    assert check_count("horizon", 2**53) == 2**53
    for bad in (2**53 + 1, 10**400, 10**5000):
        with pytest.raises(ArgumentError, match="horizon: expected an integer <= 9007199254740992"):
            GameSpec(3, bad)
    assert check_flag("fresh", np.True_) is True
    for bad in (0, 1, "x", None, np.zeros(2)):
        with pytest.raises(ArgumentError, match="fresh: expected True or False"):
            check_flag("fresh", bad)
    assert check_epsilon(2.3e-308) == 2.3e-308
    with pytest.raises(ArgumentError, match="at least 2"):
        check_epsilon(1e-310)


@pytest.mark.parametrize("seed", [-1, "x", 1.5, True, [1], [1, -1], [1, "x"], [1, 1.5], object()])
def test_vector_environment_refuses_a_seed_and_goes_on(seed):
    one, two = (gym.make_vec("dp_experts/Bernoulli-v0", num_envs=2, horizon=5) for _ in range(2))
    for env in (one, two):
        env.reset(seed=3)
    with pytest.raises(ArgumentError, match="seed"):
        two.reset(seed=seed)
    for left, right in zip(one.step(np.array([0, 1])), two.step(np.array([0, 1])), strict=True):
        if not isinstance(left, dict):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "actions", [[0], [0, 10], [0, -1], [0.5, 0], ["a", "b"], None, [[0], [0, 1]], [math.nan, 0], [True, False]]
)
def test_vector_environment_refuses_actions_and_goes_on(actions):
    env = gym.make_vec("dp_experts/Bernoulli-v0", num_envs=2, horizon=5)
    env.reset(seed=0)
    with pytest.raises(ChoiceError, match="actions"):
        env.step(actions)
    assert env.step(np.array([0, 1]))[-1]["round"].tolist() == [1, 1]


def test_vector_environment_refuses_options():
    env = gym.make_vec("dp_experts/Bernoulli-v0", num_envs=2, horizon=5)
    for bad in (5, "x", ["reset_mask"]):
        with pytest.raises(ArgumentError, match="options: expected a dictionary"):
            env.reset(options=bad)


@pytest.mark.parametrize(
    ("keyword", "bad"),
    [
        *(("num_games", bad) for bad in (0, -1, 1.5, "x", True)),
        *(("seed", bad) for bad in (-1, 1.5, "x")),
        *(("record", bad) for bad in (5, "x", [["choices"]])),
        *(("checkpoints", bad) for bad in (0, None, "x")),
        *(("workers", bad) for bad in (0, None, "x")),
        *((flag, bad) for flag in ("override", "progress") for bad in ("x", 1)),
    ],
)
def test_play_refuses(keyword, bad):
    with pytest.raises(ArgumentError, match=f"{keyword}: "):
        dpe.play(dpe.make_learner("hedge"), dpe.make_adversary("bernoulli", horizon=5), **{keyword: bad})
