"""How a dartboard is played."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_experts_agents.baselines import running_totals
from dp_experts_agents.dartboard.plan import Plan
from dp_experts_agents.hedge import hedge_regret
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.mechanisms import exponential_log_probabilities, sample_inverse_cdf
from dp_experts_env.spec import FloatArray, GameSpec, IntArray, check_number


class Dartboard(Learner):
    """The kernel: at the head of each batch keep the held expert by a coin, else redraw it; subclasses plan it.

    State is kept for G games (one of them without a games axis): ``_score``, from which :meth:`_law` makes the law of
    a redraw, ``_batch``, the losses since the last decision, ``_held`` and ``_left``, the redraws left. Every decision
    takes one uniform number a game from each stream, whether it is used or not.
    """

    _streams: ClassVar[int] = 2

    def plan(self, spec: GameSpec) -> Plan:
        """Return the parameters for a game of this size and what they certify."""
        raise NotImplementedError

    def start(self) -> None:
        """Forget all losses; the first round draws."""
        plan = self.plan(self.spec)
        self._size, self._rate = plan.batch_size, plan.learning_rate
        self._stay = 1.0 - plan.switch_probability
        # A smaller coin never switches; the factor covers rounding.
        self._surely = self._least_keep() * (1 - 1e-12)
        games = self.spec.num_games or 1
        self._score: FloatArray = np.zeros(self.spec.num_experts)
        self._batch: FloatArray = np.zeros(self.spec.num_experts)
        self._held: IntArray = np.zeros(games, dtype=np.int64)
        self._left: FloatArray = np.full(games, math.inf if plan.cap is None else plan.cap + 1.0)
        self._opened = False
        self._sources = self.rng.spawn(self._streams)

    def act(self) -> Any:
        """Decide at the head of a batch, else hold; see :meth:`Learner.act`."""
        if self._decides():
            kept = self._decide(self._score, self._charge(), *self._draw(1)[:, 0])
        else:
            kept = np.ones(self._held.shape, dtype=bool)
        self._record(kept)
        return self._held.reshape(self.spec.shape)

    def observe(self, losses: FloatArray) -> None:
        """Add the losses; see :meth:`Learner.observe`."""
        self._score = self._score + losses
        self._batch = (0.0 if self._decides() else self._batch) + losses

    def run(self, block: FloatArray) -> IntArray:
        """Play a block by visiting only the decisions whose coins may switch; see :meth:`Learner.run`."""
        if self._notes is not None:
            # A transcript is recorded round by round.
            return super().run(block)
        rows = np.arange(-self.round % self._size, len(block), self._size)
        scores, charges = self._at(block, rows)
        draws = self._draw(len(rows))
        visited = np.any(self._moving(*draws), axis=-1)
        visited[:1] |= not self._opened
        choices = np.empty((len(block), *self._held.shape), dtype=np.int64)
        since = 0
        for index in np.flatnonzero(visited):
            choices[since : rows[index]] = self._held
            since = rows[index]
            self._decide(scores[index], charges[index], *draws[:, index])
        choices[since:] = self._held
        return choices.reshape(len(block), *self.spec.shape)

    def probabilities(self) -> FloatArray:
        """Return the law of the next choice given the expert held now, ``(N,)`` or ``(G, N)``."""
        keep = self._keep_now()[:, None]
        law: FloatArray = (1.0 - keep) * np.exp(self._log_law()) + keep * self._kept_law()
        return law.reshape(*self.spec.shape, -1)

    def outcomes(self) -> FloatArray:
        """Return log-probabilities of "redrawn to i", i in 0..N-1, then of "kept"; ``(N + 1,)`` or ``(G, N + 1)``."""
        keep, law = self._keep_now()[:, None], self._log_law()
        with np.errstate(divide="ignore"):
            joint = np.concatenate(
                [np.broadcast_to(law + np.log1p(-keep), (len(keep), law.shape[-1])), np.log(keep)], -1
            )
        return joint.reshape(*self.spec.shape, -1)

    def take(self, outcome: Any) -> Any:
        """Keep the held expert if ``outcome`` is N, else hold expert ``outcome``."""
        outcome = np.broadcast_to(outcome, self._held.shape)
        redrawn = outcome < self.spec.num_experts
        self._move(redrawn, outcome)
        self._record(~redrawn)
        return self._held.reshape(self.spec.shape)

    # -- hooks -------------------------------------------------------------------------------------------------

    def _least_keep(self) -> float:
        return self._stay * math.exp(-self._rate * self._size)

    def _moving(self, coins: FloatArray, *_: FloatArray) -> NDArray[np.bool_]:
        """Which draws may change the state."""
        moving: NDArray[np.bool_] = coins >= self._surely
        return moving

    def _keep(self, charge: FloatArray, games: IntArray) -> FloatArray:
        """The probability that each of ``games`` keeps its expert, where the cap allows a redraw."""
        keep: FloatArray = self._stay * np.exp(-self._rate * self._of(charge, games, self._held))
        return keep

    def _law(self, score: FloatArray, games: IntArray) -> FloatArray:
        """The law of a redraw up to a factor, ``(N,)`` or one row for each of ``games``."""
        return np.exp(exponential_log_probabilities(score if score.ndim == 1 else score[games], self._rate))

    def _kept_law(self) -> FloatArray:
        """Where the choice is if the expert is kept, ``(G, N)``."""
        return np.asarray(self._held[:, None] == np.arange(self.spec.num_experts), dtype=np.float64)

    def _log_law(self) -> FloatArray:
        return exponential_log_probabilities(self._score, self._rate)

    def _decide(self, score: FloatArray, charge: FloatArray, coins: FloatArray, uniforms: FloatArray) -> Any:
        """Flip the coins, redraw where they say so and the cap allows; return who was kept."""
        games = np.flatnonzero(coins >= self._surely) if self._opened else np.arange(len(coins))
        keep = self._keep(charge, games) if self._opened else 0.0
        redrawn = games[(coins[games] >= keep) & (self._left[games] > 0)]
        moved = np.zeros(coins.shape, dtype=bool)
        if redrawn.size:
            moved[redrawn] = True
            drawn = self._held.copy()
            drawn[redrawn] = sample_inverse_cdf(self._law(score, redrawn), uniforms[redrawn])
            self._move(moved, drawn)
        return ~moved

    def _at(self, block: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores and charges at each of the decision ``rows``; the state moves to the end of the block."""
        totals, self._score = running_totals(self._score, block)
        return totals[rows], self._batches_at(block, rows)

    def _charge(self) -> FloatArray:
        """What the coins of this decision depend on: the sum of the batch just ended."""
        return self._batch

    def _batches_at(self, block: FloatArray, rows: IntArray) -> FloatArray:
        """Sums of the batches that end at each of the decision ``rows``; ``_batch`` moves to the end of the block."""
        if not rows.size:
            self._batch = running_totals(self._batch, block)[1]
            return self._batch[None][:0]
        ended = running_totals(self._batch, block[: rows[0]])[1] if rows[0] else self._batch
        whole = block[rows[0] : rows[-1]].reshape(len(rows) - 1, self._size, *block.shape[1:])
        # A cumulative sum adds row by row, as the loop does.
        sums = np.cumsum(whole, axis=1)[:, -1]
        batches = np.empty((len(rows), *np.broadcast_shapes(ended.shape, block.shape[1:])))
        batches[0] = ended
        batches[1:] = sums.reshape(len(sums), *(1,) * (batches.ndim - sums.ndim), *sums.shape[1:])
        self._batch = running_totals(np.zeros(self.spec.num_experts), block[rows[-1] :])[1]
        return batches

    def _record(self, kept: Any) -> None:
        self.note("kept", kept.reshape(self.spec.shape))

    # -- parts -------------------------------------------------------------------------------------------------

    def _decides(self) -> bool:
        return self.round % self._size == 0

    def _draw(self, rows: int) -> FloatArray:
        return np.stack([source.random((rows, *self._held.shape)) for source in self._sources])

    def _move(self, moved: Any, drawn: Any) -> None:
        self._held = np.where(moved, drawn, self._held)
        self._left = self._left - moved
        self._opened = True

    def _keep_now(self) -> FloatArray:
        if not self._decides():
            return np.ones(self._held.shape)
        if not self._opened:
            return np.zeros(self._held.shape)
        return np.where(self._left > 0, self._keep(self._charge(), np.arange(len(self._held))), 1.0)

    @staticmethod
    def _of(rows: FloatArray, games: IntArray, experts: IntArray) -> FloatArray:
        """The entries of ``rows``, ``(N,)`` or ``(G, N)``, of each game's expert."""
        own: FloatArray = rows[experts[games]] if rows.ndim == 1 else rows[games, experts[games]]
        return own


