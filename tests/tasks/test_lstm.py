"""The LSTM layer's hand-written gradients against automatic ones, Keras' and differences."""

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.tasks.lstm import lstm_outputs

WIDTH, UNITS, STEPS, BATCH = 3, 4, 6, 9
NAMES = ("inputs", "kernel", "recurrent", "bias")


def textbook(inputs, mask, kernel, recurrent, bias):
    """The layer a step at a time, gradients left to TensorFlow."""
    hidden = cell = tf.zeros([tf.shape(inputs)[0], recurrent.shape[0]], inputs.dtype)
    outputs = []
    for step in range(inputs.shape[1]):
        gates = tf.split(inputs[:, step] @ kernel + hidden @ recurrent + bias, 4, axis=1)
        admit, keep, show = (tf.sigmoid(gates[i]) for i in (0, 1, 3))
        next_cell = keep * cell + admit * tf.tanh(gates[2])
        is_token = mask[:, step, None]
        hidden = tf.where(is_token, show * tf.tanh(next_cell), hidden)
        cell = tf.where(is_token, next_cell, cell)
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


@pytest.fixture(scope="module")
def mask():
    """Sentences of several lengths, and padding in front, in the middle and everywhere."""
    made = np.arange(STEPS) < np.array([6, 5, 3, 1, 0, 6, 6, 6, 6])[:, None]
    made[5, 2:4] = False
    made[6, :3] = False
    made[7, ::2] = False
    return made


def outputs_and_gradients(layer, arrays, mask, dtype=tf.float32):
    tensors = {name: tf.constant(array, dtype) for name, array in arrays.items()}
    watched = [tensors[name] for name in NAMES]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = layer(watched[0], tf.constant(mask), *watched[1:])
        loss = tf.reduce_sum(outputs * tensors["d_outputs"])
    return [outputs, *tape.gradient(loss, watched)]


def assert_all_close(found, expected, atol=1e-5):
    for name, a, b in zip(("outputs", *NAMES), found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=atol, err_msg=name)


def test_equals_the_textbook_in_float64(mask):
    arrays = problem(1)
    assert_all_close(
        outputs_and_gradients(lstm_outputs, arrays, mask, tf.float64),
        outputs_and_gradients(textbook, arrays, mask, tf.float64),
        atol=1e-12,
    )


def test_equals_the_textbook_in_float32(mask):
    arrays = problem(2)
    assert_all_close(
        outputs_and_gradients(lstm_outputs, arrays, mask),
        outputs_and_gradients(textbook, arrays, mask, tf.float64),
    )


def test_equals_keras(mask):
    arrays = problem(3)
    layer = tf.keras.layers.LSTM(UNITS, return_sequences=True)
    layer.build((None, STEPS, WIDTH))
    layer.set_weights([arrays[name] for name in NAMES[1:]])
    inputs = tf.constant(arrays["inputs"], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, mask=tf.constant(mask))
        loss = tf.reduce_sum(outputs * tf.constant(arrays["d_outputs"], tf.float32))
    expected = [outputs, *tape.gradient(loss, [inputs, *layer.trainable_variables])]
    assert_all_close(outputs_and_gradients(lstm_outputs, arrays, mask), expected)


def test_gradients_equal_differences_of_outputs(mask):
    """Central differences in float64: their error is of the order of step**2."""
    arrays, step = problem(4), 1e-5
    found = outputs_and_gradients(lstm_outputs, arrays, mask, tf.float64)[1:]

    def loss(changed):
        weights = [tf.constant(changed[name]) for name in NAMES]
        outputs = lstm_outputs(weights[0], tf.constant(mask), *weights[1:])
        return float(tf.reduce_sum(outputs * arrays["d_outputs"]))

    for name, gradient in zip(NAMES, found, strict=True):
        direction = np.random.default_rng(5).normal(size=arrays[name].shape)
        moved = [loss({**arrays, name: arrays[name] + by * direction}) for by in (step, -step)]
        slope = (moved[0] - moved[1]) / (2 * step)
        assert slope == pytest.approx(np.sum(gradient * direction), abs=1e-7)


def test_steps_without_a_token_change_nothing(mask):
    """Neither outputs nor gradients depend on the inputs there, and none flows to them."""
    arrays = problem(6)
    before = outputs_and_gradients(lstm_outputs, arrays, mask)
    arrays["inputs"] = np.where(mask[..., None], arrays["inputs"], 5.0)
    after = outputs_and_gradients(lstm_outputs, arrays, mask)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (after[1].numpy()[~mask] == 0).all()
    assert (after[1].numpy()[mask] != 0).all()


def test_a_block_of_clients_gets_the_gradients_of_each(mask):
    clients = 3
    arrays = problem(7, leading=(clients,))
    masks = np.stack([np.roll(mask, client, axis=0) for client in range(clients)])

    def of_one(one):
        arrays, mask = one
        watched = [arrays[name] for name in NAMES]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = lstm_outputs(watched[0], mask, *watched[1:])
            loss = tf.reduce_sum(outputs * arrays["d_outputs"])
        return [outputs, *tape.gradient(loss, watched)]

    @tf.function
    def of_all(arrays, masks):
        return tf.vectorized_map(of_one, (arrays, masks), fallback_to_while_loop=False)

    tensors = {name: tf.constant(array, tf.float32) for name, array in arrays.items()}
    block = of_all(tensors, tf.constant(masks))
    for client in range(clients):
        one = {name: array[client] for name, array in arrays.items()}
        expected = outputs_and_gradients(textbook, one, masks[client], tf.float64)
        assert_all_close([found[client] for found in block], expected)


def test_traced_once_for_every_batch_size(mask):
    arrays = problem(8)

    @tf.function
    def traced(inputs, mask, kernel, recurrent, bias):
        weights = [inputs, kernel, recurrent, bias]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs = lstm_outputs(inputs, mask, *weights[1:])
            loss = tf.reduce_sum(outputs**2)
        return [outputs, *tape.gradient(loss, weights)]

    concrete = traced.get_concrete_function(
        tf.TensorSpec([None, STEPS, WIDTH]),
        tf.TensorSpec([None, STEPS], tf.bool),
        *(tf.TensorSpec(arrays[name].shape) for name in NAMES[1:]),
    )
    weights = [tf.constant(arrays[name], tf.float32) for name in NAMES[1:]]
    for batch in (BATCH, 1, 0):
        inputs = tf.constant(arrays["inputs"][:batch], tf.float32)
        found = concrete(inputs, tf.constant(mask[:batch]), *weights)
        assert found[0].shape == (batch, STEPS, UNITS)
        shortened = {
            **arrays,
            "inputs": arrays["inputs"][:batch],
            "d_outputs": 2 * found[0].numpy(),
        }
        expected = outputs_and_gradients(textbook, shortened, mask[:batch], tf.float64)
        assert_all_close(found, expected)
    for gradient in found[2:]:  # of an empty batch
        assert (gradient.numpy() == 0).all()
