"""Measures of models in JAX: accuracy, and the losses that attacks use."""

import functools
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.engines.client_blocks import BlockShape, PaddedBlock, pad_block
from fl_audit.engines.engine import Weights
from fl_audit.tasks.jax.classifier import JaxModel, in_full_precision
from fl_audit.tasks.learning_task import Examples

_AT_ONCE = 64


class Evaluator:
    """Computes a model's accuracy on one set of held-out examples."""

    def __init__(self, model: JaxModel, held_out: Examples, padding_label: int) -> None:
        self._batches = functools.partial(_batches, held_out, padding_label)
        self._count = jax.jit(model.accuracy_counts)

    def accuracy(self, weights: Weights) -> float:
        """The share of counted labels that are predicted, in [0, 1]; 0 if no label counts."""
        arrays, total = jax.device_put(list(weights)), np.zeros(2)
        with in_full_precision():
            for batch in self._batches():
                counts = self._count(arrays, batch.inputs[0, 0], batch.labels[0, 0])
                total += np.asarray(counts, np.float64)
        correct, counted = total
        return float(correct / counted) if counted else 0.0


def _batches(examples: Examples, padding_label: int) -> Iterator[PaddedBlock]:
    """The examples in batches, the last one padded to the same shape: one program."""
    shape = BlockShape(1, 1, min(_AT_ONCE, len(examples)))
    for start in range(0, len(examples), _AT_ONCE):
        part = examples.take(np.arange(start, min(start + _AT_ONCE, len(examples))))
        yield pad_block([part], shape.rows, padding_label, shape)


class MeanLosses:
    """Computes a model's mean attacked losses on the examples of all owners."""

    def __init__(self, model: JaxModel, owners: Sequence[Examples], padding_label: int) -> None:
        everything = Examples.concatenate(owners)
        self._batches = functools.partial(_batches, everything, padding_label)
        self._count = len(everything)
        self._owner = np.repeat(np.arange(len(owners)), [len(examples) for examples in owners])
        self._losses = jax.jit(model.attacked_by_example)

    def evaluate(self, weights: Weights) -> FloatArray:
        """The mean over each owner's tokens (or examples), in nats, float64 of shape (owners,)."""
        arrays = jax.device_put(list(weights))
        with in_full_precision():
            parts = [
                np.asarray(self._losses(arrays, b.inputs[0, 0], b.labels[0, 0]), np.float64)
                for b in self._batches()
            ]
        by_example = np.concatenate(parts, axis=1)[:, : self._count]
        losses, tokens = (np.bincount(self._owner, row) for row in by_example)
        return np.asarray(losses / tokens)
