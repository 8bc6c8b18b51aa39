"""The attack on a learner: a judge and an adversary are trained, then both are measured in fresh games.

Training games never count. The learned judge is one more pair of the privacy game, whose losses were fixed before the
audit's first game; the learned adversary is one more opponent. Each is measured as those written by hand are, in as
many games, with seeds that training never saw.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dp_experts_env.learner import Learner
from dp_experts_env.play import Match, _seed_sequence, play
from dp_experts_env.privacy.audit import Audit, audit
from dp_experts_env.privacy.game import Pair, make_pair, pairs, refusal
from dp_experts_env.registry import adversaries, make_adversary, make_learner
from dp_experts_env.rl.training import Trained, train_adversary, train_judge
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    GameSpec,
    check_count,
    check_number,
)

LEARNED = "learned"
"""What the learned judge and the learned adversary are called."""

OPPONENTS = (
    "alternating",
    "bernoulli",
    "foreseer",
    "planted",
    "punish_last",
    "punish_leader",
    "punish_likely",
    "punish_used",
    "switching",
)
"""The adversaries written by hand that the learned one is put beside: those of any size."""

CHARGES = ("one_hot", "all_but_one", "halves")
"""What a learned adversary may charge in an attack: one expert, all but one, or half of them."""


@dataclass(frozen=True, eq=False)
class Leakage:
    """One line of the attack on privacy.

    Attributes:
        name: of the pair, or "learned".
        audit: what it showed, ``None`` where the claim does not cover it.
        why_not: why it was not tried, else "".
    """

    name: str
    audit: Audit | None = field(repr=False)
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Attack:
    """What learning found, beside what those written by hand find. Regret is a non-private diagnostic.

    Attributes:
        learner: the learner, printed with its parameters.
        leakage: the learned judge first, then the pairs written by hand; every bound of an audit holds at the
            confidence that makes all of them right together.
        regret: the learned adversary (likeliest actions, then drawn ones), then the opponents written by hand, by name.
        judge: the trained judge, ``None`` if it may not play.
        adversary: the trained adversary.
        seed: what replays the attack.
    """

    learner: str
    leakage: tuple[Leakage, ...]
    regret: tuple[tuple[str, Match], ...] = field(repr=False)
    judge: Trained | None = field(repr=False)
    adversary: Trained = field(repr=False)
    seed: Any

    @property
    def violated(self) -> bool:
        """Whether any audit refutes the claim."""
        return any(line.audit is not None and line.audit.violated for line in self.leakage)

    @property
    def learned_epsilon(self) -> float:
        """The lower bound on epsilon that the learned judge shows; 0 if it did not play."""
        return max(
            (line.audit.epsilon_lower for line in self.leakage if line.audit and line.name == LEARNED), default=0.0
        )

    @property
    def written_epsilon(self) -> float:
        """The largest lower bound on epsilon that a pair written by hand shows; 0 if none played."""
        return max(
            (line.audit.epsilon_lower for line in self.leakage if line.audit and line.name != LEARNED), default=0.0
        )

    @property
    def learned_regret(self) -> float:
        """Mean regret that the learned adversary forces by its likeliest actions or by drawn ones, the larger."""
        return max(match.mean_regret for name, match in self.regret if name.startswith(LEARNED))

    @property
    def written_regret(self) -> float:
        """Largest mean regret that an opponent written by hand forces; ``-inf`` if none played."""
        found = [match.mean_regret for name, match in self.regret if not name.startswith(LEARNED)]
        return max(found, default=-np.inf)


def attack(
    learner: str | Learner,
    budget: int = 100_000,
    *,
    num_experts: int = 4,
    horizon: int = 20,
    regret_horizon: int = 100,
    num_games: int = 20_000,
    regret_games: int = 200,
    confidence: float = 0.95,
    delta: float | None = None,
    view: str = "choices",
    against: Iterable[str] | None = None,
    opponents: Iterable[str] | None = None,
    override: bool = False,
    seed: Any = None,
    workers: int = 1,
    progress: bool | None = None,
) -> Attack:
    """Train a judge and an adversary against a learner, and measure them in fresh games beside those written by hand.

    The error of the audits is shared: with probability at least ``confidence`` all bounds are right. The learned judge
    plays in two ways, by its likeliest actions and by drawn ones, and the audit's pilot chooses, as it does among the
    variants of a pair.

    Args:
        learner: the learner, by its registered name or as an instance. It is not changed.
        budget: rounds of training of the judge, and of the adversary, each.
        num_experts: number of experts N.
        horizon: number of rounds T of the privacy game.
        regret_horizon: number of rounds of the games that regret is measured in.
        num_games: games in each world of each audit.
        regret_games: games against each opponent.
        confidence: probability that all bounds of the attack are right.
        delta: at which delta to audit; ``None`` for that of the claim.
        view: see :func:`~dp_experts_env.audit`.
        against: names of the pairs written by hand; ``None`` for all registered ones.
        opponents: names of the adversaries written by hand; ``None`` for :data:`OPPONENTS`.
        override: audit pairs, and the judge, that the claim does not cover too; then they refute nothing.
        seed: integer >= 0, sequence of integers, ``SeedSequence``, or ``None`` for fresh entropy. Training, every audit
            and every match have children of their own.
        workers: number of processes; the result does not depend on it.
        progress: ``True`` or ``False`` for progress bars, ``None`` for some on long work.

    Returns:
        The attack.

    Raises:
        ArgumentError: if an argument lies outside its range.
        UnknownNameError: if a name is unknown.
        MissingExtraError: without Stable-Baselines3, the extra ``rl``.
    """
    player = make_learner(learner) if isinstance(learner, str) else learner
    if not isinstance(player, Learner):
        raise ArgumentError(f"learner: expected the name of a learner or a Learner but found {learner!r}")
    check_count("budget", budget)
    check_count("num_games", num_games, 160)
    check_count("regret_games", regret_games)
    check_number("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    size: dict[str, Any] = {"num_experts": num_experts, "horizon": horizon}
    written = {name: make_pair(name, **size) for name in (pairs() if against is None else against)}
    names = [name for name in OPPONENTS if name in adversaries()] if opponents is None else list(opponents)
    foes = {name: make_adversary(name, num_experts=num_experts, horizon=regret_horizon) for name in names}
    root = _seed_sequence(seed)
    judge_seed, adversary_seed, audit_seed, match_seed = root.spawn(4)

    claim = player.guarantee(GameSpec(num_experts, horizon))
    adjacency = Adjacency.REPLACE if claim is None else claim.adjacency
    judge: Trained | None = None
    why = "" if claim is None or override or claim.covers("adaptive") else _oblivious_only(player, claim.against)
    if not why:
        judge = train_judge(player, budget, adjacency=adjacency, seed=judge_seed, progress=progress, **size)
    adversary = train_adversary(
        player,
        budget,
        num_experts=num_experts,
        horizon=regret_horizon,
        losses=CHARGES,
        seed=adversary_seed,
        progress=progress,
    )

    jobs: list[tuple[str, list[Pair], str]] = [
        (LEARNED, [] if judge is None else [judge.player(certain) for certain in (True, False)], why)
    ]
    jobs += [(name, [pair], refusal(player, [pair], override)) for name, pair in written.items()]
    tried = sum(not reason for *_, reason in jobs)
    each = 1.0 - (1.0 - confidence) / max(1, tried)
    leakage = []
    for (name, variants, reason), own in zip(jobs, audit_seed.spawn(len(jobs)), strict=True):
        found = None
        if not reason:
            found = audit(
                player,
                variants,
                num_games,
                confidence=each,
                delta=delta,
                view=view,
                seed=own,
                override=override,
                workers=workers,
                progress=progress,
            )
        leakage.append(Leakage(name, found, reason))

    met = {LEARNED: adversary.player(True), f"{LEARNED}, drawn": adversary.player(False), **foes}
    # Regret is measured against whoever there is; the bound is that of the opponent's kind, and no privacy is claimed.
    options: dict[str, Any] = {"override": True, "workers": workers, "progress": progress}
    regret = [
        (name, play(player, foe, num_games=regret_games, seed=own, **options))
        for (name, foe), own in zip(met.items(), match_seed.spawn(len(met)), strict=True)
    ]
    return Attack(
        learner=repr(player),
        leakage=tuple(leakage),
        regret=tuple(regret),
        judge=judge,
        adversary=adversary,
        seed=root if root.spawn_key else root.entropy,
    )


def _oblivious_only(learner: Learner, against: str) -> str:
    return f"{learner!r} is proved private against {against} adversaries only, but a learned judge is adaptive"
