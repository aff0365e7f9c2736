"""Blocks of clients that train at once, as arrays padded to one shape.

Clients differ in their numbers of batches, and batches in their numbers of examples; a block is
padded to the largest of both, and engines ensure that padding changes no result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fl_audit.tasks.learning_task import Examples


@dataclass(frozen=True)
class PaddedBlock:
    """The padded batches of a block of clients."""

    inputs: npt.NDArray[Any]  # (clients, batches, examples, ...)
    labels: npt.NDArray[Any]  # (clients, batches, examples, ...)
    num_examples: npt.NDArray[np.float32]  # of each batch without padding, (clients, batches)


@dataclass(frozen=True)
class BlockShape:
    """The padded shape of a block; `rows` is the number of examples per batch."""

    clients: int
    batches: int
    rows: int

    @classmethod
    def least(cls, clients: Sequence[Examples], batch_size: int) -> Self:
        """The smallest shape that holds these clients, of which there must be at least one."""
        longest = max(map(len, clients))
        return cls(len(clients), -(-longest // batch_size), min(batch_size, longest))


def pad_block(clients: Sequence[Examples], shape: BlockShape, padding_label: int) -> PaddedBlock:
    """Cuts clients' examples into batches of `shape.rows`, padded to a shape that holds them.

    Inputs are padded with 0, labels with `padding_label`, or with NaN if they are not integers.
    """
    first = clients[0]
    whole = (shape.clients, shape.batches * shape.rows)
    inputs = np.zeros(whole + first.inputs.shape[1:], first.inputs.dtype)
    # Labels that are not integers have no class for padding.
    is_whole = np.issubdtype(first.labels.dtype, np.integer)
    padding = padding_label if is_whole else np.nan
    labels = np.full(whole + first.labels.shape[1:], padding, first.labels.dtype)
    lengths = np.zeros((shape.clients, 1), np.int64)
    for i, client in enumerate(clients):
        inputs[i, : len(client)] = client.inputs
        labels[i, : len(client)] = client.labels
        lengths[i] = len(client)
    steps = (shape.clients, shape.batches, shape.rows)
    left = lengths - shape.rows * np.arange(shape.batches)
    return PaddedBlock(
        inputs.reshape(steps + first.inputs.shape[1:]),
        labels.reshape(steps + first.labels.shape[1:]),
        np.clip(left, 0, shape.rows).astype(np.float32),
    )


# The number of clients that fit in memory.

# The memory of a client in training, in copies of the model: weights, gradients, the result of the
# step, the update, and activations, for which the model's size is a poor measure. A generous guess.
_COPIES_PER_CLIENT = 12
_MOST_CLIENTS_PER_BLOCK = 64


def clients_in_memory(dim: int, num_bytes: int) -> int:
    """The number of clients that fit into half of a device's memory, from 1 to 64."""
    fitting = num_bytes // 2 // (_COPIES_PER_CLIENT * 4 * dim)
    return max(1, min(fitting, _MOST_CLIENTS_PER_BLOCK))
