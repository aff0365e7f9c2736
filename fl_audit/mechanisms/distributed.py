"""Skellam noise that clients add themselves, under secure aggregation (Agarwal et al. 2021)."""

import math
import typing
from typing import Annotated, Any

from msgspec import Meta

from fl_audit.accounting.accountants import SKELLAM
from fl_audit.accounting.release import Noise
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunRecord
from fl_audit.mechanisms.independent import (
    COUNT_STDDEV_OF_COHORT,
    moving_clip_words,
    noise_with_count,
    noise_with_count_words,
)
from fl_audit.mechanisms.kind import (
    ClipAndNoise,
    MechanismKind,
    NoisyMechanism,
    fresh_in_each_round,
    made_to_be_clipped,
)
from fl_audit.mechanisms.zeroing import Zeroing

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class Distributed(NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="distributed"):
    """Skellam noise added by the clients, under secure aggregation (Agarwal et al. 2021).

    The aggregation is that of `tff.learning.ddp_secure_aggregator`: the clip norm starts at 0.1 and
    follows the median of the updates' norms.

    Attributes:
      noise_multiplier: The effective total noise multiplier, as under `gaussian_adaptive`.
      bits: The number of bits of an integer that secure aggregation sums, modulo 2^bits.
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    bits: Annotated[int, Meta(ge=1, le=22)] = 20
    zeroing: Zeroing | None = None


def _noise(table: Distributed, expected_cohort: float) -> Noise:
    cohort = _whole(expected_cohort)
    _check(table, cohort)
    return noise_with_count(SKELLAM, table.multiplier, cohort, None)


def _check(table: Distributed, cohort: int) -> None:
    """Raises an `InputError` that names the config's keys for values that TFF refuses."""
    most_noise = 2 * COUNT_STDDEV_OF_COHORT * cohort
    if table.multiplier >= most_noise:
        raise InputError(
            f"mechanism.noise_multiplier: {table.multiplier} is more than the noise on the "
            f"clip's count allows, {COUNT_STDDEV_OF_COHORT} of a cohort of {cohort}; must be less "
            f"than {most_noise:.3g}"
        )
    try:
        _secure_aggregator(table, cohort)
    except ValueError as error:
        raise InputError(
            f"mechanism.bits: {table.bits} bits cannot hold the sum over a cohort of {cohort} "
            "without wrapping; must be larger"
        ) from error


def _aggregator(
    table: Distributed, expected_cohort: float
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.aggregations import WithPlainSums

    return WithPlainSums(_secure_aggregator(table, _whole(expected_cohort)))


def _secure_aggregator(
    table: Distributed, cohort: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    import tensorflow_federated as tff

    return tff.learning.ddp_secure_aggregator(
        table.multiplier, cohort, bits=table.bits, zeroing=False
    )


def _whole(expected_cohort: float) -> int:
    """The cohort as a whole number, which `tff.learning.ddp_secure_aggregator` needs."""
    return max(1, round(expected_cohort))


def _clip_and_noise(table: Distributed, state: Any) -> ClipAndNoise:
    """The clip norm and noise in the nested states of mean, rotation, clip, rounding and query."""
    (clip, _), _ = state
    quantile, _ = clip["clipping_norm"]
    discrete = clip["inner_agg"]
    of_one = discrete["inner_agg_process"].query_state.local_stddev / discrete["scale_factor"]
    expected_cohort = quantile.below_estimate_state.denominator
    return ClipAndNoise(
        float(quantile.current_estimate), float(of_one) * math.sqrt(float(expected_cohort))
    )


def _clip_words(table: Distributed) -> str:
    return moving_clip_words(0.1, 0.5)


def _noise_words(table: Distributed, record: RunRecord) -> str:
    return (
        f"; {noise_with_count_words(record, 'Skellam')}. Each participant adds its share of the "
        f"noise before secure aggregation, whose sums of {table.bits} bits are simulated"
    )


DISTRIBUTED = MechanismKind(
    table=Distributed,
    round_noise=_noise,
    make_aggregator=_aggregator,
    clip_and_noise=_clip_and_noise,
    canary_norm=made_to_be_clipped,
    noise_law=SKELLAM,
    divides_by="actual_cohort",
    trees=fresh_in_each_round,
    why_not_checked="each client adds a share of discrete noise, in rotated coordinates",
    why_not_replayed="clients take the seed of their noise from the clock",
    clip_words=_clip_words,
    noise_words=_noise_words,
)
