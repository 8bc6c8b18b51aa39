"""PrivateERM: exact privacy over neighbouring samples, the declared size, its bounds and sample-size rule."""

import itertools
import math
import pickle

import numpy as np
import pytest

from dp_experts_agents.erm import PrivateERM
from dp_experts_env.spec import ArgumentError, ProtocolError


def rng(seed=0):
    return np.random.default_rng(seed)


def erm(least_size, hypotheses=None, epsilon=1.0, loss=None, seed=0):
    return PrivateERM(least_size, hypotheses, epsilon, loss, rng=rng(seed))


def threshold(cut):
    return lambda X: (np.asarray(X) > cut).astype(int)


def constant(value):
    return lambda X: np.full(len(X), value)


# --------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("least", [1, 2, 4])
def test_exact_privacy_over_neighbouring_samples(epsilon, least):
    """All samples of up to 5 of the 4 examples, as multisets, and one example more: log-ratios at most epsilon.

    The worst is (n/(n + 1)) epsilon at most, since the example that comes moves the mean of n by 1/(n + 1).
    """
    examples = list(itertools.product([0.0, 1.0], [0, 1]))
    hypotheses = [constant(0), constant(1), threshold(0.5), lambda X: 1 - threshold(0.5)(X)]
    learner = erm(least, hypotheses, epsilon)
    laws = {}
    for size in range(least, 6):
        for sample in itertools.combinations_with_replacement(examples, size):
            X, y = (np.array(column) for column in zip(*sample, strict=True))
            laws[sample] = learner.log_law(X, y)
            assert np.exp(laws[sample]).sum() == pytest.approx(1.0, abs=1e-12)
    worst = 0.0
    for sample, law in laws.items():
        for example in examples:
            more = tuple(sorted([*sample, example]))
            if more in laws:
                worst = max(worst, np.abs(law - laws[more]).max())
    assert worst <= epsilon * least / (least + 1) + 1e-12
    assert worst > 0.4 * epsilon * least / (least + 1)


def test_privacy_with_losses_between_zero_and_one():
    """The absolute loss, random samples of 3 to 8 examples, one added or removed."""
    numbers, worst = rng(1), 0.0
    for _ in range(300):
        least = int(numbers.integers(1, 4))
        learner = erm(least, epsilon=3.0, loss=lambda predictions, targets: np.abs(predictions - targets))
        size = int(numbers.integers(least, 8))
        X, y = numbers.random((size + 1, 5)).round(), numbers.random(size + 1)
        worst = max(worst, np.abs(learner.log_law(X, y) - learner.log_law(X[:-1], y[:-1])).max())
    assert 0.5 < worst <= 3.0


def test_privacy_is_reached_by_many_hypotheses():
    """A large class and a large n: the log-ratio tends to epsilon."""
    size, columns = 200, 10_000
    X = np.zeros((size + 1, columns))
    X[-1, 1:] = 1.0
    y = np.zeros(size + 1)
    learner = erm(size, epsilon=2.0)
    # All lose 0; the example that comes charges all but one by 1: half of epsilon only. Balanced before, all of it.
    assert np.abs(learner.log_law(X, y) - learner.log_law(X[:-1], y[:-1])).max() == pytest.approx(1.0, abs=0.01)
    X[:-1, 0] = 1.0
    one, two = learner.log_law(X[:-1], y[:-1]), learner.log_law(X, y)
    assert abs(one[0] - two[0]) == pytest.approx(2.0, abs=0.02)
    assert abs(one - two).max() <= 2.0


def test_the_declared_size_is_used_not_the_actual_one():
    """Twice the sample, the same mean losses: the same law, which the actual size would have made sharper."""
    X, y = rng(2).integers(2, size=(10, 3)), rng(3).integers(2, size=10)
    learner = erm(10, epsilon=2.0)
    law = learner.log_law(X, y)
    np.testing.assert_allclose(law, learner.log_law(np.repeat(X, 2, 0), np.repeat(y, 2)), rtol=1e-12)
    weights = np.exp(-0.5 * 2.0 * 10 * (y[:, None] != X).mean(0))
    np.testing.assert_allclose(np.exp(law), weights / weights.sum(), rtol=1e-12)
    assert learner.coefficient == 10.0
    with pytest.raises(ArgumentError, match="least_size 10"):
        learner.fit(X[:9], y[:9])
    assert not hasattr(learner, "selected_")


def test_draws_have_their_law():
    """6,000 fits: every frequency within 6.5 standard errors (false alarm 4 * 8e-11)."""
    X, y = rng(4).integers(2, size=(12, 4)), rng(5).integers(2, size=12)
    learner = erm(12, epsilon=1.5, seed=6)
    law = np.exp(learner.log_law(X, y))
    counts = np.bincount([learner.fit(X, y).selected_ for _ in range(6000)], minlength=4)
    assert (np.abs(counts / 6000 - law) < 6.5 * np.sqrt(law * (1 - law) / 6000)).all()
    assert np.abs(law - 0.25).max() > 0.05


