"""Measures of a model: accuracy, losses, and the updates of clients that train from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.attacks.arrays import unflatten
from fl_audit.engines.client_blocks import pad_block
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.trained_blocks import (
    BlockTrainer,
    NotVectorizedError,
    block_trainer,
    default_clients_per_block,
)
from fl_audit.errors import InputError
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.classifier import Classifier

_EVALUATED_AT_ONCE = 64


class Evaluator:
    """Computes a model's accuracy on one set of held-out examples."""

    def __init__(self, classifier: Classifier, held_out: Examples) -> None:
        arrays = (held_out.inputs, held_out.labels)
        self._batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_EVALUATED_AT_ONCE)

        @tf.function
        def count(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            logits = classifier.logits(weights, inputs)
            return tf.stack(
                [classifier.num_correct(logits, labels), classifier.num_counted(labels)]
            )

        self._count = count

    def accuracy(self, weights: Sequence[npt.NDArray[np.float32]]) -> float:
        """The share of counted labels that are predicted, in [0, 1]; 0 if no label counts."""
        tensors = [tf.constant(array) for array in weights]
        correct, counted = np.sum(
            [self._count(tensors, *batch).numpy() for batch in self._batches],
            axis=0,
            dtype=np.float64,
        )
        return float(correct / counted) if counted else 0.0


_LOSSES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class OwnersLosses:
    """Means over each owner's tokens (or examples), in nats, float64 of shape (owners,)."""

    attacked: FloatArray  # minus the labels' log-odds; a custom task's loss without
    label: FloatArray  # minus the labels' log probabilities; the loss of such a task


class MeanLosses:
    """Computes a model's mean losses on the examples of all owners at once."""

    def __init__(self, classifier: Classifier, owners: Sequence[Examples]) -> None:
        everything = Examples.concatenate(owners)
        arrays = (everything.inputs, everything.labels)
        self._batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_LOSSES_AT_ONCE)
        self._owner = np.repeat(np.arange(len(owners)), [len(examples) for examples in owners])

        @tf.function(reduce_retracing=True)
        def losses(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            logits = classifier.logits(weights, inputs)
            attacked, tokens = classifier.attacked_loss_by_example(logits, labels)
            of_labels, _ = classifier.label_loss_by_example(logits, labels)
            return tf.stack([tf.cast(part, tf.float64) for part in (attacked, of_labels, tokens)])

        self._losses = losses

    def evaluate(self, weights: Sequence[npt.NDArray[np.float32]]) -> OwnersLosses:
        tensors = [tf.constant(array) for array in weights]
        by_batch = [self._losses(tensors, *batch).numpy() for batch in self._batches]
        attacked, of_labels, tokens = (
            np.bincount(self._owner, weights=row) for row in np.concatenate(by_batch, axis=1)
        )
        return OwnersLosses(np.asarray(attacked / tokens), np.asarray(of_labels / tokens))


@dataclass(frozen=True, eq=False)
class BlockUpdates:
    """The updates that clients of a run would send, trained in blocks."""

    run: PreparedRun
    trainer: BlockTrainer
    clients_per_block: int

    @classmethod
    def from_run(cls, run: PreparedRun) -> Self:
        """Raises an `InputError` if the model does not train in blocks of clients."""
        size = run.config.clients_per_block or default_clients_per_block(run.task.classifier.dim)
        try:
            return cls(run, block_trainer(run), size)
        except NotVectorizedError as error:
            raise InputError(
                "audit.threat_models: 'all_iterates' for canaries.kind 'examples' needs a model "
                f"that trains in blocks of clients, and must be left out for this one: {error}"
            ) from error

    def updates(
        self, model: Float32Array, clients: Sequence[Examples]
    ) -> Iterator[tuple[IndexArray, Float32Array]]:
        """The updates as `fl_audit.engines.engine.ClientUpdates` has them."""
        classifier = self.run.task.classifier
        weights = [tf.constant(array) for array in unflatten(model, classifier.initial_weights)]
        # Clients with similar numbers of examples share a block, so that little of it is padding.
        order = np.argsort([len(client) for client in clients], kind="stable")
        for start in range(0, len(order), self.clients_per_block):
            members = order[start : start + self.clients_per_block]
            block = pad_block(
                [clients[int(index)] for index in members],
                self.run.config.client.batch_size,
                classifier.padding_label,
            )
            # With the sign of TFF's updates: initial minus trained weights.
            leaves = self.trainer.train(weights, block).update
            rows = [leaf.numpy().reshape(len(members), -1) for leaf in leaves]
            yield members, -np.concatenate(rows, axis=1)
