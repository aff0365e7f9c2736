"""A lower bound that stays valid although the threshold is chosen on the data.

Every confidence statement is exact and holds for all thresholds at once: a band on the true
positive rates where the null law is known (band.py), and tests that average over the unknown rates
at ranks of excluded scores where it is not (rank_tests.py).
"""

import math

from fl_audit.estimators.gaussian.best_threshold import Guess
from fl_audit.estimators.laws import NullTail
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.null_choice import ChosenNull, chosen_null
from fl_audit.estimators.threshold.proven_threshold import strongest_threshold
from fl_audit.estimators.threshold.rank_tests import largest_rate
from fl_audit.estimators.threshold.uniform import (
    RejectedThreshold,
    bounded_thresholds,
    strongest_rejection,
)

_SHARED = (
    "Canaries' scores are independent given inclusion, with one law for included canaries and "
    "one for excluded ones"
)


def threshold_valid(setting: AuditSetting) -> Estimate:
    """The largest epsilon that any threshold proves, valid after that choice.

    Closed-form null: max over t of max(log((1 - delta - FNR) / FPR), log((1 - delta - FPR) / FNR))
    at included scores t, where "score >= t" means included. FPR is at most what is known of the
    null allows (laws/null_tail.py): for gaussian canaries the exact law, for those of random signs
    a bound, the tighter the more is known of the vector that they are compared with. FNR is bounded
    for all thresholds at once by a band with probability `confidence` (see band.py).

    Empirical null: the largest epsilon that is rejected at any of some excluded scores t, where a
    score above t means included. An (epsilon, delta)-private mechanism allows at most

        TPR <= min(e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR))

    (Kairouz et al. 2015), and the test at each rank of the excluded scores is exact in the unknown
    FPR too (see rank_tests.py). Both hold whatever the laws, and with ties.

    The excluded scores test a known null first; where they refute it, the empirical null is used
    (see null_choice.py). The detail `local_level` is the probability with which the statement at
    this one threshold may fail.

    Raises:
      NotApplicableError: If there are no included scores, or fewer than 2 excluded scores where the
        null is empirical or refuted.
    """
    setting.require(included=1)
    null = chosen_null(setting)
    return _by_ranks(setting, null) if null.tail is None else _by_band(setting, null, null.tail)


def _by_band(setting: AuditSetting, null: ChosenNull, tail: NullTail) -> Estimate:
    """The bound from a band on the true positive rates and a known tail of the null."""
    bounded = bounded_thresholds(setting.scores, null.confidence, tail)
    best = strongest_threshold(
        bounded.thresholds,
        bounded.false_negatives,
        bounded.negatives,
        bounded.positives,
        setting.delta,
    )
    epsilon = 0.0 if null.proves_nothing else best.epsilon
    return Estimate(
        method="threshold_valid",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="independent scores",
        assumes=f"{_SHARED}.{null.assumption}",
        guarantee=_guarantee(
            setting, "the bounds on the error rates hold for all thresholds at once"
        ),
        source=(
            "Andrew et al. (2023), arXiv:2302.03098, section 5, with a one-sided confidence band "
            "after Berk & Jones (1979) and its exact level (Moscovich & Nadler 2017)"
        ),
        details={
            **null.details(),
            **best.details(),
            "local_level": float(bounded.levels[best.index]),
            "num_thresholds": len(bounded.thresholds),
        },
    )


def _by_ranks(setting: AuditSetting, null: ChosenNull) -> Estimate:
    best = strongest_rejection(setting, largest_rate(setting.delta))
    return Estimate(
        method="threshold_valid",
        kind="lower_bound",
        epsilon=best.claim,
        lower=best.claim,
        valid_for="independent scores",
        assumes=f"{_SHARED}.{null.assumption}",
        guarantee=_guarantee(
            setting,
            "the candidates were fixed ranks of the excluded scores, and corrected for",
        ),
        source=(
            "Andrew et al. (2023), arXiv:2302.03098, section 5, by exact tests at ranks of "
            "excluded scores after Wilks (1941), with a weighted Bonferroni correction"
        ),
        details={**null.details(), "direction": _guess(setting, best), **best.details()},
    )


def _guess(setting: AuditSetting, best: RejectedThreshold) -> Guess:
    """The guess whose limit is the smaller one at the middle of the false positive rate."""
    rate = best.rank / (best.num_excluded + 1)
    by_included = math.exp(best.claim) * rate + setting.delta
    by_excluded = 1 - math.exp(-best.claim) * (1 - setting.delta - rate)
    return "included" if by_included <= by_excluded else "excluded"


def _guarantee(setting: AuditSetting, reason: str) -> str:
    return (
        f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
        f"although the threshold is chosen on the data, since {reason}."
    )
