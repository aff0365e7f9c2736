"""The mechanism `none`, which is the mean of updates as they are."""

import math
import typing
from typing import Any

from fl_audit.accounting.noise_laws import GAUSSIAN
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunRecord
from fl_audit.kinds.table import PositiveFloat, Table
from fl_audit.mechanisms.kind import (
    ClipAndNoise,
    Mechanism,
    MechanismKind,
    RoundNoise,
    fresh_in_each_round,
)
from fl_audit.mechanisms.zeroing import Zeroing

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class NoPrivacy(Table, Mechanism, frozen=True, tag_field="kind", tag="none"):
    """The table of a run without clipping and without noise.

    Attributes:
      canary_norm: The length of a canary's update, which nothing limits here. With a length like
        that of real clients the audit measures what a client leaks; with a longer one, what an
        attacker could insert.
      zeroing: The zeroing of updates; none by default.
    """

    canary_norm: PositiveFloat
    zeroing: Zeroing | None = None


def _noise(table: NoPrivacy, expected_cohort: float) -> RoundNoise:
    return RoundNoise(0.0, 0.0, 0.0)


def _aggregator(
    table: NoPrivacy, expected_cohort: float
) -> "tff.aggregators.UnweightedAggregationFactory":
    import tensorflow_privacy as tfp

    from fl_audit.mechanisms.query_factories import mean_over_expected_cohort

    return mean_over_expected_cohort(tfp.NoPrivacySumQuery(), expected_cohort)


def _clip_and_noise(table: NoPrivacy, state: Any) -> ClipAndNoise:
    return ClipAndNoise(math.inf, 0.0)


def _canary_norm(table: NoPrivacy) -> float:
    return table.canary_norm


def _clip_words(table: NoPrivacy) -> str:
    return f"Updates are not clipped, and a canary’s is {table.canary_norm:g} long"


def _noise_words(table: NoPrivacy, record: RunRecord) -> typing.NoReturn:
    raise InputError(
        "run.json: noise_multiplier must be 0 under mechanism 'none', got "
        f"{record.noise_multiplier:g}"
    )


NO_PRIVACY = MechanismKind(
    table=NoPrivacy,
    round_noise=_noise,
    make_aggregator=_aggregator,
    clip_and_noise=_clip_and_noise,
    canary_norm=_canary_norm,
    noise_law=GAUSSIAN,
    trees=fresh_in_each_round,
    why_not_checked="nothing clips the updates, and no noise is added",
    clip_words=_clip_words,
    noise_words=_noise_words,
)
