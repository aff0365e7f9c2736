"""Actors that come, work and are lost, with a stand-in for Ray in this process."""

import functools
import itertools
import types

import numpy as np
import pytest

from fl_audit.config import RayCluster
from fl_audit.engines.ray.actors import Actors
from fl_audit.engines.ray.tree_sum import Subtree, TreeSum, shards_of
from fl_audit.engines.ray.worker import ClientWorker, Sent, WorkerSetup
from fl_audit.errors import InputError
from fl_audit.participation import Cohort

SETUP = WorkerSetup(version="", config="", cpus=1, gpus=0.0, parts={})


class LostError(Exception):
    """Stands for Ray's errors."""


class ToldError(LostError):
    """Stands for Ray's error that holds what an actor raised."""

    def __init__(self, cause):
        super().__init__()
        self.cause = cause


class StandIn:
    """What is used of Ray's module; calls are done when waited for: loads, then the newest."""

    exceptions = types.SimpleNamespace(RayError=LostError, RayTaskError=ToldError)

    def __init__(self, fails=lambda call, subtree: None, cpus=(8,), on_nodes=("here",)):
        self.fails, self.cpus, self.on_nodes = fails, cpus, on_nodes
        self.calls, self.started, self.killed, self.gone = [], 0, [], set()

    def get_runtime_context(self):
        return types.SimpleNamespace(get_node_id=lambda: "here")

    def put(self, value):
        return value

    def remote(self, **resources):
        del resources
        return lambda worker: types.SimpleNamespace(remote=self._start)

    def _start(self):
        alive = [node for node in self.on_nodes if node not in self.gone]
        node = alive[self.started % len(alive)]
        self.started += 1

        def total(sent, subtree, below):
            del sent
            sums = functools.cache(lambda: self._sums(subtree, below))
            reached = self._called("total", subtree, node, lambda: sums()[0])
            return reached, self._called("made", subtree, node, lambda: sums()[1])

        def merge(earlier, later):
            both = functools.cache(lambda: self.get(earlier) + self.get(later))
            return self._called("merge", None, node, both)

        return types.SimpleNamespace(
            load=_method(lambda *_: self._called("load", None, node, lambda: node)),
            total=types.SimpleNamespace(options=lambda num_returns: _method(total)),
            merge=_method(merge),
        )

    def _called(self, *call):
        self.calls.append(call)
        return len(self.calls) - 1

    def wait(self, calls, timeout):
        del timeout
        if self.fails("wait", None):
            return [], calls
        loads = [call for call in calls if self.calls[call][0] == "load"]
        first = (loads or calls)[-1]
        return [first], [call for call in calls if call != first]

    def get(self, call):
        kind, subtree, node, result = self.calls[call]
        if error := self.fails(kind, subtree):
            raise error
        if node in self.gone:
            raise LostError("its machine is gone")
        return result()

    def _sums(self, subtree, below):
        tree = TreeSum(11, np.add)
        for leaf, shard in zip(subtree.shards(11), below, strict=True):
            tree.add(Subtree(0, leaf), np.float32(_value(shard)))
        return tree.single

    def kill(self, actor):
        self.killed.append(actor)

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": cpus}} for cpus in self.cpus]


def _method(function):
    return types.SimpleNamespace(remote=function)


def _value(shard):
    """A number whose sums depend on their order."""
    random = np.random.default_rng(shard.clients)
    return np.float32(random.standard_normal() * 10.0 ** random.integers(0, 8))


def _total(ray, **keys):
    actors = Actors(ray, RayCluster(**keys), SETUP, ClientWorker, lost=lambda: None)
    shards = shards_of(Cohort(np.arange(41), np.arange(2)), 4)
    assert len(shards) == 11
    total = actors.total(Sent(0, [], [], 1.0, 11), shards, np.add)
    again = actors.total(Sent(1, [], [], 1.0, 11), shards, np.add)
    assert total == again
    return total


def _always_lost_first(times):
    """Loses the first calls of work, so many."""
    left = itertools.count()
    return lambda kind, subtree: (
        LostError("gone") if kind == "total" and next(left) < times else None
    )


@pytest.mark.parametrize("actors", [1, 2, 5, 16])
def test_the_sum_does_not_depend_on_the_number_of_actors(actors):
    assert _total(StandIn(), actors=actors) == _total(StandIn(), actors=3)


