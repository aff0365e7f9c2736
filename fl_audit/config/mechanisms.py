"""Tables of mechanisms: zeroing, clipping and noise."""

import math
from typing import Annotated

from msgspec import Meta

from fl_audit.kinds.table import NonNegativeFloat, PositiveFloat, PositiveInt, Table

Share = Annotated[float, Meta(ge=0, le=1)]


class FixedZeroing(Table, frozen=True, tag_field="kind", tag="fixed"):
    """An update with a coordinate larger than a fixed number counts as zero.

    Attributes:
      norm: the largest absolute coordinate that an update may have.
    """

    norm: PositiveFloat


class AdaptiveZeroing(Table, frozen=True, tag_field="kind", tag="adaptive"):
    """Zeroing at a norm that follows a quantile of the updates' largest coordinates.

    Defaults are those of `tff.learning.dp_aggregator`. The quantile is *not* noised, so that no
    analytical epsilon is known for a mechanism with it.

    Attributes:
      initial_estimate: of the quantile, in the first round.
      target_quantile: share of updates that should be below the estimate.
      learning_rate: of the geometric update of the estimate.
      multiplier: the zeroing norm is the estimate times this,
      increment: plus this.
    """

    initial_estimate: PositiveFloat = 10.0
    target_quantile: Share = 0.98
    learning_rate: PositiveFloat = math.log(10.0)
    multiplier: PositiveFloat = 2.0
    increment: NonNegativeFloat = 1.0


Zeroing = FixedZeroing | AdaptiveZeroing


class GaussianAdaptive(Table, frozen=True, tag_field="kind", tag="gaussian_adaptive"):
    """Gaussian noise and a clip norm that follows a quantile (Andrew et al. 2021).

    Attributes:
      noise_multiplier: the *effective total* one: the noise on the sum of updates is somewhat
        larger, to pay for the noised count that moves the clip norm. 0 means no noise at all.
      clip_norm: the first round's clip norm.
      target_quantile: share of updates that should be below the clip norm.
      clip_learning_rate: of the geometric update of the clip norm.
      clipped_count_stddev: noise on the count, in clients; by default 0.05 of the cohort.
      zeroing: of updates before they are clipped; none by default.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat = 0.1
    target_quantile: Share = 0.5
    clip_learning_rate: NonNegativeFloat = 0.2
    clipped_count_stddev: PositiveFloat | None = None
    zeroing: Zeroing | None = None


class GaussianFixed(Table, frozen=True, tag_field="kind", tag="gaussian_fixed"):
    """Gaussian noise at a fixed clip norm.

    Attributes:
      noise_multiplier: noise on the sum of updates, as a multiple of the clip norm.
      clip_norm: the L2 norm that updates are clipped to.
      zeroing: of updates before they are clipped; none by default.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat
    zeroing: Zeroing | None = None


class TreeAggregation(Table, frozen=True, tag_field="kind", tag="tree_aggregation"):
    """Noise that is correlated over rounds by binary trees: DP-FTRL (Kairouz et al. 2021).

    Attributes:
      noise_multiplier: noise on each node of a tree, as a multiple of the clip norm.
      clip_norm: the L2 norm that updates are clipped to.
      restart_every: rounds of a tree, after which a new one is started; by default one tree spans
        the run. For an epoch of shuffled clients a tree: clients by clients per round, rounded up.
      zeroing: of updates before they are clipped; none by default.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat
    restart_every: PositiveInt | None = None
    zeroing: Zeroing | None = None


class Distributed(Table, frozen=True, tag_field="kind", tag="distributed"):
    """Skellam noise added by the clients, under secure aggregation (Agarwal et al. 2021).

    As `tff.learning.ddp_secure_aggregator` has it: the clip norm starts at 0.1 and follows the
    median of the updates' norms.

    Attributes:
      noise_multiplier: the effective total one, as under `gaussian_adaptive`.
      bits: of an integer that secure aggregation sums, modulo 2^bits.
      zeroing: of updates before they are clipped; none by default.
    """

    noise_multiplier: NonNegativeFloat
    bits: Annotated[int, Meta(ge=1, le=22)] = 20
    zeroing: Zeroing | None = None


class NoPrivacy(Table, frozen=True, tag_field="kind", tag="none"):
    """Neither clipping nor noise.

    Attributes:
      canary_norm: length of a canary's update, which nothing limits here. One like those of real
        clients asks what a client leaks, a longer one what an attacker could place.
      zeroing: of updates; none by default.
    """

    canary_norm: PositiveFloat
    zeroing: Zeroing | None = None


Mechanism = GaussianAdaptive | GaussianFixed | TreeAggregation | Distributed | NoPrivacy
