"""What holds of every pattern, and the schedule that a config asks for."""

import attendance
import numpy as np
import pytest
from attendance import INCLUDED

from fl_audit.accounting import FixedRounds
from fl_audit.config import (
    BallsInBins,
    Bernoulli,
    BMinSep,
    Canaries,
    CyclicPoisson,
    EveryRound,
    MinSeparation,
    Participation,
    RandomAllocation,
    Replay,
    Shuffle,
    Uniform,
)
from fl_audit.errors import InputError
from fl_audit.participation import Schedule, make_schedule

SIZES = {"rounds": 20, "clients_per_round": 6}
AT_THE_END = {"canaries": "last_rounds", "canary_last_rounds": 5, "canary_mean_repeats": 2.0}
CONFIGS: dict[str, Participation] = {
    "shuffle": Shuffle(**SIZES),
    "shuffle, repeats": Shuffle(**SIZES, canary_repeats=3),
    "shuffle, once per epoch": Shuffle(**SIZES, canaries="once_per_epoch"),
    "shuffle, last rounds": Shuffle(**SIZES, **AT_THE_END),
    "bernoulli": Bernoulli(**SIZES),
    "bernoulli, repeats": Bernoulli(**SIZES, canaries="repeats", canary_repeats=3),
    "bernoulli, last rounds": Bernoulli(**SIZES, **AT_THE_END),
    "uniform": Uniform(**SIZES),
    "uniform, mean": Uniform(**SIZES, canary_mean_repeats=3.0),
    "uniform, repeats": Uniform(**SIZES, canaries="repeats", canary_repeats=3),
    "uniform, last rounds": Uniform(**SIZES, **AT_THE_END),
    "every round": EveryRound(rounds=20),
    "min separation": MinSeparation(**SIZES, separation=4),
    "min separation, most frequent": MinSeparation(**SIZES, separation=4, canaries="most_frequent"),
    "cyclic poisson": CyclicPoisson(**SIZES, separation=4),
    "cyclic poisson, repeats": CyclicPoisson(**SIZES, separation=4, canaries="repeats"),
    "bernoulli, largest round": Bernoulli(**SIZES, largest_round=15),
    "balls in bins": BallsInBins(**SIZES),
    "balls in bins, last rounds": BallsInBins(**SIZES, **AT_THE_END),
    "random allocation": RandomAllocation(**SIZES),
    "b-min-sep": BMinSep(**SIZES, separation=4),
    "replay": Replay(path="log.csv"),
    "replay, most frequent": Replay(path="log.csv", canaries="most_frequent"),
}
UNSEEDED = ("every round", "replay, most frequent")
"""Nothing is drawn, or only among clients that tie."""
every_pattern = pytest.mark.parametrize("name", CONFIGS)


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    """A log of 20 rounds of 6 clients of 30, where the replays look for it."""
    rows = [
        f"{r},client-{c}"
        for r in range(20)
        for c in np.random.default_rng(r).choice(30, 6, replace=False)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["round,client_id", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)


def made(name: str, seed: int = 2) -> Schedule:
    return attendance.schedule_of(CONFIGS[name], 30, seed=seed)


@every_pattern
def test_cohorts_are_functions_of_the_seed_and_the_round(name):
    once, again = made(name), made(name)
    forward = [once.cohort(r) for r in range(20)]
    for r in [*reversed(range(20)), 13, 13]:
        cohort = again.cohort(r)
        np.testing.assert_array_equal(cohort.clients, forward[r].clients)
        np.testing.assert_array_equal(cohort.canaries, forward[r].canaries)
        assert cohort.clients.dtype == cohort.canaries.dtype == np.int64


@pytest.mark.parametrize("name", [n for n in CONFIGS if n not in UNSEEDED])
def test_seeds_differ(name):
    first, second = (attendance.attendance(made(name, seed), 30) for seed in (4, 5))
    assert (first.canaries != second.canaries).any()
    if "replay" not in name:
        assert (first.clients != second.clients).any()


@every_pattern
def test_rounds_are_dealt_to_the_whole_pool_and_coins_decide_afterwards(name):
    others = np.random.default_rng(7).random(attendance.POOL) < 0.5
    first, second = made(name), attendance.schedule_of(CONFIGS[name], 30, others)
    rounds, drawn = first.rounds_of_canaries(attendance.POOL), 0
    for index in range(20):
        dealt = first.sampled_canaries(index)
        drawn += len(dealt)
        assert (np.diff(dealt) > 0).all()
        np.testing.assert_array_equal(dealt, second.sampled_canaries(index))
        np.testing.assert_array_equal(first.canaries(index), dealt[INCLUDED[dealt]])
        np.testing.assert_array_equal(second.canaries(index), dealt[others[dealt]])
        where = np.array([index in of_canary for of_canary in rounds])
        np.testing.assert_array_equal(np.flatnonzero(where), dealt)
    assert drawn > 0


@every_pattern
def test_a_pool_of_no_canaries_leaves_clients_their_rounds(name):
    schedule = attendance.schedule_of(CONFIGS[name], 30, np.zeros(0, bool))
    assert [len(schedule.cohort(r).canaries) for r in range(20)] == [0] * 20
    assert sum(len(schedule.cohort(r).clients) for r in range(20)) > 0


@every_pattern
def test_participations_are_not_exceeded(name):
    schedule = made(name)
    table = attendance.attendance(schedule, 30)
    assert table.clients.max() == table.canaries.max() == 1
    parties = (
        (table.clients, schedule.client_participations),
        (table.canaries, schedule.canary_participations),
    )
    for present, most in parties:
        sampling = schedule.client_attendance.sampling
        if most is None and sampling.most_drawn is not None:
            assert present.sum(axis=0).max() <= sampling.most_drawn
        elif most is None:
            assert sampling.share
        else:
            assert present.sum(axis=0).max() <= most


@every_pattern
def test_expected_sizes_are_means_over_seeds(name):
    seeds = 1 if name == "every round" else 40
    schedules = [made(name, seed) for seed in range(seeds)]
    clients = [len(s.clients(r)) for s in schedules for r in range(20)]
    canaries = [len(s.canaries(r)) for s in schedules for r in range(20)]
    # Where sizes are random, a mean of 800 whose standard deviation is below 4: 0.8 is beyond 5.6
    # standard errors. Canaries that are placed meet what their own schedule expects.
    assert np.mean(clients) == pytest.approx(schedules[0].expected_clients, abs=0.8)
    expected = np.mean([s.expected_canaries for s in schedules])
    assert np.mean(canaries) == pytest.approx(expected, abs=0.8)


@pytest.mark.parametrize(
    "name", [n for n in CONFIGS if "replay" not in n and "allocation" not in n]
)
def test_rounds_of_a_large_population_are_made_one_by_one(name):
    ids = range(342_477)
    schedule = make_schedule(CONFIGS[name], attendance.ROOM, 4, ids, INCLUDED)
    sizes = [len(schedule.clients(r)) for r in (19, 0, 7)]
    # Binomial of mean 6 at most: beyond 40 with probability 1e-20.
    assert max(sizes) < 40 or name == "every round"


@pytest.mark.parametrize(
    ("name", "average"),
    [
        ("shuffle", INCLUDED.sum() / 20),
        ("shuffle, repeats", INCLUDED.sum() * 3 / 20),
        ("bernoulli", INCLUDED.sum() * 6 / 30),
        ("uniform", INCLUDED.sum() * 26 / 131),
        ("every round", INCLUDED.sum()),
    ],
)
def test_more_canaries_than_can_be_scheduled(name: str, average: float):
    ids = [f"client-{i}" for i in range(30)]
    room = int(np.ceil(average)) - 1
    with pytest.raises(InputError) as caught:
        make_schedule(CONFIGS[name], Canaries(count=101, max_per_round=room), 4, ids, INCLUDED)
    line = str(caught.value)
    assert line.startswith("canaries.count: more canaries than can be scheduled: ")
    assert f"{average:.1f} a round" in line
    assert f"must be at most {room} (canaries.max_per_round)" in line
    assert "\n" not in line
    # One more is room enough.
    make_schedule(CONFIGS[name], Canaries(count=101, max_per_round=room + 1), 4, ids, INCLUDED)


@pytest.mark.parametrize("name", ["shuffle", "bernoulli", "uniform", "min separation"])
def test_population_too_small(name):
    with pytest.raises(
        InputError,
        match=r"participation\.clients_per_round: 6 of 5 real clients; must be at most 5",
    ):
        attendance.schedule_of(CONFIGS[name], 5)


def test_everybody_but_the_excluded_always():
    schedule = attendance.schedule_of(EveryRound(rounds=7), 20)
    table = attendance.attendance(schedule, 20)
    assert (table.clients == 1).all()
    assert (table.canaries == INCLUDED).all()
    assert schedule.num_rounds == schedule.client_participations == 7
    assert schedule.canary_participations == 7
    assert schedule.expected_cohort == 20 + INCLUDED.sum()
    assert schedule.client_attendance.sampling == FixedRounds(schedule.num_rounds)
    assert schedule.cohort(3).clients.dtype == np.int64
