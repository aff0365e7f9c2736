"""Which attacked points have a picture, and what contradicts accounting."""

from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.report.attack import AccountedBound, AttackedMember, _guarantee, _picture


@pytest.mark.parametrize(
    ("shape", "is_picture"),
    [
        ((64,), True),
        ((6, 8, 1), True),
        ((6, 8, 3), True),
        ((30,), False),
        ((9,), False),
        ((6, 8), False),
        ((3, 8, 3), False),
        ((6, 8, 2), False),
        (None, False),
    ],
)
def test_images_have_a_picture(shape, is_picture):
    features = None if shape is None else np.random.default_rng(0).random(shape)
    member = AttackedMember(1, {"label": 2}, features, accuracy=1.0, separation=2.0)
    assert (_picture(member) is not None) == is_picture


@pytest.mark.parametrize(
    ("first", "words"), [(1.0, "does not exceed it"), (3.0, "of 3.00 contradicts it")]
)
def test_the_first_statistic_alone_contradicts(first, words):
    def result(lower):
        return SimpleNamespace(estimates=[SimpleNamespace(method="threshold_valid", lower=lower)])

    report = SimpleNamespace(
        results={"lira": result(first), "rmia": result(9.0)},
        upper_bound=AccountedBound(2.0, 1.0, "DP-SGD", "one point more or less"),
        confidence=0.95,
    )
    assert words in _guarantee(report)


@pytest.mark.parametrize("why", [None, "the zeroing norm follows a quantile"])
def test_a_missing_bound_has_the_reason_of_accounting(why):
    unknown = AccountedBound(np.inf, 1.0, "the config", "zeroed out", why)
    report = SimpleNamespace(upper_bound=unknown, words=SimpleNamespace(member="client"))
    expected = why or "no noise of a known distribution covers a single client"
    assert _guarantee(report) == f"Accounting gives no upper bound: {expected}."
