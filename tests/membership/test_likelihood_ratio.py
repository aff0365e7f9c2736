"""Algorithm 3's decision, against the likelihood ratio itself."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.membership.lira import NormalFit, decide_member

LAWS = [(0, 2, 3, 1), (0, 1, 3, 2), (1, 1, -1, 1), (1, 1, 3, 1), (5, 3, 5, 1), (0, 1, 1, 1 + 1e-7)]


def fits(m0, s0, m1, s1):
    return NormalFit(np.array([m0]), np.array([s0])), NormalFit(np.array([m1]), np.array([s1]))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("aim", [0.01, 0.1, 0.5])
def test_rejects_where_the_likelihood_ratio_is_largest(law, aim):
    """The rejected losses have a larger ratio than any other, and mass alpha* under H0."""
    m0, s0, m1, s1 = law
    loss = m0 + s0 * np.linspace(-9, 9, 400_001)
    rejected = decide_member(loss, *fits(*law), aim)
    ratio = stats.norm.logpdf(loss, m1, s1) - stats.norm.logpdf(loss, m0, s0)
    assert np.min(ratio[rejected]) >= np.max(ratio[~rejected]) - 1e-3
    mass = np.sum(stats.norm.pdf(loss, m0, s0)[rejected]) * (loss[1] - loss[0])
    assert mass == pytest.approx(aim, abs=1e-4)


def test_is_the_noncentral_chi_square_test_of_algorithm_3():
    """With the sign of R that makes it a likelihood ratio."""
    rng = np.random.default_rng(0)
    loss = rng.normal(0, 4, 2000)
    for m0, s0, m1, s1 in [(0, 2, 3, 1), (0, 1, 3, 2)]:
        r = (m0 / s0**2 - m1 / s1**2) / (1 / s1**2 - 1 / s0**2)
        law = stats.ncx2(1, ((m0 + r) / s0) ** 2)
        statistic = (loss + r) ** 2 / s0**2
        expected = statistic <= law.ppf(0.1) if s0 > s1 else statistic >= law.ppf(0.9)
        assert np.array_equal(decide_member(loss, *fits(m0, s0, m1, s1), 0.1), expected)


def test_the_printed_sign_is_no_likelihood_ratio_test():
    """Algorithm 3 as printed: R with the terms of its denominator exchanged."""
    m0, s0, m1, s1, aim = 0, 2, 3, 1, 0.1
    r = (m0 / s0**2 - m1 / s1**2) / (1 / s0**2 - 1 / s1**2)
    reject = stats.ncx2(1, ((m0 + r) / s0) ** 2).ppf(aim)
    power = np.mean((np.random.default_rng(0).normal(m1, s1, 100_000) + r) ** 2 / s0**2 <= reject)
    right = stats.norm(m1, s1)
    loss = np.linspace(-20, 20, 100_001)
    chosen = decide_member(loss, *fits(m0, s0, m1, s1), aim)
    assert np.sum(right.pdf(loss[chosen])) * (loss[1] - loss[0]) > 0.4
    assert power < 1e-3


def test_equal_laws_are_never_told_apart():
    assert not np.any(decide_member(np.linspace(-5, 5, 11), *fits(1, 2, 1, 2), 0.1))
