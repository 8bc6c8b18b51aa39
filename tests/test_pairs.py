"""Every registered pair keeps the rules of the privacy game, and each attacks what it says it attacks.

The learners that are caught play 40,000 games a world with a fixed seed; the event is written down here, and
P(A) <= e^epsilon P(B) + delta is refuted by one-sided Clopper-Pearson bounds at error 5e-7 each, so a learner that was
in truth private would be accused with probability <= 1e-6.
"""

import copy
import math
import pickle

import numpy as np
import pytest
from gymnasium.utils import seeding
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dp_experts_env as dpe
from dp_experts_adversaries import pairs as attacks
from dp_experts_env.adversary import Adversary
from dp_experts_env.privacy.game import _seated, make_pair, pair_class, pairs, run_privacy_game
from dp_experts_env.registry import constructor_keywords

GAMES = 40_000
NAMES = pairs()
OURS = ("first_round", "last_round", "leader_flip", "replace_round", "scripted", "suffix_push", "worst_for_hedge")
CASES = [
    pytest.param(
        name, {**keywords, **({"adjacency": adjacency} if adjacency != "replace" else {})}, id=f"{name}-{k}-{adjacency}"
    )
    for name in NAMES
    for adjacency in ("replace", "zero_out")
    for k, keywords in enumerate(({}, *pair_class(name).examples))
]


def moves(pair, seed=0):
    """Choices of a whole game, ``(T,)`` or ``(T, G)``."""
    return np.random.default_rng(seed).integers(pair.num_experts, size=(pair.horizon, *pair.game.shape))


def trace(pair, choices, seed=7):
    """Both sides of all rounds, and the challenge."""
    pair.reset(seed=seed)
    sides = []
    for choice in choices:
        sides.append(pair.emit())
        pair.see(int(choice) if np.ndim(choice) == 0 else choice)
    return np.array(sides), pair.challenge


def test_the_registered_pairs():
    assert set(OURS) <= set(NAMES)
    assert pairs("oblivious") == tuple(sorted(set(OURS) - {"leader_flip", "suffix_push"}))
    assert pairs("adaptive") == ("leader_flip", "suffix_push")


# -- what holds for all ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_builds_without_arguments_and_tells_its_own(name):
    cls, pair = pair_class(name), make_pair(name)
    assert (pair.num_experts, pair.horizon, pair.game.num_games) == (4, 20, None)
    assert pair.adjacency is dpe.Adjacency.REPLACE
    assert type(pair) is cls
    assert {"num_experts", "horizon", "num_games", "adjacency", "render_mode"} <= set(constructor_keywords(cls))
    assert repr(pair) == repr(cls(**pair.parameters))
    for keyword in cls.__init__.__code__.co_varnames[1 : cls.__init__.__code__.co_argcount]:
        if keyword not in ("num_experts", "horizon"):
            assert f"        {keyword}: " in cls.__doc__, f"{keyword} is not documented"
            assert getattr(pair, keyword) == pair.parameters[keyword]
    assert "Attacks" in cls.__doc__ or name in ("replace_round", "scripted", "worst_for_hedge")
    with pytest.raises(TypeError):
        cls(no_such_keyword=1)


@pytest.mark.parametrize(("name", "keywords"), CASES)
@settings(derandomize=True, deadline=None, max_examples=8)
@given(data=st.data())
def test_the_sides_differ_in_exactly_one_round_whatever_is_chosen(name, keywords, data):
    """Only zeros that are zeroed out can make it none. The guard of the base class checks ranges and adjacency."""
    pair = make_pair(name, **keywords)
    choice = st.integers(0, pair.num_experts - 1)
    choices = data.draw(st.lists(choice, min_size=pair.horizon, max_size=pair.horizon))
    sides, challenge = trace(pair, choices, data.draw(st.integers(0, 2**32)))
    differing = np.flatnonzero((sides[:, 0] != sides[:, 1]).any(-1)) + 1
    if name == "replace_round" and pair.adjacency is dpe.Adjacency.ZERO_OUT and not len(differing):
        assert challenge == 0
        return
    assert differing.tolist() == [challenge]
    if pair.horizon > 2:
        assert challenge < pair.horizon
    if pair.adjacency is dpe.Adjacency.ZERO_OUT:
        assert (sides[challenge - 1] == 0).all(-1).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize(("num_experts", "horizon"), [(1, 1), (1, 2), (2, 2), (3, 1), (7, 40)])
