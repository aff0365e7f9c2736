"""Tasks' networks as TensorFlow functions; the classes that describe them document the layers.

The steps of the next-word LSTM are unrolled.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.tasks.dense import Dense
from fl_audit.tasks.images import Cnn, ResidualBlock, WideResnet
from fl_audit.tasks.learning_task import (
    NO_CLASS,
    Examples,
    Model,
    Network,
    NetworkModel,
    PerExample,
)
from fl_audit.tasks.next_word import NextWord
from fl_audit.tasks.tf.classifier import Classifier, Logits


def next_word_logits(weights: Sequence[tf.Tensor], tokens: tf.Tensor) -> tf.Tensor:
    """The logits of the next token at every position, (batch, steps, vocabulary + 4)."""
    embedding, kernel, recurrent, bias, narrow, narrow_bias, output, output_bias = weights
    hidden = lstm_outputs(tf.gather(embedding, tokens), kernel, recurrent, bias)
    rows = tf.reshape(hidden, [-1, hidden.shape[-1]])
    narrowed = tf.nn.bias_add(rows @ narrow, narrow_bias)
    logits = tf.nn.bias_add(narrowed @ output, output_bias)
    return tf.reshape(logits, [-1, tokens.shape[1], output.shape[1]])


# The LSTM layer. Gradients are written by hand, and the state has shape (1, units, batch), for
# speed on a CPU; the result equals Keras' LSTM's. The gradient of the recurrent kernel is one
# product over all steps, whereas automatic differentiation adds up one product for each step. The
# products of a step, 16 columns at a time, are batched products with a batch of one and the large
# matrix first: on one core oneDNN's kernel for these is 1.4 times (forward) and 1.8 times
# (backward) as fast as a plain product with 16 rows. There is no mask. A step depends only on
# earlier steps, so padding after a sequence changes no output of the sequence and, as the loss
# does not count outputs at padding, no gradient.


@dataclass(frozen=True)
class _Step:
    """The values of one step that the backward pass needs, each of shape (1, units, batch)."""

    input_gate: tf.Tensor
    forget_gate: tf.Tensor
    candidate: tf.Tensor
    output_gate: tf.Tensor
    cell_before: tf.Tensor
    tanh_cell: tf.Tensor


def lstm_outputs(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """Keras' outputs (batch, steps, units) for inputs (batch, steps, width), steps static."""
    columns = tf.transpose(inputs, [1, 2, 0])
    arguments = (columns, kernel, recurrent, bias)
    # Variables become tensors here, because tf.custom_gradient treats variables differently.
    hidden = _lstm_columns(*(tf.convert_to_tensor(argument) for argument in arguments))
    return tf.transpose(hidden, [2, 0, 1])


