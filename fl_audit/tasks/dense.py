"""A classifier of dense layers, linear without hidden layers; initial weights for all models."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.resources import available_memory
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Network, NetworkModel


@dataclass(frozen=True)
class Dense(Network):
    """Dense layers with ReLU between them; weights are matrix, bias, matrix, bias, ..."""


def dense_classifier(widths: Sequence[int], seed: int, accuracy_description: str) -> NetworkModel:
    """The classifier of `widths` (features, hidden, ..., classes), weights drawn from the seed."""
    check_model_size((rows + 1, columns) for rows, columns in itertools.pairwise(widths))
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    weights = [
        array
        for rows, columns in itertools.pairwise(widths)
        for array in (he_normal(random, rows, columns), zeros(columns))
    ]
    return NetworkModel(
        network=Dense(),
        initial_weights=tuple(weights),
        input_shape=(widths[0],),
        accuracy_description=accuracy_description,
    )


# Initial weights are drawn by NumPy, so that they depend only on the seed on every device.

_LEAST_COPIES = 4
"""The least number of copies of a model in a round: model, client's model, update and sum."""


def check_model_size(shapes: Iterable[tuple[int, ...]]) -> None:
    """Refuses, before weights are drawn, a float32 model too large for training in free memory."""
    dim = sum(map(math.prod, shapes))
    needed, room = 4 * dim * _LEAST_COPIES, available_memory()
    if needed > room:
        raise InputError(
            f"task: the model has {dim:,} parameters; its training takes at least {needed:,} bytes "
            f"of memory, and {room:,} are free; choose smaller layers, or fewer classes or words"
        )


def he_normal(random: np.random.Generator, rows: int, columns: int) -> Float32Array:
    """A normal matrix with variance 2 / rows (He et al. 2015), for layers before a ReLU."""
    values = random.standard_normal((rows, columns), np.float32)
    return values * np.float32((2 / rows) ** 0.5)


def glorot_uniform(
    random: np.random.Generator, shape: tuple[int, ...], fan_in: int, fan_out: int
) -> Float32Array:
    """A uniform array of variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010), Keras' default."""
    limit = np.sqrt(6 / (fan_in + fan_out))
    return random.uniform(-limit, limit, shape).astype(np.float32)


def orthogonal(random: np.random.Generator, rows: int, columns: int) -> Float32Array:
    """A matrix with orthonormal rows (rows <= columns), Keras' default for recurrent weights."""
    q, r = np.linalg.qr(random.standard_normal((columns, rows)))
    return np.ascontiguousarray((q * np.sign(np.diag(r))).T).astype(np.float32)


def zeros(size: int) -> Float32Array:
    return np.zeros(size, np.float32)
