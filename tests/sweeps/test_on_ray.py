"""Sweeps on Ray, where it is installed: failures among runs, kills, and that nothing is left."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.started_programs import HEARS_CTRL_C, left_of, wait_for

pytest.importorskip("ray.util")
pytestmark = [pytest.mark.slow, pytest.mark.tff]

TWO_AND_ONE = """
[[variant]]
name = "once"
[[variant]]
name = "too_often"
set = {"participation.canary_repeats" = 5}
[[variant]]
name = "twice"
set = {"participation.canary_repeats" = 2}
"""


def _command(path: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "fl_audit.cli", "sweep", str(path), "--out", str(out), "--json"]


@pytest.fixture
def environment(tmp_path):
    mark = tmp_path / "mark"
    return mark, {**os.environ, "FL_AUDIT_TEST_MARK": str(mark)}


def test_one_failure_keeps_no_other_run_from_its_end(grid, tmp_path, environment):
    path, out = grid(TWO_AND_ONE), tmp_path / "out"
    mark, variables = environment
    done = subprocess.run(
        _command(path, out), capture_output=True, text=True, env=variables, check=False
    )
    assert not left_of(mark)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert [run["state"] for run in told["runs"]] == ["finished", "failed", "finished"]
    assert "do not fit into 4 rounds" in told["runs"][1]["error"]
    assert json.loads((out / "sweep.json").read_text()) == told
    assert (out / "compare.html").exists()
    assert _runs_in_results(out) == {"runs/once", "runs/twice"}
    reports = [out / "runs" / name / "report.json" for name in ("once", "twice")]
    before = [report.stat().st_mtime_ns for report in reports]
    path.write_text(path.read_text().replace("= 5", "= 3"))
    again = subprocess.run(
        _command(path, out), capture_output=True, text=True, env=variables, check=False
    )
    assert again.returncode == 0, again.stderr
    assert [report.stat().st_mtime_ns for report in reports] == before
    assert _runs_in_results(out) == {"runs/once", "runs/twice", "runs/too_often"}


def _runs_in_results(out: Path) -> set[str]:
    """The runs of results.csv, each of which has a row for every method on a statistic."""
    with (out / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        report = json.loads((out / row["run"] / "report.json").read_text())
        estimates = report["statistics"][row["statistic"]]["estimates"]
        assert row["method"] in [estimate["method"] for estimate in estimates]
    return {row["run"] for row in rows}


def test_runs_of_one_process_are_those_that_run_makes(grid, tmp_path, environment):
    """The last of three in one process against the same run alone: every score to the last bit."""
    path, out = grid("seeds = [1, 2, 3]"), tmp_path / "out"
    command = [*_command(path, out), "--jobs", "1"]
    assert subprocess.run(command, env=environment[1], check=False).returncode == 0
    alone = tmp_path / "alone"
    command = [sys.executable, "-m", "fl_audit.cli", "run", str(path.parent / "base.toml")]
    command += ["--out", str(alone), "--set", "seed=3"]
    assert subprocess.run(command, env=environment[1], check=False).returncode == 0
    scores = sorted(alone.glob("scores_*.csv"))
    assert len(scores) >= 5
    for score in scores:
        assert (out / "runs" / "seed_3" / score.name).read_bytes() == score.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_sweep_leaves_nothing_and_goes_on(grid, tmp_path, environment, number):
    path, out = grid("seeds = [1]"), tmp_path / "out"
    base = path.parent / "base.toml"
    base.write_text(base.read_text().replace("rounds = 4", "rounds = 2000"))
    mark, variables = environment
    process = subprocess.Popen(
        [*HEARS_CTRL_C, *_command(path, out)],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for((out / "runs" / "seed_1" / "checkpoint.npz").exists, seconds=300.0)
    process.send_signal(number)
    process.wait(timeout=60)
    wait_for(lambda: not left_of(mark), seconds=30.0)
    assert not (out / "runs" / "seed_1" / "report.json").exists()
    again = subprocess.run(
        _command(path, out), capture_output=True, text=True, env=variables, check=False
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["runs"][0]["state"] == "finished"
