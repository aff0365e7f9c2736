"""Sentences as rows of tokens, cut or padded once and held in the smallest integers that fit."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.tasks.classifier import Examples, Population
from fl_audit.tasks.vocabulary import Vocabulary

TokenRows = npt.NDArray[np.unsignedinteger[Any]]
"""Rows of shape (sentences, length + 1): inputs without the last column, labels without the first.
"""


def token_rows(
    tokens: npt.ArrayLike, lengths: npt.NDArray[Any], vocabulary: Vocabulary, length: int
) -> TokenRows:
    """One row for each sentence: the beginning, its words, the end if it still fits, padding.

    Args:
      tokens: The tokens of the words of all sentences, one sentence after another.
      lengths: The number of words of each sentence, at most `length`; of shape (sentences,).
      vocabulary: The vocabulary of the tokens; it decides the width of the integers.
      length: The number of words that there is room for behind the beginning.
    """
    rows = np.zeros((len(lengths), length + 1), vocabulary.dtype)
    rows[:, 0] = vocabulary.beginning
    rows[:, 1:][np.arange(length) < lengths[:, None]] = tokens
    with_end = np.flatnonzero(lengths < length)
    rows[with_end, lengths[with_end] + 1] = vocabulary.end
    return rows


def encode(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int) -> TokenRows:
    """The rows of sentences that are lists of words; words behind the first `length` are cut."""
    cut = [sentence[:length] for sentence in sentences]
    tokens = vocabulary.tokens(itertools.chain.from_iterable(cut))
    return token_rows(tokens, np.array([len(s) for s in cut], np.int64), vocabulary, length)


def examples_of(rows: TokenRows) -> Examples:
    """The inputs and labels of rows, each int32 of shape (sentences, length)."""
    return Examples(rows[:, :-1].astype(np.int32), rows[:, 1:].astype(np.int32))


@dataclass(frozen=True)
class SentencePopulation(Population):
    """Clients whose sentences are ranges of rows of one array.

    Attributes:
      client_ids: The names of the clients.
      rows: The sentences of all clients, client by client.
      first: The row of each client's first sentence, then the number of rows; of shape (clients +
        1,).
    """

    client_ids: Sequence[str]
    rows: TokenRows
    first: npt.NDArray[np.int64]

    def num_examples(self, client: int) -> int:
        """The number of sentences of one client."""
        return int(self.first[client + 1] - self.first[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """One client's sentences at these positions, in this order."""
        return examples_of(self.rows[self.first[client] : self.first[client + 1]][index])
