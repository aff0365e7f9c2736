"""Peak memory of a process, and runs in processes of their own to measure each one's peak."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def peak_bytes() -> int:
    """Largest resident memory of this process so far in bytes, by Linux's account.

    It is not `ru_maxrss`, which a new process inherits from the one that started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return 1024 * int(fields["VmHWM"].split()[0])


def in_new_process(module: str, **arguments: object) -> dict[str, Any]:
    """Runs a module of this folder with arguments as JSON and returns the JSON that it prints."""
    command = [sys.executable, "-m", f"benchmarks.{module}", json.dumps(arguments)]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}: status {run.returncode}\n{run.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def megabytes(num_bytes: float) -> str:
    """A size of memory in megabytes as text."""
    return f"{num_bytes / 1e6:,.0f} MB"
