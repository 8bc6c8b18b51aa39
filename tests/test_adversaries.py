"""The built-in opponents: what each does, against slow oracles, closed forms and the bounds its docstring proves."""

import copy
import itertools
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import dp_experts_env as dpe
from dp_experts_adversaries.adaptive import Foreseer, PunishLast, PunishLeader, PunishLikely, PunishUsed
from dp_experts_adversaries.oblivious import Alternating, Switching
from dp_experts_adversaries.replay import Replay
from dp_experts_adversaries.smooth import SmoothThreshold
from dp_experts_adversaries.stochastic import Bernoulli, Planted

ALL = {
    "alternating": Alternating,
    "bernoulli": Bernoulli,
    "foreseer": Foreseer,
    "planted": Planted,
    "punish_last": PunishLast,
    "punish_leader": PunishLeader,
    "punish_likely": PunishLikely,
    "punish_used": PunishUsed,
    "replay": Replay,
    "smooth_threshold": SmoothThreshold,
    "switching": Switching,
}
INSTANCES = [
    pytest.param(cls, keywords, id=f"{name}-{index}")
    for name, cls in ALL.items()
    for index, keywords in enumerate(({"horizon": 12}, *cls.examples))
]
ADAPTIVE = ("foreseer", "punish_last", "punish_leader", "punish_likely", "punish_used", "smooth_threshold")
STOCHASTIC = ("bernoulli", "planted")

exact = settings(derandomize=True, max_examples=60, deadline=None)


def begin(adversary, seed=0):
    adversary.np_random = np.random.default_rng(seed)
    adversary.reset()
    return adversary


def play_out(adversary, choices, seed=0):
    """Losses ``(T, ..., N)`` of a whole game in which the learner makes these choices ``(T, ...)``."""
    begin(adversary, seed)
    rows = []
    for chosen in choices:
        rows.append(np.array(adversary.emit()))
        adversary.see(chosen if np.ndim(chosen) else int(chosen))
    return np.array(rows)


def random_choices(cls, keywords, num_games=None, seed=5):
    adversary = cls(**keywords)
    shape = () if num_games is None else (num_games,)
    return np.random.default_rng(seed).integers(adversary.num_experts, size=(adversary.horizon, *shape))


