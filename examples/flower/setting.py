"""What the server, the clients and the canary clients of the example have in common."""

import numpy as np

from fl_audit.attacks import CanaryPool

NUM_CLIENTS = 200
FEATURES, CLASSES = 784, 10
POOL = CanaryPool(seed=1, count=200, dim=FEATURES * CLASSES + CLASSES)

SHARE_PER_ROUND = 0.1
CLIP_NORM = 1.0

Weights = list[np.ndarray]


def initial_weights() -> Weights:
    """The initial weights of a logistic regression."""
    random = np.random.default_rng(2)
    matrix = random.normal(0, 0.01, (FEATURES, CLASSES)).astype(np.float32)
    return [matrix, np.zeros(CLASSES, np.float32)]


def examples(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up examples: points around one centre per class, and their classes."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    random = np.random.default_rng([1, seed])
    labels = random.integers(CLASSES, size=count)
    return centres[labels] + random.normal(0, 3, (count, FEATURES)), labels


def probabilities(weights: Weights, inputs: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, of shape (examples, classes)."""
    logits = inputs @ weights[0] + weights[1]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train(weights: Weights, inputs: np.ndarray, labels: np.ndarray) -> Weights:
    """Ten steps of gradient descent on one client's examples."""
    matrix, bias = (part.astype(np.float64) for part in weights)
    for _ in range(10):
        errors = probabilities([matrix, bias], inputs) - np.eye(CLASSES)[labels]
        matrix = matrix - 0.05 * inputs.T @ errors / len(labels)
        bias = bias - 0.05 * errors.mean(axis=0)
    return [matrix.astype(np.float32), bias.astype(np.float32)]


def accuracy(weights: Weights) -> float:
    """The accuracy on examples that no client has."""
    inputs, labels = examples(seed=NUM_CLIENTS, count=2000)
    return float(np.mean(probabilities(weights, inputs).argmax(axis=1) == labels))
