"""Plugins under Ray: in the actors of a run, in the runs of a sweep, and where they are gone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fl_audit.formats.score_file import read_score_file
from tests.config_tables.plugins_page import write_page

pytest.importorskip("ray.util")
pytestmark = [pytest.mark.slow, pytest.mark.tff]


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "fl_audit.cli", *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_actors_train_what_local_trains(tmp_path):
    write_page(tmp_path)
    noiseless = ["--set", "mechanism.noise_multiplier=0", "--set", "participation.rounds=4"]
    runs = {
        "here": [*noiseless, "--set", "clients_per_block=1"],
        "on_ray": [*noiseless, "--set", "runtime=ray", "--set", "clients_per_block=1"],
    }
    for name, words in runs.items():
        done = command(tmp_path, "run", "config.toml", "--out", name, *words)
        assert done.returncode == 0, done.stderr
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in runs]
    assert reports[1]["run"]["runtime"].startswith("ray, ")
    assert reports[0]["statistics"].keys() == reports[1]["statistics"].keys() == {"final", "first"}
    for name in ("scores_final.csv", "scores_first.csv"):
        here, on_ray = (read_score_file(tmp_path / run / name) for run in runs)
        np.testing.assert_array_equal(here.included, on_ray.included)
        np.testing.assert_allclose(here.score, on_ray.score, atol=1e-6)


def test_a_sweep_finds_them_and_says_where_they_are_gone(tmp_path):
    write_page(tmp_path)
    (tmp_path / "grid.toml").write_text(
        'base = "config.toml"\n[grid]\n"participation.first" = ["odd", "even"]\n'
    )
    sweep = ["sweep", "grid.toml", "--out", "out", "--json"]
    done = command(tmp_path, *sweep)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [run["state"] for run in told["runs"]] == ["finished", "finished"]
    for first in ("odd", "even"):
        page = (tmp_path / "out" / "runs" / f"first_{first}" / "report.html").read_text()
        assert f"Every other round, {first} clients first." in page
    assert (tmp_path / "out" / "compare.html").exists()
    (tmp_path / "my_kinds.py").unlink()
    again = command(tmp_path, *sweep)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "there is no module 'my_kinds' next to the config" in again.stderr
