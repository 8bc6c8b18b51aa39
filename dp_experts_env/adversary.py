"""The adversary's side of the game: the base class of every opponent, which is a Gymnasium environment.

An adversary implements :meth:`Adversary.emit` and, if it is adaptive, :meth:`Adversary.see`. The base class makes
it an environment in the learner's chair: ``step(expert)`` plays one round and returns the losses just revealed.
:class:`AdversaryVectorEnv` seats many learners at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from dp_experts_env.spec import (
    ArgumentError,
    ChoiceError,
    FloatArray,
    GameSpec,
    IntArray,
    LossError,
    Parameters,
    ProtocolError,
    UnknownNameError,
    check_block,
    check_choices,
    check_count,
    check_losses,
    check_name,
)
from dp_experts_env.vector import Cohort, CohortVectorEnv, Infos

Method = TypeVar("Method", bound=Callable[..., Any])


class _RenderModeError(UnknownNameError, TypeError):
    """Raised when a render mode is not supported.

    A TypeError too: Stable-Baselines3 asks for "rgb_array" first and without a render mode only after a TypeError.
    """


class Score:
    """Losses accumulated in a game: each expert's, and the learner's. A non-private diagnostic.

    Args:
        spec: the game. The experts' totals are kept once while all games share the losses.
    """

    def __init__(self, spec: GameSpec) -> None:
        self.expert_losses: FloatArray = np.zeros(spec.num_experts)
        self._learner_loss: FloatArray = np.zeros(spec.shape)

    def add(self, losses: FloatArray, choices: Any) -> None:
        """Add one round: losses ``(N,)`` or ``(G, N)``, choices as from a learner."""
        self.expert_losses = self.expert_losses + losses
        self._learner_loss = self._learner_loss + charged(losses, choices)

    def add_block(self, block: FloatArray, charges: FloatArray) -> None:
        """Add R rounds: losses ``(R, N)`` or ``(R, G, N)``, the learner's charges ``(R,)`` or ``(R, G)``."""
        self.expert_losses = self.expert_losses + block.sum(0)
        self._learner_loss = self._learner_loss + charges.sum(0)

    @property
    def learner_loss(self) -> FloatArray:
        """The learner's total loss, shape ``()`` or ``(G,)``."""
        return self._learner_loss

    @property
    def best_loss(self) -> FloatArray:
        """Total loss of the best fixed expert, shape ``()`` or ``(G,)``."""
        least: FloatArray = np.asarray(self.expert_losses.min(-1))
        return least if least.shape == self._learner_loss.shape else np.broadcast_to(least, self._learner_loss.shape)

    @property
    def regret(self) -> FloatArray:
        """The learner's total loss minus the best fixed expert's, never clipped."""
        return self._learner_loss - self.best_loss


def charged(losses: FloatArray, choices: Any) -> FloatArray:
    """Return the losses of the chosen experts.

    Args:
        losses: shape ``(..., N)``, or ``(R, N)`` where the games of a block share them.
        choices: expert ids of shape ``(...)`` (or ``(G,)`` against ``(N,)``, ``(R, G)`` against ``(R, N)``).

    Returns:
        Shape of ``choices``.
    """
    index = np.asarray(choices)
    if losses.ndim == 1:
        return np.asarray(losses[index])
    if index.ndim < losses.ndim:
        index = index[..., None]
        return np.take_along_axis(losses, index, -1)[..., 0]
    return np.take_along_axis(losses, index, -1)


