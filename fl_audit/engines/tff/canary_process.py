"""Any TFF learning process with canary clients, composed from its parts.

A canary is a client whose data is its vector. Every client's data becomes a pair of sequences:
`canary`, which is empty for a real client and holds one vector for a canary, and `examples`, which
is empty for a canary. The wrapped client work runs unchanged: its update for a canary is zero, from
which the canary's vector is subtracted.

In TFF an update is a pseudo-gradient, initial minus trained weights, which the finalizer's
optimizer subtracts. A canary therefore returns minus its vector, and the measured aggregate is
multiplied by -1: vectors and measured aggregates point in the direction in which the model moves.
"""

import collections
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.errors import InputError
from fl_audit.mechanisms.tff_aggregators import MeanOfNoisedUploads, sums_uploads


def compose_audited_process(
    initial_model_weights_fn: tff.Computation,
    model_weights_distributor: tff.learning.templates.DistributionProcess,
    client_work: tff.learning.templates.ClientWorkProcess,
    model_update_aggregator: tff.templates.AggregationProcess,
    model_finalizer: tff.learning.templates.FinalizerProcess,
    *,
    canary_weight: float = 1.0,
    uploads: MeanOfNoisedUploads | None = None,
) -> tff.learning.templates.LearningProcess:
    """A learning process with canary clients, otherwise as TFF's `compose_learning_process`.

    State and real clients are as in the process without canaries, so each process can continue from
    a checkpoint of the other. docs/any_process.md has an example.

    Args:
      initial_model_weights_fn: A computation of the model's initial weights.
      model_weights_distributor: The process that sends the weights to clients; may have a state.
      client_work: The work of a real client; may have a state and hyperparameters.
      model_update_aggregator: The process that clips, sums and adds noise. It must be weighted, as
        TFF requires (`tff.aggregators.as_weighted_aggregator` converts others).
      model_finalizer: The process that applies the aggregate to the model.
      canary_weight: The weight of a canary's update. If clients are weighted by their examples, a
        canary counts as a client with this many examples. Aggregators without weights, such as all
        aggregators with differential privacy, ignore the weight.
      uploads: Adds noise to each client's update before the sum; None if clients add none.

    Returns:
      A learning process. Its clients' data is `OrderedDict(canary, examples)`
      (`CanaryClients.join`), and its metrics contain the round's aggregate (`released_aggregate`).

    Raises:
      InputError: An update has other than floating-point numbers, the weight is not positive and
        finite, or clients should add noise to their uploads and `uploads` is None.
      TypeError: The parts do not fit together (raised by TFF).
    """
    if uploads is None and sums_uploads(model_update_aggregator):
        raise InputError(f"model_update_aggregator: {_FOR_RUNS}")
    return tff.learning.templates.compose_learning_process(
        initial_model_weights_fn,
        model_weights_distributor,
        with_canary_clients(client_work, canary_weight, uploads),
        model_update_aggregator,
        with_aggregate_released(model_finalizer),
    )


def canary_dim(process: tff.learning.templates.LearningProcess) -> int:
    """The length of a canary's vector: the number of coordinates in an update of the process.

    Raises InputError if clients of the process add noise to their uploads.
    """
    return int(client_data_type(process)["canary"].element.shape[0])


_FOR_RUNS = (
    "'client_gaussian' is for a run of a config, which gives clients their keys of noise; must be "
    "another mechanism"
)


def client_data_type(process: tff.learning.templates.LearningProcess) -> tff.Type:
    """The type of a client's data in an audited process: `canary` and `examples`.

    Raises InputError if it has a `noise_key` too, which a user's own loop does not give clients.
    """
    data_type = process.next.type_signature.parameter[1].member
    if tff.structure.has_field(data_type, "noise_key"):
        raise InputError(f"process: {_FOR_RUNS}")
    return data_type


