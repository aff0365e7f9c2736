"""Next-word prediction on any `client_id,text` CSV."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.config import TextTask
from fl_audit.errors import InputError, nearest
from fl_audit.tasks.classifier import Examples, InMemoryPopulation, LearningTask
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.vocabulary import Vocabulary, build_vocabulary, words_of

_HOLD_OUT_EVERY = 10


@dataclass(frozen=True)
class _Sentence:
    client_id: str
    words: Sequence[str]


def _sentences(path: Path, rows: "csv.DictReader[str]") -> Iterator[_Sentence]:
    """Rows with at least one word; every client must have one."""
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
            yield _Sentence(client_id, words)
    empty = [client_id for client_id, has_words in seen.items() if not has_words]
    if empty:
        raise InputError(f"{path}: client {empty[0]!r} is empty: none of its rows has a word")


def _read(path: Path) -> list[_Sentence]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            # strict: a quote that is never closed would swallow all rows behind it.
            rows = csv.DictReader(file, strict=True)
            return list(_sentences(path, rows))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be UTF-8 text: {error.reason}") from error
    except csv.Error as error:
        line = rows.reader.line_num
        raise InputError(f"{path}: line {line}: not valid CSV: {error}") from error


def _split(sentences: Sequence[_Sentence]) -> tuple[dict[str, list[_Sentence]], list[_Sentence]]:
    """Every tenth sentence is held out, unless its client would be left with none."""
    training: dict[str, list[_Sentence]] = {}
    held_out = []
    for position, sentence in enumerate(sentences, start=1):
        if position % _HOLD_OUT_EVERY == 0 and sentence.client_id in training:
            held_out.append(sentence)
        else:
            training.setdefault(sentence.client_id, []).append(sentence)
    return training, held_out


def encode(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int) -> Examples:
    """Sentences as inputs and labels, int32 of shape (sentences, length) each."""
    tokens = np.stack([vocabulary.encode(words, length) for words in sentences])
    return Examples(np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:]))


def load_text_task(config: TextTask, seed: int) -> LearningTask:
    """Clients of a CSV with a row a sentence; the vocabulary is built from the training rows.

    Args:
      config: the file, the sizes of the model.
      seed: of the run; decides the initial weights.

    Raises:
      InputError: the file cannot be read, lacks a column, has a client without a word, or too few
        rows to hold any out.
    """
    path = Path(config.path)
    training, held_out = _split(_read(path))
    if not held_out:
        raise InputError(
            f"{path}: no row can be held out: of the rows with words every tenth is, unless it is "
            "its client's first; must have more rows"
        )
    vocabulary = build_vocabulary(
        (s.words for client in training.values() for s in client), config.vocabulary_size
    )

    def encoded(client: Sequence[_Sentence]) -> Examples:
        return encode([s.words for s in client], vocabulary, config.sequence_length)

    return LearningTask(
        name=f"next word of {path.name}",
        classifier=next_word_classifier(config, vocabulary, seed),
        population=InMemoryPopulation(list(training), [encoded(c) for c in training.values()]),
        held_out=encoded(held_out),
        max_examples_per_client=config.max_sequences_per_client,
    )
