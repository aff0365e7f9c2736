"""What a verdict looks at: valid methods on statistics, at one confidence together."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fl_audit.errors import InputError
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores, Estimate, NotApplicableError
from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.setting import Null

VALID_METHODS = ("threshold_valid", "one_run_valid")
"""Methods whose bounds hold for any mechanism, although they choose on the data."""


@dataclass(frozen=True, eq=False)
class Statistic:
    """One way to score the canaries.

    Attributes:
      name: of the statistic; None where a file of scores does not tell.
      scores: the canaries' scores.
      null: law of an excluded canary's score: "closed_form" or "empirical".
      dim: number of trainable parameters; needed by the closed-form null.
    """

    name: str | None
    scores: CanaryScores
    null: Null
    dim: int | None = None


@dataclass(frozen=True, eq=False)
class Look:
    """One method on one statistic."""

    method: str
    statistic: Statistic

    def bound(self, delta: float, confidence: float) -> Estimate | None:
        """The lower bound at one confidence; None where the scores do not allow the method."""
        at = self.statistic
        setting = AuditSetting(at.scores, delta, confidence, at.dim, at.null)
        try:
            return METHODS[self.method](setting)
        except NotApplicableError:
            return None

    def rejects(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the bound at confidence 1 - level exceeds epsilon."""
        bound = self.bound(delta, 1 - level)
        return bound is not None and bound.epsilon > epsilon


@dataclass(frozen=True, eq=False)
class Bound:
    """What one look proves."""

    look: Look
    estimate: Estimate


@dataclass(frozen=True, eq=False)
class Looks:
    """Every method on every statistic; all their bounds hold at `confidence` together.

    A union bound (Bonferroni): each of m bounds is made at 1 - (1 - confidence) / m. What is looked
    at has to be chosen before the scores are seen. A method that the scores do not allow proves
    nothing and still counts.

    Attributes:
      statistics: to look at, at least one.
      methods: names in VALID_METHODS, at least one.
      confidence: that no bound exceeds the truth, in (0, 1).

    Raises:
      InputError: the confidence is out of range, or a method is none of VALID_METHODS.
    """

    statistics: Sequence[Statistic]
    confidence: float
    methods: Sequence[str] = VALID_METHODS

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_confidence(self.confidence)
        if not self.statistics or not self.methods or set(self.methods) - set(VALID_METHODS):
            raise InputError(
                f"a verdict needs statistics and methods among {', '.join(VALID_METHODS)}, "
                f"got {', '.join(self.methods) or 'none'}"
            )

    def __iter__(self) -> Iterator[Look]:
        """Each method on each statistic."""
        return itertools.starmap(Look, itertools.product(self.methods, self.statistics))

    def __len__(self) -> int:
        """Number of looks, m."""
        return len(self.methods) * len(self.statistics)

    @property
    def level(self) -> float:
        """The probability with which each single bound may fail."""
        return (1 - self.confidence) / len(self)

    def bounds(self, delta: float) -> list[Bound]:
        """What each look proves, the most first; all hold at `confidence` together."""
        made = ((look, look.bound(delta, 1 - self.level)) for look in self)
        bounds = [Bound(look, estimate) for look, estimate in made if estimate is not None]
        return sorted(bounds, key=lambda bound: -bound.estimate.epsilon)
