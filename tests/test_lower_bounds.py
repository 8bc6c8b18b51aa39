"""Lower-bound opponents: the games against slow oracles, the floors against exact optima over all private learners."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.optimize import linprog

import dp_experts_env as dpe
from dp_experts_adversaries.lower_bounds import Fingerprint, HiddenSign, SignEstimation, SmallLossFloor, Subsets
from dp_experts_adversaries.lower_bounds.floors import enough_atoms, group, shift
from dp_experts_adversaries.replay import Replay
from dp_experts_env.spec import ArgumentError, GameSpec

COLUMNS = (HiddenSign, Fingerprint, SignEstimation, Subsets)
EXACT = [
    *((HiddenSign, keywords) for keywords in ({"horizon": 9}, {"num_experts": 7, "horizon": 9})),
    (HiddenSign, {"num_experts": 30, "horizon": 9, "active_rounds": 6}),
    *((Fingerprint, {"thinning": rate, "horizon": 9}) for rate in (1.0, 0.4)),
    (Fingerprint, {"num_experts": 19, "horizon": 9, "active_rounds": 9}),
    *((SignEstimation, {"users": users, "horizon": 9}) for users in (None, 1, 4, 20)),
    (SignEstimation, {"consensus": 0.9, "num_experts": 21, "horizon": 9}),
    *((Subsets, {"size": size, "num_experts": 170, "horizon": 5}) for size in (1, 2, 3)),
    (Subsets, {"size": 2, "thinning": 0.5, "num_experts": 117, "horizon": 6, "active_rounds": 3}),
]
EVERY = [*EXACT, (Fingerprint, {"prior": "uniform", "horizon": 9}), (Fingerprint, {"prior": "uniform", "horizon": 3})]

exact = settings(derandomize=True, max_examples=8, deadline=None)


def begin(adversary, seed=0):
    adversary.np_random = np.random.default_rng(seed)
    adversary.reset()
    return adversary


def mean_error(values):
    """Mean and its standard error. Five of them: false alarm 5.8e-7, by the normal law of the means of many games."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def floor_of(adversary, epsilon, delta=0.0):
    return adversary.regret_floor(adversary.game, epsilon, delta)


# -- the games ---------------------------------------------------------------------------------------------------------


def by_definition(adversary, row, struck):
    """Losses of one game's active round, expert by expert, from the row and the columns named so far."""
    size, columns = adversary.size, len(row)
    losses = []
    for chosen in itertools.combinations(range(columns), size):
        for signs in itertools.product((1, -1), repeat=size):
            right = all(row[column] == sign for column, sign in zip(chosen, signs, strict=True))
            losses.append(0.0 if right and not set(chosen) & struck else 1.0)
    return losses + [1.0] * (adversary.num_experts - len(losses))


@pytest.mark.parametrize(("cls", "keywords"), EVERY)
def test_games_equal_their_definition(cls, keywords):
    """The rows are watched as they are drawn; all else is recomputed, for each of three games and all choices."""
    adversary = cls(num_games=3, **keywords)
    rows, fresh = [], []
    draw = adversary._row

    def watched(index):
        row, new = draw(index)
        rows.append(row)
        fresh.append(new)
        return row, new

    adversary._row = watched
    begin(adversary, 4)
    columns, active = adversary._fit(adversary.game)
    members = [
        [(column, sign) for column, sign in zip(chosen, signs, strict=True)]
        for chosen in itertools.combinations(range(columns), adversary.size)
        for signs in itertools.product((1, -1), repeat=adversary.size)
    ]
    choices = np.random.default_rng(1).integers(adversary.num_experts, size=(adversary.horizon, 3))
    struck, named, seen_active = [set() for _ in range(3)], np.zeros((3, columns)), []
    sums, shown = np.zeros((3, columns)), np.zeros((3, 1))
    for index, chosen in enumerate(choices):
        losses = adversary.emit()
        for game in range(3):
            if index >= active:
                assert not losses[game].any()
                continue
            row = rows[index][game]
            assert set(np.unique(row)) <= {-1.0, 1.0}
            on = bool(losses[game].any())
            seen_active.append(on)
            if on:
                assert losses[game].tolist() == by_definition(adversary, row, struck[game])
                if fresh[index]:
                    sums[game] += row
                    shown[game] += 1
            if chosen[game] < len(members):
                clean = not any(column in struck[game] for column, _ in members[chosen[game]])
                for column, sign in members[chosen[game]]:
                    named[game, column] = sign if clean else named[game, column]
                    struck[game].add(column)
        adversary.see(chosen)
    assert np.array_equal(adversary.named, named)
    assert np.array_equal(adversary._sums, sums)
    assert np.array_equal(np.broadcast_to(adversary._shown, (3, 1)), shown)
    assert all(seen_active) == (adversary.thinning == 1.0)
    assert len(rows) == active


