"""Tables of mechanisms: clipping and noise."""

from typing import Annotated

from msgspec import Meta

from fl_audit.config.table import NonNegativeFloat, PositiveFloat, Table


class GaussianAdaptive(Table, frozen=True, tag_field="kind", tag="gaussian_adaptive"):
    """Gaussian noise and a clip norm that follows a quantile (Andrew et al. 2021).

    Attributes:
      noise_multiplier: the *effective total* one: the noise on the sum of updates is somewhat
        larger, to pay for the noised count that moves the clip norm. 0 means no noise at all.
      clip_norm: the first round's clip norm.
      target_quantile: share of updates that should be below the clip norm.
      clip_learning_rate: of the geometric update of the clip norm.
      clipped_count_stddev: noise on the count, in clients; by default 0.05 of the cohort.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat = 0.1
    target_quantile: Annotated[float, Meta(ge=0, le=1)] = 0.5
    clip_learning_rate: NonNegativeFloat = 0.2
    clipped_count_stddev: PositiveFloat | None = None


class GaussianFixed(Table, frozen=True, tag_field="kind", tag="gaussian_fixed"):
    """Gaussian noise at a fixed clip norm.

    Attributes:
      noise_multiplier: noise on the sum of updates, as a multiple of the clip norm.
      clip_norm: the L2 norm that updates are clipped to.
    """

    noise_multiplier: NonNegativeFloat
    clip_norm: PositiveFloat


Mechanism = GaussianAdaptive | GaussianFixed
