"""`one_run_valid` with coins that are not fair and with pairs, against closed forms."""

import math

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores, estimate
from fl_audit.estimators.one_run.plan import orders_of
from fl_audit.estimators.one_run.valid import one_run_rejection


def bound(scores, delta=0.0, confidence=0.95):
    return METHODS["one_run_valid"](AuditSetting(scores, delta, confidence, None, "empirical"))


def test_chances_of_a_right_guess_are_those_of_randomised_response():
    """A bit of probability pi, kept with probability e^eps / (1 + e^eps): Bayes by hand."""
    pi, epsilon = 0.2, 1.5
    kept = special.expit(epsilon)
    said_included = pi * kept + (1 - pi) * (1 - kept)
    top, bottom = orders_of(CanaryScores([1.0], [0.0], "unequal_coins", pi))
    assert special.expit(top.log_odds(epsilon)) == pytest.approx(pi * kept / said_included)
    said_excluded = 1 - said_included
    assert special.expit(bottom.log_odds(epsilon)) == pytest.approx((1 - pi) * kept / said_excluded)
    assert top.epsilon(top.log_odds(epsilon)) == pytest.approx(epsilon)


def test_pairs_all_told_apart_are_bounded_by_clopper_and_pearson():
    m = 300
    made = bound(CanaryScores(np.arange(m) + 0.5, np.arange(m) - 0.5, "pairs"))
    # The best that any test of m right guesses of m could say of the replacement of one.
    at_most = -math.log(0.05 ** (-1 / m) - 1)
    assert 0.7 * at_most < made.details["epsilon_replacement"] <= at_most
    assert made.epsilon == made.details["epsilon_replacement"] / 2
    assert made.details["m"] == m


def test_pairs_of_which_half_is_right_prove_nothing():
    gaps = np.resize([1.0, -1.0], 400)
    assert bound(CanaryScores(gaps, np.zeros(400), "pairs")).epsilon == 0.0


def test_delta_costs_pairs_more_than_coins():
    pairs = CanaryScores(np.arange(50.0) + 0.5, np.arange(50.0) - 0.5, "pairs")
    found = [bound(pairs, delta).epsilon for delta in (0.0, 1e-5, 1e-3)]
    assert found[0] >= found[1] > found[2]


@pytest.mark.parametrize(("inclusion", "pi"), [("unequal_coins", 0.2), ("pairs", 0.5)])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_the_fast_rejection_rejects_what_the_bound_exceeds(inclusion, pi, delta):
    rng = np.random.default_rng(3)
    rejects = {epsilon: one_run_rejection(epsilon, delta, 0.05) for epsilon in (0.3, 0.8)}
    for shift in (0.0, 1.0, 2.0, 4.0):
        n1 = 100 if inclusion == "pairs" else int(stats.binom.rvs(200, pi, random_state=rng))
        n0 = 200 - n1
        scores = CanaryScores(shift + rng.normal(size=n1), rng.normal(size=n0), inclusion, pi)
        found = bound(scores, delta).epsilon
        for epsilon, test in rejects.items():
            if abs(found - epsilon) > 0.03:
                setting = AuditSetting(scores, delta, 0.95, None, "empirical")
                assert test([setting])[0] == (found > epsilon), (shift, epsilon, found)


@pytest.mark.parametrize(("inclusion", "pi"), [("unequal_coins", 0.2), ("pairs", 0.5)])
def test_methods_whose_proof_needs_fair_coins_are_left_out(inclusion, pi):
    scores = CanaryScores(np.arange(20.0), np.arange(20.0) - 5, inclusion, pi)
    result = estimate(scores, delta=1e-5)
    made = {one.method for one in result.estimates}
    assert {"one_run_valid", "threshold_valid", "gaussian_fit"} <= made
    assert not {"one_run", "one_run_fdp"} & made
    words = {"unequal_coins": "coins were not fair", "pairs": "one of each pair was included"}
    assert words[inclusion] in result.left_out["one_run"]


@pytest.mark.parametrize(
    ("inclusion", "pi", "words"),
    [
        ("coins", 0.2, "needs inclusion_probability 0.5"),
        ("unequal_coins", 0.5, "needs inclusion_probability another than 0.5"),
        ("unequal_coins", 1.0, r"must be in \(0, 1\)"),
        ("pairs", 0.5, "as many included as excluded"),
    ],
)
def test_scores_that_do_not_fit_are_refused(inclusion, pi, words):
    with pytest.raises(ValueError, match=words):
        CanaryScores([1.0, 2.0], [0.0], inclusion, pi)
