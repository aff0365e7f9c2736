"""The normal numbers against the normal law; every random test fails below 1e-6."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.canaries.box_muller import HalfNormals

COUNT = 1 << 24
PIECE = 1 << 18


class FixedWords:
    """Stands for a bit generator: the words given, again and again."""

    def __init__(self, word: int) -> None:
        self._word = word

    def random_raw(self, count: int) -> np.ndarray:
        return np.full(count, self._word, np.uint64)


@pytest.fixture(scope="module")
def normals() -> np.ndarray:
    """float64 of shape (pieces, 2, pairs): cosines and sines."""
    numbers = HalfNormals(PIECE)
    bits = np.random.SFC64(20)
    pieces = [numbers.draw(bits, PIECE).copy() for _ in range(COUNT // PIECE)]
    return 2**0.5 * np.stack(pieces).reshape(-1, 2, PIECE // 2).astype(np.float64)


def test_the_law_is_normal(normals):
    probabilities = np.sort(special.ndtr(normals.ravel()))
    steps = np.arange(COUNT + 1) / COUNT
    distance = max((steps[1:] - probabilities).max(), (probabilities - steps[:-1]).max())
    # Dvoretzky-Kiefer-Wolfowitz: P(distance > t) <= 2 exp(-2 n t^2), here 1e-7.
    assert distance < (np.log(2e7) / (2 * COUNT)) ** 0.5


def test_moments(normals):
    values = normals.ravel()
    # E x^p and its variance, E x^2p - (E x^p)^2; 6 standard errors are 2e-9 each for a normal sum,
    # and the sixth moment's sum, the most skew, keeps below 1e-7.
    powers = np.ones_like(values)
    for power, mean in enumerate([0, 1, 0, 3, 0, 15], start=1):
        powers *= values
        variance = special.factorial2(2 * power - 1) - mean**2
        assert abs(np.mean(powers) - mean) < 6 * (variance / COUNT) ** 0.5


@pytest.mark.parametrize("bound", [2, 3, 4, 5])
@pytest.mark.parametrize("side", [-1, 1])
def test_tails(normals, bound, side):
    found = int(np.sum(side * normals > bound))
    law = stats.binom(COUNT, special.ndtr(-bound))
    # 8 cases, each fails with probability 2e-8 at most.
    assert law.sf(found - 1) > 1e-8
    assert law.cdf(found) > 1e-8


def test_cosines_sines_and_neighbours_are_independent(normals):
    cosines, sines = normals[:, 0], normals[:, 1]
    pairs = [
        (cosines, sines),
        (cosines[:, 1:], cosines[:, :-1]),
        (sines[:, 1:], sines[:, :-1]),
        (cosines[:, 1:], sines[:, :-1]),
    ]
    for left, right in pairs:
        # Sums of products of independent normals, and of what else they would share: 16 cases of
        # 6.5 standard errors, 8e-11 each for a normal sum.
        for f in (lambda x: x, np.abs, np.square, lambda x: np.abs(x) > 2):
            a, b = f(left).ravel().astype(float), f(right).ravel().astype(float)
            assert abs(np.corrcoef(a, b)[0, 1]) < 6.5 / a.size**0.5


def test_radius_and_angle_are_independent_and_of_their_laws(normals):
    squares = np.sum(normals**2, axis=1).ravel()[: 1 << 21]
    angles = np.arctan2(normals[:, 1], normals[:, 0]).ravel()[: 1 << 21]
    # P(p-value < 1e-8) = 1e-8.
    assert stats.kstest(squares, "chi2", args=(2,)).pvalue > 1e-8
    assert stats.kstest(angles, "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-8
    counts, _, _ = np.histogram2d(
        np.exp(-squares / 2), angles, bins=64, range=[[0, 1], [-np.pi, np.pi]]
    )
    expected = squares.size / counts.size
    chi_square = np.sum((counts - expected) ** 2) / expected
    assert stats.chi2.sf(chi_square, counts.size - 1) > 1e-8


@pytest.mark.parametrize("word", [0, 1, 2**64 - 1, 2**63, 2**32 - 1, 2**32, 0xFFFFFF00, 2**31])
def test_extreme_words_give_finite_numbers(word):
    numbers = 2**0.5 * HalfNormals(20).draw(FixedWords(word), 20).astype(np.float64)
    assert np.abs(numbers).max() <= (2 * np.log(2.0**32)) ** 0.5 * (1 + 1e-6)
    assert np.isfinite(numbers).all()


def test_the_largest_number():
    # Words are taken as 32-bit halves: the first half of them are radii, 0 becomes 1.
    numbers = HalfNormals(4).draw(FixedWords(0), 4)
    np.testing.assert_allclose(2**0.5 * numbers[:2], 6.660, atol=1e-3)
    np.testing.assert_array_equal(numbers[2:], 0)


@pytest.mark.parametrize("count", [1, 2, 7, 100, 101])
def test_an_odd_count_leaves_out_the_last_sine(count):
    some = HalfNormals(200).draw(np.random.SFC64(1), count).copy()
    even = HalfNormals(200).draw(np.random.SFC64(1), count + count % 2)
    assert (some.dtype, some.shape) == (np.float32, (count,))
    np.testing.assert_array_equal(some, even[:count])


def test_other_vector_instructions_change_the_last_bits_at_most(tmp_path):
    path = tmp_path / "numbers.npy"
    program = (
        "import numpy as np; from fl_audit.canaries.box_muller import HalfNormals; "
        f"np.save({str(path)!r}, HalfNormals({PIECE}).draw(np.random.SFC64(5), {PIECE}))"
    )
    features = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR AVX2 FMA3"
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": features}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True)
    here = HalfNormals(PIECE).draw(np.random.SFC64(5), PIECE)
    apart = np.load(path).astype(np.float64) - here
    np.testing.assert_allclose(np.load(path), here, rtol=1e-6)
    assert np.linalg.norm(apart) < 1e-7 * np.linalg.norm(here)
