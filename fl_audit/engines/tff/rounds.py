"""One round of a learning process and its result."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.engines.engine import as_vector
from fl_audit.mechanisms import Mechanism, clip_and_noise


@dataclass(frozen=True)
class RoundResult:
    """The result of one round.

    Attributes:
      state: The state of the learning process for the next round.
      aggregate: The round's noised aggregate, float32 of shape (dim,), in the direction the model
        moves.
      clip_norm: The norm that this round's updates were clipped to; infinite without clipping.
      noise_stddev: The standard deviation of the noise on each coordinate of the sum of updates;
        under tree aggregation, of the noise of one node.
      train_loss: The mean loss over the examples that the cohort trained on, in nats; 0 without
        any.
    """

    state: Any
    aggregate: npt.NDArray[np.float32]
    clip_norm: float
    noise_stddev: float
    train_loss: float


def flatten_weights(weights: Any) -> npt.NDArray[np.float32]:
    """A structure of arrays as one float32 vector of shape (dim,), in the structure's order."""
    return as_vector(tf.nest.flatten(weights))


def model_weights(state: Any) -> list[npt.NDArray[np.float32]]:
    """The trainable weights in a learning process's state, a list of float32 arrays."""
    return list(tf.nest.flatten(state.global_model_weights.trainable))


def run_round(
    process: tff.templates.IterativeProcess,
    mechanism: Mechanism,
    state: Any,
    client_data: Iterable[Any],
) -> RoundResult:
    """Runs one round on TFF's default context.

    `client_data` has every participant, canaries included; TFF's own runtime requires a list.
    """
    noise = clip_and_noise(mechanism, state.aggregator)
    output = process.next(state, client_data)
    return RoundResult(
        state=output.state,
        aggregate=flatten_weights(output.metrics["finalizer"]["aggregate"]),
        clip_norm=noise.clip_norm,
        noise_stddev=noise.stddev,
        train_loss=float(output.metrics["client_work"]["train"]["loss"]),
    )
