"""Softmax cross-entropy whose gradient is written in place of the probabilities.

TensorFlow's own kernel computes it on the CPU in several passes over (rows, classes), none of them
vectorised by oneDNN: with 320 rows of 10,004 classes this is the slowest part of a training step
beside the products of matrices. Here the one expensive pass is oneDNN's softmax.
"""

from collections.abc import Callable

import tensorflow as tf


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """What `tf.nn.sparse_softmax_cross_entropy_with_logits` computes; no gradient to labels.

    Args:
      logits: float (..., classes); the number of classes is static.
      labels: int32 (...); classes.

    Returns:
      float (...), in nats.
    """
    rows = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(_of_rows(rows, tf.reshape(labels, [-1])), tf.shape(labels))


@tf.custom_gradient
def _of_rows(
    logits: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
    """Of logits (rows, classes) and labels (rows,): (rows,)."""
    probabilities = tf.nn.softmax(logits)
    at_labels = tf.stack([tf.range(tf.size(labels)), labels], axis=1)
    # The largest probability is 1 / sum(exp(logits - largest)): at least 1 / classes, so its
    # logarithm is finite where that of the label's own probability may not be.
    log_sum = -tf.math.log(tf.reduce_max(probabilities, axis=1))
    # In this order: large logits have few digits after the point, their difference has more.
    losses = (tf.reduce_max(logits, axis=1) - tf.gather_nd(logits, at_labels)) + log_sum

    def gradient(d_losses: tf.Tensor) -> tuple[tf.Tensor, None]:
        d_logits = probabilities * d_losses[:, None]
        d_at_labels = (tf.gather_nd(probabilities, at_labels) - 1.0) * d_losses
        return tf.tensor_scatter_nd_update(d_logits, at_labels, d_at_labels), None

    return losses, gradient
