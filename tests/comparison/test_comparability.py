"""What keeps runs from being compared is said in words."""

import pytest

from fl_audit.comparison.comparison import comparability_warnings
from fl_audit.comparison.reported_run import read_reported_runs


def warnings_of(*folders):
    return comparability_warnings(read_reported_runs(folders))


def test_runs_that_compare_raise_no_warning(make_run):
    others = make_run("b", {"config.seed": 2}, {"shift_fit": 0.1})
    assert warnings_of(make_run("a"), others) == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("run.task", "emnist", "task, “digits”, “emnist”"),
        ("run.accuracy_description", "share of words", "measure of accuracy"),
        ("run.dim", 123, "number of parameters, “10000”, “123”"),
        ("run.delta", 1e-5, "δ, “0.001”, “1e-05”"),
        ("config.audit.confidence", 0.99, "confidence of bounds, “0.95”, “0.99”"),
        ("run.num_canaries", 100, "number of canaries, “60”, “100”"),
        ("analytical.neighbours", "add or remove one", "neighbours of the analytical ε"),
        ("fl_audit_version", "9", "fl-audit version"),
        ("run.denominator", 30.0, "from 13.8 to 30.0 clients and canaries a round"),
    ],
)
def test_a_difference_is_named(make_run, path, value, words):
    changes = {path: value, "config.seed": 2}
    (warning,) = warnings_of(make_run("a"), make_run("b", changes, {"shift_fit": 0.1}))
    assert words in warning


def test_a_mechanism_that_is_not_as_configured_is_named(make_run, built_report):
    made = built_report["checks"]["results"][0]
    check = {**made, "name": "enough_noise", "p_value": 0.0}
    changes = {"config.seed": 2, "checks.results": [check, {**check, "name": "of tomorrow"}]}
    failing = make_run("b", changes, {"shift_fit": 0.1})
    (warning,) = warnings_of(make_run("a"), failing)
    assert warning == (
        f"The mechanism of {failing} is not as configured: Enough noise, of tomorrow failed. Its "
        "analytical ε is that of the config, not of what ran."
    )


def test_copies_are_no_repetitions(make_run):
    first, second = make_run("a"), make_run("b")
    (warning,) = warnings_of(first, second)
    assert warning == (
        f"{first} and {second} hold the same numbers: they are no independent repetitions."
    )


def test_a_missing_statistic_is_named(make_run, built_report):
    rest = {name: s for name, s in built_report["statistics"].items() if name != "max"}
    lacking = make_run("b", {"statistics": rest})
    (warning,) = warnings_of(make_run("a"), lacking)
    assert warning == f"The statistic “Largest round” is missing in {lacking}."


def test_statistics_that_the_same_run_lacks_are_one_sentence(make_run, built_report):
    kept = ("final", "final_minus_initial")
    rest = {name: built_report["statistics"][name] for name in kept}
    lacking = make_run("b", {"statistics": rest})
    (warning,) = warnings_of(make_run("a"), lacking)
    expected = f"The statistics “Largest round”, “Sum of rounds” are missing in {lacking}."
    assert warning == expected


def test_baselines_without_canaries_are_named_once_and_are_no_copies(make_run):
    none = {"run.num_canaries": 0, "run.num_included": 0, "statistics": {}}
    first, second = (make_run(f"b{seed}", none | {"config.seed": seed}) for seed in (2, 3))
    (warning,) = warnings_of(make_run("a"), first, second)
    assert warning == f"Without canaries, and so for accuracy alone: {first}, {second}."
