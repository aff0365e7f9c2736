"""Noise independent between rounds: Gaussian at a fixed or an adaptive clip norm, or none.

An adaptive clip norm follows a noised count, which is released with the noised sum.
"""

import math
import typing
from typing import Any

from fl_audit.accounting.noise_distributions import GAUSSIAN, NoiseDistribution
from fl_audit.accounting.release import Noise
from fl_audit.config_tables.kinds import NonNegativeFloat, PositiveFloat, Table
from fl_audit.errors import InputError
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from fl_audit.mechanisms.kind import (
    ClipAndNoise,
    Mechanism,
    MechanismKind,
    NoisyMechanism,
    by_multiplier,
    fresh_in_each_round,
)
from fl_audit.mechanisms.zeroing import Share, Zeroing
from fl_audit.number_words import significant

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class GaussianAdaptive(
    NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="gaussian_adaptive"
):
    """Gaussian noise; the clip norm follows a quantile of update norms (Andrew et al. 2021).

    Attributes:
      noise_multiplier: Noise multiplier of sum and count together (docs/mechanisms.md).
      clip_norm: Clip norm of the first round.
      target_quantile: Target share of updates below the clip norm.
      clip_learning_rate: Learning rate of the clip norm's geometric update.
      clipped_count_stddev: Standard deviation of the count's noise, in clients; default: 0.05
        times the cohort.
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
      noise_multiplier: Standard deviation of the noise on the sum, in clip norms.
      clip_norm: L2 norm to which updates are clipped.
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    clip_norm: PositiveFloat
    zeroing: Zeroing | None = None


def _adaptive_noise(table: GaussianAdaptive, expected_cohort: float) -> Noise:
    return noise_with_count(GAUSSIAN, table.multiplier, expected_cohort, table.clipped_count_stddev)


def _adaptive_aggregator(
    table: GaussianAdaptive, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.tff_aggregators import mean_over_expected_cohort
    from fl_audit.mechanisms.tff_noise import AdaptiveClipSum

    noise = _adaptive_noise(table, expected_cohort)
    query = AdaptiveClipSum(
        initial_l2_norm_clip=table.clip_norm,
        noise_multiplier=noise.sum_noise_multiplier,
        target_unclipped_quantile=table.target_quantile,
        learning_rate=table.clip_learning_rate,
        clipped_count_stddev=noise.count_noise_stddev,
        expected_num_records=expected_cohort,
    )
    return mean_over_expected_cohort(query, expected_cohort)


def _adaptive_clip(table: GaussianAdaptive, noise: Noise, denominator: float) -> AdaptiveClip:
    return AdaptiveClip(
        target_quantile=table.target_quantile,
        learning_rate=table.clip_learning_rate,
        count_stddev=noise.count_noise_stddev,
        denominator=denominator,
    )


def _fixed_aggregator(
    table: GaussianFixed, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.tff_aggregators import mean_over_expected_cohort
    from fl_audit.mechanisms.tff_noise import GaussianSum

    query = GaussianSum(table.clip_norm, table.multiplier * table.clip_norm)
    return mean_over_expected_cohort(query, expected_cohort)


def _clip_and_noise_of_sum(sum_state: Any) -> ClipAndNoise:
    """The clip norm and the noise in a state of tensorflow-privacy's `GaussianSumQuery`."""
    return ClipAndNoise(float(sum_state.l2_norm_clip), float(sum_state.stddev))


GAUSSIAN_ADAPTIVE = MechanismKind(
    table=GaussianAdaptive,
    round_noise=_adaptive_noise,
    make_aggregator=_adaptive_aggregator,
    clip_and_noise=lambda table, state: _clip_and_noise_of_sum(
        state.query_state.numerator_state.sum_state
    ),
    noise_distribution=GAUSSIAN,
    divides_by="expected_cohort",
    correlation=fresh_in_each_round,
    clip_words=lambda table: moving_clip_words(table.clip_norm, table.target_quantile),
    noise_words=lambda table, record: f"; {noise_with_count_words(record, 'Gaussian')}",
    adaptive_clip=_adaptive_clip,
)

