"""Lower bounds on epsilon under a secret participation schedule.

An accountant's upper bound may be loose; a lower bound limits by how much. It comes from an
attacker whose statistic is the sum over rounds of

    g(x_t) = log(1 - q + q exp(x_t / sigma - 1 / (2 sigma^2))),

rounded to a grid, with x_t the release of round t in standard deviations of the noise: N(1 / sigma,
1) in rounds of the party (a client or a canary), N(0, 1) in all other rounds. Under Poisson
sampling with probability q the sum is the log of the likelihood ratio, and nearly so for other
samplings with the same mean. The sum's distribution depends only on the number of the party's
rounds. It follows from the Gaussian mass of each cell, by powers of Fourier transforms, and is
exact, as rounding to the grid is part of the statistic. No mechanism is (epsilon, delta)-DP at an
epsilon that a threshold on the sum contradicts.

>>> once = np.array([0.0, 1.0])  # one round of one: the Gaussian mechanism, whose epsilon is 4.377
>>> round(least_epsilon(1.0, once, rounds=1, delta=1e-5), 2)
4.38
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.accounting.sampling import log_binomial_masses
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import supremum

_TAIL = 1e-16
"""The largest probability of sums below the grid, and likewise of sums above the grid."""

_REACH = 8.5
"""A round's release is clipped this many standard deviations below 0 and above 1 / sigma."""

_CELLS = 2**16
"""The number of cells of the grid of sums."""

_COARSE_CELLS = 1_000
"""The number of cells of one round's statistic when the limits of the grid of sums are sought."""

_COINS = (1e-4, 1e-3, 0.01, 0.1, 1.0, 3.0)
"""The coins q tried, as multiples of the mean share of rounds.

In the limit q = 0 the statistic is the sum of the ratios themselves, the best statistic if a party
is in exactly one round."""

_LARGEST_LOG = 600.0
"""The log of the largest factor e^epsilon; factors that undo a tilt are at most its root."""


def least_epsilon(
    noise_multiplier: float,
    numbers: FloatArray,
    rounds: int,
    delta: float,
    coins: Sequence[float] = _COINS,
) -> float:
    """A lower bound on epsilon at delta under a secret schedule; 0 if this attacker learns nothing.

    `numbers` are the probabilities that the party is in 0, 1, 2 ... of the `rounds`, float64 of
    shape (largest number + 1,); `coins` are multiples of the mean share of rounds.
    """
    share = float(numbers @ np.arange(len(numbers))) / rounds
    if share == 0:
        return 0.0
    numbers = numbers[: np.flatnonzero(numbers > 1e-18)[-1] + 1]
    largest = 0.0
    for times in coins:
        statistic = _Statistic(1 / noise_multiplier, min(times * share, 1.0))
        sums = _Sums(statistic, len(numbers) - 1, rounds)
        p, p_tilted = sums.chances(numbers, 0), sums.chances(numbers, -1)
        q, q_tilted = sums.chances(np.ones(1), 0), sums.chances(np.ones(1), 1)
        high_sums = _epsilon(p.reversed, q_tilted.reversed, delta)
        largest = max(largest, high_sums, _epsilon(q, p_tilted, delta))
    return largest


def least_epsilon_of_coins(
    noise_multiplier: float, probability: float, rounds: int, delta: float
) -> float:
    """The lower bound under Poisson sampling, whose own coin alone makes the statistic optimal."""
    numbers = np.exp(log_binomial_masses(rounds, probability))
    return least_epsilon(noise_multiplier, numbers, rounds, delta, coins=(1.0,))


@dataclass(frozen=True, eq=False)
class _Chances:
    """Tilted probabilities of sums from a Fourier transform, and factors that undo the tilt.

    Attributes:
      masses: The tilted probabilities, float64 of shape (cells,).
      log_factors: The logs of the factors that undo the tilt, float64 of shape (cells,).
      error: A bound on the Euclidean norm of the vector of rounding errors of `masses`.
    """

    masses: FloatArray
    log_factors: FloatArray
    error: float

    @property
    def reversed(self) -> "_Chances":
        """The probabilities from the largest sum down."""
        return _Chances(self.masses[::-1], self.log_factors[::-1], self.error)

    def cumulative_bounds(self, sign: int) -> FloatArray:
        """Upper (`sign` 1) or lower (`sign` -1) bounds on the cumulative probabilities."""
        factors = np.exp(np.minimum(self.log_factors, _LARGEST_LOG / 2))
        rounding = self.error * np.sqrt(np.cumsum(factors**2))
        outside = 2 * _TAIL * np.maximum.accumulate(factors)
        return np.asarray(np.cumsum(self.masses * factors) + sign * (rounding + outside))


def _epsilon(p: _Chances, q: _Chances, delta: float) -> float:
    """The largest epsilon that a threshold on the sum contradicts at delta."""
    at_least, at_most = p.cumulative_bounds(-1), q.cumulative_bounds(1)

    def is_contradicted(epsilon: float) -> bool:
        factor = math.exp(min(epsilon, _LARGEST_LOG))
        with np.errstate(over="ignore"):  # an infinite product contradicts nothing
            return bool((at_least - factor * at_most).max() > delta)

    epsilon_bound = supremum(is_contradicted)
    return epsilon_bound if math.isfinite(epsilon_bound) else 0.0


