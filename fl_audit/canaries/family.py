"""The base class of families of canary vectors."""

import abc
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.inner_products import euclidean_norm


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
