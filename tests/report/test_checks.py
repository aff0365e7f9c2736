"""The checks of a run's mechanism and canaries: in report.json, on the page, on the terminal."""

import csv
import dataclasses
import html
import json
import math
import os
import shutil

import numpy as np
import pytest

from fl_audit.checks.canary_check import CanaryCheck
from fl_audit.config.file import config_to_toml, load_config, parse_config
from fl_audit.errors import InputError
from fl_audit.formats.round_logs import CosineLog
from fl_audit.formats.score_file import read_score_file
from fl_audit.json_records import to_json
from fl_audit.report import summary_lines, write_report
from fl_audit.report.build import faults_of
from fl_audit.report.checks import _unless_audit_had_faults, run_canary_check
from fl_audit.report.finished_run import read_finished_run
from fl_audit.verdict import after_checks
from tests.report.conftest import (
    CONFIG,
    DIM,
    NO_NOISE,
    NUM_CANARIES,
    ROUNDS,
    clip_norm,
    in_rounds,
)

CONSISTENT = (
    "audit.claimed_epsilon=20",
    "audit.verdict_statistic=final_minus_initial",
    "audit.verdict_method=threshold_valid",
)
"""A claim that the canaries of the made-up run do not contradict."""


def silence(run_folder):
    """The third variable's noise is missing in round 8."""
    rows = np.load(run_folder.aggregates)
    rows[7, 2, 0] = 1e-14
    rows[7:9, 2, 1] = 0
    np.save(run_folder.aggregates, rows)


def report_with(run_folder, *overrides):
    run_folder.config.write_text(config_to_toml(load_config(run_folder.config, overrides)))
    return write_report(run_folder)


def test_a_correct_run(reported):
    checks = json.loads(reported.folder.report_json.read_text())["checks"]
    assert checks == to_json(reported.report.checks)
    assert (checks["passed"], checks["false_alarm"], checks["not_checked"]) == (True, 1e-6, None)
    assert [result["name"] for result in checks["results"]] == [
        "enough_noise",
        "noise_everywhere",
        "fresh_noise",
        "noise_distribution",
        "bounded_length",
        "no_echo",
        "count_noise",
        "once_a_round",
    ]
    assert all(result["passed"] for result in checks["results"])
    assert checks["results"][0]["num_tests"] == 4 * ROUNDS + 4  # and all together
    of_variables, of_sketches = 4 * (ROUNDS - 1) + 4, 2 * (ROUNDS - 1) + 1
    assert checks["results"][2]["num_tests"] == of_variables + of_sketches
    assert "The mechanism is not as configured" not in reported.html
    seen = checks["results"][0]["detectable_ratio"]
    assert 0.9 < seen < 1
    line = (
        f"checks passed, 8 of 8 (at {100 - math.floor(100 * seen)} % less noise than configured, "
        "they would fail in 95 % of runs)"
    )
    assert line in " ".join(" ".join(summary_lines(reported.report)).split())


def test_a_run_that_fails_one(run_folder):
    silence(run_folder)
    report = write_report(run_folder)
    failed = [result for result in report.checks.results if not result.passed]
    assert [(result.name, result.round, result.variable) for result in failed] == [
        ("enough_noise", 8, 3),
        ("fresh_noise", 8, 3),
    ]
    assert not report.checks.passed
    page = run_folder.report_html.read_text()
    assert "Failed: Enough noise, Fresh noise." in page
    assert "(variable 3, round 8)" in page
    expected = (
        "FAILED: Enough noise, Fresh noise (the mechanism is not as configured; a correct one "
        "fails with probability 1 × 10⁻⁶ at most)"
    )
    assert f"checks {expected}" in " ".join(" ".join(summary_lines(report)).split())


def test_a_claim_is_not_consistent_with_a_mechanism_that_is_not_as_configured(
    run_folder, change_record
):
    for other in ("max", "sum"):
        shutil.copy(run_folder.scores("final_minus_initial"), run_folder.scores(other))
    change_record(client=in_rounds(1))  # clients take part as often as canaries
    silence(run_folder)
    verdict = report_with(run_folder, *CONSISTENT).verdict
    assert verdict.outcome == "inconclusive"
    page = run_folder.report_html.read_text()
    assert "The tests do not count, because the mechanism is wrong." in page
    start = "The mechanism is not as configured: it failed Enough noise, Fresh noise"
    assert verdict.reason.startswith(f"{start} (see the checks).\nNo lower bound exceeds the claim")
    assert verdict.reason.count("Next: ") == 1
    consistent = dataclasses.replace(verdict, outcome="consistent")
    assert after_checks(consistent, [], None).outcome == "consistent"
    assert after_checks(consistent, ["Enough noise"], None).outcome == "inconclusive"


def test_a_mechanism_without_noise_is_not_checked(run_folder, change_record):
    change_record(noise=NO_NOISE)
    run_folder.aggregates.unlink()
    run_folder.round_noise.unlink()
    config = parse_config({**CONFIG, "mechanism": {"kind": "none", "canary_norm": 1.0}}, "config")
    run_folder.config.write_text(config_to_toml(config))
    report = write_report(run_folder)
    checks = report.checks
    assert [result.name for result in checks.results] == ["once_a_round"]
    assert checks.not_checked is not None
    page = html.unescape(" ".join(run_folder.report_html.read_text().split()))
    assert checks.not_checked in page
    assert "aggregates not checked" in " ".join(" ".join(summary_lines(report)).split())


