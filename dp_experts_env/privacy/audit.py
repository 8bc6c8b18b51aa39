"""The audit: plays the privacy game against a learner and says how much privacy it loses at least.

An audit never proves privacy. It can show, with a stated confidence, that a learner loses more than it claims; that
it shows nothing may mean that the learner is private, that the pair is weak, or that the games were too few:
``epsilon_limit`` is the most that so many games could have shown.
"""

from __future__ import annotations

import functools
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from dp_experts_env.learner import Learner
from dp_experts_env.play import _seed_sequence
from dp_experts_env.privacy import evidence
from dp_experts_env.privacy.game import VIEWS, Pair, _pairs, covered, run_privacy_game
from dp_experts_env.privacy.likelihood import LikelihoodRatio, has_law
from dp_experts_env.registry import Registry, _adversaries, _learners
from dp_experts_env.spec import (
    ADVERSARY_MODELS,
    Adjacency,
    ArgumentError,
    DataError,
    FloatArray,
    GameError,
    GameSpec,
    Guarantee,
    check_count,
    check_delta,
    check_flag,
    check_name,
    check_number,
)

STATISTICS = ("auto", "plug_in", "classifier")
"""How an event is found: see :func:`audit`."""

PILOT = 0.1
"""Share of the games that go to the choice among several pairs."""

CURVE_POINTS = 400
"""Most points of the trade-off curve that are kept."""

FORMAT = "dp-experts-audit"

REGISTRIES: dict[str, Registry[Any]] = {"learner": _learners, "pair": _pairs, "adversary": _adversaries}
"""What a file can name, the narrower class first."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found.

    ``epsilon_lower`` is a lower bound that was audited; ``claimed.epsilon`` an upper bound that was accounted. They
    are different kinds of numbers.

    Attributes:
        learner: the learner, printed with its parameters.
        pair: the pair, printed with its parameters.
        kind: the pair's adversary model, "oblivious" or "adaptive".
        spec: the size of the game.
        view: "choices" or "transcript".
        claimed: the learner's guarantee where it covers the pair, else ``None``.
        leaky: whether the learner is a positive control.
        epsilon_lower: with probability at least ``confidence`` the learner is (epsilon, delta)-private for no epsilon
            below this; >= 0.
        epsilon_limit: the most that ``epsilon_lower`` could have been with so many games.
        delta: the delta of both.
        confidence: 1 - beta, over all that was looked at in this audit.
        num_games: games in each of the two worlds, pilot included; fixed beforehand.
        hits: how often the event occurred in world 0 and in world 1, among the games that were counted.
        trials: how many games were counted in each world.
        event: the event, in words.
        favoured: the world that the event was found likelier in.
        seed: what replays the audit.
        false_alarm: shape (P,), probability estimates of the best events in the world not favoured, for a figure.
        detection: shape (P,), those in the favoured world.
        seconds: wall-clock time.
        settings: the other arguments of :func:`audit`.
        sides: the learner and the pairs that were handed in, ``None`` where a file's record could not rebuild one.
    """

    learner: str
    pair: str
    kind: str
    spec: GameSpec
    view: str
    claimed: Guarantee | None
    leaky: bool
    epsilon_lower: float
    epsilon_limit: float
    delta: float
    confidence: float
    num_games: int
    hits: tuple[int, int]
    trials: tuple[int, int]
    event: str
    favoured: int
    seed: Any
    false_alarm: FloatArray = field(repr=False)
    detection: FloatArray = field(repr=False)
    seconds: float = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    sides: tuple[Any, ...] = field(repr=False)

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted: the lower bound exceeds the epsilon claimed, at no less than its delta."""
        claim = self.claimed
        return claim is not None and self.delta >= claim.delta and self.epsilon_lower > claim.epsilon

    @property
    def verdict(self) -> str:
        """The finding in a word or two: "VIOLATED", "consistent" or "no claim"."""
        if self.claimed is None:
            return "no claim"
        return "VIOLATED" if self.violated else "consistent"

    def __str__(self) -> str:
        claim = "no claim" if self.claimed is None else f"claims {self.claimed}"
        return (
            f"{self.learner} against {self.pair}, by its {self.view}: {claim}; with confidence {self.confidence:g} "
            f"epsilon is at least {self.epsilon_lower:.4g} at delta={self.delta:g} ({self.num_games} games a world "
            f"could show at most {self.epsilon_limit:.4g}): {self.verdict}. Event: {self.event}, {self.hits[0]} of "
            f"{self.trials[0]} games in world 0, {self.hits[1]} of {self.trials[1]} in world 1"
        )

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the audit as JSON, to be read by :func:`load_audit`.

        Args:
            path: the file; one that is no audit is not replaced.

        Raises:
            ArgumentError: if ``path`` is none, or a parameter of the learner or the pair cannot be written: it must
                be a number, text, an array, a learner, an adversary, or a sequence or dictionary of such.
            DataError: if there is such a file and it is no audit.
            OSError: if the file cannot be written.
        """
        file = _path(path)
        if file.exists():
            _read(file)
        found: dict[str, Any] = {"format": FORMAT, "version": 1, "violated": self.violated}
        for item in fields(self):
            found[item.name] = _encode(item.name, getattr(self, item.name))
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    def replay(self, seed: Any = None, *, learner: Learner | None = None, pair: Any = None, workers: int = 1) -> Audit:
        """Play the audit again.

        Without ``seed`` every game is the same again, and so is the result. With one, this audit's event, found again
        on its own games, is counted in fresh games, as many as were counted here: a second opinion, which looks at
        one event fixed beforehand.

        Args:
            seed: seed of fresh games, or ``None``.
            learner: the learner, where a file's record could not rebuild it (its class is not registered).
            pair: the pair or pairs, likewise.
            workers: number of processes.

        Raises:
            ArgumentError: if the record could not rebuild a side and none was handed in, or what was handed in prints
                differently from what was audited.
        """
        player, *pairs = self.sides
        player = player if learner is None else learner
        pairs = pairs if pair is None else _as_pairs(pair)
        for name, side in (("learner", player), *(("pair", item) for item in pairs)):
            if side is None:
                raise ArgumentError(f"{name}: the class of {getattr(self, name)} is not registered; hand in the {name}")
        for name, printed in (("learner", [repr(player)]), ("pair", [repr(item) for item in pairs])):
            if getattr(self, name) not in printed:
                raise ArgumentError(f"{name}: expected {getattr(self, name)} but found {', '.join(printed)}")
        return _audit(player, pairs, self.seed, fresh=seed, workers=workers, **self.settings)


