"""The actors of a run: started, given work, replaced when they are lost."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fl_audit.config import RayCluster
from fl_audit.errors import InputError
from fl_audit.participation import Cohort
from fl_audit.training.on_ray.client_worker import Arrays, ClientWorker, Sent, WorkerSetup
from fl_audit.training.on_ray.shards import Node, OpenWork, TreeSum

_SECONDS_BETWEEN_LOOKS = 1.0
_LOSSES_IN_A_ROW = 3
"""How many actors may be lost at one piece of work, or while they start, before the run stops."""

RESUME = "once that is mended, --resume goes on from the last checkpoint"

Merge = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class _Call:
    """A call that an actor is busy with: its loading, or the work of a node."""

    actor: Any
    node: Node | None = None


class Actors:
    """The actors of a run, and what each is busy with."""

    def __init__(
        self,
        ray: Any,
        cluster: RayCluster,
        setup: WorkerSetup,
        worker: type[Any] = ClientWorker,
    ) -> None:
        """Starts as many actors as the config asks for, or as there is room for.

        Args:
          ray: Ray's module, connected.
          cluster: The config's table.
          setup: What makes an actor one of the run.
          worker: The class of the actors, with the methods of `ClientWorker`.
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
        self._idle: list[Any] = []
        self._lost = 0
        self._grow()

    def total(self, sent: Sent, shards: Sequence[Cohort], merge: Merge) -> Any:
        """The sum over all shards of a round, in the order of the tree.

        Args:
          sent: What the round sends to every actor.
          shards: The shards of the cohort, at least one.
          merge: A function that adds the sum of later shards to that of earlier ones.

        Raises:
          InputError: An actor cannot read its data, or no actor is left.
        """
        if self._cluster.lost_actors == "replace":
            self._grow()
        work, tree = OpenWork(len(shards)), TreeSum[Any](len(shards), merge)
        put = self._ray.put(sent)
        losses: Counter[Node | None] = Counter()
        done: list[tuple[Node, Arrays]] = []
        while work.is_open or self._at_work:
            self._give_work(put, work, shards)
            # What has come is added while the actors work.
            while done:
                tree.add(*done.pop())
            call, result = self._next_end()
            if isinstance(result, BaseException):
                self._after_loss(call, result, work, losses)
                continue
            self._idle.append(call.actor)
            if call.node is not None:
                done.append(result)
        while done:
            tree.add(*done.pop())
        return tree.single[1]

    @property
    def all(self) -> list[Any]:
        """The handles of all actors, at work or not."""
        return [*self._idle, *(call.actor for call in self._busy.values())]

    @property
    def num_loading(self) -> int:
        """The number of actors that had not loaded the task when the last round ended."""
        return sum(call.node is None for call in self._busy.values())

    def close(self) -> None:
        """Ends the actors."""
        for actor in self.all:
            self._ray.kill(actor)
        self._idle, self._busy = [], {}

    @property
    def _at_work(self) -> bool:
        return any(call.node is not None for call in self._busy.values())

    @property
    def _count(self) -> int:
        return len(self._idle) + len(self._busy)

    def _grow(self) -> None:
        """Starts the actors that are missing."""
        wanted = self._cluster.actors or max(self._room(), 1)
        for _ in range(wanted - self._count):
            actor = self._class.remote()
            call = actor.load.remote(self._setup, self._cluster.gpus_per_actor > 0)
            self._busy[call] = _Call(actor)

    def _room(self) -> int:
        """How many actors the living nodes have room for."""
        needs = {"CPU": self._cluster.cpus_per_actor, "GPU": self._cluster.gpus_per_actor}
        return sum(
            min(int(node["Resources"].get(kind, 0) / need) for kind, need in needs.items() if need)
            for node in self._ray.nodes()
            if node["Alive"]
        )

    def _give_work(self, sent: Any, work: OpenWork, shards: Sequence[Cohort]) -> None:
        """Gives every idle actor a node, as far as there are any."""
        while self._idle and (node := work.take(self._count)) is not None:
            actor = self._idle.pop()
            below = [shards[index] for index in node.shards(len(shards))]
            self._busy[actor.total.remote(sent, node, below)] = _Call(actor, node)

    def _next_end(self) -> tuple[_Call, Any]:
        """The next call that ends, and its result, or the error by which its actor was lost.

        Raises:
          InputError: There has been no actor for longer than the config allows, or an actor says
            what is wrong with the run.
        """
        began = time.monotonic()
        while True:
            calls = list(self._busy)
            ended, _ = self._ray.wait(calls, timeout=_SECONDS_BETWEEN_LOOKS) if calls else ([], [])
            if ended:
                return self._busy.pop(ended[0]), self._result(ended[0])
            is_none_ready = not self._at_work
            if not calls or (
                is_none_ready and time.monotonic() - began > self._cluster.wait_seconds
            ):
                raise InputError(self._why_none())

    def _result(self, call: Any) -> Any:
        """The result of a call, or the error by which its actor was lost."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:  # the actor lives, and says what is wrong
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except errors.RayError as error:
            return error

    def _why_none(self) -> str:
        asked = f"{self._cluster.cpus_per_actor} CPUs and {self._cluster.gpus_per_actor:g} GPUs"
        return (
            f"ray: no actor is there to work ({self._lost} lost, {len(self._busy)} not started; "
            f"the cluster has room for {self._room()} of {asked}); {RESUME}"
        )

    def _after_loss(
        self, call: _Call, error: BaseException, work: OpenWork, losses: Counter[Node | None]
    ) -> None:
        """Gives back a lost actor's work, and does what the config says.

        Raises:
          InputError: The config says that the run stops, or this work has taken several actors.
        """
        self._lost += 1
        self._ray.kill(call.actor)
        why = str(error).strip().splitlines()[0]
        losses[call.node] += 1
        if losses[call.node] >= _LOSSES_IN_A_ROW:
            at = "as they started" if call.node is None else "at the same work"
            raise InputError(f"ray: {losses[call.node]} actors were lost {at}: {why}; {RESUME}")
        if call.node is not None:
            work.give_back(call.node)
        if self._cluster.lost_actors == "stop":
            raise InputError(f"ray: an actor was lost: {why}; {RESUME}")
        if self._cluster.lost_actors == "replace":
            self._grow()
