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
"""Shape (sentences, length + 1): inputs are all but the last column, labels all but the first."""


def token_rows(
    tokens: npt.ArrayLike, lengths: npt.NDArray[Any], vocabulary: Vocabulary, length: int
) -> TokenRows:
    """A row a sentence: the beginning, its words, the end if it still fits, padding.

    Args:
      tokens: of the words of all sentences, one sentence after another.
      lengths: [s] words of each sentence, at most `length`.
      vocabulary: That the tokens are of; decides the integers' width.
      length: Words that there is room for behind the beginning.
    """
    rows = np.zeros((len(lengths), length + 1), vocabulary.dtype)
    rows[:, 0] = vocabulary.beginning
    rows[:, 1:][np.arange(length) < lengths[:, None]] = tokens
    with_end = np.flatnonzero(lengths < length)
    rows[with_end, lengths[with_end] + 1] = vocabulary.end
    return rows


def encode(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int) -> TokenRows:
    """Rows of sentences that are lists of words; those behind the first `length` are cut off."""
    cut = [sentence[:length] for sentence in sentences]
    tokens = vocabulary.tokens(itertools.chain.from_iterable(cut))
    return token_rows(tokens, np.array([len(s) for s in cut], np.int64), vocabulary, length)


def examples_of(rows: TokenRows) -> Examples:
    """Inputs and labels of rows, int32 of shape (sentences, length) each."""
    return Examples(rows[:, :-1].astype(np.int32), rows[:, 1:].astype(np.int32))


@dataclass(frozen=True)
class SentencePopulation(Population):
    """Clients whose sentences are ranges of rows of one array.

    Attributes:
      client_ids: Names.
      rows: The sentences of all clients, client by client.
      first: [clients + 1] row of each client's first sentence, then the number of rows.
    """

    client_ids: Sequence[str]
    rows: TokenRows
    first: npt.NDArray[np.int64]

    def num_examples(self, client: int) -> int:
        """How many sentences one client has."""
        return int(self.first[client + 1] - self.first[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """One client's sentences at these positions, in this order."""
        return examples_of(self.rows[self.first[client] : self.first[client + 1]][index])