@dataclass(frozen=True)
class _Statistic:
    """The statistic g of one round, with shift 1 / sigma and coin q in (0, 1]."""

    shift: float
    coin: float

    def cells(self, step: float) -> tuple[IntArray, FloatArray, FloatArray]:
        """The values of g as multiples of `step`, and their probabilities without and with a party.

        Mass beyond the range of g is put at the limits of this range.
        """
        low, high = self._range
        multiples = np.arange(round(low / step), round(high / step) + 1)
        edges = self._inverse((multiples[1:] - 0.5) * step)
        edges = np.concatenate([[-np.inf], edges, [np.inf]])
        without, present = (_gaussian_masses(edges - mean) for mean in (0.0, self.shift))
        return multiples, without, present

    @property
    def width(self) -> float:
        low, high = self._range
        return high - low

    @functools.cached_property
    def _range(self) -> tuple[float, float]:
        log_ratios = self.shift * np.array([-_REACH, self.shift + _REACH]) - self.shift**2 / 2
        with np.errstate(divide="ignore"):
            ends = np.logaddexp(np.log1p(-self.coin), math.log(self.coin) + log_ratios)
        return float(ends[0]), float(ends[1])

    def _inverse(self, value: FloatArray) -> FloatArray:
        """The x at which g is `value`; minus infinity for values below the range of g."""
        with np.errstate(divide="ignore"):
            log_ratio = np.log(np.maximum(np.expm1(value) + self.coin, 0.0) / self.coin)
        return np.asarray((log_ratio + self.shift**2 / 2) / self.shift)


def _gaussian_masses(edges: FloatArray) -> FloatArray:
    """The standard normal mass between neighbouring edges, to full relative precision."""
    below, above = np.diff(special.ndtr(edges)), -np.diff(special.ndtr(-edges))
    return np.where(edges[:-1] > 0, above, below)


@dataclass(frozen=True)
class _Sums:
    """Sums of a statistic over rounds, of which the party is in at most `most`."""

    statistic: _Statistic
    most: int
    rounds: int

    @functools.cached_property
    def _ends(self) -> tuple[float, float]:
        """Sums beyond which no distribution, tilted or not, has a mass above `_TAIL` (Chernoff)."""
        step = self.statistic.width / _COARSE_CELLS
        multiples, *both = self.statistic.cells(step)
        values = multiples * step
        spread = math.sqrt(max(float(both[0] @ values**2 - (both[0] @ values) ** 2), 0.0))
        thetas = np.geomspace(1e-2, 1e2, 50) / (math.sqrt(self.rounds) * spread + step)
        low, high = math.inf, -math.inf
        for tilt in (-1, 0, 1):
            below, above = (
                [
                    special.logsumexp((tilt + sign * thetas[:, None]) * values, axis=1, b=masses)
                    - special.logsumexp(tilt * values, b=masses)
                    for masses in both
                ]
                for sign in (-1, 1)
            )
            lowest = math.log(_TAIL) - self._over_rounds(*below)
            low = min(low, float((lowest / thetas).max()))
            highest = self._over_rounds(*above) - math.log(_TAIL)
            high = max(high, float((highest / thetas).min()))
        slack = self.rounds * step  # the rounding of coarse cells
        return low - slack, high + slack

    def _over_rounds(self, of_absent: FloatArray, of_present: FloatArray) -> FloatArray:
        """Upper bounds on the sum's log moments, from a round's without and with the party."""
        return self.rounds * of_absent + self.most * np.maximum(of_present - of_absent, 0.0)

    def chances(self, numbers: FloatArray, tilt: int) -> _Chances:
        """The sum's distribution, tilted by e^(tilt sum); `numbers` as in `least_epsilon`."""
        low, high = self._ends
        step = (high - low) / (_CELLS - 2)
        multiples, *both = self.statistic.cells(step)
        weights = tilt * step * multiples
        absent, present = (special.logsumexp(weights, b=masses) for masses in both)
        a, b = (
            np.fft.rfft(np.bincount(multiples % _CELLS, masses * np.exp(weights - log), _CELLS))
            for masses, log in ((both[0], absent), (both[1], present))
        )
        most = len(numbers) - 1
        logs = np.log(np.maximum(numbers, 1e-300)) + np.arange(most + 1) * (present - absent)
        shares = np.exp(logs - logs.max())
        mixed, power = np.zeros_like(a), np.ones_like(a)
        for share in shares[::-1]:  # Horner's scheme in b, filled up with powers of a
            mixed = mixed * b + share * power
            power = power * a
        mixed *= a ** (self.rounds - most)
        first = math.floor(low / step)
        masses = np.roll(np.fft.irfft(mixed, _CELLS), -first)
        sums = step * (first + np.arange(_CELLS))
        log_factors = logs.max() + self.rounds * absent - tilt * sums
        error = 4e-16 * (self.rounds + 20) * float(np.linalg.norm(masses))
        return _Chances(masses, log_factors, error)
