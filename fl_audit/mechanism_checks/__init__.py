"""Checks of a run's mechanism by its aggregates, without canaries and without TensorFlow."""

from fl_audit.mechanism_checks.aggregate_log import AggregateLog, measure, read_aggregate_log
from fl_audit.mechanism_checks.applicability import why_not_checked
from fl_audit.mechanism_checks.autocorrelation import (
    Autocorrelation,
    autocorrelation_from_json,
    autocorrelation_to_json,
    strongest_autocorrelation,
)
from fl_audit.mechanism_checks.checks import (
    FALSE_ALARM,
    Check,
    RunAggregates,
    check_aggregates,
    check_rounds,
)
from fl_audit.mechanism_checks.configured import Configured, configured
from fl_audit.mechanism_checks.watch import MechanismWatch

__all__ = [
    "FALSE_ALARM",
    "AggregateLog",
    "Autocorrelation",
    "Check",
    "Configured",
    "MechanismWatch",
    "RunAggregates",
    "autocorrelation_from_json",
    "autocorrelation_to_json",
    "check_aggregates",
    "check_rounds",
    "configured",
    "measure",
    "read_aggregate_log",
    "strongest_autocorrelation",
    "why_not_checked",
]
