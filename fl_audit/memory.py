"""The memory that can be had, for sizes that are refused before it runs out."""

from pathlib import Path


def available_memory() -> int:
    """The bytes that can be taken without swapping, according to Linux."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":") for line in lines)
    return 1024 * int(fields["MemAvailable"].split()[0])
