"""Noise of training that is the same in every run.

Noise has keys from the system's entropy, as it must. A recording cannot be compared then, so that
its sources on TensorFlow are replaced while a call is recorded: by operations with a seed, and by
tensorflow-privacy's trees and Skellam noise, whose seed is a time.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

SEED = 1
SECRET = 3
"""What sampled schedules are drawn from: the seed of all recorded configs."""

TIME = 1.5e9
"""Seconds since 1970, from which the noise on trees and Skellam noise take their seeds."""


@contextlib.contextmanager
def seeded_noise() -> Iterator[None]:
    """Inside the `with` block computations that are built draw noise from a fixed seed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # as fl_audit does before its own import
    import tensorflow as tf
    import tensorflow_privacy as tfp

    from fl_audit.mechanisms import tff_aggregators, tff_noise

    def normal_like(key: Any, number: Any, specs: Any) -> Any:
        del key, number
        return tf.nest.map_structure(
            lambda spec: tf.random.normal(spec.shape, dtype=spec.dtype, seed=SEED), specs
        )

    nodes = tfp.tree_aggregation.GaussianNoiseGenerator
    with (
        mock.patch.object(tff_noise, "normal_like", normal_like),
        mock.patch.object(tff_noise, "SkellamSum", tfp.DistributedSkellamSumQuery),
        mock.patch.object(tff_aggregators, "NodeNoise", nodes),
        mock.patch("fl_audit.run.folder_and_checkpoints.new_secret", lambda: SECRET),
        mock.patch.object(tf, "timestamp", lambda name=None: tf.constant(TIME, tf.float64)),
    ):
        yield
