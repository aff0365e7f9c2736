"""Norms and inner products of float32 against exact ones."""

import math
import tracemalloc

import numpy as np
import pytest

from fl_audit.inner_products import euclidean_norm, fast_inner_product, inner_product

MILLIONS = [
    pytest.param(4_000_000, id="4 million"),
    # Seconds, and 200 MB.
    pytest.param(50_000_000, id="50 million", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("size", MILLIONS)
@pytest.mark.parametrize("number", [0.1, 0.3, 1.7e-12, 3e30])
def test_the_norm_of_equal_numbers_is_exact(size, number):
    """Where `numpy.linalg.norm` is wrong by 1e-4 and more: its sum of squares is in float32."""
    vector = np.full(size, number, np.float32)
    expected = float(vector[0]) * math.sqrt(size)
    # A sum of n equal float64 numbers in lanes: far fewer than n additions in a row, 1.1e-16 each.
    assert euclidean_norm(vector) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("size", MILLIONS)
@pytest.mark.parametrize(("left", "right"), [(0.1, 0.1), (0.3, 0.7), (1.7, -1.3)])
def test_products_of_equal_numbers(size, left, right):
    vectors = np.full(size, left, np.float32), np.full(size, right, np.float32)
    expected = float(vectors[0][0]) * float(vectors[1][0]) * size
    assert inner_product(*vectors) == pytest.approx(expected, rel=1e-11)
    assert fast_inner_product(*vectors) == pytest.approx(expected, rel=5e-7)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, 8191, 8193, 100_003])
def test_products_of_any_length_against_exact_sums(size):
    random = np.random.default_rng(size)
    left, right = random.standard_normal((2, size)).astype(np.float32)
    terms = [float(a) * float(b) for a, b in zip(left, right, strict=True)]  # exact in float64
    lengths = euclidean_norm(left) * euclidean_norm(right)
    assert inner_product(left, right) == pytest.approx(math.fsum(terms), abs=1e-12 * lengths)
    assert fast_inner_product(left, right) == pytest.approx(math.fsum(terms), abs=5e-7 * lengths)
    assert euclidean_norm(left) == pytest.approx(math.hypot(*left.tolist()), rel=1e-13)


def test_integers_are_no_obstacle():
    rows = np.full(70_000, 32_767, np.int16)
    assert inner_product(rows, rows) == 70_000 * 32_767**2


def test_neither_vector_is_copied():
    """A float64 copy of a model of 10^9 parameters would take 8 GB."""
    vector = np.ones(5 << 20, np.float32)
    tracemalloc.start()
    assert euclidean_norm(vector) ** 2 == pytest.approx(5 << 20)
    assert fast_inner_product(vector, vector) == 5 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * vector.nbytes  # the sums of runs of 16 are a sixteenth, and once more
