"""Ray's processes on this machine: started without noise, and none left after any exit.

Ray's processes ask the kernel to end with this program, but for two agents: they see within two
seconds that it is gone, then try for a minute to tell a server that is gone as well. A guard, which
reads a pipe from this program, ends them, and takes Ray's folder away.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

_PR_SET_PDEATHSIG = 1
_LONGEST_TEMPORARY = 40  # the name of a socket below it has to fit into 107 bytes
_GUARD_SECONDS = 20.0

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # it would report that nobody collects its metrics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions do; without it a warning
    "RAY_worker_niceness": "0",  # Ray would give way to every other program
    "RAY_prestart_worker_first_driver": "0",  # its workers would be started for nothing
}

# Run with -I -S -c in a bare interpreter. It waits for the end of its input, then ends what was
# started with the folder's name in its command line, and takes the folder away.
_GUARD = """
import glob, os, shutil, signal, sys, time
folder = sys.argv[1]
sys.stdin.buffer.read()
for _ in range(100):
    found = False
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as file:
                if pid == os.getpid() or folder.encode() not in file.read():
                    continue
            os.kill(pid, signal.SIGKILL)
            found = True
        except OSError:
            pass
    if not found:
        break
    time.sleep(0.05)
shutil.rmtree(folder, ignore_errors=True)
"""


def check_ray() -> None:
    """Checks that Ray is installed.

    Raises:
      ModuleNotFoundError: It is not.
    """
    import ray

    del ray


@contextlib.contextmanager
def ray_on_this_machine(num_cpus: int, store_bytes: int) -> Iterator[Any]:
    """Ray on this machine while the block runs; yields the module.

    Enter it from the main thread: the kernel's death signal follows the thread that started Ray.

    Args:
      num_cpus: The number of CPUs that Ray may give out, whatever the machine has.
      store_bytes: The size of the object store, in bytes; Ray's least is 75 MiB.
    """
    ray = _quiet_ray()
    usual = tempfile.gettempdir()
    parent = usual if len(usual) <= _LONGEST_TEMPORARY else "/tmp"
    folder = tempfile.mkdtemp(prefix="fl-", dir=parent)
    with _guarded(folder):
        try:
            # What actors write to temporary files, and cannot take away when they are killed, goes.
            with _silent(), _variable("TMPDIR", folder):
                ray.init(
                    address="local",
                    num_cpus=num_cpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                    object_store_memory=store_bytes,
                    _temp_dir=folder,
                )
            yield ray
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def ray_at(address: str) -> Iterator[Any]:
    """A Ray cluster that is there already, while the block runs; yields the module.

    Args:
      address: The address of its head, `host:port`, or `auto` for the cluster of this machine.
    """
    ray = _quiet_ray()
    try:
        with _silent():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        yield ray
    finally:
        ray.shutdown()


def _quiet_ray() -> Any:
    """Ray's module, imported with `_ENVIRONMENT` where that does not say otherwise already."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextlib.contextmanager
def _guarded(folder: str) -> Iterator[None]:
    """Starts the guard, and waits for its end."""
    command = [sys.executable, "-I", "-S", "-c", _GUARD, folder]
    # A session of its own: Ctrl-C must not end it before Ray.
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        if guard.stdin is not None:
            guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_GUARD_SECONDS)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Ray writes nothing as it starts inside the block, nor to standard output afterwards.

    Its C++ tells on standard error how it logs. A thread of its own prints warnings, such as of
    many workers or of a lost node, on standard output, whatever it was told about logs.
    """
    from ray._private import worker

    worker.listen_error_messages = lambda *_: None
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Sets a variable of the environment, for what is started inside the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def place_of_this_process() -> str:
    """The machine of the cluster on which an actor, or a program that is connected, runs."""
    import ray

    place: str = ray.get_runtime_context().get_node_id()
    return place


def end_with_parent() -> None:
    """Asks the kernel to kill this process where Ray's, which started it, ends.

    Left alone it would go on for the seconds in which TensorFlow comes to an end.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
