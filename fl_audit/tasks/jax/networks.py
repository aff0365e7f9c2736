"""Tasks' networks as JAX functions; the classes that describe them document the layers."""

import functools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from fl_audit.errors import InputError
from fl_audit.tasks.dense import Dense
from fl_audit.tasks.images import Cnn, ResidualBlock, WideResnet
from fl_audit.tasks.jax.classifier import Array, JaxModel, Logits, Weights, classifier
from fl_audit.tasks.jax.lstm import lstm_outputs
from fl_audit.tasks.jax.own_model import OwnJaxModel
from fl_audit.tasks.learning_task import Model, Network, NetworkModel
from fl_audit.tasks.next_word import NextWord

_GROUPS = 16
_EPSILON = 1e-5


def as_jax_model(model: Model) -> JaxModel:
    """A task's model with functions in JAX; raises an `InputError` if it has none."""
    if isinstance(model, NetworkModel):
        logits = _logits(model.network)
        return classifier(logits, model.padding_label, model.uncounted_labels)
    if isinstance(model, OwnJaxModel):
        return model.functions
    raise InputError(
        "task: the model has no functions in JAX, which runtime 'jax' needs; must be trained by "
        "another runtime"
    )


def _logits(network: Network) -> Logits:
    match network:
        case Dense():
            return dense_logits
        case NextWord():
            return next_word_logits
        case Cnn():
            return cnn_logits
        case WideResnet(blocks):
            return functools.partial(wide_resnet_logits, blocks)
    raise InputError(f"task: {type(network).__name__} is no network that runtime 'jax' trains")


def dense_logits(weights: Weights, inputs: Array) -> Array:
    """The logits of `fl_audit.tasks.dense.Dense`."""
    hidden = inputs
    for matrix, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = jax.nn.relu(hidden @ matrix + bias)
    return hidden @ weights[-2] + weights[-1]


def next_word_logits(weights: Weights, tokens: Array) -> Array:
    """The logits of `fl_audit.tasks.next_word.NextWord`, of shape (batch, steps, classes)."""
    embedding, kernel, recurrent, bias, narrow, narrow_bias, output, output_bias = weights
    hidden = lstm_outputs(embedding[tokens], kernel, recurrent, bias)
    # Gradients of products with more than two axes take XLA twice as long on a CPU.
    rows = hidden.reshape(-1, hidden.shape[-1])
    logits = (rows @ narrow + narrow_bias) @ output + output_bias
    return logits.reshape(*tokens.shape, -1)


def cnn_logits(weights: Weights, images: Array) -> Array:
    """The logits of `fl_audit.tasks.images.Cnn`."""
    first, first_bias, second, second_bias, wide, wide_bias, output, output_bias = weights
    hidden = jax.nn.relu(_convolved(images, first, 1, "VALID") + first_bias)
    hidden = jax.nn.relu(_convolved(hidden, second, 1, "VALID") + second_bias)
    window = (1, 2, 2, 1)
    hidden = lax.reduce_window(hidden, -jnp.inf, lax.max, window, window, "VALID")
    hidden = hidden.reshape(-1, wide.shape[0])
    return jax.nn.relu(hidden @ wide + wide_bias) @ output + output_bias


def wide_resnet_logits(blocks: Sequence[ResidualBlock], weights: Weights, images: Array) -> Array:
    """The logits of `fl_audit.tasks.images.WideResnet`, weights in the order of use."""
    left = iter(weights)
    hidden = _standard_convolution(images, left, 1)
    for block in blocks:
        before = _activated(hidden, left)
        shortcut = (
            _standard_convolution(before, left, block.stride) if block.is_projected else hidden
        )
        first = _standard_convolution(before, left, block.stride)
        hidden = shortcut + _standard_convolution(_activated(first, left), left, 1)
    pooled = jnp.mean(_activated(hidden, left), axis=(1, 2))
    return pooled @ next(left) + next(left)


def _convolved(images: Array, filters: Array, stride: int, padding: str) -> Array:
    return lax.conv_general_dilated(
        images, filters, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _standard_convolution(images: Array, left: Iterator[Array], stride: int) -> Array:
    """Convolves with the next filters, standardised to mean 0 and total variance 1."""
    filters = next(left)
    axes = (0, 1, 2)
    centred = filters - jnp.mean(filters, axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    fan_in = filters.shape[0] * filters.shape[1] * filters.shape[2]
    return _convolved(images, centred * lax.rsqrt(variance * fan_in + _EPSILON), stride, "SAME")


def _activated(images: Array, left: Iterator[Array]) -> Array:
    """Group normalisation with the next scale and offset, then ReLU."""
    scale, offset = next(left), next(left)
    batch, height, width, channels = images.shape
    grouped = images.reshape(batch, height, width, _GROUPS, channels // _GROUPS)
    axes = (1, 2, 4)
    centred = grouped - jnp.mean(grouped, axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    normalised = (centred * lax.rsqrt(variance + _EPSILON)).reshape(images.shape)
    return jax.nn.relu(normalised * scale + offset)
