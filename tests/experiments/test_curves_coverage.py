"""The simulations of claimed curves: some runs of each kind of cell."""

import pytest

from experiments.coverage import curves, own_rounds, quickstart_seeds


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
