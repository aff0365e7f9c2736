"""Algorithm 3's decision and Algorithm 5's counts, against the likelihood ratio itself."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.papers.yildirim2024.likelihood_ratio_attack import (
    NormalFit,
    cross_fed_counts,
    decide_member,
)

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


def test_cross_feeding_leaves_each_model_out_of_its_own_fit():
    rng = np.random.default_rng(1)
    h0, h1 = rng.normal(0, 1, (3, 12)), rng.normal(1, 2, (3, 15))
    counts = cross_fed_counts(h0, h1, 0.2)

    def fit(losses):
        return NormalFit(np.array([np.mean(losses)]), np.array([np.std(losses, ddof=1)]))

    for base in range(3):
        fp = sum(
            decide_member(h0[base, [j]], fit(np.delete(h0[base], j)), fit(h1[base]), 0.2)[0]
            for j in range(12)
        )
        tp = sum(
            decide_member(h1[base, [j]], fit(h0[base]), fit(np.delete(h1[base], j)), 0.2)[0]
            for j in range(15)
        )
        assert (counts.fp[base], counts.fn[base]) == (fp, 15 - tp)
    assert counts.n0.tolist() == [12] * 3
    assert counts.n1.tolist() == [15] * 3


@pytest.mark.parametrize(
    ("without", "having", "aim", "message"),
    [
        (np.zeros(3), np.zeros((1, 3)), 0.1, "arrays of challenge bases by models"),
        (np.eye(3), np.eye(4), 0.1, "same challenge bases, got 3 and 4"),
        (np.eye(2), np.eye(2), 0.1, "at least 3 models, got 2"),
        (np.full((3, 3), np.inf), np.eye(3), 0.1, "losses must be finite"),
        (np.ones((1, 4)), np.array([[1, 2, 3, 4.0]]), 0.1, "must not be all equal"),
        (np.array([[1, 2, 4.0]]), np.array([[1, 2, 3, 4.0]]), 1.0, "must be in (0, 1), got 1.0"),
    ],
)
def test_bad_losses_are_refused(without, having, aim, message):
    with pytest.raises(InputError) as caught:
        cross_fed_counts(without, having, aim)
    assert message in str(caught.value)
