"""Sums of integers with noise from each participant, as under secure aggregation.

Participant i of n clips its update to norm C, turns it by a random rotation U that the round's
participants share, rounds it randomly to a grid and adds a share of the noise; the sum is known
modulo m = 2^b (Kairouz, Liu & Steinke 2021, arXiv:2102.06387, algorithms 1 and 2, with the noise of
Agarwal, Kairouz & Liu 2021, arXiv:2110.04995, algorithm 1):

    z_i = round(s U clip(u_i)) + Skellam(variance (s z C)^2 / n),   mean = U^T (sum_i z_i mod m) / s

divided by the number of actual participants. `DistributedDpSumFactory` inside
`UnweightedMeanFactory` of `tff.aggregators` computes the same, and tests compare the two. As in
TFF, rounding has no condition on the result's norm (beta = 0); accounting adds sqrt(d) steps of the
grid to the norm.

Integers are added modulo 2^32, which m divides, so that their sum modulo m is exact and has the
same bits in any order and on any number of devices.

A symmetric Skellam variable is the difference of two independent Poisson variables with the same
mean. At variance x it is k with probability p(k) = exp(-x) I_k(x), where I is the modified Bessel
function of the first kind (Skellam 1946; Agarwal, Kairouz & Liu 2021, arXiv:2110.04995, with both
means x / 2). `jax.random.poisson` computes in float32, which cannot represent the Poisson variables
of a fine grid, with means up to 1e11, let alone the logarithms of their factorials. So the
difference, which fits float32, is sampled directly. Tails of about 1e-10 of the distribution are
left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from fl_audit.canaries.families import factor_sizes, padded_size
from fl_audit.engines.jax.aggregation import Aggregation, Norms
from fl_audit.engines.jax.noise_processes import fold_in, in_shapes, random_bits
from fl_audit.engines.jax.scoring import sylvester_factors, walsh_hadamard
from fl_audit.tasks.jax.jax_classifier import Array, Weights

_SMALL_VARIANCE = 64.0
"""Below this variance a table is used; above, Debye's expansion is exact to float32."""

_TABLE = 128
"""The largest |k| of the table; at variance 64, less than 1e-30 of the distribution is beyond."""

_FARTHEST = 6.77
"""The largest value of `_normal`, rounded up."""


def skellam(key: Array, variance: Array, shape: tuple[int, ...]) -> Array:
    """Independent Skellam numbers, int32, for a float32 variance from 0 to 1e12."""
    return lax.cond(
        variance < _SMALL_VARIANCE,
        lambda: _by_table(key, variance, shape),
        lambda: _by_rejection(key, variance, shape),
    )


def tail_probabilities(variance: Array) -> Array:
    """The probabilities that |k| exceeds 0, 1, 2, ..., float32, for a variance x below 64.

    Ratios p(k) / p(k - 1) follow from I_(k-1)(x) = I_(k+1)(x) + (2 k / x) I_k(x) (DLMF 10.29.1),
    from large k to small, as errors then decay.
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
    """Inverts tail probabilities, the smallest of which are the most exact, and draws a sign."""
    bits = random_bits(key, (2, *shape))
    uniform = (bits[0].astype(jnp.float32) + 0.5) * jnp.float32(2.0**-32)
    upwards = tail_probabilities(variance)[::-1]
    size = _TABLE - jnp.searchsorted(upwards, uniform, side="right").astype(jnp.int32)
    return jnp.where(bits[1] & 1 == 1, size, -size)


def log_probability(number: Array, variance: Array) -> Array:
    """The logarithm of p(k) for integers k (float32), with error 1e-5 or relative error 1e-6.

    Debye's expansion (DLMF 10.41.3) for x at least 64, w = (k^2 + x^2)^(1/2) and q = (k / w)^2:
    p(k) = exp(w - x - k asinh(k / x)) (2 pi w)^(-1/2)
    (1 + (3 - 5 q) / (24 w) + (81 - 462 q + 385 q^2) / (1152 w^2) + ...).
    """
    slope = number / variance
    root = jnp.sqrt(1.0 + slope * slope)
    # w - x is x (root - 1), without a difference of nearly equal numbers.
    exponent = variance * slope * (slope / (1.0 + root) - jnp.arcsinh(slope))
    w = variance * root
    q = jnp.square(slope / root)
    series = (3.0 - 5.0 * q) / (24.0 * w) + (81.0 + q * (385.0 * q - 462.0)) / (1152.0 * w * w)
    return exponent - 0.5 * jnp.log(2.0 * math.pi * w) + jnp.log1p(series)


def _normal(high: Array, turn: Array) -> Array:
    """Normal numbers, each from two random words: `high` gives the radius, `turn` the angle."""
    uniform = (high.astype(jnp.float32) + 0.5) * jnp.float32(2.0**-32)
    angle = turn.astype(jnp.float32) * jnp.float32(2.0**-31 * math.pi)
    return jnp.sqrt(-2.0 * jnp.log(jnp.minimum(uniform, 1.0))) * jnp.cos(angle)


def _by_rejection(key: Array, variance: Array, shape: tuple[int, ...]) -> Array:
    """Samples by rejection from a slightly wider normal variable, rounded to integers.

    A normal number v of variance s^2 and density f is accepted as k = floor(v + 1/2) with
    probability p(k) / (M f(v)). With s^2 = x / (1 - 4.2 / x) the fourth power of k in log p, k^4 /
    (24 x^3), is compensated in the range of v, and p(k) / f(v) is below M = exp((|v| + 1/2) / (2 x)
    + 1 / (4 x)) s / x^(1/2) for the largest |v|. M allows for the difference of up to 1/2 between k
    and v, for its square and for Debye's series. At a variance of 1e4, 97 % are accepted at once.
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


