"""The scores of canaries that took part in training and of canaries that did not."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray

Inclusion = Literal["coins", "fixed_half"]
"""How it was decided which canaries take part: by a fair coin each, or by drawing half of them."""


@dataclass(frozen=True, eq=False)
class CanaryScores:
    """Scores of canaries; a LARGER score looks MORE like a member.

    Either array may be empty (some estimators need no excluded canaries), but not both.

    Attributes:
      included: Scores of the canaries that took part in training, float64 of shape (n1,).
      excluded: Scores of the canaries that did not, float64 of shape (n0,).
      inclusion: How it was decided which canaries take part; methods that guess about coins need
        coins that are independent of each other.

    Raises:
      ValueError: If an array is not one-dimensional, holds a non-finite score, or both are empty.

    >>> scores = CanaryScores(included=[0.5, 0.25], excluded=[0.0])
    >>> scores.num_included, scores.num_excluded
    (2, 1)
    """

    included: FloatArray
    excluded: FloatArray
    inclusion: Inclusion = "coins"

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        for name in ("included", "excluded"):
            object.__setattr__(self, name, _frozen_scores(name, getattr(self, name)))
        if self.num_included + self.num_excluded == 0:
            raise ValueError("scores must hold at least one score, got none")

    @property
    def num_included(self) -> int:
        """Number of canaries that took part in training."""
        return len(self.included)

    @property
    def num_excluded(self) -> int:
        """Number of canaries that did not take part in training."""
        return len(self.excluded)


def _frozen_scores(name: str, values: npt.ArrayLike) -> FloatArray:
    scores = np.array(values, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"{name} scores must be one-dimensional, got shape {scores.shape}")
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise ValueError(f"{name} scores must be finite, got {scores[bad[0]]} at index {bad[0]}")
    scores.flags.writeable = False
    return scores
