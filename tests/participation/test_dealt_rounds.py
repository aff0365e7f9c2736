"""Rounds are dealt to the whole pool, and the coins decide afterwards who takes part in them."""

import numpy as np
import pytest

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
from tests.participation.attendance import INCLUDED, POOL, schedule_of

NUM_CLIENTS, ROUNDS = 40, 24
SIZES = {"rounds": ROUNDS, "clients_per_round": 6}
LAST = {"canary_last_rounds": 9, "canary_mean_repeats": 2.0}
PATTERNS = [
    Shuffle(**SIZES),
    Shuffle(**SIZES, canary_repeats=3),
    Shuffle(**SIZES, canaries="once_per_epoch"),
    Shuffle(**SIZES, canaries="last_rounds", **LAST),
    Bernoulli(**SIZES),
    Bernoulli(**SIZES, canaries="repeats"),
    Uniform(**SIZES),
    Uniform(**SIZES, canaries="last_rounds", **LAST),
    EveryRound(rounds=ROUNDS),
    MinSeparation(**SIZES, separation=4),
    MinSeparation(**SIZES, separation=4, canaries="most_frequent"),
    CyclicPoisson(**SIZES, separation=4),
    Bernoulli(**SIZES, largest_round=7),
    BallsInBins(**SIZES),
    RandomAllocation(**SIZES),
    BMinSep(**SIZES, separation=4),
]


@pytest.fixture(params=["like_clients", "most_frequent"])
def replay(request, tmp_path):
    random = np.random.default_rng(4)
    rows = [
        f"{index + 1},client-{client}"
        for index in range(ROUNDS)
        for client in random.choice(NUM_CLIENTS, 6, replace=False)
    ]
    path = tmp_path / "log.csv"
    path.write_text("round,client_id\n" + "\n".join(rows) + "\n")
    return Replay(path=str(path), canaries=request.param)


def check_pattern(pattern):
    others = np.random.default_rng(7).random(POOL) < 0.5
    first, second = (schedule_of(pattern, NUM_CLIENTS, coins) for coins in (INCLUDED, others))
    drawn = 0
    for index in range(first.num_rounds):
        dealt = first.sampled_canaries(index)
        drawn += len(dealt)
        assert (np.diff(dealt) > 0).all()
        np.testing.assert_array_equal(dealt, second.sampled_canaries(index))
        np.testing.assert_array_equal(first.canaries(index), dealt[INCLUDED[dealt]])
        np.testing.assert_array_equal(second.canaries(index), dealt[others[dealt]])
    assert drawn > 0
    rounds = first.rounds_of_canaries(POOL)
    for canary, of_canary in enumerate(rounds):
        where = [t for t in range(first.num_rounds) if canary in first.sampled_canaries(t)]
        assert of_canary.tolist() == where


@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
def test_coins_change_nobodys_rounds(pattern):
    check_pattern(pattern)


def test_coins_change_nobodys_rounds_in_a_replay(replay):
    check_pattern(replay)


def test_excluded_canaries_have_as_many_rounds_as_included_ones():
    pattern = Bernoulli(rounds=400, clients_per_round=6)
    schedule = schedule_of(pattern, NUM_CLIENTS)
    counts = np.array([len(rounds) for rounds in schedule.rounds_of_canaries(POOL)])
    mean, stddev = 400 * 0.15, np.sqrt(400 * 0.15 * 0.85)
    for group in (INCLUDED, ~INCLUDED):
        # Fails by chance with probability 6e-7 each (5 standard errors).
        assert counts[group].mean() == pytest.approx(mean, abs=5 * stddev / np.sqrt(group.sum()))
