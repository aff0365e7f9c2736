"""Initial weights: the laws that they say they have."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.tasks.dense import check_model_size, glorot_uniform, he_normal, orthogonal
from fl_audit.tasks.images import cnn_classifier


def test_he_normal_has_variance_two_over_rows():
    weights = he_normal(np.random.default_rng(1), 400, 300)
    assert (weights.dtype, weights.shape) == (np.float32, (400, 300))
    scaled = weights.astype(np.float64) * (400 / 2) ** 0.5
    # 120,000 draws: standard errors of mean and variance 1/sqrt(n), sqrt(2/n); 6 of them, 4e-9.
    assert abs(scaled.mean()) < 6 / 120_000**0.5
    assert abs(scaled.var() - 1) < 6 * (2 / 120_000) ** 0.5


def test_glorot_uniform_fills_its_interval():
    weights = glorot_uniform(np.random.default_rng(1), (3, 3, 10, 200), 90, 1800)
    assert (weights.dtype, weights.shape) == (np.float32, (3, 3, 10, 200))
    limit = (6 / 1890) ** 0.5
    # The largest of 18,000 is below 0.998 of the limit with probability 0.998^18000 = 2e-16.
    assert 0.998 * limit < np.abs(weights).max() <= limit * (1 + 1e-6)
    # Variance limit^2 / 3, of the square (4/45) limit^4: 6 standard errors, 2e-9.
    error = (4 / 45 / weights.size) ** 0.5 * limit**2
    assert abs(np.mean(weights.astype(np.float64) ** 2) - limit**2 / 3) < 6 * error


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (7, 28), (30, 30)])
def test_orthogonal_rows_are_orthonormal(rows, columns):
    weights = orthogonal(np.random.default_rng(1), rows, columns)
    assert (weights.dtype, weights.shape) == (np.float32, (rows, columns))
    assert weights.flags.c_contiguous
    np.testing.assert_allclose(weights @ weights.T, np.eye(rows), atol=1e-5)


def test_a_model_beyond_the_memory_is_refused_with_its_size():
    check_model_size([(64, 512), (512,)])
    with pytest.raises(InputError, match=r"has 1,000,000,000,000 parameters; .* 16,000,000,"):
        check_model_size([(10**6, 10**6)])
    with pytest.raises(InputError, match=r"parameters; .* smaller layers"):
        cnn_classifier((10**6, 10**6, 1), 10, 0, "")
