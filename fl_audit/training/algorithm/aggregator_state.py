"""What a round is about to do, read from the state of its aggregator."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_audit.config import AdaptiveZeroing, Mechanism, NoPrivacy, Zeroing


@dataclass(frozen=True)
class ClipAndNoise:
    """What a round clips to, and adds.

    Attributes:
      clip_norm: that this round's updates are clipped to; infinite where they are not.
      stddev: of the noise on each coordinate of the sum of updates; under tree aggregation, of
        the noise on each coordinate of a node.
    """

    clip_norm: float
    stddev: float


def noise_in(aggregator_state: Any) -> ClipAndNoise:
    """What the round does that starts from this state of `make_aggregator`'s process."""
    state = _inside_zeroing(aggregator_state)
    if not hasattr(state, "query_state"):
        return _distributed(state)
    query_state = state.query_state.numerator_state
    if query_state == ():
        return ClipAndNoise(math.inf, 0.0)
    query_state = getattr(query_state, "inner_query_state", query_state)  # inside restarts
    if hasattr(query_state, "tree_state"):
        stddev = query_state.tree_state.value_generator_state.stddev
        return ClipAndNoise(float(query_state.clip_value), float(stddev))
    sum_state = getattr(query_state, "sum_state", query_state)  # inside an adaptive clip
    return ClipAndNoise(float(sum_state.l2_norm_clip), float(sum_state.stddev))


def _inside_zeroing(aggregator_state: Any) -> Any:
    return aggregator_state["inner_agg"] if _has_zeroing(aggregator_state) else aggregator_state


def _has_zeroing(aggregator_state: Any) -> bool:
    return isinstance(aggregator_state, Mapping) and "zeroing_norm" in aggregator_state


def _distributed(state: Any) -> ClipAndNoise:
    """Of a mean over a rotation over a clip over a discretisation over a query."""
    (clip, _), _ = state
    quantile, _ = clip["clipping_norm"]
    discrete = clip["inner_agg"]
    of_one = discrete["inner_agg_process"].query_state.local_stddev / discrete["scale_factor"]
    expected_cohort = quantile.below_estimate_state.denominator
    return ClipAndNoise(
        float(quantile.current_estimate), float(of_one) * math.sqrt(float(expected_cohort))
    )


_CLIPPED_NORM = 1e15
"""Long enough to be clipped at any clip norm that adaptive clipping reaches, short enough that its
square is a float32."""

_JUST_CLIPPED, _SURELY_CLIPPED = 1.001, 2.0
"""Over the clip norm."""


def canary_norm(config: Mechanism, aggregator_state: Any) -> float:
    """How long a canary's update is before a round zeroes and clips it.

    Long enough to be clipped to the round's clip norm (Andrew et al. Algorithm 1, PROJ). Zeroing
    looks at the largest coordinate, which is at most the length: a canary is no longer than the
    zeroing norm where that is above the clip norm, and else a thousandth longer than the clip norm.
    Without clipping it is as long as the config says.

    Args:
      config: the mechanism table of a config.
      aggregator_state: of `make_aggregator`'s process, when the round begins.
    """
    if isinstance(config, NoPrivacy):
        return config.canary_norm
    if config.zeroing is None:
        return _CLIPPED_NORM
    clip_norm = noise_in(aggregator_state).clip_norm
    zeroing_norm = _zeroing_norm(config.zeroing, aggregator_state)
    return float(np.clip(zeroing_norm, _JUST_CLIPPED * clip_norm, _SURELY_CLIPPED * clip_norm))


def _zeroing_norm(config: Zeroing, aggregator_state: Any) -> float:
    """The largest coordinate that an update may have in the round."""
    if not isinstance(config, AdaptiveZeroing):
        return config.norm
    quantile, _ = aggregator_state["zeroing_norm"]
    return config.multiplier * float(quantile.current_estimate) + config.increment
