"""Ray's processes on this machine: closed to other users, quiet, and none left after any exit.

Anyone who can connect to Ray's ports runs code as this program's user. By default Ray listens on
every interface, asks for no token and makes its folder readable by everybody. Here it listens on
the loopback, which other users of the machine can reach too; so Ray asks for a token that only this
user can read, and Ray's folder lies inside a folder of mode 0700.

Ray's processes ask the kernel to end with this program, except for two agents. Within two seconds
the agents notice that all other processes have gone, and then try for a minute to report to one of
these processes. A guard process, which reads a pipe from this program, kills the agents and deletes
Ray's folder.

All that uses Ray's private modules (`ray._private`, `ray._raylet`) is here.
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

from fl_audit.errors import InputError, lines_of
from fl_audit.progress import doing, lines_to, warn

_PR_SET_PDEATHSIG = 1
_LONGEST_TEMPORARY = 36  # short, because socket names below it must fit into 107 bytes
_GUARD_SECONDS = 20.0
_LOOPBACK = "127.0.0.1"
_NEEDED = {"gcs_server": "its head (GCS)", "raylet": "its raylet"}

# Run with -I -S -c in a bare interpreter. It waits for the end of its input, then kills every
# process with the folder as its TMPDIR, as only Ray's processes have (the command line of others
# may name the folder), and deletes the folder. A program that exits normally writes one byte first.
# If that byte is missing, the program was killed, or Ray's C++ ended it while it talked to a dead
# raylet, which Python cannot notice.
_GUARD = """
import glob, os, shutil, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)  # signals that end the whole group must not end this
folder = sys.argv[1]
ours = b"TMPDIR=" + folder.encode()
if not sys.stdin.buffer.read():
    print("fl-audit: the program was killed, or Ray ended it as one of its processes was lost; "
          "a run goes on with --resume, a sweep with the same command", file=sys.stderr, flush=True)
for _ in range(100):
    found = False
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if ours not in file.read().split(bytes(1)):
                    continue
            os.kill(int(path.split("/")[2]), signal.SIGKILL)
            found = True
        except OSError:
            pass
    if not found:
        break
    time.sleep(0.05)
shutil.rmtree(folder, ignore_errors=True)
"""


@contextlib.contextmanager
def ray_on_this_machine(num_cpus: int, store_bytes: int) -> Iterator[Any]:
    """Starts Ray for this program alone and yields its module; must be in the main thread."""
    ray = quiet_ray()
    usual = tempfile.gettempdir()
    parent = usual if len(usual) <= _LONGEST_TEMPORARY else "/tmp"
    # The outer folder has mode 0700, because Ray's own folder inside is world-readable.
    folder = tempfile.mkdtemp(prefix="fl-", dir=parent)
    with _guarded(folder), token(Path(folder, "token")):
        try:
            # TMPDIR: temporary files of killed actors are deleted with the folder, and the guard
            # recognises Ray's processes by this variable.
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
    """Connects to a running cluster (secured as in docs/runtimes.md); yields the module `ray`."""
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
    from ray._raylet import GcsClient

    try:
        if address != "auto":
            GcsClient(address=address)  # fails at once, whereas ray.init retries for minutes
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except ray.exceptions.AuthenticationError as error:
        raise InputError(
            f"key `ray.address`: the cluster at {address} asks for a token, and this program has "
            "none or a wrong one; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE"
        ) from error
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        raise InputError(
            f"key `ray.address`: cannot connect to {address}: {lines_of(error)[0]}"
        ) from error


def lost_part() -> str | None:
    """Name of the Ray process that died (GCS or raylet), or None.

    Call it before objects are put or fetched: without the raylet, Ray's C++ ends the program at
    such a call, without a message.
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
    """Starts the guard; after the block, ends it and waits."""
    command = [sys.executable, "-I", "-S", "-c", _GUARD, folder]
    # In a new session, because Ctrl-C must not end the guard before Ray.
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
    """Ray's id of the node on which this actor or connected program runs."""
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def end_with_parent() -> None:
    """Has the kernel kill this process with its raylet; TensorFlow takes seconds to exit."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


# Process state that Ray changes or reads at its start: environment, token, signals and streams.

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # else it logs that its metrics are not collected
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default of later versions; unset, Ray warns
    "RAY_worker_niceness": "0",  # by default Ray's workers run at niceness 15
    "RAY_prestart_worker_first_driver": "0",  # else it starts workers that are never used
}


def quiet_ray() -> Any:
    """Imports Ray with `_ENVIRONMENT`; variables that are already set are kept.

    Raises ModuleNotFoundError unless Ray is installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextlib.contextmanager
def token(path: Path) -> Iterator[None]:
    """Makes a Ray started in the block ask for a new token, written to `path` with mode 0600."""
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
    """Makes Ray reload its authentication token, which Ray otherwise reads once."""
    from ray._raylet import AuthenticationTokenLoader, Config

    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


def asks_for_token() -> bool:
    """Whether the connected Ray uses token authentication."""
    from ray._raylet import AuthenticationMode, get_authentication_mode

    return bool(get_authentication_mode() != AuthenticationMode.DISABLED)


@contextlib.contextmanager
def own_signals() -> Iterator[None]:
    """Keeps this program's handlers of SIGTERM and SIGINT.

    Ray replaces the handler of SIGTERM twice: in Python, to end the program, and in C++, to print
    its stack.
    """
    from ray._private import utils

    if threading.current_thread() is not threading.main_thread():
        yield  # Ray sets no handlers there
        return
    utils.set_sigterm_handler = lambda _: None
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: set in C, which Python cannot restore
                signal.signal(number, handler)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Suppresses Ray's startup output, and its later output to stdout.

    Ray's C++ code describes its logging on stderr. A Python thread prints warnings, such as of many
    workers or of a lost node, on stdout, whatever the log settings.
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
    """Sets environment variables, or unsets those that are None, while the block runs."""
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
