"""Hypothesis classes over an instance space, and the sigma-smooth distributions on it.

Classes predict, cover themselves, bracket themselves and find their best hypothesis on a sample. Smooth laws are
checked, sampled and coupled; ``project`` finds the nearest smooth distribution; ``least_chi`` and ``largest_sigma`` say
how smooth a data set looks to a class of queries.
"""

from dp_experts_env.hypotheses.boxes import Boxes, Intervals, Thresholds
from dp_experts_env.hypotheses.classes import Brackets, FiniteClass, HypothesisClass
from dp_experts_env.hypotheses.halfspaces import Halfspaces, PolynomialThresholds, Polytopes
from dp_experts_env.hypotheses.laws import (
    Coupling,
    SmoothDensity,
    SmoothLaw,
    candidates_for,
    check_smooth,
    coverage,
)
from dp_experts_env.hypotheses.projection import Smoothness, largest_sigma, least_chi, project

__all__ = [
    "Boxes",
    "Brackets",
    "Coupling",
    "FiniteClass",
    "Halfspaces",
    "HypothesisClass",
    "Intervals",
    "PolynomialThresholds",
    "Polytopes",
    "SmoothDensity",
    "SmoothLaw",
    "Smoothness",
    "Thresholds",
    "candidates_for",
    "check_smooth",
    "coverage",
    "largest_sigma",
    "least_chi",
    "project",
]
