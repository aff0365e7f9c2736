"""An LSTM layer in JAX, with the result of Keras' LSTM.

Its gradient is written by hand: that of the recurrent weights is one product over all steps, where
automatic differentiation adds up a matrix of their size for every step. There is no mask: padding
comes after a sequence, and a step sees only what came before it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fl_audit.tasks.jax.classifier import Array


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
    # A product of rows: with three axes, XLA's gradients take longer on a CPU.
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
    transposed = recurrent.T  # once: in the loop, jax 0.4.20's product takes three times as long

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
