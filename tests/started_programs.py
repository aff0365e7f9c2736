"""Programs that tests start: whether Ctrl-C reaches them, and what is left of them."""

import os
import sys
import time
from pathlib import Path

HEARS_CTRL_C = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)
"""Words to put before a command whose first word is a path.

What a shell starts in the background ignores Ctrl-C, and so does all that it starts: pytest, and
what a test starts. These words undo it.
"""


def left_of(mark: Path) -> list[str]:
    """The processes, but this one, whose environment or command line names a path."""
    return [line for _, line in processes_of(mark)]


def processes_of(mark: Path) -> list[tuple[int, str]]:
    """Their numbers and command lines, whose words end with a zero character."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            text = (process / "environ").read_bytes() + line
        except OSError:
            continue
        if str(mark).encode() in text and int(process.name) != os.getpid():
            found.append((int(process.name), line.decode(errors="replace")))
    return found


def wait_for(condition, seconds: float) -> None:
    """Waits until a condition holds, and fails where it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
