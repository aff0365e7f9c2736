"""A run on Ray whose program is killed: nothing of Ray is left, and the run goes on."""

import os
import re
import signal
import subprocess
import sys

import pytest

from fl_audit.verification import verify_folder
from tests.started_programs import HEARS_CTRL_C, left_of, processes_of, wait_for

pytest.importorskip("ray.util")
pytestmark = [pytest.mark.slow, pytest.mark.tff]

CONFIG = """
runtime = "ray"
clients_per_block = 1
[task]
kind = "digits"
num_clients = 60
hidden = [8]
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.0
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 60
clients_per_round = 20
[canaries]
count = 8
[log]
checkpoint_every = 5
[audit]
delta = 1e-3
[ray]
actors = 2
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def started(config, mark, folder, *arguments):
    """A run whose processes, Ray's too, have the mark in their environment."""
    line = [sys.executable, "-m", "fl_audit.cli", "run", str(config), "--out", str(folder)]
    return subprocess.Popen(
        [*HEARS_CTRL_C, *line, *arguments],
        env={**os.environ, "FL_AUDIT_TEST_MARK": str(mark)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("number", "engine"),
    [
        (signal.SIGKILL, "tff"),
        (signal.SIGINT, "tff"),
        (signal.SIGTERM, "tff"),
        (signal.SIGKILL, "jax"),
        (signal.SIGINT, "jax"),
    ],
)
def test_a_killed_program_leaves_nothing_and_the_run_goes_on(tmp_path, config, number, engine):
    config.write_text(f'{CONFIG}engine = "{engine}"\n')
    out, mark = tmp_path / "out", tmp_path / "mark"
    process = started(config, mark, out)
    wait_for((out / "checkpoint.npz").exists, 300)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C in a terminal: to all of Ray's processes too
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=120)
    wait_for(lambda: not left_of(mark), 5)
    assert not (out / "report.json").exists()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert re.fullmatch(r"fl-audit: stopped by .*; continue with --resume", last_line(said))
    # The result is the same on another cluster, here on another number of actors.
    resumed = started(config, mark, out, "--resume", "--set", "ray.actors=1")
    _, said = resumed.communicate()
    assert resumed.returncode == 0, said
    assert "ray" not in said.replace(str(tmp_path), "")
    whole = started(config, mark, tmp_path / "whole")
    assert whole.wait() == 0
    for scores in sorted((tmp_path / "whole").glob("scores_*.csv")):
        assert (out / scores.name).read_bytes() == scores.read_bytes()
    for folder in (out, tmp_path / "whole"):
        outcome = verify_folder(folder)
        assert outcome.held, outcome.findings
    assert not left_of(mark)


def last_line(said: str) -> str:
    return said.strip().splitlines()[-1]


# Ray's C++ ends a program by SIGABRT whose raylet it finds gone in the midst of an exchange. Then
# the guard says so; else the program sees it first, between two exchanges.
@pytest.mark.parametrize("part", ["raylet/raylet", "gcs/gcs_server"])
def test_a_part_of_ray_that_dies_ends_the_run_in_one_line(tmp_path, config, part):
    out, mark = tmp_path / "out", tmp_path / "mark"
    process = started(config, mark, out)
    wait_for((out / "checkpoint.npz").exists, 300)
    (lost,) = (number for number, line in processes_of(mark) if part in line.split("\0")[0])
    os.kill(lost, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    wait_for(lambda: not left_of(mark), 30)
    assert not (out / "report.json").exists()
    line = last_line(said)
    if process.returncode == 2:
        assert line.startswith(f"fl-audit: error: {out}: Ray cannot go on, as its ")
        assert "--resume" in line
    else:
        assert process.returncode in (-signal.SIGABRT, 1)
        assert line.startswith("fl-audit: the program was killed, or Ray ended it")
        assert "--resume" in line
    assert "Traceback" not in said
    resumed = started(config, mark, out, "--resume")
    _, said = resumed.communicate()
    assert resumed.returncode == 0, said
    assert not left_of(mark)
