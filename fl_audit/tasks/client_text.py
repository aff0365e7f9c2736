"""Text of clients as rows of tokens, without TensorFlow.

A `client_id,text` CSV is read sentence by sentence into a `Corpus`, which holds words as numbers. A
`Vocabulary` of the most frequent words, laid out as in TFF's Stack Overflow baseline, turns the
corpus into rows of tokens: sentences cut or padded to one length, in the smallest possible integer
type. The runs of a sweep share the corpus.
"""

import contextlib
import gzip
import hashlib
import itertools
import json
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IntArray
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray, read_or_make
from fl_audit.formats.text_files import csv_rows, in_turn, reading, text_lines
from fl_audit.tasks.learning_task import Examples, Population, say_left_out
from fl_audit.version import __version__

PADDING = 0
"""The token of positions after the end of a sentence."""


_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Lower-case words, and punctuation marks as separate words.

    >>> words_of("Is't a verdict?")
    ["is't", 'a', 'verdict', '?']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Vocabulary:
    """Tokens: 0 is padding, 1 to `size` are words (or unused), then unknown, beginning and end."""

    size: int
    index: dict[str, int]

    @property
    def unknown(self) -> int:
        return self.size + 1

    @property
    def beginning(self) -> int:
        return self.size + 2

    @property
    def end(self) -> int:
        return self.size + 3

    @property
    def num_tokens(self) -> int:
        """The number of tokens, special ones included."""
        return self.size + 4

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integer type for all tokens: uint16 for 257 to 65,536."""
        return np.min_scalar_type(self.num_tokens - 1)

    def tokens(self, words: Iterable[str]) -> list[int]:
        token, unknown = self.index.get, self.unknown
        return [token(word, unknown) for word in words]


def vocabulary_of_words(words: Sequence[str], size: int) -> Vocabulary:
    """A vocabulary of the first `size` of these words."""
    return Vocabulary(size, {word: i for i, word in enumerate(words[:size], start=1)})


def build_vocabulary(counts: Mapping[str, int], size: int) -> Vocabulary:
    """The `size` most frequent words, or all; ties go to the alphabetically first."""
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return vocabulary_of_words(ranked, min(size, len(ranked)))


# Sentences as rows of tokens.

TokenRows = npt.NDArray[np.unsignedinteger[Any]]
"""Shape (sentences, length + 1): inputs are all but the last column, labels all but the first."""


def token_rows(
    tokens: npt.ArrayLike, lengths: npt.NDArray[Any], vocabulary: Vocabulary, length: int
) -> TokenRows:
    """A row per sentence: beginning, words (at most `length`), end if it fits, padding.

    `tokens` are the words of all sentences, one after the other.
    """
    rows = np.zeros((len(lengths), length + 1), vocabulary.dtype)
    rows[:, 0] = vocabulary.beginning
    rows[:, 1:][np.arange(length) < lengths[:, None]] = tokens
    with_end = np.flatnonzero(lengths < length)
    rows[with_end, lengths[with_end] + 1] = vocabulary.end
    return rows


def encode(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int) -> TokenRows:
    """The rows of sentences, which are lists of words and are cut after `length` words."""
    cut = [sentence[:length] for sentence in sentences]
    tokens = vocabulary.tokens(itertools.chain.from_iterable(cut))
    return token_rows(tokens, np.array([len(s) for s in cut], np.int64), vocabulary, length)


def examples_of(rows: TokenRows) -> Examples:
    """The inputs and labels of rows, each int32 of shape (sentences, length)."""
    return Examples(rows[:, :-1].astype(np.int32), rows[:, 1:].astype(np.int32))


@dataclass(frozen=True)
class SentencePopulation(Population):
    """Clients whose sentences are ranges of rows of one array."""

    client_ids: Sequence[str]
    rows: TokenRows
    first: npt.NDArray[np.int64]  # each client's first row, then the number of rows

    def num_examples(self, client: int) -> int:
        return int(self.first[client + 1] - self.first[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        return examples_of(self.rows[self.first[client] : self.first[client + 1]][index])


# Sentences before encoding with a vocabulary.

_HOLD_OUT_EVERY = 10
_HELD_OUT = -1


@dataclass(frozen=True)
class Sentence:
    """One sentence of a client, of at least one word."""

    client_id: str
    words: Sequence[str]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences, for training or held out, with words as numbers; words after `length` are cut."""

    length: int
    client_ids: Sequence[str]  # in order of appearance
    all_words: Sequence[str]  # a word's number is its index here
    counts: IntArray  # of each word in training sentences, before sentences are cut
    numbers: npt.NDArray[np.uint32]  # the words of all cut sentences, one after the other
    lengths: npt.NDArray[np.int32]  # the number of words of each cut sentence
    clients: npt.NDArray[np.int32]  # the client of each sentence, -1 if it is held out

    @property
    def word_counts(self) -> dict[str, int]:
        """The number of occurrences of every word in the training sentences."""
        counted = zip(self.all_words, self.counts.tolist(), strict=True)
        return {word: count for word, count in counted if count}

    @property
    def num_held_out(self) -> int:
        return int(np.sum(self.clients == _HELD_OUT))

    def first_rows(self) -> IntArray:
        """The first row of each client in `rows`, then the number of rows; shape (clients + 1,)."""
        return np.cumsum(np.bincount(self.clients - _HELD_OUT))

    def rows(self, vocabulary: Vocabulary) -> TokenRows:
        """The rows of all sentences, held-out sentences first, then client by client."""
        tokens = np.array(vocabulary.tokens(self.all_words), vocabulary.dtype)
        rows = token_rows(tokens[self.numbers], self.lengths, vocabulary, self.length)
        return rows[np.argsort(self.clients, kind="stable")]

    def arrays(self) -> dict[str, AnyArray]:
        """The corpus as plain arrays, the inverse of `corpus_of_arrays`."""
        texts = {name: json.dumps(getattr(self, name)).encode() for name in _TEXTS}
        as_bytes = {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}
        return {**vars(self), **as_bytes, "length": np.array(self.length)}


