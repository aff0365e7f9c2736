"""The plan of guesses: it knows no coins, and its theorem against linear programs."""

import numpy as np
import pytest
from scipy import special

from fl_audit.estimators import CanaryScores
from fl_audit.estimators.one_run.plan import (
    chances_included,
    numbers_of_guesses,
    plan_guesses,
    pooled,
    spare_for_delta,
)
from fl_audit.estimators.one_run.walk import Boundary
from tests.estimators.one_run.worst_mechanisms import worst_chance

RANDOM = np.random.default_rng(14)
SHIFTED = CanaryScores(RANDOM.normal(2, 1, 250), RANDOM.normal(0, 1, 250))
SPREAD = CanaryScores(RANDOM.normal(0, 3, 250), RANDOM.normal(0, 1, 250))


@pytest.mark.parametrize("scores", [SHIFTED, SPREAD])
def test_a_plan_knows_no_coins(scores):
    values = RANDOM.permutation(pooled(scores))
    others = CanaryScores(values[:100], values[100:])
    assert plan_guesses(others, 0.01, 0.05) == plan_guesses(scores, 0.01, 0.05)


def test_the_order_suits_the_scores():
    assert plan_guesses(SHIFTED, 0.0, 0.05).order.where == "both_ends"
    assert plan_guesses(SPREAD, 0.0, 0.05).order.where == "top"


def test_the_mixture_finds_the_laws():
    expected = special.expit(2 * pooled(SHIFTED) - 2)
    assert np.mean(np.abs(chances_included(pooled(SHIFTED)) - expected)) < 0.1
    assert chances_included(pooled(SPREAD))[[0, -1]].min() > 0.99


def test_where_one_law_fits_all_numbers_of_guesses_are_asked_about_alike():
    alike = CanaryScores(RANDOM.normal(0, 1, 250), RANDOM.normal(0, 1, 250))
    for scores in (alike, CanaryScores(np.zeros(5), np.zeros(4))):
        assert chances_included(pooled(scores)) is None
        plan = plan_guesses(scores, 0.001, 0.05)
        assert (plan.total, plan.order.where, plan.order.share) == (None, "both_ends", 1.0)


@pytest.mark.parametrize(
    "values",
    [[0.0, 1e308], [-1e308, 1e-308, 1e308], [5e-324, 0.0, 1.0], np.repeat([0.0, 1.0], [99, 1])],
)
def test_scores_of_any_size_have_a_plan(values):
    chances = chances_included(np.sort(values))
    assert chances is None or np.all((chances >= 0) & (chances <= 1))
    plan = plan_guesses(CanaryScores(values[:1], values[1:]), 1e-3, 0.05)
    assert len(plan.totals()) == len(plan.levels(plan.totals())) > 0


@pytest.mark.parametrize("m", [2, 3, 31, 128, 131, 2000, 10**6])
def test_numbers_of_guesses(m):
    totals = numbers_of_guesses(m)
    assert totals[-1] == m - m % 2
    assert np.all(totals[:63] == 2 * np.arange(1, min(m // 2, 63) + 1))
    steps = np.diff(totals)
    assert np.all(steps >= 2)
    assert np.all(steps % 2 == 0)
    assert np.all(steps <= np.maximum(2, totals[:-1] // 32))


@pytest.mark.parametrize(("m_delta", "fewest"), [(0.01, 2), (0.3, 12), (1.0, 143), (9.0, 250)])
def test_few_guesses_are_left_out_where_delta_is_dear(m_delta, fewest):
    plan = plan_guesses(SPREAD, m_delta, 0.05)
    assert (plan.total is None) == (spare_for_delta(m_delta, 0.05) is None) == (m_delta > 0.2)
    assert plan.fewest >= fewest


FEW = Boundary(np.array([2, 3]), np.array([2, 3]))
MANY = Boundary(np.array([4, 6]), np.array([4, 5]))


@pytest.mark.parametrize("m_delta", [0.0, 0.01, 0.1])
@pytest.mark.parametrize(
    ("plans", "epsilon"),
    [
        ([(FEW, 1.0), (MANY, 1.0)], 1.0),
        ([(FEW, 2.0), (MANY, 0.5)], 0.5),
        ([(FEW, 0.3), (MANY, 1.5)], 0.3),
        ([(Boundary(np.array([1]), np.array([1])), 0.0), (MANY, 2.0)], 0.0),
    ],
)
def test_the_event_may_depend_on_the_output(plans, epsilon, m_delta):
    worst = worst_chance([boundary for boundary, _ in plans], epsilon, m_delta)
    chance = max(boundary.crossing(at) for boundary, at in plans)
    factor = max(boundary.delta_factor(at) for boundary, at in plans)
    assert worst <= chance + m_delta * factor + 1e-9
