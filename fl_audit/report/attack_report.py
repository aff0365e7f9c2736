"""What an attack on trained models found, as report.json says it."""

from collections.abc import Mapping
from dataclasses import dataclass

from fl_audit.array_types import FloatArray
from fl_audit.estimators import AuditResult, CanaryScores
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.estimators.challenge_bases.grid import GridPosterior
from fl_audit.estimators.result import json_value
from fl_audit.membership.model_privacy import ModelPrivacy


@dataclass(frozen=True, eq=False)
class AttackedPoint:
    """A point that SelectWorst chose.

    Attributes:
      index: Its index among the task's points, those of clients before those held out.
      label: Its label.
      features: Its inputs, float of any shape.
      accuracy: Share of held-back shadow models that LiRA told right.
      separation: Distance of the two laws of its margin, in their deviations.
    """

    index: int
    label: int
    features: FloatArray
    accuracy: float
    separation: float


@dataclass(frozen=True, eq=False)
class AttackReport:
    """The results of an attack.

    Attributes:
      scores: The challenges' scores by statistic: lira, loss, margin.
      results: The estimates from each.
      counts: The errors of the loss-based attack on each base.
      posterior: The posterior of epsilon given these counts, which are independent.
      privacy: Epsilon* of one model, over its training set against all other points.
      points: The attacked points.
      accuracy: Share of points outside their training sets that shadow models classify correctly.
      analytical_epsilon: What DP-SGD guarantees to one point more or less; infinite without it.
      noise_multiplier: The noise of DP-SGD over its clip norm; None without DP-SGD.
      num_models: Number of trained models.
      delta: The delta of the estimates.
      confidence: Confidence of every bound and interval.
    """

    scores: Mapping[str, CanaryScores]
    results: Mapping[str, AuditResult]
    counts: ChallengeCounts
    posterior: GridPosterior
    privacy: ModelPrivacy
    points: tuple[AttackedPoint, ...]
    accuracy: float
    analytical_epsilon: float
    noise_multiplier: float | None
    num_models: int
    delta: float
    confidence: float

    def to_json(self) -> dict[str, object]:
        """The object that report.json holds; infinities as words."""
        counts = self.counts
        rows = zip(counts.fp, counts.n0, counts.fn, counts.n1, strict=True)
        return {
            "delta": self.delta,
            "confidence": self.confidence,
            "num_models": self.num_models,
            "accuracy": self.accuracy,
            "analytical_epsilon": json_value(self.analytical_epsilon),
            "noise_multiplier": self.noise_multiplier,
            "statistics": {name: result.to_json() for name, result in self.results.items()},
            "counts": [
                {"fp": int(fp), "n0": int(n0), "fn": int(fn), "n1": int(n1)}
                for fp, n0, fn, n1 in rows
            ],
            "posterior": self.posterior.summary(self.confidence).to_json(),
            "epsilon_star": {
                "gaussian": json_value(self.privacy.gaussian.epsilon),
                "empirical": json_value(self.privacy.empirical.epsilon),
            },
            "points": [
                {
                    "index": point.index,
                    "label": point.label,
                    "accuracy": point.accuracy,
                    "separation": point.separation,
                }
                for point in self.points
            ],
        }
