"""LiRA against SciPy's densities and the ratio of known laws."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.membership.lira import ShadowOutputs, offline_lira, online_lira


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


def test_with_many_shadow_models_it_is_the_true_likelihood_ratio():
    x = np.linspace(-2, 4, 7)[:, None]
    scores = online_lira(x, drawn(2, 400_000, 1, 3.0))
    truth = stats.norm.logpdf(x, 3, 2) - stats.norm.logpdf(x, 0, 1)
    # Means and log deviations of 200,000 draws are off by about 0.0045 and 0.0016.
    np.testing.assert_allclose(scores, truth, atol=0.08)


def test_shared_deviations_pool_the_squares_about_each_mean():
    shadow = drawn(3, 30, 4, 1.0)
    fit = shadow.of_members("all_points")
    parts = [shadow.values[shadow.member[:, p], p] for p in range(4)]
    squares = sum(np.sum((part - part.mean()) ** 2) for part in parts)
    freedom = sum(len(part) - 1 for part in parts)
    np.testing.assert_allclose(fit.deviation, np.sqrt(squares / freedom))
    np.testing.assert_allclose(fit.mean, [part.mean() for part in parts])


def test_offline_scores_use_models_without_the_point_alone_and_never_saturate():
    shadow = drawn(4, 50, 2, 5.0)
    targets = np.array([[0.0, 1.0], [30.0, 200.0], [31.0, 201.0]])
    scores = offline_lira(targets, shadow)
    without = shadow.of_others()
    expected = -stats.norm.logsf(targets, without.mean, without.deviation)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert np.all(np.diff(scores, axis=0) > 0)
    assert np.isfinite(scores).all()
    changed = ShadowOutputs(np.where(shadow.member, 77.0, shadow.values), shadow.member)
    np.testing.assert_array_equal(offline_lira(targets, changed), scores)


def test_too_few_or_equal_models_are_refused():
    member = np.array([[True, True], [True, False], [False, False], [False, False]])
    with pytest.raises(InputError, match="point 1: needs at least 2 models trained on it, got 1"):
        online_lira(np.zeros(2), ShadowOutputs(np.arange(8.0).reshape(4, 2), member))
    with pytest.raises(InputError, match="point 0: all models trained without it"):
        offline_lira(np.zeros(1), ShadowOutputs(np.zeros((4, 1)), member[:, :1]))
    with pytest.raises(InputError, match="targets must have shape"):
        online_lira(np.zeros(3), drawn(0, 9, 2, 1.0))
    with pytest.raises(InputError, match="targets must be finite"):
        online_lira([np.nan, 0.0], drawn(0, 20, 2, 1.0))
    with pytest.raises(InputError, match="nan of model 0 at point 1"):
        ShadowOutputs([[0.0, np.nan]], [[True, False]])
    with pytest.raises(InputError, match="must both have shape"):
        ShadowOutputs(np.zeros((2, 2)), np.zeros((2, 3), np.bool_))
