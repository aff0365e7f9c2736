"""Runs with noise at the client, whose uploads are attacked: scores, bounds and what is left."""

import json
import math

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.score_file import read_score_file

pytestmark = [pytest.mark.tff, pytest.mark.slow]

ROUNDS, SEVERAL, Z = 4, 2, 0.05

CONFIG = f"""
seed = 4
[task]
kind = "digits"
num_clients = 20
hidden = [8]
[mechanism]
kind = "client_gaussian"
noise_multiplier = {Z}
clip_norm = 1.0
[participation]
kind = "shuffle"
clients_per_round = 5
rounds = {ROUNDS}
canary_repeats = {SEVERAL}
[canaries]
count = 24
[log]
checkpoint_every = 2
[audit]
delta = 1e-3
threat_models = ["known_rounds", "one_upload"]
"""


def _run(path, *options):
    (path / "config.toml").write_text(CONFIG)
    assert main(["run", str(path / "config.toml"), "--out", str(path / "run"), *options]) == 0
    return RunFolder(path / "run")


@pytest.fixture(scope="module", params=["local", "jax"])
def folder(request, tmp_path_factory):
    return _run(tmp_path_factory.mktemp("run"), "--set", f"runtime={request.param}")


def test_scores_are_cosines_with_the_sum_of_the_uploads(folder):
    """An upload has norm sqrt(1 + z^2 d), so that K of them have a cosine of about sqrt(K) / ..."""
    scores = read_score_file(folder.scores("one_upload"))
    dim = json.loads(folder.record.read_text())["dim"]
    included = scores.score[scores.included]
    of_sum = SEVERAL / math.sqrt(SEVERAL**2 + SEVERAL * Z**2 * dim)
    # The cosine's standard deviation is below 1 / sqrt(d); six of them (1e-8 over 24 canaries).
    assert np.abs(included - of_sum).max() < 6 / math.sqrt(dim)
    assert np.abs(scores.score[~scores.included]).max() < 6 / math.sqrt(dim)


def test_no_directions_are_left(folder):
    assert folder.upload_cosines.exists()
    assert not folder.upload_directions.exists()
    assert not folder.round_directions.exists()


def test_the_report_bounds_each_attacker(folder):
    report = json.loads(folder.report_json.read_text())
    attackers = report["analytical"]["attackers"]
    canary = {name: bounds["canary"]["epsilon"] for name, bounds in attackers.items()}
    assert canary["sees_uploads"] > canary["knows_rounds"] == canary["does_not_know_rounds"]
    found = report["efficiency"]["one_upload"]
    assert found["sees_uploads"] is True
    assert found["guaranteed"] == canary["sees_uploads"]
    assert 0 < found["proven"] <= found["guaranteed"]
    assert "sees_uploads" not in report["efficiency"]["own_rounds"]
    assert report["efficiency"]["own_rounds"]["guaranteed"] == canary["knows_rounds"]
    page = folder.report_html.read_text()
    assert "attacker who sees single uploads" in page
    assert "adds Gaussian noise with noise multiplier 0.05 before it uploads it" in page


def test_the_folder_verifies(folder, capsys):
    assert main(["verify", str(folder.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["held"], found["not_made_again"]) == (True, [])


def test_scores_of_single_uploads_are_made_again(tmp_path, capsys):
    single = _run(tmp_path, "--set", "participation.canary_repeats=1")
    capsys.readouterr()
    assert main(["verify", str(single.path)]) == 0
    assert "scores_one_upload.csv" not in capsys.readouterr().out
    cosines = np.load(single.upload_cosines)
    at = tuple(np.argwhere(np.isfinite(cosines))[0])
    cosines[at] = 0.5
    np.save(single.upload_cosines, cosines)
    assert main(["verify", str(single.path)]) == 1
    found = capsys.readouterr().out
    assert "scores_one_upload.csv: canary" in found
    assert "the logs give 0.5" in found
