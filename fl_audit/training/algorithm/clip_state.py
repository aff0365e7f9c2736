"""What the state of a TFF aggregator says of clipping, zeroing and the denominator."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fl_audit.errors import InputError

JUST_CLIPPED, SURELY_CLIPPED = 1.001, 2.0
"""The least and the largest length of a canary, over the clip norm."""


@dataclass(frozen=True)
class ClipState:
    """What is known of one round's clip.

    Attributes:
      norm: The norm that updates are clipped to; None where the state does not show one.
      denominator: The fixed number that a sum of updates is divided by; None where there is none.
      unzeroed: The largest coordinate that is certainly not zeroed; infinite without zeroing.
    """

    norm: float | None
    denominator: float | None
    unzeroed: float = math.inf


def read_clip(state: Any) -> ClipState:
    """Reads the clip of the round that starts from a state.

    The states of TFF's `DifferentiallyPrivateFactory` with a Gaussian query, fixed or adaptive, are
    known, those of adaptive clipping without noise, and both behind adaptive zeroing.

    Args:
      state: The state of a learning process, or of its aggregator.
    """
    aggregator = getattr(state, "aggregator", state)
    unzeroed = math.inf
    if isinstance(aggregator, Mapping) and "zeroing_norm" in aggregator:
        # The zeroing norm is a multiple of the estimate, TFF's 2 q + 1, and so no smaller than it.
        estimate = _estimate(aggregator["zeroing_norm"])
        unzeroed = math.inf if estimate is None else estimate
        aggregator = aggregator["inner_agg"]
    if isinstance(aggregator, Mapping) and "clipping_norm" in aggregator:
        return ClipState(_estimate(aggregator["clipping_norm"]), None, unzeroed)
    query = getattr(aggregator, "query_state", None)
    total = getattr(query, "numerator_state", None)
    total = getattr(total, "sum_state", total)
    return ClipState(_number(total, "l2_norm_clip"), _number(query, "denominator"), unzeroed)


def _estimate(norm_state: Any) -> float | None:
    """The current estimate of a norm that adapts; None for a fixed one, which has no state."""
    return _number(norm_state[0], "current_estimate") if len(norm_state) else None


def _number(owner: Any, name: str) -> float | None:
    value = getattr(owner, name, None)
    return None if value is None else float(value)


def norm_to_clip(state: Any) -> float:
    """The length of a canary that the round just clips, and does not zero if that can be.

    Args:
      state: The state of a learning process when the round begins.

    Raises:
      InputError: The state shows no clip norm.
    """
    clip = read_clip(state)
    if clip.norm is None:
        raise InputError(
            "norm: must be given, as the aggregator's state shows no clip norm; "
            "fl_audit.training.probe(process) finds the length that it just clips"
        )
    return min(max(clip.unzeroed, JUST_CLIPPED * clip.norm), SURELY_CLIPPED * clip.norm)
