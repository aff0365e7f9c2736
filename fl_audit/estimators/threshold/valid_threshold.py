"""Threshold bounds that stay valid although the threshold is chosen on the data.

Every confidence statement is exact and holds for all thresholds at once: with a known null
distribution by a band on the true positive rates (error_rates.py), otherwise by tests at ranks of
excluded scores that average over the unknown rates (rejection_tests.py). `threshold_valid` is valid
for any mechanism with independent scores, `threshold_gdp` for Gaussian ones.

Independence is an assumption. A mechanism that reveals k of m canaries, drawn at random, with
probability m delta / k is (0, delta)-DP and makes their scores dependent: `threshold_valid` then
exceeds 0 in 8 % of runs (m = 1,000, delta = 1e-3, k = 12), `one_run_valid` in none. Without
independence, and with delta = 0, the number of included canaries above a threshold of false
positive rate q is at most Binomial(m, q e^epsilon / (1 + q e^epsilon + (1 - q) e^-epsilon)). A band
by that distribution would give bounds of 0.46 instead of 0.63 (500 canaries, shift 0.5, delta =
1e-5) and 5.43 instead of 6.09 (shift 2), before any correction for delta.
"""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.estimators.distributions import beta_cdf, first_integers
from fl_audit.estimators.gaussian.fit import Guess
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import Null, NullTail
from fl_audit.estimators.privacy_region import LogRates, beyond_chance
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.error_rates import (
    BoundedThresholds,
    bounded_false_positives,
    bounded_thresholds,
    favoured_rank,
    true_positive_band,
)
from fl_audit.estimators.threshold.null_choice import SHARE_OF_REFUTATION, chosen_null
from fl_audit.estimators.threshold.rejection_tests import (
    RejectedThreshold,
    largest_rate,
    rank_tests,
    strongest_rejection,
    thresholds_at,
)

_SHARED = (
    "Canaries' scores are independent given inclusion, with one distribution for included "
    "canaries and one for excluded ones"
)


def threshold_valid(setting: AuditSetting) -> Estimate:
    """The largest lower bound on epsilon of any threshold, valid after that choice.

    Closed-form null: max over t of max(log((1 - delta - FNR) / FPR), log((1 - delta - FPR) / FNR))
    at included scores t, where "score >= t" means included. FPR is bounded by the known tail of the
    null (null.py): for gaussian canaries the exact distribution, for random signs a bound, which is
    tighter if the concentration of the compared vector is known. FNR is bounded for all thresholds
    at once by a band with probability `confidence` (error_rates.py), which is narrowest where a
    planned shift of the scores predicts the best threshold.

    Empirical null: the largest epsilon rejected at one or more excluded scores t, whose ranks are
    fixed in advance; a score above t means included. An (epsilon, delta)-private mechanism allows
    at most

        TPR <= min(e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR))

    (Kairouz et al. 2015), and the test at each rank of the excluded scores accounts exactly for
    the unknown FPR (rejection_tests.py). Both bounds hold for all distributions of scores, and with
    ties.

    The excluded scores first test a known null; if they reject it, the empirical null is used
    (null_choice.py). The detail `local_level` is the failure probability of the statement at this
    one threshold.
    """
    setting.require(included=1)
    null = chosen_null(setting)
    if null.tail is None:
        by_rank = strongest_rejection(setting, largest_rate(setting.delta))
        epsilon = by_rank.claim
        details = {"direction": _guess(setting, by_rank), **by_rank.details()}
        reason = "the candidates were fixed ranks of the excluded scores, and corrected for"
        source = (
            "by exact tests at ranks of excluded scores after Wilks (1941), with a weighted "
            "Bonferroni correction"
        )
    else:
        included = setting.scores.num_included
        favoured = _favoured(setting.null, included, setting.delta, null.confidence)
        bounded = bounded_thresholds(setting.scores, null.confidence, null.tail, favoured)
        epsilon, best, guess = bounded.strongest(setting.delta)
        epsilon = 0.0 if null.allows_no_bound else epsilon
        details = bounded.details(best, guess)
        reason = "the bounds on the error rates hold for all thresholds at once"
        source = (
            "with a one-sided confidence band after Berk & Jones (1979) and its exact level "
            "(Moscovich & Nadler 2017)"
        )
    return Estimate(
        method="threshold_valid",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="independent scores",
        assumes=f"{_SHARED}.{null.assumption}",
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            f"although the threshold is chosen on the data, since {reason}."
        ),
        source=f"Andrew et al. (2023), arXiv:2302.03098, section 5, {source}",
        details={**null.details(), **details},
    )


