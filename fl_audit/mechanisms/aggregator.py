"""The aggregator of a run: zeroing, clipping and noise, by TFF and tensorflow-privacy alone.

Three noise multipliers are easy to confuse. The *effective* one describes everything that a round
releases. Under an adaptive clip a round releases two things, the noised sum of updates and the
noised count that moves the clip norm. The noise multiplier *of the sum* is then larger than the
effective one, so that both releases together are as private as one release at the effective
multiplier (Andrew et al. 2021, theorem 1: z^-2 = z_sum^-2 + (2 s)^-2 for count noise of standard
deviation s). Under tree aggregation each of them describes a node of the tree.
"""

import typing

from fl_audit.errors import InputError
from fl_audit.mechanisms.kind import Mechanism, RoundNoise
from fl_audit.mechanisms.registry import MECHANISMS
from fl_audit.mechanisms.zeroing import zeroed

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff

_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e6
"""Noise multipliers between which accounting is exact; below, epsilon is above 1e11."""


def round_noise(table: Mechanism, expected_cohort: float) -> RoundNoise:
    """The noise that a mechanism adds in a round; may import TFF.

    Args:
      table: The mechanism table of a config.
      expected_cohort: The expected number of clients and canaries in a round.

    Raises:
      InputError: The noise multiplier is too small or too large to be told from none or to be
        computed with, the noise on the adaptive clip's count is too low for it, or the config asks
        for too few bits.
    """
    multiplier = getattr(table, "noise_multiplier", 0.0)
    if multiplier and not _LEAST_NOISE <= multiplier <= _MOST_NOISE:
        raise InputError(
            f"mechanism.noise_multiplier: must be 0, for no noise, or from {_LEAST_NOISE:g} to "
            f"{_MOST_NOISE:g}, got {multiplier:g}"
        )
    return MECHANISMS.of(table).round_noise(table, expected_cohort)


def make_aggregator(
    table: Mechanism, expected_cohort: float
) -> "tff.aggregators.UnweightedAggregationFactory":
    """The aggregation that zeroes, clips, sums, adds noise and divides; imports TFF.

    Args:
      table: The mechanism table of a config, one that `round_noise` accepts.
      expected_cohort: The expected number of clients and canaries in a round. The sum is divided by
        it whatever the actual number is, so that the divisor reveals nothing; `distributed` alone
        divides by the actual number.
    """
    factory = MECHANISMS.of(table).make_aggregator(table, expected_cohort)
    return factory if table.zeroing is None else zeroed(table.zeroing, factory)
