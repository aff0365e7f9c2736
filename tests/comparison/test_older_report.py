"""A report in the format of a fixed day: it is read, compared, and written again as it was."""

import copy
import json
import math

from fl_audit.comparison import compare, comparison_json, comparison_lines
from fl_audit.report import report_from_json, report_to_json
from tests.comparison.older_report import OLDER_REPORT


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
    assert settings == "all runs 2 40 1 32.5 94.3 % ≤ 40.7 ≤ 14.5"
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
