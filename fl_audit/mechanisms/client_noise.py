"""Clipping and noise at the client, in TensorFlow, and the server's mean of uploads.

Each participant is handed a key of its own, by which a counter-based generator draws its noise. The
key follows from one that the state of the aggregation holds, drawn from the operating system's
entropy: a state fixes all noise to come on any runtime, and whoever sees it can take the noise off.
A device in production draws its own.
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

    Args:
      update: The parts of the client's update.
      key: The client's key in this round, int64 of shape (2,).
      clip_norm: The L2 norm that the update is clipped to.
      noise_multiplier: The standard deviation of the noise on a coordinate, in clip norms.
    """
    clipped, _ = tf.clip_by_global_norm(list(update), clip_norm)
    stddev = noise_multiplier * clip_norm
    noise = normal_like(key, 0, clipped)
    return [part + stddev * normal for part, normal in zip(clipped, noise, strict=True)]


class SumOfUploads(tfp.SumAggregationDPQuery):
    """A sum of uploads that clients have clipped and noised; it adds nothing."""

    class GlobalState(NamedTuple):
        """The state between two calls.

        Attributes:
          key: The key of all clients' noise, int64 of shape (2,).
          calls: The number of calls so far, int64.
        """

        key: Any
        calls: Any

    def initial_global_state(self) -> "SumOfUploads.GlobalState":
        """See `tfp.DPQuery`."""
        return self.GlobalState(key=fresh_key(), calls=tf.constant(0, tf.int64))

    def get_noised_result(
        self, sample_state: Any, global_state: "SumOfUploads.GlobalState"
    ) -> tuple[Any, "SumOfUploads.GlobalState", dp_accounting.DpEvent]:
        """See `tfp.DPQuery`; the sum as it is."""
        state = self.GlobalState(key=global_state.key, calls=global_state.calls + 1)
        return sample_state, state, dp_accounting.UnsupportedDpEvent()


class MeanOfNoisedUploads(tff.aggregators.UnweightedAggregationFactory):
    """A factory of sums of noised uploads over the expected cohort.

    Attributes:
      clip_norm: The L2 norm that each client clips its update to.
      noise_multiplier: The standard deviation of the noise that each client adds, in clip norms.
    """

    def __init__(self, clip_norm: float, noise_multiplier: float, expected_cohort: float) -> None:
        """Takes the numbers of the mechanism.

        Args:
          clip_norm: See the attribute.
          noise_multiplier: See the attribute.
          expected_cohort: The number that sums are divided by.
        """
        self.clip_norm = clip_norm
        self.noise_multiplier = noise_multiplier
        self._expected_cohort = expected_cohort

    def upload(self, update: Any, key: tf.Tensor) -> Any:
        """What a client uploads in place of an update, a structure of tensors; see `noised_upload`.

        Args:
          update: The update, a structure of tensors.
          key: The client's key in this round, int64 of shape (2,).
        """
        parts = tf.nest.flatten(update)
        uploaded = noised_upload(parts, key, self.clip_norm, self.noise_multiplier)
        return tf.nest.pack_sequence_as(update, uploaded)

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """The process for uploads of a type, which adds no noise of its own."""
        return mean_over_expected_cohort(SumOfUploads(), self._expected_cohort).create(value_type)
