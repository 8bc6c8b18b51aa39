"""What every private learner loses in the game of columns: proofs, and the numbers.

**The game** (after the lower bounds of Asi, Feldman, Koren and Talwar, COLT 2023; sizes, constants and proofs are ours
[DERIVED]). There are m columns. An expert names s of them, each with a sign +1 or -1. A round is *active* with
probability q and then has a row z of m signs; in any other round all losses are 0. In an active round an expert loses
1, except that it loses 0 if the learner has named none of its columns before and its signs are those of the row. So a
learner of small loss has to find ever new columns whose signs it knows, and by these it gives away what is in the
rows. There are n rounds of this kind, then all losses are 0. Experts beyond the `2^s C(m, s)` that name columns lose 1
in each active round. A choice is *clean* if it names columns and all of them are new; y_j is the sign that a clean
choice gave to column j, 0 if none did.

**Privacy** is that of learners (e, d)-DP against adaptive adversaries where one round's vector is replaced, or set to
zero; the proofs use the latter only, which is the weaker demand. Given all rows, the law of the transcript x, all
choices, and the law of x when the losses of k of the rounds are zeros are then (k e, d_k)-close both ways, with
d_k = d (e^(k e) - 1)/(e^e - 1).

**Lemma (shift).** Let P and Q be (e, d)-close both ways, on finitely many transcripts. Then

    E_P h <= E_Q h + 2 sinh(e/2) sqrt(1 + d e^-e) sqrt(E_Q h^2) + d (1 + e^-e) max |h|.

Proof. With r = P/Q clipped to [e^-e, e^e], P = r Q + D - D', where D = (P - e^e Q)+ has mass at most d and
D' = (e^-e Q - P)+ at most e^-e d: the last term. The rest is E_Q[(r - 1) h] <= sqrt(E_Q (r - 1)^2 E_Q h^2). As
(r - e^e)(r - e^-e) <= 0, (r - 1)^2 <= (e^e + e^-e - 2) r = 4 sinh(e/2)^2 r; and E_Q r <= 1 + e^-e d. QED

**Theorem 1 (rows around hidden means).** Each column has a mean mu_j of its own, and the entries of the rows are
independent signs of these means: a fresh row a round, or U rows taken in turn (then q = 1 and s = 1). Let
S = sum_j y_j mu_j.

1. *Loss.* With fresh rows E[loss] >= q (n/2 - E S/(2 s)): a choice that is not clean costs 1; for a clean one the row
   is independent of the past given the means, and the probability that some sign is missed is at least the expected
   share of the signs missed. With U rows, E[y z] of a choice whose row was used k >= 1 times before exceeds E[y mu] by
   at most the shift for these k rounds with E h^2 <= 1 and |h| <= 2; half of the sum of these shifts is taken off.
2. *Correlation.* Weigh column j by w(mu_j) and let C = sum_j y_j w(mu_j) sum (z[j] - mu_j) over the rows shown. Let
   g_j(mu) = E[y_j | mu_j = mu], a polynomial. As (z - mu)/(1 - mu^2) is the derivative of the log-probability of the
   sign z, E[y_j sum (z[j] - mu_j) | mu_j = mu] = (1 - mu^2) g_j'(mu).
3. *Privacy.* E C <= B, which sums over the rows, with the probability that they are shown, the shift for the rounds
   that show the row; h are the row's terms of the columns named after it. In the game without these rounds the row is
   independent of x given the means: E h = 0, and E h^2 is the mean of the sum of w^2 (1 - mu^2) over these columns, at
   most s times the number of rounds that follow if w^2 (1 - mu^2) <= 1. Terms of columns named before the row is shown
   have mean 0 in the game itself. All this holds too if only the columns with |mu_j| <= c are counted in C.
4. *Uniform prior*: mu_j uniform on [-1, 1], w = 1, s = 1. Integrating 2 by parts gives the **fingerprinting identity
   E C = 2 E S**, for every learner; so E S <= B/2. Of each choice that follows a row, |h| has at most 2.
5. *Prior with atoms*: with probability a, mu_j = +1 or -1, a fair coin; else mu_j = sin(v) with v uniform on
   [-pi/2, pi/2], density 1/(pi sqrt(1 - mu^2)), the law of Tardos's code. w = 1/sqrt(1 - mu^2), and w = 0 at atoms. By
   2, E C_c = ((1 - a)/pi) sum_j (g_j(c) - g_j(-c)) where the columns with |mu_j| <= c count, at most B for each c, and
   for c = 1 as g_j is continuous. Hence, the integral of c/(pi sqrt(1 - c^2)) over [0, 1] being 1/pi,

       E S = (1 - a) int_0^1 c sum_j (g_j(c) - g_j(-c)) dc/(pi sqrt(1 - c^2)) + (a/2) sum_j (g_j(1) - g_j(-1))
           <= B (1 + pi a/(2 (1 - a))).

   The identity here is E C = (2 (1 - a)/(pi a)) E sum of y_j mu_j over the atoms. The numbers |z - mu|/sqrt(1 - mu^2),
   0 for atoms, have mean (1 - a) 2/pi and mean square 1 - a, so the K largest of m add up to at most
   min(sqrt(K m (1 - a)), m (1 - a) 2/pi) on average: this stands for max |h|, K = s times the rounds that follow. QED

With fresh rows and d = 0, B <= q 2 sinh(e/2) sqrt(s) (2/3) n^(3/2): the floor is linear in n while e is below
sqrt(s/n) times a constant, and beyond it q of order sqrt(s/n)/e makes it of order sqrt(s n)/e, where ln N is of order
s ln m. The weight of 5 is what saves the logarithm that the density 1/(1 - mu^2) with w = 1 would cost.

**The best expert.** With atoms, a game is drawn given that at least s n columns are atoms. Then s of them stay unnamed
until the last active round, and L* = 0. That the theorem is about games drawn without this costs at most
q n Pr[fewer than s n atoms], since q n is the mean number of active rounds. With the uniform prior consider the
b >= n columns of largest |mu_j|, each with the sign of its mean: at least b - n + 1 stay unnamed, so that L* is at most
the number of rows' misses, summed over all b, divided by b - n + 1; as 1 - |mu_j| is uniform on [0, 1],
E L* <= q n b (b + 1)/(4 (m + 1)(b - n + 1)), for each b.

**Theorem 2 (hidden signs).** All columns are atoms, the row is the same in every round, q = 1, s = 1. If the rounds
1..n - 1 cost nothing, the choices do not depend on the signs, and by them the loss stochastically dominates
Bin(n, 1/2): a choice that is not clean costs 1, a clean one costs 1 with probability 1/2. With F the distribution
function of Bin(n, 1/2), Pr[loss <= k] <= e^((n - 1) e) F(k) + d_(n - 1), hence

    E[loss] >= sum_(k < n) max(0, 1 - e^((n - 1) e) F(k) - d_(n - 1)).

For d = 0 this is at least b n (1 - e^(-n (kl(b) - e))) for b < 1/2, kl(b) = ln 2 + b ln b + (1 - b) ln(1 - b), since
more than b n terms have k <= b n, where F(k) <= e^(-n kl(b)): linear in n for e < ln 2. L* = 0, since m >= n. QED

What is lost in the first rounds is lost, so each floor is the largest over the prefixes of the active rounds, of which
some are tried.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import special, stats

from dp_experts_env.spec import FloatArray, IntArray

LARGEST_EXPONENT = 700.0
"""Exponentials of more are taken for infinite: nothing is proved there."""


def _prefixes(rounds: int) -> IntArray:
    return np.unique(np.geomspace(1, rounds, 128).round().astype(np.int64))


def group(epsilon: float, delta: float, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return epsilon and delta of groups of ``count`` rounds; delta is infinite beyond ``LARGEST_EXPONENT``."""
    epsilon = min(epsilon, LARGEST_EXPONENT + 1.0)
    joint = np.minimum(count * epsilon, LARGEST_EXPONENT + 1.0)
    if delta == 0.0:
        return joint, np.zeros_like(joint)
    growth = np.expm1(joint) / math.expm1(epsilon) if epsilon > 0.0 else count
    return joint, np.where(joint > LARGEST_EXPONENT, np.inf, delta * growth)


