"""Null laws as values, each a bound on the upper tail of an excluded canary's score."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.laws.concentration import Concentration
from fl_audit.estimators.laws.cosine import ExactCosine
from fl_audit.estimators.laws.rademacher_sum import rademacher_sum_log_tail
from fl_audit.estimators.laws.refutation import cosine_p_value, too_large_p_value

_LARGEST_COSINE = 1 - 1e-6
"""A cosine beyond this may have been rounded to 1, which a small dimension makes impossible."""

_ROUNDING = 1e-5
"""Largest rise of a discrete canary's score over an atom by rounding, in standard deviations."""


class NullTail(Protocol):
    """A record of what is known of an excluded canary's score.

    A bound on the true epsilon needs no more than an upper bound on P(score >= t). A new statistic
    brings its own null as an object with these three members.
    """

    @property
    def description(self) -> str:
        """The assumed law of excluded scores, in words that follow "excluded scores are"."""

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of an upper bound on P(score >= t), which never rises with t.

        Args:
          thresholds: Thresholds t, float64 of any shape.

        Returns:
          Logs of the bounds, float64 of the shape of the thresholds, at most 0.
        """

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of the excluded scores under this null: small if they do not fit it.

        Args:
          excluded: Scores of the excluded canaries, float64 of shape (n,), at least one.

        Returns:
          A number that is at most p with probability at most p if the null is true and the scores
            are independent.
        """


@dataclass(frozen=True)
class GaussianCanaryNull:
    """The exact null law of cosines of `gaussian` canaries, uniform directions, with any vector.

    Attributes:
      dim: Number of trainable parameters, 2 to 2^53.

    Raises:
      ValueError: If dim is out of range.
    """

    dim: int

    def __post_init__(self) -> None:
        """Check the dimension, so that no later step has to."""
        ExactCosine(self.dim)

    @property
    def description(self) -> str:
        """What excluded scores are taken to be, in words."""
        return f"cosines of uniformly random directions in dimension {self.dim:,} (exact law)"

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log P(cosine >= t)."""
        return ExactCosine(self.dim).logsf(np.minimum(thresholds, _LARGEST_COSINE))

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of the whole law and of its moments (refutation.py)."""
        root = math.sqrt(self.dim)
        law = ExactCosine(self.dim)
        return cosine_p_value(root * excluded, lambda z: law.logsf(z / root))


@dataclass(frozen=True)
class SignCanaryNull:
    """A bound for random signs, `rademacher` or `hadamard` canaries, compared with one vector.

    Without the vector's concentration the bound holds whatever the vector, and for the cosines of
    `gaussian` canaries too: theirs is X with X R Gaussian for R^2 ~ chi-square with dim degrees of
    freedom, independent of X, so P(Z >= z) >= P(X >= z / sqrt(dim)) P(R^2 >= dim), and the last
    factor is at least P(chi-square(1) >= 1) = 1 / 3.15 where the bound allows 1 / 3.178.

    Attributes:
      dim: Number of trainable parameters, at least 2.
      concentration: Concentration of the vector that canaries are compared with; None if unknown.

    Raises:
      ValueError: If dim is below 2, or no vector of that dimension has that concentration.
    """

    dim: int
    concentration: Concentration | None = None

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        if self.dim < 2:
            raise ValueError(f"dim must be at least 2, got {self.dim}")
        known = self.concentration
        if known is not None and known.fourth_powers * self.dim < 1 - _ROUNDING:
            raise ValueError(
                f"fourth_powers must be at least 1 / dim = {1 / self.dim:g}, "
                f"got {known.fourth_powers:g}"
            )

    @property
    def description(self) -> str:
        """What excluded scores are taken to be, in words."""
        if self.concentration is None:
            return (
                f"cosines of gaussian, rademacher or hadamard canaries in dimension {self.dim:,} "
                "with any vector (by a bound that holds for all of these)"
            )
        return (
            f"cosines of random signs in dimension {self.dim:,} with a vector whose concentration "
            f"is known (by a proven bound; sum of cubes {self.concentration.cubes:.3g})"
        )

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of a bound on P(cosine >= t) (rademacher_sum.py)."""
        cosines = np.minimum(np.asarray(thresholds, dtype=np.float64), _LARGEST_COSINE)
        return self._of_deviations(math.sqrt(self.dim) * cosines)

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of both tails by the bound, and of the moments (refutation.py)."""
        return cosine_p_value(math.sqrt(self.dim) * excluded, self._of_deviations)

    def _of_deviations(self, z: FloatArray) -> FloatArray:
        return rademacher_sum_log_tail(z - _ROUNDING, self.concentration)


@dataclass(frozen=True)
class ScaledNull:
    """A known multiple of a score whose null is known.

    An example is the sum of a canary's cosines with several vectors: it is the cosine with the sum
    of their directions, times the length of that sum.

    Attributes:
      of: The null of the score before it is multiplied.
      scale: The factor, above 0 and finite.

    Raises:
      ValueError: If the scale is not above 0 or not finite.
    """

    of: NullTail
    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be above 0 and finite, got {self.scale}")

    @property
    def description(self) -> str:
        """What excluded scores are taken to be, in words."""
        return f"{self.scale:.4g} times {self.of.description}"

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of the bound at the thresholds before multiplication."""
        return self.of.log_tail_upper(np.asarray(thresholds, dtype=np.float64) / self.scale)

    def p_value(self, excluded: FloatArray) -> float:
        """The p-value of the scores before multiplication."""
        return self.of.p_value(excluded / self.scale)


@dataclass(frozen=True)
class AtMostNull:
    """A bound for a score that is a known one times an unknown factor from 0 to 1.

    An example is a sum of a canary's cosines over a bound on the length of the sum of directions.

    Attributes:
      of: The null of the score with factor 1.
    """

    of: NullTail

    @property
    def description(self) -> str:
        """What excluded scores are taken to be, in words."""
        return f"at most as large as {self.of.description}"

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of the bound at factor 1 for thresholds above 0, and 0 for others."""
        known = self.of.log_tail_upper(thresholds)
        return np.asarray(np.where(np.asarray(thresholds) > 0, known, 0.0))

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of too many large scores; small ones refute nothing."""
        return too_large_p_value(excluded, self.log_tail_upper)


@dataclass(frozen=True)
class LargestOfRoundsNull:
    """A bound for the largest of the scores of one canary, one per round (union bound).

    P(max >= t) <= sum of P(score of round >= t), however the rounds depend on each other.

    Attributes:
      rounds: Nulls of the rounds; the same one several times where nothing tells them apart.

    Raises:
      ValueError: If there are no rounds.
    """

    rounds: tuple[NullTail, ...]

    def __post_init__(self) -> None:
        """Check that there is a round."""
        if not self.rounds:
            raise ValueError("rounds must hold at least one null, got none")

    @property
    def description(self) -> str:
        """What excluded scores are taken to be, in words."""
        return (
            f"largest of {len(self.rounds):,} rounds (by the union bound); those of one of them "
            f"are {self.rounds[0].description}"
        )

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of the sum of the rounds' bounds, at most 0."""
        counted = Counter(self.rounds)
        tails = np.stack([null.log_tail_upper(thresholds) for null in counted])
        tails += np.log(list(counted.values())).reshape(-1, *[1] * (tails.ndim - 1))
        return np.asarray(np.minimum(special.logsumexp(tails, axis=0), 0.0))

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of too many large scores; small ones refute nothing, as rounds may be alike."""
        return too_large_p_value(excluded, self.log_tail_upper)
