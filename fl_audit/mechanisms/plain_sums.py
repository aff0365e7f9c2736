"""Sums in the clear, which stand for secure aggregation in a simulation.

TFF describes a secure sum and leaves the protocol to the platform. Neither of TFF's runtimes in the
Python package has one: both refuse a process with such a sum. Secure aggregation releases the sum
and nothing else, so an attacker who sees results alone sees the same in both cases.
"""

from typing import Any

import tensorflow_federated as tff


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