@pytest.mark.parametrize("nodes", [("a",), ("a", "b"), ("here", "a", "a"), ("a", "a", "b")])
def test_nor_on_the_machines_where_they_are(nodes):
    ray = StandIn(on_nodes=nodes)
    assert _total(ray, actors=5) == _total(StandIn(), actors=3)
    assert any(kind == "merge" for kind, *_ in ray.calls)


def test_sums_that_are_lost_with_a_machine_are_made_again():
    ray = StandIn(on_nodes=("a", "b"))
    merges = itertools.count()

    def lose_a_machine(kind, subtree):
        if kind == "merge" and next(merges) == 0:
            ray.gone.add("a")

    ray.fails = lose_a_machine
    assert _total(ray, actors=4) == _total(StandIn(), actors=1)
    assert ray.gone == {"a"}
    whole = StandIn(on_nodes=("a", "b"))
    _total(whole, actors=4)
    assert _pieces(ray) > _pieces(whole)


def test_a_merging_that_is_lost_costs_no_client_anything():
    left = itertools.count()
    ray = StandIn(
        lambda kind, subtree: LostError("gone") if kind == "merge" and next(left) == 0 else None,
        on_nodes=("a",),
    )
    assert _total(ray, actors=4) == _total(StandIn(), actors=1)
    whole = StandIn(on_nodes=("a",))
    _total(whole, actors=4)
    assert _pieces(ray) == _pieces(whole)


def _pieces(ray):
    """How often clients' work was done."""
    return sum(kind == "total" for kind, *_ in ray.calls)


def test_lost_actors_are_replaced_and_their_work_is_done_again():
    ray = StandIn(_always_lost_first(2))
    assert _total(ray, actors=4) == _total(StandIn(), actors=1)
    assert (ray.started, len(ray.killed)) == (6, 2)


def test_a_loss_may_stop_the_run():
    with pytest.raises(
        InputError, match=r"^ray: an actor was lost: gone; once .* --resume continues"
    ):
        _total(StandIn(_always_lost_first(1)), actors=4, lost_actors="stop")


def test_when_all_are_lost_and_none_is_replaced_the_run_stops():
    with pytest.raises(InputError, match=r"^ray: no actor is left \(2 lost, 0 not started"):
        _total(StandIn(_always_lost_first(9)), actors=2, lost_actors="do_without")


def test_work_that_kills_every_actor_stops_the_run():
    ray = StandIn(lambda kind, subtree: LostError("memory") if subtree == Subtree(0, 10) else None)
    with pytest.raises(InputError, match=r"^ray: the same work or its sum was lost 3 times: memo"):
        _total(ray, actors=8)


def test_a_sum_that_is_lost_stops_the_run_as_a_sum_and_not_as_an_actor():
    ray = StandIn(lambda kind, subtree: LostError("gone") if kind == "made" else None)
    with pytest.raises(InputError, match=r"^ray: a sum on an actor's node was lost: gone; once"):
        _total(ray, actors=2, lost_actors="stop")
    with pytest.raises(InputError, match=r"^ray: the same work or its sum was lost 3 times: gone;"):
        _total(ray, actors=2)


def test_actors_that_never_start_stop_the_run():
    ray = StandIn(lambda kind, subtree: LostError() if kind == "load" else None)
    with pytest.raises(InputError, match=r"^ray: 3 actors were lost as they started: LostError;"):
        _total(ray, actors=2)


def test_what_an_actor_says_is_raised_as_it_is():
    ray = StandIn(
        lambda kind, subtree: ToldError(InputError("a.csv: is gone")) if subtree else None
    )
    with pytest.raises(InputError, match=r"^a\.csv: is gone$"):
        _total(ray, actors=1)


def test_by_default_there_are_as_many_actors_as_there_is_room_for():
    ray = StandIn(cpus=(8, 3, 0))
    _total(ray, cpus_per_actor=2)
    assert ray.started == 5
    ray = StandIn(cpus=(8,))
    actors = Actors(ray, RayCluster(), SETUP, ClientWorker, lost=lambda: None)
    ray.cpus = (8, 2)
    actors.total(Sent(0, [], [], 1.0, 11), shards_of(Cohort(np.arange(44), []), 4), np.add)
    assert ray.started == 10
