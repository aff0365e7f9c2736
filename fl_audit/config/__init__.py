"""The TOML config of a run, as typed, frozen records that are checked when they are read.

A config is one table per concern. `kind` selects the variant of a task, a participation
pattern or a mechanism, and each variant knows only its own keys.
"""

from fl_audit.attacks.audit_table import Audit
from fl_audit.canaries.tables import AnyCanaries, Canaries, ExampleCanaries
from fl_audit.config.tables import (
    AdaptiveServer,
    Client,
    Config,
    FedAvg,
    FedProx,
    FedSgd,
    LocalSteps,
    Log,
    RayCluster,
    Server,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.kinds.table import Table
from fl_audit.mechanisms import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    Mechanism,
    NoPrivacy,
    TreeAggregation,
    Zeroing,
)
from fl_audit.participation import (
    Bernoulli,
    DrawnParticipation,
    EveryRound,
    MinSeparation,
    Participation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.tasks.kinds import (
    DigitsTask,
    EmnistTask,
    NextWordTask,
    StackOverflowTask,
    Task,
    TextTask,
)

__all__ = [
    "AdaptiveServer",
    "AdaptiveZeroing",
    "AnyCanaries",
    "Audit",
    "Bernoulli",
    "Canaries",
    "Client",
    "Config",
    "DigitsTask",
    "Distributed",
    "DrawnParticipation",
    "EmnistTask",
    "EveryRound",
    "ExampleCanaries",
    "FedAvg",
    "FedProx",
    "FedSgd",
    "FixedZeroing",
    "GaussianAdaptive",
    "GaussianFixed",
    "LocalSteps",
    "Log",
    "Mechanism",
    "MinSeparation",
    "NextWordTask",
    "NoPrivacy",
    "Participation",
    "RayCluster",
    "Replay",
    "Server",
    "ServerAdagrad",
    "ServerAdam",
    "ServerSgd",
    "ServerYogi",
    "Shuffle",
    "StackOverflowTask",
    "Table",
    "Task",
    "TextTask",
    "TreeAggregation",
    "Uniform",
    "Zeroing",
]
