"""What a process of a sweep does: one run, from its config to its report."""

import os
import tomllib
from pathlib import Path

from fl_audit.config.file import parse_config
from fl_audit.engines.ray_cluster import end_with_parent
from fl_audit.errors import one_line
from fl_audit.formats.folders import RunFolder
from fl_audit.pipeline import continue_run, start_run


def one_run(config_toml: str, out: str, shared: str, cores: int, gpu_share: float) -> str | None:
    """Starts a run, or goes on with an interrupted one; returns why it failed, None if it did not.

    Args:
      config_toml: The resolved config.
      out: The run's folder.
      shared: The folder of what the sweep's runs read alike.
      cores: The number of cores that it may use.
      gpu_share: The GPUs that it may use; below 1 it shares one with other runs.
    """
    from fl_audit.tasks.text import sharing_parts  # TensorFlow, which a dry run does not need

    end_with_parent()  # a run may be killed at any time: it goes on from its last checkpoint
    os.environ["OMP_NUM_THREADS"] = str(cores)
    if 0 < gpu_share < 1:
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    folder = Path(out)
    try:
        config = parse_config(tomllib.loads(config_toml), out)
        go = continue_run if RunFolder(folder).config.exists() else start_run
        with sharing_parts(Path(shared)):
            go(config, folder)
    except MemoryError as error:
        return one_line(f"needs more memory than there is: {error}")
    except ValueError as error:  # an InputError is one, and its line says it all
        return one_line(str(error))
    except Exception as error:
        return one_line(f"{type(error).__name__}: {error}")
    return None
