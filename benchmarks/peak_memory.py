"""Peak memory of a process, and runs in processes of their own so that each has its own peak."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def peak_bytes() -> int:
    """Largest resident memory of this process so far, as Linux tells.

    Not `ru_maxrss`, which a new process inherits from the one that started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return 1024 * int(fields["VmHWM"].split()[0])


def in_new_process(module: str, **arguments: object) -> dict[str, Any]:
    """Runs a module of this folder with its arguments as JSON; what it prints is its result."""
    command = [sys.executable, "-m", f"benchmarks.{module}", json.dumps(arguments)]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}: status {run.returncode}\n{run.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def megabytes(num_bytes: float) -> str:
    """Memory in millions of bytes."""
    return f"{num_bytes / 1e6:,.0f} MB"
