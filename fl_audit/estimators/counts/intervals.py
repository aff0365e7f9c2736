"""Two-sided intervals on epsilon from counts, in three ways.

Zanella-Béguelin et al. (2022), sections 2.5 to 3.2: the two rates' Clopper-Pearson intervals, their
Jeffreys intervals, and the posterior of epsilon itself.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import IntArray
from fl_audit.estimators.arguments import check_confidence, check_delta
from fl_audit.estimators.counts.confusion import ConfusionCounts, Interval
from fl_audit.estimators.counts.posterior import EpsilonPosterior
from fl_audit.estimators.privacy_region import beyond_chance
from fl_audit.estimators.threshold.error_rates import (
    LogRates,
    clopper_pearson_upper,
    jeffreys_upper,
)
from fl_audit.json_records import to_json

UpperBound = Callable[[IntArray, int, float], LogRates]
"""Function that gives one-sided upper bounds on error rates from errors, trials and confidence."""


@dataclass(frozen=True)
class CountsIntervals:
    """Intervals on epsilon at one confidence.

    Attributes:
      clopper_pearson: Confidence interval by Clopper-Pearson intervals for the rates, which are
        exact: it covers epsilon of the attack's rates at least as often as it says.
      jeffreys: Confidence interval by Jeffreys intervals for the rates, which covers about as
        often.
      bayes: Equal-tailed credible interval under Jeffreys priors, which holds that posterior
        probability; it is not a confidence interval.
    """

    clopper_pearson: Interval
    jeffreys: Interval
    bayes: Interval

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit counts --json` prints; infinities as "inf"."""
        return {
            "clopper_pearson": _json(self.clopper_pearson),
            "jeffreys": _json(self.jeffreys),
            "bayes": _json(self.bayes),
        }


def intervals(counts: ConfusionCounts, delta: float, confidence: float) -> CountsIntervals:
    """All three intervals on epsilon, as in the example of section 3.2.

    They bound the epsilon of this attack's error rates. The lower ends bound epsilon of the
    training too, the upper ends do not: a stronger attack may reveal more (section 2.5).

    Args:
      counts: Counts of the attack's right and wrong guesses.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of each interval, in (0, 1).

    Raises:
      InputError: If delta or confidence is out of range.

    >>> found = intervals(ConfusionCounts(35, 65, 25, 75), delta=0.05, confidence=0.95)
    >>> round(found.jeffreys.lower, 3), round(found.jeffreys.upper, 3)
    (0.321, 1.456)
    """
    return CountsIntervals(
        clopper_pearson=interval_of_rates(counts, delta, confidence, clopper_pearson_upper),
        jeffreys=interval_of_rates(counts, delta, confidence, jeffreys_upper),
        bayes=EpsilonPosterior(counts, delta).interval(confidence),
    )


def interval_of_rates(
    counts: ConfusionCounts, delta: float, confidence: float, upper_bound: UpperBound
) -> Interval:
    """The smallest and the largest epsilon over a rectangle of error rates (section 2.5).

    Each rate gets a two-sided interval at 1 - alpha / 2, so that by the union bound both hold at
    confidence 1 - alpha. Over their rectangle, epsilon (see `epsilon_of_rates`) is max(0, g(x, y),
    g(1 - x, 1 - y)) with g = equation 1, which decreases in x and in y. So

    - the largest epsilon is at a corner: g is largest at (FNR-, FPR-), the mirrored g at
      (FNR+, FPR+);
    - the smallest is max(0, g(FNR+, FPR+), g(1 - FNR-, 1 - FPR-)): nowhere less, as both are
      smallest there; and reached, since at most one is positive, the first where the whole
      rectangle is on the side x + y < 1 - delta and the second where it is on the other, while a
      rectangle that is on neither meets the band |x + y - 1| <= delta, where epsilon is 0.

    Footnote 1 warns that for (TP, FP, TN, FN) = (90, 0, 100, 10), delta = 1e-5 and 90 %
    Clopper-Pearson intervals of the rates the minimum is 1.736, at (FNR+, 0), and not the 3.124
    at (FNR+, FPR+). It is 3.124: at FPR = 0 the term log((1 - delta - FNR) / FPR) is infinite, and
    no finite epsilon allows these rates (section 2.4). The footnote drops that term and keeps
    log((1 - delta - 0) / FNR+) = 1.736.

    Args:
      counts: Counts of the attack's right and wrong guesses.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the interval, 1 - alpha, in (0, 1).
      upper_bound: Upper bound on a rate, such as `jeffreys_upper`; a lower one is by its
        complement.

    Raises:
      InputError: If delta or confidence is out of range.
    """
    check_delta(delta)
    check_confidence(confidence)

    def upper(errors: int, trials: int) -> LogRates:
        return upper_bound(np.array([errors]), trials, 1 - (1 - confidence) / 4)

    fnr = upper(counts.false_negatives, counts.members)
    fpr = upper(counts.false_positives, counts.non_members)
    tpr = upper(counts.true_positives, counts.members)
    tnr = upper(counts.true_negatives, counts.non_members)
    return Interval(
        lower=max(0.0, _beyond_chance(fnr, fpr, delta), _beyond_chance(tpr, tnr, delta)),
        upper=max(
            0.0,
            _beyond_chance(_opposite(tpr), _opposite(tnr), delta),
            _beyond_chance(_opposite(fnr), _opposite(fpr), delta),
        ),
    )


def _beyond_chance(x: LogRates, y: LogRates, delta: float) -> float:
    return float(beyond_chance(x.error, x.success, y.error, y.success, delta)[0])


def _opposite(rates: LogRates) -> LogRates:
    """An upper bound on a rate, as a lower bound on its complement."""
    return LogRates(error=rates.success, success=rates.error)


def _json(interval: Interval) -> list[object]:
    return [to_json(interval.lower), to_json(interval.upper)]