_OF_SIGNS, _OF_PARTICIPANTS = 0, 2
"""The numbers with which a round's key is folded; 1 is reserved for noise on the clip's count."""


def random_signs(key: Array, size: int) -> Array:
    """Independent fair signs, float32 of shape (size,)."""
    return jnp.where(random_bits(key, (size,)) >> 31 == 1, -1.0, 1.0)


def rotated(vector: Array, signs: Array) -> Array:
    """The vector U x = H D x / sqrt(2^p), for random signs D (arXiv:2102.06387, section 4.2)."""
    filled = jnp.zeros_like(signs).at[: vector.shape[0]].set(vector)
    return _orthonormal(filled * signs)


def rotated_back(vector: Array, signs: Array, dim: int) -> Array:
    """The first `dim` coordinates of U^T y, the inverse of `rotated`."""
    return (_orthonormal(vector) * signs)[:dim]


def _orthonormal(vector: Array) -> Array:
    size = vector.shape[0]
    factors = sylvester_factors(factor_sizes(size.bit_length() - 1))
    return walsh_hadamard(vector, factors) / jnp.float32(math.sqrt(size))


def rounded(key: Array, values: Array) -> Array:
    """Random rounding: each value's floor, plus one with the probability of its fraction; int32.

    The mean is the value, and the variance f (1 - f) for a fraction f (arXiv:2102.06387, section
    4.1, with beta = 0).
    """
    floor = jnp.floor(values)
    chance = (random_bits(key, values.shape) >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)
    is_up = chance < values - floor
    return floor.astype(jnp.int32) + is_up.astype(jnp.int32)


def centred(sums: Array, bits: int) -> Array:
    """Integers modulo 2^bits, shifted to [-2^(bits - 1), 2^(bits - 1)); int32, bits at most 31."""
    half = 1 << (bits - 1)
    return ((sums + half) & (2 * half - 1)) - half


@dataclass(frozen=True, kw_only=True)
class IntegerSums(Aggregation):
    """The aggregation of integers with Skellam noise from each participant.

    The denominator is the expected number n of participants, an integer: each adds a share 1/n of
    the noise's variance, and the count for the clip norm is divided by n. Sums are divided by the
    number of actual participants; without any the aggregate is zero.
    """

    shapes: Sequence[tuple[int, ...]]  # of the weights
    bits: int  # of a sum
    most_cells: float  # the clip norm in steps of the finest grid that fits the bits
    largest_scale: float  # the largest number of grid steps per unit of an update

    @property
    def _dim(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def scale(self, norms: Norms) -> Array:
        """The number s of grid steps per unit of an update."""
        return jnp.minimum(self.most_cells / norms.clip, jnp.float32(self.largest_scale))

    def _signs(self, key: Array) -> Array:
        return random_signs(fold_in(key, _OF_SIGNS), padded_size(self._dim))

    def _sum(
        self, norms: Norms, updates: Weights, factors: Array, numbers: Array, key: Array
    ) -> list[Array]:
        """The sum of the participants' integers, encoded one participant after another."""
        of_participants = fold_in(key, _OF_PARTICIPANTS)
        signs = self._signs(key)

        def with_next(at: Array, total: Array) -> Array:
            # An update that counts as zero may hold NaN.
            clipped = [
                jnp.where(factors[at] > 0, factors[at] * update[at].reshape(-1), 0.0)
                for update in updates
            ]
            own = fold_in(of_participants, numbers[at])
            return total + self._sent(norms, jnp.concatenate(clipped), signs, own)

        def add(at: Array, total: Array) -> Array:
            return lax.cond(numbers[at] >= 0, lambda: with_next(at, total), lambda: total)

        (nothing,) = self._no_sum(updates)
        return [lax.fori_loop(0, numbers.shape[0], add, nothing)]

    def _sent(self, norms: Norms, clipped: Array, signs: Array, own: Array) -> Array:
        """The integers that a participant sends, by its own key."""
        scale = self.scale(norms)
        of_rounding, of_noise = fold_in(own, 0), fold_in(own, 1)
        integers = rounded(of_rounding, scale * rotated(clipped, signs))
        if not self.noise.sum_noise_multiplier:
            return integers
        share = self.noise.sum_noise_multiplier / math.sqrt(self.denominator)
        return integers + skellam(of_noise, jnp.square(share * norms.clip * scale), integers.shape)

    def _no_sum(self, weights: Weights) -> list[Array]:
        return [jnp.zeros(padded_size(self._dim), jnp.int32)]

    def _aggregate(
        self, norms: Norms, noise: Any, total: Any, key: Array
    ) -> tuple[list[Array], Any]:
        """The mean of the updates, decoded from the sum modulo 2^bits."""
        (sums,) = total.updates
        decoded = centred(sums, self.bits).astype(jnp.float32) / self.scale(norms)
        vector = rotated_back(decoded, self._signs(key), self._dim)
        return in_shapes(vector / jnp.maximum(total.participants, 1.0), self.shapes), noise
