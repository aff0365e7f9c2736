"""A client rests for some rounds after each participation."""

import attendance
import numpy as np
import pytest
from attendance import POOL, chi_square, schedule_of

from fl_audit.accounting.sampling import OneGroup
from fl_audit.config import MinSeparation
from fl_audit.errors import InputError
from tests.seeds_tried import some

# (rounds, clients per round, separation, clients): drawn from groups, whole groups, no separation,
# groups of unequal size, fewer rounds than groups, one client a group.
SHAPES = [
    (60, 5, 4, 40),
    (30, 10, 4, 40),
    (20, 7, 1, 40),
    (41, 6, 7, 45),
    (3, 2, 5, 11),
    (20, 1, 9, 9),
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
every_placement = pytest.mark.parametrize("canaries", ["like_clients", "most_frequent"])


def config_of(shape: tuple[int, int, int, int], canaries: str) -> MinSeparation:
    rounds, clients_per_round, separation, _ = shape
    return MinSeparation(
        rounds=rounds,
        clients_per_round=clients_per_round,
        separation=separation,
        canaries=canaries,
    )


def smallest_gap(present: np.ndarray) -> int:
    """Between two participations of the same one; of shape (rounds, members)."""
    gaps = [np.diff(np.flatnonzero(member)) for member in present.T]
    return int(np.concatenate(gaps).min(initial=10**9))


@every_placement
@every_shape
def test_separation_sizes_and_participations(shape, canaries):
    rounds, clients_per_round, separation, num_clients = shape
    config = config_of(shape, canaries)
    included = np.ones(POOL, bool)
    schedule = schedule_of(config, num_clients, included)
    table = attendance.attendance(schedule, num_clients)
    assert smallest_gap(table.clients) >= separation
    assert smallest_gap(table.canaries) >= separation
    assert max(table.clients.max(), table.canaries.max()) == 1
    assert schedule.client_participations == -(-rounds // separation)
    assert table.clients.sum(axis=0).max() <= schedule.client_participations
    assert table.canaries.sum(axis=0).max() <= schedule.canary_participations
    sizes = table.clients.sum(axis=1)
    if canaries == "most_frequent":
        assert set(sizes) == {clients_per_round}
        assert schedule.expected_clients == clients_per_round
        assert schedule.expected_canaries == pytest.approx(table.canaries.sum() / rounds)
        for present in table.canaries.T:
            assert (np.diff(np.flatnonzero(present)) == separation).all()
        counts = table.canaries.sum(axis=0)
        assert counts.min() >= max(1, rounds // separation)
        assert counts.max() == schedule.canary_participations
    else:
        drawn = sizes + table.canaries.sum(axis=1)
        assert len(set(drawn)) == 1
        assert schedule.expected_cohort == pytest.approx(drawn[0])


def test_groups_and_samples_are_uniform():
    # Over seeds: the round of client 0's first participation, 1 of 4 groups of 10, each of which is
    # drawn whole; and in groups of which half is drawn, how often it is in rounds 0 to 3.
    whole = config_of((4, 10, 4, 40), "most_frequent")
    half = config_of((4, 5, 4, 40), "most_frequent")
    first = np.zeros(4)
    times = np.zeros(2)
    seeds = some(range(3000), 300)
    for seed in seeds:
        schedule = schedule_of(whole, 40, seed=seed)
        first[[r for r in range(4) if 0 in schedule.clients(r)]] += 1
        schedule = schedule_of(half, 40, seed=seed)
        times[sum(0 in schedule.clients(r) for r in range(4))] += 1
    assert first.sum() == len(seeds)
    # chi2.sf(35, 3) = 1.2e-7, chi2.sf(29, 1) = 7e-8.
    assert chi_square(first, len(seeds) / 4) < 35
    assert chi_square(times, len(seeds) / 2) < 29


@every_placement
def test_a_cap_ends_a_clients_rounds(canaries):
    """40 clients in 4 groups, 15 turns of 5 a group: 7.5 rounds for each of 10 on average."""
    config = MinSeparation(
        rounds=60, clients_per_round=5, separation=4, client_rounds_at_most=8, canaries=canaries
    )
    schedule = schedule_of(config, 40, np.zeros(POOL, bool))
    table = attendance.attendance(schedule, 40)
    assert smallest_gap(table.clients) >= 4
    assert schedule.client_participations == table.clients.sum(axis=0).max() == 8
    assert table.canaries.sum() == 0
    if canaries == "most_frequent":
        sampled = [schedule.sampled_canaries(index) for index in range(60)]
        assert np.bincount(np.concatenate(sampled), minlength=POOL).tolist() == [8] * POOL
        assert len(sampled[0]) > 0 and len(sampled[59]) == 0  # the first turns of each group
    again = schedule_of(config, 40, np.zeros(POOL, bool))
    for index in (59, 3, 30):  # a resumed run asks for later rounds first
        assert np.array_equal(again.clients(index), np.flatnonzero(table.clients[index]))


@every_placement
def test_the_expected_cohort_is_the_mean_of_rounds_that_a_cap_leaves_smaller(canaries):
    config = MinSeparation(
        rounds=100, clients_per_round=3, separation=1, client_rounds_at_most=30, canaries=canaries
    )
    schedule = schedule_of(config, 10, np.zeros(0, bool))
    sizes = [len(schedule.clients(index)) for index in range(100)]
    assert min(sizes) < 3
    assert schedule.expected_clients == pytest.approx(np.mean(sizes))


def test_a_cap_that_leaves_rounds_empty_is_refused():
    config = MinSeparation(rounds=60, clients_per_round=5, separation=4, client_rounds_at_most=7)
    with pytest.raises(InputError, match="7 rounds per client do not fill 60 rounds of 5 from 40"):
        schedule_of(config, 40, np.zeros(0, bool))
    # The first of two groups of two clients has the first and the third round.
    odd = MinSeparation(rounds=3, clients_per_round=2, separation=2, client_rounds_at_most=1)
    with pytest.raises(InputError, match="must be at least 2"):
        schedule_of(odd, 4, np.zeros(0, bool))


@pytest.mark.parametrize("separation", [1, 4])
def test_canaries_of_a_mean_are_in_as_many_rounds_as_the_draw_gives_if_clients_have_a_cap(
    separation,
):
    config = MinSeparation(
        rounds=60,
        clients_per_round=5,
        separation=separation,
        client_rounds_at_most=8,
        canary_mean_repeats=2.0,
    )
    schedule = schedule_of(config, 40, np.ones(POOL, bool))
    most = int(attendance.attendance(schedule, 40).canaries.sum(axis=0).max())
    assert 2 < most < 15 and schedule.canary_participations == most
    assert schedule.canary_attendance.sampling == OneGroup(most, separation)
    none_in = MinSeparation(
        rounds=60,
        clients_per_round=5,
        client_rounds_at_most=8,
        separation=separation,
        canary_mean_repeats=0.001,
    )
    assert schedule_of(none_in, 40).canary_participations == 1


@pytest.mark.parametrize("separation", [1, 4])
def test_nothing_counts_on_canaries_of_a_schedule_that_the_seed_draws(separation):
    """Groups of known turns, whatever a canary's mean number of rounds is."""
    config = MinSeparation(
        rounds=60, clients_per_round=5, separation=separation, canary_mean_repeats=2.0
    )
    schedule = schedule_of(config, 40)
    assert schedule.canary_attendance.sampling == OneGroup.over(60, separation)
    assert schedule.canary_attendance.sampling == schedule.client_attendance.sampling
