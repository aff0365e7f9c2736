"""The loss that attacks look at: minus the log-odds of a label.

Cross-entropy is -log(p), which float32 rounds to 0 from p = 1 - 6e-8 on, where most examples of a
well trained model lie. Minus the log-odds, -log(p / (1 - p)), orders examples alike, loses none of
them, and is about normally distributed: Negoescu et al. (2024), footnote 1, for two classes;
Carlini et al. (2022), section IV-C, for many.
"""

import tensorflow as tf


def log_odds_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Minus the log-odds of the labels: the log-sum-exp of all other logits less the label's.

    Args:
      logits: The logits, float of shape (..., classes); the number of classes is static.
      labels: The classes, int32 of shape (...).

    Returns:
      The losses in nats, float of shape (...); 0 where there is one class alone.
    """
    if logits.shape[-1] == 1:
        return tf.zeros_like(logits[..., 0])
    is_label = tf.one_hot(labels, logits.shape[-1], on_value=True, off_value=False, dtype=tf.bool)
    others = tf.where(is_label, -float("inf"), logits)
    largest = tf.reduce_max(others, axis=-1)
    log_sum = tf.math.log(tf.reduce_sum(tf.exp(others - largest[..., None]), axis=-1))
    # In this order: large logits have few digits after the point, their difference has more.
    return (largest - tf.gather(logits, labels, axis=-1, batch_dims=len(labels.shape))) + log_sum