class ShrinkingDartboard(Dartboard):
    """Keeps its expert with probability exp(-eta * its last loss), else redraws it (Geulen, Voecking, Winkler 2010).

    The marginal law of each choice is exactly Hedge's P_t(i) proportional to exp(-eta L_{t-1}(i)): if x_t has law
    P_t, keeping contributes P_t(i) e^{-eta l_t(i)} = Z P_{t+1}(i) with Z = sum_j P_t(j) e^{-eta l_t(j)}, and the
    remaining mass 1 - Z is redrawn from P_{t+1}. Hence on oblivious sequences the regret is at most
    ln N/eta + eta T/8 [DERIVED], and the expected number of redraws after the first is at most ln N + eta L*, since
    1 - Z_t <= ln(W_t/W_{t+1}) telescopes [DERIVED]. An adaptive adversary sees which expert is held: no bound there.
    Not private: without forced redraws the moment of a switch reveals a loss.

    Args:
        learning_rate: eta > 0; ``None`` for sqrt(8 ln N/T).

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, learning_rate: float | None = None) -> None:
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate

    def plan(self, spec: GameSpec) -> Plan:
        """Return batches of one round, no forced switch, no cap, no privacy."""
        rate = self.learning_rate
        if rate is None:
            rate = math.sqrt(8.0 * math.log(max(spec.num_experts, 2)) / spec.horizon)
        return Plan(1, 0.0, rate, regret=hedge_regret(rate, spec.horizon, spec.num_experts))

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return ln N/eta + eta T/8 against oblivious adversaries, NaN against adaptive ones."""
        return math.nan if against == "adaptive" else self.plan(spec).regret
