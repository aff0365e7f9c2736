"""Confidence bounds on error rates: of one threshold, and of all thresholds at once.

For all thresholds at once, `true_positive_band` is a lower confidence band on their true positive
rates. Let P1 be the distribution of an included canary's score and x_k the k-th largest of n
included scores. Write each score as the upper quantile of P1 at a uniform variable. Then x_k
belongs to the k-th smallest variable U_(k), and P1(X >= x_k) >= U_(k), with equality for a
continuous distribution. So bounds b_k with P(U_(k) >= b_k for all k) >= confidence are lower bounds
on the true positive rates of the thresholds x_k, all at once, for any distribution and with ties
too; and 1 - b_k are upper bounds on the false negative rates.

b_k is the quantile of U_(k) ~ Beta(k, n - k + 1) at a local level. With one level for all k this
is the one-sided Berk-Jones band (Berk & Jones 1979; Moscovich, Nadler & Spiegelman 2016). But a
lower bound on a rate near k / n costs epsilon about z(level) / sqrt(k): much if k is small, little
in the bulk. Averaged over log k the loss is smallest with levels about proportional to k^(-1/2);
weak audits and a delta above 1 / n move the best threshold to larger k, so the levels here are a
compromise with equal ones, k^(-1/4). For the smallest scores, which detect excluded canaries,
levels are a quarter of that: the best threshold is mostly among the largest. Only some ranks are
used, each a fifth farther from the nearer end than the previous one, and the band is constant
between them: more ranks cost level, and the loss between two ranks is small.

If the expected shift of included scores is known beforehand, as for uploads with stated noise, one
rank is expected to be the best (`favoured_rank`): the levels of this rank and its neighbours are
multiplied by up to 31. The rank depends on no score, so the band stays valid. For 150 included
scores N(2, 1), whose epsilon is 7.58, the bound of `threshold_valid` is then 0.71 times epsilon
instead of 0.67 times; for N(1, 1), whose epsilon is 3.14, it is 0.60 times epsilon instead of 0.55
times (delta 1e-3, medians of 400 samples).

The levels' common factor makes the probability that the band fails anywhere equal to 1 -
confidence, by the exact boundary-crossing probability. In samples above _EXACT_UP_TO that
probability is computed for the ranks within _EXACT_UP_TO of either end; the two nearly independent
ends, and the ranks between them, whose levels are small, are combined by a union bound.

The table has the median epsilon of `threshold_valid` by this band. It is compared with Bonferroni
over some 45 thresholds fixed by their false positive rates; with a split, where half of the scores
choose a threshold and half test it; and, as an ideal, with Clopper-Pearson at the best threshold
for the distribution (delta 1e-5, confidence 0.95, included scores N(shift, 1) and excluded ones
N(0, 1), 400 samples, but 100 with 10,000 scores):

    scores  shift  Bonferroni   split    band  best fixed
        50    0.5        0.05    0.00    0.29        0.28
        50      2        3.70    3.08    4.62        4.72
        50      8       43.40   39.88   46.86       48.39
       250    0.5        0.49    0.21    0.62        0.66
       250      2        5.19    4.50    5.83        5.94
       250      8       48.31   46.31   51.56       52.77
      1000    0.5        0.77    0.52    0.88        0.94
      1000      2        6.05    5.75    6.65        6.85
      1000      8       50.20   50.64   54.40       55.94
     10000    0.5        1.19    0.98    1.27        1.32
     10000      2        7.42    7.21    7.85        8.12
     10000      8       56.70   54.84   58.78       59.86
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import beta_cdf, beta_quantile
from fl_audit.estimators.gaussian.fit import Guess
from fl_audit.estimators.null import NullTail, spaced_ranks
from fl_audit.estimators.privacy_region import LogRates, beyond_chance, log_ratio
from fl_audit.estimators.result import Detail
from fl_audit.estimators.scores import CanaryScores

RateUpperBounds = Callable[[IntArray, int, float], LogRates]
"""A function from numbers of errors of shape (t,), the trials and the confidence to one-sided upper
bounds on the error rates.
"""


def jeffreys_upper(errors: IntArray, trials: int, confidence: float) -> LogRates:
    """One-sided Jeffreys upper bounds on the error rate of k errors in n trials.

    The bound is the `confidence` quantile of Beta(k + 1/2, n - k + 1/2); if every trial is an error
    it is 1 (Brown, Cai & DasGupta 2001), and such a threshold gives no bound on epsilon.

    >>> bounds = jeffreys_upper(np.array([0, 1000]), 1000, 0.95)
    >>> np.exp(bounds.error).round(7).tolist()
    [0.0019184, 1.0]
    """
    # From the lower quantile of the complement, the accurate tail.
    rest = beta_quantile(trials - errors + 0.5, errors + 0.5, 1 - confidence)
    return log_rates(np.where(errors == trials, 0.0, rest))


def clopper_pearson_upper(errors: IntArray, trials: int, confidence: float) -> LogRates:
    """One-sided Clopper-Pearson upper bounds on the error rate of k errors in n trials; exact.

    The bound is the `confidence` quantile of Beta(k + 1, n - k), and 1 if every trial is an error
    (Clopper & Pearson 1934).

    >>> bounds = clopper_pearson_upper(np.array([0, 1000]), 1000, 0.95)
    >>> np.exp(bounds.error).round(7).tolist()  # 1 - 0.05^(1/1000)
    [0.0029912, 1.0]
    """
    some_right = np.minimum(errors, trials - 1)
    rest = beta_quantile(trials - some_right, some_right + 1, 1 - confidence)
    return log_rates(np.where(errors == trials, 0.0, rest))


def bounded_false_positives(null: NullTail, thresholds: FloatArray) -> LogRates:
    """Bounds on the false positive rates of thresholds under a known tail of the null."""
    log_tail = null.log_tail_upper(thresholds)
    with np.errstate(divide="ignore"):
        return LogRates(error=log_tail, success=np.log(-np.expm1(log_tail)))


def log_rates(success: FloatArray) -> LogRates:
    """The bounds that follow from lower bounds on one minus the error rate."""
    with np.errstate(divide="ignore"):
        return LogRates(error=np.log1p(-success), success=np.log(success))


# Exact probabilities that order statistics of a uniform sample cross a boundary at given ranks.
#
# U_(k) < b exactly if at least k of the sample are below b. The counts below b_1 <= b_2 <= ... form
# a Markov chain with binomial steps, so one pass over the boundary gives the distribution of the
# counts of samples that have not crossed (Noe 1972; Moscovich & Nadler 2017, "Fast calculation of
# boundary crossing probabilities for Poisson processes"). The crossing probabilities of all steps
# are added, so even probabilities of 1e-11 are accurate.


def chance_of_crossing(
    n: int, ranks: IntArray, points: FloatArray, *, is_too_small: bool = True
) -> float:
    """P(U_(k) < b_k for some rank k) of n uniforms, else P(U_(k) > b_k); ranks and b_k ascend.

    >>> round(chance_of_crossing(2, np.array([1, 2]), np.array([0.5, 0.5])), 12)
    0.75
    """
    below = range(1)  # counts below the last point, for paths that have not crossed
    chances = np.array([1.0])
    crossed, last = 0.0, 0.0
    for rank, point in zip(ranks, points, strict=True):
        share = (point - last) / (1 - last)
        lacking = rank - np.array(below)
        crossing = lacking > 0
        if is_too_small:
            beyond = beta_cdf(lacking[crossing], n - rank + 1, share)
        else:  # at most k - 1 are below the point, so at least n - k + 1 above
            beyond = beta_cdf(n - rank + 1, lacking[crossing], 1 - share)
        crossed += float(chances[crossing] @ beyond)
        # With a count of at least the last rank no later U_(k) is too large: it is dropped.
        still = range(rank) if is_too_small else range(rank, ranks[-1])
        chances = chances @ _steps(n, below, still, share)
        below, last = still, point
    return crossed


def _steps(n: int, before: range, after: range, share: float) -> FloatArray:
    """Transition probabilities of counts: each point above moves below with probability `share`."""
    more = np.maximum(np.array(after) - np.array(before)[:, None], 0)
    rest = n - np.array(after)
    log_chance = special.xlogy(more, share) + special.xlog1py(rest, -share)
    return np.asarray(np.exp(_log_choices(n, before, after) + log_chance))


@lru_cache(maxsize=64)
def _log_choices(n: int, before: range, after: range) -> FloatArray:
    """Log binomial coefficients of the transitions between counts; -inf where impossible."""
    left = n - np.array(before)[:, None]
    more = np.array(after) - np.array(before)[:, None]
    possible = more >= 0
    k = np.where(possible, more, 0)
    # By betaln: differences of gammaln lose digits for a million trials.
    log_choices = -np.log1p(left) - special.betaln(left - k + 1, k + 1)
    return np.where(possible, log_choices, -np.inf)


_EXACT_UP_TO = 120
"""The number of ranks at either end that are computed exactly; those between get a tenth of the
level and would take most time.
"""

_DECAY = 0.25
_SMALLEST_SCORES = 0.25
"""The power with which levels fall from either end, and the smallest scores' further factor."""

