"""Training of a block of clients at once, which an accelerator needs to be fast.

From the first step on each client has weights of its own, so a block is one more axis in front of
every weight, made by `tf.vectorized_map`: products of matrices become batched ones. Clients differ
in their numbers of batches, and batches in their numbers of examples; a block is padded to the
largest, and padding changes no result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.tasks.classifier import Classifier, Examples
from fl_audit.training.runtimes.local_training import LocalTraining


class NotVectorizedError(Exception):
    """TensorFlow cannot train a model in blocks; the text says why."""


@dataclass(frozen=True)
class TrainedBlock:
    """The result of training a block of clients; the first axis of every array is the client.

    Attributes:
      update: The update that each client sends, initial minus trained weights or FedSGD's gradient,
        float32, in the order of the weights.
      loss: The sum over the client's tokens (or examples) of the loss at the time of their step, in
        nats, float32 of shape (clients,).
      num_tokens: The number of these tokens (or examples), float32 of shape (clients,).
    """

    update: Sequence[tf.Tensor]
    loss: tf.Tensor
    num_tokens: tf.Tensor


@dataclass(frozen=True)
class PaddedBlock:
    """The batches of a block of clients.

    Attributes:
      inputs: The inputs, of shape (clients, batches, examples, ...).
      labels: The labels, int32 of shape (clients, batches, examples, ...).
      num_examples: The examples that are no padding, float32 of shape (clients, batches).
    """

    inputs: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    num_examples: npt.NDArray[np.float32]


def pad_block(clients: Sequence[Examples], batch_size: int, padding_label: int) -> PaddedBlock:
    """Cuts each client's examples into batches and pads them to the largest.

    Args:
      clients: The examples of each client in the order of training, at least one client.
      batch_size: The number of examples in a step, at least 1.
      padding_label: The label of the examples that are filled in; their inputs are zero.
    """
    batches = max(-(-len(client) // batch_size) for client in clients)
    rows = min(batch_size, max(len(client) for client in clients))
    first = clients[0]
    shape = (len(clients), batches * rows)
    inputs = np.zeros(shape + first.inputs.shape[1:], first.inputs.dtype)
    # Where labels are no whole numbers, those that are filled in are none at all.
    is_whole = np.issubdtype(first.labels.dtype, np.integer)
    padding = padding_label if is_whole else np.nan
    labels = np.full(shape + first.labels.shape[1:], padding, first.labels.dtype)
    for i, client in enumerate(clients):
        inputs[i, : len(client)] = client.inputs
        labels[i, : len(client)] = client.labels
    steps = (len(clients), batches, rows)
    left = np.array([[len(client)] for client in clients]) - rows * np.arange(batches)
    return PaddedBlock(
        inputs.reshape(steps + first.inputs.shape[1:]),
        labels.reshape(steps + first.labels.shape[1:]),
        np.clip(left, 0, rows).astype(np.float32),
    )


class BlockTrainer:
    """A trainer of blocks of clients of one model."""

    def __init__(self, classifier: Classifier, local_training: LocalTraining) -> None:
        """Builds the TensorFlow graph of the training.

        Args:
          classifier: The model.
          local_training: What clients do with their gradients.

        Raises:
          NotVectorizedError: One of the model's operations cannot run with separate weights for
            each client.
        """
        self._classifier = classifier
        self._logits = classifier.logits_in_blocks or classifier.logits
        self._local = local_training
        weights = [tf.TensorSpec(w.shape, tf.float32) for w in classifier.initial_weights]
        inputs, labels = classifier.input_spec, classifier.label_spec
        self._train = tf.function(
            self._train_block,
            input_signature=[
                weights,
                tf.TensorSpec([None, None, *inputs.shape], inputs.dtype),
                tf.TensorSpec([None, None, *labels.shape], labels.dtype),
                tf.TensorSpec([None, None], tf.float32),
            ],
        )
        try:
            self._train.get_concrete_function()
        except (ValueError, NotImplementedError) as error:
            # Only the last line of the message says what failed; those above it are a trace.
            raise NotVectorizedError(str(error).strip().splitlines()[-1].strip()) from error

    def train(self, weights: Sequence[tf.Tensor], block: PaddedBlock) -> TrainedBlock:
        """Trains every client of a block from the same weights.

        Args:
          weights: The model's weights, float32.
          block: The clients' batches, made by `pad_block`.
        """
        update, (loss, num_tokens) = self._train(
            list(weights), block.inputs, block.labels, block.num_examples
        )
        return TrainedBlock(update, loss, num_tokens)

    def _train_block(
        self,
        initial: list[tf.Tensor],
        inputs: tf.Tensor,
        labels: tf.Tensor,
        num_examples: tf.Tensor,
    ) -> Any:
        clients = tf.shape(inputs)[0]
        start = (self._local.begin(initial), (tf.zeros([]), tf.zeros([])))
        state = tf.nest.map_structure(lambda leaf: _repeat(leaf, clients), start)
        for batch in tf.range(tf.shape(inputs)[1]):
            state = tf.vectorized_map(
                lambda arguments: self._step(initial, *arguments),
                (state, inputs[:, batch], labels[:, batch], num_examples[:, batch]),
                False,
            )
        return tf.vectorized_map(lambda last: self._local.end(initial, *last), state, False)

    def _step(
        self,
        initial: list[tf.Tensor],
        state: Any,
        inputs: tf.Tensor,
        labels: tf.Tensor,
        num_examples: tf.Tensor,
    ) -> Any:
        """Takes one step of one client; a batch of padding alone changes nothing."""
        local_state, (loss, num_tokens) = state
        weights = self._local.weights(initial, local_state)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            batch_loss = self._classifier.loss_in_blocks(self._logits(weights, inputs), labels)
        gradients = tape.gradient(batch_loss, weights)
        batch_tokens = self._classifier.num_tokens(labels)
        after = (
            self._local.next(local_state, gradients, num_examples),
            (loss + batch_loss * batch_tokens, num_tokens + batch_tokens),
        )
        return tf.nest.map_structure(
            lambda new, old: tf.where(num_examples > 0, new, old), after, state
        )


def _repeat(leaf: Any, clients: tf.Tensor) -> tf.Tensor:
    tensor = tf.convert_to_tensor(leaf)
    return tf.broadcast_to(tensor, tf.concat([[clients], tf.shape(tensor)], 0))
