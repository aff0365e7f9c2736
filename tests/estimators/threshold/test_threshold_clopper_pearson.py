"""The best threshold by Clopper-Pearson bounds: by hand, brute force, and against Jeffreys."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import AuditSetting, CanaryScores, closed_form_null
from fl_audit.estimators.threshold.clopper_pearson import threshold_clopper_pearson
from fl_audit.estimators.threshold.jeffreys import threshold_jeffreys

SEED = 1934


def setting(included, excluded=(), delta=1e-5, confidence=0.95, dim=None):
    null = "empirical" if dim is None else "closed_form"
    return AuditSetting(CanaryScores(included, list(excluded)), delta, confidence, dim, null)


def test_separated_scores_by_hand():
    # No errors of 100 and 200: rates at most 1 - 0.05^(1/100) = 0.029513 and 0.014867.
    made = threshold_clopper_pearson(setting(np.arange(1, 101), -np.arange(200), delta=0.0))
    fnr, fpr = -math.expm1(math.log(0.05) / 100), -math.expm1(math.log(0.05) / 200)
    assert made.epsilon == pytest.approx(math.log((1 - fnr) / fpr), rel=1e-12)
    assert made.epsilon == pytest.approx(4.1787, abs=1e-4)
    assert (made.details["false_negatives"], made.details["direction"]) == (0, "included")


@pytest.mark.parametrize("dim", [None, 100, 4000])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("decimals", [1, 12])  # 1: many ties
def test_brute_force(seed, dim, decimals):
    rng = np.random.default_rng(seed)
    included = rng.normal(rng.uniform(-1, 3), 1, 60).round(decimals) * (dim or 400) ** -0.5
    excluded = rng.normal(0, 1, 40).round(decimals) * (dim or 400) ** -0.5
    best, scores = 0.0, np.concatenate([included, excluded])
    for threshold in np.concatenate([scores, scores + 1e-9]):
        k = np.sum(included < threshold)
        fnr = 1.0 if k == 60 else stats.beta.isf(0.1, k + 1, 60 - k)
        j = np.sum(excluded >= threshold)
        fpr = 1.0 if j == 40 else stats.beta.isf(0.1, j + 1, 40 - j)
        if dim is not None:
            fpr = math.exp(closed_form_null(dim).logsf(threshold))
        for gain, loss in ((1 - 1e-3 - fnr, fpr), (1 - 1e-3 - fpr, fnr)):
            best = max(best, math.log(gain / loss)) if gain > 0 else best
    made = threshold_clopper_pearson(setting(included, excluded, 1e-3, 0.9, dim))
    assert made.epsilon == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("dim", [None, 10_000])
@pytest.mark.parametrize("shift", [0.5, 2.0, 5.0])
def test_is_a_little_weaker_than_jeffreys(dim, shift):
    rng = np.random.default_rng(SEED)
    made = setting(rng.normal(shift, 1, 300) / 100, rng.normal(0, 1, 300) / 100, dim=dim)
    exact, jeffreys = threshold_clopper_pearson(made), threshold_jeffreys(made)
    assert 0.8 * jeffreys.epsilon < exact.epsilon < jeffreys.epsilon
    assert exact.guarantee == jeffreys.guarantee
    assert exact.details.keys() == jeffreys.details.keys()


def test_says_what_it_is():
    made = threshold_clopper_pearson(setting([0.1, 0.2], dim=100))
    assert (made.method, made.kind) == ("threshold_clopper_pearson", "lower_bound")
    assert made.lower == made.epsilon
    assert "not valid after selection" in made.guarantee
    assert "Clopper" in made.source


@pytest.mark.parametrize(
    ("included", "excluded", "message"),
    [([], [0.0, 1.0], "at least 1 included score"), ([1.0], [0.0], "at least 2 excluded scores")],
)
def test_refuses_unusable_scores(included, excluded, message):
    with pytest.raises(InputError, match=message):
        threshold_clopper_pearson(setting(included, excluded))