def released_aggregate(metrics: Any) -> list[npt.NDArray[Any]]:
    """The aggregate that a round of an audited process released, in the direction the model moves.

    Args:
      metrics: The metrics that `process.next` returned.

    Returns:
      Arrays in the order in which canary clients split their vectors.
    """
    return [np.asarray(leaf) for leaf in tf.nest.flatten(metrics["finalizer"]["aggregate"])]


# Client work with canaries, and a finalizer that releases the aggregate.


def with_canary_clients(
    client_work: tff.learning.templates.ClientWorkProcess,
    canary_weight: float = 1.0,
    uploads: MeanOfNoisedUploads | None = None,
) -> tff.learning.templates.ClientWorkProcess:
    """Client work that also accepts canaries and, with `uploads`, a `noise_key` in the data."""
    if not 0 < canary_weight < math.inf:
        raise InputError(f"canary_weight: must be positive and finite, got {canary_weight}")
    state_type, weights_type, examples_type = client_work.next.type_signature.parameter
    result_type = client_work.next.type_signature.result.result.member
    parts = collections.OrderedDict(
        canary=tff.SequenceType(tff.TensorType(np.float32, [_dim_of(result_type.update)])),
        examples=examples_type.member,
    )
    if uploads is not None:
        parts["noise_key"] = tff.SequenceType(tff.TensorType(np.int64, [2]))
    data_type = tff.to_type(parts)

    @tff.tensorflow.computation(data_type)
    def examples_of(data: Any) -> Any:
        return data["examples"]

    @tff.tensorflow.computation(result_type, data_type)
    def add_canary(result: Any, data: Any) -> Any:
        leaves, weights = _with_canaries(
            tuple(tf.nest.flatten(result.update)),
            tuple(tf.nest.flatten(result.update_weight)),
            data["canary"],
            canary_weight,
        )
        if uploads is not None:
            leaves = uploads.upload(leaves, _only(data["noise_key"]))
        return tff.learning.templates.ClientResult(
            tf.nest.pack_sequence_as(result.update, leaves),
            tf.nest.pack_sequence_as(result.update_weight, weights),
        )

    @tff.federated_computation(state_type, weights_type, tff.FederatedType(data_type, tff.CLIENTS))
    def next_fn(state: Any, weights: Any, data: Any) -> Any:
        trained = client_work.next(state, weights, tff.federated_map(examples_of, data))
        result = tff.federated_map(add_canary, (trained.result, data))
        return tff.templates.MeasuredProcessOutput(trained.state, result, trained.measurements)

    return tff.learning.templates.ClientWorkProcess(
        client_work.initialize,
        next_fn,
        get_hparams_fn=client_work.get_hparams,
        set_hparams_fn=client_work.set_hparams,
    )


@tf.function
def _only(keys: tf.data.Dataset) -> tf.Tensor:
    """The one key of a client."""
    only_key = tf.zeros([2], tf.int64)
    for key in iter(keys):
        only_key = key
    return only_key


def _dim_of(update_type: tff.Type) -> int:
    """The number of coordinates of an update; an `InputError` unless all are floating-point."""
    specs = tf.nest.flatten(tff.types.type_to_tf_tensor_specs(update_type))
    for spec in specs:
        if not spec.dtype.is_floating:
            raise InputError(
                f"client_work: an update must be floating-point numbers, holds {spec.dtype.name} "
                f"of shape {tuple(spec.shape)}"
            )
    return sum(math.prod(spec.shape) for spec in specs)


@tf.function
def _with_canaries(
    update: tuple[tf.Tensor, ...],
    weights: tuple[tf.Tensor, ...],
    vectors: tf.data.Dataset,
    canary_weight: float,
) -> Any:
    """The update minus each vector, with a canary's weight; without a vector it is unchanged."""
    sizes = [math.prod(leaf.shape) for leaf in update]
    for vector in iter(vectors):
        pieces = tf.split(vector, sizes)
        update = tuple(
            leaf - tf.cast(tf.reshape(piece, leaf.shape), leaf.dtype)
            for leaf, piece in zip(update, pieces, strict=True)
        )
        weights = tuple(tf.cast(canary_weight, weight.dtype) for weight in weights)
    return update, weights


