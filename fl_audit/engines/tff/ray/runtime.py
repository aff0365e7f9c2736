"""The runtime `ray`: rounds in this Python process, their clients' work on Ray's actors."""

import contextlib
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import IndexArray
from fl_audit.config import Mechanism, RayCluster
from fl_audit.config.file import config_to_toml
from fl_audit.engines.engine import CohortReader
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray_cluster import check_ray, ray_at, ray_on_this_machine
from fl_audit.engines.tff.compiled import (
    ClientSum,
    ImportedComputation,
    LocalContext,
    local_runtime,
)
from fl_audit.engines.tff.engine import TffEngine
from fl_audit.engines.tff.local import process_of, trained_blocks_of
from fl_audit.engines.tff.ray.actors import Actors
from fl_audit.engines.tff.ray.tree_sum import shard_size, shards_of
from fl_audit.engines.tff.ray.worker import CLIENT_PARTS, Arrays, Sent, WorkerSetup
from fl_audit.engines.tff.rounds import model_weights
from fl_audit.errors import InputError
from fl_audit.mechanisms import ClientGaussian, canary_norm
from fl_audit.participation import Cohort
from fl_audit.resources import num_cores
from fl_audit.version import __version__

LOCAL = "local"
"""The address that starts Ray on this machine."""

_LEAST_STORE = 80 * 2**20
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class UnreadRound:
    """The participants of a round, whose data the actors read.

    Attributes:
      cohort: Those who take part.
      round_index: The index of the round, from 0.
    """

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


@dataclass(frozen=True, eq=False)
class _RoundOnActors:
    """The participants as the process takes them here: what their actors have to be told."""

    unread: UnreadRound
    weights: Arrays
    canary_norm: float


class RayContext(LocalContext):
    """A context that has the clients' work done by actors and does the rest in this process."""

    def __init__(self, run: PreparedRun, cluster: RayCluster, clients_per_block: int) -> None:
        """Starts without any actor; `actors` are there from the first round to `close`.

        Args:
          run: The run, made by `prepare`.
          cluster: The config's table.
          clients_per_block: The number of clients that train at once.
        """
        super().__init__()
        self._config = msgspec.structs.replace(run.config, clients_per_block=clients_per_block)
        self._dim = run.task.classifier.dim
        self._cluster = cluster
        self._shard_size = shard_size(clients_per_block)
        self._running = contextlib.ExitStack()
        self.actors: Actors | None = None

    def client_sum(self, form: Any) -> ClientSum:
        """How a round's clients' work is done: shard by shard, by actors."""
        parts = {name: _serialized(getattr(form, name)) for name in CLIENT_PARTS}
        merge, zero = ImportedComputation(form.merge), ImportedComputation(form.zero)

        def add(earlier: Sequence[Any], later: Sequence[Any]) -> list[Any]:
            tensors = map(tf.convert_to_tensor, [*earlier, *later])
            return merge(list(tensors))

        def client_sum(prepared: Sequence[tf.Tensor], on_actors: Any) -> list[tf.Tensor]:
            unread = on_actors.unread
            shards = shards_of(unread.cohort, self._shard_size)
            if not shards:
                return zero([])
            sent = Sent(
                unread.round_index,
                [np.asarray(leaf) for leaf in prepared],
                on_actors.weights,
                on_actors.canary_norm,
                len(shards),
            )
            total = self._started(parts).total(sent, shards, add)
            return [tf.convert_to_tensor(leaf) for leaf in total]

        return client_sum

    def _started(self, parts: dict[str, bytes]) -> Actors:
        """The actors, which are started with the first round that needs them."""
        if self.actors is None:
            ray = self._running.enter_context(self._ray())
            setup = WorkerSetup(
                __version__, config_to_toml(self._config), parts, self._cluster.cpus_per_actor
            )
            self.actors = Actors(ray, self._cluster, setup)
            self._running.callback(self.actors.close)
        return self.actors

    def _ray(self) -> contextlib.AbstractContextManager[Any]:
        cluster = self._cluster
        if cluster.address != LOCAL:
            return ray_at(cluster.address)
        actors = cluster.actors or max(num_cores() // cluster.cpus_per_actor, 1)
        # Each actor's sum, once more where the next is made, and what is sent.
        store = _LEAST_STORE + 8 * self._dim * (2 * actors + 4)
        return ray_on_this_machine(max(num_cores(), actors * cluster.cpus_per_actor), store)

    def close(self) -> None:
        """Ends the actors, and Ray where this run started it."""
        self.actors = None
        self._running.close()


@dataclass(frozen=True)
class OnRay(TffEngine):
    """The runtime whose clients' work is done by actors of Ray.

    Attributes:
      mechanism: The mechanism table, which decides the length of canaries.
      trains_in_blocks: Whether clients train in blocks, from weights that are sent beside.
      context: The TFF context that holds the compiled process and the actors.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    trains_in_blocks: bool
    context: RayContext

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """A block in which TFF's computations run in this process and on actors."""
        with contextlib.closing(self.context), local_runtime(self.context):
            yield

    def reader(self, run: PreparedRun) -> CohortReader:
        """A reader that reads nothing: actors read their own clients' data."""
        del run
        return UnreadRound

    def participants(self, state: Any, data: UnreadRound) -> Iterable[Any]:
        """What the actors are told of the participants."""
        norm = canary_norm(self.mechanism, state.aggregator)
        weights = model_weights(state) if self.trains_in_blocks else []
        on_actors: Any = _RoundOnActors(data, weights, norm)
        return on_actors  # type: ignore[no-any-return]


def make_ray(run: PreparedRun) -> OnRay:
    """The runtime of a run on Ray, its process compiled; Ray starts with the first round.

    Args:
      run: The run, made by `prepare`.

    Raises:
      NotCompilableError: TFF cannot compile the run's process for it.
      InputError: The cluster does not answer, the config does not say how many clients train at
        once on a GPU, or clients add the noise.
      ModuleNotFoundError: Ray is not installed.
    """
    check_ray()
    if isinstance(run.config.mechanism, ClientGaussian):
        raise InputError(
            "mechanism.kind: 'client_gaussian' is not for runtime 'ray'; must be another kind, or "
            "runtime 'local' or 'native'"
        )
    cluster = run.config.ray or RayCluster()
    _check_cluster(cluster, run.config.clients_per_block)
    blocks = trained_blocks_of(run)
    process = process_of(run, blocks)
    size = 1 if blocks is None else blocks.clients_per_block
    context = RayContext(run, cluster, size)
    context.compile(process.next)
    place = "this machine" if cluster.address == LOCAL else cluster.address
    description = f"ray, on {place}" + (f", {size} clients at once" if size > 1 else "")
    return OnRay(description, process, run.config.mechanism, blocks is not None, context)


def _check_cluster(cluster: RayCluster, clients_per_block: int | None) -> None:
    """Raises an `InputError` where the table [ray] cannot be used."""
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


def _serialized(computation: tff.Computation) -> bytes:
    text: bytes = tff.framework.serialize_computation(computation).SerializeToString()
    return text
