"""The CNN of Reddi et al. 2020 (appendix C) for images of any size."""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import NO_CLASS, Classifier
from fl_audit.tasks.initializers import glorot_uniform, zeros

Convolution = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def convolve(images: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """A convolution without padding of (batch, height, width, channels), by TensorFlow."""
    return tf.nn.conv2d(images, filters, 1, "VALID")


def convolve_by_product(images: tf.Tensor, filters: tf.Tensor, stride: int = 1) -> tf.Tensor:
    """The convolution as one product of matrices, which may have other filters for each client.

    On two cores it takes 3.5 times as long as `convolve` (a step on 20 images).

    Args:
      images: The images, of shape (batch, height, width, channels).
      filters: The filters, of shape (rows, columns, channels, width).
      stride: The distance from one place of a filter to the next.
    """
    rows, columns, _, width = filters.shape
    last_row, last_column = images.shape[1] - rows, images.shape[2] - columns
    patches = [
        images[:, row : row + last_row + 1 : stride, column : column + last_column + 1 : stride]
        for row in range(rows)
        for column in range(columns)
    ]
    return tf.tensordot(tf.concat(patches, -1), tf.reshape(filters, [-1, width]), 1)


def cnn_logits(
    weights: Sequence[tf.Tensor], images: tf.Tensor, convolution: Convolution = convolve
) -> tf.Tensor:
    """The logits of two 3 x 3 convolutions, max-pooling and two dense layers.

    Reddi et al. add dropout. It is left out here, so that a client's update is a function of
    its data and its order alone.
    """
    first, first_bias, second, second_bias, wide, wide_bias, output, output_bias = weights
    hidden = tf.nn.relu(convolution(images, first) + first_bias)
    hidden = tf.nn.relu(convolution(hidden, second) + second_bias)
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.reshape(hidden, [-1, wide.shape[0]])
    return tf.nn.relu(hidden @ wide + wide_bias) @ output + output_bias


def cnn_classifier(
    shape: tuple[int, int, int], num_classes: int, seed: int, accuracy_description: str
) -> Classifier:
    """The CNN with weights drawn by the seed; 1,206,590 parameters for EMNIST.

    Args:
      shape: The height, the width and the channels of an image.
      num_classes: The number of classes.
      seed: The seed of the run.
      accuracy_description: The meaning of accuracy, in words.
    """
    return Classifier(
        initial_weights=_initial_weights(shape, num_classes, seed),
        logits=cnn_logits,
        input_spec=tf.TensorSpec([None, *shape], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        logits_in_blocks=functools.partial(cnn_logits, convolution=convolve_by_product),
        accuracy_description=accuracy_description,
    )


def _initial_weights(
    shape: tuple[int, int, int], num_classes: int, seed: int
) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    height, width, channels = shape
    flat = ((height - 4) // 2) * ((width - 4) // 2) * 64  # of 28 x 28 pixels 9,216 are left
    return (
        glorot_uniform(random, (3, 3, channels, 32), 9 * channels, 9 * 32),
        zeros(32),
        glorot_uniform(random, (3, 3, 32, 64), 9 * 32, 9 * 64),
        zeros(64),
        glorot_uniform(random, (flat, 128), flat, 128),
        zeros(128),
        glorot_uniform(random, (128, num_classes), 128, num_classes),
        zeros(num_classes),
    )
