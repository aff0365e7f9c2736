"""A claim that relies on sampling, tested by its parts: the noise, and the sampling rate.

Such a claim can hardly be tested as a whole, because an attacker who does not know a canary's
rounds sees little. Its parts can be tested. Let each included canary c with k_c rounds be scored in
these rounds, with the deviate z_c of its score under the null distribution. Under Gaussian noise
with a multiplier of at least z, its rounds are a Gaussian mechanism with mu = sqrt(k_c) / z, so
that z_c is stochastically at most N(sqrt(k_c) / z, 1) (estimators/curve_tests.py, equation (1)).
The sum over canaries of sqrt(k_c) z_c, with z_c truncated at both ends and rounded down to a grid,
is a sum of non-decreasing functions and has an exact p-value for every z; inverting the test gives
an upper bound on the multiplier. Clients' updates only hide canaries more.

The included canaries' participations are binomial under Poisson sampling, given inclusion; samples
of fixed size make them a sum of independent Bernoulli variables, whose upper tail beyond the mean
is lighter (Hoeffding 1956, "On the distribution of the number of successes in independent trials",
theorem 5). So the rate has a lower confidence bound by Clopper and Pearson.

Both hold together at 1 - level, each at level / 2. If accounting's lower bound for the bounded
noise and rate exceeds the claim, the claim is contradicted.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft, special

from fl_audit.accounting import Party, PoissonSampling, Release, epsilon_at_least
from fl_audit.accounting.analytical import guarantee_to
from fl_audit.accounting.hidden_rounds import LARGEST_SHIFT, sampled_rounds
from fl_audit.accounting.noise_distributions import GAUSSIAN, noise_distribution_named
from fl_audit.accounting.release import effective_noise_multiplier
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.array_types import FloatArray, IndexArray, IntArray
from fl_audit.estimators.curve_tests import ROUNDING
from fl_audit.verdict.accounting_basis import MARGIN, Source
from fl_audit.verdict.power import ENOUGH_POWER, FACTOR, MOST_CANARIES
from fl_audit.verdict.search import bisected, least, least_near, least_number

_LOWEST, _HIGHEST = -3.0, 9.0
"""Deviates are truncated at these numbers of standard deviations from their mean under the stated
noise.
"""

_VALUES = 1 << 16
"""The approximate number of values of the sum."""

_FINEST = 0.02
"""The finest step of the sum's grid."""

_WIDEST = 20.0
"""The search range of multipliers and rates, as a factor of the stated ones."""

_LARGEST_RATE = 0.999
"""The largest rate tried."""

_PRECISION = 1.002

_ENDS, _DEVIATES = special.ndtri([0.1, 0.9]), special.ndtri([0.1, 0.3, 0.5, 0.7, 0.9])
"""Normal deviates at which bounds are computed, and at which they are interpolated."""


def _between(low: float, high: float) -> FloatArray:
    """Interpolates a bound at _DEVIATES from values at _ENDS: its logarithm is nearly normal."""
    return np.asarray(np.exp(np.interp(_DEVIATES, _ENDS, np.log([low, high]))))


_Epsilon = Callable[[float, float, float], float]
"""The epsilon at a noise multiplier, a rate and a delta."""


