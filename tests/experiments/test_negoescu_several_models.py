"""bar_epsilon of a mechanism (equations 18 and 19), against closed forms and Theorem 2."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.negoescu2024_appendix_b.several_models import (
    log_mean_exp_epsilon,
    mechanism_epsilon,
)

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
