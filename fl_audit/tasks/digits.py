"""Handwritten digits that come with scikit-learn, a real task without a download."""

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import (
    NO_CLASS,
    Classifier,
    Examples,
    InMemoryPopulation,
    LearningTask,
)
from fl_audit.tasks.initializers import he_normal, zeros
from fl_audit.tasks.tables import DigitsTask

_PIXELS = 64
_CLASSES = 10
_NUM_TRAINING = 1500


def dense_logits(weights: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """Dense layers with ReLU between them; weights are matrix, bias, matrix, bias, ..."""
    hidden = inputs
    for matrix, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = tf.nn.relu(hidden @ matrix + bias)
    return hidden @ weights[-2] + weights[-1]


def _dense_classifier(hidden: Sequence[int], seed: int) -> Classifier:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    widths = [_PIXELS, *hidden, _CLASSES]
    weights = [
        array
        for rows, columns in itertools.pairwise(widths)
        for array in (he_normal(random, rows, columns), zeros(columns))
    ]
    return Classifier(
        initial_weights=tuple(weights),
        logits=dense_logits,
        input_spec=tf.TensorSpec([None, _PIXELS], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        accuracy_description="share of 297 held-out images classified correctly",
    )


def load_digits_task(config: DigitsTask, seed: int) -> LearningTask:
    """The task of 1,500 images dealt at random to the clients, with 297 held out.

    Args:
      config: The number of clients and the widths of the model.
      seed: The seed of the run; it decides the split and the initial weights.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = generator(seed, Stream.PARTITION).permutation(len(labels))
    everything = Examples((images / 16).astype(np.float32), labels.astype(np.int32)).take(order)
    shares = np.array_split(np.arange(_NUM_TRAINING), config.num_clients)
    return LearningTask(
        name="digits",
        classifier=_dense_classifier(config.hidden, seed),
        population=InMemoryPopulation(
            client_ids=[f"client-{i}" for i in range(config.num_clients)],
            data=[everything.take(share) for share in shares],
        ),
        held_out=everything.take(np.arange(_NUM_TRAINING, len(labels))),
    )