@dataclass(frozen=True, eq=False)
class NoiseTest:
    """The test of a noise multiplier by canaries' scores in their own rounds.

    Attributes:
      stated: The multiplier for which the grid is chosen; the test is valid for any.
      numbers: The distinct numbers of rounds of canaries, at least 1, int64 of shape (groups,).
      canaries: The number of canaries with each, of the same shape.
    """

    stated: float
    numbers: IntArray
    canaries: IntArray

    @functools.cached_property
    def _roots(self) -> FloatArray:
        return np.sqrt(self.numbers)

    @functools.cached_property
    def _step(self) -> float:
        """The step of the grid of sqrt(k) z."""
        spread = (_HIGHEST - _LOWEST) * float(self._roots @ self.canaries)
        return max(_FINEST, spread / _VALUES)

    @functools.cached_property
    def _sizes(self) -> IntArray:
        sizes: IntArray = np.ceil(self._roots * (_HIGHEST - _LOWEST) / self._step).astype(np.int64)
        return sizes

    def statistic(self, z: FloatArray, numbers: IndexArray) -> int:
        group = np.searchsorted(self.numbers, numbers)
        roots = self._roots[group]
        above = roots * (z - roots / self.stated - _LOWEST)
        values = np.floor(above / self._step)
        return int(np.clip(values, 0, self._sizes[group] - 1).sum())

    def tail(self, shift: float) -> FloatArray:
        """P(sum >= s) at s = 0, 1, ..., rounded up, if each round shifts a canary by `shift`."""
        size = int(self.canaries @ (self._sizes - 1)) + 1
        length = fft.next_fast_len(size, real=True)
        transform = np.ones(length // 2 + 1, np.complex128)
        with np.errstate(under="ignore"):
            for root, cells, canaries in zip(self._roots, self._sizes, self.canaries, strict=True):
                edges = root / self.stated + _LOWEST + np.arange(1, cells) * self._step / root
                below = np.concatenate([[0.0], special.ndtr(edges - root * shift), [1.0]])
                transform *= fft.rfft(np.diff(below), length) ** int(canaries)
            masses = fft.irfft(transform, length)[:size]
        tail = np.cumsum(np.maximum(masses, 0.0)[::-1])[::-1]
        return np.asarray(np.minimum(tail + ROUNDING * (1 + self.canaries.sum() / 1000), 1.0))

    def critical_value(self, multiplier: float, level: float) -> int:
        """The least sum that rejects all multipliers of at least this one."""
        return int(np.searchsorted(-self.tail(1 / multiplier), -level, side="left"))

    def upper_bound(self, statistic: int, level: float) -> float:
        """The least rejected multiplier; infinite if none in the range is."""
        return least(
            lambda multiplier: self.tail(1 / multiplier)[statistic] <= level,
            self.stated / _WIDEST,
            self.stated * _WIDEST,
            _PRECISION,
        )

    def power(self, critical_values: npt.ArrayLike, shift: float) -> float:
        """The probability that the sum reaches a value, or the mean of several, given `shift`."""
        tail = np.append(self.tail(shift), 0.0)
        return float(np.mean(tail[np.minimum(critical_values, len(tail) - 1)]))


def lower_rate(participations: int, trials: int, level: float) -> float:
    """The lower confidence bound on a probability (Clopper & Pearson 1934)."""
    if participations == 0:
        return 0.0
    return float(special.betaincinv(participations, trials - participations + 1, level))


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a claim that relies on sampling, as tested by canaries.

    Attributes:
      z: The deviates of included canaries with scored rounds, float64 of shape (canaries,).
      numbers: Their numbers of scored rounds, int64 of the same shape.
      trials: The number of included canaries times the number of rounds.
      spent: The part of the level spent on testing the null distribution.
      crowd: The variance of clients' updates in the aggregate of a round, over that of the noise.
    """

    release: Release
    source: Source
    z: FloatArray
    numbers: IndexArray
    participations: int
    trials: int
    level: float
    spent: float
    crowd: float

    @property
    def stated_noise(self) -> float:
        return self.release.noise.sum_noise_multiplier

    @property
    def stated_rate(self) -> float:
        return self.release.client.sampling.share or 0.0

    @functools.cached_property
    def noise_test(self) -> NoiseTest:
        numbers, canaries = np.unique(self.numbers, return_counts=True)
        return NoiseTest(self.stated_noise, numbers, canaries)

    @functools.cached_property
    def noise_bound(self) -> float:
        """The upper confidence bound on the noise multiplier at half of the level."""
        return self.noise_at_most(self.level / 2)

    @property
    def rate_bound(self) -> float:
        """The lower confidence bound on the sampling rate at half of the level."""
        return lower_rate(self.participations, self.trials, self.level / 2)

    def noise_at_most(self, level: float) -> float:
        """The upper confidence bound on the noise multiplier, with this probability of failing."""
        allowed = level - self.spent
        if allowed <= 0:
            return math.inf
        return self.noise_test.upper_bound(self.noise_test.statistic(self.z, self.numbers), allowed)

    def epsilon_at_least(self, delta: float, level: float) -> float:
        """The lower bound on epsilon, with this failure probability."""
        noise = self.noise_at_most(level / 2)
        rate = lower_rate(self.participations, self.trials, level / 2)
        if math.isinf(noise) or rate == 0 or 1 / noise > LARGEST_SHIFT:
            return 0.0
        party, release = Party(PoissonSampling(rate)), self._with_noise(noise)
        return epsilon_at_least(release, party, delta, knows_rounds=False) or 0.0

    def p_value(self, claimed: float, delta: float) -> float:
        """The smallest level at which the claim is contradicted, to a third from above."""
        return bisected(
            lambda level: self.epsilon_at_least(delta, level) > claimed,
            _SMALLEST_LEVEL,
            self.level,
            _COARSE,
        )

    def _with_noise(self, multiplier: float) -> Release:
        count = self.release.noise.count_noise_stddev
        noise = dataclasses.replace(
            self.release.noise,
            noise_multiplier=effective_noise_multiplier(multiplier, count),
            sum_noise_multiplier=multiplier,
        )
        return self.release.with_noise(noise)

    # The power of the tests of parts.

    def detectable(self, claimed: float, delta: float, signal: float) -> "DetectableParts":
        """The noise and rate at which 80 % of such audits contradict the claim.

        Each is computed with the other one as stated, and with random bounds on both.
        """
        level, limit = self.level / 2 - self.spent, (1 + MARGIN) * claimed
        if level <= 0:
            return DetectableParts(0.0, 1.0, math.inf)
        noise = self._noticed_noise(limit, delta, signal, level)
        rate = self._noticed_rate(limit, delta, signal, level)
        epsilons = (
            self._epsilon(noise, self.stated_rate, delta),
            self._epsilon(self.stated_noise, rate, delta),
        )
        return DetectableParts(noise, rate, max(epsilons))

    def canaries_needed(self, claimed: float, delta: float, signal: float) -> int | None:
        """The approximate number of included canaries like these that detect FACTOR times a claim.

        Their weighted sum is taken as normal, and both bounds as in the worst fifth of audits,
        which is conservative. None if MOST_CANARIES do not detect it.
        """
        level, limit, target = self.level / 2 - self.spent, (1 + MARGIN) * claimed, FACTOR * claimed
        noise = self._too_little(self.stated_rate, target, delta, self._epsilon)
        stated = self.stated_noise
        rate = self._too_often(stated, target, delta, self._epsilon)
        if level <= 0 or noise == 0 or math.isinf(rate):
            return None
        number = len(self.numbers)
        distance = float(special.ndtri(1 - level) + special.ndtri(ENOUGH_POWER))

        def is_enough(canaries: int) -> bool:
            trials = round(self.trials * canaries / number)
            error = distance / math.sqrt(self.numbers.sum() * canaries / number)
            return all(
                self._is_above(
                    signal / math.hypot(true_noise, math.sqrt(self.crowd) * stated) - error,
                    int(_binomial(trials, true_rate).ppf(1 - ENOUGH_POWER)),
                    trials,
                    limit,
                    delta,
                )
                for true_noise, true_rate in ((noise, self.stated_rate), (stated, rate))
            )

        return least_number(is_enough, above=number, first=3 * number, most=MOST_CANARIES)

    def _is_above(
        self, shift: float, participations: int, trials: int, limit: float, delta: float
    ) -> bool:
        """Whether epsilon exceeds a limit if each round shifts a canary by `shift` or more."""
        rate = lower_rate(participations, trials, self.level / 2)
        return shift > 0 and rate > 0 and self._shown(1 / shift, rate, delta) > limit

    def power_at(self, factor: float, claimed: float, delta: float) -> float:
        """The probability that the claim is contradicted, with a share of the stated noise."""
        level, limit = self.level / 2 - self.spent, (1 + MARGIN) * claimed
        critical = self._critical_values(limit, delta, level) if level > 0 else None
        return 0.0 if critical is None else self._noise_power(critical, factor * self.stated_noise)

    def _too_little(self, rate: float, limit: float, delta: float, epsilon: _Epsilon) -> float:
        """The largest noise for which epsilon exceeds a limit at a rate; 0 if none does."""
        stated = 1 / self.stated_noise
        # As inverse multipliers, which rise with epsilon.
        return 1 / least_near(
            lambda inverse: epsilon(1 / inverse, rate, delta) > limit,
            stated,
            stated / _WIDEST,
            LARGEST_SHIFT,
            _PRECISION,
        )

    def _too_often(self, noise: float, limit: float, delta: float, epsilon: _Epsilon) -> float:
        """The least rate at which epsilon exceeds a limit; infinite if none does."""
        return least_near(
            lambda rate: epsilon(noise, rate, delta) > limit,
            self.stated_rate,
            self.stated_rate / _WIDEST,
            _LARGEST_RATE,
            _PRECISION,
        )

    def _critical_values(self, limit: float, delta: float, level: float) -> IntArray | None:
        """The least sums that show epsilon above a limit, for random bounds on the rate.

        None if no noise is small enough.
        """
        drawn = _binomial(self.trials, self.stated_rate).ppf(special.ndtr(_ENDS))
        rates = [lower_rate(int(number), self.trials, self.level / 2) for number in drawn]
        ends = [self._too_little(rate, limit, delta, self._shown) for rate in rates if rate > 0]
        if len(ends) < len(rates) or 0 in ends:
            return None
        return np.array([self.noise_test.critical_value(z, level) for z in _between(*ends)])

    def _noise_power(self, critical: IntArray, multiplier: float, signal: float = 1.0) -> float:
        """The probability that the sums are reached if this is the true noise."""
        hidden = math.hypot(multiplier, math.sqrt(self.crowd) * self.stated_noise)
        return self.noise_test.power(critical, signal / max(hidden, 1 / LARGEST_SHIFT))

    def _noticed_noise(self, limit: float, delta: float, signal: float, level: float) -> float:
        """The largest noise detected at the stated rate; 0 if none is."""
        critical = self._critical_values(limit, delta, level)
        if critical is None:
            return 0.0
        return 1 / least(
            lambda inverse: self._noise_power(critical, 1 / inverse, signal) >= ENOUGH_POWER,
            1 / (self.stated_noise * _WIDEST),
            LARGEST_SHIFT,
            _PRECISION,
        )

    def _noticed_rate(self, limit: float, delta: float, signal: float, level: float) -> float:
        """The least rate detected with the stated noise; 1 if none below is."""
        stated, test = self.stated_noise, self.noise_test
        tail = np.append(test.tail(signal / (stated * math.sqrt(1 + self.crowd))), 0.0)

        def bound(share: float) -> float:
            return least(
                lambda multiplier: tail[test.critical_value(multiplier, level)] >= share,
                stated / _WIDEST,
                stated * _WIDEST,
                _PRECISION,
            )

        bounds = [bound(share) for share in special.ndtr(_ENDS)]
        if not np.isfinite(bounds).all():
            return 1.0
        ends = [self._too_often(noise, limit, delta, self._shown) for noise in bounds]
        if not np.isfinite(ends).all():
            return 1.0
        needed = _binomial(self.trials, _between(*ends)).isf(self.level / 2) + 1
        if needed.max() > self.trials:
            return 1.0
        shares = (needed, self.trials - needed + 1)
        rate = least(
            lambda rate: float(np.mean(special.betainc(*shares, rate))) >= ENOUGH_POWER,
            self.stated_rate / _WIDEST,
            _LARGEST_RATE,
            _PRECISION,
        )
        return min(rate, 1.0)

    def _epsilon(self, multiplier: float, rate: float, delta: float) -> float:
        """The accounted epsilon for a noise multiplier and a rate; infinite if out of range."""
        sampling = self.release.client.sampling
        if not isinstance(sampling, FixedSizeSampling) or multiplier < 1 / LARGEST_SHIFT:
            return self._shown(multiplier, rate, delta)
        members = sampling.sampled_from
        sample = min(max(math.ceil(rate * members), 1), members)
        party = Party(FixedSizeSampling(sample, members))
        return guarantee_to(self._with_noise(multiplier), party, delta).epsilon or math.inf

    def _shown(self, multiplier: float, rate: float, delta: float) -> float:
        """The epsilon that is sure, but for rounding in accounting.

        It is computed for Poisson sampling, because samples of fixed size leak at least as much.
        """
        if multiplier < 1 / LARGEST_SHIFT:
            return math.inf
        release = self._with_noise(multiplier)
        z, rate = release.noise.noise_multiplier, min(rate, _LARGEST_RATE)
        return sampled_rounds(z, rate, release.rounds, delta).epsilon(delta)


_SMALLEST_LEVEL, _COARSE = 1e-9, 1.33


def _binomial(trials: int, rate: float | FloatArray) -> Any:
    from scipy import stats  # imported here: it takes half a second

    return stats.binom(trials, rate)


@dataclass(frozen=True)
class DetectableParts:
    """The noise and rate at which the claim is contradicted with 80 % power.

    Attributes:
      noise_multiplier: The largest noise, at the stated rate; 0 if none.
      rate: The least rate, with the stated noise; 1 if none below.
      epsilon: The larger of their two accounted epsilons.
    """

    noise_multiplier: float
    rate: float
    epsilon: float


def are_testable(release: Release) -> bool:
    """Whether the parts of a release can be tested: independent Gaussian noise and sampling."""
    is_sampled = isinstance(release.client.sampling, PoissonSampling | FixedSizeSampling)
    is_gaussian = (
        noise_distribution_named(release.noise.distribution) is GAUSSIAN
        and release.correlation is None
    )
    has_noise = release.noise.noise_multiplier >= 1 / LARGEST_SHIFT
    is_alike = release.canary.sampling == release.client.sampling
    return (
        is_sampled
        and is_gaussian
        and is_alike
        and has_noise
        and release.zeroing != "adaptive"
        and (release.client.sampling.share or 1.0) < 1
    )
