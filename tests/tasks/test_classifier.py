"""Loss and accuracy: which positions count."""

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.tasks.classifier import Classifier
from fl_audit.tasks.learning_task import NO_CLASS, Examples, InMemoryPopulation

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


def test_padding_has_no_gradient(batch):
    logits, labels = batch
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        loss = classifier(PADDING, (UNKNOWN, END)).loss(variable, tf.constant(labels))
    moved = np.abs(tape.gradient(loss, variable).numpy()).sum(axis=-1) > 0
    np.testing.assert_array_equal(moved, labels != PADDING)


@pytest.mark.parametrize("labels", [np.zeros((0, 7), np.int32), np.zeros((3, 7), np.int32)])
def test_nothing_but_padding_has_loss_zero(labels):
    model = classifier(PADDING, (UNKNOWN, END))
    logits = np.ones((*labels.shape, NUM_CLASSES), np.float32)
    assert float(model.loss(logits, labels)) == 0
    assert float(model.num_tokens(labels)) == 0
    assert float(model.num_correct(logits, labels)) == 0


def test_one_label_per_example(batch):
    logits, labels = batch
    model = classifier(NO_CLASS, ())
    flat = float(model.loss(logits.reshape(35, NUM_CLASSES), labels.reshape(35)))
    assert flat == pytest.approx(float(model.loss(logits, labels)), rel=1e-6)


def test_examples_that_fill_a_block_do_not_count(batch):
    logits, labels = batch
    model = classifier(NO_CLASS, (UNKNOWN,))
    filled = np.concatenate([labels, np.full((2, 7), NO_CLASS, np.int32)])
    more = np.concatenate([logits, np.ones((2, 7, NUM_CLASSES), np.float32)])
    assert float(model.loss(more, filled)) == pytest.approx(float(model.loss(logits, labels)))
    assert float(model.num_counted(filled)) == float(model.num_counted(labels))
    assert float(model.num_correct(more, filled)) == float(model.num_correct(logits, labels))


def test_dim_counts_all_weights():
    assert classifier(NO_CLASS, ()).dim == 10


def test_examples_are_taken_in_order():
    examples = Examples(np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4, dtype=np.int32))
    taken = examples.take(np.array([3, 1, 1]))
    assert len(taken) == 3
    assert taken.labels.tolist() == [3, 1, 1]
    assert taken.inputs[:, 0].tolist() == [6, 2, 2]


def numbered(first: int, count: int) -> Examples:
    labels = np.arange(first, first + count, dtype=np.int32)
    return Examples(np.stack([labels, labels], axis=1).astype(np.float32), labels)


def test_examples_are_joined_in_order():
    joined = Examples.concatenate([numbered(5, 2), numbered(0, 1), numbered(9, 0)])
    assert joined.labels.tolist() == [5, 6, 0]
    assert joined.inputs.tolist() == [[5, 5], [6, 6], [0, 0]]
    assert (joined.inputs.dtype, joined.labels.dtype) == (np.float32, np.int32)


def test_population_in_memory():
    population = InMemoryPopulation(["a", "b"], [numbered(0, 2), numbered(7, 3)])
    assert [population.num_examples(c) for c in (0, 1)] == [2, 3]
    assert population.take(1, np.array([2, 0])).labels.tolist() == [9, 7]
    assert population.examples(1).inputs[:, 0].tolist() == [7, 8, 9]
