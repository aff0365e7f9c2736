"""What engines on Ray share: the table [ray], the actors of a run, and when they start.

An engine whose clients train on actors has a `RaySession`, and passes its rounds as `UnreadRound`,
whose data are read by the actors alone.
"""

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fl_audit.array_types import IndexArray
from fl_audit.config import RayCluster
from fl_audit.config.file import config_to_toml
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray.actors import Actors, Merge
from fl_audit.engines.ray.cluster import check_ray, ray_at, ray_on_this_machine
from fl_audit.engines.ray.tree_sum import shard_size, shards_of
from fl_audit.engines.ray.worker import Arrays, ClientWorker, Sent, WorkerSetup
from fl_audit.errors import InputError
from fl_audit.mechanisms import ClientGaussian
from fl_audit.participation import Cohort
from fl_audit.resources import num_cores
from fl_audit.version import __version__

LOCAL = "local"
"""The address that starts Ray on this machine."""

_LEAST_STORE = 80 * 2**20
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class UnreadRound:
    """The participants of a round (counted from 0), whose data the actors read."""

    cohort: Cohort
    round_index: int

    @property
    def clients(self) -> IndexArray:
        """The indices of the real clients."""
        return self.cohort.clients

    @property
    def canaries(self) -> IndexArray:
        """The indices of the canaries in the pool."""
        return self.cohort.canaries


class RaySession:
    """The actors of a run and their Ray, from the first round that needs them to `close`."""

    def __init__(
        self, run: PreparedRun, clients_per_block: int, worker: type[ClientWorker]
    ) -> None:
        self._config = msgspec.structs.replace(run.config, clients_per_block=clients_per_block)
        self._dim = run.task.classifier.dim
        self._cluster = run.config.ray or RayCluster()
        self._shard_size = shard_size(clients_per_block)
        self._worker = worker
        self._running = contextlib.ExitStack()
        self.actors: Actors | None = None

    @property
    def words(self) -> str:
        """Where the actors are, for the line that describes an engine."""
        address = self._cluster.address
        return "ray, on " + ("this machine" if address == LOCAL else address)

    def total(
        self,
        unread: UnreadRound,
        *,
        prepared: Arrays,
        weights: Arrays,
        canary_norm: float,
        merge: Merge,
        parts: Mapping[str, bytes] | None = None,
    ) -> Any:
        """The sum over a round's participants; None if it is empty. `parts` never change."""
        shards = shards_of(unread.cohort, self._shard_size)
        if not shards:
            return None
        sent = Sent(unread.round_index, prepared, weights, canary_norm, len(shards))
        return self._started(parts or {}).total(sent, shards, merge)

    def _started(self, parts: Mapping[str, bytes]) -> Actors:
        """The actors, started by the first round that needs them."""
        if self.actors is None:
            cluster = self._cluster
            ray = self._running.enter_context(self._ray())
            setup = WorkerSetup(
                version=__version__,
                config=config_to_toml(self._config),
                cpus=cluster.cpus_per_actor,
                gpus=cluster.gpus_per_actor,
                parts=parts,
            )
            self.actors = Actors(ray, cluster, setup, self._worker)
            self._running.callback(self.actors.close)
        return self.actors

    def _ray(self) -> contextlib.AbstractContextManager[Any]:
        cluster = self._cluster
        if cluster.address != LOCAL:
            return ray_at(cluster.address)
        actors = cluster.actors or max(num_cores() // cluster.cpus_per_actor, 1)
        # Two sums for each actor (the last and the next), and the weights sent each round.
        store = _LEAST_STORE + 8 * self._dim * (2 * actors + 4)
        return ray_on_this_machine(max(num_cores(), actors * cluster.cpus_per_actor), store)

    def close(self) -> None:
        """Ends the actors, and Ray if this run started it."""
        self.actors = None
        self._running.close()


def check_for_ray(run: PreparedRun) -> None:
    """Raises unless a run can be trained on Ray's actors."""
    check_ray()
    if isinstance(run.config.mechanism, ClientGaussian):
        raise InputError(
            "mechanism.kind: 'client_gaussian' is not for runtime 'ray'; must be another kind, or "
            "runtime 'local', 'native' or 'jax'"
        )
    _check_cluster(run.config.ray or RayCluster(), run.config.clients_per_block)


def _check_cluster(cluster: RayCluster, clients_per_block: int | None) -> None:
    if cluster.gpus_per_actor and clients_per_block is None:
        raise InputError(
            "clients_per_block: must be set where ray.gpus_per_actor is above 0, for the result "
            "must not depend on the GPUs that are found; 8 to 64 suit most"
        )
    if cluster.address in (LOCAL, "auto"):
        return
    host, separator, port = cluster.address.rpartition(":")
    if not separator or not port.isdecimal():
        raise InputError(
            f"key `ray.address`: must be 'local', 'auto' or host:port, got {cluster.address!r}"
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"key `ray.address`: nothing answers at {cluster.address}: {error}; `ray start --head` "
            "says the address of a cluster"
        ) from error
