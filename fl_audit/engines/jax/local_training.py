"""The training of one client: local training methods, and optimizers.

A client calls `begin`, then `steps` for some batches at a time until none is left, then `end`. So
one compiled function serves clients with any number of batches.

Optimizers, for clients and for the server, are pure functions. They follow TFF's
`tff.learning.optimizers` step for step, so that runtimes agree.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import tree_map

from fl_audit.tasks.jax.jax_classifier import Array, JaxModel, Weights

Slots = tuple[Any, ...]
"""The state of an optimizer: structures like the weights, or scalars."""


@dataclass(frozen=True)
class Optimizer:
    """`begin` makes the slots; `step` maps (slots, weights, gradients) to new slots and weights."""

    begin: Callable[[Weights], Slots]
    step: Callable[[Slots, Weights, Weights], tuple[Slots, Weights]]


def sgd(rate: float, momentum: float) -> Optimizer:
    """Gradient descent with rate r and momentum m, 0 for none: a = m a + g, w = w - r a."""
    if momentum == 0:

        def plain(slots: Slots, weights: Weights, gradients: Weights) -> tuple[Slots, Weights]:
            return slots, tree_map(lambda w, g: w - rate * g, weights, gradients)

        return Optimizer(lambda weights: (), plain)

    def step(slots: Slots, weights: Weights, gradients: Weights) -> tuple[Slots, Weights]:
        sums = tree_map(lambda a, g: momentum * a + g, slots[0], gradients)
        return (sums,), tree_map(lambda w, a: w - rate * a, weights, sums)

    return Optimizer(lambda weights: (tree_map(jnp.zeros_like, weights),), step)


def adagrad(rate: float, initial: float, epsilon: float) -> Optimizer:
    """Adagrad (Duchi et al. 2011) whose sums of squares start at `initial`."""

    def begin(weights: Weights) -> Slots:
        return (tree_map(lambda w: jnp.full_like(w, initial), weights),)

    def step(slots: Slots, weights: Weights, gradients: Weights) -> tuple[Slots, Weights]:
        squares = tree_map(lambda p, g: p + g * g, slots[0], gradients)
        moved = tree_map(
            lambda w, p, g: w - rate * g / jnp.sqrt(p + epsilon), weights, squares, gradients
        )
        return (squares,), moved

    return Optimizer(begin, step)


def adam(rate: float, beta_1: float, beta_2: float, epsilon: float) -> Optimizer:
    """Adam (Kingma & Ba 2015) with bias correction."""

    def next_square(p: Array, square: Array) -> Array:
        return p + (square - p) * (1.0 - beta_2)

    return _adaptive(rate, (beta_1, beta_2), epsilon, 0.0, next_square)


def yogi(rate: float, beta_1: float, beta_2: float, epsilon: float, initial: float) -> Optimizer:
    """Yogi (Zaheer et al. 2018) whose squares start at `initial`, with Adam's bias correction."""

    def next_square(p: Array, square: Array) -> Array:
        return p + (1.0 - beta_2) * jnp.sign(square - p) * square

    return _adaptive(rate, (beta_1, beta_2), epsilon, initial, next_square)


def _adaptive(
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    initial: float,
    next_square: Callable[[Array, Array], Array],
) -> Optimizer:
    """Steps by running means of gradients, divided by roots of running means of squares."""
    beta_1, beta_2 = betas

    def begin(weights: Weights) -> Slots:
        means = tree_map(jnp.zeros_like, weights)
        squares = tree_map(lambda w: jnp.full_like(w, initial), weights)
        return jnp.zeros((), jnp.int32), means, squares

    def step(slots: Slots, weights: Weights, gradients: Weights) -> tuple[Slots, Weights]:
        count = slots[0] + 1
        number = count.astype(jnp.float32)
        corrected = rate * jnp.sqrt(1.0 - beta_2**number) / (1.0 - beta_1**number)
        means = tree_map(lambda a, g: a + (g - a) * (1.0 - beta_1), slots[1], gradients)
        squares = tree_map(lambda p, g: next_square(p, g * g), slots[2], gradients)
        moved = tree_map(
            lambda w, a, p: w - corrected * a / (jnp.sqrt(p) + epsilon), weights, means, squares
        )
        return (count, means, squares), moved

    return Optimizer(begin, step)


