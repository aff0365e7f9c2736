"""Reading finished runs: bad input is one line that names the folder."""

import copy
import json

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.comparison import compare
from fl_audit.comparison.as_text import epsilon_cell, settings_rows
from fl_audit.comparison.comparison import comparability_warnings
from fl_audit.comparison.ranking import detection_of
from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.errors import InputError
from fl_audit.report import report_from_json
from tests.comparison.conftest import list_rounds

NOISE = "config.mechanism.noise_multiplier"
POISSON = {"kind": "PoissonSampling", "probability": 0.8}


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


@pytest.mark.parametrize(
    ("changes", "listed", "mean", "scored"),
    [
        ({}, "2 3 8", 2.0, (4, 4)),
        ({}, None, 1.0, (0, 0)),  # as the record says
        ({"run.stopped_after": 3}, "2 3 8", 1.5, (3, 4)),
        ({"run.stopped_after": 3}, None, None, (0, 0)),
        ({"run.stopped_after": 5, "run.release.canary.sampling": POISSON}, None, 4.0, (0, 0)),
        ({"run.num_canaries": 0, "run.num_included": 0, "statistics": {}}, None, None, (0, 0)),
    ],
)
def test_only_rounds_that_were_trained_count(make_run, changes, listed, mean, scored):
    folder = make_run("a", changes)
    if listed is not None:
        list_rounds(folder, listed)
    run, _ = read_reported_runs([folder, make_run("b")])
    assert (run.participations, run.scored_of_listed) == (mean, scored)


def test_only_rounds_that_are_in_the_log_count(tmp_path, make_run):
    pool = CanaryPool(seed=1, count=40, dim=300)
    rounds = [[1 + canary % 4, 5] for canary in range(40)]
    scorer = RoundScorer.create(tmp_path / "log", pool, 5, rounds)
    for number in (1, 2, 5):
        scorer.score_round(number, np.random.default_rng(number).normal(size=300))
    folder = scorer.folder.path
    _, log = read_reported_runs([make_run("a"), folder])
    own = [rounds[canary] for canary in np.flatnonzero(pool.included)]
    scored = sum(number in (1, 2, 5) for each in own for number in each)
    assert log.scored_of_listed == (scored, 2 * len(own))
    assert log.participations == pytest.approx(scored / len(own))
    (warning,) = [w for w in comparability_warnings([log]) if "were scored" in w]
    assert warning.startswith(
        f"Of the {2 * len(own)} rounds of included canaries in {folder}, {scored} were scored:"
    )


def test_lower_bounds_of_a_stopped_run_are_left_out(make_run, built_report):
    statistics = copy.deepcopy(built_report["statistics"])
    for statistic in statistics.values():
        for estimate in statistic["estimates"]:
            estimate["details"]["valid_for"] = None
    stopped = make_run("a", {"run.stopped_after": 1, "statistics": statistics})
    comparison = compare([stopped, make_run("b", {NOISE: 0.1})])
    noisy, stopped = comparison.settings
    assert epsilon_cell(noisy, "max", "threshold_valid").startswith("≥ ")
    for method in ("threshold_valid", "one_run_valid"):
        assert epsilon_cell(stopped, "max", method) == "–"
    assert epsilon_cell(stopped, "max", "shift_fit") == epsilon_cell(noisy, "max", "shift_fit")
    assert detection_of(stopped, "max").lower_bound is None
    rounds = {setting.label: cells[1] for setting, cells in settings_rows(comparison)}
    assert rounds == {"noise 0.1": "8", "noise 0.5": "1 of 8"}


def test_one_folder_is_too_few(make_run):
    with pytest.raises(InputError, match="at least two run folders, got 1"):
        compare([make_run("a")])


def without_accounting(text):
    report = json.loads(text)
    del report["analytical"]
    return json.dumps(report)


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (None, "not finished"),
        (lambda _: "{", "is not the report of a run"),
        (lambda _: "[]", "is not the report of a run"),
        (lambda _: "{}", "format_version is None, must be"),
        (
            lambda _: '{"run": {"format_version": 99}}',
            "format_version is 99, must be",
        ),
        (without_accounting, "lacks the object `analytical`"),
        ("same", "is the same folder as"),
        ("again", "is the same folder as"),
        ("other", "is no run folder"),
    ],
)
def test_a_folder_without_a_whole_report(make_run, tmp_path, damaged, words):
    good, bad = make_run("a"), make_run("b")
    if callable(damaged):
        (bad / "report.json").write_text(damaged((bad / "report.json").read_text()))
    elif damaged is None:
        (bad / "report.json").unlink()
    else:
        bad = {"same": good / ".." / "a", "again": good, "other": tmp_path}[damaged]
    with pytest.raises(InputError) as caught:
        read_reported_runs([good, bad])
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(bad))
    assert words in message
