"""Threshold bounds as published: the reference's numbers, by hand, and brute force."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators import AuditSetting, CanaryScores, closed_form_null, estimate
from fl_audit.estimators.null import Null
from fl_audit.estimators.privacy_region import LogRates
from fl_audit.estimators.threshold.error_rates import BoundedThresholds
from fl_audit.estimators.threshold.jeffreys_clopper_pearson import (
    threshold_clopper_pearson,
    threshold_jeffreys,
)


def rates(*errors: float) -> LogRates:
    with np.errstate(divide="ignore"):
        return LogRates(error=np.log(errors), success=np.log1p(-np.array(errors)))


def bounded(fnr: LogRates, fpr: LogRates) -> BoundedThresholds:
    t = len(fnr.error)
    return BoundedThresholds(np.arange(t) + 0.5, np.arange(t), fnr, fpr)


SEED = 0xBAD5EED  # of google-research/federated, one_shot_epe


def bound(included, excluded=(), **arguments):
    scores = CanaryScores(included, list(excluded))
    return estimate(scores, methods=["threshold_jeffreys"], **arguments).estimates[0]


def test_pinned_empirical():
    rng = np.random.default_rng(SEED)
    seen, unseen = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    made = bound(seen, unseen, delta=1e-2, confidence=0.99)
    assert made.epsilon == pytest.approx(0.6839449, rel=1e-6)


@pytest.mark.parametrize(("dim", "expected"), [(200, 1.394838), (2000, 1.3880321)])
def test_pinned_closed_form(dim, expected):
    sigma = dim**-0.5
    seen = np.random.default_rng(SEED).normal(sigma, sigma, 100)
    made = bound(seen, delta=1e-2, confidence=0.99, dim=dim)
    assert made.epsilon == pytest.approx(expected, rel=1e-6)


def test_paper_table_3_without_noise():
    # 1,000 canaries separated from 1,000: log((1 - delta - b) / b), b = Beta(1/2, 1000.5) at 95 %.
    # The paper prints 6.24, which is 6.2543 with 986 canaries a side instead of 1,000.
    made = bound(np.arange(1, 1001), -np.arange(1000), delta=341000**-1.1)
    upper = stats.beta.ppf(0.95, 0.5, 1000.5)
    assert made.epsilon == pytest.approx(math.log((1 - upper) / upper), rel=1e-6)
    assert made.epsilon == pytest.approx(6.2543, abs=1e-4)


def test_perfect_cosine_is_impossible_for_an_excluded_canary():
    assert bound(np.ones(50), delta=1e-5, dim=100).epsilon == math.inf


def setting(included, excluded=(), delta=1e-5, confidence=0.95, dim=None):
    null = "empirical" if dim is None else "closed_form"
    return AuditSetting(
        CanaryScores(included, list(excluded)), delta, confidence, Null(null, dim=dim)
    )


def test_clopper_pearson_of_separated_scores_by_hand():
    # No errors of 100 and 200: rates at most 1 - 0.05^(1/100) = 0.029513 and 0.014867.
    made = threshold_clopper_pearson(setting(np.arange(1, 101), -np.arange(200), delta=0.0))
    fnr, fpr = -math.expm1(math.log(0.05) / 100), -math.expm1(math.log(0.05) / 200)
    assert made.epsilon == pytest.approx(math.log((1 - fnr) / fpr), rel=1e-12)
    assert made.epsilon == pytest.approx(4.1787, abs=1e-4)
    assert (made.details["false_negatives"], made.details["direction"]) == (0, "included")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("method", "prior"), [(threshold_jeffreys, 0.5), (threshold_clopper_pearson, 1.0)]
)
@pytest.mark.parametrize("dim", [None, 100, 4000])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("decimals", [1, 12])  # 1: many ties
def test_brute_force(method, prior, seed, dim, decimals):
    # Thresholds at and just above every score; the rate of k errors in n is below a quantile of
    # Beta(k + prior, n - k + 1 - prior).
    rng = np.random.default_rng(seed)
    included = rng.normal(rng.uniform(-1, 3), 1, 60).round(decimals) * (dim or 400) ** -0.5
    excluded = rng.normal(0, 1, 40).round(decimals) * (dim or 400) ** -0.5
    best, scores = 0.0, np.concatenate([included, excluded])
    for threshold in np.concatenate([scores, scores + 1e-9]):
        k = np.sum(included < threshold)
        fnr = 1.0 if k == 60 else stats.beta.isf(0.1, k + prior, 61 - prior - k)
        j = np.sum(excluded >= threshold)
        fpr = 1.0 if j == 40 else stats.beta.isf(0.1, j + prior, 41 - prior - j)
        if dim is not None:
            fpr = math.exp(closed_form_null(dim).logsf(threshold))
        for gain, loss in ((1 - 1e-3 - fnr, fpr), (1 - 1e-3 - fpr, fnr)):
            best = max(best, math.log(gain / loss)) if gain > 0 else best
    made = method(setting(included, excluded, 1e-3, 0.9, dim))
    assert made.epsilon == pytest.approx(best, rel=1e-9)
