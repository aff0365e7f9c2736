"""RMIA and calibrated margins, beside their definitions written out with loops."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.membership.lira import ShadowOutputs
from fl_audit.membership.population import calibrated_margins, rmia


def margins(seed, *shape):
    return 2 * np.random.default_rng(seed).normal(size=shape)


def probability(margin):
    return 1 / (1 + np.exp(-margin))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_rmia_is_the_share_of_points_with_a_likelihood_ratio(gamma):
    targets, population = margins(0, 7), margins(1, 7, 30)
    values, member = margins(2, 6, 1), np.array([[1], [0], [1], [1], [0], [1]], bool)
    known = margins(3, 6, 30)
    expected = []
    for model in range(7):
        p = probability(values[:, 0])
        of_x = (p[member[:, 0]].mean() + p[~member[:, 0]].mean()) / 2
        beaten = 0
        for z in range(30):
            of_z = probability(known[:, z]).mean()
            ratio_x = probability(targets[model]) / of_x
            ratio_z = probability(population[model, z]) / of_z
            beaten += ratio_x / ratio_z >= gamma
        expected.append(beaten / 30)
    found = rmia(targets, ShadowOutputs(values, member), population, known, gamma)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert 0 < np.mean(found) < 1


def test_calibrated_margins_are_residuals_of_a_ridge_regression():
    rng = np.random.default_rng(4)
    features, own = rng.normal(3, 2, (40, 5)), rng.normal(3, 2, 5)
    targets, population = margins(5, 3), margins(6, 3, 40) + features @ np.arange(5)
    found = calibrated_margins(targets, own, population, features)
    scaled = (features - features.mean(0)) / features.std(0)
    at = (own - features.mean(0)) / features.std(0)
    for model in range(3):
        # Rows of the identity with targets of 0 are the penalty.
        rows = np.concatenate([scaled, np.eye(5)])
        wanted = np.concatenate([population[model] - population[model].mean(), np.zeros(5)])
        weights = np.linalg.lstsq(rows, wanted, rcond=None)[0]
        left = population[model] - population[model].mean() - scaled @ weights
        expected = targets[model] - population[model].mean() - at @ weights
        assert found[model] == pytest.approx(expected / np.sqrt(np.mean(left**2)))


ONE = ShadowOutputs([[0.0], [1.0]], [[False], [True]])
TWO = ShadowOutputs([[0.0, 1.0], [1.0, 0.0]], [[False, True], [True, False]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1], ONE, [[0.0]], [[0.0], [0]]), "targets and population must have shape"),
        (([0.0], ONE, [[]], [[], []]), "targets and population must have shape"),
        (([np.nan], ONE, [[0.0]], [[0.0], [0]]), "margins must be finite"),
        (([0.0], ONE, [[0.0]], [[0.0]]), r"population_reference must be finite, of shape \(2, 1\)"),
        (([0.0], ONE, [[0.0]], [[0.0], [0]], 0.0), "gamma must be above 0, got 0"),
        (([0.0], TWO, [[0.0]], [[0.0], [0]]), r"reference must have shape \(models, 1\)"),
        (([0.0], ONE.take(slice(1)), [[0.0]], [[0.0]]), "some with the point and some without"),
    ],
)
def test_what_rmia_cannot_use_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        rmia(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [1.0], [[0.0, 1]], [[1.0]]), r"features must have shape \(f,\) and \(2, f\)"),
        (([0.0], [np.inf], [[0.0, 1]], [[1.0], [2]]), "features must be finite"),
        (([0.0], [1.0], [[2.0, 2]], [[1.0], [1]]), "all alike under a model"),
    ],
)
def test_what_calibration_cannot_use_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        calibrated_margins(*arguments)