# ---------------------------------------------------------------------------------------------------------- bounds


def test_bounds_by_hand():
    learner = erm(50, epsilon=0.7)
    assert learner.empirical_bound(0.05, 20) == pytest.approx(2.0 * (math.log(20) + math.log(20)) / (0.7 * 50))
    deviation = math.sqrt((math.log(2 * 20) + math.log(2 / 0.05)) / 100)
    mechanism = 2.0 * (math.log(20) + math.log(2 / 0.05)) / (0.7 * 50)
    assert learner.excess_risk_bound(0.05, 20) == pytest.approx(mechanism + 2.0 * deviation)
    same = erm(50, [constant(0)] * 20, 0.7)
    assert same.excess_risk_bound(0.05) == learner.excess_risk_bound(0.05, 20)


@pytest.mark.parametrize("beta", [0.5, 0.2, 0.05])
def test_empirical_bound_exactly(beta):
    """The law's mass on hypotheses above the bound is at most beta, on random samples larger than declared, too."""
    numbers, nearest = rng(7), 0.0
    for _ in range(100):
        size, columns = int(numbers.integers(20, 60)), int(numbers.integers(1, 200))
        learner = erm(20, epsilon=float(numbers.choice([0.2, 1.0, 5.0])))
        X = (numbers.random((size, columns)) < numbers.random(columns)).astype(int)
        y = np.zeros(size, dtype=int)
        excess = learner.mean_losses(X, y) - learner.mean_losses(X, y).min()
        above = np.exp(learner.log_law(X, y))[excess > learner.empirical_bound(beta, columns)].sum()
        assert above <= beta
        nearest = max(nearest, above)
    # One good hypothesis among bad ones just above the bound: mass (|C| - 1)/|C| * beta nearly.
    columns, size = 1000, 400
    learner = erm(size, epsilon=1.0)
    bad = math.floor(learner.empirical_bound(beta, columns) * size) + 1
    X = (np.arange(size)[:, None] < np.where(np.arange(columns) == 0, 0, bad)).astype(int)
    above = 1.0 - np.exp(learner.log_law(X, np.zeros(size)))[0]
    assert 0.6 * beta / (1.0 + beta) < above <= beta


def test_excess_risk_bound():
    """1,500 samples of 60 coins, eight hypotheses of known risk: failures at most beta plus 6 SE (1e-9)."""
    numbers, beta, risks = rng(8), 0.2, np.linspace(0.2, 0.8, 8)
    learner = erm(60, epsilon=4.0, seed=9)
    bound = learner.excess_risk_bound(beta, 8)
    excess = np.array(
        [
            risks[learner.fit((numbers.random((60, 8)) < risks).astype(int), np.zeros(60)).selected_] - 0.2
            for _ in range(1500)
        ]
    )
    assert (excess > bound).mean() <= beta + 6.0 * math.sqrt(beta / 1500)
    assert 0.0 < excess.mean() < bound


def test_sample_size_rule():
    rule = PrivateERM.sample_size
    assert rule(0.1, 0.05, 1.0, 10) == math.ceil(24 * (math.log(10) + math.log(20)) * 100)
    assert rule(0.1, 0.05, 0.01, 10) == math.ceil(24 * (math.log(10) + math.log(20)) / 0.001)
    assert rule(1.0, 0.5, 9.0, 1) == math.ceil(24 * math.log(2))
    for alpha, beta, epsilon, columns in itertools.product(
        [0.01, 0.1, 0.5, 1.0], [1e-6, 0.1, 0.9, 0.999], [0.01, 1.0, 30.0], [2, 3, 50, 10**6]
    ):
        size = rule(alpha, beta, epsilon, columns)
        assert erm(size, epsilon=epsilon).excess_risk_bound(beta, columns) <= alpha
        assert erm(size, epsilon=epsilon).empirical_bound(beta / 2, columns) <= alpha / 6 + 1e-12


def test_sample_size_suffices():
    """alpha = 0.5, beta = 0.3, |C| = 16, epsilon = 1: 200 samples of that size, failures at most 60 + 6 SE = 99."""
    alpha, beta = 0.5, 0.3
    size = PrivateERM.sample_size(alpha, beta, 1.0, 16)
    assert size < 400
    numbers, risks = rng(10), np.where(np.arange(16) == 3, 0.1, 0.1 + alpha + 0.01)
    learner = erm(size, epsilon=1.0, seed=11)
    failures = sum(
        learner.fit((numbers.random((size, 16)) < risks).astype(int), np.zeros(size)).selected_ != 3 for _ in range(200)
    )
    assert failures <= 99


