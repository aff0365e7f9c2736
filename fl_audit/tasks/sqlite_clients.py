"""Clients in TFF's SQLite format, read one by one, without holding their examples in memory.

The tables are those of `tff.simulation.datasets.SqlClientData`: `client_metadata` (client_id,
split_name, num_examples) and `examples` (split_name, client_id, serialized_example_proto), one
serialized `tf.train.Example` in each row. According to FedJAX (`TFFSQLiteClientsIterator`), the
files that TFF publishes have an index on (split_name, client_id). Those that
`save_to_sql_client_data` writes have none, and each read of a client then passes over the whole
table.
"""

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.tasks.classifier import Examples, Population

Features = Mapping[str, npt.NDArray[Any]]
"""Arrays by name, whose first axis is the example; strings are bytes objects."""

_CLIENTS = """
    SELECT client_id, num_examples FROM client_metadata
    WHERE split_name = ? AND num_examples > 0 ORDER BY client_id LIMIT ?"""
_EXAMPLES = """
    SELECT serialized_example_proto FROM examples
    WHERE split_name = ? AND client_id = ? ORDER BY rowid"""


class SqliteClients(Population):
    """The clients of one split in the order of their names, without those that have no example."""

    def __init__(
        self,
        path: Path,
        split: str,
        features: Mapping[str, tf.io.FixedLenFeature],
        to_examples: Callable[[Features], Examples],
        max_clients: int = 0,
    ) -> None:
        """Reads the names of the clients, and no example.

        Args:
          path: The SQLite file.
          split: The name of the split, such as "train".
          features: The features to parse of each example.
          to_examples: A function that makes inputs and labels of the features.
          max_clients: The number of clients to use, the first ones; 0 means all of them.

        Raises:
          InputError: The file cannot be read, is not in this format, or has no such split.
        """
        self._path = path
        self._split = split
        self._features = features
        self._to_examples = to_examples
        if not path.is_file():
            raise InputError(f"{path}: no such file; must be the SQLite file that TFF downloads")
        self._local = threading.local()
        rows = self._query(_CLIENTS, split, max_clients or -1)
        if not rows:
            raise InputError(f"{path}: no client has an example in the split {split!r}")
        self.client_ids: Sequence[str] = [client_id for client_id, _ in rows]
        self._num_examples = np.array([count for _, count in rows], np.int64)

    def num_examples(self, client: int) -> int:
        """The number of examples of one client."""
        return int(self._num_examples[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """One client's examples at these positions, in this order; parses no others.

        Raises:
          InputError: The client does not have the examples that the file says it has.
        """
        name = self.client_ids[client]
        rows = self._query(_EXAMPLES, self._split, name)
        if len(rows) != self._num_examples[client]:
            raise InputError(
                f"{self._path}: client {name!r} has {len(rows)} examples in the split "
                f"{self._split!r}; client_metadata says {self._num_examples[client]}"
            )
        serialized = [rows[position][0] for position in index]
        try:
            parsed = tf.io.parse_example(tf.constant(serialized, tf.string), self._features)
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            # TensorFlow quotes bytes that it cannot parse, and its message may then be no text.
            raise InputError(
                f"{self._path}: client {name!r} has an example that is damaged or of another data "
                f"set: must be a tf.train.Example with {' and '.join(self._features)}"
            ) from error
        return self._to_examples({key: value.numpy() for key, value in parsed.items()})

    def _query(self, query: str, *parameters: object) -> list[Any]:
        try:
            return self._connection().execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path}: cannot be read as the SQLite file that TFF downloads: {error}; "
                "an interrupted download leaves a damaged file, which must be deleted"
            ) from error

    def _connection(self) -> sqlite3.Connection:
        """The connection of this thread; it closes when the thread ends."""
        if not hasattr(self._local, "connection"):
            uri = f"{self._path.absolute().as_uri()}?mode=ro"
            self._local.connection = sqlite3.connect(uri, uri=True)
        connection: sqlite3.Connection = self._local.connection
        return connection
