"""A cohort of next-word clients trained in blocks, without TFF."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.next_word import BATCH_SIZE, Sizes, classifier_of, made_up_clients
from fl_audit.engines.tff.blocks import BlockTrainer, OptimizerSteps, pad_block
from fl_audit.tasks.text import PADDING

_COMPARED = 2
"""Number of clients whose updates are compared with training one by one."""


class PlainSGD:
    """Gradient descent as TFF's `build_sgdm` does it without momentum."""

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate

    def initialize(self, specs: Any) -> Any:
        """The state, which is empty."""
        del specs
        return ()

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        """The state and the weights after a step down each gradient."""
        steps = [self._learning_rate * tf.convert_to_tensor(gradient) for gradient in gradients]
        return state, [weight - step for weight, step in zip(weights, steps, strict=True)]


@functools.cache
def _trainer(sizes: Sizes) -> tuple[BlockTrainer, Sequence[np.ndarray]]:
    """The trainer and the initial weights; all rows of the same size share the graph."""
    classifier = classifier_of(sizes)
    trainer = BlockTrainer(classifier, OptimizerSteps(PlainSGD(0.1)))
    return trainer, classifier.initial_weights


class Cohort:
    """A cohort of clients with the same number of full batches each."""

    def __init__(self, sizes: Sizes, num_clients: int, batches: int) -> None:
        """Makes up the clients' sentences.

        Args:
          sizes: Sizes of the model.
          num_clients: Number of clients in the cohort.
          batches: Number of batches of each client.
        """
        self.num_clients = num_clients
        self.flops = sizes.flops_per_batch * num_clients * batches
        self._trainer, weights = _trainer(sizes)
        self._weights = [tf.constant(weight) for weight in weights]
        self._clients = made_up_clients(sizes, num_clients, batches)

    def train(self, block: int) -> list[tf.Tensor]:
        """Trains in blocks of at most `block` clients and returns the sum of the updates."""
        total = [tf.zeros_like(weight) for weight in self._weights]
        for start in range(0, self.num_clients, block):
            update = self._update(start, block)
            total = [t + tf.reduce_sum(u, axis=0) for t, u in zip(total, update, strict=True)]
        total[-1].numpy()  # waits for the device
        return total

    def difference_from_one_by_one(self, block: int) -> float:
        """The largest relative distance of a client's update from its update when trained alone.

        The update when trained alone is computed without TensorFloat-32.
        """
        found = [u.numpy() for u in self._update(0, block)]
        with _without_tensor_float_32():
            return max(
                _distance([u[at] for u in found], [u.numpy()[0] for u in self._update(at, 1)])
                for at in range(min(_COMPARED, len(found[0])))
            )

    def _update(self, start: int, block: int) -> Sequence[tf.Tensor]:
        members = self._clients[start : start + block]
        padded = pad_block(members, BATCH_SIZE, PADDING)
        return self._trainer.train(self._weights, padded).update


def _distance(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Distance of two lists of arrays, divided by the norm of the second."""
    pairs = zip(found, expected, strict=True)
    difference = sum(float(np.sum((f - e).astype(np.float64) ** 2)) for f, e in pairs)
    return float(
        (difference / sum(float(np.sum(e.astype(np.float64) ** 2)) for e in expected)) ** 0.5
    )


@contextlib.contextmanager
def _without_tensor_float_32() -> Iterator[None]:
    is_on = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(is_on)
