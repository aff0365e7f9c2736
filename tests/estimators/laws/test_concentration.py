"""The concentration of a vector: by hand, at any scale, and what is refused."""

import numpy as np
import pytest

from fl_audit.estimators.random_signs import Concentration, concentration_of


@pytest.mark.parametrize("size", [1, 2, 64, 300_000])
@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e30])
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


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_what_is_not_finite(bad):
    with pytest.raises(ValueError, match="must be finite, got"):
        concentration_of([1.0, bad])


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
