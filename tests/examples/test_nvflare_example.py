"""The NVFlare example against the real package, in the environment of `make test-nvflare`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_audit.attacks import RoundScorer

pytest.importorskip("nvflare", reason="NVFlare has an environment of its own: make test-nvflare")

ROOT = Path(__file__).parent.parent.parent


def test_an_nvflare_server_is_audited(tmp_path):
    argv = ["examples/nvflare/run.py", "--out", str(tmp_path / "audit")]
    argv += ["--rounds", "4", "--noise-multiplier", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    # The result is all that is printed; what NVFlare says is in a file.
    assert ended.stderr == ""
    first, accuracy, head, *lines = ended.stdout.splitlines()
    assert first == f"running; its log is {tmp_path / 'audit.nvflare' / 'log'}"
    assert accuracy.startswith("accuracy 0.") and accuracy.endswith(" after 4 rounds")
    assert head.startswith("upper bound   ε ≤ ")
    assert len(lines) < 70
    # About 100 canaries in 4 rounds with a mean of about 0.84 each: the standard error is 0.06,
    # so that chance alone hides their arrival with a probability below 1e-6.
    assert "canary check passed" in ended.stdout
    assert "× the expected norm, clip norm / denominator" in " ".join(ended.stdout.split())
    assert "mechanism checks: passed, 6 of 6" in ended.stdout
    assert RoundScorer.open(tmp_path / "audit").scored_rounds == [1, 2, 3, 4]
