"""EMNIST's CNN against Keras, and the task over TFF's synthetic stand-in for the data."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_federated.python.simulation.datasets import download, emnist

from fl_audit.config import EmnistTask
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import LearningTask
from fl_audit.tasks.tf.networks import as_classifier, convolve, convolve_by_product


def keras_model() -> tf.keras.Model:
    """Reddi et al. 2020, appendix C, without its dropout."""
    return tf.keras.Sequential(
        [
            tf.keras.Input([28, 28, 1]),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Conv2D(64, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(128, "relu"),
            tf.keras.layers.Dense(62),
        ]
    )


def rows_of(name: str) -> list[dict[str, object]]:
    rows = emnist.get_synthetic().create_tf_dataset_for_client(name).as_numpy_iterator()
    return [{"label": int(row["label"]), "pixels": row["pixels"]} for row in rows]


@pytest.fixture(scope="module")
def path(tmp_path_factory, database) -> Path:
    clients = {name: rows_of(name) for name in emnist.get_synthetic().client_ids}
    splits = {"all_train": clients, "all_test": clients}
    return database(tmp_path_factory.mktemp("emnist") / "emnist.sqlite", splits)


@pytest.fixture(scope="module")
def task(path) -> LearningTask:
    return load_task(EmnistTask(path=str(path)), 1)


@pytest.mark.parametrize("name", ["logits", "logits_in_blocks"])
def test_logits_equal_those_of_keras(task, name):
    model = keras_model()
    rng = np.random.default_rng(1)
    weights = [rng.normal(0, 0.05, w.shape).astype(np.float32) for w in model.get_weights()]
    model.set_weights(weights)
    images = np.concatenate([task.held_out.inputs[:5], rng.random((3, 28, 28, 1), np.float32)])
    logits = getattr(as_classifier(task.classifier), name)
    np.testing.assert_allclose(logits(weights, tf.constant(images)), model(images), atol=1e-5)


def test_a_convolution_by_product_has_the_gradients_of_a_convolution():
    rng = np.random.default_rng(3)
    images = tf.constant(rng.normal(0, 1, (2, 7, 9, 3)).astype(np.float32))
    filters = tf.constant(rng.normal(0, 1, (3, 2, 3, 5)).astype(np.float32))
    weighting = rng.normal(0, 1, (2, 5, 8, 5)).astype(np.float32)
    results = []
    for convolution in (convolve, convolve_by_product):
        with tf.GradientTape() as tape:
            tape.watch([images, filters])
            total = tf.reduce_sum(convolution(images, filters) * weighting)
        results.append([total, *tape.gradient(total, [images, filters])])
    for of_convolution, of_product in zip(*results, strict=True):
        np.testing.assert_allclose(of_product, of_convolution, rtol=1e-5, atol=1e-4)


def test_clients_hold_tffs_images(task):
    synthetic = emnist.get_synthetic()
    assert list(task.population.client_ids) == synthetic.client_ids
    examples = task.population.examples(1)
    rows = rows_of(synthetic.client_ids[1])
    assert examples.inputs.shape == (10, 28, 28, 1)
    assert (examples.inputs.dtype, examples.labels.dtype) == (np.float32, np.int32)
    for image, label, row in zip(examples.inputs, examples.labels, rows, strict=True):
        np.testing.assert_array_equal(image[..., 0], row["pixels"])
        assert label == row["label"]


def test_held_out_are_the_test_images_of_the_first_100_writers(tmp_path, database):
    def writers(count: int, label: int) -> dict[str, list[dict[str, object]]]:
        image = {"label": label, "pixels": np.zeros((28, 28), np.float32)}
        return {f"f{n:04}": [image, image] for n in range(count)}

    test = writers(101, 2) | {"f0100": [{"label": 3, "pixels": np.zeros((28, 28), np.float32)}]}
    splits = {"all_train": writers(3, 1), "all_test": test, "digits_only_train": writers(5, 4)}
    path = database(tmp_path / "emnist.sqlite", splits)
    task = load_task(EmnistTask(path=str(path)), 1)
    assert task.held_out.labels.tolist() == [2] * 200
    assert len(task.population.client_ids) == 3
    assert set(task.population.examples(0).labels) == {1}


@pytest.mark.parametrize(("max_clients", "expected"), [(0, 2), (1, 1), (9, 2)])
def test_max_clients(path, max_clients, expected):
    task = load_task(EmnistTask(path=str(path), max_clients=max_clients), 1)
    assert list(task.population.client_ids) == ["synthetic1", "synthetic2"][:expected]
    assert len(task.held_out) == 20
    assert " 2 test writers" in task.classifier.accuracy_description


def test_data_that_cannot_be_downloaded_is_one_line(monkeypatch):
    def fail(_):
        raise OSError("no network")

    monkeypatch.setattr(download, "get_compressed_file", fail)
    with pytest.raises(InputError, match=r"^task\.kind 'emnist': .*: no network; .* `task\.path`"):
        load_task(EmnistTask(), 0)
