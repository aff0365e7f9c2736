"""The tests of a verdict: valid methods on statistics, at one confidence together."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    Estimate,
    LargestOfRoundsNull,
    NotApplicableError,
    NullTail,
    ScaledNull,
    valid_methods,
)
from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.setting import Null


@dataclass(frozen=True, eq=False)
class ScoredStatistic:
    """One way to score the canaries, and their scores.

    Attributes:
      name: of the statistic; None where a file of scores does not tell.
      scores: the canaries' scores.
      null: law of an excluded canary's score: "closed_form" or "empirical".
      dim: number of trainable parameters; needed by the closed-form null.
      null_tail: what is known of an excluded canary's score, as `AuditSetting` takes it.
    """

    name: str | None
    scores: CanaryScores
    null: Null
    dim: int | None = None
    null_tail: NullTail | None = None

    @property
    def num_vectors(self) -> int | None:
        """How many vectors a null that is known is the largest cosine with; None if it is not."""
        tail = self.setting(delta=0.0, confidence=0.5).known_tail()
        while isinstance(tail, ScaledNull):
            tail = tail.of
        if tail is None:
            return None
        return len(tail.rounds) if isinstance(tail, LargestOfRoundsNull) else 1

    def setting(self, delta: float, confidence: float) -> AuditSetting:
        """What a method is asked."""
        return AuditSetting(
            self.scores, delta, confidence, self.dim, self.null, null_tail=self.null_tail
        )


@dataclass(frozen=True, eq=False)
class ClaimTest:
    """One method on one statistic."""

    method: str
    statistic: ScoredStatistic

    def bound(self, delta: float, confidence: float) -> Estimate | None:
        """The lower bound at one confidence; None where the scores do not allow the method."""
        try:
            return METHODS[self.method](self.statistic.setting(delta, confidence))
        except NotApplicableError:
            return None

    def rejects(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the bound at confidence 1 - level exceeds epsilon."""
        return METHODS[self.method].rejects(self.statistic.setting(delta, 1 - level), epsilon)


@dataclass(frozen=True, eq=False)
class Bound:
    """What one test proves."""

    test: ClaimTest
    estimate: Estimate


@dataclass(frozen=True, eq=False)
class ClaimTests:
    """Every method on every statistic; all their bounds hold at `confidence` together.

    A union bound (Bonferroni): each of m bounds is made at 1 - (1 - confidence) / m. What is tested
    has to be chosen before the scores are seen. A method that the scores do not allow proves
    nothing and still counts.

    Attributes:
      statistics: to test, at least one.
      confidence: that no bound exceeds the truth, in (0, 1).
      methods: names in `valid_methods()`, at least one.

    Raises:
      InputError: the confidence is out of range, or a method is none of `valid_methods()`.
    """

    statistics: Sequence[ScoredStatistic]
    confidence: float
    methods: Sequence[str] = field(default_factory=valid_methods)

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_confidence(self.confidence)
        if not self.statistics or not self.methods or set(self.methods) - set(valid_methods()):
            raise InputError(
                f"a verdict needs statistics and methods among {', '.join(valid_methods())}, "
                f"got {', '.join(self.methods) or 'none'}"
            )

    def __iter__(self) -> Iterator[ClaimTest]:
        """Each method on each statistic."""
        return itertools.starmap(ClaimTest, itertools.product(self.methods, self.statistics))

    def __len__(self) -> int:
        """Number of tests, m."""
        return len(self.methods) * len(self.statistics)

    @property
    def level(self) -> float:
        """The probability with which each single bound may fail."""
        return level_of_each(self.confidence, len(self))

    def bounds(self, delta: float) -> list[Bound]:
        """What each test proves, the most first; all hold at `confidence` together."""
        made = ((test, test.bound(delta, 1 - self.level)) for test in self)
        bounds = [Bound(test, estimate) for test, estimate in made if estimate is not None]
        return sorted(bounds, key=lambda bound: -bound.estimate.epsilon)


def level_of_each(confidence: float, num_tests: int) -> float:
    """The probability with which each of some tests may fail, so that all hold together."""
    return (1 - confidence) / num_tests