class Adversary(Parameters, gym.Env[FloatArray, np.int64]):
    """An opponent that commits each round's loss vector before it sees the learner's choice.

    Subclasses override :meth:`emit`, usually :meth:`start`, and :meth:`see` if what they emit depends on the
    learner's choices. One implementation serves a single game and a batch: index arrays with ``...``, and build
    state with :meth:`zeros` and :meth:`one_hot`.

    ## Description
    Prediction with expert advice. Each round the adversary commits a loss vector in [0, 1]^N from the past alone,
    the learner names an expert, and the whole vector is revealed.

    ## Action Space
    ``Discrete(N)``: the expert named, 0..N-1.

    ## Observation Space
    ``Box(0, 1, (N + 1,), float32)``: the losses of the last round (zeros before the first), then the fraction t/T
    of the horizon that has been played.

    ## Rewards
    Minus the loss of the expert named, a Python float in [-1, 0].

    ## Starting State
    Nothing played; observation all zeros.

    ## Episode End
    The horizon ends the game with ``terminated=True``.

    ## Information
    The same keys at every reset and step, fresh arrays, computed in float64: ``losses`` ``(N,)``, ``regret``,
    ``best_loss``, ``learner_loss`` (floats), ``round`` (rounds played). Non-private diagnostics.

    ## Arguments
    Args:
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1.
        num_games: ``None``, or a number of games G >= 1 that :meth:`emit` serves at once. ``step`` needs ``None``;
            the vector environment, ``play`` and the privacy game set it.
        render_mode: ``None`` or "ansi", one line of text.

    Raises:
        ArgumentError: if an argument lies outside its range.

    Attributes:
        batched: set to ``False`` on a class that can only play one game; a batch then loops over copies of it.
        stochastic: set to ``True`` on a class whose loss vectors are independent and identically distributed.
        game: the :class:`~dp_experts_env.spec.GameSpec`.
        examples: keywords of further small instances that the conformance suite checks besides the defaults.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own declaration)
    batched: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    examples: ClassVar[tuple[dict[str, Any], ...]] = ()

    game: GameSpec

    _sides = 1
    _emitted = 0
    _started = False
    _unseen = False
    _inside = False
    _score: Score | None = None

    def __init__(
        self,
        num_experts: int = 10,
        horizon: int = 1000,
        num_games: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.game = GameSpec(num_experts, horizon, num_games)
        if render_mode is not None:
            try:
                check_name("render_mode", render_mode, self.metadata["render_modes"])
            except UnknownNameError as error:
                raise _RenderModeError(str(error)) from None
        self.render_mode = render_mode
        size = self.game.num_experts
        self.action_space: gym.spaces.Space[Any] = gym.spaces.Discrete(size)
        self.observation_space: gym.spaces.Space[Any] = gym.spaces.Box(0.0, 1.0, (size + 1,), np.float32)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, guard in _GUARDS.items():
            if name in cls.__dict__:
                setattr(cls, name, guard(cls.__dict__[name]))

    # -- what an author writes ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Hook called at the beginning of each game with ``self.np_random`` set: build the initial state."""

    def emit(self) -> FloatArray:
        """Commit this round's losses from earlier rounds alone.

        Returns:
            Shape ``(N,)``; in a batch ``(G, N)``, or ``(N,)`` where all games share the losses of an oblivious
            sequence. Numbers in [0, 1].

        Raises:
            LossError: wrong shape, NaN or out of range.
            ProtocolError: before :meth:`reset`, past the horizon, or before :meth:`see` ended an adaptive round.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement emit()")

    def see(self, choices: Any) -> None:
        """See the learner's choices of the round just played; overriding this makes the adversary adaptive.

        Args:
            choices: an expert id; in a batch an integer array of shape ``(G,)``.
        """

    def emit_block(self, rounds: int) -> FloatArray:
        """Commit the losses of several rounds at once; oblivious adversaries only.

        An override must emit the same losses as a loop over :meth:`emit`, bit for bit.

        Args:
            rounds: number R >= 1 of rounds.

        Returns:
            Shape ``(R, N)``, or ``(R, G, N)`` in a batch.

        Raises:
            ProtocolError: if the adversary is adaptive, before :meth:`reset`, or past the horizon.
        """
        return np.stack([self.emit() for _ in range(rounds)])

    # -- what is proved ----------------------------------------------------------------------------------------

    def regret_floor(self, spec: GameSpec, epsilon: float, delta: float = 0.0) -> float:
        """Return what the expected regret of every (epsilon, delta)-private learner is at least; NaN if nothing.

        Args:
            spec: the size of the game.
            epsilon: what the learner claims, >= 0; ``math.inf`` for a learner that claims nothing.
            delta: what it claims besides, in [0, 1).
        """
        return math.nan

    # -- what an author uses -----------------------------------------------------------------------------------

    @property
    def num_experts(self) -> int:
        """Number of experts N."""
        return self.game.num_experts

    @property
    def horizon(self) -> int:
        """Number of rounds T."""
        return self.game.horizon

    @property
    def round(self) -> int:
        """Number of rounds emitted in the current game, 0..T."""
        return self._emitted

    @property
    def oblivious(self) -> bool:
        """Whether the losses cannot depend on the learner's choices: :meth:`see` is not overridden."""
        return type(self).see is Adversary.see

    @property
    def kind(self) -> str:
        """The adversary model it belongs to: "stochastic", "oblivious" or "adaptive"."""
        return ("stochastic" if self.stochastic else "oblivious") if self.oblivious else "adaptive"

    def zeros(self, *shape: int) -> FloatArray:
        """Return float64 zeros of this shape behind the games axis."""
        return np.zeros((*self.game.shape, *shape))

    def one_hot(self, experts: Any) -> FloatArray:
        """Return float64 vectors ``(..., N)`` with a one at each expert id of ``experts`` ``(...)``."""
        return np.asarray(np.asarray(experts)[..., None] == np.arange(self.num_experts), dtype=np.float64)

    # -- the learner's chair -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game. With ``seed`` the game is a function of it; without, randomness goes on.

        Returns:
            The observation and the information; see the class.
        """
        super().reset(seed=seed)
        self._emitted = 0
        self._unseen = self._inside = False
        self._started = True
        self._score = Score(self.game)
        self.start()
        return self._view(np.zeros(self.num_experts))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one round with the learner naming expert ``action``.

        Returns:
            Observation, reward, terminated, truncated and information; see the class.

        Raises:
            ChoiceError: if ``action`` is no expert id.
            ProtocolError: before :meth:`reset`, or after the horizon.
        """
        if self.game.num_games is not None:
            raise ProtocolError(
                f"{type(self).__name__}.step: plays one game but found num_games={self.game.num_games}; "
                "use gymnasium.make_vec or play for a batch"
            )
        if self._score is None:
            raise ProtocolError(f"{type(self).__name__}.step: expected reset() first")
        choice = check_choices(action, self.game, self.round + 1, source="action")
        losses = self.emit()
        self.see(choice)
        self._score.add(losses, choice)
        observation, info = self._view(losses)
        return observation, -float(losses[choice]), self.round >= self.horizon, False, info

    def render(self) -> str | None:
        """Return one line of text on the game so far in render mode "ansi", else ``None``."""
        if self.render_mode != "ansi" or self._score is None:
            return None
        return (
            f"round {self.round}/{self.horizon}  learner {float(np.mean(self._score.learner_loss)):g}  "
            f"best {float(np.mean(self._score.best_loss)):g}  regret {float(np.mean(self._score.regret)):g}"
        )

    def _view(self, losses: FloatArray) -> tuple[Any, dict[str, Any]]:
        assert self._score is not None
        observation = np.empty(self.num_experts + 1, dtype=np.float32)
        observation[:-1] = losses
        observation[-1] = self.round / self.horizon
        learner_loss, best_loss = self._score.learner_loss, self._score.best_loss
        if learner_loss.ndim:
            learner_loss, best_loss = learner_loss.mean(), best_loss.mean()
        return observation, {
            "losses": np.array(losses),
            "regret": float(learner_loss) - float(best_loss),
            "best_loss": float(best_loss),
            "learner_loss": float(learner_loss),
            "round": self.round,
        }

    # -- order of the calls ------------------------------------------------------------------------------------

    def _require_turn(self, call: str, rounds: int = 1) -> None:
        name = f"{type(self).__name__}.{call}"
        if not self._started:
            raise ProtocolError(f"{name}: expected reset() first")
        if self._unseen and not self.oblivious:
            raise ProtocolError(f"{name}: expected see() to end round {self._emitted} first")
        if self._emitted + rounds > self.horizon:
            raise ProtocolError(
                f"{name}: {rounds} round(s) asked after {self._emitted} of horizon {self.horizon} were played; "
                "call reset() for a new game"
            )

    def _checked(self, raw: Any) -> FloatArray:
        """Check what emit() returned, before the round counts as emitted."""
        losses = check_losses(raw, self.game, self._emitted + 1, source=f"{type(self).__name__}.emit")
        self._require_own_losses(losses.ndim, 2)
        return losses

    def _require_own_losses(self, ndim: int, expected: int) -> None:
        # A single-game author's vector must never be read as shared by all games.
        if self.game.num_games is not None and ndim < expected and not self.oblivious:
            sides = (self._sides,) if self._sides > 1 else ()
            raise LossError(
                f"{type(self).__name__}.emit of round {self._emitted + 1}: an adaptive adversary must emit shape "
                f"{(*sides, self.game.num_games, self.num_experts)} in a batch but found {(*sides, self.num_experts)}; "
                "write it with a leading games axis, or set batched = False on the class"
            )


