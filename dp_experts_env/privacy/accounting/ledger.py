"""Who spent what: privacy spends, a ledger that adds them up, and a filter that refuses to overspend.

Sums are exact: a float is an integer multiple of a power of two, and amounts are added as such integers. A share such
as ``epsilon / (2 * R)`` is itself rounded, so 2 R of them may exceed epsilon by a last digit. A filter therefore
*grants*: it returns the spend that it booked, which is the asked one, or, if asking overshoots by rounding alone, the
asked one lowered to what is left. What is booked never exceeds the budget, not even by a rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dp_experts_env.privacy.accounting.curves import zcdp_epsilon, zcdp_rho
from dp_experts_env.spec import ArgumentError, BudgetError, check_delta, check_epsilon, check_number

_BITS = (
    2150  # exact amounts are integers in units of 2^-2150: floats reach down to 2^-1074, half their squares to 2^-2149
)


@dataclass(frozen=True)
class Spend:
    """What one mechanism costs: (epsilon, delta)-DP, or rho-zCDP, or the composition of both.

    Args:
        epsilon: >= 0.
        delta: in [0, 1).
        label: what it was for.
        rho: >= 0; of a mechanism that is accounted in zero-concentrated DP.

    Raises:
        ArgumentError: if a number lies outside its range.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    label: str = ""
    rho: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_number("epsilon", self.epsilon, 0.0))
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "rho", check_number("rho", self.rho, 0.0))


class Ledger:
    """An append-only list of spends. Composing is atomic: if one of several is refused, none is entered."""

    def __init__(self) -> None:
        self._spends: list[Spend] = []

    def compose(self, *spends: Spend) -> None:
        """Enter the spends, all or none.

        Raises:
            ArgumentError: if one of them is not a :class:`Spend`: an unknown mechanism is never counted as free.
        """
        for spend in spends:
            if not isinstance(spend, Spend):
                raise ArgumentError(f"spend: expected a Spend but found {spend!r}; nothing has been entered")
        self._spends.extend(spends)

    @property
    def spends(self) -> tuple[Spend, ...]:
        """The entries in order."""
        return tuple(self._spends)

    def __iter__(self) -> Iterator[Spend]:
        return iter(self.spends)

    def __len__(self) -> int:
        return len(self._spends)

    def total(self) -> Spend:
        """Basic (adaptive) composition: the exact sums of epsilon, delta and rho, each rounded once to a float.

        A sum of deltas of 1 or more is reported as the float below 1: it bounds nothing either way.
        """
        sums = {name: math.fsum(getattr(spend, name) for spend in self._spends) for name in ("epsilon", "delta", "rho")}
        return Spend(sums["epsilon"], min(sums["delta"], math.nextafter(1.0, 0.0)), "total", sums["rho"])

    def epsilon(self, delta: float) -> float:
        """The least epsilon known at which everything entered is (epsilon, delta)-DP; infinite if delta is overspent.

        The (epsilon, delta) spends add up, and so do the rhos, whose sum is converted at what is left of delta; in any
        order and interleaving, since an (epsilon, delta) step is at worst one that fails with probability delta, alike
        in both worlds, and else is epsilon-DP; where none fails, replacing the zCDP steps first costs (epsilon_rho,
        delta_rho) and the others then cost a factor e^epsilon on the right-hand side. Where all deltas are zero the
        pure spends may be counted as epsilon^2/2-zCDP instead. [DERIVED]

        Raises:
            ArgumentError: if delta is not in [0, 1).
        """
        delta, total = check_delta(delta), self.total()
        left = _units(delta) - sum(_units(spend.delta) for spend in self._spends)
        if left < 0:
            return math.inf
        bound = total.epsilon + zcdp_epsilon(total.rho, _down(left))
        if total.delta == 0 and delta > 0:
            bound = min(bound, zcdp_epsilon(_float(sum(map(_rho_units, self._spends))), delta))
        return bound

    def __repr__(self) -> str:
        return f"Ledger({', '.join(map(repr, self._spends))})"


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_BITS + 1 - denominator.bit_length())


def _float(units: int) -> float:
    return units / (1 << _BITS)


def _down(units: int) -> float:
    value = _float(units)
    return value if _units(value) <= units else math.nextafter(value, 0.0)


def _rho_units(spend: Spend) -> int:
    """Exact zCDP cost: an epsilon-DP mechanism is epsilon^2/2-zCDP (Bun and Steinke 2016, Proposition 1.4)."""
    return _units(spend.rho) + (_units(spend.epsilon) ** 2 >> (_BITS + 1))


def _costs(spend: Spend, concentrated: bool) -> dict[str, int]:
    if concentrated:
        return {"rho": _rho_units(spend)}
    return {"epsilon": _units(spend.epsilon), "delta": _units(spend.delta)}


