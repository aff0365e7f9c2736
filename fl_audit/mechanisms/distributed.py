"""Skellam noise from clients, under secure aggregation (Agarwal et al. 2021)."""

import dataclasses
import math
import typing
from typing import Annotated, Any

from msgspec import Meta
from scipy import special

from fl_audit.accounting.release import Grid, Noise
from fl_audit.accounting.skellam import SKELLAM
from fl_audit.canaries.families import padded_size
from fl_audit.config_tables.kinds import PositiveFloat
from fl_audit.errors import InputError
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
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
    fixed_clip_and_noise,
    fixed_clip_words,
    fresh_in_each_round,
)
from fl_audit.mechanisms.zeroing import Zeroing

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class Distributed(NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="distributed"):
    """Skellam noise added by the clients, under secure aggregation (Agarwal et al. 2021).

    The aggregation is that of `tff.learning.ddp_secure_aggregator`, but with a fixed clip norm if
    `clip_norm` is set. Accounting can give an epsilon only for a fixed clip norm.

    Attributes:
      noise_multiplier: As in `gaussian_fixed` if `clip_norm` is set, else as in
        `gaussian_adaptive`.
      clip_norm: L2 norm to which updates are clipped; by default it starts at 0.1 and follows the
        median norm.
      bits: Bits of the summed integers.
      norm_inflation: Share by which rounding may increase an update's norm (docs/mechanisms.md).
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    clip_norm: PositiveFloat | None = None
    bits: Annotated[int, Meta(ge=1, le=22)] = 20
    norm_inflation: Annotated[float, Meta(gt=0, le=1)] = 0.01
    zeroing: Zeroing | None = None


def _noise(table: Distributed, expected_cohort: float) -> Noise:
    cohort = whole(expected_cohort)
    _check(table, cohort)
    if table.clip_norm is None:
        return noise_with_count(SKELLAM, table.multiplier, cohort, None)
    noise = SKELLAM.noise(table.multiplier, table.multiplier)
    # The grid is coarsest for a model of one parameter, the worst case.
    least_cells = table.clip_norm * scale_factor(table, table.clip_norm, cohort, 1)
    return dataclasses.replace(noise, grid=Grid(least_cells, table.norm_inflation))


LARGEST_SCALE = 1e6
"""The largest `scale_factor`, as in TFF."""

_WRAPPING = 1e-4
"""The probability that a coordinate wraps around, from which TFF calculates the scale factor."""

_DEVIATIONS = -float(special.ndtri(_WRAPPING / 2))
"""A normal variable is more than this many standard deviations off with probability `_WRAPPING`."""

FIRST_CLIP_NORM = 0.1
"""The adaptive clip norm of the first round, as in TFF."""

_CLIP_QUANTILE, _CLIP_RATE = 0.5, 0.2
"""The target quantile and the learning rate of the adaptive clip norm, as in TFF."""


def _adaptive_clip(table: Distributed, noise: Noise, denominator: float) -> AdaptiveClip | None:
    if table.clip_norm is not None:
        return None
    return AdaptiveClip(
        target_quantile=_CLIP_QUANTILE,
        learning_rate=_CLIP_RATE,
        count_stddev=noise.count_noise_stddev,
        denominator=denominator,
    )


def scale_factor(table: Distributed, clip_norm: float, cohort: int, dim: int) -> float:
    """The factor on updates before they are rounded to integers, at a fixed clip norm.

    `dim` is the number of coordinates of a rotated update.
    """
    return min(most_cells(table.bits, table.multiplier, cohort, dim) / clip_norm, LARGEST_SCALE)


def most_cells(bits: int, sum_noise_multiplier: float, cohort: int, dim: int) -> float:
    """The clip norm in steps of the finest grid whose sums fit into `bits`.

    On this grid 2^bits is 2 k standard deviations of a coordinate of the sum, with k =
    `_DEVIATIONS` (Kairouz, Liu & Steinke 2021, arXiv:2102.06387, section 4.4). `dim` is the number
    of coordinates of a rotated update.
    """
    spread = math.hypot(cohort / math.sqrt(dim), sum_noise_multiplier)
    return math.sqrt(4.0**bits - cohort * _DEVIATIONS**2) / (2 * _DEVIATIONS * spread)


def check_grid(table: Distributed, cohort: int, dim: int) -> None:
    """Raises InputError if the grid is too coarse for a model of `dim` parameters.

    An adaptive clip norm is not checked: it has no accounting that rounding could invalidate.
    """
    if table.clip_norm is None:
        return
    padded = padded_size(dim)
    cells = table.clip_norm * scale_factor(table, table.clip_norm, cohort, padded)
    inflation = math.sqrt(padded) / cells
    if inflation > table.norm_inflation:
        raise InputError(
            f"mechanism.norm_inflation: rounding {dim:,} parameters to integers of {table.bits} "
            f"bits may lengthen an update by {inflation:.3g} of the clip norm; must be at least "
            f"this share, or mechanism.bits larger, got {table.norm_inflation:g}"
        )


def _check(table: Distributed, cohort: int) -> None:
    """Raises InputError, naming the config's keys, if values do not fit together."""
    most_noise = 2 * COUNT_STDDEV_OF_COHORT * cohort
    if table.clip_norm is None and table.multiplier >= most_noise:
        raise InputError(
            f"mechanism.noise_multiplier: {table.multiplier} is more than is possible with the "
            "noise on the count that moves the clip norm, of standard deviation "
            f"{COUNT_STDDEV_OF_COHORT} times the cohort of {cohort}; must be less than "
            f"{most_noise:.3g}"
        )
    if 2**table.bits < cohort or 4**table.bits < cohort * _DEVIATIONS**2:
        raise InputError(
            f"mechanism.bits: {table.bits} bits cannot hold the sum over a cohort of {cohort} "
            "without wrapping; must be larger"
        )


