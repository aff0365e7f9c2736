"""Loss and accuracy: which positions count; the losses against float64 arithmetic."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.estimators.epsilon_star import log_odds_losses
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.learning_task import NO_CLASS
from fl_audit.tasks.own_task import OwnTask, learning_task
from fl_audit.tasks.tf.classifier import (
    Classifier,
    cross_entropy,
    cross_entropy_in_blocks,
    log_odds_loss,
)
from fl_audit.tasks.tf.networks import as_classifier

NUM_CLASSES = 6
PADDING, UNKNOWN, END = 0, 4, 5


def classifier(padding: int, uncounted: tuple[int, ...]) -> Classifier:
    return Classifier(
        initial_weights=(np.zeros((2, 3), np.float32), np.zeros(4, np.float32)),
        logits=lambda weights, inputs: inputs,
        input_spec=tf.TensorSpec([None, 7], tf.int32),
        label_spec=tf.TensorSpec([None, 7], tf.int32),
        padding_label=padding,
        uncounted_labels=uncounted,
        accuracy_description="",
    )


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return (
        rng.normal(0, 2, (5, 7, NUM_CLASSES)).astype(np.float32),
        rng.integers(0, NUM_CLASSES, (5, 7)).astype(np.int32),
    )


CASES = pytest.mark.parametrize(
    ("padding", "uncounted"),
    [(NO_CLASS, ()), (PADDING, ()), (PADDING, (UNKNOWN, END)), (NO_CLASS, (UNKNOWN,))],
)


@CASES
def test_loss_is_the_mean_over_tokens(batch, padding, uncounted):
    logits, labels = batch
    total = count = 0.0
    for position in np.ndindex(labels.shape):
        if labels[position] != padding:
            z = logits[position].astype(np.float64)
            total += np.log(np.exp(z).sum()) - z[labels[position]]
            count += 1
    model = classifier(padding, uncounted)
    for loss in (model.loss, model.loss_in_blocks):
        assert float(loss(logits, labels)) == pytest.approx(total / count, rel=1e-5)
    assert float(model.num_tokens(labels)) == count


@CASES
def test_accuracy_counts_neither_padding_nor_uncounted_labels(batch, padding, uncounted):
    logits, labels = batch
    correct = counted = 0
    for position in np.ndindex(labels.shape):
        if labels[position] not in (padding, *uncounted):
            counted += 1
            correct += int(logits[position].argmax() == labels[position])
    model = classifier(padding, uncounted)
    assert float(model.num_counted(labels)) == counted
    assert float(model.num_correct(logits, labels)) == correct > 0


@pytest.mark.parametrize("labels", [np.zeros((0, 7), np.int32), np.zeros((3, 7), np.int32)])
def test_nothing_but_padding_has_loss_zero(labels):
    model = classifier(PADDING, (UNKNOWN, END))
    logits = np.ones((*labels.shape, NUM_CLASSES), np.float32)
    assert float(model.loss(logits, labels)) == 0
    assert float(model.num_tokens(labels)) == 0
    assert float(model.num_correct(logits, labels)) == 0


# The cross-entropy's value and gradient, against float64 NumPy and TensorFlow's own.


def losses_and_gradient(logits, labels, d_losses, kernel=cross_entropy):
    logits = tf.constant(logits, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = kernel(logits, tf.constant(labels, tf.int32))
        total = tf.reduce_sum(losses * tf.constant(d_losses, tf.float32))
    return losses.numpy(), tape.gradient(total, logits).numpy()


def built_in(logits, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def expected_losses(logits, labels):
    """Log-sum-exp minus the label's logit, float64."""
    logits = logits.astype(np.float64)
    largest = logits.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(logits - largest).sum(axis=-1)) + largest[..., 0]
    return log_sum - np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]


def problem(seed, shape, num_classes):
    random = np.random.default_rng(seed)
    logits = random.normal(0, 3, (*shape, num_classes)).astype(np.float32)
    labels = random.integers(0, num_classes, shape).astype(np.int32)
    return logits, labels, random.normal(size=shape).astype(np.float32)


BOTH = pytest.mark.parametrize("kernel", [cross_entropy, cross_entropy_in_blocks])


@BOTH
@pytest.mark.parametrize("num_classes", [1, 2, 10, 10_004])
@pytest.mark.parametrize("shape", [(13,), (3, 5), (2, 1, 3)])
def test_equals_numpy_and_the_built_in(shape, num_classes, kernel):
    logits, labels, d_losses = problem(1, shape, num_classes)
    losses, gradient = losses_and_gradient(logits, labels, d_losses, kernel)
    np.testing.assert_allclose(losses, expected_losses(logits, labels), rtol=1e-6, atol=1e-6)
    _, automatic = losses_and_gradient(logits, labels, d_losses, built_in)
    np.testing.assert_allclose(gradient, automatic, atol=1e-6)