@pytest.mark.parametrize(("cls", "keywords"), EXACT)
@exact
@given(data=st.data())
def test_best_loss_is_exactly_zero(cls, keywords, data):
    adversary = begin(cls(**keywords), data.draw(st.integers(0, 2**32)))
    total = np.zeros(adversary.num_experts)
    for _ in range(adversary.horizon):
        losses = adversary.emit()
        total += losses
        # The worst for L*: to name what has lost least, or anything.
        best = int(np.argmin(total))
        adversary.see(data.draw(st.one_of(st.just(best), st.integers(0, adversary.num_experts - 1))))
    assert total.min() == 0.0


def test_rows_are_used_as_they_should_be():
    hidden = begin(HiddenSign(horizon=6))
    assert all(np.array_equal(hidden._row(index)[0], hidden.means) for index in range(6))
    code = begin(SignEstimation(users=3, horizon=9))
    rows = [code._row(index)[0] for index in range(9)]
    assert all(np.array_equal(rows[index], rows[index % 3]) for index in range(9))
    assert not np.array_equal(rows[0], rows[1])
    padding = np.abs(code.means) == 1.0
    assert padding.sum() >= 9
    assert all(np.array_equal(row[padding], code.means[padding]) for row in rows)
    fresh = begin(Fingerprint(horizon=9))
    assert not np.array_equal(fresh._row(0)[0], fresh._row(1)[0])


def test_thinning_and_row_means_have_their_law():
    """4000 games of one round: each frequency within five standard errors (false alarm 5.8e-7 each)."""
    adversary = begin(Fingerprint(thinning=0.3, horizon=4, num_experts=40, num_games=4000))
    losses = adversary.emit()
    on = losses.any(-1)
    assert abs(on.mean() - 0.3) < 5 * math.sqrt(0.21 / 4000)
    # An expert of sign +1 loses where the row is -1: with probability (1 - mu)/2.
    wrong, means = losses[on][:, :40:2], adversary.means[on]
    centred = (wrong - (1.0 - means) / 2.0).ravel()
    deviation = math.sqrt(float(((1.0 - means**2) / 4.0).sum())) / centred.size
    assert abs(centred.mean()) < 5 * deviation
    assert np.array_equal(wrong[np.abs(means) == 1.0], (means[np.abs(means) == 1.0] < 0).astype(float))


def test_means_have_their_law():
    """20,000 games: Kolmogorov-Smirnov at 1e-6, and every number of atoms within five standard errors."""
    adversary = begin(Fingerprint(horizon=5, num_experts=40, active_rounds=5, num_games=20_000))
    inner = np.abs(adversary.means) < 1.0
    assert stats.kstest(adversary.means[inner], lambda mu: 0.5 + np.arcsin(mu) / math.pi).pvalue > 1e-6
    law = stats.binom(20, enough_atoms(20, 5))
    assert law.cdf(4) == pytest.approx(1 / 80)
    counts = (~inner).sum(-1)
    assert counts.min() >= 5
    for count in range(5, 21):
        expected = law.pmf(count) / law.sf(4)
        assert abs((counts == count).mean() - expected) <= 5 * math.sqrt(expected * (1 - expected) / 20_000) + 5e-4
    signs = adversary.means[~inner]
    assert abs(signs.mean()) < 5 / math.sqrt(signs.size)
    # The places are exchangeable.
    shares = (~inner).mean(0)
    assert np.abs(shares - counts.mean() / 20).max() < 5.5 * math.sqrt(0.25 / 20_000)
    uniform = begin(Fingerprint(prior="uniform", horizon=2, num_experts=40, num_games=2_000)).means
    assert stats.kstest(uniform.ravel(), stats.uniform(-1, 2).cdf).pvalue > 1e-6


# -- the lemma ---------------------------------------------------------------------------------------------------------


@exact
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(2, 6),
    epsilon=st.floats(0.0, 4.0),
    delta=st.sampled_from([0.0, 1e-3, 0.1, 0.5]),
)
def test_shift_bounds_the_worst_close_law(seed, size, epsilon, delta):
    """The largest E_P h over all laws P that are close to Q, by a linear programme."""
    rng = np.random.default_rng(seed)
    law, h = rng.dirichlet(np.full(size, 0.7)), rng.normal(size=size)
    zero, one = np.zeros((size, size)), np.eye(size)
    # P - e^epsilon Q <= up, e^-epsilon... Q - e^epsilon P <= down, each adding up to at most delta.
    above = np.block([[one, -one, zero], [-math.exp(epsilon) * one, zero, -one]])
    masses = np.kron(np.eye(3)[1:], np.ones(size))
    solved = linprog(
        -np.concatenate([h, np.zeros(2 * size)]),
        A_ub=np.vstack([above, masses]),
        b_ub=np.concatenate([math.exp(epsilon) * law, -law, [delta, delta]]),
        A_eq=np.kron([[1, 0, 0]], np.ones(size)),
        b_eq=[1.0],
    )
    assert solved.status == 0
    excess = shift(epsilon, delta, np.ones(1), math.sqrt(law @ h**2), np.abs(h).max())[0]
    assert -solved.fun <= law @ h + excess + 1e-7


