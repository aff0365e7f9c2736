"""The TFF learning process of a run, made from its config, with canary clients."""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import Config, FedSgd
from fl_audit.mechanisms import make_aggregator
from fl_audit.tasks.classifier import Classifier
from fl_audit.training.algorithm.audited_algorithms import (
    build_audited_fed_avg,
    build_audited_fed_sgd,
    create_aggregator,
)
from fl_audit.training.algorithm.canary_process import with_aggregate_released
from fl_audit.training.algorithm.optimizers import client_optimizer, server_optimizer
from fl_audit.training.algorithm.result_process import process_over_results


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


def build_process(
    classifier: Classifier, config: Config, expected_cohort: float
) -> tff.learning.templates.LearningProcess:
    """Composes the learning process of a run from client work, canaries, aggregator and finalizer.

    Args:
      classifier: The model that clients train.
      config: The config of the run.
      expected_cohort: The expected number of clients and canaries in a round.

    Returns:
      A learning process whose clients' data is `OrderedDict(canary, examples)`.
    """
    model, server = functional_model(classifier), server_optimizer(config.server)
    factory = make_aggregator(config.mechanism, expected_cohort)
    if isinstance(config.client, FedSgd):
        return build_audited_fed_sgd(model, server, model_aggregator=factory)
    client = client_optimizer(config.client)
    return build_audited_fed_avg(model, client, server, model_aggregator=factory)


def build_process_over_results(
    classifier: Classifier, config: Config, expected_cohort: float
) -> tff.templates.IterativeProcess:
    """The process of `build_process` for clients that were trained outside TFF.

    Args:
      classifier: The model that clients train.
      config: The config of the run.
      expected_cohort: The expected number of clients and canaries in a round.

    Returns:
      A process with the same state, whose clients' data is `OrderedDict(update, metrics)`.
    """
    process = build_process(classifier, config, expected_cohort)
    weights_type = process.initialize.type_signature.result.member.global_model_weights
    factory = make_aggregator(config.mechanism, expected_cohort)
    finalizer = tff.learning.templates.build_apply_optimizer_finalizer(
        server_optimizer(config.server), weights_type
    )
    return process_over_results(
        process,
        create_aggregator(factory, weights_type),
        with_aggregate_released(finalizer),
        functional_model(classifier),
    )
