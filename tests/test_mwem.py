"""MWEM, SmallDB and their smooth versions: exact privacy, sensitivity, budgets, error bounds, covers, projection."""

import itertools
import math
import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dp_experts_agents.mwem as mwem
from dp_experts_agents.mwem import (
    MWEM,
    ProjectedSmoothMWEM,
    Queries,
    SmallDB,
    SmoothMWEM,
    SmoothSmallDB,
    greedy_cover,
    histogram,
)
from dp_experts_env.privacy.accounting import share, zcdp_rho
from dp_experts_env.privacy.evidence import Histogram, Outcomes, judge
from dp_experts_env.privacy.exact import laws_privacy
from dp_experts_env.spec import ArgumentError, ProtocolError

RELATIONS = [(a, r) for a in ("replace", "zero_out") for r in ((0, 1), (-1, 1))]
SENSITIVITY = {
    ("replace", (0, 1)): 1.0,
    ("replace", (-1, 1)): 2.0,
    ("zero_out", (0, 1)): 1.0,
    ("zero_out", (-1, 1)): 1.0,
}
ESTIMATORS = [MWEM, SmoothMWEM, ProjectedSmoothMWEM, SmallDB, SmoothSmallDB]


def rng(seed=0):
    return np.random.default_rng(seed)


def make(cls, domain_size, seed=0, **given):
    smooth = {"sigma": 0.5} if "Smooth" in cls.__name__ else {}
    return cls(domain_size, **{**smooth, **given}, rng=rng(seed))


def thresholds(cells, dtype=np.uint8):
    """All initial segments of the cells, the empty one first."""
    return (np.arange(cells) < np.arange(cells + 1)[:, None]).astype(dtype)


def histograms(cells, total):
    return [h for h in itertools.product(range(total + 1), repeat=cells) if sum(h) == total]


def neighbours(adjacency, cells, size):
    """All histograms near ``size`` records, and the pairs of them that are neighbours."""
    totals = [size] if adjacency == "replace" else [size - 1, size, size + 1]
    found = [np.array(h) for total in totals for h in histograms(cells, total)]
    limit = 2 if adjacency == "replace" else 1
    near = [
        (i, j) for i, j in itertools.combinations(range(len(found)), 2) if np.abs(found[i] - found[j]).sum() == limit
    ]
    return found, near


def all_queries(cells, query_range):
    return np.array(list(itertools.product(query_range, repeat=cells)))


# ----------------------------------------------------------------------------------- sensitivity, selection, the budget


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_sensitivity_is_what_one_record_can_do(adjacency, query_range):
    """By enumeration of neighbours and of all extreme queries over 3 cells; the case that S1 misses is 2."""
    found, near = neighbours(adjacency, 3, 3)
    counts = np.array(found) @ all_queries(3, query_range).T
    moved = max(np.abs(counts[i] - counts[j]).max() for i, j in near)
    assert make(MWEM, 3, adjacency=adjacency, query_range=query_range, size=3).sensitivity == moved
    assert moved == SENSITIVITY[adjacency, query_range]


def selection_privacy(cls, adjacency, query_range, epsilon, laws, delta=0.0):
    """Largest log-ratio of one selection over all neighbours on 3 cells, all pairs of extreme queries and some laws."""
    found, near = neighbours(adjacency, 3, 3)
    worst = 0.0
    for pair in itertools.combinations(all_queries(3, query_range), 2):
        estimator = make(cls, 3, epsilon=epsilon, rounds=2, adjacency=adjacency, query_range=query_range, size=3)
        for law in laws:
            logs = [estimator.selection_log_probabilities(h, np.array(pair), law) for h in found]
            worst = max(worst, laws_privacy(logs, delta, near))
    return worst


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_m24_selection_costs_its_share_and_hardly_less(adjacency, query_range):
    """Two queries, three cells: with R = 2 a selection has epsilon/4, and a sure winner comes close to it."""
    laws = [None, [1.0, 0.0, 0.0]]
    assert selection_privacy(MWEM, adjacency, query_range, 0.5, laws) <= 0.5 / 4 + 1e-12
    large = selection_privacy(MWEM, adjacency, query_range, 40.0, laws)
    assert 0.9 * 10.0 < large <= 10.0 + 1e-9


class Insensitive(MWEM):
    """The fault that S1's text invites: sensitivity 1 for queries in [-1, 1] under replacement."""

    sensitivity = 1.0


def test_m24_the_wrong_sensitivity_is_caught():
    laws = [None, [1.0, 0.0, 0.0]]
    assert selection_privacy(Insensitive, "replace", (-1, 1), 40.0, laws) > 1.8 * 10.0


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_two_rounds_of_mwem_are_epsilon_private_on_every_path(adjacency, query_range):
    """Exact: along each (q, m) of round 1 the log-ratios of both rounds add up to at most epsilon, and to over half.

    Laplace densities differ by at most abs(c - c')/b, which is reached in the tail, and in the atoms of clipping.
    """
    epsilon, queries = 6.0, np.array([[0, 0, 1], [1, 0, 0]]) * (query_range[1] - query_range[0]) + query_range[0]
    estimator = make(MWEM, 3, epsilon=epsilon, rounds=2, adjacency=adjacency, query_range=query_range, size=3)
    plan = estimator.plan(2)
    scale = plan.scale(plan.share)
    found, near = neighbours(adjacency, 3, 3)
    counts = np.array(found) @ queries.T

    def logs(law):
        return np.array([estimator.selection_log_probabilities(h, queries, law) for h in found])

    start, worst = np.full(3, 1 / 3), 0.0
    first = logs(start)
    for chosen in (0, 1):
        for answer in np.linspace(*query_range, 5):
            step = 4 / estimator.width**2 * (answer - queries[chosen] @ start)
            law = start * np.exp(step * queries[chosen])
            second = logs(law / law.sum())
            for i, j in near + [(j, i) for i, j in near]:
                measured = -np.abs(answer * 3 - counts[[i, j], chosen]) / scale
                later = (second[i] - second[j] + np.abs(counts[i] - counts[j]) / scale).max()
                worst = max(worst, first[i, chosen] - first[j, chosen] + measured[0] - measured[1] + later)
    assert epsilon / 2 < worst <= epsilon + 1e-9


