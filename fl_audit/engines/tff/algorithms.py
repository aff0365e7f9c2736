"""Learning algorithms with canary clients: FedAvg, FedProx and FedSGD as TFF builds them.

`build_process` makes the process of a run from its config. The `build_audited_...` functions, for
users' own programs, take a model and optimizers as TFF's `build_weighted_fed_avg` does.
"""

import collections
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.learning.algorithms import fed_sgd

from fl_audit import config as tables
from fl_audit.engines.tff.canary_process import (
    compose_audited_process,
    process_over_results,
    with_aggregate_released,
)
from fl_audit.errors import InputError
from fl_audit.mechanisms import make_aggregator
from fl_audit.mechanisms.tff_aggregators import MeanOfNoisedUploads
from fl_audit.tasks.tf.classifier import Classifier


def functional_model(classifier: Classifier) -> tff.learning.models.FunctionalModel:
    """The classifier as TFF's functional model; its one metric is the mean training loss."""

    @tf.function
    def predict(weights: Any, inputs: tf.Tensor, training: bool) -> tf.Tensor:
        # A classifier computes the same in training and evaluation.
        return classifier.logits(weights[0], inputs)

    @tf.function
    def loss(logits: tf.Tensor, labels: tf.Tensor, sample_weight: Any = None) -> tf.Tensor:
        return classifier.loss(logits, labels)

    @tf.function
    def initialize_metrics() -> Any:
        return collections.OrderedDict(loss=(0.0, 0.0))

    @tf.function
    def update_metrics(state: Any, labels: Any, output: Any, sample_weight: Any = None) -> Any:
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
    classifier: Classifier, config: tables.Config, expected_cohort: float, num_rounds: int
) -> tff.learning.templates.LearningProcess:
    """A run's process over `OrderedDict(canary, examples)`; the cohort includes canaries."""
    model, server = functional_model(classifier), server_optimizer(config.server)
    factory = make_aggregator(config.mechanism, expected_cohort, num_rounds)
    if isinstance(config.client, tables.FedSgd):
        return build_audited_fed_sgd(model, server, model_aggregator=factory)
    client = client_optimizer(config.client)
    return build_audited_fed_avg(model, client, server, model_aggregator=factory)


def build_process_over_results(
    classifier: Classifier, config: tables.Config, expected_cohort: float, num_rounds: int
) -> tff.templates.IterativeProcess:
    """A process with the state of `build_process`, over results: `OrderedDict(update, metrics)`."""
    process = build_process(classifier, config, expected_cohort, num_rounds)
    weights_type = process.initialize.type_signature.result.member.global_model_weights
    factory = make_aggregator(config.mechanism, expected_cohort, num_rounds)
    finalizer = tff.learning.templates.build_apply_optimizer_finalizer(
        server_optimizer(config.server), weights_type
    )
    return process_over_results(
        process,
        create_aggregator(factory, weights_type),
        with_aggregate_released(finalizer),
        functional_model(classifier),
        factory if isinstance(factory, MeanOfNoisedUploads) else None,
    )


# Processes from a model and optimizers. FedSGD's client work has no public name in TFF, so TFF's
# version is pinned.

Model: TypeAlias = (
    Callable[[], tff.learning.models.VariableModel] | tff.learning.models.FunctionalModel
)
"""A functional model, or a function without arguments that creates a new model at each call."""

Optimizer: TypeAlias = tff.learning.optimizers.Optimizer

# The default, Dataset.reduce, prepares the training step at every call (0.7 s for the unrolled
# LSTM) and always runs it on the CPU.
_LOOP = tff.learning.LoopImplementation.DATASET_ITERATOR


