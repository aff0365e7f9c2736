"""The TFF learning process of a run: DP-FedAvg with canary clients."""

import collections
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


def _client_work(
    classifier: Classifier, config: Client
) -> tff.learning.templates.ClientWorkProcess:
    return tff.learning.templates.build_functional_model_delta_client_work(
        model=functional_model(classifier),
        optimizer=tff.learning.optimizers.build_sgdm(config.learning_rate),
        client_weighting=tff.learning.ClientWeighting.UNIFORM,
    )


def _finalizer(
    weights_type: tff.types.Type, config: Server
) -> tff.learning.templates.FinalizerProcess:
    optimizer = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
    return tff.learning.templates.build_apply_optimizer_finalizer(optimizer, weights_type)


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

    client_work = with_canary_clients(_client_work(classifier, config.client))
    weights_type = initial_weights.type_signature.result
    aggregator = tff.aggregators.as_weighted_aggregator(
        make_aggregator(config.mechanism, expected_cohort)
    )
    return tff.learning.templates.compose_learning_process(
        initial_weights,
        tff.learning.templates.build_broadcast_process(weights_type),
        client_work,
        aggregator.create(weights_type.trainable, tff.TensorType(np.float32)),
        with_aggregate_released(_finalizer(weights_type, config.server)),
    )


def run_round(
    process: tff.learning.templates.LearningProcess, state: Any, client_data: list[Any]
) -> RoundResult:
    """Runs one round on TFF's default context.

    Args:
      process: of `build_process`.
      state: after the last round.
      client_data: of each participant, canaries included.
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
