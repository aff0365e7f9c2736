"""The pfl example against the real package, in the environment of `make test-pfl`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_audit.attacks import RoundScorer

pytest.importorskip("pfl", reason="pfl has an environment of its own: make test-pfl")

ROOT = Path(__file__).parent.parent.parent


def test_a_simulation_is_audited(tmp_path):
    argv = ["examples/pfl/run.py", "--out", str(tmp_path / "audit"), "--iterations", "8"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, head, *lines = ended.stdout.splitlines()
    assert first.startswith("accuracy 0.") and "pfl's accountant says ε = " in first
    assert head.startswith("upper bound")
    assert len(lines) < 30
    # About 200 presentations with a mean of 1 and a deviation of about 1 each: the standard error
    # is 0.07, so that chance alone hides their arrival with a probability below 1e-6.
    assert "canary check passed" in ended.stdout
    assert "mechanism checks: passed" in ended.stdout
    assert "verdict: INCONCLUSIVE on the claim of a privacy profile" in ended.stdout
    assert RoundScorer.open(tmp_path / "audit").scored_rounds == list(range(1, 9))
