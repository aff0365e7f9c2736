"""Next-word prediction on a CSV: what is read, split and encoded, and what is refused."""

import csv
import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fl_audit.config import TextTask
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import LearningTask
from fl_audit.tasks.text import SentencePopulation

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
    assert line.startswith(f"{folder / 'speech.csv'}: ")
    return line.removeprefix(f"{folder / 'speech.csv'}: ")


def num_words(task: LearningTask) -> int:
    """Largest token of a known word."""
    clients = range(len(task.population.client_ids))
    inputs = np.concatenate([task.population.examples(c).inputs for c in clients])
    return int(inputs[inputs <= 30].max())


def test_sizes(tmp_path):
    task = load(tmp_path, HEADER + ROWS)
    assert list(task.population.client_ids) == ["a", "b"]
    assert [len(task.population.examples(c)) for c in (0, 1)] == [12, 10]
    assert len(task.held_out) == 2
    assert task.max_examples_per_client == 4
    assert task.name == "next word of speech.csv"
    # Embedding 34 x 3, LSTM 4 x 2 x (3 + 2 + 1), dense 3 x (2 + 1), dense 34 x (3 + 1).
    assert task.classifier.dim == 34 * 3 + 8 * 6 + 3 * 3 + 34 * 4


def test_labels_are_the_inputs_one_step_on(tmp_path):
    task = load(tmp_path, HEADER + ROWS)
    for examples in (task.population.examples(0), task.held_out):
        assert examples.inputs.dtype == examples.labels.dtype == np.int32
        assert examples.inputs.shape == examples.labels.shape == (len(examples), 5)
        np.testing.assert_array_equal(examples.inputs[:, 1:], examples.labels[:, :-1])
        assert (examples.inputs[:, 0] == 32).all()  # beginning
        assert (examples.labels[:, 2:] == [33, 0, 0]).all()  # end, padding


def test_every_tenth_row_is_held_out_and_not_in_the_vocabulary(tmp_path):
    task = load(tmp_path, HEADER + ROWS)
    # "word" is token 1; 22 training rows have a word of their own, rows 10 and 20 unknown ones.
    assert num_words(task) == 23
    assert task.held_out.inputs.tolist() == [[32, 1, 31, 33, 0]] * 2
    trained = [task.population.examples(c).inputs for c in (0, 1)]
    assert sorted(np.concatenate(trained)[:, 2]) == list(range(2, 24))


def test_a_clients_only_row_is_never_held_out(tmp_path):
    rows = "".join(f"a,x{n}\n" for n in range(9)) + "b,hello\n" + "a,y\n" * 10
    task = load(tmp_path, HEADER + rows)
    assert list(task.population.client_ids) == ["a", "b"]
    assert [len(task.population.examples(c)) for c in (0, 1)] == [18, 1]
    assert len(task.held_out) == 1


def test_rows_without_a_word_are_left_out(tmp_path):
    with_blanks = ROWS.replace("a,word w3\n", 'a,word w3\na,\na,"  "\n\n')
    plain, blanks = load(tmp_path, HEADER + ROWS), load(tmp_path, HEADER + with_blanks)
    for client in (0, 1):
        np.testing.assert_array_equal(
            plain.population.examples(client).inputs, blanks.population.examples(client).inputs
        )


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + HEADER + ROWS,  # as Excel writes it
        (HEADER + ROWS).replace("\n", "\r\n"),
        (HEADER + ROWS).rstrip("\n"),
        '"client_id","text"\n' + ROWS.replace("word", '"word').replace("\n", '"\n'),
    ],
    ids=["byte order mark", "CRLF", "no last newline", "quoted"],
)
def test_dialects(tmp_path, content):
    plain, other = load(tmp_path, HEADER + ROWS), load(tmp_path, content)
    assert list(other.population.client_ids) == list(plain.population.client_ids)
    np.testing.assert_array_equal(other.held_out.inputs, plain.held_out.inputs)
    np.testing.assert_array_equal(
        other.population.examples(0).inputs, plain.population.examples(0).inputs
    )


def test_columns_may_come_in_any_order_beside_others(tmp_path):
    rows = [line.split(",") for line in ROWS.splitlines()]
    content = "text,year,client_id\n" + "".join(f"{text},1600,{name}\n" for name, text in rows)
    plain, other = load(tmp_path, HEADER + ROWS), load(tmp_path, content)
    np.testing.assert_array_equal(
        other.population.examples(1).inputs, plain.population.examples(1).inputs
    )


def test_a_quoted_text_may_hold_commas_quotes_and_lines(tmp_path):
    content = HEADER + 'é,"To be, or\nnot ""to"" be"\n' + ROWS
    task = load(tmp_path, content)
    assert task.population.client_ids[0] == "é"
    # To, be, comma, or, not ...: cut to 5 words, of which the labels are.
    (labels,) = task.population.examples(0).labels
    assert len(set(labels)) == 5
    assert (labels <= 30).all()


