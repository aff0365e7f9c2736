"""The next-word model and its LSTM."""

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.config import StackOverflowTask
from fl_audit.tasks.client_text import Vocabulary
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.tf.networks import as_classifier, lstm_outputs, next_word_logits

# The LSTM layer in blocks; the whole model below has the gradients of Keras.


WIDTH, UNITS, STEPS, BATCH = 3, 4, 3, 9
NAMES = ("inputs", "kernel", "recurrent", "bias")


def problem(seed, batch=BATCH, leading=()):
    """Inputs, weights and the gradient at the outputs, float64."""
    random = np.random.default_rng(seed)
    shapes = {
        "inputs": (batch, STEPS, WIDTH),
        "kernel": (WIDTH, 4 * UNITS),
        "recurrent": (UNITS, 4 * UNITS),
        "bias": (4 * UNITS,),
        "d_outputs": (batch, STEPS, UNITS),
    }
    return {name: random.normal(0, 0.7, (*leading, *shape)) for name, shape in shapes.items()}


def outputs_and_gradients(layer, arrays, dtype=tf.float32):
    tensors = {name: tf.constant(array, dtype) for name, array in arrays.items()}
    watched = [tensors[name] for name in NAMES]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = layer(*watched)
        loss = tf.reduce_sum(outputs * tensors["d_outputs"])
    return [outputs, *tape.gradient(loss, watched)]


def assert_all_close(found, expected, atol=1e-5):
    for name, a, b in zip(("outputs", *NAMES), found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=atol, err_msg=name)


def test_a_block_of_lstms_gets_the_gradients_of_each():
    clients = 3
    arrays = problem(7, leading=(clients,))

    def of_one(arrays):
        watched = [arrays[name] for name in NAMES]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = lstm_outputs(*watched)
            loss = tf.reduce_sum(outputs * arrays["d_outputs"])
        return [outputs, *tape.gradient(loss, watched)]

    @tf.function
    def of_all(arrays):
        return tf.vectorized_map(of_one, arrays, fallback_to_while_loop=False)

    tensors = {name: tf.constant(array, tf.float32) for name, array in arrays.items()}
    block = of_all(tensors)
    for client in range(clients):
        one = {name: array[client] for name, array in arrays.items()}
        expected = outputs_and_gradients(lstm_outputs, one, tf.float64)
        assert_all_close([found[client] for found in block], expected)


# The next-word LSTM against Keras.


SIZES = StackOverflowTask(vocabulary_size=11, sequence_length=6, embedding_size=5, lstm_size=4)
VOCABULARY = Vocabulary(11, {f"w{i}": i for i in range(1, 12)})
NUM_TOKENS = 15


def keras_model() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            tf.keras.Input([SIZES.sequence_length], dtype=tf.int32),
            tf.keras.layers.Embedding(NUM_TOKENS, SIZES.embedding_size, mask_zero=True),
            tf.keras.layers.LSTM(SIZES.lstm_size, return_sequences=True),
            tf.keras.layers.Dense(SIZES.embedding_size),
            tf.keras.layers.Dense(NUM_TOKENS),
        ]
    )


@pytest.fixture(scope="module")
def model() -> tf.keras.Model:
    made = keras_model()
    rng = np.random.default_rng(1)
    made.set_weights([rng.normal(0, 0.7, w.shape).astype(np.float32) for w in made.get_weights()])
    return made


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    """Sentences of every length, none at all among them, and padding behind them."""
    made = (
        np.random.default_rng(2)
        .integers(1, NUM_TOKENS, (12, SIZES.sequence_length))
        .astype(np.int32)
    )
    for row in range(SIZES.sequence_length):
        made[row, row:] = 0
    return made


def test_logits_equal_those_of_keras(model, tokens):
    logits = next_word_logits(model.get_weights(), tf.constant(tokens))
    assert logits.shape == (12, SIZES.sequence_length, NUM_TOKENS)
    is_token = tokens > 0
    np.testing.assert_allclose(logits[is_token], model(tokens)[is_token], atol=1e-5)


def test_loss_and_gradients_equal_those_of_keras(model, tokens):
    """Of the masked mean: the classifier's own padding mask against Keras' sum over tokens."""
    classifier = as_classifier(next_word_classifier(SIZES, VOCABULARY, seed=1))
    labels = np.roll(tokens, -1, axis=1)
    labels[:, -1] = 0
    mask = (labels != 0).astype(np.float32)
    with tf.GradientTape() as tape:
        losses = tf.keras.losses.sparse_categorical_crossentropy(labels, model(tokens), True)
        expected_loss = tf.reduce_sum(losses * mask) / mask.sum()
    expected = tape.gradient(expected_loss, model.trainable_variables)
    weights = [tf.Variable(w) for w in model.get_weights()]
    with tf.GradientTape() as tape:
        loss = classifier.loss(classifier.logits(weights, tf.constant(tokens)), labels)
    found = tape.gradient(loss, weights)
    assert float(loss) == pytest.approx(float(expected_loss), abs=1e-5)
    for gradient, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient), tf.convert_to_tensor(wanted), atol=1e-5
        )


def test_weights_start_as_in_keras():
    classifier = as_classifier(next_word_classifier(SIZES, VOCABULARY, seed=1))
    weights, keras = classifier.initial_weights, keras_model().get_weights()
    assert [w.shape for w in weights] == [w.shape for w in keras]
    assert all(w.dtype == np.float32 for w in weights)
    for at in (3, 5, 7):  # biases: zeros, the forget gate's ones
        np.testing.assert_array_equal(weights[at], keras[at])
    assert np.abs(weights[0]).max() <= 0.05
    np.testing.assert_allclose(weights[2] @ weights[2].T, np.eye(SIZES.lstm_size), atol=1e-5)
    for at in (1, 4, 6):
        assert np.abs(weights[at]).max() <= (6 / sum(weights[at].shape)) ** 0.5 * (1 + 1e-6)


def test_accuracy_leaves_out_special_tokens():
    classifier = as_classifier(next_word_classifier(SIZES, VOCABULARY, seed=1))
    labels = np.array([[1, 2, VOCABULARY.unknown, VOCABULARY.end, 0, 0]], np.int32)
    perfect = tf.one_hot(labels, NUM_TOKENS)
    assert float(classifier.num_counted(labels)) == 2
    assert float(classifier.num_correct(perfect, labels)) == 2
    assert float(classifier.num_tokens(labels)) == 4
