"""A claim that relies on sampling, tested by its parts: the noise, and the sampling rate.

Such a claim can hardly be tested as a whole, because an attacker who does not know a canary's
rounds sees little. Its parts can be tested. Score each included canary c in its k_c rounds, and let
z_c be the normal deviate of the score under the null distribution. Under Gaussian noise with a
multiplier of at least sigma, the k_c rounds are a Gaussian mechanism with mu = sqrt(k_c) / sigma,
so z_c is stochastically at most N(sqrt(k_c) / sigma, 1) (estimators/curve_tests.py, equation (1)).
Clip every z_c from below and above, round sqrt(k_c) z_c down to a grid, and add up. The sum rises
with every z_c, so a p-value can be computed for every sigma; inverting the test gives an upper
bound on the multiplier. Clients' updates only hide canaries more.

Given inclusion, the number of all included canaries' participations is binomial under Poisson
sampling. Under sampling of fixed size it is a sum of independent Bernoulli variables, whose upper
tail beyond the mean is lighter (Hoeffding 1956, "On the distribution of the number of successes in
independent trials", theorem 5). So the rate has a lower confidence bound by Clopper and Pearson.

Both bounds hold with confidence 1 - level, as each fails with probability at most level / 2. The
claim is contradicted if accounting for noise and rate at these bounds gives a larger epsilon.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import fft, special

from fl_audit.accounting import Party, PoissonSampling, Release, epsilon_at_least
from fl_audit.accounting.hidden_rounds import LARGEST_SHIFT
from fl_audit.accounting.noise_distributions import GAUSSIAN, noise_distribution_named
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.curve_tests import ROUNDING
from fl_audit.verdict.accounting_basis import Source
from fl_audit.verdict.less_noise import with_noise_on_sum
from fl_audit.verdict.search import bisected, least

_LOWEST, _HIGHEST = -3.0, 9.0
"""Deviates are clipped at these numbers of standard deviations from their mean under the stated
noise.
"""

_VALUES = 1 << 16
"""The largest number of values of the sum, approximately."""

_FINEST = 0.02
"""The finest step of the sum's grid."""

WIDEST = 20.0
"""The factor between a stated multiplier or rate and a limit of its search range."""

PRECISION = 1.002
"""The ratio up to which multipliers and rates are found."""

_SMALLEST_LEVEL, _COARSE = 1e-9, 1.33
"""The smallest p-value searched for, and the ratio up to which it is found."""


@dataclass(frozen=True, eq=False)
class NoiseTest:
    """The test of a noise multiplier by canaries' scores in their own rounds.

    Attributes:
      stated: The multiplier for which the grid is chosen; the test is valid for any multiplier.
      numbers: The distinct numbers of rounds of canaries, at least 1, int64 of shape (groups,).
      canaries: The number of canaries with each number of rounds, of the same shape.
    """

    stated: float
    numbers: IntArray
    canaries: IntArray

    @functools.cached_property
    def _roots(self) -> FloatArray:
        return np.sqrt(self.numbers)

    @functools.cached_property
    def _step(self) -> float:
        """The step of the grid of sqrt(k_c) z_c."""
        spread = (_HIGHEST - _LOWEST) * float(self._roots @ self.canaries)
        return max(_FINEST, spread / _VALUES)

    @functools.cached_property
    def _sizes(self) -> IntArray:
        sizes: IntArray = np.ceil(self._roots * (_HIGHEST - _LOWEST) / self._step).astype(np.int64)
        return sizes

    def statistic(self, z: FloatArray, numbers: IntArray) -> int:
        group = np.searchsorted(self.numbers, numbers)
        roots = self._roots[group]
        above = roots * (z - roots / self.stated - _LOWEST)
        values = np.floor(above / self._step)
        return int(np.clip(values, 0, self._sizes[group] - 1).sum())

    def tail(self, shift: float) -> FloatArray:
        """P(sum >= s) at s = 0, 1, ..., rounded up, if z_c has mean sqrt(k_c) times `shift`."""
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
        """The least sum that rejects `multiplier` and all larger multipliers."""
        return int(np.searchsorted(-self.tail(1 / multiplier), -level, side="left"))

    def upper_bound(self, statistic: int, level: float) -> float:
        """The least rejected multiplier; infinite if none that is tried is rejected."""
        return least(
            lambda multiplier: self.tail(1 / multiplier)[statistic] <= level,
            self.stated / WIDEST,
            self.stated * WIDEST,
            PRECISION,
        )

    def power(self, critical_values: npt.ArrayLike, shift: float) -> float:
        """The probability that the sum reaches a critical value, averaged over critical values."""
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
      numbers: The number of scored rounds of each of these canaries, int64 of shape (canaries,).
      participations: The number of participations of all included canaries together.
      trials: The number of included canaries times the number of rounds.
      spent: The part of the level spent on testing the null distribution.
      crowd: The variance of clients' updates in a round's aggregate, divided by the noise's
        variance.
    """

    release: Release
    source: Source
    z: FloatArray
    numbers: IntArray
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
        """The upper bound on the noise multiplier that fails with probability at most `level`."""
        allowed = level - self.spent
        if allowed <= 0:
            return math.inf
        return self.noise_test.upper_bound(self.noise_test.statistic(self.z, self.numbers), allowed)

    def epsilon_at_least(self, delta: float, level: float) -> float:
        """The lower bound on epsilon that fails with probability at most `level`; 0 without one."""
        noise = self.noise_at_most(level / 2)
        rate = lower_rate(self.participations, self.trials, level / 2)
        if math.isinf(noise) or rate == 0 or 1 / noise > LARGEST_SHIFT:
            return 0.0
        party, release = Party(PoissonSampling(rate)), with_noise_on_sum(self.release, noise)
        return epsilon_at_least(release, party, delta, knows_rounds=False) or 0.0

    def p_value(self, claimed: float, delta: float) -> float:
        """The smallest level at which the parts contradict a claim, if they do at `self.level`.

        It is too large by up to a factor of 1.33, and at least _SMALLEST_LEVEL.
        """
        return bisected(
            lambda level: self.epsilon_at_least(delta, level) > claimed,
            _SMALLEST_LEVEL,
            self.level,
            _COARSE,
        )


def are_testable(release: Release) -> bool:
    """Whether noise and sampling rate of a release can be tested.

    They can if the noise is Gaussian, independent between rounds and not tiny, canaries are sampled
    as clients are (Poisson or fixed size, at a rate below 1), and zeroing is not adaptive.
    """
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
