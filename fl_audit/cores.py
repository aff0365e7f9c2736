"""The number of cores that this process may use."""

import os


def num_cores() -> int:
    """The cores for work side by side: OMP_NUM_THREADS where it is set, else all of the machine.

    A program that starts several runs on one machine sets the variable, as schedulers do.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(int(limit), 1) if limit.isdecimal() else os.cpu_count() or 1
