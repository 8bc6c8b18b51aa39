"""Dartboards with a privacy guarantee."""

from __future__ import annotations

import math
from typing import ClassVar

from dp_experts_agents.dartboard.kernel import Dartboard
from dp_experts_agents.dartboard.plan import SOURCES, Parameters, Plan, Scheme, calibrate, paper_plan
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    GameSpec,
    Guarantee,
    check_adjacency,
    check_count,
    check_delta,
    check_epsilon,
    check_name,
    check_number,
)


class CalibratedDartboard(Dartboard):
    """A dartboard whose parameters are those of least certified regret within (epsilon, delta), unless given.

    Private against adaptive adversaries, coins included; the regret bound is for oblivious ones. Subclasses say which
    variant in :meth:`scheme`. Arguments and errors are those of :class:`PrivateDartboard`.
    """

    label: ClassVar[str] = "dartboard"
    """What the source of the guarantee calls the learner."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        certificate: str = "auto",
        batch_size: int | None = None,
        switch_probability: float | None = None,
        learning_rate: float | None = None,
        cap: int | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.certificate = check_name("certificate", certificate, ("auto", "capped", "uncapped"))
        self.batch_size = None if batch_size is None else check_count("batch_size", batch_size)
        if switch_probability is not None:
            switch_probability = check_number("switch_probability", switch_probability, 0.0, 1.0, low_open=True)
        self.switch_probability = switch_probability
        if learning_rate is not None:
            learning_rate = check_number("learning_rate", learning_rate, 0.0, low_open=True)
        self.learning_rate = learning_rate
        self.cap = None if cap is None else check_count("cap", cap, 0)
        self.adjacency = check_adjacency(adjacency)
        if certificate == "uncapped" and self.delta == 0.0:
            raise ArgumentError("certificate: expected 'capped' or 'auto' with delta=0 but found 'uncapped'")
        if certificate == "uncapped" and cap is not None:
            raise ArgumentError(f"cap: expected None with certificate='uncapped' but found {cap!r}")

    def scheme(self, spec: GameSpec) -> Scheme:
        """Return the game and the variant that the bounds are for."""
        return Scheme(spec.horizon, spec.num_experts, self.adjacency)

    def plan(self, spec: GameSpec) -> Plan:
        """Return the parameters for a game of this size and what they certify; cached.

        Raises:
            ArgumentError, BudgetError: see the class.
        """
        methods: tuple[str, ...] = ("zcdp", "pure") if self.delta > 0.0 else ("pure",)
        if self.certificate == "uncapped":
            methods = ("renyi",)
        elif self.certificate == "auto" and self.cap is None and self.delta > 0.0:
            methods = ("renyi", *methods)
        given = Parameters(self.batch_size, self.switch_probability, self.learning_rate, self.cap)
        return calibrate(self.scheme(spec), self.epsilon, self.delta, methods, given)

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return the (epsilon, delta) that the parameters certify, at most what was asked; adaptive adversaries."""
        plan = self.plan(spec)
        return Guarantee(plan.epsilon, plan.delta, self.adjacency, "adaptive", f"{self.label}: {SOURCES[plan.method]}")

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the least of the module's two bounds and T - L*; NaN against adaptive adversaries."""
        plan = self.plan(spec)
        if against == "adaptive":
            return math.nan
        if spec.num_experts == 1:
            return 0.0
        scheme = self.scheme(spec)
        fixed = scheme.regret(plan.batch_size, plan.switch_probability, plan.learning_rate, plan.cap, switches=0)
        return float(min(fixed, scheme.small_loss_regret(plan, best_loss), spec.horizon - best_loss))


class PrivateDartboard(CalibratedDartboard):
    """The private shrinking dartboard: forced switches, batches, and a cap or Rényi accounting without one.

    Private against adaptive adversaries, coins included; the regret bound is for oblivious ones. See the module for
    the proof, and :func:`paper_plan` for the paper's own parameters, which are useless at practical horizons, and for
    the problems found in its text: with tuning="paper" the guarantee and the regret bound are those that the paper
    prints, repaired, and games that its theorems do not cover are refused.

    Args:
        epsilon: privacy budget, a number > 0.
        delta: in [0, 1); at 0 the cap is needed.
        tuning: "calibrated", the parameters of least certified regret, or "paper", those of the paper's corollaries.
        certificate: "capped" (zCDP, or pure), "uncapped" (Rényi, delta > 0 only) or "auto", the one of less regret.
        batch_size: B, an integer >= 1; ``None`` to calibrate it (1 with tuning="paper").
        switch_probability: p in (0, 1]; ``None`` to calibrate it.
        learning_rate: eta > 0; ``None`` to calibrate it.
        cap: K, an integer >= 0, most redraws after the first; ``None`` to calibrate it.
        adjacency: "replace" or "zero_out".

    Raises:
        ArgumentError: if an argument lies outside its range or contradicts another; with tuning="paper" also, at
            reset, where the paper's theorem does not cover the game.
        BudgetError: at reset, if parameters that were given cost more than epsilon; the message says how much.
    """

    label = "private shrinking dartboard"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        tuning: str = "calibrated",
        certificate: str = "auto",
        batch_size: int | None = None,
        switch_probability: float | None = None,
        learning_rate: float | None = None,
        cap: int | None = None,
        adjacency: str | Adjacency = "replace",
    ) -> None:
        super().__init__(epsilon, delta, certificate, batch_size, switch_probability, learning_rate, cap, adjacency)
        self.tuning = check_name("tuning", tuning, ("calibrated", "paper"))
        if tuning == "paper":
            fixed = {"switch_probability": switch_probability, "learning_rate": learning_rate, "cap": cap}
            for name, value in fixed.items():
                if value is not None:
                    raise ArgumentError(f"{name}: expected None with tuning='paper' but found {value!r}")
            if certificate == "uncapped":
                raise ArgumentError("certificate: expected 'auto' or 'capped' with tuning='paper' but found 'uncapped'")

    def plan(self, spec: GameSpec) -> Plan:
        """Return the parameters for a game of this size and what they certify; cached.

        Raises:
            ArgumentError, BudgetError: see the class.
        """
        if self.tuning == "paper":
            return paper_plan(self.scheme(spec), self.epsilon, self.delta, self.batch_size)
        return super().plan(spec)

    def regret_bound(self, spec: GameSpec, best_loss: float, against: str = "oblivious") -> float:
        """Return the least of the module's two bounds and T - L*, or what the paper prints; NaN if adaptive."""
        if self.tuning == "paper" and against != "adaptive":
            return self.plan(spec).regret
        return super().regret_bound(spec, best_loss, against)