def test_a_pair_plays_any_size(name, adjacency, num_experts, horizon):
    pair = make_pair(name, num_experts=num_experts, horizon=horizon, adjacency=adjacency)
    sides, challenge = trace(pair, moves(pair))
    assert sides.shape == (horizon, 2, num_experts)
    assert challenge >= (0 if name == "replace_round" and adjacency == "zero_out" else 1)


@pytest.mark.parametrize(("name", "keywords"), CASES)
def test_a_batch_is_its_games(name, keywords):
    """A batch of one is the single game, bit for bit; without coins each game of a batch is the single one."""
    single = make_pair(name, **keywords)
    choices = moves(single)
    sides, challenge = trace(single, choices)
    alone = _seated(single, 1)
    batch, challenges = trace(alone, choices[:, None])
    assert np.array_equal(batch[:, :, 0] if batch.ndim == 4 else batch, sides)
    assert challenges.tolist() == [challenge]
    coins = keywords.get("adversary", "bernoulli") == "bernoulli" and name == "replace_round"
    coins = coins or (name == "suffix_push" and keywords.get("threshold") is None)
    many = _seated(single, 5)
    choices = moves(many, seed=1)
    batch, challenges = trace(many, choices)
    assert challenges.shape == (5,)
    if batch.ndim == 3:
        assert many.oblivious
        batch = np.repeat(batch[:, :, None], 5, axis=2)
    for game in range(5):
        if not coins:
            sides, challenge = trace(single, choices[:, game])
            assert np.array_equal(batch[:, :, game], sides)
            assert challenges[game] == challenge
    if coins:
        assert len({batch[:, :, game].tobytes() for game in range(5)}) > 1


@pytest.mark.parametrize(("name", "keywords"), CASES)
def test_oblivious_means_whatever_is_chosen(name, keywords):
    for games in (None, 3):
        pair = _seated(make_pair(name, **keywords), games)
        held = np.zeros((pair.horizon, *pair.game.shape), dtype=np.int64)
        first, second = (trace(pair, choices)[0] for choices in (held, moves(pair)))
        assert pair.kind == ("oblivious" if pair.oblivious else "adaptive")
        if pair.oblivious:
            assert np.array_equal(first, second)
        else:
            assert not np.array_equal(first, second)


@pytest.mark.parametrize(("name", "keywords"), CASES)
def test_a_pair_pickles_and_clones(name, keywords):
    pair = make_pair(name, **keywords)
    choices = moves(pair)
    sides, challenge = trace(pair, choices)
    for twin in (pair.clone(), pickle.loads(pickle.dumps(pair.clone())), copy.deepcopy(pair)):
        assert repr(twin) == repr(pair)
        again, when = trace(twin, choices)
        assert np.array_equal(again, sides)
        assert when == challenge
    pair.reset(seed=7)
    half = pair.horizon // 2
    for choice in choices[:half]:
        pair.emit()
        pair.see(int(choice))
    for twin in (pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair)):
        for number, choice in enumerate(choices[half:], half):
            assert np.array_equal(twin.emit(), sides[number])
            twin.see(int(choice))
        assert twin.challenge == challenge
    assert pair.round == half


@pytest.mark.parametrize(("name", "keywords"), CASES)
def test_what_is_emitted_is_fresh(name, keywords):
    for games in (None, 2):
        pair, reference = (_seated(make_pair(name, **keywords), games) for _ in range(2))
        pair.reset(seed=3)
        reference.reset(seed=3)
        for choice in moves(pair):
            given_out = pair.emit()
            assert np.array_equal(given_out, reference.emit())
            assert given_out.dtype == np.float64
            given_out[:] = 0.5
            seen = choice.copy() if games else int(choice)
            pair.see(seen)
            if games:
                seen[:] = 0
            reference.see(choice if games else int(choice))