def shift(epsilon: float, delta: float, count: FloatArray, deviation: Any, largest: Any) -> FloatArray:
    """Return the lemma's excess over E_Q h, for groups of rounds.

    Args:
        epsilon: privacy of one round.
        delta: its failure probability.
        count: numbers of rounds in the groups, at least 1.
        deviation: root of E_Q h^2.
        largest: bound on |h|.
    """
    joint, failure = group(epsilon, delta, count)
    spread = 2.0 * np.sinh(joint / 2.0) * np.sqrt(1.0 + failure * np.exp(-joint))
    excess = np.where(joint > LARGEST_EXPONENT, np.inf, spread) * deviation + failure * (1.0 + np.exp(-joint)) * largest
    return np.asarray(excess)


def enough_atoms(columns: int, needed: int) -> float:
    """Return the probability of an atom at which ``columns`` have too few with probability 1/(16 needed)."""
    return float(special.betainccinv(needed, columns - needed + 1, 1.0 / (16.0 * needed)))


@functools.lru_cache(maxsize=256)
def mean_terms(
    rounds: int, columns: int, size: int, rows: int, atoms: float | None, epsilon: float, delta: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return arrays A, B, D: by Theorem 1 the expected loss is at least q A - q^2 B - D, for each prefix of the rounds.

    Args:
        rounds: active rounds n.
        columns: number of columns m.
        size: columns s that an expert names.
        rows: number of different rows, ``rounds`` for fresh ones.
        atoms: probability a of an atom, games being drawn given ``size * rounds`` of them; ``None``: uniform prior.
        epsilon: privacy of the learner.
        delta: its failure probability.
    """
    failure, share = 0.0, 0.5
    if atoms is not None:
        failure = float(stats.binom.cdf(size * rounds - 1, columns, atoms))
        share = 1.0 + math.pi * atoms / (2.0 * (1.0 - atoms))
    terms = []
    for length in _prefixes(rounds):
        # For each row that some choice follows, the number of choices that follow it.
        after = length - np.arange(1, min(rows, length - 1) + 1, dtype=np.float64)
        uses = np.full_like(after, -(-(length - 1) // rows))
        if atoms is None:
            largest = 2.0 * after
        else:
            weight = columns * (1.0 - atoms)
            largest = np.minimum(np.sqrt(size * after * weight), weight * 2.0 / math.pi)
        correlation = shift(epsilon, delta, uses, np.sqrt(size * after), largest).sum()
        seen = np.arange(rows, length, dtype=np.float64) // rows
        known = shift(epsilon, delta, seen, 1.0, 2.0).sum()
        terms.append((length * (0.5 - failure), share * correlation / (2.0 * size), known / 2.0))
    gain, cost, known = np.array(terms).T
    return gain, cost, known


@functools.lru_cache(maxsize=1024)
def sign_floor(rounds: int, epsilon: float, delta: float) -> float:
    """Return the floor of the expected loss by Theorem 2 with ``rounds`` active rounds, at least 1/2."""
    best = 0.0
    for length in _prefixes(rounds):
        misses = np.arange(length, dtype=np.float64)
        ways = special.gammaln(length + 1.0) - special.gammaln(misses + 1.0) - special.gammaln(length - misses + 1.0)
        # Logarithms, as F underflows where e^((n - 1) e) makes up for it.
        likely = np.logaddexp.accumulate(ways) + (length - 1) * min(epsilon, 1e9) - length * math.log(2.0)
        failure = group(epsilon, delta, np.full(1, length - 1.0))[1]
        best = max(best, float(np.maximum(-np.expm1(np.minimum(likely, 0.0)) - failure, 0.0).sum()))
    return best


@functools.lru_cache(maxsize=1024)
def uniform_ceiling(rounds: int, columns: int) -> float:
    """Return what E L* is at most under the uniform prior where every round is active, whatever the learner."""
    kept = np.arange(rounds, columns + 1, dtype=np.float64)
    share = float((kept * (kept + 1.0) / (kept - rounds + 1.0)).min()) / (4.0 * (columns + 1.0))
    return rounds * min(share, 1.0)