def hoeffding(samples, false_alarm):
    """Deviation of a mean of this many independent numbers in [0, 1] with at most this two-sided probability."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * samples))


# -- all of them ---------------------------------------------------------------------------------------------------


def test_the_registry_holds_exactly_these():
    assert set(ALL) <= set(dpe.adversaries())
    for name, cls in ALL.items():
        assert dpe.adversary_class(name) is cls
        expected = "adaptive" if name in ADAPTIVE else "stochastic" if name in STOCHASTIC else "oblivious"
        assert cls().kind == expected
    assert SmoothThreshold(mode="oblivious").kind == "oblivious"


@pytest.mark.parametrize("name", ALL)
def test_docstrings_have_gymnasiums_headings(name):
    for heading in (
        "Description",
        "Action Space",
        "Observation Space",
        "Rewards",
        "Starting State",
        "Episode End",
        "Information",
        "Arguments",
        "Version History",
    ):
        assert any(line.strip().startswith("##") and heading in line for line in ALL[name].__doc__.splitlines())
    assert "L*" in ALL[name].__doc__


@pytest.mark.parametrize(("cls", "keywords"), INSTANCES)
@pytest.mark.parametrize("num_games", [None, 1, 3])
def test_blocks_equal_the_loop(cls, keywords, num_games):
    adversary = cls(num_games=num_games, **keywords)
    if not adversary.oblivious:
        begin(adversary)
        with pytest.raises(dpe.ProtocolError, match="adaptive"):
            adversary.emit_block(1)
        return
    loop = begin(adversary.clone())
    rows = np.stack([np.array(loop.emit()) for _ in range(loop.horizon)])
    for cuts in ([loop.horizon], [1] * loop.horizon, [loop.horizon // 3, loop.horizon - loop.horizon // 3]):
        blocks = begin(adversary.clone())
        parts = [np.array(blocks.emit_block(cut)) for cut in cuts if cut]
        assert np.array_equal(np.concatenate(parts), rows)
        assert blocks.round == blocks.horizon


@pytest.mark.parametrize(("cls", "keywords"), INSTANCES)
def test_a_batch_of_one_equals_the_single_game(cls, keywords):
    choices = random_choices(cls, keywords)
    single = play_out(cls(**keywords), choices)
    batch = play_out(cls(num_games=1, **keywords), choices[:, None])
    assert np.array_equal(batch.reshape(single.shape), single)


@pytest.mark.parametrize(("cls", "keywords"), INSTANCES)
def test_the_seed_is_all_the_randomness_and_arrays_are_fresh(cls, keywords):
    choices = random_choices(cls, keywords, num_games=4)
    adversary = cls(num_games=4, **keywords)
    rows = []
    begin(adversary, 3)
    for chosen in choices:
        rows.append(adversary.emit())
        adversary.see(chosen)
    assert np.array_equal(np.array(rows), play_out(pickle.loads(pickle.dumps(adversary)), choices, 3))
    assert np.array_equal(np.array(rows), play_out(adversary, choices, 3))
    assert all(not np.shares_memory(a, b) for a, b in itertools.pairwise(rows))


@pytest.mark.parametrize("name", ADAPTIVE)
def test_games_of_a_batch_do_not_touch_each_other(name):
    """Game 0 of a batch goes the same way whatever the learner does in game 1."""
    one = random_choices(ALL[name], {"num_experts": 4, "horizon": 30}, num_games=2)
    other = one.copy()
    other[:, 1] = (other[:, 1] + 1 + np.arange(30) % 3) % 4
    first, second = (play_out(ALL[name](num_experts=4, horizon=30, num_games=2), choices) for choices in (one, other))
    assert first.shape == (30, 2, 4)
    assert np.array_equal(first[:, 0], second[:, 0])
    assert np.array_equal(first[:, 1], second[:, 1]) == (name == "foreseer")


@pytest.mark.parametrize("cls", [Bernoulli, Planted, Switching])
def test_shared_sequences_are_kept_once(cls):
    game = {"num_experts": 5, "horizon": 40, "num_games": 3}
    shared, own = begin(cls(shared=True, **game)), begin(cls(**game))
    assert shared.emit_block(40).shape == (40, 5)
    block = own.emit_block(40)
    assert block.shape == (40, 3, 5)
    # Two games of 200 coins agree with probability below 1e-6: even in the most similar ones, realizable with the
    # same good expert, 160 fair coins agree with probability 2^-160.
    assert not np.array_equal(block[:, 0], block[:, 1])
    with pytest.raises(dpe.ArgumentError, match="shared"):
        cls(shared=1)


# -- stochastic ----------------------------------------------------------------------------------------------------


def test_bernoulli_frequencies_are_the_means():
    """20,000 independent rounds an expert; 4 Hoeffding intervals at 2.5e-7: false alarms below 1e-6."""
    means = [0.0, 0.2, 0.5, 1.0]
    block = begin(Bernoulli(means=means, num_experts=4, horizon=20_000)).emit_block(20_000)
    assert set(np.unique(block)) == {0.0, 1.0}
    assert np.abs(block.mean(0) - means).max() <= hoeffding(20_000, 2.5e-7)
    assert np.all(block[:, 0] == 0)
    assert np.all(block[:, 3] == 1)
    # Independent rounds and experts: the products of neighbours average to the products of their means.
    assert abs((block[:-1:2, 2] * block[1::2, 2]).mean() - 0.25) <= hoeffding(10_000, 5e-7)
    assert abs((block[:, 1] * block[:, 2]).mean() - 0.1) <= hoeffding(20_000, 5e-7)


def test_bernoulli_draws_its_means_once_a_game():
    """2,000 games of 5 means: Kolmogorov-Smirnov against the uniform law at level 1e-6."""
    batch = begin(Bernoulli(num_experts=5, horizon=3, num_games=2000))
    rates = batch.rates
    assert rates.shape == (2000, 5)
    assert stats.kstest(rates.ravel(), "uniform").pvalue > 1e-6
    batch.emit_block(3)
    assert batch.rates is rates
    batch.reset()
    assert not np.array_equal(batch.rates, rates)
    assert begin(Bernoulli(num_experts=5, num_games=3, shared=True)).rates.shape == (5,)


def test_bernoulli_draws_losses_with_the_drawn_means():
    """Given the means, 4,000 coins each for 20 of them; Hoeffding at 5e-8 each: false alarms below 1e-6."""
    batch = begin(Bernoulli(num_experts=4, horizon=4000, num_games=5))
    frequencies = batch.emit_block(4000).mean(0)
    assert np.abs(frequencies - batch.rates).max() <= hoeffding(4000, 5e-8)


@pytest.mark.parametrize(
    "means", [[0.5], [[0.5] * 3], [0.5, -0.1, 0.2], [0.5, float("nan"), 0.2], "half", [[1], [1, 2]], True]
)
def test_bernoulli_refuses_bad_means(means):
    with pytest.raises(dpe.ArgumentError, match="means"):
        Bernoulli(means=means, num_experts=3)


def test_planted_realizable():
    batch = begin(Planted(num_experts=6, horizon=200, num_games=400))
    totals = batch.emit_block(200).sum(0)
    assert np.all(np.take_along_axis(totals, batch.best_expert[:, None], -1) == 0)
    # Another expert attains 0 with probability 2^-200.
    assert np.array_equal(totals.argmin(-1), batch.best_expert)
    assert np.all((totals == 0).sum(-1) == 1)


def test_planted_expert_is_uniform_and_loses_what_it_should():
    """The best expert's index: chi-squared at 1e-6, 6,000 games. Total losses: 6,000 games of 50 rounds, hence
    300,000 coins of mean 0.1 and 900,000 of mean 0.6; Hoeffding at 5e-7 each."""
    batch = begin(Planted(best_loss=5.0, others=0.6, num_experts=4, horizon=50, num_games=6000))
    counts = np.bincount(batch.best_expert, minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-6
    block = batch.emit_block(50)
    best = np.take_along_axis(block, batch.best_expert[None, :, None], -1)[..., 0]
    assert abs(best.mean() - 0.1) <= hoeffding(300_000, 5e-7)
    assert abs((block.sum() - best.sum()) / 900_000 - 0.6) <= hoeffding(900_000, 5e-7)
    # Spread evenly: each of the 50 rounds at the same rate, 6,000 coins and 2e-8 each.
    assert np.abs(best.mean(1) - 0.1).max() <= hoeffding(6000, 2e-8)


@pytest.mark.parametrize(
    "keywords", [{"best_loss": -1}, {"best_loss": 51.0}, {"others": 1.5}, {"others": float("nan")}]
)
def test_planted_refuses(keywords):
    with pytest.raises(dpe.ArgumentError, match=next(iter(keywords))):
        Planted(horizon=100, **keywords)


def test_l_star_of_coins_lies_between_its_bounds():
    """E L* in [T min - sqrt(T ln N / 2), T min]: 2,000 games of T = 100, N = 20; L*/T in [0, 1], Hoeffding at 1e-6."""
    best = begin(Bernoulli(means=0.5, num_experts=20, horizon=100, num_games=2000)).emit_block(100).sum(0).min(-1)
    slack = 100 * hoeffding(2000, 1e-6)
    assert 50 - math.sqrt(100 * math.log(20) / 2) - slack <= best.mean() <= 50 + slack
    assert best.mean() < 45


# -- oblivious -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 9, 100, 1001])
@pytest.mark.parametrize("num_experts", [2, 3, 7])
def test_alternating_ruins_follow_the_leader(horizon, num_experts):
    foe = Alternating(num_experts=num_experts, horizon=horizon)
    match = dpe.play(dpe.make_learner("follow_the_leader"), foe, num_games=2, seed=0, record="choices")
    assert np.all(match.learner_loss == horizon)
    assert np.all(match.best_loss == horizon / 2)
    assert np.array_equal(match.choices[0], np.arange(horizon) % 2)


@pytest.mark.parametrize("num_experts", [2, 5])
def test_alternating_leaves_no_ties_to_break(num_experts):
    losses = begin(Alternating(num_experts=num_experts, horizon=50)).emit_block(50)
    totals = losses.cumsum(0)
    assert np.all((totals == totals.min(-1, keepdims=True)).sum(-1) == 1)
    # Whatever the first choice, every later leader loses 1.
    assert np.all(losses[1:][np.arange(49), totals[:-1].argmin(-1)] == 1)
    assert losses[0].min() == 0.5


def test_alternating_with_one_expert():
    assert begin(Alternating(num_experts=1, horizon=4)).emit_block(4)[:, 0].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("horizon", [1, 2, 3, 12, 23])
@pytest.mark.parametrize("switches", [0, 1, 4, 30])
def test_switching_changes_the_best_expert_at_even_spaces(horizon, switches):
    foe = Switching(switches=switches, good=0.0, bad=1.0, num_experts=3, horizon=horizon, num_games=5)
    best = begin(foe).emit_block(horizon).argmin(-1)
    assert foe.best_experts.shape == (switches + 1, 5)
    assert np.all(foe.best_experts[1:] != foe.best_experts[:-1])
    expected = [foe.best_experts[math.floor(t * (switches + 1) / horizon)] for t in range(horizon)]
    assert np.array_equal(best, expected)
    if switches < horizon:
        assert np.all((best[1:] != best[:-1]).sum(0) == switches)
        lengths = np.bincount([math.floor(t * (switches + 1) / horizon) for t in range(horizon)])
        assert lengths.max() - lengths.min() <= 1


def test_switching_frequencies():
    """2,000 games of 40 rounds and 3 experts: 80,000 good coins, 160,000 bad ones, Hoeffding at 4e-7 each; the first
    good expert and the change to the next, chi-squared at 1e-7 each."""
    foe = begin(Switching(switches=1, good=0.2, bad=0.7, num_experts=3, horizon=40, num_games=2000))
    block = foe.emit_block(40)
    leader = np.repeat(foe.best_experts, 20, axis=0)
    good = np.take_along_axis(block, leader[..., None], -1)
    assert abs(good.mean() - 0.2) <= hoeffding(80_000, 4e-7)
    assert abs((block.sum() - good.sum()) / 160_000 - 0.7) <= hoeffding(160_000, 4e-7)
    assert stats.chisquare(np.bincount(foe.best_experts[0], minlength=3)).pvalue > 1e-7
    hops = (foe.best_experts[1] - foe.best_experts[0]) % 3
    assert stats.chisquare(np.bincount(hops, minlength=3)[1:]).pvalue > 1e-7


@given(choices=arrays(np.int64, 24, elements=st.integers(0, 2)), switches=st.integers(0, 7), seed=st.integers(0, 9))
@exact
def test_switching_costs_a_learner_of_few_switches(choices, switches, seed):
    """The docstring's bound, exactly, at good = 0 and bad = 1, where losses are their means."""
    foe = Switching(switches=switches, good=0.0, bad=1.0, num_experts=3, horizon=24)
    losses = play_out(foe, choices, seed)
    learner = losses[np.arange(24), choices].sum()
    changes = (choices[1:] != choices[:-1]).sum()
    assert learner >= (24 // (switches + 1)) * ((switches + 1) // 2 - changes)


@pytest.mark.parametrize("keywords", [{"switches": -1}, {"switches": 1.5}, {"good": 0.6}, {"bad": 1.1}, {"good": -0.1}])
def test_switching_refuses(keywords):
    with pytest.raises(dpe.ArgumentError, match=next(iter(keywords))):
        Switching(**keywords)


# -- replay --------------------------------------------------------------------------------------------------------

MATRIX = np.random.default_rng(8).random((30, 4))


@pytest.mark.parametrize(
    ("name", "rounds", "experts", "best"),
    [
        ("tumour", 569, 257, 47),
        ("tumour_realizable", 522, 257, 0),
        ("temperature_2F", 8591, 22, 0),
        ("temperature_1F", 8591, 22, 8),
        ("rain", 1461, 53, 408),
    ],
)
def test_replay_bundled_games(name, rounds, experts, best):
    foe = Replay(name)
    assert (foe.horizon, foe.num_experts) == (rounds, experts)
    assert begin(foe).emit_block(rounds).sum(0).min() == best
    match = dpe.play(dpe.make_learner("uniform"), foe, num_games=3, seed=0)
    assert np.all(match.best_loss == best)


@pytest.mark.parametrize("suffix", ["npy", "csv", "parquet"])
def test_replay_files(tmp_path, suffix):
    import pandas as pd

    path = tmp_path / f"losses.{suffix}"
    frame = pd.DataFrame(MATRIX, columns=list("abcd"))
    if suffix == "npy":
        np.save(path, MATRIX)
    elif suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    foe = begin(Replay(str(path)))
    assert np.array_equal(foe.emit_block(30), MATRIX)
    again = pickle.loads(pickle.dumps(Replay(path, horizon=20)))
    assert np.array_equal(begin(again).emit_block(20), MATRIX[:20])


def test_replay_emits_slices_without_copying():
    foe = begin(Replay(MATRIX, num_games=7))
    assert np.array_equal(foe.emit(), MATRIX[0])
    block = foe.emit_block(10)
    assert np.shares_memory(block, MATRIX)
    assert np.array_equal(block, MATRIX[1:11])
    assert not block.flags.writeable


def test_replay_copies_share_the_losses():
    foe = Replay(MATRIX, order="shuffled", horizon=20)
    for twin in (foe.clone(num_games=3), copy.copy(foe), copy.deepcopy(foe), Replay(foe), Replay(foe).clone()):
        assert twin._losses is foe._losses
        assert twin.parameters["source"] is foe._losses
    assert foe.clone(num_games=3).parameters == {**foe.parameters, "num_games": 3}
    assert foe.clone(source=MATRIX[:25, :2]).num_experts == 2
    assert "array (30, 4)" in repr(foe)
    named = Replay("tumour")
    assert named.clone()._losses is named._losses
    assert named.clone().parameters["source"] == "tumour"


def test_replay_pickles_the_name_or_one_copy_of_the_array():
    assert len(pickle.dumps(Replay("tumour"))) < 4000
    big = np.zeros((5000, 4))
    foe = Replay(big)
    assert big.nbytes < len(pickle.dumps(foe)) < big.nbytes + 4000
    twin = pickle.loads(pickle.dumps(foe))
    assert twin.parameters["source"] is twin._losses
    assert not begin(twin).emit_block(2).flags.writeable


def test_replay_refuses_a_file_that_changed_under_a_pickle(tmp_path):
    path = tmp_path / "losses.npy"
    np.save(path, MATRIX)
    saved = pickle.dumps(Replay(path))
    np.save(path, MATRIX[:10])
    with pytest.raises(dpe.ArgumentError, match="as when this was saved"):
        pickle.loads(saved)


def test_replay_shuffled():
    foe = begin(Replay(MATRIX, order="shuffled"))
    block = foe.emit_block(30)
    assert not np.array_equal(block, MATRIX)
    assert np.array_equal(block[np.argsort(block[:, 0])], MATRIX[np.argsort(MATRIX[:, 0])])
    foe.reset()
    assert not np.array_equal(foe.emit_block(30), block)
    begin(foe)
    assert np.array_equal(foe.emit_block(30), block)
    short = begin(Replay(MATRIX, order="shuffled", horizon=5)).emit_block(5)
    assert np.array_equal(short, block[:5])


def test_replay_shuffled_order_is_uniform():
    """The first row of 6,000 shuffles of 4: chi-squared at 1e-6."""
    foe = begin(Replay(np.arange(4)[:, None] / 4, order="shuffled"))
    firsts = []
    for _ in range(6000):
        foe.reset()
        firsts.append(int(4 * foe.emit()[0]))
    assert stats.chisquare(np.bincount(firsts, minlength=4)).pvalue > 1e-6


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"num_experts": 3}, "num_experts: expected 4"),
        ({"num_experts": 4.0}, "num_experts"),
        ({"horizon": 31}, "horizon: expected at most 30"),
        ({"horizon": 0}, "horizon"),
        ({"order": "suffled"}, "did you mean 'shuffled'"),
        ({"source": [[0.5, 1.5]]}, "round 1, expert 1"),
        ({"source": "tumor"}, "did you mean 'tumour'"),
        ({"source": "nowhere.csv"}, "no such file"),
    ],
)
def test_replay_refuses(keywords, message):
    with pytest.raises(dpe.ArgumentError, match=message):
        Replay(**{"source": MATRIX, **keywords})


