"""Words to tokens and back, laid out as in TFF's Stack Overflow baseline."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PADDING = 0
"""Token of the positions behind a sentence's end."""

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Lower-case words, and punctuation marks as words of their own.

    >>> words_of("Is't a verdict?")
    ["is't", 'a', 'verdict', '?']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Vocabulary:
    """Tokens: 0 padding, 1 to `size` words, then unknown word, beginning, end of sentence.

    Attributes:
      size: how many words there is room for.
      index: token of each known word.
    """

    size: int
    index: dict[str, int]

    @property
    def unknown(self) -> int:
        """Token of a word outside the vocabulary."""
        return self.size + 1

    @property
    def beginning(self) -> int:
        """Token of the beginning of a sentence."""
        return self.size + 2

    @property
    def end(self) -> int:
        """Token of the end of a sentence."""
        return self.size + 3

    @property
    def num_tokens(self) -> int:
        """Words and special tokens."""
        return self.size + 4

    def encode(self, words: Sequence[str], length: int) -> npt.NDArray[np.int32]:
        """Beginning, at most `length` words, the end if it still fits, padding.

        Returns:
          int32 of shape (length + 1,): inputs are all but the last, labels all but the first.
        """
        tokens = [self.index.get(word, self.unknown) for word in words[:length]]
        tokens = [self.beginning, *tokens, self.end][: length + 1]
        return np.pad(np.array(tokens, np.int32), (0, length + 1 - len(tokens)))


def vocabulary_of_words(words: Sequence[str], size: int) -> Vocabulary:
    """A vocabulary of the first `size` of these words."""
    return Vocabulary(size, {word: i for i, word in enumerate(words[:size], start=1)})


def build_vocabulary(sentences: Iterable[Sequence[str]], size: int) -> Vocabulary:
    """A vocabulary of the `size` most frequent words; ties go to the alphabetically first."""
    counts = Counter(word for sentence in sentences for word in sentence)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return vocabulary_of_words(ranked, size)
