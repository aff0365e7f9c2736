"""What every method must hold to, whatever the scores; hypothesis looks for the exception."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores, NotApplicableError
from fl_audit.estimators.null import Null
from tests.seeds_tried import examples

steady = examples(15)

# Few distinct values make ties, all equal scores and empty classes likely.
coarse = st.integers(-4, 4).map(lambda i: i / 8)
fine = st.floats(-1, 1, allow_subnormal=False)
lists = st.one_of(
    st.lists(coarse, min_size=2, max_size=25), st.lists(fine, min_size=2, max_size=25)
)
deltas = st.sampled_from([0.0, 1e-15, 1e-6, 1e-2, 0.3, 0.999])

ON_RANKS = (
    "threshold_jeffreys",
    "threshold_clopper_pearson",
    "threshold_valid",
    "one_run",
    "one_run_valid",
    "one_run_fdp",
    "threshold_gdp",
    "bayes",
    "epsilon_star_empirical",
)
"""Methods that use nothing but the order of the scores under the empirical null."""

MIRRORED = (
    "threshold_jeffreys",
    "threshold_clopper_pearson",
    "one_run",
    "gaussian_fit",
    "bayes",
    "epsilon_star_empirical",
)
"""Methods for which excluded canaries are to included ones as these are to those.

The valid ones spend more of their confidence where members give themselves away.
"""


def one(method, included, excluded, delta, *, dim=None, confidence=0.95):
    null = Null("empirical" if dim is None else "closed_form", dim=dim)
    setting = AuditSetting(CanaryScores(included, excluded), delta, confidence, null)
    return METHODS[method](setting)


def lowest(made):
    """What a method proves or estimates: the lower end where there is one."""
    return made.epsilon if made.lower is None else made.lower


@pytest.mark.parametrize("method", METHODS)
@steady
@given(included=lists, excluded=lists, delta=deltas, dim=st.sampled_from([None, 2, 50, 10**6]))
def test_never_nan_never_negative_always_json_and_less_at_more_delta(
    method, included, excluded, delta, dim
):
    try:
        made = one(method, included, excluded, delta, dim=dim)
        less = lowest(one(method, included, excluded, (1 + delta) / 2, dim=dim))
    except NotApplicableError:
        assume(False)
    assert less <= lowest(made) * (1 + 1e-6) + 1e-6
    assert made.epsilon >= 0
    if made.kind == "lower_bound":
        assert made.lower == made.epsilon
    if made.kind == "interval":
        assert 0 <= made.lower <= made.epsilon <= made.upper
    json.dumps(made.to_json(), allow_nan=False)


@pytest.mark.parametrize("method", MIRRORED)
@steady
@given(included=lists, excluded=lists, delta=deltas)
def test_the_two_roles_may_be_exchanged(method, included, excluded, delta):
    there = one(method, included, excluded, delta).epsilon
    back = one(method, -np.array(excluded), -np.array(included), delta).epsilon
    assert math.isclose(there, back, rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.parametrize("method", ON_RANKS)
@steady
@given(included=lists, excluded=lists, delta=deltas)
def test_only_the_order_of_scores_counts(method, included, excluded, delta):
    there = one(method, included, excluded, delta).epsilon
    ranks = np.unique([*included, *excluded], return_inverse=True)[1]
    stretched = one(method, ranks[: len(included)], ranks[len(included) :], delta).epsilon
    assert math.isclose(there, stretched, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_farther_apart_means_more_epsilon(method):
    rng = np.random.default_rng(11)
    included, excluded = rng.normal(size=300), rng.normal(size=300)
    shifts = (0.0, 1.0, 4.0)
    found = [lowest(one(method, included + shift, excluded, 1e-3)) for shift in shifts]
    assert found == sorted(found)
    assert found[-1] > found[0]


@pytest.mark.parametrize("method", METHODS)
def test_all_scores_equal_prove_nothing(method):
    assert lowest(one(method, [0.25] * 30, [0.25] * 30, 1e-3)) == 0


@pytest.mark.parametrize("dim", [pytest.param(None, marks=pytest.mark.slow), 10_000])
@pytest.mark.parametrize("method", METHODS)
def test_more_delta_or_confidence_means_less(method, dim):
    rng = np.random.default_rng(12)
    scores = rng.normal(0.02, 0.01, 300), rng.normal(0, 0.01, 300)
    by_delta = [lowest(one(method, *scores, d, dim=dim)) for d in (1e-9, 1e-4, 0.1)]
    assert by_delta == sorted(by_delta, reverse=True)
    assert by_delta[-1] < by_delta[0]
    if METHODS[method].kind != "estimate":
        levels = (0.6, 0.95, 1 - 1e-6)
        by_level = [
            lowest(one(method, *scores, 1e-5, dim=dim, confidence=level)) for level in levels
        ]
        assert np.all(np.diff(by_level) < 0)


BY_THRESHOLD = [name for name in METHODS if name.startswith("threshold")]
BY_GUESSES = ["bayes", *(name for name in METHODS if name.startswith("one_run"))]
BY_LOSSES = ["epsilon_star", "epsilon_star_empirical"]
BY_FIT = ["gaussian_fit", "gdp_fit", "shift_fit"]


@pytest.mark.parametrize(
    ("methods", "included", "excluded", "message"),
    [
        (BY_FIT + BY_LOSSES, [1.0], [0.0, 1.0], "needs at least 2 included scores, got 1"),
        (BY_FIT + BY_THRESHOLD, [1.0, 2.0], [0.0], "null needs at least 2 excluded scores, got 1"),
        (BY_LOSSES, [1.0, 2.0], [0.0], "needs at least 2 excluded scores, got 1"),
        (BY_THRESHOLD + BY_GUESSES, [], [0.0, 1.0], "needs at least 1 included score, got 0"),
        (BY_GUESSES, [1.0], [], "needs at least 1 excluded score, got 0"),
    ],
)
def test_too_few_scores_are_refused(methods, included, excluded, message):
    for method in methods:
        with pytest.raises(NotApplicableError, match=message):
            one(method, included, excluded, 1e-5)
