"""Trained policies in the three chairs: a learner, an adversary, and a pair of the privacy game.

What a policy is shown is what the chair's environment shows; what it does is drawn from the player's own
``numpy.random.Generator``, so that a seed repeats a game whatever torch's global state is. One forward pass a round
serves all games of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dp_experts_env.adversary import Adversary
from dp_experts_env.chairs.adversary import AdversaryEnv, AdversaryView, read_losses
from dp_experts_env.chairs.judge import JudgeEnv, JudgeView
from dp_experts_env.chairs.losses import lead as behind_leader
from dp_experts_env.learner import Learner
from dp_experts_env.privacy.game import Pair
from dp_experts_env.rl.policy import Law, Policy
from dp_experts_env.spec import Adjacency, FloatArray, GameSpec, Guarantee, check_flag


class PolicyLearner(Learner):
    """A trained policy in the learner's chair. It samples from its law.

    Its observation is that of :class:`~dp_experts_env.Adversary`, the last losses and t/T, or with ``lead`` that of
    :class:`~dp_experts_env.chairs.Lead`; stacked, if the policy was trained so. Given the losses its choices are
    independent, so the joint law of coins and choice is its law over the experts, and ``outcomes`` has it: audits use
    exact likelihood ratios, and :func:`~dp_experts_env.exact_privacy` computes what it loses in a small game.

    It claims no privacy and no regret bound. A training run bounds neither: nothing limits how much the law of a
    network may change with one round's losses, and a policy that did well against the opponents it met may be beaten
    by others.

    Args:
        policy: the trained Stable-Baselines3 algorithm, or its :class:`Policy`.
        lead: whether it was trained behind :class:`~dp_experts_env.chairs.Lead`.
        deterministic: whether to name the likeliest expert instead of drawing one; ties go to the lowest index.

    Raises:
        ArgumentError: if an argument is of the wrong type, or, in :meth:`reset`, the policy was trained for another
            number of experts or another chair.
        MissingExtraError: without Stable-Baselines3.
    """

    def __init__(self, policy: Any, lead: bool = False, deterministic: bool = False) -> None:
        self.policy = _policy_of(self, policy)
        self.lead = check_flag("lead", lead)
        # The class cannot know; who foresees deterministic learners asks the instance.
        self.deterministic = check_flag("deterministic", deterministic)  # type: ignore[misc]

    def start(self) -> None:
        """Show the policy an empty game."""
        size = self.spec.num_experts
        rows = self.spec.num_games or 1
        seen = gym.spaces.Box(0.0, 1.0, (size + 1,), np.float32)
        self._memory = self.policy.begin(rows, seen, gym.spaces.Discrete(size))
        self._shown: FloatArray = np.zeros(size)
        self._law: FloatArray | None = None

    def probabilities(self) -> FloatArray:
        """Return the policy's law over the experts."""
        if self._law is None:
            rows = np.empty((self.spec.num_games or 1, self.spec.num_experts + 1), dtype=np.float32)
            rows[:, :-1] = behind_leader(self._shown) if self.lead else self._shown
            rows[:, -1] = self.round / self.spec.horizon
            law = self.policy.law(self._memory, rows)
            found = self._certain(law) if self.deterministic else law.probabilities[0]
            self._law = found if self.spec.shape else found[0]
        return self._law.copy()

    def outcomes(self) -> FloatArray:
        """Return the logarithms of that law."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities())

    def act(self) -> Any:
        """Draw an expert from the law."""
        rows = self.probabilities().reshape(-1, self.spec.num_experts)
        law = Law((rows,))
        chosen = (law.mode() if self.deterministic else law.draw(self.rng))[:, 0]
        return chosen if self.spec.shape else chosen[0]

    def take(self, outcome: Any) -> Any:
        """Name expert ``outcome``."""
        # The law is asked all the same: a recurrent policy moves on.
        self.probabilities()
        return outcome

    def observe(self, losses: FloatArray) -> None:
        """Show the policy the losses."""
        self._shown = self._shown + losses if self.lead else losses.copy()
        self._law = None

    def guarantee(self, spec: GameSpec) -> Guarantee | None:
        """Return ``None``: nothing limits how much the law of a network changes with one round's losses."""
        return None

    def _certain(self, law: Law) -> FloatArray:
        return np.asarray(law.mode() == np.arange(self.spec.num_experts), dtype=np.float64)


