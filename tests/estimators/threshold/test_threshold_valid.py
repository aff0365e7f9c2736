"""The valid threshold bound: by hand, brute force, ties and properties (see test_coverage.py)."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators import (
    AuditSetting,
    CanaryScores,
    ExactCosine,
    GaussianCanaryNull,
    estimate,
)
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.null import Null
from fl_audit.estimators.threshold.error_rates import true_positive_band
from fl_audit.estimators.threshold.rejection_tests import largest_rate, rank_tests
from fl_audit.estimators.threshold.valid_threshold import (
    largest_gaussian_rate,
    threshold_gdp,
    threshold_rejection,
    threshold_valid,
)

SEED = 20230216


def bound(included, excluded=(), dim=None, planned=None, **arguments):
    """The estimate; with dim, of cosines of gaussian canaries."""
    scores = CanaryScores(included, list(excluded))
    null = Null()
    if dim is not None:
        null = Null("closed_form", GaussianCanaryNull(dim), dim, planned_shift=planned)
    return estimate(scores, methods=["threshold_valid"], null=null, **arguments).estimates[0]


def test_separated_cosines_by_hand():
    # All 250 cosines are 32 deviations: of all of them, the true positive rate is at least the
    # 250-th root of the level. The exact law's tail is e^26 times lighter than the Gaussian one.
    made = bound(np.linspace(0.32, 0.32 + 1e-13, 250), delta=0.0, dim=10_000)
    log_rate = math.log(made.details["local_level"]) / 250
    log_tail = stats.beta.logsf(0.32**2, 0.5, 9999 / 2) - math.log(2)
    assert made.details["threshold"] == 0.32
    assert made.epsilon == pytest.approx(log_rate - log_tail, rel=1e-9)
    assert made.details["fnr_upper"] == pytest.approx(-math.expm1(log_rate), rel=1e-9)
    assert made.epsilon > 540  # by Bonferroni over fixed thresholds and the Gaussian law: 501.1


def p_value(j, n0, k, n1, *, epsilon, delta):
    """E[P(Binomial(n1, G(V)) >= k)] over V ~ Beta(j, n0 - j + 1), at 20,000 of its quantiles."""
    v = stats.beta.isf((np.arange(20_000) + 0.5) / 20_000, j, n0 - j + 1)
    g = np.minimum(np.exp(epsilon) * v + delta, 1 - np.exp(-epsilon) * (1 - delta - v))
    return np.mean(stats.binom.sf(k - 1, n1, np.clip(g, 0, 1)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
@pytest.mark.parametrize("decimals", [1, 12])  # 1: many ties
def test_brute_force_empirical(seed, decimals, delta):
    # No test rejects a claim a little above the bound, and the one named rejects it below.
    rng = np.random.default_rng(seed)
    included = rng.normal(rng.uniform(-1, 4), 1, 60).round(decimals)
    excluded = rng.normal(0, 1, 40).round(decimals)
    made = bound(included, excluded, delta=delta, confidence=0.9)
    descending = sorted(excluded, reverse=True)
    tests = rank_tests(40, 0.9)
    above = made.epsilon + 0.06
    for j, level in zip(tests.ranks, tests.levels, strict=True):
        k = np.sum(included > descending[j - 1])
        assert k == 0 or p_value(j, 40, k, 60, epsilon=above, delta=delta) > level
    j = made.details["excluded_rank"]
    assert made.details["threshold"] == descending[j - 1]
    k = 60 - made.details["false_negatives"]
    assert k == np.sum(included > descending[j - 1])
    if made.epsilon > 0:
        claim = 0.999 * made.epsilon
        p = p_value(j, 40, k, 60, epsilon=claim, delta=delta)
        assert p < made.details["local_level"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dim", [3, 100, 4000])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
@pytest.mark.parametrize("decimals", [1, 12])
def test_brute_force_closed_form(seed, dim, decimals):
    # The band is uniform over all thresholds: none of them, at a score or between, proves more.
    rng = np.random.default_rng(seed)
    included = rng.normal(rng.uniform(-1, 4), 1, 60).round(decimals) * dim**-0.5
    included = np.clip(included, -0.999, 0.999)
    distribution, band = ExactCosine(dim), true_positive_band(60, 0.95)
    best = 0.0
    for threshold in np.concatenate([included, included - 1e-7, np.linspace(-0.99, 0.99, 300)]):
        lower_bound = band.ranks <= np.sum(included >= threshold)
        fnr = math.exp(band.negatives.error[lower_bound].min(initial=0.0))
        fpr = math.exp(distribution.logsf(threshold))
        for gain, loss in ((1 - 1e-6 - fnr, fpr), (1 - 1e-6 - fpr, fnr)):
            if gain > 0:
                best = max(best, math.log(gain / loss))
    made = bound(included, delta=1e-6, dim=dim)
    assert made.epsilon == pytest.approx(best, rel=1e-9)
    assert made.details["false_negatives"] == np.sum(included < made.details["threshold"])
    assert made.details["num_thresholds"] == len(band.ranks)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "runs", "planned"),
    [
        (0.5, 0.0, 100, 200, None),
        (6.0, 1e-3, 100, 200, 2.0),
        *(
            pytest.param(epsilon, delta, n, 2000, planned, marks=pytest.mark.slow)
            for epsilon in (0.5, 2.0, 6.0)
            for delta, n in ((0.0, 100), (1e-3, 100), (1e-2, 1000))
            for planned in (None, 2.0)
        ),
    ],
)
def test_the_worst_law_exceeds_the_truth_no_more_often_than_allowed(
    epsilon, delta, n, runs, planned
):
    # Included scores whose true positive rate is the largest that (epsilon, delta) allows, at all
    # thresholds: with probability delta a score that no excluded canary has. The bound is wrong
    # exactly if the band is. Each of the limits is broken with probability below 1e-6; with 200
    # runs the lower one is 0, which is no limit.
    rng, dim = np.random.default_rng(SEED), 10_000
    distribution = ExactCosine(dim)
    fpr = np.concatenate([np.geomspace(1e-12, 1e-3, 4000), np.linspace(1e-3, 1, 40_000)[1:]])
    tpr = largest_rate(delta)(fpr, epsilon)
    failures = 0
    for _ in range(runs):
        quantiles = np.interp(rng.random(n), tpr, fpr, left=1e-300)
        made = bound(distribution.isf(quantiles), delta=delta, dim=dim, planned=planned)
        failures += made.epsilon > epsilon
    assert failures <= stats.binom.isf(1e-6, runs, 0.05)
    assert failures >= stats.binom.ppf(1e-6, runs, 0.025)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("shift", "more"), [(1.0, 1.06), (2.0, 1.03)])
def test_a_planned_shift_proves_more_where_it_is_right_and_little_less_where_it_is_not(shift, more):
    # Medians of 100 samples of 150 canaries; 400 give 1.09 and 1.05 where the plan is right.
    rng = np.random.default_rng(SEED)
    samples = [rng.normal(shift, 1, 150) / 1000 for _ in range(100)]

    def median(planned):
        return np.median(
            [bound(s, delta=1e-3, dim=10**6, planned=planned).epsilon for s in samples]
        )

    assert median(shift) > more * median(None)
    assert median(10 * shift) > 0.85 * median(None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("atoms", [2, 3, 20])
def test_ties_do_not_break_coverage(atoms):
    # Both groups have one law, on few points, the largest of them rare: true epsilon is 0. More
    # failures than the limit have probability below 1e-6 if each run fails with 5 %.
    rng, runs, n = np.random.default_rng(SEED), 300, 60
    chances = np.geomspace(1, 0.01, atoms)
    chances /= chances.sum()
    draws = rng.choice(atoms, (runs, 2, n), p=chances)
    failures = sum(bound(a, b, delta=0.0).epsilon > 0 for a, b in draws)
    assert failures <= stats.binom.isf(1e-6, runs, 0.05)


# The bound for mu-GDP mechanisms: by hand, coverage, tails and limits.


GDP_SEED = 2023
DIM = 10**6


def setting(included, excluded=(), delta=1e-5, confidence=0.95, dim=DIM):
    null = "empirical" if dim is None else "closed_form"
    tail = None if dim is None else GaussianCanaryNull(dim)
    return AuditSetting(
        CanaryScores(included, list(excluded)), delta, confidence, Null(null, tail, dim)
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_mu_by_brute_force_closed_form(seed):
    rng = np.random.default_rng(seed)
    included = rng.normal(seed, 1, 80) / 1000
    band = true_positive_band(80, 0.95)
    best, distribution = 0.0, ExactCosine(DIM)
    for threshold in included:
        rank = np.flatnonzero(band.ranks <= np.sum(included >= threshold))[-1]
        fnr, fpr = math.exp(band.negatives.error[rank]), math.exp(distribution.logsf(threshold))
        best = max(best, stats.norm.isf(fpr) - stats.norm.ppf(fnr))
    made = threshold_gdp(setting(included))
    assert made.details["mu"] == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("dim", [None, DIM])
def test_proves_more_than_without_the_assumption(dim):
    rng = np.random.default_rng(GDP_SEED)
    made = setting(rng.normal(2, 1, 1000) / 1000, rng.normal(0, 1, 1000) / 1000, dim=dim)
    gaussian, any_mechanism = threshold_gdp(made), threshold_valid(made)
    truth = epsilon_of_sigma(0.5, 1e-5)
    assert 1.3 * any_mechanism.epsilon < gaussian.epsilon < truth
    assert gaussian.epsilon > 0.85 * truth


def test_far_tails_keep_their_digits():
    # The threshold is taken as 1 - 1e-6: of cosines in a million dimensions, e^-6.6e6 reach it. The
    # tail is C (1 - x^2)^b / (2 b x) to 1e-6 relative, with b = (DIM - 1) / 2.
    made = threshold_gdp(setting(np.linspace(1 - 1e-9, 1, 20), confidence=1 - 1e-11))
    mpmath.mp.dps = 30
    rate = mpmath.mpf(made.details["local_level"]) ** (mpmath.mpf(1) / 20)
    score = mpmath.sqrt(2) * mpmath.erfinv(2 * rate - 1)
    x, b = 1 - mpmath.mpf(10) ** -6, mpmath.mpf(DIM - 1) / 2
    peak = mpmath.loggamma(b + 0.5) - mpmath.loggamma(b) - mpmath.log(mpmath.pi) / 2
    log_tail = peak + b * mpmath.log(1 - x * x) - mpmath.log(2 * b * x)
    # Phi^-1 of it, where log Phi(-y) = -y^2 / 2 - log(y sqrt(2 pi)) to 1e-7.
    y = mpmath.findroot(
        lambda y: y * y / 2 + mpmath.log(y * mpmath.sqrt(2 * mpmath.pi)) + log_tail, 3600
    )
    assert made.details["mu"] == pytest.approx(float(y + score), rel=1e-12)
    assert 6.5e6 < made.epsilon < 6.6e6


@pytest.mark.parametrize("rate", [0.0, 1e-300, 0.3, 1 - 1e-12, 1.0])
def test_largest_rate_is_the_gaussian_trade_off(rate):
    assert largest_gaussian_rate(np.array(rate), 0.0) == pytest.approx(rate, rel=1e-9)
    shifted = stats.norm.sf(stats.norm.isf(rate) - 2)
    assert largest_gaussian_rate(np.array(rate), 2.0) == pytest.approx(shifted, rel=1e-9)


@pytest.mark.parametrize("source", ["design", "argument"])
@pytest.mark.parametrize("num_excluded", [2, 40])
def test_the_fast_rejection_rejects_what_the_bound_exceeds(source, num_excluded):
    rng = np.random.default_rng(5)
    null = Null("closed_form", GaussianCanaryNull(10_000), 10_000, source=source)
    for shift in (0.0, 1.0, 2.0, 8.0):
        z = shift + rng.normal(size=5 if num_excluded == 2 else 40), rng.normal(size=num_excluded)
        setting = AuditSetting(CanaryScores(z[0] / 100, z[1] / 100), 1e-5, 0.95, null)
        found = threshold_valid(setting).epsilon
        for epsilon in (0.3, 0.8):
            assert threshold_rejection(epsilon, 1e-5, 0.05)([setting])[0] == (found > epsilon)
        if source == "argument" and num_excluded == 2:  # no rank test of so few says anything
            assert found == threshold_gdp(setting).details["mu"] == 0
