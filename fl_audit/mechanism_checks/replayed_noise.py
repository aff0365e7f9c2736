"""The noise of a round by itself: releases that have all but it in common.

Nothing of the clients' updates is left in their differences, so that the tests are exact where the
checks of aggregates can only be bounds: the squared length of a variable is chi-square.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.mechanism_checks.autocorrelation import strongest_autocorrelation
from fl_audit.mechanism_checks.checks import FALSE_ALARM
from fl_audit.mechanism_checks.finding import Finding
from fl_audit.mechanism_checks.tails import log_p_autocorrelation

_ENOUGH, _ENOUGH_OF_VARIABLE = 4096, 64
"""The numbers of the whole model, and of its smallest variable, that noise is looked at in."""

_MOST_NUMBERS = 1 << 24
"""The number of numbers in all releases that differ in their seed."""

_MOST_VALUES = 1 << 14
"""The number of coordinates whose values are compared with one another."""

_LIKELIEST_VALUE = 2.0**-20
"""A bound on the probability of the likeliest number of a normal law in float32."""


@dataclass(frozen=True, eq=False)
class NoisyRounds:
    """Releases of one round that differ in their seed alone.

    Attributes:
      words: Which round it is, to follow "in".
      releases: The releases, of shape (seeds, dim), two seeds at least.
      stddev: The promised standard deviation of the noise on a coordinate, positive.
    """

    words: str
    releases: FloatArray
    stddev: float


def num_seeds(sizes: Sequence[int]) -> int:
    """The number of seeds with which noise that is 10 % short is seen, where few are enough.

    That takes some 4,000 numbers in the whole model; a small variable gets 64, at up to 9 seeds.
    """
    dim, smallest = sum(sizes), min(size for size in sizes if size)
    wanted = 1 + max(-(-_ENOUGH // dim), min(-(-_ENOUGH_OF_VARIABLE // smallest), 8))
    return max(2, min(wanted, _MOST_NUMBERS // dim))


def length_finding(
    name: str,
    expected: str,
    rounds: Sequence[NoisyRounds],
    sizes: Sequence[int],
    *,
    may_be_longer: bool,
) -> Finding:
    """Whether noise is as long as promised in every variable, by the chi-square law.

    The squared distance of several releases from their mean is chi-square with as many degrees of
    freedom as there are numbers in all but one of them.

    Args:
      name: The name of the finding.
      expected: What is promised, in words.
      rounds: The rounds that are looked at.
      sizes: The sizes of the model's variables; a variable that noise and clients leave alone is
        not among them.
      may_be_longer: Whether only noise that is too short fails.
    """
    from scipy import stats  # here, for it takes half a second

    widths = np.array([*sizes, sum(sizes)], np.float64)
    sides = 1 if may_be_longer else 2
    tests = sides * len(widths) * len(rounds)
    dof = np.array([(len(one.releases) - 1) * widths for one in rounds])
    squared = np.array([_squared(one, sizes) for one in rounds])
    tail = stats.chi2.logcdf(squared, dof)
    if not may_be_longer:
        tail = np.minimum(tail, stats.chi2.logsf(squared, dof))
    log_p = np.where(np.isfinite(squared), tail, -np.inf) + math.log(tests)
    group, at = divmod(int(np.argmin(log_p)), len(widths))
    ratio = math.sqrt(squared[group, at] / dof[group, at])
    is_whole = at == len(widths) - 1
    low, high = stats.chi2.ppf(FALSE_ALARM / tests, dof[0]), stats.chi2.ppf(0.95, dof[0])
    seen = np.sqrt(low / high)
    measured = f"{ratio:.3g} times as long as promised"
    measured += "" if is_whole else f" in variable {at + 1}"
    measured += "" if len(rounds) == 1 else f", in {rounds[group].words}"
    if not squared.any():
        measured = "the same noise, or none, under another seed"
    measured += f"; less than {seen[-1]:.2g} of it would have been seen"
    if len(sizes) > 1:
        measured += f", in a variable less than {seen[:-1].min():.2g}"
    return Finding(
        name,
        expected,
        measured,
        min(0.0, float(log_p[group, at])),
        None if is_whole else at + 1,
        ratio,
        detectable_ratio=float(seen[-1]),
    )


def _squared(rounds: NoisyRounds, sizes: Sequence[int]) -> FloatArray:
    """The squared distances from the mean, of each variable and the whole, over the variance."""
    normal = (rounds.releases - rounds.releases.mean(axis=0)) / rounds.stddev
    by_coordinate = np.einsum("sd,sd->d", normal, normal)
    parts = [float(part.sum()) for part in np.split(by_coordinate, np.cumsum(sizes)[:-1])]
    return np.array([*parts, sum(parts)])


def echo_finding(difference: FloatArray, stddev: float) -> Finding:
    """Whether a stretch of the noise repeats another.

    Args:
      difference: The difference of two releases that differ in their seed alone, of shape (dim,).
      stddev: The promised standard deviation of the noise on a coordinate of a release.
    """
    normal = difference / (math.sqrt(2) * stddev)
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


def resolution_finding(noise: FloatArray, release: FloatArray) -> Finding:
    """Whether noise by itself has as many different values as float32 gives it, or more.

    A new value is one of n earlier ones with probability at most n times that of the likeliest
    value; the number of repetitions is therefore at most binomial. Where the sum or the release is
    rounded as the noise is, its low digits show nothing.

    Args:
      noise: Releases of a round without clients, of shape (seeds, dim).
      release: One with clients, of shape (dim,).
    """
    from scipy import stats  # here, for it takes half a second

    name, expected = "noise_resolution", "noise has the resolution of the sum that it is added to"
    values = noise.ravel()[:_MOST_VALUES]
    repeated = len(values) - len(np.unique(values))
    chance = len(values) * _LIKELIEST_VALUE
    log_p = float(stats.binom.logsf(repeated - 1, len(values), chance)) if repeated else 0.0
    share = repeated / max(1, len(values))
    words = f"{repeated} of {len(values)} numbers are not new"
    if log_p < math.log(FALSE_ALARM) and _is_as_coarse(release, values):
        words, log_p = f"{words}; releases with clients are rounded alike", 0.0
    return Finding(name, expected, words, log_p, None, share)


def _is_as_coarse(release: FloatArray, noise: FloatArray) -> bool:
    """Whether a release is in half precision, or on a grid as coarse as the noise's."""
    if half_precision(release):
        return True
    for epsilon in (2.0**-23, 2.0**-46):  # of float32, and finer grids of float64
        error = epsilon * float(np.abs(noise).max())
        step, of_noise = grid_step(release, error), grid_step(noise, error)
        if step is not None and of_noise is not None:
            return step > 0.99 * of_noise
    return False


def half_precision(numbers: FloatArray) -> float:
    """The relative error of numbers that are all float16, or else all bfloat16; 0 for others."""
    with np.errstate(over="ignore"):
        if np.array_equal(numbers, numbers.astype(np.float16)):
            return 2.0**-10
        single = numbers.astype(np.float32)
    cut = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return 2.0**-7 if np.array_equal(numbers, cut) else 0.0


def grid_step(vector: FloatArray, error: float) -> float | None:
    """The step of the grid on which all numbers of a vector lie; None where there is none.

    Args:
      vector: The numbers, of shape (dim,).
      error: The error of a number.
    """
    found = np.unique(np.append(np.abs(vector), 0.0))
    gaps = np.diff(found)
    gaps = gaps[gaps > 8 * error]
    if len(vector) < 8 or not len(gaps):
        return None
    step = float(gaps.min())
    if step < 64 * error or found[-1] > 1e9 * step:
        return None
    multiples = np.rint(found / step)
    step = float(found @ multiples / (multiples @ multiples))
    off = np.abs(found - np.rint(found / step) * step)
    return step if off.max() <= max(8 * error, 1e-6 * step) else None
