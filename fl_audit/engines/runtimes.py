"""The runtimes by their names in a config, and the choice of one for a run.

Engines are imported when a runtime is made, so that the name in a config can be checked without
importing engines.
"""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.engines import CannotRunError
from fl_audit.errors import InputError, nearest
from fl_audit.extras import import_extra
from fl_audit.registry import Registry

if TYPE_CHECKING:  # a runtime's name is checked without importing an engine
    from fl_audit.engines.engine import Engine
    from fl_audit.engines.prepare import PreparedRun

AUTO = "auto"
"""The name that selects the first runtime that can run the process."""


@dataclass(frozen=True)
class RuntimeKind:
    """A runtime.

    `make` takes the prepared run, the file for a worker's output, and why this runtime was chosen.
    It raises a `CannotRunError` if the runtime cannot run the run's process, and an `InputError` if
    the config needs an unsupported feature.
    """

    name: str
    make: Callable[["PreparedRun", Path, str], "Engine"]
    takes_blocks: bool  # trains clients in blocks; else `clients_per_block` is refused
    package: str | None = None  # the required package; `auto` skips the runtime without it

    @property
    def is_installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None


def _by(module: str, package: str | None = None) -> Callable[["PreparedRun", Path, str], "Engine"]:
    """The function `make` of an engine's module; a call imports the module and its `package`."""

    def make(run: "PreparedRun", worker_log: Path, why: str) -> "Engine":
        if package is not None:
            import_extra(package)
        imported = importlib.import_module(f"fl_audit.engines.{module}")
        engine: Engine = imported.make(run, worker_log, why)
        return engine

    return make


def _ray(run: "PreparedRun", worker_log: Path, why: str) -> "Engine":
    engine = run.config.ray and run.config.ray.engine
    is_jax = engine == "jax" or (engine is None and not RAY.is_installed)
    make = _by("jax.jax_on_ray", "jax") if is_jax else _by("tff.tff_on_ray")
    return make(run, worker_log, why)


_TFF = "tensorflow_federated"

LOCAL = RuntimeKind("local", _by("tff.local"), takes_blocks=True, package=_TFF)
NATIVE = RuntimeKind("native", _by("tff.native"), takes_blocks=False, package=_TFF)
JAX = RuntimeKind("jax", _by("jax.jax_engine", "jax"), takes_blocks=True, package="jax")
RAY = RuntimeKind("ray", _ray, takes_blocks=True, package=_TFF)

RUNTIMES = Registry[RuntimeKind]("runtime")
"""All runtimes, in the order in which `auto` tries them.

`native` can run any process of TensorFlow Federated, so `auto` gets to `jax` only without that
package.
"""

for _kind in (LOCAL, NATIVE, JAX, RAY):
    RUNTIMES.register(_kind)


def check_runtime_name(name: str, source: str) -> None:
    """Raises an `InputError` for an unknown runtime; `source` names the config."""
    known = (AUTO, *RUNTIMES)
    if name not in known:
        raise InputError(f"{source}: key `runtime`: unknown {name!r}; {nearest(name, known)}")


def make_runtime(run: "PreparedRun", worker_log: Path) -> "Engine":
    """The runtime that a config names; `auto` takes the first that can run the process."""
    name = run.config.runtime
    check_runtime_name(name, "config")
    # Runtimes `local` and `native` ignore [ray], so that a single run can do without Ray.
    if run.config.ray is not None and name in (AUTO, JAX.name):
        raise InputError(
            f"runtime: must be {RAY.name!r} for [ray] to be used, is {name!r}; Ray's actors train "
            "in JAX with ray.engine = 'jax'"
        )
    if name == AUTO:
        return _first_that_can(run, worker_log)
    return _named(RUNTIMES[name], run, worker_log)


def _named(kind: RuntimeKind, run: "PreparedRun", worker_log: Path) -> "Engine":
    if run.config.clients_per_block is not None and not kind.takes_blocks:
        others = " or ".join(repr(other.name) for other in RUNTIMES.values() if other.takes_blocks)
        raise InputError(
            f"clients_per_block: is for runtime {others}; leave it out for {kind.name!r}"
        )
    try:
        return kind.make(run, worker_log, "asked for")
    except CannotRunError as error:
        raise InputError(
            f"runtime: {kind.name!r} cannot run this process: {error}; {AUTO!r} takes the first "
            "that can"
        ) from error


def _first_that_can(run: "PreparedRun", worker_log: Path) -> "Engine":
    installed = [kind for kind in RUNTIMES.values() if kind.is_installed]
    if not installed:
        raise InputError(
            "runtime: nothing that trains is installed; `pip install 'fl-audit[jax]'` trains on "
            "Python 3.11 to 3.13, `make setup` in a checkout brings TensorFlow Federated on 3.11 "
            "(docs/install.md)"
        )
    refusals: list[str] = []
    for kind in installed:
        try:
            return kind.make(run, worker_log, "; ".join(refusals))
        except CannotRunError as error:
            refusals.append(f"{kind.name} cannot run this process: {error}")
    raise InputError(f"runtime: {'; '.join(refusals)}")
