"""The config of a run: `Config`, and the tables that belong to no other package.

These tables are on clients, server, cluster, logging, and the release statement.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from fl_audit.array_types import FloatArray
from fl_audit.canaries.canary_tables import AnyCanaries
from fl_audit.config_tables.audit import Audit
from fl_audit.config_tables.kinds import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Table,
)
from fl_audit.mechanisms import Mechanism
from fl_audit.participation import Dropouts, Participation
from fl_audit.tasks.task_kinds import Task

# The work of clients and of the server.


Decay = Annotated[float, Meta(ge=0, lt=1)]
"""The factor by which a running mean or sum decays in a step."""


class LocalSteps(Table, frozen=True, kw_only=True):
    """The keys of all clients that take local steps.

    Attributes:
      learning_rate: Learning rate of local steps.
      batch_size: Examples in a step.
      epochs: Passes over the client's examples.
      optimizer: Optimizer of local steps, reset in every round.
      momentum: Momentum of `sgd`.
    """

    learning_rate: PositiveFloat = 0.1
    batch_size: PositiveInt = 16
    epochs: PositiveInt = 1
    optimizer: Literal["sgd", "adagrad", "adam", "yogi"] = "sgd"
    momentum: Decay = 0.0

    def __post_init__(self) -> None:
        """Raises ValueError for momentum with an optimizer other than `sgd`."""
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is only for optimizer 'sgd', not {self.optimizer!r}")


class FedAvg(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_avg"):
    """Clients take steps on their own loss (McMahan et al. 2017, algorithm 1)."""


class FedProx(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_prox"):
    """FedAvg with a penalty on the distance from the round's model (Li et al. 2020).

    Attributes:
      proximal_strength: mu of the penalty mu/2 x squared distance.
    """

    proximal_strength: PositiveFloat


class FedSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="fed_sgd"):
    """Clients send the mean gradient over their examples at the round's model.

    McMahan et al. 2017, section 2. The server's learning rate is the only one.

    Attributes:
      batch_size: Examples per gradient computation; affects rounding and memory only.
    """

    batch_size: PositiveInt = 16

    @property
    def epochs(self) -> int:
        """One pass over a client's examples; a second would give the same gradient."""
        return 1


Client = FedAvg | FedProx | FedSgd


class ServerSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="sgd"):
    """The server adds the aggregate, with optional momentum.

    Attributes:
      learning_rate: Factor of the aggregate.
      momentum: Share of the previous step that is added to a step.
    """

    learning_rate: PositiveFloat = 1.0
    momentum: Decay = 0.0

    def weights_in_model(self, rounds: int) -> FloatArray:
        """The weight of each round's aggregate in the model after `rounds` rounds.

        The result is float64 of shape (rounds,). With momentum b, the aggregate of round t of T
        enters with the learning rate times b^0 + ... + b^(T - t).
        """
        steps = np.arange(rounds, 0, -1)
        applied = (1 - self.momentum**steps) / (1 - self.momentum)
        return np.asarray(self.learning_rate * applied, np.float64)


class AdaptiveServer(Table, frozen=True, kw_only=True):
    """The common keys of adaptive servers (Reddi et al. 2020, algorithm 2).

    Attributes:
      learning_rate: Server learning rate.
      tau: Degree of adaptivity; a smaller tau adapts more.
    """

    learning_rate: PositiveFloat = 0.01
    tau: PositiveFloat = 1e-3


