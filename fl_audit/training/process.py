"""The TFF learning process of a run: DP-FedAvg with canary clients."""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import Client, Config, Server
from fl_audit.tasks.classifier import Classifier
from fl_audit.training.canary_process import with_aggregate_released, with_canary_clients
from fl_audit.training.mechanism import make_aggregator
from fl_audit.training.result_process import process_over_results


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
