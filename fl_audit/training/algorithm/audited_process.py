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
    """As `tff.learning.templates.compose_learning_process`, with canary clients in it.

    Its state and what a real client does are those of the process without canaries: a checkpoint
    of one goes on in the other. docs/any_process.md has an example.

    Args:
      initial_model_weights_fn: The initial weights.
      model_weights_distributor: Hands them out; may have a state.
      client_work: What a real client does; may have a state and hyperparameters.
      model_update_aggregator: Clips and adds noise; a weighted one, as TFF wants it
        (`tff.aggregators.as_weighted_aggregator` makes one).
      model_finalizer: Applies the aggregate.
      canary_weight: of a canary's update. Where clients are weighted by their examples, a canary
        stands for a client with this many; an aggregator without weights, such as every one
        with differential privacy, does not look at it.

    Returns:
      A learning process whose clients' data is `OrderedDict(canary, examples)`, see
      `canary_clients`, and whose metrics have the round's aggregate, see `released_aggregate`.

    Raises:
      InputError: An update is not made of floating-point numbers, or the weight is not positive.
      TypeError: The parts do not fit together; from TFF.
    """
    return tff.learning.templates.compose_learning_process(
        initial_model_weights_fn,
        model_weights_distributor,
        with_canary_clients(client_work, canary_weight),
        model_update_aggregator,
        with_aggregate_released(model_finalizer),
    )


def canary_dim(process: tff.learning.templates.LearningProcess) -> int:
    """How long a canary's vector is: the numbers in an update of an audited process."""
    data_type = process.next.type_signature.parameter[1].member
    return int(data_type["canary"].element.shape[0])


def released_aggregate(metrics: Any) -> list[npt.NDArray[Any]]:
    """What a round of an audited process gave out, as the model moves.

    Args:
      metrics: of `process.next`.

    Returns:
      Arrays in the order in which canary clients cut up their vectors.
    """
    return [np.asarray(leaf) for leaf in tf.nest.flatten(metrics["finalizer"]["aggregate"])]
