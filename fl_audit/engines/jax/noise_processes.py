"""The noise of rounds: independent, correlated by a matrix or by trees, or from each participant.

A `NoiseProcess` generates noise from independent standard normal draws; the caller scales it. For
independent noise each round draws a key from the operating system. Correlated noise and noise from
participants have one key for all rounds, drawn when a run begins and kept in its state: a state
fixes all future noise, after any restart, and anyone who sees the state can subtract the noise. In
production each device draws its own key.

Numbers come from Threefry4x32-20, a counter-based generator with keys of 128 bits (Salmon et al.
2011, "Parallel random numbers: as easy as 1, 2, 3", SC'11); the authors' library Random123 draws
the same words. Threefry passes the usual statistical tests, but is not cryptographic. JAX's own
generators have keys of 64 bits, or draw other numbers inside `vmap` than outside.

A key is four words, uint32 of shape (4,).
"""

import abc
import math
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fl_audit.tasks.jax.jax_classifier import Array, Weights

if TYPE_CHECKING:  # `benchmarks/gpu.py` runs with only JAX and NumPy installed
    from fl_audit.mechanisms.kind import NoiseStream


_ROTATIONS = np.array(
    [[(10, 26), (11, 21), (13, 27), (23, 5)], [(6, 20), (17, 11), (25, 10), (18, 20)]], np.uint32
)
"""The rotations in bits: two alternating groups of four rounds, two words in each round."""

_GROUPS = 5
"""The number of groups of four rounds; the key is added after each group."""

_PARITY = 0x1BD11BDA

_OF_BITS, _OF_KEYS = 0, 1
"""The last word of the counter: for random words, and for derived keys."""


def threefry(key: Array, counter: list[Array]) -> list[Array]:
    """Four random words for each counter; a counter is four uint32 arrays, which broadcast."""
    words = jnp.stack([*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ jnp.uint32(_PARITY)])
    begin = jnp.broadcast_arrays(*[of_counter + words[at] for at, of_counter in enumerate(counter)])
    rotations = jnp.asarray(_ROTATIONS)

    # A loop, because XLA on a CPU would recompute all twenty rounds for each word that uses them.
    def group(at: Array, x: list[Array]) -> list[Array]:
        a, b, c, d = x
        for of_round in range(4):
            first, second = rotations[at % 2, of_round]
            a, c = a + b, c + d
            # The second and the fourth word are swapped for the next round.
            b, d = _rotated(d, second) ^ c, _rotated(b, first) ^ a
        x = [word + words[(place + at + 1) % 5] for place, word in enumerate((a, b, c, d))]
        return [*x[:3], x[3] + (at + 1).astype(jnp.uint32)]

    mixed: list[Array] = lax.fori_loop(0, _GROUPS, group, list(begin))
    return mixed


def _rotated(word: Array, bits: Array) -> Array:
    return (word << bits) | (word >> (jnp.uint32(32) - bits))


def random_words(key: Array, blocks: int) -> list[Array]:
    """Four arrays of independent random words, uint32 of shape (blocks,), blocks at most 2^32."""
    zero = jnp.uint32(0)
    counter = [jnp.arange(blocks, dtype=jnp.uint32), zero, zero, jnp.uint32(_OF_BITS)]
    return threefry(key, counter)


