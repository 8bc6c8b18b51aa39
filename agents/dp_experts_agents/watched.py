"""Hold an expert and watch its loss; redraw it, privately, when the watch raises an alarm.

The kernel that :class:`SmallLoss` and :class:`Realizable` plan.

**Mechanism.** The first expert x is uniform. A *window* begins, with fresh threshold noise xi of rate e_a (scale
1/e_a). After every ``stride`` rounds the loss r of x in the window is queried: alarm if r + nu >= tau_j + xi, nu fresh
of rate e_b, j the number of redraws so far. At an alarm a coin keeps x with probability exp(-eta_j max(r, C)), C =
1/(e^{e_c} - 1), or (no coin) never; else x is redrawn from P(i) proportional to exp(-eta_j max(L(i), lift)), L the
losses of all rounds so far, and j grows by one. Either way a new window begins. After ``cap`` redraws there are no
more alarms. The rates eta_j = eta (1 + j/m)^-p may taper off and the thresholds tau_j = tau (1 + j/m)^g grow, by public
schedules.

**Privacy** [DERIVED]. Transcript: the alarms, the coins and the choices. One loss vector is changed. Before its round
both worlds are equal. Given the transcript up to the beginning of its window, an adaptive adversary's other losses in
that window are fixed and equal in both worlds as long as no alarm comes, and so is x. The changed round enters:

1. *One watch.* Windows are disjoint. The queries of the one with the changed round move by one constant d in [-1, 1]
   from that round on, so its alarm time has log-ratio in [-e_a, e_b] if they rise and [-e_b, e_a] if they fall (the
   lemma "suffix_constant" of :meth:`AboveThreshold.epsilon`, for Laplace and one-sided exponential noise alike).
2. *The coin that ends this window.* If r rises by d <= 1, keeping gets less likely by a factor >= e^{-eta_j}, leaving
   more likely by at most (1 - e^{-eta_j (u + d)})/(1 - e^{-eta_j u}) <= (u + d)/u <= 1 + 1/C = e^{e_c}, with u =
   max(r, C) (1 - e^{-s} is concave). Without the floor C the coin would be private for no epsilon. Together, alarm and
   kept lie in [-e_a - eta_j, e_b], alarm and redrawn in [-e_a, e_b + e_c]: the pair is w-DP, w = max(e_a + eta, e_b +
   e_c), and has bounded range e_a + e_b + eta + e_c. Without a coin w = max(e_a, e_b), range e_a + e_b.
3. *Every later redraw*, the one at this alarm included: max(L, lift) moves by a vector in [-1, 1]^N, bounded range
   a_j = 2 eta_j (``replace``), or in [0, 1]^N up to the sign, a_j = eta_j (``zero_out``); a_j^2/8-zCDP.

Along every path the costs add up (at most ``cap`` redraws, and one an alarm), so against adaptive adversaries:
"pure", epsilon = w + sum a_j; "mixed", w-DP followed by sum a_j^2/8-zCDP; "zcdp", rho = (range of 2)^2/8 + sum a_j^2/8.
Rates that taper off make the sums converge, so that the number of redraws needs no cap and no late failure of the held
expert goes unnoticed. Guarantees hold in ideal arithmetic.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_experts_agents.baselines import running_totals
from dp_experts_agents.watch_plans import SOURCES, Plan
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.mechanisms import (
    AboveThreshold,
    exponential_log_probabilities,
    exponential_probabilities,
    sample_inverse_cdf,
    sample_outcomes,
)
from dp_experts_env.spec import Adjacency, FloatArray, GameSpec, Guarantee, IntArray

LAW_ROUNDS = 64
"""Longest horizon for which a learner keeps what ``outcomes`` needs: the queries of its windows."""

_WINDOW = 16


class WatchedExpert(Learner):
    """The kernel of the module; a subclass makes the plan.

    State is kept for G games (one of them without a games axis): ``_score``, the losses up to the last query, and
    ``_batch``, those since, shared by all games as long as the losses are; for each game the expert held, the
    redraws made, its loss in the window up to the last query, and the noisy threshold. Every query takes one number
    a game from each of four streams, whether it is used or not.
    """

    _taken: bool

    def plan(self, spec: GameSpec) -> Plan:
        """Return the constants for a game of this size and what they certify."""
        raise NotImplementedError

    def plans(self) -> tuple[list[Plan], IntArray]:
        """Return the plans in force and which of them each game plays; one for all, but for calibration."""
        return [self.plan(self.spec)], np.zeros(self.spec.num_games or 1, dtype=np.int64)

    def start(self) -> None:
        """Forget all losses and draw the first experts."""
        plans, which = self.plans()
        horizon, games = self.spec.horizon, self.spec.num_games or 1
        self._stride, self._noise, self._lift = plans[0].stride, plans[0].noise, plans[0].lift
        watches = [plan.watch() for plan in plans]
        self._watches, self._which = watches, which
        self._query_scale = np.array([watch.query_scale for watch in watches])[which]
        self._threshold_scale = np.array([watch.threshold_scale for watch in watches])[which]
        self._floor = np.array([plan.floor for plan in plans])[which]
        self._coin = np.array([plan.coin_epsilon is not None for plan in plans])[which]
        self._rates = _stacked([plan.rates(horizon) for plan in plans], 1.0)
        self._thresholds = _stacked([plan.thresholds(horizon) for plan in plans], np.inf)
        first, *self._sources = self.rng.spawn(5)
        self._score: FloatArray = np.zeros(self.spec.num_experts)
        self._batch: FloatArray = np.zeros(self.spec.num_experts)
        self._held: IntArray = np.asarray(first.integers(self.spec.num_experts, size=games))
        self._drawn: IntArray = np.zeros(games, dtype=np.int64)
        self._since: FloatArray = np.zeros(games)
        self._level = self._thresholds[which, 0] + self._threshold_scale * self._noises(first, (games,))
        self._taken = False
        self._asked: list[FloatArray] = []
        self._begun: IntArray = np.zeros(games, dtype=np.int64)

    def act(self) -> Any:
        """Query, flip and redraw where it is time; see :meth:`Learner.act`."""
        above, kept = np.zeros(self._held.shape, dtype=bool), np.ones(self._held.shape, dtype=bool)
        if self._asks():
            draws = self._draw(1)
            if self._taken:
                # The threshold noise that was drawn is not the one of the history that was imposed.
                return self._play(sample_outcomes(self._log_law(), draws[3][0]))
            self._close()
            above = self._since + draws[0][0] >= self._level
            games = np.flatnonzero(above)
            if games.size:
                score = self._score if self._score.ndim == 1 else self._score[games]
                kept[games] = self._alarm(games, score, *(draw[0, games] for draw in draws[1:]))
        self._record(above, kept)
        return self._held.reshape(self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._batch = self._batch + losses

    def run(self, block: FloatArray) -> IntArray:
        """Play a block by looking for each game's next alarm; see :meth:`Learner.run`."""
        if self._notes is not None or self._keeps_history:
            return super().run(block)
        rows = np.arange(-self.round % self._stride, len(block), self._stride)
        rows = rows[rows + self.round > 0]
        held = np.full((len(rows) + 1, *self._held.shape), -1, dtype=np.int64)
        held[0] = self._held
        if rows.size:
            parts, scores = self._at_queries(block, rows)
            self._scan(parts, scores, held)
            last = np.maximum.accumulate(np.where(held >= 0, np.arange(len(held))[:, None], 0), axis=0)
            held = np.take_along_axis(held, last, 0)
        else:
            self._batch = running_totals(self._batch, block)[1]
        choices = np.repeat(held, np.diff(rows, prepend=0, append=len(block)), axis=0)
        return choices.reshape(len(block), *self.spec.shape)

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of "alarm, redrawn to i", i in 0..N-1, "alarm, kept" and "no alarm".

        Exact given the transcript: the threshold noise is integrated out, by quadrature. The first round "redraws".
        For horizons up to ``LAW_ROUNDS`` only, since it needs every query of the window.

        Returns:
            Shape ``(N + 2,)`` or ``(G, N + 2)``.

        Raises:
            NotImplementedError: for longer horizons.
        """
        if not self._keeps_history:
            raise NotImplementedError(f"the law of the next outcome is kept for horizons up to {LAW_ROUNDS} only")
        return self._log_law().reshape(*self.spec.shape, -1)

    def take(self, outcome: Any) -> Any:
        """Play outcome i of :meth:`outcomes`: redraw to expert i < N, or keep, with an alarm (N) or without (N + 1).

        Raises:
            NotImplementedError: see :meth:`outcomes`.
        """
        if not self._keeps_history:
            raise NotImplementedError(f"the law of the next outcome is kept for horizons up to {LAW_ROUNDS} only")
        return self._play(np.broadcast_to(outcome, self._held.shape))

    def guarantee(self, spec: GameSpec) -> Guarantee:
        """Return what the plan certifies, against adaptive adversaries; alarms and coins included."""
        plan = self.plan(spec)
        adjacency = getattr(self, "adjacency", Adjacency.REPLACE)
        return Guarantee(plan.epsilon, plan.delta, adjacency, "adaptive", SOURCES[plan.method])

    # -- parts -------------------------------------------------------------------------------------------------

    @property
    def _keeps_history(self) -> bool:
        return self.spec.horizon <= LAW_ROUNDS

    def _asks(self) -> bool:
        return self.round > 0 and self.round % self._stride == 0

    def _noises(self, source: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        if self._noise == "laplace":
            return np.asarray(source.laplace(size=shape))
        return np.asarray(source.standard_exponential(shape))

    def _draw(self, rows: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Query noise, threshold noise, coins and selections of that many queries, each ``(rows, G)``."""
        queries, thresholds, coins, selections = self._sources
        shape = (rows, *self._held.shape)
        return (
            self._query_scale * self._noises(queries, shape),
            self._threshold_scale * self._noises(thresholds, shape),
            coins.random(shape),
            selections.random(shape),
        )

    def _close(self) -> None:
        """Move the losses since the last query into the window and the score."""
        self._score = self._score + self._batch
        self._since = self._since + self._of(self._batch, np.arange(len(self._held)), self._held)
        self._batch = np.zeros(self.spec.num_experts)
        if self._keeps_history:
            self._asked.append(self._since)

    def _alarm(
        self, games: IntArray, score: FloatArray, threshold_noise: FloatArray, coins: FloatArray, uniforms: FloatArray
    ) -> NDArray[np.bool_]:
        """Flip the coins of ``games``, redraw where they say so, begin new windows; return which were kept."""
        keep = self._keep(games, self._since[games])
        kept: NDArray[np.bool_] = coins < keep
        moved = games[~kept]
        if moved.size:
            rates = self._next_rates(moved)[:, None]
            law = exponential_probabilities(self._lifted(score if score.ndim == 1 else score[~kept]), rates)
            self._held = self._held.copy()
            self._held[moved] = sample_inverse_cdf(law, uniforms[~kept])
            self._drawn[moved] += 1
        self._open(games, threshold_noise)
        return kept

    def _open(self, games: IntArray, threshold_noise: FloatArray | float) -> None:
        self._since = self._since.copy()
        self._since[games] = 0.0
        self._level[games] = self._thresholds[self._which[games], self._drawn[games]] + threshold_noise
        self._begun[games] = len(self._asked)

    def _keep(self, games: IntArray, since: FloatArray) -> FloatArray:
        """The probability that an alarm keeps the expert."""
        rates = self._next_rates(games)
        return np.where(self._coin[games], np.exp(-rates * np.maximum(since, self._floor[games])), 0.0)

    def _lifted(self, score: FloatArray) -> FloatArray:
        return np.maximum(score, self._lift) if self._lift else score

    def _next_rates(self, games: IntArray) -> FloatArray:
        rates: FloatArray = self._rates[self._which[games], np.minimum(self._drawn[games], self._rates.shape[1] - 1)]
        return rates

    def _at_queries(self, block: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Losses between queries, and up to each, at the query ``rows``; the state moves to the end of the block."""
        ended = running_totals(self._batch, block[: rows[0]])[1] if rows[0] else self._batch
        whole = block[rows[0] : rows[-1]].reshape(len(rows) - 1, self._stride, *block.shape[1:])
        parts = np.empty((len(rows), *np.broadcast_shapes(ended.shape, block.shape[1:])))
        parts[0] = ended
        # Row by row, as in the loop.
        parts[1:] = np.cumsum(whole, axis=1)[:, -1]
        self._batch = running_totals(np.zeros(self.spec.num_experts), block[rows[-1] :])[1]
        before, self._score = running_totals(self._score, parts)
        return parts, np.concatenate([before[1:], np.broadcast_to(self._score, before.shape[1:])[None]])

    def _scan(self, parts: FloatArray, scores: FloatArray, held: IntArray) -> None:
        """Find alarm after alarm in all games side by side, a few queries at a time; write who is held after each."""
        number = len(parts)
        draws, position = self._draw(number), np.zeros(self._held.shape, dtype=np.int64)
        games = np.arange(len(self._held))
        while games.size:
            index = position[games] + np.arange(_WINDOW)[:, None]
            inside = index < number
            index = np.minimum(index, number - 1)
            now = self._held[games]
            own = parts[index, now] if parts.ndim == 2 else parts[index, games, now]
            own[0] += self._since[games]
            sums = np.cumsum(own, axis=0)
            above = (sums + draws[0][index, games] >= self._level[games]) & inside
            alarmed = above.any(0)
            steps = np.where(alarmed, above.argmax(0), np.minimum(_WINDOW, number - position[games]) - 1)
            self._since[games] = sums[steps, np.arange(len(games))]
            query = position[games] + steps
            position[games] = query + 1
            if alarmed.any():
                hit, at = games[alarmed], query[alarmed]
                score = scores[at] if scores.ndim == 2 else scores[at, hit]
                self._alarm(hit, score, *(draw[at, hit] for draw in draws[1:]))
                held[at + 1, hit] = self._held[hit]
            games = games[position[games] < number]

    def _log_law(self) -> FloatArray:
        size, games = self.spec.num_experts, np.arange(len(self._held))
        law = np.full((len(games), size + 2), -np.inf)
        if self.round == 0:
            law[:, :size] = -math.log(size)
        elif not self._asks():
            law[:, -1] = 0.0
        else:
            since = self._since + self._of(self._batch, games, self._held)
            answers = np.array([self._answer(int(game), float(since[game])) for game in games])
            keep = self._keep(games, since)
            rates = self._next_rates(games)[:, None]
            fresh = exponential_log_probabilities(self._lifted(self._score + self._batch), rates)
            with np.errstate(divide="ignore"):
                law[:, :size] = answers[:, :1] + np.log1p(-keep)[:, None] + fresh
                law[:, size] = answers[:, 0] + np.log(keep)
            law[:, -1] = answers[:, 1]
        return law

    def _answer(self, game: int, query: float) -> tuple[float, float]:
        """Log-probabilities of alarm and of none at this query, given that the window's earlier ones gave none."""
        watch = self._watches[self._which[game]]
        level = float(self._thresholds[self._which[game], self._drawn[game]])
        earlier = tuple(float(asked[game]) for asked in self._asked[self._begun[game] :])
        options = watch.threshold_scale, watch.query_scale, watch.noise, level
        before = _no_alarm(*options, earlier)
        if math.isinf(level) or math.isinf(before):
            return -math.inf, 0.0
        return _alarm_now(*options, (*earlier, query)) - before, _no_alarm(*options, (*earlier, query)) - before

    def _play(self, outcome: IntArray) -> Any:
        """Impose outcomes; from now on the noise that was drawn means nothing."""
        size = self.spec.num_experts
        drawn, above = outcome < size, outcome <= size
        if self.round == 0:
            self._held = np.where(drawn, outcome, self._held)
            above, drawn = np.zeros_like(above), np.zeros_like(drawn)
        elif self._asks():
            self._close()
            self._held = np.where(drawn, outcome, self._held)
            self._drawn = np.minimum(self._drawn + drawn, self._thresholds.shape[1] - 1)
            self._open(np.flatnonzero(above), 0.0)
        self._taken = True
        self._record(above, ~drawn)
        return self._held.reshape(self.spec.shape)

    def _record(self, above: Any, kept: Any) -> None:
        self.note("above", above.reshape(self.spec.shape))
        self.note("kept", kept.reshape(self.spec.shape))

    @staticmethod
    def _of(rows: FloatArray, games: IntArray, experts: IntArray) -> FloatArray:
        """The entries of ``rows``, ``(N,)`` or ``(G, N)``, of each game's expert."""
        own: FloatArray = rows[experts] if rows.ndim == 1 else rows[games, experts]
        return own


def _stacked(rows: list[FloatArray], fill: float) -> FloatArray:
    table = np.full((len(rows), max(1, *(len(row) for row in rows))), fill)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


@lru_cache(maxsize=1 << 16)
def _no_alarm(
    threshold_scale: float, query_scale: float, noise: str, level: float, queries: tuple[float, ...]
) -> float:
    if not queries or math.isinf(level):
        return 0.0
    watch = AboveThreshold(threshold_scale, query_scale, noise=noise)
    return watch.log_probability(queries, level, [False] * len(queries))


@lru_cache(maxsize=1 << 16)
def _alarm_now(
    threshold_scale: float, query_scale: float, noise: str, level: float, queries: tuple[float, ...]
) -> float:
    watch = AboveThreshold(threshold_scale, query_scale, noise=noise)
    return watch.log_probability(queries, level, [False] * (len(queries) - 1) + [True])
