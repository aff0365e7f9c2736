"""Likelihoods of the shift of included scores, with everything else maximised out (profiles)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize, special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.gaussian.standard_scores import StandardScores
from fl_audit.estimators.scores import CanaryScores

_STEPS_PER_DEVIATION = 128
"""Steps that more scores than `_MOST_EXACT` are rounded to, so that a million take no longer."""

_MOST_EXACT = 4096
"""The number of scores up to which they are taken as they are."""

_LARGEST_LOG = 12.0
"""Logarithm of the largest ratio of deviations that a fit allows."""


@dataclass(frozen=True)
class ShiftedLaw:
    """A law of included scores.

    Attributes:
      shift: Distance of an included canary's score from the null's mean, in deviations; the mean
        of these distances where canaries differ.
      spread: The deviation of an included score in units of the null's.
      rounds: The number of scores that one is the largest of; 1 for a single one.
    """

    shift: float
    spread: float
    rounds: float


class ShiftLikelihood(Protocol):
    """A likelihood of the shift, with everything else maximised out.

    Attributes:
      least: The least shift that the law allows.
      has_no_spread: Whether the scores are too much alike for a deviation, so that any shift is
        possible.
    """

    least: float
    has_no_spread: bool

    def best(self) -> ShiftedLaw:
        """The law of the largest likelihood."""

    def profile(self, shift: float) -> tuple[float, ShiftedLaw]:
        """The largest log-likelihood of any law with this shift, and that law."""


class KnownNull:
    """Included scores N(m, s^2) with s at least 1, beside a null that is N(0, 1).

    A canary's own shift may differ from the mean m, by a clip norm that adapts or by rounds whose
    aggregates differ in length; s^2 - 1 is the variance of these shifts.
    """

    least = -math.inf
    has_no_spread = False

    def __init__(self, included: FloatArray) -> None:
        """Takes the scores of included canaries in deviations of the null, of shape (n1,)."""
        self._num = len(included)
        self._mean, self._variance = float(np.mean(included)), float(np.var(included))

    def best(self) -> ShiftedLaw:
        """The mean, and the deviation about it if that is above 1."""
        return self.profile(self._mean)[1]

    def profile(self, shift: float) -> tuple[float, ShiftedLaw]:
        """See `ShiftLikelihood.profile`."""
        square = self._variance + (shift - self._mean) ** 2
        spread = max(square, 1.0)
        log_likelihood = -0.5 * self._num * (math.log(spread) + square / spread)
        return log_likelihood, ShiftedLaw(shift, math.sqrt(spread), 1)


class LargestOfRounds:
    """The largest of K scores N(0, 1), one of which is N(m, s^2) if the canary is included.

    K lies between 1 and the number of rounds: scores in rounds that are alike count as fewer. The
    excluded scores tell; without any, K is the number of rounds.
    """

    least = 0.0
    has_no_spread = False

    def __init__(self, scores: StandardScores) -> None:
        """Takes scores in deviations of the null of one round."""
        self._included = _Counted.of(scores.included)
        self._excluded = _Counted.of(scores.excluded)
        most = math.log(scores.rounds)
        fewest = 1e-6 if len(scores.excluded) else most
        self._bounds = ((fewest, most), (0.0, _LARGEST_LOG))
        self._mean = max(float(np.mean(scores.included)), 0.0)
        self._starts: tuple[tuple[float, float], ...] = ((most, 0.0),)

    def best(self) -> ShiftedLaw:
        """The best of three starts: a shift near 0, a small one, and the mean score."""
        found = [
            _minimum(
                lambda p: -self._log_likelihood(*map(float, p)),
                (start, *self._starts[0]),
                ((0.0, self._mean + 10), *self._bounds),
            )
            for start in (0.1, 2.0, self._mean)
        ]
        shift, *nuisance = min(found, key=lambda one: one[1])[0]
        self._starts = ((float(nuisance[0]), float(nuisance[1])), self._starts[0])
        return self.profile(float(shift))[1]

    def profile(self, shift: float) -> tuple[float, ShiftedLaw]:
        """See `ShiftLikelihood.profile`."""
        found = [
            _minimum(lambda p: -self._log_likelihood(shift, *map(float, p)), start, self._bounds)
            for start in self._starts
        ]
        point, least = min(found, key=lambda one: one[1])
        return -least, ShiftedLaw(shift, math.exp(point[1]), math.exp(point[0]))

    def _log_likelihood(self, shift: float, log_rounds: float, log_spread: float) -> float:
        """The logarithm of the densities K p(x) Phi(x)^(K - 1) and of those with one shifted."""
        rounds, (included, excluded) = math.exp(log_rounds), (self._included, self._excluded)
        own = (included.values - shift) / math.exp(log_spread)
        own_leads = included.log_cdf - log_spread - 0.5 * own * own
        others_lead = math.log(rounds - 1) + included.log_density + special.log_ndtr(own)
        densities = (rounds - 2) * included.log_cdf + np.logaddexp(own_leads, others_lead)
        of_excluded = log_rounds * excluded.counts.sum() + (rounds - 1) * (
            excluded.counts @ excluded.log_cdf
        )
        return float(included.counts @ densities + of_excluded)


class UnknownNull:
    """Included scores N(a + m b, b^2) beside excluded ones N(a, (r b)^2) with r at most 1.

    The unit of the shift is thus the deviation of the included scores, or of all if the excluded
    ones spread as far: canaries whose shifts differ, and scores whose null is narrower, as that of
    a maximum over rounds is, must not make the shift look larger.
    """

    least = -math.inf

    def __init__(self, scores: CanaryScores) -> None:
        """Takes scores in any unit, at least 2 of each kind."""
        groups = (scores.included, scores.excluded)
        unit = sum(float(np.std(group)) for group in groups if np.ptp(group) > 0)
        self.has_no_spread = unit == 0
        middle = float(np.mean(scores.excluded))
        parts = [(group - middle) / (unit or 1.0) for group in groups]
        self._nums = tuple(map(len, parts))
        self._distance = float(np.mean(parts[0]) - np.mean(parts[1]))
        self._variances = tuple(float(np.var(part)) if np.ptp(part) > 0 else 0.0 for part in parts)
        pooled = float(np.average(self._variances, weights=self._nums))
        scale = math.sqrt(max(self._variances[0], pooled))
        narrower = math.sqrt(self._variances[1]) / scale if scale > 0 else 1.0
        least = math.exp(-_LARGEST_LOG)
        self._start = (math.log(max(scale, least)), math.log(min(max(narrower, least), 1.0)))

    def best(self) -> ShiftedLaw:
        """The distance of the means in the unit of the class."""
        log_scale, log_ratio = self._start
        shift = self._distance / math.exp(log_scale)
        if self.has_no_spread and self._distance != 0:
            shift = math.copysign(math.inf, self._distance)
        return ShiftedLaw(shift, math.exp(-log_ratio), 1)

    def profile(self, shift: float) -> tuple[float, ShiftedLaw]:
        """See `ShiftLikelihood.profile`."""
        point, least = _minimum(
            lambda p: -self._log_likelihood(shift, *map(float, p)),
            self._start,
            ((-2 * _LARGEST_LOG, 2 * _LARGEST_LOG), (-_LARGEST_LOG, 0.0)),
        )
        return -least, ShiftedLaw(shift, math.exp(-point[1]), 1)

    def _log_likelihood(self, shift: float, log_scale: float, log_ratio: float) -> float:
        scale, narrow = math.exp(log_scale), math.exp(log_scale + log_ratio)
        (num, other_num), (variance, other_variance) = self._nums, self._variances
        # The null's mean takes the place between the groups that their weights give it.
        miss = (self._distance - shift * scale) ** 2 / (scale**2 / num + narrow**2 / other_num)
        return -0.5 * (
            num * (2 * log_scale + variance / scale**2)
            + other_num * (2 * (log_scale + log_ratio) + other_variance / narrow**2)
            + miss
        )


@dataclass(frozen=True, eq=False)
class _Counted:
    """Scores, with how often each stands there and its place in N(0, 1); many are rounded.

    Attributes:
      values: The values, each once, float64 of shape (values,).
      counts: The number of scores at each, float64 of shape (values,).
      log_cdf: Log of the normal distribution function at each, float64 of shape (values,).
      log_density: Log of the normal density without its constant, float64 of shape (values,).
    """

    values: FloatArray
    counts: FloatArray
    log_cdf: FloatArray
    log_density: FloatArray

    @classmethod
    def of(cls, scores: FloatArray) -> "_Counted":
        """Counts scores; of many, after rounding."""
        values, counts = np.unique(scores, return_counts=True)
        if len(scores) > _MOST_EXACT:
            steps, counts = np.unique(np.round(scores * _STEPS_PER_DEVIATION), return_counts=True)
            values = steps / _STEPS_PER_DEVIATION
        log_cdf = np.asarray(special.log_ndtr(values))
        return cls(values, counts.astype(np.float64), log_cdf, -0.5 * values * values)


def _minimum(
    function: Callable[[FloatArray], float],
    start: tuple[float, ...],
    bounds: tuple[tuple[float, float], ...],
) -> tuple[FloatArray, float]:
    """A local minimum of a smooth function in a box, and its value."""
    lows, highs = np.array(bounds).T
    found = optimize.minimize(
        function, np.clip(start, lows, highs), method="L-BFGS-B", bounds=bounds
    )
    return np.asarray(found.x), float(found.fun)
