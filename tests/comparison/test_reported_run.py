"""Reading finished runs: bad input is one line that names the folder."""

import json

import pytest

from fl_audit.comparison import compare
from fl_audit.comparison.reported_run import read_reported_runs
from fl_audit.errors import InputError
from fl_audit.report import report_from_json


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
        ("again", "is the same folder as"),