def load_audit(path: Any) -> Audit:
    """Read an audit that :meth:`Audit.save` wrote.

    Only registered classes are built from it; others are left out, and handed to :meth:`Audit.replay`.

    Raises:
        ArgumentError: if ``path`` is none.
        DataError: if the file cannot be read as an audit.
    """
    found = _read(_path(path))
    try:
        values = {item.name: _decode(found[item.name]) for item in fields(Audit)}
        claim, size = values["claimed"], values["spec"]
        values["claimed"] = None if claim is None else Guarantee(**claim)
        values["spec"] = GameSpec(**size)
        for name in ("hits", "trials", "sides"):
            values[name] = tuple(values[name])
        for name in ("false_alarm", "detection"):
            values[name] = np.asarray(values[name], dtype=np.float64)
        found_audit = Audit(**values)
        _check_record(found_audit)
        return found_audit
    except (GameError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: not an audit that this version can read: {error!r}") from error


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: cannot be read as an audit: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("version") != 1:
        raise DataError(f'{file}: expected JSON with "format": "{FORMAT}", "version": 1')
    return found


def _path(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError as error:
        raise ArgumentError(f"path: expected the path of a file but found {path!r}") from error


def _check_record(found: Audit) -> None:
    """Refuse what no audit can have, so that a damaged record fails here and not where it is used."""
    for name in ("learner", "pair", "event"):
        if not isinstance(getattr(found, name), str):
            raise ArgumentError(f"{name}: expected text but found {getattr(found, name)!r}")
    check_name("kind", found.kind, ADVERSARY_MODELS[1:])
    check_name("view", found.view, VIEWS)
    check_flag("leaky", found.leaky)
    for name in ("epsilon_lower", "epsilon_limit", "seconds"):
        check_number(name, getattr(found, name), 0.0)
    check_delta(found.delta)
    check_number("confidence", found.confidence, 0.0, 1.0, low_open=True, high_open=True)
    check_count("num_games", found.num_games, 8)
    check_count("favoured", found.favoured, 0, 1)
    for name in ("hits", "trials", "false_alarm", "detection"):
        values = getattr(found, name)
        if name in ("hits", "trials"):
            worlds = [check_count(name, value, 0, found.num_games) for value in values]
            if len(worlds) != 2:
                raise ArgumentError(f"{name}: expected one of each world but found {values!r}")
        elif values.ndim != 1 or not ((values >= 0.0) & (values <= 1.0)).all():
            raise ArgumentError(f"{name}: expected probabilities but found {values!r}")
    wanted = {"num_games", "confidence", "delta", "view", "statistic", "override"}
    if not isinstance(found.settings, dict) or set(found.settings) != wanted:
        raise ArgumentError(f"settings: expected {', '.join(sorted(wanted))} but found {found.settings!r}")
    kinds = (Learner, *(Pair for _ in found.sides[1:]))
    fits = [side is None or isinstance(side, kind) for side, kind in zip(found.sides, kinds, strict=False)]
    if len(fits) < 2 or not all(fits):
        raise ArgumentError(f"sides: expected a learner and pairs but found {found.sides!r}")


def _encode(name: str, value: Any) -> Any:
    """Return a value in terms of JSON."""
    if value is None or (isinstance(value, (bool, int, str)) and not isinstance(value, Adjacency)):
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return _encode(name, value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": repr(value)}
    if isinstance(value, (Adjacency, os.PathLike)):
        return str(value)
    if isinstance(value, np.ndarray):
        return _encode(name, value.tolist())
    if isinstance(value, np.random.SeedSequence):
        return {"entropy": _encode(name, value.entropy), "spawn_key": list(value.spawn_key)}
    if isinstance(value, (Guarantee, GameSpec)):
        return {item.name: _encode(item.name, getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_encode(name, item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _encode(key, item) for key, item in value.items()}
    for kind, registry in REGISTRIES.items():
        if isinstance(value, registry.base):
            known = registry.name_of(type(value))
            if known is None:
                return {kind: None}
            return {kind: known, "parameters": _encode(name, value.parameters)}
    raise ArgumentError(f"{name}: a {type(value).__name__} cannot be saved: {value!r}")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"number"}:
        return float(value["number"])
    if set(value) == {"entropy", "spawn_key"}:
        return np.random.SeedSequence(value["entropy"], spawn_key=tuple(value["spawn_key"]))
    for kind, registry in REGISTRIES.items():
        if kind in value and set(value) <= {kind, "parameters"}:
            if value[kind] not in registry.names():
                return None
            return registry.make(value[kind], **_decode(value["parameters"]))
    return {key: _decode(item) for key, item in value.items()}


def audit(
    learner: Learner,
    pair: Pair | Sequence[Pair],
    num_games: int = 100_000,
    *,
    confidence: float = 0.95,
    delta: float | None = None,
    view: str = "choices",
    statistic: str = "auto",
    seed: Any = None,
    override: bool = False,
    workers: int = 1,
    progress: bool | None = None,
) -> Audit:
    """Play the two-world privacy game and bound from below how much privacy the learner loses.

    In each world ``num_games`` games are played; their number is fixed beforehand. The first half chooses an event,
    by what it would show; the second half counts it. Both one-sided Clopper-Pearson bounds share the error, the event
    and its direction cost none, since they were fixed before the count. With several pairs a tenth of the games,
    played apart, chooses among them first.

    Args:
        learner: the agent; see ``plain`` for third parties' objects. It is not changed.
        pair: the adversary of both worlds, or several of the same size to choose from.
        num_games: games in each world, an integer >= 8 (and at least 8 a pair for the pilot).
        confidence: 1 - beta in (0, 1): the probability that the bound is right.
        delta: at which delta, in [0, 1); ``None`` for that of the claim (0 where there is none).
        view: "choices", what the adversary of the definition sees, or "transcript": what the learner notes (coins,
            threshold outcomes) as well, where its proof covers that.
        statistic: "auto": the likelihood ratio where the learner has ``outcomes``, else "plug_in": ratios of counts of
            what was seen and of features of it, and of chains. "classifier": both of these, and gradient-boosted trees
            (scikit-learn, the extra ``audit``). More statistics are more to choose from, at a loss where one is right.
        seed: integer >= 0, sequence of integers, ``SeedSequence``, or ``None`` for fresh entropy.
        override: play where the learner's guarantee does not cover the pair; nothing is claimed then.
        workers: number of processes; the result does not depend on it.
        progress: ``True`` or ``False`` for a progress bar, ``None`` for one on long work.

    Returns:
        The audit.

    Raises:
        AdversaryModelError: if the learner is not claimed private against such a pair, and no override.
        ArgumentError: if an argument lies outside its range.
        MissingExtraError: "classifier" without scikit-learn.
    """
    return _audit(
        learner,
        _as_pairs(pair),
        seed,
        num_games=num_games,
        confidence=confidence,
        delta=delta,
        view=view,
        statistic=statistic,
        override=override,
        workers=workers,
        progress=progress,
    )


def _as_pairs(pair: Any) -> list[Pair]:
    pairs = [pair] if isinstance(pair, Pair) else pair
    if not isinstance(pairs, Sequence) or not pairs or not all(isinstance(item, Pair) for item in pairs):
        raise ArgumentError(f"pair: expected a Pair or a sequence of them but found {pair!r}; make_pair builds one")
    return list(pairs)


def check_look(pair: Any, num_games: int) -> list[Pair]:
    """Return the pairs that an audit of so many games would play, or refuse what it would refuse.

    Raises:
        ArgumentError: if they are no pairs, not of one size, or too many for a pilot of so many games.
    """
    check_count("num_games", num_games, 8)
    pairs = _as_pairs(pair)
    for item in pairs:
        if (item.num_experts, item.horizon) != (pairs[0].num_experts, pairs[0].horizon):
            raise ArgumentError(f"pair: expected pairs of one size but found {pairs[0]!r} and {item!r}")
    if len(pairs) > 1 and int(PILOT * num_games) // len(pairs) < 8:
        raise ArgumentError(
            f"num_games: expected at least {math.ceil(8 * len(pairs) / PILOT)} games a world to choose among "
            f"{len(pairs)} pairs but found {num_games}"
        )
    return pairs


def _audit(
    learner: Learner,
    pairs: list[Pair],
    seed: Any,
    *,
    num_games: int,
    confidence: float,
    delta: float | None,
    view: str,
    statistic: str,
    override: bool,
    workers: int = 1,
    progress: bool | None = None,
    fresh: Any = None,
) -> Audit:
    began = time.perf_counter()
    check_look(pairs, num_games)
    check_number("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    check_name("view", view, VIEWS)
    check_name("statistic", statistic, STATISTICS)
    check_flag("override", override)
    settings = {
        "num_games": num_games,
        "confidence": confidence,
        "delta": delta,
        "view": view,
        "statistic": statistic,
        "override": override,
    }
    spec = GameSpec(pairs[0].num_experts, pairs[0].horizon)
    claims = [covered(learner, item, override) for item in pairs]
    root = _seed_sequence(seed)
    pilot_seed, game_seed, event_seed = root.spawn(3)
    given = next((claim.delta for claim in claims if claim is not None), 0.0) if delta is None else check_delta(delta)
    law = statistic != "plug_in" and isinstance(learner, Learner) and has_law(learner, spec)
    play = functools.partial(
        run_privacy_game,
        learner,
        view=view,
        score=functools.partial(LikelihoodRatio, learner, view) if law else None,
        override=override,
        workers=workers,
        progress=progress,
    )
    statistics = evidence.statistics(classifier=statistic == "classifier")
    if statistic != "classifier":
        statistics = statistics[:1] if law else statistics[1:]
    chosen, left = 0, num_games
    if len(pairs) > 1:
        each = int(PILOT * num_games) // len(pairs)
        shown = []
        for item, own in zip(pairs, pilot_seed.spawn(len(pairs)), strict=True):
            games, event = own.spawn(2)
            worlds = play(item, each, seed=games)
            # At even odds the bound is close to the estimate.
            shown.append(evidence.judge(*worlds, given, 0.5, np.random.default_rng(event), statistics).epsilon_lower)
        chosen = int(np.argmax(shown))
        left = num_games - each * len(pairs)
    pair, claim = pairs[chosen], claims[chosen]
    worlds = play(pair, left, seed=game_seed)
    counted = None
    if fresh is not None:
        # A child that no audit takes: the games are fresh even under the seed of the audit itself.
        *_, fresh_seed = _seed_sequence(fresh).spawn(4)
        counted = play(pair, left - left // 2, seed=fresh_seed)
    found = evidence.judge(*worlds, given, confidence, np.random.default_rng(event_seed), statistics, counted=counted)
    false_alarm, detection = found.curve(CURVE_POINTS)
    return Audit(
        learner=repr(learner),
        pair=repr(pair),
        kind=pair.kind,
        spec=spec,
        view=view,
        claimed=claim,
        leaky=learner.leaky,
        epsilon_lower=found.epsilon_lower,
        epsilon_limit=found.epsilon_limit,
        delta=given,
        confidence=confidence,
        num_games=num_games,
        hits=found.hits,
        trials=found.trials,
        event=str(found.event),
        favoured=found.event.favoured,
        seed=root if root.spawn_key else root.entropy,
        false_alarm=false_alarm,
        detection=detection,
        seconds=time.perf_counter() - began,
        settings=settings,
        sides=(learner, *pairs),
    )
