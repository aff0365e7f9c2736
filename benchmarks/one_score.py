"""Time and peak memory of scoring one pool of canaries in a process of its own, as JSON."""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

from benchmarks.peak_memory import peak_bytes
from benchmarks.peers import stateless_normal
from benchmarks.timing import wall_time
from fl_audit.canaries.families import FAMILIES


def main() -> None:
    """Prints time and memory."""
    arguments = json.loads(sys.argv[1])
    took = seconds_to_score(arguments["family"], arguments["dim"], arguments["count"])
    print(json.dumps({"seconds": took, "peak": peak_bytes()}))


def seconds_to_score(family: str, dim: int, count: int) -> float:
    """The seconds of scoring a pool, after a first scoring of up to ten canaries.

    Args:
      family: Name of a family, or `tensorflow` for the peer.
      dim: Number of parameters of the model.
      count: Number of canaries in the pool.
    """
    target = np.random.default_rng(1).standard_normal(dim, np.float32)
    if family == "tensorflow":
        tensor = tf.constant(target)
        stateless_normal.cosines(tensor, 1)
        return wall_time(lambda: stateless_normal.cosines(tensor, count))
    FAMILIES[family](0, min(count, 10), dim).cosines(target)
    return wall_time(lambda: FAMILIES[family](0, count, dim).cosines(target))


if __name__ == "__main__":
    main()
