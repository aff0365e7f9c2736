"""Clients that draw their own rounds: what they draw, and what run.json says of it."""

import numpy as np
import pytest
from attendance import POOL, attendance, chi_square, schedule_of
from scipy import stats

from fl_audit.accounting import (
    BallsInBinsSampling,
    MinSeparationSampling,
    TruncatedPoissonSampling,
    account,
)
from fl_audit.accounting.release import Release
from fl_audit.accounting.samplings.min_separation import numbers_of_rounds
from fl_audit.accounting.samplings.truncated_poisson import chance_of_a_cut
from fl_audit.config import (
    BallsInBins,
    Bernoulli,
    BMinSep,
    CyclicPoisson,
    GaussianFixed,
    MatrixFactorisation,
    MinSeparation,
    RandomAllocation,
    TreeAggregation,
)
from fl_audit.errors import InputError
from fl_audit.json_records import from_json, to_json
from fl_audit.mechanisms import describe, round_noise

CLIENTS, ROUNDS = 4_000, 23
SIZES = {"rounds": ROUNDS, "clients_per_round": 800}


def test_balls_in_bins_draw_one_group_each():
    schedule = schedule_of(BallsInBins(**SIZES), CLIENTS)
    assert schedule.client_attendance.sampling == BallsInBinsSampling(5, ROUNDS)
    table = attendance(schedule, CLIENTS).clients
    for index in range(ROUNDS - 5):
        np.testing.assert_array_equal(table[index], table[index + 5])
    np.testing.assert_array_equal(table[:5].sum(axis=0), 1)
    sizes = table[:5].sum(axis=1)
    # 4 degrees of freedom: above 35 with probability 5e-7.
    assert chi_square(sizes, CLIENTS / 5) < 35


def test_clients_rest_after_each_round():
    config = BMinSep(**SIZES, separation=4)
    schedule = schedule_of(config, CLIENTS)
    sampling = schedule.client_attendance.sampling
    assert sampling == MinSeparationSampling(0.5, 4, ROUNDS)  # 0.2 = p / (1 + 3 p)
    table = attendance(schedule, CLIENTS).clients
    windows = np.lib.stride_tricks.sliding_window_view(table, 4, axis=0)
    assert windows.sum(axis=-1).max() == 1
    # Each round has 800 on average, the first as well; a binomial's 6 deviations are 152.
    assert np.abs(table.sum(axis=1) - 800).max() < 152
    numbers = numbers_of_rounds(sampling)
    assert numbers.sum() == pytest.approx(1, abs=1e-12)
    assert numbers @ np.arange(len(numbers)) == pytest.approx(0.2 * ROUNDS, rel=1e-12)
    found = np.bincount(table.sum(axis=0), minlength=len(numbers))
    is_seen = numbers * CLIENTS > 5
    # At most 5 degrees of freedom: above 38 with probability 4e-7.
    assert is_seen.sum() <= 6
    assert chi_square(found[is_seen], numbers[is_seen] * CLIENTS) < 38


def test_the_law_of_the_number_of_rounds_by_all_paths():
    sampling = MinSeparationSampling(0.3, 3, 6)
    found = np.zeros(sampling.most_drawn + 1)

    def walk(index, rests, number, chance):
        if index == 6:
            found[number] += chance
        elif rests:
            walk(index + 1, rests - 1, number, chance)
        else:
            walk(index + 1, 2, number + 1, chance * 0.3)
            walk(index + 1, 0, number, chance * 0.7)

    for rests in range(3):
        walk(0, rests, 0, (0.3 if rests else 1.0) / 1.6)
    np.testing.assert_allclose(numbers_of_rounds(sampling), found, atol=1e-15)


def test_too_large_samples_are_cut():
    config = Bernoulli(**SIZES, largest_round=830)
    schedule = schedule_of(config, CLIENTS)
    sampling = schedule.client_attendance.sampling
    assert sampling == TruncatedPoissonSampling(0.2, CLIENTS + POOL, 830)
    assert schedule.canary_attendance.sampling == sampling
    assert chance_of_a_cut(sampling) == pytest.approx(stats.binom.sf(830, CLIENTS + POOL, 0.2))
    sizes = np.array(
        [len(schedule.clients(i)) + len(schedule.sampled_canaries(i)) for i in range(ROUNDS)]
    )
    # Of 4,101 coins 820 say yes on average, with a standard deviation of 26: half reach the limit.
    assert sizes.max() == 830
    assert (sizes == 830).sum() > 1
    with pytest.raises(InputError, match=r"largest_round: 799 is less than clients_per_round"):
        schedule_of(Bernoulli(**SIZES, largest_round=799), CLIENTS)


def test_rounds_must_suffice_for_one_of_each_client():
    with pytest.raises(InputError, match=r"less than a round for each; must be at least 174"):
        schedule_of(RandomAllocation(rounds=23, clients_per_round=50), CLIENTS)
    for pattern in (BMinSep, CyclicPoisson, MinSeparation):
        with pytest.raises(InputError, match=r"separation: where clients rest for 5 .* at most 5$"):
            schedule_of(pattern(**SIZES, separation=6), CLIENTS)


@pytest.mark.parametrize(
    "pattern",
    [
        BallsInBins(**SIZES),
        RandomAllocation(**SIZES),
        BMinSep(**SIZES, separation=4),
        Bernoulli(**SIZES, largest_round=1_000),
    ],
    ids=repr,
)
def test_run_json_says_how_rounds_are_drawn(pattern):
    for mechanism in (
        GaussianFixed(noise_multiplier=1.0, clip_norm=1.0),
        MatrixFactorisation(noise_multiplier=1.0, clip_norm=1.0, strategy="banded_sqrt", bands=3),
        TreeAggregation(noise_multiplier=1.0, clip_norm=1.0),
    ):
        schedule = schedule_of(pattern, CLIENTS)
        noise = round_noise(mechanism, schedule.expected_cohort)
        release = describe(mechanism, noise, schedule, POOL)
        assert release.client.sampling.most is None
        assert from_json(Release, to_json(release)) == release
        found = account(release, 1e-5).client
        knows_more = isinstance(mechanism, GaussianFixed)
        assert (found.at_least is not None) == knows_more
        if not isinstance(pattern, Bernoulli) and not isinstance(mechanism, TreeAggregation):
            assert found.epsilon is not None