OWN_TASK = {"kind": "python", "module": "my_task:make"}


@pytest.mark.parametrize(
    ("labels", "task", "names"),
    [("classes", CONFIG["task"], 1), ("numbers", CONFIG["task"], 0), ("classes", OWN_TASK, 0)],
)
def test_the_accuracy_of_a_regression_or_an_own_model_has_no_chance_level(
    labels, task, names, run_folder, change_record
):
    change_record(labels=labels)
    config = parse_config({**CONFIG, "task": task}, "config")
    run_folder.config.write_text(config_to_toml(config))
    rows = run_folder.metrics.read_text().splitlines()
    last = rows[-1].split(",")
    last[rows[0].split(",").index("accuracy")] = "0"
    run_folder.metrics.write_text("\n".join([*rows[:-1], ",".join(last)]) + "\n")
    faults = faults_of(read_finished_run(run_folder))
    assert [fault.name for fault in faults].count("accuracy at chance") == names


# The share of canaries that arrives in a run, for the mechanisms whose aggregates have no log.


CANARY_NORM = 0.5
PARTICIPANTS, EXPECTED = 33, 32.5

MECHANISMS = {
    "tree_aggregation": {"noise_multiplier": 0.3, "clip_norm": 1.0},
    "distributed": {"noise_multiplier": 0.3},
    "none": {"canary_norm": CANARY_NORM},
}


def promised(kind: str) -> np.ndarray:
    """The length of a canary in each round's aggregate, by what the mechanisms' pages say."""
    clipped = np.array([clip_norm(number) for number in range(1, ROUNDS + 1)])
    lengths = np.full(ROUNDS, CANARY_NORM) if kind == "none" else clipped
    return lengths / (PARTICIPANTS if kind == "distributed" else EXPECTED)


def train(folder, kind: str, share: float) -> None:
    """Leaves cosines and norms of a run in which canaries arrive at a share of their length."""
    table = {"kind": kind, **MECHANISMS[kind]}
    folder.config.write_text(config_to_toml(parse_config({**CONFIG, "mechanism": table}, "c")))
    if kind == "distributed":  # what the sum was divided by stands in run.json
        record = json.loads(folder.record.read_text())
        record["release"]["denominator"]["divisor"] = "actual_cohort"
        folder.record.write_text(json.dumps(record))
    if kind == "tree_aggregation":
        record = json.loads(folder.record.read_text())
        record["release"]["noise"]["law"] = "tree"
        record["release"]["correlation"] = {"num_rounds": ROUNDS}
        folder.record.write_text(json.dumps(record))
    included = read_score_file(folder.scores("max")).included
    rng = np.random.default_rng(5)
    norms = 1.5 * promised(kind) * rng.uniform(1, 2, ROUNDS)
    own = np.arange(NUM_CANARIES) % ROUNDS
    cosines = rng.normal(0, DIM**-0.5, (ROUNDS, NUM_CANARIES))
    cosines[own, np.arange(NUM_CANARIES)] += included * share * (promised(kind) / norms)[own]
    log = CosineLog.opened("w+", folder.round_cosines, ROUNDS, NUM_CANARIES)
    for index, row in enumerate(cosines):
        log.write_round(index, row)
    log.flush()
    rows = [f"{i},{int(is_in)},{own[i] + 1}" for i, is_in in enumerate(included)]
    folder.canaries.write_text("\n".join(["canary_id,included,rounds", *rows]) + "\n")
    with folder.metrics.open() as file:
        metrics = list(csv.DictReader(file))
    for row, norm in zip(metrics, norms, strict=True):
        row["aggregate_norm"] = f"{norm:.9g}"
        row["clip_norm"] = "inf" if kind == "none" else row["clip_norm"]
    with folder.metrics.open("w") as file:
        writer = csv.DictWriter(file, metrics[0])
        writer.writeheader()
        writer.writerows(metrics)


@pytest.mark.parametrize(
    ("share", "state"), [(1.0, "arrived"), (0.6, "arrived"), (0.5, "not_arrived")]
)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_the_share_is_known_whatever_the_mechanism(run_folder, kind, share, state):
    train(run_folder, kind, share)
    found = run_canary_check(read_finished_run(run_folder))
    assert found.state == state
    # Each of about 100 scores has a mean above 50 and a variance of 1, so that the standard error
    # is below 0.002; another denominator would be off by 0.015.
    assert found.ratio is not None
    assert math.isclose(found.ratio, share, abs_tol=0.006)
    assert found.signal is not None
    assert share - 0.012 < found.signal <= share + 1e-9
    assert (found.fault is None) == (share == 1)
    # Where nothing clips, a client may be longer than any canary.
    assert (found.lacks is None) == (kind != "none")


def test_faults_of_a_foreign_log_are_not_quoted_from_a_link_nor_read_from_a_pipe(tmp_path):
    arrived, faults = CanaryCheck("arrived", 1.0, "they are there"), tmp_path / "faults.txt"
    (tmp_path / "private").write_text("a secret\n")
    faults.symlink_to(tmp_path / "private")
    found = _unless_audit_had_faults(faults, arrived)
    assert found.reason.endswith("as faults.txt says: 1 fault")
    faults.unlink()
    os.mkfifo(faults)
    with pytest.raises(InputError, match="cannot be read: is a pipe"):
        _unless_audit_had_faults(faults, arrived)
