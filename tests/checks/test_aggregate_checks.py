"""Correct runs pass, each broken one fails the check that is made for it."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from fl_audit.checks import MechanismWatch, check_aggregates, check_rounds, configured
from fl_audit.checks.noise_bounds import (
    log_p_autocorrelation,
    log_p_longer,
    log_p_shorter,
    strongest_autocorrelation,
)
from tests.checks.conftest import ROUNDS, SIZES, STDDEV, aggregates_of, signal
from tests.seeds_tried import some

NAMES = (
    "enough_noise",
    "noise_everywhere",
    "fresh_noise",
    "noise_distribution",
    "bounded_length",
    "no_echo",
)


def failed(run):
    return {check.name for check in check_aggregates(run) if check.failed}


def one(run, name):
    return next(check for check in check_aggregates(run) if check.name == name)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(20))
def test_a_correct_run_passes(make_run, seed):
    """120 checks, each of which fails by chance in one run of a million: 1e-4, seeds fixed."""
    checks = check_aggregates(make_run(seed=seed))
    assert tuple(check.name for check in checks) == NAMES
    assert not any(check.failed for check in checks)
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


def test_a_variable_that_is_not_clipped(make_run):
    def unclipped(noise, _):
        noise[9, 3000] += 5.0
        return noise

    run = make_run(unclipped)
    check = one(run, "bounded_length")
    assert (check.passed, check.round, check.variable) == (False, 10, 2)
    assert failed(run) == {"bounded_length", "no_echo"}  # its square is beyond what updates have


@pytest.mark.parametrize("pieces", [2, 4])
def test_pieces_with_the_same_noise(make_run, pieces):
    def repeated(noise, _):
        size = noise.shape[1] // pieces
        noise[:, : size * pieces] = np.tile(noise[:, :size], pieces)
        return noise

    run = make_run(repeated)
    assert "no_echo" in failed(run)
    assert not failed(run) & {"enough_noise", "fresh_noise"}
    # The largest of 12 rounds, of at least 1,000 squares each: five standard deviations.
    assert one(run, "no_echo").ratio == pytest.approx(1, abs=5 * math.sqrt(2 / 1000))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stddev", [0.0, 1e-300])
def test_nothing_repeats_where_no_noise_is_promised(stddev):
    piece = np.random.default_rng(1).normal(size=(ROUNDS, sum(SIZES) // 2))
    repeated = np.hstack([piece, piece, piece[:, :1]])
    assert "no_echo" in failed(aggregates_of(repeated, stddev=1.0))
    assert "no_echo" not in failed(aggregates_of(repeated, stddev=stddev))


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
    of_sketches = 2 * (ROUNDS - 1) + 1
    together = tests + of_sketches
    assert one(whole, "fresh_noise").num_tests == tests * (ROUNDS - 1) + together
    assert one(run, "fresh_noise").num_tests == tests * (ROUNDS - 2) + together


def test_lengths_beyond_every_float(make_run):
    whole = make_run()
    measured = whole.measured.copy()
    measured[2, 0, 0] = np.inf
    checks = check_aggregates(dataclasses.replace(whole, measured=measured))
    check = next(check for check in checks if check.name == "bounded_length")
    assert (check.passed, check.p_value, check.round) == (False, 0.0, 3)


def test_p_values_of_a_correct_mechanism_are_large_enough():
    """Of 100 runs (400 with slow tests), half with a signal: shares of p-values up to 0.1 and 0.5.

    A share that is p at most exceeds p by five standard deviations with a probability below 1e-6.
    """
    random = np.random.default_rng(5)
    found = {name: [] for name in ("enough_noise", "fresh_noise", "bounded_length")}
    runs = some(range(400), 100)
    for _ in runs:
        noise = random.normal(0, STDDEV, (2, sum(SIZES)))
        push = signal(random)[:2] * random.choice([0, 1])
        for check in check_aggregates(aggregates_of(push + noise)):
            if check.name in found:
                found[check.name].append(check.p_value)
    for values in found.values():
        for p in (0.1, 0.5):
            most = len(runs) * p + 5 * math.sqrt(len(runs) * p * (1 - p))
            assert np.sum(np.array(values) <= p) <= most


def test_a_canary_twice_in_a_round():
    rounds = [np.array([0, 3]), np.array([6, 1, 6]), np.array([], np.int64)]  # from 0
    check = check_rounds(rounds)
    assert (check.passed, check.round, check.ratio) == (False, 7, 1.0)
    assert check_rounds([np.array([0, 3]), np.array([3, 0])]).passed
    assert check_rounds([]).passed is None


# The strongest correlation of a vector with itself.


def test_equals_the_sum_of_products():
    """Of all lags and of all pairs around a middle, the one that is least likely."""
    vector = np.random.default_rng(1).normal(size=101).astype(np.float32)
    for form in (vector, np.append(vector[:50], vector[50::-1]), np.append(vector, -vector)):
        found, size = strongest_autocorrelation(form, 1.0, 0.0), len(form)
        by_lag = [float(form[lag:] @ form[:-lag]) for lag in range(1, size)]
        around = []
        for both in range(1, 2 * size - 2):
            first = range(max(0, both - size + 1), (both + 1) // 2)
            around.append([float(form[i] * form[both - i]) for i in first])
        counts = np.array([*range(size - 1, 0, -1), *map(len, around)], np.float64)
        products = np.array([*by_lag, *map(sum, around)])
        log_p = log_p_autocorrelation(products, counts, 0.0)
        assert found.log_p == pytest.approx(min(0, log_p.min() + np.log(len(counts))), abs=1e-3)
        # The root of 2 r^2 + sqrt(2 n) r = |product|: it orders those with a log p of 0, too.
        half = np.sqrt(2 * counts) / 4
        at = int(np.argmax(np.sqrt(half**2 + np.abs(products) / 2) - half))
        assert found.lag == (at + 1 if at < size - 1 else 0)
        assert found.correlation == pytest.approx(products[at] / counts[at], abs=1e-4)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e10])
def test_finds_the_lag_at_any_scale(scale):
    piece = np.random.default_rng(2).normal(size=1000)
    vector = (scale * np.concatenate([piece, np.zeros(77), piece])).astype(np.float32)
    found = strongest_autocorrelation(vector, scale, 0.0)
    assert found.lag == 1077
    assert found.correlation == pytest.approx(piece @ piece / 1000, rel=1e-4)


# The closed forms against the laws that they bound.


DOFS = np.array([1.0, 2, 10, 1000, 4_050_748])


@pytest.mark.parametrize("dof", DOFS)
def test_shorter_bounds_chi_square(dof):
    """Tightly enough: not more than 3 + log(dof) / 2 above the logarithm."""
    lengths = dof * (1 - np.linspace(0.02, 5, 40) * np.sqrt(2 / dof))
    lengths = lengths[lengths > 0]
    exact = scipy.stats.chi2.logcdf(lengths, dof)
    bound = log_p_shorter(lengths, np.full_like(lengths, dof))
    assert (bound >= exact).all()
    assert (bound <= exact + 3 + np.log(dof) / 2).all()


def test_shorter_where_the_probability_is_no_float():
    """Half the length of 4 million numbers: d / 2 (1 - 1/4 + log 1/4), in exact arithmetic."""
    found = log_p_shorter(np.array([1e6]), np.array([4e6]))
    assert found[0] == pytest.approx(2e6 * (0.75 - np.log(4)), rel=1e-12)


@pytest.mark.parametrize("dof", DOFS[:4])
@pytest.mark.parametrize("norm_bound", [0.0, 1.0, 30.0])
def test_longer_bounds_noncentral_chi_square(dof, norm_bound):
    mean, spread = dof + norm_bound**2, np.sqrt(2 * (dof + 2 * norm_bound**2))
    lengths = mean + np.linspace(-2, 6, 33) * spread
    exact = (
        scipy.stats.ncx2.logsf(lengths, dof, norm_bound**2)
        if norm_bound
        else scipy.stats.chi2.logsf(lengths, dof)
    )
    bound = log_p_longer(lengths, np.full_like(lengths, dof), np.full_like(lengths, norm_bound))
    assert (bound >= exact - 1e-9).all()
    assert bound[0] == 0
    # y standard deviations up the bound is between e^(-y^2 / 2) and what a chi-square of 1 has.
    assert bound[-1] <= -2.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm_bound", [1e155, 1e200, np.inf])
def test_nothing_is_too_long_for_an_infinite_bound(norm_bound):
    one, lengths = np.ones(3), np.array([0.0, 1e10, np.inf])
    assert log_p_longer(lengths, one, norm_bound * one).tolist() == [0, 0, 0]
    assert log_p_autocorrelation(lengths, one, norm_bound).tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stddev", [0.0, 1e-300, 1e-160, 1e-100, 1e-30])
def test_noise_of_next_to_nothing_is_no_excuse_for_length(stddev):
    """Its ratio to the clip norm has no square in floats, and without noise it has no ratio."""
    random = np.random.default_rng(2)
    assert failed(aggregates_of(signal(random), stddev=stddev)) <= {"fresh_noise"}
    longer = aggregates_of(1.01 * signal(random), stddev=stddev)
    assert one(longer, "bounded_length").p_value == 0
    assert "bounded_length" in failed(longer)


@pytest.mark.parametrize("lag", [1, 7])
@pytest.mark.parametrize("norm_bound", [0.0, 5.0])
def test_autocorrelation_bounds_simulated_correlations(lag, norm_bound):
    """Share of 20,000 vectors above thresholds that the bound gives 1 % to 50 %.

    The signal has the largest correlation with itself that its length allows. If the bound did not
    hold with the share p, the count would exceed 20,000 p + 6 standard deviations with a
    probability below 1e-6 at most if the true share were p: far below where it does hold.
    """
    dim, trials = 40, 20_000
    random = np.random.default_rng(3)
    shape = np.cos(np.pi * np.arange(dim) / lag) if lag == 1 else np.ones(dim)
    signal = norm_bound * shape / np.linalg.norm(shape)
    x = signal + random.normal(size=(trials, dim))
    products = np.abs((x[:, lag:] * x[:, :-lag]).sum(axis=1))
    log_p = log_p_autocorrelation(products, np.full(trials, float(dim - lag)), norm_bound)
    for p in (0.01, 0.1, 0.5):
        most = trials * p + 6 * np.sqrt(trials * p * (1 - p))
        assert (log_p <= np.log(p)).sum() <= most


# What the config says of an aggregate.


def test_of_one_round_and_of_several():
    """Noise 0.5 x 2 on a sum of 20 updates of length 2, a tenth of it."""
    one = configured(2.0, 20.0, sum_noise_multiplier=0.5, denominator=10.0)
    assert (one.stddev, one.norm_bound) == (0.1, 4.0)
    rounds = configured(
        np.array([2.0, 4.0]), np.array([20.0, 5.0]), sum_noise_multiplier=0.5, denominator=10.0
    )
    np.testing.assert_allclose(rounds.stddev, [0.1, 0.2])
    np.testing.assert_allclose(rounds.norm_bound, [4.0, 2.0])


def test_a_variable_without_noise_in_a_round_too_long_for_its_noise_to_be_seen():
    watch, random = MechanismWatch([1000, 1]), np.random.default_rng(1)
    rounds = random.normal(size=(3, 1001)).astype(np.float32)
    rounds[2] = [0.0] * 1000 + [1e9]
    for aggregate in rounds:
        watch.see_round(aggregate, noise_stddev=1.0)
    fresh = one(watch.aggregates(), "fresh_noise")
    assert (fresh.failed, fresh.round, fresh.earlier_round) == (True, 3, None)
