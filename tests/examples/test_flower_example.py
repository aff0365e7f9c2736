"""The Flower example against the real flwr package, in the environment of `make test-flower`."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks import RoundScorer
from fl_audit.formats.score_file import read_score_file

pytest.importorskip("flwr", reason="flwr has an environment of its own: make test-flower")

ROOT = Path(__file__).parent.parent.parent


def test_a_flower_server_is_audited(tmp_path):
    argv = ["examples/flower/run.py", "--out", str(tmp_path / "audit")]
    argv += ["--rounds", "4", "--noise-multiplier", "0.05"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    # The result is all that is printed; what Flower and Ray say is in a file.
    assert ended.stderr == ""
    first, accuracy, head, *lines = ended.stdout.splitlines()
    assert first == f"running; its log is {tmp_path / 'audit.log'}"
    words = accuracy.split(maxsplit=2)
    assert (words[0], words[2]) == ("accuracy", "after 4 rounds")
    assert 0.5 < float(words[1]) <= 1  # a guess among ten classes is 0.1
    assert head == "upper bound   unknown (the log does not state the canaries’ rounds)"
    assert lines[0].startswith("lower bound")
    assert len(lines) < 70
    assert "0 failures" in (tmp_path / "audit.log").read_text()
    scorer = RoundScorer.open(tmp_path / "audit")
    assert scorer.scored_rounds == [1, 2, 3, 4]

    # A round takes 29 of 299 nodes, so that a third of the included canaries take part in some
    # round, with a cosine of about 0.1 each. A cosine that has nothing to do with a canary exceeds
    # 7/sqrt(dim) = 0.079 with probability exp(-24.5) (Hoeffding): in 4 rounds with 200, 2e-8.
    largest = read_score_file(scorer.folder.scores("max"))
    found = largest.score > 7 / np.sqrt(scorer.pool.dim)
    assert found[largest.included].sum() > 10
    assert not found[~largest.included].any()
    final = read_score_file(scorer.folder.scores("final_minus_initial"))
    excluded = final.score[~final.included]  # the mean's bound too fails with 2 exp(-24.5)
    assert abs(excluded.mean()) < 7 / np.sqrt(scorer.pool.dim * len(excluded))

    page = tmp_path / "page.html"
    argv = ["estimate", str(tmp_path / "audit"), "--delta=1e-3", f"--out={page}"]
    subprocess.run([sys.executable, "-m", "fl_audit.cli", *argv], cwd=ROOT, check=True)
    assert "200 Rademacher canaries, of which 99 were included in training and 4 scored rounds" in (
        page.read_text()
    )


def test_neither_flower_nor_the_audit_needs_tensorflow():
    program = (
        "import sys; sys.path.insert(0, 'examples/flower'); import client_app, fl_audit.flower; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
