"""Ray's processes on this machine: closed to strangers, quiet, and none left after any exit.

Whoever reaches Ray's ports and is let in runs code as this program's user. Left to itself Ray
listens on every interface, asks for nothing and opens its folder to everybody. Here it listens on
the loopback, which other users of the machine reach too, asks for a token that this user alone can
read, and keeps its folder inside one of mode 0700.

Ray's processes ask the kernel to end with this program, but for two agents: they see within two
seconds that it is gone, then try for a minute to tell a server that is gone as well. A guard, which
reads a pipe from this program, ends them, and takes Ray's folder away.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fl_audit.errors import InputError
from fl_audit.progress import doing, lines_to, warn

_PR_SET_PDEATHSIG = 1
_LONGEST_TEMPORARY = 36  # the name of a socket below it has to fit into 107 bytes
_GUARD_SECONDS = 20.0
_LOOPBACK = "127.0.0.1"
_NEEDED = {"gcs_server": "its head (GCS)", "raylet": "its raylet"}

# Run with -I -S -c in a bare interpreter. It waits for the end of its input, then ends what was
# started with the folder's name in its command line, and takes the folder away. The last word of a
# program that ends by itself is a byte. Without it the program was killed, or Ray's C++ ended it in
# the midst of an exchange with a raylet that was gone, which Python is not told.
_GUARD = """
import glob, os, shutil, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)  # what asks all processes to end leaves it to the last
folder = sys.argv[1]
if not sys.stdin.buffer.read():
    print("fl-audit: the program was killed, or Ray ended it as one of its processes was lost; "
          "a run goes on with --resume, a sweep with the same command", file=sys.stderr, flush=True)
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
    quiet_ray()


@contextlib.contextmanager
def ray_on_this_machine(num_cpus: int, store_bytes: int) -> Iterator[Any]:
    """Ray on this machine while the block runs, for this program alone; yields the module.

    Enter it from the main thread: the kernel's death signal follows the thread that started Ray.

    Args:
      num_cpus: The number of CPUs that Ray may give out, whatever the machine has.
      store_bytes: The size of the object store, in bytes; Ray's least is 75 MiB.
    """
    ray = quiet_ray()
    usual = tempfile.gettempdir()
    parent = usual if len(usual) <= _LONGEST_TEMPORARY else "/tmp"
    folder = tempfile.mkdtemp(prefix="fl-", dir=parent)  # 0700; Ray opens its own, inside, to all
    with _guarded(folder), token(Path(folder, "token")):
        try:
            # What actors write to temporary files, and cannot take away when they are killed, goes.
            with silent(), own_signals(), variables(TMPDIR=folder):
                ray.init(
                    address="local",
                    num_cpus=num_cpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                    object_store_memory=store_bytes,
                    _node_ip_address=_LOOPBACK,
                    _temp_dir=f"{folder}/r",
                )
            yield ray
        finally:
            with own_signals():
                ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def ray_at(address: str) -> Iterator[Any]:
    """A Ray cluster that is there already, while the block runs; yields the module.

    What it must provide to be closed to strangers is said in docs/runtimes.md.

    Args:
      address: The address of its head, `host:port`, or `auto` for the cluster of this machine.

    Raises:
      InputError: The cluster asks for another token than this program has, or is not there.
    """
    ray = quiet_ray()
    try:
        with silent(), own_signals():
            _connect(ray, address)
        if not asks_for_token():
            warn(
                f"warning: the Ray cluster at {address} asks for no token: whoever reaches its "
                "ports runs code as its user (docs/runtimes.md)"
            )
        yield ray
    finally:
        with own_signals():
            ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    """Connects to a cluster.

    Raises:
      InputError: The cluster asks for another token than this program has, or is not there.
    """
    from ray._raylet import GcsClient

    try:
        if address != "auto":
            GcsClient(address=address)  # a refusal is known at once, where Ray asks for minutes
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except ray.exceptions.AuthenticationError as error:
        raise InputError(
            f"key `ray.address`: the cluster at {address} asks for a token, and this program has "
            "none or another; RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE hand it over"
        ) from error
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        first = str(error).strip().splitlines()[0]
        raise InputError(f"key `ray.address`: cannot connect to {address}: {first}") from error


