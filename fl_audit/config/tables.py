"""The config of a run: `Config`, and the tables in it that belong to no other room.

Those are what clients and server do with examples and updates, where the clients' work is done, and
when a run writes something down.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from fl_audit.attacks.audit_table import Audit
from fl_audit.canaries.tables import AnyCanaries
from fl_audit.kinds.table import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Table
from fl_audit.mechanisms import Mechanism
from fl_audit.participation import Participation
from fl_audit.tasks.kinds import Task

# Clients and server: what they do with examples and updates.


Decay = Annotated[float, Meta(ge=0, lt=1)]
"""The share of a running mean that a step keeps."""


class LocalSteps(Table, frozen=True, kw_only=True):
    """The keys that all clients have that take steps on their own examples.

    Attributes:
      learning_rate: The learning rate of the local steps.
      batch_size: The number of examples in a step.
      epochs: The number of passes over the client's examples.
      optimizer: The optimizer of the local steps, without a memory of earlier rounds; the
        parameters of an adaptive one beside its learning rate are TFF's defaults.
      momentum: The momentum of `sgd`.
    """

    learning_rate: PositiveFloat = 0.1
    batch_size: PositiveInt = 16
    epochs: PositiveInt = 1
    optimizer: Literal["sgd", "adagrad", "adam", "yogi"] = "sgd"
    momentum: Decay = 0.0

    def __post_init__(self) -> None:
        """Checks that the optimizer knows its keys."""
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum goes with optimizer 'sgd', not {self.optimizer!r}")


class FedAvg(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_avg"):
    """A client that takes steps on its own loss (McMahan et al. 2017, algorithm 1)."""


class FedProx(LocalSteps, frozen=True, kw_only=True, tag_field="kind", tag="fed_prox"):
    """A client whose loss grows with the distance from the round's model (Li et al. 2020).

    Attributes:
      proximal_strength: The factor mu in mu/2 times the squared distance, which is added to the
        loss.
    """

    proximal_strength: PositiveFloat


class FedSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="fed_sgd"):
    """A client that sends the gradient at the round's model, the mean over its examples.

    McMahan et al. 2017, section 2. The server's learning rate is the only one.

    Attributes:
      batch_size: The number of examples whose gradient is computed at once; it changes only
        rounding and memory.
    """

    batch_size: PositiveInt = 16

    @property
    def epochs(self) -> int:
        """The number of passes over a client's examples; a second would give the same gradient."""
        return 1


Client = FedAvg | FedProx | FedSgd


class ServerSgd(Table, frozen=True, kw_only=True, tag_field="kind", tag="sgd"):
    """A server that adds the aggregate, with momentum where it is not 0.

    Attributes:
      learning_rate: The factor of the aggregate.
      momentum: The share of the last step that is added to a step.
    """

    learning_rate: PositiveFloat = 1.0
    momentum: Decay = 0.0


class AdaptiveServer(Table, frozen=True, kw_only=True):
    """The keys that adaptive servers have in common (Reddi et al. 2020, algorithm 2).

    Attributes:
      learning_rate: The server's learning rate eta.
      tau: The degree of adaptivity tau; the smaller, the more the server adapts. Coordinates whose
        past aggregates are far below it move in proportion to the aggregate, those far above it all
        alike.
    """

    learning_rate: PositiveFloat = 0.01
    tau: PositiveFloat = 1e-3


class ServerAdagrad(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adagrad"):
    """FedAdagrad: aggregates over the root of tau^2 plus the sum of all squares so far."""


class ServerAdam(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="adam"):
    """FedAdam, with the correction of the first rounds' bias that TFF's Adam has.

    Attributes:
      beta_1: The decay of the running mean of aggregates.
      beta_2: The decay of the running mean of their squares.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


class ServerYogi(AdaptiveServer, frozen=True, kw_only=True, tag_field="kind", tag="yogi"):
    """FedYogi, with the correction of the first rounds' bias that TFF's Yogi has.

    Attributes:
      beta_1: The decay of the running mean of aggregates.
      beta_2: The decay of their squares, which grow and shrink by at most 1 - beta_2 of the newest.
    """

    beta_1: Decay = 0.9
    beta_2: Decay = 0.99


Server = ServerSgd | ServerAdagrad | ServerAdam | ServerYogi


class RayCluster(Table, frozen=True, kw_only=True):
    """Where the clients' work is done under runtime `ray`, and what happens when actors are lost.

    Attributes:
      address: The head of a Ray cluster, `host:port`, or `auto` for the one that this machine is
        part of; `local` starts Ray on this machine for the run and ends it with the run.
      actors: The number of processes that do the clients' work; by default as many as there is room
        for, which is looked at anew before every round.
      cpus_per_actor: The CPUs of an actor, and the number of clients that it trains side by side.
      gpus_per_actor: The GPUs of an actor, of which a part may be given; above 0,
        `clients_per_block` must be set.
      lost_actors: What is done when an actor or its node is lost; its work of the round is done
        again by others in any case. `replace` starts another one where there is room,
        `do_without` goes on with the rest, `stop` ends the run, which `--resume` continues.
      wait_seconds: How long a run waits, in seconds, while it has no actor at all.
    """

    address: str = "local"
    actors: PositiveInt | None = None
    cpus_per_actor: PositiveInt = 1
    gpus_per_actor: NonNegativeFloat = 0.0
    lost_actors: Literal["replace", "do_without", "stop"] = "replace"
    wait_seconds: PositiveFloat = 300.0


class Log(Table, frozen=True):
    """The numbers of rounds after which a run writes something down.

    Attributes:
      checkpoint_every: The number of rounds between checkpoints.
      evaluate_every: The number of rounds between evaluations on held-out data.
    """

    checkpoint_every: PositiveInt = 10
    evaluate_every: PositiveInt = 10


class Config(Table, frozen=True):
    """Everything that defines a run.

    Attributes:
      seed: The seed of everything that is drawn but the noise: cohorts, coins, canaries, data and
        initial weights.
      runtime: The runtime of TFF's process: `local` in this Python process, on a GPU where there is
        one; `native` in TFF's C++ worker, on CPUs; `ray` as `local`, with the clients' work done by
        processes of Ray, as [ray] says; `auto` is `local` where it can run the process. The program
        that runs the config checks the name, as others may be registered.
      clients_per_block: The number of real clients that train at once under `local` and `ray`; by
        default as many as suit the device and the model. More than 1 trains in batched operations,
        with the same updates up to rounding.
      plugins: The modules that register kinds of your own (docs/plugins.md), each the name of a
        module in the config's folder or where Python looks, or a path without `.py` to one.
    """

    task: Task
    mechanism: Mechanism
    participation: Participation
    canaries: AnyCanaries
    seed: NonNegativeInt = 0
    runtime: str = "auto"
    clients_per_block: PositiveInt | None = None
    plugins: tuple[str, ...] | UnsetType = UNSET
    client: Client = FedAvg()
    server: Server = ServerSgd()
    audit: Audit = Audit()
    log: Log = Log()
    ray: RayCluster | None = None
