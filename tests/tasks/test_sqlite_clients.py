"""Clients read from TFF's SQLite format, against TFF's own reader."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.errors import InputError
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tff_datasets import SqliteClients

SPEC = {
    "tokens": tf.io.FixedLenFeature([], tf.string),
    "score": tf.io.FixedLenFeature([], tf.int64),
    "pixels": tf.io.FixedLenFeature([2, 3], tf.float32),
}
# Names that SQL, URIs and sorting could trip over; client ids are shared between splits.
NAMES = ["10", "9", "o'brien", 'say "x"', "%41?mode=rw#", "é", "", " a"]


def elements(split: str, name: str) -> list[dict[str, object]]:
    """Up to 11 elements that say whose they are."""
    rng = np.random.default_rng([len(split), *name.encode()])
    return [
        {
            "tokens": f"{split} {name} {i}".encode(),
            "score": int(rng.integers(-9, 9)),
            "pixels": rng.random((2, 3), np.float32),
        }
        for i in range(1 + NAMES.index(name) * 10 // 7)
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory, database) -> Path:
    folder = tmp_path_factory.mktemp("a folder % of 100?#")
    splits = {
        "train": {name: elements("train", name) for name in NAMES},
        "test": {name: elements("test", name) for name in NAMES[::-2]},
    }
    return database(folder / "clients.sqlite", splits)


def read(path: Path, split: str = "train", **arguments: int) -> SqliteClients:
    """With labels that are the tokens, so that bytes come back as they are."""
    return SqliteClients(
        path, split, SPEC, lambda f: Examples(f["pixels"], f["tokens"]), **arguments
    )


def tffs(path: Path, split: str) -> tff.simulation.datasets.ClientData:
    def parse(rows: tf.data.Dataset) -> tf.data.Dataset:
        return rows.map(lambda row: tf.io.parse_single_example(row, SPEC))

    return tff.simulation.datasets.SqlClientData(str(path), split).preprocess(parse)


@pytest.mark.parametrize("split", ["train", "test"])
def test_equals_tffs_reader(path, split):
    mine = read(path, split)
    # TFF's own query breaks on an apostrophe.
    theirs = tffs(path, split)
    assert list(mine.client_ids) == theirs.client_ids
    for client, name in enumerate(mine.client_ids):
        if "'" in name:
            expected = elements(split, name)
        else:
            expected = list(theirs.create_tf_dataset_for_client(name).as_numpy_iterator())
        examples = mine.examples(client)
        assert mine.num_examples(client) == len(examples) == len(expected)
        for pixels, tokens, row in zip(examples.inputs, examples.labels, expected, strict=True):
            assert tokens == row["tokens"]
            np.testing.assert_array_equal(pixels, row["pixels"])


def test_equals_what_tff_saved_without_an_index(tmp_path):
    synthetic = tff.simulation.datasets.stackoverflow.get_synthetic()
    path = tmp_path / "saved.sqlite"
    tff.simulation.datasets.save_to_sql_client_data(
        synthetic.client_ids,
        synthetic.create_tf_dataset_for_client,
        str(path),
        split_names_by_client_id=dict.fromkeys(synthetic.client_ids, "train"),
    )
    spec = {"tokens": tf.io.FixedLenFeature([], tf.string)}
    mine = SqliteClients(path, "train", spec, lambda f: Examples(f["tokens"], f["tokens"]))
    assert list(mine.client_ids) == synthetic.client_ids
    for client, name in enumerate(mine.client_ids):
        rows = synthetic.create_tf_dataset_for_client(name).as_numpy_iterator()
        assert list(mine.examples(client).labels) == [row["tokens"] for row in rows]


def test_takes_what_is_asked_for_in_that_order(path):
    clients = read(path)
    client = list(clients.client_ids).index(" a")
    index = np.array([7, 0, 10, 7])
    expected = [f"train  a {i}".encode() for i in index]
    assert list(clients.take(client, index).labels) == expected
    assert len(clients.take(client, index[:0])) == 0


def test_clients_without_examples_are_left_out_and_counted(tmp_path, database, capsys):
    some = elements("train", "9")
    by_client = {"a": [], "b": some, "c": [], "d": some, "e": some}
    path = database(tmp_path / "c.sqlite", {"train": by_client})
    clients = read(path, max_clients=2)
    assert list(clients.client_ids) == ["b", "d"]
    assert len(clients.examples(1)) == len(some)
    assert "2 of 5 clients, the first 'a', have no data and are left out" in capsys.readouterr().err


def refusal(path: Path, split: str = "train") -> str:
    """The one line that refuses a file, without its name."""
    with pytest.raises(InputError) as caught:
        read(path, split)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda data: b"", "no such table: client_metadata; "),
        (lambda data: b"client_id,text\n" * 100, "file is not a database; "),
        (lambda data: data[: len(data) // 2], "database disk image is malformed; "),
        (lambda data: data[:4096] + bytes(len(data) - 4096), "database disk image is malformed; "),
    ],
    ids=["empty", "text", "truncated", "zeros"],
)
def test_refuses_a_damaged_file(path, tmp_path, damage, expected):
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(damage(path.read_bytes()))
    line = refusal(broken)
    assert line.startswith(f"cannot be read as the SQLite file that TFF downloads: {expected}")
    assert line.endswith("an interrupted download leaves a damaged file, which must be deleted")


def test_refuses_other_tables(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE client_metadata (name TEXT)")
    assert "no such column: client_id" in refusal(path)


def test_refuses_a_split_that_is_not_there(path):
    assert refusal(path, "all_train") == "no client has an example in the split 'all_train'"


def test_refuses_a_client_with_fewer_examples_than_it_says(tmp_path, database):
    path = database(tmp_path / "c.sqlite", {"train": {"9": elements("train", "9")}})
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE client_metadata SET num_examples = 5")
    with pytest.raises(InputError, match="client '9' has 2 examples in the split 'train'; client"):
        read(path).take(0, np.array([4]))


def test_refuses_examples_without_a_feature(tmp_path, database):
    path = database(tmp_path / "c.sqlite", {"train": {"a": [{"tokens": b"x"}]}})
    with pytest.raises(InputError, match=r"of another data set: must be .* with tokens and score"):
        read(path).examples(0)
