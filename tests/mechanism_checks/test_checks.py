"""Correct runs pass, each broken one fails the check that is made for it."""

import dataclasses
import math

import numpy as np
import pytest

from fl_audit.mechanism_checks import check_aggregates, check_rounds
from tests.mechanism_checks.conftest import (
    ROUNDS,
    SIZES,
    STDDEV,
    aggregates_of,
    signal,
)

NAMES = ("enough_noise", "fresh_noise", "bounded_length", "no_echo")


def failed(run):
    return {check.name for check in check_aggregates(run) if not check.passed}


def one(run, name):
    return next(check for check in check_aggregates(run) if check.name == name)


@pytest.mark.parametrize("seed", range(20))
def test_a_correct_run_passes(make_run, seed):
    """80 checks, each of which fails by chance in one run of a million: 8e-5, seeds fixed."""
    checks = check_aggregates(make_run(seed=seed))
    assert tuple(check.name for check in checks) == NAMES
    assert all(check.passed for check in checks)
    assert all(check.p_value > 1e-3 for check in checks)


def test_a_signal_as_long_as_it_may_be_and_longer_than_the_noise(make_run):
    """The data decides nothing: all clients send the same, in every round, with little noise."""
    random = np.random.default_rng(2)
    stddev = 1e-4
    noise = random.normal(0, stddev, (ROUNDS, sum(SIZES)))
    assert failed(aggregates_of(signal(random) + noise, stddev=stddev)) == set()


def test_noise_that_float32_cannot_hold_beside_the_signal():
    """Rounds are equal but for noise of a 1e10th: nothing can be said of how fresh it is."""
    random = np.random.default_rng(2)
    stddev = 1e-13
    noise = random.normal(0, stddev, (ROUNDS, sum(SIZES)))
    run = aggregates_of(signal(random) + noise, stddev=stddev)
    assert failed(run) == set()
    assert one(run, "fresh_noise").num_tests < 5 * ROUNDS


def test_half_the_noise(make_run):
    assert "enough_noise" in failed(make_run(lambda noise, _: noise / 2))


def test_a_tenth_less_noise(make_run):
    """The largest variable has 3,000 numbers: a standard deviation of its length is 1.3 %."""
    check = one(make_run(lambda noise, _: 0.9 * noise), "enough_noise")
    assert not check.passed
    assert check.variable in (None, 1)
    assert check.ratio == pytest.approx(0.9, abs=0.03)


def test_a_variable_without_noise(make_run):
    def silenced(noise, _):
        noise[7, 3040 + 900 : 3040 + 960] = 0
        return noise

    check = one(make_run(silenced), "enough_noise")
    assert (check.passed, check.round, check.variable) == (False, 8, 4)


@pytest.mark.parametrize("scale", [1.0, 1.7])
def test_noise_of_the_round_before(make_run, scale):
    """The same numbers again, and the same at another clip norm."""

    def reused(noise, _):
        noise[5] = scale * noise[4]
        return noise

    run = make_run(reused)
    check = one(run, "fresh_noise")
    assert (check.passed, check.round) == (False, 6)
    assert "enough_noise" not in failed(run)


def test_noise_reused_in_one_variable(make_run):
    def reused(noise, _):
        noise[3, 3040:3940] = noise[2, 3040:3940]
        return noise

    check = one(make_run(reused), "fresh_noise")
    assert (check.passed, check.round, check.variable) == (False, 4, 3)


def test_a_variable_that_is_not_clipped(make_run):
    def unclipped(noise, _):
        noise[9, 3000] += 5.0
        return noise

    run = make_run(unclipped)
    check = one(run, "bounded_length")
    assert (check.passed, check.round, check.variable) == (False, 10, 2)
    assert failed(run) == {"bounded_length"}


def test_twice_the_noise(make_run):
    assert "bounded_length" in failed(make_run(lambda noise, _: 2 * noise))


