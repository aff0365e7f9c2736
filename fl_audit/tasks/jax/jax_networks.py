"""Tasks' networks as JAX functions; the classes that describe them document the layers.

The LSTM layer has the result of Keras' LSTM. Its gradient is written by hand: for the recurrent
weights it is one product over all steps, whereas automatic differentiation computes a matrix of the
weights' shape at every step and adds the matrices up. There is no mask, because padding comes after
a sequence and a step sees only earlier steps.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.tasks.dense import Dense
from fl_audit.tasks.images import Cnn, ResidualBlock, WideResnet
from fl_audit.tasks.jax.jax_classifier import Array, JaxModel, Logits, PerLabel, Weights, classifier
from fl_audit.tasks.learning_task import NO_CLASS, Examples, Model, Network, NetworkModel
from fl_audit.tasks.next_word import NextWord


@dataclass(frozen=True)
class OwnJaxModel(Model):
    """A model of a user's functions.

    Attributes:
      classes: The last extent of the outputs; 1 if they have one axis.
    """

    initial_weights: tuple[Float32Array, ...]
    functions: JaxModel
    classes: int
    accuracy_description: str
    padding_label: int = NO_CLASS

    @property
    def num_classes(self) -> int:
        """The number of classes; meaningful only if labels are classes."""
        return self.classes


def functions_of(
    predict: Logits, loss: PerLabel, correct: PerLabel, log_odds: PerLabel | None
) -> JaxModel:
    """A model of a user's functions, which get label 0 instead of padding (NO_CLASS or NaN)."""

    def is_token(labels: Array) -> Array:
        is_whole = jnp.issubdtype(labels.dtype, jnp.integer)
        return labels != NO_CLASS if is_whole else ~jnp.isnan(labels)

    def known(function: PerLabel) -> PerLabel:
        def on_batch(outputs: Array, labels: Array) -> Array:
            labels = jnp.where(is_token(labels), labels, jnp.zeros_like(labels))
            return jnp.asarray(function(outputs, labels)).astype(jnp.float32)

        return on_batch

    attacked = known(loss)
    if log_odds is not None:
        of_labels = known(log_odds)

        def attacked(outputs: Array, labels: Array) -> Array:
            return -of_labels(outputs, labels)

    return JaxModel(
        outputs=predict,
        losses=known(loss),
        attacked_losses=attacked,
        scores=known(correct),
        is_token=is_token,
        is_counted=is_token,
    )


def shapes_of(
    functions: JaxModel, weights: Sequence[Float32Array], like: Examples
) -> tuple[int, dict[str, tuple[int, ...]]]:
    """`OwnJaxModel.classes`, and the shapes of what the functions return for `like`, by name."""
    outputs = functions.outputs(
        [jnp.asarray(weight) for weight in weights], jnp.asarray(like.inputs)
    )
    named = {
        "loss": functions.losses,
        "correct": functions.scores,
        "log_odds": functions.attacked_losses,
    }
    shapes = {
        name: jax.eval_shape(function, outputs, jnp.asarray(like.labels)).shape
        for name, function in named.items()
    }
    return int(np.shape(outputs)[-1]) if np.ndim(outputs) > 1 else 1, shapes


class _Step(NamedTuple):
    """The values of a step that its gradient needs, each of shape (batch, units)."""

    input_gate: Array
    forget_gate: Array
    candidate: Array
    output_gate: Array
    cell_before: Array
    tanh_cell: Array
    hidden_before: Array


def lstm_outputs(inputs: Array, kernel: Array, recurrent: Array, bias: Array) -> Array:
    """Outputs (batch, steps, units) of inputs (batch, steps, width), with gates in Keras' order."""
    by_step = jnp.swapaxes(inputs, 0, 1)
    # A product of rows, because with three axes XLA's gradients take longer on a CPU.
    from_inputs = (_rows(by_step) @ kernel + bias).reshape(*by_step.shape[:2], -1)
    return jnp.swapaxes(_recurrence(from_inputs, recurrent), 0, 1)


