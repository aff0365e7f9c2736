"""Reading finished runs, also in the format of a fixed day."""

import copy
import json
import math
from pathlib import Path

import pytest

from fl_audit.comparison import compare, comparison_json, comparison_lines
from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.errors import InputError
from fl_audit.report import report_from_json, report_to_json
from fl_audit.report.checks import failed_checks
from tests.comparison.older_report import OLDER_REPORT

# Reading finished runs: bad input is one line that names the folder.


def read_with(good, bad):
    with pytest.raises(InputError) as caught:
        read_reported_runs([good, bad])
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(bad))
    return message


def test_reads_what_the_report_room_builds(make_run, built_report):
    first, _ = read_reported_runs([make_run("a"), make_run("b")])
    expected = next(
        estimate["epsilon"]
        for estimate in built_report["statistics"]["final"]["estimates"]
        if estimate["method"] == "shift_fit"
    )
    assert first.epsilon("final", "shift_fit") == expected
    assert first.guarantee("client") == built_report["analytical"]["client"]["epsilon"]
    assert first.config["participation.kind"] == "shuffle"
    assert first.report_json == built_report
    assert first.report == report_from_json(built_report, "report")


def test_infinite_and_missing_epsilons(make_run):
    run, _ = read_reported_runs([make_run("a", None, {"shift_fit": "inf"}), make_run("b")])
    assert run.epsilon("final", "shift_fit") == math.inf
    assert run.epsilon("final", "unheard_of") is None
    assert run.epsilon("unheard_of", "shift_fit") is None


def test_one_folder_is_too_few(make_run):
    with pytest.raises(InputError, match="at least two run folders, got 1"):
        compare([make_run("a")])


def test_the_same_folder_twice(make_run):
    good = make_run("a")
    assert "is the same folder as" in read_with(good, good / ".." / "a")


def test_a_folder_that_is_not_there(make_run, tmp_path: Path):
    assert "no such folder" in read_with(make_run("a"), tmp_path / "missing")


def test_a_folder_of_something_else(make_run, tmp_path: Path):
    assert "is no run folder" in read_with(make_run("a"), tmp_path)


def test_an_unfinished_run(make_run):
    good, bad = make_run("a"), make_run("b")
    (bad / "report.json").unlink()
    assert "not finished" in read_with(good, bad)


def test_a_file_instead_of_a_folder(make_run):
    good = make_run("a")
    assert "cannot be read" in read_with(good, good / "config.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not the report of a run"),
        ("[]", "is not the report of a run"),
        ("{}", "format_version of the run is None, must be"),
        ('{"run": {"format_version": 99}}', "format_version of the run is 99, must be"),
    ],
)
def test_a_damaged_report(make_run, text, words):
    good, bad = make_run("a"), make_run("b")
    (bad / "report.json").write_text(text)
    assert words in read_with(good, bad)


def test_a_report_that_lacks_a_key(make_run):
    good, bad = make_run("a"), make_run("b")
    report = json.loads((bad / "report.json").read_text())
    del report["analytical"]
    (bad / "report.json").write_text(json.dumps(report))
    assert "lacks the object `analytical`" in read_with(good, bad)


def test_an_epsilon_that_is_no_number(make_run):
    bad = make_run("b", None, {"shift_fit": "much"})
    assert "expected a number, got 'much' - at `$.statistics.final." in read_with(
        make_run("a"), bad
    )


def test_a_config_that_is_older_than_a_key_has_its_default(make_run):
    old, new = make_run("a"), make_run("b")
    report = json.loads((old / "report.json").read_text())
    del report["config"]["participation"]["canary_repeats"]
    (old / "report.json").write_text(json.dumps(report))
    runs = read_reported_runs([old, new])
    assert runs[0].config == runs[1].config


def test_a_config_of_something_else(make_run):
    bad = make_run("b", {"config.participation.kind": "lottery"})
    assert "config: key `participation.kind`: unknown 'lottery'" in read_with(make_run("a"), bad)


def test_a_report_from_before_there_were_checks(make_run, built_report):
    old = make_run("old")
    report = json.loads((old / "report.json").read_text())
    del report["checks"]
    (old / "report.json").write_text(json.dumps(report))
    first, second = read_reported_runs([old, make_run("new")])
    assert failed_checks(first.report.checks) == failed_checks(second.report.checks) == []


# A report in the format of a fixed day: it is read, compared, and written again as it was.


def write(folder, report):
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def test_it_compares_with_one_of_another_seed(tmp_path):
    other = copy.deepcopy(OLDER_REPORT)
    other["config"]["seed"] = 2
    other["statistics"]["max"]["estimates"][1]["epsilon"] = 1.0
    comparison = compare([write(tmp_path / "a", OLDER_REPORT), write(tmp_path / "b", other)])
    assert comparison.warnings == ()
    lines = comparison_lines(comparison)
    assert lines[0] == "digits: 1 setting, 2 runs"
    settings, _, found = (" ".join(line.split()) for line in lines if line.startswith("all runs"))
    assert settings == "all runs 2 40 1 32.5 94.3 % ≤ 40.8 ≤ 14.5"
    assert found == "all runs 2.21 (1.00 … 3.43) 4.09 ∞ *"
    assert any("ε ≤ 0.5: contradicted (2 runs)" in line for line in lines)
    printed = comparison_json(comparison)
    assert [run["report"] for run in printed["runs"]] == [OLDER_REPORT, other]


def test_it_is_written_as_it_was():
    report = report_from_json(OLDER_REPORT, "report.json")
    written = report_to_json(report)
    added = ["arrival", "checks", "faults"]
    assert list(written) == [*list(OLDER_REPORT)[:5], *added, *list(OLDER_REPORT)[5:]]
    assert written["verdict"].pop("detectable_epsilon") is None  # a key since then
    claim = {"kind": "epsilon_delta", "epsilon": 0.5, "delta": written["verdict"]["claimed_delta"]}
    assert written["verdict"].pop("claim") == claim  # likewise
    for key in ("statistics", "threat_models", "verdict", "analytical"):
        assert written[key] == OLDER_REPORT[key]
    assert written["checks"]["results"] == []
    (fit, *_) = report.statistics["max"].estimates
    assert (fit.epsilon, fit.details["std"]) == (math.inf, -math.inf)


def test_keys_of_before_threat_models_and_attacks_may_be_missing_and_later_ones_are_ignored():
    report = copy.deepcopy(OLDER_REPORT)
    del report["threat_models"], report["statistics"]["max"]["threat_model"]
    del report["statistics"]["max"]["roc"]
    report["of_tomorrow"] = report["analytical"]["of_tomorrow"] = 1
    report["run"]["of_tomorrow"] = report["statistics"]["max"]["of_tomorrow"] = 1
    read = report_from_json(report, "report.json")
    assert (read.threat_models, read.statistics["max"].threat_model) == ({}, "")
    assert read.statistics["max"].roc is None
    assert read.analytical == report_from_json(OLDER_REPORT, "report.json").analytical
