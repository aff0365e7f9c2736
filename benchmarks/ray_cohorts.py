"""Rounds on Ray's actors: beside one process, and with sleeps for the clients' work.

`python -m benchmarks.ray_cohorts` by hand, where the extra `ray` is installed; about ten minutes on
two idle cores. `python -m benchmarks.ray_cohorts jax` has clients trained in JAX, and needs no
TensorFlow. It is no part of `make bench`, whose environment has no Ray.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # as `fl-audit run` does
os.environ["FL_AUDIT_BENCHMARK"] = str(os.getpid())  # by which Ray's processes are found

import msgspec
import numpy as np

from benchmarks.timing import wall_time
from fl_audit.config import Canaries, Config, FedAvg, GaussianFixed, RayCluster, Shuffle
from fl_audit.engines.ray.actors import Actors
from fl_audit.engines.ray.cluster import node_of_this_process, ray_on_this_machine
from fl_audit.engines.ray.tree_sum import OpenWork, Subtree, TreeSum, shards_of
from fl_audit.engines.ray.worker import Arrays, Sent, WorkerSetup
from fl_audit.participation import Cohort
from fl_audit.tasks.task_kinds import PythonTask

ROOT = Path(__file__).parent.parent
LSTM = 4_050_748
SLEEP = 0.14
"""Seconds of sleep for a client; one of four batches of the LSTM takes about twice as long."""


def main() -> None:
    """Prints the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["local", "sleep", "nodes"])
    parser.add_argument("--cohort", type=int, default=48)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dim", type=int, default=LSTM, help="parameters, for what sleeps")
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    arguments = parser.parse_args()
    for one_process in {"local", "jax"} & set(arguments.what):
        beside(one_process, arguments.cohort, arguments.turns)
    if "sleep" in arguments.what:
        with_sleeps(one_machine, arguments.actors, arguments.dim, arguments.turns)
    if "nodes" in arguments.what:
        with_sleeps(many_nodes, arguments.actors, arguments.dim, arguments.turns)


def beside(one_process: str, cohort: int, turns: int) -> None:
    """Prints the times of rounds in one process on two cores and on two actors, in turns.

    Args:
      one_process: The runtime in one process, `local` or `jax`; actors have the same engine.
      cohort: The number of clients.
      turns: The number of rounds of each.
    """
    print(f"A round of {cohort} clients of 4 batches of 16 x 20 words, LSTM, two cores: seconds,")
    print("and seconds of CPU time in all processes")
    with ExitStack() as stack:
        local = stack.enter_context(rounds_of(config_of(one_process, cohort)))
        cluster = RayCluster(engine="jax" if one_process == "jax" else "tff")
        on_ray = msgspec.structs.replace(config_of("ray", cohort), ray=cluster)
        ray = stack.enter_context(rounds_of(on_ray))
        local_cpu, ray_cpu = [], []
        pairs = []
        for _ in range(turns):
            times = []
            for round_, cpu in ((local, local_cpu), (ray, ray_cpu)):
                before = cpu_seconds()
                times.append(wall_time(round_))
                cpu.append(cpu_seconds() - before)
            pairs.append(times)
            ratio = times[0] / times[1]
            print(
                f"  {one_process} {times[0]:6.2f} ({local_cpu[-1]:6.2f})   ray {times[1]:6.2f} "
                f"({ray_cpu[-1]:6.2f})   clients a second: {ratio:.3f} times",
                flush=True,
            )
        ratios = [mine / other for mine, other in pairs]
        per_cpu = [a / b for a, b in zip(local_cpu, ray_cpu, strict=True)]
        print(f"ray over {one_process}, clients a second: {statistics.median(ratios):.3f}", end=" ")
        print(f"({min(ratios):.3f} to {max(ratios):.3f})", end="; ")
        print(f"clients a second of CPU time: {statistics.median(per_cpu):.3f}", end=" ")
        print(f"({min(per_cpu):.3f} to {max(per_cpu):.3f})")


def config_of(runtime: str, cohort: int) -> Config:
    """The config of a run whose cohorts are all of the made-up clients."""
    task = PythonTask(
        module="benchmarks.made_up_task:make",
        folder=str(ROOT),
        options={"cohort": cohort, "batches": 4},
    )
    return Config(
        task=task,
        client=FedAvg(),
        mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=1.0),
        participation=Shuffle(rounds=2, clients_per_round=cohort),
        canaries=Canaries(count=2, family="hadamard"),
        runtime=runtime,
        clients_per_block=1,
    )


@contextmanager
def rounds_of(config: Config) -> Iterator[Callable[[], Any]]:
    """A function that runs the first round of a run, which has been run once before."""
    from fl_audit.engines.prepare import prepare
    from fl_audit.engines.runtimes import make_runtime

    run = prepare(config)
    engine: Any = make_runtime(run, Path(os.devnull))
    read = engine.reader(run)

    def one_round() -> Any:
        # Not engine.session(), which would end the actors.
        with _context_of(engine):
            return engine.run_round(engine.begin(), read(run.schedule.cohort(0), 0), 0)

    with ExitStack() as stack:
        if config.runtime == "ray":
            stack.callback(getattr(engine, "context", engine).on_ray.close)
        one_round()
        yield one_round


