"""Cases from public bug reports of similar software, each with its right answer; the environment's are in test_env.py.

M: mechanisms and accounting. A: auditing. L: learners and runner. E7: the native vector entry point.
"""

import itertools
import math

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import dp_experts_env as dpe
from dp_experts_env.privacy import accounting, evidence, mechanisms


def test_e7_native_vector_entry_point():
    envs = gym.make_vec("dp_experts/Bernoulli-v0", num_envs=2, num_experts=3, horizon=5)
    assert isinstance(envs, dpe.AdversaryVectorEnv)
    for count, seeds in ((1, 7), (3, [7, 8, 9])):
        envs = gym.make_vec("dp_experts/Bernoulli-v0", num_envs=count, num_experts=3, horizon=5)
        envs.reset(seed=seeds)
        singles = [gym.make("dp_experts/Bernoulli-v0", num_experts=3, horizon=5) for _ in range(count)]
        for index, env in enumerate(singles):
            env.reset(seed=7 + index)
        for _ in range(5):
            observations, rewards, *_ = envs.step(np.arange(count))
            for index, env in enumerate(singles):
                observation, reward, *_ = env.step(index)
                np.testing.assert_array_equal(observations[index], observation)
                assert rewards[index] == reward
    envs = gym.make_vec("dp_experts/Bernoulli-v0", num_envs=2, horizon=100, max_episode_steps=2)
    envs.reset(seed=0)
    envs.step(np.zeros(2, dtype=int))
    _, _, terminated, truncated, _ = envs.step(np.zeros(2, dtype=int))
    assert not terminated.any()
    assert truncated.all()


def test_m12_cumulative_sums_have_bounded_error():
    total = mechanisms.RunningSum()
    total.add(np.array([2.0**53]))
    for _ in range(1000):
        total.add(np.array([1.0]))
    assert total.total[0] == 2.0**53 + 1000
    assert "simulation" in mechanisms.laplace.__doc__


def test_m13_losses_outside_the_range_are_refused_and_rescaled_on_request():
    learner = dpe.make_learner("hedge")
    learner.reset(dpe.GameSpec(3, 4), np.random.default_rng(0))
    learner.act()
    with pytest.raises(dpe.LossError, match=r"round 1, expert 2.*\[0, 1\] but found -3"):
        learner.observe(np.array([0.0, 1.0, -3.0]))
    raw = np.array([[-3.0, 1.0], [-1.0, 0.0]])
    wrapped = dpe.make_adversary("rescaled", source=raw, low=-3.0, high=1.0)
    wrapped.reset(seed=0)
    np.testing.assert_allclose(wrapped.emit_block(2), (raw + 3.0) / 4.0)


def test_m14_two_worlds_two_noises():
    """Correlation of two copies' first draws over 1000 runs; |r| >= 0.2 has probability below 1e-9 if independent."""
    runs = [dpe.play(dpe.make_learner("uniform"), dpe.make_adversary("bernoulli", num_experts=97, horizon=1), 1,
                     seed=(5, run), record="choices").choices[0, 0] for run in range(1000)]  # fmt: skip
    again = [dpe.play(dpe.make_learner("uniform"), dpe.make_adversary("bernoulli", num_experts=97, horizon=1), 1,
                      seed=(6, run), record="choices").choices[0, 0] for run in range(1000)]  # fmt: skip
    assert abs(np.corrcoef(runs, again)[0, 1]) < 0.2
    seeds = {str(dpe.play(dpe.make_learner("uniform"), dpe.make_adversary("alternating", horizon=2)).seed)
             for _ in range(3)}  # fmt: skip
    assert len(seeds) == 3


