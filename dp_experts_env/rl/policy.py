"""What a trained policy does in a game: from observations of a batch of games to the law of the next action."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dp_experts_env.privacy.mechanisms import sample_inverse_cdf
from dp_experts_env.rl.extra import library, states_as_found
from dp_experts_env.spec import ArgumentError, FloatArray


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the next action, one row a game.

    Attributes:
        probabilities: of the values of each component of a discrete action, ``(rows, K)`` each; empty for a box.
        mean: of an action in a box, ``(rows, D)``, else ``None``.
        deviation: its standard deviations, ``(rows, D)``, else ``None``.
    """

    probabilities: tuple[FloatArray, ...] = ()
    mean: FloatArray | None = None
    deviation: FloatArray | None = None

    def draw(self, rng: np.random.Generator) -> NDArray[Any]:
        """Return actions drawn with one number each: integers ``(rows, C)``, or losses ``(rows, D)`` in [0, 1].

        A normal law is clipped to the box, as Stable-Baselines3 does.
        """
        if self.mean is not None and self.deviation is not None:
            return np.clip(self.mean + self.deviation * rng.standard_normal(self.mean.shape), 0.0, 1.0)
        uniforms = rng.random((len(self.probabilities[0]), len(self.probabilities)))
        drawn = [sample_inverse_cdf(law, uniforms[:, place]) for place, law in enumerate(self.probabilities)]
        return np.stack(drawn, axis=-1)

    def mode(self) -> NDArray[Any]:
        """Return the likeliest actions, of the shapes of :meth:`draw`; ties go to the lowest number."""
        if self.mean is not None:
            return np.clip(self.mean, 0.0, 1.0)
        return np.stack([law.argmax(-1) for law in self.probabilities], axis=-1)


class Memory:
    """What a policy remembers of a batch of games: the last observations, and the state of its recurrent layers."""

    def __init__(self, rows: int, width: int, frames: int) -> None:
        self.stack: NDArray[np.float32] = np.zeros((rows, frames * width), dtype=np.float32)
        self.width = width
        self.hidden: Any = None


