"""Clients that train in blocks, for the speed of an accelerator.

From the first step on each client has its own weights. So every weight gets one more leading axis
for the clients of a block, by `tf.vectorized_map`: matrix products become batched products. Clients
differ in their numbers of batches, and batches in their numbers of examples; a block is padded to
the largest numbers, and padding changes no result.
"""

import abc
import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tensorflow.python.client import device_lib

from fl_audit.array_types import Float32Array, IntArray
from fl_audit.attacks.arrays import unflatten
from fl_audit.canaries.families import CanaryFamily
from fl_audit.config import FedSgd
from fl_audit.engines.client_blocks import BlockShape, PaddedBlock, clients_in_memory, pad_block
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.algorithms import Optimizer, client_optimizer
from fl_audit.errors import lines_of
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.classifier import Classifier
from fl_audit.tasks.tf.networks import as_classifier

Weights = Sequence[tf.Tensor]

Metrics = tuple[tf.Tensor, ...]
"""The sums of loss and of tokens over a client's batches; zero before the first batch."""


class LocalTraining(abc.ABC):
    """A method by which a client gets from the gradients of its batches to its update."""

    @abc.abstractmethod
    def begin(self, initial: Weights) -> Any:
        """A client's state before its first batch; `initial` is the round's model."""

    @abc.abstractmethod
    def weights(self, initial: Weights, state: Any) -> Weights:
        """The weights for the next batch's gradient."""

    @abc.abstractmethod
    def next(self, state: Any, gradients: Weights, num_examples: tf.Tensor) -> Any:
        """The state after a batch, from its mean gradients and its size, a float above 0."""

    @abc.abstractmethod
    def end(self, initial: Weights, state: Any, metrics: Metrics) -> tuple[Weights, Metrics]:
        """The update of a client, zeros if it is not finite, and the client's metrics."""


class OptimizerSteps(LocalTraining):
    """Steps of an optimizer: FedAvg's clients, and FedProx's with a `ProximalOptimizer`."""

    def __init__(self, optimizer: Optimizer) -> None:
        """The optimizer's state is reset for each client."""
        self._optimizer = optimizer

    def begin(self, initial: Weights) -> Any:
        specs = [tf.TensorSpec(w.shape, w.dtype) for w in initial]
        return list(initial), self._optimizer.initialize(specs)

    def weights(self, initial: Weights, state: Any) -> Weights:
        reached: Weights = state[0]
        return reached

    def next(self, state: Any, gradients: Weights, num_examples: tf.Tensor) -> Any:
        weights, optimizer_state = state
        optimizer_state, weights = self._optimizer.next(optimizer_state, weights, gradients)
        return weights, optimizer_state

    def end(self, initial: Weights, state: Any, metrics: Metrics) -> tuple[Weights, Metrics]:
        """Initial minus trained weights; if it is not finite, metrics do not count the client."""
        update = [first - last for first, last in zip(initial, state[0], strict=True)]
        result: tuple[Weights, Metrics] = _zeros_unless_finite(update, (update, metrics))
        return result


class MeanGradient(LocalTraining):
    """The mean gradient over the examples at the round's model: FedSGD's clients."""

    def begin(self, initial: Weights) -> Any:
        return [tf.zeros(w.shape, w.dtype) for w in initial], tf.zeros([])

    def weights(self, initial: Weights, state: Any) -> Weights:
        return initial

    def next(self, state: Any, gradients: Weights, num_examples: tf.Tensor) -> Any:
        sums, count = state
        sums = [total + num_examples * g for total, g in zip(sums, gradients, strict=True)]
        return sums, count + num_examples

    def end(self, initial: Weights, state: Any, metrics: Metrics) -> tuple[Weights, Metrics]:
        """The mean gradient; if it is not finite, metrics still count the client, as in TFF."""
        sums, count = state
        update = [total / count for total in sums]
        return _zeros_unless_finite(update, update), metrics


def _zeros_unless_finite(update: Weights, result: Any) -> Any:
    is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(leaf)) for leaf in update])
    return tf.nest.map_structure(
        lambda leaf: tf.where(is_finite, leaf, tf.zeros_like(leaf)), result
    )


# A block of clients.


class NotVectorizedError(Exception):
    """TensorFlow cannot train a model in blocks; the text says why."""


@dataclass(frozen=True)
class TrainedBlock:
    """The result of training a block of clients; the first axis of every array is the client."""

    # initial minus trained weights, or FedSGD's gradient, in the order of the weights
    update: Sequence[tf.Tensor]
    loss: tf.Tensor  # summed over tokens (or examples), each with the weights of its step, in nats
    num_tokens: tf.Tensor  # the number of these tokens (or examples)


class BlockTrainer:
    """Trains blocks of clients of one model."""

    def __init__(self, classifier: Classifier, local_training: LocalTraining) -> None:
        """Builds the TensorFlow graph of the training."""
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
            # Only the last line of the message is the error; all other lines are a stack trace.
            raise NotVectorizedError(lines_of(error)[-1].strip()) from error

    def train(self, weights: Sequence[tf.Tensor], block: PaddedBlock) -> TrainedBlock:
        """Trains every client of a block from the same float32 weights."""
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
        """One step of one client; a batch of padding alone changes nothing."""
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


