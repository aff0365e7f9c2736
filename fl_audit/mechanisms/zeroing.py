"""Zeroing: an update with too large a coordinate becomes zero before clipping."""

import math
import typing
from typing import Annotated, Any, assert_never

from msgspec import Meta

from fl_audit.accounting.release import ZeroingKind
from fl_audit.config_tables.kinds import NonNegativeFloat, PositiveFloat, Table

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff

Share = Annotated[float, Meta(ge=0, le=1)]


class FixedZeroing(Table, frozen=True, tag_field="kind", tag="fixed"):
    """Zeroing of updates with an absolute coordinate above a fixed number.

    Attributes:
      norm: Largest absolute coordinate allowed.
    """

    norm: PositiveFloat


class AdaptiveZeroing(Table, frozen=True, tag_field="kind", tag="adaptive"):
    """Zeroing of updates whose largest coordinate is far above a quantile over all updates.

    An update becomes zero if a coordinate is above `multiplier` times an estimate of the quantile,
    plus `increment`. The estimate is *not* noised, so no analytical epsilon is known for such a
    mechanism. The defaults are those of `tff.learning.dp_aggregator`.

    Attributes:
      initial_estimate: Estimate of the quantile in the first round.
      target_quantile: Target share of updates below the estimate.
      learning_rate: Learning rate of the estimate's geometric update.
      multiplier: Factor of the estimate in the zeroing norm.
      increment: Number added to the multiplied estimate.
    """

    initial_estimate: PositiveFloat = 10.0
    target_quantile: Share = 0.98
    learning_rate: PositiveFloat = math.log(10.0)
    multiplier: PositiveFloat = 2.0
    increment: NonNegativeFloat = 1.0


Zeroing = FixedZeroing | AdaptiveZeroing


def zeroed(
    zeroing: Zeroing, factory: "tff.aggregators.UnweightedAggregationFactory"
) -> "tff.aggregators.UnweightedAggregationFactory":
    """An aggregation that zeroes as `tff.learning.dp_aggregator` does, then applies `factory`."""
    import tensorflow_federated as tff

    match zeroing:
        case FixedZeroing():
            return tff.aggregators.zeroing_factory(zeroing.norm, factory)
        case AdaptiveZeroing():
            norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
                initial_estimate=zeroing.initial_estimate,
                target_quantile=zeroing.target_quantile,
                learning_rate=zeroing.learning_rate,
                multiplier=zeroing.multiplier,
                increment=zeroing.increment,
            )
            return tff.aggregators.zeroing_factory(norm, factory)
        case _:
            assert_never(zeroing)


def inside_zeroing(zeroing: Zeroing | None, aggregator_state: Any) -> Any:
    """The state of the aggregation inside `zeroed`; without zeroing, the state itself."""
    return aggregator_state if zeroing is None else aggregator_state["inner_agg"]


def zeroing_norm(zeroing: Zeroing, aggregator_state: Any) -> float:
    """The largest absolute coordinate allowed in the round that starts from a state."""
    match zeroing:
        case FixedZeroing(norm=norm):
            return norm
        case AdaptiveZeroing(multiplier=multiplier, increment=increment):
            quantile, _ = aggregator_state["zeroing_norm"]
            return multiplier * float(quantile.current_estimate) + increment
        case _:
            assert_never(zeroing)


_JUST_CLIPPED, _SURELY_CLIPPED = 1.001, 2.0


def clipped_and_kept(clip_norm: float, zeroing_norm: float) -> float:
    """The norm of a canary that is clipped and, if 1.001 to 2 clip norms allow it, not zeroed."""
    return min(max(zeroing_norm, _JUST_CLIPPED * clip_norm), _SURELY_CLIPPED * clip_norm)


def zeroing_kind(zeroing: Zeroing | None) -> ZeroingKind:
    """The kind of zeroing in run.json."""
    match zeroing:
        case None:
            return "none"
        case FixedZeroing():
            return "fixed"
        case AdaptiveZeroing():
            return "adaptive"
        case _:
            assert_never(zeroing)


def zeroing_words(zeroing: Zeroing | None) -> str:
    """A sentence that describes zeroing, followed by a space; empty without zeroing."""
    match zeroing:
        case None:
            return ""
        case FixedZeroing(norm=norm):
            return f"An update with a coordinate above {norm:g} counts as zero. "
        case AdaptiveZeroing(target_quantile=quantile):
            return (
                "An update counts as zero if its largest coordinate is above "
                f"{zeroing.multiplier:g} times a running estimate of the {quantile:g} quantile of "
                f"updates' largest coordinates, plus {zeroing.increment:g}; no noise is added to "
                "the estimate. "
            )
        case _:
            assert_never(zeroing)
