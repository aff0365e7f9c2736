"""Rows of tokens: what they hold, in which integers, and a population over them."""

import numpy as np
import pytest

from fl_audit.tasks.text import (
    SentencePopulation,
    Vocabulary,
    encode,
    examples_of,
    token_rows,
    vocabulary_of_words,
)

# Words take tokens 1 to 4; 5 is the unknown word, 6 the beginning, 7 the end.
FRUIT = Vocabulary(size=4, index={"fig": 1, "plum": 2, "pear": 3})


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
    assert encode([words.split()], FRUIT, length).tolist() == [tokens]


@pytest.mark.parametrize("length", [1, 5, 20])
def test_encode_equals_tffs_recipe(length):
    """Cut to the length, the end if shorter than that, padded to one more (Reddi et al.)."""
    rng = np.random.default_rng(1)
    names = [*FRUIT.index, "lemon"]
    sentences = [[names[i] for i in rng.integers(0, 4, count)] for count in range(25)]
    expected = []
    for words in sentences:
        tokens = [FRUIT.index.get(word, 5) for word in words][:length]
        tokens = [6, *tokens, 7] if len(words) < length else [6, *tokens]
        expected.append(tokens + [0] * (length + 1 - len(tokens)))
    assert encode(sentences, FRUIT, length).tolist() == expected


def test_no_sentence():
    rows = encode([], FRUIT, 3)
    assert rows.shape == (0, 4)
    assert len(examples_of(rows)) == 0


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(252, np.uint8), (253, np.uint16), (65_532, np.uint16), (65_533, np.uint32)],
)
def test_the_largest_token_just_fits(size, dtype):
    """The end of a sentence is token size + 3."""
    vocabulary = vocabulary_of_words(["a"], size)
    rows = token_rows([1], np.array([1]), vocabulary, 2)
    assert rows.dtype == dtype
    assert rows.tolist() == [[size + 2, 1, size + 3]]


def test_examples_are_int32_and_one_step_apart():
    examples = examples_of(encode([["fig", "plum"], ["pear"]], FRUIT, 3))
    assert examples.inputs.tolist() == [[6, 1, 2], [6, 3, 7]]
    assert examples.labels.tolist() == [[1, 2, 7], [3, 7, 0]]
    for array in (examples.inputs, examples.labels):
        assert array.dtype == np.int32
        assert array.flags.c_contiguous


def test_population_takes_a_clients_own_rows():
    rows = np.arange(70, dtype=np.uint16).reshape(10, 7)
    population = SentencePopulation(["a", "b", "c"], rows, np.array([2, 3, 7, 10]))
    assert [population.num_examples(c) for c in range(3)] == [1, 4, 3]
    assert population.examples(1).inputs.tolist() == rows[3:7, :-1].tolist()
    assert population.take(2, np.array([2, 0, 2])).labels.tolist() == rows[[9, 7, 9], 1:].tolist()
    with pytest.raises(IndexError):  # row 3 is the next client's
        population.take(0, np.array([1]))
    assert len(population.take(0, np.zeros(0, np.int64))) == 0
