"""A run folder as training leaves it, made of random numbers."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_audit.accounting import FixedRounds, effective_noise_multiplier
from fl_audit.accounting.release import Denominator, Noise, Party, Release
from fl_audit.checks import AggregateLog
from fl_audit.checks.noise_rows import EXPECTED, row_size
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import RunRecord, read_record, record_text
from fl_audit.formats.score_file import ScoreFile, read_score_file, write_score_file
from fl_audit.report import Report, write_report
from fl_audit.report.build import build_report
from fl_audit.report.finished_run import read_finished_run

SIZES = (90_000, 9_990, 10)
DIM = sum(SIZES)
NUM_CANARIES = 200
ROUNDS = 40

CONFIG = {
    "seed": 1,
    "task": {"kind": "digits"},
    "mechanism": {"kind": "gaussian_adaptive", "noise_multiplier": 0.3},
    "participation": {"kind": "shuffle", "rounds": ROUNDS, "clients_per_round": 30},
    "canaries": {"count": NUM_CANARIES},
    "audit": {"threat_models": ["final", "final_and_initial", "all_iterates"]},
}

METRICS = (
    "round,num_clients,num_canaries,clip_norm,noise_stddev,train_loss,accuracy,"
    "aggregate_norm,seconds_training,seconds_scoring,epsilon_lower_bound"
)


NO_NOISE = Noise("gaussian", 0.0, 0.0)


def noise_of(noise_multiplier: float) -> Noise:
    """Noise as an adaptive clip splits it: the effective one solved for the sum's."""
    if noise_multiplier == 0:
        return NO_NOISE
    count = 1.6
    of_sum = (noise_multiplier**-2 - (2 * count) ** -2) ** -0.5
    return Noise("gaussian", effective_noise_multiplier(of_sum, count), of_sum, count)


def in_rounds(number: int, squared_sensitivity: float | None = None) -> Party:
    return Party(FixedRounds(number), squared_sensitivity)


def record(num_included: int, noise_multiplier: float = 0.3) -> RunRecord:
    return RunRecord(
        task="digits",
        runtime="native",
        dim=DIM,
        num_clients=300,
        num_canaries=NUM_CANARIES,
        num_included=num_included,
        delta=300**-1.1,
        release=Release(
            rounds=ROUNDS,
            noise=noise_of(noise_multiplier),
            denominator=Denominator("expected_cohort", 32.5),
            client=in_rounds(4),
            canary=in_rounds(1),
        ),
        accuracy=0.9432,
        accuracy_description="share of 297 held-out images classified correctly",
        training_seconds=83.7,
        scoring_seconds=4.2,
        versions={"numpy": "1.25.2", "tensorflow-federated": "0.87.0"},
        finished="2026-11-22T12:00:00+00:00",
        variable_sizes=SIZES,
    )


def clip_norm(number: int) -> float:
    return 0.1 + 0.4 * number / ROUNDS


def write_aggregates(folder: RunFolder, noise_multiplier: float, random: np.random.Generator):
    """Lengths of pure noise, or of nothing; neighbours are as unlike as chance has it."""
    stddev = noise_multiplier * np.array([[clip_norm(n) / 32.5] for n in range(1, ROUNDS + 1)])
    squared = stddev**2 * random.chisquare(SIZES, (ROUNDS, len(SIZES)))
    along = random.normal(size=(ROUNDS, len(SIZES)))
    across = random.chisquare(np.array(SIZES) - 1, (ROUNDS, len(SIZES)))
    cosines = along / np.sqrt(along**2 + across)
    cosines[0] = np.nan
    products = cosines * np.sqrt(squared * np.roll(squared, 1, axis=0))
    log = AggregateLog.opened("w+", folder, ROUNDS, SIZES)
    for index in range(ROUNDS):
        measured = np.stack([squared[index], products[index]], axis=1)
        noise = np.full(row_size(DIM), np.nan)
        if noise_multiplier:
            found = [0.0, 1 / DIM, 0.0, 1.0, *np.ceil(DIM * EXPECTED)]
            noise = np.append(found, random.normal(size=len(noise) - len(found)))
        log.write_round(index, measured, noise.astype(np.float32))
    log.flush()


def metrics_csv() -> str:
    rows = [METRICS]
    for number in range(1, ROUNDS + 1):
        loss = 2.3 * math.exp(-number / 12)
        accuracy = f"{0.95 - 0.8 * math.exp(-number / 8):.4f}" if number % 5 == 0 else ""
        rows.append(
            f"{number},30,3,{clip_norm(number):.4f},0.03,{loss:.5f},{accuracy},3.1,2.1,0.1,"
        )
    return "\n".join(rows) + "\n"


