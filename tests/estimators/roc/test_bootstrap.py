"""Bootstrap intervals against scipy's, theory and the fast form for true positive rates."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.roc import auc, auc_interval, bootstrap_interval, tpr_at_fpr
from fl_audit.estimators.roc.summary import (
    bias_corrected_interval,
    tpr_at_fpr_interval,
    tpr_at_fpr_replicates,
)
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import NotApplicableError

RNG = np.random.default_rng(6)
SCORES = CanaryScores(RNG.normal(1, 1, 300), RNG.normal(0, 1, 200))


def test_auc_matches_scipys_percentile_bootstrap_and_delong():
    """The area is nearly unbiased, so that the correction hardly moves it."""
    ours = bootstrap_interval(SCORES, auc, confidence=0.9, seed=1, resamples=2000)
    theirs = stats.bootstrap(
        (SCORES.included, SCORES.excluded),
        lambda x, y: auc(CanaryScores(x, y)),
        vectorized=False,
        confidence_level=0.9,
        n_resamples=2000,
        method="percentile",
        random_state=2,
    ).confidence_interval
    # A quantile of 2,000 draws is off by about 5 % of the deviation of 0.022: 0.001 here.
    assert (ours.lower, ours.upper) == pytest.approx((theirs.low, theirs.high), abs=0.007)
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


def test_bias_is_corrected():
    """Replicates N(estimate + bias, 1): the BC interval is centred bias below the estimate."""
    bias, z = 0.5, 1.959964
    replicates = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) + bias
    interval = bias_corrected_interval(0.0, replicates, 0.95)
    assert interval.lower == pytest.approx(-bias - z, abs=2e-3)
    assert interval.upper == pytest.approx(-bias + z, abs=2e-3)


def test_lognormal_bias_is_corrected_as_its_logarithm_is():
    """BC does not depend on the scale on which a statistic is measured."""
    replicates = np.random.default_rng(3).normal(0.3, 1, 999)
    plain = bias_corrected_interval(0.0, replicates, 0.8)
    scaled = bias_corrected_interval(1.0, np.exp(replicates), 0.8)
    assert scaled.lower == pytest.approx(math.exp(plain.lower))
    assert scaled.upper == pytest.approx(math.exp(plain.upper))


def test_interval_is_among_the_replicates():
    assert bias_corrected_interval(5.0, [1.0, 2.0, 3.0], 0.9).upper == 3.0
    assert bias_corrected_interval(-5.0, [1.0, 2.0, 3.0], 0.9).lower == 1.0
    constant = bias_corrected_interval(2.0, [2.0] * 50, 0.95)
    assert (constant.lower, constant.upper) == (2.0, 2.0)
    infinite = bias_corrected_interval(1.0, [0.0, 1.0, math.inf, math.inf], 0.95)
    assert (infinite.lower, infinite.upper) == (0.0, math.inf)


def test_same_seed_same_interval():
    first, again, other = (
        bootstrap_interval(SCORES, auc, confidence=0.9, seed=seed, resamples=50)
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_classes_are_resampled_apart():
    scores = CanaryScores(included=[1.0] * 5, excluded=[0.0] * 3)
    seen = set()

    def sizes(drawn):
        seen.add((drawn.num_included, drawn.num_excluded, *drawn.included, *drawn.excluded))
        return 0.0

    bootstrap_interval(scores, sizes, confidence=0.9, seed=0, resamples=20)
    assert seen == {(5, 3, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)}


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


def test_every_true_positive_where_all_may_be_false():
    assert tpr_at_fpr_replicates(SCORES, 1.0, 4, np.random.default_rng(1)).tolist() == [1.0] * 4


def test_rate_interval_holds_the_rate_and_covers():
    """Of 600 intervals at 90 %, 540 +- 7.3 cover; the bootstrap itself is off by a few percent."""
    interval = tpr_at_fpr_interval(SCORES, 0.1, confidence=0.9, seed=1)
    assert interval.lower < tpr_at_fpr(SCORES, 0.1) < interval.upper
    rng = np.random.default_rng(5)
    truth = stats.norm.sf(stats.norm.isf(0.05) - 1)
    covered = 0
    for seed in range(600):
        scores = CanaryScores(rng.normal(1, 1, 400), rng.normal(0, 1, 400))
        found = tpr_at_fpr_interval(scores, 0.05, confidence=0.9, seed=seed, resamples=500)
        covered += found.lower <= truth <= found.upper
    assert 500 < covered < 590


def test_no_interval_where_the_bootstrap_fails():
    with pytest.raises(NotApplicableError, match=r"got 2 \(of 200 excluded scores\)"):
        tpr_at_fpr_interval(SCORES, 0.01, confidence=0.9, seed=1)


def test_refuses_bad_input():
    with pytest.raises(InputError, match="confidence must be in"):
        bootstrap_interval(SCORES, auc, confidence=1.0, seed=1)
    with pytest.raises(InputError, match="resamples must be at least 1, got 0"):
        bootstrap_interval(SCORES, auc, confidence=0.9, seed=1, resamples=0)
    with pytest.raises(InputError, match="resamples must be at least 1, got 0"):
        tpr_at_fpr_interval(SCORES, 0.1, confidence=0.9, seed=1, resamples=0)
    with pytest.raises(ValueError, match="got NaN"):
        bootstrap_interval(SCORES, lambda s: math.nan, confidence=0.9, seed=1, resamples=3)
