"""Runs as tasks of Ray on this machine, so many at a time, each in a process of its own.

Ray's processes end with this one, however it ends: they ask the kernel for it, but for two helpers
that look for their parent and are gone within about a minute of a `kill -9`.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_audit.config.file import config_to_toml
from fl_audit.cores import num_cores
from fl_audit.sweeps.grid import SweepRun
from fl_audit.sweeps.states import RunState
from fl_audit.sweeps.worker import one_run

MEMORY_OF_A_RUN = 2 * 2**30
"""The memory that a run is taken to need where `--jobs` does not say how many run at a time."""

_SECONDS_BETWEEN_LOOKS = 0.5
_LONGEST_TEMPORARY = 40  # the name of a socket below it has to fit into 107 bytes
_OBJECT_STORE = 80 * 2**20  # what travels is a config and a line; this is Ray's least

_RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # it would report that nobody collects its metrics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions do; without it a warning
    "RAY_worker_niceness": "0",  # Ray would give way to every other program
    "RAY_prestart_worker_first_driver": "0",  # runs are few and long
}

Work = tuple[SweepRun, RunState]


@dataclass(frozen=True)
class Share:
    """What one run of a sweep may use of the machine.

    Attributes:
      jobs: The number of runs at a time.
      cores: The number of cores of each, at least 1.
      gpus: The number of GPUs of each; a part of one where runs share it, 0 without a GPU.
    """

    jobs: int
    cores: int
    gpus: float


def share_of(jobs: int | None, cores: int, gpus: int, memory: int, runs: int) -> Share:
    """What each run may use.

    Args:
      jobs: The number of runs at a time; None takes one a GPU, or without a GPU one a core, as far
        as the memory goes.
      cores: The cores of the machine.
      gpus: Its GPUs.
      memory: Its free memory, in bytes.
      runs: The number of runs to come.
    """
    most = max(1, min(gpus or cores, memory // MEMORY_OF_A_RUN))
    at_a_time = min(most if jobs is None else jobs, max(runs, 1))
    is_shared = gpus < at_a_time
    gpu_share = int(gpus / at_a_time * 1e4) / 1e4 if is_shared else float(gpus // at_a_time)
    return Share(at_a_time, max(1, cores // at_a_time), gpu_share)


def check_ray() -> None:
    """Checks that Ray is installed.

    Raises:
      ModuleNotFoundError: It is not.
    """
    import ray

    del ray


def run_on_ray(
    work: Sequence[Work],
    jobs: int | None,
    ended: Callable[[RunState], None],
    look: Callable[[Sequence[RunState]], None],
) -> None:
    """Runs all that is given, `jobs` at a time; a run that fails does not keep others from going.

    Args:
      work: The runs, and their states.
      jobs: The number of runs at a time; None lets the machine decide.
      ended: A function that is called with the state of each run as it ends.
      look: A function that is called every half second with the runs that are at work.
    """
    cores = num_cores()
    with _machine(max(cores, jobs or 1)) as (ray, resources):
        share = share_of(
            jobs,
            cores,
            int(resources.get("GPU", 0)),
            int(resources.get("memory", 0)),
            len(work),
        )
        # A process a run: TensorFlow gives back neither memory nor a GPU before its process ends.
        task = ray.remote(num_cpus=share.cores, num_gpus=share.gpus, max_calls=1, max_retries=0)(
            one_run
        )
        waiting = list(reversed(work))
        at_work: dict[Any, RunState] = {}
        while waiting or at_work:
            while waiting and len(at_work) < share.jobs:
                run, state = waiting.pop()
                config = config_to_toml(run.config)
                future = task.remote(config, str(state.folder.resolve()), share.cores, share.gpus)
                at_work[future] = state
            done, _ = ray.wait(list(at_work), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            for future in done:
                state = at_work.pop(future)
                ended(state.ended(_error_of(ray, future)))
            look(list(at_work.values()))


def _error_of(ray: Any, future: Any) -> str | None:
    """Why a run failed; None where it did not."""
    try:
        error: str | None = ray.get(future)
    except ray.exceptions.RayError as lost:
        first = str(lost).strip().splitlines()[0]
        return f"its process ended before the run did: {first}"
    return error


@contextlib.contextmanager
def _machine(num_cpus: int) -> Iterator[tuple[Any, dict[str, float]]]:
    """Ray on this machine while the block runs, and the resources that it found."""
    for name, value in _RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    usual = tempfile.gettempdir()
    parent = usual if len(usual) <= _LONGEST_TEMPORARY else "/tmp"
    folder = tempfile.mkdtemp(prefix="fl-", dir=parent)
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=_OBJECT_STORE,
            _temp_dir=folder,
        )
        yield ray, ray.cluster_resources()
    finally:
        ray.shutdown()
        shutil.rmtree(Path(folder), ignore_errors=True)
