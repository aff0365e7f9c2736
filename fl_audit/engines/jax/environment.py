"""What JAX reads from the environment before it looks for its devices."""

import os

from fl_audit.resources import num_cores

_DEVICES = "--xla_force_host_platform_device_count"
_THREADS = "--xla_cpu_multi_thread_eigen"


def set_defaults() -> None:
    """Makes each core a device, unless XLA_FLAGS says otherwise; before JAX's first operation."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _DEVICES not in flags:
        flags += f" {_DEVICES}={num_cores()}"
    if _THREADS not in flags:
        flags += f" {_THREADS}=false"
    os.environ["XLA_FLAGS"] = flags.strip()
