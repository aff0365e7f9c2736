"""Checks of a run's mechanism by its aggregates, without canaries and without TensorFlow."""

from fl_audit.mechanism_checks.aggregate_log import AggregateLog, measure, read_aggregate_log
from fl_audit.mechanism_checks.applicability import why_not_checked
from fl_audit.mechanism_checks.arrival import canary_arrival
from fl_audit.mechanism_checks.autocorrelation import (
    Autocorrelation,
    autocorrelation_to_json,
    read_autocorrelation,
    strongest_autocorrelation,
)
from fl_audit.mechanism_checks.checks import (
    FALSE_ALARM,
    Check,
    RunAggregates,
    check_aggregates,
)
from fl_audit.mechanism_checks.configured import Configured, configured
from fl_audit.mechanism_checks.finding import Finding, read_replay, write_replay
from fl_audit.mechanism_checks.logged_rounds import (
    MeasuredRounds,
    ToldRounds,
    Variables,
    checked_variables,
    logged_aggregates,
    read_mechanism,
    read_variables,
    write_variables,
)
from fl_audit.mechanism_checks.presentations import Arrival, Presentations
from fl_audit.mechanism_checks.promise import Promise
from fl_audit.mechanism_checks.replay import Replay, replay_round
from fl_audit.mechanism_checks.sampling import check_poisson, check_rounds
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
    "MeasuredRounds",
    "MechanismWatch",
    "Presentations",
    "Promise",
    "Replay",
    "RunAggregates",
    "Server",
    "ToldRounds",
    "Variables",
    "autocorrelation_to_json",
    "canary_arrival",
    "check_aggregates",
    "check_poisson",
    "check_rounds",
    "checked_variables",
    "configured",
    "logged_aggregates",
    "measure",
    "read_aggregate_log",
    "read_autocorrelation",
    "read_mechanism",
    "read_replay",
    "read_variables",
    "replay_round",
    "strongest_autocorrelation",
    "why_not_checked",
    "write_replay",
    "write_variables",
]