def build_audited_fed_avg(
    model_fn: Model,
    client_optimizer_fn: Optimizer,
    server_optimizer_fn: Optimizer | None = None,
    *,
    model_aggregator: tff.aggregators.AggregationFactory | None = None,
    client_weighting: tff.learning.ClientWeighting = tff.learning.ClientWeighting.UNIFORM,
    canary_weight: float = 1.0,
) -> tff.learning.templates.LearningProcess:
    """Federated averaging with canary clients, otherwise as TFF's `build_weighted_fed_avg`.

    Args:
      model_fn: The model that the clients train.
      client_optimizer_fn: The optimizer of the clients' local steps.
      server_optimizer_fn: The optimizer that applies the aggregate; by default SGD with learning
        rate 1.
      model_aggregator: Any factory, weighted or not; by default TFF's mean.
      client_weighting: How a weighted aggregator weights real clients.
      canary_weight: The weight of a canary in a weighted aggregator, as in
        `compose_audited_process`.

    Returns:
      The process of `compose_audited_process`.

    Raises:
      InputError: The weight is not positive and finite, or `model_aggregator` is no factory.
    """
    if isinstance(model_fn, tff.learning.models.FunctionalModel):
        client_work = tff.learning.templates.build_functional_model_delta_client_work(
            model=model_fn,
            optimizer=client_optimizer_fn,
            client_weighting=client_weighting,
            loop_implementation=_LOOP,
        )
    else:
        client_work = tff.learning.templates.build_model_delta_client_work(
            model_fn, client_optimizer_fn, client_weighting, loop_implementation=_LOOP
        )
    return _compose(model_fn, client_work, server_optimizer_fn, model_aggregator, canary_weight)


def build_audited_fed_prox(
    model_fn: Model,
    proximal_strength: float,
    client_optimizer_fn: Optimizer,
    server_optimizer_fn: Optimizer | None = None,
    *,
    model_aggregator: tff.aggregators.AggregationFactory | None = None,
    client_weighting: tff.learning.ClientWeighting = tff.learning.ClientWeighting.UNIFORM,
    canary_weight: float = 1.0,
) -> tff.learning.templates.LearningProcess:
    """FedProx (Li et al. 2020) with canary clients.

    It is `build_audited_fed_avg` with a `ProximalOptimizer` for clients; in TFF's own
    `build_weighted_fed_prox` the proximal term has the wrong sign.

    Arguments, result and errors are as in `build_audited_fed_avg`; `proximal_strength` is the
    factor mu of the proximal term, positive (else an InputError).
    """
    if not proximal_strength > 0:
        raise InputError(f"proximal_strength: must be positive, got {proximal_strength}")
    return build_audited_fed_avg(
        model_fn,
        ProximalOptimizer(client_optimizer_fn, proximal_strength),
        server_optimizer_fn,
        model_aggregator=model_aggregator,
        client_weighting=client_weighting,
        canary_weight=canary_weight,
    )


def build_audited_fed_sgd(
    model_fn: Model,
    server_optimizer_fn: Optimizer | None = None,
    *,
    model_aggregator: tff.aggregators.AggregationFactory | None = None,
    canary_weight: float = 1.0,
) -> tff.learning.templates.LearningProcess:
    """Federated SGD with canary clients, otherwise as TFF's `build_fed_sgd`.

    Arguments, result and errors are as in `build_audited_fed_avg`; by default the aggregator is
    TFF's mean, weighted by examples.
    """
    is_functional = isinstance(model_fn, tff.learning.models.FunctionalModel)
    build = (
        fed_sgd._build_functional_fed_sgd_client_work
        if is_functional
        else fed_sgd._build_fed_sgd_client_work
    )
    client_work = build(model_fn, tff.learning.metrics.sum_then_finalize, _LOOP)
    return _compose(model_fn, client_work, server_optimizer_fn, model_aggregator, canary_weight)


def _compose(
    model: Model,
    client_work: tff.learning.templates.ClientWorkProcess,
    server_optimizer: Optimizer | None,
    factory: tff.aggregators.AggregationFactory | None,
    canary_weight: float,
) -> tff.learning.templates.LearningProcess:
    initial_weights = _initial_weights(model)
    weights_type = initial_weights.type_signature.result
    return compose_audited_process(
        initial_weights,
        tff.learning.templates.build_broadcast_process(weights_type),
        client_work,
        create_aggregator(factory or tff.aggregators.MeanFactory(), weights_type),
        tff.learning.templates.build_apply_optimizer_finalizer(
            server_optimizer or tff.learning.optimizers.build_sgdm(1.0), weights_type
        ),
        canary_weight=canary_weight,
        uploads=factory if isinstance(factory, MeanOfNoisedUploads) else None,
    )


def _initial_weights(model: Model) -> tff.Computation:
    @tff.tensorflow.computation
    def initial_weights() -> Any:
        if isinstance(model, tff.learning.models.FunctionalModel):
            trainable, fixed = (tuple(map(tf.constant, part)) for part in model.initial_weights)
            return tff.learning.models.ModelWeights(trainable, fixed)
        return tff.learning.models.ModelWeights.from_model(model())

    return initial_weights


