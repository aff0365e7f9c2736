"""Who took part when, in sentences."""

import dataclasses

import pytest

from fl_audit.config import (
    Bernoulli,
    EveryRound,
    MinSeparation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.formats.folders import RunRecord
from fl_audit.participation.schedule import canary_rounds, client_rounds

SIZES = {"rounds": 40, "clients_per_round": 30}
FACTS = {"num_clients": 300, "client_participations": 4}
"""All that a sentence may need of a record but what tells patterns apart."""


def record_of(**facts) -> RunRecord:
    """A record that knows nothing else."""
    return RunRecord(**{field.name: None for field in dataclasses.fields(RunRecord)} | facts)


@pytest.mark.parametrize(
    ("participation", "record", "sentence"),
    [
        (
            Shuffle(**SIZES),
            {},
            "Clients are shuffled: 30 clients a round, each client in at most 4",
        ),
        (
            Bernoulli(**SIZES),
            {"sampling_probability": 0.1},
            "each joins each round with probability 0.100, 30 clients a round on average.",
        ),
        (
            Uniform(**SIZES),
            {"sample_size": 50, "sampled_from": 500},
            "Each round draws 50 of 500 clients and canaries, uniformly without replacement; an",
        ),
        (
            Uniform(**SIZES, canaries="repeats"),
            {"sample_size": 30, "sampled_from": 300},
            "Each round draws 30 of 300 clients, uniformly without replacement.",
        ),
        (EveryRound(rounds=40), {}, "Every client takes part in every round."),
        (
            MinSeparation(**SIZES, separation=10),
            {},
            "into 10 groups that take turns, so that a client checks in at most every 10 rounds: "
            "30 clients a round, each client in at most 4 rounds.",
        ),
        (
            Replay(path="/somewhere/log.csv"),
            {},
            "Clients take part as a production log says, each client in at most 4 rounds.",
        ),
    ],
)
def test_sentences_on_real_clients(participation, record, sentence):
    assert sentence in client_rounds(record_of(**FACTS, **record), participation)


@pytest.mark.parametrize(
    ("participation", "sentence"),
    [
        (Shuffle(**SIZES), "drawn at random."),
        (
            Shuffle(**SIZES, canary_repeats=4),
            "drawn at random, one in each of 4 equal parts of the run.",
        ),
        (Shuffle(**SIZES, canaries="once_per_epoch"), "drawn at random, one in each epoch."),
        (
            Uniform(**SIZES, canaries="last_rounds", canary_last_rounds=5),
            "Poisson in number, drawn at random from the last 5 rounds.",
        ),
        (Bernoulli(**SIZES), "drawn like a client’s."),
        (EveryRound(rounds=40), "all of them."),
        (MinSeparation(**SIZES, separation=10), "drawn like a client’s."),
        (
            MinSeparation(**SIZES, separation=10, canaries="most_frequent"),
            "all those of a group, drawn at random for each canary.",
        ),
        (Replay(path="log.csv"), "those of a client of the log, drawn at random for each canary."),
        (
            Replay(path="log.csv", canaries="most_frequent"),
            "those of the client that takes part most often.",
        ),
    ],
)
def test_sentences_on_canaries(participation, sentence):
    assert canary_rounds(participation) == f"Its rounds are {sentence}"