class ServerAdagrad(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adagrad"):
    """FedAdagrad: aggregate / root of (tau^2 + the sum of squares)."""


class MomentServer(AdaptiveServer, frozen=True, kw_only=True):
    """The keys of adaptive servers with running means of aggregates and of their squares.

    Attributes:
      beta_1: Decay of the running mean.
      beta_2: Decay of the second moment.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


class ServerAdam(MomentServer, frozen=True, kw_only=True, tag_field="kind", tag="adam"):
    """FedAdam, with the bias correction of TFF's Adam."""


class ServerYogi(MomentServer, frozen=True, kw_only=True, tag_field="kind", tag="yogi"):
    """FedYogi, with the bias correction of TFF's Yogi."""


Server = ServerSgd | ServerAdagrad | ServerAdam | ServerYogi


class RayCluster(Table, frozen=True, kw_only=True):
    """Workers of runtime `ray`, and what happens when a worker is lost.

    Attributes:
      engine: What trains clients, `tff` or `jax`; by default `tff` where TFF is installed.
      address: Ray cluster: `host:port`, `auto` for this machine's, `local` to start one.
      actors: Worker processes; by default as many as fit.
      cpus_per_actor: CPUs of a worker, and clients that it trains at once; 1 for `jax`.
      gpus_per_actor: GPUs of a worker, 1 or a fraction for `jax`; if above 0, set
        `clients_per_block`.
      lost_actors: When a worker is lost: `replace` it, `do_without` it, or `stop` the run.
      wait_seconds: Longest wait without workers, in seconds.
    """

    engine: Literal["tff", "jax"] | None = None
    address: str = "local"
    actors: PositiveInt | None = None
    cpus_per_actor: PositiveInt = 1
    gpus_per_actor: NonNegativeFloat = 0.0
    lost_actors: Literal["replace", "do_without", "stop"] = "replace"
    wait_seconds: PositiveFloat = 300.0


class Log(Table, frozen=True):
    """How often a run writes.

    Attributes:
      checkpoint_every: Rounds between checkpoints.
      evaluate_every: Rounds between evaluations on held-out data.
    """

    checkpoint_every: PositiveInt = 10
    evaluate_every: PositiveInt = 10


class ReleaseStatement(Table, frozen=True):
    """What only you know of a release; `fl-audit release` prints it as stated by the operator.

    Attributes:
      name: Name of what is released.
      released: What is released besides the model.
      released_to: Who receives the release.
      data: Whose training data, and since when.
      unit: What a client is, and how many clients a person may be.
      trust_model: Who sees what before noise is added.
      earlier_runs: Earlier runs and tuning on the same data.
      metrics: Metrics that are released without noise.
      assumptions: Who checked production's schedule and noise, and how.
      risks: Known risks, not covered.
      contact: Contact for questions.
      curators: Publishers, for a registry.
      intended_use: Intended use.
      region: Region, or jurisdiction.
      sector: Industry.
      published: Day of publication, as 2026-01-31.
    """

    name: str | None = None
    released: str | None = None
    released_to: str | None = None
    data: str | None = None
    unit: str | None = None
    trust_model: str | None = None
    earlier_runs: str | None = None
    metrics: str | None = None
    assumptions: str | None = None
    risks: str | None = None
    contact: str | None = None
    curators: tuple[str, ...] | None = None
    intended_use: str | None = None
    region: str | None = None
    sector: (
        Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None
    ) = None
    published: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None


class Config(Table, frozen=True):
    """Everything that defines a run.

    Attributes:
      seed: Seed of all randomness but the noise and a secret schedule.
      schedule_secret: File of 64 hexadecimal digits from which rounds are drawn; default: where a
        client's upper bound counts on sampling, a new secret in each run (docs/participation.md).
      runtime: What runs the rounds: `local`, `native`, `ray`, `jax` or `auto` (docs/runtimes.md).
      clients_per_block: Clients that train at once, on each device; default by device and model
        (docs/runtimes.md).
      plugins: Modules that register custom kinds (docs/plugins.md).
    """

    task: Task
    mechanism: Mechanism
    participation: Participation
    canaries: AnyCanaries
    path_keys: ClassVar[tuple[str, ...]] = ("schedule_secret",)

    seed: NonNegativeInt = 0
    schedule_secret: str | UnsetType = UNSET
    runtime: str = "auto"
    clients_per_block: PositiveInt | None = None
    plugins: tuple[str, ...] | UnsetType = UNSET
    client: Client = FedAvg()
    server: Server = ServerSgd()
    audit: Audit = Audit()
    log: Log = Log()
    dropouts: Dropouts | None = None
    ray: RayCluster | None = None
    release: ReleaseStatement | UnsetType = UNSET