_TEXTS = ("client_ids", "all_words")
"""The fields of a corpus that hold texts."""


def corpus_of_arrays(arrays: Mapping[str, AnyArray]) -> Corpus:
    texts: dict[str, Any] = {name: json.loads(arrays[name].tobytes()) for name in _TEXTS}
    return Corpus(**{**arrays, **texts, "length": int(arrays["length"])})


def collect(sentences: Iterable[Sentence], length: int) -> Corpus:
    """Holds out every tenth sentence, except a client's first; counts words in all others."""
    counts: Counter[str] = Counter()
    client_of: dict[str, int] = {}
    number_of: dict[str, int] = {}  # of each word, in order of appearance
    numbers, lengths, clients = array("I"), array("i"), array("i")
    for position, sentence in enumerate(sentences, start=1):
        if position % _HOLD_OUT_EVERY == 0 and sentence.client_id in client_of:
            clients.append(_HELD_OUT)
        else:
            clients.append(client_of.setdefault(sentence.client_id, len(client_of)))
            counts.update(sentence.words)
        words = sentence.words[:length]
        lengths.append(len(words))
        numbers.extend([number_of.setdefault(word, len(number_of)) for word in words])
    all_words = list(dict.fromkeys([*number_of, *counts]))  # first the words of cut sentences
    return Corpus(
        length=length,
        client_ids=list(client_of),
        all_words=all_words,
        counts=np.array([counts[word] for word in all_words], np.int64),
        numbers=np.asarray(numbers, np.uint32),
        lengths=np.asarray(lengths, np.int32),
        clients=np.asarray(clients, np.int32),
    )


# Arrays shared by the runs of a sweep: the first run computes them, the others read an NPZ file,
# whose name contains a hash of everything on which the arrays depend.

Arrays = Mapping[str, AnyArray]

_folder: ContextVar[Path | None] = ContextVar("the folder of cached arrays", default=None)


@contextlib.contextmanager
def sharing_arrays(folder: Path) -> Iterator[None]:
    """While the block runs, tasks that are loaded cache arrays in `folder`, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def cached_arrays(name: str, source: Path, settings: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of `make`; inside `sharing_arrays` cached by `source`'s content and `settings`."""
    folder = _folder.get()
    if folder is None:
        return make()
    try:
        path = folder / f"{name}-{_key(source, settings)}.npz"
    except OSError:
        return make()  # raises the error for an unreadable source
    with in_turn(path.with_suffix(".lock")):
        return read_or_make(path, "a file that the runs of a sweep share; delete the file", make)


def _key(source: Path, settings: str) -> str:
    """A hash of the content of a file, of settings, and of the version of fl_audit."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(f"\0{__version__}\0{settings}".encode())
    return digest.hexdigest()[:32]


# CSV files.


def read_sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a `client_id,text` CSV, or its gzip; warns of clients without a word."""
    seen: dict[str, bool] = {}
    hint = "; put a text with commas in double quotes"
    with reading(path):
        rows = csv_rows(path, _lines(path), ("client_id", "text"), hint)
        for line, (client_id, text) in rows:
            if not (client_id := client_id.strip()):
                raise InputError(f"{path}, line {line}: `client_id` is empty")
            words = words_of(text)
            seen[client_id] = seen.get(client_id, False) or bool(words)
            if words:
                yield Sentence(client_id, words)
    say_left_out(path, [name for name, has_words in seen.items() if not has_words], len(seen))


def _lines(path: Path) -> Iterator[str]:
    if path.suffix != ".gz":
        yield from text_lines(path)
        return
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: must be a file compressed by gzip: {error}") from error
