"""Words to tokens."""

import numpy as np
import pytest

from fl_audit.tasks.vocabulary import (
    PADDING,
    Vocabulary,
    build_vocabulary,
    vocabulary_of_words,
    words_of,
)

# Words take tokens 1 to 4; 5 is the unknown word, 6 the beginning, 7 the end.
FRUIT = Vocabulary(size=4, index={"fig": 1, "plum": 2, "pear": 3})


def test_special_tokens_lie_as_in_tffs_stack_overflow_baseline():
    assert PADDING == 0
    assert (FRUIT.unknown, FRUIT.beginning, FRUIT.end, FRUIT.num_tokens) == (5, 6, 7, 8)


@pytest.mark.parametrize(
    ("words", "length", "tokens"),
    [
        ("fig plum pear", 6, [6, 1, 2, 3, 7, 0, 0]),
        ("fig lemon pear", 6, [6, 1, 5, 3, 7, 0, 0]),
        ("fig plum pear", 4, [6, 1, 2, 3, 7]),  # the end just fits
        ("fig plum pear", 3, [6, 1, 2, 3]),  # no room for the end
        ("fig plum pear", 2, [6, 1, 2]),
        ("fig", 1, [6, 1]),
        ("", 3, [6, 7, 0, 0]),
        ("", 1, [6, 7]),
    ],
)
def test_encode(words, length, tokens):
    encoded = FRUIT.encode(words.split(), length)
    assert encoded.dtype == np.int32
    assert encoded.tolist() == tokens


@pytest.mark.parametrize("length", [1, 5, 20])
def test_encode_equals_tffs_recipe(length):
    """Cut to the length, the end if shorter than that, padded to one more (Reddi et al.)."""
    rng = np.random.default_rng(1)
    names = [*FRUIT.index, "lemon"]
    for count in range(25):
        words = [names[i] for i in rng.integers(0, 4, count)]
        tokens = [FRUIT.index.get(word, 5) for word in words][:length]
        tokens = [6, *tokens, 7] if len(words) < length else [6, *tokens]
        expected = tokens + [0] * (length + 1 - len(tokens))
        assert FRUIT.encode(words, length).tolist() == expected


def test_vocabulary_of_words_keeps_the_first():
    made = vocabulary_of_words(["a", "b", "c"], 2)
    assert made.index == {"a": 1, "b": 2}
    assert made.num_tokens == 6


def test_vocabulary_with_more_room_than_words():
    made = vocabulary_of_words(["a"], 100)
    assert (made.index, made.unknown, made.num_tokens) == ({"a": 1}, 101, 104)


def test_build_vocabulary_ranks_by_frequency_then_alphabet():
    sentences = [["b", "c", "a"], ["c", "b"], ["d"]]
    assert build_vocabulary(sentences, 3).index == {"b": 1, "c": 2, "a": 3}
    assert build_vocabulary(reversed(sentences), 3).index == {"b": 1, "c": 2, "a": 3}
    assert build_vocabulary([], 3).index == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Is't a verdict?", ["is't", "a", "verdict", "?"]),
        ("o’er", ["o’er"]),
        ("'tis", ["'", "tis"]),
        ("Talk on't; be done: away!", ["talk", "on't", ";", "be", "done", ":", "away", "!"]),
        ("  \t\n", []),
        ("", []),
        ("ΣΊΣΥΦΟΣ naïve", ["σίσυφος", "naïve"]),
        ("...", [".", ".", "."]),
        ("a\nb", ["a", "b"]),
    ],
)
def test_words_of(text, words):
    assert words_of(text) == words
