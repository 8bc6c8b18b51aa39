"""FADE: its budget, its state machine against a slow scalar one, its privacy by enumeration, its measured regret."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_experts_env as dpe
from dp_experts_adversaries.families import Family
from dp_experts_agents import fade
from dp_experts_agents.fade import Fade, plan_fade
from dp_experts_env.privacy.accounting import mixed_delta, mixed_rho
from dp_experts_env.spec import ArgumentError, GameSpec
from dp_experts_env.testing.suite import check_frequencies

BUDGETS = [(1.0, 1e-6), (1.0, 0.0), (0.1, 1e-3), (7.0, 1e-2), (60.0, 0.0), (0.03, 1e-9), (5.0, 0.4)]


def begun(learner, experts, horizon, games=None, seed=0):
    learner.reset(GameSpec(experts, horizon, games), np.random.default_rng(seed))
    return learner


def faded(memory, count):
    """K_0, K_1, ..."""
    return sum(share * decay ** np.arange(count) for share, decay in memory)


# ---------------------------------------------------------------------------------------------------------- budget


def test_constants_of_the_two_memories():
    plan = plan_fade(10, 10**4, 1.0, 1e-6)
    assert plan.memory == ((0.6, 0.5), (0.4, 0.93))
    assert round(plan.weight, 7) == 0.0876074
    assert 0.0098298 <= mixed_rho(0.4, 1.0, 1e-6) < 0.0098299
    assert plan_fade(10, 10**4, 1.0, 0.0).weight == pytest.approx(0.6 * 0.2 / 2.0, rel=1e-11)
    assert plan.threshold == pytest.approx(2.5 * (math.log(10**4 / 8) - 1.0))
    assert (plan.longest_wait, plan.clip) == (500, math.log(10) + 20.0)
    assert (plan_fade(1, 1, 1.0, 0.0).threshold, plan_fade(1, 1, 1.0, 0.0).longest_wait) == (2.5, 8)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_weights_never_exceed_the_budget(epsilon, delta, adjacency):
    """In exact arithmetic: the watch's e0 and the sum of all ranges, or what they cost by the worst mixture."""
    plan = plan_fade(5, 1000, epsilon, delta, adjacency)
    watch = begun(Fade(epsilon, delta, adjacency), 5, 1000)._watch
    spent = max(1 / Fraction(watch.threshold_scale), 1 / Fraction(watch.query_scale))
    assert spent <= Fraction(plan.watch_epsilon)
    span = 2 if adjacency == "replace" else 1
    weight = span * Fraction(plan.weight)
    parts = [(Fraction(share), Fraction(decay)) for share, decay in plan.memory]
    pure = spent + weight * sum(share / (1 - decay) for share, decay in parts)
    squares = sum(s * t / (1 - d * e) for s, d in parts for t, e in parts)
    rho = weight**2 * squares / 8
    if delta == 0.0:
        assert epsilon * (1 - 1e-11) <= pure <= Fraction(epsilon)
    else:
        found = mixed_delta(plan.watch_epsilon, float(rho) * (1 + 1e-15), epsilon)
        assert found <= delta or pure <= Fraction(epsilon)
        assert found >= delta * (1 - 1e-6) or pure >= epsilon * (1 - 1e-11)
    # The rest of the geometric sums, added up slowly.
    assert float(pure - spent) == pytest.approx(plan.weight * span * faded(plan.memory, 3000).sum(), rel=1e-9)
    assert float(rho) == pytest.approx(
        (plan.weight * span * faded(plan.memory, 3000)) @ (plan.weight * span * faded(plan.memory, 3000)) / 8.0,
        rel=1e-9,
    )


