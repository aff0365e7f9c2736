"""Measures of how well scores tell members from others, as attack papers report it: no bounds."""

from fl_audit.estimators.roc.auc import auc, auc_interval
from fl_audit.estimators.roc.bootstrap import bootstrap_interval
from fl_audit.estimators.roc.interval import ApproximateInterval
from fl_audit.estimators.roc.ratio_intervals import RatioBound, katz_log_bound
from fl_audit.estimators.roc.roc import RocCurve, balanced_accuracy, counts_at, tpr_at_fpr
from fl_audit.estimators.roc.summary import OperatingPoint, RocSummary, roc_summary
from fl_audit.estimators.roc.tpr_interval import tpr_at_fpr_interval

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