def test_tokens_are_held_once_and_compactly(tmp_path):
    """24 sentences of 5 words and the beginning, a byte each for 34 tokens."""
    population = load(tmp_path, HEADER + ROWS).population
    assert isinstance(population, SentencePopulation)
    assert population.rows.nbytes == 24 * 6


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
        ("", "column `client_id` is missing; known: (no header)"),
        ("client,text\na,b\n", "column `client_id` is missing; did you mean 'client'?"),
        ("client_id,txt\na,b\n", "column `text` is missing; did you mean 'txt'?"),
        ("Client_ID;Text\na;b\n", "column `client_id` is missing; "),
        (HEADER + "a,x\n,y\n", "line 3: `client_id` is empty"),
        (HEADER + "a,x\n  ,y\n", "line 3: `client_id` is empty"),
        (HEADER + "a,x\nb,\n" + ROWS.replace("b,", "a,"), "client 'b' is empty: none of its rows"),
        (HEADER + 'a,x\nb," "\n' + ROWS.replace("b,", "a,"), "client 'b' is empty: none of its"),
        (HEADER + "a,to be, or not\n", "line 2: must have 2 fields, as the header; "),
        (HEADER + "a,x\nb\n", "line 3: must have 2 fields, as the header; "),
        (HEADER + ROWS + 'a,"never closed\n' + ROWS, "line 50: not valid CSV: unexpected end"),
        (HEADER + 'a,"x" y\n', "line 2: not valid CSV: "),
        (HEADER + "a," + "x" * 200_000 + "\n", "line 2: not valid CSV: field larger than"),
        (HEADER, "no row can be held out"),
        (HEADER + "a,x\n" * 9, "no row can be held out"),
        (HEADER + "".join(f"c{n},x\n" for n in range(50)), "no row can be held out"),
        (b"client_id,text\na,\xff\n", "must be UTF-8 text: invalid start byte"),
        ((HEADER + ROWS).encode("utf-16"), "must be UTF-8 text: invalid start byte"),
    ],
)
def test_refusals(tmp_path, content, expected):
    assert refusal(tmp_path, content).startswith(expected)


def test_ten_rows_of_one_client_are_enough(tmp_path):
    assert len(load(tmp_path, HEADER + "a,x\n" * 10).held_out) == 1


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file or directory$"):
        load_task(config_of(tmp_path / "none.csv"), seed=1)
    with pytest.raises(InputError, match=r"cannot be read: Is a directory$"):
        load_task(config_of(tmp_path), seed=1)


def test_a_long_file_is_read_split_and_encoded_row_by_row(tmp_path):
    rng = np.random.default_rng(1)
    names = [f"w{i}" for i in range(40)]
    rows = [
        (f"c{rng.integers(7)}", list(rng.choice(names, rng.integers(1, 9)))) for _ in range(300)
    ]
    path = tmp_path / "speech.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("client_id", "text"))
        writer.writerows((client_id, " ".join(words)) for client_id, words in rows)
    task = load_task(config_of(path), seed=1)

    training = [row for n, row in enumerate(rows, start=1) if n % 10]
    counts = Counter(word for _, words in training for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:30]
    tokens = {word: token for token, word in enumerate(ranked, start=1)}

    def encoded(words: list[str]) -> list[int]:
        return [32, *(tokens.get(word, 31) for word in words[:5]), 33, 0, 0, 0, 0][:6]

    assert task.held_out.labels.tolist() == [encoded(w)[1:] for _, w in rows[9::10]]
    assert list(task.population.client_ids) == list(dict(training))
    for client, client_id in enumerate(task.population.client_ids):
        said = [encoded(words) for who, words in training if who == client_id]
        assert task.population.examples(client).inputs.tolist() == [s[:-1] for s in said]
        assert task.population.examples(client).labels.tolist() == [s[1:] for s in said]


def test_a_compressed_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "speech.csv.gz"
    path.write_bytes(gzip.compress((HEADER + ROWS).encode()))
    packed, plain = load_task(config_of(path), seed=1), load(tmp_path, HEADER + ROWS)
    np.testing.assert_array_equal(packed.held_out.inputs, plain.held_out.inputs)


@pytest.mark.parametrize(
    "content",
    [b"client_id,text\na,b\n", gzip.compress(b"client_id,text" * 99)[:-9]],
    ids=["plain", "cut"],
)
def test_a_file_that_gzip_did_not_write_is_refused(tmp_path, content):
    path = tmp_path / "speech.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="must be a file compressed by gzip"):
        load_task(config_of(path), seed=1)