_FAVOUR, _FAVOUR_WIDTH = 30.0, 0.3
"""The factor of a favoured rank's level, minus 1, and the width in log rank of its effect."""

_LARGEST_FAILURE = 0.999
"""The largest failure probability of a band; beyond it levels would reach 1."""


@dataclass(frozen=True, eq=False)
class TruePositiveBand:
    """Simultaneous bounds on the error rates of included scores taken as thresholds."""

    ranks: IntArray  # k in [1, n], ascending: the threshold is the k-th largest score
    levels: FloatArray  # failure probability of the single bound at each rank
    negatives: LogRates  # bounds on the false negative rates


def favoured_rank(n: int, shift: float, delta: float, confidence: float) -> int:
    """The rank with the largest expected lower bound, for a shift known beforehand.

    It maximises log((b_k - delta) / FPR), with b_k at the level 1 - confidence and FPR at the
    median of the k-th largest score. The shift is in standard deviations of excluded scores.

    >>> favoured_rank(150, 2.0, 1e-3, 0.95), favoured_rank(150, 1.0, 1e-3, 0.95)
    (4, 8)
    """
    ranks = spaced_ranks(n)
    positives = beta_quantile(ranks, n + 1 - ranks, np.full(len(ranks), 1 - confidence))
    thresholds = shift - special.ndtri((ranks - 0.3) / (n + 0.4))  # medians (Benard)
    with np.errstate(divide="ignore"):
        lower_bound = np.log(np.maximum(positives - delta, 0.0)) - special.log_ndtr(-thresholds)
    return int(ranks[np.argmax(lower_bound)])