@pytest.mark.parametrize("epsilon", [1.0, 0.3, 2.7])
@pytest.mark.parametrize("rounds", [1, 3, 7, 50])
def test_m21_shares_add_up_to_epsilon(epsilon, rounds):
    """2 R spends of epsilon/(2 R) each; their sum is epsilon to the last digit and exactly never more."""
    estimator = make(MWEM, 4, epsilon=epsilon, rounds=rounds).fit([3, 2, 1, 4], np.eye(4))
    spends = [spend.epsilon for spend in estimator.ledger_]
    assert len(spends) == 2 * rounds
    assert spends == pytest.approx([epsilon / (2 * rounds)] * 2 * rounds, rel=1e-12)
    assert estimator.ledger_.total().epsilon == epsilon
    assert sum(map(Fraction, spends)) <= Fraction(epsilon)
    assert [spend.label for spend in estimator.ledger_][:2] == ["selection 1", "measurement 1"]
    plan = estimator.plan_
    assert plan.coefficient(plan.share) == pytest.approx(epsilon / (4 * rounds), rel=1e-15)
    assert plan.scale(plan.share) == pytest.approx(2 * rounds / epsilon, rel=1e-15)


def test_m21_noise_depends_on_neither_domain_nor_class():
    plans = [make(MWEM, cells, rounds=5, size=100).plan(queries) for cells in (2, 1000) for queries in (1, 10**6)]
    assert len({(plan.coefficient(plan.share), plan.scale(plan.share)) for plan in plans}) == 1


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_concentrated_shares(adjacency, query_range):
    """delta > 0, many rounds: rho/(2 R) each; kappa and the deviation keep it in exact arithmetic, wasting little."""
    epsilon, delta, rounds = 1.0, 1e-6, 40
    estimator = make(
        MWEM, 4, epsilon=epsilon, delta=delta, rounds=rounds, adjacency=adjacency, query_range=query_range, size=10
    )
    estimator.fit([3, 2, 1, 4], np.eye(4))
    plan, sensitivity = estimator.plan_, Fraction(SENSITIVITY[adjacency, query_range])
    assert (plan.kind, plan.budget) == ("rho", zcdp_rho(epsilon, delta))
    assert 1 - 1e-9 < estimator.ledger_.epsilon(delta) / epsilon <= 1
    for spend in estimator.ledger_:
        kappa, deviation = Fraction(plan.coefficient(spend.rho)), Fraction(plan.scale(spend.rho))
        assert (kappa * sensitivity) ** 2 / 2 <= Fraction(spend.rho)
        assert sensitivity**2 / (2 * deviation**2) <= Fraction(spend.rho)
        assert float((kappa * sensitivity) ** 2 / 2) == pytest.approx(spend.rho, rel=1e-12)


def test_concentrated_selection_has_its_divergence():
    """Exact Renyi divergences of the selection's laws over all neighbours: at most alpha rho/(2 R), at most 1% less."""
    queries, found = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), neighbours("replace", 3, 3)
    estimator = make(MWEM, 3, epsilon=0.5, delta=1e-3, rounds=40, size=3)
    plan = estimator.plan(2)
    assert plan.kind == "rho"
    reached = 0.0
    for law in ([1 / 3] * 3, [1.0, 0.0, 0.0]):
        logs = [estimator.selection_log_probabilities(h, queries, law) for h in found[0]]
        for i, j in found[1] + [(j, i) for i, j in found[1]]:
            for alpha in (1.01, 2.0, 10.0, 100.0):
                divergence = np.logaddexp.reduce(alpha * logs[i] + (1 - alpha) * logs[j]) / (alpha - 1)
                assert divergence <= alpha * plan.share + 1e-12
                reached = max(reached, divergence / (alpha * plan.share))
    assert reached > 0.2


def test_pure_shares_where_they_err_less():
    """One round: zero-concentrated noise at delta = 1e-6 is larger than pure noise, so the latter is used."""
    assert make(MWEM, 4, delta=1e-6, rounds=1, size=100).plan(10).kind == "epsilon"
    assert make(MWEM, 4, delta=1e-6, rounds=20, size=100).plan(10).kind == "rho"


# -------------------------------------------------------------------------------------------------- what public means


def test_m22_the_domain_is_public():
    """Two neighbouring samples with different maxima: the same cells, and values beyond the edges are no error."""
    edges = [np.linspace(0.0, 10.0, 6), [0.0, 1.0, 2.0]]
    records = rng(1).uniform(0, 10, (50, 2)) / [1, 5]
    other = records.copy()
    other[7] = [1e6, -3.0]
    one, two = histogram(records, edges), histogram(other, edges)
    assert one.shape == two.shape == (10,)
    assert np.abs(one - two).sum() <= 2
    expected = np.histogramdd(records, edges)[0].ravel()
    assert one.tolist() == expected.tolist()
    assert histogram([2.0, 1.9, 4.0, 10.0, -1.0, 99.0], [[0.0, 2.0, 4.0, 6.0]]).tolist() == [2, 1, 3]
    for bad in (None, [], [[1.0]], [[1.0, 1.0]], [[2.0, 1.0]]):
        with pytest.raises(ArgumentError, match="edges"):
            histogram([1.0], bad)
    with pytest.raises(ArgumentError, match="records"):
        histogram([math.nan], [[0.0, 1.0]])
    for cls in ESTIMATORS:
        with pytest.raises(TypeError, match="domain_size"):
            cls(sigma=0.5, rng=rng()) if "Smooth" in cls.__name__ else cls(rng=rng())
        with pytest.raises(ArgumentError, match="domain_size"):
            make(cls, None)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_m22_no_plan_depends_on_the_data(cls):
    """Neighbours, and data as unlike as can be, get the same plan, ledger and shapes; fits differ in outputs alone."""
    seen = set()
    for counts in ([5, 5, 5, 5], [6, 4, 5, 5], [20, 0, 0, 0]):
        estimator = make(cls, 4, seed=3, gamma=0.1) if "Smooth" in cls.__name__ else make(cls, 4, seed=3)
        estimator.fit(counts, thresholds(4))
        pool = tuple(getattr(estimator, "pool_", ()))
        plan = getattr(estimator, "plan_", None) or len(estimator.cells_)
        seen.add((plan, estimator.ledger_.spends, estimator.law_.shape, pool, estimator.size_))
    assert len(seen) == 1


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_m23_the_declared_size_is_used_not_the_actual_one(cls):
    """Under add/remove the numbers of records at hand, 8 to 12, change no plan: all speak of the declared 10."""
    with pytest.raises(ArgumentError, match="size"):
        make(cls, 4, adjacency="zero_out")
    fixed = {"adjacency": "zero_out", "size": 10, **({"gamma": 0.1} if "Smooth" in cls.__name__ else {})}
    plans = set()
    for total in (8, 10, 12):
        estimator = make(cls, 4, seed=1, **fixed).fit([total - 3, 3, 0, 0], thresholds(4))
        plans.add((getattr(estimator, "plan_", None), estimator.ledger_.spends, estimator.size_))
    assert len(plans) == 1
    assert estimator.size_ == 10


