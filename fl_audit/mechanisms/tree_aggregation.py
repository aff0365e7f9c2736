"""Noise that is correlated over rounds: tree aggregation (Kairouz et al. 2021)."""

import typing
from collections.abc import Mapping
from typing import Any, ClassVar

from fl_audit.accounting.noise_distributions import TREE
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.config_tables.kinds import PositiveFloat, PositiveInt
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms.kind import (
    WITH_FIXED_CLIP,
    ClipAndNoise,
    MechanismKind,
    NoisyMechanism,
    by_multiplier,
)
from fl_audit.mechanisms.zeroing import Zeroing
from fl_audit.number_words import count

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class TreeAggregation(
    NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="tree_aggregation"
):
    """Noise correlated over rounds by binary trees: DP-FTRL (Kairouz et al. 2021).

    Attributes:
      noise_multiplier: Standard deviation of the noise on each tree node, in clip norms.
      clip_norm: L2 norm to which updates are clipped.
      restart_every: Rounds per tree; by default one tree spans the run. For one tree per shuffled
        epoch: clients / clients per round, rounded up.
      zeroing: The zeroing of updates before they are clipped; none by default.
    """

    refused_keys: ClassVar[Mapping[str, str]] = WITH_FIXED_CLIP

    clip_norm: PositiveFloat
    restart_every: PositiveInt | None = None
    zeroing: Zeroing | None = None


def _aggregator(
    table: TreeAggregation, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.tff_aggregators import MeanOverExpectedCohort, tree_query

    clip_norm, stddev = table.clip_norm, table.multiplier * table.clip_norm
    return MeanOverExpectedCohort(
        lambda specs: tree_query(specs, clip_norm, stddev, table.restart_every), expected_cohort
    )


def _clip_and_noise(table: TreeAggregation, state: Any) -> ClipAndNoise:
    query_state = state.query_state.numerator_state
    if table.restart_every is not None:
        query_state = query_state.inner_query_state
    stddev = query_state.tree_state.value_generator_state.stddev
    return ClipAndNoise(float(query_state.clip_value), float(stddev))


def _noise_words(table: TreeAggregation, record: RunRecord) -> str:
    multiplier = record.release.noise.noise_multiplier
    return (
        f"; tree aggregation (DP-FTRL) adds Gaussian noise with noise multiplier {multiplier:g} "
        f"to every node of a binary tree over {_rounds_of_tree(table, record)}"
    )


def _rounds_of_tree(table: TreeAggregation, record: RunRecord) -> str:
    if table.restart_every is None or table.restart_every >= record.rounds:
        return "all rounds"
    return f"the rounds, a new tree every {count(table.restart_every, 'round')}"


TREE_AGGREGATION = MechanismKind(
    table=TreeAggregation,
    make_aggregator=_aggregator,
    clip_and_noise=_clip_and_noise,
    noise_distribution=TREE,
    round_noise=by_multiplier(TREE),
    divides_by="expected_cohort",
    correlation=lambda table, num_rounds: Trees(num_rounds, table.restart_every),
    noise_words=_noise_words,
)
