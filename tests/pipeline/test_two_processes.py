"""Two processes that run in one folder: one works, the other is told so in a line."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.tff, pytest.mark.slow]

_CONFIG = """
[task]
kind = "digits"
num_clients = 20
hidden = [8]
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 60
clients_per_round = 5
[canaries]
count = 8
[log]
checkpoint_every = 5
[audit]
delta = 1e-3
"""
_SECONDS = 300


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    config = folder / "run.toml"
    config.write_text(_CONFIG)
    command = [sys.executable, "-m", "fl_audit.cli", "run", str(config), "--out", str(_out(folder))]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _out(folder: Path) -> Path:
    return folder / "out"


def _rounds(folder: Path) -> list[str]:
    path = _out(folder) / "metrics.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return [row["round"] for row in csv.DictReader(file)]


def _wait_for_rounds(program: subprocess.Popen[str], folder: Path, rounds: int) -> None:
    deadline = time.monotonic() + _SECONDS
    while len(_rounds(folder)) < rounds:
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_refused(program: subprocess.Popen[str], folder: Path) -> None:
    output, errors = program.communicate(timeout=_SECONDS)
    assert program.returncode == 2
    assert output == ""
    assert errors.startswith(f"fl-audit: error: {_out(folder)}: ")
    assert errors.count("\n") == 1


def _is_whole(folder: Path) -> None:
    assert _rounds(folder) == [str(number) for number in range(1, 61)]
    assert (_out(folder) / "report.json").exists()
    assert not [path for path in _out(folder).iterdir() if path.name.startswith(".")]


def test_of_two_that_start_together_one_trains(tmp_path):
    programs = [_start(tmp_path), _start(tmp_path)]
    for program in programs:
        program.wait(_SECONDS)
    assert sorted(program.returncode for program in programs) == [0, 2]
    _is_refused(next(program for program in programs if program.returncode), tmp_path)
    _is_whole(tmp_path)


def test_a_second_process_is_kept_out_until_the_first_is_dead(tmp_path):
    first = _start(tmp_path)
    _wait_for_rounds(first, tmp_path, 6)
    first.send_signal(signal.SIGSTOP)  # at work for as long as the others take
    try:
        for arguments in ((), ("--resume",)):
            second = _start(tmp_path, *arguments)
            _is_refused(second, tmp_path)
        assert (_out(tmp_path) / ".lock").read_text() == f"{first.pid}\n"
    finally:
        os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert (_out(tmp_path) / ".lock").exists()
    third = _start(tmp_path, "--resume")
    _, errors = third.communicate(timeout=_SECONDS)
    assert third.returncode == 0, errors
    _is_whole(tmp_path)
