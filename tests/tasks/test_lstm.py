"""The LSTM layer's hand-written gradients against automatic ones, Keras' and differences."""

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.tasks.next_word import lstm_outputs

WIDTH, UNITS, STEPS, BATCH = 3, 4, 6, 9
NAMES = ("inputs", "kernel", "recurrent", "bias")


def textbook(inputs, kernel, recurrent, bias):
    """The layer a step at a time, gradients left to TensorFlow."""
    hidden = cell = tf.zeros([tf.shape(inputs)[0], recurrent.shape[0]], inputs.dtype)
    outputs = []
    for step in range(inputs.shape[1]):
        gates = tf.split(inputs[:, step] @ kernel + hidden @ recurrent + bias, 4, axis=1)
        admit, keep, show = (tf.sigmoid(gates[i]) for i in (0, 1, 3))
        cell = keep * cell + admit * tf.tanh(gates[2])
        hidden = show * tf.tanh(cell)
        outputs.append(hidden)
    return tf.stack(outputs, axis=1)


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


def test_equals_the_textbook_in_float64():
    arrays = problem(1)
    assert_all_close(
        outputs_and_gradients(lstm_outputs, arrays, tf.float64),
        outputs_and_gradients(textbook, arrays, tf.float64),
        atol=1e-12,
    )


def test_equals_the_textbook_in_float32():
    arrays = problem(2)
    assert_all_close(
        outputs_and_gradients(lstm_outputs, arrays),
        outputs_and_gradients(textbook, arrays, tf.float64),
    )


def test_equals_keras():
    arrays = problem(3)
    layer = tf.keras.layers.LSTM(UNITS, return_sequences=True)
    layer.build((None, STEPS, WIDTH))
    layer.set_weights([arrays[name] for name in NAMES[1:]])
    inputs = tf.constant(arrays["inputs"], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
        loss = tf.reduce_sum(outputs * tf.constant(arrays["d_outputs"], tf.float32))
    expected = [outputs, *tape.gradient(loss, [inputs, *layer.trainable_variables])]
    assert_all_close(outputs_and_gradients(lstm_outputs, arrays), expected)


def test_gradients_equal_differences_of_outputs():
    """Central differences in float64: their error is of the order of step**2."""
    arrays, step = problem(4), 1e-5
    found = outputs_and_gradients(lstm_outputs, arrays, tf.float64)[1:]

    def loss(changed):
        weights = [tf.constant(changed[name]) for name in NAMES]
        outputs = lstm_outputs(*weights)
        return float(tf.reduce_sum(outputs * arrays["d_outputs"]))

    for name, gradient in zip(NAMES, found, strict=True):
        direction = np.random.default_rng(5).normal(size=arrays[name].shape)
        moved = [loss({**arrays, name: arrays[name] + by * direction}) for by in (step, -step)]
        slope = (moved[0] - moved[1]) / (2 * step)
        assert slope == pytest.approx(np.sum(gradient * direction), abs=1e-7)


def test_padding_behind_a_sequence_changes_nothing():
    """Neither outputs in front of it nor, where the loss does not count its own, gradients."""
    arrays, length = problem(6), 4
    arrays["d_outputs"][:, length:] = 0
    before = outputs_and_gradients(lstm_outputs, arrays)
    arrays["inputs"][:, length:] = 5.0
    after = outputs_and_gradients(lstm_outputs, arrays)
    np.testing.assert_array_equal(before[0][:, :length], after[0][:, :length])
    for a, b in zip(before[1:], after[1:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (after[1].numpy()[:, length:] == 0).all()
    assert (after[1].numpy()[:, :length] != 0).all()


def test_a_block_of_clients_gets_the_gradients_of_each():
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
        expected = outputs_and_gradients(textbook, one, tf.float64)
        assert_all_close([found[client] for found in block], expected)


def test_traced_once_for_every_batch_size():
    arrays = problem(8)

    @tf.function
    def traced(inputs, kernel, recurrent, bias):
        weights = [inputs, kernel, recurrent, bias]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs = lstm_outputs(*weights)
            loss = tf.reduce_sum(outputs**2)
        return [outputs, *tape.gradient(loss, weights)]

    concrete = traced.get_concrete_function(
        tf.TensorSpec([None, STEPS, WIDTH]),
        *(tf.TensorSpec(arrays[name].shape) for name in NAMES[1:]),
    )
    weights = [tf.constant(arrays[name], tf.float32) for name in NAMES[1:]]
    for batch in (BATCH, 1, 0):
        inputs = tf.constant(arrays["inputs"][:batch], tf.float32)
        found = concrete(inputs, *weights)
        assert found[0].shape == (batch, STEPS, UNITS)
        shortened = {
            **arrays,
            "inputs": arrays["inputs"][:batch],
            "d_outputs": 2 * found[0].numpy(),
        }
        expected = outputs_and_gradients(textbook, shortened, tf.float64)
        assert_all_close(found, expected)
    for gradient in found[2:]:  # of an empty batch
        assert (gradient.numpy() == 0).all()
