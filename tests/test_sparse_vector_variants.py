"""The example of the sparse-vector variants: each mechanism is the published one, the wrong ones alone are caught."""

import functools
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

PATH = Path(__file__).resolve().parents[1] / "examples" / "sparse_vector_variants.py"
spec = importlib.util.spec_from_file_location("sparse_vector_variants", PATH)
example = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = example
spec.loader.exec_module(example)

VARIANTS = example.VARIANTS
HONEST, BROKEN = (0, 1), (2, 3, 4, 5)
GAMES = 50_000


def law(variant, queries, threshold, epsilon, c, answers):
    """Probability of answers (0 below, 1 above) that none halts before, by quadrature over the threshold noise."""

    def given(level, remaining):
        """Product over the answers up to the next renewal, then the rest with a fresh threshold."""
        product = 1.0
        for place, (query, above) in enumerate(remaining):
            scale = variant.query_scale(epsilon, c)
            reach = stats.laplace.sf(level - query, scale=scale) if scale else float(query >= level)
            product *= reach if above else 1.0 - reach
            if above and variant.renews:
                return product * (over(remaining[place + 1 :]) if remaining[place + 1 :] else 1.0)
        return product

    @functools.cache
    def over(remaining):
        scale = variant.threshold_scale(epsilon, c)
        breaks = sorted({threshold, *(query for query, _ in remaining)})
        return integrate.quad(
            lambda level: stats.laplace.pdf(level, threshold, scale) * given(level, remaining),
            threshold - 30 * scale,
            threshold + 30 * scale,
            points=breaks,
            limit=200,
        )[0]

    return over(tuple(zip(queries, answers, strict=True)))


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("answers", [(0, 0, 1), (0, 1, 1), (1, 0, 0)])
def test_each_variant_answers_by_its_law(number, answers):
    """100,000 games; a frequency is off by 5.5 standard errors with probability 4e-8 each."""
    variant, games = VARIANTS[number], 100_000
    queries = np.array([0.0, 1.0, 0.3])
    found = variant(queries, 0.5, 1.0, 2, np.random.default_rng(number), games)
    seen = found.symbols[:, :, -1]
    frequency = (seen == answers).all(1).mean()
    truth = law(variant, queries, 0.5, 1.0, 2, answers)
    # Without query noise the answers are those of one threshold: a larger query is not below where a smaller is above.
    assert 0.01 < truth < 0.5 or (number == 4 and truth == 0.0)
    assert abs(frequency - truth) <= 5.5 * math.sqrt(truth * (1.0 - truth) / games)


@pytest.mark.parametrize("number", range(6))
def test_halting_and_releasing(number):
    variant = VARIANTS[number]
    found = variant(np.full(40, 5.0), 0.5, 1.0, 3, np.random.default_rng(0), 500)
    answers = found.symbols[:, :, -1]
    above, halted = (answers == example.ABOVE).sum(1), answers == example.HALTED
    if variant.halts:
        assert above.max() == 3
        assert np.array_equal(halted, np.pad((answers == example.ABOVE).cumsum(1) >= 3, ((0, 0), (1, 0)))[:, :-1])
    else:
        assert above.max() > 20
        assert not halted.any()
    assert found.columns == (("released", "answer") if variant.releases else ("answer",))
    if variant.releases:
        assert np.array_equal(found.symbols[:, :, 0] > 0, answers == example.ABOVE)


def test_the_lists_are_neighbours():
    assert np.abs(example.QUERIES - example.NEIGHBOUR).max() <= 1.0
    assert [variant.truth(1.0, 1) > 1.0 for variant in VARIANTS] == [number in BROKEN for number in range(6)]


@pytest.mark.parametrize("number", BROKEN)
def test_the_broken_ones_are_caught_within_fifty_thousand_games(number):
    """Each bound holds with confidence 99.9%; a mechanism of epsilon 1 would pass with probability 1e-3 at most."""
    found = example.audit(VARIANTS[number], GAMES, seed=number)
    assert found.epsilon_lower > example.EPSILON
    assert found.epsilon_lower <= min(VARIANTS[number].truth(example.EPSILON, example.CUTOFF), found.epsilon_limit)


@pytest.mark.parametrize("number", HONEST)
def test_the_correct_ones_are_not_accused(number):
    """40 audits at 95%: at most 5% and three standard errors (6) above epsilon; more has probability 3e-3 at most."""
    found = [
        example.audit(VARIANTS[number], 2_000, seed=seed, confidence=0.95).epsilon_lower for seed in range(100, 140)
    ]
    assert sum(bound > example.EPSILON for bound in found) <= 6
    large = example.audit(VARIANTS[number], 200_000, seed=9, confidence=1.0 - 1e-8)
    assert 0.5 < large.epsilon_lower <= example.EPSILON


def test_the_example_prints_one_table(capsys):
    example.main()
    printed = capsys.readouterr().out
    assert printed.count("not accused") == 2
    assert printed.count("caught at") == 4
    for variant in VARIANTS:
        assert variant.source in printed
