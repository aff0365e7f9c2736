"""Checks of a run's mechanism by its aggregates, without canaries and without TensorFlow."""

from fl_audit.checks.aggregate_checks import RunAggregates, check_aggregates
from fl_audit.checks.autocorrelation import (
    Autocorrelation,
    autocorrelation_to_json,
    read_autocorrelation,
    strongest_autocorrelation,
)
from fl_audit.checks.canary_check import CanaryCheck, check_canaries
from fl_audit.checks.canary_projections import CanaryParticipations
from fl_audit.checks.check import FALSE_ALARM, Check
from fl_audit.checks.clip_norms import check_clip_norms
from fl_audit.checks.configured import Configured, configured, why_not_checked
from fl_audit.checks.measured_rounds import (
    AggregateLog,
    MeasuredRounds,
    MechanismWatch,
    StatedRounds,
    Variables,
    checked_variables,
    logged_aggregates,
    measure,
    read_aggregate_log,
    read_mechanism,
    read_variables,
    write_variables,
)
from fl_audit.checks.replay.replay import Replay, replay_round
from fl_audit.checks.replay.trial_rounds import Finding, Promise, Server, read_replay, write_replay
from fl_audit.checks.sampling_check import check_poisson, check_rounds
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip

__all__ = [
    "FALSE_ALARM",
    "AdaptiveClip",
    "AggregateLog",
    "Autocorrelation",
    "CanaryCheck",
    "CanaryParticipations",
    "Check",
    "Configured",
    "Finding",
    "MeasuredRounds",
    "MechanismWatch",
    "Promise",
    "Replay",
    "RunAggregates",
    "Server",
    "StatedRounds",
    "Variables",
    "autocorrelation_to_json",
    "check_aggregates",
    "check_canaries",
    "check_clip_norms",
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
