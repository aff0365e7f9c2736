"""Measures of how well scores tell members from others, as attack papers report it: no bounds."""

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
