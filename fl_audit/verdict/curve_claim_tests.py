"""The tests of a claimed trade-off curve, chosen before any score is seen.

Each statistic has up to two tests (estimators/curve_tests.py): the sum of scores, if their null
distribution is known, for scores that are independent given inclusion; and correct guesses, if
inclusion is by fair coins, for arbitrarily dependent scores. The first test has most of the level,
and all other tests share the remainder (weighted Bonferroni). Statistics with a known null come
first, ordered by how much their attackers know, the most first.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS
from fl_audit.estimators.anytime import deviates
from fl_audit.estimators.curve_tests import SumTest, sum_test
from fl_audit.estimators.one_run.f_dp import guesses_p_value
from fl_audit.estimators.setting import NotApplicableError
from fl_audit.estimators.threshold.null_choice import ChosenNull, chosen_null
from fl_audit.estimators.trade_off import GaussianTradeOff, TradeOff
from fl_audit.verdict.claim_tests import ScoredStatistic, check_verdict_confidence
from fl_audit.verdict.claims import CurveClaim
from fl_audit.verdict.search import bisected

UNSTATED_CONFIDENCE = 0.999
"""The confidence for testing the configured noise if no claim is stated; at 95 % one correct run in
twenty would fail.
"""

LEADING_SHARE = 0.8
"""The share of the level for the first of several tests."""

CurveMethod = Literal["trade_off_sum", "trade_off_guesses"]

_PRECISION, _LARGEST_MU = 0.002, 60.0
_TRIED = 1 - np.arange(0.0, 0.1, 0.005)


@dataclass(frozen=True, eq=False)
class CurveTest:
    """The test of a claimed curve by one statistic.

    Attributes:
      level: The largest p-value that contradicts the claim.
    """

    method: CurveMethod
    statistic: ScoredStatistic
    curve: TradeOff
    delta: float
    level: float

    @functools.cached_property
    def p_value(self) -> float | None:
        """The p-value of the claim; None if the test does not apply to the scores."""
        if self.method == "trade_off_guesses":
            scores = self.statistic.scores
            is_possible = scores.num_included > 0 and scores.num_excluded > 0
            return guesses_p_value(scores, self.curve) if is_possible else None
        z = self.deviates
        if z is None or self.null is None:
            return None
        if self.null.allows_no_bound:
            return 1.0
        return min(self.sum_test.p_value(z) + self.spent, 1.0)

    @functools.cached_property
    def null(self) -> ChosenNull | None:
        """The null distribution chosen for the scores; None if there are too few scores."""
        try:
            return chosen_null(self.statistic.setting(self.delta, 1 - self.level))
        except NotApplicableError:
            return None

    @property
    def spent(self) -> float:
        """The part of the level spent on testing the null."""
        return 0.0 if self.null is None else max(self.null.confidence - (1 - self.level), 0.0)

    @property
    def deviates(self) -> FloatArray | None:
        """The normal deviates of included scores under `null`, float64 of shape (included,).

        None if no null is known, or if the scores reject the null.
        """
        if self.null is None or self.null.tail is None:
            return None
        return deviates(self.null.tail.log_tail_upper(self.statistic.scores.included))

    @functools.cached_property
    def mu_lower_bound(self) -> float | None:
        """The lower bound on mu, to 0.5 %, if scores contradict a claimed Gaussian curve.

        The same sum is compared with curves of larger mu; rejecting a curve rejects all curves of
        smaller mu. None for other curves, for guesses, or if the sum rejects no larger mu.
        """
        z, curve = self.deviates, self.curve
        if self.method != "trade_off_sum" or not isinstance(curve, GaussianTradeOff):
            return None
        if z is None or self.null is None:
            return None
        test, allowed = self.sum_test, 1 - self.null.confidence

        def is_allowed(mu: float) -> bool:
            below = special.ndtr(test.edges - mu)
            return test.power(int(test.statistic(z)), [(test.num_included, below)]) > allowed

        largest = bisected(is_allowed, curve.mu, _LARGEST_MU, 1 + _PRECISION) / (1 + _PRECISION)
        for mu in largest * _TRIED:  # the p-value may have been approximate
            if mu > curve.mu and test.under(GaussianTradeOff(mu)).p_value(z) <= allowed:
                return float(mu)
        return None

    @functools.cached_property
    def sum_test(self) -> SumTest:
        return sum_test(self.curve, self.statistic.scores.num_included, self.level)


@dataclass(frozen=True, eq=False)
class CurveTests:
    """The tests of a claimed curve, which together have the confidence `confidence`.

    Attributes:
      tests: The tests, the largest level first; their levels sum to `level`.
    """

    claim: CurveClaim
    tests: Sequence[CurveTest]
    confidence: float

    @property
    def level(self) -> float:
        return 1 - self.confidence

    @property
    def adjusted_p_values(self) -> list[tuple[CurveTest, float]]:
        """The applicable tests, each with its p-value divided by its share of the level."""
        p_values = [(test, test.p_value) for test in self.tests]
        return [(test, p * self.level / test.level) for test, p in p_values if p is not None]

    @property
    def statistics(self) -> list[ScoredStatistic]:
        return list({id(test.statistic): test.statistic for test in self.tests}.values())


def curve_tests(
    claim: CurveClaim, statistics: Sequence[ScoredStatistic], confidence: float
) -> CurveTests:
    """The tests of a claim on the statistics for which it states a curve.

    Args:
      claim: The claim.
      statistics: The statistics, at least one.
      confidence: The confidence of all tests together, in [LEAST_CONFIDENCE, 1).

    Raises:
      InputError: The confidence is out of range.
    """
    check_verdict_confidence(confidence)
    tested: list[tuple[CurveMethod, ScoredStatistic, TradeOff]] = []
    for statistic in sorted(statistics, key=_strength, reverse=True):
        curve = claim.curve(statistic.name)
        if curve is None or not statistic.scores.num_included:
            continue
        if statistic.null.known_tail() is not None:
            tested.append(("trade_off_sum", statistic, curve))
        if statistic.scores.inclusion == "coins":
            tested.append(("trade_off_guesses", statistic, curve))
    shares = [1.0]
    if len(tested) > 1:
        rest = (1 - LEADING_SHARE) / (len(tested) - 1)
        shares = [LEADING_SHARE, *(rest for _ in tested[1:])]
    levels = [share * (1 - confidence) for share in shares]
    tests = [
        CurveTest(*parts, claim.delta, level) for parts, level in zip(tested, levels, strict=False)
    ]
    return CurveTests(claim, tests, confidence)


def _strength(statistic: ScoredStatistic) -> tuple[bool, int]:
    """Whether a statistic's null is known, and how much its attacker knows, whatever the scores."""
    known = None if statistic.name is None else STATISTICS.get(statistic.name)
    model = None if known is None else THREAT_MODELS.get(known.threat_model)
    knows = 0 if model is None else int(model.knows)
    return statistic.null.known_tail() is not None, knows
