"""The Stack Overflow task over TFF's synthetic stand-in for the data."""

import inspect
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from tensorflow_federated.python.simulation.datasets import download, stackoverflow

from fl_audit.config import StackOverflowTask
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import LearningTask

WORDS = list(stackoverflow.get_synthetic_word_counts())
SIZES = StackOverflowTask(
    vocabulary_size=30,
    sequence_length=8,
    embedding_size=3,
    lstm_size=2,
    max_sequences_per_client=2,
)


def elements(sentences: Sequence[str]) -> list[dict[str, object]]:
    """As TFF's file has them."""
    texts = dict.fromkeys(("creation_date", "tags", "title", "type"), b"something else")
    return [{"tokens": text.encode(), "score": 7, **texts} for text in sentences]


def synthetic_sentences() -> dict[str, list[str]]:
    data = stackoverflow.get_synthetic()
    rows = {c: data.create_tf_dataset_for_client(c).as_numpy_iterator() for c in data.client_ids}
    return {client: [row["tokens"].decode() for row in rows[client]] for client in rows}


@pytest.fixture(scope="module")
def config(tmp_path_factory, database) -> StackOverflowTask:
    folder = tmp_path_factory.mktemp("stackoverflow")
    clients = {name: elements(said) for name, said in synthetic_sentences().items()}
    path = database(folder / "s.sqlite", {"train": clients, "test": clients})
    counts = folder / "stackoverflow.word_count"
    counts.write_text("".join(f"{word} {99 - i}\n" for i, word in enumerate(WORDS)))
    return msgspec.structs.replace(SIZES, path=str(path), word_counts=str(counts))


@pytest.fixture(scope="module")
def task(config) -> LearningTask:
    return load_task(config, 1)


def test_sentences_are_encoded_as_by_tffs_own_preprocessing(task):
    """Recomputed from the raw strings with a table: 0 padding, words, unknown, begin, end."""
    tokens = {word: token for token, word in enumerate(WORDS[:30], start=1)}
    for client, sentences in enumerate(synthetic_sentences().values()):
        expected = []
        for sentence in sentences:
            words = sentence.split(" ")
            line = [32, *(tokens.get(word, 31) for word in words)][:9]
            line += [33] * (len(words) < 8)
            expected.append(line + [0] * (9 - len(line)))
        examples = task.population.examples(client)
        assert examples.inputs.tolist() == [line[:-1] for line in expected]
        assert examples.labels.tolist() == [line[1:] for line in expected]
        assert examples.inputs.dtype == examples.labels.dtype == np.int32


def test_held_out_are_the_first_10000_test_sentences(config, tmp_path, database):
    def said(word: str, clients: int) -> dict[str, list[dict[str, object]]]:
        return {str(n): elements([f"{word} {word} {n}"] * 3000) for n in range(clients)}

    splits = {"train": said("if", 2), "heldout": said("a", 2), "test": said(".", 5)}
    path = database(tmp_path / "s.sqlite", splits)
    task = load_task(msgspec.structs.replace(config, path=str(path)), 1)
    assert len(task.held_out) == 10_000
    assert (task.held_out.inputs == [32, 1, 1, 31, 33, 0, 0, 0]).all()
    assert (task.population.examples(0).inputs == [32, 6, 6, 31, 33, 0, 0, 0]).all()


def test_fewer_test_sentences_than_are_held_out(task):
    assert len(task.held_out) == 8


@pytest.mark.parametrize(("max_clients", "expected"), [(0, 3), (2, 2), (9, 3)])
def test_max_clients(config, max_clients, expected):
    task = load_task(msgspec.structs.replace(config, max_clients=max_clients), 1)
    names = ["synthetic_1", "synthetic_2", "synthetic_3"]
    assert list(task.population.client_ids) == names[:expected]
    assert len(task.held_out) == 8


def test_a_word_that_is_no_utf8_is_unknown(config, tmp_path, database):
    clients = {"a": [{"tokens": b"if \xff\xfe the"}]}
    path = database(tmp_path / "s.sqlite", {"train": clients, "test": clients})
    task = load_task(msgspec.structs.replace(config, path=str(path)), 1)
    assert task.held_out.inputs.tolist() == [[32, 6, 31, 8, 33, 0, 0, 0]]


def test_downloads_what_no_key_names(config, monkeypatch):
    asked = []
    monkeypatch.setattr(
        download, "get_compressed_file", lambda origin: asked.append(origin) or config.path
    )
    monkeypatch.setattr(
        stackoverflow, "load_word_counts", lambda vocab_size: dict.fromkeys(WORDS[:vocab_size], 1)
    )
    downloaded, local = load_task(SIZES, 1), load_task(config, 1)
    np.testing.assert_array_equal(downloaded.held_out.inputs, local.held_out.inputs)
    (origin,) = asked
    assert f"'{origin}'" in inspect.getsource(stackoverflow.load_data)


@pytest.mark.parametrize(
    ("module", "function", "key"),
    [(download, "get_compressed_file", "path"), (stackoverflow, "load_word_counts", "word_counts")],
)
def test_what_cannot_be_downloaded_is_one_line(config, monkeypatch, module, function, key):
    def fail(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(module, function, fail)
    with pytest.raises(InputError, match=f"kind 'stackoverflow': .*: no network; .*`task.{key}`"):
        load_task(msgspec.structs.replace(config, **{key: None}), 1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"the 9\nof\n", "line 2: must be a word and its count, got 'of'"),
        (b"the 9\nof 1.5\n", "line 2: must be a word and its count, got 'of 1.5'"),
        (b"9 the\n", "line 1: must be a word and its count, got '9 the'"),
        (b"", "has no words; must have a line `word count` per word"),
        (b"BZh91AY&SY\xff\xfe", "cannot be read: is compressed, not text; unpack it"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_refuses_word_counts(config, tmp_path, content, expected):
    path = tmp_path / "counts"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_task(msgspec.structs.replace(config, word_counts=str(path)), 1)
    assert str(caught.value).startswith(f"{path}: {expected}")
