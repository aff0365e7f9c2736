"""Clients' and servers' optimizers against their formulas in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import FedAvg, FedProx, ServerAdagrad, ServerAdam, ServerSgd, ServerYogi
from fl_audit.engines.tff.algorithms import ProximalOptimizer, client_optimizer, server_optimizer

pytestmark = pytest.mark.tff

GRADIENTS = np.array([[0.3, -0.002, 0.0], [-0.1, 0.004, 0.0], [0.2, 0.001, 5.0]], np.float32)
START = np.array([1.0, -2.0, 0.5], np.float32)


def _steps(optimizer, gradient_at=lambda weights, step: GRADIENTS[step]):
    """Weights after each step, in a list as the blocks have them."""
    weights = [tf.constant(START)]
    state, reached = optimizer.initialize([tf.TensorSpec(START.shape, tf.float32)]), []
    for step in range(len(GRADIENTS)):
        gradient = tf.constant(gradient_at(weights[0].numpy(), step))
        state, weights = optimizer.next(state, weights, [gradient])
        reached.append(weights[0].numpy())
    return np.array(reached)


def test_sgd_with_momentum():
    velocity, weights, expected = 0.0, START.astype(float), []
    for gradient in GRADIENTS:
        velocity = 0.9 * velocity + gradient
        weights = weights - 0.5 * velocity
        expected.append(weights)
    for optimizer in (
        server_optimizer(ServerSgd(learning_rate=0.5, momentum=0.9)),
        client_optimizer(FedAvg(learning_rate=0.5, momentum=0.9)),
    ):
        np.testing.assert_allclose(_steps(optimizer), expected, rtol=1e-6)


def test_adagrad_of_a_server_begins_at_tau_squared():
    squares, weights, expected = 0.01**2, START.astype(float), []
    for gradient in GRADIENTS.astype(float):
        squares = squares + gradient**2
        weights = weights - 0.3 * gradient / np.sqrt(squares)
        expected.append(weights)
    optimizer = server_optimizer(ServerAdagrad(learning_rate=0.3, tau=0.01))
    np.testing.assert_allclose(_steps(optimizer), expected, rtol=1e-6)


def _moments(squares, next_squares, tau):
    """Reddi et al. 2020, algorithm 2, with the bias correction of Kingma and Ba."""
    mean, weights, expected = 0.0, START.astype(float), []
    for step, gradient in enumerate(GRADIENTS.astype(float), start=1):
        mean = 0.8 * mean + 0.2 * gradient
        squares = next_squares(squares, gradient**2)
        rate = 0.3 * np.sqrt(1 - 0.95**step) / (1 - 0.8**step)
        weights = weights - rate * mean / (np.sqrt(squares) + tau)
        expected.append(weights)
    return expected


def test_adam_of_a_server():
    expected = _moments(0.0, lambda old, new: 0.95 * old + 0.05 * new, tau=0.01)
    config = ServerAdam(learning_rate=0.3, tau=0.01, beta_1=0.8, beta_2=0.95)
    np.testing.assert_allclose(_steps(server_optimizer(config)), expected, rtol=1e-5)


def test_yogi_of_a_server_begins_at_tau_squared():
    def next_squares(old, new):
        return old - 0.05 * new * np.sign(old - new)

    config = ServerYogi(learning_rate=0.3, tau=0.01, beta_1=0.8, beta_2=0.95)
    expected = _moments(0.01**2, next_squares, tau=0.01)
    np.testing.assert_allclose(_steps(server_optimizer(config)), expected, rtol=1e-5)


def test_fed_prox_pulls_a_client_back_to_where_it_began():
    """Gradient descent on a quadratic loss plus mu/2 |w - w_0|^2 (Li et al. 2020, equation 2)."""
    target, strength = np.array([0.0, 1.0, -1.0], np.float32), 0.7
    weights, expected = START.astype(float), []
    for _ in GRADIENTS:
        weights = weights - 0.1 * ((weights - target) + strength * (weights - START))
        expected.append(weights)
    config = FedProx(learning_rate=0.1, proximal_strength=strength)
    reached = _steps(client_optimizer(config), lambda weights, step: weights - target)
    np.testing.assert_allclose(reached, expected, rtol=1e-6)
    free = _steps(client_optimizer(FedAvg(learning_rate=0.1)), lambda w, step: w - target)
    assert np.linalg.norm(reached[-1] - START) < np.linalg.norm(free[-1] - START)


def test_fed_prox_knows_sparse_and_missing_gradients():
    optimizer = ProximalOptimizer(tff.learning.optimizers.build_sgdm(1.0), 0.5)
    weights = (tf.ones([3, 2]), tf.ones([2]))
    state = optimizer.initialize(tuple(tf.TensorSpec(w.shape, w.dtype) for w in weights))
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2]))
    for expected in (0.0, -0.5):  # 1 - 1, then 0 - (1 + 0.5 (0 - 1))
        state, weights = optimizer.next(state, weights, (sparse, None))
        np.testing.assert_array_equal(weights[0][1], [expected] * 2)
        np.testing.assert_array_equal(weights[0][0], [1, 1])
        np.testing.assert_array_equal(weights[1], [1, 1])
