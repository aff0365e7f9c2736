"""Ray actors of a run: they are started, given work, and replaced when lost.

An engine whose clients train on actors has a `RaySession`, and passes its rounds as `UnreadRound`;
only the actors read the data.
"""

import contextlib
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fl_audit.array_types import IntArray
from fl_audit.config import RayCluster
from fl_audit.config.file import config_to_toml
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.ray.cluster import lost_part, quiet_ray, ray_at, ray_on_this_machine
from fl_audit.engines.ray.tree_sum import (
    Piece,
    RemoteSum,
    RoundWork,
    Subtree,
    TreeSum,
    shard_size,
    shards_of,
)
from fl_audit.engines.ray.worker import Arrays, ClientWorker, Sent, WorkerSetup
from fl_audit.errors import InputError, lines_of
from fl_audit.mechanisms import ClientGaussian
from fl_audit.participation import Cohort
from fl_audit.resources import num_cores
from fl_audit.version import __version__

_SECONDS_BETWEEN_LOOKS = 1.0
_MOST_LOSSES = 3
"""The run stops when a round loses the same subtree, or actors as they load, this many times."""

RESUME = "once that is fixed, --resume continues from the last checkpoint"

Merge = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class _Actor:
    """An actor and its node, which is empty until the actor has loaded the task."""

    handle: Any
    node: str = ""


@dataclass(frozen=True, eq=False)
class _Call:
    """A pending call: an actor's loading, its work at a piece, or a sum being fetched."""

    actor: _Actor | None = None
    piece: Piece | None = None
    partial_sum: Any = None
    in_flight: RemoteSum | None = None

    @property
    def is_loading(self) -> bool:
        return self.piece is None and self.in_flight is None

    @property
    def subtree(self) -> Subtree | None:
        """The subtree that is lost if the call fails; None for a loading actor."""
        if self.in_flight is not None:
            return self.in_flight.subtree
        return None if self.piece is None else self.piece.subtree


