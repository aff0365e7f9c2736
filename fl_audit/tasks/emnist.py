"""EMNIST by writer with the CNN of Reddi et al. 2020 (appendix C); TFF downloads the data."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import EmnistTask
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier, Examples, FloatArray, LearningTask
from fl_audit.tasks.client_data import ClientDataPopulation, elements
from fl_audit.tasks.initializers import glorot_uniform, zeros

_CLASSES = 62
_HELD_OUT_CLIENTS = 100


def cnn_logits(weights: Sequence[tf.Tensor], images: tf.Tensor) -> tf.Tensor:
    """Two 3 x 3 convolutions, max-pooling, two dense layers.

    Reddi et al. add dropout. It is left out here, so that a client's update is a function of
    its data and its order alone.
    """
    first, first_bias, second, second_bias, wide, wide_bias, output, output_bias = weights
    hidden = tf.nn.relu(tf.nn.conv2d(images, first, 1, "VALID") + first_bias)
    hidden = tf.nn.relu(tf.nn.conv2d(hidden, second, 1, "VALID") + second_bias)
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.reshape(hidden, [-1, wide.shape[0]])
    return tf.nn.relu(hidden @ wide + wide_bias) @ output + output_bias


def _initial_weights(seed: int) -> tuple[FloatArray, ...]:
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
    """The CNN, 1,206,590 parameters."""
    return Classifier(
        initial_weights=_initial_weights(seed),
        logits=cnn_logits,
        input_spec=tf.TensorSpec([None, 28, 28, 1], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=None,
        uncounted_labels=(),
        accuracy_description=f"share of images of {_HELD_OUT_CLIENTS} test writers right",
    )


def load_emnist_task(config: EmnistTask, seed: int) -> LearningTask:
    """3,400 writers; held out: the test images of the first 100 of them.

    Args:
      config: how many clients to use.
      seed: of the run; decides the initial weights.
    """
    training, test = tff.simulation.datasets.emnist.load_data(only_digits=False)
    return emnist_task(config, seed, training, test)


def emnist_task(
    config: EmnistTask,
    seed: int,
    training: tff.simulation.datasets.ClientData,
    test: tff.simulation.datasets.ClientData,
) -> LearningTask:
    """The task over data that is at hand, elements of which have `pixels` and a `label`.

    Args:
      config: how many clients to use.
      seed: of the run; decides the initial weights.
      training: the real clients.
      test: whose images are held out.
    """
    rows = [row for name in test.client_ids[:_HELD_OUT_CLIENTS] for row in elements(test, name)]
    return LearningTask(
        name="EMNIST",
        classifier=cnn_classifier(seed),
        population=ClientDataPopulation(training, _to_examples, config.max_clients),
        held_out=_to_examples(rows),
    )


def _to_examples(rows: list[dict[str, object]]) -> Examples:
    pixels = np.stack([np.asarray(row["pixels"], np.float32) for row in rows])
    labels = np.array([row["label"] for row in rows], np.int32)
    return Examples(pixels[..., None], labels)
