"""The data sets published by TFF: EMNIST by writer, and Stack Overflow (Reddi et al. 2020).

Clients are read one by one from TFF's SQLite files; their examples are not held in memory. The
files have the tables of `tff.simulation.datasets.SqlClientData`: `client_metadata` (client_id,
split_name, num_examples) and `examples` (split_name, client_id, serialized_example_proto), one
serialized `tf.train.Example` per row. According to FedJAX (`TFFSQLiteClientsIterator`), the files
that TFF publishes have an index on (split_name, client_id). Files written by
`save_to_sql_client_data` have no index, so each read of a client scans the whole table.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.simulation.datasets import download

from fl_audit.errors import InputError
from fl_audit.formats.text_files import reading, text_lines
from fl_audit.tasks.client_text import encode, examples_of, vocabulary_of_words
from fl_audit.tasks.images import cnn_classifier
from fl_audit.tasks.learning_task import Examples, LearningTask, Population, say_left_out
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.task_kinds import EmnistTask, StackOverflowTask

Features = Mapping[str, npt.NDArray[Any]]
"""Arrays by name, whose first axis is the example; strings are bytes objects."""

_CLIENTS = """
    SELECT client_id, num_examples FROM client_metadata WHERE split_name = ? ORDER BY client_id"""
_EXAMPLES = """
    SELECT serialized_example_proto FROM examples
    WHERE split_name = ? AND client_id = ? ORDER BY rowid"""


class SqliteClients(Population):
    """The clients of one split with at least one example, ordered by name."""

    def __init__(
        self,
        path: Path,
        split: str,
        features: Mapping[str, tf.io.FixedLenFeature],
        to_examples: Callable[[Features], Examples],
        max_clients: int = 0,
    ) -> None:
        """Reads the names of a split's first `max_clients` clients (0 for all), but no examples."""
        self._path = path
        self._split = split
        self._features = features
        self._to_examples = to_examples
        if not path.is_file():
            raise InputError(f"{path}: no such file; must be the SQLite file that TFF downloads")
        self._local = threading.local()
        rows = self._query(_CLIENTS, split)
        used = [row for row in rows if row[1]][: max_clients or None]
        if not used:
            raise InputError(f"{path}: no client has an example in the split {split!r}")
        self.client_ids: Sequence[str] = [client_id for client_id, _ in used]
        self._num_examples = np.array([count for _, count in used], np.int64)
        without = [client_id for client_id, count in rows if not count]
        say_left_out(f"{path}, split {split!r}", without, len(rows))

    def num_examples(self, client: int) -> int:
        return int(self._num_examples[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """Parses a client's examples at these positions, in this order."""
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
            # TensorFlow quotes bytes that it cannot parse; its message may then not be UTF-8.
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


# Files downloaded by TFF or provided by the user.

_ORIGIN = "https://storage.googleapis.com/tff-datasets-public"


def tff_database(path: str | None, kind: str, name: str) -> Path:
    """TFF's SQLite file of this name: `path`, or a download in ~/.tff if `path` is None."""
    if path is not None:
        return Path(path)
    with download_of(kind, "path"):
        return Path(download.get_compressed_file(f"{_ORIGIN}/{name}.lzma"))


@contextlib.contextmanager
def download_of(kind: str, key: str) -> Iterator[None]:
    """Turns a failed download into an `InputError` that names the key for a local file."""
    try:
        yield
    except Exception as error:
        # Keras raises a plain Exception.
        if type(error) is not Exception and not isinstance(error, OSError):
            raise
        raise InputError(
            f"task.kind {kind!r}: TFF could not load its data: {error}; let the first run "
            f"download the data, or set the key `task.{key}` to the file"
        ) from error


# EMNIST with the CNN of Reddi et al. 2020 (appendix C).

_CLASSES = 62
_HELD_OUT_CLIENTS = 100
_IMAGE = {
    # The last axis is the image's one channel.
    "pixels": tf.io.FixedLenFeature([28, 28, 1], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def load_emnist_task(config: EmnistTask, seed: int) -> LearningTask:
    """The task of 3,400 writers; the test images of the first 100 of them are held out."""
    path = tff_database(config.path, "emnist", "emnist_all.sqlite")
    test = SqliteClients(path, "all_test", _IMAGE, _to_examples, _HELD_OUT_CLIENTS)
    return LearningTask(
        name="EMNIST",
        classifier=cnn_classifier(
            (28, 28, 1),
            _CLASSES,
            seed,
            f"share of the images of {len(test.client_ids)} test writers classified correctly",
        ),
        population=SqliteClients(path, "all_train", _IMAGE, _to_examples, config.max_clients),
        held_out=Examples.concatenate([test.examples(c) for c in range(len(test.client_ids))]),
    )


def _to_examples(features: Features) -> Examples:
    return Examples(features["pixels"], features["label"].astype(np.int32))


# Stack Overflow next-word prediction.

_TOKENS = {"tokens": tf.io.FixedLenFeature([], tf.string)}
_HELD_OUT_SENTENCES = 10_000


def load_stackoverflow_task(config: StackOverflowTask, seed: int) -> LearningTask:
    """The task of 342,477 clients; 10,000 sentences of the first test clients are held out."""
    path = tff_database(config.path, "stackoverflow", "stackoverflow.sqlite")
    vocabulary = vocabulary_of_words(_words(config), config.vocabulary_size)

    def encoded(sentences: Sequence[Sequence[str]]) -> Examples:
        return examples_of(encode(sentences, vocabulary, config.sequence_length))

    def to_examples(features: Features) -> Examples:
        # TFF's text is ASCII; a word that is not UTF-8 is outside the vocabulary.
        return encoded([text.decode("utf-8", "replace").split() for text in features["tokens"]])

    test = SqliteClients(path, "test", _TOKENS, to_examples)
    return LearningTask(
        name="Stack Overflow next word",
        classifier=next_word_classifier(config, vocabulary, seed),
        population=SqliteClients(path, "train", _TOKENS, to_examples, config.max_clients),
        held_out=Examples.concatenate(list(_first_examples(test, _HELD_OUT_SENTENCES))),
        max_examples_per_client=config.max_sequences_per_client,
        examples_of_sentences=encoded,
    )


def _first_examples(population: Population, count: int) -> Iterator[Examples]:
    """The first `count` examples, client by client."""
    for client in range(len(population.client_ids)):
        taken = min(count, population.num_examples(client))
        if not taken:
            return
        yield population.take(client, np.arange(taken))
        count -= taken


def _words(config: StackOverflowTask) -> Sequence[str]:
    """The most frequent words, most frequent first."""
    if config.word_counts is not None:
        return _read_words(Path(config.word_counts), config.vocabulary_size)
    with download_of("stackoverflow", "word_counts"):
        counts = tff.simulation.datasets.stackoverflow.load_word_counts(
            vocab_size=config.vocabulary_size
        )
    return list(counts)


def _read_words(path: Path, count: int) -> Sequence[str]:
    with reading(path):
        lines = [line.split() for line in islice(text_lines(path), count)]
    for number, line in enumerate(lines, start=1):
        if len(line) != 2 or not line[1].isdecimal():
            raise InputError(
                f"{path}: line {number}: must be a word and its count, got {' '.join(line)!r}"
            )
    if not lines:
        raise InputError(f"{path}: has no words; must have a line `word count` per word")
    return [word for word, _ in lines]
