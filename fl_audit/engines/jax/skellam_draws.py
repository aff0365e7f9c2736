"""Symmetric Skellam numbers: differences of two independent Poisson variables of one mean.

A Skellam variable of variance x is k with probability p(k) = exp(-x) I_k(x), where I is the
modified Bessel function of the first kind (Skellam 1946; Agarwal, Kairouz & Liu 2021,
arXiv:2110.04995, with both means x / 2). `jax.random.poisson` computes in float32, where the
Poisson variables of a fine grid, of means up to 1e11, have no exact numbers, and logarithms of
their factorials none at all. So the difference is drawn itself, whose numbers float32 holds. They
end: about 1e-10 of the distribution is left out.
"""

import math

import jax.numpy as jnp
from jax import lax

from fl_audit.engines.jax.threefry import fold_in, random_bits
from fl_audit.tasks.jax.classifier import Array

_SMALL_VARIANCE = 64.0
"""Below it a table has the distribution; above, Debye's expansion is exact to float32."""

_TABLE = 128
"""The size of the table; 1e-30 of the distribution of the largest variance lies beyond."""

_FARTHEST = 6.77
"""The largest number that `_normal` gives, rounded up."""


def skellam(key: Array, variance: Array, shape: tuple[int, ...]) -> Array:
    """Independent Skellam numbers, int32, for a float32 variance from 0 to 1e12."""
    return lax.cond(
        variance < _SMALL_VARIANCE,
        lambda: _by_table(key, variance, shape),
        lambda: _by_rejection(key, variance, shape),
    )


def tail_probabilities(variance: Array) -> Array:
    """The probabilities that |k| exceeds 0, 1, 2, ..., float32, for a variance x below 64.

    Ratios of neighbours follow from I_(k-1)(x) = I_(k+1)(x) + (2 k / x) I_k(x) (DLMF 10.29.1),
    downwards, where errors decay.
    """

    def ratio(above: Array, k: Array) -> tuple[Array, Array]:
        here = 1.0 / (2.0 * k / variance + above)
        return here, here

    orders = jnp.arange(1, _TABLE + 1, dtype=jnp.float32)
    _, ratios = lax.scan(ratio, jnp.float32(0.0), orders, reverse=True)
    of_both_signs = 2.0 * jnp.cumprod(ratios)
    tails = jnp.cumsum(of_both_signs[::-1])[::-1]
    return tails / (1.0 + tails[0])


def _by_table(key: Array, variance: Array, shape: tuple[int, ...]) -> Array:
    """By the inverse of the tails, whose smallest are the most exact, and a random sign."""
    bits = random_bits(key, (2, *shape))
    uniform = (bits[0].astype(jnp.float32) + 0.5) * jnp.float32(2.0**-32)
    upwards = tail_probabilities(variance)[::-1]
    size = _TABLE - jnp.searchsorted(upwards, uniform, side="right").astype(jnp.int32)
    return jnp.where(bits[1] & 1 == 1, size, -size)


def log_probability(number: Array, variance: Array) -> Array:
    """The logarithm of p(k) for integers k (float32), to 1e-5 or a relative error of 1e-6.

    Debye's expansion (DLMF 10.41.3) for x at least 64, w = (k^2 + x^2)^(1/2) and q = (k / w)^2:
    p(k) = exp(w - x - k asinh(k / x)) (2 pi w)^(-1/2)
    (1 + (3 - 5 q) / (24 w) + (81 - 462 q + 385 q^2) / (1152 w^2) + ...).
    """
    slope = number / variance
    root = jnp.sqrt(1.0 + slope * slope)
    # w - x is x (root - 1), without the difference of numbers that are almost the same.
    exponent = variance * slope * (slope / (1.0 + root) - jnp.arcsinh(slope))
    w = variance * root
    q = jnp.square(slope / root)
    series = (3.0 - 5.0 * q) / (24.0 * w) + (81.0 + q * (385.0 * q - 462.0)) / (1152.0 * w * w)
    return exponent - 0.5 * jnp.log(2.0 * math.pi * w) + jnp.log1p(series)


def _normal(high: Array, turn: Array) -> Array:
    """Normal numbers of two words each, whose radius has 32 bits."""
    uniform = (high.astype(jnp.float32) + 0.5) * jnp.float32(2.0**-32)
    angle = turn.astype(jnp.float32) * jnp.float32(2.0**-31 * math.pi)
    return jnp.sqrt(-2.0 * jnp.log(jnp.minimum(uniform, 1.0))) * jnp.cos(angle)


def _by_rejection(key: Array, variance: Array, shape: tuple[int, ...]) -> Array:
    """By rejection from a normal variable that is a little wider, rounded to whole numbers.

    A normal number v of variance s^2 is taken as k = floor(v + 1/2) with probability
    p(k) / (M f(v)), for its density f. With s^2 = x / (1 - 4.2 / x) the fourth power of k in
    log p, k^4 / (24 x^3), is made up for as far as v goes, and p(k) / f(v) is below
    M = exp((|v| + 1/2) / (2 x) + 1 / (4 x)) s / x^(1/2): for the half that lies between k and v,
    for the square of it and for Debye's series. Of a variance of 1e4, 97 % are taken at once.
    """
    share = 4.2 / variance
    scale = jnp.sqrt(variance / (1.0 - share))
    log_most = (
        (_FARTHEST * scale + 0.5) / (2.0 * variance) + 0.25 / variance - 0.5 * jnp.log1p(-share)
    )
    log_height = -0.5 * jnp.log(2.0 * math.pi * scale * scale)

    def draw(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tries, numbers, is_taken = state
        own = fold_in(key, tries)
        high, turn, bits = random_bits(own, (3, *shape))
        normal = _normal(high, turn)
        number = jnp.floor(scale * normal + 0.5)
        chance = (bits.astype(jnp.float32) + 0.5) * jnp.float32(2.0**-32)
        log_density = log_height - 0.5 * normal * normal
        odds = log_probability(number, variance) - log_density - log_most
        numbers = jnp.where(is_taken, numbers, number.astype(jnp.int32))
        return tries + 1, numbers, is_taken | (jnp.log(chance) <= odds)

    begin = (jnp.int32(0), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool))
    numbers: Array
    _, numbers, _ = lax.while_loop(lambda state: ~jnp.all(state[2]), draw, begin)
    return numbers
