"""The choice of the runtime that runs the rounds of a run."""

from pathlib import Path

from fl_audit.errors import InputError
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.runtimes.kinds import (
    AUTO,
    NATIVE,
    RAY,
    RUNTIMES,
    CannotRunError,
    RuntimeKind,
    check_runtime_name,
)
from fl_audit.training.runtimes.runtime import Runtime


def make_runtime(run: PreparedRun, worker_log: Path) -> Runtime:
    """The runtime that a config asks for; `auto` takes the first that can run the process.

    Args:
      run: The run, made by `prepare`.
      worker_log: The file that a worker's output would be appended to.

    Raises:
      InputError: The config asks for an unknown runtime, for one that cannot run the process, or
        for clients in blocks that cannot train so.
    """
    check_runtime_name(run.config.runtime, "config")
    if run.config.runtime == AUTO:
        return _first_that_can(run, worker_log)
    return _asked_for(RUNTIMES[run.config.runtime], run, worker_log)


def _asked_for(kind: RuntimeKind, run: PreparedRun, worker_log: Path) -> Runtime:
    if run.config.clients_per_block is not None and not kind.takes_blocks:
        others = " or ".join(repr(other.name) for other in RUNTIMES.values() if other.takes_blocks)
        raise InputError(
            f"clients_per_block: is for runtime {others}; leave it out for {kind.name!r}"
        )
    try:
        return kind.make(run, worker_log, "asked for")
    except CannotRunError as error:
        raise InputError(f"runtime: must be {NATIVE.name!r} for this process: {error}") from error


def _first_that_can(run: PreparedRun, worker_log: Path) -> Runtime:
    if run.config.ray is not None:
        raise InputError(f"runtime: must be {RAY.name!r} for [ray] to be used, is {AUTO!r}")
    refusals: list[str] = []
    for kind in RUNTIMES.values():
        try:
            return kind.make(run, worker_log, "; ".join(refusals))
        except CannotRunError as error:
            refusals.append(f"{kind.name} cannot run this process: {error}")
    raise InputError(f"runtime: {'; '.join(refusals)}")
