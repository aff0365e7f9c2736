"""Next-word prediction on any `client_id,text` CSV."""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from fl_audit.errors import InputError, nearest
from fl_audit.tasks.classifier import LearningTask
from fl_audit.tasks.corpus import Corpus, Sentence, collect, corpus_of_arrays
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.sentences import SentencePopulation, encode, examples_of
from fl_audit.tasks.shared_parts import made_once
from fl_audit.tasks.tables import TextTask
from fl_audit.tasks.vocabulary import build_vocabulary, words_of


def _sentences(path: Path, rows: "csv.DictReader[str]") -> Iterator[Sentence]:
    """The rows with at least one word; every client must have one."""
    seen: dict[str, bool] = {}
    columns = rows.fieldnames or ["(no header)"]
    for column in ("client_id", "text"):
        if column not in columns:
            raise InputError(f"{path}: column `{column}` is missing; {nearest(column, columns)}")
    for row in rows:
        if None in row or None in row.values():
            raise InputError(
                f"{path}: line {rows.line_num}: must have {len(columns)} fields, as the header; "
                "put a text with commas in double quotes"
            )
        client_id, words = row["client_id"], words_of(row["text"])
        if not client_id.strip():
            raise InputError(f"{path}: line {rows.line_num}: `client_id` is empty")
        seen[client_id] = seen.get(client_id, False) or bool(words)
        if words:
            yield Sentence(client_id, words)
    empty = [client_id for client_id, has_words in seen.items() if not has_words]
    if empty:
        raise InputError(f"{path}: client {empty[0]!r} is empty: none of its rows has a word")


def read_sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a `client_id,text` CSV, one in each row; rows without a word are left out.

    Args:
      path: The CSV, compressed by gzip where its name ends with `.gz`.

    Raises:
      InputError: The file cannot be read, lacks a column, or has a client without a word.
    """
    try:
        with _opened(path) as file:
            # strict, as a quote that is never closed would swallow all rows behind it.
            rows = csv.DictReader(file, strict=True)
            yield from _sentences(path, rows)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: must be a file compressed by gzip: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be UTF-8 text: {error.reason}") from error
    except csv.Error as error:
        line = rows.reader.line_num
        raise InputError(f"{path}: line {line}: not valid CSV: {error}") from error


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def load_text_task(config: TextTask, seed: int) -> LearningTask:
    """The task of a CSV's clients, with a vocabulary built from the training rows.

    Args:
      config: The file and the sizes of the model.
      seed: The seed of the run; it decides the initial weights.

    Raises:
      InputError: The file cannot be read, lacks a column, has a client without a word, or too few
        rows to hold any out.
    """
    path = Path(config.path)
    corpus = _corpus(path, config.sequence_length)
    if not corpus.num_held_out:
        raise InputError(
            f"{path}: no row can be held out: of the rows with words every tenth is, unless it is "
            "its client's first; must have more rows"
        )
    vocabulary = build_vocabulary(corpus.word_counts, config.vocabulary_size)
    rows = corpus.rows(vocabulary)
    return LearningTask(
        name=f"next word of {path.name}",
        classifier=next_word_classifier(config, vocabulary, seed),
        population=SentencePopulation(corpus.client_ids, rows, corpus.first_rows()),
        held_out=examples_of(rows[: corpus.num_held_out]),
        max_examples_per_client=config.max_sequences_per_client,
        examples_of_sentences=lambda sentences: examples_of(
            encode(sentences, vocabulary, config.sequence_length)
        ),
    )


def _corpus(path: Path, length: int) -> Corpus:
    """The corpus of a CSV, which the first run of a sweep reads for all of them.

    Raises:
      InputError: The file cannot be used.
    """
    settings = f"{path.suffix} {length}"
    return corpus_of_arrays(
        made_once("text", path, settings, lambda: collect(read_sentences(path), length).arrays())
    )
