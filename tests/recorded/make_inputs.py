"""Writes the inputs of the recorded calls, each from a seed of its own: `inputs/` beside this file.

They are committed, so that a recording does not hang on NumPy's streams; this script says where
they come from. Run folders are made by `fl-audit run` itself, with the noise of `seeded_noise`,
and stripped to the files that other commands read.

    python tests/recorded/make_inputs.py
"""

import contextlib
import csv
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from seeded_noise import seeded_noise

from fl_audit.cli import main

INPUTS = Path(__file__).parent / "inputs"

LOG_DIM, LOG_CANARIES, LOG_ROUNDS = 250, 60, 6
KEPT_OF_A_RUN = ("config.toml", "run.json", "report.json", "scores_*.csv")


def write_rows(name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Writes a CSV file."""
    with (INPUTS / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([header, *rows])


def scores(
    seed: int, count: int, scale: float, shift: float, digits: int = 7
) -> list[tuple[str, int, float]]:
    """Normal scores, of which every other canary's are shifted; rounded, for ties if to few."""
    noise = np.random.default_rng(seed).normal(0, scale, count)
    return [
        (f"canary-{i}", i % 2, round(float(noise[i] + shift * (i % 2)), digits))
        for i in range(count)
    ]


def write_score_files() -> None:
    """Score files: with null scores of deviation 1/sqrt(dim), dim being the number in the name."""
    header = ("canary_id", "included", "score")
    write_rows("shifted_10000.csv", header, scores(1, 300, 0.01, 0.02))
    write_rows("pure_noise_10000.csv", header, scores(2, 200, 0.01, 0.0))
    write_rows("strong_10000.csv", header, scores(3, 500, 0.01, 0.08))
    write_rows("many_1000000.csv", header, scores(4, 500, 0.001, 0.0015))
    write_rows("ties.csv", header, scores(5, 120, 1.0, 1.0, digits=0))
    write_rows("three.csv", header, scores(6, 3, 0.01, 0.03))
    included = [row for row in scores(7, 120, 0.01, 0.02) if row[1]]
    write_rows("all_included_10000.csv", header, included)
    angles = np.random.default_rng(8).uniform(0, 2 * np.pi, 80)
    of_two = [(f"c{i}", i % 2, round(float(np.cos(a)), 9)) for i, a in enumerate(angles)]
    write_rows("circle_2.csv", header, of_two)
    table = {"canary_id": [], "included": [], "score": []}
    for row in scores(9, 150, 0.01, 0.015):
        for key, value in zip(table, row, strict=True):
            table[key].append(value)
    pq.write_table(pa.table(table), INPUTS / "shifted_10000.parquet")
    write_rows("bad_included.csv", header, [("a", 1, 0.5), ("b", 2, 0.25)])
    write_rows("bad_score.csv", header, [("a", 1, 0.5), ("b", 0, "nan")])
    write_rows("misspelled.csv", ("canary_id", "includid", "score"), [("a", 1, 0.5)])


def write_counts_files() -> None:
    """Counts of challenge bases, for `mcmc`."""
    random = np.random.default_rng(10)
    rows = [(*random.binomial((100, 100), (0.2, 0.3)),) for _ in range(8)]
    header = ("fp", "n0", "fn", "n1")
    write_rows("bases.csv", header, [(fp, 100, fn, 100) for fp, fn in rows])
    write_rows("one_base.csv", header, [(0, 50, 3, 50)])
    write_rows("bad_counts.csv", header, [(5, 50, 3, 50), (60, 50, 3, 50)])


def write_logs() -> None:
    """Log folders (docs/logs.md): one of aggregates and models, one of cosines."""
    random = np.random.default_rng(11)
    pool = {"format_version": 2, "family": "rademacher", "seed": 17, "count": LOG_CANARIES}
    log = INPUTS / "log_of_aggregates"
    (log / "aggregates").mkdir(parents=True)
    (log / "pool.json").write_text(json.dumps(pool | {"dim": LOG_DIM}) + "\n")
    moved = random.normal(0, 0.1, (LOG_ROUNDS, LOG_DIM)).astype(np.float32)
    for number, aggregate in enumerate(moved, start=1):
        np.save(log / "aggregates" / f"round_{number:06}.npy", aggregate)
    initial = random.normal(0, 0.05, LOG_DIM).astype(np.float32)
    np.save(log / "initial.npy", initial)
    np.save(log / "final.npy", initial + moved.sum(axis=0))

    log = INPUTS / "log_of_cosines"
    log.mkdir(parents=True)
    (log / "pool.json").write_text(json.dumps(pool | {"family": "gaussian", "dim": 10_000}) + "\n")
    cosines = random.normal(0, 0.01, (LOG_ROUNDS, LOG_CANARIES)).astype(np.float32)
    included = random.random(LOG_CANARIES) < 0.5
    cosines[np.arange(LOG_CANARIES) % LOG_ROUNDS, np.arange(LOG_CANARIES)] += 0.05 * included
    cosines[4, ::7] = np.nan
    np.save(log / "round_cosines.npy", cosines)
    rows = [(i, int(took_part)) for i, took_part in enumerate(included)]
    write_rows("log_of_cosines/canaries.csv", ("canary_id", "included"), rows)


def write_configs() -> None:
    """The replay log that configs name; the configs themselves are written by hand."""
    random = np.random.default_rng(12)
    rows = [
        (number, f"client-{client}")
        for number in range(1, 5)
        for client in sorted(random.choice(40, 9, replace=False))
    ]
    write_rows("configs/replay.csv", ("round", "client_id"), rows)


def write_runs() -> None:
    """Finished runs for `compare` and `estimate`: without noise, and two seeds with noise."""
    for name, noise, seed in (("silent", 0.0, 3), ("noisy", 0.5, 3), ("noisy_again", 0.5, 4)):
        with tempfile.TemporaryDirectory() as scratch, seeded_noise():
            out = Path(scratch) / name
            options = [f"mechanism.noise_multiplier={noise}", f"seed={seed}"]
            options += ['audit.threat_models=["final"]', "canaries.count=80"]
            sets = [word for option in options for word in ("--set", option)]
            config = str(INPUTS / "configs" / "digits.toml")
            with contextlib.redirect_stdout(io.StringIO()):
                status = main(["run", config, "--out", str(out), *sets])
            if status:
                sys.exit(status)
            (INPUTS / "runs" / name).mkdir(parents=True)
            for pattern in KEPT_OF_A_RUN:
                for path in out.glob(pattern):
                    shutil.copy(path, INPUTS / "runs" / name)
            report = INPUTS / "runs" / name / "report.json"
            report.write_text(json.dumps(json.loads(report.read_text())) + "\n")


if __name__ == "__main__":
    for made in ("log_of_aggregates", "log_of_cosines", "runs"):
        shutil.rmtree(INPUTS / made, ignore_errors=True)
    write_score_files()
    write_counts_files()
    write_logs()
    write_configs()
    write_runs()