def test_shift_is_reached_by_randomised_response():
    for epsilon in (0.1, 1.0, 3.0):
        other = np.array([1.0, math.exp(epsilon)]) / (1.0 + math.exp(epsilon))
        law = other[::-1]
        h = law / other - 1.0
        assert other @ h == pytest.approx(0.0)
        assert law @ h == pytest.approx(shift(epsilon, 0.0, np.ones(1), math.sqrt(other @ h**2), 9.0)[0])


def test_groups():
    joint, failure = group(0.5, 1e-3, np.array([0.0, 1.0, 3.0, 10_000.0]))
    assert joint[:3] == pytest.approx([0.0, 0.5, 1.5])
    assert failure[:3] == pytest.approx([0.0, 1e-3, 1e-3 * (1 + math.exp(0.5) + math.exp(1.0))])
    assert failure[3] == math.inf
    assert group(0.0, 1e-3, np.array([4.0]))[1] == pytest.approx(4e-3)
    assert group(math.inf, 0.1, np.array([0.0, 1.0]))[1].tolist() == [0.0, math.inf]
    assert group(800.0, 0.0, np.array([2.0]))[1].tolist() == [0.0]


# -- the floors against the best of all private learners ---------------------------------------------------------------


def solve(cost, blocks, pairs, epsilon, delta, equalities):
    """Least cost of laws ``blocks`` (lists of variables), pairs of which are (epsilon, delta)-close both ways."""
    count, rows, columns, values, limits = len(cost), [], [], [], []
    slack = count

    def constrain(entries, limit):
        for column, value in entries:
            rows.append(len(limits))
            columns.append(column)
            values.append(value)
        limits.append(limit)

    for first, second in pairs:
        for one, other in ((first, second), (second, first)):
            slacks = []
            for a, b in zip(blocks[one], blocks[other], strict=True):
                entries = [(a, 1.0), (b, -math.exp(epsilon))]
                if delta:
                    slacks.append(slack)
                    entries.append((slack, -1.0))
                    slack += 1
                constrain(entries, 0.0)
            if delta:
                constrain([(column, 1.0) for column in slacks], delta)
    equal = sparse.lil_matrix((len(equalities), slack))
    for number, (entries, _) in enumerate(equalities):
        for column, value in entries:
            equal[number, column] = value
    solved = linprog(
        np.concatenate([cost, np.zeros(slack - count)]),
        A_ub=sparse.csr_matrix((values, (rows, columns)), shape=(len(limits), slack)),
        b_ub=limits,
        A_eq=equal.tocsr(),
        b_eq=[value for _, value in equalities],
    )
    assert solved.status == 0
    return solved.fun


def best_of_two_rounds(columns, moment, thinning, epsilon, delta):
    """Least expected loss of two rounds over all learners; ``moment`` is E[mu z] of a column and its first sign.

    Round 1 names column 0: columns are alike, and a convex function gains nothing by mixing. Then the row of round 1
    is known, or zeros; zeros are what a neighbour shows, too.
    """
    rows = [*itertools.product((1, -1), repeat=columns), None]
    size = 2 * columns
    cost = np.zeros(len(rows) * size)
    for number, row in enumerate(rows):
        weight = thinning / 2**columns if row else 1.0 - thinning
        for expert in range(size):
            known = moment * row[expert // 2] * (1 - 2 * (expert % 2)) if row else 0.0
            cost[number * size + expert] = weight * thinning * (1.0 if expert < 2 else (1.0 - known) / 2.0)
    blocks = [range(number * size, (number + 1) * size) for number in range(len(rows))]
    pairs = [(number, len(rows) - 1) for number in range(len(rows) - 1)]
    laws = [([(column, 1.0) for column in block], 1.0) for block in blocks]
    return thinning / 2.0 + solve(cost, blocks, pairs, epsilon, delta, laws)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.4, 2.0])
@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("columns", [2, 4])
def test_no_learner_of_two_rounds_beats_a_floor(epsilon, delta, columns):
    game = {"num_experts": 2 * columns, "horizon": 2, "active_rounds": 2}
    hidden, best = HiddenSign(**game), best_of_two_rounds(columns, 1.0, 1.0, epsilon, delta)
    assert 0.5 <= floor_of(hidden, epsilon, delta) <= best + 1e-9
    if epsilon <= 0.1 and not delta:
        assert floor_of(hidden, epsilon) > 0.9 * best
    for thinning in (1.0, 0.4):
        uniform = Fingerprint(prior="uniform", thinning=thinning, **game)
        floor = uniform.loss_floor(uniform.game, epsilon, delta)
        best = best_of_two_rounds(columns, 1 / 3, thinning, epsilon, delta)
        assert floor <= best + 1e-9
        if epsilon <= 0.1 and not delta:
            assert floor > 0.95 * best
        atoms = Fingerprint(thinning=thinning, **game)
        law = stats.binom(columns, enough_atoms(columns, 2))
        counts = np.arange(2, columns + 1)
        share = float(law.pmf(counts) @ counts / law.sf(1)) / columns
        best = best_of_two_rounds(columns, share + (1.0 - share) / 2.0, thinning, epsilon, delta)
        assert floor_of(atoms, epsilon, delta) <= best + 1e-9


