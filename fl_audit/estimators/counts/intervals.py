"""Three two-sided intervals on epsilon from the counts of a membership attack.

Zanella-Béguelin et al. (2022), sections 2.5 to 3.2: the two rates' Clopper-Pearson or Jeffreys
intervals, and the posterior of epsilon itself. `intervals` gives all three.
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.counts.confusion_counts import ConfusionCounts, Interval
from fl_audit.estimators.counts.posterior import EpsilonPosterior
from fl_audit.estimators.privacy_region import LogRates, beyond_chance
from fl_audit.estimators.scores import check_confidence, check_delta
from fl_audit.estimators.threshold.error_rates import (
    RateUpperBounds,
    clopper_pearson_upper,
    jeffreys_upper,
)
from fl_audit.json_records import fields_to_json


@dataclass(frozen=True)
class CountsIntervals:
    """Intervals on epsilon at one confidence.

    Attributes:
      clopper_pearson: Confidence interval from exact Clopper-Pearson intervals for the rates: it
        covers the epsilon of the attack's rates with at least the stated confidence.
      jeffreys: Confidence interval from Jeffreys intervals for the rates, of approximate coverage.
      bayes: Equal-tailed credible interval under Jeffreys priors, with the stated confidence as its
        posterior probability; it is not a confidence interval.
    """

    clopper_pearson: Interval
    jeffreys: Interval
    bayes: Interval

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit counts --json` prints; infinities as "inf"."""
        return fields_to_json(self)


def intervals(counts: ConfusionCounts, delta: float, confidence: float) -> CountsIntervals:
    """All three intervals on epsilon, as in the example of section 3.2.

    They bound the epsilon of this attack's error rates. The lower ends bound the epsilon of
    training too, the upper ends do not: a stronger attack may reveal more (section 2.5).

    Args:
      counts: Counts of the attack's correct and wrong guesses.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of each interval, in (0, 1).

    Raises:
      InputError: delta or confidence is out of range.

    >>> result = intervals(ConfusionCounts(35, 65, 25, 75), delta=0.05, confidence=0.95)
    >>> round(result.jeffreys.lower, 3), round(result.jeffreys.upper, 3)
    (0.321, 1.456)
    """
    return CountsIntervals(
        clopper_pearson=interval_of_rates(counts, delta, confidence, clopper_pearson_upper),
        jeffreys=interval_of_rates(counts, delta, confidence, jeffreys_upper),
        bayes=EpsilonPosterior(counts, delta).interval(confidence),
    )


def interval_of_rates(
    counts: ConfusionCounts, delta: float, confidence: float, upper_bound: RateUpperBounds
) -> Interval:
    """The smallest and the largest epsilon over a rectangle of error rates (section 2.5).

    Each rate gets a two-sided interval at 1 - alpha / 2, so that by the union bound both hold at
    confidence 1 - alpha; - and + mark its ends. Over their rectangle, `epsilon_of_rates` is
    max(0, g(x, y), g(1 - x, 1 - y)) with g of equation 1, which decreases in x and in y. So

    - the largest epsilon is at a corner: g is largest at (FNR-, FPR-), the mirrored g at
      (FNR+, FPR+);
    - the smallest is max(0, g(FNR+, FPR+), g(1 - FNR-, 1 - FPR-)). Epsilon is nowhere less,
      because both terms are smallest at these corners. It is attained: at most one term is
      positive, the first if the whole rectangle has x + y < 1 - delta, the second if it has
      x + y > 1 + delta. Any other rectangle intersects the band |x + y - 1| <= delta, where
      epsilon is 0.

    Footnote 1 warns that for (TP, FP, TN, FN) = (90, 0, 100, 10), delta = 1e-5 and 90 %
    Clopper-Pearson intervals of the rates the minimum is 1.736, at (FNR+, 0), and not the 3.124
    at (FNR+, FPR+). But 3.124 is right: at FPR = 0 the term log((1 - delta - FNR) / FPR) is
    infinite, and no finite epsilon allows these rates (section 2.4). The footnote drops that term
    and keeps log((1 - delta - 0) / FNR+) = 1.736.

    A lower bound on a rate is one minus the `upper_bound` on its complement.
    """
    check_delta(delta)
    check_confidence(confidence)

    def upper(errors: int, trials: int) -> LogRates:
        return upper_bound(np.array([errors]), trials, 1 - (1 - confidence) / 4)

    fnr = upper(counts.false_negatives, counts.members)
    fpr = upper(counts.false_positives, counts.non_members)
    tpr = upper(counts.true_positives, counts.members)
    tnr = upper(counts.true_negatives, counts.non_members)
    corners = (fnr, fpr), (tpr, tnr), (tpr.opposite, tnr.opposite), (fnr.opposite, fpr.opposite)
    beyond = [float(beyond_chance(x, y, delta)[0]) for x, y in corners]
    return Interval(lower=max(0.0, *beyond[:2]), upper=max(0.0, *beyond[2:]))
