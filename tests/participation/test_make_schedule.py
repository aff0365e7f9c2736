"""The schedule that a config asks for."""

import numpy as np
import pytest

from fl_audit.config import Bernoulli, Canaries, Participation, Shuffle
from fl_audit.errors import InputError
from fl_audit.participation import BernoulliSchedule, ShuffleSchedule, make_schedule

SHUFFLE = Shuffle(rounds=10, clients_per_round=20)
BERNOULLI = Bernoulli(rounds=10, clients_per_round=20)
INCLUDED = np.random.default_rng(1).random(500) < 0.5


@pytest.mark.parametrize(
    ("config", "pattern"), [(SHUFFLE, ShuffleSchedule), (BERNOULLI, BernoulliSchedule)]
)
def test_makes_the_pattern_over_the_included_canaries(config, pattern):
    schedule = make_schedule(config, Canaries(count=500), 4, 300, INCLUDED)
    expected = pattern(config, 4, 300, np.flatnonzero(INCLUDED))
    assert type(schedule) is pattern
    for r in range(10):
        np.testing.assert_array_equal(schedule.cohort(r).clients, expected.cohort(r).clients)
        np.testing.assert_array_equal(schedule.cohort(r).canaries, expected.cohort(r).canaries)
        assert INCLUDED[schedule.cohort(r).canaries].all()


@pytest.mark.parametrize(
    ("config", "average"),
    [
        (SHUFFLE, INCLUDED.sum() / 10),
        (Shuffle(rounds=10, clients_per_round=20, canary_repeats=3), INCLUDED.sum() * 3 / 10),
        (BERNOULLI, INCLUDED.sum() * 20 / 300),
    ],
)
def test_more_canaries_than_can_be_scheduled(config: Participation, average: float):
    room = int(average)
    with pytest.raises(InputError) as caught:
        make_schedule(config, Canaries(count=500, max_per_round=room), 4, 300, INCLUDED)
    line = str(caught.value)
    assert line.startswith("canaries.count: more canaries than can be scheduled: ")
    assert f"{average:.1f} a round" in line
    assert f"must be at most {room} (canaries.max_per_round)" in line
    assert "\n" not in line
    # One more is room enough.
    make_schedule(config, Canaries(count=500, max_per_round=room + 1), 4, 300, INCLUDED)


def test_only_included_canaries_need_room():
    few = np.arange(500) < 20
    schedule = make_schedule(SHUFFLE, Canaries(count=500, max_per_round=2), 4, 300, few)
    assert schedule.expected_canaries == 2.0


@pytest.mark.parametrize("config", [SHUFFLE, BERNOULLI])
def test_population_too_small(config):
    with pytest.raises(
        InputError, match=r"participation\.clients_per_round: 20 of 19 real clients"
    ):
        make_schedule(config, Canaries(count=500), 4, 19, INCLUDED)
