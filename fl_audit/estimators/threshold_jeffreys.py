"""The paper's lower bound: the best threshold, with Jeffreys upper bounds on the error rates.

Andrew et al. (2023), section 5, after Jagielski et al. (2020) and Zanella-Beguelin et al. (2022).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.estimators.beta_quantile import beta_quantile
from fl_audit.estimators.rates import log_ratio
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import FloatArray
from fl_audit.estimators.setting import AuditSetting

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LogRates:
    """Bounds on an error rate and on its complement, as logarithms, one per threshold.

    Attributes:
        error: [t] log of the upper bound on the error rate.
        success: [t] log of the lower bound on one minus the error rate.
    """

    error: FloatArray
    success: FloatArray


def jeffreys_upper(errors: Counts, trials: int, confidence: float) -> LogRates:
    """One-sided Jeffreys upper bounds on an error rate.

    The `confidence` quantile of Beta(k + 1/2, n - k + 1/2); where every trial is an error the
    bound is 1 (Brown, Cai & DasGupta 2001), so that such a threshold proves nothing.

    Args:
        errors: [t] int, k, in [0, trials].
        trials: n, at least 1.
        confidence: of each bound, in (0, 1).

    >>> bounds = jeffreys_upper(np.array([0, 1000]), 1000, 0.95)
    >>> np.exp(bounds.error).round(7).tolist()
    [0.0019184, 1.0]
    """
    # From the lower quantile of the complement: the tail that keeps its digits.
    rest = beta_quantile(trials - errors + 0.5, errors + 0.5, 1 - confidence)
    rest = np.where(errors == trials, 0.0, rest)
    with np.errstate(divide="ignore"):
        return LogRates(error=np.log1p(-rest), success=np.log(rest))


def threshold_jeffreys(setting: AuditSetting) -> Estimate:
    """The largest epsilon that a threshold on the scores proves, as Andrew et al. report it.

    max over thresholds of max(log((1 - delta - FNR) / FPR), log((1 - delta - FPR) / FNR)), where
    "score >= threshold" means included, FNR is its Jeffreys upper bound, and FPR is exact under
    the closed-form null and its Jeffreys upper bound under the empirical one.

    Raises:
        NotApplicableError: without included scores, or with fewer than 2 excluded scores under
            the empirical null.
    """
    setting.require(included=1)
    setting.require_null_scores()
    thresholds = _candidate_thresholds(setting)
    false_negatives = np.searchsorted(np.sort(setting.scores.included), thresholds)
    negatives = jeffreys_upper(false_negatives, setting.scores.num_included, setting.confidence)
    positives = _false_positive_rates(setting, thresholds)
    by_included = log_ratio(negatives.success, positives.error, setting.delta)
    by_excluded = log_ratio(positives.success, negatives.error, setting.delta)
    proven = np.maximum(by_included, by_excluded)
    best = int(np.argmax(proven))
    epsilon = max(float(proven[best]), 0.0)
    return Estimate(
        method="threshold_jeffreys",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        assumes="Canaries' scores are independent given inclusion.",
        guarantee=_guarantee(setting),
        source=(
            "Andrew et al. (2023), arXiv:2302.03098, section 5; Jagielski et al. (2020) with "
            "Jeffreys intervals (Zanella-Beguelin et al. 2022)"
        ),
        details={
            "null": setting.null,
            "threshold": float(thresholds[best]),
            "direction": "included" if by_included[best] >= by_excluded[best] else "excluded",
            "false_negatives": int(false_negatives[best]),
            "fnr_upper": math.exp(negatives.error[best]),
            "log_fpr_upper": float(positives.error[best]),
        },
    )


def _candidate_thresholds(setting: AuditSetting) -> FloatArray:
    """The included scores, ascending, without those that another one beats.

    Between two included scores FNR stays the same while FPR falls with the threshold, so the best
    threshold is an included score, itself counted as a true positive (excluded scores that tie
    with it count as false positives). If no excluded score lies between two included ones, the
    lower has no more false positives and fewer false negatives.
    """
    included = np.asarray(np.unique(setting.scores.included))
    if setting.null == "closed_form":
        return included
    below = np.searchsorted(np.sort(setting.scores.excluded), included)
    return included[np.diff(below, prepend=-1) > 0]


def _false_positive_rates(setting: AuditSetting, thresholds: FloatArray) -> LogRates:
    if setting.null == "closed_form":
        law = setting.closed_form_null()
        return LogRates(error=law.logsf(thresholds), success=law.logcdf(thresholds))
    below = np.searchsorted(np.sort(setting.scores.excluded), thresholds)
    trials = setting.scores.num_excluded
    return jeffreys_upper(trials - below, trials, setting.confidence)


def _guarantee(setting: AuditSetting) -> str:
    level = f"{100 * setting.confidence:g} %"
    rates = (
        "the false negative rate (the false positive rate is exact)"
        if setting.null == "closed_form"
        else "each of the two error rates"
    )
    return (
        f"True epsilon would be at least this with about {level} confidence on {rates} for one "
        "threshold fixed in advance. Here the threshold is chosen on the same data, and the bound "
        "is not valid after selection: it exceeds the true epsilon more often than that."
    )
