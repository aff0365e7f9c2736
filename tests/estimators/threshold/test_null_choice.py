"""Scores that refute the closed-form null: the bounds do without it, and say so."""

import json
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

METHODS = ["threshold_valid", "threshold_gdp"]
RNG_SEED = 20230302


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
    assert "refute the closed-form null" in found.details["refuted_null"]
    assert "dimension 4,050,748" in found.assumes
    assert "check dim" in found.assumes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dim", [2, 1000, 10**9])
@pytest.mark.parametrize("value", [0.0, 1e-4, -0.3])
@pytest.mark.parametrize("excluded", [2, 10, 250])
@pytest.mark.parametrize("null", [GaussianCanaryNull, SignCanaryNull])
def test_equal_scores_prove_nothing(method, dim, value, excluded, null):
    scores = np.full(250, value), np.full(excluded, value)
    found = made(method, *scores, dim, null_tail=null(dim))
    assert found.epsilon == 0
    assert "scores are equal" in found.assumes


@pytest.mark.parametrize("method", METHODS)
def test_without_excluded_scores_equal_ones_leave_the_method_out(method):
    # 500 zeros with --dim 1000 once gave 2.97 and 7.34.
    with pytest.raises(InputError, match=rf"{method}: all 500 scores are equal, .* at least 2"):
        made(method, np.zeros(500), [], 1000)
    result = estimate(CanaryScores(np.zeros(500), []), delta=1e-5, dim=1000)
    assert "all 500 scores are equal" in result.left_out[method]


@pytest.mark.parametrize("method", METHODS)
def test_one_excluded_score_far_out_leaves_the_method_out(method):
    with pytest.raises(InputError, match=r"refute the closed-form null .* at least 2 excluded"):
        made(method, noise(50), [0.5], 10**6)


@pytest.mark.parametrize("method", METHODS)
def test_says_whether_the_null_was_tested(method):
    assert "their 500 scores do not refute it" in made(method, *noise(2, 500), 1000).assumes
    alone = made(method, noise(500), [], 1000)
    assert "no excluded scores to test it on" in alone.assumes
    assert "gaussian, rademacher or hadamard canaries" in alone.details["null_law"]
    assert "null" not in made(method, *noise(2, 500), None).assumes


@pytest.mark.parametrize("method", METHODS)
def test_refuted_is_as_if_nothing_were_known(method):
    included, excluded = 0.2 + noise(2, 300)
    found = made(method, included, excluded, 10**7)
    without = made(method, included, excluded, None)
    assert found.epsilon == without.epsilon
    json.dumps(found.to_json(), allow_nan=False)


def test_a_null_of_its_own_needs_no_dim_and_no_cosines():
    rounds = LargestOfRoundsNull((GaussianCanaryNull(1000),) * 50)
    included, excluded = noise(2, 500, 50).max(axis=-1)
    included = included + 0.3
    scores = CanaryScores(included, excluded)
    found = [
        estimate(scores, delta=1e-5, methods=["threshold_valid"], null_tail=tail).estimates[0]
        for tail in (rounds, None)
    ]
    assert "largest of 50 rounds" in found[0].assumes
    assert found[0].epsilon > 20 > found[1].epsilon > 4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shift", [0.5, 2.0, 8.0])
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