def _aggregator(
    table: Distributed, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.tff_aggregators import WithCheckedSize, WithPlainSums
    from fl_audit.mechanisms.tff_noise import WithFreshKeys

    cohort = whole(expected_cohort)
    factory = WithPlainSums(WithFreshKeys(lambda: _secure_aggregator(table, cohort)))
    return WithCheckedSize(factory, lambda dim: check_grid(table, cohort, dim))


def _secure_aggregator(
    table: Distributed, cohort: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    """TFF's aggregation with secure sums, with a fixed or an adaptive clip norm."""
    import tensorflow_federated as tff

    if table.clip_norm is None:
        return tff.learning.ddp_secure_aggregator(
            table.multiplier, cohort, bits=table.bits, zeroing=False
        )
    # `tff.learning.ddp_secure_aggregator` is made of such parts, which TFF does not export.
    from tensorflow_federated.python.aggregators import distributed_dp

    of_sum = distributed_dp.DistributedDpSumFactory(
        noise_multiplier=table.multiplier,
        expected_clients_per_round=cohort,
        bits=table.bits,
        l2_clip=table.clip_norm,
        modclip_prob=_WRAPPING,
        mechanism="distributed_skellam",
        rotation_type="hd",
    )
    return tff.aggregators.UnweightedMeanFactory(
        value_sum_factory=of_sum,
        count_sum_factory=tff.aggregators.SecureSumFactory(
            upper_bound_threshold=1, lower_bound_threshold=0
        ),
    )


def whole(expected_cohort: float) -> int:
    """The cohort as an integer, at least 1: the number of shares that make up the noise."""
    return max(1, round(expected_cohort))


def _clip_and_noise(table: Distributed, state: Any) -> ClipAndNoise:
    """Clip norm and noise: fixed, or from the nested states of TFF's aggregation."""
    if table.clip_norm is not None:
        return fixed_clip_and_noise(table, state)
    (clip, _), _ = state
    quantile, _ = clip["clipping_norm"]
    discrete = clip["inner_agg"]
    of_one = discrete["inner_agg_process"].query_state.local_stddev / discrete["scale_factor"]
    expected_cohort = quantile.below_estimate_state.denominator
    return ClipAndNoise(
        float(quantile.current_estimate), float(of_one) * math.sqrt(float(expected_cohort))
    )


def _clip_words(table: Distributed) -> str:
    if table.clip_norm is not None:
        return fixed_clip_words(table)
    return moving_clip_words(FIRST_CLIP_NORM, _CLIP_QUANTILE)


def _noise_words(table: Distributed, record: RunRecord) -> str:
    multiplier = record.release.noise.noise_multiplier
    noise = (
        noise_with_count_words(record, "Skellam")
        if table.clip_norm is None
        else f"Skellam noise with noise multiplier {multiplier:g} is added to their sum"
    )
    return (
        f"; {noise}. Each participant adds its share of the "
        f"noise before secure aggregation, whose sums of {table.bits} bits are simulated"
    )


DISTRIBUTED = MechanismKind(
    table=Distributed,
    round_noise=_noise,
    make_aggregator=_aggregator,
    clip_and_noise=_clip_and_noise,
    noise_distribution=SKELLAM,
    correlation=fresh_in_each_round,
    divides_by="actual_cohort",
    why_not_checked="each client adds a share of discrete noise, in rotated coordinates",
    why_not_replayed="clients draw shares of the noise from seeds that a replay does not provide",
    clip_words=_clip_words,
    noise_words=_noise_words,
    adaptive_clip=_adaptive_clip,
)
