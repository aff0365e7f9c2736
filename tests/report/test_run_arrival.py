"""The share of canaries that arrives in a run, for the mechanisms whose aggregates have no log."""

import csv
import json
import math

import numpy as np
import pytest

from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.formats.round_logs import CosineLog
from fl_audit.formats.score_file import read_score_file
from fl_audit.report.checks import run_arrival
from fl_audit.report.finished_run import read_finished_run
from tests.report.conftest import CONFIG, DIM, NUM_CANARIES, ROUNDS, clip_norm

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
        folder.record.write_text(json.dumps({**record, "divides_by": "actual_cohort"}))
    included = read_score_file(folder.scores("max")).included
    rng = np.random.default_rng(5)
    norms = 1.5 * promised(kind) * rng.uniform(1, 2, ROUNDS)
    own = np.arange(NUM_CANARIES) % ROUNDS
    cosines = rng.normal(0, DIM**-0.5, (ROUNDS, NUM_CANARIES))
    cosines[own, np.arange(NUM_CANARIES)] += included * share * (promised(kind) / norms)[own]
    log = CosineLog.create(folder.round_cosines, ROUNDS, NUM_CANARIES)
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
    found = run_arrival(read_finished_run(run_folder))
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


def test_a_run_of_a_version_that_logged_no_norm_has_no_share(run_folder):
    train(run_folder, "tree_aggregation", share=1.0)
    text = run_folder.metrics.read_text()
    run_folder.metrics.write_text(text.replace("aggregate_norm", "another_column"))
    found = run_arrival(read_finished_run(run_folder))
    assert found.ratio is None
    assert "what length the mechanism allows a client is not known" in found.reason