def test_m23_scores_under_add_remove():
    """The selection's law from its formula, with n the declared size and 7 records at hand."""
    estimator = make(MWEM, 3, epsilon=3.0, rounds=2, adjacency="zero_out", size=10)
    queries, counts = thresholds(3), np.array([4, 2, 1])
    gaps = np.abs(10 * queries.mean(1) - queries @ counts)
    weights = np.exp(3.0 / 8 * gaps)
    law = np.exp(estimator.selection_log_probabilities(counts, queries))
    np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-12)


def test_under_replace_the_size_is_that_of_the_data():
    assert make(MWEM, 2).fit([1, 4], np.eye(2)).size_ == 5
    assert make(MWEM, 2, size=5).fit([1, 4], np.eye(2)).size_ == 5
    with pytest.raises(ArgumentError, match="expected 6 records but found 5"):
        make(MWEM, 2, size=6).fit([1, 4], np.eye(2))
    with pytest.raises(ArgumentError, match="one or more"):
        make(MWEM, 2).fit([0, 0], np.eye(2))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_nothing_but_what_is_private_is_kept(cls):
    """A fitted estimator remembers no counts and no true answers."""
    estimator = make(cls, 4).fit([5, 3, 1, 1], thresholds(4))
    kept = {name for name in vars(estimator) if name.endswith("_")}
    common = {"law_", "size_", "ledger_"}
    weights, small = {"selected_", "measured_", "plan_"}, {"cells_"}
    covered = {"cover_", "gamma_"} | ({"pool_"} if cls is SmoothSmallDB else set())
    expected = common | (small if issubclass(cls, SmallDB) else weights)
    assert kept == expected | (covered if "Smooth" in cls.__name__ else set())
    assert not any(np.array_equal(value, [5, 3, 1, 1]) for value in vars(estimator).values())


# ----------------------------------------------------------------------------------------------------- MWEM as a whole


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.integers(2, 6),
    st.sampled_from([(0.0, 1.0), (-1.0, 1.0)]),
    st.integers(0, 10**6),
    st.floats(-3.0, 3.0),
)
def test_a_step_lowers_the_potential_by_what_is_proved(cells, query_range, seed, noise):
    """KL(D || p) falls by at least (2/w^2)(a^2 - v^2), whatever D, p, q in the range and noise."""
    draws, (low, high) = rng(seed), query_range
    data, before = draws.dirichlet(np.full(cells, 0.3)) + 1e-12, draws.dirichlet(np.full(cells, 0.3)) + 1e-9
    data, before = data / data.sum(), before / before.sum()
    query = draws.choice([low, high], cells) if seed % 2 else draws.uniform(low, high, cells)
    error, width = query @ data - query @ before, high - low
    estimator = make(MWEM, cells, query_range=query_range)
    after = estimator._step(before, 4 / width**2 * (error + noise) * query)
    assert after.sum() == pytest.approx(1.0, abs=1e-12)
    fall = (data * np.log(after / before)).sum()
    assert fall >= 2 / width**2 * (error**2 - noise**2) - 1e-9


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_error_bound_holds_and_says_something(adjacency, query_range, delta):
    """60 fits at beta = 0.05: more than 16 misses have probability 1.1e-8 if the bound holds; and it is below w/2."""
    cells, size, misses, rounds = 30, 20_000, 0, 40 if delta else 15
    queries = rng(2).choice(query_range, (100, cells))
    for seed in range(60):
        counts = rng(seed).multinomial(size, rng(seed + 100).dirichlet(np.full(cells, 0.2)))
        estimator = make(
            MWEM, cells, seed, delta=delta, rounds=rounds, adjacency=adjacency, query_range=query_range, size=size
        ).fit(counts, queries)
        bound = estimator.error_bound(0.05, 100)
        misses += np.abs(estimator.answer(queries) - queries @ counts / size).max() > bound
    assert stats.binom.sf(16, 60, 0.05) < 1.2e-8
    assert misses <= 16
    assert bound < (query_range[1] - query_range[0]) / 2


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_error_bound_in_closed_form(adjacency, query_range):
    """At beta = 2 R/Q: sqrt(w^2 ln X/(2 R) + noise^2) plus selection, at most the source's bound times Delta."""
    rounds, queries, size, cells, epsilon = 10, 1000, 5000, 64, 0.7
    estimator = make(
        MWEM, cells, epsilon=epsilon, rounds=rounds, adjacency=adjacency, query_range=query_range, size=size
    )
    delta, width = SENSITIVITY[adjacency, query_range], query_range[1] - query_range[0]
    unit = rounds * delta * math.log(queries) / (size * epsilon)
    first = width**2 * math.log(cells) / (2 * rounds)
    bound = estimator.error_bound(2 * rounds / queries, queries)
    assert bound == pytest.approx(math.sqrt(first + (2 * unit) ** 2) + 8 * unit, rel=1e-9)
    assert bound <= 2 * math.sqrt(math.log(cells) / rounds) + 10 * unit


