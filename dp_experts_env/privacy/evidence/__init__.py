"""From the outcomes of two worlds to a confidence lower bound on epsilon; knows no game and no learner.

If a mechanism is (epsilon, delta)-private, every event E of its outcomes and both orders of the worlds satisfy
P0(E) <= exp(epsilon) P1(E) + delta. So an event fixed beforehand and counted in both worlds bounds epsilon from below:
:func:`lower_bound`. Which event is counted decides the power alone: :func:`judge` lets the first half of the games
choose it and counts it in the second half, so that however it was chosen the bound holds.
"""

from .bounds import clopper_pearson, epsilon_limit, lower_bound
from .choice import Event, Evidence, choose_event, count_event, judge, trade_off
from .outcomes import Outcomes
from .scores import Classifier, Histogram, LikelihoodRatio, Markov, Score, Statistic, statistics

__all__ = [
    "Classifier",
    "Event",
    "Evidence",
    "Histogram",
    "LikelihoodRatio",
    "Markov",
    "Outcomes",
    "Score",
    "Statistic",
    "choose_event",
    "clopper_pearson",
    "count_event",
    "epsilon_limit",
    "judge",
    "lower_bound",
    "statistics",
    "trade_off",
]
