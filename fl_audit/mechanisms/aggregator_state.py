"""Readings from an aggregator's state: clip norm, noise, and the length of canaries in a round."""

from typing import Any

import numpy as np

from fl_audit.mechanisms.kind import ClipAndNoise, Mechanism
from fl_audit.mechanisms.registry import MECHANISMS
from fl_audit.mechanisms.zeroing import inside_zeroing, zeroing_norm

_CLIPPED_NORM = 1e15
"""A norm that adaptive clipping never reaches as its clip norm, and whose square is a float32."""

_JUST_CLIPPED, _SURELY_CLIPPED = 1.001, 2.0
"""The least and the largest length of a canary, over the clip norm."""


def clip_and_noise(table: Mechanism, aggregator_state: Any) -> ClipAndNoise:
    """The clip norm and the noise of the round that starts from a state.

    Args:
      table: The mechanism table of a config.
      aggregator_state: The state of the process of `make_aggregator`'s factory.
    """
    state = inside_zeroing(table.zeroing, aggregator_state)
    return MECHANISMS.of(table).clip_and_noise(table, state)


def canary_norm(table: Mechanism, aggregator_state: Any) -> float:
    """The length of a canary's update before a round zeroes and clips it.

    The update is long enough to be clipped to the round's clip norm (Andrew et al. Algorithm 1,
    PROJ). Zeroing looks at the largest coordinate, which is at most the length. A canary is
    therefore no longer than the zeroing norm where that is above the clip norm, and otherwise a
    thousandth longer than the clip norm. Without clipping its length is that of the config.

    Args:
      table: The mechanism table of a config.
      aggregator_state: The state of the process of `make_aggregator`'s factory when the round
        begins.
    """
    fixed = MECHANISMS.of(table).canary_norm(table)
    if fixed is not None:
        return fixed
    if table.zeroing is None:
        return _CLIPPED_NORM
    clip_norm = clip_and_noise(table, aggregator_state).clip_norm
    longest = zeroing_norm(table.zeroing, aggregator_state)
    return float(np.clip(longest, _JUST_CLIPPED * clip_norm, _SURELY_CLIPPED * clip_norm))
