"""The privacy game of two worlds: pairs of loss sequences, the game as an environment, and many games at once.

A hidden bit b is drawn. In each round the adversary commits a pair of loss vectors and the learner names an expert,
both from the past alone; the learner receives side b, the adversary sees the choice. The two sides differ in at most
one round, which the adversary may choose adaptively. The learner is (epsilon, delta)-private if what the adversary
sees under b = 0 and under b = 1 is (epsilon, delta)-close. [TEXT: the definition of the small-loss paper.]

:class:`Pair` is what an author writes, :class:`PrivacyGame` the learner's chair, and :func:`run_privacy_game` plays
both worlds many times and returns what was seen. Nothing here judges.
"""

from dp_experts_env.privacy.game.environment import PrivacyGame
from dp_experts_env.privacy.game.pair import (
    LoopedPair,
    Pair,
    make_pair,
    pair_class,
    pairs,
    register_pair,
)
from dp_experts_env.privacy.game.pair import _pairs as _pairs
from dp_experts_env.privacy.game.pair import _seated as _seated
from dp_experts_env.privacy.game.worlds import (
    GAMES_PER_CHUNK,
    VIEWS,
    Plain,
    Score,
    Watcher,
    covered,
    plain,
    refusal,
    run_privacy_game,
)

__all__ = [
    "GAMES_PER_CHUNK",
    "VIEWS",
    "LoopedPair",
    "Pair",
    "Plain",
    "PrivacyGame",
    "Score",
    "Watcher",
    "covered",
    "make_pair",
    "pair_class",
    "pairs",
    "plain",
    "refusal",
    "register_pair",
    "run_privacy_game",
]
