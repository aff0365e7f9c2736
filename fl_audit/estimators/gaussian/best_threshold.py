"""The epsilon of two laws by the best threshold (Andrew et al., section 4)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_delta
from fl_audit.estimators.laws import Gaussian, Law
from fl_audit.estimators.rates import log_ratio

Guess = Literal["included", "excluded"]


@dataclass(frozen=True)
class BestThreshold:
    """The largest epsilon that any threshold proves.

    Attributes:
      epsilon: The largest epsilon proven, in nats, at least 0, possibly infinite.
      threshold: Threshold from which on scores mean included; None where no threshold proves
        anything or where epsilon is only approached as the threshold runs off to infinity.
      guess: The guess that gives the member away: "included" for (TPR - delta) / FPR,
        "excluded" for (TNR - delta) / FNR; None where there is no threshold.
    """

    epsilon: float
    threshold: float | None
    guess: Guess | None


def epsilon_of_laws(null: Law, alternative: Law, delta: float) -> BestThreshold:
    """The supremum of epsilon over all thresholds between two laws.

    It is the max over a of max(log((F0(a) - delta) / F1(a)), log((1 - delta - F1(a)) / (1 -
    F0(a)))), never below 0, exact to about 1e-9 relative. Andrew et al. (2023), section 4.

    With delta 0 and continuous laws the supremum lies in the tails: infinite, unless both are
    Gaussian with one deviation and the alternative's mean is not the larger one. A deviation of 0
    is a point mass: wherever it can be told from the other law without error, epsilon is infinite.

    Args:
      null: F0, the law of an excluded canary's score.
      alternative: F1, the law of an included canary's score.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If delta is out of range.

    >>> epsilon_of_laws(Gaussian(0, 1), Gaussian(0, 1), 1e-5).epsilon
    0.0
    >>> round(epsilon_of_laws(Gaussian(0, 1), Gaussian(1, 1), 1e-5).epsilon, 2)  # Balle & Wang
    4.38
    """
    check_delta(delta)
    if delta == 0:
        return BestThreshold(_without_delta(null, alternative), None, None)
    above, proven_above = _best_above(null, alternative, delta)
    # Guessing "excluded" below a threshold is the same question with both laws turned around.
    below, proven_below = _best_above(alternative.reflected(), null.reflected(), delta)
    if max(proven_above, proven_below) <= 0:
        return BestThreshold(0.0, None, None)
    if proven_above >= proven_below:
        return BestThreshold(proven_above, above, "included")
    return BestThreshold(proven_below, -below, "excluded")


def _without_delta(null: Law, alternative: Law) -> float:
    """The supremum at delta 0, where the ratio of the far tails decides."""
    if isinstance(null, Gaussian) and isinstance(alternative, Gaussian):
        same_shape = null.std == alternative.std
        return 0.0 if same_shape and alternative.mean <= null.mean else math.inf
    # A Gaussian puts mass outside [-1, 1], where an exact cosine cannot be.
    return math.inf


def _best_above(null: Law, alternative: Law, delta: float) -> tuple[float, float]:
    """The threshold a with the largest log((P1(X >= a) - delta) / P0(X >= a)), and that value."""

    def proven(thresholds: FloatArray) -> FloatArray:
        return log_ratio(alternative.logsf(thresholds), null.logsf(thresholds), delta)

    grid = _threshold_grid(alternative, delta)
    peaks = _highest_peaks(proven(grid))
    last = len(grid) - 1
    refined = _zoom(proven, grid[np.maximum(peaks - 1, 0)], grid[np.minimum(peaks + 1, last)])
    thresholds = np.concatenate([grid[peaks], refined])
    values = proven(thresholds)
    best = int(np.argmax(values))
    return float(thresholds[best]), float(values[best])


def _threshold_grid(alternative: Law, delta: float) -> FloatArray:
    """Thresholds where the proven epsilon varies smoothly from one to the next.

    They are evenly spaced in the log odds of w, where the true positive rate is
    delta + (1 - delta) w: fine from far below delta, where the numerator dies, through the bulk,
    and coarse on to a false negative rate of e^-700, near the smallest float.
    """
    log_odds = np.concatenate([np.arange(math.log(delta) - 60, 40, 0.1), np.arange(40.0, 700.0)])
    hit = delta + (1 - delta) * special.expit(log_odds)
    miss = (1 - delta) * special.expit(-log_odds)
    rare = hit < 0.5
    return np.concatenate([alternative.isf(hit[rare]), alternative.ppf(miss[~rare])])


def _highest_peaks(values: FloatArray, count: int = 4) -> npt.NDArray[np.intp]:
    """Indices of the highest local maxima."""
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((values >= padded[:-2]) & (values >= padded[2:]))
    return np.asarray(peaks[np.argsort(values[peaks])[-count:]])


def _zoom(
    objective: Callable[[FloatArray], FloatArray], left: FloatArray, right: FloatArray
) -> FloatArray:
    """The maximum of an objective in each interval, of one peak each, by ever finer grids."""
    rows = np.arange(len(left))
    for _ in range(14):
        points = np.linspace(left, right, 21, axis=1)
        best = np.argmax(objective(points.ravel()).reshape(points.shape), axis=1)
        found = points[rows, best]
        left, right = points[rows, np.maximum(best - 1, 0)], points[rows, np.minimum(best + 1, 20)]
    return np.asarray(found)
