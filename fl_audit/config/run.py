"""The config of a run."""

from fl_audit.attacks.audit_table import Audit
from fl_audit.canaries.tables import AnyCanaries
from fl_audit.config.cluster import RayCluster
from fl_audit.config.training import Client, FedAvg, Server, ServerSgd
from fl_audit.kinds.table import NonNegativeInt, PositiveInt, Table
from fl_audit.mechanisms import Mechanism
from fl_audit.participation import Participation
from fl_audit.tasks.kinds import Task


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
    """

    task: Task
    mechanism: Mechanism
    participation: Participation
    canaries: AnyCanaries
    seed: NonNegativeInt = 0
    runtime: str = "auto"
    clients_per_block: PositiveInt | None = None
    client: Client = FedAvg()
    server: Server = ServerSgd()
    audit: Audit = Audit()
    log: Log = Log()
    ray: RayCluster | None = None
