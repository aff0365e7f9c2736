"""The Walsh-Hadamard transform on a device, as products with three small matrices."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.canaries.families import sylvester
from fl_audit.tasks.jax.classifier import Array


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
