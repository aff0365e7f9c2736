"""The concentration of a vector on few coordinates, as far as a tail bound needs to know it."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_PIECE = 1 << 15
"""Coordinates converted to float64 at a time: 256 kB, which a cache holds."""

_ROUNDING = 1e-6
"""Relative tolerance of the checks, as a record may have gone through a text file."""


@dataclass(frozen=True)
class Concentration:
    """Two sums over the coordinates of a vector scaled to Euclidean norm 1.

    Both are 1 for a vector with one nonzero coordinate, m^(-1/2) and 1/m for m equal ones. The sum
    of cubes is what the Berry-Esseen theorem asks for. It is at most the square root of the sum of
    fourth powers (Cauchy and Schwarz) and at most the largest coordinate, so neither of these two
    could replace it without loss.

    Attributes:
      cubes: The sum of |a_i|^3, in (0, 1].
      fourth_powers: The sum of a_i^4, in (0, 1].

    Raises:
      ValueError: If no vector of norm 1 has these sums.

    >>> Concentration(cubes=0.5, fourth_powers=0.25)  # four equal coordinates
    Concentration(cubes=0.5, fourth_powers=0.25)
    """

    cubes: float
    fourth_powers: float

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        most = 1 + _ROUNDING
        if not (0 < self.fourth_powers <= most and 0 < self.cubes <= most):
            raise ValueError(
                "cubes and fourth_powers must be in (0, 1], "
                f"got {self.cubes} and {self.fourth_powers}"
            )
        # a^4 <= |a|^3 as no coordinate exceeds 1; the other side is Cauchy and Schwarz.
        least_cubes, most_cubes = self.fourth_powers, math.sqrt(self.fourth_powers)
        if not least_cubes / most <= self.cubes <= most_cubes * most:
            raise ValueError(
                f"cubes must be in [{least_cubes:g}, {most_cubes:g}] where fourth_powers is "
                f"{self.fourth_powers:g}, got {self.cubes:g}"
            )


def concentration_of(vector: npt.ArrayLike) -> Concentration | None:
    """The concentration of a vector; None for the zero vector, which has no direction.

    Args:
      vector: Real numbers of shape (d,), of any scale and floating-point type. Pieces of it are
        converted to float64, so that it takes little memory.

    Raises:
      ValueError: If a coordinate is not finite.

    >>> concentration_of([3.0, 0.0, -3.0, 3.0, 3.0])
    Concentration(cubes=0.5, fourth_powers=0.25)
    >>> concentration_of([0.0, 0.0]) is None
    True
    """
    values = np.asarray(vector)
    if values.size == 0:
        return None
    largest = max(abs(float(values.max())), abs(float(values.min())))
    if not math.isfinite(largest):
        raise ValueError(f"a vector's coordinates must be finite, got {largest}")
    if largest == 0:
        return None
    squares = cubes = fourth_powers = 0.0
    for start in range(0, values.size, _PIECE):
        # Relative to the largest, no power overflows, and what underflows does not count.
        size = values[start : start + _PIECE].astype(np.float64)
        size /= largest
        np.abs(size, out=size)
        square = size * size
        squares += float(np.sum(square))
        cubes += float(square @ size)
        fourth_powers += float(square @ square)
    return Concentration(min(cubes * squares**-1.5, 1.0), min(fourth_powers / squares**2, 1.0))
