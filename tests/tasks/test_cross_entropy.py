"""The cross-entropy's value and gradient against float64 NumPy and TensorFlow's own."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.tasks.classifier import cross_entropy, cross_entropy_in_blocks


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


def test_gradient_equals_differences_of_losses():
    """Central differences of the float64 losses: their error is of the order of step**2."""
    logits, labels, d_losses = problem(2, (4, 3), 7)
    _, gradient = losses_and_gradient(logits, labels, d_losses)
    exact, step = logits.astype(np.float64), 1e-5
    for index in np.ndindex(exact.shape):
        change = np.zeros_like(exact)
        change[index] = step
        moved = [np.sum(expected_losses(exact + by * change, labels) * d_losses) for by in (1, -1)]
        assert gradient[index] == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-6)


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


@pytest.mark.parametrize("shape", [(0,), (0, 5)])
def test_no_rows(shape):
    losses, gradient = losses_and_gradient(np.zeros((*shape, 6)), np.zeros(shape), np.zeros(shape))
    assert losses.shape == shape
    assert gradient.shape == (*shape, 6)


def test_rows_with_and_without_a_likely_label_in_one_batch():
    """One unlikely label sends all rows the other way; nobody's loss or gradient changes."""
    logits, labels, d_losses = problem(3, (6,), 11)
    alone = losses_and_gradient(logits, labels, d_losses)
    with_one = [np.concatenate([array, array[:1]]) for array in (logits, labels, d_losses)]
    with_one[0][-1, with_one[1][-1]] = -500.0
    found = losses_and_gradient(*with_one)
    assert found[0][-1] > 400
    for part, expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(part[:-1], expected, rtol=1e-6, atol=1e-6)


def test_a_gradient_taken_twice_is_the_same_twice():
    """It is made in place: what it is made in must be nobody else's."""
    logits, labels, d_losses = (tf.constant(array) for array in problem(5, (6,), 11))

    @tf.function
    def twice():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(logits)
            total = tf.reduce_sum(cross_entropy(logits, labels) * d_losses)
        return tape.gradient(total, logits), tape.gradient(total, logits)

    expected = losses_and_gradient(logits, labels, d_losses)[1]
    for gradient in twice():
        np.testing.assert_array_equal(gradient, expected)


def test_a_block_of_clients_gets_the_gradients_of_each():
    arrays = problem(3, (4, 3, 5), 11)

    def of_one(one):
        logits, labels, d_losses = one
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = cross_entropy_in_blocks(logits, labels)
            total = tf.reduce_sum(losses * d_losses)
        return losses, tape.gradient(total, logits)

    @tf.function
    def of_all(*stacked):
        return tf.vectorized_map(of_one, stacked, fallback_to_while_loop=False)

    block = of_all(*(tf.constant(array) for array in arrays))
    for client in range(4):
        expected = losses_and_gradient(*(array[client] for array in arrays))
        for found, alone in zip(block, expected, strict=True):
            np.testing.assert_allclose(found[client], alone, rtol=1e-6, atol=1e-6)


def test_survives_serialisation():
    """The graph that TFF stores for its runtimes, with unknown numbers of rows, run again."""
    logits, labels, d_losses = problem(4, (3, 5), 11)

    @tff.tensorflow.computation(
        tff.TensorType(np.float32, [None, 5, 11]),
        tff.TensorType(np.int32, [None, 5]),
        tff.TensorType(np.float32, [None, 5]),
    )
    @tf.function
    def gradient_of(logits, labels, d_losses):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            total = tf.reduce_sum(cross_entropy(logits, labels) * d_losses)
        return tape.gradient(total, logits)

    graph_def = tf.compat.v1.GraphDef()
    proto = tff.framework.serialize_computation(gradient_of)
    proto.tensorflow.graph_def.Unpack(graph_def)
    fed = [e.tensor.tensor_name for e in proto.tensorflow.parameter.struct.element]
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        found = session.run(
            proto.tensorflow.result.tensor.tensor_name,
            dict(zip(fed, (logits, labels, d_losses), strict=True)),
        )
    expected = losses_and_gradient(logits, labels, d_losses)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