def best_of_three_rounds(joint, predict, epsilon):
    """Least expected loss of three rounds with three columns over all epsilon-DP learners against adaptive losses.

    Round 1 names column 0, +1. Then round 1 shows a row of three signs, round 2 a row of the signs of columns 1 and 2;
    zeros are possible too. ``joint(z, w)`` is the probability that a column shows z and then w, and ``predict`` the
    expectation of its sign thereafter, given both, or one and 0.
    """
    signs = (1, -1)
    first = [*itertools.product(signs, repeat=3), (0, 0, 0)]
    second = [*itertools.product(signs, repeat=2), (0, 0)]
    known, size = len(first) * 6, 6

    def law(row, expert):
        return row * size + expert

    def both(row, other, choice, last):
        return known + ((row * len(second) + other) * size + choice) * size + last

    def charge(expert, column_signs, struck):
        column, sign = expert // 2, 1 - 2 * (expert % 2)
        return 1.0 if column in struck else (1.0 - sign * column_signs[column]) / 2.0

    cost = np.zeros(known + len(first) * len(second) * 36)
    blocks, equalities = [], []
    for row, shown in enumerate(first):
        if any(shown):
            guess = [predict(z, 0) for z in shown]
            for expert in range(size):
                cost[law(row, expert)] = charge(expert, guess, {0}) / 8.0
        equalities.append(([(law(row, expert), 1.0) for expert in range(size)], 1.0))
        for other, then in enumerate(second):
            blocks.append([both(row, other, x, y) for x in range(size) for y in range(size)])
            for choice in range(size):
                entries = [(both(row, other, choice, last), 1.0) for last in range(size)]
                equalities.append(([*entries, (law(row, choice), -1.0)], 0.0))
            if any(shown) and any(then):
                weight = 0.5 * math.prod(joint(z, w) for z, w in zip(shown[1:], then, strict=True))
                guess = [0.0, *(predict(z, w) for z, w in zip(shown[1:], then, strict=True))]
                for choice, last in itertools.product(range(size), repeat=2):
                    cost[both(row, other, choice, last)] = weight * charge(last, guess, {0, choice // 2})
    width = len(second)
    pairs = [(row * width + other, (len(first) - 1) * width + other) for row in range(8) for other in range(width)]
    pairs += [(row * width + other, row * width + 4) for row in range(len(first)) for other in range(4)]
    return 0.5 + solve(cost, blocks, pairs, epsilon, 0.0, equalities)


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_no_learner_of_three_rounds_beats_a_floor(epsilon):
    def hidden(z, w):
        return float(z or w)

    best = best_of_three_rounds(lambda z, w: 0.5 * (z == w), hidden, epsilon)
    floor = floor_of(HiddenSign(num_experts=6, horizon=3), epsilon)
    assert floor <= best + 1e-7
    assert epsilon > 0.1 or floor > 0.9 * best
    # Uniform means: E[z w] = E mu^2 = 1/3, and a column of k signs of sum s has mean s/(k + 2).
    best = best_of_three_rounds(lambda z, w: (1 + z * w / 3) / 4, lambda z, w: (z + w) / (4 if z and w else 3), epsilon)
    uniform = Fingerprint(prior="uniform", num_experts=6, horizon=3, active_rounds=3)
    floor = uniform.loss_floor(uniform.game, epsilon)
    assert floor <= best + 1e-7
    assert epsilon > 0.1 or floor > 0.95 * best


# -- the identity and the floors in play -------------------------------------------------------------------------------

FIVE = {
    "uniform": {},
    "hedge": {"learning_rate": 0.5},
    "follow_the_leader": {},
    "private_hedge": {"epsilon": 3.0},
    "follow_the_perturbed_leader": {"learning_rate": 0.7},
}
PRIORS = (
    (Fingerprint, {"prior": "uniform", "num_experts": 60, "horizon": 16, "active_rounds": 16}),
    (Fingerprint, {"prior": "uniform", "thinning": 0.5, "num_experts": 60, "horizon": 16, "active_rounds": 12}),
    (Fingerprint, {"num_experts": 64, "horizon": 16}),
    (SignEstimation, {"users": 4, "num_experts": 64, "horizon": 16}),
)


def play_out(learner, adversary, seed):
    """Play a batch of games by hand; returns the learner's losses ``(G,)`` and the adversary at their end."""
    learner.reset(adversary.game, np.random.default_rng([seed, 1]))
    begin(adversary, seed)
    paid = np.zeros(adversary.game.shape)
    for _ in range(adversary.horizon):
        losses, choices = adversary.emit(), learner.act()
        learner.observe(losses)
        adversary.see(choices)
        paid += np.take_along_axis(losses, choices[:, None], -1)[:, 0]
    return paid


@pytest.mark.parametrize(("cls", "keywords"), PRIORS)
def test_fingerprinting_identity_and_loss(cls, keywords):
    """3000 games a learner: both identities within five standard errors of a mean of the difference (5.8e-7 each)."""
    found = {}
    for seed, (name, parameters) in enumerate(FIVE.items()):
        adversary = cls(num_games=3000, **keywords)
        paid = play_out(dpe.make_learner(name, **parameters), adversary, seed)
        correlation, expected = adversary.fingerprint()
        difference, error = mean_error(correlation - expected)
        assert abs(difference) < 5 * error, name
        found[name] = mean_error(expected)
        if cls is Fingerprint:
            # E[loss] = q (n/2 + repeats/2 - S/2).
            rounds = adversary._fit(adversary.game)[1]
            score = (adversary.named * adversary.means).sum(-1)
            repeats = rounds - (adversary.named != 0).sum(-1)
            difference, error = mean_error(paid - adversary.thinning * (rounds + repeats - score) / 2.0)
            assert abs(difference) < 5 * error, name
    # Whoever learns has a score to explain, who does not has none.
    assert found["hedge"][0] > 20 * found["hedge"][1]
    assert abs(found["uniform"][0]) < 5 * found["uniform"][1]


PRIVATE = [(name, delta) for name in dpe.learners(private=True) for delta in (0.0, 1e-6)]


@pytest.mark.parametrize(("name", "delta"), PRIVATE)
def test_no_private_learner_beats_a_floor(name, delta):
    """60 games: mean regret plus five standard errors against the floor of the learner's own claim."""
    game, epsilon = {"num_experts": 80, "horizon": 20}, 0.1
    foes = (
        HiddenSign(**game),
        Fingerprint(**game),
        Fingerprint(prior="uniform", **game),
        SignEstimation(**game),
        Subsets(active_rounds=2, **game),
    )
    for foe in foes:
        try:
            learner = dpe.make_learner(name, epsilon=epsilon, delta=delta)
        except ArgumentError:
            # Those of Gaussian noise have no pure variant.
            assert delta == 0.0
            return
        claim = learner.guarantee(foe.game)
        assert claim is not None
        assert claim.covers("adaptive")
        match = dpe.play(learner, foe, num_games=60, seed=3, progress=False)
        mean, error = mean_error(match.regret)
        floor = floor_of(foe, claim.epsilon, claim.delta)
        assert floor > 0.3
        assert mean + 5 * error >= floor
        bound = learner.regret_bound(foe.game, 0.0, "adaptive")
        assert math.isnan(bound) or floor <= bound
        assert math.isnan(bound) or mean - 5 * error <= bound


def test_hedge_without_privacy_beats_the_floors():
    """40 games: mean regret less than the floor by more than five standard errors."""
    for epsilon, foe in ((0.1, HiddenSign(horizon=100)), (0.01, Fingerprint(horizon=60)), (0.01, Subsets(horizon=12))):
        learner = dpe.make_learner("hedge", learning_rate="small_loss", best_loss=1.0)
        mean, error = mean_error(dpe.play(learner, foe, num_games=40, seed=1, progress=False).regret)
        assert mean + 5 * error < floor_of(foe, epsilon)


def test_small_losses_pay_on_oblivious_sequences_only():
    """12 games of 600 rounds: the same losses cost the small-loss learner most rounds, or few when replayed."""
    game = {"num_experts": 1200, "horizon": 600}
    learner = dpe.make_learner("small_loss", epsilon=8.0, best_loss=1.0)
    foe = begin(HiddenSign(**game))
    learner.reset(foe.game, np.random.default_rng(1))
    rows, paid = [], 0.0
    for _ in range(600):
        rows.append(foe.emit())
        choice = learner.act()
        learner.observe(rows[-1])
        foe.see(choice)
        paid += rows[-1][choice]
    assert np.sum(rows, axis=0).min() == 0.0
    replayed = dpe.play(learner, Replay(source=np.array(rows)), num_games=12, seed=2, progress=False)
    assert replayed.best_loss.tolist() == [0.0] * 12
    assert paid > 400
    assert replayed.regret.mean() < 100


# -- the floors as numbers ---------------------------------------------------------------------------------------------


def kl(share):
    return math.log(2.0) + share * math.log(share) + (1.0 - share) * math.log1p(-share)


def test_hidden_sign_floor_by_hand():
    # Two rounds: 1 - e^epsilon/4 + 1 - min(1, 3 e^epsilon/4).
    two = HiddenSign(horizon=2)
    assert floor_of(two, 0.1) == pytest.approx(2.0 - math.exp(0.1))
    assert floor_of(two, 0.1, 0.01) == pytest.approx(2.0 - math.exp(0.1) - 0.02)
    assert floor_of(two, 3.0) == floor_of(two, math.inf) == pytest.approx(0.5)
    assert floor_of(two, 0.0) == pytest.approx(1.0)
    # The closed form with one threshold, 23.9 at T = 100 and epsilon = 0.1, is less.
    for rounds, epsilon, simple in ((100, 0.1, 23.889), (100, 0.2, 16.631), (1000, 0.05, 333.6)):
        shares = np.linspace(1e-3, 0.499, 2000)
        closed = max(share * rounds * (1.0 - math.exp(-rounds * (kl(share) - epsilon))) for share in shares)
        assert closed == pytest.approx(simple, rel=1e-3)
        assert floor_of(HiddenSign(horizon=rounds), epsilon) > closed
    assert floor_of(HiddenSign(horizon=100), 0.1) == pytest.approx(29.70, abs=0.01)
    # With delta no number of rounds helps beyond some.
    for rounds in (1000, 20_000):
        assert floor_of(HiddenSign(horizon=rounds), 0.1, 1e-6) == pytest.approx(24.95, abs=0.05)
    for epsilon, share in ((0.05, 0.343), (0.1, 0.280), (0.2, 0.195), (0.5, 0.048)):
        rounds = 20_000
        assert share - 5e-4 < floor_of(HiddenSign(horizon=rounds), epsilon) / rounds < share + 2e-3


def test_hidden_sign_floor_equals_exact_sums():
    for rounds in (1, 3, 7):
        for epsilon in (0.05, 0.3, 1.0):
            sums = [
                sum(
                    max(
                        0.0,
                        1.0 - math.exp((n - 1) * epsilon) * sum(math.comb(n, j) for j in range(k + 1)) / 2**n,
                    )
                    for k in range(n)
                )
                for n in range(1, rounds + 1)
            ]
            assert floor_of(HiddenSign(horizon=rounds), epsilon) == pytest.approx(max(sums))


def test_fingerprint_floor_by_hand():
    # Uniform, three rounds: B = 2 sinh(epsilon/2) (sqrt 2 + 1), and the two earlier prefixes.
    uniform = Fingerprint(prior="uniform", num_experts=6, horizon=3, active_rounds=3)
    for epsilon in (0.1, 0.7):
        step = 2.0 * math.sinh(epsilon / 2.0)
        values = [0.5, 1.0 - step / 4.0, 1.5 - step * (1.0 + math.sqrt(2.0)) / 4.0]
        assert uniform.loss_floor(uniform.game, epsilon) == pytest.approx(max(values))
    # Atoms: the factor 1 + pi a/(2 (1 - a)), and 1/16 for the games with too few.
    atoms = Fingerprint(num_experts=12, horizon=3)
    a = enough_atoms(6, 3)
    assert stats.binom.cdf(2, 6, a) == pytest.approx(1 / 48)
    factor = (1.0 + math.pi * a / (2.0 * (1.0 - a))) / 2.0
    step = 2.0 * math.sinh(0.05)
    values = [0.5, 1.0 - step * factor, 1.5 - step * (1.0 + math.sqrt(2.0)) * factor]
    values = [value - rounds / 48 for rounds, value in enumerate(values, 1)]
    assert floor_of(atoms, 0.1) == pytest.approx(max(values))
    half = atoms.clone(thinning=0.5)
    values = [0.5, 1.0 - step * factor / 2.0, 1.5 - step * (1.0 + math.sqrt(2.0)) * factor / 2.0]
    values = [(value - rounds / 48) / 2.0 for rounds, value in enumerate(values, 1)]
    assert floor_of(half, 0.1) == pytest.approx(max(values))
    # The comparator of the uniform prior: 30 columns, three rounds.
    wide = uniform.clone(num_experts=60)
    ceiling = min(3 * b * (b + 1) / (4 * 31 * (b - 2)) for b in range(3, 31))
    assert wide.best_loss_ceiling(wide.game) == pytest.approx(ceiling)
    assert floor_of(wide, 0.1) == pytest.approx(wide.loss_floor(wide.game, 0.1) - ceiling)
    assert atoms.best_loss_ceiling(atoms.game) == 0.0


def test_code_floor_by_hand():
    """Four rounds, two users: each is used twice before the last choice; rounds 3 and 4 know their row once."""
    code = SignEstimation(users=2, consensus=0.9, num_experts=16, horizon=4, active_rounds=4)
    failure = stats.binom.cdf(3, 8, 0.9)
    factor = (1.0 + math.pi * 0.9 / 0.2) / 2.0
    epsilon = 0.001
    one, two = 2.0 * math.sinh(epsilon / 2.0), 2.0 * math.sinh(epsilon)
    values = [
        0.5 - failure,
        1.0 - factor * one - 2 * failure,
        1.5 - factor * one * (1 + math.sqrt(2)) - one / 2.0 - 3 * failure,
        2.0 - factor * two * (math.sqrt(3) + math.sqrt(2)) - one - 4 * failure,
    ]
    assert floor_of(code, epsilon) == pytest.approx(max(values))
    assert floor_of(SignEstimation(users=40, horizon=40), 0.01) == floor_of(Fingerprint(horizon=40), 0.01)
    assert floor_of(SignEstimation(horizon=100), 0.005) < floor_of(Fingerprint(horizon=100), 0.005)
    # The paper's padding at a small size: hardly a column is left to learn from.
    assert floor_of(SignEstimation(consensus=0.999, horizon=100), 0.1) <= 0.5
    assert math.isnan(floor_of(SignEstimation(consensus=0.01, horizon=100), 0.1))


def test_subsets_gain_by_their_size():
    for size in (1, 2, 3):
        columns, rounds = 20 * size * 200, 200
        foe = Subsets(size=size, num_experts=2**size, horizon=1)
        game = GameSpec(2**size * math.comb(columns, size), rounds)
        a = enough_atoms(columns, size * rounds)
        factor = (1.0 + math.pi * a / (2.0 * (1.0 - a))) / 2.0
        steps = 2.0 * math.sinh(0.005) * np.sqrt(size * np.arange(1, rounds)).sum()
        short = stats.binom.cdf(size * rounds - 1, columns, a)
        assert foe.regret_floor(game, 0.01) == pytest.approx(rounds * (0.5 - short) - factor * steps / size)


def test_floors_grow_with_the_horizon_and_fall_with_the_budget():
    makers = (
        lambda rounds: HiddenSign(horizon=rounds),
        lambda rounds: Fingerprint(horizon=rounds),
        lambda rounds: Fingerprint(prior="uniform", num_experts=8000, horizon=rounds),
        lambda rounds: Subsets(size=1, horizon=rounds),
    )
    for maker in makers:
        for delta in (0.0, 1e-5):
            table = [
                [np.nan_to_num(floor_of(maker(rounds), epsilon, delta)) for epsilon in (0.0, 0.01, 0.1, 1.0, 9.0)]
                for rounds in (10, 40, 160)
            ]
            assert np.all(np.diff(table, axis=1) <= 1e-9)
            assert np.all(np.diff(table, axis=0)[:, :2] >= 0.0)
            assert np.all(np.array(table) <= np.array([[5.0], [20.0], [80.0]]) + 1e-9)
        assert floor_of(maker(40), 0.1, 1e-3) < floor_of(maker(40), 0.1, 0.0)


def test_a_thinned_floor_is_of_order_root_t_over_epsilon():
    scaled = []
    for rounds, epsilon in ((400, 0.5), (1600, 0.5), (6400, 0.5), (6400, 2.0)):
        foe = Fingerprint.tuned(epsilon, horizon=rounds, num_experts=20 * rounds)
        assert 0.0 < foe.thinning < 1.0
        floor = floor_of(foe, epsilon)
        scaled.append(floor * 2.0 * math.sinh(epsilon / 2.0) / math.sqrt(rounds))
        # The best of all rates.
        for factor in (0.8, 1.25):
            assert floor_of(foe.clone(thinning=foe.thinning * factor), epsilon) < floor
    assert 0.14 < min(scaled) <= max(scaled) < 0.17
    # The constant is smaller with fewer columns: at N = 4T.
    for rounds, epsilon in ((400, 0.5), (6400, 0.5), (6400, 2.0)):
        floor = floor_of(Fingerprint.tuned(epsilon, horizon=rounds, num_experts=4 * rounds), epsilon)
        assert 0.06 < floor * 2.0 * math.sinh(epsilon / 2.0) / math.sqrt(rounds) < 0.073
    assert Fingerprint.tuned(0.001, horizon=50).thinning == 1.0
    assert Fingerprint.tuned(math.inf, prior="uniform", horizon=50).thinning == 1.0
    assert Subsets.tuned(2.0, horizon=8).thinning <= 1.0


def test_best_loss_of_the_uniform_prior_stays_below_its_ceiling():
    """2000 games against one who burns the columns of largest means, which it is told: within five standard errors."""
    foe = begin(Fingerprint(prior="uniform", num_experts=120, horizon=8, active_rounds=8, num_games=2000))
    order = np.abs(foe.means).argsort(-1)[:, ::-1]
    total = np.zeros((2000, 120))
    for index in range(8):
        total += foe.emit()
        column = order[:, index]
        foe.see(2 * column + (np.take_along_axis(foe.means, column[:, None], -1)[:, 0] < 0))
    mean, error = mean_error(total.min(-1))
    assert mean - 5 * error <= foe.best_loss_ceiling(foe.game)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HiddenSign(num_experts=1), "num_experts: expected at least 2"),
        (lambda: HiddenSign(num_experts=10, horizon=9, active_rounds=6), "active_rounds: expected at most 5"),
        (lambda: Fingerprint(horizon=4, active_rounds=5), "active_rounds: expected at most 4 with horizon=4"),
        (lambda: Fingerprint(prior="flat"), "prior: unknown name 'flat'"),
        (lambda: Fingerprint(thinning=0.0), r"thinning: expected a number in \(0, 1\]"),
        (lambda: HiddenSign(horizon=10**7), "horizon: 10000000 rounds .* give num_experts"),
        (lambda: Subsets(size=3, num_experts=7), "num_experts: expected at least 8, for the signs of 3 column"),
        (lambda: Subsets(horizon=1000), "horizon: 1000 rounds with 4 new columns each"),
        (lambda: Subsets(size=40), "size: expected at most 20"),
        (lambda: SignEstimation(consensus=1.0), "consensus"),
        (lambda: SignEstimation(users=0), "users: expected an integer >= 1"),
        (lambda: SmallLossFloor(best_loss=9.0, horizon=9), r"best_loss: expected a number in \[0, 9\)"),
        (lambda: floor_of(HiddenSign(), -0.1), "epsilon: expected a number in"),
        (lambda: floor_of(HiddenSign(), 0.1, 1.0), "delta: expected a number in"),
        (lambda: SmallLossFloor(best_loss=5.0).regret_floor(GameSpec(10, 5)), "spec: expected a horizon above"),
        (lambda: HiddenSign(active_rounds=9).regret_floor(GameSpec(10, 50), 0.1), "active_rounds: expected at most 5"),
    ],
)
def test_errors_name_the_argument(build, message):
    with pytest.raises(ArgumentError, match=message):
        build()


