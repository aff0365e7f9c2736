"""Measures of the separation of members and non-members, as in attack papers: no bounds.

>>> from fl_audit.estimators import CanaryScores
>>> scores = CanaryScores(included=[0.3, 0.4, 0.9], excluded=[0.1, 0.2, 0.5])
>>> round(auc(scores), 3), round(balanced_accuracy(scores), 3)
(0.778, 0.833)
"""

from fl_audit.estimators.roc.curve import (
    ApproximateInterval,
    RocCurve,
    auc,
    auc_interval,
    balanced_accuracy,
    counts_at,
    tpr_at_fpr,
)
from fl_audit.estimators.roc.summary import (
    OperatingPoint,
    RatioBound,
    RocSummary,
    bootstrap_interval,
    katz_log_bound,
    roc_summary,
    tpr_at_fpr_interval,
)

__all__ = [
    "ApproximateInterval",
    "OperatingPoint",
    "RatioBound",
    "RocCurve",
    "RocSummary",
    "auc",
    "auc_interval",
    "balanced_accuracy",
    "bootstrap_interval",
    "counts_at",
    "katz_log_bound",
    "roc_summary",
    "tpr_at_fpr",
    "tpr_at_fpr_interval",
]
