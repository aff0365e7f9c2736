"""Differentially private queries, each wrong in exactly one place; docs/broken_mechanisms.md.

All are tensorflow-privacy's own queries with one method changed, so that TFF runs them as it runs
the correct ones. C is the clip norm, z the noise multiplier, n the expected cohort.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_privacy as tfp


class UnscaledNoise(tfp.QuantileAdaptiveClipSumQuery):
    """Noise z C_0 in every round, whatever the clip norm C_t has become; correct is z C_t."""

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """As the correct query, but the next round's noise is again the first round's."""
        result, state, event = super().get_noised_result(sample_state, global_state)
        first = self.initial_global_state().sum_state.stddev
        return result, state._replace(sum_state=state.sum_state._replace(stddev=first)), event


class ClippedAfterNoise(tfp.GaussianSumQuery):
    """Each client adds its share of the noise, z C / sqrt(n), and clips then; correct is before."""

    def __init__(self, l2_norm_clip: float, stddev: float, cohort: float) -> None:
        """`stddev` is that of the noise in the sum over `cohort` clients."""
        super().__init__(l2_norm_clip, stddev)
        self._share = stddev / math.sqrt(cohort)

    def preprocess_record(self, params: Any, record: Any) -> Any:
        """Noise, then the clip."""
        noised = tf.nest.map_structure(
            lambda part: part + tf.random.normal(tf.shape(part), stddev=self._share), record
        )
        return super().preprocess_record(params, noised)

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """The sum as it is: its noise came with the records."""
        _, state, event = super().get_noised_result(sample_state, global_state)
        return sample_state, state, event


class OneVariableUnclipped(tfp.GaussianSumQuery):
    """One variable is left out of the norm and of the clip."""

    def __init__(self, l2_norm_clip: float, stddev: float, variable: int) -> None:
        """`variable` is the position of the one that is left out, from the end where negative."""
        super().__init__(l2_norm_clip, stddev)
        self._variable = variable

    def preprocess_record_impl(self, params: Any, record: Any) -> Any:
        """Clips the others."""
        parts = list(tf.nest.flatten(record))
        left_out = self._variable % len(parts)
        others = parts[:left_out] + parts[left_out + 1 :]
        clipped, norm = super().preprocess_record_impl(params, others)
        clipped.insert(left_out, parts[left_out])
        return tf.nest.pack_sequence_as(record, clipped), norm


class ClippedByVariable(tfp.GaussianSumQuery):
    """Each of v variables is clipped to C by itself: an update is as long as C sqrt(v)."""

    def preprocess_record_impl(self, params: Any, record: Any) -> Any:
        """Clips each variable."""
        parts = tf.nest.flatten(record)
        clipped = [tf.clip_by_norm(part, params) for part in parts]
        return tf.nest.pack_sequence_as(record, clipped), tf.linalg.global_norm(parts)


class CountedTwice(tfp.GaussianSumQuery):
    """An upload that is retried enters the sum once more."""

    def __init__(self, l2_norm_clip: float, stddev: float, share: float) -> None:
        """`share` of the uploads, at random, are retried."""
        super().__init__(l2_norm_clip, stddev)
        self._share = share

    def preprocess_record(self, params: Any, record: Any) -> Any:
        """The clipped record, or twice that."""
        times = 1.0 + tf.cast(tf.random.uniform([]) < self._share, tf.float32)
        clipped = super().preprocess_record(params, record)
        return tf.nest.map_structure(lambda part: times * part, clipped)


class OtherNoise(tfp.GaussianSumQuery):
    """The right standard deviation on each coordinate, but not independent numbers."""

    def __init__(
        self, l2_norm_clip: float, stddev: float, noise: Callable[[Sequence[tf.Tensor]], Any]
    ) -> None:
        """`noise` makes standard numbers in the shapes of the variables that it is given."""
        super().__init__(l2_norm_clip, stddev)
        self._noise = noise

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """The sum and this noise."""
        _, state, event = super().get_noised_result(sample_state, global_state)
        parts = tf.nest.flatten(sample_state)
        added = zip(parts, self._noise(parts), strict=True)
        noised = [part + global_state.stddev * noise for part, noise in added]
        return tf.nest.pack_sequence_as(sample_state, noised), state, event


def reused(seed: int) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """The same numbers in every round: a generator that starts again from one seed."""
    return lambda parts: [
        tf.random.stateless_normal(tf.shape(part), [seed, position])
        for position, part in enumerate(parts)
    ]


def same_on_workers(num_workers: int) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Workers sum a part of the cohort each and add N(0, 1 / w), all with the same seed.

    Their sum has noise of standard deviation sqrt(w), not 1.
    """

    def noise(parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        of_one = [tf.random.normal(tf.shape(part), stddev=num_workers**-0.5) for part in parts]
        return [tf.add_n([part] * num_workers) for part in of_one]

    return noise


def same_on_pieces(num_workers: int) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Workers hold an equal piece of the model each and add noise to it, all with the same seed."""

    def noise(parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        sizes = [math.prod(part.shape) for part in parts]
        piece = tf.random.normal([-(-sum(sizes) // num_workers)])
        whole = tf.tile(piece, [num_workers])[: sum(sizes)]
        return [
            tf.reshape(flat, part.shape)
            for flat, part in zip(tf.split(whole, sizes), parts, strict=True)
        ]

    return noise