@pytest.mark.parametrize("pieces", [2, 4])
def test_pieces_with_the_same_noise(make_run, pieces):
    def repeated(noise, _):
        size = noise.shape[1] // pieces
        noise[:, : size * pieces] = np.tile(noise[:, :size], pieces)
        return noise

    run = make_run(repeated)
    assert "no_echo" in failed(run)
    assert not failed(run) & {"enough_noise", "fresh_noise"}
    assert run.autocorrelation.lag == 4001 // pieces
    # The signal takes something away from 1, and so do the pairs without a partner.
    assert one(run, "no_echo").ratio == pytest.approx(1, abs=0.1)


def test_variables_with_the_same_seed(make_run):
    """The third variable's noise begins as the first one's does."""

    def seeded(noise, _):
        noise[:, 3040:3940] = noise[:, :900]
        return noise

    run = make_run(seeded)
    assert "no_echo" in failed(run)
    assert run.autocorrelation.lag == 3040


def test_no_noise_is_checked_for_length_alone():
    random = np.random.default_rng(4)
    checks = check_aggregates(aggregates_of(signal(random), stddev=0.0))
    assert [(check.name, check.passed) for check in checks] == [("bounded_length", True)]
    assert checks[0].ratio == pytest.approx(1, abs=1e-5)
    too_long = check_aggregates(aggregates_of(1.001 * signal(random), stddev=0.0))
    assert [check.p_value for check in too_long] == [0.0]


def test_a_round_that_is_not_compared_with_the_one_before(make_run):
    """After an interruption: one test less for each variable of two numbers or more, and whole."""
    whole = make_run()
    measured = whole.measured.copy()
    measured[4, :, 1] = np.nan
    run = dataclasses.replace(whole, measured=measured)
    assert failed(run) == set()
    tests = len(SIZES) - 1 + 1
    assert one(whole, "fresh_noise").num_tests == tests * (ROUNDS - 1 + 1)  # and all together
    assert one(run, "fresh_noise").num_tests == tests * (ROUNDS - 2 + 1)


def test_lengths_beyond_every_float(make_run):
    whole = make_run()
    measured = whole.measured.copy()
    measured[2, 0, 0] = np.inf
    checks = check_aggregates(dataclasses.replace(whole, measured=measured))
    check = next(check for check in checks if check.name == "bounded_length")
    assert (check.passed, check.p_value, check.round) == (False, 0.0, 3)


def test_a_run_of_one_round_has_nothing_to_compare(make_run):
    whole = make_run()
    run = dataclasses.replace(
        whole, stddev=whole.stddev[:1], norm_bound=whole.norm_bound[:1], measured=whole.measured[:1]
    )
    check = one(run, "fresh_noise")
    assert (check.passed, check.num_tests, check.round) == (True, 0, None)


def test_p_values_of_a_correct_mechanism_are_large_enough():
    """Of 400 runs, half with a signal: the shares of p-values up to 0.1 and to 0.5.

    A share that is p at most exceeds p by five standard deviations with a probability below 1e-6.
    """
    random = np.random.default_rng(5)
    found = {name: [] for name in ("enough_noise", "fresh_noise", "bounded_length")}
    for _ in range(400):
        noise = random.normal(0, STDDEV, (2, sum(SIZES)))
        push = signal(random)[:2] * random.choice([0, 1])
        for check in check_aggregates(aggregates_of(push + noise)):
            if check.name in found:
                found[check.name].append(check.p_value)
    for values in found.values():
        for p in (0.1, 0.5):
            most = 400 * p + 5 * math.sqrt(400 * p * (1 - p))
            assert np.sum(np.array(values) <= p) <= most


def test_a_canary_twice_in_a_round():
    rounds = [np.array([0, 3]), np.array([6, 1, 6]), np.array([], np.int64)]  # from 0
    check = check_rounds(rounds)
    assert (check.passed, check.round, check.ratio) == (False, 7, 1.0)
    assert check_rounds([np.array([0, 3]), np.array([3, 0])]).passed
    assert check_rounds([]).passed
