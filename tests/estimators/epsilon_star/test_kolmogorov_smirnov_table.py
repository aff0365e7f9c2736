"""The table of goodness of fit: it rejects what does not fit and holds its level where it does."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.papers.negoescu2023.goodness_of_fit import kolmogorov_smirnov_table


def two_clusters(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-3, 0.3, n // 2), rng.normal(3, 0.3, n // 2)])


def test_one_gaussian_does_not_fit_two_clusters_but_two_do():
    table = kolmogorov_smirnov_table(
        two_clusters(4000), num_components=(1, 2), num_samples=(300, 1000), seed=1
    )
    assert table.num_components == (1, 2)
    assert table.num_samples == (300, 1000)
    assert np.all(table.p_values[0] < 1e-6)
    # A p-value below 1e-6 has that probability where the fit is right.
    assert np.all(table.p_values[1] > 1e-6)
    assert table.not_rejected(1e-6).tolist() == [0.0, 1.0]


def test_p_values_are_uniform_where_the_law_is_right():
    # 100 cells with splits, fits and draws of their own, of 5,000 values of one Gaussian:
    # uniform p-values fail with probability 1e-6.
    values = np.random.default_rng(5).normal(size=5000)
    sizes = range(100, 200)
    table = kolmogorov_smirnov_table(values, num_components=(1,), num_samples=sizes, seed=2)
    assert stats.kstest(table.p_values[0], "uniform").pvalue > 1e-6


def test_a_hundred_values_miss_that_gamma_losses_are_no_gaussian():
    # Why a p-value above 0.05 is a weak sign: the misfit is there, and 5,000 values see it.
    losses = np.random.default_rng(6).gamma(2, 5, 20_000)
    table = kolmogorov_smirnov_table(losses, num_components=(1,), num_samples=(100, 5000), seed=3)
    assert table.p_values[0, 0] > 0.05
    assert table.p_values[0, 1] < 1e-6


def test_the_papers_rows_and_columns_by_default():
    table = kolmogorov_smirnov_table(two_clusters(300), num_samples=(100,), seed=0)
    assert table.num_components == tuple(range(1, 21))
    assert table.p_values.shape == (20, 1)
    assert np.all((table.p_values >= 0) & (table.p_values <= 1))
    assert not table.p_values.flags.writeable


def test_a_cell_depends_on_its_own_numbers_only():
    values = two_clusters(600)
    wide = kolmogorov_smirnov_table(values, num_components=(1, 3), num_samples=(100, 200), seed=7)
    narrow = kolmogorov_smirnov_table(values, num_components=(3,), num_samples=(200,), seed=7)
    other = kolmogorov_smirnov_table(values, num_components=(3,), num_samples=(200,), seed=8)
    assert wide.p_values[1, 1] == narrow.p_values[0, 0] != other.p_values[0, 0]


@pytest.mark.parametrize(
    ("components", "sizes"), [((2,), (99,)), ((1,), (0,)), ((), (10,)), ((1,), ()), ((0,), (10,))]
)
def test_refuses_what_cannot_be_split(components, sizes):
    with pytest.raises(InputError, match="num_"):
        kolmogorov_smirnov_table(
            np.arange(100.0), num_components=components, num_samples=sizes, seed=0
        )