@lru_cache(maxsize=256)
def true_positive_band(n: int, confidence: float, favoured: int | None = None) -> TruePositiveBand:
    """The band on the true positive rates for n included scores.

    `favoured` is the rank whose level is raised most, chosen before there are scores.

    >>> band = true_positive_band(1000, 0.95)
    >>> band.ranks[:6].tolist(), int(band.ranks[-1])
    ([1, 2, 3, 4, 5, 6], 1000)
    >>> round(math.exp(band.negatives.error[-1]), 4)  # of the smallest score; 0.003 for it alone
    0.0067
    """
    failing = min(1 - confidence, _LARGEST_FAILURE)
    ranks = spaced_ranks(n)
    weights = _weights(n, ranks, favoured)

    def excess(log_factor: float) -> float:
        return math.log(_failure(n, ranks, math.exp(log_factor) * weights) / failing)

    # With the lower factor the levels add up to half of the failure probability; with the upper one
    # the largest level, whose weight is 1, alone exceeds that probability.
    lower, upper = math.log(failing / (2 * weights.sum())), math.log(failing) + 1e-9
    factor = math.exp(optimize.brentq(excess, lower, upper, xtol=1e-8) - 3e-8)
    levels = factor * weights
    band = TruePositiveBand(ranks, levels, log_rates(_points(n, ranks, levels)))
    for shared in (band.ranks, band.levels, band.negatives.error, band.negatives.success):
        shared.flags.writeable = False
    return band


