"""The noise of a round by itself: the difference of two releases that have all but it in common.

Nothing of the clients' updates is left in such a difference, so that the tests are exact where the
checks of aggregates can only be bounds: the squared length of a variable is chi-square.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.mechanism_checks.autocorrelation import strongest_autocorrelation
from fl_audit.mechanism_checks.finding import Finding
from fl_audit.mechanism_checks.tails import log_p_autocorrelation

_MOST_VALUES = 1 << 14
"""The number of coordinates whose values are compared with one another."""

_LIKELIEST_VALUE = 2.0**-20
"""A bound on the probability of the likeliest number of a normal law in float32."""


def noise_findings(
    difference: FloatArray, stddev: float, sizes: Sequence[int]
) -> Iterator[Finding]:
    """The findings on the noise of two rounds that differ in their seed alone.

    Args:
      difference: The difference of the two releases, of shape (dim,).
      stddev: The promised standard deviation of the noise on a coordinate of a release.
      sizes: The sizes of the model's variables.
    """
    if stddev == 0:
        return
    normal = difference / (math.sqrt(2) * stddev)
    yield _length(normal, sizes)
    if np.isfinite(normal).all() and normal.any():
        yield _echo(normal)


def _length(normal: FloatArray, sizes: Sequence[int]) -> Finding:
    """Whether every variable's noise is as long as promised: two-sided, by the chi-square law."""
    from scipy import stats  # here, for it takes half a second

    parts = np.split(normal, np.cumsum(sizes)[:-1])
    dof = np.array([*sizes, sum(sizes)], np.float64)
    squared = np.array([part @ part for part in (*parts, normal)])
    tail = np.minimum(stats.chi2.logcdf(squared, dof), stats.chi2.logsf(squared, dof))
    log_p = np.where(np.isfinite(squared), tail, -np.inf) + math.log(2 * len(dof))
    at = int(np.argmin(log_p))
    ratio = math.sqrt(squared[at] / dof[at])
    is_whole = at == len(dof) - 1
    where = "" if is_whole else f" in variable {at + 1}"
    measured = f"{ratio:.3g} times as long as promised{where}"
    if not normal.any():
        measured = "the same noise, or none, under another seed"
    return Finding(
        "noise_length",
        "another seed gives noise as long as promised in every variable",
        measured,
        min(0.0, float(log_p[at])),
        None if is_whole else at + 1,
        ratio,
    )


def _echo(normal: FloatArray) -> Finding:
    """Whether a stretch of the noise repeats another."""
    strongest = strongest_autocorrelation(normal.astype(np.float32), 1.0, 0.0)
    expected = "no stretch of the noise repeats another"
    if strongest is None:
        return Finding("noise_echo", expected, "nothing to look at", 0.0, None, 0.0)
    pairs = np.array(float(strongest.num_pairs))
    log_p = float(log_p_autocorrelation(np.array(strongest.product), pairs, 0.0))
    return Finding(
        "noise_echo",
        expected,
        f"correlation {strongest.product / strongest.num_pairs:.3g} at {strongest.lag} coordinates",
        min(0.0, log_p + math.log(strongest.num_lags)),
        None,
        strongest.product / strongest.num_pairs,
    )


def resolution_finding(noise: FloatArray) -> Finding:
    """Whether noise by itself has as many different values as float32 gives it, or more.

    A new value is one of n earlier ones with probability at most n times that of the likeliest
    value; the number of repetitions is therefore at most binomial.

    Args:
      noise: A release of a round without clients, of shape (dim,).
    """
    from scipy import stats  # here, for it takes half a second

    values = noise[:_MOST_VALUES]
    repeated = len(values) - len(np.unique(values))
    chance = len(values) * _LIKELIEST_VALUE
    log_p = float(stats.binom.logsf(repeated - 1, len(values), chance)) if repeated else 0.0
    return Finding(
        "noise_resolution",
        "noise has the resolution of float32",
        f"{repeated} of {len(values)} numbers are not new",
        log_p,
        None,
        repeated / max(1, len(values)),
    )
