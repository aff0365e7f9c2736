"""Orders of guesses: by hand, and coverage where scores spread far."""

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.one_run.guess_orders import GUESS_ORDERS
from fl_audit.estimators.one_run.guessing_plan import (
    chances_included,
    pooled,
)

BOTH_ENDS, FROM_TOP = GUESS_ORDERS


def heavy(seed: int, included: int = 800, excluded: int = 1000) -> CanaryScores:
    random = np.random.default_rng(seed)
    return CanaryScores(random.normal(1, 4, included), random.standard_normal(excluded))


def bound(method: str, scores: CanaryScores) -> float:
    return METHODS[method](AuditSetting(scores, 1e-5, 0.95)).epsilon


def test_right_guesses_by_hand():
    scores = CanaryScores([5.0, 4.0, 1.0], [3.0, 2.0, 0.0])
    totals = np.array([1, 2, 3, 4])
    assert BOTH_ENDS.correct(scores, totals).tolist() == [1, 2, 3, 3]
    assert FROM_TOP.correct(scores, totals).tolist() == [1, 2, 2, 2]
    assert (BOTH_ENDS.guesses(3, 3).k_plus, BOTH_ENDS.guesses(3, 3).k_minus) == (2, 1)
    assert (FROM_TOP.guesses(3, 2).k_plus, FROM_TOP.guesses(3, 2).k_minus) == (3, 0)


def test_the_shares_of_the_orders_add_up_to_the_failure_probability():
    assert sum(order.share for order in GUESS_ORDERS) == pytest.approx(1)


@pytest.mark.parametrize(("method", "least"), [("one_run_valid", 3.9), ("one_run_fdp", 4.0)])
def test_scores_that_spread_far_prove_what_the_top_tells(method, least):
    # Guesses from both ends proved 0.3 and 0.5; the best fixed number from the top 4.3 and 7.0.
    assert np.median([bound(method, heavy(seed)) for seed in range(4)]) > least


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("num_canaries", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_bounds_hold_where_a_few_canaries_stand_out(epsilon, num_canaries):
    # Randomised response whose true answers are told by large scores of both signs, and the
    # Gaussian mechanism behind a map that spreads large scores: tails are heavy in both.
    runs, failures = 60, {"one_run_valid": 0, "one_run_fdp": 0}
    shift = 1.0
    truth = epsilon_of_sigma(1 / shift, 1e-5)
    random = np.random.default_rng(int(10 * epsilon) + num_canaries)
    for _ in range(runs):
        bits = random.random(num_canaries) < 0.5
        right = random.random(num_canaries) < 1 / (1 + np.exp(-epsilon))
        values = np.where(bits == right, 1, -1) * random.standard_cauchy(num_canaries) ** 2
        told = CanaryScores(values[bits], values[~bits])
        failures["one_run_valid"] += bound("one_run_valid", told) > epsilon
        values = np.sinh(1.5 * (random.standard_normal(num_canaries) + shift * bits))
        failures["one_run_fdp"] += (
            bound("one_run_fdp", CanaryScores(values[bits], values[~bits])) > truth
        )
    # More have probability below 1e-6 if each run fails with 5 %.
    assert max(failures.values()) <= stats.binom.isf(1e-6, runs, 0.05)


RANDOM = np.random.default_rng(14)
SHIFTED = CanaryScores(RANDOM.normal(2, 1, 250), RANDOM.normal(0, 1, 250))
SPREAD = CanaryScores(RANDOM.normal(0, 3, 250), RANDOM.normal(0, 1, 250))


def test_the_mixture_finds_the_laws():
    expected = special.expit(2 * pooled(SHIFTED) - 2)
    assert np.mean(np.abs(chances_included(pooled(SHIFTED)[None])[0] - expected)) < 0.1
    assert chances_included(pooled(SPREAD)[None])[0][[0, -1]].min() > 0.99
