"""Scores in deviations of a known null law: N(0, 1), or the largest of several such values."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.laws import (
    ExactCosine,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    NullTail,
    ScaledNull,
    SignCanaryNull,
)
from fl_audit.estimators.scores import CanaryScores

_LARGEST_COSINE = 1 - 1e-6
"""A cosine beyond this may have been rounded to 1, which has no finite place in the null law."""


@dataclass(frozen=True, eq=False)
class StandardScores:
    """Scores that are N(0, 1) for an excluded canary, or the largest of several such values.

    Attributes:
      included: Scores of the canaries that took part in training, float64 of shape (n1,).
      excluded: Scores of the canaries that did not, float64 of shape (n0,).
      rounds: The number of values that a score is the largest of; 1 for a single one.
    """

    included: FloatArray
    excluded: FloatArray
    rounds: int


def standard_scores(scores: CanaryScores, null: NullTail) -> StandardScores | None:
    """Moves every score to the same place in the normal law that it has in the null law.

    A cosine X becomes z with P(N(0, 1) >= z) = P(X >= x) for the exact law of a random direction.
    Of `rademacher` and `hadamard` canaries this is the limit for a target that is not concentrated
    on few coordinates.

    Args:
      scores: The scores.
      null: What is known of excluded scores.

    Returns:
      The scores in deviations; None for a null that is of no known kind.
    """
    scaled = null if isinstance(null, ScaledNull) else ScaledNull(null, 1.0)
    of_rounds = scaled.of
    rounds = of_rounds.rounds if isinstance(of_rounds, LargestOfRoundsNull) else (of_rounds,)
    one = rounds[0]
    if not isinstance(one, GaussianCanaryNull | SignCanaryNull):
        return None
    law = ExactCosine(one.dim)
    included, excluded = (
        _normal_scores(part / scaled.scale, law) for part in (scores.included, scores.excluded)
    )
    return StandardScores(included, excluded, len(rounds))


def _normal_scores(cosines: FloatArray, law: ExactCosine) -> FloatArray:
    size = np.minimum(np.abs(cosines), _LARGEST_COSINE)
    return np.asarray(np.copysign(special.ndtri_exp(law.logsf(size)), cosines))
