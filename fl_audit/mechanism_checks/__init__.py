"""Checks of a run's mechanism by its aggregates, without canaries and without TensorFlow."""

from fl_audit.mechanism_checks.aggregate_log import AggregateLog, measure, read_aggregate_log
from fl_audit.mechanism_checks.applicability import why_not_checked
from fl_audit.mechanism_checks.arrival import canary_arrival
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
from fl_audit.mechanism_checks.finding import Finding, read_replay, write_replay
from fl_audit.mechanism_checks.presentations import Arrival, Presentations
from fl_audit.mechanism_checks.promise import Promise
from fl_audit.mechanism_checks.replay import Replay, replay_round
from fl_audit.mechanism_checks.sampling import check_poisson
from fl_audit.mechanism_checks.trial_rounds import Server
from fl_audit.mechanism_checks.watch import MechanismWatch

__all__ = [
    "FALSE_ALARM",
    "AggregateLog",
    "Arrival",
    "Autocorrelation",
    "Check",
    "Configured",
    "Finding",
    "MechanismWatch",
    "Presentations",
    "Promise",
    "Replay",
    "RunAggregates",
    "Server",
    "autocorrelation_from_json",
    "autocorrelation_to_json",
    "canary_arrival",
    "check_aggregates",
    "check_poisson",
    "check_rounds",
    "configured",
    "measure",
    "read_aggregate_log",
    "read_replay",
    "replay_round",
    "strongest_autocorrelation",
    "why_not_checked",
    "write_replay",
]
