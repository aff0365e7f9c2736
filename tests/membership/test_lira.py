"""LiRA: the decision of Algorithm 3, scores against SciPy's densities, and SelectWorst."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.membership.games import (
    balanced_coins,
    indistinguishability_game,
)
from fl_audit.membership.lira import (
    NormalFit,
    ShadowOutputs,
    decide_member,
    offline_lira,
    online_lira,
    select_worst,
)

LAWS = [(0, 2, 3, 1), (0, 1, 3, 2), (1, 1, -1, 1), (1, 1, 3, 1), (5, 3, 5, 1), (0, 1, 1, 1 + 1e-7)]


def fits(m0, s0, m1, s1):
    return NormalFit(np.array([m0]), np.array([s0])), NormalFit(np.array([m1]), np.array([s1]))


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("aim", [0.01, 0.5])
def test_rejects_where_the_likelihood_ratio_is_largest(distribution, aim):
    """The rejected losses have a larger ratio than any other, and mass alpha* under H0."""
    m0, s0, m1, s1 = distribution
    loss = m0 + s0 * np.linspace(-9, 9, 100_001)
    rejected = decide_member(loss, *fits(*distribution), aim)
    ratio = stats.norm.logpdf(loss, m1, s1) - stats.norm.logpdf(loss, m0, s0)
    assert np.min(ratio[rejected]) >= np.max(ratio[~rejected]) - 1e-3
    mass = np.sum(stats.norm.pdf(loss, m0, s0)[rejected]) * (loss[1] - loss[0])
    assert mass == pytest.approx(aim, abs=1e-4)


# LiRA against SciPy's densities and the ratio of known laws.


def drawn(seed, models, points, shift):
    """Margins N(shift, 2^2) of members and N(0, 1) of others."""
    rng = np.random.default_rng(seed)
    member = rng.random((models, points)) < 0.5
    values = np.where(member, rng.normal(shift, 2, member.shape), rng.normal(0, 1, member.shape))
    return ShadowOutputs(values, member)


def test_online_scores_are_the_log_ratio_of_fitted_densities():
    shadow, targets = drawn(0, 40, 3, 2.0), drawn(1, 5, 3, 2.0).values
    scores = online_lira(targets, shadow)
    for point in range(3):
        of_member = shadow.values[shadow.member[:, point], point]
        of_other = shadow.values[~shadow.member[:, point], point]
        expected = stats.norm.logpdf(
            targets[:, point], of_member.mean(), of_member.std(ddof=1)
        ) - stats.norm.logpdf(targets[:, point], of_other.mean(), of_other.std(ddof=1))
        np.testing.assert_allclose(scores[:, point], expected, rtol=1e-12)


def test_shared_deviations_pool_the_squares_about_each_mean():
    shadow = drawn(3, 30, 4, 1.0)
    fit = shadow.member_fits("all_points")
    parts = [shadow.values[shadow.member[:, p], p] for p in range(4)]
    squares = sum(np.sum((part - part.mean()) ** 2) for part in parts)
    freedom = sum(len(part) - 1 for part in parts)
    np.testing.assert_allclose(fit.stddev, np.sqrt(squares / freedom))
    np.testing.assert_allclose(fit.mean, [part.mean() for part in parts])


def test_offline_scores_use_models_without_the_point_alone_and_never_saturate():
    shadow = drawn(4, 50, 2, 5.0)
    targets = np.array([[0.0, 1.0], [30.0, 200.0], [31.0, 201.0]])
    scores = offline_lira(targets, shadow)
    without = shadow.non_member_fits()
    expected = -stats.norm.logsf(targets, without.mean, without.stddev)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert np.all(np.diff(scores, axis=0) > 0)
    assert np.isfinite(scores).all()
    changed = ShadowOutputs(np.where(shadow.member, 77.0, shadow.values), shadow.member)
    np.testing.assert_array_equal(offline_lira(targets, changed), scores)


MEMBER = np.array([[True, True], [True, False], [False, False], [False, False]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: online_lira(np.zeros(2), ShadowOutputs(np.arange(8.0).reshape(4, 2), MEMBER)),
            "point 1: needs at least 2 models trained on it, got 1",
        ),
        (
            lambda: ShadowOutputs(np.zeros((4, 1)), MEMBER[:, :1]).non_member_fits(),
            "point 0: all models trained without it",
        ),
        (lambda: online_lira(np.zeros(3), drawn(0, 9, 2, 1.0)), "targets must have shape"),
        (lambda: online_lira([np.nan, 0.0], drawn(0, 20, 2, 1.0)), "targets must be finite"),
        (lambda: ShadowOutputs([[0.0, np.nan]], [[True, False]]), "nan of model 0 at point 1"),
        (
            lambda: ShadowOutputs(np.zeros((2, 2)), np.zeros((2, 3), np.bool_)),
            "must both have shape",
        ),
        (lambda: select_worst(outputs(np.zeros(5)), 6), "k must be from 1 to 5"),
        (lambda: select_worst(outputs(np.zeros(5)), 1, 1.0), "fitted_share"),
        (lambda: select_worst(outputs(np.zeros(5)), 1, 0.999), "leave none"),
        (
            lambda: indistinguishability_game([True, False], 0, [True]),
            "point 0 must not be in the base",
        ),
        (lambda: indistinguishability_game([True, False], 2, [True]), "from 0 to 1, got 2"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# SelectWorst finds points that were made easy, and the games have the laws they should.


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


def test_experiment_2_adds_the_point_to_a_fixed_base():
    base = np.array([True, False, True, False])
    training = indistinguishability_game(base, 1, [True, False])
    assert training.tolist() == [[True, True, True, False], [True, False, True, False]]


def test_balanced_coins_are_half_and_half_in_random_order():
    rng = np.random.default_rng(2)
    drawn = np.stack([balanced_coins(6, rng) for _ in range(6000)])
    assert np.all(drawn.sum(axis=1) == 3)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=5.5 * 0.5 / np.sqrt(6000))