class Filter:
    """A privacy budget that may be spent adaptively and refuses an overspend.

    ``Filter(epsilon, delta)`` adds up epsilons and deltas. ``Filter(rho=...)`` and :meth:`zcdp` add up rhos, a pure
    spend counting as epsilon^2/2. Amounts and mechanisms may be chosen from earlier outputs: given a common transcript
    so far the next cost is fixed, and the sum is bounded along every path (Rogers, Roth, Ullman and Vadhan 2016; for
    zCDP, Feldman and Zrnic 2021 [INDEX]). After a refusal the owner may go on by post-processing, or spend less.

    Args:
        epsilon: budget, > 0.
        delta: budget in [0, 1).
        rho: budget > 0 of a zCDP filter; then epsilon and delta are not given.

    Attributes:
        budget: the budget as a :class:`Spend`.
        ledger: the :class:`Ledger` of what was granted.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(self, epsilon: float | None = None, delta: float = 0.0, *, rho: float | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise ArgumentError(f"epsilon, rho: expected exactly one of them but found {epsilon!r} and {rho!r}")
        if rho is not None and delta != 0:
            raise ArgumentError(f"delta: expected none in a zCDP filter but found {delta!r}; see Filter.zcdp")
        self.ledger = Ledger()
        if rho is None:
            self.budget = Spend(check_epsilon(epsilon), check_delta(delta), "budget")
        else:
            self.budget = Spend(label="budget", rho=check_epsilon(rho, "rho"))
        self._sums = _costs(Spend(), concentrated=rho is not None)

    @classmethod
    def zcdp(cls, epsilon: float, delta: float) -> Filter:
        """A zCDP filter whose whole budget is (epsilon, delta)-DP; delta > 0.

        Raises:
            ArgumentError: if epsilon is not > 0 or delta not in (0, 1).
        """
        return cls(rho=zcdp_rho(epsilon, check_number("delta", delta, 0.0, 1.0, low_open=True, high_open=True)))

    @property
    def spent(self) -> Spend:
        """What has been booked, never above the budget."""
        return Spend(label="spent", **{name: _float(units) for name, units in self._sums.items()})

    @property
    def left(self) -> Spend:
        """What may still be spent, rounded down."""
        return Spend(label="left", **{name: _down(self._left(name)) for name in self._sums})

    def _left(self, name: str) -> int:
        return _units(getattr(self.budget, name)) - self._sums[name]

    def spend(self, epsilon: float = 0.0, delta: float = 0.0, label: str = "", *, rho: float = 0.0) -> Spend:
        """Book a spend and return what was granted: run the mechanism with the amounts returned.

        They are the asked ones. Only where these exceed what is left by rounding (by no more than 1e-12 of the budget
        and 1e-6 of what was asked) are they lowered to what is left.

        Args:
            epsilon: asked, >= 0; in a zCDP filter of a pure mechanism.
            delta: asked, in [0, 1); zero in a zCDP filter.
            label: what it is for.
            rho: asked, >= 0; of a zCDP filter only, and not together with epsilon.

        Raises:
            BudgetError: if more is asked than is left; nothing has been spent and the filter remains usable.
            ArgumentError: if an argument lies outside its range, or this kind of filter cannot account for it.
        """
        asked, concentrated = Spend(epsilon, delta, label, rho), "rho" in self._sums
        if concentrated and asked.delta > 0:
            raise ArgumentError(f"delta: a zCDP filter cannot account for delta > 0 but found {delta!r}")
        if concentrated and asked.epsilon > 0 and asked.rho > 0:
            raise ArgumentError(f"epsilon, rho: expected one of them but found {epsilon!r} and {rho!r}")
        if not concentrated and asked.rho > 0:
            raise ArgumentError(f"rho: a filter of epsilon and delta cannot account for rho but found {rho!r}")
        granted = asked
        for name, cost in _costs(asked, concentrated).items():
            granted = self._grant(name, cost, granted)
        costs = _costs(granted, concentrated)
        self.ledger.compose(granted)
        self._sums = {name: units + costs[name] for name, units in self._sums.items()}
        return granted

    def _grant(self, name: str, cost: int, asked: Spend) -> Spend:
        left, budget = self._left(name), _units(getattr(self.budget, name))
        over = cost - left
        if over <= 0:
            return asked
        if over * 10**12 > budget or over * 10**6 > cost:
            raise BudgetError(
                f"{name}: spent {_show(self._sums[name])} of the budget {_show(budget)}, asked {_show(cost)}, "
                f"{_show(left)} left; nothing has been spent"
            )
        if name == "rho" and asked.epsilon > 0:
            granted = replace(asked, epsilon=math.sqrt(2 * _float(left)))
            while _rho_units(granted) > left:
                granted = replace(asked, epsilon=math.nextafter(granted.epsilon, 0.0))
            return granted
        return replace(asked, **{name: _down(left)})  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Filter(budget={self.budget!r}, spent={self.spent!r})"


def _show(units: int) -> str:
    return repr(float(f"{_float(units):.6g}"))
