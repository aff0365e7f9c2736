"""TensorBoard of the locked environment starts and reads what a run writes."""

import json
import re
import subprocess
import sys
import time
import urllib.request

import pytest
import tensorflow as tf

STARTED_WITHIN = 180.0


@pytest.fixture
def board(tmp_path):
    """The address of a TensorBoard that shows one scalar, ended after the test."""
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.scalar("loss", 0.5, step=1)
    log = tmp_path / "board.txt"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(tmp_path), "--port", "0"]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        yield _address(process, log)
    finally:
        process.kill()
        process.wait()


def _address(process, log):
    deadline = time.monotonic() + STARTED_WITHIN
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"http://\S+", log.read_text()):
            return found.group()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.mark.slow
def test_tensorboard_starts_and_shows_a_scalar(board):
    deadline = time.monotonic() + STARTED_WITHIN
    tags = {}
    while not tags and time.monotonic() < deadline:
        with urllib.request.urlopen(f"{board}data/plugin/scalars/tags") as answer:
            tags = json.load(answer)
    assert tags == {".": {"loss": {"displayName": "", "description": ""}}}
