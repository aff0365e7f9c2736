"""Skellam numbers against their distribution; keys are fixed: what passes once passes always.

Probabilities are exp(-x) I_k(x) by SciPy's Bessel functions, in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fl_audit.engines.jax.integer_sums import log_probability, skellam, tail_probabilities
from tests.engines.jax.test_aggregation import key

DRAWS = 1 << 19

draw, tails_of, logarithms = (
    jax.jit(skellam, static_argnums=2),
    jax.jit(tail_probabilities),
    jax.jit(log_probability),
)


def drawn(variance):
    return np.asarray(draw(key(1), jnp.float32(variance), (DRAWS,)), np.int64)


def probabilities(variance, most):
    """Of -most to most."""
    return special.ive(np.abs(np.arange(-most, most + 1)), float(np.float32(variance)))


def chi_square(numbers, expected, most):
    """The p-value of numbers by Pearson's test, of bins with at least ten expected."""
    found = np.bincount(np.clip(numbers, -most, most) + most, minlength=2 * most + 1)
    expected = len(numbers) * expected
    last = np.flatnonzero(expected >= 10)[-1]
    first = 2 * most - last
    inner = slice(first, last + 1)
    found = [found[:first].sum(), *found[inner], found[last + 1 :].sum()]
    outside = (len(numbers) - expected[inner].sum()) / 2
    return stats.chisquare(found, [outside, *expected[inner], outside]).pvalue


@pytest.mark.parametrize("variance", [0.01, 0.7, 20.0, 63.9, 64.1, 150.0, 2000.0])
def test_numbers_have_the_distribution(variance):
    most = int(6.5 * variance**0.5) + 10
    assert chi_square(drawn(variance), probabilities(variance, most), most) > 1e-3


def test_the_test_sees_a_variance_three_hundredths_too_large():
    assert chi_square(drawn(20.6), probabilities(20.0, 50), 50) < 1e-6


@pytest.mark.parametrize("variance", [2e5, 9e8, 1.4e11])
def test_moments_of_fine_grids(variance):
    """Up to the fourth, within five standard errors, which are a normal variable's here."""
    numbers = drawn(variance) / variance**0.5
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(numbers**power) - moment) < 5 * (spread / DRAWS) ** 0.5
    assert stats.kstest(numbers, "norm").pvalue > 1e-3


def test_tails_and_logarithms_are_exact():
    for variance in (1e-3, 0.1, 1.0, 20.0, 63.9):
        of_both = 2 * special.ive(np.arange(1, 400), float(np.float32(variance)))
        exact = np.cumsum(of_both[::-1])[::-1][:128]
        tails = np.asarray(tails_of(jnp.float32(variance)), np.float64)
        seen = exact > 1e-30
        np.testing.assert_allclose(tails[seen], exact[seen], rtol=2e-6)
    for variance in (64.0, 1000.0, 1e6):
        numbers = np.unique(np.round(np.linspace(-7, 7, 999) * variance**0.5))
        found = logarithms(jnp.asarray(numbers, jnp.float32), jnp.float32(variance))
        exact = np.log(special.ive(np.abs(numbers), variance))
        np.testing.assert_allclose(found, exact, atol=1.5e-5)


@pytest.mark.parametrize("variance", [64.0, 300.0, 1e4, 1e9])
def test_no_number_is_taken_with_odds_above_one(variance):
    """What the bound of the rejection promises, at every normal number that there is."""
    normal = np.linspace(-6.77, 6.77, 200_001)
    share = 4.2 / variance
    scale = (variance / (1 - share)) ** 0.5
    number = np.floor(scale * normal + 0.5)
    found = np.asarray(logarithms(jnp.asarray(number, jnp.float32), jnp.float32(variance)))
    density = -0.5 * np.log(2 * np.pi) - np.log(scale) - normal**2 / 2
    most = (6.77 * scale + 0.5) / (2 * variance) + 0.25 / variance - 0.5 * np.log1p(-share)
    assert (found - density).max() < most + 2e-5