def with_aggregate_released(
    finalizer: tff.learning.templates.FinalizerProcess,
) -> tff.learning.templates.FinalizerProcess:
    """A finalizer that also measures the noised aggregate, in the direction the model moves.

    The attacker of Andrew et al. (2023), algorithm 2, sees the aggregate, not the difference of
    models: with server momentum, or an adaptive server, these differ. The finalizer's measurements
    are `OrderedDict(aggregate, finalizer)`.
    """
    parameter_types = finalizer.next.type_signature.parameter

    @tff.tensorflow.computation(parameter_types[2].member)
    def negate(update: Any) -> Any:
        return tf.nest.map_structure(tf.negative, update)

    @tff.federated_computation(*parameter_types)
    def next_fn(state: Any, weights: Any, update: Any) -> Any:
        applied = finalizer.next(state, weights, update)
        measurements = tff.federated_zip(
            collections.OrderedDict(
                aggregate=tff.federated_map(negate, update), finalizer=applied.measurements
            )
        )
        return tff.templates.MeasuredProcessOutput(applied.state, applied.result, measurements)

    return tff.learning.templates.FinalizerProcess(
        finalizer.initialize,
        next_fn,
        get_hparams_fn=finalizer.get_hparams,
        set_hparams_fn=finalizer.set_hparams,
    )


# Rounds over trained clients, for example in blocks. Such a round clips, adds noise and applies
# updates with the aggregator and finalizer of the process itself. TFF's `compose_learning_process`
# requires data sets; here a client's data is the result of its training.


def process_over_results(
    process: tff.learning.templates.LearningProcess,
    aggregator: tff.templates.AggregationProcess,
    finalizer: tff.learning.templates.FinalizerProcess,
    model: tff.learning.models.FunctionalModel,
    uploads: MeanOfNoisedUploads | None = None,
) -> tff.templates.IterativeProcess:
    """Rounds over results of training: `OrderedDict(update, metrics)`, and a `noise_key` if needed.

    With `uploads` clients add noise, generated from their noise keys.
    """
    state_type = process.initialize.type_signature.result
    update_type = state_type.member.global_model_weights.trainable
    metrics = tf.nest.map_structure(tf.TensorSpec.from_tensor, model.initialize_metrics_state())
    parts = collections.OrderedDict(
        update=update_type, metrics=tff.types.tensorflow_to_type(metrics)
    )
    if uploads is not None:
        parts["noise_key"] = tff.TensorType(np.int64, [2])
    data_type = tff.to_type(parts)
    aggregate_metrics = tff.learning.metrics.sum_then_finalize(model.finalize_metrics)

    @tff.tensorflow.computation(data_type)
    def update_of(data: Any) -> Any:
        if uploads is None:
            return data["update"]
        return uploads.upload(data["update"], data["noise_key"])

    @tff.tensorflow.computation(data_type)
    def metrics_of(data: Any) -> Any:
        return data["metrics"]

    @tff.federated_computation(state_type, tff.FederatedType(data_type, tff.CLIENTS))
    def next_fn(state: Any, data: Any) -> Any:
        weight = tff.federated_value(np.float32(1.0), tff.CLIENTS)
        aggregated = aggregator.next(state.aggregator, tff.federated_map(update_of, data), weight)
        applied = finalizer.next(state.finalizer, state.global_model_weights, aggregated.result)
        train = aggregate_metrics(tff.federated_map(metrics_of, data))
        next_state = tff.learning.templates.LearningAlgorithmState(
            applied.result, state.distributor, state.client_work, aggregated.state, applied.state
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


def model_weights(state: Any) -> list[npt.NDArray[np.float32]]:
    """The trainable weights in a learning process's state, a list of float32 arrays."""
    return list(tf.nest.flatten(state.global_model_weights.trainable))
