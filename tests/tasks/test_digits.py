"""The digits task: real images, dealt to clients."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits

from fl_audit.config import DigitsTask
from fl_audit.tasks import load_task
from fl_audit.tasks.dense import dense_logits


@pytest.fixture(scope="module")
def task():
    return load_task(DigitsTask(), seed=1)


def rows(examples) -> list[tuple[bytes, int]]:
    """Images with labels as comparable values."""
    return [
        (image.tobytes(), int(label))
        for image, label in zip(examples.inputs, examples.labels, strict=True)
    ]


def test_sizes(task):
    population = task.population
    assert len(population.client_ids) == len(set(population.client_ids)) == 300
    for client in range(300):
        examples = population.examples(client)
        assert (examples.inputs.shape, examples.labels.shape) == ((5, 64), (5,))
        assert (examples.inputs.dtype, examples.labels.dtype) == (np.float32, np.int32)
    assert len(task.held_out) == 297
    assert task.max_examples_per_client is None
    assert task.classifier.dim == 167_178  # DESIGN.md


def test_every_image_is_dealt_once(task):
    dealt = [row for client in range(300) for row in rows(task.population.examples(client))]
    images, labels = load_digits(return_X_y=True)
    everything = [
        ((image / 16).astype(np.float32).tobytes(), int(label))
        for image, label in zip(images, labels, strict=True)
    ]
    assert sorted(dealt + rows(task.held_out)) == sorted(everything)


def test_pixels_are_between_0_and_1(task):
    assert task.held_out.inputs.min() == 0
    assert task.held_out.inputs.max() == 1


def test_labels_are_dealt_at_random(task):
    # scikit-learn's order repeats 0 to 9, so that 5 in a row would never hold a digit twice.
    repeats = sum(len(set(task.population.examples(c).labels)) < 5 for c in range(300))
    # Expected: 300 (1 - 10 * 9 * 8 * 7 * 6 / 1e5) = 209, standard deviation about 8.
    assert repeats > 150


@pytest.mark.parametrize("num_clients", [1, 7, 1500])
def test_any_number_of_clients(num_clients):
    population = load_task(DigitsTask(num_clients=num_clients), seed=1).population
    sizes = [len(population.examples(client)) for client in range(num_clients)]
    assert sum(sizes) == 1500
    assert max(sizes) - min(sizes) <= 1


def test_split_and_weights_are_functions_of_the_seed(task):
    again, other = load_task(DigitsTask(), seed=1), load_task(DigitsTask(), seed=2)
    np.testing.assert_array_equal(again.held_out.inputs, task.held_out.inputs)
    assert (other.held_out.inputs != task.held_out.inputs).any()
    for new, old, differs in zip(
        again.classifier.initial_weights,
        task.classifier.initial_weights,
        other.classifier.initial_weights,
        strict=True,
    ):
        np.testing.assert_array_equal(new, old)
        assert new.dtype == np.float32
        assert (differs != old).any() == (old.ndim == 2)  # biases are zeros for every seed


@pytest.mark.parametrize("hidden", [(), (5,), (7, 6, 5)])
def test_model_is_the_same_as_in_keras(task, hidden):
    classifier = load_task(DigitsTask(hidden=hidden), seed=3).classifier
    layers = [tf.keras.layers.Dense(width, "relu") for width in hidden]
    model = tf.keras.Sequential([tf.keras.Input([64]), *layers, tf.keras.layers.Dense(10)])
    rng = np.random.default_rng(1)
    weights = [rng.normal(0, 0.5, w.shape).astype(np.float32) for w in model.get_weights()]
    model.set_weights(weights)
    assert [w.shape for w in classifier.initial_weights] == [w.shape for w in weights]
    assert classifier.dim == model.count_params()
    images = task.held_out.inputs[:9]
    np.testing.assert_allclose(
        dense_logits(weights, tf.constant(images)), model(images), atol=1e-4, rtol=1e-5
    )


def test_initial_model_is_no_better_than_chance_and_of_the_right_scale(task):
    logits = task.classifier.logits(
        task.classifier.initial_weights, tf.constant(task.held_out.inputs)
    )
    loss = float(task.classifier.loss(logits, tf.constant(task.held_out.labels)))
    assert np.log(10) - 0.5 < loss < 2 * np.log(10)