def test_m16_composition_table():
    def named(*arguments, **options):
        return accounting.composition_bounds(*arguments, **options)

    found = named(0.1, 100, 1e-6)
    assert found["basic"] == pytest.approx(10.0)
    assert found["advanced"] == pytest.approx(6.308, abs=1e-3)
    assert found["optimal"] == pytest.approx(4.775, abs=0.03)
    assert dpe.compose(0.1, 100, 1e-6, kind="bounded_range").epsilon <= 2.42
    assert named(1.0, 10, 1e-5)["advanced"] == pytest.approx(32.36, abs=0.01)
    assert dpe.compose(1.0, 10, 1e-5).epsilon <= 10.0
    assert dpe.compose(1.0, 10, 1e-5, kind="bounded_range").epsilon <= 8.08
    assert dpe.compose(1e-5, 100, 1e-6).epsilon <= 0.001
    assert dpe.compose(0.1, 100, 0.0).epsilon == pytest.approx(10.0)
    large = dpe.compose(30.0, 3, 1e-6).epsilon
    assert 80.0 < large <= 90.0 * (1 + 1e-9)
    # Optimal bounded-range composition is proved without adaptivity only.
    fixed = dpe.compose(0.1, 100, 1e-6, kind="bounded_range", adaptive=False)
    assert fixed.epsilon < dpe.compose(0.1, 100, 1e-6, kind="bounded_range", adaptive=True).epsilon


@pytest.mark.parametrize(("experts", "ratio"), [(2, 0.5), (1000, 0.999)])
def test_m17_one_round_of_multiplicative_weights(experts, ratio):
    first, second = np.ones(experts), np.zeros(experts)
    first[0], second[0] = 0.0, 1.0
    laws = [mechanisms.exponential_log_probabilities(losses, 0.5) for losses in (first, second)]
    found = np.abs(laws[0] - laws[1]).max()
    assert found == pytest.approx(ratio, abs=1e-3)
    assert found <= 2 * 0.5
    replace, zero_out = (dpe.learning_rate(1.0, 1e-6, 1000, "zcdp", adjacency=name) for name in ("replace", "zero_out"))
    assert zero_out == pytest.approx(2 * replace)


def test_m18_a_threshold_is_a_real_number():
    watch = mechanisms.AboveThreshold(0.0, 0.0)
    watch.start((2,), np.random.default_rng(0))
    below = watch.test(np.array([37.0, 37.3]), 37.3, np.random.default_rng(0))
    assert below.tolist() == [False, True]


def test_m19_above_threshold_without_query_noise():
    broken = mechanisms.AboveThreshold(2.0, 0.0)
    found = math.exp(broken.log_probability([0.0, 1.0], 0.0, [False, True]))
    assert found == pytest.approx(0.5 - 0.5 * math.exp(-0.5), abs=1e-9)
    assert broken.log_probability([1.0, 0.0], 0.0, [False, True]) == -math.inf
    correct = mechanisms.AboveThreshold.general(0.5, 0.5)
    for queries, others in (([0.0, 1.0], [1.0, 0.0]), ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])):
        answers = [False] * (len(queries) - 1) + [True]
        ratio = correct.log_probability(queries, 0.0, answers) - correct.log_probability(others, 0.0, answers)
        assert abs(ratio) <= 1.0 + 1e-9


def test_m19_the_audit_refutes_every_epsilon_that_its_games_can():
    """No query noise: (below, above) has probability 0.1967 on one list and 0 on the other.

    The bound grows with the games without end, and stays below the limit that is reported. The correct mechanism is
    accused with probability at most 1e-6: one audit at that confidence, at a fixed seed.
    """

    def watched(mechanism, queries, games, rng):
        mechanism.start((games,), rng)
        first = mechanism.test(float(queries[0]), 0.0, rng)
        second = mechanism.test(float(queries[1]), 0.0, rng, where=~first)
        answers = np.stack([first, second], axis=1)
        return evidence.Outcomes(answers[..., None].astype(np.uint8), np.ones(games, dtype=np.int64))

    def audited(mechanism, games):
        streams = np.random.default_rng(0).spawn(2)
        worlds = [
            watched(mechanism, queries, games, rng) for queries, rng in zip(([0, 1], [1, 0]), streams, strict=True)
        ]
        return evidence.judge(*worlds, 0.0, 1 - 1e-6)

    bounds = [audited(mechanisms.AboveThreshold(2.0, 0.0), games) for games in (1_000, 10_000, 100_000)]
    assert all(found.epsilon_lower < found.epsilon_limit for found in bounds)
    assert all(b.epsilon_lower > a.epsilon_lower + 1.0 for a, b in itertools.pairwise(bounds))
    assert bounds[-1].epsilon_lower > 5.0
    assert audited(mechanisms.AboveThreshold.general(0.5, 0.5), 100_000).epsilon_lower <= 1.0


