import json
import math

import pytest

from fl_audit.estimators.result import Estimate


def estimate(epsilon: float, **fields: object) -> Estimate:
    return Estimate("m", "estimate", epsilon, "assumes", "guarantee", "source", **fields)


def test_json_object_has_the_contracts_keys():
    made = estimate(1.5, details={"threshold": -math.inf, "n": 3, "none": None, "of": {"x": 1.0}})
    found = made.to_json()
    assert list(found) == ["method", "kind", "epsilon", "lower", "upper", "details"]
    assert found["details"] == {
        "threshold": "-inf", "n": 3, "none": None, "of": {"x": 1.0},
        "valid_for": None, "assumes": "assumes", "guarantee": "guarantee", "source": "source",
    }  # fmt: skip
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"details": None}, r"expected an object, got 'None' - at `\$.details`"),
        ({"details": {"source": "s", "guarantee": "g"}}, r"lacks the key `assumes` - at `\$`"),
    ],
)
def test_an_object_without_details_is_refused(changed, words):
    with pytest.raises(ValueError, match=words):
        Estimate.from_json({**estimate(1.0).to_json(), **changed})
    without = {key: value for key, value in estimate(1.0).to_json().items() if key != "details"}
    with pytest.raises(ValueError, match=r"at `\$.details`"):
        Estimate.from_json(without)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan])
def test_refuses_an_impossible_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon must be"):
        estimate(epsilon)


def test_nan_is_never_printed():
    with pytest.raises(ValueError, match="NaN"):
        estimate(0.0, details={"mean": math.nan}).to_json()


def test_a_record_has_infinities_as_floats():
    made = estimate(math.inf, lower=1.0, details={"n": 3})
    assert made.record()["epsilon"] == math.inf
    assert "details" not in made.record()


def test_a_notebook_shows_what_kind_of_number_it_is():
    bound = Estimate("<m>", "lower_bound", 2.5, "a", "holds", "s", 2.5, valid_for="any mechanism")
    html = bound._repr_html_()
    assert "≥ 2.50" in html
    assert "Valid lower bounds" in html
    assert "&lt;m&gt;" in html
    assert "holds Assumes: a. s." in html
