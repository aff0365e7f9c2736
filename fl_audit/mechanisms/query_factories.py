"""Aggregations over tensorflow-privacy's queries that TFF has no maker for; imports both."""

import tensorflow_federated as tff
import tensorflow_privacy as tfp


def mean_over_expected_cohort(
    query: tfp.SumAggregationDPQuery, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """A query's sum over the expected cohort, whatever the actual one."""
    return tff.aggregators.DifferentiallyPrivateFactory(
        tfp.NormalizedQuery(query, denominator=expected_cohort)
    )


class TreeFactory(tff.aggregators.UnweightedAggregationFactory):
    """Tree aggregation, with restarts (Kairouz et al. 2021, arXiv:2103.00039, algorithm 1).

    `DifferentiallyPrivateFactory.tree_aggregation` has no restarts, and wants the updates' shapes
    before TFF tells them.
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        clip_norm: float,
        restart_every: int | None,
        expected_cohort: float,
    ) -> None:
        """Takes what the query will be made of.

        Args:
          noise_multiplier: Noise on each node, as a multiple of the clip norm.
          clip_norm: The L2 norm that updates are clipped to.
          restart_every: Rounds of a tree; None for one tree over all rounds.
          expected_cohort: The number that sums are divided by.
        """
        self._noise_multiplier = noise_multiplier
        self._clip_norm = clip_norm
        self._restart_every = restart_every
        self._expected_cohort = expected_cohort

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """The process for updates of a type."""
        query = tfp.TreeResidualSumQuery.build_l2_gaussian_query(
            clip_norm=self._clip_norm,
            noise_multiplier=self._noise_multiplier,
            record_specs=tff.types.type_to_tf_tensor_specs(value_type),
        )
        if self._restart_every is not None:
            period = tfp.restart_query.PeriodicRoundRestartIndicator(self._restart_every)
            query = tfp.RestartQuery(query, period)
        return mean_over_expected_cohort(query, self._expected_cohort).create(value_type)