def test_sizes_follow_the_horizon():
    assert [cls().num_experts for cls in COLUMNS] == [200, 400, 400, 1984]
    assert Fingerprint(prior="uniform").num_experts == 2000
    assert Subsets(size=1, horizon=10).num_experts == 40
    assert HiddenSign(num_experts=12, horizon=50)._fit(GameSpec(12, 50)) == (6, 6)
    assert Fingerprint(num_experts=40, horizon=50)._fit(GameSpec(40, 50)) == (20, 10)
    # A floor is asked of any size, with no game drawn.
    assert HiddenSign().regret_floor(GameSpec(20, 10), 0.1) == floor_of(HiddenSign(horizon=10), 0.1)


# -- the floor without privacy -----------------------------------------------------------------------------------------


def test_small_loss_floor_by_hand():
    # Two experts and one round: E L* = p^2.
    foe = SmallLossFloor(best_loss=0.25, num_experts=2, horizon=1)
    assert floor_of(foe, math.inf) == pytest.approx(0.25)
    assert begin(foe).rates == pytest.approx([0.5, 0.5])
    # Two experts, one perfect: the other is out at the first loss, which either suffers with probability 1/2.
    assert floor_of(SmallLossFloor(num_experts=2, horizon=50), 1.0) == pytest.approx(0.5, abs=1e-6)
    assert math.isnan(floor_of(SmallLossFloor(num_experts=1), 1.0))
    assert math.isnan(floor_of(SmallLossFloor(best_loss=1.0, num_experts=1), 1.0))
    # H_N - 1 in the limit, from below.
    for size in (3, 30, 300):
        limit = sum(1.0 / k for k in range(2, size + 1))
        assert 0.999 * limit < floor_of(SmallLossFloor(num_experts=size, horizon=10**5), 1.0) < limit


