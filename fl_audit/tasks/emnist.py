"""EMNIST by writer with the CNN of Reddi et al. 2020 (appendix C) on TFF's data."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import NO_CLASS, Classifier, Examples, LearningTask
from fl_audit.tasks.initializers import glorot_uniform, zeros
from fl_audit.tasks.sqlite_clients import Features, SqliteClients
from fl_audit.tasks.tables import EmnistTask
from fl_audit.tasks.tff_files import tff_database

_CLASSES = 62
_HELD_OUT_CLIENTS = 100
_FEATURES = {
    # The last axis is the image's one channel.
    "pixels": tf.io.FixedLenFeature([28, 28, 1], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


Convolution = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def convolve(images: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """A convolution without padding of (batch, height, width, channels), by TensorFlow."""
    return tf.nn.conv2d(images, filters, 1, "VALID")


def convolve_by_product(images: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """The convolution as one product of matrices, which may have other filters for each client.

    On two cores it takes 3.5 times as long as `convolve` (a step on 20 images).
    """
    rows, columns, _, width = filters.shape
    height_left, width_left = images.shape[1] - rows + 1, images.shape[2] - columns + 1
    patches = [
        images[:, row : row + height_left, column : column + width_left]
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


def _initial_weights(seed: int) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    return (
        glorot_uniform(random, (3, 3, 1, 32), 9, 9 * 32),
        zeros(32),
        glorot_uniform(random, (3, 3, 32, 64), 9 * 32, 9 * 64),
        zeros(64),
        glorot_uniform(random, (9216, 128), 9216, 128),
        zeros(128),
        glorot_uniform(random, (128, _CLASSES), 128, _CLASSES),
        zeros(_CLASSES),
    )


def cnn_classifier(seed: int) -> Classifier:
    """The CNN, with 1,206,590 parameters."""
    return Classifier(
        initial_weights=_initial_weights(seed),
        logits=cnn_logits,
        input_spec=tf.TensorSpec([None, 28, 28, 1], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        logits_in_blocks=functools.partial(cnn_logits, convolution=convolve_by_product),
        accuracy_description=f"share of images of {_HELD_OUT_CLIENTS} test writers right",
    )


def load_emnist_task(config: EmnistTask, seed: int) -> LearningTask:
    """The task of 3,400 writers; the test images of the first 100 of them are held out.

    Args:
      config: The path of the file and the number of clients to use.
      seed: The seed of the run; it decides the initial weights.

    Raises:
      InputError: The file cannot be downloaded or used.
    """
    path = tff_database(config.path, "emnist", "emnist_all.sqlite")
    test = SqliteClients(path, "all_test", _FEATURES, _to_examples, _HELD_OUT_CLIENTS)
    return LearningTask(
        name="EMNIST",
        classifier=cnn_classifier(seed),
        population=SqliteClients(path, "all_train", _FEATURES, _to_examples, config.max_clients),
        held_out=Examples.concatenate([test.examples(c) for c in range(len(test.client_ids))]),
    )


def _to_examples(features: Features) -> Examples:
    return Examples(features["pixels"], features["label"].astype(np.int32))