def _guard_emit(method: Method) -> Method:
    @functools.wraps(method)
    def emit(self: Adversary) -> FloatArray:
        if self._inside:
            inner: FloatArray = method(self)
            return inner
        self._require_turn("emit")
        self._inside = True
        try:
            raw = method(self)
        finally:
            self._inside = False
        losses = self._checked(raw)
        self._emitted += 1
        self._unseen = True
        # A copy, since an author may return the array that holds the state.
        return losses.copy()

    return emit  # type: ignore[return-value]


def _guard_see(method: Method) -> Method:
    @functools.wraps(method)
    def see(self: Adversary, choices: Any) -> None:
        if self._inside:
            method(self, choices)
            return
        if not self._unseen:
            raise ProtocolError(f"{type(self).__name__}.see: expected emit() first in round {self._emitted + 1}")
        choices = check_choices(choices, self.game, self._emitted)
        if self.game.num_games is not None:
            # A copy, since an author may keep the array.
            choices = choices.copy()
        self._inside = True
        try:
            method(self, choices)
        finally:
            self._inside = False
        self._unseen = False

    return see  # type: ignore[return-value]


def _guard_emit_block(method: Method) -> Method:
    @functools.wraps(method)
    def emit_block(self: Adversary, rounds: int) -> FloatArray:
        if not self.oblivious:
            raise ProtocolError(
                f"{type(self).__name__}.emit_block: an adaptive adversary commits one round at a time; use emit()"
            )
        rounds = check_count("rounds", rounds)
        self._require_turn("emit_block", rounds)
        first = self._emitted
        raw = method(self, rounds)
        block = check_block(raw, self.game, first + 1, source=f"{type(self).__name__}.emit_block")
        if len(block) != rounds:
            raise LossError(f"{type(self).__name__}.emit_block: expected {rounds} rounds but found {len(block)}")
        self._emitted = first + rounds
        self._unseen = True
        return block

    return emit_block  # type: ignore[return-value]


