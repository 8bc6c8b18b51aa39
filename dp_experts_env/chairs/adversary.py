"""The adversary's chair: you commit the losses, a fixed learner names the experts, and you gain its regret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dp_experts_env.adversary import charged
from dp_experts_env.chairs.chair import Chair, check_indices
from dp_experts_env.chairs.losses import lead, loss_vectors, one_hot
from dp_experts_env.learner import Learner
from dp_experts_env.spec import ArgumentError, FloatArray, GameSpec, LossError, check_count, check_losses


class AdversaryView:
    """What an adversary has seen of a game, as numbers in [0, 1].

    Args:
        spec: the game, or a batch of games.

    Attributes:
        total: the experts' losses so far, ``(N,)`` or ``(G, N)``.
        round: number of rounds seen.
    """

    def __init__(self, spec: GameSpec) -> None:
        if not isinstance(spec, GameSpec):
            raise ArgumentError(f"spec: expected a GameSpec but found {spec!r}")
        self.spec = spec
        self.round = 0
        self.total: FloatArray = np.zeros((*spec.shape, spec.num_experts))
        self._counts: FloatArray = np.zeros_like(self.total)
        self._last: FloatArray = np.zeros_like(self.total)

    @staticmethod
    def space(num_experts: int) -> gym.spaces.Box:
        """Return the observation space, ``Box(0, 1, (3 N + 1,), float32)``."""
        return gym.spaces.Box(0.0, 1.0, (3 * check_count("num_experts", num_experts) + 1,), np.float32)

    def add(self, losses: FloatArray, choices: Any) -> None:
        """See one round.

        Args:
            losses: shape ``(N,)``, or ``(G, N)``, or ``(N,)`` where all games share them.
            choices: an expert id, or ``(G,)``.
        """
        self.round += 1
        self.total = self.total + losses
        self._last = one_hot(choices, self.spec.num_experts)
        self._counts = self._counts + self._last

    def observation(self) -> NDArray[np.float32]:
        """Return what :class:`AdversaryEnv` shows, ``(3 N + 1,)`` or ``(G, 3 N + 1)``, a fresh array."""
        shares = self._counts / max(1, self.round)
        time = np.full((*self.spec.shape, 1), self.round / self.spec.horizon)
        return np.concatenate([self._last, lead(self.total), shares, time], axis=-1, dtype=np.float32)


class AdversaryEnv(Chair):
    """The adversary's chair against a fixed learner.

    ## Description
    Prediction with expert advice from the other side. Each round you commit the losses of all experts while the learner
    names an expert, both from the past alone; then the learner sees your losses and you see its choice.

    ## Action Space
    ``Discrete(M)``: which of the M vectors of :attr:`loss_vectors` to charge, by default (``losses="one_hot"``) which
    expert alone loses 1. These N vectors suffice to force a regret of at least T(1 - 1/N) on every deterministic
    learner, by charging whom it is about to name. With ``losses="box"`` it is ``Box(0, 1, (N,), float32)``, the losses
    themselves; Stable-Baselines3's checker then advises [-1, 1].

    ## Observation Space
    ``Box(0, 1, (3 N + 1,), float32)``: the last choice as a one-hot vector (zeros before the first), min(1, L - min L)
    of the experts' losses L so far, the share of the past rounds in which each expert was named, and t/T.

    ## Rewards
    The loss of the expert named minus what this round adds to the loss of the best expert, a Python float in [-1, 1].
    Over a game they add up to the learner's regret.

    ## Starting State
    Nothing played; observation all zeros.

    ## Episode End
    The horizon ends the game with ``terminated=True``.

    ## Information
    The same keys at every reset and step, fresh arrays, computed in float64: ``losses`` ``(N,)`` just committed,
    ``choice`` (-1 before the first), ``regret``, ``best_loss``, ``learner_loss`` (floats), ``round`` (rounds played).
    Non-private diagnostics.

    ## Arguments
    Args:
        learner: the learner, by its registered name or as an instance, which is copied.
        learner_parameters: its constructor keywords, if it is named.
        losses: "box", or one or several of :data:`~dp_experts_env.chairs.LOSS_SETS`; see
            :func:`~dp_experts_env.chairs.loss_vectors`.
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1.
        num_games: ``None``, or a number of games G >= 1; see :class:`~dp_experts_env.chairs.Chair`.
        render_mode: ``None`` or "ansi", one line of text.

    Raises:
        ArgumentError: if an argument lies outside its range.
        UnknownNameError: if no learner, or no set of loss vectors, of that name is known.

    Attributes:
        loss_vectors: the loss vectors to pick from, ``(M, N)``; ``None`` for a box.

    ## Version History
    v0: first version.
    """

    loss_vectors: FloatArray | None
    _seen: AdversaryView

    def __init__(
        self,
        learner: str | Learner = "follow_the_leader",
        learner_parameters: Mapping[str, Any] | None = None,
        losses: str | Iterable[str] = "one_hot",
        num_experts: int = 4,
        horizon: int = 100,
        num_games: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(learner, learner_parameters, num_experts, horizon, num_games, render_mode)
        self.loss_vectors, self.action_space = loss_actions(losses, self.num_experts)
        self.observation_space = AdversaryView.space(self.num_experts)

    def _start(self, rng: np.random.Generator) -> None:
        self._seen = AdversaryView(self.game)
        self._losses: FloatArray = np.zeros((*self.game.shape, self.num_experts))
        self._choices: NDArray[np.int64] = np.full(self.game.shape, -1)
        self._learner_loss: FloatArray = np.zeros(self.game.shape)

    def _read(self, action: Any, shape: tuple[int, ...], round: int, source: str) -> NDArray[Any]:
        return read_losses(action, self.loss_vectors, GameSpec(self.num_experts, self.horizon, *shape), round, source)

    def _play(self, actions: NDArray[Any]) -> FloatArray:
        assert self._player is not None
        self._losses = actions
        # The learner acts before it is told the losses, and you have committed them before it acts.
        self._choices = np.array(self._player.act())
        self._player.observe(actions)
        best = self._seen.total.min(-1)
        self._seen.add(actions, self._choices)
        charges = charged(actions, self._choices)
        self._learner_loss = self._learner_loss + charges
        return np.asarray(charges - (self._seen.total.min(-1) - best))

    def _view(self) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        best = self._seen.total.min(-1)
        return self._seen.observation(), {
            "losses": self._losses.copy(),
            "choice": self._choices.copy(),
            "regret": np.array(self._learner_loss - best),
            "best_loss": np.array(best),
            "learner_loss": np.array(self._learner_loss),
            "round": np.full(self.game.shape, self.round),
        }

    def _line(self, game: tuple[int, ...]) -> str:
        mine, best = self._learner_loss[game], self._seen.total.min(-1)[game]
        return f"round {self.round}/{self.horizon}  learner {mine:g}  best {best:g}  regret {mine - best:g}"


def loss_actions(losses: str | Iterable[str], num_experts: int) -> tuple[FloatArray | None, gym.spaces.Space[Any]]:
    """Return the loss vectors to pick from, ``None`` for "box", and the action space."""
    if isinstance(losses, str) and losses == "box":
        return None, gym.spaces.Box(0.0, 1.0, (num_experts,), np.float32)
    vectors = loss_vectors(losses, num_experts)
    return vectors, gym.spaces.Discrete(len(vectors))


def read_losses(
    action: Any, vectors: FloatArray | None, spec: GameSpec, round: int, source: str = "action"
) -> FloatArray:
    """Return the losses that an action means, a fresh array ``(N,)`` or ``(G, N)``.

    Args:
        action: numbers of vectors, an integer or ``(G,)``; the losses themselves, ``(N,)`` or ``(G, N)``, where
            ``vectors`` is ``None``.
        vectors: the loss vectors to pick from, ``(M, N)``, or ``None``.
        spec: the game.
        round: number of the round, from 1, for the message.
        source: what is being checked, for the message.

    Raises:
        ArgumentError: if the action is none of the action space.
    """
    if vectors is not None:
        return np.array(vectors[check_indices(action, len(vectors), spec.shape, round, source)])
    losses = check_losses(action, spec, round, source=source)
    expected = (*spec.shape, spec.num_experts)
    if losses.shape != expected:
        raise LossError(f"{source} of round {round}: expected shape {expected} but found {losses.shape}")
    return losses.copy()
