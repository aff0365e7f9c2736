"""Who took part when, in sentences."""

import dataclasses

import pytest

from fl_audit.accounting.sampling import FixedRounds, Sampling
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.truncated_poisson import TruncatedPoissonSampling
from fl_audit.config import (
    BallsInBins,
    Bernoulli,
    BMinSep,
    CyclicPoisson,
    EveryRound,
    MinSeparation,
    RandomAllocation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.formats.run_record import RunRecord
from fl_audit.participation.schedule import client_rounds
from tests.accounting.releases import release

SIZES = {"rounds": 40, "clients_per_round": 30}


def record_of(client: Sampling) -> RunRecord:
    """A record that says of the run how clients' rounds are drawn, and little else."""
    made = release(1.0, client, rounds=40)
    blank = dict.fromkeys(field.name for field in dataclasses.fields(RunRecord))
    return RunRecord(**blank | {"num_clients": 300, "release": made})


@pytest.mark.parametrize(
    ("participation", "sampling", "sentence"),
    [
        (
            Shuffle(**SIZES),
            FixedRounds(4),
            "Clients are shuffled: 30 clients a round, each client in at most 4",
        ),
        (
            Bernoulli(**SIZES),
            PoissonSampling(0.1),
            "each joins each round with probability 0.100, 30 clients a round on average.",
        ),
        (
            Uniform(**SIZES),
            FixedSizeSampling(50, 500),
            "Each round draws 50 of 500 clients and canaries, uniformly without replacement; an",
        ),
        (
            Uniform(**SIZES, canaries="repeats"),
            FixedSizeSampling(30, 300),
            "Each round draws 30 of 300 clients, uniformly without replacement.",
        ),
        (EveryRound(rounds=40), FixedRounds(40), "Every client participates in every round."),
        (
            MinSeparation(**SIZES, separation=10),
            FixedRounds(4),
            "into 10 groups that take turns, so that a client checks in at most every 10 rounds: "
            "30 clients a round, each client in at most 4 rounds.",
        ),
        (
            CyclicPoisson(**SIZES, separation=5),
            FixedRounds(4),
            "into 5 groups that take turns, and are Poisson-sampled in them: each joins each round "
            "of its group with probability 0.500, 30 clients a round on average.",
        ),
        (
            Bernoulli(**SIZES, largest_round=30),
            TruncatedPoissonSampling(0.1, 1300, 30),
            "probability 0.100, and a round of more than 30 clients and canaries is cut to as many "
            "at random, 6.92 clients a round on average.",
        ),
        (
            BallsInBins(**SIZES),
            {},
            "Each client draws one of 10 groups that take turns, 30.0 clients a round on average.",
        ),
        (
            RandomAllocation(**SIZES),
            {},
            "Each client draws 4 rounds of 40, 30.0 clients a round on average.",
        ),
        (
            BMinSep(**SIZES, separation=6),
            {},
            "A client that was in none of the last 5 rounds joins with probability 0.200, 30",
        ),
        (BMinSep(**SIZES, separation=1), {}, "Each client joins with probability 0.100, 30"),
        (
            Replay(path="/somewhere/log.csv"),
            FixedRounds(4),
            "Clients participate as a production log says, each client in at most 4 rounds.",
        ),
    ],
)
def test_sentences_on_real_clients(participation, sampling, sentence):
    assert sentence in client_rounds(record_of(sampling), participation)
