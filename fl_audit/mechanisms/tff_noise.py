"""Noise in TensorFlow graphs, from 128-bit keys of the operating system, and queries that add it.

TensorFlow's unseeded random operations, `tf.random.Generator` included, get their keys from one
generator per process with a seed of four bytes: there are only 2^32 different runs.
tensorflow-privacy seeds trees and Skellam noise with the clock. Here the graph reads
`/dev/urandom`, also in the worker of TFF's own runtime. A key is for TensorFlow's counter-based
generator Philox4x32-10 (Salmon et al. 2011), which is not cryptographic.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import dp_accounting
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

ENTROPY_FILE = "/dev/urandom"
"""The source of keys; a replay uses a file of known bytes."""

ENTROPY_BYTES = 32
"""Bytes read for a key, twice its size, because reading by lines drops carriage returns."""


def fresh_key() -> tf.Tensor:
    """A key from the operating system, int64 of shape (2,), fresh in each run of the graph.

    TensorFlow reads a file of unknown size only by lines. ENTROPY_BYTES + 1 lines are enough: the
    newlines that join them are already ENTROPY_BYTES bytes.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    lines = tf.data.TextLineDataset(ENTROPY_FILE, buffer_size=1024).with_options(options)
    lines = lines.batch(ENTROPY_BYTES + 1, drop_remainder=True).take(1).get_single_element()
    joined = tf.strings.reduce_join(lines, separator="\n")
    words = tf.io.decode_raw(joined, tf.int64, fixed_length=ENTROPY_BYTES)
    return tf.bitwise.bitwise_xor(words[:2], words[2:])


def numbered_key(key: tf.Tensor, number: Any, part: int) -> tf.Tensor:
    """The key of part `part` of the noise of call `number`, derived from all 128 bits of a key.

    TensorFlow derives a stream's key and counter by an invertible function of these 128 bits, so
    streams of different keys do not overlap. `stateless_fold_in` would keep only 64 bits.
    """
    return tf.bitwise.bitwise_xor(key, tf.stack([tf.cast(number, tf.int64), part]))


def standard_normal(key: tf.Tensor, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Independent standard normal numbers by Box and Muller's method, in float32, then cast.

    TensorFlow's normal numbers end at 5.68 in every precision, though P(|N| > 5.68) is 1.3e-8. Here
    a radius is made from 64 bits and ends at 9.49, as in `engines/jax/noise_processes.py`. `key` is
    int64 of shape (2,).
    """
    size = math.prod(shape)
    pairs = -(-size // 2)
    bits = tf.random.stateless_uniform([3, pairs], key, None, None, tf.uint32)
    high, low, turn = tf.unstack(tf.cast(bits, tf.float32))
    uniform = (high + (low + 0.5) * 2.0**-32) * 2.0**-32
    radius = tf.sqrt(-2.0 * tf.math.log(tf.minimum(uniform, 1.0)))
    angle = turn * (2.0**-31 * math.pi)
    numbers = tf.concat([radius * tf.cos(angle), radius * tf.sin(angle)], 0)[:size]
    return tf.cast(tf.reshape(numbers, shape), dtype)


def normal_like(key: tf.Tensor, number: Any, specs: Any) -> Any:
    """Independent standard normal tensors, in the structure, shapes and dtypes of `specs`."""
    parts = [
        standard_normal(numbered_key(key, number, at), spec.shape.as_list(), spec.dtype)
        for at, spec in enumerate(tf.nest.flatten(specs))
    ]
    return tf.nest.pack_sequence_as(specs, parts)


# tensorflow-privacy's queries with this noise; their states are unchanged.


class GaussianSum(tfp.GaussianSumQuery):
    """A sum of clipped records with noise from a fresh key in every call."""

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        noise = normal_like(fresh_key(), 0, sample_state)
        noised = tf.nest.map_structure(
            lambda value, part: value + tf.cast(global_state.stddev, value.dtype) * part,
            sample_state,
            noise,
        )
        event = dp_accounting.GaussianDpEvent(global_state.stddev / global_state.l2_norm_clip)
        return noised, global_state, event


class QuantileEstimator(tfp.QuantileEstimatorQuery):
    """An estimate of a quantile that moves by a noised count, with noise from fresh keys."""

    def _construct_below_estimate_query(self, below_estimate_stddev: Any, expected: Any) -> Any:
        count = GaussianSum(l2_norm_clip=0.5, stddev=below_estimate_stddev)
        return tfp.NormalizedQuery(count, denominator=expected)


class AdaptiveClipSum(tfp.QuantileAdaptiveClipSumQuery):
    """A sum with a clip norm that follows a quantile; all noise is from fresh keys."""

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        clip_norm = numbers["initial_l2_norm_clip"]
        self._sum_query = GaussianSum(clip_norm, numbers["noise_multiplier"] * clip_norm)
        self._quantile_estimator_query = QuantileEstimator(
            clip_norm,
            numbers["target_unclipped_quantile"],
            numbers["learning_rate"],
            numbers["clipped_count_stddev"],
            numbers["expected_num_records"],
            geometric_update=True,
        )


class NodeNoise(tfp.tree_aggregation.GaussianNoiseGenerator):
    """The noise of trees' nodes, from one key drawn with the first state."""

    def initialize(self) -> Any:
        return self.make_state(fresh_key(), self._noise_std)

    def next(self, state: Any) -> tuple[Any, Any]:
        """The noise of the next node, and the next state, whose key is incremented."""
        noise = tf.nest.map_structure(
            lambda part: state.stddev * part, normal_like(state.seeds, 0, self._specs)
        )
        return noise, self.make_state(state.seeds + tf.constant([1, 0], tf.int64), state.stddev)


class SkellamSum(tfp.DistributedSkellamSumQuery):
    """A sum of integers to which each client adds Skellam noise from a fresh key."""

    def add_noise_to_sample(self, local_stddev: Any, record: Any) -> Any:
        """Adds a client's share of the noise to its record."""
        mean = 0.5 * tf.square(tf.cast(local_stddev, tf.float64))
        key = fresh_key()

        def noised(at: int, value: tf.Tensor) -> tf.Tensor:
            numbers = tf.random.stateless_poisson(
                tf.concat([tf.shape(value), [2]], 0),
                numbered_key(key, 0, at),
                lam=[mean, mean],
                dtype=tf.int64,
            )
            return value + tf.cast(numbers[..., 0] - numbers[..., 1], value.dtype)

        parts = [noised(at, value) for at, value in enumerate(tf.nest.flatten(record))]
        return tf.nest.pack_sequence_as(record, parts)


class WithFreshKeys(tff.aggregators.UnweightedAggregationFactory):
    """A TFF aggregation with fresh keys for Skellam noise and for noise on the clip's count.

    `make` creates the aggregation's factory.
    """

    def __init__(self, make: Callable[[], tff.aggregators.UnweightedAggregationFactory]) -> None:
        self._make = make

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Replaces queries in tensorflow-privacy, because TFF has no argument for them."""
        with mock.patch.multiple(
            tfp, DistributedSkellamSumQuery=SkellamSum, QuantileEstimatorQuery=QuantileEstimator
        ):
            return self._make().create(value_type)
