"""optax's DP-SGD transformation, which divides by the batch that came."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optax.contrib import differentially_private_aggregate

from experiments.in_the_wild.feature import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    SHAPES,
    Feature,
    pin_randomness,
)
from fl_audit import Promise


def _step(_: Any, updates: list, random: np.random.Generator) -> tuple[Any, Any]:
    """One step from a fresh key, on a batch that is filled up with zeros to the expected one."""
    made = differentially_private_aggregate(
        CLIP_NORM, NOISE_MULTIPLIER, jax.random.key(pin_randomness(random))
    )
    missing = [[np.zeros(shape) for shape in SHAPES]] * max(COHORT - len(updates), 0)
    batch = [jnp.stack(parts) for parts in zip(*[*updates, *missing], strict=True)]
    released, _ = made.update(batch, made.init(batch))
    return None, [np.asarray(part) for part in released]


_STATED = (
    "Aggregates gradients based on the DPSGD algorithm. ... noise_multiplier: ratio of standard "
    "deviation to the clipping norm."
)

FEATURES = (
    Feature(
        "differentially_private_aggregate, batches of one size",
        "optax",
        _STATED,
        "differentially_private_aggregate",
        "one example of the batch is replaced by one without a gradient",
        Promise(clip_norm=CLIP_NORM, denominator=COHORT, noise_multiplier=NOISE_MULTIPLIER),
        _step,
        warned=("denominator",),
    ),
)
