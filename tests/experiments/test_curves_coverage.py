"""The simulations of claimed curves: some runs of each kind of cell."""

import numpy as np
import pytest

from experiments.coverage import curves, own_rounds, quickstart_seeds
from fl_audit.estimators.curve_tests import claimed_tail


@pytest.mark.parametrize("name", curves.CURVES)
def test_scores_are_as_large_as_a_claim_allows(name):
    curve = curves.CURVES[name]
    z = curves.as_claimed(curve, (20_000,), np.random.default_rng(1))
    for threshold in (0.0, 1.5):
        allowed = float(np.exp(claimed_tail(curve, np.array([threshold])))[0])
        # 5 standard errors of 20,000 draws.
        assert np.mean(z >= threshold) == pytest.approx(allowed, abs=0.018)


def test_real_vectors_contradict_half_of_what_is_true_and_not_all_of_it():
    cell = own_rounds.Cell(20.0, 200, 10, 1, 500, "rademacher", "noise alone")
    mu = 1 / cell.noise_multiplier
    assert curves.of_vectors(cell, mu, seed=1) == [False, False]
    assert curves.of_vectors(cell, mu / 2, seed=1) == [True, True]


@pytest.mark.slow
def test_seven_percent_less_noise_than_configured_contradicts_a_quickstart():
    run = quickstart_seeds.designed(1)
    found = [quickstart_seeds.verdict_of(run, 20.0, factor).outcome for factor in (1.0, 0.93)]
    assert found == ["consistent", "contradicted"]
