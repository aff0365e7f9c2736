"""What an audit would have noticed of a claimed curve, and how many canaries that takes.

The power of a sum of scores is computed, not simulated: scores are N(0, 1), shifted by the signal
of a Gaussian mechanism where a canary is included, as much of it as arrived.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators import NullTail
from fl_audit.estimators.anytime import deviates
from fl_audit.estimators.curve_tests import SumTest, likely_number, sum_test
from fl_audit.estimators.trade_off import GaussianTradeOff
from fl_audit.verdict.claims import CurveClaim, ZeroConcentratedClaim
from fl_audit.verdict.curve_claim_tests import CurveTest, CurveTests
from fl_audit.verdict.power import ENOUGH_POWER, MOST_CANARIES, UNIT, ArrivedSignal, standard_null
from fl_audit.verdict.record import Detectable
from fl_audit.verdict.sentences import claimed_noise

_SMALLEST_MU, _LARGEST_MU = 1e-3, 60.0
_PRECISION = 0.002
_SIGNALS = 4_000


@dataclass(frozen=True, eq=False)
class SumPower:
    """The chance that a sum of scores contradicts a claim, by how much a mechanism really leaks.

    Attributes:
      test: The sum of scores.
      critical_value: The least sum that contradicts.
      tail: The null of the scores in units of `standard_null`.
      groups: The number of canaries that show a share of their signal, and that share, in each of
        the ways in which signal may be lost; the power is the smaller one.
    """

    test: SumTest
    critical_value: int
    tail: NullTail
    groups: tuple[tuple[tuple[int, float], ...], ...]

    @classmethod
    def for_test(
        cls, leading: CurveTest, arrived: ArrivedSignal, num_included: int | None = None
    ) -> "SumPower":
        """The power of the leading test, with what canaries show.

        Args:
          leading: The test.
          arrived: What they show.
          num_included: The number of included canaries; by default that of the audit.
        """
        test = leading.sum_test
        if num_included is not None:
            test = sum_test(leading.curve, num_included, leading.level)
        tail = standard_null(leading.statistic)
        if tail is None:
            raise ValueError("power needs a known null")
        ways = []
        for shares in arrived.shares(test.num_included):
            values, counts = np.unique(shares, return_counts=True)
            ways.append(tuple(zip(counts.tolist(), values.tolist(), strict=True)))
        return cls(test, test.critical_value(leading.level), tail, tuple(ways))

    def at(self, mu: float) -> float:
        """The power where a canary's score is shifted by mu of its standard deviations."""
        return min(
            self.test.power(
                self.critical_value,
                [(number, special.ndtr(self._edges - share * mu)) for number, share in groups],
            )
            for groups in self.groups
        )

    def detectable_in(self, tests: CurveTests) -> Detectable | None:
        """The smallest violation of the claim with ENOUGH_POWER, in its units."""
        mu = self.detectable()
        if mu is None:
            return None
        return Detectable(mu, noise_of(tests.claim, tests.tests[0], mu))

    def detectable(self) -> float | None:
        """The smallest mu with ENOUGH_POWER, rounded up by at most 0.2 %; None if there is none."""
        low, high = _SMALLEST_MU, _LARGEST_MU
        if self.at(high) < ENOUGH_POWER:
            return None
        while high - low > _PRECISION * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.at(middle) >= ENOUGH_POWER else (middle, high)
        return high

    @functools.cached_property
    def _edges(self) -> FloatArray:
        """The scores, in standard deviations, at which the deviate z passes each edge."""
        scores = np.linspace(-10.0, self.test.edges[-1] + 10.0, _SIGNALS)
        z = np.maximum.accumulate(deviates(self.tail.log_tail_upper(UNIT * scores)))
        return np.asarray(np.interp(self.test.edges, z, scores))


_STEP, _CLOSE = 1.3, 1.03
_MOST_INCLUDED = MOST_CANARIES // 2


def included_needed(leading: CurveTest, mu: float, arrived: ArrivedSignal) -> int | None:
    """The number of included canaries with which a sum of scores has ENOUGH_POWER.

    Args:
      leading: The test; its number of canaries does not matter.
      mu: By how many standard deviations a canary that shows all of its signal is shifted.
      arrived: What canaries show of it.

    Returns:
      The number, too large by at most 3 % or by one; None where half of MOST_CANARIES is too few.
    """

    def is_enough(number: int) -> bool:
        return SumPower.for_test(leading, arrived, number).at(mu) >= ENOUGH_POWER

    guess = likely_number(leading.curve, arrived.signal * mu, leading.level)
    too_few = enough = math.ceil(min(max(guess, 1.0), _MOST_INCLUDED))
    while not is_enough(enough):
        if enough == _MOST_INCLUDED:
            return None
        too_few, enough = enough, min(math.ceil(_STEP * enough), _MOST_INCLUDED)
    while too_few == enough or (too_few and is_enough(too_few)):
        too_few, enough = math.floor(too_few / _STEP), too_few
    while enough > _CLOSE * too_few and enough > too_few + 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    return enough


def with_less_noise(claim: CurveClaim, leading: CurveTest, factor: float) -> float | None:
    """The mu of a Gaussian mechanism with less noise than a claim needs.

    Args:
      claim: The claim.
      leading: The test of it.
      factor: The noise, as a share of the least with which the claim is true.

    Returns:
      The mu; None where the claim is about no Gaussian mechanism whose rounds are known.
    """
    if isinstance(claim, ZeroConcentratedClaim):
        return math.sqrt(2 * claim.rho) / factor
    return leading.curve.mu / factor if isinstance(leading.curve, GaussianTradeOff) else None


def noise_of(claim: CurveClaim, test: CurveTest, mu: float) -> float | None:
    """The noise multiplier with which a canary's mu is the given one.

    Args:
      claim: The claim, whose noise multiplier is the one that its curve has.
      test: The test of the claim's curve.
      mu: The mu of the canary, above 0.

    Returns:
      None where the claim states no noise, or its curve is not that of a Gaussian mechanism.
    """
    claimed = claimed_noise(claim)
    if claimed is None or not isinstance(test.curve, GaussianTradeOff):
        return None
    return claimed * test.curve.mu / mu
