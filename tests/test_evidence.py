"""The evidence: sound by exact enumeration and on null worlds, tight on randomised response, and where it looks."""

import math
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_experts_env.privacy import evidence
from dp_experts_env.privacy.evidence import bounds, scores
from dp_experts_env.privacy.evidence.choice import Event
from dp_experts_env.spec import ArgumentError, MissingExtraError

LN3 = math.log(3.0)


def outcomes(symbols, challenge=None, score=None):
    """Outcomes from an integer array ``(G,)``, ``(G, T)`` or ``(G, T, C)``; no challenge if none is given."""
    symbols = np.asarray(symbols)
    symbols = symbols.reshape(*symbols.shape, *[1] * (3 - symbols.ndim))
    challenge = np.broadcast_to(0 if challenge is None else challenge, len(symbols))
    names = tuple(f"column{number}" for number in range(symbols.shape[2] - 1))
    return evidence.Outcomes(symbols, challenge, score, (*names, "choice"))


def randomised_response(epsilon, games, seed):
    """The two worlds of one bit that is told truly with probability e^epsilon / (1 + e^epsilon)."""
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    first, second = np.random.default_rng(seed).spawn(2)
    return outcomes((first.random(games) < truth) * 1), outcomes((second.random(games) >= truth) * 1)


# -- counts to a bound -------------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.floats(0.0, 1.0), st.floats(1e-6, 0.5))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_clopper_pearson_is_the_inverse_of_the_binomial_tails(trials, share, alpha):
    hits = round(share * trials)
    low, high = evidence.clopper_pearson(hits, trials, alpha)
    assert 0.0 <= low <= hits / trials <= high <= 1.0
    # They are moved outwards by a relative 1e-9.
    tails = [1.0 if hits == 0 else alpha, 1.0 if hits == trials else alpha]
    found = [stats.binom.sf(hits - 1, trials, low), stats.binom.cdf(hits, trials, high)]
    assert found == pytest.approx(tails, rel=1e-2)
    assert found[0] <= tails[0] * (1.0 + 1e-9)
    assert found[1] <= tails[1] * (1.0 + 1e-9)
    exact = stats.binomtest(hits, trials).proportion_ci(1.0 - 2.0 * alpha, "exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 0.15])
@pytest.mark.parametrize("expected", [None, (0.9, 0.1), (0.2, 0.2), (1.0, 0.0), (0.0, 1.0), (0.3, 0.6)])
def test_the_bound_covers_whatever_was_expected(expected, delta):
    """Exact: all counts of 11 and 8 games enumerated, over a grid of probabilities, at 90%."""
    trials, alpha = (11, 8), 0.1
    found = np.array(
        [
            [evidence.lower_bound((h0, h1), trials, delta, 1.0 - alpha, expected) for h1 in range(trials[1] + 1)]
            for h0 in range(trials[0] + 1)
        ]
    )
    assert (np.diff(found, axis=0) >= 0.0).all()
    assert (np.diff(found, axis=1) <= 0.0).all()
    worst = 0.0
    for p1 in np.linspace(0.02, 0.98, 25):
        for p0 in np.linspace(0.02, 0.98, 25):
            # Positive bounds that exceed what the two probabilities allow are errors.
            truth = max(math.log(max(p0 - delta, 1e-300) / p1), 0.0)
            law = np.outer(stats.binom.pmf(range(12), 11, p0), stats.binom.pmf(range(9), 8, p1))
            worst = max(worst, law[found > truth].sum())
    assert worst <= alpha
    # So few games have few different bounds; without any error nothing would be tested.
    assert worst > (0.2 if expected == (0.9, 0.1) else 0.01) * alpha


@given(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    st.tuples(st.integers(1, 5000), st.integers(1, 5000)),
    st.sampled_from([0.0, 1e-6, 0.1, 0.9]),
    st.sampled_from([1e-6, 0.05, 0.5]),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_region_spends_the_error_and_no_more(rates, trials, delta, alpha):
    lower, upper = bounds._staircase(rates, trials, delta, alpha)
    widths = np.diff(np.append(lower, 1.0))
    assert (upper[1:] <= upper[:-1]).all(), "a region that is not closed downwards has no such error"
    area = lower[0] + widths @ upper
    assert area <= alpha
    assert (upper >= bounds.SMALLEST_SHARE * alpha).all()


@pytest.mark.parametrize(("rates", "trials"), [((0.75, 0.25), 5000), ((0.3, 0.05), 200), ((0.02, 0.001), 20_000)])
def test_expecting_what_comes_gains_over_the_even_split(rates, trials):
    hits, games = (round(rates[0] * trials), round(rates[1] * trials)), (trials, trials)
    even = evidence.lower_bound(hits, games, 0.0, 0.95)
    shaped = evidence.lower_bound(hits, games, 0.0, 0.95, rates)
    truth = math.log(hits[0] / hits[1])
    assert even < shaped < truth
    assert truth - shaped < 0.8 * (truth - even)
    low, high = evidence.clopper_pearson(hits[0], trials, 0.025)[0], evidence.clopper_pearson(hits[1], trials, 0.025)[1]
    assert even == pytest.approx(math.log(low / high), rel=1e-12)


@pytest.mark.parametrize("trials", [10, 1000, 500_000])
def test_the_limit_is_what_a_sure_event_shows(trials):
    limit = evidence.epsilon_limit((trials, trials), 0.0, 0.95)
    even = evidence.lower_bound((trials, 0), (trials, trials), 0.0, 0.95)
    # With the whole error for the world without hits.
    most = -math.log(-math.expm1(math.log(0.05) / trials))
    assert even < limit < most < limit + 0.15
    assert evidence.epsilon_limit((trials, 2 * trials), 0.0, 0.95) > limit
    assert evidence.epsilon_limit((trials, 2 * trials), 0.0, 0.95) == evidence.epsilon_limit(
        (2 * trials, trials), 0.0, 0.95
    )
    assert evidence.epsilon_limit((trials, trials), 0.5, 0.95) == pytest.approx(limit - math.log(2.0), abs=0.3)


def test_nothing_is_shown_by_as_many_hits_or_a_large_delta():
    assert evidence.lower_bound((50, 50), (100, 100), 0.0, 0.95) == 0.0
    assert evidence.lower_bound((0, 50), (100, 100), 0.0, 0.95, (0.0, 0.5)) == 0.0
    assert evidence.lower_bound((50, 0), (100, 100), 0.6, 0.95, (0.5, 0.0)) == 0.0
    assert evidence.epsilon_limit((1, 1), 0.99, 0.95) == 0.0


def poisson_binomial(probabilities):
    """Exact law of the number of successes among independent trials of these probabilities."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1.0 - p, p])
    return law


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
@pytest.mark.parametrize(
    "mixture",
    [(0.0, 0.05), (1.0, 0.97), (0.0, 1.0), (0.9, 0.1), (0.5, 0.5), (0.99, 0.3), (0.0, 0.002), (1.0, 0.998)],
)
def test_games_of_different_laws_are_covered(mixture, confidence):
    """Exact: half of 12 games at one probability, half at another, in both worlds, epsilon = 0 and ln 2.

    The bound exceeds the true log-ratio of the means with probability at most 1 - confidence.
    """
    first = [mixture[game % 2] for game in range(12)]
    for factor in (1.0, 0.5):
        laws = [poisson_binomial(first), poisson_binomial([factor * p for p in first])]
        truth = -math.log(factor) + 1e-12
        wrong = 0.0
        for hits0, weight0 in enumerate(laws[0]):
            for hits1, weight1 in enumerate(laws[1]):
                found = evidence.lower_bound((hits0, hits1), (12, 12), 0.0, confidence, (0.9, 0.1), identical=False)
                wrong += weight0 * weight1 * (found > truth)
        assert wrong <= 1.0 - confidence


def test_games_of_different_laws_are_judged_with_care():
    worlds = [
        evidence.Outcomes(
            np.tile([[[0]], [[1]]], (50, 1, 1)) if world else np.ones((100, 1, 1), dtype=np.int64),
            np.ones(100, dtype=np.int64),
            identical=False,
        )
        for world in (0, 1)
    ]
    assert not worlds[0].part(slice(3)).identical
    found = evidence.judge(*worlds)
    us, them = found.event.favoured, 1 - found.event.favoured
    counts = (found.hits[us], found.hits[them]), (found.trials[us], found.trials[them])
    assert found.epsilon_lower == evidence.lower_bound(*counts, 0.0, 0.95, identical=False)
    assert found.epsilon_lower < evidence.lower_bound(*counts, 0.0, 0.95)


def test_games_of_different_laws_must_be_as_many_in_both_worlds():
    """Game g shows whether g < 100, in both worlds: nothing leaks, but 100 games of one world are all alike."""
    shown = (np.arange(400) < 100).astype(np.int64)[:, None, None]
    many, few = (
        evidence.Outcomes(shown[:games], np.ones(games, dtype=np.int64), identical=False) for games in (400, 100)
    )
    event = evidence.choose_event(many, few)
    for worlds in ((many, few), (few, many)):
        with pytest.raises(ArgumentError, match="expected as many games as of world 0"):
            evidence.count_event(event, *worlds)
        with pytest.raises(ArgumentError, match="expected as many games as of world 0"):
            evidence.judge(*worlds)
    assert evidence.count_event(event, many, many).epsilon_lower == 0.0


@pytest.mark.parametrize("horizon", [1, 2])
def test_games_of_one_or_two_rounds(horizon):
    worlds = [evidence.Outcomes(np.full((40, horizon, 1), world), np.full(40, 1)) for world in (0, 1)]
    assert evidence.judge(*worlds).epsilon_lower > 1.0


# -- soundness and tightness of whole audits ---------------------------------------------------------------------------


def test_null_worlds_are_rarely_accused():
    """400 audits at 95%: at most 5% and three standard errors (33) may be wrong.

    More have probability at most 2e-3 if the error is exactly 5%, and less since it is below 5% (counts are discrete).
    """
    rng = np.random.default_rng(26)
    wrong = 0
    for _ in range(400):
        zero, one = (outcomes(rng.integers(3, size=(120, 2)), 1, rng.normal(size=120)) for _ in range(2))
        wrong += evidence.judge(zero, one).epsilon_lower > 0.0
    assert 0 < wrong <= 33


def test_the_best_of_many_thresholds_on_the_same_games_often_accuses_null_worlds():
    """What :func:`judge` avoids: the best of 999 thresholds, counted in the games that chose it.

    400 audits of 1,000 games a world at a nominal 95%: more than 10% (40) are wrong, twice what is claimed. The rate
    is about 0.15: fewer than 41 would have probability 3e-3.
    """
    rng = np.random.default_rng(27)
    levels = stats.norm.ppf(np.arange(1, 1000) / 1000)
    wrong = 0
    for _ in range(400):
        hits = [1000 - np.searchsorted(np.sort(rng.normal(size=1000)), levels) for _ in range(2)]
        low, high = ([limit(hit, 1000, 0.025) for hit in hits] for limit in (bounds._low, bounds._high))
        wrong += bool((low[0] > high[1]).any() or (low[1] > high[0]).any())
    assert wrong > 40


def test_randomised_response_is_bounded_by_its_epsilon_and_closely():
    """200 audits at 95%, 10,000 games a world: at most 5% and three standard errors (19) above ln 3.

    More has probability at most 4e-3 if the error is exactly 5%. The mean is about 1.049 with standard error 0.002.
    """
    found = np.array([evidence.judge(*randomised_response(LN3, 10_000, seed)).epsilon_lower for seed in range(200)])
    assert (found > LN3).sum() <= 19
    assert found.mean() >= 1.03
    assert (found > 0.0).all()


def test_a_million_games_show_99_percent_of_randomised_response():
    """The mean of four is 0.996 ln 3 with standard error 0.0012 ln 3: below 0.99 with probability about 1e-6."""
    found = [evidence.judge(*randomised_response(LN3, 1_000_000, seed)) for seed in range(4)]
    assert np.mean([item.epsilon_lower for item in found]) >= 0.99 * LN3
    assert found[0].trials == (500_000, 500_000)


@pytest.mark.parametrize("delta", [0.0, 0.05, 0.2])
def test_a_coin_that_leaks_at_times_is_found_unless_delta_allows_for_it(delta):
    """With probability 0.05 the world itself is told, else randomised response at ln 3: (ln 3, 0.05)-DP, exactly.

    At delta=0 no epsilon holds; at 0.2 the best event has epsilon ln((0.05 + 0.95 * 3/4 - 0.2) / (0.95 / 4)). Bounds
    at confidence 1 - 1e-8: wrong with at most that probability.
    """
    games = 100_000
    worlds = []
    for bit, rng in enumerate(np.random.default_rng(7).spawn(2)):
        told = np.where(rng.random(games) < 0.75, bit, 1 - bit)
        worlds.append(outcomes(np.where(rng.random(games) < 0.05, 2 + bit, told)))
    found = evidence.judge(*worlds, delta, 1.0 - 1e-8)
    if delta == 0.0:
        assert found.epsilon_lower > 4.0
        assert min(found.hits) == 0
        assert str(found.event).partition(" ")[0] in ("choice", "number")
    else:
        truth = LN3 if delta == 0.05 else math.log((0.05 + 0.95 * 0.75 - 0.2) / (0.95 / 4))
        assert 0.9 * truth < found.epsilon_lower < truth


def test_the_bound_of_two_gaussians_stays_under_their_curve_and_near_it():
    """Scores N(1, 1) and N(0, 1), delta = 0.01: epsilon solves Phi(1/2 - e) - exp(e) Phi(-1/2 - e) = 0.01."""
    from scipy.optimize import brentq

    truth = brentq(lambda e: stats.norm.cdf(0.5 - e) - math.exp(e) * stats.norm.cdf(-0.5 - e) - 0.01, 0.0, 10.0)
    rng = np.random.default_rng(3)
    zero, one = (outcomes(np.zeros(400_000, int), score=rng.normal(mean, size=400_000)) for mean in (1.0, 0.0))
    found = evidence.judge(zero, one, 0.01, 1.0 - 1e-8)
    assert 0.85 * truth < found.epsilon_lower < truth
    assert "given score" in str(found.event)


@pytest.mark.parametrize("games", [16, 60, 1000])
def test_a_sure_event_reaches_the_limit(games):
    found = evidence.judge(outcomes(np.zeros(games, int)), outcomes(np.ones(games, int)))
    assert found.epsilon_lower == found.epsilon_limit
    assert set(found.hits) == {0, games - games // 2}


def test_an_infinite_score_is_an_event():
    rng = np.random.default_rng(0)
    scored = [np.where(rng.random(2000) < 0.3, sign * math.inf, rng.normal(size=2000)) for sign in (1, -1)]
    zero, one = (outcomes(np.zeros(2000, int), score=score) for score in scored)
    found = evidence.judge(zero, one)
    assert abs(found.event.threshold) == math.inf
    assert found.epsilon_lower > 4.0
    assert min(found.hits) == 0


worlds = st.integers(0, 2**32 - 1).flatmap(
    lambda seed: st.tuples(st.just(seed), st.integers(4, 60), st.integers(4, 60), st.booleans(), st.booleans())
)


@given(worlds)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_swapping_the_worlds_changes_their_names_alone(drawn):
    seed, first, second, scored, skewed = drawn
    rng = np.random.default_rng(seed)
    pair = []
    for games, chance in ((first, 0.5), (second, 0.9 if skewed else 0.5)):
        symbols = (rng.random((games, 4, 2)) < chance) * rng.integers(1, 3, size=(games, 4, 2))
        pair.append(outcomes(symbols, rng.integers(0, 5, size=games), rng.normal(size=games) if scored else None))
    here, there = evidence.judge(*pair, 0.01), evidence.judge(*pair[::-1], 0.01)
    assert here.epsilon_lower == there.epsilon_lower
    assert here.epsilon_limit == there.epsilon_limit
    assert (here.hits, here.trials) == (there.hits[::-1], there.trials[::-1])
    assert (str(here.event), here.event.expected) == (str(there.event), there.event.expected[::-1])
    assert here.event.favoured == 1 - there.event.favoured or here.event.expected == (1.0, 1.0)


def test_equal_halves_favour_no_world():
    rng = np.random.default_rng(1)
    same = rng.integers(2, size=(50, 3))
    zero, one = (outcomes(np.concatenate([same, np.full((50, 3), value)])) for value in (0, 1))
    assert evidence.judge(zero, one).epsilon_lower == 0.0
    assert evidence.judge(one, zero).epsilon_lower == 0.0


def test_the_counted_games_do_not_choose():
    rng = np.random.default_rng(2)
    zero, one = rng.integers(3, size=(300, 4)), rng.integers(2, size=(300, 4))
    seen = evidence.judge(outcomes(zero), outcomes(one)).event
    zero[150:], one[150:] = 0, 1
    again = evidence.judge(outcomes(zero), outcomes(one)).event
    assert (str(seen), seen.favoured, seen.expected) == (str(again), again.favoured, again.expected)
    fresh = evidence.judge(outcomes(zero), outcomes(one), counted=(outcomes(zero[150:]), outcomes(one[150:])))
    assert fresh.hits == evidence.judge(outcomes(zero), outcomes(one)).hits


# -- what is looked at -------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=25)
def test_rounds_and_offsets_are_the_symbols_read_in_order(seed, same):
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, rng.choice([2, 255, 256, 300]), size=(7, 5, 2))
    challenge = np.full(7, rng.integers(0, 6)) if same else rng.integers(0, 6, size=7)
    found = outcomes(symbols, challenge)
    assert found.symbols.dtype == (np.uint8 if symbols.max() < 256 else np.uint16)
    for game, column, row in np.ndindex(7, 2, 5):
        assert found.rounds[column, row, game] == symbols[game, row, column] + 1
        start = challenge[game] - 1
        seen = symbols[game, start + row, column] + 1 if start >= 0 and start + row < 5 else 0
        assert found.offsets[column, row, game] == seen


def test_every_table_counts_what_it_scores():
    """The quick tally of a table against the plain one, for every feature, on other games with unseen symbols."""
    rng = np.random.default_rng(4)
    fit = [outcomes(rng.integers(3, size=(80, 6, 2)), rng.integers(0, 7, size=80)) for _ in range(2)]
    other = outcomes(rng.integers(5, size=(60, 6, 2)), rng.integers(0, 7, size=60))
    found = list(evidence.Histogram().fit(*fit, rng))
    assert len(found) > 120
    assert len({score.name for score in found}) == len(found)
    for score in found:
        quick, plain = score.tally(other), scores.Score.tally(score, other)
        assert np.array_equal(quick[0], plain[0])
        assert np.array_equal(quick[1], plain[1])
        for value in quick[0][:2]:
            Event(score, value, True, 0, (0.5, 0.5)).__str__()


def test_an_event_told_value_by_value_is_the_event():
    rng = np.random.default_rng(5)
    fit = [outcomes(rng.integers(4, size=(200, 3))) for _ in range(2)]
    table = next(iter(evidence.Histogram().fit(*fit, rng)))
    values, _ = table.tally(fit[0])
    event = Event(table, float(values[1]), False, 0, (0.5, 0.5))
    name, _, listed = str(event).partition(": ")
    assert name == "choice in round 1"
    named = {int(symbol) for symbol in listed.split(" or ") if symbol != "unseen"}
    assert np.array_equal(event.occurs(fit[0]), np.isin(fit[0].symbols[:, 0, 0], list(named)))
    assert 0 < len(named) < 4


def test_a_chain_is_the_sum_of_smoothed_conditional_log_ratios():
    """Against dictionaries of counts, symbol by symbol."""
    rng = np.random.default_rng(6)
    fit = [rng.integers(2, size=(90, 4)) for _ in range(2)]
    other = rng.integers(2, size=(30, 4))
    chain = next(iter(evidence.Markov(orders=(1,), least=1).fit(*(outcomes(world) for world in fit), rng)))
    found = chain(outcomes(other))
    for game, row in zip(found, other, strict=True):
        total = 0.0
        for t in range(4):
            logs = []
            for world in fit:
                context = np.full(90, True) if t == 0 else world[:, t - 1] == row[t - 1]
                both = context & (world[:, t] == row[t])
                # Symbols are read plus 1, so that there are three.
                logs.append(math.log((both.sum() + 1) / (context.sum() + 3)))
            total += logs[0] - logs[1]
        assert game == pytest.approx(total, abs=1e-12)


def test_a_chain_sees_what_single_rounds_do_not():
    """World 1 repeats its last symbol with probability 0.7, world 0 with 0.3; each symbol alone is fair.

    The number of ones is spread more widely in world 1, which a chain of order 0 can see a little of.
    """
    rng = np.random.default_rng(8)
    pair = []
    for chance in (0.3, 0.7):
        repeats = rng.random((4000, 9)) < chance
        flips = np.concatenate([rng.integers(2, size=(4000, 1)), ~repeats], axis=1)
        pair.append(outcomes(flips.cumsum(1) % 2))
    blind = evidence.judge(*pair, statistics=[evidence.Markov(orders=(0,))])
    seeing = evidence.judge(*pair, statistics=[evidence.Markov(orders=(1,))])
    assert blind.epsilon_lower < 1.5
    assert seeing.epsilon_lower > 3.0
    assert "chain of order 1 of choice" in str(seeing.event)


def test_the_challenge_says_where_to_look():
    """A game's choice is fair but in the round after its challenge, which comes at random in ten rounds."""
    rng = np.random.default_rng(9)
    pair, games = [], np.arange(2000)
    for bit in (0, 1):
        symbols, challenge = rng.integers(2, size=(2000, 10)), rng.integers(1, 10, size=2000)
        symbols[games, challenge] = bit
        pair.append((symbols, challenge))
    told = evidence.judge(*(outcomes(*world) for world in pair))
    untold = evidence.judge(*(outcomes(symbols) for symbols, _ in pair))
    assert told.epsilon_lower == told.epsilon_limit
    assert "1 round after the challenge" in str(told.event)
    assert untold.epsilon_lower < 2.0


def test_what_came_before_the_challenge_is_context():
    """After the challenge world 1 repeats the symbol of the first round, world 0 the other one."""
    rng = np.random.default_rng(10)
    pair = []
    for bit in (0, 1):
        symbols = rng.integers(2, size=(1000, 3))
        symbols[:, 2] = symbols[:, 0] ^ bit
        pair.append(outcomes(symbols, 2))
    assert evidence.judge(*pair).epsilon_lower > 4.0


def test_a_feature_of_ones_own_and_a_classifier():
    """The parity of five fair bits is all that differs."""
    rng = np.random.default_rng(11)
    pair = []
    for bit in (0, 1):
        symbols = rng.integers(2, size=(6000, 5))
        symbols[:, 4] = symbols[:, :4].sum(1) % 2 ^ bit
        pair.append(outcomes(symbols))
    parity = evidence.Histogram(lambda seen: seen.symbols[:, :, 0].sum(1) % 2, "parity")
    own = evidence.judge(*pair, statistics=[parity])
    assert own.epsilon_lower == own.epsilon_limit
    assert "parity" in str(own.event)
    pytest.importorskip("sklearn")
    trees = evidence.judge(*pair, rng=np.random.default_rng(0), statistics=evidence.statistics(classifier=True)[-1:])
    assert trees.epsilon_lower > 3.0
    assert "classifier" in str(trees.event)
    again = evidence.judge(*pair, rng=np.random.default_rng(0), statistics=[evidence.Classifier()])
    assert (again.hits, again.epsilon_lower) == (trees.hits, trees.epsilon_lower)


def test_the_classifier_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    zero, one = randomised_response(1.0, 40, 0)
    with pytest.raises(MissingExtraError, match=r"dp-experts-env\[audit\]"):
        evidence.judge(zero, one, statistics=[evidence.Classifier()])


# -- events afterwards -------------------------------------------------------------------------------------------------


def test_an_event_is_kept_and_counted_again():
    zero, one = randomised_response(LN3, 5000, 1)
    found = evidence.judge(zero, one)
    kept = pickle.loads(pickle.dumps(found.event))
    assert np.array_equal(kept.occurs(zero), found.event.occurs(zero))
    assert found.hits == tuple(int(found.event.occurs(world.part(slice(2500, None))).sum()) for world in (zero, one))
    fresh = evidence.count_event(kept, *randomised_response(LN3, 40_000, 2))
    assert fresh.trials == (40_000, 40_000)
    assert found.epsilon_lower < fresh.epsilon_lower < LN3


@pytest.mark.parametrize("swapped", [False, True])
def test_the_trade_off_runs_from_nothing_to_all_through_the_event(swapped):
    rng = np.random.default_rng(12)
    zero, one = (outcomes(np.zeros(3000, int), score=rng.normal(mean, size=3000)) for mean in (1.0, 0.0))
    zero, one = (one, zero) if swapped else (zero, one)
    found = evidence.judge(zero, one)
    false_alarm, detection = evidence.trade_off(found.event, zero, one)
    for rate in (false_alarm, detection):
        assert (rate[0], rate[-1]) == (0.0, 1.0)
        assert (np.diff(rate) >= 0.0).all()
    us = found.event.favoured
    point = (found.hits[1 - us] / found.trials[1 - us], found.hits[us] / found.trials[us])
    assert point in set(zip(false_alarm, detection, strict=True))
    area = np.trapezoid(detection, false_alarm)
    assert area == pytest.approx(stats.norm.cdf(math.sqrt(0.5)), abs=0.04)
    short = found.curve(50)
    assert len(short[0]) == len(short[1]) <= 50
    assert (short[0][-1], short[1][-1]) == (1.0, 1.0)
    assert np.trapezoid(short[1], short[0]) == pytest.approx(area, abs=0.02)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"symbols": np.zeros((3, 2), int)}, "symbols: expected shape"),
        ({"symbols": np.zeros((0, 2, 1), int)}, "symbols: expected shape"),
        ({"symbols": np.zeros((3, 2, 1))}, "symbols: expected non-negative integers but found dtype float64"),
        ({"symbols": np.full((3, 2, 1), -1)}, "symbols: expected non-negative integers but found -1"),
        ({"challenge": np.zeros(2, int)}, r"challenge: expected integers of shape \(3,\)"),
        ({"challenge": np.array([0, 3, 1])}, r"challenge: expected a round in 1\.\.2, or 0 for none, but found 3"),
        ({"score": np.array([0.0, math.nan, 1.0])}, "score: expected numbers"),
        ({"score": np.zeros(4)}, "score: expected numbers"),
        ({"columns": ("coin", "choice")}, "columns: expected 1 names"),
    ],
)
def test_bad_outcomes_are_named(changes, message):
    good = {"symbols": np.zeros((3, 2, 1), int), "challenge": np.zeros(3, int)}
    assert evidence.Outcomes(**good).num_games == 3
    with pytest.raises(ArgumentError, match=message):
        evidence.Outcomes(**{**good, **changes})


