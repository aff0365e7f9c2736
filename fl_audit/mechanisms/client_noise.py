"""Clipping and noise at the client, in TensorFlow, and the server's mean of uploads.

Each participant gets a key, from which a counter-based generator draws its noise. The key follows
from one in the state of the aggregation, drawn from the operating system's entropy: a state fixes
all future noise on any runtime, and anyone who sees it can remove the noise. In production a device
draws its own key.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dp_accounting
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from fl_audit.mechanisms.tff_aggregators import mean_over_expected_cohort
from fl_audit.mechanisms.tff_noise import fresh_key, normal_like


def noised_upload(
    update: Sequence[tf.Tensor], key: tf.Tensor, clip_norm: float, noise_multiplier: float
) -> list[tf.Tensor]:
    """What a client uploads: its clipped update plus Gaussian noise.

    `key` is the client's key in this round, int64 of shape (2,).
    """
    clipped, _ = tf.clip_by_global_norm(list(update), clip_norm)
    stddev = noise_multiplier * clip_norm
    noise = normal_like(key, 0, clipped)
    return [part + stddev * normal for part, normal in zip(clipped, noise, strict=True)]


class SumOfUploads(tfp.SumAggregationDPQuery):
    """A sum of uploads that clients have clipped and noised; it adds nothing."""

    class GlobalState(NamedTuple):
        """The key of all clients' noise, int64 of shape (2,), and the number of calls, int64."""

        key: Any
        calls: Any

    def initial_global_state(self) -> "SumOfUploads.GlobalState":
        return self.GlobalState(key=fresh_key(), calls=tf.constant(0, tf.int64))

    def get_noised_result(
        self, sample_state: Any, global_state: "SumOfUploads.GlobalState"
    ) -> tuple[Any, "SumOfUploads.GlobalState", dp_accounting.DpEvent]:
        state = self.GlobalState(key=global_state.key, calls=global_state.calls + 1)
        return sample_state, state, dp_accounting.UnsupportedDpEvent()


class MeanOfNoisedUploads(tff.aggregators.UnweightedAggregationFactory):
    """A factory of sums of noised uploads over the expected cohort."""

    def __init__(self, clip_norm: float, noise_multiplier: float, expected_cohort: float) -> None:
        self.clip_norm = clip_norm
        self.noise_multiplier = noise_multiplier
        self._expected_cohort = expected_cohort

    def upload(self, update: Any, key: tf.Tensor) -> Any:
        """The upload in place of an update, a structure of tensors."""
        parts = tf.nest.flatten(update)
        uploaded = noised_upload(parts, key, self.clip_norm, self.noise_multiplier)
        return tf.nest.pack_sequence_as(update, uploaded)

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        return mean_over_expected_cohort(SumOfUploads(), self._expected_cohort).create(value_type)
