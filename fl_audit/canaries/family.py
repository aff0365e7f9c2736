"""The base class of families of canary vectors."""

import abc
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array

_PIECE = 1 << 20
"""The coordinates converted to float64 at a time (8 MB); all at once would triple the target."""


@dataclass(frozen=True)
class CanaryFamily(abc.ABC):
    """A pool of random unit vectors, each a function of (seed, canary, dim) alone.

    Attributes:
      seed: The seed of the run.
      num_canaries: The size of the pool, included and excluded together.
      dim: The length of a vector, which is the number of trainable parameters.
    """

    seed: int
    num_canaries: int
    dim: int

    @abc.abstractmethod
    def vector(self, canary: int) -> Float32Array:
        """The canary's unit vector, float32 of shape (dim,)."""

    @abc.abstractmethod
    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The inner product of every canary's unit vector with one vector.

        Args:
          target: The vector, float32 of shape (dim,).

        Returns:
          The inner products, float64 of shape (num_canaries,).

        Raises:
          ValueError: `target` has another shape.
        """

    def cosines(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The cosine of every canary with `target`; 0 if that is zero and has no direction."""
        norm = euclidean_norm(target)
        products = self.inner_products(target)
        # Rounding in float32 may carry a vector's cosine with itself beyond 1 by 1e-5.
        return np.clip(products / norm, -1.0, 1.0) if norm > 0 else np.zeros_like(products)

    def _check_shape(self, target: Float32Array) -> None:
        if target.shape != (self.dim,):
            raise ValueError(f"target must have shape ({self.dim},), got {target.shape}")


def euclidean_norm(vector: Float32Array) -> float:
    """The Euclidean norm in float64, which squares of tiny or huge float32 need."""
    squares = 0.0
    for start in range(0, vector.size, _PIECE):
        piece = vector[start : start + _PIECE].astype(np.float64)
        squares += float(piece @ piece)
    return math.sqrt(squares)
