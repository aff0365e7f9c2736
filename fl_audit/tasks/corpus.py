"""Sentences of clients, collected before there is a vocabulary to encode them with."""

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IndexArray
from fl_audit.formats.npy_file import AnyArray
from fl_audit.tasks.sentences import TokenRows, token_rows
from fl_audit.tasks.vocabulary import Vocabulary

_HOLD_OUT_EVERY = 10
_HELD_OUT = -1


@dataclass(frozen=True)
class Sentence:
    """One sentence of a client.

    Attributes:
      client_id: The name of the client.
      words: The words of the sentence, at least one.
    """

    client_id: str
    words: Sequence[str]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences split into training and held-out ones, their words held as numbers.

    Attributes:
      length: The number of words that are kept of each sentence.
      client_ids: The names of the clients, in order of appearance.
      all_words: All words; a word's number is its place.
      counts: The number of occurrences of each word in the training sentences, with those that are
        not kept; int64 of shape (words,).
      numbers: The numbers of the words kept, sentence after sentence; uint32.
      lengths: The number of words kept of each sentence; int32 of shape (sentences,).
      clients: The client of each sentence, -1 where it is held out; int32 of shape (sentences,).
    """

    length: int
    client_ids: Sequence[str]
    all_words: Sequence[str]
    counts: IndexArray
    numbers: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.int32]
    clients: npt.NDArray[np.int32]

    @property
    def word_counts(self) -> dict[str, int]:
        """The number of occurrences of every word in the training sentences."""
        counted = zip(self.all_words, self.counts.tolist(), strict=True)
        return {word: count for word, count in counted if count}

    @property
    def num_held_out(self) -> int:
        """The number of sentences that no client has."""
        return int(np.sum(self.clients == _HELD_OUT))

    def first_rows(self) -> IndexArray:
        """The first row of each client in `rows`, then the end of all, of shape (clients + 1,)."""
        return np.cumsum(np.bincount(self.clients - _HELD_OUT))

    def rows(self, vocabulary: Vocabulary) -> TokenRows:
        """The rows of all sentences, the held-out ones first, then client by client."""
        tokens = np.array(vocabulary.tokens(self.all_words), vocabulary.dtype)
        rows = token_rows(tokens[self.numbers], self.lengths, vocabulary, self.length)
        return rows[np.argsort(self.clients, kind="stable")]

    def arrays(self) -> dict[str, AnyArray]:
        """The corpus as plain arrays, which `corpus_of_arrays` takes."""
        return {
            "length": np.array(self.length),
            "client_ids": _as_bytes(self.client_ids),
            "all_words": _as_bytes(self.all_words),
            "counts": self.counts,
            "numbers": self.numbers,
            "lengths": self.lengths,
            "clients": self.clients,
        }


def corpus_of_arrays(arrays: Mapping[str, AnyArray]) -> Corpus:
    """The corpus that gave these arrays."""
    return Corpus(
        length=int(arrays["length"]),
        client_ids=_of_bytes(arrays["client_ids"]),
        all_words=_of_bytes(arrays["all_words"]),
        counts=arrays["counts"],
        numbers=arrays["numbers"],
        lengths=arrays["lengths"],
        clients=arrays["clients"],
    )


def _as_bytes(texts: Sequence[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(texts).encode(), np.uint8)


def _of_bytes(array: AnyArray) -> list[str]:
    texts: list[str] = json.loads(array.tobytes())
    return texts


def collect(sentences: Iterable[Sentence], length: int) -> Corpus:
    """Reads sentences one by one; every tenth is held out, unless its client were left with none.

    Args:
      sentences: The sentences of all clients, in any order.
      length: The number of words that are kept of each sentence; all words are counted.
    """
    collected = _Collected(length)
    for position, sentence in enumerate(sentences, start=1):
        collected.add(sentence, may_be_held_out=position % _HOLD_OUT_EVERY == 0)
    return collected.corpus()


class _Collected:
    """What has been read of a corpus so far."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._counts: Counter[str] = Counter()
        self._client: dict[str, int] = {}
        self._number: dict[str, int] = {}  # number of each word, in order of appearance
        self._numbers = array("I")
        self._lengths = array("i")
        self._clients = array("i")

    def add(self, sentence: Sentence, may_be_held_out: bool) -> None:
        if may_be_held_out and sentence.client_id in self._client:
            self._clients.append(_HELD_OUT)
        else:
            self._clients.append(self._client.setdefault(sentence.client_id, len(self._client)))
            self._counts.update(sentence.words)
        kept = sentence.words[: self._length]
        self._lengths.append(len(kept))
        self._numbers.extend([self._number.setdefault(word, len(self._number)) for word in kept])

    def corpus(self) -> Corpus:
        words = list(dict.fromkeys([*self._number, *self._counts]))  # those that are kept first
        return Corpus(
            length=self._length,
            client_ids=list(self._client),
            all_words=words,
            counts=np.array([self._counts[word] for word in words], np.int64),
            numbers=np.asarray(self._numbers, np.uint32),
            lengths=np.asarray(self._lengths, np.int32),
            clients=np.asarray(self._clients, np.int32),
        )
