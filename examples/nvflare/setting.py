"""What the server, the sites and the job of the example have in common."""

import numpy as np
import numpy.typing as npt

NUM_SITES = 4
NUM_CANARIES = 200
FEATURES, CLASSES = 784, 10

CLIP_NORM = 1.0
DENOMINATOR = NUM_SITES + NUM_CANARIES / 2  # coins include half of the canaries

Matrix = npt.NDArray[np.float32]


def initial_weights() -> Matrix:
    """The initial weights of a logistic regression, whose last row is the bias."""
    random = np.random.default_rng(2)
    return random.normal(0, 0.01, (FEATURES + 1, CLASSES)).astype(np.float32)


def examples(seed: int, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Made-up examples: points around one centre per class and a one, and their classes."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    random = np.random.default_rng([1, seed])
    labels = random.integers(CLASSES, size=count)
    points = centres[labels] + random.normal(0, 3, (count, FEATURES))
    return np.hstack([points, np.ones((count, 1))]), labels


def probabilities(weights: Matrix, inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probabilities of the classes, of shape (examples, classes)."""
    logits = inputs @ weights
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train(weights: Matrix, site: int) -> Matrix:
    """Ten steps of gradient descent on a site's examples."""
    inputs, labels = examples(site, count=500)
    trained = weights.astype(np.float64)
    for _ in range(10):
        errors = probabilities(trained, inputs) - np.eye(CLASSES)[labels]
        trained = trained - 0.05 * inputs.T @ errors / len(labels)
    return trained.astype(np.float32)


def accuracy(weights: Matrix) -> float:
    """The accuracy on examples that no site has."""
    inputs, labels = examples(NUM_SITES, count=2000)
    return float(np.mean(probabilities(weights, inputs).argmax(axis=1) == labels))
