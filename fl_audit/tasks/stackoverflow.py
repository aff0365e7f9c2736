"""Stack Overflow next-word prediction (Reddi et al. 2020) on TFF's data."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.errors import InputError
from fl_audit.tasks.classifier import Examples, LearningTask, Population
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.sentences import encode, examples_of
from fl_audit.tasks.sqlite_clients import Features, SqliteClients
from fl_audit.tasks.tables import StackOverflowTask
from fl_audit.tasks.tff_files import download_of, tff_database
from fl_audit.tasks.vocabulary import vocabulary_of_words

_FEATURES = {"tokens": tf.io.FixedLenFeature([], tf.string)}
_HELD_OUT_SENTENCES = 10_000


def load_stackoverflow_task(config: StackOverflowTask, seed: int) -> LearningTask:
    """The task of 342,477 clients; 10,000 sentences of the first test clients are held out.

    Args:
      config: The files, the sizes of the model, and the number of clients to use.
      seed: The seed of the run; it decides the initial weights.

    Raises:
      InputError: A file cannot be downloaded or used.
    """
    path = tff_database(config.path, "stackoverflow", "stackoverflow.sqlite")
    vocabulary = vocabulary_of_words(_words(config), config.vocabulary_size)

    def of_sentences(sentences: Sequence[Sequence[str]]) -> Examples:
        return examples_of(encode(sentences, vocabulary, config.sequence_length))

    def to_examples(features: Features) -> Examples:
        # TFF's text is ASCII; a word that is no UTF-8 is one outside the vocabulary.
        return of_sentences(
            [text.decode("utf-8", "replace").split() for text in features["tokens"]]
        )

    test = SqliteClients(path, "test", _FEATURES, to_examples)
    return LearningTask(
        name="Stack Overflow next word",
        classifier=next_word_classifier(config, vocabulary, seed),
        population=SqliteClients(path, "train", _FEATURES, to_examples, config.max_clients),
        held_out=Examples.concatenate(list(_first_examples(test, _HELD_OUT_SENTENCES))),
        max_examples_per_client=config.max_sequences_per_client,
        examples_of_sentences=of_sentences,
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
    try:
        with path.open(encoding="utf-8") as file:
            lines = [line.split() for line in islice(file, count)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: must be UTF-8 text (unpack a .tar.bz2 first): {error.reason}"
        ) from error
    for number, line in enumerate(lines, start=1):
        if len(line) != 2 or not line[1].isdecimal():
            raise InputError(
                f"{path}: line {number}: must be a word and its count, got {' '.join(line)!r}"
            )
    if not lines:
        raise InputError(f"{path}: has no words; must have a line `word count` per word")
    return [word for word, _ in lines]
