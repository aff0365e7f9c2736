"""The valid threshold bound: by hand, brute force, ties and properties (see test_coverage.py)."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import CanaryScores, closed_form_null, estimate

SEED = 20230216


def bound(included, excluded=(), method="threshold_valid", **arguments):
    scores = CanaryScores(included, list(excluded))
    return estimate(scores, methods=[method], **arguments).estimates[0]


def test_separated_scores_by_hand():
    # Ranks 1, 2, 4, ..., 128 of 250 and their mirrors: 16 thresholds, 32 bounds. The best is the
    # largest excluded score, with no error on either side: both rates are at most
    # 1 - (0.05 / 32)^(1/250) = 0.025513, so that epsilon is log(0.974487 / 0.025513) = 3.64273.
    made = bound(np.arange(1, 251), -np.arange(250), delta=0.0)
    rate = -math.expm1(math.log(0.05 / 32) / 250)
    assert made.epsilon == pytest.approx(math.log((1 - rate) / rate), rel=1e-12)
    assert made.epsilon == pytest.approx(3.6427, abs=1e-4)
    assert made.details["threshold"] == 0.0
    assert made.details["num_thresholds"] == 16
    assert made.details["corrected_confidence"] == pytest.approx(1 - 0.05 / 32, abs=1e-15)


def test_separated_cosines_by_hand():
    # All 250 cosines lie above 32 deviations: the highest threshold below has a tail of 2^-723,
    # and epsilon is log(1 - fnr) + 723 log 2 for the bound fnr without errors.
    made = bound(np.full(250, 0.32), delta=0.0, dim=10_000)
    fnr = -math.expm1(math.log(0.05 / made.details["num_thresholds"]) / 250)
    assert made.epsilon == pytest.approx(math.log1p(-fnr) + 723 * math.log(2), rel=1e-12)
    assert made.details["fnr_upper"] == pytest.approx(fnr, rel=1e-9)


def brute_force(included, delta, level, thresholds):
    """The best of (threshold, upper bound on FPR), written out plainly."""
    best, n = 0.0, len(included)
    for threshold, fpr in thresholds:
        k = int(np.sum(included <= threshold))
        fnr = 1.0 if k == n else stats.beta.isf(level, k + 1, n - k)
        for gain, loss in ((1 - delta - fnr, fpr), (1 - delta - fpr, fnr)):
            if gain > 0:
                best = max(best, math.log(gain / loss))
    return best


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("decimals", [1, 12])  # 1: many ties
def test_brute_force_empirical(seed, decimals, delta):
    rng = np.random.default_rng(seed)
    included = rng.normal(rng.uniform(-1, 4), 1, 60).round(decimals)
    excluded = rng.normal(0, 1, 40).round(decimals)
    ranks = [1, 2, 4, 8, 16, 32, 40, 39, 37, 33, 25, 9]
    level = 0.1 / (2 * len(ranks))
    descending = sorted(excluded, reverse=True)
    thresholds = [(descending[j - 1], stats.beta.isf(level, j, 41 - j)) for j in ranks]
    expected = brute_force(included, delta, level, thresholds)
    made = bound(included, excluded, delta=delta, confidence=0.9)
    assert made.epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dim", [3, 100, 4000])
@pytest.mark.parametrize("seed", range(4))
def test_brute_force_closed_form(seed, dim):
    rng = np.random.default_rng(seed)
    included = np.clip(rng.normal(rng.uniform(-1, 4), 1, 60) * dim**-0.5, -1, 1)
    law = closed_form_null(dim)
    upper = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 19, 22, 26, 31, 36, 43, 50, 58, 68, 80, 94,
             110, 128, 150, 176, 206, 241, 282, 330, 386, 452, 528, 618, 723, 846, 990]  # fmt: skip
    points = [float(law.isf(2.0**-k)) for k in upper]
    points = [x for x in points if x < 1] + [float(law.ppf(2.0**-k)) for k in range(2, 6)]
    thresholds = [(x, math.exp(law.logsf(x))) for x in points if x > -1]
    expected = brute_force(included, 1e-6, 0.05 / len(thresholds), thresholds)
    made = bound(included, delta=1e-6, dim=dim)
    assert made.details["num_thresholds"] == len(thresholds)
    assert made.epsilon == pytest.approx(expected, rel=1e-9)


def test_lower_tails_prove_what_upper_tails_cannot():
    # No included score is low: whoever scores low is excluded. Above the median nothing differs.
    rng = np.random.default_rng(SEED)
    included = np.abs(rng.normal(0, 0.01, 1000))
    made = bound(included, delta=0.0, dim=10_000)
    assert made.details["direction"] == "excluded"
    assert made.epsilon > 3


@pytest.mark.parametrize("dim", [None, 10_000])
def test_is_weaker_than_the_unadjusted_bound(dim):
    for shift in (0.0, 1.0, 2.0, 5.0, 20.0):
        rng = np.random.default_rng(SEED)
        seen, unseen = rng.normal(shift, 1, 500) / 100, rng.normal(0, 1, 500) / 100
        unadjusted = bound(seen, unseen, "threshold_jeffreys", delta=1e-5, dim=dim).epsilon
        valid = bound(seen, unseen, delta=1e-5, dim=dim).epsilon
        assert valid <= unadjusted
        assert shift < 2 or valid > 0.5 * unadjusted


@pytest.mark.parametrize("dim", [None, 10_000])
@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_decreases_with_confidence_and_delta(dim, sigma):
    rng = np.random.default_rng(SEED)
    seen, unseen = rng.normal(0.02, sigma / 100, 300), rng.normal(0, 0.01, 300)
    levels = 1 - np.logspace(-6, -0.31, 100)
    by_level = [bound(seen, unseen, delta=1e-5, confidence=c, dim=dim).epsilon for c in levels]
    deltas = np.logspace(-9, -1, 50)
    by_delta = [bound(seen, unseen, delta=d, dim=dim).epsilon for d in deltas]
    assert np.all(np.diff(by_level) > 0)
    assert np.all(np.diff(by_delta) < 0)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
def test_invariant_under_increasing_maps(sigma):
    rng = np.random.default_rng(SEED)
    seen, unseen = rng.normal(1, sigma, 100), rng.normal(0, sigma, 100)
    expected = bound(seen, unseen, delta=1e-5).epsilon
    affine = bound(seen * 2.71828 + 3.14159, unseen * 2.71828 + 3.14159, delta=1e-5)
    curved = bound(np.arctan(seen), np.arctan(unseen), delta=1e-5)
    assert affine.epsilon == curved.epsilon == expected
    assert sigma == 2.0 or expected > 0


def test_unchanged_where_every_tie_is_lost():
    # An included score equal to an excluded one counts as if it lay below.
    rng = np.random.default_rng(SEED)
    included, excluded = rng.integers(1, 7, 400), rng.integers(0, 5, 300)
    tied = bound(included, excluded, delta=0.0)
    lost = bound(included - 0.5, excluded, delta=0.0)
    assert tied.epsilon == lost.epsilon > 0


@pytest.mark.parametrize("values", [np.zeros(500), np.repeat([0.0, 1.0], [499, 1])])
def test_equal_laws_with_ties_prove_nothing(values):
    assert bound(values, values, delta=0.0).epsilon == 0.0


@pytest.mark.parametrize("atoms", [2, 3, 20])
def test_ties_do_not_break_coverage(atoms):
    # Both groups have one law, on few points, the largest of them rare: true epsilon is 0. More
    # failures than the limit have probability below 1e-6 if each run fails with 5 %.
    rng, runs, n = np.random.default_rng(SEED), 1000, 60
    chances = np.geomspace(1, 0.01, atoms)
    chances /= chances.sum()
    draws = rng.choice(atoms, (runs, 2, n), p=chances)
    failures = sum(bound(a, b, delta=0.0).epsilon > 0 for a, b in draws)
    assert failures <= stats.binom.isf(1e-6, runs, 0.05)


@pytest.mark.parametrize("confidence", [0.5, 1 - 1e-12, 1 - 2.0**-53])
@pytest.mark.parametrize("dim", [None, 2, 5, 999, 1000, 10**7])
@pytest.mark.parametrize("delta", [0.0, 1e-12, 0.5, 1 - 1e-9])
def test_extremes_give_a_finite_bound(confidence, dim, delta):
    made = bound(np.ones(50), [0.0, 0.5], delta=delta, dim=dim, confidence=confidence)
    assert 0 <= made.epsilon < 990 * math.log(2)


@pytest.mark.parametrize("dim", [None, 100])
def test_says_why_it_is_valid(dim):
    made = bound([0.1, 0.2], [0.0, 0.1], delta=1e-5, dim=dim, confidence=0.9)
    assert made.kind == "lower_bound"
    assert made.lower == made.epsilon
    assert made.guarantee.startswith("True epsilon is at least this with 90 % confidence; valid ")
    assert ("closed-form law" in made.assumes) == (dim is not None)


@pytest.mark.parametrize(
    ("included", "excluded", "message"),
    [
        ([], [0.0, 1.0], "threshold_valid: needs at least 1 included score, got 0"),
        ([1.0], [0.0], "empirical null needs at least 2 excluded scores, got 1"),
    ],
)
def test_refuses_unusable_scores(included, excluded, message):
    with pytest.raises(InputError, match=message):
        bound(included, excluded, delta=1e-5)
