"""Reading finished runs."""

import json
from pathlib import Path

import pytest

from fl_audit.comparison import compare
from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.errors import InputError
from fl_audit.report import report_from_json

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


def test_one_folder_is_too_few(make_run):
    with pytest.raises(InputError, match="at least two run folders, got 1"):
        compare([make_run("a")])


def test_the_same_folder_twice(make_run):
    good = make_run("a")
    assert "is the same folder as" in read_with(good, good / ".." / "a")


def test_a_folder_of_something_else(make_run, tmp_path: Path):
    assert "is no run folder" in read_with(make_run("a"), tmp_path)


def test_an_unfinished_run(make_run):
    good, bad = make_run("a"), make_run("b")
    (bad / "report.json").unlink()
    assert "not finished" in read_with(good, bad)


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
