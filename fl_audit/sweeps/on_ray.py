"""Runs as tasks of Ray on this machine, so many at a time, a process for each of these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_audit.config.file import config_to_toml
from fl_audit.cores import num_cores
from fl_audit.engines.ray_cluster import lost_part, ray_on_this_machine
from fl_audit.errors import InputError
from fl_audit.sweeps.grid import SweepRun
from fl_audit.sweeps.states import RunState
from fl_audit.sweeps.worker import one_run
from fl_audit.tasks.kinds import PythonTask

MEMORY_OF_A_RUN = 2 * 2**30
"""The memory that a run is taken to need where `--jobs` does not say how many run at a time."""

RUNS_OF_A_PROCESS = 8
"""The runs that a process makes one after another. All but the first find TensorFlow imported; then
a new process takes over, as the memory of graphs is not given back (80 MB a quickstart)."""

_CALL_AGAIN = "the same command makes the runs that are left, and goes on with those at work"
_SECONDS_BETWEEN_LOOKS = 0.5
_OBJECT_STORE = 80 * 2**20  # what travels is a config and a line; this is Ray's least

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


def runs_of_a_process(work: Sequence[Work], gpus: int) -> int:
    """How many runs a process makes; the next one is then made by a new process.

    TensorFlow keeps a GPU's memory until its process ends, and what a module of the user's own
    keeps from one run to the next is not known: there each run has a process of its own.

    Args:
      work: The runs to come, and their states.
      gpus: The GPUs of the machine.
    """
    has_own_code = any(
        bool(run.config.plugins) or isinstance(run.config.task, PythonTask) for run, _ in work
    )
    return 1 if gpus or has_own_code else RUNS_OF_A_PROCESS


def run_on_ray(
    work: Sequence[Work],
    shared: Path,
    jobs: int | None,
    ended: Callable[[RunState], None],
    look: Callable[[Sequence[RunState]], None],
) -> None:
    """Runs all that is given, `jobs` at a time; a run that fails does not keep others from going.

    Args:
      work: The runs, and their states.
      shared: The folder of what they read alike.
      jobs: The number of runs at a time; None lets the machine decide.
      ended: A function that is called with the state of each run as it ends.
      look: A function that is called every half second with the runs that are at work.

    Raises:
      InputError: Ray itself has come to an end.
    """
    cores = num_cores()
    with ray_on_this_machine(max(cores, jobs or 1), _OBJECT_STORE) as ray:
        resources = ray.cluster_resources()
        gpus, memory = (int(resources.get(kind, 0)) for kind in ("GPU", "memory"))
        share = share_of(jobs, cores, gpus, memory, len(work))
        task = ray.remote(
            num_cpus=share.cores,
            num_gpus=share.gpus,
            max_calls=runs_of_a_process(work, gpus),
            max_retries=0,
        )(one_run)
        waiting = list(reversed(work))
        at_work: dict[Any, RunState] = {}
        while waiting or at_work:
            while waiting and len(at_work) < share.jobs:
                run, state = waiting.pop()
                config, places = config_to_toml(run.config), (state.folder, shared)
                folders = [str(place.resolve()) for place in places]
                future = task.remote(config, *folders, share.cores, share.gpus)
                at_work[future] = state
            done, _ = ray.wait(list(at_work), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            if (part := lost_part()) is not None:
                raise InputError(f"Ray cannot go on, as {part} has ended; {_CALL_AGAIN}")
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
