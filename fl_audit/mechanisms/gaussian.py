"""Gaussian noise that every round draws anew, with a fixed or an adaptive clip norm."""

import typing
from typing import Any

from fl_audit.accounting.noise_laws import GAUSSIAN
from fl_audit.formats.folders import RunRecord
from fl_audit.kinds.table import NonNegativeFloat, PositiveFloat
from fl_audit.mechanisms.adaptive_clip import (
    moving_clip_words,
    noise_with_count,
    noise_with_count_words,
)
from fl_audit.mechanisms.kind import (
    ClipAndNoise,
    MechanismKind,
    RoundNoise,
    fresh_in_each_round,
    made_to_be_clipped,
)
from fl_audit.mechanisms.noise_keys import NoisyMechanism
from fl_audit.mechanisms.zeroing import Share, Zeroing

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class GaussianAdaptive(
    NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="gaussian_adaptive"
):
    """Gaussian noise and a clip norm that follows a quantile (Andrew et al. 2021).

    Attributes:
      noise_multiplier: The *effective total* noise multiplier: the noise on the sum of updates is
        somewhat larger, to pay for the noised count that moves the clip norm. 0 means no noise at
        all.
      clip_norm: The first round's clip norm.
      target_quantile: The share of updates that should be below the clip norm.
      clip_learning_rate: The learning rate of the geometric update of the clip norm.
      clipped_count_stddev: The standard deviation of the noise on the count, in clients; by default
        0.05 of the cohort.
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    clip_norm: PositiveFloat = 0.1
    target_quantile: Share = 0.5
    clip_learning_rate: NonNegativeFloat = 0.2
    clipped_count_stddev: PositiveFloat | None = None
    zeroing: Zeroing | None = None


class GaussianFixed(
    NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="gaussian_fixed"
):
    """Gaussian noise at a fixed clip norm.

    Attributes:
      noise_multiplier: The standard deviation of the noise on the sum of updates, as a multiple of
        the clip norm.
      clip_norm: The L2 norm that updates are clipped to.
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    clip_norm: PositiveFloat
    zeroing: Zeroing | None = None


def _adaptive_noise(table: GaussianAdaptive, expected_cohort: float) -> RoundNoise:
    return noise_with_count(table.multiplier, expected_cohort, table.clipped_count_stddev)


def _adaptive_aggregator(
    table: GaussianAdaptive, expected_cohort: float
) -> "tff.aggregators.UnweightedAggregationFactory":
    import tensorflow_federated as tff

    return tff.aggregators.DifferentiallyPrivateFactory.gaussian_adaptive(
        noise_multiplier=table.multiplier,
        clients_per_round=expected_cohort,
        initial_l2_norm_clip=table.clip_norm,
        target_unclipped_quantile=table.target_quantile,
        learning_rate=table.clip_learning_rate,
        clipped_count_stddev=table.clipped_count_stddev,
    )


def _adaptive_clip_and_noise(table: GaussianAdaptive, state: Any) -> ClipAndNoise:
    return _of_sum(state.query_state.numerator_state.sum_state)


def _adaptive_clip_words(table: GaussianAdaptive) -> str:
    return moving_clip_words(table.clip_norm, table.target_quantile)


def _adaptive_noise_words(table: GaussianAdaptive, record: RunRecord) -> str:
    return f"; {noise_with_count_words(record, 'Gaussian')}"


def _fixed_noise(table: GaussianFixed, expected_cohort: float) -> RoundNoise:
    return RoundNoise(table.multiplier, table.multiplier, 0.0)


def _fixed_aggregator(
    table: GaussianFixed, expected_cohort: float
) -> "tff.aggregators.UnweightedAggregationFactory":
    import tensorflow_federated as tff

    return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        noise_multiplier=table.multiplier,
        clients_per_round=expected_cohort,
        clip=table.clip_norm,
    )


def _fixed_clip_and_noise(table: GaussianFixed, state: Any) -> ClipAndNoise:
    return _of_sum(state.query_state.numerator_state)


def _of_sum(sum_state: Any) -> ClipAndNoise:
    """The clip norm and noise in the state of tensorflow-privacy's `GaussianSumQuery`."""
    return ClipAndNoise(float(sum_state.l2_norm_clip), float(sum_state.stddev))


def _fixed_clip_words(table: GaussianFixed) -> str:
    return f"Updates are clipped to norm {table.clip_norm:g}"


def _fixed_noise_words(table: GaussianFixed, record: RunRecord) -> str:
    return f"; Gaussian noise of {record.noise_multiplier:g} clip norms is added to their sum"


GAUSSIAN_ADAPTIVE = MechanismKind(
    table=GaussianAdaptive,
    round_noise=_adaptive_noise,
    make_aggregator=_adaptive_aggregator,
    clip_and_noise=_adaptive_clip_and_noise,
    canary_norm=made_to_be_clipped,
    noise_law=GAUSSIAN,
    trees=fresh_in_each_round,
    why_not_checked=None,
    clip_words=_adaptive_clip_words,
    noise_words=_adaptive_noise_words,
)

GAUSSIAN_FIXED = MechanismKind(
    table=GaussianFixed,
    round_noise=_fixed_noise,
    make_aggregator=_fixed_aggregator,
    clip_and_noise=_fixed_clip_and_noise,
    canary_norm=made_to_be_clipped,
    noise_law=GAUSSIAN,
    trees=fresh_in_each_round,
    why_not_checked=None,
    clip_words=_fixed_clip_words,
    noise_words=_fixed_noise_words,
)
