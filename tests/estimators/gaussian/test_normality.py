import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.gaussian.fit import anderson_darling


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [3, 50, 1000])
def test_matches_scipy(seed, n):
    rng = np.random.default_rng(seed)
    sample = rng.normal(3, 0.1, n) + 0.05 * rng.exponential(size=n)
    ours, theirs = anderson_darling(sample), stats.anderson(sample)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-9)
    # scipy rounds its critical values to three digits.
    assert list(ours.critical_values.values()) == pytest.approx(theirs.critical_values, abs=6e-4)


def test_critical_values_of_paper_table_4():
    critical = anderson_darling(np.arange(1000.0)).critical_values
    assert critical[0.15] == pytest.approx(0.574, abs=5e-4)
    assert critical[0.01] == pytest.approx(1.088, abs=5e-4)


def test_invariant_under_affine_maps():
    sample = np.random.default_rng(1).normal(size=200)
    moved = anderson_darling(3 * sample + 7)
    assert moved.statistic == pytest.approx(anderson_darling(sample).statistic)


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [1.0, 1.0, 1.0]])
def test_refuses_too_few_values(values):
    with pytest.raises(ValueError, match="at least 3"):
        anderson_darling(values)
