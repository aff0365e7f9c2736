"""Small runs that the tests of the runtimes share."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.config import DigitsTask, FedAvg, Shuffle, TextTask
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.engines.tff.native_worker import native_runtime
from fl_audit.tasks.tf.networks import as_classifier
from tests.engines.jax.conftest import ragged_sentences, small_config


def _small_run(task: DigitsTask | TextTask, learning_rate: float) -> PreparedRun:
    """Three rounds without noise, a few canaries in each, and a clip that moves."""
    participation = Shuffle(rounds=3, clients_per_round=7)
    client = FedAvg(learning_rate=learning_rate, batch_size=4)
    return prepare(small_config(task=task, participation=participation, client=client))


@pytest.fixture(scope="session")
def dense_run() -> PreparedRun:
    """Clients with 7 or 8 digits: two batches, of some the last one partial."""
    return _small_run(DigitsTask(num_clients=201, hidden=(16,)), learning_rate=0.1)


@pytest.fixture(scope="session")
def convolution_run(dense_run: PreparedRun) -> PreparedRun:
    """A model of which TensorFlow cannot train several with weights of their own at once."""

    def logits(weights: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
        images = tf.reshape(inputs, [-1, 8, 8, 1])
        return tf.nn.conv2d(images, weights[0], 1, "VALID")[:, 0, 0, :]

    random = np.random.default_rng(0)
    classifier = dataclasses.replace(
        as_classifier(dense_run.task.classifier),
        initial_weights=(random.standard_normal((8, 8, 1, 10)).astype(np.float32),),
        logits=logits,
    )
    family = dataclasses.replace(dense_run.family, dim=classifier.dim)
    task = dataclasses.replace(dense_run.task, classifier=classifier)
    return dataclasses.replace(dense_run, task=task, family=family)


@pytest.fixture(scope="session")
def next_word_run(tmp_path_factory: pytest.TempPathFactory) -> PreparedRun:
    """Clients with 1 to 13 sentences: one to four batches, many of them partial."""
    sentences = [1, 13, 4, 9, 2, 6, 5, 11, 3, 8, 1, 7]
    task = ragged_sentences(tmp_path_factory.mktemp("text"), sentences)
    return _small_run(task, learning_rate=0.5)


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], object]:
    """Starts TFF's own runtime, on two clients at a time, for a `with` block."""
    return lambda: native_runtime(tmp_path_factory.mktemp("worker") / "worker.log", 2)