class PolicyAdversary(Adversary):
    """A trained policy that commits the losses. It samples from its law.

    ## Description
    Each round the policy is shown what :class:`~dp_experts_env.AdversaryEnv` shows of the rounds before and picks one
    of the loss vectors that it was trained with, or names the losses. It is adaptive.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.Adversary`.

    ## Arguments
    Args:
        policy: the trained Stable-Baselines3 algorithm, or its :class:`Policy`.
        losses: what it was trained to charge; see :class:`~dp_experts_env.AdversaryEnv`.
        deterministic: whether to take the likeliest action instead of drawing one.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range, or the policy was trained for another number of experts,
            other losses or another chair.
        MissingExtraError: without Stable-Baselines3.

    ## Version History
    v0: first version.
    """

    def __init__(
        self, policy: Any, losses: str | Iterable[str] = "one_hot", deterministic: bool = False, **game: Any
    ) -> None:
        super().__init__(**game)
        self.policy = _policy_of(self, policy)
        self.losses = losses
        self.deterministic = check_flag("deterministic", deterministic)
        self._chair = AdversaryEnv(Learner(), losses=losses, num_experts=self.num_experts, horizon=self.horizon)
        self.policy.begin(1, self._chair.observation_space, self._chair.action_space)

    def start(self) -> None:
        """Show the policy an empty game."""
        self._view_of = AdversaryView(self.game)
        spaces = self._chair.observation_space, self._chair.action_space
        self._memory = self.policy.begin(self.game.num_games or 1, *spaces)

    def emit(self) -> FloatArray:
        """Commit what the policy picks; see :meth:`Adversary.emit`."""
        picked = _picked(self, self._view_of.observation())
        vectors = self._chair.loss_vectors
        action = picked if vectors is None else picked[..., 0]
        self._committed = read_losses(action, vectors, self.game, self.round + 1)
        return self._committed

    def see(self, choices: Any) -> None:
        """Show the policy the round; see :meth:`Adversary.see`."""
        self._view_of.add(self._committed, choices)


class PolicyJudge(Pair):
    """A trained policy that commits both sides of the privacy game, for :func:`~dp_experts_env.audit`.

    ## Description
    In rounds 1..T - 1 the policy is shown what :class:`~dp_experts_env.JudgeEnv` shows, and its action is read as it is
    there: two numbers of loss vectors, the first difference being the challenge, after which side 1 copies side 0. In
    round T nobody is charged, since its losses reach nobody. The guess is not used: an audit counts events itself, in
    fresh games, so that what a judge learned in training counts for nothing but its choice of losses.

    ## Action Space, Observation Space, Rewards, Starting State, Episode End, Information
    Those of :class:`~dp_experts_env.PrivacyGame`.

    ## Arguments
    Args:
        policy: the trained Stable-Baselines3 algorithm, or its :class:`Policy`.
        losses: the loss vectors it was trained with; see :class:`~dp_experts_env.JudgeEnv`.
        deterministic: whether to take the likeliest action instead of drawing one.
        **game: ``num_experts``, ``horizon``, ``num_games``, ``adjacency``, ``render_mode``.

    Raises:
        ArgumentError: if an argument lies outside its range, or the policy was trained for another number of experts,
            other losses or another chair.
        MissingExtraError: without Stable-Baselines3.

    ## Version History
    v0: first version.
    """

    def __init__(
        self,
        policy: Any,
        losses: str | Iterable[str] = ("zeros", "one_hot", "all_but_one"),
        deterministic: bool = False,
        num_experts: int = 4,
        horizon: int = 20,
        num_games: int | None = None,
        adjacency: str | Adjacency = "replace",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(num_experts, horizon, num_games, adjacency, render_mode)
        self.policy = _policy_of(self, policy)
        self.losses = losses
        self.deterministic = check_flag("deterministic", deterministic)
        self._chair = JudgeEnv(Learner(), losses=losses, adjacency=adjacency, num_experts=num_experts, horizon=horizon)
        self.policy.begin(1, self._chair.observation_space, self._chair.action_space)

    def start(self) -> None:
        """Show the policy an empty game."""
        self._view_of = JudgeView(self.game)
        spaces = self._chair.observation_space, self._chair.action_space
        self._memory = self.policy.begin(self.game.num_games or 1, *spaces)

    def emit(self) -> FloatArray:
        """Commit both sides; see :meth:`Pair.emit`."""
        if self.round == self.horizon - 1:
            self._committed = np.stack([self.zeros(self.num_experts)] * 2)
        else:
            picked = _picked(self, self._view_of.observation())
            self._committed = self._chair.sides(picked, self._view_of.challenge)
        return self._committed

    def see(self, choices: Any) -> None:
        """Show the policy the round; see :meth:`Adversary.see`."""
        self._view_of.add(self._committed, choices)


def _policy_of(player: Any, policy: Any) -> Policy:
    found = policy if isinstance(policy, Policy) else Policy(policy)
    # What is remembered prints the same in every run, pickles, and does not learn on.
    player._given["policy"] = found
    return found


def _picked(player: PolicyAdversary | PolicyJudge, observation: NDArray[np.float32]) -> NDArray[Any]:
    rows = observation.reshape(-1, observation.shape[-1])
    law = player.policy.law(player._memory, rows)
    picked = law.mode() if player.deterministic else law.draw(player.np_random)
    return picked if player.game.shape else picked[0]
