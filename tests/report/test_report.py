"""The typed report: as report.json and back, in a notebook, and under every threat model."""

import dataclasses
import json
import math

import pytest

from fl_audit.config.file import config_to_toml, load_config
from fl_audit.report import report_from_json, report_to_json, summary_lines, write_report
from tests.report.conftest import NO_NOISE


def read_again(folder):
    fields = json.loads(folder.report_json.read_text())
    return report_from_json(fields, str(folder.report_json))


def test_a_report_is_read_back_as_it_was_built(reported, widely_reported):
    for made in (reported, widely_reported):
        read, report = rounded(read_again(made.folder)), rounded(made.report)
        assert read == report
        assert report_to_json(read) == report_to_json(report)
        assert report_to_json(made.report) == json.loads(made.folder.report_json.read_text())


def rounded(report):
    """The report with its checks' log p-values to nine digits: the file has the p-values."""
    results = [
        dataclasses.replace(check, log_p=round(check.log_p, 9)) for check in report.checks.results
    ]
    checks = dataclasses.replace(report.checks, results=tuple(results))
    return dataclasses.replace(report, checks=checks)


def test_so_is_one_with_a_verdict_and_infinities(run_folder, change_record):
    change_record(noise=NO_NOISE)
    config = load_config(run_folder.config, ["audit.claimed_epsilon=0.5"])
    run_folder.config.write_text(config_to_toml(config))
    report = write_report(run_folder)
    read = read_again(run_folder)
    assert rounded(read) == rounded(report)
    assert read.verdict.outcome == "contradicted"
    assert read.analytical.client.epsilon == math.inf
    assert report_to_json(read) == json.loads(run_folder.report_json.read_text())


def test_nan_is_refused(reported):
    run = dataclasses.replace(reported.report.run, accuracy=math.nan)
    with pytest.raises(ValueError, match="must be a number, got NaN"):
        report_to_json(dataclasses.replace(reported.report, run=run))


def test_a_value_of_the_wrong_type_is_named(reported):
    fields = report_to_json(reported.report)
    fields["statistics"]["final"]["estimates"][0]["lower"] = "much"
    with pytest.raises(ValueError, match=r"got 'much' - at `\$\.statistics\.final.*\.lower`"):
        report_from_json(fields, "report.json")


# A run that is audited under every threat model: its reports, verdict and summary.


THREAT_MODELS = {
    "final": "final",
    "final_minus_initial": "final_and_initial",
    "max": "all_iterates",
    "sum": "all_iterates",
    "checkpoints_max": "checkpoints",
    "checkpoints_sum": "checkpoints",
    "window_max": "window",
    "window_sum": "window",
}


@pytest.mark.parametrize(("width", "tables"), [(200, 1), (100, 2), (80, 4), (65, 4), (20, 5)])
def test_the_summary_fits_a_narrow_terminal(widely_reported, width, tables):
    lines = summary_lines(widely_reported.report, width)
    heads = [i for i, line in enumerate(lines) if line.startswith("statistic ")]
    assert len(heads) == tables
    assert [name for i in heads for name in lines[i].split()[1:]] == list(THREAT_MODELS)
    models = [name for i in heads for name in lines[i - 1].split()[2:]]
    assert models == list(dict.fromkeys(THREAT_MODELS.values()))
    for start in heads:
        table = lines[start - 1 : lines.index("", start)]
        rows = [line for line in table if line.startswith(("threat", "statistic", "  "))]
        assert len({len(line) for line in rows}) == 1
        assert width < 65 or len(rows[0]) <= width
    # Each method once in every table.
    assert sum(line.startswith("  one_run_valid ") for line in lines) == tables
    assert lines[-1] == "window: 87 of 94 included canaries participated in rounds 3 to 5"