def scores_by_statistic(included: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    null = rng.normal(0, DIM**-0.5, (ROUNDS, NUM_CANARIES))
    own = rng.integers(ROUNDS, size=NUM_CANARIES), np.arange(NUM_CANARIES)
    null[own] += 0.02 * included
    return {
        "final": rng.normal(0, DIM**-0.5, NUM_CANARIES) + 0.001 * included,
        "final_minus_initial": rng.normal(0, DIM**-0.5, NUM_CANARIES) + 0.006 * included,
        "max": null.max(axis=0),
        "sum": null.sum(axis=0),
        "own_rounds": null[own],
    }


EVERY_THREAT_MODEL = {
    "threat_models": ["final", "final_and_initial", "all_iterates", "checkpoints", "window"],
    "release_every": 8,
    "window_first_round": 3,
    "window_last_round": 5,
}


def of_every_threat_model(included: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Scores of who sees checkpoints, which find every canary, and of a window, which find few."""
    noise = rng.normal(0, DIM**-0.5, (4, NUM_CANARIES))
    return {
        "checkpoints_max": noise[0] + 0.015 * included,
        "checkpoints_sum": noise[1] + 0.01 * included,
        "window_max": noise[2] + 0.005 * included,
        "window_sum": noise[3] + 0.005 * included,
    }


def fill(folder: RunFolder, noise_multiplier: float = 0.3) -> RunFolder:
    rng = np.random.default_rng(7)
    included = rng.random(NUM_CANARIES) < 0.5
    folder.config.write_text(config_to_toml(parse_config(CONFIG, "config")))
    folder.metrics.write_text(metrics_csv())
    ids = tuple(map(str, range(NUM_CANARIES)))
    for statistic, scores in scores_by_statistic(included, rng).items():
        write_score_file(folder.scores(statistic), ScoreFile(ids, included, scores))
    rows = [
        f"{name},{int(is_in)},{1 + int(name) % ROUNDS if is_in else ''}"
        for name, is_in in zip(ids, included, strict=True)
    ]
    folder.canaries.write_text("\n".join(["canary_id,included,rounds", *rows]) + "\n")
    made = record(int(included.sum()), noise_multiplier)
    write_aggregates(folder, made.release.noise.sum_noise_multiplier, rng)
    folder.record.write_text(record_text(made))
    return folder


@dataclass(frozen=True)
class Reported:
    """A run folder with its reports, for tests that change nothing."""

    folder: RunFolder
    report: Report
    html: str


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    folder = fill(RunFolder(tmp_path_factory.mktemp("reported")))
    report = write_report(folder)
    return Reported(folder, report, folder.report_html.read_text())


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    return fill(RunFolder(tmp_path))


@pytest.fixture(scope="session")
def widely_reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """A run that is audited under every threat model."""
    folder = fill(RunFolder(tmp_path_factory.mktemp("widely_reported")))
    config = parse_config({**CONFIG, "audit": EVERY_THREAT_MODEL}, "config")
    folder.config.write_text(config_to_toml(config))
    included = read_score_file(folder.scores("final")).included
    ids = tuple(map(str, range(NUM_CANARIES)))
    scores = of_every_threat_model(included, np.random.default_rng(8))
    for statistic, values in scores.items():
        write_score_file(folder.scores(statistic), ScoreFile(ids, included, values))
    # Of 94 included canaries the first seven took part before the window, the others in it.
    first_in = np.flatnonzero(included)[:7]
    rows = [
        f"{name},{int(is_in)},{('1 2' if int(name) in first_in else '2 4') if is_in else ''}"
        for name, is_in in zip(ids, included, strict=True)
    ]
    folder.canaries.write_text("\n".join(["canary_id,included,rounds", *rows]) + "\n")
    report = write_report(folder)
    return Reported(folder, report, folder.report_html.read_text())


def built(folder: RunFolder) -> Report:
    """The report of a run's folder, of which nothing is rendered or written."""
    return build_report(read_finished_run(folder))


@pytest.fixture
def change_record(run_folder: RunFolder) -> Callable[..., None]:
    """Rewrites run.json with some fields of the record, or of its release, changed."""

    def change(**fields: Any) -> None:
        names = {field.name for field in dataclasses.fields(Release)}
        of_release = {name: fields.pop(name) for name in names & fields.keys()}
        recorded = read_record(run_folder)
        release = dataclasses.replace(recorded.release, **of_release)
        run_folder.record.write_text(
            record_text(dataclasses.replace(recorded, release=release, **fields))
        )

    return change
