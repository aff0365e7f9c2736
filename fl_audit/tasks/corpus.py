"""Sentences of clients, collected before there is a vocabulary to encode them with."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


class Corpus:
    """Sentences split into training and held-out ones as they are read, words held as numbers.

    Every tenth sentence is held out, unless its client would be left with none.

    Attributes:
      word_counts: The number of occurrences of every word in the training sentences.
    """

    def __init__(self, sentences: Iterable[Sentence], length: int) -> None:
        """Reads the sentences one by one.

        Args:
          sentences: The sentences of all clients, in any order.
          length: The number of words that are kept of each sentence; all words are counted.
        """
        self.word_counts: Counter[str] = Counter()
        self._length = length
        self._client: dict[str, int] = {}
        self._number: dict[str, int] = {}  # number of each word, in order of appearance
        self._words = array("I")  # numbers of the words kept, sentence after sentence
        self._lengths = array("i")
        self._clients = array("i")
        for position, sentence in enumerate(sentences, start=1):
            self._add(sentence, may_be_held_out=position % _HOLD_OUT_EVERY == 0)

    @property
    def client_ids(self) -> list[str]:
        """The names of the clients, in order of appearance."""
        return list(self._client)

    @property
    def num_held_out(self) -> int:
        """The number of sentences that no client has."""
        return self._clients.count(_HELD_OUT)

    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each client in `rows`, then the end of all, of shape (clients + 1,)."""
        return np.cumsum(np.bincount(np.asarray(self._clients) - _HELD_OUT))

    def rows(self, vocabulary: Vocabulary) -> TokenRows:
        """The rows of all sentences, the held-out ones first, then client by client."""
        tokens = np.array(vocabulary.tokens(self._number), vocabulary.dtype)
        lengths = np.asarray(self._lengths)
        rows = token_rows(tokens[np.asarray(self._words)], lengths, vocabulary, self._length)
        return rows[np.argsort(np.asarray(self._clients), kind="stable")]

    def _add(self, sentence: Sentence, may_be_held_out: bool) -> None:
        if may_be_held_out and sentence.client_id in self._client:
            self._clients.append(_HELD_OUT)
        else:
            self._clients.append(self._client.setdefault(sentence.client_id, len(self._client)))
            self.word_counts.update(sentence.words)
        kept = sentence.words[: self._length]
        self._lengths.append(len(kept))
        self._words.extend([self._number.setdefault(word, len(self._number)) for word in kept])
