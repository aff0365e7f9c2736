"""Scoring of canaries with TensorFlow alone, where each vector is made anew, one by one.

This is the method of Andrew et al. 2023: the server knows a seed for each canary.
"""

import numpy as np
import numpy.typing as npt
import tensorflow as tf


def cosines(target: tf.Tensor, num_canaries: int) -> npt.NDArray[np.float64]:
    """The cosines of the first canaries with a vector, float64 of shape (num_canaries,).

    Args:
      target: The vector, float32 of shape (dim,).
      num_canaries: Number of canaries.
    """
    products = [_product(target, tf.constant(canary)) for canary in range(num_canaries)]
    return np.array([float(p) for p in products]) / float(tf.norm(target))


def vector(dim: int, canary: int) -> tf.Tensor:
    """The unscaled vector of a canary, of independent normal numbers."""
    return tf.random.stateless_normal([dim], tf.stack([canary, 0]))


@tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int32)])
def _product(target: tf.Tensor, canary: tf.Tensor) -> tf.Tensor:
    numbers = tf.random.stateless_normal(tf.shape(target), tf.stack([canary, 0]))
    return tf.tensordot(numbers, target, 1) / tf.norm(numbers)
