"""SQLite files in the format that TFF downloads, as synthetic replacements of its data."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

_TABLES = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE examples (
        split_name TEXT NOT NULL, client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL);
    CREATE TABLE client_metadata (
        client_id TEXT NOT NULL, split_name TEXT NOT NULL, num_examples INTEGER NOT NULL);
"""
_INDEX = "CREATE INDEX idx_examples_client_id_split ON examples (split_name, client_id)"


class NewSqliteFile:
    """A file that is being written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Creates the tables in an empty file."""
        self._connection = connection
        connection.executescript(_TABLES)

    def add_examples(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Adds rows of split, client and serialized `tf.train.Example`."""
        self._connection.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)

    def add_clients(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Adds rows of client, split and number of examples."""
        self._connection.executemany("INSERT INTO client_metadata VALUES (?, ?, ?)", rows)


@contextlib.contextmanager
def new_sqlite_file(path: Path) -> Iterator[NewSqliteFile]:
    """Writes a file, and its folder; it appears, indexed, if the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(unfinished)) as connection:
        yield NewSqliteFile(connection)
        connection.execute(_INDEX)
        connection.commit()
    unfinished.replace(path)
