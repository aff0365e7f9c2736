"""Any TFF learning process with canary clients, from its parts as TFF composes them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.training.algorithm.canary_process import with_aggregate_released, with_canary_clients


def compose_audited_process(
    initial_model_weights_fn: tff.Computation,
    model_weights_distributor: tff.learning.templates.DistributionProcess,
    client_work: tff.learning.templates.ClientWorkProcess,
    model_update_aggregator: tff.templates.AggregationProcess,
    model_finalizer: tff.learning.templates.FinalizerProcess,
    *,
    canary_weight: float = 1.0,
) -> tff.learning.templates.LearningProcess:
    """A learning process with canary clients, otherwise as TFF's `compose_learning_process`.

    State and real clients are those of the process without canaries, so that a checkpoint of either
    can be continued by the other. docs/any_process.md has an example.

    Args:
      initial_model_weights_fn: A computation of the model's initial weights.
      model_weights_distributor: The process that sends the weights to clients; may have a state.
      client_work: The work of a real client; may have a state and hyperparameters.
      model_update_aggregator: The process that clips, sums and adds noise; weighted, as TFF wants
        it (`tff.aggregators.as_weighted_aggregator` makes such a one).
      model_finalizer: The process that applies the aggregate to the model.
      canary_weight: The weight of a canary's update. Where clients are weighted by their examples,
        a canary stands for a client with this many. Aggregators without weights, such as all those
        with differential privacy, do not use it.

    Returns:
      A learning process whose clients' data is `OrderedDict(canary, examples)`, see
      `canary_clients`, and whose metrics have the round's aggregate, see `released_aggregate`.

    Raises:
      InputError: An update is not made of floating-point numbers, or the weight is not positive.
      TypeError: The parts do not fit together (raised by TFF).
    """
    return tff.learning.templates.compose_learning_process(
        initial_model_weights_fn,
        model_weights_distributor,
        with_canary_clients(client_work, canary_weight),
        model_update_aggregator,
        with_aggregate_released(model_finalizer),
    )


def canary_dim(process: tff.learning.templates.LearningProcess) -> int:
    """The length of a canary's vector, which is how many numbers an update of the process holds."""
    data_type = process.next.type_signature.parameter[1].member
    return int(data_type["canary"].element.shape[0])


def released_aggregate(metrics: Any) -> list[npt.NDArray[Any]]:
    """The aggregate that a round of an audited process released, in the direction the model moves.

    Args:
      metrics: The metrics that `process.next` returned.

    Returns:
      Arrays in the order in which canary clients split their vectors.
    """
    return [np.asarray(leaf) for leaf in tf.nest.flatten(metrics["finalizer"]["aggregate"])]
