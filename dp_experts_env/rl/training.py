"""Training a policy for a chair, and what comes of it: a player, and files that say how it was made."""

from __future__ import annotations

import copy
import hashlib
import importlib.metadata
import inspect
import json
import math
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from tqdm.auto import tqdm

from dp_experts_env.adversary import Adversary, AdversaryVectorEnv
from dp_experts_env.chairs import AdversaryEnv, Chair, ChairVectorEnv, JudgeEnv, VectorLead
from dp_experts_env.learner import Learner
from dp_experts_env.play import _seed_sequence
from dp_experts_env.registry import make_adversary
from dp_experts_env.rl.extra import library, states_as_found
from dp_experts_env.rl.games import training_games
from dp_experts_env.rl.players import PolicyAdversary, PolicyJudge, PolicyLearner
from dp_experts_env.spec import (
    Adjacency,
    ArgumentError,
    DataError,
    FloatArray,
    GameSpec,
    check_count,
    check_flag,
    check_name,
)

SEATS = ("learner", "adversary", "judge")
"""The chairs that a policy can be trained for."""

ALGORITHMS = ("PPO", "A2C", "DQN", "RecurrentPPO", "QRDQN", "TRPO")
"""The algorithms known by name: three of Stable-Baselines3, three of sb3-contrib."""

FORMAT = "dp-experts-policy"
"""What the JSON beside a saved model begins with."""

DISTRIBUTIONS = ("dp-experts-env", "stable-baselines3", "sb3-contrib", "torch", "gymnasium", "numpy")
"""Whose versions are recorded."""


@dataclass(frozen=True)
class Decay:
    """A learning rate that falls linearly to zero: what was learned last is not shaken off again.

    Args:
        start: the first learning rate.
    """

    start: float

    def __call__(self, remaining: float) -> float:
        """Return the rate when this share of the training is to come."""
        return self.start * remaining


_NET = {"net_arch": [32, 32]}
_PPO = {"n_steps": 32, "batch_size": 256, "n_epochs": 6, "learning_rate": Decay(5e-3), "policy_kwargs": _NET}
_DQN = {"buffer_size": 50_000, "learning_starts": 1000, "policy_kwargs": _NET}
SETTINGS: dict[str, dict[str, Any]] = {
    "PPO": _PPO,
    "RecurrentPPO": {**_PPO, "policy_kwargs": {"lstm_hidden_size": 32, "net_arch": []}},
    "A2C": {"policy_kwargs": _NET},
    "TRPO": {"policy_kwargs": _NET},
    "DQN": _DQN,
    "QRDQN": _DQN,
}
"""Hyper-parameters where they are not given; the rest is Stable-Baselines3's."""

JUDGING: dict[str, Any] = {"n_steps": 16, "batch_size": 512, "learning_rate": Decay(1e-2), "ent_coef": 0.01}
"""Those of a judge trained by PPO, in place of the others: it is paid once a game, mostly noise, so that many games an
update and some entropy keep it from guessing nothing before it knows where to look."""

