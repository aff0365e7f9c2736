"""Checks of a run's mechanism by its aggregates, without canaries and without TensorFlow.

A server that trains with any system passes each round's noised aggregate to a `MechanismWatch`:

>>> import numpy as np
>>> from fl_audit.checks import MechanismWatch
>>> watch = MechanismWatch(sizes=[900, 100])
>>> rng = np.random.default_rng(1)
>>> for _ in range(5):  # the server adds noise of 0.5 where 1.0 is configured
...     aggregate = 0.5 * rng.standard_normal(1000, np.float32)
...     watch.see_round(aggregate, noise_stddev=1.0, norm_bound=2.0)
>>> [check.name for check in watch.checks() if not check.passed]
['enough_noise', 'fresh_noise', 'noise_distribution']

`replay_round` repeats one round of a server with the noise held fixed (docs/replay.md),
`check_poisson` tests cohorts, and `check_canaries` is the canary check.
"""

from fl_audit.checks.aggregate_checks import RunAggregates, check_aggregates
from fl_audit.checks.canary_check import CanaryCheck, check_canaries
from fl_audit.checks.canary_projections import CanaryParticipations
from fl_audit.checks.check import FALSE_ALARM, Check, Configured, configured, why_not_checked
from fl_audit.checks.clip_norms import (
    check_clip_norms,
    check_logged_clip_norms,
    write_adaptive_clip,
)
from fl_audit.checks.measured_rounds import (
    AggregateLog,
    MeasuredRounds,
    MechanismWatch,
    StatedRounds,
    Variables,
    checked_variables,
    logged_aggregates,
    measure,
    read_mechanism,
    read_variables,
    write_variables,
)
from fl_audit.checks.replay.replay import Replay, replay_round
from fl_audit.checks.replay.trial_rounds import Promise, Server, read_replay, write_replay
from fl_audit.checks.sampling_check import check_poisson, check_rounds
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip

__all__ = [
    "FALSE_ALARM",
    "AdaptiveClip",
    "AggregateLog",
    "CanaryCheck",
    "CanaryParticipations",
    "Check",
    "Configured",
    "MeasuredRounds",
    "MechanismWatch",
    "Promise",
    "Replay",
    "RunAggregates",
    "Server",
    "StatedRounds",
    "Variables",
    "check_aggregates",
    "check_canaries",
    "check_clip_norms",
    "check_logged_clip_norms",
    "check_poisson",
    "check_rounds",
    "checked_variables",
    "configured",
    "logged_aggregates",
    "measure",
    "read_mechanism",
    "read_replay",
    "read_variables",
    "replay_round",
    "why_not_checked",
    "write_adaptive_clip",
    "write_replay",
    "write_variables",
]
