"""The credible interval on epsilon by quadrature in two dimensions, as its authors compute it.

Zanella-Béguelin et al. (2022), section 3.2: "we approximate it numerically using SciPy's dblquad".
Their package (github.com/microsoft/responsible-ai-toolbox-privacy, privacy_estimates) integrates
the product of the densities of two scipy.stats.beta over the privacy region with an absolute
tolerance of 0.005, and finds the ends to 0.01 by a bracketing root search that starts from ever
wider Jeffreys intervals on epsilon. This module implements the same method anew.

Most of its time is spent in calls of `pdf` for single numbers, which `interval_by_hand` avoids.
"""

import math
from collections.abc import Callable

from scipy import integrate, optimize, special, stats

from fl_audit.estimators.counts import ConfusionCounts
from fl_audit.estimators.counts.confusion_counts import Interval
from fl_audit.estimators.counts.intervals import interval_of_rates
from fl_audit.estimators.threshold.error_rates import jeffreys_upper

Density = Callable[[float], float]

_LARGEST = 10.0
"""The largest end of an interval that is searched for."""


def interval(counts: ConfusionCounts, delta: float, confidence: float) -> Interval:
    """The equal-tailed credible interval of equations 4 and 5, as the authors' package finds it.

    Args:
      counts: Counts of the attack's guesses.
      delta: The delta of the claim, in [0, 1).
      confidence: Posterior probability of the interval, in (0, 1).

    Raises:
      ValueError: An end of the interval lies beyond 10.
    """
    fnr = stats.beta(counts.false_negatives + 0.5, counts.true_positives + 0.5).pdf
    fpr = stats.beta(counts.false_positives + 0.5, counts.true_negatives + 0.5).pdf
    return _interval(counts, fnr, fpr, delta=delta, confidence=confidence, epsabs=5e-3, xtol=1e-2)


def interval_by_hand(
    counts: ConfusionCounts, delta: float, confidence: float, epsabs: float, xtol: float
) -> Interval:
    """The same interval by a faster peer: densities written out in `math`, tolerances to choose."""
    fnr = _beta_density(counts.false_negatives, counts.true_positives)
    fpr = _beta_density(counts.false_positives, counts.true_negatives)
    return _interval(counts, fnr, fpr, delta=delta, confidence=confidence, epsabs=epsabs, xtol=xtol)


def _interval(
    counts: ConfusionCounts,
    fnr_density: Density,
    fpr_density: Density,
    *,
    delta: float,
    confidence: float,
    epsabs: float,
    xtol: float,
) -> Interval:
    def density(fpr: float, fnr: float) -> float:
        return fnr_density(fnr) * fpr_density(fpr)

    def private(epsilon: float) -> float:
        return _region_mass(density, delta, epsilon, epsabs)

    tail = (1 - confidence) / 2
    lower, upper = (_quantile(private, counts, delta, p, xtol) for p in (tail, 1 - tail))
    return Interval(lower, upper)


def _region_mass(
    density: Callable[[float, float], float], delta: float, epsilon: float, epsabs: float
) -> float:
    """The posterior mass of the privacy region, equation 3, by dblquad."""
    growth = math.exp(epsilon)

    def low(fnr: float) -> float:
        return max(0.0, 1 - delta - growth * fnr, (1 - delta - fnr) / growth)

    def high(fnr: float) -> float:
        return min(1.0, 1 + (delta - fnr) / growth, delta + growth * (1 - fnr))

    return float(integrate.dblquad(density, 0, 1, low, high, epsabs=epsabs)[0])


def _quantile(
    private: Callable[[float], float],
    counts: ConfusionCounts,
    delta: float,
    probability: float,
    xtol: float,
) -> float:
    def excess(epsilon: float) -> float:
        return private(epsilon) - probability

    if excess(0.0) > 0:
        return 0.0
    for confidence in (0.8, 0.9, 0.99, 0.999):
        start = interval_of_rates(counts, delta, confidence, jeffreys_upper)
        try:
            end = min(start.upper, _LARGEST)
            return float(optimize.brentq(excess, start.lower, end, xtol=xtol))
        except ValueError:  # the quantile is not in there
            continue
    return float(optimize.brentq(excess, 0.0, _LARGEST, xtol=xtol))


def _beta_density(errors: int, right: int) -> Density:
    log_norm = float(special.betaln(errors + 0.5, right + 0.5))

    def density(x: float) -> float:
        return math.exp((errors - 0.5) * math.log(x) + (right - 0.5) * math.log1p(-x) - log_norm)

    return density