def test_rounds_left_open_are_the_best_ones():
    for delta in (0.0, 1e-6):
        open_ = make(MWEM, 100, delta=delta, size=10_000)
        planned = open_.plan(500).rounds
        bounds = {
            r: make(MWEM, 100, delta=delta, rounds=r, size=10_000).error_bound(0.05, 500) for r in range(1, 400, 3)
        }
        assert open_.error_bound(0.05, 500) <= 1.003 * min(bounds.values())
        assert planned == pytest.approx(min(bounds, key=bounds.get), rel=0.1)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_selections_and_noise_have_their_laws(delta):
    """1500 fits of 2 rounds: chi-square of the first selection, Kolmogorov-Smirnov of the first noise; each at 1e-6."""
    size, queries = 10**4, thresholds(5)[1:5]
    counts = np.array([1900, 2060, 2030, 2000, 2010])
    estimator = MWEM(5, 0.2, delta, 2, rng=rng(5))
    fits = [(e.selected_[0], e.measured_[0]) for e in (estimator.fit(counts, queries) for _ in range(1500))]
    chosen, answers = map(np.array, zip(*fits, strict=True))
    law = np.exp(estimator.selection_log_probabilities(counts, queries))
    assert law.min() * 1500 > 5
    assert law.max() > 2 * law.min()
    assert stats.chisquare(np.bincount(chosen, minlength=4), 1500 * law).pvalue > 1e-6
    noise = answers * size - (queries @ counts)[chosen]
    plan = estimator.plan_
    expected = stats.laplace if plan.kind == "epsilon" else stats.norm
    assert stats.kstest(noise, expected(scale=plan.scale(plan.share)).cdf).pvalue > 1e-6
    assert stats.kstest(noise, expected(scale=1.4 * plan.scale(plan.share)).cdf).pvalue < 1e-3


@pytest.mark.parametrize("passes", [0, 1, 3])
def test_a_fit_equals_the_algorithm_written_out(passes):
    """The same draws in a few plain lines: selections, measurements, the mean of the distributions before each round.

    With passes over past answers the last distribution, the same spends, and no error bound.
    """
    queries, counts, rounds = rng(3).choice([-1.0, 1.0], (6, 5)), np.array([30, 5, 0, 60, 5]), 4
    estimator = make(MWEM, 5, 9, epsilon=8.0, rounds=rounds, passes=passes, query_range=(-1, 1)).fit(counts, queries)
    draws, law, laws, past = rng(9), np.full(5, 0.2), [], []
    for number in range(rounds):
        laws.append(law)
        scores = np.abs(100 * queries @ law - queries @ counts)
        chosen = int(np.argmax(8.0 / (8 * rounds) * scores + draws.gumbel(size=6)))
        answer = np.clip((queries[chosen] @ counts + draws.laplace(scale=4 * rounds / 8.0)) / 100, -1, 1)
        assert (estimator.selected_[number], estimator.measured_[number]) == (chosen, pytest.approx(answer, rel=1e-9))
        for number_of_query, target in [(chosen, answer), *passes * past]:
            law = law * np.exp((target - queries[number_of_query] @ law) * queries[number_of_query])
            law = law / law.sum()
        past.append((chosen, answer))
    released = law if passes else np.mean(laws, 0)
    np.testing.assert_allclose(estimator.release(), released, rtol=1e-9)
    np.testing.assert_allclose(estimator.answer(queries), queries @ released, rtol=1e-9, atol=1e-12)
    assert math.isnan(estimator.error_bound(0.05, 6)) == (passes > 0)
    assert estimator.ledger_.total().epsilon == 8.0


# ---------------------------------------------------------------------------------------------------- blocks of queries


@pytest.mark.parametrize("block", [7, 64, 10**6])
def test_queries_in_blocks_packed_or_whole_are_the_same(block, monkeypatch):
    monkeypatch.setattr(mwem.queries, "BLOCK", block)
    matrix = rng(4).integers(0, 2, (23, 21))
    forms = [
        matrix,
        matrix.astype(bool),
        Queries.packed(np.packbits(matrix.astype(np.uint8), axis=1), 21),
        Queries(lambda first, last: matrix[first:last], 23, 21),
    ]
    counts = rng(5).integers(0, 50, 21)
    fits = [make(MWEM, 21, 1, rounds=5).fit(counts, form) for form in forms]
    for fit, form in zip(fits, forms, strict=True):
        np.testing.assert_allclose(fit.release(), fits[0].release(), rtol=1e-12)
        np.testing.assert_allclose(fit.answer(form), matrix @ fit.release(), rtol=1e-12)


