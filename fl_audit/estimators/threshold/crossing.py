"""Exact probabilities that order statistics of a uniform sample cross a boundary at given ranks.

U_(k) < b exactly if at least k of the sample lie below b. The counts below b_1 <= b_2 <= ... form
a Markov chain with binomial steps, so one pass over the boundary gives the law of the counts that
have crossed nowhere (Noe 1972; Moscovich & Nadler 2017, "Fast calculation of boundary crossing
probabilities for Poisson processes"). What crosses at each step is summed: probabilities of 1e-11
keep their digits, which one minus the rest would not.
"""

from functools import lru_cache

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.beta_cdf import beta_cdf


def chance_too_small(n: int, ranks: IntArray, points: FloatArray) -> float:
    """P(U_(k) < b_k for some k): the chance that one of the smallest uniforms is too small.

    Args:
      n: Sample size, at least 1.
      ranks: Ranks k in [1, n], ascending, int64 of shape (r,).
      points: Boundary b_k in [0, 1), not descending, float64 of shape (r,).

    >>> round(chance_too_small(2, np.array([1, 2]), np.array([0.5, 0.5])), 12)
    0.75
    """
    below = range(1)
    chances = np.array([1.0])
    crossed, last = 0.0, 0.0
    for rank, point in zip(ranks, points, strict=True):
        share = (point - last) / (1 - last)
        # All states have fewer than k below, so what is lacking is a valid first shape.
        lacking = rank - np.array(below)
        crossed += float(chances @ beta_cdf(lacking, n - rank + 1, share))
        still = range(rank)
        chances = chances @ _steps(n, below, still, share)
        below, last = still, point
    return crossed


def chance_too_large(n: int, ranks: IntArray, points: FloatArray) -> float:
    """P(U_(k) > a_k for some k): the chance that one of the smallest uniforms is too large.

    Args:
      n: Sample size, at least 1.
      ranks: Ranks k in [1, n], ascending, int64 of shape (r,).
      points: Boundary a_k in [0, 1), not descending, float64 of shape (r,).

    >>> round(chance_too_large(2, np.array([1, 2]), np.array([0.5, 0.5])), 12)
    0.75
    """
    # A count of at least the last rank can cross no more, and is dropped from the states.
    below = range(1)
    chances = np.array([1.0])
    crossed, last = 0.0, 0.0
    for rank, point in zip(ranks, points, strict=True):
        share = (point - last) / (1 - last)
        lacking = rank - np.array(below)
        crossing = lacking > 0
        # At most k - 1 below: at least n - k + 1 of all others lie above.
        too_few = beta_cdf(n - rank + 1, lacking[crossing], 1 - share)
        crossed += float(chances[crossing] @ too_few)
        still = range(rank, ranks[-1])
        chances = chances @ _steps(n, below, still, share)
        below, last = still, point
    return crossed


def _steps(n: int, before: range, after: range, share: float) -> FloatArray:
    """The chances of the next count, by the count before, where `share` of what is above counts."""
    more = np.maximum(np.array(after) - np.array(before)[:, None], 0)
    rest = n - np.array(after)
    log_chance = special.xlogy(more, share) + special.xlog1py(rest, -share)
    return np.asarray(np.exp(_log_choices(n, before, after) + log_chance))


@lru_cache(maxsize=64)
def _log_choices(n: int, before: range, after: range) -> FloatArray:
    """Log of the ways to choose what is added of what is left, by both counts; -inf for none."""
    left = n - np.array(before)[:, None]
    more = np.array(after) - np.array(before)[:, None]
    possible = more >= 0
    k = np.where(possible, more, 0)
    # By betaln: differences of gammaln lose digits for a million trials.
    log_choices = -np.log1p(left) - special.betaln(left - k + 1, k + 1)
    return np.where(possible, log_choices, -np.inf)
