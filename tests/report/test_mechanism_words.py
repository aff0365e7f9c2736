"""Sentences on mechanisms, and "none known" wherever a reader looks for the analytical epsilon."""

import dataclasses

import pytest

from fl_audit.config import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    NoPrivacy,
    TreeAggregation,
)
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.errors import InputError
from fl_audit.formats.folders import read_record
from fl_audit.report import summary_lines, write_report
from fl_audit.report.report import report_to_json
from fl_audit.report.words import mechanism_words
from tests.mechanisms.doubled_noise import doubled_noise
from tests.report.conftest import CONFIG


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (
            GaussianFixed(noise_multiplier=0.3, clip_norm=2.0, zeroing=FixedZeroing(norm=5.0)),
            "An update with a coordinate above 5 counts as zero. Updates are clipped to norm 2; "
            "Gaussian noise of 0.3 clip norms is added to their sum.",
        ),
        (
            TreeAggregation(noise_multiplier=0.3, clip_norm=2.0, restart_every=15),
            "tree aggregation (DP-FTRL) adds Gaussian noise of 0.3 clip norms to every node of a "
            "binary tree over the rounds, a new tree every 15 rounds.",
        ),
        (TreeAggregation(noise_multiplier=0.3, clip_norm=2.0), "a binary tree over all rounds."),
        (
            GaussianAdaptive(noise_multiplier=0.3, clip_norm=0.5, zeroing=AdaptiveZeroing()),
            "above 2 times a running estimate of the 0.98 quantile of all, plus 1; the estimate is "
            "not noised. Updates are clipped to a norm that starts at 0.5 and follows the 0.5",
        ),
        (
            Distributed(noise_multiplier=0.3),
            "made of Skellam noise of 0.301 clip norms on the sum of updates and of 1.60 clients "
            "on the count that moves the clip norm. Each participant adds its share",
        ),
    ],
)
def test_words(run_folder, mechanism, said):
    assert said in mechanism_words(read_record(run_folder), mechanism)


def test_words_without_privacy(run_folder):
    record = dataclasses.replace(read_record(run_folder), noise_multiplier=0.0)
    words = mechanism_words(record, NoPrivacy(canary_norm=4.0))
    assert words == "Updates are not clipped, and a canary’s is 4 long; no noise is added."


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"noise_law": "skellam"}, "accountant for Skellam noise"),
        ({"zeroing": "adaptive"}, "quantile of the updates that is not noised"),
    ],
)
def test_none_known_is_said_everywhere_with_the_reason(run_folder, change_record, change, reason):
    change_record(**change)
    report = write_report(run_folder)
    assert report.analytical.epsilon is None
    (line,) = [line for line in summary_lines(report) if line.startswith("analytical epsilon")]
    assert line.startswith("analytical epsilon  none known (")
    assert reason in line
    html = run_folder.report_html.read_text()
    assert "none known" in html
    assert "None known" in html
    assert reason in html


def test_a_record_without_the_newer_fields_is_read(run_folder):
    record = read_record(run_folder)
    assert (record.noise_law, record.zeroing) == ("gaussian", "none")
    newer = ("noise_law", "zeroing", "client_squared_sensitivity", "canary_squared_sensitivity")
    text = run_folder.record.read_text().splitlines()
    older = [line for line in text if not any(f'"{name}"' in line for name in newer)]
    assert len(older) == len(text) - len(newer)
    run_folder.record.write_text("\n".join(older))
    assert read_record(run_folder) == record


@pytest.mark.parametrize(
    ("change", "mechanism", "message"),
    [
        (
            {"noise_law": "cauchy"},
            {"kind": "gaussian_fixed", "noise_multiplier": 0.3, "clip_norm": 1.0},
            "run.json: noise_law must be one of gaussian, tree, skellam, got 'cauchy'",
        ),
        (
            {},
            {"kind": "none", "canary_norm": 1.0},
            "run.json: noise_multiplier must be 0 under mechanism 'none', got 0.3",
        ),
    ],
)
def test_a_record_that_no_mechanism_leaves_is_refused(
    run_folder, change_record, change, mechanism, message
):
    change_record(noise_multiplier=0.3, sum_noise_multiplier=0.3, count_noise_stddev=0.0, **change)
    config = parse_config({**CONFIG, "mechanism": mechanism}, "config")
    run_folder.config.write_text(config_to_toml(config))
    with pytest.raises(InputError) as error:
        write_report(run_folder)
    assert message in str(error.value)


def test_a_mechanism_from_outside_is_in_the_report(run_folder):
    with doubled_noise():
        table = {"kind": "doubled_noise", "noise_multiplier": 0.15}
        config = parse_config({**CONFIG, "mechanism": table}, "config")
        run_folder.config.write_text(config_to_toml(config))
        report = write_report(run_folder)
    assert report_to_json(report)["config"]["mechanism"] == {**table, "clip_norm": 0.5}
    assert report.checks.not_checked == "it is a toy"
    noise = read_record(run_folder).noise_multiplier
    page = " ".join(run_folder.report_html.read_text().split())
    assert f"Toy clip at 0.5, toy noise of {noise:g}." in page
