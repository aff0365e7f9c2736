"""The power of the tests of a claim's parts (parts.py): what they detect, computed without samples.

First the true noise is varied at the stated rate, then the true rate with the stated noise. In the
first case the bound on the rate is random: the bound on the noise that contradicts the claim is
computed at two quantiles of the bound on the rate, and interpolated. In the second case the roles
are exchanged.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from fl_audit.accounting import Party, PoissonSampling
from fl_audit.accounting.hidden_rounds import LARGEST_SHIFT
from fl_audit.accounting.sampling import Sampling
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.verdict.accounting_basis import MARGIN
from fl_audit.verdict.claims import Claim
from fl_audit.verdict.less_noise import epsilon_of, with_noise_on_sum
from fl_audit.verdict.parts import PRECISION, WIDEST, Parts, lower_rate
from fl_audit.verdict.power import ENOUGH_POWER, FACTOR, MOST_CANARIES
from fl_audit.verdict.search import least, least_near, least_number

_LARGEST_RATE = 0.999
"""The largest rate tried."""

_ENDS, _DEVIATES = special.ndtri([0.1, 0.9]), special.ndtri([0.1, 0.3, 0.5, 0.7, 0.9])
"""Normal deviates at which bounds are computed, and at which they are interpolated."""


def _between(low: float, high: float) -> FloatArray:
    """Interpolates a bound, whose logarithm is nearly normal, at _DEVIATES from values at _ENDS."""
    return np.asarray(np.exp(np.interp(_DEVIATES, _ENDS, np.log([low, high]))))


_Epsilon = Callable[[float, float], float]
"""A function from a noise multiplier and a rate to epsilon."""


@dataclass(frozen=True, eq=False)
class PartsPower:
    """The power of tests of the parts against a claim.

    Attributes:
      signal: The canaries' measured norm, divided by the expected one.
    """

    parts: Parts
    claim: Claim
    signal: float = 1.0

    @functools.cached_property
    def epsilon(self) -> float:
        """The larger of the accounted epsilons of the detectable noise and the detectable rate.

        That of the noise if no rate is detectable.
        """
        by_noise = self._epsilon(self.noise_multiplier, self.parts.stated_rate)
        return by_noise if self.rate >= 1 else max(by_noise, self._by_rate)

    @functools.cached_property
    def _by_rate(self) -> float:
        """The largest accounted epsilon of a rate that is not detectable."""
        return self._epsilon(self._stated, self.rate)

    @property
    def is_enough(self) -> bool:
        """Whether noise or rate with FACTOR times the claimed epsilon is detectable."""
        return max(self.epsilon, self._by_rate) <= FACTOR * self.claim.epsilon

    def canaries_needed(self) -> int | None:
        """The approximate number of included canaries like these that detect FACTOR times a claim.

        The weighted sum of their deviates is taken as normal, and each bound at the 20 % quantile
        that is worse for the audit, which is conservative. None if MOST_CANARIES are too few, no
        noise or no rate tried has that epsilon, or the whole level is spent on the null.
        """
        parts, target = self.parts, FACTOR * self.claim.epsilon
        noise = self._too_little(parts.stated_rate, target, self._epsilon)
        rate = self._too_often(self._stated, target, self._epsilon)
        if self._level <= 0 or noise == 0 or math.isinf(rate):
            return None
        number = len(parts.numbers)
        distance = float(special.ndtri(1 - self._level) + special.ndtri(ENOUGH_POWER))

        def is_enough(canaries: int) -> bool:
            trials = round(parts.trials * canaries / number)
            error = distance / math.sqrt(parts.numbers.sum() * canaries / number)
            for true_noise, true_rate in ((noise, parts.stated_rate), (self._stated, rate)):
                shift = self.signal / self._hidden(true_noise) - error
                sampled = int(_binomial(trials, true_rate).ppf(1 - ENOUGH_POWER))
                at_least = lower_rate(sampled, trials, parts.level / 2)
                if not (shift > 0 and at_least > 0):
                    return False
                if self._shown(1 / shift, at_least) <= self._limit:
                    return False
            return True

        return least_number(is_enough, above=number, first=3 * number, most=MOST_CANARIES)

    def at(self, factor: float) -> float:
        """The probability that the claim is contradicted with `factor` times the stated noise."""
        critical = self._critical_values
        return 0.0 if critical is None else self._noise_power(critical, factor * self._stated)

    @property
    def _stated(self) -> float:
        return self.parts.stated_noise

    @property
    def _level(self) -> float:
        """The level of the test of the noise."""
        return self.parts.level / 2 - self.parts.spent

    @property
    def _limit(self) -> float:
        """The epsilon above which the claim is contradicted."""
        return (1 + MARGIN) * self.claim.epsilon

    def _hidden(self, multiplier: float) -> float:
        """This noise and clients' updates together, in multiples of a canary's norm."""
        return math.hypot(multiplier, math.sqrt(self.parts.crowd) * self._stated)

    def _too_little(self, rate: float, limit: float, epsilon: _Epsilon) -> float:
        """The largest noise at which epsilon exceeds a limit at a rate; 0 if epsilon never does."""
        stated = 1 / self._stated
        # The search is over inverse multipliers, with which epsilon rises.
        return 1 / least_near(
            lambda inverse: epsilon(1 / inverse, rate) > limit,
            stated,
            stated / WIDEST,
            LARGEST_SHIFT,
            PRECISION,
        )

    def _too_often(self, noise: float, limit: float, epsilon: _Epsilon) -> float:
        """The least rate at which epsilon exceeds a limit; infinite if epsilon never does."""
        stated = self.parts.stated_rate
        return least_near(
            lambda rate: epsilon(noise, rate) > limit,
            stated,
            stated / WIDEST,
            _LARGEST_RATE,
            PRECISION,
        )

    @functools.cached_property
    def _critical_values(self) -> IntArray | None:
        """The least sums that show epsilon above the limit, for random bounds on the rate.

        None if no noise is small enough, or if the level is too small for a test or a rate.
        """
        parts = self.parts
        if self._level <= 0:
            return None
        drawn = _binomial(parts.trials, parts.stated_rate).ppf(special.ndtr(_ENDS))
        rates = [lower_rate(int(number), parts.trials, parts.level / 2) for number in drawn]
        ends = [self._too_little(rate, self._limit, self._shown) for rate in rates if rate > 0]
        if len(ends) < len(rates) or 0 in ends:
            return None
        test = parts.noise_test
        return np.array([test.critical_value(z, self._level) for z in _between(*ends)])

    def _noise_power(self, critical: IntArray, multiplier: float) -> float:
        """The probability that the sum reaches a critical value if this is the true noise."""
        hidden = max(self._hidden(multiplier), 1 / LARGEST_SHIFT)
        return self.parts.noise_test.power(critical, self.signal / hidden)

    @functools.cached_property
    def noise_multiplier(self) -> float:
        """The largest noise that 80 % of audits detect at the stated rate; 0 if none."""
        critical = self._critical_values
        if critical is None:
            return 0.0
        return 1 / least(
            lambda inverse: self._noise_power(critical, 1 / inverse) >= ENOUGH_POWER,
            1 / (self._stated * WIDEST),
            LARGEST_SHIFT,
            PRECISION,
        )

    @functools.cached_property
    def rate(self) -> float:
        """The least rate that 80 % of audits detect with the stated noise; 1 if none."""
        if self._level <= 0:
            return 1.0
        parts, stated, test = self.parts, self._stated, self.parts.noise_test
        tail = np.append(test.tail(self.signal / self._hidden(stated)), 0.0)

        def bound(share: float) -> float:
            return least(
                lambda multiplier: tail[test.critical_value(multiplier, self._level)] >= share,
                stated / WIDEST,
                stated * WIDEST,
                PRECISION,
            )

        bounds = [bound(share) for share in special.ndtr(_ENDS)]
        if not np.isfinite(bounds).all():
            return 1.0
        ends = [self._too_often(noise, self._limit, self._shown) for noise in bounds]
        if not np.isfinite(ends).all():
            return 1.0
        needed = _binomial(parts.trials, _between(*ends)).isf(parts.level / 2) + 1
        if needed.max() > parts.trials:
            return 1.0
        shares = (needed, parts.trials - needed + 1)
        rate = least(
            lambda rate: float(np.mean(special.betainc(*shares, rate))) >= ENOUGH_POWER,
            parts.stated_rate / WIDEST,
            _LARGEST_RATE,
            PRECISION,
        )
        return min(rate, 1.0)

    def _epsilon(self, multiplier: float, rate: float) -> float:
        """The accounted epsilon for a noise multiplier and a rate; infinite if none is known."""
        sampling = self.parts.release.client.sampling
        if not isinstance(sampling, FixedSizeSampling):
            return self._shown(multiplier, rate)
        members = sampling.sampled_from
        sample = min(max(math.ceil(rate * members), 1), members)
        return self._accounted(multiplier, FixedSizeSampling(sample, members))

    def _shown(self, multiplier: float, rate: float) -> float:
        """The epsilon shown by bounds on noise and rate, up to rounding in accounting.

        It is computed for Poisson sampling, because samples of fixed size leak at least as much.
        """
        return self._accounted(multiplier, PoissonSampling(min(rate, _LARGEST_RATE)))

    def _accounted(self, multiplier: float, sampling: Sampling) -> float:
        if multiplier < 1 / LARGEST_SHIFT:
            return math.inf
        release = with_noise_on_sum(self.parts.release, multiplier)
        return epsilon_of(release, Party(sampling), self.claim.delta, knows_rounds=False)


def _binomial(trials: int, rate: float | FloatArray) -> Any:
    from scipy import stats  # imported here: it takes half a second

    return stats.binom(trials, rate)
