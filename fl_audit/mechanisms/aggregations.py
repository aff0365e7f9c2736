"""Aggregations that TFF and tensorflow-privacy do not offer; imports both.

Queries over the expected cohort, trees with restarts, and sums in the clear, which stand for secure
aggregation in a simulation. TFF describes a secure sum and leaves the protocol to the platform.
Neither of TFF's runtimes in the Python package has one: both refuse a process with such a sum.
Secure aggregation releases the sum and nothing else, so an attacker who sees results alone sees the
same in both cases.
"""

from typing import Any

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


class WithPlainSums(tff.aggregators.UnweightedAggregationFactory):
    """An aggregation whose secure sums are replaced by sums in the clear."""

    def __init__(self, factory: tff.aggregators.UnweightedAggregationFactory) -> None:
        """Wraps an aggregation.

        Args:
          factory: A factory whose processes may ask for secure sums.
        """
        self._factory = factory

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """The process for values of a type."""
        process = self._factory.create(value_type)
        # Flattened before it is composed further: protobuf reads a hundred messages within one
        # another and no more, and a distributed mechanism with zeroing around it has more.
        flat = tff.backends.native.desugar_and_transform_to_native(process.next)
        summed = tff.backends.test.replace_secure_intrinsics_with_bodies(flat)
        next_fn = _with_containers(summed, process.next.type_signature)
        return tff.templates.AggregationProcess(process.initialize, next_fn)


def _with_containers(computation: tff.Computation, signature: tff.FunctionType) -> tff.Computation:
    """The `next` of a process with the Python containers that TFF's compiler has forgotten."""
    state_type, value_type = signature.parameter

    @tff.tensorflow.computation(state_type.member)
    def contained_state(state: Any) -> Any:
        return state

    @tff.tensorflow.computation(signature.result.result.member)
    def contained_result(result: Any) -> Any:
        return result

    @tff.federated_computation(state_type, value_type)
    def next_fn(state: Any, value: Any) -> Any:
        output = computation(state, value)
        return tff.templates.MeasuredProcessOutput(
            tff.federated_map(contained_state, output.state),
            tff.federated_map(contained_result, output.result),
            output.measurements,
        )

    return next_fn
