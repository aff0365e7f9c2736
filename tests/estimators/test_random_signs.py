"""Tail bounds for random signs, against all signs of adversarial vectors and exact arithmetic."""

import math

import mpmath
import numpy as np
import pytest

from fl_audit.estimators.random_signs import (
    Concentration,
    concentration_of,
    rademacher_log_tail_bound,
    rademacher_sum_log_tail,
)


def test_is_attained():
    """By one weight just above 0, and by two equal ones at sqrt(2) deviations."""
    assert np.exp(rademacher_log_tail_bound(1.0, 1)) == pytest.approx(0.5)
    assert np.exp(rademacher_log_tail_bound(1.0, 2)) == pytest.approx(0.25)


# The concentration of a vector: by hand, at any scale, and what is refused.


@pytest.mark.parametrize(("size", "scale"), [(1, 1e30), (64, 1e-40), (300_000, 1.0)])
def test_of_equal_coordinates(size, scale):
    vector = np.zeros(size + 7, np.float32)
    vector[:size] = scale
    found = concentration_of(vector)
    assert found.cubes == pytest.approx(size**-0.5, rel=1e-12)
    assert found.fourth_powers == pytest.approx(1 / size, rel=1e-12)


def test_of_any_vector_over_several_pieces():
    vector = np.random.default_rng(0).standard_t(3, 700_001).astype(np.float32)
    unit = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    found = concentration_of(vector)
    assert found.cubes == pytest.approx(np.sum(np.abs(unit) ** 3), rel=1e-10)
    assert found.fourth_powers == pytest.approx(np.sum(unit**4), rel=1e-10)


def test_ignores_scale_where_powers_would_overflow():
    vector = np.array([3e200, -1e200, 2e200])
    assert concentration_of(vector) == concentration_of(vector / 1e200)


@pytest.mark.parametrize("vector", [np.zeros(5, np.float32), []])
def test_of_no_direction(vector):
    assert concentration_of(vector) is None


@pytest.mark.parametrize(
    ("cubes", "fourth_powers", "message"),
    [
        (0.5, 0.0, r"must be in \(0, 1\]"),
        (0.5, 1.5, r"must be in \(0, 1\]"),
        (np.nan, 0.2, r"must be in \(0, 1\]"),
        (0.6, 0.25, r"cubes must be in \[0.25, 0.5\]"),
        (0.2, 0.25, r"cubes must be in \[0.25, 0.5\]"),
    ],
)
def test_refuses_what_no_vector_has(cubes, fourth_powers, message):
    with pytest.raises(ValueError, match=message):
        Concentration(cubes, fourth_powers)


# The tail bound for spread-out weights, against exact tails of many shapes.


N = 18
RNG = np.random.default_rng(14)

FEW = {
    **{f"{m} equal": np.ones(m) for m in (1, 2, 3, 4, 5, 8, 13, N)},
    **{f"power {p}": np.arange(1, N + 1.0) ** -p for p in (0.25, 0.5, 1.0, 2.0)},
    **{f"geometric {r}": r ** np.arange(N) for r in (0.5, 0.7, 0.9)},
    **{f"spike {s}": np.array([s] + [1.0] * (N - 1)) for s in (0.5, 2.0, 4.0, 20.0)},
    **{f"two spikes {s}": np.array([s] * 2 + [1.0] * (N - 2)) for s in (2.0, 4.0)},
    **{f"exponential {i}": RNG.exponential(size=N) for i in range(5)},
    **{f"normal {i}": RNG.normal(size=N) for i in range(5)},
}
"""Weights with few enough coordinates for all signs to be tried."""


def all_sums(weights):
    """Every sum of signed weights, ascending, each with its exact tail P(S >= s)."""
    weights = weights / np.linalg.norm(weights)
    sums = np.zeros(1)
    for weight in weights:
        sums = np.concatenate([sums - weight, sums + weight])
    sums = np.sort(sums)
    # What exact arithmetic makes equal counts as equal, which can only raise the exact tail.
    reached = len(sums) - np.searchsorted(sums, sums - 1e-12)
    return sums, np.log(reached / len(sums))


@pytest.mark.parametrize("z", [0.1, 5.5, 60.0])
@pytest.mark.parametrize("cubes", [1e-6, 0.03])
def test_tilted_bound_in_exact_arithmetic(z, cubes):
    fourth_powers = 1.5 * cubes**2
    with mpmath.workdps(60):
        x, a4 = mpmath.mpf(z), mpmath.mpf(fourth_powers)
        root = mpmath.sech(x * mpmath.sqrt(a4))
        mills = mpmath.exp((x * root) ** 2 / 2) * mpmath.ncdf(-x * root)
        error = mpmath.mpf(0.56) * mpmath.mpf(cubes) / root**3
        tilted = mpmath.log(mills + 2 * error) - x * x / 2
        plain = mpmath.log(mpmath.ncdf(-x) + mpmath.mpf(0.56) * mpmath.mpf(cubes))
        exact = float(min(tilted, plain))
    found = float(rademacher_sum_log_tail(z, Concentration(cubes, fourth_powers)))
    assert found == pytest.approx(min(exact, float(rademacher_log_tail_bound(z, 1))), rel=1e-12)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FEW)
def test_bounds_the_tail_over_all_signs(name):
    sums, log_tails = all_sums(FEW[name])
    bound = rademacher_sum_log_tail(sums - 1e-12, concentration_of(FEW[name]))
    assert np.all(log_tails <= bound + 1e-9)
    # Zero entries fill the vector up: only the weights that are not zero matter.
    for dim in (N, 1000):
        whatever = rademacher_log_tail_bound((sums - 1e-12) / math.sqrt(dim), dim)
        assert np.all(log_tails <= whatever + 1e-9)
