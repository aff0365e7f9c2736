"""Canaries that take part otherwise than real clients."""

import attendance
import numpy as np
import pytest
from attendance import INCLUDED, chi_square, schedule_of
from scipy import stats

from fl_audit.accounting import PoissonSampling
from fl_audit.accounting.sampling import OneRoundPerBlock
from fl_audit.config import BallsInBins, Bernoulli, Shuffle, Uniform
from fl_audit.errors import InputError
from fl_audit.participation.placement import urn_for

PATTERNS = [Shuffle, Bernoulli, Uniform]
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


@every_pattern
def test_repeats_in_the_first_rounds_alone(pattern):
    config = pattern(
        rounds=22,
        clients_per_round=4,
        canaries="repeats",
        canary_repeats=2,
        canary_first_rounds=11,
    )
    included = np.ones(12_000, bool)
    schedule = schedule_of(config, 30, included)
    table = attendance.attendance(schedule, 30, pool=12_000).canaries
    assert (table[:6].sum(axis=0) == 1).all()  # array_split: 6 rounds and 5
    assert (table[6:11].sum(axis=0) == 1).all()
    assert not table[11:].any()
    # chi2.sf(45, 5) = 1.4e-8.
    assert chi_square(table[:6].sum(axis=1), 2000) < 45
    assert schedule.canary_attendance.sampling == OneRoundPerBlock(2, ((6, 1), (5, 1)))


@pytest.mark.parametrize(("rounds", "epochs"), [(24, 3), (26, 4), (5, 1)])
def test_once_per_epoch_a_broken_one_included(rounds, epochs):
    config = Shuffle(rounds=rounds, clients_per_round=4, canaries="once_per_epoch")
    schedule = schedule_of(config, 30)
    table = attendance.attendance(schedule, 30).canaries
    for start in range(0, rounds, 8):
        assert (table[start : start + 8].sum(axis=0) == INCLUDED).all()
    assert schedule.canary_participations == schedule.client_participations == epochs
    assert schedule.expected_canaries == pytest.approx(INCLUDED.sum() * epochs / rounds)


def test_once_per_epoch_is_uniform_within_an_epoch():
    config = Shuffle(rounds=16, clients_per_round=4, canaries="once_per_epoch")
    schedule = schedule_of(config, 30, np.ones(20_000, bool))
    first, second = (
        np.array([len(schedule.canaries(r)) for r in range(start, start + 8)]) for start in (0, 8)
    )
    # chi2.sf(45, 7) = 1.4e-7.
    assert max(chi_square(first, 2500), chi_square(second, 2500)) < 45
    assert (first != second).any()


@every_pattern
def test_last_rounds_are_a_poisson_number(pattern):
    config = pattern(
        rounds=40,
        clients_per_round=4,
        canaries="last_rounds",
        canary_last_rounds=12,
        canary_mean_repeats=1.5,
    )
    included = np.ones(6_000, bool)
    schedule = schedule_of(config, 30, included)
    table = attendance.attendance(schedule, 30, pool=6_000).canaries
    assert table[:28].sum() == 0
    assert table.max() == 1
    numbers = np.bincount(table.sum(axis=0))
    expected = stats.poisson.pmf(np.arange(6), 1.5) * 6_000
    # 0 to 5, and beyond: chi2.sf(42, 6) = 1.8e-7.
    observed = np.append(numbers[:6], numbers[6:].sum())
    assert chi_square(observed, np.append(expected, 6_000 - expected.sum())) < 42
    # 12 rounds are equally likely: chi2.sf(55, 11) = 8e-8. Distinct rounds only lower it.
    rounds = table[28:].sum(axis=1)
    assert chi_square(rounds, rounds.mean()) < 55
    assert schedule.canary_participations == len(numbers) - 1
    assert schedule.expected_canaries == pytest.approx(table.sum() / 40)


def test_a_poisson_number_beyond_the_last_rounds_is_all_of_them():
    config = Bernoulli(
        rounds=9,
        clients_per_round=4,
        canaries="last_rounds",
        canary_last_rounds=2,
        canary_mean_repeats=50,
    )
    table = attendance.attendance(schedule_of(config, 30), 30).canaries
    # A Poisson number of mean 50 is below 2 with probability 1e-20.
    assert (table[-2:] == INCLUDED).all()
    assert table[:-2].sum() == 0


