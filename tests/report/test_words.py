"""The sentences of a report: on rounds, training, mechanisms and canaries."""

import dataclasses

import msgspec
import pytest

from fl_audit.accounting.release import Noise
from fl_audit.config import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    TreeAggregation,
)
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.errors import InputError
from fl_audit.formats.run_record import read_record
from fl_audit.report import summary_lines, write_report
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.report import ScoreSource, report_to_json
from fl_audit.report.words import canary_cost, canary_words, mechanism_words, run_facts
from tests.mechanisms.doubled_noise import doubled_noise
from tests.report import made_reports
from tests.report.conftest import CONFIG, noise_of
from tests.report.made_reports import analytical, guarantee


def test_description_tells_effective_from_added_noise(run_folder):
    text = " ".join(run_facts(read_finished_run(run_folder)).values())
    assert "d = 100,000 trainable parameters, trained for 40 rounds on 300 clients" in text
    assert "30 clients a round, each client in at most 4 rounds" in text
    assert "Of 200 Rademacher canaries, fair coins included 94" in text
    assert "an included canary participated in 1 round." in text
    assert "the effective noise multiplier is 0.3, made of Gaussian noise of 0.301" in text
    assert "1.60 clients on the count" in text
    assert "The seed is 1." in text


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (
            GaussianFixed(noise_multiplier=0.3, clip_norm=2.0, zeroing=FixedZeroing(norm=5.0)),
            "An update with a coordinate above 5 counts as zero. Updates are clipped to norm 2; "
            "Gaussian noise with noise multiplier 0.3 is added to their sum.",
        ),
        (
            TreeAggregation(noise_multiplier=0.3, clip_norm=2.0, restart_every=15),
            "tree aggregation (DP-FTRL) adds Gaussian noise with noise multiplier 0.3 to every "
            "node of a binary tree over the rounds, a new tree every 15 rounds.",
        ),
        (TreeAggregation(noise_multiplier=0.3, clip_norm=2.0), "a binary tree over all rounds."),
        (
            GaussianAdaptive(noise_multiplier=0.3, clip_norm=0.5, zeroing=AdaptiveZeroing()),
            "above 2 times a running estimate of the 0.98 quantile of updates' largest "
            "coordinates, plus 1; no noise is added to the estimate. Updates are clipped to a "
            "norm that starts at 0.5 and follows the 0.5",
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"noise": dataclasses.replace(noise_of(0.3), distribution="skellam")},
            "the clip norm is adaptive",
        ),
        ({"zeroing": "adaptive"}, "quantile of the updates that is not noised"),
    ],
)
def test_none_known_is_said_everywhere_with_the_reason(run_folder, change_record, change, reason):
    change_record(**change)
    report = write_report(run_folder)
    assert report.analytical.epsilon is None
    (line,) = [line for line in summary_lines(report) if line.startswith("upper bound ")]
    assert line.startswith("upper bound         none known (")
    assert reason in line
    html = run_folder.report_html.read_text()
    assert "none known" in html
    assert "None known" in html
    assert reason in html


@pytest.mark.parametrize(
    ("distribution", "mechanism", "message"),
    [
        (
            "cauchy",
            {"kind": "gaussian_fixed", "noise_multiplier": 0.3, "clip_norm": 1.0},
            "run.json: noise_distribution must be one of gaussian, tree, matrix, client_gaussian, "
            "skellam, got 'cauchy'",
        ),
        (
            "gaussian",
            {"kind": "none", "canary_norm": 1.0},
            "run.json: noise_multiplier must be 0 under mechanism 'none', got 0.3",
        ),
    ],
)
def test_a_record_that_no_mechanism_leaves_is_refused(
    run_folder, change_record, distribution, mechanism, message
):
    change_record(noise=Noise(distribution, 0.3, 0.3))
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
    noise = read_record(run_folder).release.noise.noise_multiplier
    page = " ".join(run_folder.report_html.read_text().split())
    assert f"Toy clip at 0.5, toy noise of {noise:g}." in page


# What a report says of canaries that hold examples.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "whose update is a random direction, as long as the clip norm allows. It represents"),
        (
            {"mechanism": {"kind": "none", "canary_norm": 2.5}},
            "whose update is a random direction, of norm 2.5. It represents",
        ),
        (
            {"canaries": {"kind": "examples", "source": "mislabelled", "count": 200}},
            "that trains on the examples that “The run” describes. It represents clients with such",
        ),
    ],
)
def test_what_a_canary_is_depends_on_its_kind(changes, said):
    config = parse_config({**CONFIG, **changes}, "config")
    made = made_reports.report({}, analytical(guarantee(1.0), guarantee(1.0)))
    assert f"an artificial client {said}" in canary_words(dataclasses.replace(made, config=config))


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("rademacher", "an artificial client whose update is a random direction. It represents"),
        (None, "a client or an example that was included in or excluded from training at random."),
    ],
)
def test_what_a_canary_of_scores_is(family, said):
    made = made_reports.report({}, analytical(guarantee(1.0), guarantee(1.0)))
    source = ScoreSource("scores", family)
    assert said in canary_words(dataclasses.replace(made, config=None, source=source))


def test_the_cost_of_canaries_names_their_norm(run_folder):
    run = read_finished_run(run_folder)
    assert "each adds a random vector of the clip norm" in canary_cost(run)["Cost of the canaries"]
    mechanism = {"kind": "none", "canary_norm": 2.5}
    run = dataclasses.replace(run, config=parse_config({**CONFIG, "mechanism": mechanism}, "c"))
    assert "each adds a random vector of norm 2.5" in canary_cost(run)["Cost of the canaries"]


def test_a_fixed_half_and_no_canaries(run_folder):
    run = read_finished_run(run_folder)
    half = msgspec.structs.replace(run.config.canaries, inclusion="fixed_half")
    config = msgspec.structs.replace(run.config, canaries=half)
    said = run_facts(dataclasses.replace(run, config=config))["Canaries"]
    assert "a random half was included, 94; an included canary participated in" in said
    assert "Methods that need a coin for each canary are left out." in said
    without = dataclasses.replace(run, record=dataclasses.replace(run.record, num_canaries=0))
    assert run_facts(without)["Canaries"] == "There are no canaries, so nothing is audited."
