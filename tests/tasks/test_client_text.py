"""Text of clients: words, vocabularies, sentences, and what the runs of a sweep share."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fl_audit.config import TextTask
from fl_audit.errors import InputError
from fl_audit.tasks import client_text, load_task
from fl_audit.tasks.client_text import (
    Sentence,
    SentencePopulation,
    Vocabulary,
    build_vocabulary,
    cached_arrays,
    collect,
    corpus_of_arrays,
    encode,
    sharing_arrays,
    token_rows,
    vocabulary_of_words,
    words_of,
)
from fl_audit.tasks.learning_task import LearningTask

# Next-word prediction on a CSV: what is read, split and encoded, and what is refused.


HEADER = "client_id,text\n"
# 24 rows: "a" has the odd ones, "b" the even ones; row n says "word" and its number.
ROWS = "".join(f"{'ba'[n % 2]},word w{n}\n" for n in range(1, 25))


def config_of(path: Path) -> TextTask:
    return TextTask(
        path=str(path),
        vocabulary_size=30,
        sequence_length=5,
        embedding_size=3,
        lstm_size=2,
        max_sequences_per_client=4,
    )


def load(folder: Path, content: str | bytes) -> LearningTask:
    path = folder / "speech.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_task(config_of(path), seed=1)


def refusal(folder: Path, content: str | bytes) -> str:
    """The one line that refuses a file, without its name."""
    with pytest.raises(InputError) as caught:
        load(folder, content)
    line = str(caught.value)
    assert "\n" not in line
    name = str(folder / "speech.csv")
    assert line.startswith((f"{name}: ", f"{name}, line "))
    return line[len(name) + 2 :]


def test_sizes(tmp_path):
    task = load(tmp_path, HEADER + ROWS)
    assert list(task.population.client_ids) == ["a", "b"]
    assert [len(task.population.examples(c)) for c in (0, 1)] == [12, 10]
    assert len(task.held_out) == 2
    assert task.max_examples_per_client == 4
    assert task.name == "next word of speech.csv"
    # Embedding 27 x 3, LSTM 4 x 2 x (3 + 2 + 1), dense 3 x (2 + 1), dense 27 x (3 + 1).
    assert task.classifier.dim == 27 * 3 + 8 * 6 + 3 * 3 + 27 * 4


def test_rows_without_a_word_are_left_out(tmp_path):
    with_blanks = ROWS.replace("a,word w3\n", 'a,word w3\na,\na,"  "\n\n')
    plain, blanks = load(tmp_path, HEADER + ROWS), load(tmp_path, HEADER + with_blanks)
    for client in (0, 1):
        np.testing.assert_array_equal(
            plain.population.examples(client).inputs, blanks.population.examples(client).inputs
        )


def test_equals_encoding_client_by_client(tmp_path):
    """300 rows of 7 interleaved clients, against a plain reading of what is documented."""
    rng = np.random.default_rng(3)
    rows = [
        (f"c{rng.integers(7)}", [f"w{i}" for i in rng.zipf(1.5, rng.integers(1, 9)) % 50])
        for _ in range(300)
    ]
    task = load(tmp_path, HEADER + "".join(f"{c},{' '.join(words)}\n" for c, words in rows))
    training: dict[str, list[list[str]]] = {}
    held_out = []
    for number, (client, words) in enumerate(rows, start=1):
        if number % 10 == 0 and client in training:
            held_out.append(words)
        else:
            training.setdefault(client, []).append(words)
    counts = Counter(word for client in training.values() for words in client for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:30]
    tokens = {word: token for token, word in enumerate(ranked, start=1)}

    def rows_of(sentences: list[list[str]]) -> list[list[int]]:
        made = [[32, *(tokens.get(w, 31) for w in words), 33][:6] for words in sentences]
        return [row + [0] * (6 - len(row)) for row in made]

    assert list(task.population.client_ids) == list(training)
    everyone = [task.population.examples(c) for c in range(len(training))]
    for examples, sentences in zip(
        [*everyone, task.held_out], [*training.values(), held_out], strict=True
    ):
        assert examples.inputs.tolist() == [row[:-1] for row in rows_of(sentences)]
        assert examples.labels.tolist() == [row[1:] for row in rows_of(sentences)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "must start with a header naming client_id, text"),
        ("client,text\na,b\n", "has no column 'client_id': did you mean 'client'?"),
        ("client_id,txt\na,b\n", "has no column 'text': did you mean 'txt'?"),
        ("Client_ID;Text\na;b\n", "has no column 'client_id': did you mean 'Client_ID'?"),
        (HEADER + "a,x\n,y\n", "line 3: `client_id` is empty"),
        (HEADER + "a,x\nb\n", "line 3: must have 2 fields, got "),
        (HEADER + 'a,"x" y\n', "line 2: is not CSV: a double quote ends within a field"),
        (HEADER + "a," + "x" * 200_000 + "\n", "line 2: is not CSV: has a field of more"),
        (HEADER, "has too few rows to hold any out"),
        (HEADER + "a,x\n" * 9, "has too few rows to hold any out"),
        (HEADER + "".join(f"c{n},x\n" for n in range(50)), "has too few rows to hold any out"),
    ],
)
def test_refusals(tmp_path, content, expected):
    assert refusal(tmp_path, content).startswith(expected)


def test_clients_without_a_word_are_left_out_and_counted(tmp_path, capsys):
    task = load(tmp_path, HEADER + 'c,\nd," "\nc,\n' + ROWS)
    assert sorted(task.population.client_ids) == ["a", "b"]
    expected = "speech.csv: 2 of 4 clients, the first 'c', have no data and are left out\n"
    assert expected in capsys.readouterr().err


# Words to tokens.


# Words take tokens 1 to 4; 5 is the unknown word, 6 the beginning, 7 the end.
FRUIT = Vocabulary(size=4, index={"fig": 1, "plum": 2, "pear": 3})


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


# Rows of tokens: what they hold, in which integers, and a population over them.


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


def test_population_takes_a_clients_own_rows():
    rows = np.arange(70, dtype=np.uint16).reshape(10, 7)
    population = SentencePopulation(["a", "b", "c"], rows, np.array([2, 3, 7, 10]))
    assert [population.num_examples(c) for c in range(3)] == [1, 4, 3]
    assert population.examples(1).inputs.tolist() == rows[3:7, :-1].tolist()
    assert population.take(2, np.array([2, 0, 2])).labels.tolist() == rows[[9, 7, 9], 1:].tolist()
    with pytest.raises(IndexError):  # row 3 is the next client's
        population.take(0, np.array([1]))
    assert len(population.take(0, np.zeros(0, np.int64))) == 0


# What the runs of a sweep read alike is made once, whoever comes first, and is the same.


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.csv"
    path.write_text("abc")
    return path


def _counted():
    """A maker, and how often it was asked."""
    calls = []

    def make():
        calls.append(None)
        return {"numbers": np.arange(3)}

    return make, calls


def test_it_is_made_once_for_a_content_and_its_settings(source, tmp_path):
    make, calls = _counted()
    with sharing_arrays(tmp_path / "shared"):
        first = cached_arrays("text", source, "20", make)
        again = cached_arrays("text", source.rename(tmp_path / "moved.csv"), "20", make)
        assert len(calls) == 1
        np.testing.assert_array_equal(first["numbers"], again["numbers"])
        cached_arrays("text", tmp_path / "moved.csv", "21", make)
        (tmp_path / "moved.csv").write_text("abd")
        cached_arrays("text", tmp_path / "moved.csv", "20", make)
        assert len(calls) == 3
    cached_arrays("text", tmp_path / "moved.csv", "20", make)  # outside a sweep
    assert len(calls) == 4


def test_a_corpus_is_the_same_from_its_arrays():
    said = [("é\n", "ä b c d"), ("x", "d e"), *(("x", f"f w{n}") for n in range(20))]
    corpus = collect((Sentence(who, words.split()) for who, words in said), length=3)
    again = corpus_of_arrays(corpus.arrays())
    assert again.client_ids == ["é\n", "x"]
    assert again.word_counts == corpus.word_counts
    assert corpus.word_counts["d"] == 2  # one of them behind what is kept
    assert "w7" not in corpus.word_counts  # of the tenth sentence, which is held out
    for name, array in corpus.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])


def test_a_text_that_is_shared_makes_the_same_task(tmp_path, monkeypatch):
    path = tmp_path / "speech.csv"
    rows = (f"{'ba'[n % 2]},word w{n} and w{n // 3}" for n in range(60))
    path.write_text("\n".join(["client_id,text", *rows]) + "\n")
    config = TextTask(path=str(path), vocabulary_size=9, embedding_size=2, lstm_size=2)
    alone = load_task(config, 1)
    with sharing_arrays(tmp_path / "shared"):
        load_task(config, 2)
        monkeypatch.setattr(client_text, "read_sentences", lambda path: pytest.fail("read again"))
        shared = load_task(config, 1)
    assert shared.population.client_ids == alone.population.client_ids
    np.testing.assert_array_equal(shared.population.rows, alone.population.rows)
    np.testing.assert_array_equal(shared.held_out.labels, alone.held_out.labels)