def block_trainer(run: PreparedRun) -> BlockTrainer:
    """The trainer of blocks of a run's clients; raises NotVectorizedError if there is none."""
    classifier, client = as_classifier(run.task.classifier), run.config.client
    if isinstance(client, FedSgd):
        return BlockTrainer(classifier, MeanGradient())
    return BlockTrainer(classifier, OptimizerSteps(client_optimizer(client)))


# The clients of a run in blocks.


@dataclass(frozen=True)
class TrainedBlocks:
    """Trains clients in blocks: as inputs of `build_process_over_results`, or for their updates."""

    trainer: BlockTrainer
    clients_per_block: int
    batch_size: int
    padding_label: int
    family: CanaryFamily

    @classmethod
    def from_run(cls, run: PreparedRun, clients_per_block: int) -> Self:
        """Raises a NotVectorizedError if the run's model does not train in blocks."""
        batch_size, padding = run.config.client.batch_size, run.task.classifier.padding_label
        return cls(block_trainer(run), clients_per_block, batch_size, padding, run.family)

    def inputs(
        self, weights: Sequence[Float32Array], data: RoundData, canary_norm: float
    ) -> Iterator[Any]:
        """Results of participants that train, then of canaries that are vectors, lazily."""
        for members, trained in self._trained(weights, data.trained):
            leaves = (*trained.update, trained.loss, trained.num_tokens)
            for parts in zip(*(tf.unstack(leaf, len(members)) for leaf in leaves), strict=True):
                *update, loss, num_tokens = parts
                yield _result(update, (loss, num_tokens))
        for canary in data.vectors:
            yield canary_result(self.family.vector(int(canary)) * np.float32(canary_norm), weights)

    def noise_key(self, key: IntArray) -> IntArray:
        """A participant's noise key as an input: itself."""
        return key

    def updates(
        self, weights: Sequence[Float32Array], clients: Sequence[Examples]
    ) -> Iterator[tuple[IntArray, Float32Array]]:
        """Yields clients' positions and updates, as `engines.engine.ClientUpdates` does."""
        for members, trained in self._trained(weights, clients):
            # TFF's updates are initial minus trained weights; those yielded have the other sign.
            rows = [leaf.numpy().reshape(len(members), -1) for leaf in trained.update]
            yield members, -np.concatenate(rows, axis=1)

    def _trained(
        self, weights: Sequence[Float32Array], clients: Sequence[Examples]
    ) -> Iterator[tuple[IntArray, TrainedBlock]]:
        """The positions of each block's clients, and the block trained from a model."""
        tensors = [tf.constant(array) for array in weights]
        # Clients with similar numbers of batches share a block, so that little of it is padding.
        order = np.argsort([len(client) for client in clients], kind="stable")
        for start in range(0, len(order), self.clients_per_block):
            members = order[start : start + self.clients_per_block]
            block = [clients[int(index)] for index in members]
            shape = BlockShape.least(block, self.batch_size)
            yield members, self.trainer.train(tensors, pad_block(block, shape, self.padding_label))


def canary_result(vector: Float32Array, weights: Sequence[Float32Array]) -> Any:
    """The result of a canary, minus its vector in the shapes of `weights`, without a loss."""
    return _result(unflatten(-vector, weights), (np.float32(0), np.float32(0)))


def _result(update: Sequence[Any], loss: tuple[Any, Any]) -> Any:
    metrics = collections.OrderedDict(loss=loss)
    return collections.OrderedDict(update=tuple(update), metrics=metrics)


# The number of clients, or of shadow models, that train at once unless the config sets it.

# On two cores a dense model of 167,178 parameters trained twice as fast in blocks of 8; one by one,
# an LSTM of 4.05 million trained twice and a CNN of 1.2 million five times as fast.
_LARGEST_BLOCK_MODEL_ON_CPU = 500_000
_CLIENTS_PER_BLOCK_ON_CPU = 8
_MODELS_PER_BLOCK_ON_CPU = 32


def clients_per_block_of(run: PreparedRun) -> int:
    """The number of a run's clients that train at once, if its model trains in blocks."""
    return run.config.clients_per_block or default_clients_per_block(run.task.classifier.dim)


def default_clients_per_block(dim: int) -> int:
    """The default number of clients that train at once on TensorFlow's device.

    On a GPU as many as fit in half of its memory, at most 64. On a CPU eight for small models,
    where the overhead of operations dominates, and one for larger models, as batched matrix
    products are slower than separate ones there.
    """
    return _default_block(dim, _CLIENTS_PER_BLOCK_ON_CPU)


def default_models_per_block(dim: int) -> int:
    """The default number of shadow models that train at once: as clients, but 32 in place of 8."""
    return _default_block(dim, _MODELS_PER_BLOCK_ON_CPU)


def _default_block(dim: int, small_on_cpu: int) -> int:
    gpus = [d for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    if gpus:
        return clients_in_memory(dim, gpus[0].memory_limit)
    return small_on_cpu if dim <= _LARGEST_BLOCK_MODEL_ON_CPU else 1
