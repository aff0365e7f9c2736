"""Scores of pairs of which one example is included, and guesses at which (Steinke et al. 2023)."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.scores import CanaryScores


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of pairs; a LARGER score looks MORE like a member.

    Attributes:
      included: Score of the example of each pair that was trained on, float64 of shape (m,).
      excluded: Score of its partner, in the same order, float64 of shape (m,).

    Raises:
      ValueError: If an array is not one-dimensional or holds a non-finite score, or both are
        empty.
      InputError: If their lengths differ.

    >>> PairScores(included=[0.5, 0.2], excluded=[0.1, 0.3]).num_pairs
    2
    """

    included: FloatArray
    excluded: FloatArray

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        scores = CanaryScores(self.included, self.excluded)
        if scores.num_included != scores.num_excluded:
            raise InputError(
                "pairs need as many included as excluded scores, "
                f"got {scores.num_included} and {scores.num_excluded}"
            )
        object.__setattr__(self, "included", scores.included)
        object.__setattr__(self, "excluded", scores.excluded)

    @property
    def num_pairs(self) -> int:
        """Number of pairs, the m of the theory."""
        return len(self.included)


def right_among_surest(scores: PairScores) -> IntArray:
    """The right guesses among the r surest, for r = 0..m, int64 of shape (m + 1,).

    The guess of a pair is the example with the larger score, and it is the surer the further apart
    the scores are; this does not depend on the coins. Equal scores count as a wrong guess, and of
    equally sure guesses the wrong ones come first: no order that knows no coins has fewer right.

    >>> right_among_surest(PairScores([3.0, 1.0, 5.0], [1.0, 2.0, 5.0])).tolist()
    [0, 1, 1, 1]
    """
    gap = scores.included - scores.excluded
    right = gap > 0
    order = np.lexsort((right, -np.abs(gap)))
    return np.concatenate([[0], np.cumsum(right[order])])