def test_claims():
    spec = GameSpec(5, 100)
    for adjacency in ("replace", "zero_out"):
        claim = Fade(2.0, 1e-4, adjacency).guarantee(spec)
        assert (claim.epsilon, claim.delta, claim.against, claim.adjacency.value) == (2.0, 1e-4, "adaptive", adjacency)
    assert plan_fade(5, 100, 2.0, 1e-4, "zero_out").weight == pytest.approx(2 * plan_fade(5, 100, 2.0, 1e-4).weight)
    assert math.isnan(Fade().regret_bound(spec, 3.0))
    for arguments in ({"epsilon": -1.0}, {"delta": 1.0}, {"adjacency": "remove"}):
        with pytest.raises(ArgumentError, match=next(iter(arguments))):
            Fade(**arguments)


# ------------------------------------------------------------------------------------------------- a slow scalar one


class Scalar:
    """The published state machine for one game, all decisions before rounds that follow a multiple of 8, in scalars."""

    def __init__(self, experts, horizon, epsilon, delta, rng):
        self.watch = 0.4 * epsilon
        b = 1.0 / self.watch
        self.tau = b * max(1.0, math.log(horizon / 8) - 1.0)
        self.b_max = max(8, horizon // 20)
        self.clip = math.log(experts) + 20.0
        if delta:
            self.parts = [(0.6, 0.5), (0.4, 0.93)]
            squares = sum((0.6 * 0.5**j + 0.4 * 0.93**j) ** 2 for j in range(2000))
            total = sum(0.6 * 0.5**j + 0.4 * 0.93**j for j in range(2000))
            self.a = max(
                math.sqrt(2.0 * mixed_rho(self.watch, epsilon, delta) / squares), (epsilon - self.watch) / (2 * total)
            )
        else:
            self.parts = [(1.0, 0.8)]
            self.a = (epsilon - self.watch) * (1.0 - 0.8) / 2.0
        self.query, self.threshold, self.selections = rng.spawn(3)
        self.xi = self.threshold.exponential(b, 1)[0]
        self.x = int(self.selections.integers(experts, size=1)[0])
        self.u = [[0.0] * experts for _ in self.parts]
        self.s = [0.0] * experts
        self.t0, self.drift, self.acc, self.mode = 0, 0.0, 0.0, "measure"
        self.ref, self.te, self.next, self.good, self.m = None, 0, 8, False, None
        self.b, self.branches = b, []

    def play(self, losses):
        choices, triggers, redraws = [], [], []
        for t, row in enumerate(losses):
            triggered = redrawn = False
            if t and t % 8 == 0:
                triggered, redrawn = self.decide(t)
            choices.append(self.x)
            triggers.append(triggered)
            redraws.append(redrawn)
            self.acc += row[self.x]
            self.s = [a + b for a, b in zip(self.s, row, strict=True)]
        return choices, triggers, redraws

    def decide(self, t):
        nu, xi = self.query.exponential(self.b, 1)[0], self.threshold.exponential(self.b, 1)[0]
        uniform = self.selections.random(1)[0]
        w = t - self.t0
        trig = bool(self.acc - self.drift * w + nu >= self.tau + self.xi)
        emergency = renewed = False
        if self.mode == "measure":
            h = None
            if trig:
                h, self.good = min(1.0, self.tau / w), False
            elif w >= 6 * self.tau:
                h, self.good = 1.0 / 12.0, True
            if h is not None:
                self.branches.append("measured bad" if trig else "measured good")
                if self.ref is None:
                    self.ref = h
                elif h > 1.35 * self.ref + 0.03:
                    emergency = True
                    self.ref += (h - self.ref) / 4
                    self.branches.append("worse")
                elif h < self.ref:
                    self.ref = (self.ref + h) / 2
                    self.branches.append("better")
                else:
                    self.ref += (h - self.ref) / 4
                self.m = max(0.05, 0.3 * h)
                self.drift, self.mode, renewed = h + self.m, "watch", True
        elif trig:
            emergency = True
            self.branches.append("alarm")
        elif w >= self.tau / (2 * self.m):
            renewed = True
            self.branches.append("expired")
        redraw = emergency
        if emergency:
            self.te, self.next = t, t + 256
        elif t >= self.next:
            redraw = not self.good
            self.branches.append("scheduled" if redraw else "spared")
            self.next = t + min(self.b_max, max(8, t - self.te))
        if redraw:
            exponents = [0.0] * len(self.s)
            for k, (share, decay) in enumerate(self.parts):
                u = [decay * a + share * self.a * b for a, b in zip(self.u[k], self.s, strict=True)]
                low = min(u)
                self.u[k] = [min(a - low, self.clip) for a in u]
                exponents = [a + b for a, b in zip(exponents, self.u[k], strict=True)]
            weights = [math.exp(-a) for a in exponents]
            target, running = uniform * sum(weights), 0.0
            for i, weight in enumerate(weights):
                running += weight
                if running > target:
                    self.x = i
                    break
            self.s = [0.0] * len(self.s)
            self.mode, self.drift, self.good, renewed = "measure", 0.0, False, True
        if renewed:
            self.t0, self.acc, self.xi = t, 0.0, xi
        return trig, redraw


def sequences(horizon):
    """Losses (T, 4) that lead through every branch: one good expert, a swap, a late failure, turns, fair noise."""
    rng, t = np.random.default_rng(0), np.arange(horizon)[:, None]
    yield (rng.random((horizon, 4)) < [0.5, 0.02, 0.5, 0.6]).astype(float)
    yield (rng.random((horizon, 4)) < np.where(t < horizon // 2, [0.05, 0.6, 0.6, 0.6], [0.8, 0.05, 0.5, 0.5])).astype(
        float
    )
    yield (rng.random((horizon, 4)) < np.where(t < 0.7 * horizon, [0.0, 0.5, 0.5, 0.5], [1.0, 0.3, 0.5, 0.5])).astype(
        float
    )
    yield ((t // 300 + 1) % 4 == np.arange(4)).astype(float)
    yield rng.random((horizon, 4))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (1.0, 0.0), (8.0, 1e-6), (40.0, 0.0)])
def test_state_machine_round_for_round(epsilon, delta):
    horizon, branches = 3000, []
    for number, losses in enumerate(sequences(horizon)):
        learner = begun(Fade(epsilon, delta), 4, horizon, seed=number)
        learner._notes = {}
        choices = learner.run(losses)
        scalar = Scalar(4, horizon, epsilon, delta, np.random.default_rng(number))
        expected = scalar.play(losses.tolist())
        assert choices.tolist() == expected[0]
        assert np.array(learner._notes["triggered"]).tolist() == expected[1]
        assert np.array(learner._notes["redrawn"]).tolist() == expected[2]
        branches += scalar.branches
    assert {"measured bad", "measured good", "alarm", "expired", "scheduled", "spared", "better"} <= set(branches)
    assert "worse" in branches or epsilon < 2.0


@pytest.mark.parametrize("games", [None, 3])
def test_blocks_equal_the_loop(games):
    horizon = 1200
    own = np.random.default_rng(3).random((600, 4) if games is None else (600, games, 4)) ** 3
    shared = np.random.default_rng(4).integers(2, size=(600, 4)).astype(float)
    loop, blocks = begun(Fade(20.0), 4, horizon, games), begun(Fade(20.0), 4, horizon, games)
    loop._notes, blocks._notes = {}, {}
    one = []
    for row in [*shared, *own]:
        one.append(loop.act())
        loop.observe(row)
    cuts = np.split(own, [1, 7, 8, 9, 300])
    two = np.concatenate([blocks.run(part) for part in (shared[:13], shared[13:], *cuts)])
    np.testing.assert_array_equal(one, two)
    for name in ("triggered", "redrawn"):
        np.testing.assert_array_equal(loop._notes[name], blocks._notes[name])
    assert np.array(loop._notes["redrawn"]).any()


# ----------------------------------------------------------------------------------------- privacy along one transcript


class Forced:
    """Plays a learner along a given transcript of trigger bits and draws; keeps queries, laws and instances."""

    def __init__(self, learner, triggers, experts):
        self.laws, self.queries, self.starts, self.recent = [], [], [], []
        self.learner, self.clipped = learner, False
        start, decision = learner._watch.start, iter(range(10**6))

        def test(queries, threshold, noise):
            self.number = next(decision)
            self.queries.append(np.array(queries))
            return np.array(triggers[self.number])

        def begin(mask, noise):
            self.starts.append((self.number, np.array(mask)))
            start(mask, noise)

        learner._watch.test, learner._watch.start = test, begin
        self.experts = experts

    def sample(self, law, uniforms):
        """In place of the draw of experts, where ``uniforms`` tells how many games draw."""
        self.laws.append(np.array(law))
        self.clipped |= any((memory == self.learner._plan.clip).any() for memory in self.learner._memory)
        return np.broadcast_to(self.experts[self.number], uniforms.shape)

    def play(self, losses, monkeypatch):
        monkeypatch.setattr(fade, "sample_inverse_cdf", self.sample)
        for row in losses:
            self.learner.act()
            self.learner.observe(row)
            self.recent.append(self.learner._recent.copy())
        return self


def two_worlds(learner, losses, place, other, seed, monkeypatch, chance=0.15):
    """The same transcript in the two worlds."""
    horizon, experts = losses.shape
    rng = np.random.default_rng(seed)
    triggers = (rng.random((horizon // 8 + 1, 1)) < chance).tolist()
    drawn = rng.integers(experts, size=horizon // 8 + 1)
    changed = losses.copy()
    changed[place] = other
    return [
        Forced(begun(learner.clone(), experts, horizon, seed=1), triggers, drawn).play(rows, monkeypatch)
        for rows in (losses, changed)
    ]


CASES = [(1.0, 1e-6), (1.0, 0.0), (30.0, 1e-6), (30.0, 0.0)]


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_ranges_of_the_draws_along_random_transcripts(epsilon, delta, adjacency, monkeypatch):
    """The j-th draw after the change moves by a log-ratio range of at most 2 a K_j; at epsilon = 30 the clip acts."""
    learner, horizon = Fade(epsilon, delta, adjacency), 320
    plan = plan_fade(3, horizon, epsilon, delta, adjacency)
    span = 2.0 if adjacency == "replace" else 1.0
    affected, clipped = 0, False
    for seed in range(8):
        rng = np.random.default_rng(seed)
        losses = rng.random((horizon, 3)) ** rng.choice([1.0, 4.0]) * min(1.0, 15.0 / epsilon)
        losses[:, seed % 3] *= 0.3
        place = int(rng.integers(100))
        losses[place] = rng.random(3)
        other = np.zeros(3) if adjacency == "zero_out" else rng.integers(2, size=3).astype(float)
        one, two = two_worlds(learner, losses, place, other, seed, monkeypatch, chance=0.4)
        with np.errstate(divide="ignore"):
            ratios = [np.log(a) - np.log(b) for a, b in zip(one.laws, two.laws, strict=True)]
        ranges = np.array([np.ptp(ratio[np.isfinite(ratio)]) for ratio in ratios])
        clipped |= one.clipped
        moved = np.flatnonzero(ranges > 1e-9)
        if not len(moved):
            continue
        first = moved[0]
        bounds = span * plan.weight * faded(plan.memory, len(ranges) - first)
        assert (ranges[first:] <= bounds * (1.0 + 1e-9) + 1e-12).all()
        assert (ranges[:first] < 1e-12).all()
        affected += len(moved)
        # One instance is shifted, on a suffix, by one constant in [-1, 1].
        shifts = np.array([float(b[0] - a[0]) for a, b in zip(one.queries, two.queries, strict=True)])
        touched = np.flatnonzero(shifts)
        if len(touched):
            assert np.ptp(shifts[touched]) < 1e-9
            assert abs(shifts[touched]).max() <= 1.0 + 1e-9
            begins = [number for number, mask in one.starts if mask[0]]
            assert sum(touched[0] <= number < touched[-1] for number in begins) == 0
            assert (np.diff(touched) == 1).all()
    assert affected > 8
    assert clipped == (epsilon == 30.0)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_worst_path_spends_nearly_all(delta, monkeypatch):
    """Losses (1, 0) against (0, 1) in one round, nothing else, always above threshold: every range is reached."""
    horizon = 8 * 200
    learner = Fade(1.0, delta)
    losses = np.zeros((horizon, 2))
    losses[3] = [1.0, 0.0]
    one, two = two_worlds(learner, losses, 3, [0.0, 1.0], 0, monkeypatch, chance=1.1)
    plan = plan_fade(2, horizon, 1.0, delta)
    ranges = np.array([np.ptp(np.log(a) - np.log(b)) for a, b in zip(one.laws, two.laws, strict=True)])
    expected = 2.0 * plan.weight * faded(plan.memory, len(ranges))
    np.testing.assert_allclose(ranges, expected, rtol=1e-9, atol=1e-14)
    assert len(ranges) >= 100
    if delta:
        rho = mixed_rho(0.4, 1.0, delta)
        assert 0.999 * rho < (ranges**2).sum() / 8.0 <= rho
    else:
        assert 0.5999 < ranges.sum() <= 0.6


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**32), st.floats(0.0, 40.0), st.floats(0.0, 3.0))
def test_clipping_is_non_expansive(experts, seed, size, clip):
    """max - min of the difference of two memories never grows by the clip, whatever it clips at."""
    rng = np.random.default_rng(seed)
    one = rng.random(experts) * size
    two = one + rng.uniform(-1.0, 1.0, experts)
    cut = [np.minimum(u - u.min(), clip) for u in (one, two)]
    assert np.ptp(cut[0] - cut[1]) <= np.ptp(one - two) + 1e-12
    # and this is what the learner does
    learner = begun(Fade(), experts, 100)
    plan = learner._plan
    for u, expected in zip((one, two), cut, strict=True):
        object.__setattr__(learner, "_plan", fade.FadePlan(0.4, ((1.0, 0.5),), 1.0, plan.threshold, 8, clip))
        learner._memory, learner._recent = [np.zeros((1, experts))], u[None].copy()
        learner._redraw(np.array([True]), np.array([0.5]))
        np.testing.assert_array_equal(learner._memory[0][0], expected)
        assert not learner._recent.any()


def test_later_sums_do_not_remember_the_changed_loss(monkeypatch):
    """Once a draw has used the changed round the sums of both worlds are equal bit for bit, as are the windows.

    A difference of running totals would keep the changed loss in its rounding, as shown at the end.
    """
    losses = np.random.default_rng(1).random((200, 3))
    one, two = two_worlds(Fade(), losses, 10, [1.0, 0.0, 0.7], 5, monkeypatch)
    draws = [number for number, _ in one.starts]
    assert draws == [number for number, _ in two.starts]
    last = 8 * (1 + next(number for number in draws if 8 * (number + 1) > 10))
    differs = [t for t, (a, b) in enumerate(zip(one.recent, two.recent, strict=True)) if not np.array_equal(a, b)]
    assert differs
    assert differs[0] == 10
    assert max(differs) < 10 + 8 * 20
    used = max(differs) + 1
    assert used % 8 == 0
    for a, b in zip(one.queries[used // 8 :], two.queries[used // 8 :], strict=True):
        assert a.tolist() == b.tolist()
    assert last <= used
    totals, changed = losses.cumsum(0), losses.copy()
    changed[10] = [1.0, 0.0, 0.7]
    assert (np.diff(totals, axis=0)[used:] != np.diff(changed.cumsum(0), axis=0)[used:]).any()


# ------------------------------------------------------------------------------- exact games of all transcripts


@functools.cache
def answer_log_probability(threshold_scale, tau, queries, answers):
    instance = fade.AboveThreshold(threshold_scale, threshold_scale, noise="exponential")
    return instance.log_probability(queries, tau, answers)


class Game:
    """All transcripts of a small game at once, one a game of a batch: first expert, then (trigger, draw) a decision."""

    def __init__(self, learner, horizon, monkeypatch):
        self.decisions = (horizon - 1) // 8
        self.codes = np.array(list(itertools.product(range(2), *[range(4)] * self.decisions)))
        self.monkeypatch, self.learner, self.horizon = monkeypatch, learner, horizon

    def log_law(self, losses):
        """Log-probabilities of the transcripts, -inf for codes of draws that did not happen; losses(t) is (G, 2)."""
        games = len(self.codes)
        learner = begun(self.learner.clone(), 2, self.horizon, games)
        learner._held = self.codes[:, 0].copy()
        logs, number = np.full(games, math.log(0.5)), -1
        windows = [[] for _ in range(games)]
        scale, tau = learner._watch.threshold_scale, learner._plan.threshold
        restart = learner._watch.start

        def close(mask):
            for game in np.flatnonzero(mask):
                if windows[game]:
                    queries, answers = zip(*windows[game], strict=True)
                    logs[game] += answer_log_probability(scale, tau, queries, answers)
                    windows[game] = []

        def test(queries, threshold, noise):
            assert threshold == tau
            bits = self.codes[:, 1 + number] >= 2
            for game, (query, bit) in enumerate(zip(np.round(queries, 12).tolist(), bits.tolist(), strict=True)):
                windows[game].append((query, bit))
            return bits

        def start(mask, noise):
            close(mask)
            restart(mask, noise)

        drawn = np.zeros(games, dtype=bool)

        def sample(law, uniforms):
            where = drawing[0]
            chosen = self.codes[where, 1 + number] % 2
            logs[where] += np.log(np.take_along_axis(law, chosen[:, None], -1)[:, 0])
            drawn[where] = True
            return chosen

        redraw, drawing = learner._redraw, [None]

        def watched(where, uniforms):
            drawing[0] = np.flatnonzero(where)
            redraw(where, uniforms)

        learner._watch.test, learner._watch.start, learner._redraw = test, start, watched
        self.monkeypatch.setattr(fade, "sample_inverse_cdf", sample)
        for t in range(self.horizon):
            if t and t % 8 == 0:
                number, drawn[:] = t // 8 - 1, False
            learner.act()
            if t and t % 8 == 0:
                # A transcript without a draw is counted once.
                logs[~drawn & (self.codes[:, 1 + number] % 2 == 1)] = -math.inf
            learner.observe(losses(t))
        close(np.ones(games, dtype=bool))
        return logs


@pytest.mark.parametrize(
    ("epsilon", "delta", "adjacency"),
    [(2.0, 0.0, "replace"), (2.0, 1e-2, "replace"), (6.0, 0.0, "zero_out"), (0.7, 0.1, "replace")],
)
def test_exact_adaptive_games(epsilon, delta, adjacency, monkeypatch):
    """41 rounds, two experts, five decisions: all 2048 codes in both worlds, adversaries that react to the transcript.

    The losses of a stretch between decisions are a random function of the transcript so far. Masses sum to one; the
    log-ratio stays below epsilon for delta = 0, else the hockey stick below delta. Instances come from the exact law
    of AboveThreshold, everything else from the learner itself.
    """
    game = Game(Fade(epsilon, delta, adjacency), 41, monkeypatch)
    prefixes = [np.unique(game.codes[:, : 1 + k], axis=0, return_inverse=True)[1].ravel() for k in range(6)]
    corners = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    worst = 0.0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        answers = [corners[rng.integers(4, size=prefix.max() + 1, dtype=int)][prefix] for prefix in prefixes]
        stretch = int(rng.integers(3))
        first = corners[rng.integers(2)] if seed else corners[0]
        second = corners[3] if adjacency == "zero_out" else 1.0 - first

        def losses(t, moved, answers=answers, stretch=stretch):
            return np.broadcast_to(moved, (len(game.codes), 2)) if t == 8 * stretch + 2 else answers[t // 8]

        one, two = (game.log_law(lambda t, moved=moved: losses(t, moved)) for moved in (first, second))
        np.testing.assert_array_equal(np.isneginf(one), np.isneginf(two))
        real = ~np.isneginf(one)
        for logs in (one, two):
            assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-9)
        for here, there in ((one, two), (two, one)):
            if delta:
                worst = max(worst, np.maximum(np.exp(here) - math.exp(epsilon) * np.exp(there), 0.0).sum())
            else:
                worst = max(worst, (here[real] - there[real]).max())
    assert worst <= (delta or epsilon)
    assert worst > 0.3 * epsilon or delta


# ------------------------------------------------------------------------------------------- the law of what is played


def test_triggers_and_draws_have_their_law():
    """40,000 games of two experts that lose 0.9 and 0.7 a round; 7 frequencies, false alarm 1e-9 in all.

    The first draws come after 8 and 16 rounds, whatever the triggers: tested are the first expert, the answers of the
    first two windows given the expert held, and the two draws, whose memory is known.
    """
    games, horizon = 40_000, 2000
    learner = begun(Fade(), 2, horizon, games, 6)
    learner._notes = {}
    row, plan = np.array([0.9, 0.7]), learner._plan
    choices = learner.run(np.tile(row, (24, 1)))
    triggered, redrawn = (np.array(learner._notes[name]) for name in ("triggered", "redrawn"))
    assert redrawn[8].all()
    assert redrawn[16].all()
    assert not triggered[[*range(8), *range(9, 16), *range(17, 24)]].any()
    for now in (8, 16):
        held = choices[now - 1]
        for expert in range(2):
            where = held == expert
            law = math.exp(
                answer_log_probability(learner._watch.query_scale, plan.threshold, (8 * float(row[expert]),), (True,))
            )
            check_frequencies([triggered[now][where].sum()], int(where.sum()), [law], 8, f"trigger at {now}")
            assert 0.001 < law < 0.999
    u = [0.0, 0.0]
    for now in (8, 16):
        exponents = 0.0
        for part, (share, decay) in enumerate(plan.memory):
            u[part] = decay * u[part] + share * plan.weight * 8 * 0.2
            exponents += u[part]
        law = 1.0 / (1.0 + math.exp(-exponents))
        counts = [(choices[now] == 1).sum()]
        check_frequencies(counts, games, [law], 8, f"draw at {now}")
        with pytest.raises(AssertionError):
            check_frequencies(counts, games, [law + 0.03], 8, f"draw at {now}")
    check_frequencies([(choices[0] == 1).sum()], games, [0.5], 8, "first expert")


@pytest.mark.parametrize(
    ("experts", "delta", "family", "figure"),
    [
        (10, 1e-6, "A", 52),
        (10, 1e-6, "C", 53),
        (10, 1e-6, "D", -1602),
        (10, 0.0, "A", 66),
        (10, 0.0, "Cs", 75),
        (100, 1e-6, "A", 102),
        (100, 0.0, "C", 132),
    ],
)
def test_measured_regret(experts, delta, family, figure):
    """T = 10^4, epsilon = 1, 32 games: the figure of a prototype within 6 standard errors plus 6% (its own error)."""
    foe = Family(family, num_experts=experts, horizon=10**4)
    match = dpe.play(Fade(1.0, delta), foe, num_games=32, seed=2)
    assert abs(match.mean_regret - figure) < 6.0 * match.standard_error + 0.06 * abs(figure)
    assert match.standard_error < 20.0
    assert math.isnan(match.regret_bound)


def test_small_games():
    for learner in (Fade(), Fade(0.01, 0.0), Fade(1e3, 0.1)):
        assert begun(learner, 1, 1).act() == 0
        assert begun(learner, 1, 100).run(np.ones((100, 1))).tolist() == [0] * 100
        held = begun(learner, 3, 8, 300).run(np.random.default_rng(0).random((8, 3)))
        assert (held == held[0]).all()
        assert set(held[0]) == {0, 1, 2}