GAUSSIAN_FIXED = MechanismKind(
    table=GaussianFixed,
    make_aggregator=_fixed_aggregator,
    clip_and_noise=lambda table, state: _clip_and_noise_of_sum(state.query_state.numerator_state),
    noise_distribution=GAUSSIAN,
    round_noise=by_multiplier(GAUSSIAN),
    divides_by="expected_cohort",
    correlation=fresh_in_each_round,
    noise_words=lambda table, record: (
        f"; Gaussian noise with noise multiplier {record.release.noise.noise_multiplier:g} is "
        "added to their sum"
    ),
)


# Noise and words of an adaptive clip norm, also for `distributed`.


COUNT_STDDEV_OF_COHORT = 0.05
"""TFF's default standard deviation of the noise on the clip's count, as a share of the cohort."""


def noise_with_count(
    distribution: NoiseDistribution,
    noise_multiplier: float,
    expected_cohort: float,
    count_stddev: float | None,
) -> Noise:
    """The noise of a round with a noised count that moves the clip norm.

    A client moves the count by one half. So noise multiplier z on the sum and standard deviation b
    on the count, in clients, have the effective noise multiplier (z^-2 + (2 b)^-2)^-1/2 (Andrew et
    al. 2021, arXiv:1905.03871, theorem 1, as in TFF). z is chosen such that this is
    `noise_multiplier`.
    """
    if noise_multiplier == 0:
        return distribution.noise(noise_multiplier, 0.0, count_stddev or 0.0)
    count_noise = COUNT_STDDEV_OF_COHORT * expected_cohort if count_stddev is None else count_stddev
    if noise_multiplier >= 2 * count_noise:
        raise InputError(
            f"mechanism.clipped_count_stddev: {count_noise:.3g} clients is too little noise, on "
            f"the count that moves the clip norm, for noise_multiplier {noise_multiplier}; must be "
            f"more than {noise_multiplier / 2:.3g}"
        )
    sum_noise = (noise_multiplier**-2 - (2 * count_noise) ** -2) ** -0.5
    return distribution.noise(noise_multiplier, sum_noise, count_noise)


def moving_clip_words(norm: float, quantile: float) -> str:
    """A clause on a clip norm that starts at a norm and follows a quantile."""
    return (
        f"Updates are clipped to a norm that starts at {norm:g} and follows the {quantile:g} "
        "quantile of their norms"
    )


def noise_with_count_words(record: RunRecord, distribution: str) -> str:
    """A clause on the noise of sum and count, with the name of its distribution."""
    noise = record.release.noise
    return (
        f"the effective noise multiplier is {noise.noise_multiplier:g}, made of {distribution} "
        "noise of "
        f"{significant(noise.sum_noise_multiplier)} clip norms on the sum of updates and of "
        f"{significant(noise.count_noise_stddev)} clients on the count that moves the clip norm"
    )


# No clipping and no noise.


class NoPrivacy(Table, Mechanism, frozen=True, tag_field="kind", tag="none"):
    """A run without clipping and without noise.

    Attributes:
      canary_norm: Norm of a canary's update; use the norm of a real update.
      zeroing: The zeroing of updates; none by default.
    """

    canary_norm: PositiveFloat
    zeroing: Zeroing | None = None


def _aggregator(
    table: NoPrivacy, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    import tensorflow_privacy as tfp

    from fl_audit.mechanisms.tff_aggregators import mean_over_expected_cohort

    return mean_over_expected_cohort(tfp.NoPrivacySumQuery(), expected_cohort)


def _noise_words(table: NoPrivacy, record: RunRecord) -> typing.NoReturn:
    raise InputError(
        "run.json: noise_multiplier must be 0 under mechanism 'none', got "
        f"{record.release.noise.noise_multiplier:g}"
    )


NO_PRIVACY = MechanismKind(
    table=NoPrivacy,
    round_noise=lambda table, expected_cohort: GAUSSIAN.noise(0.0, 0.0),
    make_aggregator=_aggregator,
    clip_and_noise=lambda table, state: ClipAndNoise(math.inf, 0.0),
    canary_norm=lambda table: table.canary_norm,
    noise_distribution=GAUSSIAN,
    divides_by="expected_cohort",
    correlation=fresh_in_each_round,
    why_not_checked="nothing clips the updates, and no noise is added",
    clip_words=lambda table: (
        f"Updates are not clipped, and a canary’s has norm {table.canary_norm:g}"
    ),
    noise_words=_noise_words,
)
