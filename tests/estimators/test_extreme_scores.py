"""Scores of any magnitude that a float has: each method answers, or says alone that it cannot."""

import numpy as np
import pytest

from fl_audit.estimators import METHODS, CanaryScores, estimate
from fl_audit.estimators.gaussian.fit import anderson_darling
from fl_audit.verdict import Claim, ClaimTests, ScoredStatistic, reach_verdict

_ROBUST = {name for name in METHODS if name != "gaussian_fit"}


def _scores(scale: float = 1.0, one: float | None = None) -> CanaryScores:
    rng = np.random.default_rng(3)
    included, excluded = rng.normal(2, 1, 60), rng.normal(0, 1, 60)
    if one is not None:
        included[7] = one
    return CanaryScores(included * scale, excluded * scale)


def _epsilons(scores: CanaryScores) -> dict[str, float]:
    found = estimate(scores, delta=1e-5)
    for reason in found.left_out.values():
        assert "orders of magnitude" in reason
    return {made.method: made.epsilon for made in found.estimates}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("exponent", [-1060, -500, 500, 512, 1000, 1020])
def test_the_unit_of_the_scores_changes_no_epsilon(exponent):
    # A power of two loses nothing, but what falls below the smallest normal number.
    expected = _epsilons(_scores())
    found = _epsilons(_scores(scale=2.0**exponent))
    assert found == pytest.approx(expected, rel=1e-12 if exponent > -1000 else 1e-2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("one", [1e80, -1e80, 1e160, 1e154, -1.7e308])
def test_one_huge_score_costs_no_robust_method_its_answer(one):
    scores = _scores(one=one)
    assert set(_epsilons(scores)) >= _ROBUST
    tests = ClaimTests([ScoredStatistic(None, scores)], 0.95)
    assert reach_verdict(Claim(0.01, 1e-5), tests).outcome == "contradicted"


def test_normality_has_no_unit():
    values = np.random.default_rng(1).normal(size=50)
    expected = anderson_darling(values).statistic
    for exponent in (-1000, 600, 1020):
        assert anderson_darling(values * 2.0**exponent).statistic == pytest.approx(expected)
