"""Noise of training that is the same in every run.

tensorflow-privacy draws noise without a seed, as it must. A recording cannot be compared then, so
that its three sources are replaced while a call is recorded: nothing of fl_audit is.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

SEED = 1
TIME = 1.5e9
"""Seconds since 1970, from which the noise on trees and Skellam noise take their seeds."""


@contextlib.contextmanager
def seeded_noise() -> Iterator[None]:
    """Inside the `with` block computations that are built draw noise from a fixed seed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # as fl_audit does before its own import
    import tensorflow as tf

    normal = tf.random.normal

    class RandomNormal:
        """As `tf.random_normal_initializer`."""

        def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None) -> None:
            self._law = mean, stddev
            self._seed = seed

        def __call__(self, shape: Any, dtype: Any = tf.float32, **_: Any) -> Any:
            return normal(shape, *self._law, dtype, seed=self._seed or SEED)

    def seeded_normal(*arguments: Any, **named: Any) -> Any:
        return normal(*arguments, **({"seed": SEED} | named))

    with (
        mock.patch.object(tf.random, "normal", seeded_normal),
        mock.patch.object(tf, "random_normal_initializer", RandomNormal),
        mock.patch.object(tf, "timestamp", lambda name=None: tf.constant(TIME, tf.float64)),
    ):
        yield
