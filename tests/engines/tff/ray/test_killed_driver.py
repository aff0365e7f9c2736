"""A run on Ray whose program is killed: nothing of Ray is left, and the run goes on."""

import os
import signal
import subprocess
import sys

import pytest

from tests.started_programs import HEARS_CTRL_C, left_of, wait_for

pytest.importorskip("ray")
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_program_leaves_nothing_and_the_run_goes_on(tmp_path, number):
    config, out, mark = tmp_path / "config.toml", tmp_path / "out", tmp_path / "mark"
    config.write_text(CONFIG)
    variables = {**os.environ, "FL_AUDIT_TEST_MARK": str(mark)}

    def start(folder, *arguments):
        line = [sys.executable, "-m", "fl_audit.cli", "run", str(config), "--out", str(folder)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            [*HEARS_CTRL_C, *line, *arguments],
            env=variables,
            start_new_session=True,
            **pipes,
        )

    process = start(out)
    wait_for((out / "checkpoint.npz").exists, 300)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C in a terminal: to all of Ray's processes too
    else:
        process.send_signal(number)
    process.communicate(timeout=120)
    wait_for(lambda: not left_of(mark), 5)
    assert not (out / "report.json").exists()
    # The result is the same on another cluster, here on another number of actors.
    resumed = start(out, "--resume", "--set", "ray.actors=1")
    _, said = resumed.communicate()
    assert resumed.returncode == 0, said
    assert "ray" not in said.replace(str(tmp_path), "")
    whole = start(tmp_path / "whole")
    assert whole.wait() == 0
    for scores in sorted((tmp_path / "whole").glob("scores_*.csv")):
        assert (out / scores.name).read_bytes() == scores.read_bytes()
    assert not left_of(mark)