ClientState = Any
"""The state of a client between two batches: a structure of arrays."""


class LocalTraining(abc.ABC):
    """A method by which a client gets from the round's model to its update."""

    def __init__(self, model: JaxModel) -> None:
        self._gradient = jax.value_and_grad(model.mean_loss, has_aux=True)

    def begin(self, initial: Weights) -> tuple[ClientState, Array]:
        """A client before its first batch: its state, and its loss and tokens so far, both 0."""
        return self._begin(initial), jnp.zeros(2, jnp.float32)

    def steps(
        self, initial: Weights, client: Any, inputs: Array, labels: Array, num_examples: Array
    ) -> Any:
        """A client after some more batches; empty batches come last and are skipped."""

        def step(at: Array, client: Any) -> Any:
            state, totals = client
            (loss, tokens), gradients = self._gradient(
                self._weights(initial, state), inputs[at], labels[at]
            )
            state = self._next(initial, state, gradients, num_examples[at])
            return state, totals + jnp.stack([loss * tokens, tokens])

        return lax.fori_loop(0, jnp.sum(num_examples > 0), step, client)

    @abc.abstractmethod
    def end(self, initial: Weights, client: Any) -> tuple[Weights, Array]:
        """The update, zeros if it is not finite (as in TFF), and the summed loss and tokens."""

    @abc.abstractmethod
    def _begin(self, initial: Weights) -> ClientState: ...

    @abc.abstractmethod
    def _weights(self, initial: Weights, state: ClientState) -> Weights:
        """The weights for the next batch's gradient."""

    @abc.abstractmethod
    def _next(
        self, initial: Weights, state: ClientState, gradients: Weights, num_examples: Array
    ) -> ClientState:
        """The state after a batch."""


class OptimizerSteps(LocalTraining):
    """Steps of an optimizer, new for each client: FedAvg, or FedProx with a proximal term."""

    def __init__(self, model: JaxModel, optimizer: Optimizer, proximal_strength: float) -> None:
        """`proximal_strength` is FedProx's factor mu; 0 for FedAvg."""
        super().__init__(model)
        self._optimizer = optimizer
        self._strength = proximal_strength

    def _begin(self, initial: Weights) -> ClientState:
        return list(initial), self._optimizer.begin(list(initial))

    def _weights(self, initial: Weights, state: ClientState) -> Weights:
        reached: Weights = state[0]
        return reached

    def _next(
        self, initial: Weights, state: ClientState, gradients: Weights, num_examples: Array
    ) -> ClientState:
        weights, slots = state
        if self._strength:
            gradients = tree_map(
                lambda g, w, start: g + self._strength * (w - start),
                gradients,
                weights,
                list(initial),
            )
        slots, weights = self._optimizer.step(slots, weights, gradients)
        return weights, slots

    def end(self, initial: Weights, client: Any) -> tuple[Weights, Array]:
        """Trained minus initial weights; if it is not finite, metrics do not count the client."""
        (weights, _), totals = client
        update = [last - first for last, first in zip(weights, initial, strict=True)]
        result: tuple[Weights, Array] = _zeros_unless_finite(update, (update, totals))
        return result


class MeanGradient(LocalTraining):
    """The mean gradient over the examples at the round's model: FedSGD's clients."""

    def _begin(self, initial: Weights) -> ClientState:
        return [jnp.zeros_like(w) for w in initial], jnp.zeros((), jnp.float32)

    def _weights(self, initial: Weights, state: ClientState) -> Weights:
        return list(initial)

    def _next(
        self, initial: Weights, state: ClientState, gradients: Weights, num_examples: Array
    ) -> ClientState:
        sums, count = state
        sums = [total + num_examples * g for total, g in zip(sums, gradients, strict=True)]
        return sums, count + num_examples

    def end(self, initial: Weights, client: Any) -> tuple[Weights, Array]:
        """Minus the mean gradient; if it is not finite, metrics still count the client."""
        (sums, count), totals = client
        update = [-total / jnp.maximum(count, 1.0) for total in sums]
        return _zeros_unless_finite(update, update), totals


def _zeros_unless_finite(update: Weights, result: Any) -> Any:
    is_finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in update]))
    return tree_map(lambda leaf: jnp.where(is_finite, leaf, jnp.zeros_like(leaf)), result)
