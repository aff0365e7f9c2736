"""The aggregator of a run: zeroing, clipping and noise, by TFF and tensorflow-privacy alone.

Three noise multipliers are easy to confuse. The *effective* one describes everything that a
round releases. Under an adaptive clip a round releases two things, the noised sum of updates and
the noised count that moves the clip norm, and the noise *on the sum* is somewhat larger so that
both together are as private as one release at the effective multiplier (Andrew et al. 2021,
theorem 1: z^-2 = z_sum^-2 + (2 s)^-2 for count noise of standard deviation s). Under tree
aggregation all three are about a node of the tree.
"""

import typing

from fl_audit.mechanisms.kind import Mechanism, RoundNoise
from fl_audit.mechanisms.registry import MECHANISMS
from fl_audit.mechanisms.zeroing import zeroed

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


def round_noise(table: Mechanism, expected_cohort: float) -> RoundNoise:
    """The noise that a mechanism adds in a round; may import TFF.

    Args:
      table: The mechanism table of a config.
      expected_cohort: Expected number of clients and canaries in a round.

    Raises:
      InputError: The noise on the adaptive clip's count is too low for the noise multiplier, or
        too few bits are asked for.
    """
    return MECHANISMS.of(table).round_noise(table, expected_cohort)


def make_aggregator(
    table: Mechanism, expected_cohort: float
) -> "tff.aggregators.UnweightedAggregationFactory":
    """Zeroes, clips, sums, adds noise, and divides by the expected cohort; imports TFF.

    Args:
      table: The mechanism table of a config, that `round_noise` accepts.
      expected_cohort: Expected number of clients and canaries in a round. The sum is divided by
        it whatever the actual number, so that the divisor tells nothing; `distributed` alone
        divides by the actual number.
    """
    factory = MECHANISMS.of(table).make_aggregator(table, expected_cohort)
    return factory if table.zeroing is None else zeroed(table.zeroing, factory)
