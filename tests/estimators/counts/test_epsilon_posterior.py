"""The posterior distribution of epsilon against a quadrature, and its own quantiles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from fl_audit.errors import InputError
from fl_audit.estimators.counts import ConfusionCounts, EpsilonPosterior
from tests.seeds_tried import examples

steady = examples(40)
numbers = st.sampled_from([0, 1, 2, 10, 333, 20_000, 10**6])
tables = (
    st.tuples(numbers, numbers, numbers, numbers)
    .filter(lambda t: t[0] + t[1] > 0 and t[2] + t[3] > 0)
    .map(lambda t: ConfusionCounts(*t))
)
deltas = st.sampled_from([0.0, 1e-300, 1e-15, 1e-5, 0.05, 0.6, 1 - 1e-9])

WORKED = ConfusionCounts(35, 65, 25, 75)
TABLES = [
    WORKED,
    ConfusionCounts(0, 100, 0, 100),
    ConfusionCounts(10, 90, 0, 100),
    ConfusionCounts(0, 100, 100, 0),
    ConfusionCounts(0, 3, 0, 5),
    ConfusionCounts(1, 0, 0, 1),
    ConfusionCounts(70, 30, 80, 20),
    ConfusionCounts(50, 50, 50, 50),
    ConfusionCounts(1, 999, 400, 3),
]


def region(x, epsilon, delta):
    """The false positive rates of R(epsilon, delta), from its four conditions, at FNR = x."""
    growth = np.exp(epsilon)
    low = np.maximum((1 - delta - x) / growth, 1 - delta - growth * x)
    high = np.minimum(growth + delta - growth * x, 1 + (delta - x) / growth)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def one_dimensional(counts, delta, epsilon):
    """P(in R) as an integral over FNR, on 50,000 points: another formula and another Beta cdf."""
    fine = np.exp(-np.arange(0, 60, 0.06))
    edges = np.concatenate([fine, np.pi / 2 - fine, np.linspace(0, np.pi / 2, 2001)])
    c = (1 - delta) / (1 + np.exp(epsilon))
    kinks = np.arcsin(np.sqrt(np.clip([c, 1 - c, delta, 1 - delta], 0, 1)))
    around = np.add.outer(kinks, np.outer([-1, 1], np.exp(-np.arange(0, 35, 0.25)))).ravel()
    edges = np.unique(np.clip(np.concatenate([edges, kinks, around]), 0, np.pi / 2))
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, None] / 2
    theta = (edges[:-1, None] + half + half * nodes).ravel()
    a, b = counts.false_negatives + 0.5, counts.true_positives + 0.5
    log_density = (2 * a - 1) * np.log(np.sin(theta)) + (2 * b - 1) * np.log(np.cos(theta))
    density = 2 * np.exp(log_density - special.betaln(a, b))
    distribution = stats.beta(counts.false_positives + 0.5, counts.true_negatives + 0.5)
    low, high = region(np.sin(theta) ** 2, epsilon, delta)
    with np.errstate(all="ignore"):  # inside Boost
        inside = distribution.cdf(high) - distribution.cdf(low)
    return float(np.sum((half * weights).ravel() * density * inside))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("counts", TABLES, ids=str)
def test_cdf_against_another_quadrature(counts):
    for delta in (0, 1e-15, 1e-5, 0.7, 1 - 1e-6):
        for epsilon in (0, 0.5, 5, 20):
            expected = one_dimensional(counts, delta, epsilon)
            posterior = EpsilonPosterior(counts, delta)
            assert float(posterior.cdf(epsilon)) == pytest.approx(expected, abs=1e-8)
            assert float(posterior.sf(epsilon)) == pytest.approx(1 - expected, abs=1e-8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "counts",
    [
        ConfusionCounts(10**6, 10**6, 10**6 + 2000, 10**6),
        ConfusionCounts(3, 10**6, 500, 500),
        ConfusionCounts(0, 10**6, 0, 1),
        ConfusionCounts(5, 10**6, 10**6, 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("delta", [0, 1e-5, 0.01])
def test_cdf_of_a_million_counts(counts, delta):
    posterior = EpsilonPosterior(counts, delta)
    for probability in (0.01, 0.5, 0.99):
        epsilon = posterior.quantile(probability)
        expected = one_dimensional(counts, delta, epsilon)
        assert float(posterior.cdf(epsilon)) == pytest.approx(expected, abs=1e-8)


def edgeworth(counts, delta, epsilon):
    """P(FNR + e^epsilon FPR < 1 - delta), the larger corner, by the cumulants of both rates."""
    cumulants = np.zeros(4)
    for wrong, right, scale in (
        (counts.false_negatives, counts.true_positives, 1.0),
        (counts.false_positives, counts.true_negatives, math.exp(epsilon)),
    ):
        mean, variance, skew, excess = map(
            float, stats.beta.stats(wrong + 0.5, right + 0.5, moments="mvsk")
        )
        own = [mean, variance, skew * variance**1.5, excess * variance**2]
        cumulants += np.array(own) * scale ** np.arange(1, 5)
    std = math.sqrt(cumulants[1])
    z, third, fourth = (1 - delta - cumulants[0]) / std, *(cumulants[2:] / std ** np.array([3, 4]))
    terms = third / 6 * (z**2 - 1) + fourth / 24 * (z**3 - 3 * z)
    terms += third**2 / 72 * (z**5 - 10 * z**3 + 15 * z)
    return stats.norm.cdf(z) - stats.norm.pdf(z) * terms


@pytest.mark.parametrize(("size", "error"), [(10**9, 1e-8), (10**12, 2e-5)])
@pytest.mark.parametrize("rates", [(0.3, 0.2), (0.5, 0.1), (0.9, 0.05)])
def test_large_counts_have_the_stated_precision(size, error, rates):
    fn, fp = (int(rate * size) for rate in rates)
    counts = ConfusionCounts(fn, size - fn, fp, size - fp)
    for delta in (0.0, 1e-5):
        posterior = EpsilonPosterior(counts, delta)
        likely = math.log((1 - delta - rates[0]) / rates[1])
        for z in (-2, -0.5, 0, 1):
            epsilon = likely + z * math.sqrt(1 / fp + 1 / fn)
            expected = edgeworth(counts, delta, epsilon)
            assert float(posterior.sf(epsilon)) == pytest.approx(expected, abs=error)
    assert EpsilonPosterior(counts, 0.0).atom <= error


@pytest.mark.sampled(3)
@pytest.mark.parametrize("counts", TABLES, ids=str)
@pytest.mark.parametrize("delta", [0, 1e-5, 0.2])
def test_atom_and_density_integrate_to_one(counts, delta):
    posterior = EpsilonPosterior(counts, delta)
    top = max(posterior.quantile(1 - 1e-13), 1.0)
    edges = np.concatenate([[0], np.geomspace(1e-8, top, 400)])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    mass = np.sum(half * weights * posterior.pdf(edges[:-1, None] + half + half * nodes))
    assert posterior.atom + mass == pytest.approx(1, abs=1e-8)


@steady
@given(counts=tables, delta=deltas, confidence=st.sampled_from([1e-3, 0.5, 0.95, 1 - 1e-9]))
def test_quantiles_invert_the_cdf(counts, delta, confidence):
    posterior = EpsilonPosterior(counts, delta)
    found = posterior.interval(confidence)
    tail = (1 - confidence) / 2
    assert 0 <= found.lower <= found.upper < math.inf
    assert float(posterior.sf(found.upper)) == pytest.approx(tail, abs=1e-8) or found.upper == 0
    assert float(posterior.cdf(found.lower)) == pytest.approx(tail, abs=1e-8) or found.lower == 0
    if found.lower == 0:
        assert posterior.atom >= tail - 1e-12


def test_arguments_out_of_range_are_refused():
    with pytest.raises(InputError, match="delta must be in"):
        EpsilonPosterior(WORKED, 1.0)
    posterior = EpsilonPosterior(WORKED, 0.05)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="epsilon must be finite and at least 0"):
            posterior.cdf(bad)
    with pytest.raises(InputError, match="probability must be in"):
        posterior.quantile(1.0)
    with pytest.raises(InputError, match="confidence must be in"):
        posterior.interval(95)
