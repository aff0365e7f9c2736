"""Vocabularies, which turn words into tokens as TFF's Stack Overflow baseline lays them out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PADDING = 0
"""The token of the positions behind a sentence's end."""

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Lower-case words, and punctuation marks as words of their own.

    >>> words_of("Is't a verdict?")
    ["is't", 'a', 'verdict', '?']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Vocabulary:
    """The tokens: 0 padding, 1 to `size` words, then unknown word, beginning, end of sentence.

    Attributes:
      size: The number of words that there is room for.
      index: The token of each known word.
    """

    size: int
    index: dict[str, int]

    @property
    def unknown(self) -> int:
        """The token of a word outside the vocabulary."""
        return self.size + 1

    @property
    def beginning(self) -> int:
        """The token of the beginning of a sentence."""
        return self.size + 2

    @property
    def end(self) -> int:
        """The token of the end of a sentence."""
        return self.size + 3

    @property
    def num_tokens(self) -> int:
        """The number of tokens, words and special ones together."""
        return self.size + 4

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integers that hold every token: uint16 for 257 to 65,536."""
        return np.min_scalar_type(self.num_tokens - 1)

    def tokens(self, words: Iterable[str]) -> list[int]:
        """The tokens of words, known or not."""
        token, unknown = self.index.get, self.unknown
        return [token(word, unknown) for word in words]


def vocabulary_of_words(words: Sequence[str], size: int) -> Vocabulary:
    """A vocabulary of the first `size` of these words."""
    return Vocabulary(size, {word: i for i, word in enumerate(words[:size], start=1)})


def build_vocabulary(counts: Mapping[str, int], size: int) -> Vocabulary:
    """A vocabulary of the `size` most frequent words; ties go to the alphabetically first."""
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return vocabulary_of_words(ranked, size)
