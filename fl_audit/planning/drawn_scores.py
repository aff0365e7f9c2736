"""Scores that a plan has drawn, and what goes with them."""

from collections.abc import Mapping
from dataclasses import dataclass

from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.estimators import CanaryScores


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """One trial's scores.

    Attributes:
      scores: By statistic.
      compared: What a run would know of the vectors behind those over rounds, by statistic.
    """

    scores: Mapping[str, CanaryScores]
    compared: Mapping[str, ComparedVectors]