def test_replay_takes_sizes_that_fit():
    foe = Replay(MATRIX, num_experts=4, horizon=12)
    assert (foe.num_experts, foe.horizon) == (4, 12)


# -- adaptive: against slow oracles --------------------------------------------------------------------------------

CHOICES = arrays(np.int64, st.tuples(st.integers(1, 14), st.just(3)), elements=st.integers(0, 4))


def charged_last(past, _):
    return past[-1:]


def charged_used(past, _):
    return set(past)


def charged_leader(past, _):
    return [max(range(5), key=lambda expert: (past.count(expert), -expert))]


def charged_likely(past, options):
    recent = past[max(0, len(past) - options["window"]) :]
    ranked = sorted(set(recent), key=lambda expert: (-recent.count(expert), expert))
    return ranked[: options["num_charged"]]


@pytest.mark.parametrize(
    ("cls", "charged", "options"),
    [
        (PunishLast, charged_last, {}),
        (PunishUsed, charged_used, {}),
        (PunishLeader, charged_leader, {}),
        (PunishLikely, charged_likely, {"window": 1, "num_charged": 1}),
        (PunishLikely, charged_likely, {"window": 4, "num_charged": 1}),
        (PunishLikely, charged_likely, {"window": 5, "num_charged": 3}),
        (PunishLikely, charged_likely, {"window": 99, "num_charged": 5}),
    ],
)
@given(choices=CHOICES)
@exact
def test_punishers_equal_their_definitions(cls, charged, options, choices):
    losses = play_out(cls(num_experts=5, horizon=len(choices), num_games=3, **options), choices)
    for t in range(len(choices)):
        for game in range(3):
            expected = np.zeros(5)
            expected[list(charged(choices[:t, game].tolist(), options))] = 1
            assert losses[t, game].tolist() == expected.tolist()


