"""TFF's C++ runtime in a worker process that always ends with this program.

TFF starts its worker lazily and leaves it running when Python ends by SIGKILL, SIGTERM or
`os._exit`; a program that reads Python's output then waits for ever. Here the worker, before it
becomes TFF's binary, asks the kernel to be killed with its parent (prctl, PR_SET_PDEATHSIG). The
worker reads no terminal, and writes to its own log file.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import portpicker
import tensorflow_federated as tff

from fl_audit.errors import InputError
from fl_audit.mechanisms.tff_aggregators import NO_SECURE_SUMS
from fl_audit.resources import num_cores

_START_TIMEOUT_SECONDS = 120.0
_STOP_TIMEOUT_SECONDS = 10.0

# Run with -S -c in a bare interpreter, between fork and TFF's binary. PR_SET_PDEATHSIG is 1 and
# SIGKILL is 9; the parent is compared because it may have died before prctl took effect.
_DIE_WITH_PARENT = """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).prctl(1, 9, 0, 0, 0) != 0:
    sys.exit("prctl(PR_SET_PDEATHSIG) failed")
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def _worker_binary() -> Path:
    path = Path(tff.__file__).parent / "data" / "worker_binary"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: tensorflow-federated has no worker binary here")
    return path


def _start_worker(
    log_path: Path, max_concurrent_clients: int
) -> tuple[subprocess.Popen[bytes], int]:
    port = portpicker.pick_unused_port()
    command = [
        *(sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())),
        str(_worker_binary()),
        f"--port={port}",
        f"--max_concurrent_computation_calls={max_concurrent_clients}",
    ]
    with log_path.open("ab") as log:
        # In a new session, because Ctrl-C must not end the worker in the middle of a round.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    return process, port


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _connect(
    process: subprocess.Popen[bytes], port: int, log_path: Path
) -> tff.framework.RemoteExecutorGrpcStub:
    unlimited = [
        ("grpc.max_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
    ]
    channel = grpc.insecure_channel(f"localhost:{port}", unlimited)
    stub = tff.framework.RemoteExecutorGrpcStub(channel)
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while not stub.is_ready:
        if process.poll() is not None:
            raise RuntimeError(f"TFF's worker ended with status {process.returncode}: {log_path}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"TFF's worker did not answer on port {port}: {log_path}")
        time.sleep(0.05)
    return stub


@contextlib.contextmanager
def native_runtime(
    log_path: Path | None = None, max_concurrent_clients: int | None = None
) -> Iterator[None]:
    """Makes TFF's C++ runtime the default context inside the `with` block, which ends its worker.

    The worker that TFF starts by itself outlives the program, and a program that reads its output
    (`python audit.py | tee log`) then waits for ever. The worker here ends with the block, and with
    the program, even if the program is killed.

    Enter it from the main thread: the kernel's death signal follows the thread that started the
    worker, and TFF's context stack is per thread. While the block runs, the worker's port is open
    to everyone who can connect to this machine, as in TFF (docs/runtimes.md).

    Args:
      log_path: The file to which the worker's output is appended; None discards the output.
      max_concurrent_clients: The number of clients that train at the same time, at least 1; None
        uses the number of cores.

    Raises:
      RuntimeError: The worker ended before it answered.
      TimeoutError: The worker did not answer in two minutes.
      InputError: A computation in the block asks for secure sums.
    """
    log_path = log_path or Path(os.devnull)
    process, port = _start_worker(log_path, max_concurrent_clients or num_cores())
    atexit.register(_stop, process)
    try:
        stub = _connect(process, port, log_path)

        def executor_for(
            cardinalities: dict[tff.framework.PlacementLiteral, int],
        ) -> tff.framework.RemoteExecutor:
            executor = tff.framework.RemoteExecutor(stub)
            executor.set_cardinalities({tff.CLIENTS: 0, **cardinalities})
            return executor

        context = tff.framework.SyncExecutionContext(
            executor_fn=tff.framework.ResourceManagingExecutorFactory(executor_for),
            compiler_fn=_compiled,
            transform_args=tff.tensorflow.transform_args,
            transform_result=tff.tensorflow.transform_result,
        )
        with tff.framework.get_context_stack().install(context):
            yield
    finally:
        _stop(process)
        atexit.unregister(_stop)


def _compiled(computation: Any) -> Any:
    """TFF's compilation for its C++ runtime, which has no secure sums."""
    if "federated_secure" in str(computation.to_building_block()):
        raise InputError(f"process: {NO_SECURE_SUMS}")
    return tff.backends.native.desugar_and_transform_to_native(computation)


def instead_of_tffs_worker() -> contextlib.AbstractContextManager[None]:
    """`native_runtime` if TFF would otherwise start a worker that outlives the block."""
    factory = getattr(tff.framework.get_context_stack().current, "executor_factory", None)
    made_by = getattr(getattr(factory, "_executor_stack_fn", None), "__qualname__", "")
    is_tffs = made_by.startswith("local_cpp_executor_factory")
    return native_runtime() if is_tffs else contextlib.nullcontext()
