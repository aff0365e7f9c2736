"""The bound for mu-GDP mechanisms: by hand, coverage, tails and limits."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import AuditSetting, CanaryScores, ExactCosine, GaussianCanaryNull
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.threshold.error_rates import true_positive_band
from fl_audit.estimators.threshold.valid import (
    largest_gaussian_rate,
    threshold_gdp,
    threshold_valid,
)

SEED = 2023
DIM = 10**6


def setting(included, excluded=(), delta=1e-5, confidence=0.95, dim=DIM):
    null = "empirical" if dim is None else "closed_form"
    tail = None if dim is None else GaussianCanaryNull(dim)
    return AuditSetting(CanaryScores(included, list(excluded)), delta, confidence, dim, null, tail)


def test_almost_equal_scores_by_hand():
    # 50 cosines of 3 deviations: the true positive rate is at least the 50-th root of the level.
    made = threshold_gdp(setting(np.linspace(3e-3, 3e-3 + 1e-12, 50)))
    rate = made.details["local_level"] ** (1 / 50)
    tail = stats.beta.sf(9e-6, 0.5, (DIM - 1) / 2) / 2
    expected = stats.norm.isf(tail) + stats.norm.ppf(rate)
    assert made.details["mu"] == pytest.approx(expected, rel=1e-9)
    assert made.epsilon == epsilon_of_sigma(1 / made.details["mu"], 1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_closed_form(seed):
    rng = np.random.default_rng(seed)
    included = rng.normal(seed, 1, 80) / 1000
    band = true_positive_band(80, 0.95)
    best, law = 0.0, ExactCosine(DIM)
    for threshold in included:
        rank = np.flatnonzero(band.ranks <= np.sum(included >= threshold))[-1]
        fnr, fpr = math.exp(band.negatives.error[rank]), math.exp(law.logsf(threshold))
        best = max(best, stats.norm.isf(fpr) - stats.norm.ppf(fnr))
    made = threshold_gdp(setting(included))
    assert made.details["mu"] == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("dim", [None, DIM])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_covers_gaussian_mechanisms(mu, dim):
    # More failures than the limit have probability below 1e-6.
    rng, runs = np.random.default_rng(SEED), 300
    found = []
    for _ in range(runs):
        seen, unseen = rng.normal(mu, 1, 200) / 1000, rng.normal(0, 1, 200) / 1000
        found.append(threshold_gdp(setting(seen, unseen, dim=dim)).details["mu"])
    assert np.sum(np.array(found) > mu) <= stats.binom.isf(1e-6, runs, 0.05)
    assert np.median(found) > 0.75 * mu - 0.25


@pytest.mark.parametrize("dim", [None, DIM])
def test_proves_more_than_without_the_assumption(dim):
    rng = np.random.default_rng(SEED)
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


def test_delta_0_is_infinite_where_mu_is_above_0():
    scores = np.linspace(3e-3, 3.1e-3, 50)
    assert threshold_gdp(setting(scores, delta=0.0)).epsilon == math.inf
    assert threshold_gdp(setting(-scores, delta=0.0)).epsilon == 0.0


@pytest.mark.parametrize("dim", [None, DIM])
def test_noise_proves_nothing(dim):
    scores = np.random.default_rng(SEED).normal(0, 1, (2, 100)) / 1000
    made = threshold_gdp(setting(*scores, dim=dim))
    assert made.epsilon == made.details["mu"] == 0


@pytest.mark.parametrize("rate", [0.0, 1e-300, 0.3, 1 - 1e-12, 1.0])
def test_largest_rate_is_the_gaussian_trade_off(rate):
    assert largest_gaussian_rate(np.array(rate), 0.0) == pytest.approx(rate, rel=1e-9)
    shifted = stats.norm.sf(stats.norm.isf(rate) - 2)
    assert largest_gaussian_rate(np.array(rate), 2.0) == pytest.approx(shifted, rel=1e-9)


@pytest.mark.parametrize("dim", [None, 3, DIM])
@pytest.mark.parametrize("delta", [1e-15, 0.5])
def test_extremes_are_finite(dim, delta):
    for included in ([1.0], [-1.0], np.ones(1000)):
        made = threshold_gdp(setting(included, [0.0, 0.5], delta=delta, dim=dim))
        assert 0 <= made.epsilon < math.inf


def test_says_what_it_assumes():
    made = threshold_gdp(setting([0.1, 0.2]))
    assert (made.method, made.kind, made.lower) == ("threshold_gdp", "lower_bound", made.epsilon)
    assert made.assumes.startswith("The mechanism is mu-GDP for some mu")
    assert "closed-form" in made.assumes
    assert "closed-form" not in threshold_gdp(setting([0.1], [0.0, 0.1], dim=None)).assumes


@pytest.mark.parametrize(
    ("included", "excluded", "message"),
    [([], [0.0, 1.0], "at least 1 included score"), ([1.0], [0.0], "at least 2 excluded scores")],
)
def test_refuses_unusable_scores(included, excluded, message):
    with pytest.raises(InputError, match=message):
        threshold_gdp(setting(included, excluded, dim=None))
