"""Samplers that are not Poisson, and the bound on binomial dispersion against brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.checks.sampling_check import check_poisson, clients_return, log_p_dispersion
from fl_audit.errors import InputError
from tests.seeds_tried import some

CLIENTS, ROUNDS, COHORT = 300, 60, 10


def poisson(random):
    return [np.flatnonzero(random.random(CLIENTS) < COHORT / CLIENTS) for _ in range(ROUNDS)]


def shuffled(random):
    epochs = [random.permutation(CLIENTS) for _ in range(ROUNDS * COHORT // CLIENTS)]
    return list(np.concatenate(epochs).reshape(ROUNDS, COHORT))


def fixed_size(random):
    return [random.choice(CLIENTS, COHORT, replace=False) for _ in range(ROUNDS)]


def with_replacement(random):
    return [random.choice(CLIENTS, 40) for _ in range(ROUNDS)]


def some_more_often(random):
    share = np.where(np.arange(CLIENTS) < 50, 4, 0.4) * COHORT / CLIENTS
    return [np.flatnonzero(random.random(CLIENTS) < share) for _ in range(ROUNDS)]


def in_pairs(random):
    """Who is drawn comes in the next round, too; numbers vary as they should, nearly."""
    starts = random.random((ROUNDS, CLIENTS)) < COHORT / CLIENTS / 2
    starts[1:] |= np.array(starts[:-1])
    return [np.flatnonzero(row) for row in starts]


def every_twentieth(random):
    offsets, often = random.integers(20, size=CLIENTS), random.random(CLIENTS) < 2 / 3
    rounds = np.arange(ROUNDS)[:, None]
    return [np.flatnonzero(row) for row in (rounds % 20 == offsets) & often]


def failed(cohorts):
    found = check_poisson(cohorts, CLIENTS, COHORT / CLIENTS)
    return {finding.name for finding in found if finding.failed}


def test_poisson_cohorts_pass():
    """300 runs; each fails with a probability below 5e-6."""
    for seed in some(range(300), 60):
        assert failed(poisson(np.random.default_rng(seed))) == set()


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (shuffled, {"rounds_vary", "clients_vary"}),
        (fixed_size, {"rounds_vary"}),
        (with_replacement, {"once_a_round", "rounds_vary", "clients_vary", "mean_cohort"}),
        (some_more_often, {"clients_vary"}),
        (in_pairs, {"clients_return"}),
        (every_twentieth, {"clients_return"}),
    ],
)
def test_other_samplers_are_found(sampler, expected):
    assert expected <= failed(sampler(np.random.default_rng(1)))


@pytest.mark.parametrize(("count", "trials", "probability"), [(3, 4, 0.3), (2, 7, 0.5)])
def test_the_bound_holds_and_is_not_far_off(count, trials, probability):
    masses = stats.binom.pmf(np.arange(trials + 1), trials, probability)
    outcomes = np.array(list(itertools.product(range(trials + 1), repeat=count)))
    chances = masses[outcomes].prod(axis=1)
    squares = ((outcomes - trials * probability) ** 2).sum(axis=1)
    for value in np.unique(squares.round(9)):
        tails = chances[squares <= value + 1e-9].sum(), chances[squares >= value - 1e-9].sum()
        bound = math.exp(log_p_dispersion(float(value), count, trials, probability))
        assert min(tails) <= bound * (1 + 1e-9)
    assert bound < 1


@pytest.mark.parametrize(
    ("cohorts", "clients", "probability"),
    [([], 3, 0.5), ([np.array([3])], 3, 0.5), ([np.array([0])], 3, 1.5)],
)
def test_numbers_are_checked(cohorts, clients, probability):
    with pytest.raises(InputError, match="cohorts"):
        check_poisson(cohorts, clients, probability)


def test_returns_are_counted_at_every_distance():
    random = np.random.default_rng(3)
    drawn = random.random((7, 20)) < 0.3
    drawn[:, 3] = drawn[:, 16] = True
    cohorts = [np.flatnonzero(column) for column in drawn.T]
    found = clients_return(cohorts, 7, 0.3)
    worst = []
    for distance in range(1, 20):
        before, after = drawn[:, :-distance], drawn[:, distance:]
        m, n = int(before.sum()), int((before & after).sum())
        tails = stats.binom.logsf(n - 1, m, 0.3), stats.binom.logcdf(n, m, 0.3)
        worst.append((min(tails), n / m / 0.3))
    log_p, ratio = min(worst)
    assert found.ratio == pytest.approx(ratio)
    assert found.log_p >= log_p
