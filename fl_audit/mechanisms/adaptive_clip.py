"""The noise of mechanisms with an adaptive clip norm, which noise a count beside the sum."""

import warnings

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunRecord
from fl_audit.mechanisms.kind import RoundNoise
from fl_audit.number_words import significant

COUNT_STDDEV_OF_COHORT = 0.05
"""TFF's default noise on the clip's count, as a share of the cohort."""


def noise_with_count(
    noise_multiplier: float, expected_cohort: float, count_stddev: float | None
) -> RoundNoise:
    """The noise of a round where a noised count moves the clip norm.

    Args:
      noise_multiplier: The effective noise multiplier.
      expected_cohort: The expected number of clients and canaries in a round.
      count_stddev: The standard deviation of the noise on the count, in clients; None for TFF's
        choice.

    Raises:
      InputError: The noise on the count is too low for the noise multiplier.
    """
    import tensorflow_federated as tff

    noise_params = tff.aggregators.differential_privacy.adaptive_clip_noise_params
    try:
        with warnings.catch_warnings(action="ignore"):  # plan and report say the noise of the sum
            sum_noise, count_noise = noise_params(
                noise_multiplier, float(expected_cohort), count_stddev
            )
    except ValueError as error:
        noise = count_stddev or COUNT_STDDEV_OF_COHORT * expected_cohort
        raise InputError(
            f"mechanism.clipped_count_stddev: {noise:.3g} clients is too little noise on the "
            f"clip's count for noise_multiplier {noise_multiplier}; must be more than "
            f"{noise_multiplier / 2:.3g}"
        ) from error
    return RoundNoise(noise_multiplier, sum_noise, count_noise or 0.0)


def moving_clip_words(norm: float, quantile: float) -> str:
    """A clause on a clip norm that starts at a value and follows a quantile."""
    return (
        f"Updates are clipped to a norm that starts at {norm:g} and follows the {quantile:g} "
        "quantile of their norms"
    )


def noise_with_count_words(record: RunRecord, law: str) -> str:
    """A clause on noise of a law, Gaussian or other, on the sum and on the count."""
    return (
        f"the effective noise multiplier is {record.noise_multiplier:g}, made of {law} noise of "
        f"{significant(record.sum_noise_multiplier)} clip norms on the sum of updates and of "
        f"{significant(record.count_noise_stddev)} clients on the count that moves the clip norm"
    )