def _weights(n: int, ranks: IntArray, favoured: int | None) -> FloatArray:
    """The levels of ranks up to a common factor; the largest is 1."""
    from_end = np.minimum(ranks, n + 1 - ranks)
    weights = np.where(from_end == ranks, 1.0, _SMALLEST_SCORES) * from_end**-_DECAY
    if favoured is not None:
        distances = np.log(ranks / favoured) / _FAVOUR_WIDTH
        weights = weights * (1 + _FAVOUR * np.exp(-(distances**2) / 2))
    return np.asarray(weights / weights.max())


def _points(n: int, ranks: IntArray, levels: FloatArray) -> FloatArray:
    """Lower bounds b_k on U_(k)."""
    # A lower bound on U_(j) also holds for U_(k), k > j; that matters only for levels near 1.
    return np.maximum.accumulate(beta_quantile(ranks, n + 1 - ranks, levels))


def _failure(n: int, ranks: IntArray, levels: FloatArray) -> float:
    """An upper bound on P(U_(k) < b_k for some rank k), exact for small samples."""
    points = _points(n, ranks, levels)
    if n <= _EXACT_UP_TO:
        return chance_of_crossing(n, ranks, points)
    from_last = n + 1 - ranks
    first = ranks <= np.minimum(from_last, _EXACT_UP_TO)
    last = from_last <= np.minimum(ranks - 1, _EXACT_UP_TO)
    # Mirrored: U_(k) is too small if the (n + 1 - k)-th smallest of 1 - U is too large.
    return (
        chance_of_crossing(n, ranks[first], points[first])
        + chance_of_crossing(n, from_last[last][::-1], 1 - points[last][::-1], is_too_small=False)
        + float(levels[~first & ~last].sum())
    )


# The best of many thresholds, chosen on the data.


@dataclass(frozen=True, eq=False)
class BoundedThresholds:
    """Thresholds with bounds on their error rates; "score >= threshold" means included."""

    thresholds: FloatArray
    false_negatives: IntArray  # numbers of included scores below
    negatives: LogRates  # bounds on the false negative rates
    positives: LogRates  # bounds on the false positive rates, or these rates themselves
    levels: FloatArray | None = None  # failure probabilities of bounds that hold all at once

    def strongest(self, delta: float) -> tuple[float, int, Guess]:
        """The largest max(log((TPR - delta) / FPR), log((TNR - delta) / FNR)), at least 0.

        Also the index of its threshold, and the guess of the larger ratio.

        >>> rates = LogRates(error=np.log([0.1, 0.2]), success=np.log([0.9, 0.8]))
        >>> BoundedThresholds(np.array([1.0, 2.0]), np.array([0, 0]), rates, rates).strongest(0)[1:]
        (0, 'included')
        """
        bounds = beyond_chance(self.negatives, self.positives, delta)
        best = int(np.argmax(bounds))
        by_included = log_ratio(self.negatives.success, self.positives.error, delta)[best]
        guess: Guess = "included" if by_included >= bounds[best] else "excluded"
        return max(float(bounds[best]), 0.0), best, guess

    def details(self, index: int, guess: Guess | None = None) -> dict[str, Detail]:
        """An estimate's details about one threshold, and about the choice among all."""
        details: dict[str, Detail] = {"threshold": float(self.thresholds[index])}
        if guess is not None:
            details["direction"] = guess
        details["false_negatives"] = int(self.false_negatives[index])
        details["fnr_upper"] = math.exp(self.negatives.error[index])
        details["log_fpr_upper"] = float(self.positives.error[index])
        if self.levels is not None:
            details["local_level"] = float(self.levels[index])
            details["num_thresholds"] = len(self.thresholds)
        return details


def bounded_thresholds(
    scores: CanaryScores, confidence: float, null: NullTail, favoured: int | None = None
) -> BoundedThresholds:
    """The thresholds of the true positive band, with bounds under a known tail of the null."""
    included = np.sort(scores.included)
    band = true_positive_band(len(included), confidence, favoured)
    thresholds = included[len(included) - band.ranks]
    return BoundedThresholds(
        thresholds,
        np.searchsorted(included, thresholds),
        band.negatives,
        bounded_false_positives(null, thresholds),
        band.levels,
    )