def lost_part() -> str | None:
    """The part of Ray without which nothing goes on that has ended; None while all are there.

    To be asked before objects are put and got: with a raylet that is gone Ray's C++ then ends the
    program at once, without a word.
    """
    from ray._private import worker

    node = worker._global_node
    if node is None:
        return None
    dead = {kind for kind, _ in node.dead_processes()}
    for kind, words in _NEEDED.items():
        if kind in dead:
            return words
    raylet = socket.socket(socket.AF_UNIX)
    with raylet:
        return None if raylet.connect_ex(node.raylet_socket_name) == 0 else _NEEDED["raylet"]


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
            with contextlib.suppress(OSError):
                guard.stdin.write(b".")
                guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_GUARD_SECONDS)


def node_of_this_process() -> str:
    """The machine of the cluster on which an actor, or a program that is connected, runs."""
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def end_with_parent() -> None:
    """Asks the kernel to kill this process where Ray's, which started it, ends.

    Left alone it would go on for the seconds in which TensorFlow comes to an end.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


# What Ray takes of this process as it starts: its streams, signals, environment and token.


_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # it would report that nobody collects its metrics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions do; without it a warning
    "RAY_worker_niceness": "0",  # Ray would give way to every other program
    "RAY_prestart_worker_first_driver": "0",  # its workers would be started for nothing
}


def quiet_ray() -> Any:
    """Ray's module, imported with `_ENVIRONMENT` where that does not say otherwise already."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextlib.contextmanager
def token(path: Path) -> Iterator[None]:
    """Has the Ray that is started in the block ask for a token, which only this user can read.

    Args:
      path: The file for the token; it is removed with the folder in which it lies.
    """
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secrets.token_hex(32))
    with contextlib.ExitStack() as ended:
        ended.callback(_read_token_anew)
        ended.enter_context(
            variables(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(path), RAY_AUTH_TOKEN=None)
        )
        _read_token_anew()
        yield


def _read_token_anew() -> None:
    """Has Ray read again whether and which token it has to show, which it does once otherwise."""
    from ray._raylet import AuthenticationTokenLoader, Config

    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


def asks_for_token() -> bool:
    """Whether the Ray that this program is connected to asks for a token, as this program does."""
    from ray._raylet import AuthenticationMode, get_authentication_mode

    return bool(get_authentication_mode() != AuthenticationMode.DISABLED)


@contextlib.contextmanager
def own_signals() -> Iterator[None]:
    """Leaves SIGTERM and SIGINT with those who handled them before the block, as far as it can.

    Ray takes SIGTERM over twice: in Python, to end the program, and in C++, to print its stack.
    """
    from ray._private import utils

    if threading.current_thread() is not threading.main_thread():
        yield  # Ray leaves signals alone there
        return
    utils.set_sigterm_handler = lambda _: None
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one of C, which Python cannot set again
                signal.signal(number, handler)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Ray writes nothing as it starts inside the block, nor to standard output afterwards.

    Its C++ tells on standard error how it logs. A thread of its own prints warnings, such as of
    many workers or of a lost node, on standard output, whatever it was told about logs.
    """
    from ray._private import worker

    worker.listen_error_messages = lambda *_: None
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with os.fdopen(os.dup(stderr), "w", 1) as lines, lines_to(lines), doing("starting Ray"):
            yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


@contextlib.contextmanager
def variables(**values: str | None) -> Iterator[None]:
    """Sets variables of the environment, or unsets them, for what is started inside the block."""
    before = {name: os.environ.get(name) for name in values}
    _set_variables(values)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