def test_bad_arguments_are_named():
    good = outcomes(np.zeros((8, 2), int))
    with pytest.raises(ArgumentError, match="zero: expected at least 4 games but found 3"):
        evidence.judge(outcomes(np.zeros((3, 2), int)), good)
    with pytest.raises(ArgumentError, match="one: expected rounds, columns"):
        evidence.judge(good, outcomes(np.zeros((8, 3), int)))
    with pytest.raises(ArgumentError, match="one: expected Outcomes but found ndarray"):
        evidence.judge(good, np.zeros((8, 2)))
    with pytest.raises(ArgumentError, match="confidence"):
        evidence.judge(good, good, 0.0, 1.0)
    with pytest.raises(ArgumentError, match="delta"):
        evidence.judge(good, good, 1.0)
    with pytest.raises(ArgumentError, match="statistics: none of"):
        evidence.judge(good, good, statistics=[evidence.LikelihoodRatio()])
    with pytest.raises(ArgumentError, match="statistics: expected a sequence"):
        evidence.judge(good, good, statistics=evidence.Markov())
    with pytest.raises(ArgumentError, match=r"hits\[1\]"):
        evidence.lower_bound((1, 11), (10, 10), 0.0, 0.95)
    with pytest.raises(ArgumentError, match=r"trials\[0\]"):
        evidence.lower_bound((0, 0), (0, 10), 0.0, 0.95)
    with pytest.raises(ArgumentError, match=r"expected\[0\]"):
        evidence.lower_bound((1, 1), (10, 10), 0.0, 0.95, (math.nan, 0.5))
    with pytest.raises(ArgumentError, match="alpha"):
        evidence.clopper_pearson(1, 2, 0.0)
    with pytest.raises(ArgumentError, match="orders"):
        evidence.Markov(orders=())

    class Broken(scores.Score):
        name = "broken"

        def __call__(self, seen):
            return np.full(seen.num_games, math.nan)

    with pytest.raises(ArgumentError, match="broken: expected 8 numbers, no NaN"):
        Event(Broken(), 0.0, True, 0, (0.5, 0.5)).occurs(good)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keyword", "bad"),
    [(name, bad) for name in ("hits", "trials", "expected") for bad in (3, "", {}, (1,), (1, 2, 3), ("a", 1), (-1, 1))]
    + [("identical", np.zeros(2)), ("delta", 1.0), ("confidence", math.nan)],
)
def test_counts_that_are_none_are_refused(keyword, bad):
    good = {"hits": (3, 1), "trials": (5, 5), "delta": 0.0, "confidence": 0.95, "expected": (0.5, 0.2)}
    with pytest.raises(ArgumentError, match=keyword):
        evidence.lower_bound(**{**good, keyword: bad})
    if keyword == "trials":
        with pytest.raises(ArgumentError, match="trials"):
            evidence.epsilon_limit(bad, 0.0, 0.95)


