"""SQLite files in TFF's format, with the tables and indexes of TFF's own."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

Element = Mapping[str, bytes | int | np.ndarray]
Splits = Mapping[str, Mapping[str, Sequence[Element]]]

SCHEMA = """
    CREATE TABLE examples (
        split_name TEXT NOT NULL, client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL);
    CREATE INDEX idx_examples_client_id ON examples (client_id);
    CREATE INDEX idx_examples_client_id_split ON examples (split_name, client_id);
    CREATE TABLE client_metadata (
        client_id TEXT NOT NULL, split_name TEXT NOT NULL, num_examples INTEGER NOT NULL);
    CREATE INDEX idx_metadata_client_id ON client_metadata (client_id);
"""


def _feature(value: bytes | int | np.ndarray) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=value.ravel()))


def _serialized(element: Element) -> bytes:
    features = {name: _feature(value) for name, value in element.items()}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def write_clients(path: Path, splits: Splits) -> Path:
    """Writes clients and their elements, split by split; the clients' rows alternate."""
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA)
        for split, clients in splits.items():
            rows = [
                (position, split, name, _serialized(element))
                for name, elements in clients.items()
                for position, element in enumerate(elements)
            ]
            in_turn = [row[1:] for row in sorted(rows, key=lambda row: row[0])]
            connection.executemany("INSERT INTO examples VALUES (?, ?, ?)", in_turn)
            counts = [(name, split, len(elements)) for name, elements in clients.items()]
            connection.executemany("INSERT INTO client_metadata VALUES (?, ?, ?)", counts)
    connection.close()
    return path


@pytest.fixture(scope="session")
def database() -> Callable[[Path, Splits], Path]:
    """The function that writes clients to a file."""
    return write_clients
