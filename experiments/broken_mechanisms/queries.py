"""Differentially private queries that are each wrong in one place; see docs/broken_mechanisms.md.

All are tensorflow-privacy's own queries with one method changed, so that TFF runs them as it runs
the correct ones. C is the clip norm, z the noise multiplier, n the expected cohort.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_privacy as tfp


class UnscaledNoise(tfp.QuantileAdaptiveClipSumQuery):
    """A query that adds noise z C_0 in every round; correct is z C_t for the round's clip norm."""

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """The correct query's result, with the first round's noise deviation for the next round."""
        result, state, event = super().get_noised_result(sample_state, global_state)
        first = self.initial_global_state().sum_state.stddev
        return result, state._replace(sum_state=state.sum_state._replace(stddev=first)), event


class ClippedAfterNoise(tfp.GaussianSumQuery):
    """A query in which each client adds its share z C / sqrt(n) of the noise before it clips."""

    def __init__(self, l2_norm_clip: float, stddev: float, cohort: float) -> None:
        """Takes the deviation `stddev` of the noise in the sum over `cohort` clients."""
        super().__init__(l2_norm_clip, stddev)
        self._share = stddev / math.sqrt(cohort)

    def preprocess_record(self, params: Any, record: Any) -> Any:
        """Adds noise, then clips."""
        noised = tf.nest.map_structure(
            lambda part: part + tf.random.normal(tf.shape(part), stddev=self._share), record
        )
        return super().preprocess_record(params, noised)

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """The sum without further noise, as its noise came with the records."""
        _, state, event = super().get_noised_result(sample_state, global_state)
        return sample_state, state, event


class OneVariableUnclipped(tfp.GaussianSumQuery):
    """A query that leaves one variable out of the norm and of the clip."""

    def __init__(self, l2_norm_clip: float, stddev: float, variable: int) -> None:
        """Takes the position of the variable that is left out, from the end where negative."""
        super().__init__(l2_norm_clip, stddev)
        self._variable = variable

    def preprocess_record_impl(self, params: Any, record: Any) -> Any:
        """Clips the other variables."""
        parts = list(tf.nest.flatten(record))
        left_out = self._variable % len(parts)
        others = parts[:left_out] + parts[left_out + 1 :]
        clipped, norm = super().preprocess_record_impl(params, others)
        clipped.insert(left_out, parts[left_out])
        return tf.nest.pack_sequence_as(record, clipped), norm


class ClippedByVariable(tfp.GaussianSumQuery):
    """A query that clips each of v variables to C, so that an update's norm is up to C sqrt(v)."""

    def preprocess_record_impl(self, params: Any, record: Any) -> Any:
        """Clips each variable by itself."""
        parts = tf.nest.flatten(record)
        clipped = [tf.clip_by_norm(part, params) for part in parts]
        return tf.nest.pack_sequence_as(record, clipped), tf.linalg.global_norm(parts)


class CountedTwice(tfp.GaussianSumQuery):
    """A query whose sum counts an upload twice if it is retried."""

    def __init__(self, l2_norm_clip: float, stddev: float, share: float) -> None:
        """Takes the share of uploads, chosen at random, that are retried."""
        super().__init__(l2_norm_clip, stddev)
        self._share = share

    def preprocess_record(self, params: Any, record: Any) -> Any:
        """The clipped record, once or twice."""
        times = 1.0 + tf.cast(tf.random.uniform([]) < self._share, tf.float32)
        clipped = super().preprocess_record(params, record)
        return tf.nest.map_structure(lambda part: times * part, clipped)


class OtherNoise(tfp.GaussianSumQuery):
    """A query whose noise has the right deviation on each coordinate but is not independent."""

    def __init__(
        self, l2_norm_clip: float, stddev: float, noise: Callable[[Sequence[tf.Tensor]], Any]
    ) -> None:
        """Takes a function that makes noise of deviation 1 in the shapes of given variables."""
        super().__init__(l2_norm_clip, stddev)
        self._noise = noise

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """The sum plus the noise of the function."""
        _, state, event = super().get_noised_result(sample_state, global_state)
        parts = tf.nest.flatten(sample_state)
        added = zip(parts, self._noise(parts), strict=True)
        noised = [part + global_state.stddev * noise for part, noise in added]
        return tf.nest.pack_sequence_as(sample_state, noised), state, event


def reused(seed: int) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Noise that is the same in every round, as its generator restarts from one seed."""
    return lambda parts: [
        tf.random.stateless_normal(tf.shape(part), [seed, position])
        for position, part in enumerate(parts)
    ]


def same_on_workers(num_workers: int) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Noise of w workers that each sum a part of the cohort and add N(0, 1 / w) from one seed.

    Their sum has noise of standard deviation sqrt(w) instead of 1.
    """

    def noise(parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        of_one = [tf.random.normal(tf.shape(part), stddev=num_workers**-0.5) for part in parts]
        return [tf.add_n([part] * num_workers) for part in of_one]

    return noise


def same_on_pieces(num_workers: int) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Noise of workers that each add it to an equal piece of the model, all from one seed."""

    def noise(parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        sizes = [math.prod(part.shape) for part in parts]
        piece = tf.random.normal([-(-sum(sizes) // num_workers)])
        whole = tf.tile(piece, [num_workers])[: sum(sizes)]
        return [
            tf.reshape(flat, part.shape)
            for flat, part in zip(tf.split(whole, sizes), parts, strict=True)
        ]

    return noise