def test_a_confidence_of_nearly_nothing_still_gives_a_bound():
    assert evidence.lower_bound((0, 0), (1, 1), 0.0, 1e-300, (0.0, 0.0)) == 0.0


@pytest.mark.parametrize(
    ("keyword", "bad"),
    [
        ("symbols", [[[1], [1, 2]]]),
        ("challenge", [1, [2]]),
        *(("score", bad) for bad in ("", 1j, 10**400, ["x"] * 4, [math.nan] * 4)),
        *(("columns", bad) for bad in (3, (3,), "x", None)),
        ("identical", None),
    ],
)
def test_outcomes_that_are_none_are_refused(keyword, bad):
    good = {"symbols": np.zeros((4, 2, 1), dtype=int), "challenge": np.zeros(4, dtype=int)}
    with pytest.raises(ArgumentError, match=keyword):
        evidence.Outcomes(**{**good, keyword: bad})


def test_what_is_no_event_is_refused():
    worlds = [outcomes(np.random.default_rng(seed).integers(0, 3, (40, 3))) for seed in (0, 1)]
    event = evidence.choose_event(*worlds)
    good = {"score": event.score, "threshold": 0.5, "above": True, "favoured": 0, "expected": (0.1, 0.2)}
    for keyword, bads in {
        "score": (None, "x"),
        "threshold": (None, "x", math.nan, np.zeros(2)),
        "above": (None, np.zeros(2)),
        "favoured": (-1, 2, "x", 0.5),
        "expected": (3, (0.1,), (0.1, 2.0)),
    }.items():
        for bad in bads:
            with pytest.raises(ArgumentError, match=keyword):
                Event(**{**good, keyword: bad})
    with pytest.raises(ArgumentError, match="event: expected an Event"):
        evidence.count_event("x", *worlds)
    with pytest.raises(ArgumentError, match="counted: expected one of each world"):
        evidence.judge(*worlds, counted=worlds[0])
    with pytest.raises(ArgumentError, match="trials"):
        evidence.choose_event(*worlds, trials=(0, 5))
    with pytest.raises(ArgumentError, match="zero: expected Outcomes"):
        evidence.trade_off(event, None, worlds[1])
    for points in (1, 0, -1, "x", 2.5):
        with pytest.raises(ArgumentError, match="points"):
            evidence.judge(*worlds).curve(points)


