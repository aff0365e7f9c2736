"""Small runs whose clients differ in their numbers of examples."""

import dataclasses

import msgspec
import numpy as np
import pytest

from fl_audit.config import (
    Canaries,
    Config,
    DigitsTask,
    FedAvg,
    GaussianAdaptive,
    ServerSgd,
    Shuffle,
    TextTask,
)
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.tasks.images import cnn_classifier
from fl_audit.tasks.learning_task import Examples, InMemoryPopulation


def with_keys(run: PreparedRun, **keys: object) -> PreparedRun:
    """The run with other keys of its config; those of the design stay."""
    return dataclasses.replace(run, config=msgspec.structs.replace(run.config, **keys))


def train(run, engine):
    """What is seen of all rounds of a run, and the engine's last state."""
    rounds = []
    with engine.session():
        state, read = engine.begin(), engine.reader(run)
        for index in range(run.schedule.num_rounds):
            trained = engine.run_round(state, read(run.schedule.cohort(index), index), index)
            state = trained.state
            rounds.append(trained)
    return rounds, state


def uneven(task):
    """The task with clients of 1 to 22 examples, of whom some have as many as others."""
    sizes = 1 + (np.arange(60) * 7) % 22
    everything = [task.population.examples(c) for c in range(len(task.population.client_ids))]
    ends = np.cumsum(sizes)
    pool = everything[0].concatenate(everything)
    clients = [pool.take(np.arange(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    population = InMemoryPopulation([f"client-{c}" for c in range(len(clients))], clients)
    return dataclasses.replace(task, population=population)


def small_config(**keys):
    """Five rounds without noise, a few canaries in each, and a clip that moves."""
    return Config(
        **{
            "task": DigitsTask(num_clients=60, hidden=(16,)),
            "mechanism": GaussianAdaptive(noise_multiplier=0.0, clip_norm=0.3),
            "participation": Shuffle(rounds=5, clients_per_round=9),
            "canaries": Canaries(count=12, family="gaussian"),
            "client": FedAvg(learning_rate=0.1, batch_size=4),
            "server": ServerSgd(learning_rate=0.9, momentum=0.5),
            "seed": 3,
            **keys,
        }
    )


def small_run(**keys):
    """The run of `small_config`, of clients of 1 to 22 examples."""
    run = prepare(small_config(**keys))
    return dataclasses.replace(run, task=uneven(run.task))


def with_images(run):
    """The run with the CNN on made-up images, of whose clients each has as many as before."""
    population = run.task.population
    sizes = [population.num_examples(c) for c in range(len(population.client_ids))]
    random = np.random.default_rng(2)
    clients = [
        Examples(
            random.random((size, 8, 8, 2), np.float32),
            random.integers(0, 5, size).astype(np.int32),
        )
        for size in sizes
    ]
    task = dataclasses.replace(
        run.task,
        classifier=cnn_classifier((8, 8, 2), 5, 1, ""),
        population=InMemoryPopulation(population.client_ids, clients),
        held_out=clients[0],
    )
    family = dataclasses.replace(run.family, dim=task.classifier.dim)
    return dataclasses.replace(run, task=task, family=family)


def ragged_sentences(folder, sentences_per_client):
    """The next-word task on sentences of 1 to 11 words: shorter and longer than its 6 tokens."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs"]
    random = np.random.default_rng(1)
    rows = [
        f"client {client},{' '.join(random.choice(words, random.integers(1, 12)))}"
        for client, count in enumerate(sentences_per_client)
        for _ in range(count)
    ]
    path = folder / "sentences.csv"
    path.write_text("client_id,text\n" + "\n".join(rows) + "\n")
    return TextTask(
        path=str(path), vocabulary_size=9, sequence_length=6, embedding_size=5, lstm_size=6
    )


def with_sentences(folder):
    """A run of the next-word model on clients of 1 to 22 sentences."""
    task = ragged_sentences(folder, [1 + (client * 7) % 22 for client in range(40)])
    client = FedAvg(learning_rate=0.5, batch_size=4)
    return prepare(small_config(task=task, client=client))


@pytest.fixture(scope="session")
def run():
    return small_run()