def test_small_loss_floor_is_what_everybody_loses():
    """3000 games: regret equals the floor and L* what was asked, for each learner, within five standard errors."""
    foe = SmallLossFloor(best_loss=3.0, num_experts=12, horizon=60)
    floor = floor_of(foe, 1.0)
    for name in ("uniform", "hedge", "follow_the_leader", "private_hedge"):
        match = dpe.play(dpe.make_learner(name), foe, num_games=3000, seed=5, progress=False)
        for values, expected in ((match.regret, floor), (match.best_loss, 3.0)):
            mean, error = mean_error(values)
            assert abs(mean - expected) < 5 * error
    realizable = SmallLossFloor(num_experts=12, horizon=60)
    for name, reaches in (("follow_the_leader", True), ("hedge", False), ("uniform", False)):
        match = dpe.play(dpe.make_learner(name), realizable, num_games=3000, seed=6, progress=False)
        assert not match.best_loss.any()
        mean, error = mean_error(match.regret)
        assert mean + 5 * error >= floor_of(realizable, 1.0)
        assert not reaches or abs(mean - floor_of(realizable, 1.0)) < 5 * error


def test_small_loss_floor_has_its_order():
    """The constant of sqrt(L* ln N) + ln N: at least 0.6 for ten experts and more."""
    ratios = []
    for size, best_loss in itertools.product((10, 100, 1000), (0.0, 0.5, 1.0, 10.0, 100.0, 1000.0)):
        foe = SmallLossFloor(best_loss=best_loss, num_experts=size, horizon=100_000)
        ratios.append(floor_of(foe, math.inf) / (math.sqrt(best_loss * math.log(size)) + math.log(size)))
    assert min(ratios) > 0.6
    assert max(ratios) < 1.2
