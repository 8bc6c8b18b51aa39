"""The game of columns and the four opponents that play it; what they prove is in the module ``floors``."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dp_experts_adversaries.lower_bounds.floors import enough_atoms, mean_terms, sign_floor, uniform_ceiling
from dp_experts_env.adversary import Adversary
from dp_experts_env.spec import (
    ArgumentError,
    FloatArray,
    GameSpec,
    IntArray,
    check_count,
    check_delta,
    check_name,
    check_number,
)

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_EXPERTS = 10**6
"""Number of experts up to which a horizon alone sets the size of a game; larger games must be asked for."""


def check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return a privacy budget, epsilon >= 0 or infinite and delta in [0, 1), or raise ``ArgumentError``."""
    return math.inf if epsilon == math.inf else check_number("epsilon", epsilon, 0.0), check_delta(delta)


class _Columns(Adversary):
    """The game of columns; a subclass draws the means of the columns and the rows."""

    size = 1
    thinning = 1.0
    columns_a_round = 2
    named: IntArray
    means: FloatArray

    def __init__(self, active_rounds: int | None, num_experts: int | None, horizon: int, **game: Any) -> None:
        horizon = check_count("horizon", horizon)
        if num_experts is None:
            num_experts = self._default_experts(horizon)
        super().__init__(num_experts=num_experts, horizon=horizon, **game)
        self.active_rounds = None if active_rounds is None else check_count("active_rounds", active_rounds)
        self._fit(self.game)

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def _default_experts(self, horizon: int) -> int:
        columns = self.columns_a_round * horizon
        if columns <= MOST_EXPERTS and (experts := _count_experts(columns, self.size)) <= MOST_EXPERTS:
            return experts
        raise ArgumentError(
            f"horizon: {horizon} rounds with {self.columns_a_round} new columns each take more than {MOST_EXPERTS} "
            "experts; give num_experts for such a game"
        )

    def _fit(self, spec: GameSpec) -> tuple[int, int]:
        """Return the number of columns and of active rounds of a game of this size."""
        columns = _count_columns(spec.num_experts, self.size)
        if columns < self.size:
            raise ArgumentError(
                f"num_experts: expected at least {2**self.size}, for the signs of {self.size} column(s), "
                f"but found {spec.num_experts}"
            )
        if self.active_rounds is None:
            return columns, min(spec.horizon, max(1, columns // self.columns_a_round))
        most = min(spec.horizon, columns // self.size)
        if self.active_rounds > most:
            raise ArgumentError(
                f"active_rounds: expected at most {most} with horizon={spec.horizon} and num_experts="
                f"{spec.num_experts}, which make {columns} columns, {self.size} a round, but found {self.active_rounds}"
            )
        return columns, self.active_rounds

    # -- what is proved ------------------------------------------------------------------------------------------------

    def regret_floor(self, spec: GameSpec, epsilon: float, delta: float = 0.0) -> float:
        """Return what every private learner's expected regret against this adversary is at least.

        Args:
            spec: the game; its size may differ from this adversary's own.
            epsilon: privacy of the learner, against adaptive adversaries, one round's vector being replaced or set to
                zero; a number >= 0 or ``math.inf``.
            delta: its failure probability, in [0, 1).

        Returns:
            The floor in units of loss; ``math.nan`` where nothing above 0 is proved.

        Raises:
            ArgumentError: if an argument lies outside its range, or the game is too small for ``active_rounds``.
        """
        floor = self._floor(*self._fit(spec), *check_budget(epsilon, delta))
        return floor if floor > 0.0 else math.nan

    def _floor(self, columns: int, rounds: int, epsilon: float, delta: float) -> float:
        raise NotImplementedError

    # -- the game ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Draw the means; no column is named. See :meth:`Adversary.start`."""
        self._num_columns, self._active = self._fit(self.game)
        hidden, self._entries, self._coins = self.np_random.spawn(3)
        self._used = np.zeros((*self.game.shape, self._num_columns), dtype=bool)
        self.named = np.zeros(self._used.shape, dtype=np.int64)
        self.means = self._draw_means(hidden)
        self._shown, self._sums = self.zeros(1), self.zeros(self._num_columns)

    def emit(self) -> FloatArray:
        """Charge all but the experts of new columns and right signs; see :meth:`Adversary.emit`."""
        if self.round >= self._active:
            return self.zeros(self.num_experts)
        row, fresh = self._row(self.round)
        active = np.asarray(self._coins.random((*self.game.shape, 1)) < self.thinning)
        if fresh:
            self._shown = self._shown + active
            self._sums = self._sums + row * active
        right = np.stack([row > 0.0, row < 0.0], axis=-1) & ~self._used[..., None]
        right = right.reshape(*self.game.shape, 2 * self._num_columns)
        if self.size > 1:
            right = np.asarray(right[..., _literals(self._num_columns, self.size)].all(-1))
        losses = np.ones((*self.game.shape, self.num_experts))
        losses[..., : right.shape[-1]] -= right
        return losses * active

    def see(self, choices: Any) -> None:
        """Strike the columns named; see :meth:`Adversary.see`."""
        if self.round > self._active:
            return
        literals = _literals(self._num_columns, self.size)
        choices = np.asarray(choices)[..., None]
        names = choices < len(literals)
        literal = literals[np.where(names, choices, 0)[..., 0]]
        column, sign = literal // 2, 1 - 2 * (literal % 2)
        struck = np.take_along_axis(self._used, column, -1)
        clean = names & ~struck.any(-1, keepdims=True)
        np.put_along_axis(self.named, column, np.where(clean, sign, np.take_along_axis(self.named, column, -1)), -1)
        np.put_along_axis(self._used, column, struck | names, -1)

    def _draw_means(self, rng: np.random.Generator) -> FloatArray:
        raise NotImplementedError

    def _row(self, index: int) -> tuple[FloatArray, bool]:
        """Return the row of the round after ``index`` rounds, signs ``(..., m)``, and whether it is a new one."""
        raise NotImplementedError


@functools.lru_cache(maxsize=8)
def _literals(columns: int, size: int) -> IntArray:
    """What each expert names, ``(2^s C(m, s), s)``: 2 j for column j with sign +1, 2 j + 1 with -1."""
    if size == 1:
        table = np.arange(2 * columns)[:, None]
    else:
        sets = np.array(list(itertools.combinations(range(columns), size)), dtype=np.int64)
        signs = np.array(list(itertools.product((0, 1), repeat=size)), dtype=np.int64)
        table = (2 * sets[:, None] + signs).reshape(-1, size)
    table.setflags(write=False)
    return table


def _count_experts(columns: int, size: int) -> int:
    return int(2**size * math.comb(columns, size))


def _count_columns(experts: int, size: int) -> int:
    """The most columns whose experts are at most this many."""
    low, high = 0, max(size, experts // 2)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _count_experts(middle, size) <= experts else (low, middle - 1)
    return low


class HiddenSign(_Columns):
    """Each column has a hidden sign that never changes, and a column that the learner names costs it from then on.

    ## Description
    Expert 2 j names column j with sign +1, expert 2 j + 1 with sign -1; an odd last expert always loses. Signs are
    fair coins drawn at the start. An expert loses 0 while its column has not been named and its sign is the hidden
    one, else 1: half of the experts are perfect until the learner names them.

    L* = 0. Every learner that is epsilon-DP against adaptive adversaries has expected regret of at least
    ``sum_(k < T) max(0, 1 - e^((T - 1) epsilon) Pr[Bin(T, 1/2) <= k])`` for N >= 2T, which is linear in T for
    epsilon < ln 2: 29.7 at T = 100 and epsilon = 0.1, and there 0.280 T for large T. With delta > 0 only as many rounds
    count as keep delta e^(epsilon T)/epsilon well below 1: at epsilon = 0.1 and delta = 1e-6 it is 25 however large T
    is. From ln 2 on it is the first round's 1/2. [DERIVED], Theorem 2 of the module ``floors``; linear regret for
    epsilon <= 1/10 is Theorem 10 of Asi, Feldman, Koren and Talwar (COLT 2023), whose proof by groups of about 1800
    rounds does not reach so large an epsilon.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        active_rounds: rounds after which all losses are 0, an integer in 1..min(T, N // 2); ``None`` for the most.
        num_experts: N >= 2; ``None`` for 2T.
        horizon: T.
        **game: ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        means: the hidden signs, float64 ``(m,)`` or ``(G, m)``.
        named: the signs that the learner gave to columns, 0 if none, integers of that shape.

    ## Version History
    v0: first version.
    """

    columns_a_round = 1
    examples = (
        {"num_experts": 2, "horizon": 1},
        {"num_experts": 7, "horizon": 9},
        {"active_rounds": 3, "num_experts": 12, "horizon": 6},
    )

    def __init__(
        self, active_rounds: int | None = None, num_experts: int | None = None, horizon: int = 100, **game: Any
    ) -> None:
        super().__init__(active_rounds, num_experts, horizon, **game)

    def _floor(self, columns: int, rounds: int, epsilon: float, delta: float) -> float:
        return sign_floor(rounds, epsilon, delta)

    def _draw_means(self, rng: np.random.Generator) -> FloatArray:
        return np.where(rng.random((*self.game.shape, self._num_columns)) < 0.5, 1.0, -1.0)

    def _row(self, index: int) -> tuple[FloatArray, bool]:
        return self.means, index == 0


class _Code(_Columns):
    """Columns with hidden means and rows drawn around them; a subclass says how often a row is used."""

    consensus: float | None = None
    uniform = False

    def _num_rows(self, rounds: int) -> int:
        """Return the number of different rows in so many active rounds."""
        return rounds

    def _atoms(self, columns: int, rounds: int) -> float:
        return enough_atoms(columns, self.size * rounds) if self.consensus is None else self.consensus

    def _terms(self, columns: int, rounds: int, epsilon: float, delta: float) -> tuple[FloatArray, ...]:
        atoms = None if self.uniform else self._atoms(columns, rounds)
        return mean_terms(rounds, columns, self.size, self._num_rows(rounds), atoms, epsilon, delta)

    def _floor(self, columns: int, rounds: int, epsilon: float, delta: float) -> float:
        gain, cost, known = self._terms(columns, rounds, epsilon, delta)
        return float((self.thinning * (gain - self.thinning * cost) - known).max())

    def fingerprint(self) -> tuple[FloatArray, FloatArray]:
        """Return both sides of the fingerprinting identity of a finished game: equal in expectation, for every learner.

        Returns:
            The correlation C of the learner's choices with the rows shown, and what it equals in expectation: for the
            uniform prior twice the score S; for the prior with atoms 2 (1 - a)/(pi a) times the score of the atoms, a
            the probability of one, up to the games left out for having too few (see the module ``floors``). Shape
            ``()`` or ``(G,)``. Non-private diagnostics.
        """
        residual = self.named * (self._sums - self._shown * self.means)
        score = self.named * self.means
        if self.uniform:
            return np.asarray(residual.sum(-1)), np.asarray(2.0 * score.sum(-1))
        inner = np.abs(self.means) < 1.0
        scale = np.sqrt(np.where(inner, 1.0 - self.means**2, 1.0))
        atoms = self._atoms(self._num_columns, self._active)
        factor = 2.0 * (1.0 - atoms) / (math.pi * atoms)
        return np.asarray((residual / scale).sum(-1)), np.asarray(factor * (score * ~inner).sum(-1))

    def _draw_means(self, rng: np.random.Generator) -> FloatArray:
        places = rng.random((*self.game.shape, self._num_columns)) - 0.5
        if self.uniform:
            return np.asarray(2.0 * places)
        # The number of atoms given that there are enough, then where they are.
        law = stats.binom(self._num_columns, self._atoms(self._num_columns, self._active))
        least = self.size * self._active
        short = law.cdf(least - 1)
        count = law.ppf(short + (1.0 - short) * rng.random(self.game.shape)).clip(least, self._num_columns)
        ranks = rng.random(places.shape).argsort(-1).argsort(-1)
        return np.where(ranks < count[..., None], np.where(places < 0.0, -1.0, 1.0), np.sin(math.pi * places))

    def _row(self, index: int) -> tuple[FloatArray, bool]:
        return self._toss(self.means), True

    def _toss(self, means: FloatArray) -> FloatArray:
        return np.where(2.0 * self._entries.random(means.shape) - 1.0 < means, 1.0, -1.0)


class _Thinned(_Code):
    """Fresh rows in some of the rounds."""

    @classmethod
    def tuned(cls, epsilon: float, delta: float = 0.0, **keywords: Any) -> Self:
        """Return the instance whose thinning makes the floor at this budget largest.

        Args:
            epsilon: see :meth:`regret_floor`.
            delta: see :meth:`regret_floor`.
            **keywords: those of the class but ``thinning``.
        """
        always = cls(**keywords)
        columns, rounds = always._fit(always.game)
        gain, cost, _ = always._terms(columns, rounds, *check_budget(epsilon, delta))
        gain = gain - always._ceiling(columns, rounds)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.nan_to_num(gain / (2.0 * cost), nan=1.0).clip(1e-9, 1.0)
        floors = rates * (gain - rates * cost)
        return cls(thinning=float(rates[floors.argmax()]), **keywords) if floors.max() > 0.0 else always

    def _floor(self, columns: int, rounds: int, epsilon: float, delta: float) -> float:
        return super()._floor(columns, rounds, epsilon, delta) - self.thinning * self._ceiling(columns, rounds)

    def _ceiling(self, columns: int, rounds: int) -> float:
        """What E L* is at most in games without thinning."""
        return 0.0


class Fingerprint(_Thinned):
    """Each round shows fresh signs around hidden means: what a learner makes of them can be traced back to the rounds.

    ## Description
    Expert 2 j names column j with sign +1, expert 2 j + 1 with sign -1; an odd last expert always loses. Each column
    has a mean mu_j in [-1, 1], drawn at the start; each active round draws a sign of that mean for each column, and
    all experts lose 1 but those of this sign whose column the learner has not named yet. A round is active with
    probability ``thinning``; in others all losses are 0.

    Every learner that is (epsilon, delta)-DP against adaptive adversaries has expected loss of about
    ``q (n/2 - 2 c q sinh(epsilon/2) n^(3/2))`` or more, for each n up to the number of active rounds and but for terms
    in delta; q is the thinning, c = 1/6 for prior "uniform" and (1 + pi a/(2 (1 - a)))/3 for "atoms", a the
    probability of an atom: c = 1.15 for m = 2n = 200, 0.95 for m = 2n = 2000, 0.41 for m = 10n = 1000. With "atoms"
    L* = 0, and this is a floor of the regret: linear in T up to epsilon of order 1/sqrt(T), and of order
    sqrt(T)/epsilon beyond, if thinned (:meth:`tuned`). With "uniform" a bound on E L*, about ``q n^2/m``, is taken
    off, whence N = 20T; at this N its floor is half as large again where the floors are below T/4, and less where
    they are near T/2. [DERIVED], Theorem 1 of the module ``floors``; the
    paper's own constructions are :class:`SignEstimation` and :class:`Subsets`.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        prior: law of the means: "atoms" (signs and Tardos's law, L* = 0) or "uniform" (on [-1, 1], L* > 0).
        thinning: probability q that a round is active, in (0, 1].
        active_rounds: rounds after which all losses are 0, an integer in 1..min(T, N // 2); ``None`` for as many as
            leave 2 columns each ("atoms") or 10 ("uniform"), at least 1.
        num_experts: N >= 2; ``None`` for 4T ("atoms") or 20T ("uniform").
        horizon: T.
        **game: ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        means: the hidden means, float64 ``(m,)`` or ``(G, m)``.
        named: the signs that the learner gave to columns, 0 if none, integers of that shape.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 2, "horizon": 1},
        {"thinning": 0.5, "num_experts": 21, "horizon": 9},
        {"prior": "uniform", "num_experts": 40, "horizon": 8},
        {"prior": "uniform", "thinning": 0.3, "active_rounds": 5, "num_experts": 12, "horizon": 6},
    )

    def __init__(
        self,
        prior: str = "atoms",
        thinning: float = 1.0,
        active_rounds: int | None = None,
        num_experts: int | None = None,
        horizon: int = 100,
        **game: Any,
    ) -> None:
        self.prior = check_name("prior", prior, ("atoms", "uniform"))
        self.thinning = check_number("thinning", thinning, 0.0, 1.0, low_open=True)
        self.uniform = self.prior == "uniform"
        self.columns_a_round = 10 if self.uniform else 2
        super().__init__(active_rounds, num_experts, horizon, **game)

    def loss_floor(self, spec: GameSpec, epsilon: float, delta: float = 0.0) -> float:
        """Return what every private learner's expected loss is at least; arguments and errors of :meth:`regret_floor`.

        Returns:
            The floor in units of loss; ``math.nan`` where nothing above 0 is proved.
        """
        floor = _Code._floor(self, *self._fit(spec), *check_budget(epsilon, delta))
        return floor if floor > 0.0 else math.nan

    def best_loss_ceiling(self, spec: GameSpec) -> float:
        """Return what the expected loss of the best expert is at most, whatever the learner: 0 with atoms.

        Args:
            spec: the game.
        """
        return self.thinning * self._ceiling(*self._fit(spec))

    def _ceiling(self, columns: int, rounds: int) -> float:
        return uniform_ceiling(rounds, columns) if self.uniform else 0.0


class SignEstimation(_Code):
    """A padded code: the rows of few users come in turn, and nearly all columns are the same in each of them.

    ## Description
    The construction in the proof of Theorem 9 of Asi, Feldman, Koren and Talwar (COLT 2023) at the size of the game.
    A matrix of signs has a row for each of ``users`` users and a column for every two experts: expert 2 j names
    column j with sign +1, expert 2 j + 1 with sign -1; an odd last expert always loses. Columns are drawn as in
    Tardos's code, or, with probability ``consensus``, are padding of one sign, a fair coin. Round t takes the row of
    user t mod ``users``: an expert loses 0 if the learner has not named its column and its sign is the row's, else 1.

    L* = 0. The paper takes 1000 u^2 columns, u/ln u users, 99.9% of padding and T = 900 u^2, and proves regret of
    order min(T, 1/(epsilon ln T)^2) for N >= 2T, epsilon <= 1, delta <= T^-3, without constants. At sizes that can be
    played these numbers mean nothing: T = 3600 has three users. Here users and padding are set by the game, and the
    floor is proved with constants at every size [DERIVED] (Theorem 1 of the module ``floors``; a user is hidden as a
    group of ``T/users`` rounds): of order T up to epsilon of order users/T, and that of ever fewer rounds beyond. At
    T = 100 with five users it is 39.0 at epsilon = 0.005 and 1.5 at 0.1, where :class:`Fingerprint`, whose users have
    one round each, has 44.2 and 1.7. With the paper's padding it is no more than the first round's 1/2 at either.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        users: number of rows, an integer >= 1; ``None`` for ``2 sqrt(T)/ln T`` rounded up, the paper's order.
        consensus: probability of padding, in (0, 1); ``None`` for the least that has enough of it for L* = 0 in all
            games but 1 of 16T, and the law is that given L* = 0. The paper's is 0.999.
        active_rounds: rounds after which all losses are 0, an integer in 1..min(T, N // 2); ``None`` for as many as
            leave 2 columns each, at least 1.
        num_experts: N >= 2; ``None`` for 4T.
        horizon: T.
        **game: ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        means: the hidden means, float64 ``(m,)`` or ``(G, m)``.
        named: the signs that the learner gave to columns, 0 if none, integers of that shape.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 2, "horizon": 1},
        {"users": 2, "num_experts": 21, "horizon": 9},
        {"users": 3, "consensus": 0.9, "active_rounds": 7, "num_experts": 16, "horizon": 8},
    )

    def __init__(
        self,
        users: int | None = None,
        consensus: float | None = None,
        active_rounds: int | None = None,
        num_experts: int | None = None,
        horizon: int = 100,
        **game: Any,
    ) -> None:
        self.users = users if users is None else check_count("users", users)
        if consensus is not None:
            consensus = check_number("consensus", consensus, 0.0, 1.0, low_open=True, high_open=True)
        self.consensus = consensus
        super().__init__(active_rounds, num_experts, horizon, **game)

    def start(self) -> None:
        """Draw the code; see :meth:`Adversary.start`."""
        super().start()
        shape = (self._num_rows(self._active), *self.means.shape)
        self._matrix = self._toss(np.broadcast_to(self.means, shape)).astype(np.int8)

    def _num_rows(self, rounds: int) -> int:
        users = self.users
        if users is None:
            users = max(2, math.ceil(2.0 * math.sqrt(rounds) / math.log(rounds))) if rounds > 1 else 1
        return min(users, rounds)

    def _row(self, index: int) -> tuple[FloatArray, bool]:
        return self._matrix[index % len(self._matrix)].astype(np.float64), index < len(self._matrix)


class Subsets(_Thinned):
    """Experts that name several columns at once: the floor grows with the number of experts.

    ## Description
    The construction of Theorem 11 of Asi, Feldman, Koren and Talwar (COLT 2023), with fresh rows in place of a code.
    An expert names a set of ``size`` columns and a sign for each: with m columns there are ``2^size C(m, size)``
    such experts, sets in lexicographic order and the signs of a set from all +1 to all -1; those beyond always lose.
    Each column has a mean, drawn at the start as by :class:`Fingerprint` with atoms; each active round draws a sign
    of that mean for each column, and all experts lose 1 but those whose signs are all right and none of whose columns
    the learner has named. The signs are those of the round's own row: as printed, of the whole matrix, one round
    would depend on the rows of all users.

    L* = 0. Every learner that is (epsilon, delta)-DP against adaptive adversaries has expected regret of at least
    about ``q (n/2 - 2 c q sinh(epsilon/2) n^(3/2)/sqrt(size))``, in the notation of :class:`Fingerprint`: epsilon may
    be sqrt(size) times larger, and a floor of order sqrt(T)/epsilon becomes one of order sqrt(T ln N/ln m)/epsilon.
    [DERIVED], Theorem 1 of the module ``floors``; the paper's order is sqrt(T ln N)/(epsilon ln^(3/2) T).

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        size: number of columns that an expert names, an integer >= 1.
        thinning: probability q that a round is active, in (0, 1].
        active_rounds: rounds after which all losses are 0, an integer in 1..min(T, m // size); ``None`` for as many
            as leave ``2 size`` columns each, at least 1.
        num_experts: N >= 2^size; m is the largest number with ``2^size C(m, size) <= N``. ``None`` for m = 2 size T.
        horizon: T.
        **game: ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        means: the hidden means, float64 ``(m,)`` or ``(G, m)``.
        named: the signs that the learner gave to columns in a set of new ones, 0 if none, integers of that shape.

    ## Version History
    v0: first version.
    """

    examples = (
        {"num_experts": 4, "horizon": 1},
        {"num_experts": 26, "horizon": 4},
        {"size": 3, "thinning": 0.6, "num_experts": 160, "horizon": 5},
    )

    def __init__(
        self,
        size: int = 2,
        thinning: float = 1.0,
        active_rounds: int | None = None,
        num_experts: int | None = None,
        horizon: int = 8,
        **game: Any,
    ) -> None:
        self.size = check_count("size", size)
        if self.size > 20:
            raise ArgumentError(f"size: expected at most 20, which take {2**20} experts and more, but found {size!r}")
        self.columns_a_round = 2 * self.size
        self.thinning = check_number("thinning", thinning, 0.0, 1.0, low_open=True)
        super().__init__(active_rounds, num_experts, horizon, **game)
