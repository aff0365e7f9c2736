"""`fl-audit attack` on wines, at a size for tests: files, resuming, bad input."""

import csv
import json

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.config.attack_tables import load_attack_config
from fl_audit.engines.tff.shadow_models import ModelBlockTrainer
from fl_audit.errors import InputError
from fl_audit.formats.score_file import read_counts_file, read_score_file
from tests.tests_of_docs import ROOT, blocks

CONFIG = """
[task]
kind = "wine"
num_clients = 3
hidden = [16]

[attack]
num_shadow = 20
num_points = 2
num_base_shadow = 8
num_challenges = 20
epochs = 20
batch_size = 20
models_per_block = 20
"""


class KilledError(Exception):
    pass


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def losses(path):
    with path.open() as file:
        return {row["id"]: float(row["loss"]) for row in csv.DictReader(file)}


@pytest.mark.tff
def test_a_killed_attack_goes_on_and_its_files_are_the_same(config, tmp_path, capsys, monkeypatch):
    assert main(["attack", str(config), "--out", str(tmp_path / "whole"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)

    sizes, original = [], ModelBlockTrainer.train

    def killed_at_third(self, initial, batches, keys):
        sizes.append(len(batches))
        if len(sizes) == 3:
            raise KilledError
        return original(self, initial, batches, keys)

    monkeypatch.setattr(ModelBlockTrainer, "train", killed_at_third)
    parts = tmp_path / "parts"
    with pytest.raises(KilledError):
        main(["attack", str(config), "--out", str(parts)])
    assert not (parts / "report.json").exists()
    assert main(["attack", str(config), "--out", str(parts)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["attack", str(config), "--out", str(parts), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert sizes == [20, 8, 20, 20, 8, 20]  # the third block again, no other
    for path in (tmp_path / "whole").iterdir():
        if path.is_file():
            assert (parts / path.name).read_bytes() == path.read_bytes()

    assert json.loads((parts / "report.json").read_text()) == report
    assert set(report["statistics"]) == {"lira", "loss", "margin", "rmia", "calibrated"}
    assert report["analytical_epsilon"] == "inf"
    assert report["num_models"] == 20 + 2 * (8 + 20)
    scores = {name: read_score_file(parts / f"scores_{name}.csv") for name in report["statistics"]}
    assert all(len(file.score) == 40 for file in scores.values())
    assert len({tuple(file.included) for file in scores.values()}) == 1
    np.testing.assert_array_equal(
        np.argsort(scores["loss"].score), np.argsort(scores["margin"].score)
    )
    counts = read_counts_file(parts / "counts.csv")
    assert counts.num_bases == 2
    assert int(np.sum(counts.n1)) == int(np.sum(scores["lira"].included))
    members, others = (losses(parts / f"losses_{of}.csv") for of in ("members", "population"))
    assert (len(members), len(others)) == (178 // 2, 178 // 2)
    assert not set(members) & set(others)
    assert np.mean(list(members.values())) < np.mean(list(others.values()))
    assert "<svg" in (parts / "report.html").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[attack]\nnum_shadws = 3\n", "did you mean 'num_shadow'?"),
        ("[attack]\nnum_shadow = 3\n", "key `attack.num_shadow`"),
        ("[attack]\nnum_shadow = 41\n", "key `attack.num_shadow`: must be an even number, got 41"),
        ("[attack]\nnum_base_shadow = 5\n", "must be an even number, got 5"),
        ("[attack]\nclip_norm = 1.0\n", "clip_norm and noise_multiplier (or epsilon) make DP"),
        ("[attack]\nepsilon = 1.0\n", "clip_norm and noise_multiplier (or epsilon) make DP"),
        (
            "[attack]\nclip_norm = 1.0\nepsilon = 1.0\nnoise_multiplier = 1.0\n",
            "both determine DP-SGD's noise; set one of them",
        ),
        ("[attack]\nmicrobatches = 2\n", "microbatches are only for DP-SGD; set clip_norm"),
        (
            "[attack]\nclip_norm = 1.0\nepsilon = 1.0\nmicrobatches = 51\n",
            "microbatches must be at most batch_size, 50, got 51",
        ),
        ("[attack]\ninitial_weights = 'fixed'\n", "unknown 'fixed'"),
        ("[mechanism]\nkind = 'none'\ncanary_norm = 1.0\n", "section [participation] is missing"),
    ],
)
def test_bad_configs_are_refused(tmp_path, text, message):
    path = tmp_path / "config.toml"
    path.write_text('[task]\nkind = "digits"\n' + text)
    with pytest.raises(InputError) as caught:
        load_attack_config(path, [])
    assert message in str(caught.value)


@pytest.mark.tff
def test_what_cannot_be_attacked_is_refused_before_anything_is_written(config, tmp_path, capsys):
    for override, message in [
        ("attack.batch_size=1000", "attack.batch_size: must be below 89"),
        ("attack.num_points=2000", "attack.num_points: must be at most 178"),
    ]:
        out = tmp_path / "out"
        assert main(["attack", str(config), "--set", override, "--out", str(out)]) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()
    assert main(["attack", str(config), "--out", str(tmp_path / "none"), "--resume"]) == 2
    assert "holds no run to resume" in capsys.readouterr().err


LOGISTIC = """
import numpy as np
import tensorflow as tf
from fl_audit.tasks.own_task import OwnTask

def make(seed):
    data = np.ones((9, 2)), np.arange(9) % 2
    return OwnTask(
        initial_weights=[np.zeros((2, 1))],
        predict=lambda weights, inputs: tf.squeeze(inputs @ weights[0]),
        loss=lambda outputs, labels: (outputs - tf.cast(labels, tf.float32)) ** 2,
        correct=lambda outputs, labels: (outputs > 0) == (labels > 0),
        client_ids=["a"],
        client_data=lambda client: data,
        held_out=data,
    )
"""


@pytest.mark.tff
def test_a_model_of_one_output_is_refused_before_anything_is_written(tmp_path, capsys):
    (tmp_path / "logistic_of_test.py").write_text(LOGISTIC)
    task = '[task]\nkind = "python"\nmodule = "logistic_of_test:make"\n'
    attack = "[attack]\nnum_shadow = 40\nnum_points = 2\nbatch_size = 3\n"
    (tmp_path / "config.toml").write_text(task + attack)
    out = tmp_path / "out"
    assert main(["attack", str(tmp_path / "config.toml"), "--out", str(out)]) == 2
    assert "an output for each of two or more classes" in capsys.readouterr().err
    assert not out.exists()


def test_the_code_of_the_docs_runs():
    exec(blocks((ROOT / "docs/membership.md").read_text(), "python")[0], {})
