"""Tests of a trade-off by the number of included scores above excluded ones, for an unknown null.

Let t be the j-th largest of n0 excluded scores and N the number of the n1 included scores above it.
Write each excluded score as the upper quantile of its distribution P0 at a uniform variable: as
that quantile does not increase, the j-th largest score belongs to the j-th smallest variable V, and
P0(X > t) <= V, a Beta(j, n0 - j + 1), for any distribution and with ties too (Wilks 1941; Scheffe &
Tukey 1945). Given the excluded scores t is fixed and N binomial with the true positive rate of t.
If the mechanism allows at most a rate G(v) at a false positive rate of v, with G increasing, then

    P(N >= k) <= E[ P(Binomial(n1, G(V)) >= k) ],

which is the exact p-value of the mechanism's claim: it averages over the errors of both rates,
whereas two separate confidence bounds would add the worst cases. The tests at several ranks share
the failure probability in fixed parts (a union bound), so at the given confidence none of them
rejects the true claim, and the largest claim that any test rejects is a lower bound on the true
one.

The table has the median epsilon of `threshold_valid` by these tests, by separate Clopper-Pearson
bounds on both rates with a Bonferroni correction over 18 ranks, and, as an ideal, by such bounds at
the single best threshold for the distribution (1,000 scores each of N(shift, 1) and N(0, 1), delta
1e-5, confidence 0.95, 100 samples):

    shift  separate  best fixed   tests
      0.5      0.40        0.50    0.60
      1        1.33        1.46    1.61
      2        2.98        3.31    3.32
      4        4.74        5.33    5.23
      8        5.01        5.60    6.17
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import beta_cdf, beta_quantile
from fl_audit.estimators.null import growing_ranks, spaced_ranks
from fl_audit.estimators.result import Detail
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

LargestRate = Callable[[FloatArray, float], FloatArray]
"""G: the largest true positive rates that a claim allows at false positive rates, both in [0, 1].

The claim is a number at least 0, such as epsilon; G increases with the rate and with the claim.
"""

_LOWEST_SCORES = 0.25
"""The factor of levels of thresholds among the lowest scores, compared with the highest."""

_LEFT_END, _STEP = -5.0, 0.05
"""Lower limit of the cells of V, and their width, in normal scores of V's distribution."""


@dataclass(frozen=True, eq=False)
class RankTests:
    """Tests at fixed ranks of the excluded scores.

    The range of V is divided into cells, and V is replaced by the upper limit of its cell: p-values
    are too large by about a tenth, which costs almost nothing, and never too small.
    """

    ranks: IntArray  # j in [1, n0], ascending: the threshold is the j-th largest
    levels: FloatArray  # failure probability of each test
    cells: FloatArray  # upper limits of the cells, (r, c)
    masses: FloatArray  # of the cells, (c,)


@functools.lru_cache(maxsize=64)
def rank_tests(n0: int, confidence: float) -> RankTests:
    """Tests at ranks of n0 >= 2 excluded scores, dense near the top and the bottom.

    With probability `confidence` or more, none of the tests rejects a true claim.

    >>> rank_tests(100, 0.95).ranks.tolist()[:12]
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17]
    """
    ranks, weights = spaced_ranks(n0), _weights(n0)
    levels = (1 - confidence) * weights / weights.sum()
    # The cell beyond the last point has a thousandth of the smallest level, a negligible cost.
    last = -special.ndtri(levels.min() / 1000)
    points = np.arange(_LEFT_END, last + _STEP, _STEP)
    above = special.ndtr(-points)
    cells = np.ones((len(ranks), len(points) + 1))
    cells[:, :-1] = _upper_quantiles(ranks[:, None], n0, points)
    masses = -np.diff(np.concatenate([[1.0], above, [0.0]]))
    for shared in (ranks, levels, cells, masses):
        shared.flags.writeable = False
    return RankTests(ranks, levels, cells, masses)


def _weights(n0: int) -> FloatArray:
    """The shares of the level of `spaced_ranks`, up to a factor.

    A share is the step in log j to the next rank, over sqrt(j): the loss of epsilon at rank j is
    about z / sqrt(j), as in error_rates.py.
    """
    nearest = growing_ranks(n0)
    shares = np.diff(nearest) / nearest[:-1] ** 1.5
    return np.concatenate([shares, _LOWEST_SCORES * shares[::-1]])


