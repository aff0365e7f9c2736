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
    """The result of one round."""

    state: Any  # of the learning process for the next round
    aggregate: npt.NDArray[np.float32]  # noised, (dim,), in the direction the model moves
    clip_norm: float  # of this round; infinite without clipping
    noise_stddev: float  # on a coordinate of the sum; under trees, of a node's noise
    train_loss: float  # mean over the cohort's examples, in nats; 0 without any


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
    """Runs a round on TFF's default context, whose own runtime requires `client_data` as a list."""
    noise = clip_and_noise(mechanism, state.aggregator)
    output = process.next(state, client_data)
    return RoundResult(
        state=output.state,
        aggregate=flatten_weights(output.metrics["finalizer"]["aggregate"]),
        clip_norm=noise.clip_norm,
        noise_stddev=noise.stddev,
        train_loss=float(output.metrics["client_work"]["train"]["loss"]),
    )
