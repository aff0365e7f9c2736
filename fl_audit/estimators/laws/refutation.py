"""Tests of whether excluded scores can have the law that they are held against.

Every p-value here is valid: under the null it is at most p with probability at most p, for any
number of scores, ties included. The scores are taken as independent.
"""

import math
from collections.abc import Callable

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.beta_cdf import beta_cdf
from fl_audit.estimators.spaced_ranks import spaced_ranks

LogTail = Callable[[FloatArray], FloatArray]
"""Function that gives the log of an upper bound on P(X >= t) for each t."""

_FOURTH_MOMENT = 3.0
"""Bound on E X^4 of a cosine X in deviations: 3 - 2 A4 for signs, 3 d / (d + 2) for directions."""


def too_large_p_value(scores: FloatArray, log_tail_upper: LogTail) -> float:
    """A p-value of too many too large scores under a bound on their tail, at many ranks at once.

    Where P(X >= t) <= U(t), the k-th largest of n scores reaches t with probability at most
    P(Binomial(n, U(t)) >= k), which at t = that score is a p-value; so is r times the least of
    those at r ranks (Bonferroni). For the exact law U this asks about the whole law from above, as
    the test of Berk & Jones (1979) does, and on the reflected scores from below.

    Args:
      scores: At least one score, float64 of shape (n,).
      log_tail_upper: The bound U, in log space.
    """
    n = len(scores)
    ranks = spaced_ranks(n)
    largest = np.sort(scores)[::-1][ranks - 1]
    p_values = beta_cdf(ranks, n - ranks + 1, np.exp(log_tail_upper(largest)))
    return min(1.0, len(ranks) * float(np.min(p_values)))


def cosine_p_value(deviations: FloatArray, log_tail_upper: LogTail) -> float:
    """A p-value of scores as cosines of random directions or of random signs.

    Five tests share the level (Bonferroni): too many large and too many small scores, by the bound
    on the tail and the symmetry of the law; the mean; too large and too small a sum of squares. The
    last three need nothing but what all these cosines have in common (see the functions).

    Args:
      deviations: Scores times sqrt(dim), at least one, float64 of shape (n,).
      log_tail_upper: Log of a bound on the tail of one of them, which is symmetric about 0.
    """
    p_values = (
        too_large_p_value(deviations, log_tail_upper),
        too_large_p_value(-deviations, log_tail_upper),
        _mean_p_value(deviations),
        _large_squares_p_value(deviations),
        _small_squares_p_value(deviations),
    )
    return min(1.0, len(p_values) * min(p_values))


def _mean_p_value(deviations: FloatArray) -> float:
    """The two-sided p-value by Hoeffding: E exp(h X) <= exp(h^2 / 2) for signs and directions."""
    total = float(np.sum(deviations)) / math.sqrt(len(deviations))
    return min(1.0, 2 * math.exp(-total * total / 2))


def _large_squares_p_value(deviations: FloatArray) -> float:
    """The p-value by Chernoff: no moment of X exceeds a Gaussian's, so neither does E exp(h X^2).

    P(mean X^2 >= q) <= exp(-n (q - 1 - log q) / 2) for q >= 1, as for chi-square.
    """
    mean = float(np.mean(deviations**2))
    return math.exp(-len(deviations) * (mean - 1 - math.log(mean)) / 2) if mean > 1 else 1.0


def _small_squares_p_value(deviations: FloatArray) -> float:
    """The p-value by Chernoff from E X^2 = 1, E X^4 <= 3: E exp(-h X^2) <= 1 - h + 3 h^2 / 2.

    For every h >= 0, P(mean X^2 <= q) <= (exp(h q) (1 - h + 3 h^2 / 2))^n; here the best h is
    taken.
    """
    mean = float(np.mean(deviations**2))
    if mean >= 1:
        return 1.0
    # The derivative of h q + log(1 - h + 3 h^2 / 2) is zero where q times this parabola is 1 - 3 h.
    a, b, c = _FOURTH_MOMENT / 2 * mean, _FOURTH_MOMENT - mean, mean - 1
    h = 2 * -c / (b + math.sqrt(b * b - 4 * a * c))
    return math.exp(len(deviations) * (h * mean + math.log1p(-h + _FOURTH_MOMENT / 2 * h * h)))
