"""TFF's learning algorithms with canary clients, from a model and optimizers."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# TFF has FedSGD's client work under no public name; its version is pinned.
from tensorflow_federated.python.learning.algorithms import fed_sgd

from fl_audit.errors import InputError
from fl_audit.training.algorithm.audited_process import compose_audited_process
from fl_audit.training.algorithm.proximal_optimizer import ProximalOptimizer

Model: TypeAlias = (
    Callable[[], tff.learning.models.VariableModel] | tff.learning.models.FunctionalModel
)
"""A functional model, or a function without arguments that makes a new model at each call."""

Optimizer: TypeAlias = tff.learning.optimizers.Optimizer

# The default, Dataset.reduce, prepares the training step anew at every call (0.7 s for the
# unrolled LSTM in this process) and runs it on the CPU whatever there is.
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
      canary_weight: The weight of a canary in a weighted aggregator, see `compose_audited_process`.

    Returns:
      The process of `compose_audited_process`.

    Raises:
      InputError: The weight is not positive, or there is no aggregator in `model_aggregator`.
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

    It is `build_audited_fed_avg` with clients that a `ProximalOptimizer` pulls back to the round's
    model; TFF's own `build_weighted_fed_prox` has the sign of that pull wrong.

    Args:
      model_fn: The model that the clients train.
      proximal_strength: The factor mu of the proximal term, positive.
      client_optimizer_fn: The optimizer of the clients' local steps.
      server_optimizer_fn: The optimizer that applies the aggregate; by default SGD with learning
        rate 1.
      model_aggregator: Any factory, weighted or not; by default TFF's mean.
      client_weighting: How a weighted aggregator weights real clients.
      canary_weight: The weight of a canary in a weighted aggregator, see `compose_audited_process`.

    Returns:
      The process of `compose_audited_process`.

    Raises:
      InputError: A number is not positive, or there is no aggregator in `model_aggregator`.
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

    Args:
      model_fn: The model that the clients train.
      server_optimizer_fn: The optimizer that applies the aggregate; by default SGD with learning
        rate 1.
      model_aggregator: Any factory; by default TFF's mean, weighted by examples.
      canary_weight: The weight of a canary in a weighted aggregator, see `compose_audited_process`.

    Returns:
      The process of `compose_audited_process`.

    Raises:
      InputError: The weight is not positive, or there is no aggregator in `model_aggregator`.
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
    """A factory's aggregator of updates, which takes weights whether it uses them or not.

    Args:
      factory: A factory of weighted or unweighted aggregators.
      weights_type: The TFF type of the model's `ModelWeights`.

    Raises:
      InputError: `factory` is no factory of aggregators.
    """
    if isinstance(factory, tff.aggregators.UnweightedAggregationFactory):
        factory = tff.aggregators.as_weighted_aggregator(factory)
    if not isinstance(factory, tff.aggregators.WeightedAggregationFactory):
        raise InputError(
            "model_aggregator: must be a tff.aggregators factory, got " + type(factory).__name__
        )
    return factory.create(weights_type.trainable, tff.TensorType(np.float32))
