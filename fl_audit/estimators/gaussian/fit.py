"""Epsilon of Gaussians fitted to the scores: Andrew et al. (2023), section 4, Algorithms 1 and 2.

`epsilon_of_distributions` uses the best threshold between any two distributions,
`epsilon_over_all_regions` the best region between two Gaussians; `anderson_darling` tests the fit
of a Gaussian, and `gaussian_fit` is the paper's estimate.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import (
    Distribution,
    ExactCosine,
    Gaussian,
    scaled_to_one,
    supremum,
)
from fl_audit.estimators.privacy_region import log_ratio
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.scores import CanaryScores, check_delta
from fl_audit.estimators.setting import AuditSetting


def in_units(setting: AuditSetting) -> tuple[CanaryScores, float]:
    """The scores, scaled to about 1 unless the null is the closed form, and the unit of scaling."""
    scores = setting.scores
    both = np.concatenate([scores.included, scores.excluded])
    if setting.null.kind == "closed_form" or not both.any():
        return scores, 1.0
    scaled, unit = scaled_to_one(both)
    count = scores.num_included
    return CanaryScores(scaled[:count], scaled[count:]), unit


# The epsilon of two Gaussians over all regions, not only over half-lines.
#
# By Neyman and Pearson, in an attacker's best region the log likelihood ratio exceeds epsilon.
# Between Gaussians of unequal standard deviations that region is an interval or the outside of one.


def epsilon_over_all_regions(first: Gaussian, second: Gaussian, delta: float) -> float:
    """The smallest epsilon with which two Gaussians are (epsilon, delta)-indistinguishable.

    It solves max over both orders of P(L > epsilon) - e^epsilon Q(L > epsilon) = delta, where L =
    log(p / q) (Steinke 2022, "Composition of differential privacy", arXiv:2210.00597, Prop. 7).
    With equal standard deviations it is the epsilon of the analytic Gaussian mechanism (Balle &
    Wang 2018). It is infinite if delta is 0 or a standard deviation is 0, unless the distributions
    are equal.

    Args:
      first: Distribution of the scores on one side; the order of the two does not matter.
      second: Distribution of the scores on the other side.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: delta is out of range.

    >>> round(epsilon_over_all_regions(Gaussian(0, 1), Gaussian(1, 1), 1e-5), 2)
    4.38
    """
    check_delta(delta)
    if first == second:
        return 0.0
    if delta == 0 or first.std == 0 or second.std == 0:
        return math.inf
    orders = _both_orders(first, second)
    return supremum(lambda eps: any(order.exceeds(eps, delta) for order in orders))


def some_region_exceeds(first: Gaussian, second: Gaussian, epsilon: float, delta: float) -> bool:
    """Whether Gaussians of stds above 0 are not (epsilon, delta)-indistinguishable, delta > 0."""
    return any(order.exceeds(epsilon, delta) for order in _both_orders(first, second))


def _both_orders(first: Gaussian, second: Gaussian) -> "list[_LikelihoodRatio]":
    """The ratios to test; a single one if standard deviations are equal, by symmetry."""
    orders = [(first, second), (second, first)][: 1 if first.std == second.std else 2]
    return [_LikelihoodRatio.between(*order) for order in orders]


@dataclass(frozen=True)
class _LikelihoodRatio:
    """L = square x^2 + slope x + constant, the log ratio of p = N(0, 1) to q = N(mean, std^2)."""

    square: float
    slope: float
    constant: float
    mean: float
    std: float

    @classmethod
    def between(cls, p: Gaussian, q: Gaussian) -> "_LikelihoodRatio":
        """The ratio of p to q, in units in which p is standard normal."""
        mean, std = (q.mean - p.mean) / p.std, q.std / p.std
        # (1 - std)(1 + std), not 1 - std^2: nearly equal standard deviations must not cancel.
        square = (1 - std) * (1 + std) / (2 * std**2)
        return cls(square, -mean / std**2, (mean / std) ** 2 / 2 + math.log(std), mean, std)

    def exceeds(self, epsilon: float, delta: float) -> bool:
        """Whether P(L > epsilon) - delta > e^epsilon Q(L > epsilon)."""
        log_p, log_q = self._log_masses_above(epsilon)
        return bool(log_ratio(log_p, log_q, delta) > epsilon)

    def _log_masses_above(self, epsilon: float) -> tuple[float, float]:
        """Log P(L > epsilon) and log Q(L > epsilon)."""
        roots = self._crossings(epsilon)
        if roots is None:
            # L never reaches epsilon (square < 0), or always exceeds it. In the second case both
            # masses are 1, and `exceeds` is false, as it is with masses of 0.
            return -math.inf, -math.inf
        measure = _log_outside if self.square > 0 else _log_between
        return measure(*roots), measure(*((root - self.mean) / self.std for root in roots))

    def _crossings(self, epsilon: float) -> tuple[float, float] | None:
        """The two points where L = epsilon, ascending, or None; one is infinite if L is a line."""
        offset = self.constant - epsilon
        if self.square == 0 and self.slope == 0:
            return None
        if self.square == 0:
            root = -offset / self.slope
            # L > epsilon on one side of the root: written as "between" it and infinity.
            return (root, math.inf) if self.slope > 0 else (-math.inf, root)
        discriminant = self.slope**2 - 4 * self.square * offset
        if discriminant <= 0:
            return None
        # The stable pair of roots, without the difference of two nearly equal numbers.
        pivot = -(self.slope + math.copysign(math.sqrt(discriminant), self.slope)) / 2
        left, right = sorted((pivot / self.square, offset / pivot))
        return left, right


def _log_outside(left: float, right: float) -> float:
    """Log of the standard normal mass outside [left, right]."""
    return float(np.logaddexp(special.log_ndtr(left), special.log_ndtr(-right)))


def _log_between(left: float, right: float) -> float:
    """Log of the standard normal mass of [left, right]."""
    # Uses the tail common to both ends, so that neither cumulative probability rounds to 1.
    low, high = (-right, -left) if left > 0 else (left, right)
    log_low, log_high = float(special.log_ndtr(low)), float(special.log_ndtr(high))
    if log_low >= log_high:
        return -math.inf
    return log_high + math.log1p(-math.exp(log_low - log_high))


Guess = Literal["included", "excluded"]


@dataclass(frozen=True)
class BestThreshold:
    """The threshold with the largest epsilon.

    Attributes:
      epsilon: That epsilon, in nats, at least 0, possibly infinite.
      threshold: Scores of at least this are guessed to be included; None if no threshold gives a
        positive epsilon, or if epsilon is only approached as the threshold goes to infinity.
      guess: The guess that attains epsilon: "included" for (TPR - delta) / FPR, "excluded" for
        (TNR - delta) / FNR; None if `threshold` is None.
    """

    epsilon: float
    threshold: float | None
    guess: Guess | None


def epsilon_of_distributions(
    null: Distribution, alternative: Distribution, delta: float
) -> BestThreshold:
    """The supremum of epsilon over all thresholds between two distributions.

    It is the max over a of max(log((F0(a) - delta) / F1(a)), log((1 - delta - F1(a)) / (1 -
    F0(a)))), never below 0, exact to about 1e-9 relative. Andrew et al. (2023), section 4.

    With delta 0 and continuous distributions the supremum is in the tails: infinite, unless both
    are Gaussian of equal standard deviations and the alternative's mean is not the larger one. A
    standard deviation of 0 is a point mass: if the alternative's whole support is above the null's,
    epsilon is infinite.

    Args:
      null: F0, the distribution of an excluded canary's score.
      alternative: F1, the distribution of an included canary's score.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: delta is out of range.

    >>> epsilon_of_distributions(Gaussian(0, 1), Gaussian(0, 1), 1e-5).epsilon
    0.0
    >>> best = epsilon_of_distributions(Gaussian(0, 1), Gaussian(1, 1), 1e-5)
    >>> round(best.epsilon, 2)  # Balle & Wang
    4.38
    """
    check_delta(delta)
    if delta == 0:
        return BestThreshold(_without_delta(null, alternative), None, None)
    above, bound_above = _best_above(null, alternative, delta)
    # Guessing "excluded" below a threshold is the same problem with both distributions reflected.
    below, bound_below = _best_above(alternative.reflected(), null.reflected(), delta)
    if max(bound_above, bound_below) <= 0:
        return BestThreshold(0.0, None, None)
    if bound_above >= bound_below:
        return BestThreshold(bound_above, above, "included")
    return BestThreshold(bound_below, 0.0 - below, "excluded")


def _without_delta(null: Distribution, alternative: Distribution) -> float:
    """The supremum at delta 0, from the ratio of the far tails."""
    if isinstance(null, Gaussian) and isinstance(alternative, Gaussian):
        same_shape = null.std == alternative.std
        return 0.0 if same_shape and alternative.mean <= null.mean else math.inf
    # A Gaussian has mass outside [-1, 1], where an exact cosine cannot be.
    return math.inf


_ALIKE = 1e-9
"""The relative difference up to which epsilons of two thresholds count as equal."""


def _best_above(null: Distribution, alternative: Distribution, delta: float) -> tuple[float, float]:
    """The threshold a with the largest log((P1(X >= a) - delta) / P0(X >= a)), and that value."""

    def lower_bound(thresholds: FloatArray) -> FloatArray:
        return log_ratio(alternative.logsf(thresholds), null.logsf(thresholds), delta)

    rare_hits, rare_misses = _grid_rates(delta)
    grid = np.concatenate([alternative.isf(rare_hits), alternative.ppf(rare_misses)])
    on_grid = lower_bound(grid)
    peaks = _highest_peaks(on_grid)
    last = len(grid) - 1
    refined = _zoom(lower_bound, grid[np.maximum(peaks - 1, 0)], grid[np.minimum(peaks + 1, last)])
    values = lower_bound(refined)
    largest = float(max(values.max(), on_grid.max()))
    # Rounding must not choose among thresholds that are equally good, as between distributions far
    # apart: of the equally good thresholds on the grid the middle one is taken; if none is on the
    # grid, the first refined one.
    level = largest - _ALIKE * abs(largest) if math.isfinite(largest) else largest
    alike = grid[on_grid >= level]
    best = alike[len(alike) // 2] if len(alike) else refined[np.argmax(values >= level)]
    return float(best), largest


@functools.lru_cache(maxsize=4)
def _grid_rates(delta: float) -> tuple[FloatArray, FloatArray]:
    """True positive rates below one half, ascending, and false negative rates from there on.

    Thresholds at these rates are dense enough for epsilon to vary smoothly between neighbours. With
    w = (TPR - delta) / (1 - delta), the log odds of w are evenly spaced: finely from w far below
    delta, where TPR - delta vanishes, through the bulk, and coarsely down to a false negative rate
    of e^-700, near the smallest float.
    """
    log_odds = np.concatenate([np.arange(math.log(delta) - 60, 40, 0.25), np.arange(40, 700, 4.0)])
    hit = delta + (1 - delta) * special.expit(log_odds)
    miss = (1 - delta) * special.expit(-log_odds)
    rare = hit < 0.5
    return hit[rare], miss[~rare]


def _highest_peaks(values: FloatArray) -> IntArray:
    """Indices of the four highest local maxima."""
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((values >= padded[:-2]) & (values >= padded[2:]))
    return np.asarray(peaks[np.argsort(values[peaks])[-4:]])


def _zoom(
    objective: Callable[[FloatArray], FloatArray], left: FloatArray, right: FloatArray
) -> FloatArray:
    """Where an objective with one peak in each interval is largest, by refining grids.

    The result is first the tops of parabolas through three points of a coarser grid, then the best
    points of the finest grids: on a smooth peak the finest values differ by rounding alone.
    """
    rows, steps = np.arange(len(left)), np.arange(21) / 20
    for step in range(9):
        points = left[:, None] + (right - left)[:, None] * steps
        values = objective(points.ravel()).reshape(points.shape)
        best = np.argmax(values, axis=1)
        peaks = points[rows, best]
        left, right = points[rows, np.maximum(best - 1, 0)], points[rows, np.minimum(best + 1, 20)]
        if step == _COARSE:
            before, after = (values[rows, np.clip(best + side, 0, 20)] for side in (-1, 1))
            with np.errstate(invalid="ignore", divide="ignore"):  # values may be -inf, or alike
                move = (after - before) / (2 * values[rows, best] - before - after)
                tops = peaks + move * (right - left) / 4
            tops = np.where(np.isfinite(tops), tops, peaks)
    return np.concatenate([tops, peaks])


_COARSE = 3
"""The refinement, counted from 0, on whose grid values still differ enough for a parabola."""


_ASYMPTOTIC_CRITICAL_VALUES = {0.15: 0.576, 0.10: 0.656, 0.05: 0.787, 0.025: 0.918, 0.01: 1.092}


@dataclass(frozen=True)
class AndersonDarling:
    """The Anderson-Darling statistic and its critical values.

    Attributes:
      statistic: A^2; a larger value means further from Gaussian.
      critical_values: Critical value at this sample size for each significance level.
    """

    statistic: float
    critical_values: dict[float, float]


def anderson_darling(values: npt.ArrayLike) -> AndersonDarling:
    """The Anderson-Darling statistic for normality with mean and standard deviation estimated.

    The test is case 3 of Stephens (1974), "EDF statistics for goodness of fit", with his correction
    of the critical values for sample size; Andrew et al. (2023), Table 4. As in that test, the
    standard deviation is the sample one (ddof=1).

    Args:
      values: Finite scores, not all equal, float64 of shape (n,) with n >= 4: the critical
        values are negative for fewer.

    Raises:
      ValueError: There are fewer than 4 values or they are all equal.

    >>> test = anderson_darling(np.linspace(-1, 1, 1000))
    >>> round(test.critical_values[0.01], 3), test.statistic > test.critical_values[0.01]
    (1.088, True)
    """
    sample = np.sort(np.asarray(values, dtype=np.float64))
    n = len(sample)
    if n < 4 or sample[0] == sample[-1]:
        raise ValueError("values must be at least 4 and not all equal")
    sample, _ = scaled_to_one(sample)
    fitted = Gaussian(float(np.mean(sample)), float(np.std(sample, ddof=1)))
    weights = (2 * np.arange(1, n + 1) - 1) / n
    statistic = -n - np.sum(weights * (fitted.logcdf(sample) + fitted.logsf(sample)[::-1]))
    shrink = 1 + 4 / n - 25 / n**2
    critical = {level: value / shrink for level, value in _ASYMPTOTIC_CRITICAL_VALUES.items()}
    return AndersonDarling(float(statistic), critical)


def gaussian_fit(setting: AuditSetting) -> Estimate:
    """Epsilon of the best threshold between the null and a Gaussian fitted to included scores.

    Andrew et al. (2023), Alg. 1 (closed-form null) and Alg. 2 (Gaussian fitted to the excluded
    scores). Standard deviations are population ones (ddof=0). If all included scores are equal, the
    fitted distribution is a point mass, and epsilon is infinite if more than delta of the null's
    mass is below that point.
    """
    scores, unit = in_units(setting)
    null, fitted = _null_and_fit(setting, scores)
    best = epsilon_of_distributions(null, fitted, setting.delta)
    return Estimate(
        method="gaussian_fit",
        kind="estimate",
        epsilon=best.epsilon,
        assumes="Included scores are Gaussian, and all canaries' scores are independent.",
        guarantee=(
            "None: a point estimate under the Gaussian assumption, not a bound. The true epsilon "
            "may be larger or smaller; a better attack would find more."
        ),
        source="Andrew et al. (2023), arXiv:2302.03098, section 4, Algorithms 1 and 2",
        details={
            "mean": fitted.mean * unit,
            "std": fitted.std * unit,
            "anderson_darling": (
                anderson_darling(scores.included).statistic
                if len(scores.included) > 3 and np.ptp(scores.included) > 0
                else None
            ),
            **_null_details(setting, null, unit),
            "threshold": None if best.threshold is None else best.threshold * unit,
            "direction": best.guess,
            "epsilon_all_regions": (
                epsilon_over_all_regions(null, fitted, setting.delta)
                if isinstance(null, Gaussian)
                else None
            ),
        },
    )


def gaussian_fit_epsilon(setting: AuditSetting) -> float:
    """The epsilon of `gaussian_fit` without the details, in half the time."""
    null, fitted = _null_and_fit(setting, in_units(setting)[0])
    return epsilon_of_distributions(null, fitted, setting.delta).epsilon


def _null_and_fit(
    setting: AuditSetting, scores: CanaryScores
) -> tuple[Gaussian | ExactCosine, Gaussian]:
    """The null and the Gaussian fitted to the included scores, in the unit of `scores`."""
    setting.require(included=2)
    setting.require_null_scores()
    fitted = Gaussian.fitted_to(scores.included)
    if setting.null.kind == "closed_form":
        return setting.null.closed_form(), fitted
    return Gaussian.fitted_to(scores.excluded), fitted


def _null_details(
    setting: AuditSetting, null: Gaussian | ExactCosine, unit: float
) -> dict[str, Detail]:
    if setting.null.kind == "empirical":
        name = "gaussian_fitted_to_excluded"
    else:
        name = "gaussian_limit" if isinstance(null, Gaussian) else "exact_cosine"
    return {
        "null": setting.null.kind,
        "null_law": name,
        "null_mean": null.mean * unit,
        "null_std": null.std * unit,
    }
