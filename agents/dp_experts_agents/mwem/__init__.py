"""Private release of a histogram that answers many queries: MWEM, SmallDB and their smooth versions; not learners.

Data are n records, each in one cell of a *public* domain of X cells, given as a histogram. A query q gives each cell a
number in ``query_range``, (0, 1) or (-1, 1), of width w = 1 or 2; its answer on a distribution p over cells is
q(p) = sum_x p(x) q(x), on the data c_q/n, c_q = sum_x h(x) q(x). MWEM is Hardt, Ligett and McSherry 2012, SmallDB Blum,
Ligett and Roth 2008; the smooth versions are those of "Smoothed Analysis of Online and Differentially Private Learning"
(S1). All constants are derived here. [DERIVED]

**Sensitivity.** Delta, the most by which one record moves any c_q:

- ``replace``, one record moves to another cell and n is public: Delta = w, so 1 for (0, 1) and **2 for (-1, 1)**;
- ``zero_out``, one record is added or removed, that is, counts or does not count as zero in every query:
  Delta = max abs(q) = 1 for either range. Here the number of records is private, so n is a *declared* public ``size``;
  the number of records at hand is used nowhere.

**MWEM.** p_0 uniform; in each of R rounds:

1. select q with probability proportional to exp(kappa abs(n q(p) - c_q)). One record moves each exponent by at most
   kappa Delta, up or down: bounded range 2 kappa Delta, hence (2 kappa Delta)-DP and kappa^2 Delta^2/2-zCDP;
2. measure m = c_q/n + noise/n, clipped to the query range: Laplace noise of scale b is (Delta/b)-DP, Gaussian noise of
   deviation s is Delta^2/(2 s^2)-zCDP, and clipping is post-processing;
3. p <- p exp((4/w^2) (m - q(p)) q), normalised: a function of what is published.

Released is the mean of p_0, ..., p_{R-1}. Given the same past outputs, both steps are mechanisms on the data alone, so
costs add up adaptively. Each of the 2 R steps gets the same share: epsilon/(2 R) of pure DP, or rho/(2 R) of zCDP,
where rho-zCDP is (epsilon, delta)-DP, if delta > 0 and that gives the smaller error bound. The shares booked sum to the
budget, the last one by taking what is left. More passes of step 3 over past answers, and releasing the last p, as is
done in practice (``passes``), are post-processing: as private, but (1) below is not proved for them.

**Error.** Let D be any distribution and Psi = KL(D || p). With true error a = q(D) - q(p) and m = q(D) + v, Hoeffding's
lemma gives, for a step theta = (4/w^2)(a + v), that Psi falls by at least theta a - theta^2 w^2/8
= (2/w^2)((a + v)(2 a) - (a + v)^2) = (2/w^2)(a^2 - v^2). Since Psi starts at K = KL(D || p_0) and stays >= 0, the sum
of a^2 is at most w^2 K/2 plus the sum of v^2. With probability 1 - beta/2 every selected query is within
s = ln(2 R Q/beta)/kappa counts of the worst of Q queries (the exponential mechanism falls short by s with probability
at most Q e^{-kappa s}), and with probability 1 - beta/2 all abs(v) are at most b ln(2 R/beta)/n, or
s sqrt(2 ln(2 R/beta))/n if Gaussian. So, by Cauchy and Schwarz, with probability 1 - beta

    max over q of abs(q(D) - q(mean p)) <= sqrt(w^2 K/(2 R) + max v^2) + s/n <= w sqrt(K/(2 R)) + max abs(v) + s/n,  (1)

where K <= ln X for D the data. In pure DP and at beta = 2 R/Q the last two terms are 10 R Delta ln Q/(n epsilon), those
of the source; its first term, 2 sqrt(ln X/R) for steps of (m - q(p)) q/2, is larger, by a factor sqrt(8)/w.
Under ``zero_out`` the bounds speak of data with exactly ``size`` records.

**Smooth data.** The data are (sigma, chi)-smooth if some distribution B <= U/sigma, U uniform over the cells, answers
every query of the class to within chi. A gamma-cover is a part of the class with, for each q, a q' of
E_U abs(q - q') <= gamma w; so abs(q(B) - q'(B)) <= w gamma/sigma. Let Q' count the cover's queries. With D = B in (1),
K <= ln(1/sigma), and the measurements are off by at most chi more, as are the scores at both ends of selection:

- :class:`SmoothMWEM` runs on the cover and answers q by its nearest q': error at most
  (1) with K = ln(1/sigma), Q = Q', plus w gamma/sigma + 4 chi. At gamma = sigma/(2 n) the bias is w/(2 n); neither X
  nor the class's size appear. Its release is right on the cover, but not smooth: other queries may be wrong on it;
- :class:`ProjectedSmoothMWEM` projects each p onto {p <= U/sigma} in KL. As B is in this set,
  KL(B || projection) <= KL(B || p) (the Pythagorean inequality), so (1) stays. The set is convex, so the mean stays in
  it, and all queries of the class are right on the release itself: plus 2 w gamma/sigma + 4 chi.

**SmallDB.** One exponential mechanism with coefficient epsilon/(2 Delta) over the multisets of m cells, the score the
largest error in counts: epsilon-DP, since one record moves every score by at most Delta. Let m records be drawn from D:
by Hoeffding, errors all at most alpha have positive probability for each alpha > w sqrt(ln(2 Q)/(2 m)), so a multiset
with this error exists (there are finitely many). With probability 1 - beta the one drawn errs by at most
(2 Delta/(n epsilon)) (ln C + ln(1/beta)) more, C the number of multisets.

**SmoothSmallDB.** The candidates are the m-subsets of a pool of N uniform cells, drawn without looking at the data.
Keep each cell v of the pool with probability sigma B(v)/U(v), in [0, 1]: the kept ones are independent draws from B,
and Bin(N, sigma) many. If at least m are kept, the first m are as in SmallDB. So with probability 1 - beta, for
beta = P[Bin(N, sigma) < m] + 2 r, all queries of the class have error at most
w sqrt(ln(2 Q'/r)/(2 m)) + (2 Delta/(n epsilon)) (ln C(N, m) + ln(1/r)) + w gamma/sigma + 3 chi.

Guarantees hold in ideal arithmetic.
"""

from dp_experts_agents.mwem.base import PrivateRelease
from dp_experts_agents.mwem.queries import Queries, greedy_cover, histogram
from dp_experts_agents.mwem.small_db import SmallDB, SmoothSmallDB
from dp_experts_agents.mwem.weights import MWEM, ProjectedSmoothMWEM, SmoothMWEM

__all__ = [
    "MWEM",
    "PrivateRelease",
    "ProjectedSmoothMWEM",
    "Queries",
    "SmallDB",
    "SmoothMWEM",
    "SmoothSmallDB",
    "greedy_cover",
    "histogram",
]
