"""Files in TFF's SQLite format that are written here are read as TFF's own are."""

import pytest

from experiments.sqlite_file import new_sqlite_file
from fl_audit.tasks.tff_datasets import SqliteClients


def test_clients_are_read_in_the_order_of_their_names(tmp_path):
    path = tmp_path / "new" / "clients.sqlite"
    with new_sqlite_file(path) as file:
        file.add_clients([("b", "train", 2), ("a", "train", 1), ("c", "test", 1)])
        file.add_examples([("train", "b", b""), ("train", "b", b""), ("train", "a", b"")])
    clients = SqliteClients(path, "train", {}, lambda features: features)
    assert clients.client_ids == ["a", "b"]
    assert [clients.num_examples(client) for client in (0, 1)] == [1, 2]


def test_a_file_that_is_not_finished_does_not_appear(tmp_path):
    path = tmp_path / "clients.sqlite"
    with pytest.raises(KeyError), new_sqlite_file(path):
        raise KeyError
    assert not path.exists()
    with new_sqlite_file(path):
        pass
    assert path.exists()
