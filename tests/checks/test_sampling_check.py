"""Samplers that are not Poisson, and the bound on binomial dispersion against brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.checks.sampling_check import check_poisson, log_p_dispersion
from fl_audit.errors import InputError

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


def failed(cohorts):
    found = check_poisson(cohorts, CLIENTS, COHORT / CLIENTS)
    return {finding.name for finding in found if not finding.passed}


def test_poisson_cohorts_pass():
    """300 runs; each fails with a probability below 4e-6."""
    for seed in range(300):
        assert failed(poisson(np.random.default_rng(seed))) == set()


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (shuffled, {"rounds_vary", "clients_vary"}),
        (fixed_size, {"rounds_vary"}),
        (with_replacement, {"once_a_round", "rounds_vary", "clients_vary", "mean_cohort"}),
        (some_more_often, {"clients_vary"}),
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