# -- what each of them does --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "zero", "one"),
    [("half", [1, 1, 0], [0, 0, 1]), ("one", [1, 0, 0], [0, 1, 1]), ("all", [1, 1, 1], [0, 0, 0])],
)
def test_the_first_and_the_last_round(split, zero, one):
    first = make_pair("first_round", split=split, after="ones", num_experts=3, horizon=5)
    sides, challenge = trace(first, moves(first))
    assert challenge == 1
    assert sides[0].tolist() == [zero, one]
    assert (sides[1:] == 1.0).all()
    last = make_pair("last_round", split=split, num_experts=3, horizon=5)
    sides, challenge = trace(last, moves(last))
    assert challenge == 4
    assert sides[3].tolist() == [zero, one]
    assert not sides[:3].any()
    zeroed = make_pair("last_round", split=split, adjacency="zero_out", num_experts=3, horizon=5)
    assert trace(zeroed, moves(zeroed))[0][3].tolist() == [zero, [0, 0, 0]]


def test_swinging_losses_keep_the_experts_level():
    pair = make_pair("first_round", after="swing", num_experts=5, horizon=21)
    sides, _ = trace(pair, moves(pair))
    totals = sides[1:, 0].cumsum(0)
    assert np.ptp(totals, axis=1).max() == 1.0
    assert np.ptp(totals[1::2], axis=1).max() == 0.0


@pytest.mark.parametrize(("lead", "num_experts"), [(0, 4), (3, 4), (40, 2), (5, 1000)])
def test_the_worst_round_for_hedge_has_the_stated_ratio(lead, num_experts):
    """Exact: the log-ratio of naming expert 0, and its limit 2 eta."""
    rate = 0.25
    pair = make_pair("worst_for_hedge", lead=lead, num_experts=num_experts, horizon=lead + 2)
    sides, challenge = trace(pair, moves(pair))
    assert challenge == lead + 1
    totals = sides.sum(0)
    laws = np.exp(-rate * totals) / np.exp(-rate * totals).sum(-1, keepdims=True)
    ratio = math.log(laws[0, 0] / laws[1, 0])
    weight = math.exp(-rate * lead) / (math.exp(-rate * lead) + num_experts - 1)
    down = math.exp(-rate)
    assert ratio == pytest.approx(rate + math.log((1 - weight + weight * down) / (weight + (1 - weight) * down)))
    assert ratio < 2 * rate
    if lead == 40 or num_experts == 1000:
        assert ratio > 1.99 * rate
    with pytest.raises(dpe.ArgumentError, match=r"lead: expected an integer in 0\.\.4 \(horizon - 1\) but found 5"):
        make_pair("worst_for_hedge", lead=5, horizon=5)


def test_the_leader_is_charged_until_the_choices_are_spread():
    pair = make_pair("leader_flip", window=3, charge=0.5, num_experts=3, horizon=9)
    sides, challenge = trace(pair, [1, 1, 1, 2, 2, 0, 1, 2, 0])
    assert challenge == 5
    assert sides[:4, 0].tolist() == [[0, 0, 0]] + [[0, 0.5, 0]] * 3
    assert sides[4].tolist() == [[0, 0, 1], [1, 1, 0]]
    assert not sides[5:].any()
    # Who never leaves an expert is asked in the last round that matters.
    assert trace(pair, [2] * 9)[1] == 8
    # A window of two forgets sooner than one of four: nobody was left in the last two of these.
    assert [trace(make_pair("leader_flip", window=window), [0, 1, *[1] * 18])[1] for window in (2, 4)] == [3, 3]