@given(choices=CHOICES, window=st.integers(1, 6), num_charged=st.integers(1, 3))
@exact
def test_punishers_keep_what_their_docstrings_prove(choices, window, num_charged):
    horizon, size = len(choices), 5
    for cls, options in (
        (PunishLast, {}),
        (PunishUsed, {}),
        (PunishLeader, {}),
        (PunishLikely, {"window": window, "num_charged": num_charged}),
    ):
        losses = play_out(cls(num_experts=size, horizon=horizon, num_games=3, **options), choices)
        best = losses.sum(0).min(-1)
        for game in range(3):
            mine = choices[:, game]
            loss = losses[np.arange(horizon), game, mine].sum()
            switches = (mine[1:] != mine[:-1]).sum()
            if cls is PunishLast:
                assert loss >= horizon - 1 - switches
                assert best[game] <= (horizon - 1) / size
            elif cls is PunishUsed:
                assert loss >= horizon - 1 - switches
                firsts = [mine.tolist().index(expert) + 1 for expert in range(size) if expert in mine[:-1]]
                assert best[game] == (0 if len(firsts) < size else horizon - max(firsts))
            elif cls is PunishLeader:
                assert loss >= horizon / min(size, switches + 1) - (switches + 1)
                assert best[game] <= horizon / size
            else:
                assert loss >= horizon - 1 - switches * (window // 2 + 1)
                assert best[game] <= num_charged * (horizon - 1) / size


@pytest.mark.parametrize("cls", [PunishLast, PunishUsed, PunishLikely])
def test_punishers_charge_nobody_in_round_one(cls):
    assert not begin(cls(num_experts=4, num_games=2)).emit().any()


def test_punish_used_is_realizable_with_enough_experts():
    choices = np.arange(12)
    assert play_out(PunishUsed(num_experts=12, horizon=12), choices).sum(0).min() == 0


@pytest.mark.parametrize("keywords", [{"window": 0}, {"window": 2.5}, {"num_charged": 0}, {"num_charged": 11}])
def test_punish_likely_refuses(keywords):
    with pytest.raises(dpe.ArgumentError, match=next(iter(keywords))):
        PunishLikely(**keywords)


# -- foreseer ------------------------------------------------------------------------------------------------------


class SecondOfTwo(dpe.Learner):
    """Deterministic, for one game only: names expert 1 until it has lost twice as much as expert 0."""

    batched = False
    deterministic = True

    def __init__(self, factor=2.0):
        self.factor = factor

    def start(self):
        self.total = np.zeros(self.spec.num_experts)

    def act(self):
        return int(self.total[1] <= self.factor * self.total[0])

    def observe(self, losses):
        self.total += losses


@pytest.mark.parametrize("num_games", [None, 1, 3])
@pytest.mark.parametrize(("experts", "horizon"), [(1, 1), (1, 5), (4, 3), (10, 1000), (7, 100)])
def test_foreseer_takes_everything_from_follow_the_leader(num_games, experts, horizon):
    match = dpe.play(dpe.make_learner("follow_the_leader"), Foreseer(num_experts=experts, horizon=horizon), num_games)
    assert np.all(match.learner_loss == horizon)
    assert np.all(match.best_loss == horizon // experts)


def test_foreseer_takes_everything_from_any_deterministic_learner():
    learner = SecondOfTwo(factor=1.0)
    foe = Foreseer(learner=learner, num_experts=3, horizon=40)
    match = dpe.play(learner, foe, num_games=2, seed=0)
    assert np.all(match.learner_loss == 40)
    assert np.all(match.best_loss <= 40 / 3)
    assert not hasattr(learner, "total"), "the instance handed in must not be played with"


@given(choices=arrays(np.int64, 17, elements=st.integers(0, 3)))
@exact
def test_foreseer_ignores_the_choices_it_sees(choices):
    losses = play_out(Foreseer(num_experts=4, horizon=17), choices)
    assert np.array_equal(losses, np.eye(4)[np.arange(17) % 4])
    switches = (choices[1:] != choices[:-1]).sum()
    assert losses[np.arange(17), choices].sum() <= 17 / 4 + (switches + 1) * (1 - 1 / 4)


def test_foreseer_refuses_what_it_cannot_foresee():
    class Pretender(dpe.Learner):
        def act(self):
            return 0

    for learner in ("uniform", dpe.make_learner("follow_the_perturbed_leader"), Pretender()):
        with pytest.raises(dpe.ArgumentError, match="deterministic = True"):
            Foreseer(learner=learner)
    with pytest.raises(dpe.UnknownNameError, match="did you mean 'follow_the_leader'"):
        Foreseer(learner="follow_the_leeder")
    with pytest.raises(dpe.ArgumentError, match="learner"):
        Foreseer(learner=3)


def test_the_opponents_never_import_the_learners():
    code = (
        "import sys, importlib\n"
        "for name in ('stochastic', 'oblivious', 'replay', 'adaptive', 'smooth'):\n"
        "    importlib.import_module('dp_experts_adversaries.' + name)\n"
        "sys.exit(any(module.startswith('dp_experts_agents') for module in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- smooth --------------------------------------------------------------------------------------------------------


class Quadrature:
    """In place of a generator: midpoints of a regular grid, one a game."""

    def random(self, shape):
        return (np.arange(*shape) + 0.5) / shape[0]


@given(
    size=st.integers(1, 30),
    sigma=st.one_of(st.floats(0.001, 1.0), st.sampled_from([0.1, 0.5, 1.0])),
    where=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_smooth_contradicts_the_last_choice_as_often_as_proved(size, sigma, where):
    """Exact up to the grid: 4,000 midpoints miss the measure of an interval by at most 1/4,000."""
    games = 4000
    foe = begin(SmoothThreshold(sigma=sigma, num_experts=size, horizon=2, num_games=games))
    first, last, named = (int(w * (size - 1) + 0.5) for w in (min(where[:2]), max(where[:2]), where[2]))
    foe._first[:], foe._last[:], foe._named[:] = first, last, named
    foe._draws = Quadrature()
    losses = foe.emit()
    rate = losses[:, named].mean()
    gap = max(abs(foe.thresholds[named] - foe.thresholds[[first, last]]))
    if first <= named <= last:
        gap = foe.thresholds[last] - foe.thresholds[first]
    assert rate >= min(1, gap / sigma) - 1 / games - 1e-9
    # Smooth, inside the unit interval, and some expert of those that remained is still right.
    assert foe.instances.min() >= 0
    assert foe.instances.max() <= 1
    assert np.ptp(foe.instances) == pytest.approx(sigma * (games - 1) / games)
    assert np.all(losses[:, first : last + 1].min(-1) == 0)
    assert np.all(losses[np.arange(games), foe._first] == 0)
    assert np.all(losses[np.arange(games), foe._last] == 0)
    assert np.all((first <= foe._first) & (foe._first <= foe._last) & (foe._last <= last))


@pytest.mark.parametrize(
    ("named", "low"), [(0, 0.3), (3, 0.3), (4, 0.4), (5, 0.5), (6, 0.5), (7, 0.5), (8, 0.6), (9, 0.7), (10, 0.7)]
)
def test_smooth_draws_where_the_last_choice_can_be_contradicted(named, low):
    """Experts at 0, 0.1, ..., 1; those at 0.5, 0.6, 0.7 remain; sigma = 0.2."""
    foe = begin(SmoothThreshold(sigma=0.2, num_experts=11))
    foe._first, foe._last, foe._named = 5, 7, named
    assert foe.support() == pytest.approx((low, low + 0.2))
    calm = begin(foe.clone(mode="oblivious"))
    calm._first, calm._last, calm._named = 5, 7, named
    assert calm.support() == pytest.approx((0.5, 0.7))


def test_smooth_threshold_includes_its_threshold():
    foe = begin(SmoothThreshold(sigma=1.0, num_experts=3, num_games=1))
    foe._draws = Quadrature()
    losses = foe.emit()
    assert foe.instances.tolist() == [0.5]
    assert losses.tolist() == [[0.0, 0.0, 1.0] if foe.labels[0] else [1.0, 1.0, 0.0]]


@pytest.mark.parametrize("mode", ["adaptive", "oblivious"])
@pytest.mark.parametrize("sigma", [0.003, 0.1, 1.0])
def test_smooth_is_realizable_and_its_losses_are_those_of_thresholds(mode, sigma):
    foe = SmoothThreshold(sigma=sigma, mode=mode, num_experts=40, horizon=300, num_games=20)
    begin(foe)
    total = np.zeros((20, 40))
    rng = np.random.default_rng(1)
    for _ in range(300):
        losses = foe.emit()
        says = foe.instances[:, None] >= foe.thresholds
        assert np.array_equal(losses, says != foe.labels[:, None])
        total += losses
        foe.see(rng.integers(40, size=20))
    assert np.all(total.min(-1) == 0)


def test_smooth_density_is_bounded_and_uniform():
    """10,000 instances of round 1 against the uniform law on an interval of length sigma: KS at 1e-6 each."""
    for sigma, mode in ((0.2, "adaptive"), (0.2, "oblivious"), (1.0, "adaptive")):
        foe = begin(SmoothThreshold(sigma=sigma, mode=mode, num_experts=9, num_games=10_000))
        foe.emit()
        assert stats.kstest(foe.instances, "uniform", ((1 - sigma) / 2, sigma)).pvalue > 1e-6


def test_smooth_bisects():
    """With tiny sigma a learner inside the remaining interval errs every round and halves it."""
    foe = begin(SmoothThreshold(sigma=1e-9, num_experts=2**10 + 1, horizon=10))
    charges = []
    for _ in range(10):
        choice = int(foe._first)
        foe._named = choice
        charges.append(foe.emit()[choice])
        foe.see(choice)
    assert charges == [1.0] * 10
    assert foe._last - foe._first <= 1


def test_smooth_oblivious_does_not_see():
    foe = SmoothThreshold(mode="oblivious", num_experts=12, horizon=60, num_games=3)
    one, other = (random_choices(SmoothThreshold, {"num_experts": 12, "horizon": 60}, 3, seed) for seed in (1, 2))
    assert np.array_equal(play_out(foe, one), play_out(foe, other))
    adaptive = foe.clone(mode="adaptive")
    assert not np.array_equal(play_out(adaptive, one), play_out(adaptive, other))


def test_smooth_oblivious_labels_are_fair_where_they_are_free():
    """Round 1 with tiny sigma: all 40,000 labels are free, fair coins; Hoeffding at 1e-6."""
    foe = begin(SmoothThreshold(mode="oblivious", sigma=1e-6, num_experts=101, num_games=40_000))
    foe.emit()
    assert abs(foe.labels.mean() - 0.5) <= hoeffding(40_000, 1e-6)


def test_smooth_noise_flips_labels():
    """Once one expert remains (N = 2, after round 1 here) it errs at the noise rate: 500 games of 199 rounds,
    99,500 coins, Hoeffding at 1e-6."""
    foe = SmoothThreshold(sigma=0.5, noise=0.3, num_experts=2, horizon=200, num_games=500)
    losses = play_out(foe, np.zeros((200, 500), dtype=np.int64))
    assert np.all(foe._first == foe._last)
    survivor = np.take_along_axis(losses[1:], foe._first[None, :, None], -1)
    assert abs(survivor.mean() - 0.3) <= hoeffding(99_500, 1e-6)


def test_smooth_checks_the_density_of_an_override():
    class Spiky(SmoothThreshold):
        def support(self):
            return np.array([0.2, 0.2, 0.2]), np.array([0.3, 0.25, 0.3])

    class Escaping(SmoothThreshold):
        def support(self):
            return 0.95, 1.05

    class Empty(SmoothThreshold):
        def support(self):
            return 0.5, 0.5

    with pytest.raises(dpe.LossError, match=r"round 1, game 1: expected a density of at most 1/sigma = 10 .* 20 "):
        begin(Spiky(num_experts=3, num_games=3)).emit()
    with pytest.raises(dpe.LossError, match=r"expected a part of \[0, 1\] .*1.05"):
        begin(Escaping(num_experts=3)).emit()
    with pytest.raises(dpe.LossError, match="density inf"):
        begin(Empty(num_experts=3)).emit()


@pytest.mark.parametrize(
    "keywords",
    [{"sigma": 0}, {"sigma": 1.01}, {"sigma": float("nan")}, {"mode": "adaptiv"}, {"noise": 0.6}, {"noise": -1}],
)
def test_smooth_refuses(keywords):
    with pytest.raises(dpe.ArgumentError, match=next(iter(keywords))):
        SmoothThreshold(**keywords)
