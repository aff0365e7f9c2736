"""The paper's best threshold with Clopper-Pearson instead of Jeffreys bounds on the error rates.

Andrew et al. (2023), section 5, with the intervals of Jagielski et al. (2020).
"""

from fl_audit.estimators.result import Estimate
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.error_rate_bounds import clopper_pearson_upper
from fl_audit.estimators.threshold.unadjusted import best_threshold, unadjusted_guarantee


def threshold_clopper_pearson(setting: AuditSetting) -> Estimate:
    """The largest epsilon that a threshold on the scores proves, by exact bounds on its rates.

    max over thresholds of max(log((1 - delta - FNR) / FPR), log((1 - delta - FPR) / FNR)), where
    "score >= threshold" means included, FNR is its Clopper-Pearson upper bound, and FPR is exact
    under the closed-form null and its Clopper-Pearson upper bound under the empirical one.

    Raises:
        NotApplicableError: without included scores, or with fewer than 2 excluded scores under
            the empirical null.
    """
    best = best_threshold(setting, clopper_pearson_upper)
    return Estimate(
        method="threshold_clopper_pearson",
        kind="lower_bound",
        epsilon=best.epsilon,
        lower=best.epsilon,
        assumes="Canaries' scores are independent given inclusion.",
        guarantee=unadjusted_guarantee(setting),
        source=(
            "Andrew et al. (2023), arXiv:2302.03098, section 5; Jagielski et al. (2020) with "
            "Clopper-Pearson intervals (Clopper & Pearson 1934)"
        ),
        details={"null": setting.null, **best.details()},
    )