def random_bits(key: Array, shape: tuple[int, ...]) -> Array:
    """Independent random words, uint32 of a shape."""
    size = math.prod(shape)
    return jnp.concatenate(random_words(key, -(-size // 4)))[:size].reshape(shape)


def fold_in(key: Array, number: int | Array) -> Array:
    """A key derived from a key and a number of 32 bits; all derived keys are independent."""
    zero = jnp.zeros((), jnp.uint32)
    word = lax.convert_element_type(number, jnp.uint32)
    return jnp.stack(threefry(key, [word, zero, zero, jnp.uint32(_OF_KEYS)]))


# Keys.


NoiseKeys = Callable[[int], Array]
"""A function from the index of a round to the key of its noise."""


def fresh_keys() -> NoiseKeys:
    """Secret keys, each of 128 bits of the operating system's entropy."""
    return lambda index: jnp.asarray(np.frombuffer(secrets.token_bytes(16), np.uint32))


def keys_of(random: np.random.Generator) -> NoiseKeys:
    """Keys from a generator, 128 bits each, for a replayed round."""
    return lambda index: jnp.asarray(random.integers(0, 2**32, 4, np.uint32))


def standard_normal(key: Array, shape: tuple[int, ...]) -> Array:
    """Standard normal numbers, float32, by Box and Muller's method.

    `jax.random.normal` inverts the distribution function at one of 2^23 numbers, so that no value
    exceeds 5.4. An audit looks at tails, so here the radius is made from 64 bits and ends at 9.49.
    """
    size = math.prod(shape)
    high, low, turn, _ = (word.astype(jnp.float32) for word in random_words(key, -(-size // 2)))
    uniform = (high + (low + 0.5) * jnp.float32(2.0**-32)) * jnp.float32(2.0**-32)
    radius = jnp.sqrt(-2.0 * jnp.log(jnp.minimum(uniform, 1.0)))
    angle = turn * jnp.float32(2.0**-31 * math.pi)
    pairs = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], 1)
    return pairs.reshape(-1)[:size].reshape(shape)


def normal_like(key: Array, like: Weights) -> list[Array]:
    """Independent standard normal arrays in the shapes of `like`."""
    shapes = [part.shape for part in like]
    return in_shapes(standard_normal(key, (sum(map(math.prod, shapes)),)), shapes)


def in_shapes(vector: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """A vector split into arrays of these shapes, in their order."""
    pieces = jnp.split(vector, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


# Processes.


class NoiseProcess(abc.ABC):
    """Generates the noise of rounds from independent standard normal numbers."""

    is_at_clients = False  # whether participants add the noise, and the server none

    @abc.abstractmethod
    def begin(self, weights: Weights, key: Array) -> Any:
        """The state before the first round, of arrays; `weights` have the shapes of the sum."""

    def key_of_round(self, state: Any, fresh: Array) -> Array:
        """The key of a round, from the state's key and the round's number; else `fresh`."""
        return fold_in(state.key, state.calls)

    @abc.abstractmethod
    def next(self, state: Any, key: Array, sums: Weights) -> tuple[list[Array], Any]:
        """The noise of a round in the shapes of `sums`, and the next state."""


class FreshNoise(NoiseProcess):
    """Independent noise in each round, without a state."""

    def begin(self, weights: Weights, key: Array) -> tuple[()]:
        return ()

    def key_of_round(self, state: Any, fresh: Array) -> Array:
        return fresh

    def next(self, state: Any, key: Array, sums: Weights) -> tuple[list[Array], Any]:
        return normal_like(key, sums), state


class NoiseState(NamedTuple):
    """The state between two rounds of noise with one key for all rounds."""

    key: Array
    calls: Array  # rounds so far, int32
    # of correlated noise, the kept vectors, stacked, for each array of the sum; else empty
    past: list[Array]
    # under trees, the noise on the sum over the tree's rounds so far; else empty
    released: list[Array]


class ClientNoise(NoiseProcess):
    """Noise from each participant, by the round's key and the participant's number in the round."""

    is_at_clients = True

    def begin(self, weights: Weights, key: Array) -> NoiseState:
        return NoiseState(key, jnp.zeros((), jnp.int32), [], [])

    def next(self, state: NoiseState, key: Array, sums: Weights) -> tuple[list[Array], NoiseState]:
        """No noise on the sum, and the next state."""
        return [jnp.zeros_like(part) for part in sums], state._replace(calls=state.calls + 1)


class CorrelatedNoise(NoiseProcess):
    """Noise correlated with earlier rounds' noise, all from one key."""

    def __init__(self, num_kept: int) -> None:
        """`num_kept` is the number of kept vectors."""
        self._num_kept = num_kept

    def begin(self, weights: Weights, key: Array) -> NoiseState:
        past = [jnp.zeros((self._num_kept, *w.shape), jnp.float32) for w in weights]
        return NoiseState(key, jnp.zeros((), jnp.int32), past, [])


class MatrixNoise(CorrelatedNoise):
    """Rows of C^-1 z, with weights of z and of kept vectors from `mechanisms.kind.NoiseStream`."""

    def __init__(self, stream: "NoiseStream") -> None:
        super().__init__(len(stream.weights))
        self._stream = stream

    def next(self, state: NoiseState, key: Array, sums: Weights) -> tuple[list[Array], NoiseState]:
        pairs = [
            self._row(fresh, vectors)
            for fresh, vectors in zip(normal_like(key, sums), state.past, strict=True)
        ]
        past = [moved_on for _, moved_on in pairs]
        return [noise for noise, _ in pairs], state._replace(calls=state.calls + 1, past=past)

    def _row(self, fresh: Array, past: Array) -> tuple[Array, Array]:
        """The noise of a round, and the vectors that are kept after it."""
        stream = self._stream
        noise = stream.fresh * fresh
        if not stream.weights:
            return noise, past
        weights = jnp.asarray(stream.weights, jnp.float32)
        with jax.default_matmul_precision("float32"):
            noise = noise + jnp.tensordot(weights, past, 1)
        if stream.decays is None:
            newest = fresh if stream.keeps_fresh else noise
            return noise, jnp.concatenate([newest[None], past[:-1]])
        decays = jnp.asarray(stream.decays, jnp.float32)
        return noise, decays.reshape(-1, *[1] * fresh.ndim) * past + noise


class TreeNoise(CorrelatedNoise):
    """Differences of the noise on prefix sums by binary trees (Honaker 2015; Kairouz et al. 2021).

    Every node of a tree has standard normal noise. A node's estimate weights its own noise and the
    sum of its children's estimates by their inverse variances: with b = own + (left b + right b) /
    2, the estimate is b / (2 - 2^-height), of variance 1 / (2 - 2^-height). The noise of a prefix
    sum adds up the estimates of its largest whole nodes; tensorflow-privacy's
    `EfficientTreeAggregator` does the same (arXiv:2103.00039, appendix B).
    """

    def __init__(self, period: int) -> None:
        """`period` is the number of rounds of a tree."""
        super().__init__(period.bit_length())
        self._period = period

    def begin(self, weights: Weights, key: Array) -> NoiseState:
        none_released = [jnp.zeros(w.shape, jnp.float32) for w in weights]
        return super().begin(weights, key)._replace(released=none_released)

    def next(self, state: NoiseState, key: Array, sums: Weights) -> tuple[list[Array], NoiseState]:
        leaf = state.calls % self._period
        is_first = leaf == 0
        past, prefix = self._with_leaf(leaf, key, state.past)
        noise = [
            now - jnp.where(is_first, 0.0, before)
            for now, before in zip(prefix, state.released, strict=True)
        ]
        return noise, state._replace(calls=state.calls + 1, past=past, released=prefix)

    def _with_leaf(
        self, leaf: Array, key: Array, past: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """The newest left child of each height after a new leaf, and the prefix sum's noise."""
        shapes = [jnp.zeros(vectors.shape[1:], jnp.float32) for vectors in past]

        def is_right(merged: tuple[Array, list[Array]]) -> Array:
            return (leaf >> merged[0]) & 1 == 1

        def merge(merged: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
            height, right = merged
            own = normal_like(fold_in(key, height + 1), shapes)
            parents = [
                mine + 0.5 * (vectors[height] + part)
                for mine, vectors, part in zip(own, past, right, strict=True)
            ]
            return height + 1, parents

        first = (jnp.zeros((), jnp.int32), normal_like(fold_in(key, 0), shapes))
        height, node = lax.while_loop(is_right, merge, first)
        heights = jnp.arange(self._num_kept)
        is_taken = ((leaf + 1) >> heights) & 1 == 1
        factors = jnp.where(is_taken, 1.0 / (2.0 - 0.5**heights), 0.0).astype(jnp.float32)
        stored = [vectors.at[height].set(part) for vectors, part in zip(past, node, strict=True)]
        with jax.default_matmul_precision("float32"):
            return stored, [jnp.tensordot(factors, vectors, 1) for vectors in stored]
