"""The participants of a round whose clients train in blocks: the results of their training."""

import collections
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.canaries.families import CanaryFamily
from fl_audit.training.data.cohort_data import RoundData
from fl_audit.training.runtimes.blocks import BlockTrainer, pad_block


@dataclass(frozen=True)
class TrainedBlocks:
    """The maker of participants for a process of `build_process_over_results`.

    Attributes:
      trainer: The trainer of blocks of the model's clients.
      clients_per_block: The number of clients that train at once, at least 1.
      batch_size: The number of examples in a step.
      padding_label: The task's label of padding.
      family: The family of the canaries that are vectors.
    """

    trainer: BlockTrainer
    clients_per_block: int
    batch_size: int
    padding_label: int
    family: CanaryFamily

    def of(
        self, weights: Sequence[npt.NDArray[np.float32]], data: RoundData, canary_norm: float
    ) -> Iterator[Any]:
        """The results of real clients first, then of canaries, each made when it is asked for.

        Args:
          weights: The weights of the model at the round's start.
          data: The data of the participants.
          canary_norm: The length of the update of a canary that is a vector.
        """
        tensors = [tf.constant(array) for array in weights]
        # Clients with alike numbers of batches share a block, so that little of it is padding.
        clients = sorted(data.trained, key=len)
        for start in range(0, len(clients), self.clients_per_block):
            members = clients[start : start + self.clients_per_block]
            block = pad_block(members, self.batch_size, self.padding_label)
            trained = self.trainer.train(tensors, block)
            leaves = (*trained.update, trained.loss, trained.num_tokens)
            for parts in zip(*(tf.unstack(leaf, len(members)) for leaf in leaves), strict=True):
                *update, loss, num_tokens = parts
                yield _result(update, (loss, num_tokens))
        shapes = [array.shape for array in weights]
        for canary in data.vectors:
            vector = self.family.vector(int(canary)) * np.float32(-canary_norm)
            yield _result(as_leaves(vector, shapes), (0.0, 0.0))


def _result(update: Sequence[Any], loss: tuple[Any, Any]) -> Any:
    metrics = collections.OrderedDict(loss=loss)
    return collections.OrderedDict(update=tuple(update), metrics=metrics)


def as_leaves(
    vector: npt.NDArray[np.float32], shapes: Sequence[tuple[int, ...]]
) -> list[npt.NDArray[np.float32]]:
    """A flat vector split into arrays of these shapes, in their order."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    pieces = np.split(vector, ends[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
