"""Both chairs of one game at once: a PettingZoo parallel environment with the learner and the adversary as agents.

PettingZoo is the extra ``multi`` and is imported when the environment is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dp_experts_env.chairs.adversary import AdversaryView, loss_actions, read_losses
from dp_experts_env.spec import ArgumentError, GameSpec, MissingExtraError, ProtocolError, check_choices, check_name

if TYPE_CHECKING:
    ParallelGame: Any

LEARNER, ADVERSARY = "learner_0", "adversary_0"
AGENTS = (LEARNER, ADVERSARY)
"""The two agents, named as PettingZoo recommends."""


class _Game:
    """What a parallel game is, whatever its base class."""

    def __init__(
        self,
        num_experts: int = 4,
        horizon: int = 100,
        losses: str | Iterable[str] = "one_hot",
        render_mode: str | None = None,
    ) -> None:
        self.metadata = {"name": "dp_experts_v0", "render_modes": ["ansi"], "is_parallelizable": True}
        self.game = GameSpec(num_experts, horizon)
        if render_mode is not None:
            check_name("render_mode", render_mode, ("ansi",))
        self.render_mode = render_mode
        size = self.game.num_experts
        self.loss_vectors, loss_space = loss_actions(losses, size)
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.action_spaces: dict[str, gym.spaces.Space[Any]] = {LEARNER: gym.spaces.Discrete(size)}
        self.action_spaces[ADVERSARY] = loss_space
        self.observation_spaces = {
            LEARNER: gym.spaces.Box(0.0, 1.0, (size + 1,), np.float32),
            ADVERSARY: AdversaryView.space(size),
        }
        self._seen = AdversaryView(self.game)
        self._losses: NDArray[np.float64] = np.zeros(size)
        self._learner_loss = 0.0

    def observation_space(self, agent: str) -> gym.spaces.Space[Any]:
        """Return the observation space of an agent."""
        return self.observation_spaces[check_name("agent", agent, AGENTS)]

    def action_space(self, agent: str) -> gym.spaces.Space[Any]:
        """Return the action space of an agent."""
        return self.action_spaces[check_name("agent", agent, AGENTS)]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin a new game. The game has no randomness of its own: ``seed`` changes nothing.

        Returns:
            The observations and the information, by agent.
        """
        self.agents = list(AGENTS)
        self._seen = AdversaryView(self.game)
        self._losses = np.zeros(self.game.num_experts)
        self._learner_loss = 0.0
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one round: the learner's expert and the adversary's losses at once.

        Returns:
            Observations, rewards, terminated, truncated and information, by agent.

        Raises:
            ArgumentError: if an agent is missing or its action is none of its space; the game is as before the call.
            ProtocolError: before :meth:`reset`, or after the horizon.
        """
        if not self.agents:
            raise ProtocolError("ParallelGame.step: expected reset() first")
        if not isinstance(actions, dict) or set(actions) != set(AGENTS):
            raise ArgumentError(f"actions: expected one for each of {', '.join(AGENTS)} but found {actions!r}")
        number = self._seen.round + 1
        choice = check_choices(actions[LEARNER], self.game, number, source="action of the learner")
        losses = read_losses(actions[ADVERSARY], self.loss_vectors, self.game, number, source="action of the adversary")
        best = float(self._seen.total.min())
        self._losses = losses
        self._seen.add(losses, choice)
        charge = float(losses[choice])
        self._learner_loss += charge
        ended = self._seen.round >= self.game.horizon
        if ended:
            self.agents = []
        rewards = {LEARNER: -charge, ADVERSARY: charge - (float(self._seen.total.min()) - best)}
        return (
            self._observations(),
            rewards,
            dict.fromkeys(AGENTS, ended),
            dict.fromkeys(AGENTS, False),
            self._infos(),
        )

    def render(self) -> str | None:
        """Return one line of text on the game so far in render mode "ansi", else ``None``."""
        if self.render_mode != "ansi":
            return None
        best = float(self._seen.total.min())
        return (
            f"round {self._seen.round}/{self.game.horizon}  learner {self._learner_loss:g}  best {best:g}  "
            f"regret {self._learner_loss - best:g}"
        )

    def close(self) -> None:
        """Close nothing: there is nothing open."""

    def state(self) -> NDArray[np.float32]:
        """Return what both agents see, shape ``(4 N + 2,)``: the learner's observation, then the adversary's."""
        return np.concatenate(list(self._observations().values()))

    def _observations(self) -> dict[str, Any]:
        time = self._seen.round / self.game.horizon
        return {
            LEARNER: np.append(self._losses, time).astype(np.float32),
            ADVERSARY: self._seen.observation(),
        }

    def _infos(self) -> dict[str, dict[str, Any]]:
        best = float(self._seen.total.min())
        return {
            agent: {
                "losses": self._losses.copy(),
                "regret": self._learner_loss - best,
                "best_loss": best,
                "learner_loss": self._learner_loss,
                "round": self._seen.round,
            }
            for agent in AGENTS
        }


def parallel_env(
    num_experts: int = 4,
    horizon: int = 100,
    losses: str | Iterable[str] = "one_hot",
    render_mode: str | None = None,
) -> Any:
    """Return one game with both chairs open, a ``pettingzoo.ParallelEnv``; ``parallel_to_aec`` makes it a turn game.

    The agents are "learner_0" and "adversary_0", and act at once. The learner's spaces are those of
    :class:`~dp_experts_env.Adversary`: it names an expert and sees the last losses and t/T; its reward is minus the
    loss of the expert named. The adversary's are those of :class:`~dp_experts_env.chairs.AdversaryEnv`; its reward is
    that loss minus what the round adds to the loss of the best expert, so that its return is the learner's regret. The
    two rewards do not add up to zero: they differ by the best expert's loss. The information, the same for both and at
    every step, has ``losses``, ``regret``, ``best_loss``, ``learner_loss`` and ``round``. The horizon terminates both.

    Args:
        num_experts: number of experts N, an integer >= 1.
        horizon: number of rounds T, an integer >= 1.
        losses: what the adversary may charge; see :class:`~dp_experts_env.chairs.AdversaryEnv`.
        render_mode: ``None`` or "ansi", one line of text.

    Raises:
        ArgumentError: if an argument lies outside its range.
        MissingExtraError: without PettingZoo, the extra ``multi``.
    """
    return _parallel_game()(num_experts, horizon, losses, render_mode)


def _parallel_game() -> Any:
    """Return the class, made when it is first asked for: its base class belongs to an extra."""
    if "ParallelGame" not in globals():
        try:
            base = importlib.import_module("pettingzoo").ParallelEnv
        except ImportError as error:
            raise MissingExtraError(
                "parallel_env: needs PettingZoo; install it with pip install 'dp-experts-env[multi]'"
            ) from error
        names = {"__module__": __name__, "__qualname__": "ParallelGame", "__doc__": parallel_env.__doc__}
        globals()["ParallelGame"] = type("ParallelGame", (_Game, base), names)
    return globals()["ParallelGame"]


def __getattr__(name: str) -> Any:
    # Pickle looks for the class here.
    if name == "ParallelGame":
        return _parallel_game()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