# ------------------------------------------------------------------------------------------------------- interface


def test_callables_and_matrix_agree():
    cuts = [0.1, 0.4, 0.7]
    X, y = rng(12).random(40), rng(13).integers(2, size=40)
    hypotheses = [threshold(cut) for cut in cuts]
    matrix = np.stack([hypothesis(X) for hypothesis in hypotheses], axis=1)
    by_call, by_matrix = erm(30, hypotheses, 3.0, seed=1), erm(30, None, 3.0, seed=1)
    np.testing.assert_array_equal(by_call.log_law(X, y), by_matrix.log_law(matrix, y))
    for _ in range(20):
        assert by_call.fit(X, y).selected_ == by_matrix.fit(matrix, y).selected_
        np.testing.assert_array_equal(by_call.predict(X), by_matrix.predict(matrix))
        np.testing.assert_array_equal(by_call.predict(X), matrix[:, by_call.selected_])
    assert by_call.fit(X, y) is by_call
    assert by_call.fit(X.tolist(), y.tolist()).predict(X.tolist()).shape == (40,)


def test_labels_need_not_be_numbers():
    X = np.array([["cat", "dog"], ["dog", "dog"], ["cat", "cat"]])
    assert erm(3).mean_losses(X, ["cat", "dog", "dog"]).tolist() == pytest.approx([1 / 3, 2 / 3])


def test_parameters_print_clone_and_pickle():
    learner = erm(5, None, 2.0)
    assert set(learner.parameters) == {"least_size", "hypotheses", "epsilon", "loss", "rng"}
    assert repr(learner).startswith("PrivateERM(least_size=5, hypotheses=None, epsilon=2.0")
    assert learner.clone(epsilon=3.0).coefficient == 7.5
    X, y = rng(1).integers(2, size=(6, 3)), rng(2).integers(2, size=6)
    copy = pickle.loads(pickle.dumps(learner))
    assert copy.fit(X, y).selected_ == learner.fit(X, y).selected_


def test_randomness_is_the_generators_alone():
    X, y = rng(1).integers(2, size=(6, 30)), rng(2).integers(2, size=6)
    first, second = ([erm(2, epsilon=0.1, seed=s).fit(X, y).selected_ for s in range(30)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 5


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"least_size": 0}, "least_size"),
        ({"least_size": 2.5}, "least_size"),
        ({"hypotheses": []}, "hypotheses"),
        ({"hypotheses": [constant(1), 3]}, "hypotheses"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"rng": 5}, "rng"),
        ({"rng": np.random}, "rng"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises(ArgumentError, match=name):
        PrivateERM(**{"least_size": 3, "rng": rng(), **arguments})


def test_bad_samples():
    X, y = np.zeros((4, 2)), np.zeros(4)
    with pytest.raises(ArgumentError, match="X: expected a prediction matrix"):
        erm(3).fit(np.zeros((5, 2)), y)
    with pytest.raises(ArgumentError, match="X: expected a prediction matrix"):
        erm(3).fit(np.zeros((4, 0)), y)
    with pytest.raises(ArgumentError, match="X: expected a prediction matrix"):
        erm(3).fit(np.zeros(4), y)
    with pytest.raises(ArgumentError, match="y: expected shape"):
        erm(3).fit(X, np.zeros((4, 1)))
    with pytest.raises(ArgumentError, match="hypotheses: number 1 returned shape"):
        erm(3, [constant(0), lambda X: 7]).fit(y, y)
    for wrong in (lambda p, t: p - 1.0, lambda p, t: p + 2.0, lambda p, t: p * np.nan, lambda p, t: 0.5):
        with pytest.raises(ArgumentError, match="loss: expected"):
            erm(3, loss=wrong).fit(X, y)
    with pytest.raises(ProtocolError, match=r"fit\(\) first"):
        erm(3).predict(X)
    learner = erm(3).fit(X, y)
    learner.selected_ = 1
    with pytest.raises(ArgumentError, match=r"X: expected a prediction matrix \(m, \|C\|\), \|C\| > 1"):
        learner.predict(np.zeros((4, 1)))
    for beta in (0.0, 1.0):
        with pytest.raises(ArgumentError, match="beta"):
            erm(3).empirical_bound(beta, 4)
        with pytest.raises(ArgumentError, match="beta"):
            PrivateERM.sample_size(0.1, beta, 1.0, 4)
    with pytest.raises(ArgumentError, match="num_hypotheses"):
        erm(3).empirical_bound(0.1)
    for alpha in (0.0, 1.5):
        with pytest.raises(ArgumentError, match="alpha"):
            PrivateERM.sample_size(alpha, 0.1, 1.0, 4)
    with pytest.raises(ArgumentError, match="num_hypotheses"):
        PrivateERM.sample_size(0.1, 0.1, 1.0, 0)
