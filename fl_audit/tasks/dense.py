"""A classifier of dense layers; without hidden ones it is linear."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import NO_CLASS, Classifier
from fl_audit.tasks.initializers import check_model_size, he_normal, zeros


def dense_logits(weights: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """Dense layers with ReLU between them; weights are matrix, bias, matrix, bias, ..."""
    hidden = inputs
    for matrix, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = tf.nn.relu(hidden @ matrix + bias)
    return hidden @ weights[-2] + weights[-1]


def dense_classifier(widths: Sequence[int], seed: int, accuracy_description: str) -> Classifier:
    """The classifier with weights drawn by the seed.

    Args:
      widths: The number of features, the widths of hidden layers, and the number of classes.
      seed: The seed of the run.
      accuracy_description: The meaning of accuracy, in words.

    Raises:
      InputError: The model is too large for the memory.
    """
    check_model_size((rows + 1, columns) for rows, columns in itertools.pairwise(widths))
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    weights = [
        array
        for rows, columns in itertools.pairwise(widths)
        for array in (he_normal(random, rows, columns), zeros(columns))
    ]
    return Classifier(
        initial_weights=tuple(weights),
        logits=dense_logits,
        input_spec=tf.TensorSpec([None, widths[0]], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        accuracy_description=accuracy_description,
    )
