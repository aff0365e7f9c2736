"""report.json and the typed report: one is the other."""

import dataclasses
import json
import math

import msgspec
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
        text = json.dumps(report_to_json(read), indent=2) + "\n"
        assert text == made.folder.report_json.read_text()


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


def test_what_the_json_repeats_is_said_once_in_memory(widely_reported):
    """Another delta, confidence and dim in one place are other ones wherever the JSON has them."""
    report = widely_reported.report
    audit = msgspec.structs.replace(report.config.audit, confidence=0.9)
    changed = msgspec.structs.replace(
        report,
        run=dataclasses.replace(report.run, delta=0.25, dim=7, accuracy=0.5),
        config=msgspec.structs.replace(report.config, audit=audit),
    )
    fields = report_to_json(changed)
    assert fields["accuracy"] == fields["run"]["accuracy"] == 0.5
    assert fields["analytical"]["delta"] == fields["run"]["delta"] == 0.25
    for statistic in fields["statistics"].values():
        assert (statistic["delta"], statistic["confidence"], statistic["dim"]) == (0.25, 0.9, 7)
        assert statistic["roc"]["confidence"] == 0.9


def test_nan_is_refused(reported):
    analytical = msgspec.structs.replace(reported.report.analytical, epsilon=math.nan)
    with pytest.raises(ValueError, match="must be a number, got NaN"):
        report_to_json(msgspec.structs.replace(reported.report, analytical=analytical))


def test_a_value_of_the_wrong_type_is_named(reported):
    fields = report_to_json(reported.report)
    fields["statistics"]["final"]["estimates"][0]["lower"] = "much"
    with pytest.raises(ValueError, match=r"got `str` - at `\$\.statistics\[.*\.lower`"):
        report_from_json(fields, "report.json")
