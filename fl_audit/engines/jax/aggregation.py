"""Zeroing, clipping, the sum, Gaussian noise, and adaptive norms.

The code follows TFF's `DifferentiallyPrivateFactory` with tensorflow-privacy's queries step by
step, and tests compare the two: without noise, aggregates and norms are equal; with noise, their
distributions are equal. This second implementation exists because TFF and tensorflow-privacy do not
install on current Python, where this engine runs too.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from fl_audit.engines.jax.noise_processes import (
    FreshNoise,
    NoiseProcess,
    fold_in,
    normal_like,
    standard_normal,
)
from fl_audit.tasks.jax.jax_classifier import Array, Weights

if TYPE_CHECKING:  # `benchmarks/gpu.py` runs with only JAX and NumPy installed
    from fl_audit.accounting.release import Noise
    from fl_audit.mechanisms.zeroing import AdaptiveZeroing


class Norms(NamedTuple):
    """The norms by which a round clips and zeroes, float32 scalars; infinite for no such step.

    `zeroing_estimate` is a fixed zeroing norm, or the estimate from which an adaptive zeroing norm
    follows.
    """

    clip: Array
    zeroing_estimate: Array


class Summed(NamedTuple):
    """A sum over participants."""

    updates: Any  # the sums of zeroed and clipped updates, or one vector under `IntegerSums`
    participants: Array  # the number of participants
    unclipped: Array  # the number of updates within the clip norm, zeroed ones included
    below_zeroing: Array  # the number of updates without a coordinate above the zeroing estimate
    totals: Array  # the summed loss and the number of tokens trained on


@dataclass(frozen=True)
class Aggregation:
    """The parameters of a mechanism's aggregation, and its steps."""

    begin: Norms  # of the first round
    clip_quantile: float  # the target share of updates below the clip norm
    clip_rate: float  # of the clip norm's geometric update; 0 for a fixed clip norm
    zeroing: "AdaptiveZeroing | None"  # None if the zeroing norm is fixed, or infinite
    noise: "Noise"  # on a round's sum; on an upload under `ClientNoise`
    denominator: float  # of sums
    process: NoiseProcess = field(default_factory=FreshNoise)

    def zeroing_norm(self, norms: Norms) -> Array:
        """The largest absolute coordinate that an update may have."""
        if self.zeroing is None:
            return norms.zeroing_estimate
        return self.zeroing.multiplier * norms.zeroing_estimate + self.zeroing.increment

    def clipped_sum(
        self, norms: Norms, updates: Weights, totals: Array, numbers: Array, key: Array
    ) -> Any:
        """The `Summed` of a block of n participants, some of which may be padding.

        `numbers`, (n,), has each participant's number in the round, or -1 for padding; `totals`,
        (n, 2), each participant's loss and tokens.
        """
        takes_part = numbers >= 0
        rows = [update.reshape(update.shape[0], -1) for update in updates]
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(row), 1) for row in rows]), 0)
        is_kept = takes_part & ~(largest > self.zeroing_norm(norms))
        squares = jnp.sum(jnp.stack([jnp.sum(row * row, 1) for row in rows]), 0)
        lengths = jnp.where(is_kept, jnp.sqrt(squares), 0.0)
        factors = jnp.where(is_kept, norms.clip / jnp.maximum(lengths, norms.clip), 0.0)
        factors = jnp.where(jnp.isfinite(norms.clip), factors, is_kept.astype(jnp.float32))

        def count(what: Array) -> Array:
            return jnp.sum(takes_part & what, dtype=jnp.float32)

        return Summed(
            self._sum(norms, updates, factors, numbers, key),
            jnp.sum(takes_part, dtype=jnp.float32),
            count(lengths <= norms.clip),
            count(largest <= norms.zeroing_estimate),
            jnp.sum(jnp.where(takes_part[:, None], totals, 0.0), 0),
        )

    def _sum(
        self, norms: Norms, updates: Weights, factors: Array, numbers: Array, key: Array
    ) -> list[Array]:
        """The sum of updates, each times its factor, with the noise that participants add."""
        sums = [jnp.tensordot(factors, update, 1) for update in updates]
        if self.process.is_at_clients:
            return self._with_noise_of_each(norms, sums, numbers, key)
        return sums

    def _with_noise_of_each(
        self, norms: Norms, sums: Weights, numbers: Array, key: Array
    ) -> list[Array]:
        """Sums of updates with the noise of each participant, drawn one after another."""

        def add(at: Array, sums: list[Array]) -> list[Array]:
            noise = self.noise_of(norms, sums, numbers[at], key)
            takes_part = numbers[at] >= 0
            return [
                of_sum + jnp.where(takes_part, part, 0.0)
                for of_sum, part in zip(sums, noise, strict=True)
            ]

        result: list[Array] = lax.fori_loop(0, numbers.shape[0], add, list(sums))
        return result

    def noise_of(self, norms: Norms, like: Weights, number: Array, key: Array) -> list[Array]:
        """The noise of a participant's upload, in the shapes of `like`."""
        stddev = norms.clip * self.noise.sum_noise_multiplier
        own = fold_in(key, number)
        return [stddev * part for part in normal_like(own, like)]

    def nothing(self, weights: Weights) -> Any:
        """The sum over no participants; its arrays share no memory, as all are overwritten."""
        zeros = [jnp.zeros(shape, jnp.float32) for shape in ((), (), (), 2)]
        return Summed(self._no_sum(weights), *zeros)

    def _no_sum(self, weights: Weights) -> list[Array]:
        return [jnp.zeros_like(w) for w in weights]

    def release(
        self, norms: Norms, noise: Any, total: Any, key: Array
    ) -> tuple[Weights, Norms, Any]:
        """The noised sum divided by the denominator, the next norms, and the noise's next state."""
        aggregate, noise = self._aggregate(norms, noise, total, key)
        next_norms = Norms(self._next_clip(norms, total, key), self._next_zeroing(norms, total))
        return aggregate, next_norms, noise

    def _aggregate(
        self, norms: Norms, noise: Any, total: Any, key: Array
    ) -> tuple[list[Array], Any]:
        """The noised sum divided by the denominator, and the noise's next state."""
        aggregate: list[Array] = total.updates
        if self.noise.sum_noise_multiplier:
            stddev = norms.clip * self.noise.sum_noise_multiplier
            added, noise = self.process.next(noise, key, aggregate)
            aggregate = [
                of_sum + stddev * part for of_sum, part in zip(aggregate, added, strict=True)
            ]
        return [of_sum / self.denominator for of_sum in aggregate], noise

    def _next_clip(self, norms: Norms, total: Any, key: Array) -> Array:
        """The clip norm after a round (Andrew et al. 2021, arXiv:1905.03871, section 2.1)."""
        if not self.clip_rate:
            return norms.clip
        # Each update counts as 1/2 or -1/2, so that a client changes the count by one half.
        count = total.unclipped - 0.5 * total.participants
        if self.noise.count_noise_stddev:
            of_count = fold_in(key, len(total.updates))
            count += self.noise.count_noise_stddev * standard_normal(of_count, ())
        share = jnp.clip(count / self.denominator + 0.5, 0.0, 1.0)
        return norms.clip * jnp.exp(-self.clip_rate * (share - self.clip_quantile))

    def _next_zeroing(self, norms: Norms, total: Any) -> Array:
        """The zeroing estimate after a round, without noise; an empty round leaves it unchanged."""
        if self.zeroing is None:
            return norms.zeroing_estimate
        share = total.below_zeroing / jnp.maximum(total.participants, 1.0)
        moved = norms.zeroing_estimate * jnp.exp(
            -self.zeroing.learning_rate * (share - self.zeroing.target_quantile)
        )
        return jnp.where(total.participants > 0, moved, norms.zeroing_estimate)
