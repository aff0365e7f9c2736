"""The records of methods, and the groups that pages print them in."""

import dataclasses
import itertools
from typing import get_args

import msgspec
import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    Estimate,
    Method,
    estimate,
    register_method,
    remove_method,
    valid_methods,
)
from fl_audit.estimators.null import GaussianCanaryNull, LargestOfRoundsNull, Null
from fl_audit.estimators.result import (
    IF_GAUSSIAN,
    METHOD_GROUPS,
    WHATEVER_DISTRIBUTION,
    Kind,
    ValidFor,
)
from fl_audit.verification.findings import differences

SETTING = AuditSetting(CanaryScores([0.5, 1.0], [0.0, 0.25]), 1e-5, 0.95)


def made(method="toy", kind="lower_bound", valid_for=None):
    return Estimate(method, kind, 1.0, "Nothing.", "Nothing.", "None.", valid_for=valid_for)


@pytest.mark.parametrize("shift", [1.0, pytest.param(40.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_last_digits_of_scores_move_only_last_digits_of_results(method, shift):
    """Functions of other libraries round otherwise: what they give has to be the same."""
    random = np.random.default_rng(3)
    included, excluded = random.normal(size=(2, 150, 20)).max(axis=2)
    included = np.maximum(included, random.normal(shift, 1 + 0.01 * shift, 150))
    known = Null(tail=LargestOfRoundsNull((GaussianCanaryNull(10**4),) * 20), dim=10**4)
    for null in (known, Null()) if method == "shift_fit" else (known,):
        results = [
            msgspec.to_builtins(METHODS[method](AuditSetting(scores, 1e-3, 0.95, null)))
            for scores in (
                CanaryScores(included * unit, excluded * unit)
                for unit in (0.01, 0.01 * (1 + 2**-50))
            )
        ]
        assert {one.kind for one in differences(*results)} <= {"last digits"}


def test_the_mapping_cannot_be_changed_but_by_registering():
    with pytest.raises(TypeError):
        METHODS["toy"] = Method("toy", lambda _: made(), "lower_bound")


def test_only_lower_bounds_for_any_mechanism_are_valid():
    assert valid_methods() == ("threshold_valid", "one_run_valid")
    for kind, valid_for in itertools.product(get_args(Kind), (None, *get_args(ValidFor))):
        method = Method("toy", lambda _: made(), kind, valid_for)
        assert method.is_valid == (kind == "lower_bound" and valid_for in WHATEVER_DISTRIBUTION)


FAIR, UNFAIR, PAIRED = (
    "by independent fair coins",
    "by independent unfair coins",
    "as one of each pair",
)


@pytest.mark.parametrize(
    ("inclusion", "pi", "words", "any_coins"),
    [
        (
            "fixed_half",
            0.5,
            "as a fixed half",
            {"one_run_valid": f"{FAIR} or {UNFAIR} or {PAIRED}"},
        ),
        ("unequal_coins", 0.2, UNFAIR, {}),
        ("pairs", 0.5, PAIRED, {}),
    ],
)
def test_methods_that_guess_about_coins_leave_others_alone(inclusion, pi, words, any_coins):
    scores = CanaryScores(np.arange(20.0), np.arange(20.0) - 5, inclusion, pi)
    needs = {"one_run": FAIR, "one_run_fdp": FAIR, **any_coins}
    assert estimate(scores, delta=1e-5).left_out == {
        name: f"needs canaries included {coins}; these were included {words}"
        for name, coins in needs.items()
    }


def test_a_method_that_does_not_apply_is_refused():
    scores = CanaryScores(np.arange(20.0), np.arange(20.0) - 5, "fixed_half")
    assert valid_methods("fixed_half") == ("threshold_valid",)
    with pytest.raises(InputError, match=r"^one_run: needs canaries included by independent fair"):
        estimate(scores, delta=1e-5, methods=["one_run"])


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("valid_for", [None, *get_args(ValidFor)])
def test_every_kind_of_method_is_in_one_group(kind, valid_for):
    (group,) = (group for group in METHOD_GROUPS if group.has(kind, valid_for))
    assert group.title.startswith("Valid") == (valid_for is not None and kind != "estimate")
    assert ("Gaussian" in group.title) == (valid_for in IF_GAUSSIAN and kind != "estimate")
    assert ("bounds" in group.title) == (kind == "lower_bound")


def toy(*arguments, name="toy", makes=None):
    return Method(name, lambda _: makes or made(), *(arguments or ("lower_bound",)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: toy(makes=made("other"))(SETTING), "made an estimate that says"),
        (lambda: toy(makes=made(kind="estimate"))(SETTING), "made an estimate that says"),
        (lambda: toy(makes=made(valid_for="any mechanism"))(SETTING), "made an estimate that says"),
        (lambda: toy("upper_bound"), "kind must be one of"),
        (lambda: toy("lower_bound", "Laplace mechanisms"), "valid_for must be None or one of"),
        (lambda: register_method(toy(name="one_run")), "a method 'one_run' is registered already"),
        (lambda: register_method(toy(name="all")), "a method may not be named 'all', which"),
    ],
)
def test_records_that_contradict_themselves_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_method_is_registered_last_and_removed():
    before = list(METHODS)
    register_method(toy())
    assert list(METHODS) == [*before, "toy"]
    remove_method("toy")
    assert list(METHODS) == before


def test_a_method_rejects_what_its_bound_exceeds():
    assert toy().rejects(SETTING, 0.99)
    assert not toy().rejects(SETTING, 1.0)


@pytest.mark.parametrize("method", valid_methods())
def test_a_rejection_leaves_ways_of_inclusion_alone_that_the_method_does_not_allow(method):
    apart = np.arange(40.0) + 100, np.arange(40.0)
    settings = [
        AuditSetting(CanaryScores(*apart, inclusion), 1e-5, 0.95)
        for inclusion in ("fixed_half", "coins", "fixed_half", "pairs")
    ]
    found = METHODS[method].rejection(0.5, 1e-5, 0.05)(settings)
    assert found.tolist() == [METHODS[method].rejects(setting, 0.5) for setting in settings]
    assert found[1]


def test_a_slow_rejection_is_at_its_own_delta_and_level():
    def bound(setting):
        return dataclasses.replace(made(), epsilon=setting.delta + setting.confidence)

    test = Method("toy", bound, "lower_bound").rejection(0.74, delta=0.25, level=0.5)
    assert test([SETTING, SETTING]).tolist() == [True, True]
    assert not Method("toy", bound, "lower_bound").rejection(0.76, 0.25, 0.5)([SETTING]).any()
