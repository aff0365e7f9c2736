"""The runtimes by the names that a config gives them.

Nothing here imports TensorFlow before a runtime is made, so that the name in a config can be
checked without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.errors import InputError, nearest

if TYPE_CHECKING:
    from fl_audit.training.run.prepare import PreparedRun
    from fl_audit.training.runtimes.runtime import Runtime

AUTO = "auto"
"""The name that asks for the first runtime that can run the process."""


class CannotRunError(Exception):
    """A runtime cannot run the process of a run; the text says why."""


@dataclass(frozen=True)
class RuntimeKind:
    """Everything that is known of one runtime.

    Attributes:
      name: The name of the runtime in a config.
      make: A function that makes the runtime of a prepared run, from the run, the file that a
        worker's output is appended to, and why the runtime was chosen. It raises a `CannotRunError`
        where it cannot run the run's process, and an `InputError` where the config asks for what it
        does not have.
      takes_blocks: Whether the runtime can train clients in blocks; where it cannot, a config that
        asks for it by name and sets `clients_per_block` is refused.
    """

    name: str
    make: Callable[["PreparedRun", Path, str], "Runtime"]
    takes_blocks: bool


def _local(run: "PreparedRun", worker_log: Path, why: str) -> "Runtime":
    from fl_audit.training.runtimes.local import make_local
    from fl_audit.training.runtimes.local_runtime import NotLocalError

    del worker_log, why  # it has no worker, and needs no reason to be chosen
    try:
        return make_local(run)
    except NotLocalError as error:
        raise CannotRunError(str(error)) from error


def _native(run: "PreparedRun", worker_log: Path, why: str) -> "Runtime":
    from fl_audit.training.runtimes.native import make_native

    return make_native(run, worker_log, why)


def _ray(run: "PreparedRun", worker_log: Path, why: str) -> "Runtime":
    from fl_audit.training.on_ray.runtime import make_ray
    from fl_audit.training.runtimes.local_runtime import NotLocalError

    del worker_log, why  # Ray keeps its own logs, and is never chosen without being asked for
    try:
        return make_ray(run)
    except NotLocalError as error:
        raise CannotRunError(str(error)) from error


LOCAL = RuntimeKind("local", _local, takes_blocks=True)
NATIVE = RuntimeKind("native", _native, takes_blocks=False)
RAY = RuntimeKind("ray", _ray, takes_blocks=True)

RUNTIMES: dict[str, RuntimeKind] = {kind.name: kind for kind in (LOCAL, NATIVE, RAY)}
"""All runtimes, in the order in which `auto` tries them; `native` can run any process."""


def check_runtime_name(name: str, source: str) -> None:
    """Raises an `InputError` where a config asks for an unknown runtime.

    Args:
      name: The value of the config's key `runtime`.
      source: The name of the config in the message.
    """
    known = (AUTO, *RUNTIMES)
    if name not in known:
        raise InputError(f"{source}: key `runtime`: unknown {name!r}; {nearest(name, known)}")
