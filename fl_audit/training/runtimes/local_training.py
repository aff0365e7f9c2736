"""What a client does with its gradients, as plain TensorFlow for one client of a block.

The state of a client is a structure of tensors; a block adds an axis to each.
"""

import abc
from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

Weights = Sequence[tf.Tensor]

Metrics = tuple[tf.Tensor, ...]
"""Sums over a client's batches; zero before the first."""


class Optimizer(Protocol):
    """The part of `tff.learning.optimizers.Optimizer` that is used here."""

    def initialize(self, specs: Any) -> Any:
        """The state of the optimizer before the first step."""

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        """The state and weights after a step."""


class LocalTraining(abc.ABC):
    """What a client does with the gradients of its batches."""

    @abc.abstractmethod
    def begin(self, initial: Weights) -> Any:
        """A client's state before its first batch.

        Args:
          initial: The weights of the round's model.
        """

    @abc.abstractmethod
    def weights(self, initial: Weights, state: Any) -> Weights:
        """The weights at which the next batch's gradient is taken."""

    @abc.abstractmethod
    def next(self, state: Any, gradients: Weights, num_examples: tf.Tensor) -> Any:
        """The state after a batch.

        Args:
          state: The state before the batch.
          gradients: The gradients of the batch's mean loss.
          num_examples: The number of examples in the batch, a float scalar, at least 1.
        """

    @abc.abstractmethod
    def end(self, initial: Weights, state: Any, metrics: Metrics) -> tuple[Weights, Metrics]:
        """The update that a client sends, and its metrics; zero where they are not finite."""


class OptimizerSteps(LocalTraining):
    """Steps of an optimizer: FedAvg's clients, and FedProx's with a `ProximalOptimizer`."""

    def __init__(self, optimizer: Optimizer) -> None:
        """Takes the optimizer whose steps these are; its state begins anew with each client."""
        self._optimizer = optimizer

    def begin(self, initial: Weights) -> Any:
        """The round's model, and the optimizer's initial state."""
        specs = [tf.TensorSpec(w.shape, w.dtype) for w in initial]
        return list(initial), self._optimizer.initialize(specs)

    def weights(self, initial: Weights, state: Any) -> Weights:
        """The weights that the steps have reached."""
        del initial
        reached: Weights = state[0]
        return reached

    def next(self, state: Any, gradients: Weights, num_examples: tf.Tensor) -> Any:
        """The state after a step, whatever the number of examples."""
        del num_examples
        weights, optimizer_state = state
        optimizer_state, weights = self._optimizer.next(optimizer_state, weights, gradients)
        return weights, optimizer_state

    def end(self, initial: Weights, state: Any, metrics: Metrics) -> tuple[Weights, Metrics]:
        """Initial minus reached weights; if that is not finite, the client counts in no metric."""
        update = [first - last for first, last in zip(initial, state[0], strict=True)]
        result: tuple[Weights, Metrics] = _zeros_unless_finite(update, (update, metrics))
        return result


class MeanGradient(LocalTraining):
    """The mean gradient over the examples at the round's model: FedSGD's clients."""

    def begin(self, initial: Weights) -> Any:
        """A sum of no gradients."""
        return [tf.zeros(w.shape, w.dtype) for w in initial], tf.zeros([])

    def weights(self, initial: Weights, state: Any) -> Weights:
        """The round's model."""
        del state
        return initial

    def next(self, state: Any, gradients: Weights, num_examples: tf.Tensor) -> Any:
        """The sum with the batch's examples added."""
        sums, count = state
        sums = [total + num_examples * g for total, g in zip(sums, gradients, strict=True)]
        return sums, count + num_examples

    def end(self, initial: Weights, state: Any, metrics: Metrics) -> tuple[Weights, Metrics]:
        """The mean; if that is not finite, the client still counts in the metrics, as in TFF."""
        del initial
        sums, count = state
        update = [total / count for total in sums]
        return _zeros_unless_finite(update, update), metrics


def _zeros_unless_finite(update: Weights, result: Any) -> Any:
    is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(leaf)) for leaf in update])
    return tf.nest.map_structure(
        lambda leaf: tf.where(is_finite, leaf, tf.zeros_like(leaf)), result
    )
