"""The registry and the common door of all estimators."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators import METHODS, CanaryScores, estimate


@pytest.fixture(scope="module")
def scores() -> CanaryScores:
    rng = np.random.default_rng(0)
    return CanaryScores(rng.normal(0.03, 0.01, 200), rng.normal(0, 0.01, 200))


def test_estimators_do_not_import_tensorflow():
    code = (
        "import sys, fl_audit.estimators, fl_audit.formats.score_file;"
        "heavy = {'tensorflow', 'tensorflow_federated', 'scipy.stats', 'sklearn', 'pyarrow'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def found(scores):
    return estimate(scores, delta=1e-5)


@pytest.mark.parametrize(("dim", "delta"), [(None, 0.0), (500, 1e-12), (10_000, 0.5)])
def test_every_method_keeps_the_contract(scores, dim, delta):
    result = estimate(scores, delta=delta, dim=dim)
    assert [made.method for made in result.estimates] == list(METHODS)
    printed = result.to_json()
    assert list(printed) == [
        "delta", "confidence", "dim", "num_included", "num_excluded", "roc", "estimates",
    ]  # fmt: skip
    json.dumps(printed, allow_nan=False)
    for made in result.estimates:
        assert made.epsilon >= 0
        assert (made.lower is None) == (made.kind == "estimate")
        assert made.assumes.endswith(".")
        assert made.guarantee.endswith(".")
        assert "arXiv" in made.source


def test_every_method_ignores_the_order_of_scores(scores, found):
    shuffled = estimate(CanaryScores(scores.included[::-1], scores.excluded[::-1]), delta=1e-5)
    for first, second in zip(found.estimates, shuffled.estimates, strict=True):
        assert second.epsilon == pytest.approx(first.epsilon, rel=1e-9), first.method


def test_null_defaults_to_closed_form_where_dim_is_given(scores):
    nulls = ({}, {"dim": 5000}, {"dim": 5000, "null": "empirical"})
    made = (estimate(scores, delta=1e-5, methods=["gaussian_fit"], **null) for null in nulls)
    found = [one.estimates[0].details["null"] for one in made]
    assert found == ["empirical", "closed_form", "empirical"]


def test_default_methods_leave_out_what_does_not_apply():
    result = estimate(CanaryScores([0.1], []), delta=1e-5, dim=100)
    assert [made.method for made in result.estimates] == [
        "threshold_jeffreys",
        "threshold_clopper_pearson",
        "threshold_valid",
        "threshold_gdp",
    ]
    two, one = "needs at least 2 included scores, got 1", "needs at least 1 excluded score, got 0"
    assert result.left_out == {
        "gaussian_fit": two,
        "gdp_fit": two,
        "shift_fit": two,
        "one_run": one,
        "one_run_valid": one,
        "one_run_fdp": one,
        "bayes": one,
        "epsilon_star": two,
        "epsilon_star_empirical": two,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got 1.0"),
        ({"delta": -1e-9}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
        ({"confidence": 95}, r"confidence must be in \(0, 1\), such as 0.95, got 95"),
        ({"confidence": 0.0}, "confidence must be"),
        ({"dim": 1}, "dim must be in 2 to 2.53, got 1"),
        ({"dim": 2**63 - 1}, "dim must be in 2 to 2.53, got 9223372036854775807"),
        ({"null": "closed_form"}, "closed_form null needs dim"),
        ({"null": "gaussian"}, "null must be 'closed_form' or 'empirical', got 'gaussian'"),
        ({"methods": ["gausian_fit"]}, "unknown method 'gausian_fit': did you mean 'gaussian_fit'"),
        ({"methods": []}, "methods must name at least one of: gaussian_fit"),
    ],
)
def test_refuses_bad_arguments(scores, arguments, message):
    with pytest.raises(InputError, match=message):
        estimate(scores, **{"delta": 1e-5, **arguments})


def test_closed_form_refuses_scores_that_are_no_cosines():
    with pytest.raises(InputError, match="use the empirical null"):
        estimate(CanaryScores([3.2, 0.1], [0.0]), delta=1e-5, dim=10_000)


def test_nothing_to_apply_says_why():
    with pytest.raises(InputError, match=r"there are no excluded canaries, .*give dim") as caught:
        estimate(CanaryScores([0.1, 0.2], []), delta=1e-5)
    assert not any(method in str(caught.value) for method in METHODS)
    with pytest.raises(InputError, match="there are no included canaries"):
        estimate(CanaryScores([], [0.1, 0.2]), delta=1e-5)


def test_records_are_rows_of_one_table(found):
    records = found.records()
    assert [row["method"] for row in records] == list(METHODS)
    assert len({tuple(row) for row in records}) == 1
    assert {row["delta"] for row in records} == {1e-5}


def test_a_notebook_shows_every_method_once(found):
    html = found._repr_html_()
    assert all(html.count(f">{method}<") == 1 for method in METHODS)
    assert html.index("Valid lower bounds.") < html.index("Estimates and intervals")