def _context_of(engine: Any) -> Any:
    """A block in which TFF's computations run as an engine on TFF has them run."""
    if not hasattr(engine, "context"):
        return nullcontext()
    from fl_audit.engines.tff.compiled import local_runtime

    return local_runtime(engine.context)


def cpu_seconds() -> float:
    """The CPU time of this process and of Ray's actors so far."""
    mark = f"FL_AUDIT_BENCHMARK={os.environ['FL_AUDIT_BENCHMARK']}".encode()
    total = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() or int(process.name) == os.getpid():
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return total


class SleepingWorker:
    """An actor that sleeps for each client and returns a sum as large as the LSTM's."""

    def load(self, setup: WorkerSetup) -> str:
        """Needs nothing; returns the place where it is."""
        return node_of_this_process()

    def total(self, sent: Sent, node: Subtree, shards: Sequence[Cohort]) -> tuple[Subtree, Arrays]:
        """Sleeps, and adds arrays as the LSTM's shards are added."""
        tree = TreeSum[Arrays](sent.num_shards, add)
        for index, shard in zip(node.shards(sent.num_shards), shards, strict=True):
            time.sleep(SLEEP * len(shard.clients))
            tree.add(Subtree(0, index), [np.ones_like(sent.prepared[0])])
        return tree.single

    def merge(self, earlier: Arrays, later: Arrays) -> Arrays:
        """The sum of two sums that lie here."""
        return add(earlier, later)


def add(earlier: Arrays, later: Arrays) -> Arrays:
    """The sum, array by array."""
    return [a + b for a, b in zip(earlier, later, strict=True)]


def with_sleeps(place: Callable[[int], Any], numbers: Sequence[int], dim: int, turns: int) -> None:
    """Prints the median time of a round for growing numbers of actors that sleep."""
    words = " ".join((place.__doc__ or "").split())
    print(f"\nSleeps of {SLEEP} s a client, sums of {4 * dim / 1e6:.1f} MB. {words}")
    print(
        f"{'actors':>8}{'clients':>9}{'sums':>6}{'seconds':>9}{'as fast':>14}{'merge':>8}{'CPU':>7}"
    )
    for actors in numbers:
        clients = 40 * actors
        shards = shards_of(Cohort(np.arange(clients), np.zeros(0, np.int64)), 4)
        with place(actors) as ray:
            setup = WorkerSetup(version="", config="", cpus=1, gpus=0.0, parts={})
            pool = Actors(ray, RayCluster(actors=actors), setup, SleepingWorker)
            while pool.num_loading:  # actors that come late would import while others are timed
                pool.total(Sent(0, [np.zeros(1, np.float32)], [], 1.0, len(shards)), shards, add)
            rounds = [timed_round(pool, shards, dim) for _ in range(1 + turns)][1:]
            pool.close()
        took, merging, cpu = sorted(rounds)[len(rounds) // 2]
        print(
            f"{actors:>8}{clients:>9}{num_sums(len(shards), actors):>6}{took:>9.2f}"
            f"{clients * SLEEP / took:>9.1f} times{merging:>8.2f}{cpu:>7.2f}",
            flush=True,
        )


def timed_round(pool: Actors, shards: Sequence[Cohort], dim: int) -> tuple[float, float, float]:
    """The seconds of a round, those of them in which the driver merges, and its CPU time."""
    merging: list[float] = []

    def merge(earlier: Arrays, later: Arrays) -> Arrays:
        began = time.perf_counter()
        merged = add(earlier, later)
        merging.append(time.perf_counter() - began)
        return merged

    sent = Sent(0, [np.zeros(dim, np.float32)], [], 1.0, len(shards))
    began, cpu = time.perf_counter(), cpu_seconds()
    pool.total(sent, shards, merge)
    return time.perf_counter() - began, sum(merging), cpu_seconds() - cpu


def num_sums(num_shards: int, actors: int) -> int:
    """How many sums reach the driver in a round."""
    work, count = OpenWork(num_shards), 0
    while work.take(actors) is not None:
        count += 1
    return count


def one_machine(actors: int) -> Any:
    """Ray on this machine."""
    return ray_on_this_machine(actors, 2 * 2**30)


@contextmanager
def many_nodes(actors: int) -> Iterator[Any]:
    """A cluster of nodes with a CPU each, whose stores are apart, on this machine."""
    import tempfile

    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
    with tempfile.TemporaryDirectory(prefix="fl-", dir="/tmp", ignore_cleanup_errors=True) as name:
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 2 * 2**30}
        cluster = Cluster(initialize_head=True, head_node_args={**head, "temp_dir": name})
        for _ in range(actors):
            cluster.add_node(num_cpus=1, object_store_memory=200 * 2**20)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        try:
            yield ray
        finally:
            ray.shutdown()
            cluster.shutdown()


if __name__ == "__main__":
    main()