def create_aggregator(
    factory: tff.aggregators.AggregationFactory, weights_type: tff.types.Type
) -> tff.templates.AggregationProcess:
    """A factory's aggregator of updates; it takes a weight per client even if it uses none."""
    if isinstance(factory, tff.aggregators.UnweightedAggregationFactory):
        factory = tff.aggregators.as_weighted_aggregator(factory)
    if not isinstance(factory, tff.aggregators.WeightedAggregationFactory):
        raise InputError(
            "model_aggregator: must be a tff.aggregators factory, got " + type(factory).__name__
        )
    return factory.create(weights_type.trainable, tff.TensorType(np.float32))


# The optimizers of a config's tables.

_ADAPTIVE = {
    "adagrad": tff.learning.optimizers.build_adagrad,
    "adam": tff.learning.optimizers.build_adam,
    "yogi": tff.learning.optimizers.build_yogi,
}


def client_optimizer(config: tables.LocalSteps) -> tff.learning.optimizers.Optimizer:
    """The optimizer of a client's local training, with FedProx's term if the config has it."""
    if config.optimizer == "sgd":
        optimizer = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
    else:
        optimizer = _ADAPTIVE[config.optimizer](config.learning_rate)
    if isinstance(config, tables.FedProx):
        return ProximalOptimizer(optimizer, config.proximal_strength)
    return optimizer


def server_optimizer(config: tables.Server) -> tff.learning.optimizers.Optimizer:
    """The server's optimizer; Adagrad and Yogi start at tau^2 (Reddi et al. 2020), Adam at 0."""
    match config:
        case tables.ServerSgd():
            return tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
        case tables.ServerAdagrad():
            return tff.learning.optimizers.build_adagrad(
                config.learning_rate, initial_preconditioner_value=config.tau**2, epsilon=0.0
            )
        case tables.ServerAdam():
            return tff.learning.optimizers.build_adam(
                config.learning_rate, config.beta_1, config.beta_2, config.tau
            )
        case tables.ServerYogi():
            return tff.learning.optimizers.build_yogi(
                config.learning_rate, config.beta_1, config.beta_2, config.tau, config.tau**2
            )


# FedProx: an optimizer that adds a proximal term to gradients.


class ProximalOptimizer(tff.learning.optimizers.Optimizer):
    """An optimizer that adds mu (w - w_0) to each gradient, with w_0 the initial weights.

    This term is the gradient of mu/2 |w - w_0|^2, which Li et al. 2020 ("Federated Optimization in
    Heterogeneous Networks", equation 2) add to a client's loss. TFF 0.87.0 subtracts it instead:
    its `build_weighted_fed_prox` adds mu (w_0 - w) to the gradients (`proximal_client_work.py`),
    which drives clients away from the round's model.
    """

    def __init__(
        self, optimizer: tff.learning.optimizers.Optimizer, proximal_strength: float
    ) -> None:
        """Wraps the optimizer that receives the gradients with the proximal term."""
        self._optimizer = optimizer
        self._strength = proximal_strength

    def initialize(self, specs: Any) -> Any:
        """The optimizer's state before a client's first step."""
        start = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        return collections.OrderedDict(
            optimizer=self._optimizer.initialize(specs), begun=tf.constant(False), start=start
        )

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        """The state and weights after a step; the weights before the first step become w_0."""
        gradients = tff.learning.optimizers.handle_indexed_slices_gradients(gradients)
        start = tf.nest.map_structure(
            lambda old, now: tf.where(state["begun"], old, now), state["start"], weights
        )
        pulled = tf.nest.map_structure(self._pulled, gradients, weights, start)
        inner, weights = self._optimizer.next(state["optimizer"], weights, pulled)
        state = collections.OrderedDict(optimizer=inner, begun=tf.constant(True), start=start)
        return state, weights

    def _pulled(self, gradient: Any, weight: Any, start: Any) -> Any:
        if gradient is None:  # the loss does not depend on this weight, so it never moves
            return None
        return gradient + tf.cast(self._strength, gradient.dtype) * (weight - start)

    def get_hparams(self, state: Any) -> Any:
        """The hyperparameters of the wrapped optimizer."""
        return self._optimizer.get_hparams(state["optimizer"])

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        """Sets the hyperparameters of the wrapped optimizer."""
        inner = self._optimizer.set_hparams(state["optimizer"], hparams)
        return collections.OrderedDict(state, optimizer=inner)
