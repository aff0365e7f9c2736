"""EMNIST by writer with the CNN of Reddi et al. 2020 (appendix C) on TFF's data."""

import numpy as np
import tensorflow as tf

from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.convolutional import cnn_classifier
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
        classifier=cnn_classifier(
            (28, 28, 1),
            _CLASSES,
            seed,
            f"share of images of {_HELD_OUT_CLIENTS} test writers right",
        ),
        population=SqliteClients(path, "all_train", _FEATURES, _to_examples, config.max_clients),
        held_out=Examples.concatenate([test.examples(c) for c in range(len(test.client_ids))]),
    )


def _to_examples(features: Features) -> Examples:
    return Examples(features["pixels"], features["label"].astype(np.int32))