def _favoured(null: Null, num_included: int, delta: float, confidence: float) -> int | None:
    """The rank favoured by the audit's planned shift; None if the shift is unknown."""
    if null.planned_shift is None:
        return None
    return favoured_rank(num_included, null.planned_shift, delta, confidence)


def _guess(setting: AuditSetting, best: RejectedThreshold) -> Guess:
    """Whether "included" or "excluded" limits TPR more at the expected false positive rate."""
    rate = best.rank / (setting.scores.num_excluded + 1)
    by_included = math.exp(best.claim) * rate + setting.delta
    by_excluded = 1 - math.exp(-best.claim) * (1 - setting.delta - rate)
    return "included" if by_included <= by_excluded else "excluded"


# `threshold_gdp`: a lower bound for Gaussian differentially private mechanisms, by the best
# threshold. Nasr et al. (2023), "Tight Auditing of Differentially Private Machine Learning",
# arXiv:2302.07956, section 4: if the shape of the trade-off between the error rates is known, one
# point determines the whole curve, and epsilon at a small delta follows from measurable error
# rates.


def threshold_gdp(setting: AuditSetting) -> Estimate:
    """The epsilon of the largest lower bound on the mu of a mu-GDP mechanism, over all thresholds.

    A mu-GDP mechanism allows at most TPR = Phi(Phi^-1(FPR) + mu) (Dong, Roth & Su 2022), so every
    threshold shows that mu >= Phi^-1(1 - FPR) - Phi^-1(FNR). Error rates are bounded as in
    `threshold_valid`, but without a planned shift, for all thresholds at once: by a band under a
    known null, and by tests at ranks of the excluded scores if the null is unknown or these scores
    reject it. Epsilon is that of the Gaussian mechanism with noise multiplier 1 / mu (Balle & Wang
    2018); with delta 0 it is infinite if mu is above 0.
    """
    setting.require(included=1)
    null = chosen_null(setting)
    if null.tail is None:
        best = strongest_rejection(setting, largest_gaussian_rate)
        mu, details = best.claim, best.details()
    else:
        mu, details = _mu_by_band(bounded_thresholds(setting.scores, null.confidence, null.tail))
    mu = 0.0 if null.allows_no_bound else mu
    epsilon = epsilon_of_mu(mu, setting.delta)
    return Estimate(
        method="threshold_gdp",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="independent scores of a Gaussian mechanism",
        assumes=(
            "The mechanism is mu-GDP for some mu, as the Gaussian mechanism is: its error rates "
            f"trade off as those between N(0, 1) and N(mu, 1). {_SHARED}.{null.assumption}"
        ),
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence if the "
            "scores are independent scores of a Gaussian mechanism; valid although the threshold "
            "is chosen on the data. It says nothing of any other mechanism, nor of a mu-GDP one "
            "whose canaries' scores depend on each other."
        ),
        source=(
            "Nasr et al. (2023), arXiv:2302.07956, section 4; Balle & Wang (2018), "
            "arXiv:1805.06530, theorem 8; error rates as threshold_valid"
        ),
        details={**null.details(), "mu": mu, **details},
    )


def largest_gaussian_rate(false_positive_rate: FloatArray, mu: float) -> FloatArray:
    """The largest true positive rate of a mu-GDP mechanism (Dong, Roth & Su 2022, definition 2.6).

    >>> largest_gaussian_rate(np.array([0.0, 0.5, 1.0]), 1.0).round(4).tolist()
    [0.0, 0.8413, 1.0]
    """
    return np.asarray(special.ndtr(special.ndtri(false_positive_rate) + mu))


