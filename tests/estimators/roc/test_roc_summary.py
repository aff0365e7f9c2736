"""Bootstrap intervals, rates at a known null, and the Katz bound."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.counts.confusion_counts import ConfusionCounts
from fl_audit.estimators.null import GaussianCanaryNull
from fl_audit.estimators.roc import (
    auc,
    auc_interval,
    bootstrap_interval,
    katz_log_bound,
    tpr_at_fpr,
    tpr_at_fpr_interval,
)
from fl_audit.estimators.roc.summary import (
    detection_rates,
    tpr_at_fpr_replicates,
)
from fl_audit.estimators.scores import CanaryScores

# Bootstrap intervals against DeLong, scipy and the fast form for true positive rates.


RNG = np.random.default_rng(6)
SCORES = CanaryScores(RNG.normal(1, 1, 300), RNG.normal(0, 1, 200))


def test_auc_matches_delong():
    """The area is nearly unbiased, so that the correction hardly moves it."""
    ours = bootstrap_interval(SCORES, auc, confidence=0.9, seed=1, resamples=2000)
    # A quantile of 2,000 draws is off by about 5 % of the deviation of 0.022: 0.001 here.
    delong = auc_interval(SCORES, 0.9)
    assert (ours.lower, ours.upper) == pytest.approx((delong.lower, delong.upper), abs=0.007)


def test_matches_scipys_bca_without_acceleration():
    """One sample and a statistic that is symmetric about its mean have acceleration 0."""
    values = np.concatenate([np.arange(1.0, 101), -np.arange(1.0, 101)])
    ours = bootstrap_interval(
        CanaryScores(values, []),
        lambda s: float(np.mean(s.included)),
        confidence=0.9,
        seed=1,
        resamples=4000,
    )
    theirs = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, n_resamples=4000, method="BCa", random_state=2
    ).confidence_interval
    # The mean's deviation is 4.1; quantiles of 4,000 draws are off by about 0.14, 6 of them 0.9.
    assert (ours.lower, ours.upper) == pytest.approx((theirs.low, theirs.high), abs=0.9)


def test_classes_are_resampled_apart():
    scores = CanaryScores(included=[1.0] * 5, excluded=[0.0] * 3)
    seen = set()

    def sizes(drawn):
        seen.add((drawn.num_included, drawn.num_excluded, *drawn.included, *drawn.excluded))
        return 0.0

    bootstrap_interval(scores, sizes, confidence=0.9, seed=0, resamples=20)
    assert seen == {(5, 3, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)}


@pytest.mark.parametrize(
    ("inclusion", "probability"),
    [("coins", 0.5), ("unequal_coins", 0.9), ("fixed_half", 0.5), ("pairs", 0.5)],
)
def test_replicates_are_included_as_the_scores_were(inclusion, probability):
    seen = []

    def differences(drawn):
        seen.append((drawn.inclusion, drawn.inclusion_probability))
        return float(np.ptp(drawn.included - drawn.excluded))

    scores = CanaryScores(np.arange(9.0) + 0.5, np.arange(9.0), inclusion, probability)
    found = bootstrap_interval(scores, differences, confidence=0.9, seed=0, resamples=20)
    assert set(seen) == {(inclusion, probability)}
    # Only pairs that are drawn whole keep the difference of each pair.
    assert (found.upper == 0) == (inclusion == "pairs")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("ties", [False, True])
def test_fast_replicates_have_the_law_of_resampled_scores(rate, ties):
    """Two samples of one law: Kolmogorov-Smirnov rejects at 1e-7 with chance at most 1e-7."""
    digits = 0 if ties else 9
    scores = CanaryScores(
        np.round(SCORES.included[:60], digits), np.round(SCORES.excluded[:40], digits)
    )
    fast = tpr_at_fpr_replicates(scores, rate, 6000, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    slow = [
        tpr_at_fpr(
            CanaryScores(rng.choice(scores.included, 60), rng.choice(scores.excluded, 40)), rate
        )
        for _ in range(3000)
    ]
    assert stats.ks_2samp(fast, slow).pvalue > 1e-7


def test_rate_interval_holds_the_rate_and_covers():
    """Of 300 intervals at 90 %, 270 +- 5.2 cover; the bootstrap itself is off by a few percent."""
    interval = tpr_at_fpr_interval(SCORES, 0.1, confidence=0.9, seed=1)
    assert interval.lower < tpr_at_fpr(SCORES, 0.1) < interval.upper
    rng = np.random.default_rng(5)
    truth = stats.norm.sf(stats.norm.isf(0.05) - 1)
    covered = 0
    for seed in range(300):
        scores = CanaryScores(rng.normal(1, 1, 400), rng.normal(0, 1, 400))
        found = tpr_at_fpr_interval(scores, 0.05, confidence=0.9, seed=seed, resamples=500)
        covered += found.lower <= truth <= found.upper
    assert 240 < covered < 297


# The Katz bound against R's asbio and by its exact law.


@pytest.mark.parametrize(
    ("tp", "fn", "fp", "tn", "ratio"),
    [
        (473, 511, 755, 950, 1.01166194),
        (2, 697, 213, 313, 0.00220470),
        (1000, 10, 10, 10000, 589.27335593),
        (473, 0, 755, 950, 2.15959024),
        (2, 697, 213, 0, 0.00089568),
        (1000, 0, 10, 0, 0.93375356),
    ],
)
def test_matches_r(tp, fn, fp, tn, ratio):
    """Lower ends at 95 % by ci.prat of R's asbio, as tensorflow-privacy's tests print them."""
    counts = ConfusionCounts(fn, tp, fp, tn)
    found = katz_log_bound(counts, "included", 0.95).epsilon
    assert math.exp(found) == pytest.approx(max(1.0, ratio), abs=1e-8)


AT = {"confidence": 0.9, "seed": 1}


def katz(*counts, confidence=0.95):
    return katz_log_bound(ConfusionCounts(*counts), "included", confidence)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: bootstrap_interval(SCORES, auc, confidence=1.0, seed=1), "confidence must be in"),
        (lambda: bootstrap_interval(SCORES, auc, **AT, resamples=0), "must be at least 1, got 0"),
        (lambda: tpr_at_fpr_interval(SCORES, 0.1, **AT, resamples=0), "must be at least 1, got 0"),
        (lambda: bootstrap_interval(SCORES, lambda _: math.nan, **AT, resamples=3), "got NaN"),
        (lambda: katz(1, 9, 0, 10), "at least 1 false positive, got 0"),
        (
            lambda: katz_log_bound(ConfusionCounts(0, 10, 1, 9), "excluded", 0.95),
            "at least 1 false negative, got 0",
        ),
        (lambda: katz(1, 9, 1, 9, confidence=0.4), "confidence"),
        (lambda: katz(1, 9, 1, 9, confidence=1.0), "confidence"),
    ],
)
def test_refuses_bad_input(made, message):
    with pytest.raises(ValueError, match=message):
        made()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("audit", "failing", "defined"),
    [
        ((100, 10_000, 0.002, 0.001), 0.072, 1.0),
        ((100, 10_000, 0.05, 0.01), 0.061, 1.0),
        ((100, 100, 0.5, 0.01), 0.0, 0.634),
    ],
)
def test_fails_as_often_as_documented(audit, failing, defined):
    """By the binomial laws of both counts, given that there is a bound."""
    members, others, tpr, fpr = audit
    likely = [
        [k for k in range(n + 1) if stats.binom.pmf(k, n, rate) > 1e-7]
        for n, rate in ((members, tpr), (others, fpr))
    ]
    fails = total = 0.0
    for right in likely[0]:
        for wrong in likely[1]:
            if wrong == 0:
                continue
            chance = stats.binom.pmf(right, members, tpr) * stats.binom.pmf(wrong, others, fpr)
            counts = ConfusionCounts(members - right, right, wrong, others - wrong)
            epsilon = katz_log_bound(counts, "included", 0.95).epsilon
            total += chance
            fails += chance * (epsilon > np.log(tpr / fpr))
    assert fails / total == pytest.approx(failing, abs=6e-4)
    assert total == pytest.approx(defined, abs=6e-4)


def test_what_is_found_at_rates_of_a_known_null_has_the_rates_and_covers():
    # 300 audits of 100 canaries, mean shift 3: at FPR 1 % the true rate is Phi(3 - 2.326) = 0.750.
    # Clopper and Pearson's 95 % intervals miss in at most 5 %: 35 or more of 300 has P < 1e-6.
    dim = 10_000
    rng = np.random.default_rng(3)
    truth = stats.norm.cdf(3 + stats.norm.ppf(0.01))
    missed, rates = 0, []
    for _ in range(300):
        included = (rng.normal(size=100) + 3) / dim**0.5
        low, at, _ = detection_rates(included, GaussianCanaryNull(dim), 0.95)
        assert low.true_positive_rate <= at.true_positive_rate
        rates.append(at.true_positive_rate)
        missed += not at.lower <= truth <= at.upper
    assert missed < 35
    assert np.mean(rates) == pytest.approx(truth, abs=0.015)  # six standard errors