EXTREME = {
    "all equal": [3.0, 3.0, 3.0, 3.0],
    "large": [1e4, 1e4 - 1, 1e4 - 2, 0.0],
    "large and negative": [-1e4, -1e4 - 1, -1e4 - 2, -2e4],
    "far apart": [200.0, 0.0, -200.0, 99.0],
    "beyond exp": [1e30, 0.0, -1e30, 1.0],
    "impossible class": [1.0, 2.0, -np.inf, 0.5],
}


@BOTH
@pytest.mark.parametrize("label", range(4))
@pytest.mark.parametrize("name", EXTREME)
def test_extreme_logits(name, label, kernel):
    logits, labels = np.array([EXTREME[name]], np.float32), np.array([label])
    losses, gradient = losses_and_gradient(logits, labels, [1.0], kernel)
    np.testing.assert_allclose(losses, expected_losses(logits, labels), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        gradient, losses_and_gradient(logits, labels, [1.0], built_in)[1], atol=1e-6
    )


# The loss that attacks look at, against float64 and exact arithmetic.


def exact(logits, label):
    """log(1 - p) - log(p) of the softmax, to 60 digits."""
    with localcontext() as context:
        context.prec = 400
        terms = [Decimal(float(z)).exp() for z in logits]
        p = terms[label] / sum(terms)
        return float((1 - p).ln() - p.ln())


def drawn(shape, scale, seed=1):
    random = np.random.default_rng(seed)
    logits = (scale * random.standard_normal(shape)).astype(np.float32)
    return logits, random.integers(shape[-1], size=shape[:-1]).astype(np.int32)


@pytest.mark.parametrize("scale", [0.1, 3, 60])
@pytest.mark.parametrize("classes", [2, 10])
def test_both_are_the_log_odds(scale, classes):
    logits, labels = drawn((20, classes), scale)
    expected = [exact(row, label) for row, label in zip(logits, labels, strict=True)]
    np.testing.assert_allclose(log_odds_losses(logits, labels), expected, rtol=1e-12, atol=1e-13)
    by_tensorflow = log_odds_loss(tf.constant(logits), tf.constant(labels)).numpy()
    np.testing.assert_allclose(by_tensorflow, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0], "the labels' shape"), ([0, 2], "from 0 to 1"), ([0.0, 1.0], "whole numbers")],
)
def test_bad_labels(labels, message):
    with pytest.raises(InputError, match=message):
        log_odds_losses([[0.0, 1.0], [math.pi, 0.0]], labels)


def test_a_labels_loss_keeps_the_digits_of_a_probability_near_1():
    classifier = as_classifier(dense_classifier([2, 2], 0, ""))
    logits, labels = tf.constant([[40.0, 0.0], [0.0, 3.0], [1.0, 2.0]]), tf.constant([0, 1, -1])
    losses, counts = classifier.label_loss_by_example(logits, labels)
    np.testing.assert_allclose(losses, [math.exp(-40), math.log1p(math.exp(-3)), 0], rtol=1e-6)
    assert counts.numpy().tolist() == [1, 1, 0]


@pytest.mark.parametrize("has_log_odds", [True, False])
def test_a_task_of_ones_own_gives_its_loss_or_its_labels_probability(has_log_odds):
    inputs, labels = np.array([[1.0], [3.0]], np.float32), np.array([0, 1])
    task = OwnTask(
        initial_weights=[np.ones((1, 1))],
        predict=lambda weights, inputs: inputs @ weights[0],
        loss=lambda outputs, labels: outputs[:, 0] - 5.0,
        correct=lambda outputs, labels: outputs[:, 0] > 0,
        client_ids=["a"],
        client_data=lambda _: (inputs, labels),
        held_out=(inputs, labels),
        log_odds=(lambda outputs, labels: outputs[:, 0]) if has_log_odds else None,
    )
    classifier = learning_task(task, "here").classifier
    assert classifier.has_log_odds == has_log_odds
    losses, counts = classifier.label_loss_by_example(tf.constant(inputs), tf.constant([0, 1]))
    expected = np.log1p(np.exp([-1.0, -3.0])) if has_log_odds else [-4.0, -2.0]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    assert counts.numpy().tolist() == [1, 1]
