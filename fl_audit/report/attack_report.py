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
class AttackedMember:
    """A member, a point or a client, that SelectWorst chose.

    Attributes:
      index: Its index among the task's points, those of clients before those held out; or among
        its clients.
      facts: What else is known of it, by name: a point's label, a client's name and number of
        examples.
      features: A point's inputs, float of any shape; None of a client.
      accuracy: Share of held-back shadow models that LiRA told right.
      separation: Distance of the two laws of its margin, in their deviations.
    """

    index: int
    facts: Mapping[str, int | str]
    features: FloatArray | None
    accuracy: float
    separation: float


@dataclass(frozen=True)
class Guaranteed:
    """What the training guarantees to a member.

    Attributes:
      epsilon: The analytical epsilon; infinite where there is none.
      noise_multiplier: The noise over the clip norm; None without any mechanism.
      by: What guarantees it, in words that begin a sentence.
      neighbours: The two trainings that are compared, in words.
    """

    epsilon: float
    noise_multiplier: float | None
    by: str
    neighbours: str


@dataclass(frozen=True)
class AttackWords:
    """What the report of an attack calls things.

    Attributes:
      models: The attacked models, in the plural.
      member: What is or is not in a model's training.
      challenge: A sentence on the challenges.
      accuracy: The meaning of the accuracy.
    """

    models: str
    member: str
    challenge: str
    accuracy: str


@dataclass(frozen=True, eq=False)
class AttackReport:
    """The results of an attack.

    Attributes:
      scores: The challenges' scores by statistic: lira, loss, margin.
      results: The estimates from each.
      counts: The errors of the loss-based attack on each base.
      posterior: The posterior of epsilon given these counts, which are independent.
      privacy: Epsilon* of one model, over its training set against all other members.
      members: The attacked points, or clients.
      accuracy: The mean accuracy of the attacked models, in [0, 1].
      guaranteed: What the training guarantees.
      words: What things are called.
      num_models: Number of trained models.
      delta: The delta of the estimates.
      confidence: Confidence of every bound and interval.
    """

    scores: Mapping[str, CanaryScores]
    results: Mapping[str, AuditResult]
    counts: ChallengeCounts
    posterior: GridPosterior
    privacy: ModelPrivacy
    members: tuple[AttackedMember, ...]
    accuracy: float
    guaranteed: Guaranteed
    words: AttackWords
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
            "analytical_epsilon": json_value(self.guaranteed.epsilon),
            "noise_multiplier": self.guaranteed.noise_multiplier,
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
            f"{self.words.member}s": [
                {
                    "index": member.index,
                    **member.facts,
                    "accuracy": member.accuracy,
                    "separation": member.separation,
                }
                for member in self.members
            ],
        }