def largest_rejected_claim(
    tests: RankTests, above: IntArray, n1: int, largest_rate: LargestRate
) -> tuple[float, int]:
    """The largest claim that a test rejects, or 0, given the included scores `above` thresholds.

    Also the index of that test.
    """
    middle = int(np.searchsorted(np.cumsum(tests.masses), 0.5))
    log_upper_half = math.log(tests.masses[middle:].sum())
    log_levels = np.log(tests.levels)

    def least_excess(index: IntArray, claim: float) -> FloatArray:
        """A lower bound on the log of p-value over level, from the upper half of V's mass only."""
        k = above[index]
        rates = largest_rate(tests.cells[index, middle], claim)
        with np.errstate(divide="ignore"):
            log_tail = np.log(beta_cdf(k, n1 - k + 1, rates))
        return np.asarray(log_tail + log_upper_half - log_levels[index])

    def excess(index: int, claim: float) -> float:
        """Log of p-value over level, finite because of the last cell, whose rate is 1."""
        k = above[index]
        tails = beta_cdf(k, n1 - k + 1, largest_rate(tests.cells[index], claim))
        return float(np.log(tails @ tests.masses) - log_levels[index])

    best, claim = 0, 0.0
    rivals = np.flatnonzero(above > 0)  # the tests that may reject more than `claim`
    while len(rivals):
        least = least_excess(rivals, claim)
        rivals, least = rivals[least < 0], least[least < 0]
        if len(rivals) == 0:
            break
        rival = int(rivals[np.argmin(least)])
        if excess(rival, claim) < 0:
            best, claim = rival, _root(functools.partial(excess, rival), claim)
        rivals = rivals[rivals != rival]
    return claim, best


def largest_rate(delta: float) -> LargestRate:
    """The largest true positive rate under (epsilon, delta)-privacy, with epsilon as the claim.

    Kairouz, Oh & Viswanath (2015), arXiv:1311.0776, theorem 2.1.

    >>> float(largest_rate(0.0)(np.array(0.25), math.log(2)))
    0.5
    """

    def rate(false_positive_rate: FloatArray, epsilon: float) -> FloatArray:
        by_included = np.exp(epsilon) * false_positive_rate + delta
        rest = np.maximum(1 - delta - false_positive_rate, 0.0)
        by_excluded = 1 - np.exp(-epsilon) * rest
        return np.asarray(np.minimum(np.minimum(by_included, by_excluded), 1.0))

    return rate


def _root(excess: Callable[[float], float], low: float) -> float:
    """The point at which the excess, negative at `low`, becomes positive."""
    step = 1.0
    while excess(low + step) < 0:
        step *= 2
    return float(optimize.brentq(excess, low, low + step, xtol=1e-10))


def _upper_quantiles(ranks: IntArray, n0: int, points: FloatArray) -> FloatArray:
    """Quantiles of Beta(j, n0 - j + 1) at normal scores, from the accurate tail."""
    lower = beta_quantile(ranks, n0 - ranks + 1, special.ndtr(np.minimum(points, 0)))
    upper = 1 - beta_quantile(n0 - ranks + 1, ranks, special.ndtr(-np.maximum(points, 0)))
    return np.where(points < 0, lower, upper)


@dataclass(frozen=True)
class RejectedThreshold:
    """The excluded score that, as a threshold, rejects the largest claim of privacy."""

    claim: float  # the largest claim rejected, such as epsilon; 0 if none is
    threshold: float  # scores above it are guessed to be included
    rank: int  # among the excluded scores, 1 for the largest
    false_negatives: int
    false_positives: int
    level: float  # failure probability of the test at this rank
    num_tests: int

    def details(self) -> dict[str, Detail]:
        """An estimate's details about this threshold."""
        return {
            "threshold": self.threshold,
            "excluded_rank": self.rank,
            "false_negatives": self.false_negatives,
            "false_positives": self.false_positives,
            "local_level": self.level,
            "num_thresholds": self.num_tests,
        }


def thresholds_at(ranks: IntArray, scores: CanaryScores) -> tuple[FloatArray, IntArray]:
    """The excluded score of each rank, and the number of included scores above it."""
    thresholds = np.sort(scores.excluded)[scores.num_excluded - ranks]
    not_above = np.searchsorted(np.sort(scores.included), thresholds, side="right")
    return thresholds, np.asarray(scores.num_included - not_above)


def strongest_rejection(setting: AuditSetting, largest_rate: LargestRate) -> RejectedThreshold:
    """The largest claim that a test at some excluded score rejects (proof: module docstring)."""
    scores = setting.scores
    tests = rank_tests(scores.num_excluded, setting.confidence)
    thresholds, above = thresholds_at(tests.ranks, scores)
    claim, best = largest_rejected_claim(tests, above, scores.num_included, largest_rate)
    return RejectedThreshold(
        claim=claim,
        threshold=float(thresholds[best]),
        rank=int(tests.ranks[best]),
        false_negatives=scores.num_included - int(above[best]),
        false_positives=int(np.sum(scores.excluded > thresholds[best])),
        level=float(tests.levels[best]),
        num_tests=len(tests.ranks),
    )
