"""What `fl-audit init` writes of every task, `fl-audit run` trains."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow_federated as tff
from tests_of_docs import ROOT, blocks

from fl_audit.cli import main
from fl_audit.tasks.task_kinds import TASKS

pytestmark = pytest.mark.tff

_FEW = (
    "participation.rounds=2",
    "participation.clients_per_round=2",
    "canaries.count=8",
    "log.evaluate_every=2",
)
_SMALL_LSTM = ("task.vocabulary_size=20", "task.embedding_size=8", "task.lstm_size=16")


def _text(folder: Path) -> list[str]:
    rows = [f"client {i % 4},the quick brown fox jumps over the lazy dog" for i in range(60)]
    (folder / "text.csv").write_text("client_id,text\n" + "\n".join(rows) + "\n")
    return ["task.path=text.csv", *_SMALL_LSTM]


def _saved(data, splits: list[str], path: Path) -> None:
    tff.simulation.datasets.save_to_sql_client_data(
        data.client_ids,
        data.create_tf_dataset_for_client,
        str(path),
        split_names_by_client_id=dict(zip(data.client_ids, splits, strict=True)),
    )


def _stackoverflow(folder: Path) -> list[str]:
    data = tff.simulation.datasets.stackoverflow.get_synthetic()
    _saved(data, ["train", "train", "test"], folder / "so.sqlite")
    (folder / "so.word_count").write_text("one 3\nmust 2\nimagine 1\n")
    return ["task.path=so.sqlite", "task.word_counts=so.word_count", *_SMALL_LSTM]


def _emnist(folder: Path) -> list[str]:
    data = tff.simulation.datasets.emnist.get_synthetic()
    _saved(data, ["all_train", "all_test"], folder / "emnist.sqlite")
    # One client and three canaries a round: with two, the noise of the count would be all of it.
    few = ["participation.clients_per_round=1", "client.learning_rate=0.02", "canaries.count=12"]
    few.append("audit.delta=0.001")  # one client, for which N^-1.1 is 1
    return ["task.path=emnist.sqlite", *few]


def _python(folder: Path) -> list[str]:
    (module,) = blocks((ROOT / "docs/own_task.md").read_text(), "python")
    (folder / "my_task.py").write_text(module)
    return ["task.module=my_task:make"]


def _npz(folder: Path) -> list[str]:
    (folder / "clients").mkdir()
    rng = np.random.default_rng(0)
    for client in range(5):
        arrays = {"inputs": rng.normal(size=(8, 40)), "labels": rng.integers(0, 3, 8)}
        np.savez(folder / f"clients/{client}.npz", **arrays)
    return ["task.path=clients"]


def _table(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    head = ",".join(["client_id", "label", *(f"x{i}" for i in range(40))])
    rows = [
        f"{i % 5},{i % 2}," + ",".join(f"{x:.3f}" for x in rng.normal(size=40)) for i in range(40)
    ]
    (folder / "rows.csv").write_text("\n".join([head, *rows]) + "\n")
    return ["task.path=rows.csv"]


def _purchase(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(1, 101, 60), rng.integers(0, 2, (60, 6))])
    np.savetxt(folder / "dataset_purchase", rows, fmt="%d", delimiter=",")
    return ["task.path=dataset_purchase", "task.num_clients=5"]


def _cifar(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        rows = rng.integers(0, 256, (12, 3073), dtype=np.uint8)
        rows[:, 0] %= 10
        rows.tofile(folder / f"{name}.bin")
    return ["task.path=.", "task.num_clients=4"]


_DATA = {
    "text": _text,
    "stackoverflow": _stackoverflow,
    "emnist": _emnist,
    "python": _python,
    "npz": _npz,
    "table": _table,
    "purchase100": _purchase,
    "cifar10": _cifar,
}
"""Small stand-ins for data that do not come with scikit-learn, and what names them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", sorted({str(t.__struct_config__.tag) for t in TASKS.tables} - {"numbers"})
)
def test_run_trains_what_init_writes(task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", task]) == 0
    said = capsys.readouterr().out
    settings = _DATA[task](tmp_path) if task in _DATA else []
    lines = Path("config.toml").read_text().splitlines()
    to_fill = re.search(r"fill in lines? ([\d, ]+)", said)
    for number in map(int, to_fill[1].split(", ") if to_fill else ()):
        key = lines[number - 1].partition(" ")[0]
        assert any(setting.startswith(f"task.{key}=") for setting in settings)
    changes = [word for setting in (*_FEW, *settings) for word in ("--set", setting)]
    assert main(["run", "config.toml", "--out", "run", "--json", *changes]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["run"]["release"]["rounds"] == 2
    assert report["statistics"]["own_rounds"]["estimates"]


def test_numbers_are_for_plan_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "numbers"]) == 0
    assert "is only for `fl-audit plan config.toml`" in capsys.readouterr().out
    assert main(["run", "config.toml", "--out", "run"]) == 2
    assert "it is for `fl-audit plan`" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("canaries", "outcome"), [("once_per_epoch", "consistent"), ("repeats", "inconclusive")]
)
def test_a_claim_is_consistent_where_canaries_take_part_as_clients_do(
    canaries, outcome, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "digits"]) == 0
    assert 'write "once_per_epoch"' in " ".join(Path("config.toml").read_text().split("\n# "))
    # Three epochs of 15 rounds each; the claim is what accounting guarantees to a client.
    settings = ("participation.rounds=45", f"participation.canaries={canaries}", "audit.delta=1e-3")
    changes = [word for setting in settings for word in ("--set", setting)]
    capsys.readouterr()
    assert main(["run", "config.toml", "--out", "run", "--json", *changes]) == 0
    json.loads(capsys.readouterr().out)
    claim = ["--delta", "1e-3", "--claimed-epsilon", "34"]
    assert main(["estimate", "run", *claim, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["outcome"] == outcome