_GUARDS: dict[str, Callable[[Any], Any]] = {"emit": _guard_emit, "see": _guard_see, "emit_block": _guard_emit_block}
for _name, _guard in _GUARDS.items():
    setattr(Adversary, _name, _guard(Adversary.__dict__[_name]))


class LoopedAdversary(Adversary):
    """A batch of games played by single-game copies of one adversary, each with its own child stream.

    Args:
        adversary: the adversary to copy; its own ``num_games`` is ignored.
        num_games: number of games G >= 1, or ``None``.
    """

    def __init__(self, adversary: Adversary, num_games: int | None = None) -> None:
        super().__init__(adversary.num_experts, adversary.horizon, num_games)
        self.adversary = adversary

    @property
    def oblivious(self) -> bool:
        """Whether the copies are."""
        return self.adversary.oblivious

    @property
    def kind(self) -> str:
        """The adversary model of the copies."""
        return self.adversary.kind

    def start(self) -> None:
        """Build one copy a game."""
        self._games = [self.adversary.clone(num_games=None) for _ in range(self.game.num_games or 1)]
        # A single copy takes the stream itself, so that a batch of one equals the single game.
        streams = self.np_random.spawn(len(self._games)) if len(self._games) > 1 else [self.np_random]
        for game, stream in zip(self._games, streams, strict=True):
            game.np_random = stream
            game.reset()

    def emit(self) -> FloatArray:
        """Ask every copy."""
        emitted = [game.emit() for game in self._games]
        # The games axis comes before that of the experts, and after that of a pair's sides.
        return np.stack(emitted, axis=-2) if self.game.shape else emitted[0]

    def see(self, choices: Any) -> None:
        """Show every copy its choice."""
        for game, choice in zip(self._games, np.reshape(choices, (-1,)), strict=True):
            game.see(choice)