class Policy:
    """A trained policy of Stable-Baselines3 or sb3-contrib, apart from its training. It never changes.

    Policies with a law over actions (A2C, PPO, TRPO, RecurrentPPO and their kin) have it. Those with values of actions
    (DQN, QR-DQN) name the best action with probability 1 - r and with probability r one uniformly, in each game for
    itself, where r is the exploration rate that training ended with: the law of DQN's own exploration.

    A stack of frames is recognised by the width of the observation space. If the model still has its environment and
    that is wrapped in ``VecNormalize``, its statistics are kept as they are; a model from a file has lost them.

    Args:
        model: the trained algorithm.

    Raises:
        ArgumentError: if it is no algorithm of Stable-Baselines3, or its policy is of another kind.
        MissingExtraError: without Stable-Baselines3.

    Attributes:
        algorithm: name of the algorithm's class.
        digest: hexadecimal digits that differ for policies with other weights.
        observation_space: of the model, frames stacked.
        action_space: of the model.
    """

    def __init__(self, model: Any) -> None:
        base = library("stable_baselines3.common.base_class", "Policy").BaseAlgorithm
        if not isinstance(model, base):
            raise ArgumentError(
                f"policy: expected a trained Stable-Baselines3 algorithm or a Policy but found {model!r}"
            )
        module = model.policy
        if (
            getattr(module, "squash_output", False)
            or getattr(module, "use_sde", False)
            or not (hasattr(module, "get_distribution") or hasattr(module, "q_net") or hasattr(module, "quantile_net"))
        ):
            raise ArgumentError(
                "policy: expected one with a law over actions (A2C, PPO, RecurrentPPO; neither squashed nor gSDE) or "
                f"with values of actions (DQN, QRDQN) but found a {type(model).__name__}"
            )
        with states_as_found("Policy"):
            self._module = _copied(module).to("cpu")
            self._module.optimizer = None
            self._module.set_training_mode(False)
            hashed = hashlib.sha256()
            for name, weights in self._module.state_dict().items():
                hashed.update(name.encode())
                hashed.update(weights.cpu().numpy().tobytes())
        self.algorithm = type(model).__name__
        self.observation_space = model.observation_space
        self.action_space = model.action_space
        self._exploration = 0.0 if hasattr(module, "get_distribution") else float(model.exploration_rate)
        normal = model.get_vec_normalize_env()
        self._normal: tuple[FloatArray, FloatArray, float] | None = None
        if normal is not None and normal.norm_obs:
            scale = np.sqrt(normal.obs_rms.var + normal.epsilon)
            self._normal = (normal.obs_rms.mean.copy(), scale, float(normal.clip_obs))
            for part in self._normal[:2]:
                hashed.update(part.tobytes())
        hashed.update(np.float64(self._exploration).tobytes())
        self.digest = hashed.hexdigest()

    def __repr__(self) -> str:
        return f"<{self.algorithm} {self.digest[:12]}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Policy:
        return self

    def begin(self, rows: int, observation: gym.Space[Any], action: gym.Space[Any]) -> Memory:
        """Return an empty memory for a batch of games.

        Args:
            rows: number of games.
            observation: of the chair, a single frame.
            action: of the chair.

        Raises:
            ArgumentError: if the policy was trained for another chair or another number of experts.
        """
        (width,), (stacked,) = observation.shape or (0,), self.observation_space.shape
        if self.action_space != action or stacked % width:
            raise ArgumentError(
                f"policy: expected one that maps observations of width {width} (or a stack of them) to {action} but "
                f"{self!r} was trained to map {stacked} numbers to {self.action_space}"
            )
        return Memory(rows, width, stacked // width)

    def law(self, memory: Memory, observations: NDArray[np.float32]) -> Law:
        """Return the law of the next action, and remember the observations. Nothing is drawn.

        Args:
            memory: from :meth:`begin`; it is changed.
            observations: of a single frame, ``(rows, width)``.
        """
        with states_as_found("Policy") as torch, torch.no_grad():
            rows = torch.as_tensor(self._seen(memory, observations))
            if not hasattr(self._module, "get_distribution"):
                best = self._module._predict(rows, deterministic=True).numpy()
                size = int(self.action_space.n)
                greedy = (1.0 - self._exploration) * (best[:, None] == np.arange(size))
                return Law((greedy + self._exploration / size,))
            if hasattr(self._module, "lstm_actor"):
                found, memory.hidden = self._recurrent(torch, rows, memory)
            else:
                found = self._module.get_distribution(rows)
            found = found.distribution
            if isinstance(found, torch.distributions.Normal):
                return Law((), found.mean.double().numpy(), found.stddev.double().numpy())
            parts = found if isinstance(found, list) else [found]
            laws = [np.asarray(part.probs.double().numpy()) for part in parts]
            return Law(tuple(law / law.sum(-1, keepdims=True) for law in laws))

    def _recurrent(self, torch: Any, rows: Any, memory: Memory) -> Any:
        first = memory.hidden is None
        if first:
            layers, _, size = self._module.lstm_hidden_state_shape
            memory.hidden = (torch.zeros(layers, len(rows), size), torch.zeros(layers, len(rows), size))
        return self._module.get_distribution(rows, memory.hidden, torch.full((len(rows),), float(first)))

    def _seen(self, memory: Memory, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        # Statistics of single frames were kept below the stack, those of stacks above it.
        below = self._normal is not None and self._normal[0].shape == (memory.width,)
        frame = self._normalized(observations) if below else observations
        # A new array, since torch shares the memory of the last one.
        memory.stack = np.concatenate([memory.stack[:, memory.width :], frame], axis=-1, dtype=np.float32)
        return memory.stack if below else self._normalized(memory.stack)

    def _normalized(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._normal is None:
            return rows
        mean, scale, limit = self._normal
        return np.clip((rows - mean) / scale, -limit, limit).astype(np.float32)


def _copied(module: Any) -> Any:
    """Return a copy of a policy's module."""
    law = getattr(module, "action_dist", None)
    last = getattr(law, "distribution", None)
    if law is None:
        return copy.deepcopy(module)
    # The law that it drew from last hangs on the graph of its weights, which torch refuses to copy.
    law.distribution = None
    try:
        return copy.deepcopy(module)
    finally:
        law.distribution = last
