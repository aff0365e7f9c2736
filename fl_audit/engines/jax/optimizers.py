"""Optimizers as pure functions, for clients and for the server.

They follow TFF's `tff.learning.optimizers` step for step, so that runtimes agree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.tree_util import tree_map

from fl_audit.tasks.jax.classifier import Array, Weights

Slots = tuple[Any, ...]
"""The state of an optimizer: structures like the weights, or scalars."""


@dataclass(frozen=True)
class Optimizer:
    """`begin` makes the slots; `step` maps (slots, weights, gradients) to new slots and weights."""

    begin: Callable[[Weights], Slots]
    step: Callable[[Slots, Weights, Weights], tuple[Slots, Weights]]


def sgd(rate: float, momentum: float) -> Optimizer:
    """Gradient descent with momentum m, if not 0, and rate r: a = m a + g, w = w - r a."""
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
    """Running means of gradients over the roots of running means of their squares."""
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
