"""The law of a weighted sum of right guesses, on a lattice (Steinke et al. 2023, Theorem 5.2)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_epsilon
from fl_audit.estimators.one_run.bound import binomial_probability
from fl_audit.estimators.one_run.guesses import Counts

_NEGLIGIBLE = 1e-25
"""The mass below which the ends of a law are cut off: the lower end is moved up, the upper lost.
What is lost is far below any level of a test."""

_ROUNDING = 1e-12


@dataclass(frozen=True)
class LatticeWeights:
    """Weights of guesses, as whole multiples of a unit, rounded up.

    Rounding up can only make the law larger, so p-values stay valid; the total right weight that
    is observed is never rounded. They are exact if the weights are multiples of the unit.

    Attributes:
      unit: Unit of the lattice, above 0.
      multiples: Different weights in units, increasing, at least 1, int64 of shape (n,).
      numbers: Numbers of guesses of each weight, int64 of shape (n,).
    """

    unit: float
    multiples: Counts
    numbers: Counts

    @classmethod
    def of(cls, weights: npt.ArrayLike, unit: float) -> "LatticeWeights":
        """The weights rounded up to a lattice; guesses of weight 0 are abstentions.

        Args:
          weights: Weights |t_i| in [0, 1], float64 of shape (r,).
          unit: Unit of the lattice, in (0, 1]; rounding adds half of it per guess on average, to be
            compared with the standard deviation of W.

        Raises:
          InputError: If a weight or the unit is out of range.

        >>> LatticeWeights.of([0.5, 0.0, 1.0, 0.4], unit=0.25).multiples.tolist()
        [2, 4]
        """
        values = np.asarray(weights, dtype=np.float64)
        if values.ndim != 1:
            raise InputError(f"weights must be one-dimensional, got shape {values.shape}")
        bad = ~((values >= 0) & (values <= 1))
        if np.any(bad):
            raise InputError(f"weights must be in [0, 1], got {values[bad][0]}")
        if not 0 < unit <= 1:
            raise InputError(f"unit must be in (0, 1], got {unit}")
        rounded = np.ceil(values[values > 0] / unit * (1 - _ROUNDING)).astype(np.int64)
        multiples, numbers = np.unique(np.maximum(rounded, 1), return_counts=True)
        return cls(unit, multiples, numbers)

    @property
    def total(self) -> int:
        """Number of guesses."""
        return int(self.numbers.sum())

    @property
    def total_weight(self) -> float:
        """The sum of all weights, rounded up as they are."""
        return self.unit * int(self.multiples @ self.numbers)

    def law(self, epsilon: float) -> tuple[int, FloatArray]:
        """The worst-case law of the right weight: its first multiple of the unit, and its masses.

        Guesses of one weight are a binomial; the binomials are convolved, smallest weight first.
        """
        first, masses = 0, np.ones(1)
        for multiple, number in zip(self.multiples.tolist(), self.numbers.tolist(), strict=True):
            lowest, chances = _binomial(number, epsilon)
            first += lowest * multiple
            masses = _add_multiple(masses, chances, multiple)
            dropped, masses = _without_ends(masses)
            first += dropped
        return first, masses

    def tail(self, at_least: npt.ArrayLike, epsilon: float) -> FloatArray:
        """The chances of a right weight of at least so much under epsilon-DP.

        Args:
          at_least: Weights of right guesses, float64 of shape (n,).
          epsilon: The epsilon of differential privacy, finite and at least 0.

        Raises:
          InputError: If epsilon is out of range.

        >>> LatticeWeights.of([0.5, 1.0], unit=0.5).tail([0, 0.5, 1.0, 1.5], 0.0).tolist()
        [1.0, 0.75, 0.5, 0.25]
        """
        check_epsilon(epsilon)
        first, masses = self.law(epsilon)
        needed = np.asarray(at_least, dtype=np.float64) / self.unit
        # An observed sum carries rounding errors: down with it, which errs to the valid side.
        index = np.ceil(needed - _ROUNDING * (1 + np.abs(needed))).astype(np.int64) - first
        chances = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        tail = chances[np.clip(index, 0, len(masses))]
        return np.asarray(np.where(index <= 0, 1.0, np.minimum(tail, 1.0)))


def _binomial(number: int, epsilon: float) -> tuple[int, FloatArray]:
    k = np.arange(number + 1)
    chances = binomial_probability(np.full_like(k, number), k, epsilon)
    return _without_ends(chances)


def _add_multiple(masses: FloatArray, chances: FloatArray, multiple: int) -> FloatArray:
    """The law of a lattice variable plus `multiple` times an independent count."""
    total = np.zeros(len(masses) + multiple * (len(chances) - 1))
    for k, chance in enumerate(chances.tolist()):
        total[k * multiple : k * multiple + len(masses)] += chance * masses
    return total


def _without_ends(masses: FloatArray) -> tuple[int, FloatArray]:
    """The law without its ends; what was below moves up, so it can only grow."""
    kept = np.flatnonzero(masses > _NEGLIGIBLE)
    low, high = int(kept[0]), int(kept[-1]) + 1
    inner = masses[low:high].copy()
    inner[0] += masses[:low].sum()
    return low, inner
