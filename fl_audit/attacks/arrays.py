"""Conversion of models and aggregates between a framework's arrays and one vector."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError

Arrays = npt.NDArray[Any] | Sequence[npt.NDArray[Any]]
"""An array of numbers or a list of arrays, float32 or float64, of any shapes."""


def flatten(arrays: Arrays, dim: int, name: str) -> Float32Array:
    """Flattens one array, or several in their order, to one vector; each array in C order.

    Args:
      arrays: The arrays, float32 or float64, with `dim` entries in total.
      dim: The length of the vector.
      name: A name for the arrays in error messages.

    Returns:
      The vector, float32 of shape (dim,); not a copy of a single array that is contiguous float32.

    Raises:
      InputError: The arrays have another number of entries or dtype, or are not finite in float32.
    """
    parts = [np.asarray(part) for part in ([arrays] if isinstance(arrays, np.ndarray) else arrays)]
    for part in parts:
        if part.dtype not in (np.float32, np.float64):
            raise InputError(f"{name}: must be float32 or float64, got {part.dtype}")
    size = sum(part.size for part in parts)
    if size != dim:
        raise InputError(f"{name}: must have {dim:,} numbers (dim), got {size:,}")
    with np.errstate(over="ignore"):  # a number too large for float32 is refused below
        ravelled = [np.ravel(part).astype(np.float32, copy=False) for part in parts]
    vector = ravelled[0] if len(ravelled) == 1 else np.concatenate(ravelled)
    finite = np.isfinite(vector)
    if not finite.all():
        at = int(np.argmin(finite))
        raise InputError(f"{name}: must be finite in float32, has {vector[at]} at position {at:,}")
    return vector


def unflatten(vector: npt.NDArray[Any], like: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """The inverse of `flatten`: splits a vector into arrays of the shapes and dtypes of `like`.

    Raises:
      InputError: The arrays in `like` do not have as many entries as the vector.

    >>> [part.tolist() for part in unflatten(np.arange(5.0), [np.zeros((2, 2)), np.zeros(1)])]
    [[[0.0, 1.0], [2.0, 3.0]], [4.0]]
    """
    size = sum(part.size for part in like)
    if vector.shape != (size,):
        raise InputError(f"vector: must have shape ({size:,},), got {vector.shape}")
    ends = np.cumsum([part.size for part in like])
    pieces = np.split(vector, ends[:-1])
    return [
        piece.reshape(part.shape).astype(part.dtype, copy=False)
        for piece, part in zip(pieces, like, strict=True)
    ]
