"""The other chairs as environments: emit the losses against a fixed learner, judge its privacy, or seat both sides.

An :class:`~dp_experts_env.Adversary` is the learner's chair. Here are the adversary's, :class:`AdversaryEnv`, with id
``dp_experts/Adversary-v0``, and the judge's, :class:`JudgeEnv`, with id ``dp_experts/Judge-v0``: ``gymnasium.make``
builds a single game and ``gymnasium.make_vec`` a :class:`ChairVectorEnv`. :func:`parallel_env` has the learner and the
adversary as two agents of PettingZoo. :class:`Lead` gives the learner's chair a view that learning is easier from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from dp_experts_env.chairs.adversary import AdversaryEnv, AdversaryView
from dp_experts_env.chairs.chair import Chair
from dp_experts_env.chairs.judge import JudgeEnv, JudgeView
from dp_experts_env.chairs.lead import Lead, VectorLead
from dp_experts_env.chairs.losses import LOSS_SETS, loss_vectors
from dp_experts_env.chairs.multi import parallel_env
from dp_experts_env.chairs.vector import ChairVectorEnv
from dp_experts_env.registry import constructor_keywords
from dp_experts_env.spec import ArgumentError, check_name

__all__ = [
    "LOSS_SETS",
    "AdversaryEnv",
    "AdversaryView",
    "Chair",
    "ChairVectorEnv",
    "JudgeEnv",
    "JudgeView",
    "Lead",
    "VectorLead",
    "loss_vectors",
    "make_chair",
    "make_vector_chair",
    "parallel_env",
]

CHAIRS: dict[str, type[Chair]] = {"adversary": AdversaryEnv, "judge": JudgeEnv}
"""The chairs by name."""


def make_chair(chair: str, **parameters: Any) -> Chair:
    """Build a chair for ``gymnasium.make``.

    Args:
        chair: "adversary" or "judge".
        **parameters: its constructor keywords.

    Raises:
        ArgumentError: if an array is handed in, which an environment spec cannot hold.
        UnknownNameError: if a keyword is unknown; the nearest are suggested.
    """
    cls = CHAIRS[check_name("chair", chair, CHAIRS)]
    for keyword, value in parameters.items():
        check_name(f"keyword of chair {chair!r}", keyword, constructor_keywords(cls))
        for inner in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(inner, np.ndarray):
                raise ArgumentError(
                    f"{keyword}: expected names or plain numbers but found an array {inner.shape}, which a Gymnasium "
                    "spec cannot store; build the class directly"
                )
    return cls(**parameters)


def make_vector_chair(
    chair: str,
    num_envs: int = 1,
    max_episode_steps: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **parameters: Any,
) -> ChairVectorEnv:
    """Build the native vector environment for ``gymnasium.make_vec``; see :class:`ChairVectorEnv`."""
    return ChairVectorEnv(make_chair(chair, **parameters), num_envs, max_episode_steps, autoreset_mode)
