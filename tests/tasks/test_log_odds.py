"""The loss that attacks look at, against float64 and exact arithmetic."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.estimators.epsilon_star import log_odds_losses
from fl_audit.tasks.classifier import log_odds_loss
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.own_task import OwnTask, learning_task


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


def test_several_positions_of_an_example():
    logits, labels = drawn((3, 4, 5), 2.0)
    expected = log_odds_losses(logits, labels)
    assert expected.shape == (3, 4)
    got = tf.function(log_odds_loss)(tf.constant(logits), tf.constant(labels)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_what_cross_entropy_rounds_to_zero_is_kept():
    logits = tf.constant([[20.0, 0.0], [40.0, 0.0], [-200.0, 0.0]])
    assert log_odds_loss(logits, tf.zeros(3, tf.int32)).numpy().tolist() == [-20.0, -40.0, 200.0]


def test_cross_entropy_orders_examples_alike():
    """With q = log-odds loss, the cross-entropy is log(1 + exp(q))."""
    logits, labels = drawn((50, 7), 2.0)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits).numpy()
    np.testing.assert_allclose(
        np.logaddexp(0, log_odds_losses(logits, labels)), cross_entropy, rtol=1e-4, atol=1e-6
    )


def test_one_class_tells_nothing():
    got = log_odds_loss(tf.constant([[3.0], [4.0]]), tf.constant([0, 0]))
    assert got.numpy().tolist() == [0.0, 0.0]
    with pytest.raises(InputError, match="at least two classes"):
        log_odds_losses([[3.0]], [0])


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0], "the labels' shape"), ([0, 2], "from 0 to 1"), ([0.0, 1.0], "whole numbers")],
)
def test_bad_labels(labels, message):
    with pytest.raises(InputError, match=message):
        log_odds_losses([[0.0, 1.0], [math.pi, 0.0]], labels)


def test_a_labels_loss_keeps_the_digits_of_a_probability_near_1():
    classifier = dense_classifier([2, 2], 0, "")
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
