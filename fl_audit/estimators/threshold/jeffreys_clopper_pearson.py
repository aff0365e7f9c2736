"""Threshold bounds as papers publish them: the best threshold, by one of two bounds on error rates.

Andrew et al. (2023), section 5, after Jagielski et al. (2020). The bounds are for one threshold
each; nothing corrects for the choice among thresholds.
"""

import functools

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.privacy_region import LogRates
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.error_rates import (
    BoundedThresholds,
    RateUpperBounds,
    clopper_pearson_upper,
    jeffreys_upper,
)


def threshold_as_published(
    setting: AuditSetting, *, method: str, upper: RateUpperBounds, intervals: str
) -> Estimate:
    """The largest epsilon of any threshold on the scores, as published.

    It is the max over thresholds of max(log((1 - delta - FNR) / FPR), log((1 - delta - FPR) /
    FNR)), where "score >= threshold" means included. FNR is an upper bound on the false negative
    rate; FPR is exact under the closed-form null, and an upper bound under the empirical one.

    Each bound has failure probability alpha = 1 - confidence (roughly, for Jeffreys'). Under the
    empirical null there are two bounds, so at least one fails with probability up to 2 alpha.
    """
    setting.require(included=1)
    setting.require_null_scores()
    thresholds = _candidate_thresholds(setting)
    false_negatives = np.searchsorted(np.sort(setting.scores.included), thresholds)
    negatives = upper(false_negatives, setting.scores.num_included, setting.confidence)
    positives = _false_positive_rates(setting, thresholds, upper)
    bounded = BoundedThresholds(thresholds, false_negatives, negatives, positives)
    epsilon, best, guess = bounded.strongest(setting.delta)
    return Estimate(
        method=method,
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        assumes="Canaries' scores are independent given inclusion.",
        guarantee=_guarantee(setting),
        source=(
            "Andrew et al. (2023), arXiv:2302.03098, section 5; Jagielski et al. (2020) with "
            f"{intervals}"
        ),
        details={"null": setting.null.kind, **bounded.details(best, guess)},
    )


threshold_jeffreys = functools.partial(
    threshold_as_published,
    method="threshold_jeffreys",
    upper=jeffreys_upper,
    intervals="Jeffreys intervals (Zanella-Beguelin et al. 2022)",
)
"""The bound of Andrew et al. (2023), with Jeffreys upper bounds on the error rates."""

threshold_clopper_pearson = functools.partial(
    threshold_as_published,
    method="threshold_clopper_pearson",
    upper=clopper_pearson_upper,
    intervals="Clopper-Pearson intervals (Clopper & Pearson 1934)",
)
"""The same bound with the exact intervals of Jagielski et al. (2020)."""


def _guarantee(setting: AuditSetting) -> str:
    """The guarantee for a fixed threshold, and why it does not hold here."""
    level = f"{100 * setting.confidence:g} %"
    rates = (
        "the false negative rate (the false positive rate is exact)"
        if setting.null.kind == "closed_form"
        else "each of the two error rates"
    )
    return (
        f"True epsilon would be at least this with about {level} confidence on {rates} for one "
        "threshold fixed in advance. Here the threshold is chosen on the same data, and the bound "
        "is not valid after selection: it exceeds the true epsilon more often than that."
    )


def _candidate_thresholds(setting: AuditSetting) -> FloatArray:
    """The included scores, ascending, without dominated ones.

    Between two included scores FNR stays the same while FPR falls with the threshold, so the best
    threshold is an included score, itself counted as a true positive (excluded scores that tie
    with it count as false positives). If there is no excluded score between two included ones, the
    lower has no more false positives and fewer false negatives.
    """
    included = np.asarray(np.unique(setting.scores.included))
    if setting.null.kind == "closed_form":
        return included
    below = np.searchsorted(np.sort(setting.scores.excluded), included)
    return included[np.diff(below, prepend=-1) > 0]


def _false_positive_rates(
    setting: AuditSetting, thresholds: FloatArray, upper: RateUpperBounds
) -> LogRates:
    if setting.null.kind == "closed_form":
        null = setting.null.closed_form()
        return LogRates(error=null.logsf(thresholds), success=null.logcdf(thresholds))
    below = np.searchsorted(np.sort(setting.scores.excluded), thresholds)
    trials = setting.scores.num_excluded
    return upper(trials - below, trials, setting.confidence)
