"""The aggregator of a run: clipping and noise, by tensorflow-privacy's queries through TFF.

Three noise multipliers are easy to confuse. The *effective* one describes everything that a
round releases. Under an adaptive clip a round releases two things, the noised sum of updates and
the noised count that moves the clip norm, and the noise *on the sum* is somewhat larger so that
both together are as private as one release at the effective multiplier (Andrew et al. 2021,
theorem 1: z^-2 = z_sum^-2 + (2 s)^-2 for count noise of standard deviation s).
"""

from dataclasses import dataclass
from typing import Any

import tensorflow_federated as tff

from fl_audit.config import GaussianAdaptive, Mechanism
from fl_audit.errors import InputError


@dataclass(frozen=True)
class RoundNoise:
    """The noise of one round.

    Attributes:
      noise_multiplier: effective, everything that the round releases counted.
      sum_noise_multiplier: on the sum of clipped updates, as a multiple of the clip norm.
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
      InputError: the noise on the adaptive clip's count is too low for the noise multiplier.
    """
    if not isinstance(config, GaussianAdaptive):
        return RoundNoise(config.noise_multiplier, config.noise_multiplier, 0.0)
    try:
        sum_noise, count_noise = tff.aggregators.differential_privacy.adaptive_clip_noise_params(
            config.noise_multiplier, expected_cohort, config.clipped_count_stddev
        )
    except ValueError as error:
        count_noise = config.clipped_count_stddev or 0.05 * expected_cohort
        raise InputError(
            f"mechanism.clipped_count_stddev: {count_noise:.3g} clients is too little noise on the "
            f"clip's count for noise_multiplier {config.noise_multiplier}; must be more than "
            f"{config.noise_multiplier / 2:.3g}"
        ) from error
    return RoundNoise(config.noise_multiplier, sum_noise, count_noise or 0.0)


def make_aggregator(
    config: Mechanism, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """Clips, sums, adds noise, and divides by the expected cohort.

    Args:
      config: the mechanism table of a config.
      expected_cohort: expected number of clients and canaries in a round. The sum is divided by
        it whatever the actual number, so that the divisor tells nothing.
    """
    factory = tff.aggregators.DifferentiallyPrivateFactory
    if isinstance(config, GaussianAdaptive):
        return factory.gaussian_adaptive(
            noise_multiplier=config.noise_multiplier,
            clients_per_round=expected_cohort,
            initial_l2_norm_clip=config.clip_norm,
            target_unclipped_quantile=config.target_quantile,
            learning_rate=config.clip_learning_rate,
            clipped_count_stddev=config.clipped_count_stddev,
        )
    return factory.gaussian_fixed(
        noise_multiplier=config.noise_multiplier,
        clients_per_round=expected_cohort,
        clip=config.clip_norm,
    )


@dataclass(frozen=True)
class ClipAndNoise:
    """What a round clips to, and adds.

    Attributes:
      clip_norm: that this round's updates are clipped to.
      stddev: of the noise on each coordinate of the sum of updates.
    """

    clip_norm: float
    stddev: float


def noise_in(aggregator_state: Any) -> ClipAndNoise:
    """What the round does that starts from this state of `make_aggregator`'s process."""
    # A Gaussian sum query, inside a normalised query, and an adaptive one in between.
    query_state = aggregator_state.query_state.numerator_state
    sum_state = getattr(query_state, "sum_state", query_state)
    return ClipAndNoise(float(sum_state.l2_norm_clip), float(sum_state.stddev))


_CLIPPED_NORM = 1e15
"""Long enough to be clipped at any clip norm that adaptive clipping reaches, short enough that its
square is a float32."""


def canary_norm(aggregator_state: Any) -> float:
    """How long a canary's update is before a round clips it.

    Long enough to be clipped to the round's clip norm (Andrew et al. Algorithm 1, PROJ).

    Args:
      aggregator_state: of `make_aggregator`'s process, when the round begins.
    """
    del aggregator_state  # every mechanism here clips
    return _CLIPPED_NORM
