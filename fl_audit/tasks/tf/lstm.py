"""The next-word LSTM of `fl_audit.tasks.next_word` in TensorFlow, with unrolled steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf


def next_word_logits(weights: Sequence[tf.Tensor], tokens: tf.Tensor) -> tf.Tensor:
    """The logits of the next token at every position, (batch, steps, vocabulary + 4)."""
    embedding, kernel, recurrent, bias, narrow, narrow_bias, output, output_bias = weights
    hidden = lstm_outputs(tf.gather(embedding, tokens), kernel, recurrent, bias)
    rows = tf.reshape(hidden, [-1, hidden.shape[-1]])
    narrowed = tf.nn.bias_add(rows @ narrow, narrow_bias)
    logits = tf.nn.bias_add(narrowed @ output, output_bias)
    return tf.reshape(logits, [-1, tokens.shape[1], output.shape[1]])


# The layer. Gradients are written by hand, and the state is held as columns, (1, units,
# batch), for speed on a CPU; the result is that of Keras' LSTM. The gradient of the recurrent
# kernel is one product over all steps, where automatic differentiation takes one product for each
# step and adds up as many matrices. The products of a step, 16 columns at a time, are batched
# products with a batch of one and the large matrix in front. oneDNN has another kernel for these,
# which on one core is 1.4 times (forward) and 1.8 times (backward) as fast as a plain product with
# 16 rows. There is no mask. A step sees only what came before it, so that padding after a sequence
# changes no output and, where the loss does not count the outputs there, no gradient.


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
    """Outputs (batch, steps, units) as Keras' of inputs (batch, steps, width), steps static."""
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
    """The gradient at the gates' inputs, (4 units, steps * batch), from (steps, units, batch)."""
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
    """One step's gradient, (1, 4 units, batch), from those at its new hidden state and cell."""
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
