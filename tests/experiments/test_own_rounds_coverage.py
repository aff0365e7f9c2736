"""The simulations of own rounds: one run of each kind of cell, and one seed of the quickstart."""

import numpy as np
import pytest

from experiments.coverage import own_rounds, quickstart_seeds
from fl_audit.canaries.families import WITH_KNOWN_NULL


@pytest.mark.parametrize("family", WITH_KNOWN_NULL)
@pytest.mark.parametrize("world", own_rounds.WORLDS)
def test_scores_of_a_simulated_run_are_cosines_with_what_it_releases(family, world):
    cell = own_rounds.Cell(2.0, 60, 8, 2, 64, family, world)
    run = own_rounds.simulated(cell, seed=1)
    np.testing.assert_allclose(np.linalg.norm(run.directions, axis=1), 1)
    canary = 5
    expected = [run.vectors[canary] @ run.directions[index] for index in run.own.of_canary[canary]]
    np.testing.assert_allclose(run.cosines()[canary], expected)
    assert set(own_rounds.bounds(cell, seed=1)) == set(own_rounds.BOUNDS)


@pytest.mark.slow
def test_the_quickstart_proves_what_it_should():
    found = quickstart_seeds.estimates(quickstart_seeds.designed(1), common=20.0)
    assert found["threshold_valid"] > 10
    assert found["threshold_gdp"] > 13