@tf.custom_gradient
def _lstm_columns(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
    """The layer's outputs, of shape (steps, units, batch), for inputs (steps, width, batch)."""
    hidden, steps = _forward(inputs, kernel, recurrent, bias)

    def gradient(d_hidden: tf.Tensor) -> tuple[tf.Tensor, ...]:
        d_gates = _backward(d_hidden, steps, recurrent)
        hidden_before = _side_by_side([tf.zeros_like(hidden[0]), *hidden[:-1]])
        d_recurrent = tf.matmul(hidden_before, d_gates, transpose_b=True)
        d_kernel = tf.matmul(_side_by_side(_each_step(inputs)), d_gates, transpose_b=True)
        d_inputs = tf.reshape(kernel @ d_gates, [inputs.shape[1], inputs.shape[0], -1])
        d_bias = tf.reduce_sum(d_gates, axis=1)
        return tf.transpose(d_inputs, [1, 0, 2]), d_kernel, d_recurrent, d_bias

    return tf.concat(hidden, axis=0), gradient


def _forward(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor
) -> tuple[list[tf.Tensor], list[_Step]]:
    """The outputs of the steps, (1, units, batch) each, and their values for the backward pass."""
    from_inputs = _each_step(tf.matmul(tf.transpose(kernel)[None], inputs) + bias[:, None])
    transposed = tf.transpose(recurrent)[None]
    cell = tf.zeros_like(from_inputs[0][:, : recurrent.shape[0]])
    outputs: list[tf.Tensor] = []
    steps = []
    for from_input in from_inputs:
        is_first = not outputs  # its hidden state is zero
        gates = from_input if is_first else from_input + tf.matmul(transposed, outputs[-1])
        input_gate, forget_gate, candidate, output_gate = tf.split(gates, 4, axis=1)
        input_gate, forget_gate, output_gate = (
            tf.sigmoid(input_gate),
            tf.sigmoid(forget_gate),
            tf.sigmoid(output_gate),
        )
        candidate = tf.tanh(candidate)
        cell_before, cell = cell, forget_gate * cell + input_gate * candidate
        tanh_cell = tf.tanh(cell)
        steps.append(_Step(input_gate, forget_gate, candidate, output_gate, cell_before, tanh_cell))
        outputs.append(output_gate * tanh_cell)
    return outputs, steps


def _backward(d_hidden: tf.Tensor, steps: list[_Step], recurrent: tf.Tensor) -> tf.Tensor:
    """The gradient at the gates' inputs, shape (4 units, steps * batch).

    `d_hidden` is the gradient at the outputs, shape (steps, units, batch).
    """
    from_outputs = _each_step(d_hidden)
    d_state = d_cell = tf.zeros_like(from_outputs[0])
    d_gates: list[tf.Tensor] = []
    for at in reversed(range(len(steps))):
        d_state += from_outputs[at]
        d_cell += _through_tanh(steps[at].tanh_cell, d_state * steps[at].output_gate)
        d_gates.insert(0, _gates_gradient(steps[at], d_state, d_cell))
        if at > 0:
            d_state = tf.matmul(recurrent[None], d_gates[0])
            d_cell *= steps[at].forget_gate
    return _side_by_side(d_gates)


def _gates_gradient(step: _Step, d_hidden: tf.Tensor, d_cell: tf.Tensor) -> tf.Tensor:
    """One step's gradient at the gates' inputs, shape (1, 4 units, batch).

    `d_hidden` and `d_cell` are the gradients at the step's new hidden state and cell.
    """
    return tf.concat(
        [
            _through_sigmoid(step.input_gate, d_cell * step.candidate),
            _through_sigmoid(step.forget_gate, d_cell * step.cell_before),
            _through_tanh(step.candidate, d_cell * step.input_gate),
            _through_sigmoid(step.output_gate, d_hidden * step.tanh_cell),
        ],
        axis=1,
    )


def _through_sigmoid(output: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.SigmoidGrad(y=output, dy=gradient)


def _through_tanh(output: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TanhGrad(y=output, dy=gradient)


def _each_step(steps: tf.Tensor) -> list[tf.Tensor]:
    """Splits (steps, rows, batch) into steps of shape (1, rows, batch)."""
    each: list[tf.Tensor] = tf.split(steps, steps.shape[0])
    return each


def _side_by_side(steps: list[tf.Tensor]) -> tf.Tensor:
    """Joins steps of shape (1, rows, batch) to (rows, steps * batch)."""
    return tf.concat(steps, axis=2)[0]


Convolution = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def convolve(images: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """A convolution without padding of (batch, height, width, channels), by TensorFlow."""
    return tf.nn.conv2d(images, filters, 1, "VALID")


def convolve_by_product(images: tf.Tensor, filters: tf.Tensor, stride: int = 1) -> tf.Tensor:
    """`convolve` as a product, 3.5 times as slow; filters may differ between clients of a block."""
    rows, columns, _, width = filters.shape
    last_row, last_column = images.shape[1] - rows, images.shape[2] - columns
    patches = [
        images[:, row : row + last_row + 1 : stride, column : column + last_column + 1 : stride]
        for row in range(rows)
        for column in range(columns)
    ]
    return tf.tensordot(tf.concat(patches, -1), tf.reshape(filters, [-1, width]), 1)


def cnn_logits(
    weights: Sequence[tf.Tensor], images: tf.Tensor, convolution: Convolution = convolve
) -> tf.Tensor:
    """The logits of `fl_audit.tasks.images.Cnn`."""
    first, first_bias, second, second_bias, wide, wide_bias, output, output_bias = weights
    hidden = tf.nn.relu(convolution(images, first) + first_bias)
    hidden = tf.nn.relu(convolution(hidden, second) + second_bias)
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.reshape(hidden, [-1, wide.shape[0]])
    return tf.nn.relu(hidden @ wide + wide_bias) @ output + output_bias


# Wide ResNets.


StridedConvolution = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor]
"""A function of images, filters and a stride, by which it divides height and width."""

_GROUPS = 16
_EPSILON = 1e-5


def wide_resnet_logits(
    blocks: Sequence[ResidualBlock],
    convolution: StridedConvolution,
    weights: Sequence[tf.Tensor],
    images: tf.Tensor,
) -> tf.Tensor:
    """The logits of `fl_audit.tasks.images.WideResnet`, weights in the order of use."""
    left = iter(weights)

    def convolved(inputs: tf.Tensor, stride: int = 1) -> tf.Tensor:
        return convolution(inputs, _standardised(next(left)), stride)

    def activated(inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(_group_normalised(inputs, next(left), next(left)))

    hidden = convolved(images)
    for block in blocks:
        before = activated(hidden)
        shortcut = convolved(before, block.stride) if block.is_projected else hidden
        first = convolved(before, block.stride)
        hidden = shortcut + convolved(activated(first))
    pooled = tf.reduce_mean(activated(hidden), axis=[1, 2])
    return pooled @ next(left) + next(left)


def convolve_same(images: tf.Tensor, filters: tf.Tensor, stride: int) -> tf.Tensor:
    """A convolution with zeros around the images, by TensorFlow."""
    return tf.nn.conv2d(images, filters, stride, "SAME")


def convolve_same_by_product(images: tf.Tensor, filters: tf.Tensor, stride: int) -> tf.Tensor:
    """`convolve_same` as one matrix product, whose filters may differ between clients."""
    around = [_padding(images.shape[axis], filters.shape[axis - 1], stride) for axis in (1, 2)]
    padded = tf.pad(images, [(0, 0), *around, (0, 0)])
    return convolve_by_product(padded, filters, stride)


def _padding(length: int, extent: int, stride: int) -> tuple[int, int]:
    """The zeros before and after an axis in TensorFlow's "SAME"."""
    total = max((-(-length // stride) - 1) * stride + extent - length, 0)
    return total // 2, total - total // 2


def _standardised(filters: tf.Tensor) -> tf.Tensor:
    """Filters with mean 0 and total variance 1 (Qiao et al. 2019)."""
    mean, variance = tf.nn.moments(filters, [0, 1, 2], keepdims=True)
    fan_in = filters.shape[0] * filters.shape[1] * filters.shape[2]
    return (filters - mean) * tf.math.rsqrt(variance * fan_in + _EPSILON)


def _group_normalised(images: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Group normalisation (Wu & He 2018), each example by itself."""
    height, width, channels = images.shape[1:]
    grouped = tf.reshape(images, [-1, height, width, _GROUPS, channels // _GROUPS])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
    normalised = (grouped - mean) * tf.math.rsqrt(variance + _EPSILON)
    return tf.reshape(normalised, [-1, height, width, channels]) * scale + offset


def as_classifier(model: Model) -> Classifier:
    """A task's model with functions in TensorFlow; raises an `InputError` if it has none."""
    if isinstance(model, Classifier):
        return model
    if not isinstance(model, NetworkModel):
        raise InputError(
            "task: the model has no functions in TensorFlow, which the runtimes of TensorFlow "
            "Federated need; must be trained by another runtime"
        )
    logits, in_blocks = _functions(model.network)
    return Classifier(
        initial_weights=model.initial_weights,
        logits=logits,
        logits_in_blocks=in_blocks,
        input_spec=tf.TensorSpec([None, *model.input_shape], tf.as_dtype(model.input_dtype)),
        label_spec=tf.TensorSpec([None, *model.label_shape], tf.int32),
        padding_label=model.padding_label,
        uncounted_labels=model.uncounted_labels,
        accuracy_description=model.accuracy_description,
    )


def _functions(network: Network) -> tuple[Logits, Logits | None]:
    """The function of logits, and a version for blocks of clients, None if blocks need no other."""
    match network:
        case Dense():
            return dense_logits, None
        case NextWord():
            return next_word_logits, None
        case Cnn():
            return cnn_logits, functools.partial(cnn_logits, convolution=convolve_by_product)
        case WideResnet(blocks):
            logits = functools.partial(wide_resnet_logits, blocks)
            return (
                functools.partial(logits, convolve_same),
                functools.partial(logits, convolve_same_by_product),
            )
    raise InputError(f"task: {type(network).__name__} is no network that TensorFlow trains here")


def dense_logits(weights: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """The logits of `fl_audit.tasks.dense.Dense`."""
    hidden = inputs
    for matrix, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = tf.nn.relu(hidden @ matrix + bias)
    return hidden @ weights[-2] + weights[-1]


@dataclass(frozen=True)
class OwnModel(Classifier):
    """A model with a custom loss; padding is `NO_CLASS` for integer labels, NaN for others."""

    example_loss: PerExample = field(kw_only=True)
    example_score: PerExample = field(kw_only=True)
    example_log_odds: PerExample | None = field(kw_only=True)

    @property
    def has_log_odds(self) -> bool:
        return self.example_log_odds is not None

    def _losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self._per_example(self.example_loss, logits, labels)

    def _losses_in_blocks(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self._losses(logits, labels)  # whose operations `tf.vectorized_map` must support

    def _attacked(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        if self.example_log_odds is None:
            return self._losses(logits, labels)
        return -self._per_example(self.example_log_odds, logits, labels)

    def _scores(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self._per_example(self.example_score, logits, labels)

    def _per_example(self, function: PerExample, outputs: tf.Tensor, labels: tf.Tensor) -> Any:
        # Padding gets label 0, which a custom loss accepts; the result there is not counted.
        known = tf.cast(self._is_token(labels), tf.bool)
        return tf.cast(function(outputs, tf.where(known, labels, 0)), tf.float32)

    def _is_token(self, labels: tf.Tensor) -> tf.Tensor:
        if labels.dtype.is_floating:
            return tf.cast(tf.logical_not(tf.math.is_nan(labels)), tf.float32)
        return super()._is_token(labels)


def own_classifier(
    weights: tuple[Float32Array, ...],
    predict: Logits,
    of_examples: tuple[PerExample, PerExample, PerExample | None],
    like: Examples,
    accuracy_description: str,
) -> OwnModel:
    """The model of `loss`, `correct` and `log_odds`, for examples shaped as `like`."""
    loss, correct, log_odds = of_examples
    return OwnModel(
        initial_weights=weights,
        logits=predict,
        input_spec=tf.TensorSpec([None, *like.inputs.shape[1:]], like.inputs.dtype),
        label_spec=tf.TensorSpec([None], like.labels.dtype),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        accuracy_description=accuracy_description,
        example_loss=loss,
        example_score=correct,
        example_log_odds=log_odds,
    )


def shapes_of(model: OwnModel, like: Examples) -> dict[str, tuple[int, ...]]:
    """The shapes of what a user's functions return for `like`, by name."""
    weights = [tf.constant(weight) for weight in model.initial_weights]
    outputs, labels = model.logits(weights, tf.constant(like.inputs)), tf.constant(like.labels)
    functions = {
        "loss": model.example_loss,
        "correct": model.example_score,
        "log_odds": model.example_log_odds,
    }
    return {
        name: tuple(tf.convert_to_tensor(function(outputs, labels)).shape)
        for name, function in functions.items()
        if function is not None
    }
