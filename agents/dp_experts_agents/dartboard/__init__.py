"""Dartboards: Hedge's law at every decision, with few switches, privately (Asi, Feldman, Koren and Talwar 2023).

**Mechanism.** Rounds come in batches of B; n = ceil(T/B) decisions, one at the head of each batch. With L_b the sum of
the batch just ended and P_b(i) proportional to exp(-eta L(i)) over all losses so far, the held expert x is kept with
probability kappa = (1 - p) exp(-eta L_b(x)) and otherwise redrawn from P_b; after K redraws (the cap) it is kept for
good. The first expert is uniform. p > 0 forces switches that hide the switches which a loss caused.

**Marginals** [DERIVED]. Without a cap the expert held in batch b has law exactly P_b: keeping contributes
P_{b-1}(i) (1 - p) e^{-eta L_b(i)} = (1 - p) Z P_b(i), and the remaining mass is redrawn from P_b. So against oblivious
adversaries, by Hedge's bound on the n batches, the regret is at most ln N/eta + eta B T/8, and at most
B (eta L* + ln N)/(1 - e^{-eta B}) - L* (convexity: e^{-eta L} <= 1 - (1 - e^{-eta B}) L/B). Run with the same coins, a
capped game differs from an uncapped one only after coin K + 1 that says "redraw"; each says so with probability at
most r = 1 - (1 - p) e^{-eta B}, so the cap costs at most B sum_{j<n} Pr[Bin(j, r) > K]. An adaptive adversary sees
which expert is held: no regret bound there.

**Sensitivity.** One changed loss vector moves exactly one coin, the one after its batch, and every redraw from then
on. A redraw has bounded range a = 2 eta under ``replace`` and a = eta under ``zero_out`` (its log-ratio is -eta d(i)
plus a constant, d in [-1, 1]^N or [0, 1]^N), hence a^2/8-zCDP. The coin depends on the held expert's loss alone, which
moves by at most 1 under either relation: log kappa moves by at most eta, log(1 - kappa) by at most
e_sw = ln(1 + (1 - p)(1 - e^{-eta})/p), reached at L_b = 0, with the opposite sign: bounded range e_sw + eta.

**Composition** [DERIVED]. Transcript: coins, the cap counter and the choices. Given a common prefix of it an adaptive
adversary's other losses are fixed and equal in both worlds, and so is the law of every coin but the affected one. So
along every path the costs add up, against adaptive adversaries:

- "zcdp": rho = (e_sw + eta)^2/8 + K a^2/8, converted tightly;
- "pure": epsilon = max(e_sw, eta) + a K, which some games reach;
- "renyi", no cap: a later decision keeps with the same probability kappa >= 1 - r in both worlds, so its moment
  E_Q (P/Q)^alpha is at most 1 + r (w - 1), w = exp(alpha (alpha - 1) a^2/8); the affected decision's is
  k^alpha k'^(1-alpha) + w (1-k)^alpha (1-k')^(1-alpha), k and k' the two keep probabilities. It is convex in k and
  in k', so the largest shift, k'/k = e^{-eta} or e^{eta}, is worst (the corners k = k' are not: at k < k' it is at
  least 1 + (w - 1)(1 - k) and 1 + (w - 1)(1 - k'), its values there), and on these lines convex in k (a perspective
  function), hence largest at an end of k's range. Moments of worst cases multiply under adaptive composition, so with
  n - 2 later decisions
  (alpha - 1) D_alpha <= ln(affected) + (n - 2) ln(1 + r (w - 1)).

Guarantees hold in ideal arithmetic: exp(-eta gap) underflows once eta gap > 745.
"""

from dp_experts_agents.dartboard.kernel import Dartboard, ShrinkingDartboard
from dp_experts_agents.dartboard.plan import Plan, Scheme, calibrate, paper_plan
from dp_experts_agents.dartboard.private import CalibratedDartboard, PrivateDartboard

__all__ = [
    "CalibratedDartboard",
    "Dartboard",
    "Plan",
    "PrivateDartboard",
    "Scheme",
    "ShrinkingDartboard",
    "calibrate",
    "paper_plan",
]
