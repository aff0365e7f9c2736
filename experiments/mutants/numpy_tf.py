"""The functions of TensorFlow that tensorflow-privacy's queries use, on NumPy arrays.

A mutant's distribution is first tested on TensorFlow itself. Hundreds of rounds of the tools then
cost a twentieth on NumPy; whether a mutant's rounds are the same on both is tested, too
(`queries.py`).
"""

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow

Shape = Any

_random = [np.random.default_rng(0)]


def set_seed(seed: int) -> None:
    """Begins the noise anew."""
    _random[0] = np.random.default_rng(seed)


def normal(
    shape: Shape, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, seed: Any = None
) -> np.ndarray:
    """Normal numbers."""
    drawn = np.asarray(_random[0].standard_normal(np.asarray(shape, np.int64)), np.float32)
    return np.asarray(mean + stddev * drawn, dtype)


def random_normal_initializer(
    mean: Any = 0.0, stddev: Any = 0.05, seed: Any = None
) -> Callable[[Shape], np.ndarray]:
    """A function that draws normal numbers of a shape."""
    return lambda shape, dtype=np.float32: normal(shape, mean, stddev, dtype)


def cast(value: Any, dtype: Any) -> np.ndarray:
    """The value in another type."""
    return np.asarray(value).astype(dtype)


def clip_by_global_norm(parts: Any, clip_norm: Any, use_norm: Any = None) -> Any:
    """TensorFlow's clip: parts times clip_norm / max(norm, clip_norm); NaN where that is none."""
    norm = _norm(parts) if use_norm is None else use_norm
    scale = clip_norm * np.minimum(np.float32(1) / norm, np.float32(1) / np.float32(clip_norm))
    scale = scale + (norm - norm)
    return [np.asarray(part * scale, part.dtype) for part in parts], norm


def _norm(parts: Any) -> np.float32:
    squares = sum(np.sum(np.square(part, dtype=np.float64)) for part in parts)
    return np.float32(np.sqrt(squares))


def assert_scalar(value: Any) -> None:
    """Raises if a value is no scalar."""
    if np.ndim(value):
        raise ValueError("must be a scalar")


module = types.SimpleNamespace(
    __version__=tensorflow.__version__,
    nest=tensorflow.nest,
    random=types.SimpleNamespace(normal=normal, set_seed=set_seed),
    random_normal_initializer=random_normal_initializer,
    cast=cast,
    constant=lambda value, dtype=None: np.asarray(value, dtype),
    convert_to_tensor=lambda value, dtype=None: np.asarray(value, dtype),
    clip_by_global_norm=clip_by_global_norm,
    linalg=types.SimpleNamespace(global_norm=_norm),
    debugging=types.SimpleNamespace(assert_scalar=assert_scalar),
    math=types.SimpleNamespace(exp=np.exp),
    exp=np.exp,
    add=np.add,
    truediv=np.true_divide,
    shape=lambda input: np.array(np.shape(input), np.int64),
    zeros=lambda shape, dtype=np.float32: np.zeros(shape, dtype),
    zeros_like=np.zeros_like,
    minimum=np.minimum,
    maximum=np.maximum,
    float32=np.float32,
    TensorSpec=tensorflow.TensorSpec,
)
"""The replacement of TensorFlow."""
