"""The time that a verification takes, of a run with many rounds and canaries."""

import time

import pytest

from fl_audit import load_config, start_run
from fl_audit.verification import verify_folder
from tests.verification.toy_runs import config_file


@pytest.mark.slow
def test_a_large_run_is_verified_in_time(toy_runtime, tmp_path):
    overrides = [
        "participation.rounds=2000",
        "canaries.count=2000",
        "log.checkpoint_every=200",
        "task.dim=2000",
    ]
    start_run(load_config(config_file(tmp_path / "config.toml", *overrides)), tmp_path / "run")
    # Processor time: other programs may be at work. Under a minute where none is.
    before = time.process_time()
    outcome = verify_folder(tmp_path / "run")
    assert outcome.held, outcome.findings
    assert time.process_time() - before < 120
