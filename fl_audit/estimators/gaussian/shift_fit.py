"""`shift_fit`: the epsilon of a Gaussian mechanism, from a fitted shift of included scores."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import optimize, special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.distributions import ExactCosine
from fl_audit.estimators.gaussian.fit import in_units
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import (
    LARGEST_COSINE,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    NullTail,
    ScaledNull,
    SignCanaryNull,
)
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.null_choice import chosen_null


@dataclass(frozen=True, eq=False)
class StandardScores:
    """Scores that are N(0, 1) for an excluded canary, or the largest of several such values."""

    included: FloatArray
    excluded: FloatArray
    rounds: int  # a score is the largest of this number of values


def standard_scores(scores: CanaryScores, null: NullTail | None) -> StandardScores | None:
    """Maps every score to the normal quantile of its probability under the null.

    A cosine x becomes z with P(N(0, 1) >= z) = P(X >= x), X being the cosine of a random direction.
    For `rademacher` and `hadamard` canaries this is the limit for a compared vector that is not
    concentrated on few coordinates. None for a null of another kind, or an unknown one.
    """
    if null is None:
        return None
    scaled = null if isinstance(null, ScaledNull) else ScaledNull(null, 1.0)
    tail = scaled.unscaled
    rounds = tail.rounds if isinstance(tail, LargestOfRoundsNull) else (tail,)
    null_of_round = rounds[0]
    if not isinstance(null_of_round, GaussianCanaryNull | SignCanaryNull):
        return None
    cosine = ExactCosine(null_of_round.dim)
    included, excluded = (
        _normal_scores(part / scaled.scale, cosine) for part in (scores.included, scores.excluded)
    )
    return StandardScores(included, excluded, len(rounds))


def _normal_scores(cosines: FloatArray, cosine: ExactCosine) -> FloatArray:
    size = np.minimum(np.abs(cosines), LARGEST_COSINE)
    return np.asarray(np.copysign(special.ndtri_exp(cosine.logsf(size)), cosines))


# Epsilon of the largest of several Gaussian scores, one of which may be shifted.
#
# A canary that participates in one unknown round of K has K scores, all N(0, 1) except one N(m, 1).
# An attacker who looks at the largest distinguishes two distributions: Phi(x)^K and Phi(x)^(K - 1)
# Phi(x - m).


_FAR = 40.0
"""Standard deviations beyond which a normal distribution has no mass that a float can represent."""

_LEAST_LOG = -1e12
"""Replaces the logarithm of 0 in root searches."""

_CERTAIN = 1e-9
"""If a log probability is above minus this, its complement is computed directly."""


def epsilon_of_largest(rounds: float, shift: float, delta: float) -> float:
    """The epsilon at delta between the largest of K scores with one shifted and with none shifted.

    The likelihood ratio ((K - 1) Phi(x - m) / Phi(x) + exp(m x - m^2 / 2)) / K rises with x, so
    thresholds are the most powerful tests (Neyman-Pearson), and delta(epsilon) = P1(X >= x) -
    e^epsilon P0(X >= x) at the x where the ratio is e^epsilon. The root of delta(x) = delta gives
    epsilon in one direction; in the other, the root for P0(X <= x) - e^epsilon P1(X <= x) does, at
    the x where the ratio is e^-epsilon.

    K = `rounds` need not be an integer; m = `shift` is in standard deviations. m <= 0 gives 0; else
    delta = 0 gives infinity.

    >>> round(epsilon_of_largest(1, 1.0, 1e-5), 2)  # Balle & Wang, as of the Gaussian mechanism
    4.38
    """
    if shift <= 0:
        return 0.0
    if delta == 0:
        return math.inf

    def log_ratio(x: float) -> float:
        log_shifted = float(special.log_ndtr(x - shift)) - float(special.log_ndtr(x))
        own = shift * x - shift**2 / 2
        if rounds == 1:
            return own
        return float(np.logaddexp(math.log(rounds - 1) + log_shifted, own)) - math.log(rounds)

    def above(x: float) -> float:
        shifted, null = _log_sf(x, rounds, shift), _log_sf(x, rounds, 0.0)
        return _log_difference(shifted, log_ratio(x) + null)

    def below(x: float) -> float:
        shifted, null = _log_cdf(x, rounds, shift), _log_cdf(x, rounds, 0.0)
        return _log_difference(null, shifted - log_ratio(x))

    ends = (-_FAR, shift + _FAR)
    return max(
        0.0,
        log_ratio(_root(above, ends, math.log(delta))),
        -log_ratio(_root(below, ends, math.log(delta))),
    )


def _root(function: Callable[[float], float], ends: tuple[float, float], value: float) -> float:
    """The point where a monotone function takes a value; the nearer end if it does not."""
    first, last = (function(end) - value for end in ends)
    if first * last > 0:
        return ends[0] if abs(first) < abs(last) else ends[1]
    return float(optimize.brentq(lambda x: function(x) - value, *ends, xtol=1e-12, rtol=1e-14))


def _log_difference(log_larger: float, log_smaller: float) -> float:
    if log_smaller >= log_larger:
        return _LEAST_LOG
    return max(log_larger + math.log(-math.expm1(log_smaller - log_larger)), _LEAST_LOG)


def _log_cdf(x: float, rounds: float, shift: float) -> float:
    return (rounds - 1) * float(special.log_ndtr(x)) + float(special.log_ndtr(x - shift))


def _log_sf(x: float, rounds: float, shift: float) -> float:
    log_cdf = _log_cdf(x, rounds, shift)
    if log_cdf < -_CERTAIN:
        return math.log(-math.expm1(log_cdf))
    # Both tails are below 1e-9, so their sum is the tail of the largest to that precision.
    own = float(special.log_ndtr(shift - x))
    if rounds == 1:
        return own
    return float(np.logaddexp(math.log(rounds - 1) + float(special.log_ndtr(-x)), own))


# Profile likelihoods of the shift of included scores.


_STEPS_PER_STDDEV = 128
"""More than `_MOST_EXACT` scores are rounded to 1 / 128 standard deviations, to save time."""

_MOST_EXACT = 4096
"""The largest number of scores that are not rounded."""

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)

_LARGEST_LOG = 12.0
"""Logarithm of the largest ratio of standard deviations that a fit allows."""


@dataclass(frozen=True)
class ShiftedDistribution:
    """A distribution of included scores."""

    shift: float  # mean distance from the null's mean, in standard deviations
    spread: float  # the standard deviation of a score in units of the null's
    rounds: float  # each score is the largest of this number of values


class ShiftLikelihood(Protocol):
    """A likelihood of the shift, maximised over everything else."""

    least: float  # the smallest allowed shift
    has_no_spread: bool  # all scores of each group are equal: any shift is possible

    def best(self) -> ShiftedDistribution:
        """The distribution of the largest likelihood."""

    def profile(self, shift: float) -> float:
        """The largest log-likelihood of any distribution with this shift."""

    def at(self, shift: float) -> ShiftedDistribution:
        """That distribution."""


class KnownNull:
    """Included scores N(m, s^2) with s at least 1, for the null N(0, 1).

    A canary's shift may differ from the mean m because of an adaptive clip norm or aggregates of
    different norms; s^2 - 1 is the variance of the shifts.
    """

    least = -math.inf
    has_no_spread = False

    def __init__(self, included: FloatArray) -> None:
        self._num = len(included)
        self._mean, self._variance = float(np.mean(included)), float(np.var(included))

    def best(self) -> ShiftedDistribution:
        """The mean of the scores, and their standard deviation if it is above 1, else 1."""
        return self.at(self._mean)

    def profile(self, shift: float) -> float:
        square = self._mean_square(shift)
        spread = max(square, 1.0)
        return -0.5 * self._num * (math.log(spread) + square / spread)

    def at(self, shift: float) -> ShiftedDistribution:
        return ShiftedDistribution(shift, math.sqrt(max(self._mean_square(shift), 1.0)), 1)

    def _mean_square(self, shift: float) -> float:
        return self._variance + (shift - self._mean) ** 2


class LargestOfRounds:
    """The largest of K scores N(0, 1), one of which is N(m, s^2) if the canary is included.

    K is between 1 and the number of rounds, as rounds with similar scores count as fewer. If there
    are excluded scores, K is fitted; else it is the number of rounds.
    """

    least = 0.0
    has_no_spread = False

    def __init__(self, scores: StandardScores) -> None:
        self._included = _Counted.from_scores(scores.included)
        self._excluded = _Counted.from_scores(scores.excluded)
        most = math.log(scores.rounds)
        fewest = 1e-6 if len(scores.excluded) else most
        self._bounds = ((fewest, most), (0.0, _LARGEST_LOG))
        self._mean = max(float(np.mean(scores.included)), 0.0)
        self._starts: tuple[tuple[float, float], ...] = ((most, 0.0),)

    def best(self) -> ShiftedDistribution:
        """The best fit from three starts: shifts of 0.1, 2 and the mean score."""
        bounds = ((0.0, self._mean + 10), *self._bounds)
        starts = [(start, *self._starts[0]) for start in (0.1, 2.0, self._mean)]
        shift, log_rounds, log_spread = map(float, _exact_minimum(self._loss, starts, bounds))
        self._starts = ((log_rounds, log_spread), self._starts[0])
        return ShiftedDistribution(shift, math.exp(log_spread), math.exp(log_rounds))

    def profile(self, shift: float) -> float:
        return -_minimum(self._with_shift(shift), self._starts, self._bounds)[1]

    def at(self, shift: float) -> ShiftedDistribution:
        point = _exact_minimum(self._with_shift(shift), self._starts, self._bounds)
        return ShiftedDistribution(shift, math.exp(point[1]), math.exp(point[0]))

    def _with_shift(self, shift: float) -> "_Loss":
        return lambda point: self._loss(np.append(shift, point), slice(1, None))

    def _loss(self, point: FloatArray, of: slice = slice(None)) -> tuple[float, FloatArray]:
        """Minus the log-likelihood at (shift, log K, log spread), and its slopes in the slice `of`.

        The density of an excluded score is K p(x) Phi(x)^(K - 1).
        """
        shift, log_rounds, log_spread = map(float, point)
        rounds, (included, excluded) = math.exp(log_rounds), (self._included, self._excluded)
        spread = math.exp(log_spread)
        own = (included.values - shift) / spread
        log_cdf = special.log_ndtr(own)
        own_leads = included.log_cdf - log_spread - 0.5 * own * own
        others_lead = math.log(rounds - 1) + included.log_density + log_cdf
        densities = (rounds - 2) * included.log_cdf + np.logaddexp(own_leads, others_lead)
        excluded_cdf = float(excluded.counts @ excluded.log_cdf)
        excluded_term = log_rounds * excluded.counts.sum() + (rounds - 1) * excluded_cdf
        share = special.expit(own_leads - others_lead)  # the chance that the shifted score leads
        hazard = np.exp(-0.5 * own * own - _LOG_ROOT_TWO_PI - log_cdf)
        along_own = (1 - share) * hazard - share * own
        slopes = np.array(
            [
                -included.counts @ along_own / spread,
                included.counts @ (rounds * included.log_cdf + (1 - share) * rounds / (rounds - 1))
                + excluded.counts.sum()
                + rounds * excluded_cdf,
                -included.counts @ (share + along_own * own),
            ]
        )
        return -float(included.counts @ densities + excluded_term), -slopes[of]


class UnknownNull:
    """Included scores N(a + m b, b^2) and excluded ones N(a, (r b)^2) with r at most 1.

    The unit of the shift is thus the standard deviation of the included scores, or of both groups
    together if the excluded ones spread at least as far. So neither different shifts nor a narrower
    null, as of a maximum over rounds, can exaggerate the shift.
    """

    least = -math.inf
    _bounds = ((-2 * _LARGEST_LOG, 2 * _LARGEST_LOG), (-_LARGEST_LOG, 0.0))

    def __init__(self, scores: CanaryScores) -> None:
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

    def best(self) -> ShiftedDistribution:
        """The distance of the means in standard deviations; infinite if neither group spreads."""
        log_scale, log_ratio = self._start
        shift = self._distance / math.exp(log_scale)
        if self.has_no_spread and self._distance != 0:
            shift = math.copysign(math.inf, self._distance)
        return ShiftedDistribution(shift, math.exp(-log_ratio), 1)

    def profile(self, shift: float) -> float:
        return -_minimum(self._with_shift(shift), (self._start,), self._bounds)[1]

    def at(self, shift: float) -> ShiftedDistribution:
        point = _exact_minimum(self._with_shift(shift), (self._start,), self._bounds)
        return ShiftedDistribution(shift, math.exp(-point[1]), 1)

    def _with_shift(self, shift: float) -> "_Loss":
        return lambda point: self._loss(shift, *map(float, point))

    def _loss(self, shift: float, log_scale: float, log_ratio: float) -> tuple[float, FloatArray]:
        """Minus the log-likelihood, and its slopes along (log scale, log ratio)."""
        scale, narrow = math.exp(log_scale), math.exp(log_scale + log_ratio)
        (num, other_num), (variance, other_variance) = self._nums, self._variances
        # The null's mean is maximised out: the weighted mean of both groups.
        distance = self._distance - shift * scale
        own, other = scale**2 / num, narrow**2 / other_num
        miss = distance / (own + other)
        loss = 0.5 * (
            num * (2 * log_scale + variance / scale**2)
            + other_num * (2 * (log_scale + log_ratio) + other_variance / narrow**2)
            + miss * distance
        )
        along_own = num - variance / own - miss * (shift * scale + miss * own)
        along_other = other_num - other_variance / other - miss * miss * other
        return loss, np.array([along_own + along_other, along_other])


@dataclass(frozen=True, eq=False)
class _Counted:
    """Distinct scores, their counts, and their log cdf and density under N(0, 1)."""

    values: FloatArray
    counts: FloatArray
    log_cdf: FloatArray
    log_density: FloatArray  # without its constant

    @classmethod
    def from_scores(cls, scores: FloatArray) -> "_Counted":
        """Counts scores; rounds them first if there are many."""
        values, counts = np.unique(scores, return_counts=True)
        if len(scores) > _MOST_EXACT:
            steps, counts = np.unique(np.round(scores * _STEPS_PER_STDDEV), return_counts=True)
            values = steps / _STEPS_PER_STDDEV
        log_cdf = np.asarray(special.log_ndtr(values))
        return cls(values, counts.astype(np.float64), log_cdf, -0.5 * values * values)


_Loss = Callable[[FloatArray], tuple[float, FloatArray]]
"""A smooth function of a point, and its slopes there."""


def _minimum(
    loss: _Loss,
    starts: Iterable[tuple[float, ...]],
    bounds: tuple[tuple[float, float], ...],
) -> tuple[FloatArray, float]:
    """The least minimum in a box that is reached from some starts, and its value."""
    lows, highs = np.array(bounds).T
    optima = [
        optimize.minimize(
            loss, np.clip(start, lows, highs), method="L-BFGS-B", bounds=bounds, jac=True
        )
        for start in starts
    ]
    least = min(optima, key=lambda optimum: float(optimum.fun))
    return np.asarray(least.x), float(least.fun)


def _exact_minimum(
    loss: _Loss,
    starts: Iterable[tuple[float, ...]],
    bounds: tuple[tuple[float, float], ...],
) -> FloatArray:
    """The minimum, refined until its slopes are 0 to rounding; values alone fix half of its digits.

    Coordinates on a bound stay. It is not refined if the slopes' root is elsewhere.
    """
    point = _minimum(loss, starts, bounds)[0]
    lows, highs = np.array(bounds).T
    is_free = (lows < point) & (point < highs)

    def at(inside: FloatArray) -> FloatArray:
        moved = point.copy()
        moved[is_free] = np.clip(inside, lows[is_free], highs[is_free])
        return moved

    if not is_free.any():
        return point
    root = optimize.root(lambda inside: loss(at(inside))[1][is_free], point[is_free], tol=1e-14)
    found = at(root.x)
    return found if np.allclose(found, point, rtol=1e-3, atol=1e-3) else point


_LARGEST_STEP = 1e6
"""Ends of the interval are searched up to this distance from the best shift."""


def shift_fit(setting: AuditSetting) -> Estimate:
    """Epsilon between the null and the null shifted by a maximum-likelihood estimate.

    Under a Gaussian mechanism a canary's cosine with an aggregate, in standard deviations of its
    null, is N(0, 1), and N(m, 1) if the canary participated. A maximum over rounds is then the
    largest of K such values, one of them shifted. m is fitted, and K if there are excluded scores;
    epsilon follows from the exact trade-off of both distributions (`epsilon_of_mu`,
    `epsilon_of_largest`), so no tail is extrapolated from a fitted standard deviation. The interval
    is from the profile likelihood ratio, with the critical value that makes it Student's interval
    for a mean.

    If shifts differ between canaries, m is their mean, and their spread only widens the interval.
    As no canary's shift exceeds 1 / noise multiplier, neither does m.

    If the null is unknown, rejected by the excluded scores or not of cosines, both groups count as
    Gaussian with unknown means, and the unit of m is the standard deviation of the included scores
    (`UnknownNull`).
    """
    null = chosen_null(setting)
    known = standard_scores(setting.scores, null.tail)
    likelihood = _likelihood(setting, known)
    best = likelihood.best()
    ends = _interval(likelihood, best, _critical(setting))
    epsilons = [_epsilon(shifted, setting.delta) for shifted in (ends[0], best, ends[1])]
    return Estimate(
        method="shift_fit",
        kind="interval",
        epsilon=epsilons[1],
        lower=epsilons[0],
        upper=epsilons[2],
        assumes=_assumption(known) + null.assumption,
        guarantee=(
            "None as a bound: the interval covers the epsilon of this attack at its confidence, if "
            "the scores are independent scores of a Gaussian mechanism. A better attack would find "
            "more."
        ),
        source=(
            "Dong, Roth & Su (2022), arXiv:1905.02383, corollary 2.13, for the epsilon of a shift; "
            "the fit is this project's (docs/estimators.md)"
        ),
        details={
            "shift": best.shift,
            "shift_lower": ends[0].shift,
            "shift_upper": ends[1].shift,
            "spread": best.spread,
            "rounds": best.rounds,
            "epsilon_known_round": epsilon_of_mu(max(best.shift, 0.0), setting.delta),
            **null.details(),
        },
    )


def shift_fit_epsilon(setting: AuditSetting) -> float:
    """The epsilon of `shift_fit` without its interval, which takes ten times as long."""
    known = standard_scores(setting.scores, chosen_null(setting).tail)
    return _epsilon(_likelihood(setting, known).best(), setting.delta)


def _likelihood(setting: AuditSetting, known: StandardScores | None) -> ShiftLikelihood:
    setting.require(included=2)
    if known is None:
        setting.require(excluded=2)
        return UnknownNull(in_units(setting)[0])
    if known.rounds == 1:
        return KnownNull(known.included)
    return LargestOfRounds(known)


def _critical(setting: AuditSetting) -> float:
    """The critical value of twice the log-likelihood ratio.

    It is n log(1 + t^2 / (n - 1)) with Student's t, by which the interval for the mean of n
    Gaussian values of unknown standard deviation is exact; for large n it tends to the quantile of
    chi-square.
    """
    freedom = setting.scores.num_included - 1
    t = float(special.stdtrit(freedom, (1 + setting.confidence) / 2))
    return (freedom + 1) * math.log1p(t * t / freedom)


def _interval(
    likelihood: ShiftLikelihood, best: ShiftedDistribution, critical: float
) -> tuple[ShiftedDistribution, ShiftedDistribution]:
    """The distributions with the smallest and the largest shift in the likelihood interval."""
    if likelihood.has_no_spread:
        return replace(best, shift=likelihood.least), replace(best, shift=math.inf)
    top = likelihood.profile(best.shift)

    def excess(shift: float) -> float:
        return 2 * (top - likelihood.profile(shift)) - critical

    lower, upper = (_end(excess, best.shift, step, likelihood.least) for step in (-0.1, 0.1))
    return likelihood.at(lower), likelihood.at(upper)


def _end(excess: Callable[[float], float], start: float, step: float, least: float) -> float:
    """The point on one side of the start where the excess turns positive; else the last tried."""
    near, far = start, max(start + step, least)
    while excess(far) < 0:
        if far == least or abs(far - start) > _LARGEST_STEP:
            return far
        step *= 2
        near, far = far, max(start + step, least)
    return float(optimize.brentq(excess, near, far, rtol=1e-12, xtol=1e-12))


def _epsilon(shifted: ShiftedDistribution, delta: float) -> float:
    shift = max(shifted.shift, 0.0)
    if shifted.rounds == 1:
        return epsilon_of_mu(shift, delta)
    return epsilon_of_largest(shifted.rounds, shift, delta)


def _assumption(known: StandardScores | None) -> str:
    if known is None:
        return (
            "Included and excluded scores are Gaussian with two means, and included ones spread at "
            "least as much; all canaries' scores are independent."
        )
    if known.rounds == 1:
        return (
            "Canaries' scores are independent given inclusion; included ones are those of the "
            "null, shifted, as noise of a Gaussian mechanism makes them."
        )
    return (
        "Canaries' scores are independent given inclusion; included ones are the largest of "
        f"{known.rounds:,} rounds, of which one is shifted, as noise of a Gaussian mechanism makes "
        "them."
    )