HORIZONS = {"learner": 0.9, "adversary": 0.8, "judge": 1.0}
"""Discount factors: a judge is paid in the last round only; a regret is paid as it arises."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained policy, and how it was made. The returns of training games are non-private diagnostics.

    Attributes:
        seat: "learner", "adversary" or "judge".
        model: the Stable-Baselines3 algorithm.
        game: the size of the game it was trained in.
        opponent: who sat opposite, printed with its parameters.
        view: keywords that its player needs: ``lead``, or ``losses``, or ``losses`` and ``adjacency``.
        settings: how it was trained, as it was asked for.
        seed: of all its randomness.
        rounds: rounds played in training.
        returns: of the training games that ended, in their order; a learner's is minus its loss, an adversary's the
            regret, a judge's as in :class:`~dp_experts_env.JudgeEnv`.
        seconds: wall-clock time trained.
        versions: of the libraries and of Python.
    """

    seat: str
    model: Any = field(repr=False)
    game: GameSpec
    opponent: str
    view: dict[str, Any]
    settings: dict[str, Any] = field(repr=False)
    seed: int
    rounds: int
    returns: FloatArray = field(repr=False)
    seconds: float = field(repr=False)
    versions: dict[str, str] = field(repr=False)

    @property
    def late_return(self) -> float:
        """Mean return of the last tenth of the training games; NaN if none ended."""
        late = self.returns[-max(1, len(self.returns) // 10) :]
        return float(late.mean()) if len(late) else math.nan

    def player(self, deterministic: bool = False, **game: Any) -> Any:
        """Return a :class:`PolicyLearner`, :class:`PolicyAdversary` or :class:`PolicyJudge` that plays the policy.

        Args:
            deterministic: whether to take the likeliest action instead of drawing one.
            **game: for an adversary or a judge ``horizon`` and ``num_games``, if not those of training.

        Raises:
            ArgumentError: if an argument lies outside its range.
        """
        if self.seat == "learner":
            return PolicyLearner(self.model, deterministic=deterministic, **self.view, **game)
        cls = PolicyAdversary if self.seat == "adversary" else PolicyJudge
        size = {"num_experts": self.game.num_experts, "horizon": self.game.horizon, **game}
        return cls(self.model, deterministic=deterministic, **self.view, **size)

    def save(self, path: Any) -> None:
        """Write the model as ``path.zip``, in Stable-Baselines3's form, and how it was made as ``path.json``.

        Args:
            path: without a suffix, or ending in ".zip". An older model of ours is replaced, other files are not.

        Raises:
            DataError: if ``path.json`` is there and is no record of ours, or ``path.zip`` is there without one.
            OSError: if a file cannot be written.
        """
        archive, record = _files(path)
        if record.exists() or archive.exists():
            _read(record)
        archive.parent.mkdir(parents=True, exist_ok=True)
        with states_as_found("Trained.save"):
            self.model.save(archive)
        kept = {
            "format": FORMAT,
            "version": 1,
            "seat": self.seat,
            "algorithm": type(self.model).__name__,
            "num_experts": self.game.num_experts,
            "horizon": self.game.horizon,
            "opponent": self.opponent,
            "view": self.view,
            "settings": self.settings,
            "seed": self.seed,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "returns": self.returns.tolist(),
            "versions": self.versions,
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        }
        record.write_text(json.dumps(kept, indent=1, default=repr) + "\n", encoding="utf-8")


def load_trained(path: Any) -> Trained:
    """Read what :meth:`Trained.save` wrote.

    A model of Stable-Baselines3 holds pickled objects: load only files whose origin you trust.

    Args:
        path: without a suffix, or ending in ".zip".

    Raises:
        DataError: if the files cannot be read as a model of ours, or do not belong together.
        MissingExtraError: without Stable-Baselines3, or sb3-contrib where it is needed.
    """
    archive, record = _files(path)
    kept = _read(record)
    try:
        if hashlib.sha256(archive.read_bytes()).hexdigest() != kept["sha256"]:
            raise DataError(f"{archive}: is not the model that {record} was written for")
        cls = _algorithm(kept["algorithm"])
        with states_as_found("load_trained"):
            model = cls.load(archive, device="cpu")
        return Trained(
            seat=check_name("seat", kept["seat"], SEATS),
            model=model,
            game=GameSpec(kept["num_experts"], kept["horizon"]),
            returns=np.asarray(kept["returns"], dtype=np.float64),
            **{name: kept[name] for name in ("opponent", "view", "settings", "seed", "rounds", "seconds", "versions")},
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a model that this version can read: {error!r}") from error


def _files(path: Any) -> tuple[Path, Path]:
    archive = Path(path)
    if archive.suffix != ".zip":
        archive = archive.with_name(archive.name + ".zip")
    return archive, archive.with_suffix(".json")


def _read(record: Path) -> dict[str, Any]:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{record}: cannot be read as the record of a model: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("version") != 1:
        raise DataError(f'{record}: expected JSON with "format": "{FORMAT}", "version": 1')
    return found


def train_learner(
    adversary: str | Adversary,
    budget: int = 100_000,
    *,
    lead: bool = True,
    algorithm: Any = "PPO",
    frames: int = 1,
    num_envs: int = 32,
    seed: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> Trained:
    """Train a policy in the learner's chair; its return is minus its loss.

    Args:
        adversary: the opponent, by its registered name with its default size, or an instance.
        budget: rounds to be played in training, an integer >= 1; the algorithm rounds it up to whole updates.
        lead: whether it sees min(1, L - min L) of the experts' losses L so far instead of the last losses; see
            :class:`~dp_experts_env.Lead`.
        algorithm: one of :data:`ALGORITHMS`, or a class of Stable-Baselines3's kind.
        frames: number of observations that it is shown at a time, an integer >= 1.
        num_envs: number of games played at once.
        seed: integer >= 0, sequence of integers, ``SeedSequence``, or ``None`` for fresh entropy. It repeats the
            training on one machine; other versions of torch, or processors, may round differently.
        progress: ``True`` or ``False`` for a progress bar, ``None`` for one on work that takes over two seconds.
        **settings: keywords of the algorithm, in place of :data:`SETTINGS` and, for a judge, :data:`JUDGING`.

    Returns:
        The trained policy.

    Raises:
        ArgumentError: if an argument lies outside its range, or the algorithm cannot act in this chair.
        MissingExtraError: without Stable-Baselines3, or sb3-contrib where it is needed.
    """
    check_flag("lead", lead)
    foe = make_adversary(adversary) if isinstance(adversary, str) else adversary
    if not isinstance(foe, Adversary):
        raise ArgumentError(f"adversary: expected the name of an adversary or an Adversary but found {adversary!r}")
    games: VectorEnv[Any, Any, Any] = AdversaryVectorEnv(
        foe, check_count("num_envs", num_envs), autoreset_mode=AutoresetMode.SAME_STEP
    )
    return _train(
        "learner",
        VectorLead(games) if lead else games,
        GameSpec(foe.num_experts, foe.horizon),
        repr(foe),
        {"lead": lead},
        budget,
        algorithm,
        frames,
        seed,
        progress,
        settings,
    )


def train_adversary(
    learner: str | Learner,
    budget: int = 100_000,
    *,
    num_experts: int = 4,
    horizon: int = 100,
    losses: str | Iterable[str] = "one_hot",
    learner_parameters: Mapping[str, Any] | None = None,
    algorithm: Any = "PPO",
    frames: int = 1,
    num_envs: int = 32,
    seed: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> Trained:
    """Train a policy in the adversary's chair, :class:`~dp_experts_env.AdversaryEnv`; its return is the regret.

    Args:
        learner: the learner, by its registered name or as an instance.
        budget: see :func:`train_learner`.
        num_experts: number of experts N.
        horizon: number of rounds T.
        losses: what it may charge; see :class:`~dp_experts_env.AdversaryEnv`.
        learner_parameters: the learner's constructor keywords, if it is named.
        algorithm: see :func:`train_learner`; "DQN" and "QRDQN" need loss vectors to pick from.
        frames: see :func:`train_learner`.
        num_envs: see :func:`train_learner`.
        seed: see :func:`train_learner`.
        progress: see :func:`train_learner`.
        **settings: see :func:`train_learner`.

    Returns:
        The trained policy.

    Raises:
        ArgumentError: if an argument lies outside its range, or the algorithm cannot act in this chair.
        MissingExtraError: without Stable-Baselines3, or sb3-contrib where it is needed.
    """
    losses = _named(losses)
    chair = AdversaryEnv(learner, learner_parameters, losses, num_experts, horizon)
    return _train_chair(
        "adversary", chair, {"losses": losses}, {}, budget, algorithm, frames, num_envs, seed, progress, settings
    )


def train_judge(
    learner: str | Learner,
    budget: int = 100_000,
    *,
    num_experts: int = 4,
    horizon: int = 20,
    losses: str | Iterable[str] = ("zeros", "one_hot", "all_but_one"),
    epsilon: float = 0.0,
    adjacency: str | Adjacency = "replace",
    learner_parameters: Mapping[str, Any] | None = None,
    algorithm: Any = "PPO",
    frames: int = 1,
    num_envs: int = 64,
    seed: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> Trained:
    """Train a policy in the judge's chair, :class:`~dp_experts_env.JudgeEnv`.

    Twice its expected return is at most the learner's delta(epsilon). Training at epsilon 0, where that is the total
    variation distance, is easiest: at the epsilon that is claimed a judge that does not yet know where to look loses
    by every guess, and soon guesses no more. What it has learned to commit serves an audit at any epsilon.

    Args:
        learner: the learner, by its registered name or as an instance.
        budget: see :func:`train_learner`.
        num_experts: number of experts N.
        horizon: number of rounds T.
        losses: the loss vectors to pick from; see :class:`~dp_experts_env.JudgeEnv`.
        epsilon: of the reward.
        adjacency: "replace" or "zero_out".
        learner_parameters: the learner's constructor keywords, if it is named.
        algorithm: see :func:`train_learner`; one that can act in several components, such as "PPO" and "A2C".
        frames: see :func:`train_learner`.
        num_envs: see :func:`train_learner`.
        seed: see :func:`train_learner`.
        progress: see :func:`train_learner`.
        **settings: see :func:`train_learner`.

    Returns:
        The trained policy.

    Raises:
        ArgumentError: if an argument lies outside its range, or the algorithm cannot act in this chair.
        MissingExtraError: without Stable-Baselines3, or sb3-contrib where it is needed.
    """
    losses = _named(losses)
    chair = JudgeEnv(learner, learner_parameters, losses, epsilon, adjacency, num_experts, horizon)
    view = {"losses": losses, "adjacency": str(chair.adjacency)}
    asked = {"epsilon": chair.epsilon}
    return _train_chair("judge", chair, view, asked, budget, algorithm, frames, num_envs, seed, progress, settings)


def _named(losses: str | Iterable[str]) -> Any:
    return losses if isinstance(losses, str) or not isinstance(losses, Iterable) else list(losses)


def _train_chair(
    seat: str,
    chair: Chair,
    view: dict[str, Any],
    asked: dict[str, Any],
    budget: int,
    algorithm: Any,
    frames: int,
    num_envs: int,
    seed: Any,
    progress: bool | None,
    settings: dict[str, Any],
) -> Trained:
    games = ChairVectorEnv(chair, check_count("num_envs", num_envs), autoreset_mode=AutoresetMode.SAME_STEP)
    size = GameSpec(chair.num_experts, chair.horizon)
    opponent = repr(chair.learner)
    return _train(seat, games, size, opponent, view, budget, algorithm, frames, seed, progress, settings, asked)


def _train(
    seat: str,
    games: VectorEnv[Any, Any, Any],
    size: GameSpec,
    opponent: str,
    view: dict[str, Any],
    budget: int,
    algorithm: Any,
    frames: int,
    seed: Any,
    progress: bool | None,
    settings: dict[str, Any],
    asked: Mapping[str, Any] | None = None,
) -> Trained:
    check_count("budget", budget)
    check_count("frames", frames)
    if progress is not None:
        check_flag("progress", progress)
    # 32 bits are what Stable-Baselines3 takes; the games and the network are seeded by the same.
    number = int(_seed_sequence(seed).generate_state(1)[0])
    cls = _algorithm(algorithm)
    recurrent = "Recurrent" in cls.__name__
    judging = JUDGING if seat == "judge" and cls.__name__ in ("PPO", "RecurrentPPO") else {}
    known = {"gamma": HORIZONS[seat], **SETTINGS.get(cls.__name__, {}), **judging, **settings}
    for name in settings:
        check_name(f"setting of {cls.__name__}", name, tuple(inspect.signature(cls).parameters))
    began = time.perf_counter()
    with states_as_found("train"):
        envs = training_games(games)
        shown = (
            envs if frames == 1 else library("stable_baselines3.common.vec_env", "train").VecFrameStack(envs, frames)
        )
        try:
            # A copy, since Stable-Baselines3 writes into the dictionaries that it is handed.
            model = cls(
                "MlpLstmPolicy" if recurrent else "MlpPolicy", shown, seed=number, device="cpu", **copy.deepcopy(known)
            )
        except (AssertionError, TypeError, ValueError) as error:
            raise ArgumentError(f"algorithm: {cls.__name__} cannot act in the {seat}'s chair so: {error}") from error
        with tqdm(
            total=budget,
            unit="round",
            unit_scale=True,
            desc=f"training a {seat}",
            delay=0.0 if progress else 2.0,
            disable=None if progress is None else not progress,
            leave=False,
        ) as bar:

            def tick(local: dict[str, Any], outer: dict[str, Any]) -> bool:
                bar.update(min(model.num_timesteps, budget) - bar.n)
                return True

            model.learn(budget, callback=tick)
        # Spaces have generators of their own; the policy keeps no other trace of the games.
        model.env = None
    return Trained(
        seat=seat,
        model=model,
        game=size,
        opponent=opponent,
        view=view,
        settings={**(asked or {}), "budget": budget, "frames": frames, "num_envs": games.num_envs, **known},
        seed=number,
        rounds=int(model.num_timesteps),
        returns=np.array(envs.returns, dtype=np.float64),
        seconds=time.perf_counter() - began,
        versions=_versions(),
    )


def _algorithm(algorithm: Any) -> Any:
    base = library("stable_baselines3.common.base_class", "algorithm").BaseAlgorithm
    if isinstance(algorithm, type) and issubclass(algorithm, base):
        return algorithm
    if not isinstance(algorithm, str):
        raise ArgumentError(f"algorithm: expected one of {', '.join(ALGORITHMS)} or a class but found {algorithm!r}")
    name = check_name("algorithm", algorithm, ALGORITHMS)
    ours = library("stable_baselines3", "algorithm")
    return getattr(ours, name) if hasattr(ours, name) else getattr(library("sb3_contrib", "algorithm"), name)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