def seated(adversary: Adversary, num_games: int | None) -> Adversary:
    """Return a fresh copy of ``adversary`` for a batch of this size, looping over single games where it must."""
    if adversary._sides != 1:
        raise ArgumentError(
            f"adversary: expected one that emits a loss vector a round but found the pair {adversary!r}; "
            "run_privacy_game and audit play it, PrivacyGame is its environment"
        )
    if num_games is not None and not adversary.batched:
        return LoopedAdversary(adversary, num_games)
    return adversary.clone(num_games=num_games)


@dataclass(eq=False)
class _Cohort(Cohort):
    """Games of one adversary, and their score."""

    score: Score = field(kw_only=True)


class AdversaryVectorEnv(CohortVectorEnv):
    """Many learners seated at once in front of one kind of adversary: the native vector environment.

    All games that began together are played in lockstep as one batch; ``reset`` with a list of seeds, or of some
    games only, splits them. One integer seeds the whole batch; with a list, game k equals the single environment
    reset with seed k of the list. Without a seed randomness goes on: that of each batch, or of each game reset from a
    list. Spaces, rewards and information are those of :class:`Adversary`, with
    Gymnasium's ``_key`` masks.

    Args:
        adversary: the adversary; its own ``num_games`` is ignored.
        num_envs: number of games G >= 1.
        max_episode_steps: rounds after which an outer time limit truncates a game, as Gymnasium's ``TimeLimit`` does
            (a horizon reached in the same round terminates it as well); ``None`` for no limit.
        autoreset_mode: Gymnasium's ``AutoresetMode`` or its value: next step (default), same step or disabled.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        adversary: Adversary,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        if not isinstance(adversary, Adversary):
            raise ArgumentError(f"adversary: expected an Adversary but found {adversary!r}")
        super().__init__(adversary, num_envs, max_episode_steps, autoreset_mode)
        self.adversary = adversary

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one round of every game, or begin anew those that have ended, as the autoreset mode says.

        Args:
            actions: expert ids, integer array ``(G,)``.

        Returns:
            Observations ``(G, N + 1)``, rewards, terminated and truncated ``(G,)``, and information.

        Raises:
            ChoiceError: if an action is no expert id.
            ProtocolError: before :meth:`reset`, or for a finished game with autoreset disabled.
        """
        if not self._cohorts:
            raise ProtocolError("step: expected reset() first")
        game = GameSpec(self.adversary.num_experts, self.adversary.horizon, self.num_envs)
        round = self._cohorts[0].player.round + 1
        try:
            actions = np.asarray(actions)
        except ValueError:
            raise ChoiceError(f"actions: expected an integer array ({self.num_envs},) but found {actions!r}") from None
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and actions.shape == (self.num_envs,):
            # The action of a game that only begins anew in this step is ignored, whatever it is.
            ignored = np.zeros(self.num_envs, dtype=bool)
            for cohort in self._cohorts:
                ignored[cohort.rows] = cohort.over
            if ignored.any():
                actions = actions.copy()
                actions[ignored] = 0
        actions = check_choices(actions, game, round, source="actions")
        if self.autoreset_mode is AutoresetMode.DISABLED:
            finished = [int(row) for cohort in self._cohorts if cohort.over for row in cohort.rows]
            if finished:
                raise ProtocolError(
                    f"step: game(s) {finished[:8]} have ended and autoreset is disabled; "
                    "reset them with options={'reset_mask': mask}"
                )
        observations = np.zeros_like(self._last)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros(self.num_envs, dtype=bool), np.zeros(self.num_envs, dtype=bool)
        infos = Infos(self.num_envs)
        for cohort in self._cohorts:
            if cohort.over:
                self._restart(cohort)
                self._fill(observations, infos, cohort, np.zeros(self.adversary.num_experts))
                continue
            choices = np.zeros(cohort.player.game.shape, dtype=np.int64)
            choices[cohort.seats] = actions[cohort.rows]
            losses = cohort.player.emit()
            cohort.player.see(choices)
            cohort.score.add(losses, choices)
            rewards[cohort.rows] = -charged(losses, choices)[cohort.seats]
            terminated[cohort.rows] = ended = cohort.player.round >= cohort.player.horizon
            truncated[cohort.rows] = cut = self._limit is not None and cohort.player.round >= self._limit
            cohort.over = ended or cut
            if cohort.over and self.autoreset_mode is AutoresetMode.SAME_STEP:
                final = Infos(self.num_envs)
                self._fill(observations, final, cohort, losses)
                infos.final(cohort.rows, observations, final)
                self._restart(cohort)
                losses = np.zeros(self.adversary.num_experts)
            self._fill(observations, infos, cohort, losses)
        self._last = observations
        return observations.copy(), rewards, terminated, truncated, infos.arrays

    def render(self) -> tuple[str, ...] | None:
        """Return one line of text a game in render mode "ansi", else ``None``."""
        if self.render_mode != "ansi" or not self._cohorts:
            return None
        lines = [""] * self.num_envs
        for cohort in self._cohorts:
            for row, seat in zip(cohort.rows, cohort.seats, strict=True):
                lines[row] = (
                    f"round {cohort.player.round}/{cohort.player.horizon}  "
                    f"learner {cohort.score.learner_loss[seat]:g}  best {cohort.score.best_loss[seat]:g}  "
                    f"regret {cohort.score.regret[seat]:g}"
                )
        return tuple(lines)

    def _begin(self, rows: IntArray, stream: np.random.Generator) -> _Cohort:
        adversary = seated(self.adversary, len(rows))
        adversary.np_random = stream
        adversary.reset()
        return _Cohort(adversary, rows, np.arange(len(rows)), score=Score(adversary.game))

    def _show(self, observations: Any, infos: Infos, cohort: Any) -> None:
        self._fill(observations, infos, cohort, np.zeros(self.adversary.num_experts))

    def _restart(self, cohort: _Cohort) -> None:
        cohort.player.reset()
        cohort.score = Score(cohort.player.game)
        cohort.over = False

    def _fill(self, observations: Any, infos: Infos, cohort: _Cohort, losses: FloatArray) -> None:
        rows, seats = cohort.rows, cohort.seats
        own = losses if losses.ndim == 1 else losses[seats]
        observations[rows, :-1] = own
        observations[rows, -1] = cohort.player.round / cohort.player.horizon
        infos.put("losses", rows, own, (self.num_envs, self.adversary.num_experts), np.float64)
        infos.put("regret", rows, cohort.score.regret[seats], (self.num_envs,), np.float64)
        infos.put("best_loss", rows, cohort.score.best_loss[seats], (self.num_envs,), np.float64)
        infos.put("learner_loss", rows, cohort.score.learner_loss[seats], (self.num_envs,), np.float64)
        infos.put("round", rows, cohort.player.round, (self.num_envs,), np.int64)
