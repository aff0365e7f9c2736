"""SelectWorst finds points that were made easy, and the games have the laws they should."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.membership.games import (
    balanced_coins,
    fair_coins,
    indistinguishability_game,
    membership_game,
)
from fl_audit.membership.lira import ShadowOutputs, select_worst


def outputs(shifts, models=100):
    rng = np.random.default_rng(0)
    member = rng.random((models, len(shifts))) < 0.5
    return ShadowOutputs(rng.normal(size=member.shape) + member * shifts, member)


def test_the_most_shifted_points_come_first():
    # At 8 and 20 standard deviations LiRA is right on all 20 held-back models; separation decides.
    shifts = np.zeros(50)
    shifts[[7, 31, 44]] = [8.0, 20.0, 4.0]
    found = select_worst(outputs(shifts), 3)
    assert found.points.tolist() == [31, 7, 44]
    assert found.accuracy[:2].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(found.separation[:2], [20, 8], rtol=0.25)


def test_accuracy_is_measured_on_models_that_laws_were_not_fitted_to():
    shadow = outputs(np.zeros(400))
    accuracy = select_worst(shadow, 400).accuracy
    # Of 20 held-back models each is told by chance: mean 1/2, 400 x 20 coins, 5 deviations.
    assert np.mean(accuracy) == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(8000))


def test_bad_arguments_are_refused():
    shadow = outputs(np.zeros(5))
    with pytest.raises(InputError, match="k must be from 1 to 5"):
        select_worst(shadow, 6)
    with pytest.raises(InputError, match="fitted_share"):
        select_worst(shadow, 1, 1.0)
    with pytest.raises(InputError, match="leave none"):
        select_worst(shadow, 1, 0.999)


def test_experiment_1_trains_on_one_of_two_points_and_shows_the_first():
    rng = np.random.default_rng(1)
    bits = fair_coins(4000, rng)
    game = membership_game(10, 4, bits, rng)
    assert np.all(game.training.sum(axis=1) == 4)
    at_point = game.training[np.arange(4000), game.point]
    np.testing.assert_array_equal(at_point, game.member)
    np.testing.assert_array_equal(game.member, ~bits)
    # Points are uniform: chi-square with 9 degrees of freedom, failing with probability 1e-7.
    statistic = stats.chisquare(np.bincount(game.point, minlength=10)).statistic
    assert statistic < stats.chi2.isf(1e-7, 9)


def test_experiment_2_adds_the_point_to_a_fixed_base():
    base = np.array([True, False, True, False])
    game = indistinguishability_game(base, 1, [True, False])
    assert game.training.tolist() == [[True, True, True, False], [True, False, True, False]]
    assert game.point.tolist() == [1, 1]
    assert game.member.tolist() == [True, False]


def test_balanced_coins_are_half_and_half_in_random_order():
    rng = np.random.default_rng(2)
    drawn = np.stack([balanced_coins(6, rng) for _ in range(6000)])
    assert np.all(drawn.sum(axis=1) == 3)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=5.5 * 0.5 / np.sqrt(6000))


def test_games_refuse_what_cannot_be_played():
    with pytest.raises(InputError, match="n must be from 1 to 9"):
        membership_game(10, 10, [True], np.random.default_rng(0))
    with pytest.raises(InputError, match="point 0 lies in the base"):
        indistinguishability_game([True, False], 0, [True])
    with pytest.raises(InputError, match="from 0 to 1, got 2"):
        indistinguishability_game([True, False], 2, [True])