class Actors:
    """The actors of a run, and the pending calls."""

    def __init__(
        self,
        ray: Any,
        cluster: RayCluster,
        setup: WorkerSetup,
        worker: type[Any],
        lost: Callable[[], str | None] = lost_part,
    ) -> None:
        """Starts `cluster.actors` actors, or all that fit.

        `lost` names a part of Ray that has ended, if any; tests pass a function of their own.
        """
        self._ray = ray
        self._cluster = cluster
        self._setup = ray.put(setup)
        self._class = ray.remote(
            num_cpus=cluster.cpus_per_actor,
            num_gpus=cluster.gpus_per_actor,
            max_restarts=0,
            max_task_retries=0,
        )(worker)
        self._busy: dict[Any, _Call] = {}
        self._idle: list[_Actor] = []
        self._lost = 0
        self._lost_part = lost
        self._own_node: str = ray.get_runtime_context().get_node_id()
        self._grow()

    def total(self, sent: Sent, shards: Sequence[Cohort], merge: Merge) -> Any:
        """The sum over all shards of a round, in the order of the tree."""
        self._check_ray()
        if self._cluster.lost_actors == "replace":
            self._grow()
        work, tree = RoundWork(len(shards), self._own_node), TreeSum[Any](len(shards), merge)
        put = self._ray.put(sent)
        losses: Counter[Subtree | None] = Counter()
        done: list[tuple[Subtree, Arrays]] = []
        while work.is_open or self._at_work:
            self._give_work(put, work, shards)
            # Finished sums are added while the actors work.
            while done:
                tree.add(*done.pop())
            call, result = self._next_end()
            if isinstance(result, BaseException):
                self._fetch(self._after_loss(call, result, work, losses))
            elif call.in_flight is not None:
                done.append((call.in_flight.subtree, result))
            else:
                self._fetch(self._after_work(call, result, work))
        while done:
            tree.add(*done.pop())
        return tree.single[1]

    @property
    def all(self) -> list[Any]:
        """The handles of all actors, busy and idle."""
        busy = [call.actor for call in self._busy.values() if call.actor is not None]
        return [actor.handle for actor in (*self._idle, *busy)]

    @property
    def num_loading(self) -> int:
        return sum(call.is_loading for call in self._busy.values())

    def close(self) -> None:
        for actor in self.all:
            self._ray.kill(actor)
        self._idle, self._busy = [], {}

    def _check_ray(self) -> None:
        if (part := self._lost_part()) is not None:
            raise ConnectionError(f"Ray cannot go on, as {part} has ended")

    @property
    def _at_work(self) -> bool:
        return not all(call.is_loading for call in self._busy.values())

    def _workers(self) -> Counter[str]:
        """The number of actors per node; loading actors count at a node with an empty name."""
        busy = [call.actor for call in self._busy.values() if call.actor is not None]
        return Counter(actor.node for actor in (*self._idle, *busy))

    def _grow(self) -> None:
        """Starts the missing actors."""
        wanted = self._cluster.actors or max(self._room(), 1)
        for _ in range(wanted - len(self.all)):
            actor = _Actor(self._class.remote())
            call = actor.handle.load.remote(self._setup)
            self._busy[call] = _Call(actor)

    def _room(self) -> int:
        """The number of actors for which living nodes have room."""
        needs = {"CPU": self._cluster.cpus_per_actor, "GPU": self._cluster.gpus_per_actor}
        return sum(
            min(int(node["Resources"].get(kind, 0) / need) for kind, need in needs.items() if need)
            for node in self._ray.nodes()
            if node["Alive"]
        )

    def _give_work(self, sent: Any, work: RoundWork, shards: Sequence[Cohort]) -> None:
        """Gives every idle actor a piece, as long as pieces are left."""
        while self._idle and (piece := work.take(self._idle[-1].node, self._workers())) is not None:
            actor = self._idle.pop()
            its_shards = [shards[index] for index in piece.subtree.shards(len(shards))]
            total = actor.handle.total.options(num_returns=2)
            reached, partial_sum = total.remote(sent, piece.subtree, its_shards)
            self._busy[reached] = _Call(actor, piece, partial_sum)

    def _after_work(self, call: _Call, result: Any, work: RoundWork) -> list[RemoteSum]:
        """Records a finished call; returns the sums to fetch now."""
        assert call.actor is not None
        if call.piece is None:
            self._idle.append(_Actor(call.actor.handle, result))
            return []
        self._idle.append(call.actor)
        merge_there = call.actor.handle.merge.remote
        return work.finished(call.piece, RemoteSum(result, call.partial_sum), merge_there)

    def _fetch(self, sums: Sequence[RemoteSum]) -> None:
        for remote in sums:
            self._busy[remote.reference] = _Call(in_flight=remote)

    def _next_end(self) -> tuple[_Call, Any]:
        """The next call that ends, with its result, or the error if its actor or an input was lost.

        Raises:
          InputError: No call is pending, or no actor was ready for the config's `wait_seconds`.
        """
        began = time.monotonic()
        while True:
            calls = list(self._busy)
            ended, _ = self._ray.wait(calls, timeout=_SECONDS_BETWEEN_LOOKS) if calls else ([], [])
            self._check_ray()
            if ended:
                return self._busy.pop(ended[0]), self._result(ended[0])
            is_none_ready = not self._at_work
            if not calls or (
                is_none_ready and time.monotonic() - began > self._cluster.wait_seconds
            ):
                raise InputError(self._why_none())

    def _result(self, call: Any) -> Any:
        """The result of a call, or the error if its actor or an input was lost."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.RayError):  # an input of the merge was lost
                return error.cause
            # The actor is alive and reports an error of the run.
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except errors.RayError as error:
            return error

    def _why_none(self) -> str:
        requested = f"{self._cluster.cpus_per_actor} CPUs and {self._cluster.gpus_per_actor:g} GPUs"
        return (
            f"ray: no actor is left ({self._lost} lost, {self.num_loading} not started; the "
            f"cluster has room for {self._room()} of {requested}); {RESUME}"
        )

    def _after_loss(
        self, call: _Call, error: BaseException, work: RoundWork, losses: Counter[Subtree | None]
    ) -> list[RemoteSum]:
        """Puts lost work back, obeys the key `ray.lost_actors`; returns the sums to fetch."""
        why = lines_of(error)[0]
        if call.actor is not None:
            self._lost += 1
            self._ray.kill(call.actor.handle)
        losses[call.subtree] += 1
        if (times := losses[call.subtree]) >= _MOST_LOSSES:
            what = f"the same work or its sum was lost {times} times"
            if call.subtree is None:
                what = f"{times} actors were lost as they started"
            raise InputError(f"ray: {what}: {why}; {RESUME}")
        if self._cluster.lost_actors == "stop":
            what = "an actor" if call.in_flight is None else "a sum on an actor's node"
            raise InputError(f"ray: {what} was lost: {why}; {RESUME}")
        if self._cluster.lost_actors == "replace":
            self._grow()
        if call.in_flight is not None:
            return work.lost_sum(call.in_flight)
        return [] if call.piece is None else work.lost(call.piece)


LOCAL = "local"
"""The address that starts Ray on this machine."""

_LEAST_STORE = 80 * 2**20
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class UnreadRound:
    """The participants of a round, whose data only actors read; `round_index` is from 0."""

    cohort: Cohort
    round_index: int

    @property
    def clients(self) -> IntArray:
        """The indices of the real clients."""
        return self.cohort.clients

    @property
    def canaries(self) -> IntArray:
        """The round's canaries, by their indices in the pool."""
        return self.cohort.canaries


class RaySession:
    """The actors of a run and their Ray, from the first round that needs them until `close`."""

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
        """Where the actors run, for the line that describes an engine."""
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
        """The sum over a round's participants; None without any.

        The call that starts the actors gives them `parts`; `parts` of later calls is ignored.
        """
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
        # Room for two sums of each actor (a finished one and the next), and for a round's weights.
        store = _LEAST_STORE + 8 * self._dim * (2 * actors + 4)
        return ray_on_this_machine(max(num_cores(), actors * cluster.cpus_per_actor), store)

    def close(self) -> None:
        """Ends the actors, and Ray if this run started it."""
        self.actors = None
        self._running.close()


def check_for_ray(run: PreparedRun) -> None:
    """Raises unless a run can be trained on Ray's actors."""
    quiet_ray()  # raises unless Ray is installed
    if isinstance(run.config.mechanism, ClientGaussian):
        raise InputError(
            "mechanism.kind: 'client_gaussian' is not for runtime 'ray'; must be another kind, or "
            "runtime 'local', 'native' or 'jax'"
        )
    _check_cluster(run.config.ray or RayCluster(), run.config.clients_per_block)


def _check_cluster(cluster: RayCluster, clients_per_block: int | None) -> None:
    if cluster.gpus_per_actor and clients_per_block is None:
        raise InputError(
            "clients_per_block: must be set where ray.gpus_per_actor is above 0, so that the "
            "result does not depend on the GPUs that are found; 8 to 64 suit most models"
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
            "prints the address of a cluster"
        ) from error
