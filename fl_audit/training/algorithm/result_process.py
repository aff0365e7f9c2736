"""Rounds of a TFF learning process whose clients have been trained already.

Such a round clips, adds noise and applies updates with the aggregator and finalizer of the process
itself, however the clients were trained, for example in blocks. TFF's `compose_learning_process`
insists on data sets; here a client's data is the result of its training.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def process_over_results(
    process: tff.learning.templates.LearningProcess,
    aggregator: tff.templates.AggregationProcess,
    finalizer: tff.learning.templates.FinalizerProcess,
    model: tff.learning.models.FunctionalModel,
) -> tff.templates.IterativeProcess:
    """The part of a process's rounds that comes after the clients' training.

    Args:
      process: A process whose distributor and client work have no state.
      aggregator: The aggregator of that process.
      finalizer: The finalizer of that process.
      model: The model whose metrics the process reports.

    Returns:
      A process with the same state and metrics whose clients' data is `OrderedDict(update,
      metrics)`: initial minus trained weights, and the model's unfinalized metrics. Every client
      has weight 1.
    """
    state_type = process.initialize.type_signature.result
    update_type = state_type.member.global_model_weights.trainable
    metrics = tf.nest.map_structure(tf.TensorSpec.from_tensor, model.initialize_metrics_state())
    data_type = tff.to_type(
        collections.OrderedDict(update=update_type, metrics=tff.types.tensorflow_to_type(metrics))
    )
    aggregate_metrics = tff.learning.metrics.sum_then_finalize(model.finalize_metrics)

    @tff.tensorflow.computation(data_type)
    def update_of(data: Any) -> Any:
        return data["update"]

    @tff.tensorflow.computation(data_type)
    def metrics_of(data: Any) -> Any:
        return data["metrics"]

    @tff.federated_computation(state_type, tff.FederatedType(data_type, tff.CLIENTS))
    def next_fn(state: Any, data: Any) -> Any:
        one = tff.federated_value(np.float32(1.0), tff.CLIENTS)
        aggregated = aggregator.next(state.aggregator, tff.federated_map(update_of, data), one)
        applied = finalizer.next(state.finalizer, state.global_model_weights, aggregated.result)
        train = aggregate_metrics(tff.federated_map(metrics_of, data))
        next_state = tff.learning.templates.LearningAlgorithmState(
            applied.result,
            state.distributor,
            state.client_work,
            aggregated.state,
            applied.state,
        )
        metrics = collections.OrderedDict(
            client_work=tff.federated_zip(collections.OrderedDict(train=train)),
            aggregator=aggregated.measurements,
            finalizer=applied.measurements,
        )
        return tff.learning.templates.LearningProcessOutput(
            tff.federated_zip(next_state), tff.federated_zip(metrics)
        )

    return tff.templates.IterativeProcess(process.initialize, next_fn)
