"""The config table of a run on a cluster."""

from typing import Literal

from fl_audit.kinds.table import NonNegativeFloat, PositiveFloat, PositiveInt, Table


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
