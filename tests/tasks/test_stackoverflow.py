"""The Stack Overflow task over TFF's synthetic stand-in for the data."""

import numpy as np
import pytest
import tensorflow_federated as tff

from fl_audit.config import StackOverflowTask
from fl_audit.tasks.classifier import LearningTask
from fl_audit.tasks.stackoverflow import load_stackoverflow_task, stackoverflow_task

stackoverflow = tff.simulation.datasets.stackoverflow
WORDS = list(stackoverflow.get_synthetic_word_counts())
CONFIG = StackOverflowTask(
    vocabulary_size=30,
    sequence_length=8,
    embedding_size=3,
    lstm_size=2,
    max_sequences_per_client=2,
)


@pytest.fixture(scope="module")
def task() -> LearningTask:
    synthetic = stackoverflow.get_synthetic()
    return stackoverflow_task(CONFIG, 1, synthetic, synthetic, WORDS)


def test_sentences_are_encoded_as_by_tffs_own_preprocessing(task):
    """Recomputed from the raw strings with a table: 0 padding, words, unknown, begin, end."""
    tokens = {word: token for token, word in enumerate(WORDS[:30], start=1)}
    synthetic = stackoverflow.get_synthetic()
    for client, name in enumerate(synthetic.client_ids):
        dataset = synthetic.create_tf_dataset_for_client(name)
        expected = []
        for row in dataset.as_numpy_iterator():
            words = row["tokens"].decode().split(" ")
            line = [32, *(tokens.get(word, 31) for word in words)][:9]
            line += [33] * (len(words) < 8)
            expected.append(line + [0] * (9 - len(line)))
        examples = task.population.examples(client)
        assert examples.inputs.tolist() == [line[:-1] for line in expected]
        assert examples.labels.tolist() == [line[1:] for line in expected]
        assert examples.inputs.dtype == examples.labels.dtype == np.int32


def test_what_it_says_of_itself(task):
    assert list(task.population.client_ids) == stackoverflow.get_synthetic().client_ids
    assert task.max_examples_per_client == 2
    assert task.classifier.dim == 34 * 3 + 8 * 6 + 3 * 3 + 34 * 4
    assert task.classifier.padding_label == 0
    assert task.classifier.uncounted_labels == (31, 33)


def test_model_takes_what_clients_hold(task):
    examples = task.population.examples(0)
    logits = task.classifier.logits(task.classifier.initial_weights, examples.inputs)
    assert logits.shape == (len(examples), 8, 34)


def test_held_out_are_the_first_10000_test_sentences():
    def data_of(num_clients: int, word: str) -> tff.simulation.datasets.ClientData:
        sentences = [f"{word} {word}".encode()] * 3000
        return tff.simulation.datasets.TestClientData(
            {str(n): {"tokens": sentences} for n in range(num_clients)}
        )

    task = stackoverflow_task(CONFIG, 1, data_of(2, "train"), data_of(4, "test"), ["test"])
    assert len(task.held_out) == 10_000
    assert (task.held_out.inputs == [32, 1, 1, 33, 0, 0, 0, 0]).all()


@pytest.mark.parametrize(("max_clients", "expected"), [(0, 3), (2, 2), (9, 3)])
def test_max_clients(max_clients, expected):
    synthetic = stackoverflow.get_synthetic()
    config = StackOverflowTask(vocabulary_size=30, lstm_size=2, max_clients=max_clients)
    task = stackoverflow_task(config, 1, synthetic, synthetic, WORDS)
    assert list(task.population.client_ids) == synthetic.client_ids[:expected]


def test_loads_training_and_test_split_with_the_most_frequent_words(monkeypatch):
    """TFF's `load_data` gives training, held-out and test data, in this order."""

    def data_of(word: str) -> tff.simulation.datasets.ClientData:
        return tff.simulation.datasets.TestClientData({"1": {"tokens": [word.encode()]}})

    splits = tuple(map(data_of, ("train", "held", "test")))
    monkeypatch.setattr(stackoverflow, "load_data", lambda: splits)
    monkeypatch.setattr(
        stackoverflow,
        "load_word_counts",
        lambda vocab_size: dict(list({"train": 9, "held": 8, "test": 7}.items())[:vocab_size]),
    )
    task = load_stackoverflow_task(CONFIG, 1)
    assert task.population.examples(0).inputs[0, :3].tolist() == [32, 1, 33]
    assert task.held_out.inputs[0, :3].tolist() == [32, 3, 33]
