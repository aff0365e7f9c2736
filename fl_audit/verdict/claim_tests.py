"""Tests of a claimed (epsilon, delta) by valid methods, and their p-value.

Every method on every statistic is a test; all bounds together hold at one confidence, by the union
bound. The p-value is the smallest level of all tests together at which one test contradicts the
claim.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fl_audit.config_tables.audit import LEAST_CONFIDENCE
from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    Estimate,
    NotApplicableError,
    Null,
    valid_methods,
)
from fl_audit.estimators.null import EMPIRICAL
from fl_audit.estimators.scores import check_confidence
from fl_audit.verdict.claims import Claim
from fl_audit.verdict.search import bisected


@dataclass(frozen=True, eq=False)
class ScoredStatistic:
    """The scores of canaries on one statistic, and their null distribution.

    Attributes:
      name: Name of the statistic; None for a file of scores without a name.
      scores: The canaries' scores.
      null: The null distribution.
    """

    name: str | None
    scores: CanaryScores
    null: Null = EMPIRICAL

    def setting(self, delta: float, confidence: float) -> AuditSetting:
        return AuditSetting(self.scores, delta, confidence, self.null)


@dataclass(frozen=True, eq=False)
class ClaimTest:
    method: str
    statistic: ScoredStatistic

    def bound(self, delta: float, confidence: float) -> Estimate | None:
        """The lower bound on epsilon; None if the method does not apply to the scores."""
        try:
            return METHODS[self.method](self.statistic.setting(delta, confidence))
        except NotApplicableError:
            return None

    def rejects(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the lower bound at confidence 1 - level exceeds epsilon."""
        return METHODS[self.method].rejects(self.statistic.setting(delta, 1 - level), epsilon)


@dataclass(frozen=True, eq=False)
class Bound:
    """A test and its lower bound."""

    test: ClaimTest
    estimate: Estimate


@dataclass(frozen=True, eq=False)
class ClaimTests:
    """The tests of every method on every statistic, whose bounds jointly hold at `confidence`.

    By the union bound (Bonferroni), each of m bounds has confidence 1 - (1 - confidence) / m. The
    tests have to be chosen before the scores are seen. A method that does not apply to the scores
    gives no bound, but counts as a test.

    Attributes:
      statistics: The tested statistics, at least one.
      confidence: A lower bound, below 1, on the probability that no bound exceeds the true epsilon.
      methods: Names of methods in `valid_methods()`, at least one.

    Raises:
      InputError: The confidence is below LEAST_CONFIDENCE or out of range, a method is not in
        `valid_methods()`, or no statistic or no method is given.
    """

    statistics: Sequence[ScoredStatistic]
    confidence: float
    methods: Sequence[str] = field(default_factory=valid_methods)

    def __post_init__(self) -> None:
        check_verdict_confidence(self.confidence)
        if not self.statistics or not self.methods or set(self.methods) - set(valid_methods()):
            raise InputError(
                f"a verdict needs statistics and methods among {', '.join(valid_methods())}, "
                f"got {', '.join(self.methods) or 'none'}"
            )

    def __iter__(self) -> Iterator[ClaimTest]:
        """Iterates over the tests: each method on each statistic."""
        return itertools.starmap(ClaimTest, itertools.product(self.methods, self.statistics))

    def __len__(self) -> int:
        """The number of tests, m."""
        return len(self.methods) * len(self.statistics)

    @property
    def level(self) -> float:
        """The probability with which each single bound may fail."""
        return (1 - self.confidence) / len(self)

    def bounds(self, delta: float) -> list[Bound]:
        """The bounds of all tests, the largest first; they jointly hold at `confidence`."""
        estimates = ((test, test.bound(delta, 1 - self.level)) for test in self)
        bounds = [Bound(test, estimate) for test, estimate in estimates if estimate is not None]
        return sorted(bounds, key=lambda bound: -bound.estimate.epsilon)


def check_verdict_confidence(confidence: float) -> None:
    check_confidence(confidence)
    if confidence < LEAST_CONFIDENCE:
        raise InputError(
            f"confidence must be at least {LEAST_CONFIDENCE} for a verdict on a claim, got "
            f"{confidence}"
        )


SMALLEST_LEVEL = 1e-9
"""The smallest level tried for a single bound."""

_LARGEST_LEVEL = 0.999
_PRECISION = 0.02


def p_value(tests: ClaimTests, bounds: Sequence[Bound], claim: Claim) -> float:
    """The smallest alpha at which bounds of joint confidence 1 - alpha contradict the claim.

    This is m times the smallest level at which one of the m bounds exceeds the claim, at most 1;
    bisection makes it up to 2 % too large. It is at most 1 - confidence if and only if the claim is
    contradicted at `tests.confidence`, the basis of the verdict. Smaller p-values are
    approximate for a method whose tests depend on the level, such as `one_run_valid` with its
    numbers of guesses. P-values below m times SMALLEST_LEVEL are not resolved.
    """
    above = [bound.test for bound in bounds if bound.estimate.epsilon > claim.epsilon]
    if above:
        smallest = _smallest(above, claim, SMALLEST_LEVEL, tests.level)
    else:
        smallest = _smallest([bound.test for bound in bounds], claim, tests.level, _LARGEST_LEVEL)
    return min(len(tests) * smallest, 1.0)


def _smallest(tests: Sequence[ClaimTest], claim: Claim, low: float, high: float) -> float:
    """The smallest level above `low` at which a test rejects the claim; 1 if none up to `high`."""
    level = 1.0
    for test in tests:
        rejects = functools.partial(test.rejects, claim.epsilon, claim.delta)
        if rejects(min(level, high)):
            level = bisected(rejects, low, min(level, high), 1 + _PRECISION)
    return level
