"""Intervals on epsilon from counts of correct and wrong guesses (Zanella-Béguelin et al. 2022).

>>> counts = ConfusionCounts(
...     false_negatives=35, true_positives=65, false_positives=25, true_negatives=75
... )
>>> result = intervals(counts, delta=0.05, confidence=0.95)
>>> round(result.bayes.lower, 3), round(result.bayes.upper, 3)
(0.522, 1.267)
"""

from fl_audit.estimators.counts.confusion_counts import ConfusionCounts
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