@jax.custom_vjp
def _recurrence(from_inputs: Array, recurrent: Array) -> Array:
    """Outputs (steps, batch, units) from the gates' inputs (steps, batch, 4 units)."""
    return _forward(from_inputs, recurrent)[0]


def _forward(from_inputs: Array, recurrent: Array) -> tuple[Array, Any]:
    zeros = jnp.zeros((from_inputs.shape[1], recurrent.shape[0]), from_inputs.dtype)

    def step(carry: tuple[Array, Array], from_input: Array) -> Any:
        hidden, cell = carry
        input_gate, forget_gate, candidate, output_gate = jnp.split(
            from_input + hidden @ recurrent, 4, axis=-1
        )
        input_gate, forget_gate, output_gate = (
            jax.nn.sigmoid(gate) for gate in (input_gate, forget_gate, output_gate)
        )
        candidate = jnp.tanh(candidate)
        next_cell = forget_gate * cell + input_gate * candidate
        tanh_cell = jnp.tanh(next_cell)
        residuals = _Step(input_gate, forget_gate, candidate, output_gate, cell, tanh_cell, hidden)
        output = output_gate * tanh_cell
        return (output, next_cell), (output, residuals)

    _, (outputs, steps) = lax.scan(step, (zeros, zeros), from_inputs)
    return outputs, (steps, recurrent)


def _backward(residuals: tuple[_Step, Array], d_outputs: Array) -> tuple[Array, Array]:
    steps, recurrent = residuals
    zeros = jnp.zeros_like(d_outputs[0])
    transposed = (
        recurrent.T
    )  # outside the loop; inside, the product takes jax 0.4.20 three times as long

    def step(carry: tuple[Array, Array], at: tuple[Array, _Step]) -> Any:
        (d_hidden, d_cell), (d_output, forward) = carry, at
        d_hidden = d_hidden + d_output
        d_cell = d_cell + d_hidden * forward.output_gate * (1 - forward.tanh_cell**2)
        d_gates = jnp.concatenate(
            [
                d_cell * forward.candidate * forward.input_gate * (1 - forward.input_gate),
                d_cell * forward.cell_before * forward.forget_gate * (1 - forward.forget_gate),
                d_cell * forward.input_gate * (1 - forward.candidate**2),
                d_hidden * forward.tanh_cell * forward.output_gate * (1 - forward.output_gate),
            ],
            axis=-1,
        )
        return (d_gates @ transposed, d_cell * forward.forget_gate), d_gates

    _, d_gates = lax.scan(step, (zeros, zeros), (d_outputs, steps), reverse=True)
    return d_gates, _rows(steps.hidden_before).T @ _rows(d_gates)


def _rows(by_step: Array) -> Array:
    """Reshapes (steps, batch, width) to (steps * batch, width)."""
    return by_step.reshape(-1, by_step.shape[-1])


_recurrence.defvjp(_forward, _backward)


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
    """Convolves with the next filters of `left`, standardised to mean 0 and total variance 1."""
    filters = next(left)
    axes = (0, 1, 2)
    centred = filters - jnp.mean(filters, axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    fan_in = filters.shape[0] * filters.shape[1] * filters.shape[2]
    return _convolved(images, centred * lax.rsqrt(variance * fan_in + _EPSILON), stride, "SAME")


def _activated(images: Array, left: Iterator[Array]) -> Array:
    """Group normalisation with the next scale and offset of `left`, then ReLU."""
    scale, offset = next(left), next(left)
    batch, height, width, channels = images.shape
    grouped = images.reshape(batch, height, width, _GROUPS, channels // _GROUPS)
    axes = (1, 2, 4)
    centred = grouped - jnp.mean(grouped, axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    normalised = (centred * lax.rsqrt(variance + _EPSILON)).reshape(images.shape)
    return jax.nn.relu(normalised * scale + offset)
