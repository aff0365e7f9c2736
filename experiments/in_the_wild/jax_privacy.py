"""jax_privacy's clipped sums, with its privatizers' noise."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import clipping, matrix_factorization, noise_addition

from experiments.in_the_wild.feature import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    SHAPES,
    Feature,
    pin_randomness,
)
from fl_audit import Promise

_MOST = 2 * COHORT + 4
"""The examples of every batch, filled up with zeros, so that one compilation serves all."""

_STATED = (
    "The L2 sensitivity of the returned function with respect to the batch arguments ... under "
    "add/remove or zero-out differential privacy definitions is guaranteed to be 1.0 if "
    "`rescale_to_unit_norm` is True. Otherwise, the sensitivity is `l2_clip_norm`."
)


def _server(privatizer: Any, options: dict) -> Callable:
    """One step from a fresh key: the clipped sum of a batch's gradients, with noise."""
    clipped_sum = clipping.clipped_fun(lambda gradient: gradient, keep_batch_dim=False, **options)
    stddev = NOISE_MULTIPLIER * clipped_sum.sensitivity()

    @jax.jit
    def step(batch: Any, key: Any) -> Any:
        noise = privatizer(stddev=stddev, prng_key=key)
        total = clipped_sum(batch)
        return noise.update(total, noise.init(total))[0]

    def server(_: Any, updates: list, random: np.random.Generator) -> tuple[Any, list]:
        missing = [[np.zeros(shape) for shape in SHAPES]] * (_MOST - len(updates))
        batch = [jnp.stack(parts) for parts in zip(*[*updates, *missing], strict=True)]
        released = step(batch, jax.random.key(pin_randomness(random)))
        return None, [np.asarray(part) for part in released]

    return server


def _feature(
    name: str,
    privatizer: Any = noise_addition.gaussian_privatizer,
    clip_norm: float = CLIP_NORM,
    denominator: float = 1.0,
    **options: Any,
) -> Feature:
    promise = Promise(
        clip_norm=clip_norm, denominator=denominator, noise_multiplier=NOISE_MULTIPLIER
    )
    return Feature(
        name=name,
        library="jax_privacy",
        stated=_STATED,
        source="clipped_fun",
        reading="one example more or less, one step",
        promise=promise,
        server=_server(privatizer, {"l2_clip_norm": CLIP_NORM, **options}),
    )


_FIRST_OF_BANDS = functools.partial(
    noise_addition.matrix_factorization_privatizer,
    matrix_factorization.toeplitz.inverse_as_streaming_matrix(jnp.array([1.0, 0.5, 0.375])),
)
_FIRST_OF_DENSE = functools.partial(
    noise_addition.matrix_factorization_privatizer, jnp.array([[1.0, 0.0], [-0.5, 1.0]])
)

FEATURES = (
    _feature("clipped_fun and gaussian_privatizer"),
    _feature("the same, rescaled to norm 1", clip_norm=1.0, rescale_to_unit_norm=True),
    _feature("the same, a mean", denominator=COHORT, normalize_by=COHORT),
    _feature("the same, microbatches of 4", microbatch_size=4),
    _feature("the same, summed in bfloat16", dtype=jnp.bfloat16),
    _feature("clipped_fun and the first step of a banded matrix", _FIRST_OF_BANDS),
    _feature("clipped_fun and the first step of a dense matrix", _FIRST_OF_DENSE),
)
