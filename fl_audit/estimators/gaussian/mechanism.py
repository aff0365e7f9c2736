"""The Gaussian mechanism: sigma, mu and epsilon, and estimates of them from canaries' scores.

Everything is for sensitivity 1: sigma is the noise multiplier, and mu = 1 / sigma.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import Gaussian, supremum
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions, in_units, some_region_exceeds
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import check_epsilon
from fl_audit.estimators.setting import AuditSetting

_LEAST_SIGMA = 1e-150
_LARGEST_EPSILON = 1e299
"""The least sigma and the largest epsilon: beyond them, (1 / sigma)^2 and so epsilon overflow."""


def epsilon_of_sigma(sigma: float, delta: float) -> float:
    """The epsilon of one release with noise N(0, sigma^2 I) and sensitivity 1.

    Exact, by the optimal calibration of Balle & Wang (2018), arXiv:1805.06530, theorem 8. It is 0
    for infinite sigma, else infinite at delta 0. ValueError if sigma is below 1e-150.

    >>> round(epsilon_of_sigma(1.0, 1e-5), 2)
    4.38
    """
    if not sigma >= _LEAST_SIGMA:
        raise ValueError(f"sigma must be at least {_LEAST_SIGMA:g}, got {sigma}")
    # N(0, 1) and N(1 / sigma, 1): the mechanism along the difference of two inputs.
    return epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(1 / sigma, 1.0), delta)


def sigma_of_epsilon(epsilon: float, delta: float) -> float:
    """The smallest sigma with which one release is (epsilon, delta)-private at sensitivity 1.

    The inverse of epsilon_of_sigma (Balle & Wang 2018, algorithm 1), for epsilon in [0, 1e299] and
    delta in (0, 1). These are the numbers of Andrew et al. (2023), Table 1:

    >>> [float(f"{sigma_of_epsilon(epsilon, 1e-6):.3g}") for epsilon in (1, 3, 10)]
    [4.22, 1.54, 0.541]
    """
    check_epsilon(epsilon)
    if epsilon > _LARGEST_EPSILON:
        raise InputError(f"epsilon must be at most {_LARGEST_EPSILON:g}, got {epsilon}")
    if not 0 < delta < 1:
        raise InputError(f"delta must be in (0, 1), as no Gaussian noise gives 0, got {delta}")
    # Bisection on 1 / sigma, which grows with epsilon.
    unit = Gaussian(0.0, 1.0)
    return 1 / supremum(
        lambda shift: (
            shift == 0 or not some_region_exceeds(unit, Gaussian(shift, 1.0), epsilon, delta)
        )
    )


def estimate_sigma(cosines: npt.ArrayLike, dim: int) -> float:
    """The noise multiplier of one release, from its cosines with the included canaries.

    It is 1 / (mean(cosines) sqrt(dim)), Andrew et al. (2023), arXiv:2302.03098, section 3. If the
    mean is not positive, there is no trace of the canaries and the estimate is infinite, which
    corresponds to epsilon 0. For k canaries the relative standard deviation of 1 / estimate is
    about sqrt(sigma^2 / k + 2 / dim), and the norm of the canaries' sum, sqrt(k), raises the median
    estimate to sqrt(sigma^2 + k / dim).

    >>> estimate_sigma([0.01, 0.02, 0.03], 10_000)
    0.5
    >>> estimate_sigma([-0.01, 0.01], 10_000)
    inf
    """
    values = np.asarray(cosines, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"cosines must be finite and at least one, got {values}")
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    mean = float(np.mean(values))
    return 1 / (mean * math.sqrt(dim)) if mean > 0 else math.inf


# Gaussian differential privacy from scores: mu, the standardized distance of two Gaussians.
#
# Dong, Roth & Su (2022), "Gaussian Differential Privacy", arXiv:1905.02383: a mechanism is mu-GDP
# if two neighbouring inputs are at least as hard to distinguish as N(0, 1) and N(mu, 1).


@dataclass(frozen=True)
class _FittedMu:
    """The distance mu of the means in standard deviations."""

    mu: float  # mu, of either sign; infinite if the standard deviation is 0 and the means differ
    standard_error: float | None  # of mu; None if std is 0
    std: float  # of both distributions
    std_ratio: float | None  # included scores' standard deviation / the null's; None if that is 0


def gdp_fit(setting: AuditSetting) -> Estimate:
    """Epsilon of N(0, 1) against N(mu, 1), with mu the standardized distance of the mean scores.

    mu = (mean included score - mean under the null) / std, and epsilon is that of the Gaussian
    mechanism with noise multiplier 1 / mu (Dong, Roth & Su 2022, corollary 2.13), 0 if mu is not
    positive. Both distributions are assumed to have the same standard deviation: under the
    closed-form null the null's, else the pooled one. `gaussian_fit` allows two standard deviations;
    if they differ, no mu-GDP curve fits, and `std_ratio` in the details is far from 1.

    The standard error of mu is by the delta method for Gaussian scores: its square is 1 / n1 under
    the closed-form null, else 1 / n1 + 1 / n0 + mu^2 / (2 (n1 + n0 - 2)).
    """
    setting.require(included=2)
    setting.require_null_scores()
    fitted = _with_known_null(setting) if setting.null.kind == "closed_form" else _pooled(setting)
    return Estimate(
        method="gdp_fit",
        kind="estimate",
        epsilon=epsilon_of_mu(fitted.mu, setting.delta),
        assumes=(
            "Included and excluded scores are Gaussian with one deviation and two means, and all "
            "canaries' scores are independent."
        ),
        guarantee=(
            "None: a point estimate under the Gaussian assumption, not a bound. The true epsilon "
            "may be larger or smaller; a better attack would find more."
        ),
        source=(
            "Dong, Roth & Su (2022), arXiv:1905.02383, definition 2.6 and corollary 2.13; Balle & "
            "Wang (2018), arXiv:1805.06530, theorem 8"
        ),
        details={
            "mu": fitted.mu,
            "mu_standard_error": fitted.standard_error,
            "std": fitted.std,
            "std_ratio": fitted.std_ratio,
            "null": setting.null.kind,
        },
    )


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon of mu-GDP at delta (Dong, Roth & Su 2022, corollary 2.13); 0 if mu is at most 0.

    >>> round(epsilon_of_mu(1.0, 1e-5), 2)
    4.38
    """
    if math.isnan(mu):
        raise InputError(f"mu must be a number, got {mu}")
    if mu > 1 / _LEAST_SIGMA:
        return math.inf
    # A mu at or below the least sigma counts as 0, and so does its epsilon.
    return epsilon_of_sigma(1 / mu if mu > _LEAST_SIGMA else math.inf, delta)


