"""Threefry4x32-20, a counter-based generator with keys of 128 bits (Salmon et al. 2011).

"Parallel random numbers: as easy as 1, 2, 3", SC'11; the same words as the authors' Random123.
JAX's own generators have keys of 64 bits, or draw other numbers inside `vmap` than outside. It
passes the usual statistical tests, and is not cryptographic.

A key is four words, uint32 of shape (4,).
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from fl_audit.tasks.jax.classifier import Array

_ROTATIONS = np.array(
    [[(10, 26), (11, 21), (13, 27), (23, 5)], [(6, 20), (17, 11), (25, 10), (18, 20)]], np.uint32
)
"""By how much words are rotated: two groups of four rounds that take turns, two pairs in each."""

_GROUPS = 5
"""The groups of four rounds; the key is added after each."""

_PARITY = 0x1BD11BDA

_OF_BITS, _OF_KEYS = 0, 1
"""The last word of the counter, for numbers and for keys."""


def threefry(key: Array, counter: list[Array]) -> list[Array]:
    """Four random words for each counter, itself four uint32 words that broadcast."""
    words = jnp.stack([*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ jnp.uint32(_PARITY)])
    begin = jnp.broadcast_arrays(*[of_counter + words[at] for at, of_counter in enumerate(counter)])
    rotations = jnp.asarray(_ROTATIONS)

    # A loop, as XLA on a CPU works all twenty rounds out again for each word that uses them.
    def group(at: Array, x: list[Array]) -> list[Array]:
        a, b, c, d = x
        for of_round in range(4):
            first, second = rotations[at % 2, of_round]
            a, c = a + b, c + d
            # The second and the fourth word change places for the next round.
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
    """The key with a number, of 32 bits, among those that follow from a key; all independent."""
    zero = jnp.zeros((), jnp.uint32)
    word = lax.convert_element_type(number, jnp.uint32)
    return jnp.stack(threefry(key, [word, zero, zero, jnp.uint32(_OF_KEYS)]))
