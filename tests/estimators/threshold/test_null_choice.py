"""Scores that refute the closed-form null: the bounds do without it, and say so."""

import math

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators import (
    CanaryScores,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    SignCanaryNull,
    concentration_of,
    estimate,
)
from fl_audit.estimators.null import Null

METHODS = ["threshold_valid", "threshold_gdp"]
RNG_SEED = 20230302
_DIM_10 = GaussianCanaryNull(10)


def made(method, included, excluded, dim, **arguments):
    scores = CanaryScores(included, excluded)
    return estimate(scores, delta=1e-5, dim=dim, methods=[method], **arguments).estimates[0]


def noise(*shape):
    return np.random.default_rng(RNG_SEED).normal(size=shape) / math.sqrt(1000)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("null", [GaussianCanaryNull, SignCanaryNull])
def test_pure_noise_under_a_wrong_dimension_proves_nothing(method, null):
    wrong = 4_050_748  # once: at least 13,060
    found = made(method, *noise(2, 500), wrong, null_tail=null(wrong))
    without = made(method, *noise(2, 500), None)
    assert found.epsilon == without.epsilon == 0
    assert found.details["null"] == "empirical"
    assert "refute the known null" in found.details["refuted_null"]
    assert "dimension 4,050,748" in found.assumes
    assert "check dim" in found.assumes


@pytest.mark.parametrize("by", [{"null": Null("closed_form", _DIM_10, 10)}, {"null_tail": _DIM_10}])
def test_a_refuted_null_asks_only_who_gave_dim_to_check_it(by):
    found = made("threshold_valid", *noise(2, 500), None, **by)
    assert found.details["refuted_null"].endswith("(exact distribution)")


@pytest.mark.parametrize("method", METHODS)
def test_one_excluded_score_far_out_leaves_the_method_out(method):
    with pytest.raises(InputError, match=r"refute the known null .* at least 2 excluded"):
        made(method, noise(50), [0.5], 10**6)


def test_a_null_of_its_own_needs_no_dim_and_no_cosines():
    rounds = LargestOfRoundsNull((GaussianCanaryNull(1000),) * 50)
    included, excluded = noise(2, 500, 50).max(axis=-1)
    included = included + 0.3
    scores = CanaryScores(included, excluded)
    found = [
        estimate(scores, delta=1e-5, methods=["threshold_valid"], null_tail=tail).estimates[0]
        for tail in (rounds, None)
    ]
    assert "largest of 50 round scores" in found[0].assumes
    assert found[0].epsilon > 20 > found[1].epsilon > 4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shift", [0.5, 8.0])
def test_what_is_known_pays(method, shift):
    dim, target = 167_178, np.random.default_rng(0).normal(size=167_178)
    included = (shift + noise(250) * math.sqrt(1000)) / math.sqrt(dim)
    nulls = (GaussianCanaryNull(dim), SignCanaryNull(dim, concentration_of(target)), None)
    exact, known, anything = (
        made(method, included, [], dim, null_tail=null).epsilon for null in nulls
    )
    assert exact - 0.15 <= known <= exact
    assert anything <= known
    assert shift < 2 or anything < known - 0.6


@pytest.mark.sampled(4)
@pytest.mark.parametrize("null", [GaussianCanaryNull, SignCanaryNull])
@pytest.mark.parametrize("excluded", [2, 3, 10, 50, 250])
@pytest.mark.parametrize("factor", [1.1, 1.7, 2, 0.5, 100])
def test_a_wrong_dim_proves_something_at_most_as_often_as_a_bound_may_fail(factor, excluded, null):
    # Binomial(60, 0.05) is above 15 with probability 2e-8. Without excluded scores or with one,
    # 70 % of audits at twice the dim prove something, and say what that rests on.
    rng, dim, proven = np.random.default_rng(RNG_SEED), 2000, 0
    wrong = int(dim * factor)
    for _ in range(60):
        included, outside = np.split(rng.normal(size=250 + excluded) / math.sqrt(dim), [250])
        found = made("threshold_valid", included, outside, wrong, null_tail=null(wrong))
        proven += found.epsilon > 0
    assert proven <= 15


@pytest.mark.parametrize("excluded", [0, 1])
def test_where_nothing_can_be_told_the_bound_says_what_it_rests_on(excluded):
    included, outside = np.split(4 / math.sqrt(1000) + noise(60 + excluded), [60])
    found = made("threshold_valid", included, outside - 4 / math.sqrt(1000), 1000)
    assert found.epsilon > 5
    assert "rests on the null as it was given (dim)" in found.assumes


def test_a_null_by_design_needs_no_excluded_scores_to_bear_it_out():
    included, excluded = noise(2, 250)
    included = included + 0.5 / math.sqrt(1000)
    design = Null("closed_form", dim=1000)
    by_design = made("threshold_valid", included, excluded[:3], None, null=design)
    told = made("threshold_valid", included, excluded[:3], 1000)
    assert by_design.epsilon > told.epsilon == 0
    assert "do not differ from excluded ones" in told.assumes
    assert "as it was given" not in by_design.assumes
