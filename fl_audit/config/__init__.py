"""The TOML config of a run as typed, frozen records.

>>> from fl_audit.config.file import parse_config
>>> tables = {
...     "task": {"kind": "digits"},
...     "mechanism": {"kind": "gaussian_fixed", "clip_norm": 0.5, "noise_multiplier": 1.0},
...     "participation": {"kind": "bernoulli", "rounds": 100, "clients_per_round": 20},
...     "canaries": {"count": 100},
... }
>>> config = parse_config(tables, "config.toml")
>>> config.mechanism
GaussianFixed(noise_multiplier=1.0, epsilon=None, clip_norm=0.5, zeroing=None)
>>> config.audit.confidence
0.95

`fl_audit.load_config` reads the same tables from a TOML file.

A config has one table per topic. Reading it checks types, ranges and unknown keys. `kind` selects
the variant of a table, such as [mechanism]; each variant accepts only its own keys.
"""

from fl_audit.canaries.canary_tables import AnyCanaries, Canaries, ExampleCanaries
from fl_audit.config.run_tables import (
    AdaptiveServer,
    Client,
    Config,
    FedAvg,
    FedProx,
    FedSgd,
    LocalSteps,
    Log,
    RayCluster,
    ReleaseStatement,
    Server,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.config_tables.audit import Audit
from fl_audit.config_tables.kinds import Table
from fl_audit.mechanisms import (
    AdaptiveZeroing,
    ClientGaussian,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    MatrixFactorisation,
    Mechanism,
    NoPrivacy,
    TreeAggregation,
    Zeroing,
)
from fl_audit.participation import (
    BallsInBins,
    Bernoulli,
    BMinSep,
    CyclicPoisson,
    DrawnParticipation,
    EveryRound,
    MinSeparation,
    Participation,
    RandomAllocation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.tasks.task_kinds import (
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
    "BMinSep",
    "BallsInBins",
    "Bernoulli",
    "Canaries",
    "Client",
    "ClientGaussian",
    "Config",
    "CyclicPoisson",
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
    "MatrixFactorisation",
    "Mechanism",
    "MinSeparation",
    "NextWordTask",
    "NoPrivacy",
    "Participation",
    "RandomAllocation",
    "RayCluster",
    "ReleaseStatement",
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
