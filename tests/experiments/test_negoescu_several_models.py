"""bar_epsilon of a mechanism (equations 18 and 19), against closed forms and Theorem 2."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.negoescu2024_appendix_b.several_models import (
    log_mean_exp_epsilon,
    mechanism_epsilon,
)
from fl_audit.estimators.epsilon_star import empirical_epsilon_star

RATES = np.linspace(0.05, 0.95, 19)


def epsilon_of(fpr, fnr, delta):
    """Equation 19, as printed."""
    pairs = ((1 - fnr, fpr), (1 - fpr, fnr), (fnr, 1 - fpr), (fpr, 1 - fnr))
    return math.log(max(1.0, *(np.max((p - delta) / q) for p, q in pairs)))


def test_two_kinds_of_models_have_the_average_of_their_rates():
    """Losses at exact quantiles: members of half of the models are N(-1, 1), of others N(-2, 1)."""
    at = (np.arange(400_000) + 0.5) / 400_000
    others = stats.norm.ppf(at)
    members = [others - 1, others - 2] * 3
    fnr = np.mean([stats.norm.sf(stats.norm.ppf(RATES) + shift) for shift in (1, 2)], axis=0)
    found = mechanism_epsilon(members, [others] * 6, RATES, 1e-3)
    assert found.epsilon == pytest.approx(epsilon_of(RATES, fnr, 1e-3), abs=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_theorem_2_holds_exactly_of_samples(seed):
    """log mean exp of the models' own values at the same rates is no smaller, by Jensen."""
    rng = np.random.default_rng(seed)
    others = [rng.normal(size=200) for _ in range(8)]
    members = [rng.normal(rng.normal(), 1, size=300) for _ in range(8)]
    bar = mechanism_epsilon(members, others, RATES, 1e-5).epsilon
    own = [
        mechanism_epsilon([m], [o], RATES, 1e-5).epsilon
        for m, o in zip(members, others, strict=True)
    ]
    assert bar <= log_mean_exp_epsilon(own).epsilon + 1e-12


# Theorem 2's mean over models: the number, the theorem, and what it does not say.


def test_the_mean_by_hand():
    made = log_mean_exp_epsilon([0.0, 1.0, 2.0])
    values = np.exp([0.0, 1.0, 2.0])
    assert made.epsilon == pytest.approx(math.log(values.mean()))
    # d log(x) = dx / x.
    assert made.standard_error == pytest.approx(values.std(ddof=1) / 3**0.5 / values.mean())
    assert made.largest_share == pytest.approx(values[2] / values.sum())
    assert made.num_models == 3


def test_it_is_no_lower_bound_on_the_mechanisms_epsilon():
    # One model whatever the data: epsilon is 0. Its losses on a training set of 200 points and on
    # the population have one law, yet the mean over 20 models, each with its own training set, is
    # positive, as Theorem 2 allows: it bounds bar_epsilon = 0 from above only.
    rng = np.random.default_rng(2)
    population = rng.exponential(size=20_000)
    found = [
        empirical_epsilon_star(rng.exponential(size=200), population, 1e-5).epsilon
        for _ in range(20)
    ]
    made = log_mean_exp_epsilon(found)
    assert made.epsilon > 1
    assert made.epsilon > 5 * made.standard_error