@pytest.mark.parametrize("charged", ["held", "all"])
@pytest.mark.parametrize("threshold", [1.0, 2.5, 4.0])
def test_the_sum_is_pushed_to_the_threshold(charged, threshold):
    pair = make_pair("suffix_push", threshold=threshold, charged=charged, num_experts=3, horizon=12)
    sides, challenge = trace(pair, [2] * 12)
    held = sides[:, :, 2].cumsum(0)
    before = challenge - 1
    assert held[before - 1 if before else 0].tolist() in ([threshold - 1] * 2, [1.0, 0.0])
    assert held[before:].tolist() == [[threshold, threshold - 1]] * (12 - before)
    assert challenge == math.ceil(threshold - 1) + (2 if charged == "held" else 1)
    others = sides[:, :, :2]
    assert not others.any() if charged == "held" else np.array_equal(others[..., 0], sides[..., 2])
    assert pair.oblivious == (charged == "all")


def test_the_sum_starts_anew_when_another_expert_is_named():
    pair = make_pair("suffix_push", threshold=3.0, num_experts=2, horizon=12)
    sides, challenge = trace(pair, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    assert sides[:, 0].tolist()[:6] == [[0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    assert challenge == 6
    assert trace(pair, [0, 1] * 6)[1] == 11


def test_unknown_thresholds_are_drawn_for_each_game():
    """Uniform on 1..T - 2: chi-square over 18 values in 20,000 games, false alarm 1e-7."""
    pair = _seated(make_pair("suffix_push", charged="all"), 20_000)
    _, challenge = trace(pair, np.zeros((20, 20_000), dtype=np.int64))
    counts = np.bincount(challenge, minlength=20)
    assert counts[0] == counts[19:].sum() == 0
    assert stats.chisquare(counts[1:19]).pvalue > 1e-7


def test_a_round_of_any_adversary_is_replaced():
    base = dpe.make_adversary("punish_last", num_experts=3, horizon=6)
    choices = [2, 2, 1, 0, 2, 1]
    base.reset(seed=0)
    own = []
    for choice in choices:
        own.append(base.emit())
        base.see(choice)
    for pair, when in (
        (make_pair("replace_round", adversary="punish_last", at=4, num_experts=3, horizon=6), 4),
        (make_pair("replace_round", adversary=base, at=None), 4),
    ):
        sides, challenge = trace(pair, choices)
        assert challenge == when
        assert np.array_equal(sides[:, 0], own)
        assert np.array_equal(sides[when - 1, 1], 1.0 - own[when - 1])
        assert pair.kind == "adaptive"
    zeroed = make_pair("replace_round", adversary=base, at=4, adjacency="zero_out")
    assert not trace(zeroed, choices)[0][3, 1].any()
    assert base.round == 6


def test_a_random_adversary_goes_on_from_its_own_side():
    """Side 0 is the adversary's game under the stream that the pair hands on."""
    choices = [0, 0, 1, 2, 0, 0, 0, 0]
    base = dpe.make_adversary("bernoulli", num_experts=3, horizon=8)
    for at in (3, None):
        pair = make_pair("replace_round", adversary=base, at=at)
        assert (pair.num_experts, pair.horizon, pair.oblivious) == (3, 8, at == 3)
        sides, challenge = trace(pair, choices, seed=5)
        assert challenge == (3 if at else 4)
        base.np_random = seeding.np_random(5)[0].spawn(1)[0]
        base.reset()
        assert np.array_equal(sides[:, 0], base.emit_block(8))


def test_shared_losses_stay_shared_where_they_can():
    shared = dpe.make_adversary("bernoulli", shared=True, num_experts=4, horizon=20)
    for adversary, at, shape in ((shared, 1, (2, 4)), ("alternating", 2, (2, 4)), (shared, None, (2, 6, 4))):
        pair = _seated(make_pair("replace_round", adversary=adversary, at=at), 6)
        pair.reset(seed=0)
        assert pair.emit().shape == shape


class Halves(Adversary):
    """An adversary that plays one game only."""

    batched = False

    def emit(self):
        return np.full(self.num_experts, 0.25)

    def see(self, choices):
        assert np.ndim(choices) == 0


def test_an_adversary_written_for_one_game_is_looped():
    pair = _seated(make_pair("replace_round", adversary=Halves(3, 5), at=2), 4)
    sides, challenge = trace(pair, np.zeros((5, 4), dtype=np.int64))
    assert sides.shape == (5, 2, 4, 3)
    assert (sides[1, 1] == 0.75).all()
    assert challenge.tolist() == [2] * 4


def test_scripts_come_from_arrays_files_and_names(tmp_path):
    first = np.random.default_rng(0).random((6, 3)).round(3)
    second = first.copy()
    second[4] = 1.0 - second[4]
    np.save(tmp_path / "first.npy", first)
    np.savetxt(tmp_path / "second.csv", second, delimiter=",", header="a,b,c", comments="")
    for sources in ((first, second), (tmp_path / "first.npy", tmp_path / "second.csv"), (first.tolist(), second)):
        pair = make_pair("scripted", first=sources[0], second=sources[1])
        assert (pair.num_experts, pair.horizon, pair.kind) == (3, 6, "oblivious")
        sides, challenge = trace(pair, moves(pair))
        assert np.array_equal(sides, np.stack([first, second], axis=1))
        assert challenge == 5
        assert np.array_equal(trace(pickle.loads(pickle.dumps(pair)).clone(), moves(pair))[0], sides)
    shorter = make_pair("scripted", first=first, second=second, horizon=4)
    assert trace(shorter, moves(shorter))[1] == 0
    assert trace(shorter.clone(horizon=6), np.zeros(6, int))[1] == 5
    named = make_pair("scripted", first="tumour", second="tumour", horizon=10)
    assert trace(named, moves(named))[1] == 0
    assert repr(named).startswith("Scripted(first='tumour', second='tumour', num_experts=None, horizon=10")


def test_a_script_is_a_copy():
    first, second = np.zeros((3, 2)), np.zeros((3, 2))
    second[1] = 1.0
    pair = make_pair("scripted", first=first, second=second)
    second[:] = 0.5
    assert trace(pair.clone(), [0, 0, 0])[1] == 2


def test_the_synthetic_script():
    pair = make_pair("scripted")
    sides, challenge = trace(pair, moves(pair))
    assert challenge == 10
    assert sides[9].tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    zeroed = make_pair("scripted", adjacency="zero_out", num_experts=3, horizon=5)
    assert trace(zeroed, moves(zeroed))[0][2].tolist() == [[1, 1, 0], [0, 0, 0]]


FLAT = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "keywords", "error", "message"),
    [
        ("first_round", {"split": "third"}, dpe.UnknownNameError, "split: unknown name 'third'"),
        ("first_round", {"after": "twos"}, dpe.UnknownNameError, "after: unknown name"),
        ("last_round", {"before": 1}, dpe.UnknownNameError, "before: unknown name 1"),
        ("worst_for_hedge", {"lead": -1}, dpe.ArgumentError, "lead: expected an integer >= 0"),
        ("leader_flip", {"window": 1}, dpe.ArgumentError, "window: expected an integer >= 2"),
        ("leader_flip", {"charge": 1.5}, dpe.ArgumentError, r"charge: expected a number in \[0, 1\]"),
        ("suffix_push", {"threshold": 0.5}, dpe.ArgumentError, r"threshold: expected a number in \[1, inf\)"),
        ("suffix_push", {"charged": "some"}, dpe.UnknownNameError, "charged: unknown name"),
        ("replace_round", {"adversary": "bernouli"}, dpe.UnknownNameError, "did you mean 'bernoulli'"),
        (
            "replace_round",
            {"adversary": 3},
            dpe.ArgumentError,
            "adversary: expected the name of an adversary or an Adv",
        ),
        ("replace_round", {"adversary": attacks.FirstRound()}, dpe.ArgumentError, "adversary: expected the name of"),
        ("replace_round", {"at": 21}, dpe.ArgumentError, "at: expected an integer <= 20"),
        ("replace_round", {"at": 0}, dpe.ArgumentError, "at: expected an integer >= 1"),
        (
            "replace_round",
            {"adversary": dpe.make_adversary("bernoulli"), "horizon": 20},
            dpe.ArgumentError,
            "horizon: expected 1000, as the adversary has, but found 20",
        ),
        ("replace_round", {"adversary": "replay"}, dpe.ArgumentError, "num_experts: expected 257"),
        ("scripted", {"first": FLAT}, dpe.ArgumentError, "second: expected both sequences or neither"),
        ("scripted", {"first": FLAT, "second": FLAT[1:]}, dpe.ArgumentError, r"second: expected shape \(3, 2\), as"),
        ("scripted", {"first": FLAT, "second": FLAT, "horizon": 4}, dpe.ArgumentError, "horizon: expected at most 3"),
        ("scripted", {"first": FLAT, "second": FLAT, "num_experts": 3}, dpe.ArgumentError, "num_experts: expected 2"),
        ("scripted", {"first": "tumor", "second": FLAT}, dpe.UnknownNameError, "did you mean 'tumour'"),
        (
            "scripted",
            {"first": FLAT, "second": [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]},
            dpe.AdjacencyError,
            "expected one row that differs from first, but rounds 1 and 3 differ",
        ),
        (
            "scripted",
            {"first": [[0.5, 0.0]], "second": [[1.0, 0.0]], "adjacency": "zero_out"},
            dpe.AdjacencyError,
            "second: expected zeros on one side of round 1",
        ),
        ("scripted", {"first": FLAT, "second": [[0.0, 2.0]] * 3}, dpe.DataError, "round 1"),
    ],
)
def test_bad_arguments_are_named(name, keywords, error, message):
    with pytest.raises(error, match=message):
        make_pair(name, **keywords)


# -- who is caught -----------------------------------------------------------------------------------------------------


def refutes(hits, others, epsilon=1.0, delta=1e-6):
    """Whether counts out of ``GAMES`` in two worlds refute (epsilon, delta)-DP."""
    low = stats.beta.ppf(5e-7, hits, GAMES - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - 5e-7, others + 1, GAMES - others) if others < GAMES else 1.0
    return low > math.exp(epsilon) * high + delta


def column(outcomes, name):
    return outcomes.symbols[:, :, outcomes.columns.index(name)]


def at_challenge(outcomes, name, shift):
    """The symbol ``shift`` rounds after the changed one."""
    rounds = np.clip(outcomes.challenge + shift - 1, 0, outcomes.symbols.shape[1] - 1)
    return column(outcomes, name)[np.arange(len(rounds)), rounds]


def stays(outcomes):
    return at_challenge(outcomes, "choice", 0) == at_challenge(outcomes, "choice", 1)


def quiet_until(outcomes, shift):
    """No alarm up to ``shift`` rounds after the changed one."""
    earlier = np.arange(outcomes.symbols.shape[1]) < outcomes.challenge[:, None] + shift
    return ~(column(outcomes, "above").astype(bool) & earlier).any(1)


def alarms_after(outcomes):
    later = np.arange(outcomes.symbols.shape[1]) >= outcomes.challenge[:, None]
    return (column(outcomes, "above").astype(bool) & later).sum(1)


CAUGHT = [
    ("leaky_ada_hedge", "first_round", {}, "choices", lambda o: (column(o, "choice") < 2).sum(1) > 10),
    ("leaky_ada_hedge", "worst_for_hedge", {}, "choices", lambda o: (column(o, "choice") == 0).sum(1) < 10),
    ("leaky_copy_last", "last_round", {}, "choices", lambda o: column(o, "choice")[:, -1] == 0),
    ("leaky_copy_last", "scripted", {}, "choices", lambda o: at_challenge(o, "choice", 1) == 0),
    ("leaky_dartboard", "first_round", {"split": "all"}, "choices", stays),
    ("leaky_dartboard", "leader_flip", {}, "choices", stays),
    ("leaky_perturbed_leader", "leader_flip", {"charge": 0.0}, "choices", stays),
    ("leaky_perturbed_leader", "suffix_push", {"threshold": 5.0}, "choices", stays),
    (
        "leaky_perturbed_leader",
        "replace_round",
        {"adversary": "punish_last", "at": None},
        "choices",
        lambda o: at_challenge(o, "choice", 1) != at_challenge(o, "choice", 2),
    ),
    ("leaky_triple_rate", "worst_for_hedge", {}, "choices", lambda o: (column(o, "choice") == 0).sum(1) >= 10),
    ("leaky_no_query_noise", "suffix_push", {"threshold": 12.0}, "choices", lambda o: ~stays(o)),
    ("leaky_no_query_noise", "suffix_push", {}, "transcript", lambda o: at_challenge(o, "above", 1) == 1),
    (
        "leaky_no_threshold_noise",
        "suffix_push",
        {"threshold": 10.0},
        "transcript",
        lambda o: quiet_until(o, 1),
    ),
    (
        "leaky_never_halting",
        "suffix_push",
        {"threshold": 10.0, "charged": "all"},
        "transcript",
        lambda o: alarms_after(o) >= 8,
    ),
    ("leaky_sensitivity", "suffix_push", {"threshold": 10.0}, "choices", lambda o: ~stays(o)),
]


@pytest.mark.parametrize(("learner", "pair", "keywords", "view", "event"), CAUGHT)
def test_a_leaky_learner_is_caught(learner, pair, keywords, view, event):
    worlds = run_privacy_game(dpe.make_learner(learner), make_pair(pair, **keywords), GAMES, seed=0, view=view)
    hits = [int(event(outcomes).sum()) for outcomes in worlds]
    hits += [GAMES - count for count in hits]
    assert refutes(*hits[:2]) or refutes(*hits[1::-1]) or refutes(*hits[2:]) or refutes(*hits[:1:-1])


def test_every_positive_control_is_caught_here():
    assert {case[0] for case in CAUGHT} == set(dpe.learners(leaky=True))


@pytest.mark.parametrize(
    ("honest", "leaky"),
    [
        ("private_hedge", "leaky_triple_rate"),
        ("realizable", "leaky_no_query_noise"),
        ("realizable", "leaky_no_threshold_noise"),
        ("realizable", "leaky_never_halting"),
        ("realizable", "leaky_sensitivity"),
    ],
)
def test_the_same_events_do_not_accuse_the_honest_learner(honest, leaky):
    for _, pair, keywords, view, event in (case for case in CAUGHT if case[0] == leaky):
        worlds = run_privacy_game(dpe.make_learner(honest), make_pair(pair, **keywords), GAMES, seed=0, view=view)
        hits = [int(event(outcomes).sum()) for outcomes in worlds]
        hits += [GAMES - count for count in hits]
        assert not any(refutes(*counts) for counts in (hits[:2], hits[1::-1], hits[2:], hits[:1:-1]))


@pytest.mark.parametrize("adversary", ["smooth_threshold", "smooth_bisection", "smooth_greedy"])
def test_learners_on_a_cover_in_the_privacy_game(adversary):
    """In the smooth world experts are a cover and one round is one instance: the same game judges learners there.

    Two audits at confidence 1 - 1e-6 each: the honest learner would be accused with that probability.
    """
    foe = dpe.make_adversary(adversary, num_experts=4, horizon=12)
    for at in (1, None):
        pair = dpe.make_pair("replace_round", adversary=foe, at=at)
        honest = dpe.audit(dpe.make_learner("private_hedge"), pair, 400, confidence=1 - 1e-6, seed=0)
        assert honest.verdict == "consistent"
    if adversary != "smooth_greedy":
        # The greedy law is symmetric at first, and plug-in statistics do not look at the pair's own draws.
        pair = dpe.make_pair("replace_round", adversary=foe, at=1)
        assert dpe.audit(dpe.make_learner("leaky_copy_last"), pair, 2_000, confidence=1 - 1e-6, seed=0).violated


@pytest.mark.parametrize("charged", ["held", "all"])
def test_a_threshold_beyond_all_sums_is_pushed_at_in_the_end(charged):
    for threshold in (1e308, 2.0**60, 100.5):
        pair = attacks.SuffixPush(threshold=threshold, charged=charged, num_experts=2, horizon=4)
        pair.reset(seed=0)
        sides = []
        for _ in range(4):
            sides.append(pair.emit())
            pair.see(0)
        assert int(pair.challenge) == 3
        assert np.isfinite(sides).all()
