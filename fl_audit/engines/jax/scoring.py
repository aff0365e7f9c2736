"""Scores of canaries on an accelerator, from the same random bits as with NumPy.

`hadamard`: the pool's signs and columns stay on the device, where one Walsh-Hadamard transform, as
products with three small matrices, scores all canaries. `gaussian`: parts of many canaries' random
streams run in parallel; the numbers are drawn and multiplied on the device, and never leave it.

Everything is in float32 and 32-bit unsigned words, which all devices have. Scores agree with
`fl_audit.canaries.families` up to rounding in float32.
"""

import abc
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.canaries.families import (
    PIECE,
    CanaryFamily,
    GaussianFamily,
    HadamardFamily,
    cosines_of,
    sylvester,
)
from fl_audit.resources import num_cores
from fl_audit.tasks.jax.jax_classifier import Array

_BYTES_PER_NUMBER = 32
"""A generous bound on the bytes per number of a canary's piece, over all arrays that coexist."""

_MOST_AT_ONCE = 4096
_RUN = 256

_STRETCH = 1 << 13
"""The number of words of a stream that are drawn one after another."""

_STRETCHES = PIECE // 2 // _STRETCH
"""The number of stretches in a whole piece."""


def scored_on(family: CanaryFamily, device: Any) -> "ScoredFamily | None":
    """A family scored on an accelerator; None on a CPU (NumPy is faster) or for other families."""
    if device.platform == "cpu":
        return None
    if isinstance(family, HadamardFamily):
        return HadamardOnDevice(family, device)
    if isinstance(family, GaussianFamily):
        return GaussianOnDevice(family, device, _canaries_at_once(device))
    return None


