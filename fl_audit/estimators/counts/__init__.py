"""Intervals on epsilon from counts of right and wrong guesses (Zanella-Béguelin et al. 2022)."""

from fl_audit.estimators.counts.confusion import ConfusionCounts
from fl_audit.estimators.counts.intervals import CountsIntervals, intervals
from fl_audit.estimators.counts.posterior import EpsilonPosterior
from fl_audit.estimators.privacy_region import epsilon_of_rates

__all__ = [
    "ConfusionCounts",
    "CountsIntervals",
    "EpsilonPosterior",
    "epsilon_of_rates",
    "intervals",
]