@pytest.mark.parametrize("statistic", [evidence.Histogram(), evidence.Markov()])
def test_an_event_of_longer_games_does_not_apply_to_shorter_ones(statistic):
    rng = np.random.default_rng(2)
    event = evidence.choose_event(*(outcomes(rng.integers(0, 3, (40, 6, 2))) for _ in "ab"), statistics=[statistic])
    with pytest.raises(ArgumentError, match="as many rounds and columns"):
        evidence.count_event(event, *(outcomes(rng.integers(0, 3, (40, 1))) for _ in "ab"))


def test_statistics_that_return_nonsense_are_named():
    worlds = [outcomes(np.random.default_rng(seed).integers(0, 3, (40, 3))) for seed in (0, 1)]

    class Odd(evidence.Statistic):
        def __init__(self, found):
            self.found = found

        def fit(self, zero, one, rng):
            return self.found

    class Wrong(evidence.Score):
        name = "wrong"

        def __call__(self, outcomes):
            return "x"

    for found in (None, 5, [5]):
        with pytest.raises(ArgumentError, match="statistics: expected scores"):
            evidence.choose_event(*worlds, statistics=[Odd(found)])
    with pytest.raises(ArgumentError, match="wrong: does not apply"):
        evidence.choose_event(*worlds, statistics=[Odd([Wrong()])])
    for feature in (lambda _: "x", lambda _: np.zeros(3, dtype=int), lambda found: found.symbols):
        with pytest.raises(ArgumentError, match=r"size: expected [0-9]+ integers"):
            evidence.choose_event(*worlds, statistics=[evidence.Histogram(lambda found, of=feature: of(found), "size")])
    with pytest.raises(ArgumentError, match="feature: expected a function"):
        evidence.Histogram(5)
    with pytest.raises(ArgumentError, match="orders"):
        evidence.Markov(5)
