"""The aggregator of a run: zeroing, clipping and noise, by TFF and tensorflow-privacy alone.

Three noise multipliers are easy to confuse. The *effective* one describes everything that a
round releases. Under an adaptive clip a round releases two things, the noised sum of updates and
the noised count that moves the clip norm, and the noise *on the sum* is somewhat larger so that
both together are as private as one release at the effective multiplier (Andrew et al. 2021,
theorem 1: z^-2 = z_sum^-2 + (2 s)^-2 for count noise of standard deviation s). Under tree
aggregation all three are about a node of the tree.
"""

from dataclasses import dataclass

import tensorflow_federated as tff
import tensorflow_privacy as tfp

from fl_audit.config import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    Mechanism,
    NoPrivacy,
    TreeAggregation,
    Zeroing,
)
from fl_audit.errors import InputError
from fl_audit.training.algorithm.plain_sums import WithPlainSums

_COUNT_STDDEV_OF_COHORT = 0.05
"""TFF's noise on a clip's count where nothing else is asked for, over the cohort."""


@dataclass(frozen=True)
class RoundNoise:
    """The noise of one round.

    Attributes:
      noise_multiplier: effective, everything that the round releases counted.
      sum_noise_multiplier: on the sum of clipped updates, as a multiple of the clip norm; on each
        node under tree aggregation.
      count_noise_stddev: on the number of unclipped updates, in clients; 0 without one.
    """

    noise_multiplier: float
    sum_noise_multiplier: float
    count_noise_stddev: float


def round_noise(config: Mechanism, expected_cohort: float) -> RoundNoise:
    """The noise that a mechanism adds in a round.

    Args:
      config: the mechanism table of a config.
      expected_cohort: expected number of clients and canaries in a round.

    Raises:
      InputError: the noise on the adaptive clip's count is too low for the noise multiplier, or
        too few bits are asked for.
    """
    match config:
        case NoPrivacy():
            return RoundNoise(0.0, 0.0, 0.0)
        case GaussianAdaptive():
            asked_for = config.clipped_count_stddev
            return _with_count(config.noise_multiplier, expected_cohort, asked_for)
        case Distributed():
            _check_distributed(config, _whole(expected_cohort))
            return _with_count(config.noise_multiplier, _whole(expected_cohort), None)
        case _:
            return RoundNoise(config.noise_multiplier, config.noise_multiplier, 0.0)


def _with_count(
    noise_multiplier: float, expected_cohort: float, count_stddev: float | None
) -> RoundNoise:
    """The parts of an effective noise multiplier, where a noised count moves the clip norm."""
    try:
        sum_noise, count_noise = tff.aggregators.differential_privacy.adaptive_clip_noise_params(
            noise_multiplier, float(expected_cohort), count_stddev
        )
    except ValueError as error:
        noise = count_stddev or _COUNT_STDDEV_OF_COHORT * expected_cohort
        raise InputError(
            f"mechanism.clipped_count_stddev: {noise:.3g} clients is too little noise on the "
            f"clip's count for noise_multiplier {noise_multiplier}; must be more than "
            f"{noise_multiplier / 2:.3g}"
        ) from error
    return RoundNoise(noise_multiplier, sum_noise, count_noise or 0.0)


def _check_distributed(config: Distributed, cohort: int) -> None:
    """What TFF refuses, by the config's keys."""
    most_noise = 2 * _COUNT_STDDEV_OF_COHORT * cohort
    if config.noise_multiplier >= most_noise:
        raise InputError(
            f"mechanism.noise_multiplier: {config.noise_multiplier} is more than the noise on the "
            f"clip's count allows, {_COUNT_STDDEV_OF_COHORT} of a cohort of {cohort}; must be less "
            f"than {most_noise:.3g}"
        )
    try:
        _distributed(config, cohort)
    except ValueError as error:
        raise InputError(
            f"mechanism.bits: {config.bits} bits cannot hold the sum over a cohort of {cohort} "
            "without wrapping; must be larger"
        ) from error


def make_aggregator(
    config: Mechanism, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """Zeroes, clips, sums, adds noise, and divides by the expected cohort.

    Args:
      config: the mechanism table of a config, that `round_noise` accepts.
      expected_cohort: expected number of clients and canaries in a round. The sum is divided by
        it whatever the actual number, so that the divisor tells nothing; `distributed` alone
        divides by the actual number.
    """
    factory = _without_zeroing(config, expected_cohort)
    return factory if config.zeroing is None else _zeroed(config.zeroing, factory)


def _without_zeroing(
    config: Mechanism, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    match config:
        case NoPrivacy():
            return _mean(tfp.NoPrivacySumQuery(), expected_cohort)
        case TreeAggregation():
            return _TreeFactory(config, expected_cohort)
        case Distributed():
            return WithPlainSums(_distributed(config, expected_cohort))
        case GaussianAdaptive():
            return tff.aggregators.DifferentiallyPrivateFactory.gaussian_adaptive(
                noise_multiplier=config.noise_multiplier,
                clients_per_round=expected_cohort,
                initial_l2_norm_clip=config.clip_norm,
                target_unclipped_quantile=config.target_quantile,
                learning_rate=config.clip_learning_rate,
                clipped_count_stddev=config.clipped_count_stddev,
            )
        case GaussianFixed():
            return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
                noise_multiplier=config.noise_multiplier,
                clients_per_round=expected_cohort,
                clip=config.clip_norm,
            )


def _mean(
    query: tfp.SumAggregationDPQuery, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """A query's sum over the expected cohort."""
    return tff.aggregators.DifferentiallyPrivateFactory(
        tfp.NormalizedQuery(query, denominator=expected_cohort)
    )


class _TreeFactory(tff.aggregators.UnweightedAggregationFactory):
    """Tree aggregation, with restarts (Kairouz et al. 2021, arXiv:2103.00039, algorithm 1).

    `DifferentiallyPrivateFactory.tree_aggregation` has no restarts, and wants the updates' shapes
    before TFF tells them.
    """

    def __init__(self, config: TreeAggregation, expected_cohort: float) -> None:
        self._config = config
        self._expected_cohort = expected_cohort

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """The process for updates of a type."""
        query = tfp.TreeResidualSumQuery.build_l2_gaussian_query(
            clip_norm=self._config.clip_norm,
            noise_multiplier=self._config.noise_multiplier,
            record_specs=tff.types.type_to_tf_tensor_specs(value_type),
        )
        if self._config.restart_every is not None:
            period = tfp.restart_query.PeriodicRoundRestartIndicator(self._config.restart_every)
            query = tfp.RestartQuery(query, period)
        return _mean(query, self._expected_cohort).create(value_type)


def _distributed(
    config: Distributed, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    return tff.learning.ddp_secure_aggregator(
        config.noise_multiplier, _whole(expected_cohort), bits=config.bits, zeroing=False
    )


def _whole(expected_cohort: float) -> int:
    """As `tff.learning.ddp_secure_aggregator` wants it."""
    return max(1, round(expected_cohort))


def _zeroed(
    config: Zeroing, factory: tff.aggregators.UnweightedAggregationFactory
) -> tff.aggregators.UnweightedAggregationFactory:
    """Zeroing by the largest coordinate, as `tff.learning.dp_aggregator` has it."""
    match config:
        case FixedZeroing():
            return tff.aggregators.zeroing_factory(config.norm, factory)
        case AdaptiveZeroing():
            norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
                initial_estimate=config.initial_estimate,
                target_quantile=config.target_quantile,
                learning_rate=config.learning_rate,
                multiplier=config.multiplier,
                increment=config.increment,
            )
            return tff.aggregators.zeroing_factory(norm, factory)
