"""Networks and losses in JAX against those in TensorFlow."""

import jax
import numpy as np
import pytest
import tensorflow as tf

from fl_audit.config import StackOverflowTask
from fl_audit.tasks.client_text import Vocabulary
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.images import cnn_classifier, wide_resnet_classifier
from fl_audit.tasks.jax.jax_networks import as_jax_model
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.tf.networks import as_classifier

SIZES = StackOverflowTask(
    vocabulary_size=7, sequence_length=6, embedding_size=5, lstm_size=6, max_sequences_per_client=4
)
MODELS = {
    "dense": dense_classifier([12, 7, 5], 1, ""),
    "lstm": next_word_classifier(SIZES, Vocabulary(7, {}), 1),
    "cnn": cnn_classifier((9, 8, 2), 5, 1, ""),
    "wide resnet": wide_resnet_classifier((9, 8, 3), 4, 1, "", depth=10, widening=1),
}


def drawn(model, seed=0, examples=6):
    """Weights away from the initial ones, inputs, and labels of which some are padding."""
    rng = np.random.default_rng(seed)
    weights = [w + rng.normal(0, 0.1, w.shape).astype(np.float32) for w in model.initial_weights]
    shape, labels = (examples, *model.input_shape), (examples, *model.label_shape)
    if model.input_dtype == "int32":
        inputs = rng.integers(0, model.num_classes, shape).astype(np.int32)
    else:
        inputs = rng.random(shape, np.float32)
    classes = rng.integers(0, model.num_classes, labels).astype(np.int32)
    classes[rng.random(labels) < 0.3] = model.padding_label
    classes[0] = 1
    return weights, inputs, classes


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n == "wide resnet" else n for n in MODELS],
)
def test_loss_gradients_and_what_is_measured(name):
    model = MODELS[name]
    weights, inputs, labels = drawn(model)
    theirs = as_classifier(model)
    tensors = [tf.constant(w) for w in weights]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        logits = theirs.logits(tensors, tf.constant(inputs))
        expected = theirs.loss(logits, tf.constant(labels))
    ours = as_jax_model(model)
    (loss, tokens), gradients = jax.jit(jax.value_and_grad(ours.mean_loss, has_aux=True))(
        weights, inputs, labels
    )
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert tokens == np.sum(labels != model.padding_label)
    for found, gradient in zip(gradients, tape.gradient(expected, tensors), strict=True):
        dense = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(found, dense, atol=1e-5 * max(1, np.abs(dense).max()))
    attacked = ours.attacked_by_example(weights, inputs, labels)
    expected = theirs.attacked_loss_by_example(logits, tf.constant(labels))
    np.testing.assert_allclose(attacked, np.stack(expected), rtol=1e-4, atol=1e-5)
    correct, counted = ours.accuracy_counts(weights, inputs, labels)
    assert correct == theirs.num_correct(logits, tf.constant(labels))
    assert counted == theirs.num_counted(tf.constant(labels))


@pytest.mark.slow
def test_clients_with_weights_of_their_own():
    """The other models train in blocks in tests/engines/test_engines_agree.py."""
    model = MODELS["wide resnet"]
    ours = as_jax_model(model)
    clients = [drawn(model, seed, 2) for seed in range(3)]
    stacked = jax.tree_util.tree_map(lambda *parts: np.stack(parts), *clients)
    gradient = jax.grad(lambda *arguments: ours.mean_loss(*arguments)[0])
    together = jax.jit(jax.vmap(gradient))(*stacked)
    for client in range(3):
        for found, expected in zip(together, jax.jit(gradient)(*clients[client]), strict=True):
            np.testing.assert_allclose(found[client], expected, atol=2e-5)
