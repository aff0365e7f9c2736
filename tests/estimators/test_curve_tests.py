"""Tests of a curve: exact laws, the best test there is, and false contradictions at the claim."""

import copy
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from fl_audit.accounting.attacker_bounds import SeenRounds
from fl_audit.accounting.hidden_rounds import one_round_of_each
from fl_audit.estimators import CanaryScores
from fl_audit.estimators.curve_tests import CurveWealth, SumTest, claimed_tail, sum_test
from fl_audit.estimators.one_run.f_dp import guesses_p_value
from fl_audit.estimators.trade_off import (
    GaussianTradeOff,
    PointTradeOff,
    trade_off_of_profile,
    trade_off_of_tests,
    zcdp_trade_off,
)

SEED = 20_261_123
LEVEL = 0.05

LAPLACE_EPSILONS = np.linspace(0, 2, 400)

CURVES = {
    "gaussian": GaussianTradeOff(1.0),
    "large gaussian": GaussianTradeOff(25.0),
    "sampled, seen": trade_off_of_tests(SeenRounds.by_coins(0.1, 20, 0.8).optimal_tests()),
    "one unknown round": trade_off_of_tests(
        one_round_of_each(0.5, ((20, 1),), 1e-5).optimal_tests()
    ),
    "laplace": trade_off_of_profile(LAPLACE_EPSILONS, -np.expm1((LAPLACE_EPSILONS - 2) / 2)),
    "zcdp": zcdp_trade_off(0.5),
    "point": PointTradeOff(1.0, 1e-3),
}


