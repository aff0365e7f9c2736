"""Areas and masses of the regions, against closed forms and brute force."""

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts
from fl_audit.estimators.challenge_bases.region_mass import (
    RegionMass,
    below_diagonal,
    boundary_density,
    log_forbidden,
    log_growth,
    log_reach,
    log_reach_slope,
)


def mass_inside(one, epsilon, delta):
    """P((alpha, beta) in R(epsilon, delta)): the Beta cdf at alphas that crowd at both ends."""
    fp, n0, fn, n1 = one
    alpha = stats.beta(fp + 1, n0 - fp + 1)
    beta = stats.beta(fn + 1, n1 - fn + 1)
    angle = np.pi * (np.arange(40_000) + 0.5) / 40_000
    x, weight = np.sin(angle / 2) ** 2, np.sin(angle) / 2 * np.pi / 40_000
    e = np.exp(epsilon)
    low = np.maximum((1 - delta - x) / e, 1 - delta - e * x)
    high = np.minimum((e + delta - x) / e, e + delta - e * x)
    low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    with np.errstate(divide="ignore"):
        density = alpha.pdf(x)
    return np.sum(weight * density * np.maximum(beta.cdf(high) - beta.cdf(low), 0))


def test_inside_is_the_definition_of_theorem_1():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 10_000))
    for epsilon, delta in [(0.0, 0.0), (0.0, 0.2), (1.0, 0.0), (2.5, 0.1), (0.3, 0.9)]:
        e = np.exp(epsilon)
        printed = (
            (a + e * b >= 1 - delta)
            & (b + e * a >= 1 - delta)
            & (b + e * a <= e + delta)
            & (a + e * b <= e + delta)
        )
        assert np.array_equal(below_diagonal(a, b).inside(epsilon, delta), printed)


@pytest.mark.parametrize("delta", [0.0, 1e-15, 1e-5, 0.1, 0.9])
def test_area_is_the_printed_formula(delta):
    epsilon, s = np.meshgrid([0.1, 1.0, 5.0, 20.0], [0.0, 0.3, 0.9])

    def outside(e, d):
        return 2 * (1 - d) ** 2 * np.exp(-e) / (1 + np.exp(-e))

    printed = outside(s * epsilon, s * delta) - outside(epsilon, delta)
    area = np.exp(log_reach(epsilon, s * epsilon, delta))
    np.testing.assert_allclose(area, printed, rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_forbidden(epsilon, delta)), outside(epsilon, delta))
    np.testing.assert_allclose(
        np.exp(log_growth(epsilon, delta)), outside(0, delta) - outside(epsilon, delta)
    )
    near = log_reach(epsilon, epsilon * (1 - 1e-7), delta)
    scale = 0.0 if delta > 0 else np.log(epsilon)
    slope = np.exp(log_reach_slope(epsilon, delta) + scale)
    np.testing.assert_allclose(np.exp(near) / 1e-7, slope, rtol=1e-5)


CASES = [
    (40, 1000, 250, 1000, 0.01),
    (0, 100, 0, 100, 0.0),
    (2, 10, 7, 12, 0.1),
    (0, 0, 0, 0, 1e-3),
    (9, 10, 8, 12, 1e-5),
    (0, 50, 50, 50, 0.3),
    (50, 50, 0, 30, 0.0),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_masses_agree_with_brute_force(case):
    """To 1e-5, the brute force's own error: with twice the points it halves."""
    *one, delta = case
    mass = RegionMass(ChallengeCounts(*[[value] for value in one]), delta, 12.0)
    epsilon, strength = np.array([0.2, 1.0, 4.0, 9.0]), np.array([0.0, 0.2, 0.7, 0.99])
    shrunk = epsilon[:, None] * strength
    for row, e in enumerate(epsilon):
        area = log_reach(np.array(e), shrunk[row], delta)
        found = np.exp(mass.log_likelihood(np.array([e]), shrunk[row][None])[0] + area)
        expected = [
            mass_inside(one, e, delta) - mass_inside(one, s * e, s * delta) for s in strength
        ]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_boundary_density_is_the_slope_of_the_mass(delta):
    one, epsilon, step = (3, 20, 6, 25), 1.3, 1e-4
    density = boundary_density(
        ChallengeCounts(*[[value] for value in one]), np.array([[epsilon]]), delta
    )
    slope = (mass_inside(one, epsilon + step, delta) - mass_inside(one, epsilon - step, delta)) / (
        2 * step
    )
    assert np.exp(density.by_epsilon[0, 0]) == pytest.approx(slope, rel=1e-4)
    if delta > step:
        slope = (
            mass_inside(one, epsilon, delta + step) - mass_inside(one, epsilon, delta - step)
        ) / (2 * step)
        assert np.exp(density.by_delta[0, 0]) == pytest.approx(slope, rel=1e-4)


def test_tails_keep_their_digits():
    """Where densities are e^-60,000, against the largest density along a fine walk."""
    n, k, epsilon = 100_000, 50_000, 2.0
    density = boundary_density(ChallengeCounts([k], [n], [k], [n]), np.array([[epsilon]]), 0.0)
    x = np.linspace(0, special.expit(-epsilon), 1_000_001)[1:-1]
    y = 1 - np.exp(epsilon) * x
    log_density = sum(
        k * np.log(rate) + (n - k) * np.log1p(-rate) - special.betaln(k + 1, n - k + 1)
        for rate in (x, y)
    )
    assert np.max(log_density) < -60_000
    # Four such pieces.
    walked = special.logsumexp(log_density) + np.log(4 * x[0])
    assert density.by_delta[0, 0] == pytest.approx(walked, abs=1e-3)


def test_full_strength_is_the_limit():
    counts = ChallengeCounts([3, 0], [20, 10], [6, 2], [25, 10])
    epsilon = np.array([0.5, 1.0, 3.0, 8.0])
    for delta in (0.0, 1e-5, 0.1):
        mass = RegionMass(counts, delta, 10.0)
        near = mass.log_likelihood(epsilon, epsilon[:, None] * (1 - 1e-4))[:, 0]
        limit = mass.log_likelihood_at_full_strength(epsilon)
        np.testing.assert_allclose(near, limit, atol=5e-3)