def test_a28_the_best_of_many_runs_is_not_sold_as_one():
    from dp_experts_env.study import report

    assert "m runs and the choice cost more" in report.NOTES["The best of many runs"]


def test_m20_calibration_is_conservative_and_monotone():
    assert dpe.learning_rate(1.0, 1e-6, 1000, "seed") == pytest.approx(0.001504, abs=5e-7)
    rate = dpe.learning_rate(1.0, 1e-6, 1000, "zcdp")
    assert dpe.compose(2 * rate, 999, 1e-6, kind="bounded_range").epsilon <= 1.0
    assert (
        dpe.compose(1.8 * rate, 999, 1e-6, kind="bounded_range").epsilon
        < dpe.compose(2 * rate, 999, 1e-6, kind="bounded_range").epsilon
    )


def test_m25_out_of_budget():
    budget = accounting.Filter(2.0)
    budget.spend(1.8)
    with pytest.raises(dpe.BudgetError) as caught:
        budget.spend(0.5)
    for figure in ("1.8", "0.5", "2", "0.2"):
        assert figure in str(caught.value)
    budget.spend(0.1)


def test_l31_probability_vectors_and_mixing():
    learner = dpe.make_learner("hedge", learning_rate=math.log(2.0), mixing=0.3)
    learner.reset(dpe.GameSpec(3, 5), np.random.default_rng(0))
    learner.act()
    learner.observe(np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(learner.probabilities(), (0.275, 0.275, 0.45), atol=1e-12)


def test_l32_time_varying_rate():
    learner = dpe.make_learner("hedge", learning_rate=(1.0, 0.5, 0.5))
    learner.reset(dpe.GameSpec(2, 3), np.random.default_rng(0))
    for losses in ((0.0, 1.0), (1.0, 0.0)):
        learner.act()
        learner.observe(np.array(losses))
    np.testing.assert_allclose(learner.probabilities(), (0.5, 0.5), atol=1e-15)
    assert "current rate times cumulative loss" in dpe.learner_class("hedge").__doc__


def test_l35_the_runner_really_updates(tmp_path):
    losses = np.ones((200, 4))
    losses[:, 2] = 0.0
    learner = dpe.make_learner("hedge", learning_rate=1.0)
    learner.reset(dpe.GameSpec(4, 200), np.random.default_rng(0))
    for row in losses[:10]:
        learner.act()
        learner.observe(row)
    assert learner.probabilities()[2] == pytest.approx(0.99986, abs=5e-6)

    seen = []

    class Counting(dpe.Learner):
        def act(self):
            return 0

        def observe(self, losses):
            seen.append(losses.copy())

    dpe.play(Counting(), dpe.make_adversary("replay", source=losses), None, seed=0)
    np.testing.assert_array_equal(seen, losses)


@pytest.mark.parametrize("bad", [math.nan, 1e10])
def test_l36_a_bad_row_loses_nothing(bad):
    learner = dpe.make_learner("hedge")
    learner.reset(dpe.GameSpec(3, 5), np.random.default_rng(0))
    learner.act()
    before = learner.probabilities()
    with pytest.raises(ValueError, match="round 1, expert 1"):
        learner.observe(np.array([0.0, bad, 0.0]))
    np.testing.assert_array_equal(learner.probabilities(), before)
    learner.observe(np.array([1.0, 0.0, 0.0]))
    assert learner.round == 1
    assert learner.probabilities()[0] < before[0]


def test_l37_experts_are_numbered_from_zero(tmp_path):
    match = dpe.play(dpe.make_learner("uniform"), dpe.make_adversary("bernoulli", num_experts=3, horizon=200), 1,
                     seed=0, record="choices")  # fmt: skip
    assert set(np.unique(match.choices)) == {0, 1, 2}
    pd.DataFrame([[0.0, 1.0], [0.5, 2.0]]).to_csv(tmp_path / "bad.csv", index=False, header=False)
    with pytest.raises(dpe.DataError, match="round 2, expert 1"):
        dpe.load_losses(tmp_path / "bad.csv")
