"""report.json and the typed report: one is the other."""

import dataclasses
import json
import math

import pytest

from fl_audit.config.file import config_to_toml, load_config
from fl_audit.report import report_from_json, report_to_json, write_report


def read_again(folder):
    fields = json.loads(folder.report_json.read_text())
    return report_from_json(fields, str(folder.report_json))


def test_a_report_is_read_back_as_it_was_built(reported, widely_reported):
    for made in (reported, widely_reported):
        read = read_again(made.folder)
        assert read == made.report
        assert report_to_json(read) == json.loads(made.folder.report_json.read_text())


def test_so_is_one_with_a_verdict_and_infinities(run_folder, change_record):
    change_record(noise_multiplier=0.0, sum_noise_multiplier=0.0, count_noise_stddev=0.0)
    config = load_config(run_folder.config, ["audit.claimed_epsilon=0.5"])
    run_folder.config.write_text(config_to_toml(config))
    report = write_report(run_folder)
    read = read_again(run_folder)
    assert read == report
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