def _canaries_at_once(device: Any) -> int:
    """The number of canaries whose pieces fill an eighth of a device's memory, 1 to 4,096."""
    room = int(device.memory_stats()["bytes_limit"]) // 8
    return max(1, min(_MOST_AT_ONCE, room // (PIECE * _BYTES_PER_NUMBER)))


class ScoredFamily(abc.ABC):
    """Canaries of a family, scored on a device."""

    def __init__(self, family: CanaryFamily) -> None:
        self._family = family

    def vector(self, canary: int) -> Float32Array:
        """The canary's unit vector, float32 of shape (dim,)."""
        return self._family.vector(canary)

    def cosines(self, target: Float32Array) -> FloatArray:
        """The cosine of every canary with a vector, as `CanaryFamily.cosines`."""
        return cosines_of(target, self.inner_products(target))

    @abc.abstractmethod
    def inner_products(self, target: Float32Array) -> FloatArray:
        """The inner product of every canary's unit vector with a vector, float64 (canaries,)."""


class HadamardOnDevice(ScoredFamily):
    """`hadamard` canaries on a device."""

    def __init__(self, family: HadamardFamily, device: Any) -> None:
        """Copies the pool's signs, columns and rows to the device, five bytes per coordinate."""
        super().__init__(family)
        columns, signs = family.columns_and_signs()
        self._placed = jax.device_put((columns, signs, family.rows()), device)
        self._scale = 1 / math.sqrt(family.dim)
        self._factors = jax.device_put(sylvester_factors(family.factor_sizes), device)
        self._device = device
        self._products = jax.jit(_hadamard_products)

    def inner_products(self, target: Float32Array) -> FloatArray:
        on_device = jax.device_put(target, self._device)
        products = self._products(on_device, *self._placed, self._factors)
        return np.asarray(products, np.float64) * self._scale


def _hadamard_products(
    target: Array, columns: Array, signs: Array, rows: Array, factors: Sequence[Array]
) -> Array:
    values = jnp.zeros(math.prod(factor.shape[0] for factor in factors), jnp.float32)
    values = values.at[columns].set(target * signs, unique_indices=True)
    return walsh_hadamard(values, factors)[rows]


# Gaussian canaries. NumPy's SFC64 (Doty-Humphrey 2018) in words of 32 bits.


Word = tuple[Array, Array]
"""The low and high halves of 64-bit words, uint32."""


def _add(left: Word, right: Word) -> Word:
    low = left[0] + right[0]
    return low, left[1] + right[1] + (low < left[0]).astype(jnp.uint32)


def _left(word: Word, by: int) -> Word:
    low, high = word
    return low << by, (high << by) | (low >> (32 - by))


def _right(word: Word, by: int) -> Word:
    low, high = word
    return (low >> by) | (high << (32 - by)), high >> by


def _rotated_24(word: Word) -> Word:
    low, high = word
    return (low << 24) | (high >> 8), (high << 24) | (low >> 8)


def _xor(left: Word, right: Word) -> Word:
    return left[0] ^ right[0], left[1] ^ right[1]


def _sfc64(state: Sequence[Word], _: None) -> tuple[list[Word], Word]:
    """The next state, and the next word, of many streams at once."""
    a, b, c, counter = state
    word = _add(_add(a, b), counter)
    step = (jnp.ones_like(a[0]), jnp.zeros_like(a[0]))
    following = [
        _xor(b, _right(b, 11)),
        _add(c, _left(c, 3)),
        _add(_rotated_24(c), word),
        _add(counter, step),
    ]
    return following, word


class GaussianOnDevice(ScoredFamily):
    """`gaussian` canaries on a device, generated again in every round.

    A stream cannot skip words. So its state is cached at every 8,192 words, 16 MB for 2,000
    canaries of 4 million coordinates, and all stretches of a piece are drawn in parallel.
    """

    def __init__(self, family: GaussianFamily, device: Any, at_once: int) -> None:
        """Runs through all streams on the host; `at_once` canaries are drawn in parallel."""
        super().__init__(family)
        self._count, self._dim, self._device = family.num_canaries, family.dim, device
        size = min(at_once, self._count)
        # The last block is filled with repeated canaries, so that one compiled program suffices.
        members = np.arange(-(-self._count // size) * size) % self._count
        stretches = _stretches_of(family)[members].reshape(-1, size, *_stretches_shape(family.dim))
        self._blocks = jax.device_put(list(stretches.transpose(0, 2, 3, 4, 1)), device)
        self._of_piece = jax.jit(_gaussian_piece)

    def inner_products(self, target: Float32Array) -> FloatArray:
        on_device = jax.device_put(target, self._device)
        products = [self._block_products(stretches, on_device) for stretches in self._blocks]
        return np.concatenate(products)[: self._count]

    def _block_products(self, stretches: Array, target: Array) -> FloatArray:
        sums = [
            self._of_piece(
                stretches[at * _STRETCHES : (at + 1) * _STRETCHES], target[start : start + PIECE]
            )
            for at, start in enumerate(range(0, self._dim, PIECE))
        ]
        products, squares = np.asarray(sums, np.float64).sum(axis=0)
        return np.asarray(products / np.sqrt(squares))


def _stretches_shape(dim: int) -> tuple[int, int, int]:
    """The shape of a canary's states: stretches, words in a state (4), halves of a word (2)."""
    words = (dim + 1) // 2  # a word gives a pair of numbers
    return -(-words // _STRETCH), 4, 2


def _stretches_of(family: GaussianFamily) -> npt.NDArray[np.uint32]:
    """The state of each canary's stream before each stretch; of a word, the low half is first."""
    states = np.empty((family.num_canaries, *_stretches_shape(family.dim)), np.uint32)

    def run_through(canary: int) -> None:
        stream = family.stream(canary)
        for stretch in states[canary]:
            words = np.asarray(stream.state["state"]["state"], "<u8")
            stretch[:] = words.view("<u4").reshape(4, 2)
            stream.random_raw(_STRETCH, output=False)

    with ThreadPoolExecutor(num_cores()) as threads:
        list(threads.map(run_through, range(family.num_canaries)))
    return states


def _gaussian_piece(stretches: Array, target: Array) -> Array:
    """Inner products of canaries' pieces with the target's, and the pieces' squares; (2, canaries).

    Canaries' numbers are drawn as by `HalfNormals.draw`: the first half of the 32-bit words gives
    radii, the second half angles; all cosines come first, then all sines.

    Args:
      stretches: The states before the piece's stretches, of shape (stretches, 4, 2, canaries).
      target: The target's coordinates in the piece, of shape (coordinates,).
    """
    count = target.shape[0]
    pairs = (count + 1) // 2
    state = [(stretches[:, word, 0], stretches[:, word, 1]) for word in range(4)]
    _, words = lax.scan(_sfc64, state, None, length=_STRETCH, unroll=8)
    # To shape (stretches, words, halves, canaries), so that stretches are in order.
    halves = jnp.stack(words, axis=1).transpose(2, 0, 1, 3)
    halves = halves.reshape(-1, halves.shape[-1])[: 2 * pairs]
    inverses = jnp.float32(2**32) / (halves[:pairs] | 1).astype(jnp.float32)
    radii = jnp.sqrt(jnp.maximum(jnp.log(inverses), 0.0))
    whole = lax.bitcast_convert_type(halves[pairs:], jnp.int32).astype(jnp.float32)
    angles = whole * jnp.float32(math.pi / 2**31)
    cosines, sines = radii * jnp.cos(angles), radii * jnp.sin(angles)
    if count % 2:
        sines = sines.at[-1].set(0.0)
    along = jnp.concatenate([target, jnp.zeros(count % 2, jnp.float32)]).reshape(2, pairs, 1)
    products = cosines * along[0] + sines * along[1]
    return jnp.stack([_total(products), _total(cosines * cosines + sines * sines)])


def _total(rows: Array) -> Array:
    """The sum over rows, in groups, so that rounding does not grow with their number."""
    missing = -rows.shape[0] % _RUN
    padded = jnp.pad(rows, ((0, missing), (0, 0)))
    return jnp.sum(jnp.sum(padded.reshape(-1, _RUN, rows.shape[1]), axis=1), axis=0)


# Products with a Walsh-Hadamard matrix.


def sylvester_factors(sizes: Sequence[int]) -> list[Float32Array]:
    """The matrices whose Kronecker product is H, of sizes from `factor_sizes`."""
    return [sylvester(size).astype(np.float32) for size in sizes]


def walsh_hadamard(values: Array, factors: Sequence[Array]) -> Array:
    """H times 2^p float32 values, as `fl_audit.canaries.families.walsh_hadamard` defines it."""
    first, middle, last = factors
    sizes = [factor.shape[0] for factor in factors]
    with jax.default_matmul_precision("float32"):
        values = first @ values.reshape(sizes[0], -1)
        values = jnp.einsum("ij,ajc->aic", middle, values.reshape(sizes))
        return (values.reshape(-1, sizes[2]) @ last).reshape(-1)
