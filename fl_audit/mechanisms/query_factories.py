"""Aggregations over tensorflow-privacy's queries that TFF cannot make; imports both."""

import tensorflow_federated as tff
import tensorflow_privacy as tfp


def mean_over_expected_cohort(
    query: tfp.SumAggregationDPQuery, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """The aggregation of a query's sum over the expected cohort, whatever the actual one is."""
    return tff.aggregators.DifferentiallyPrivateFactory(
        tfp.NormalizedQuery(query, denominator=expected_cohort)
    )


class TreeFactory(tff.aggregators.UnweightedAggregationFactory):
    """A factory of tree aggregation with restarts (Kairouz et al. 2021, algorithm 1).

    The paper is arXiv:2103.00039. TFF's `DifferentiallyPrivateFactory.tree_aggregation` has no
    restarts, and needs the shapes of the updates before TFF tells them.
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        clip_norm: float,
        restart_every: int | None,
        expected_cohort: float,
    ) -> None:
        """Takes the numbers that the query will be made of.

        Args:
          noise_multiplier: The standard deviation of the noise on each node, as a multiple of the
            clip norm.
          clip_norm: The L2 norm that updates are clipped to.
          restart_every: The number of rounds of a tree; None for one tree over all rounds.
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
