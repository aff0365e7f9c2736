"""RMIA against the definition, pair by pair."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.membership.rmia import offline_log_mean, online_log_mean, rmia
from fl_audit.membership.shadow_outputs import ShadowOutputs


def test_scores_are_shares_of_pairs():
    rng = np.random.default_rng(0)
    reference = ShadowOutputs(-rng.exponential(size=(9, 6)), rng.random((9, 6)) < 0.5)
    population = ShadowOutputs(-rng.exponential(size=(9, 50)), np.zeros((9, 50), np.bool_))
    targets, at_population = -rng.exponential(size=(3, 6)), -rng.exponential(size=(3, 50))
    scores = rmia(
        targets - online_log_mean(reference),
        at_population - offline_log_mean(population, slope=1.0),
        gamma=1.5,
    )
    p = np.exp(reference.values)
    for point in range(6):
        inside = reference.member[:, point]
        p_x = (p[inside, point].mean() + p[~inside, point].mean()) / 2
        for model in range(3):
            ratio_x = np.exp(targets[model, point]) / p_x
            ratio_z = np.exp(at_population[model]) / np.exp(population.values).mean(axis=0)
            assert scores[model, point] == np.mean(ratio_x / ratio_z >= 1.5)


def test_offline_mean_is_the_papers_line():
    values = np.log([[0.2, 0.9], [0.4, 0.9]])
    reference = ShadowOutputs(values, np.zeros((2, 2), np.bool_))
    expected = 0.5 * ((1 + 0.3) * np.array([0.3, 0.9]) + 1 - 0.3)
    np.testing.assert_allclose(np.exp(offline_log_mean(reference, 0.3)), expected)


def test_bad_arguments_are_refused():
    reference = ShadowOutputs(np.zeros((2, 1)), np.ones((2, 1), np.bool_))
    with pytest.raises(InputError, match="point 0: needs reference models"):
        online_log_mean(reference)
    with pytest.raises(InputError, match="slope"):
        offline_log_mean(reference, 1.5)
    with pytest.raises(InputError, match="gamma must be at least 1"):
        rmia(np.zeros((1, 1)), np.zeros((1, 1)), 0.5)
    with pytest.raises(InputError, match="same models"):
        rmia(np.zeros((1, 1)), np.zeros((2, 1)))
    with pytest.raises(InputError, match="at least one point"):
        rmia(np.zeros((1, 1)), np.zeros((1, 0)))