def test_memory_is_that_of_a_block():
    """1,000 queries by function over 20,000 cells, 160 MB as float64: the peak stays below 40 MB."""

    def block(first, last):
        return np.arange(20_000) < 20 * np.arange(first, last)[:, None]

    tracemalloc.start()
    make(MWEM, 20_000, rounds=2).fit(np.ones(20_000, dtype=int), Queries(block, 1000, 20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_bad_queries_are_named():
    with pytest.raises(ArgumentError, match=r"\[0, 1\] but found .*2.* in query 1, cell 2"):
        make(MWEM, 3).fit([1, 1, 1], [[0, 1, 0], [0, 1, 2]])
    with pytest.raises(ArgumentError, match="in query 0, cell 1"):
        make(MWEM, 2).fit([1, 1], [[0.0, math.nan]])
    with pytest.raises(ArgumentError, match="-1"):
        make(MWEM, 2).fit([1, 1], [[0, -1]])
    with pytest.raises(ArgumentError, match="expected 3 cells"):
        make(MWEM, 3).fit([1, 1, 1], np.eye(2))
    with pytest.raises(ArgumentError, match="shape"):
        make(MWEM, 2).fit([1, 1], Queries(lambda first, last: np.zeros((1, 3)), 1, 2))
    with pytest.raises(ArgumentError, match="bits"):
        Queries.packed(np.zeros((2, 2), dtype=np.uint8), 17)
    with pytest.raises(ArgumentError, match="block"):
        Queries(np.eye(2), 2, 2)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_bad_arguments_are_named(cls):
    for name, value in [("epsilon", 0.0), ("query_range", (0, 2)), ("adjacency", "both"), ("size", 0)]:
        with pytest.raises(ValueError, match=name):
            make(cls, 3, **{name: value})
    with pytest.raises(ArgumentError, match="rng"):
        cls(3, *([0.5] if "Smooth" in cls.__name__ else []), rng=np.random)
    for counts in ([1, 2], [1, 2, -3], [1.5, 1.0, 1.0], [math.nan, 1.0, 1.0], "abc"):
        with pytest.raises(ArgumentError, match="histogram"):
            make(cls, 3).fit(counts, np.eye(3))
    with pytest.raises(ProtocolError, match="fit"):
        make(cls, 3).answer(np.eye(3))
    with pytest.raises(ProtocolError, match="fit"):
        make(cls, 3).release()
    with pytest.raises(ArgumentError, match="size"):
        make(cls, 3).error_bound(0.05, 3)
    with pytest.raises(ArgumentError, match="beta"):
        make(cls, 3, size=10).error_bound(1.0, 3)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_estimators_repeat_clone_and_pickle(cls):
    one, two = (make(cls, 4, 8).fit([5, 3, 1, 1], thresholds(4)) for _ in range(2))
    assert one.release().tolist() == two.release().tolist()
    assert one.clone(epsilon=2.0, rng=rng(1)).epsilon == 2.0
    assert cls.__name__ in repr(one)
    again = pickle.loads(pickle.dumps(one))
    assert again.answer(thresholds(4)).tolist() == one.answer(thresholds(4)).tolist()
    one.release()[:] = 0.0
    assert one.release().sum() == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------------ covers and smoothness


@pytest.mark.parametrize("query_range", [(0, 1), (-1, 1)])
@pytest.mark.parametrize("real", [False, True])
def test_greedy_cover_covers_and_packs(query_range, real, monkeypatch):
    """Against distances by brute force, with blocks of few rows; gamma = 0 leaves out repetitions alone."""
    monkeypatch.setattr(mwem.queries, "BLOCK", 100)
    draws, (low, high) = rng(6), query_range
    queries = draws.uniform(low, high, (60, 16)) if real else draws.choice(query_range, (60, 16))
    queries[40:] = queries[:20]
    apart = np.abs(queries[:, None] - queries).mean(-1) / (high - low)
    for gamma in (0.0, 0.2, 0.35, 2.0):
        cover = greedy_cover(queries, gamma, query_range)
        assert (apart[:, cover].min(1) <= gamma + 1e-12).all()
        among = apart[np.ix_(cover, cover)] + 9.0 * np.eye(len(cover))
        assert among.min() > gamma - 1e-12 or len(cover) == 1
    assert len(greedy_cover(queries, 0.0, query_range)) == len(np.unique(queries, axis=0))


def test_greedy_cover_of_thresholds_has_the_size_of_the_theory():
    """VC dimension 1: at most 41/gamma, and about 1/gamma."""
    for gamma in (0.01, 0.05, 0.1):
        size = len(greedy_cover(thresholds(400), gamma))
        assert 0.8 / gamma < size < 1.3 / gamma < 41 / gamma


def smooth_counts(cells, sigma, size, seed=0):
    """Counts of (sigma, 0)-smooth data: uniform on a random part of sigma of the cells."""
    part = rng(seed).permutation(cells)[: round(sigma * cells)]
    counts = np.zeros(cells, dtype=int)
    counts[np.sort(part)] = size // len(part)
    return counts


@pytest.mark.parametrize("cls", [SmoothMWEM, ProjectedSmoothMWEM])
@pytest.mark.parametrize("query_range", [(0, 1), (-1, 1)])
def test_smooth_error_bounds_hold_on_the_whole_class(cls, query_range):
    """30 fits, half of the cells, once a side: more than 11 misses have probability 1e-8 at beta = 0.05."""
    cells, misses, worst = 200, 0, 0.0
    low, high = query_range
    queries = thresholds(cells, np.int8) * (high - low) + low
    for seed in range(30):
        counts = smooth_counts(cells, 0.5, 20_000, seed)
        if seed % 2:
            counts = np.sort(counts)
        estimator = make(cls, cells, seed, gamma=0.03, query_range=query_range).fit(counts, queries)
        bound = estimator.error_bound(0.05, len(estimator.cover_))
        error = np.abs(estimator.answer(queries) - queries @ counts / 20_000).max()
        misses, worst = misses + (error > bound), max(worst, error)
    assert stats.binom.sf(11, 30, 0.05) < 1e-7
    assert misses <= 11
    assert bound < 0.4 * (high - low)
    assert worst > 0.02


def test_smooth_bound_in_closed_form():
    """S1's bounds, w/n apart from sampling: gamma = sigma/(2 n) has bias w/(2 n); K = ln(1/sigma); 4 chi; 2 biases."""
    size, sigma, rounds, dimension, epsilon = 50_000, 0.25, 20, 2, 1.0
    for query_range, width in (((0, 1), 1), ((-1, 1), 2)):
        given = {"epsilon": epsilon, "rounds": rounds, "size": size, "query_range": query_range}
        smooth = SmoothMWEM(1000, sigma, **given, rng=rng())
        cover = (82 * size / sigma) ** dimension
        assert (41 / smooth.radius()) ** dimension == pytest.approx(cover)
        log_cover, number = math.log(int(cover)), int(cover)
        beta = 2 * rounds / number
        printed = width * 10 * rounds * log_cover / (size * epsilon)
        bound = smooth.error_bound(beta, number)
        assert bound <= 1 / size + 2 * math.sqrt(math.log(1 / sigma) / rounds) + printed
        first = width**2 * math.log(1 / sigma) / (2 * rounds) + (printed / 5) ** 2
        assert bound == pytest.approx(math.sqrt(first) + 0.8 * printed + width / (2 * size), rel=1e-6)
        assert smooth.error_bound(beta, number, chi=0.01) == pytest.approx(bound + 0.04)
        projected = ProjectedSmoothMWEM(1000, sigma, **given, rng=rng())
        assert projected.error_bound(beta, number) == pytest.approx(bound + width / (2 * size))


def test_smooth_error_grows_with_neither_domain_nor_class_and_the_bound_of_mwem_does():
    """Intervals' thresholds on 100 and on 10,000 cells, the same 20,000 records' worth of half of them."""
    bounds, errors, plain = [], [], []
    for cells in (100, 1000, 10_000):
        counts = smooth_counts(cells, 0.5, 20_000, 1)
        queries = Queries(lambda first, last, n=cells: np.arange(n) < np.arange(first, last)[:, None], cells + 1, cells)
        cover = thresholds(50).repeat(cells // 50, axis=1)
        estimator = make(SmoothMWEM, cells, 2, gamma=0.01).fit(counts, cover=cover)
        bounds.append(estimator.error_bound(0.05, 51))
        exact = np.concatenate([[0.0], counts.cumsum() / 20_000])
        errors.append(np.abs(estimator.answer(queries) - exact).max())
        plain.append(make(MWEM, cells, size=20_000).error_bound(0.05, cells + 1))
    assert bounds[0] == bounds[1] == bounds[2]
    assert max(errors) < bounds[0]
    assert plain[0] < plain[1] < plain[2]


def test_answers_outside_the_class_are_refused():
    estimator = make(SmoothMWEM, 50, gamma=0.05).fit(smooth_counts(50, 0.5, 1000), thresholds(50))
    with pytest.raises(ArgumentError, match=r"queries: expected queries within gamma = 0.05 of the cover but number 1"):
        estimator.answer(np.array([thresholds(50)[7], np.arange(50) % 2]))
    with pytest.raises(ArgumentError, match="exactly one"):
        estimator.fit(smooth_counts(50, 0.5, 1000))
    assert make(SmoothMWEM, 50, size=100).radius() == 0.5 / 200


def crossing():
    """Rows and columns of a 16 x 16 grid, four lines each, disjoint in the data; and where they cross.

    Class: nothing, q1, q2 and q1 and q2. The crossing has U-mass (1/8)^2 < gamma, so the cover is nothing, q1, q2.
    Data: half in q1 only, half in q2 only, sigma-smooth with sigma = 2 u (1 - u), u = 1/8. What is known of them is
    that q1 and q2 have half each: the distribution of largest entropy puts a quarter on the crossing, the data nothing.
    """
    rows, columns = np.indices((16, 16)).reshape(2, -1)
    one, two = rows < 2, columns < 2
    queries = np.array([np.zeros(256, dtype=bool), one, two, one & two])
    counts = 1000 * ((one ^ two).astype(int))
    return queries, counts, 2 * (1 / 8) * (7 / 8)


def test_projection_is_right_outside_the_cover_where_smooth_mwem_is_not():
    """Constructed, 56,000 records, epsilon = 10: the released distributions on the query outside the cover."""
    queries, counts, sigma = crossing()
    truth, cap = queries @ counts / counts.sum(), 1 / (256 * sigma)
    assert counts.max() / counts.sum() <= cap * (1 + 1e-12)
    fits = {
        cls: cls(256, sigma, 10.0, rounds=200, gamma=1 / 60, rng=rng(3)).fit(counts, queries)
        for cls in (SmoothMWEM, ProjectedSmoothMWEM)
    }
    smooth, projected = fits[SmoothMWEM], fits[ProjectedSmoothMWEM]
    assert len(smooth.cover_) == len(projected.cover_) == 3
    assert smooth.release().max() > 2 * cap
    assert projected.release().max() <= cap * (1 + 1e-12)
    on_smooth, on_projected = queries @ smooth.release(), queries @ projected.release()
    assert np.abs(on_smooth - truth)[:3].max() < 0.1
    assert abs(on_smooth[3] - truth[3]) > 0.18
    bound = projected.error_bound(0.05, 3)
    assert np.abs(on_projected - truth).max() < 0.08 < bound < 0.35
    np.testing.assert_allclose(projected.answer(queries), on_projected, rtol=1e-12)
    # through the nearest query of the cover, nothing, SmoothMWEM's answer is right again
    assert np.abs(smooth.answer(queries) - truth).max() < 0.1


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
def test_projected_releases_stay_smooth_whatever_the_data(sigma):
    """Data in one cell, and noise much larger than n: all releases are sigma-smooth, with passes too."""
    counts = np.array([50] + [0] * 39)
    for seed in range(10):
        estimator = ProjectedSmoothMWEM(40, sigma, 0.5, rounds=10, passes=10 * (seed % 2), gamma=0.0, rng=rng(seed))
        estimator.fit(counts, thresholds(40))
        assert estimator.release().max() <= (1 + 1e-12) / (40 * sigma)
        assert estimator.release().sum() == pytest.approx(1.0, abs=1e-12)


# ---------------------------------------------------------------------------------------------------------- SmallDB


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_small_db_is_epsilon_private_exactly(adjacency, query_range):
    """All neighbours of 3 records on 3 cells, databases of 2 records, all pairs of extreme queries: at most epsilon.

    At large epsilon, where a sure winner exists, at least 70% of it.
    """
    found, near = neighbours(adjacency, 3, 3)
    for epsilon, least in ((1.0, 0.3), (40.0, 0.7)):
        worst = 0.0
        for pair in itertools.combinations(all_queries(3, query_range), 2):
            estimator = make(
                SmallDB, 3, epsilon=epsilon, records=2, adjacency=adjacency, query_range=query_range, size=3
            )
            logs = [estimator.selection_log_probabilities(h, np.array(pair)) for h in found]
            worst = max(worst, laws_privacy(logs, neighbours=near))
        assert least * epsilon < worst <= epsilon + 1e-9


def test_small_db_law_by_hand(monkeypatch):
    """Every multiset, its largest error in counts, weights exp(-epsilon n err/(2 Delta)); blocks of few candidates."""
    queries, counts = np.array([[-1, 1, 1, 0.5], [1, 1, -1, -1]]), np.array([3, 0, 5, 2])
    estimator = make(SmallDB, 4, epsilon=0.8, records=3, query_range=(-1, 1))
    candidates = list(itertools.combinations_with_replacement(range(4), 3))
    gaps = [np.abs(queries[:, list(c)].mean(1) * 10 - queries @ counts).max() for c in candidates]
    weights = np.exp(-0.8 / 4 * np.array(gaps))
    for block in (10, 10**6):
        monkeypatch.setattr(mwem.small_db, "BLOCK", block)
        law = np.exp(estimator.selection_log_probabilities(counts, queries))
        np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-12)
    assert estimator.candidates(2, 10).tolist() == [list(c) for c in candidates]


def test_small_db_draws_have_their_law():
    """3000 fits: chi-square over 10 multisets at 1e-6; one spend of epsilon; releases are those of the multiset."""
    queries, counts = thresholds(4)[1:4], np.array([3, 0, 5, 2])
    estimator = make(SmallDB, 4, epsilon=0.8, records=2)
    law = np.exp(estimator.selection_log_probabilities(counts, queries))
    index = {tuple(c): k for k, c in enumerate(estimator.candidates(3, 10).tolist())}
    drawn = np.bincount([index[tuple(estimator.fit(counts, queries).cells_)] for _ in range(3000)], minlength=10)
    assert stats.chisquare(drawn, 3000 * law).pvalue > 1e-6
    assert stats.chisquare(drawn, 3000 * np.full(10, 0.1)).pvalue < 1e-6
    assert [spend.epsilon for spend in estimator.ledger_] == [0.8]
    assert estimator.release().tolist() == (np.bincount(estimator.cells_, minlength=4) / 2).tolist()
    np.testing.assert_allclose(estimator.answer(queries), queries @ estimator.release())


@pytest.mark.parametrize("query_range", [(0, 1), (-1, 1)])
def test_small_db_error_bound(query_range):
    """Exactly: the law puts at most beta on databases beyond the bound, for 20 data sets; and a closed form."""
    cells, size = 5, 400
    queries, width = all_queries(cells, query_range), query_range[1] - query_range[0]
    estimator = make(SmallDB, cells, epsilon=1.0, records=12, query_range=query_range, size=size)
    candidates = estimator.candidates(32)
    count, records = candidates.shape
    assert (count, records) == (math.comb(16, 12), 12)
    bound = estimator.error_bound(0.05, 32)
    sampling = width * math.sqrt(math.log(64) / (2 * records))
    assert bound == pytest.approx(sampling + 2 * width * math.log(count / 0.05) / size, rel=1e-9)
    assert bound < width
    for seed in range(20):
        counts = rng(seed).multinomial(size, rng(seed).dirichlet(np.full(cells, 0.4)))
        errors = np.abs(queries[:, candidates].mean(-1).T - queries @ counts / size).max(-1)
        assert errors.min() <= sampling
        assert np.exp(estimator.selection_log_probabilities(counts, queries))[errors > bound].sum() <= 0.05


def test_small_db_refuses_what_it_cannot_enumerate():
    with pytest.raises(ArgumentError, match=r"domain_size 1000, records 3: .* at most 4194304 records .* 1.67e\+08"):
        make(SmallDB, 1000, records=3)
    with pytest.raises(ArgumentError, match="domain_size 5000000"):
        make(SmallDB, 5_000_000, size=10).error_bound(0.05, 3)
    with pytest.raises(ArgumentError, match="pool 60, records 10"):
        make(SmoothSmallDB, 100, records=10, pool=60)
    with pytest.raises(ArgumentError, match="pool"):
        make(SmoothSmallDB, 100, records=10, pool=9)
    assert len(make(SmallDB, 1, size=10).candidates(5)) == 1


@pytest.mark.parametrize(("adjacency", "query_range"), RELATIONS)
def test_smooth_small_db_is_epsilon_private_given_its_pool(adjacency, query_range):
    """The pool comes before the data: for every pool of 3 of the 3 cells the law is epsilon-private over neighbours."""
    found, near = neighbours(adjacency, 3, 3)
    queries = np.array([[1, 0, 0], [0, 1, 1]]) * (query_range[1] - query_range[0]) + query_range[0]
    given, worst = {"adjacency": adjacency, "query_range": query_range, "size": 3}, 0.0
    for epsilon in (1.0, 40.0):
        estimator = make(SmoothSmallDB, 3, epsilon=epsilon, records=2, pool=3, **given)
        for pool in itertools.product(range(3), repeat=3):
            logs = [estimator.selection_log_probabilities(h, queries, pool) for h in found]
            ratio = laws_privacy(logs, neighbours=near)
            worst = max(worst, ratio / epsilon)
            assert ratio <= epsilon + 1e-9
    assert worst > 0.45


def test_smooth_small_db_pool_is_the_least_that_suffices():
    for sigma, records in itertools.product((0.2, 0.5, 1.0), (1, 2, 3)):
        size = SmoothSmallDB(50, sigma, records=records, gamma=0.1, rng=rng()).pool_size(records)
        assert stats.binom.cdf(records - 1, size, sigma) <= 1 / 60
        assert size == records or stats.binom.cdf(records - 1, size - 1, sigma) > 1 / 60
    assert SmoothSmallDB(50, 1.0, records=4, rng=rng()).pool_size(4) == 4
    small = SmoothSmallDB(50, 0.5, pool=6, size=100, rng=rng())
    assert small.draw_pool(3).shape == (6,)
    assert small.candidates(3, pool=np.arange(6)).shape in [(math.comb(6, m), m) for m in range(1, 7)]


def test_smooth_small_db_error_bound():
    """20 fits on two domains, beta = 0.05: more than 9 misses have probability 9e-9; the bound is a closed form.

    It does not depend on the domain. The pool's draws are uniform: chi-square at 1e-6.
    """
    misses, pools, bounds = 0, [], set()
    for cells in (40, 1000):
        cover = thresholds(20).repeat(cells // 20, axis=1)
        for seed in range(10):
            counts = smooth_counts(cells, 0.5, 20_000, seed)
            estimator = SmoothSmallDB(cells, 0.5, gamma=0.025, records=6, rng=rng(seed)).fit(counts, cover=cover)
            bound = estimator.error_bound(0.05, len(estimator.cover_))
            exact = np.concatenate([[0.0], counts.cumsum() / counts.sum()])
            queries = Queries(
                lambda first, last, n=cells: np.arange(n) < np.arange(first, last)[:, None], cells + 1, cells
            )
            misses += np.abs(estimator.answer(queries) - exact).max() > bound
            pools.append(estimator.pool_ // (cells // 20))
            assert set(estimator.cells_) <= set(estimator.pool_)
        bounds.add(bound)
    assert stats.binom.sf(9, 20, 0.05) < 1e-7
    assert misses <= 9
    assert len(bounds) == 1
    pool = estimator.pool_size(6)
    rest = (0.05 - stats.binom.cdf(5, pool, 0.5)) / 2
    slack = 2 * (math.log(math.comb(pool, 6)) - math.log(rest)) / 20_000
    assert bound == pytest.approx(math.sqrt(math.log(2 * 21 / rest) / 12) + slack + 0.05, rel=1e-9)
    assert stats.chisquare(np.bincount(np.concatenate(pools), minlength=20)).pvalue > 1e-6


def test_smooth_small_db_kept_cells_are_draws_from_the_data():
    """The lemma on a small domain, 20,000 pools: the first kept cell has the data's law (chi-square at 1e-6).

    Too few are kept as often as the binomial says, to 5 standard errors: false alarm below 1e-6.
    """
    law, sigma, pool = np.array([0.5, 0.25, 0.25, 0.0]), 0.5, 6
    draws = rng(7)
    cells = draws.integers(4, size=(20_000, pool))
    kept = draws.random(cells.shape) < sigma * law[cells] * 4
    some = kept.any(1)
    first = cells[np.arange(20_000), kept.argmax(1)][some]
    assert stats.chisquare(np.bincount(first, minlength=4)[:3], some.sum() * law[:3]).pvalue > 1e-6
    assert not (first == 3).any()
    few = stats.binom.cdf(1, pool, sigma)
    assert abs((kept.sum(1) < 2).mean() - few) < 5 * math.sqrt(few / 20_000)


# ------------------------------------------------------------------------------------------------------------- audits


def outcomes(estimator, counts, queries, fits):
    """Each round's selection and its answer's half of the query range; or the cells of a small database."""
    seen = []
    for _ in range(fits):
        estimator.fit(counts, queries)
        if isinstance(estimator, SmallDB):
            seen.append(estimator.cells_[:, None])
            continue
        low, high = estimator.query_range
        upper = estimator.measured_ > (low + high) / 2
        seen.append(np.stack([estimator.selected_, upper], -1))
    columns = ("cell",) if isinstance(estimator, SmallDB) else ("query", "answer")
    return Outcomes(np.array(seen), np.ones(fits, dtype=np.int64), columns=columns)


def audit(make_estimator, fits):
    """Two neighbours of 6 records: one leaves the first cell for the last, so q rises by 2 counts and q' falls by 2."""
    queries = np.array([[-1, -1, 1], [1, -1, -1]])
    zero, one = (
        outcomes(make_estimator(seed), counts, queries, fits) for seed, counts in ((1, [3, 0, 3]), (2, [2, 0, 4]))
    )
    everything = Histogram(lambda seen: seen.symbols.reshape(seen.num_games, -1) @ 3 ** np.arange(seen.symbols[0].size))
    return judge(zero, one, 0.0, 0.99, statistics=[everything])


def test_audits_accuse_no_honest_fit_and_catch_the_wrong_sensitivity():
    """1,600 fits a world at 99%: an honest one is accused with probability at most 1%, with these seeds never.

    Two fits of MWEM at epsilon = 2 whose sensitivity is 1 for queries in [-1, 1] spend 4: the audit shows more than 2.
    """
    given = {"epsilon": 2.0, "query_range": (-1, 1)}
    for rounds, least in ((1, 0.5), (2, 0.2)):
        honest = audit(lambda seed, rounds=rounds: make(MWEM, 3, seed, rounds=rounds, **given), 1600)
        assert least < honest.epsilon_lower <= 2.0
    wrong = audit(lambda seed: make(Insensitive, 3, seed, rounds=1, **given), 1600)
    assert wrong.epsilon_lower > 2.0
    small = audit(lambda seed: make(SmallDB, 3, seed, records=2, **given), 1600)
    assert 0.1 < small.epsilon_lower <= 2.0


def test_shares_never_exceed_the_budget_in_exact_arithmetic():
    """The accounting's own share is at most the asked one; ours books what is left last."""
    for rounds in (3, 7, 11):
        assert share(1.0, 2 * rounds) <= make(MWEM, 2, rounds=rounds, size=5).plan(2).share


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [[[1], [1, 2]], "x", 10**400, 1j, None])
def test_what_is_no_array_is_named(bad):
    matrix = np.eye(4)
    estimator = MWEM(4, rounds=2, rng=np.random.default_rng(0))
    calls = {
        "histogram": lambda: estimator.fit(bad, matrix),
        "queries": lambda: estimator.fit([1, 2, 3, 4], bad),
        "bits": lambda: Queries.packed(bad, 4),
        "records": lambda: mwem.histogram(bad, [[0, 1, 2]]),
        "weights": lambda: Queries.from_matrix(matrix).answers(bad, (0.0, 1.0)),
        "edges": lambda: mwem.histogram([1.0], bad),
        "pool": lambda: SmoothSmallDB(4, 0.5, records=2, size=5, rng=np.random.default_rng(0)).candidates(3, pool=bad),
    }
    if bad is not None:
        calls["law"] = lambda: estimator.selection_log_probabilities([1, 2, 3, 4], matrix, bad)
    for name, call in calls.items():
        with pytest.raises(ArgumentError, match=name):
            call()


@pytest.mark.parametrize("rows", [(-1, 1), (2, 2), (0, 5), (4, 5), (None, 1), (0.0, 1), ("x", 1)])
def test_rows_that_there_are_not_are_refused(rows):
    with pytest.raises(ArgumentError, match=r"first|last"):
        Queries.from_matrix(np.eye(4)).rows(*rows, (0.0, 1.0))
    with pytest.raises(ArgumentError, match="query_range"):
        Queries.from_matrix(np.eye(4)).rows(0, 1, (0.0, *rows))


def test_a_pool_of_other_cells_is_refused():
    estimator = SmoothSmallDB(4, 0.5, records=2, size=5, rng=np.random.default_rng(0))
    for bad in ([-1, 0, 1], [0, 4, 1]):
        with pytest.raises(ArgumentError, match=r"pool: expected cells 0\.\.3"):
            estimator.candidates(3, pool=bad)
    for bad in (0, -1, 1.5, "x", {}, 10**12):
        with pytest.raises(ArgumentError, match="records"):
            estimator.pool_size(bad)
        with pytest.raises(ArgumentError, match="records"):
            SmoothSmallDB(4, 0.5, records=bad, rng=np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="sigma"):
        SmoothSmallDB(4, 5e-324, rng=np.random.default_rng(0))


@pytest.mark.parametrize("delta", [1e-300, 5e-324])
def test_a_budget_that_rounding_loses_is_not_spent_as_more(delta):
    """With next to no budget the release is made all the same, and what is spent is within it."""
    estimator = MWEM(4, 1e-300, delta, rounds=2, rng=np.random.default_rng(0)).fit([1, 2, 3, 4], np.eye(4))
    assert estimator.plan_.kind == "epsilon"
    assert estimator.plan_.budget == 1e-300
    assert estimator.error_bound(0.05, 4) > 1.0


def test_a_budget_that_overflows_draws_the_best():
    estimator = SmallDB(4, 1e308, records=2, rng=np.random.default_rng(0)).fit([5, 0, 0, 5], np.eye(4))
    np.testing.assert_array_equal(estimator.law_, [0.5, 0.0, 0.0, 0.5])
