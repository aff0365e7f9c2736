"""The worker ends with the program, whatever ends it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.tff

_PROGRAM = """
import os, sys, time
from pathlib import Path
from fl_audit.engines.tff.native_worker import native_runtime
import tensorflow_federated as tff

@tff.tensorflow.computation
def one():
    return 1

with native_runtime(Path(sys.argv[1]), 1):
    assert one() == 1
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    Path(sys.argv[2]).write_text(children)
    ENDING
"""

_ENDINGS = {
    "return": "pass",
    "exception": "raise RuntimeError('on purpose')",
    "sys_exit": "sys.exit(3)",
    "os_exit": "os._exit(4)",
    "sigterm": "time.sleep(600)",
    "sigkill": "time.sleep(600)",
}


def _start(tmp_path: Path, name: str) -> subprocess.Popen[bytes]:
    program = _PROGRAM.replace("ENDING", _ENDINGS[name])
    log, children = tmp_path / f"{name}.log", tmp_path / f"{name}.children"
    return subprocess.Popen(
        [sys.executable, "-c", program, str(log), str(children)], stderr=subprocess.DEVNULL
    )


def _wait_for(path: Path) -> list[int]:
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.1)
    return [int(pid) for pid in path.read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended; in a container nobody may reap orphans.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("sigkill", -signal.SIGKILL),
        ("sigterm", -signal.SIGTERM),
        ("return", 0),
        ("exception", 1),
        ("sys_exit", 3),
        ("os_exit", 4),
    ],
)
def test_no_worker_outlives_its_program(tmp_path, ending, status):
    program = _start(tmp_path, ending)
    (worker,) = _wait_for(tmp_path / f"{ending}.children")
    if status < 0:
        program.send_signal(-status)
    assert program.wait(60) == status
    deadline = time.monotonic() + 30
    while _is_alive(worker):
        assert time.monotonic() < deadline, f"the worker survived: {worker}"
        time.sleep(0.1)
