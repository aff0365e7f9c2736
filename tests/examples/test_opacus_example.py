"""The Opacus example against the real package, in the environment of `make test-opacus`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_audit.attacks import RoundScorer

pytest.importorskip("opacus", reason="Opacus has an environment of its own: make test-opacus")

ROOT = Path(__file__).parent.parent.parent


def test_a_training_is_audited(tmp_path):
    argv = ["examples/opacus/run.py", "--out", str(tmp_path / "audit"), "--epochs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stderr == ""
    first, head, *lines = ended.stdout.splitlines()
    assert first.startswith("accuracy 0.") and "Opacus says that ε = " in first
    assert head.startswith("upper bound   ε ≤ ") and "attacker who knows the" in head
    assert len(lines) < 30
    # About 500 presentations with a mean of 1 and a deviation of about 1 each: the standard error
    # is 0.05, so that chance alone hides their arrival with a probability below 1e-6.
    assert "canary check passed" in ended.stdout
    assert "mechanism checks: passed" in ended.stdout
    # A true claim is contradicted with probability 0.05 at most, and here far less often: the
    # bound of a few hundred canaries in one step each is far below it.
    assert "verdict: INCONCLUSIVE on the claim of a privacy profile" in ended.stdout
    assert RoundScorer.open(tmp_path / "audit").scored_rounds == list(range(1, 33))
