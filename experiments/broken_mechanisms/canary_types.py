"""Canary vectors of the zoo for which fl_audit has no family."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.canaries.family import CanaryFamily
from fl_audit.seeds import Stream, generator


@dataclass(frozen=True)
class DiracFamily(CanaryFamily):
    """Canaries with one nonzero coordinate each, of random sign (Steinke et al. 2023, section 6).

    No two canaries have the same coordinate. The cosine with a vector is one of its entries over
    its norm, so that an excluded canary's law is that of the vector's entries instead of
    N(0, 1/dim). Only an empirical null is valid.
    """

    def vector(self, canary: int) -> Float32Array:
        """The vector of a canary: zeros and one sign."""
        vector = np.zeros(self.dim, np.float32)
        vector[self._coordinates[canary]] = self._signs[canary]
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The inner product with each canary: an entry of the vector with the canary's sign."""
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
