"""Sweeps on Ray, where it is installed: failures among runs, kills, and that nothing is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")
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


def _left(folder: Path) -> list[str]:
    """Processes whose environment names the test's folder for temporary files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in environment and int(process.name) != os.getpid():
            found.append((process / "cmdline").read_text())
    return found


def _wait_for(condition, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


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
    assert not _left(mark)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert [run["state"] for run in told["runs"]] == ["finished", "failed", "finished"]
    assert "do not fit into 4 rounds" in told["runs"][1]["error"]
    assert json.loads((out / "sweep.json").read_text()) == told
    assert (out / "compare.html").exists()
    reports = [out / "runs" / name / "report.json" for name in ("once", "twice")]
    before = [report.stat().st_mtime_ns for report in reports]
    path.write_text(path.read_text().replace("= 5", "= 3"))
    again = subprocess.run(
        _command(path, out), capture_output=True, text=True, env=variables, check=False
    )
    assert again.returncode == 0, again.stderr
    assert [report.stat().st_mtime_ns for report in reports] == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_sweep_leaves_nothing_and_goes_on(grid, tmp_path, environment, number):
    path, out = grid("seeds = [1]"), tmp_path / "out"
    base = path.parent / "base.toml"
    base.write_text(base.read_text().replace("rounds = 4", "rounds = 2000"))
    mark, variables = environment
    process = subprocess.Popen(
        _command(path, out), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _wait_for((out / "runs" / "seed_1" / "checkpoint.npz").exists)
    process.send_signal(number)
    process.wait(timeout=60)
    _wait_for(lambda: not _left(mark), seconds=30.0)
    assert not (out / "runs" / "seed_1" / "report.json").exists()
    again = subprocess.run(
        _command(path, out), capture_output=True, text=True, env=variables, check=False
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["runs"][0]["state"] == "finished"