def _mu_by_band(bounded: BoundedThresholds) -> tuple[float, dict[str, Detail]]:
    """The largest lower bound on mu of any threshold, at least 0, and that threshold's details."""
    lower_bound = _normal_score(bounded.negatives.opposite) - _normal_score(bounded.positives)
    best = int(np.argmax(lower_bound))
    return max(float(lower_bound[best]), 0.0), bounded.details(best)


def _normal_score(rates: LogRates) -> FloatArray:
    """Phi^-1 of the error rates, from the smaller of error and success: it is more accurate."""
    by_error, by_success = special.ndtri_exp(rates.error), -special.ndtri_exp(rates.success)
    return np.where(rates.error < rates.success, by_error, by_success)


# For simulations: whether `threshold_valid` exceeds one epsilon in many samples, without a search.
# With a known null there is a bound at each threshold; without one, the count of included scores
# above each tested excluded one is compared with a critical count, computed once.


def threshold_rejection(
    epsilon: float, delta: float, level: float
) -> Callable[[Sequence[AuditSetting]], BoolArray]:
    """Whether `threshold_valid` at confidence 1 - level exceeds epsilon if a known null is true.

    A null from an argument leaves a part of the level, and the groups of scores have to differ, as
    in `chosen_null`.
    """

    def by_band(
        samples: Sequence[CanaryScores], null: Null, tail: NullTail, level: float
    ) -> BoolArray:
        included = np.sort(np.stack([scores.included for scores in samples]), axis=1)
        favoured = _favoured(null, included.shape[1], delta, 1 - level)
        band = true_positive_band(included.shape[1], 1 - level, favoured)
        positives = bounded_false_positives(tail, included[:, included.shape[1] - band.ranks])
        return np.asarray((beyond_chance(band.negatives, positives, delta) > epsilon).any(axis=1))

    enough_above = functools.cache(functools.partial(_enough_above, level))

    def by_ranks(
        samples: Sequence[CanaryScores], epsilon: float = epsilon, delta: float = delta
    ) -> BoolArray:
        ranks = rank_tests(samples[0].num_excluded, 1 - level).ranks
        sizes = samples[0].num_included, samples[0].num_excluded
        enough = enough_above(*sizes, epsilon, delta)
        above = np.stack([thresholds_at(ranks, scores)[1] for scores in samples])
        return np.asarray((above >= enough).any(axis=1))

    def rejects(settings: Sequence[AuditSetting]) -> BoolArray:
        groups: dict[tuple[Null, int, int], list[int]] = {}
        for index, setting in enumerate(settings):
            sizes = setting.scores.num_included, setting.scores.num_excluded
            groups.setdefault((setting.null, *sizes), []).append(index)
        rejected = np.zeros(len(settings), bool)
        for (null, num_included, num_excluded), members in groups.items():
            samples = [settings[index].scores for index in members]
            tail = null.known_tail()
            if num_included and tail is not None:
                is_argument = null.source == "argument"
                share = 1 - SHARE_OF_REFUTATION if is_argument else 1.0
                rejected[members] = by_band(samples, null, tail, share * level)
                if is_argument and num_excluded > 1:
                    rejected[members] &= by_ranks(samples, 0.0, 0.0)
            elif num_included and num_excluded > 1:
                rejected[members] = by_ranks(samples)
        return rejected

    return rejects


def _enough_above(level: float, n1: int, n0: int, epsilon: float, delta: float) -> IntArray:
    """The fewest included scores above each excluded one that reject epsilon; n1 + 1 if none do."""
    tests = rank_tests(n0, 1 - level)
    rates = largest_rate(delta)(tests.cells, epsilon)

    def rejects(above: IntArray) -> BoolArray:
        column = above[:, None]
        tails = beta_cdf(column, np.maximum(n1 - column + 1, 1), rates) @ tests.masses
        return np.asarray((tails < tests.levels) & (above <= n1))

    one = np.ones(len(tests.ranks), np.int64)
    return first_integers(rejects, one, (n1 + 1) * one)
