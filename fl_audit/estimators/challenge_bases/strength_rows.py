"""The posterior of the strength s given each epsilon of a grid."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.grid_cells import trapezoid_errors
from fl_audit.estimators.challenge_bases.prior import BetaStrength


@dataclass(frozen=True, eq=False)
class StrengthRows:
    """The prior of s times likelihoods that are linear in s between the points of each row.

    The integrals over a cell use the prior's own moments, so they are exact for such likelihoods
    even where the prior's density is infinite.

    Attributes:
      prior: Prior of s.
      strength: Strengths in [0, 1], each row ascending, float64 of shape (i, k).
      likelihood: Likelihoods, each row on its own scale, float64 of shape (i, k).
      moments: The prior's integrals of 1, s and s^2 over each cell, float64 of shape (3, i, k - 1).
    """

    prior: BetaStrength
    strength: FloatArray
    likelihood: FloatArray
    moments: FloatArray

    @classmethod
    def of(
        cls, prior: BetaStrength, strength: FloatArray, likelihood: FloatArray
    ) -> "StrengthRows":
        """The rows for likelihoods and strengths, both of shape (i, k)."""
        return cls(prior, strength, likelihood, np.diff(prior.moments_below(strength), axis=-1))

    @property
    def totals(self) -> FloatArray:
        """The integral of prior times likelihood over each row, float64 of shape (i,)."""
        return np.asarray(np.sum(self._integrals(self.moments[0], self.moments[1]), axis=1))

    def cell_shares(self) -> FloatArray:
        """The posterior probabilities of the cells of each row, float64 of shape (i, k - 1)."""
        return self._per_total(self._integrals(self.moments[0], self.moments[1]))

    def cell_errors(self) -> FloatArray:
        """The errors of `cell_shares` from taking likelihoods to be linear, of the same shape."""
        return self._per_total(self.moments[0] * trapezoid_errors(self.strength, self.likelihood))

    def mean(self, weights: FloatArray) -> float:
        """The posterior mean of s, for weights of the rows of shape (i,)."""
        return float(np.sum(weights @ self._per_total(self._integrals(*self.moments[1:]))))

    def below(self, strength: float, weights: FloatArray) -> float:
        """The posterior probability that s is at most `strength`, for weights of the rows."""
        return float(weights @ self.cdf(strength))

    def cdf(self, strength: float) -> FloatArray:
        """The posterior probability in each row that s is at most `strength`, of shape (i,)."""
        ends = np.minimum(self.strength, strength)
        zeroth, first, _ = np.diff(self.prior.moments_below(ends), axis=-1)
        return np.asarray(np.sum(self._per_total(self._integrals(zeroth, first)), axis=1))

    def quantile(self, p: float, weights: FloatArray) -> float:
        """The strength below which the share p of the posterior lies."""
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(middle, weights) < p else (low, middle)
        return (low + high) / 2

    def _integrals(self, zeroth: FloatArray, first: FloatArray) -> FloatArray:
        """The integrals of the likelihood, from those of 1 and s in some measure over each cell."""
        widths = np.diff(self.strength, axis=1)
        slopes = np.diff(self.likelihood, axis=1) / np.where(widths > 0, widths, np.inf)
        rises = slopes * (first - self.strength[:, :-1] * zeroth)
        # The difference above may round below 0 in cells of hardly any width.
        return np.asarray(np.maximum(self.likelihood[:, :-1] * zeroth + rises, 0.0))

    def _per_total(self, values: FloatArray) -> FloatArray:
        totals = self.totals[:, None]
        return np.asarray(values / np.where(totals > 0, totals, 1.0))
