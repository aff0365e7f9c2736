"""Sums of integers with noise of each participant, as under secure aggregation.

Participant i of n clips its update to length C, turns it by a random rotation U that the round's
participants share, rounds it to a grid at random and adds a share of the noise; the sum is known
modulo m = 2^b (Kairouz, Liu & Steinke 2021, arXiv:2102.06387, algorithms 1 and 2, with the noise of
Agarwal, Kairouz & Liu 2021, arXiv:2110.04995, algorithm 1):

    z_i = round(s U clip(u_i)) + Skellam(variance (s z C)^2 / n),   mean = U^T (sum_i z_i mod m) / s

divided by the number of actual participants. `DistributedDpSumFactory` inside
`UnweightedMeanFactory` of `tff.aggregators` computes the same, and tests compare the two. As in
TFF, rounding has no condition on the result's length (beta = 0); accounting adds sqrt(d) steps of
the grid for it.

Integers are added modulo 2^32, which m divides, so that their sum modulo m is exact and has the
same bits in any order and on any number of devices.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fl_audit.canaries.families import factor_sizes
from fl_audit.engines.jax.aggregation import Aggregation, Norms
from fl_audit.engines.jax.scoring import sylvester_factors, walsh_hadamard
from fl_audit.engines.jax.skellam_draws import skellam
from fl_audit.engines.jax.threefry import fold_in, random_bits
from fl_audit.mechanisms.distributed import padded_size
from fl_audit.tasks.jax.classifier import Array, Weights

_OF_SIGNS, _OF_PARTICIPANTS = 0, 2
"""What a round's key is folded with; 1, the number of arrays of a sum, is for the clip's count."""


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
    """Each value's floor, plus one with the probability of what is above it; int32.

    The mean is the value, and the variance f (1 - f) for a fraction f (arXiv:2102.06387, section
    4.1, with beta = 0).

    Args:
      values: The values, float32, below 2^31 in absolute value.
    """
    floor = jnp.floor(values)
    chance = (random_bits(key, values.shape) >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)
    is_up = chance < values - floor
    return floor.astype(jnp.int32) + is_up.astype(jnp.int32)


def centred(sums: Array, bits: int) -> Array:
    """Integers modulo 2^bits (bits at most 31), from -2^(bits - 1) up; int32."""
    half = 1 << (bits - 1)
    return ((sums + half) & (2 * half - 1)) - half


@dataclass(frozen=True, kw_only=True)
class IntegerSums(Aggregation):
    """The aggregation of integers with Skellam noise of each participant.

    The denominator is the expected number n of participants, an integer: each adds a share 1/n of
    the noise's variance, and the count for the clip norm is divided by n. Sums are divided by the
    number of actual participants; without any the aggregate is zero.
    """

    shapes: Sequence[tuple[int, ...]]  # of the weights
    bits: int  # of a sum
    most_cells: float  # the clip norm in steps of the grid for which the bits suffice
    largest_scale: float  # the most steps of the grid in one unit

    @property
    def _dim(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def scale(self, norms: Norms) -> Array:
        """The number s of steps of the grid in one unit."""
        return jnp.minimum(self.most_cells / norms.clip, jnp.float32(self.largest_scale))

    def _signs(self, key: Array) -> Array:
        return random_signs(fold_in(key, _OF_SIGNS), padded_size(self._dim))

    def _sum(
        self, norms: Norms, updates: Weights, factors: Array, numbers: Array, key: Array
    ) -> list[Array]:
        """The sum of what participants send, who are encoded one after another."""
        of_participants = fold_in(key, _OF_PARTICIPANTS)
        signs = self._signs(key)

        def with_next(at: Array, total: Array) -> Array:
            # An update that counts as zero may hold what is no number.
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
        mean = vector / jnp.maximum(total.participants, 1.0)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        pieces = zip(jnp.split(mean, ends[:-1]), self.shapes, strict=True)
        return [piece.reshape(shape) for piece, shape in pieces], noise