def _with_known_null(setting: AuditSetting) -> _FittedMu:
    null, included = setting.null.closed_form(), setting.scores.included
    mu = (float(np.mean(included)) - null.mean) / null.std
    return _FittedMu(mu, len(included) ** -0.5, null.std, _std(included) / null.std)


def _pooled(setting: AuditSetting) -> _FittedMu:
    scores, unit = in_units(setting)
    included, excluded = scores.included, scores.excluded
    n1, n0 = len(included), len(excluded)
    distance = float(np.mean(included) - np.mean(excluded))
    variance = (_sum_of_squares(included) + _sum_of_squares(excluded)) / (n1 + n0 - 2)
    std = math.sqrt(variance)
    if std == 0:
        # All scores of a group are equal: the groups are distinguished without error, or not at
        # all.
        return _FittedMu(math.copysign(math.inf, distance) if distance else 0.0, None, 0.0, None)
    mu = distance / std
    error = math.sqrt(1 / n1 + 1 / n0 + mu**2 / (2 * (n1 + n0 - 2)))
    null_std = _std(excluded)
    std_ratio = _std(included) / null_std if null_std else None
    return _FittedMu(mu, error, std * unit, std_ratio)


def _std(values: FloatArray) -> float:
    """The sample standard deviation of at least 2 values; exactly 0 if all are equal."""
    return math.sqrt(_sum_of_squares(values) / (len(values) - 1))


def _sum_of_squares(values: FloatArray) -> float:
    """The sum of squares about the mean; exactly 0 if all values are equal, despite rounding."""
    return float(np.sum((values - np.mean(values)) ** 2)) if np.ptp(values) else 0.0
