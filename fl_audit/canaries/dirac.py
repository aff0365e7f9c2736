"""Canaries of one coordinate each."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.canaries.family import CanaryFamily
from fl_audit.errors import InputError
from fl_audit.seeds import Stream, generator


@dataclass(frozen=True)
class DiracFamily(CanaryFamily):
    """Canaries with one nonzero coordinate each, of random sign (Steinke et al. 2023, section 6).

    No two canaries have the same coordinate, which is drawn for the whole pool at once: unlike
    other families, a vector depends on the pool's size. The cosine with a vector is one of its
    entries over its norm, so an excluded canary's law is that of the vector's entries with random
    signs and not N(0, 1/dim): bounds know nothing but what other excluded canaries say.
    """

    def __post_init__(self) -> None:
        """Checks that there are enough coordinates.

        Raises:
          InputError: The pool has more canaries than the model has parameters.
        """
        if self.num_canaries > self.dim:
            raise InputError(
                f"there are {self.dim:,} dirac canaries for a model of {self.dim:,} parameters, "
                f"got canaries.count {self.num_canaries:,} (rademacher has no limit)"
            )

    def vector(self, canary: int) -> Float32Array:
        """The canary's unit vector: zeros and one sign, float32 of shape (dim,)."""
        vector = np.zeros(self.dim, np.float32)
        vector[self._coordinates[canary]] = self._signs[canary]
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The inner product of every canary with a vector: an entry with the canary's sign.

        Args:
          target: The vector, float32 of shape (dim,).

        Returns:
          The inner products, float64 of shape (num_canaries,).

        Raises:
          ValueError: `target` has another shape.
        """
        self._check_shape(target)
        return self._signs * target[self._coordinates].astype(np.float64)

    @cached_property
    def _coordinates(self) -> npt.NDArray[np.int64]:
        random = generator(self.seed, Stream.CANARY_VECTOR)
        return random.choice(self.dim, self.num_canaries, replace=False)

    @cached_property
    def _signs(self) -> npt.NDArray[np.float64]:
        random = generator(self.seed, Stream.CANARY_VECTOR, 1)
        return random.choice([-1.0, 1.0], self.num_canaries)
