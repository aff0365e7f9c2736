"""One round of a learning process, and what it gives out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.mechanisms import Mechanism, clip_and_noise


@dataclass(frozen=True)
class RoundResult:
    """What one round gives out.

    Attributes:
      state: of the learning process, for the next round.
      aggregate: The round's noised aggregate, float32 of shape (dim,), as the model moves.
      clip_norm: That this round's updates were clipped to; infinite where they were not.
      noise_stddev: of the noise on each coordinate of the sum of updates; of a node under tree
        aggregation.
      train_loss: Mean over the examples that the cohort trained on, in nats; 0 without any.
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


def run_round(
    process: tff.templates.IterativeProcess,
    mechanism: Mechanism,
    state: Any,
    client_data: Iterable[Any],
) -> RoundResult:
    """Runs one round on TFF's default context.

    Args:
      process: of `build_process` or `build_process_over_results`.
      mechanism: Table of the config that the process was built from.
      state: After the last round.
      client_data: of each participant, canaries included; TFF's own runtime wants a list.
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
