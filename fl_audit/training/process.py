"""The TFF learning process of a run: DP-FedAvg with canary clients."""

import collections
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import Client, Config, Server
from fl_audit.tasks.classifier import Classifier
from fl_audit.training.canary_process import with_aggregate_released, with_canary_clients
from fl_audit.training.mechanism import make_aggregator
from fl_audit.training.result_process import process_over_results


@dataclass(frozen=True)
class RoundResult:
    """What one round gives out.

    Attributes:
      state: of the learning process, for the next round.
      aggregate: the round's noised aggregate, float32 of shape (dim,), as the model moves.
      clip_norm: that this round's updates were clipped to.
      noise_stddev: of the noise on each coordinate of the sum of updates.
      train_loss: mean over the examples that the cohort trained on, in nats; 0 without any.
    """

    state: Any
    aggregate: npt.NDArray[np.float32]
    clip_norm: float
    noise_stddev: float
    train_loss: float


def flatten_weights(weights: Any) -> npt.NDArray[np.float32]:
    """A structure of arrays as one float32 vector of shape (dim,), in the structure's order."""
    return np.concatenate([np.ravel(leaf) for leaf in tf.nest.flatten(weights)])


def model_weights(state: Any) -> list[npt.NDArray[np.float32]]:
    """The trainable weights in a learning process's state."""
    return list(tf.nest.flatten(state.global_model_weights.trainable))


def functional_model(classifier: Classifier) -> tff.learning.models.FunctionalModel:
    """The classifier as TFF's functional model; its one metric is the mean training loss."""

    @tf.function
    def predict(weights: Any, inputs: tf.Tensor, training: bool) -> tf.Tensor:
        del training  # none of our models behaves differently in training
        return classifier.logits(weights[0], inputs)

    @tf.function
    def loss(logits: tf.Tensor, labels: tf.Tensor, sample_weight: Any = None) -> tf.Tensor:
        del sample_weight
        return classifier.loss(logits, labels)

    @tf.function
    def initialize_metrics() -> Any:
        return collections.OrderedDict(loss=(0.0, 0.0))

    @tf.function
    def update_metrics(state: Any, labels: Any, output: Any, sample_weight: Any = None) -> Any:
        del sample_weight
        total, count = state["loss"]
        tokens = classifier.num_tokens(labels)
        return collections.OrderedDict(loss=(total + output.loss * tokens, count + tokens))

    @tf.function
    def finalize_metrics(state: Any) -> Any:
        return collections.OrderedDict(loss=tf.math.divide_no_nan(*state["loss"]))

    return tff.learning.models.FunctionalModel(
        initial_weights=(classifier.initial_weights, ()),
        predict_on_batch_fn=predict,
        loss_fn=loss,
        metrics_fns=(initialize_metrics, update_metrics, finalize_metrics),
        input_spec=(classifier.input_spec, classifier.label_spec),
    )


def client_optimizer(config: Client) -> tff.learning.optimizers.Optimizer:
    """The optimizer of a client's local training."""
    return tff.learning.optimizers.build_sgdm(config.learning_rate)


def _client_work(
    classifier: Classifier, config: Client
) -> tff.learning.templates.ClientWorkProcess:
    return tff.learning.templates.build_functional_model_delta_client_work(
        model=functional_model(classifier),
        optimizer=client_optimizer(config),
        client_weighting=tff.learning.ClientWeighting.UNIFORM,
        # The default, Dataset.reduce, prepares the training step anew at every call (0.7 s for
        # the unrolled LSTM in this process) and runs it on the CPU whatever there is.
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )


def _aggregator(
    weights_type: tff.types.Type, config: Config, expected_cohort: float
) -> tff.templates.AggregationProcess:
    factory = make_aggregator(config.mechanism, expected_cohort)
    weighted = tff.aggregators.as_weighted_aggregator(factory)
    return weighted.create(weights_type, tff.TensorType(np.float32))


def _finalizer(
    weights_type: tff.types.Type, config: Server
) -> tff.learning.templates.FinalizerProcess:
    optimizer = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
    return with_aggregate_released(
        tff.learning.templates.build_apply_optimizer_finalizer(optimizer, weights_type)
    )


def build_process(
    classifier: Classifier, config: Config, expected_cohort: float
) -> tff.learning.templates.LearningProcess:
    """Composes client work, canaries, aggregator and finalizer.

    Args:
      classifier: the model.
      config: of the run.
      expected_cohort: expected number of clients and canaries in a round.

    Returns:
      A learning process whose clients' data is `OrderedDict(canary, examples)`.
    """

    @tff.tensorflow.computation
    def initial_weights() -> Any:
        weights = tuple(tf.constant(array) for array in classifier.initial_weights)
        return tff.learning.models.ModelWeights(weights, ())

    weights_type = initial_weights.type_signature.result
    return tff.learning.templates.compose_learning_process(
        initial_weights,
        tff.learning.templates.build_broadcast_process(weights_type),
        with_canary_clients(_client_work(classifier, config.client)),
        _aggregator(weights_type.trainable, config, expected_cohort),
        _finalizer(weights_type, config.server),
    )


def build_process_over_results(
    classifier: Classifier, config: Config, expected_cohort: float
) -> tff.templates.IterativeProcess:
    """The process of `build_process` for clients that are trained elsewhere.

    Args:
      classifier: the model.
      config: of the run.
      expected_cohort: expected number of clients and canaries in a round.

    Returns:
      A process with the same state, whose clients' data is `OrderedDict(update, metrics)`.
    """
    process = build_process(classifier, config, expected_cohort)
    weights_type = process.initialize.type_signature.result.member.global_model_weights
    return process_over_results(
        process,
        _aggregator(weights_type.trainable, config, expected_cohort),
        _finalizer(weights_type, config.server),
        functional_model(classifier),
    )


def run_round(
    process: tff.templates.IterativeProcess, state: Any, client_data: Iterable[Any]
) -> RoundResult:
    """Runs one round on TFF's default context.

    Args:
      process: of `build_process` or `build_process_over_results`.
      state: after the last round.
      client_data: of each participant, canaries included; TFF's own runtime wants a list.
    """
    sum_state = _sum_query_state(state)
    output = process.next(state, client_data)
    return RoundResult(
        state=output.state,
        aggregate=flatten_weights(output.metrics["finalizer"]["aggregate"]),
        clip_norm=float(sum_state.l2_norm_clip),
        noise_stddev=float(sum_state.stddev),
        train_loss=float(output.metrics["client_work"]["train"]["loss"]),
    )


def _sum_query_state(state: Any) -> Any:
    """State of tensorflow-privacy's Gaussian sum query, inside that of a normalised query."""
    query_state = state.aggregator.query_state.numerator_state
    is_adaptive = hasattr(query_state, "sum_state")
    return query_state.sum_state if is_adaptive else query_state
