"""The Wide ResNet: its size, its shapes, its normalisations, and blocks of clients or examples."""

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.tasks.client_files import load_npz_task
from fl_audit.tasks.images import wide_resnet_classifier
from fl_audit.tasks.task_kinds import NpzTask
from fl_audit.tasks.tf.networks import as_classifier, convolve_same, convolve_same_by_product


def tiny(shape=(8, 8, 3)):
    return as_classifier(wide_resnet_classifier(shape, 4, 2, "", depth=10, widening=1))


def weights_of(classifier, rng):
    """Weights away from the initial ones, at which scales are 1 and offsets 0."""
    return [
        tf.constant(w + rng.normal(0, 0.1, w.shape).astype(np.float32))
        for w in classifier.initial_weights
    ]


def test_wrn_16_4_has_as_many_parameters_as_counted_by_hand():
    """Stem; then per group: the first block with its projection, the second; norms; dense."""
    classifier = wide_resnet_classifier((32, 32, 3), 10, 0, "")
    filters = 27 * 16
    filters += 9 * (16 * 64 + 3 * 64 * 64) + 16 * 64
    filters += 9 * (64 * 128 + 3 * 128 * 128) + 64 * 128
    filters += 9 * (128 * 256 + 3 * 256 * 256) + 128 * 256
    norms = 2 * ((16 + 3 * 64) + (64 + 3 * 128) + (128 + 3 * 256) + 256)
    assert classifier.dim == filters + norms + 256 * 10 + 10 == 2_748_890


def test_filters_are_standardised():
    """A stem's filters shifted and scaled give the same logits."""
    rng = np.random.default_rng(1)
    classifier = tiny()
    weights, images = weights_of(classifier, rng), rng.random((2, 8, 8, 3), np.float32)
    moved = [3.0 * weights[0] + 0.7, *weights[1:]]
    expected = classifier.logits(weights, images)
    np.testing.assert_allclose(classifier.logits(moved, images), expected, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("side", "extent"), [(8, 3), (7, 3), (8, 1)])
def test_convolutions_agree(stride, side, extent):
    rng = np.random.default_rng(2)
    images = tf.constant(rng.normal(size=(3, side, side + 1, 4)), tf.float32)
    filters = tf.constant(rng.normal(size=(extent, extent, 4, 5)), tf.float32)
    expected = convolve_same(images, filters, stride)
    found = convolve_same_by_product(images, filters, stride)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.slow
def test_gradients_of_examples_in_a_block_are_those_one_by_one():
    """As DP-SGD and blocks of clients take them: separate weights, an example each."""
    rng = np.random.default_rng(3)
    classifier = tiny()
    weights = weights_of(classifier, rng)
    images = tf.constant(rng.random((3, 8, 8, 3), np.float32))
    labels = tf.constant([0, 3, 1])

    def gradient(logits, loss, of, image, label):
        with tf.GradientTape() as tape:
            tape.watch(of)
            value = loss(logits(of, image[None]), label[None])
        return tape.gradient(value, of)

    @tf.function
    def in_block(stacked):
        return tf.vectorized_map(
            lambda one: gradient(classifier.logits_in_blocks, classifier.loss_in_blocks, *one),
            (stacked, images, labels),
            False,
        )

    block = in_block([tf.stack([w] * 3) for w in weights])
    for example in range(3):
        alone = gradient(
            classifier.logits, classifier.loss, weights, images[example], labels[example]
        )
        for found, expected in zip(block, alone, strict=True):
            np.testing.assert_allclose(found[example], expected, atol=2e-5)


def test_npz_images_take_models_of_images(tmp_path):
    rng = np.random.default_rng(4)
    for client in ("anna", "ben"):
        np.savez(
            tmp_path / f"{client}.npz",
            inputs=rng.random((10, 8, 8)),
            labels=rng.integers(0, 3, 10),
        )
    for model in ("cnn", "wrn_16_4"):
        task = load_npz_task(NpzTask(path=str(tmp_path), model=model), 1)
        assert task.held_out.inputs.shape == (2, 8, 8, 1)
        classifier = as_classifier(task.classifier)
        logits = classifier.logits(classifier.initial_weights, task.held_out.inputs)
        assert logits.shape == (2, 3)
    flat = load_npz_task(NpzTask(path=str(tmp_path), hidden=(4,)), 1)
    assert flat.held_out.inputs.shape == (2, 64)
    with pytest.raises(ValueError, match="hidden is only for model 'dense'"):
        NpzTask(path=str(tmp_path), hidden=(4,), model="cnn")
    np.savez(tmp_path / "anna.npz", inputs=rng.random((10, 64)), labels=np.zeros(10))
    (tmp_path / "ben.npz").unlink()
    with pytest.raises(InputError, match=r"inputs have shape \(64,\)"):
        load_npz_task(NpzTask(path=str(tmp_path), model="cnn"), 1)