def test_placed_canaries_leave_clients_to_their_sampling():
    config = Bernoulli(rounds=9, clients_per_round=4, canaries="repeats", canary_repeats=2)
    schedule, like_clients = (
        schedule_of(c, 30) for c in (config, Bernoulli(rounds=9, clients_per_round=4))
    )
    for r in range(9):
        np.testing.assert_array_equal(schedule.clients(r), like_clients.clients(r))
    assert schedule.client_participations is None
    assert schedule.client_attendance.sampling == PoissonSampling(4 / 30)


@pytest.mark.parametrize(
    ("pattern", "keys", "message"),
    [
        (Bernoulli, {"canary_repeats": 3}, "canary_repeats: is not used under .* to 'repeats'$"),
        (
            Shuffle,
            {"canaries": "once_per_epoch", "canary_repeats": 3},
            "canary_repeats: is not used under `canaries = 'once_per_epoch'`; leave it out, or set",
        ),
        (
            Shuffle,
            {"canary_last_rounds": 3, "canary_first_rounds": 3},
            "canary_last_rounds: excludes canary_first_rounds; leave out",
        ),
        (
            Shuffle,
            {"canary_last_rounds": 3, "canaries": "once_per_epoch"},
            "canary_last_rounds: is not used under `canaries = 'once_per_epoch'`",
        ),
        (
            Shuffle,
            {"canary_mean_repeats": 3.0},
            "canary_mean_repeats: is not used .* to 'like_clients'",
        ),
        (
            Shuffle,
            {"canaries": "like_clients", "canary_mean_repeats": 2.5},
            "canary_mean_repeats: is 2.5, and .* whole number .* possible mean is 2 or 3",
        ),
        (Uniform, {"canary_mean_repeats": 10.5}, "canary_mean_repeats: is 10.5, .* mean is 10$"),
        (Uniform, {"canary_mean_repeats": 1e-9}, "canary_mean_repeats: gives a share of 1e-10 .*"),
        (BallsInBins, {"canary_mean_repeats": 1e-18}, "mean_repeats: gives a share of 1e-19 .*"),
        (Uniform, {"canaries": "last_rounds"}, "canary_last_rounds: is missing"),
        (
            Shuffle,
            {"canaries": "last_rounds", "canary_last_rounds": 11},
            "canary_last_rounds: the last 11 of 10 rounds; must be at most 10",
        ),
        (
            Bernoulli,
            {"canaries": "repeats", "canary_repeats": 11},
            "canary_repeats: 11 rounds per canary .* must be at most 10",
        ),
        (
            Bernoulli,
            {"canaries": "once_per_epoch", "canary_first_rounds": 3},
            "canary_first_rounds: is not used under `canaries = 'once_per_epoch'`; leave it out",
        ),
        (
            Shuffle,
            {"canary_first_rounds": 11},
            "canary_first_rounds: the first 11 of 10 rounds; must be at most 10",
        ),
        (
            Shuffle,
            {"canary_first_rounds": 4, "canary_repeats": 5},
            "canary_repeats: 5 rounds per canary do not fit into 4 rounds; .* at most 4",
        ),
        (
            Bernoulli,
            {"canaries": "last_rounds", "canary_last_rounds": 1, "canary_mean_repeats": 1e-9},
            "canary_mean_repeats: with mean 1e-09 none of .* must be larger",
        ),
    ],
)
def test_keys_that_contradict_each_other(pattern, keys, message):
    with pytest.raises(InputError, match=message) as caught:
        schedule_of(pattern(rounds=10, clients_per_round=2, **keys), 30)
    assert str(caught.value).startswith("participation.")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [1 / 15_000, 3e-5, 1e-9])
def test_an_urn_meets_small_shares(share):
    size, urn = urn_for(share, 101)
    assert size / urn == pytest.approx(share, rel=0.005)
    assert urn >= 101
