"""A model as JAX functions of its weights and of a batch, with softmax cross-entropy loss.

The functions are pure and take batches of any size, so `jax.vmap`, `jax.grad` and `jax.jit` apply.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = Any
"""A JAX array, or its tracer."""

Weights = Sequence[Array]

Logits = Callable[[Weights, Array], Array]
"""A function of weights and inputs that returns logits, whose last axis is the class."""

PerLabel = Callable[[Array, Array], Array]
"""A function of a batch's outputs and labels that returns a number per label."""


@dataclass(frozen=True)
class JaxModel:
    """A model's functions; their values at padding are finite, but meaningless."""

    outputs: Logits  # of a batch, such as logits
    losses: PerLabel  # of each label, in nats
    attacked_losses: PerLabel  # minus log-odds; the loss if a model has no log-odds
    scores: PerLabel  # each label's part of the accuracy, in [0, 1]
    is_token: Callable[[Array], Array]  # which labels count for the loss
    is_counted: Callable[[Array], Array]  # which labels count for accuracy

    def mean_loss(self, weights: Weights, inputs: Array, labels: Array) -> tuple[Array, Array]:
        """The mean loss over labels but padding (0 without any), and the number of such labels."""
        tokens = self.is_token(labels)
        losses = jnp.where(tokens, self.losses(self.outputs(weights, inputs), labels), 0.0)
        count = jnp.sum(tokens, dtype=jnp.float32)
        return jnp.sum(losses) / jnp.maximum(count, 1.0), count

    def accuracy_counts(self, weights: Weights, inputs: Array, labels: Array) -> Array:
        """The sum of the scores and the number of counted labels, float32 of shape (2,)."""
        counted = self.is_counted(labels)
        scores = jnp.where(counted, self.scores(self.outputs(weights, inputs), labels), 0.0)
        return jnp.stack([jnp.sum(scores), jnp.sum(counted, dtype=jnp.float32)])

    def attacked_by_example(self, weights: Weights, inputs: Array, labels: Array) -> Array:
        """The sum of each example's attacked losses and their number, of shape (2, examples)."""
        tokens = self.is_token(labels)
        losses = self.attacked_losses(self.outputs(weights, inputs), labels)
        within = tuple(range(1, labels.ndim))
        return jnp.stack(
            [
                jnp.sum(jnp.where(tokens, losses, 0.0), within),
                jnp.sum(tokens, within, dtype=jnp.float32),
            ]
        )


def classifier(logits: Logits, padding_label: int, uncounted_labels: Sequence[int]) -> JaxModel:
    """The functions of a classifier; they match `fl_audit.tasks.tf.classifier.Classifier`."""

    def is_token(labels: Array) -> Array:
        return labels != padding_label

    def is_counted(labels: Array) -> Array:
        counted = is_token(labels)
        for label in uncounted_labels:
            counted &= labels != label
        return counted

    return JaxModel(
        outputs=logits,
        # Padding of -1 becomes class 0 here; its loss is not counted.
        losses=lambda outputs, labels: cross_entropy(outputs, jnp.maximum(labels, 0)),
        attacked_losses=lambda outputs, labels: log_odds_loss(outputs, jnp.maximum(labels, 0)),
        scores=lambda outputs, labels: (jnp.argmax(outputs, -1) == labels).astype(jnp.float32),
        is_token=is_token,
        is_counted=is_counted,
    )


# Softmax cross-entropy with a one-pass gradient: automatic differentiation would scatter into a
# matrix of zeros for the label's logit, which is slow on accelerators and on CPUs.


def cross_entropy(logits: Array, labels: Array) -> Array:
    """The loss in nats, of shape (...), of logits (..., classes) and int32 labels (...)."""
    # As rows: with more axes, gradients of earlier layers take XLA twice as long on a CPU.
    losses: Array = _row_losses(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
    return losses.reshape(labels.shape)


@jax.custom_vjp
def _row_losses(logits: Array, labels: Array) -> Array:
    return _forward(logits, labels)[0]


def _forward(logits: Array, labels: Array) -> tuple[Array, tuple[Array, Array]]:
    largest = jnp.max(logits, -1, keepdims=True)
    powers = jnp.exp(logits - largest)
    total = jnp.sum(powers, -1, keepdims=True)
    # In this order, because float32 rounds large logits, but not their difference.
    losses = (largest[..., 0] - _at(logits, labels)) + jnp.log(total[..., 0])
    return losses, (powers / total, labels)


def _backward(residuals: tuple[Array, Array], d_losses: Array) -> tuple[Array, None]:
    probabilities, labels = residuals
    classes = lax.broadcasted_iota(jnp.int32, probabilities.shape, probabilities.ndim - 1)
    error = jnp.where(classes == labels[..., None], probabilities - 1.0, probabilities)
    return error * d_losses[..., None], None


_row_losses.defvjp(_forward, _backward)


def _at(logits: Array, labels: Array) -> Array:
    return jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]


def log_odds_loss(logits: Array, labels: Array) -> Array:
    """Minus the log-odds of labels, in their shape; 0 with one class (`tasks.tf.classifier`)."""
    if logits.shape[-1] == 1:
        return jnp.zeros(labels.shape, jnp.float32)
    classes = lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
    others = jnp.where(classes == labels[..., None], -jnp.inf, logits)
    largest = jnp.max(others, -1)
    log_sum = jnp.log(jnp.sum(jnp.exp(others - largest[..., None]), -1))
    return (largest - _at(logits, labels)) + log_sum


in_full_precision = functools.partial(jax.default_matmul_precision, "float32")
"""A context in which matrix products have full float32 precision. Otherwise accelerators round the
factors, which changes cosines.
"""
