"""Checks of a run's mechanism by its aggregates, without canaries and without TensorFlow."""

from fl_audit.mechanism_checks.aggregate_log import AggregateLog, measure, read_aggregate_log
from fl_audit.mechanism_checks.applicability import why_not_checked
from fl_audit.mechanism_checks.checks import (
    FALSE_ALARM,
    Check,
    RunAggregates,
    check_aggregates,
    check_rounds,
)
from fl_audit.mechanism_checks.configured import Configured, configured
from fl_audit.mechanism_checks.echo import Echo, echo_from_json, echo_to_json, strongest_echo
from fl_audit.mechanism_checks.watch import MechanismWatch

__all__ = [
    "FALSE_ALARM",
    "AggregateLog",
    "Check",
    "Configured",
    "Echo",
    "MechanismWatch",
    "RunAggregates",
    "check_aggregates",
    "check_rounds",
    "configured",
    "echo_from_json",
    "echo_to_json",
    "measure",
    "read_aggregate_log",
    "strongest_echo",
    "why_not_checked",
]
