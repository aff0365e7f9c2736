"""The cores and the memory available to this process."""

import os
from pathlib import Path


def num_cores() -> int:
    """Cores for parallel work: OMP_NUM_THREADS if set, else all of the machine.

    A program that starts several runs on one machine sets the variable, as schedulers do.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(int(limit), 1) if limit.isdecimal() else os.cpu_count() or 1


def available_memory() -> int:
    """Bytes available without swapping, according to Linux."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":") for line in lines)
    return 1024 * int(fields["MemAvailable"].split()[0])
