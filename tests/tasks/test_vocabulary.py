"""Words to tokens."""

import pytest

from fl_audit.tasks.text import PADDING, Vocabulary, build_vocabulary, vocabulary_of_words, words_of

# Words take tokens 1 to 4; 5 is the unknown word, 6 the beginning, 7 the end.
FRUIT = Vocabulary(size=4, index={"fig": 1, "plum": 2, "pear": 3})


def test_special_tokens_lie_as_in_tffs_stack_overflow_baseline():
    assert PADDING == 0
    assert (FRUIT.unknown, FRUIT.beginning, FRUIT.end, FRUIT.num_tokens) == (5, 6, 7, 8)


def test_tokens():
    assert FRUIT.tokens(["pear", "lemon", "fig"]) == [3, 5, 1]
    assert FRUIT.tokens([]) == []


def test_vocabulary_of_words_keeps_the_first():
    made = vocabulary_of_words(["a", "b", "c"], 2)
    assert made.index == {"a": 1, "b": 2}
    assert made.num_tokens == 6


def test_vocabulary_with_more_room_than_words():
    made = vocabulary_of_words(["a"], 100)
    assert (made.index, made.unknown, made.num_tokens) == ({"a": 1}, 101, 104)


def test_build_vocabulary_ranks_by_frequency_then_alphabet():
    counts = {"d": 1, "b": 2, "c": 2, "a": 1}
    assert build_vocabulary(counts, 3).index == {"b": 1, "c": 2, "a": 3}
    assert build_vocabulary(dict(reversed(counts.items())), 3).index == {"b": 1, "c": 2, "a": 3}
    assert build_vocabulary({}, 3).index == {}


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
