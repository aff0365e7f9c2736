"""The TOML config of a run, as typed, frozen records checked at the door.

A config is one table per concern. `kind` selects the variant of a task, a participation
pattern or a mechanism, and each variant knows only its own keys.
"""

from fl_audit.config.audit import Audit
from fl_audit.config.canaries import Canaries
from fl_audit.config.mechanisms import GaussianAdaptive, GaussianFixed, Mechanism
from fl_audit.config.participation import (
    Bernoulli,
    DrawnParticipation,
    EveryRound,
    MinSeparation,
    Participation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.config.run import Config, Log
from fl_audit.config.table import Table
from fl_audit.config.tasks import (
    DigitsTask,
    EmnistTask,
    NextWordTask,
    StackOverflowTask,
    Task,
    TextTask,
)
from fl_audit.config.training import Client, Server

__all__ = [
    "Audit",
    "Bernoulli",
    "Canaries",
    "Client",
    "Config",
    "DigitsTask",
    "DrawnParticipation",
    "EmnistTask",
    "EveryRound",
    "GaussianAdaptive",
    "GaussianFixed",
    "Log",
    "Mechanism",
    "MinSeparation",
    "NextWordTask",
    "Participation",
    "Replay",
    "Server",
    "Shuffle",
    "StackOverflowTask",
    "Table",
    "Task",
    "TextTask",
    "Uniform",
]