def as_bad_as_claimed(curve, shape, rng):
    """Deviates of included canaries, with the very tail that the curve allows."""
    grid = np.arange(-9, 45, 0.002) + 0.0013  # not at a point of a table, where T steps up
    tail = np.exp(claimed_tail(curve, grid))
    return grid[np.maximum(len(grid) - 1 - np.searchsorted(tail[::-1], rng.random(shape)), 0)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("num_included", [20, 200])
def test_a_truth_equal_to_the_claim_is_contradicted_as_often_as_the_level_says(name, num_included):
    test = sum_test(CURVES[name], num_included, LEVEL)
    z = as_bad_as_claimed(CURVES[name], (2000, num_included), np.random.default_rng(SEED))
    rejected = test.statistic(z) >= test.critical_value(LEVEL)
    # 5 standard errors: 3e-7 for a level of 5 %; above, as the test is exact.
    assert 0.01 < rejected.mean() <= LEVEL + 5 * math.sqrt(LEVEL * (1 - LEVEL) / 2000)


def test_scores_may_depend_on_those_before_them():
    # A canary shows all that the claim allows where those before it scored high, else nothing.
    rng, curve = np.random.default_rng(SEED), GaussianTradeOff(1.0)
    z = rng.standard_normal((4000, 30))
    for i in range(30):
        z[:, i] += np.where(z[:, :i].sum(axis=1) >= 0, 1.0, 0.0)
    test = sum_test(curve, 30, LEVEL)
    rejected = test.statistic(z) >= test.critical_value(LEVEL)
    assert 0.0 < rejected.mean() <= LEVEL + 5 * math.sqrt(LEVEL * (1 - LEVEL) / 4000)


@pytest.mark.parametrize(("mu", "num_included"), [(0.5, 400), (3.3, 50), (25.0, 3)])
def test_for_a_gaussian_it_is_next_to_the_best_test_there_is(mu, num_included):
    test = sum_test(GaussianTradeOff(mu), num_included, LEVEL)
    z = np.random.default_rng(SEED).standard_normal((4000, num_included)) + test.shift
    found = (test.statistic(z) >= test.critical_value(LEVEL)).mean()
    best = stats.norm.sf(stats.norm.isf(LEVEL) - (test.shift - mu) * math.sqrt(num_included))
    assert found >= best - 0.03  # 4 standard errors are 0.025


LEAKS = (GaussianTradeOff(0.1), GaussianTradeOff(5.0), zcdp_trade_off(0.1), CURVES["point"])


@pytest.mark.parametrize("curve", LEAKS, ids=["mu 0.1", "mu 5", "zcdp", "point"])
@pytest.mark.parametrize("num_included", [200_000, 10_000_000])
def test_many_canaries_have_the_level_and_detect_the_likely_shift(curve, num_included):
    test, rng = sum_test(curve, num_included, LEVEL), np.random.default_rng(SEED)
    rejected = []
    for below in (-np.expm1(claimed_tail(curve, test.edges)), ndtr(test.edges - test.shift)):
        cells = rng.multinomial(num_included, np.diff(below, prepend=0.0, append=1.0), size=2000)
        rejected.append((cells @ test.values >= test.critical_value(LEVEL)).mean())
    assert 0.02 < rejected[0] <= LEVEL + 5 * math.sqrt(LEVEL * (1 - LEVEL) / 2000)
    assert rejected[1] >= 0.76  # 80 % less 4 standard errors
    largest = num_included * test.values[-1]
    assert test.critical_value(1e-20) == largest + 1
    assert test.p_value_of_sum(np.array([0, largest])) == pytest.approx([1.0, 0.0], abs=2e-8)


@pytest.mark.parametrize("num_included", [1, 7, 100_000, 10_000_000])
def test_the_tail_of_two_values_is_binomial(num_included):
    two = SumTest(np.array([0.0]), np.array([0, 1]), np.array([0.7, 0.3]), num_included, 1.0)
    counts = np.unique(np.linspace(0, num_included, 50).astype(int))
    exact = stats.binom.sf(counts - 1, num_included, 0.3)
    found = two.p_value_of_sum(counts)
    assert np.all(found >= exact * (1 - 1e-9))
    assert found == pytest.approx(exact, rel=1e-6, abs=2e-12 * (1 + num_included / 1000))


@pytest.mark.parametrize("name", CURVES)
def test_no_score_is_too_large_or_too_small(name):
    test = sum_test(CURVES[name], 5, LEVEL)
    assert test.p_value(np.full(5, 4000.0)) < 0.05
    assert test.p_value(np.full(5, -4000.0)) == 1.0


# Right guesses, however scores depend on each other.


def reveals(num_canaries, num_revealed, chance, rng):
    """Scores of a mechanism that with some chance shows who of some canaries is included."""
    included = rng.random(num_canaries) < 0.5
    scores = rng.standard_normal(num_canaries)
    if rng.random() < chance:
        scores[:num_revealed] = np.where(included[:num_revealed], 50.0, -50.0)
    return CanaryScores(scores[included], scores[~included])


def test_a_mechanism_that_reveals_many_at_once_is_seldom_contradicted():
    # (0, delta)-DP with delta = chance: each canary is revealed with that chance.
    rng = np.random.default_rng(SEED)
    curve = PointTradeOff(0.0, 0.02)
    found = [guesses_p_value(reveals(200, 40, 0.02, rng), curve) <= LEVEL for _ in range(300)]
    assert np.mean(found) <= LEVEL + 5 * math.sqrt(LEVEL * (1 - LEVEL) / 300)


@pytest.mark.parametrize("mu", [pytest.param(0.5, marks=pytest.mark.slow), 2.0])
def test_guesses_contradict_a_curve_that_is_too_low_and_not_the_true_one(mu):
    rng = np.random.default_rng(SEED)
    claims = {"true": GaussianTradeOff(mu), "half": GaussianTradeOff(mu / 2)}
    found, runs = dict.fromkeys(claims, 0), 60 if mu < 2 else 20
    for _ in range(runs):
        included = rng.random(2000) < 0.5
        z = rng.standard_normal(2000) + mu * included
        scores = CanaryScores(z[included], z[~included])
        for name, claim in claims.items():
            found[name] += guesses_p_value(scores, claim) <= LEVEL
    assert found["true"] <= stats.binom.isf(1e-6, runs, LEVEL)
    assert found["half"] >= runs / 5


# Canary by canary.


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CURVES)
def test_at_all_looks_together_a_true_claim_falls_as_rarely_as_the_level_says(name):
    rng, runs = np.random.default_rng(SEED), 150
    start = CurveWealth(CURVES[name])
    fallen = 0
    for z in as_bad_as_claimed(CURVES[name], (runs, 50, 4), rng):
        wealth = copy.deepcopy(start)
        for of_round in z:
            wealth.add(of_round)
        fallen += wealth.p_value <= 0.1
    assert fallen <= stats.binom.isf(1e-6, runs, 0.1)


def test_half_of_the_claimed_noise_falls_within_a_few_canaries():
    # A quickstart has five canaries a round: noise 0.15 for 0.3 is seen in its first rounds.
    rng, rounds = np.random.default_rng(SEED), []
    start = CurveWealth(GaussianTradeOff(1 / 0.3))
    for _ in range(50):
        wealth = copy.deepcopy(start)
        for number in range(1, 101):
            wealth.add(rng.standard_normal(3) + 1 / 0.15)
            if wealth.p_value <= 0.025:
                rounds.append(number)
                break
    assert len(rounds) == 50
    assert np.quantile(rounds, 0.9) <= 3
