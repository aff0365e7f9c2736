"""Canary families against dense arithmetic, and against the law that the audit relies on."""

import os
import tracemalloc

import numpy as np
import pytest

from fl_audit.canaries import regenerated as regenerated_module
from fl_audit.canaries.families import FAMILIES
from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.hadamard import HadamardFamily
from fl_audit.canaries.regenerated import GaussianFamily, RademacherFamily
from fl_audit.canaries.store import StoredGaussianFamily
from fl_audit.inner_products import euclidean_norm

PIECE = 1 << 18  # coordinates that are generated at a time
DIMS = [1, 2, 63, 64, 65, 1000, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 100]

SPREAD_OUT = {name: family for name, family in FAMILIES.items() if name != "dirac"}
EVERY = {**SPREAD_OUT, "stored": StoredGaussianFamily}

every_family = pytest.mark.parametrize("family_type", EVERY.values(), ids=EVERY)
regenerated = pytest.mark.parametrize("family_type", [GaussianFamily, RademacherFamily])


def dense(family: CanaryFamily) -> np.ndarray:
    vectors = [family.vector(j) for j in range(family.num_canaries)]
    return np.stack(vectors).astype(np.float64)


def embedding_like(dim: int) -> np.ndarray:
    """Mostly zeros with a few large entries: what a client moves of an embedding table."""
    rng = np.random.default_rng(11)
    target = np.zeros(dim, np.float32)
    touched = rng.choice(dim, max(2, dim // 50), replace=False)
    target[touched] = rng.standard_normal(touched.size) * 10
    return target


def dense_target(dim: int) -> np.ndarray:
    # A mean well away from 0, as of a bias: the pieces' sums do not cancel.
    return np.random.default_rng(12).normal(1.0, 2.0, dim).astype(np.float32)


@every_family
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("make_target", [embedding_like, dense_target])
def test_inner_products_equal_the_dense_ones(family_type, dim, make_target):
    family = family_type(seed=3, num_canaries=5, dim=dim)
    target = make_target(dim) if dim > 1 else np.ones(1, np.float32)
    products = family.inner_products(target)
    assert products.dtype == np.float64
    # The vectors' own rounding, 6e-8 of each coordinate, and that of `fast_inner_product`.
    norm = euclidean_norm(target)
    np.testing.assert_allclose(products, dense(family) @ target, rtol=0, atol=6e-7 * norm)
    np.testing.assert_array_equal(family.cosines(target), np.clip(products / norm, -1, 1))


@every_family
@pytest.mark.parametrize("dim", DIMS)
def test_vectors_have_unit_norm(family_type, dim):
    vectors = dense(family_type(seed=1, num_canaries=3, dim=dim))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


@every_family
def test_vectors_are_float32_of_the_models_length(family_type):
    vector = family_type(seed=1, num_canaries=3, dim=777).vector(2)
    assert (vector.dtype, vector.shape) == (np.float32, (777,))


@every_family
def test_a_canary_finds_itself(family_type):
    family = family_type(seed=1, num_canaries=20, dim=50_000)
    cosines = family.cosines(7 * family.vector(4))
    assert cosines[4] == pytest.approx(1, abs=6e-7)
    # Of the others, each has standard deviation 1/sqrt(dim) = 0.0045; 7 of them: below 1e-10.
    assert np.abs(np.delete(cosines, 4)).max() < 7 / 50_000**0.5


@every_family
def test_a_vector_does_not_depend_on_the_pool(family_type):
    small = family_type(seed=5, num_canaries=3, dim=1000)
    large = family_type(seed=5, num_canaries=4000, dim=1000)
    np.testing.assert_array_equal(small.vector(2), large.vector(2))
    target = dense_target(1000)
    np.testing.assert_array_equal(small.inner_products(target), large.inner_products(target)[:3])


@pytest.mark.parametrize(
    ("family_type", "dim"),
    [(GaussianFamily, PIECE), *((RademacherFamily, dim) for dim in (1, 100, 64 * 7, PIECE + 130))],
)
def test_a_shorter_vector_is_the_start_of_a_longer_one(family_type, dim):
    short = family_type(seed=5, num_canaries=1, dim=dim).vector(0)
    longer = family_type(seed=5, num_canaries=1, dim=3 * PIECE).vector(0)[:dim]
    # Up to the norm, which the other coordinates share in.
    longer = longer / euclidean_norm(longer)
    np.testing.assert_array_equal(np.sign(short), np.sign(longer))
    # Either norm may be off by 2.5e-7 (`fast_inner_product`), and each number is rounded to 6e-8.
    np.testing.assert_allclose(short, longer, rtol=7e-7)


@regenerated
@pytest.mark.parametrize("num_threads", [None, 1, 7])
def test_scores_do_not_depend_on_the_number_of_threads(family_type, num_threads, monkeypatch):
    monkeypatch.setattr(regenerated_module, "_MOST_KEPT", 0)
    family = family_type(seed=5, num_canaries=50, dim=3000)
    target = dense_target(3000)
    expected = family.inner_products(target)
    monkeypatch.setattr(os, "cpu_count", lambda: num_threads)
    np.testing.assert_array_equal(family.inner_products(target), expected)


@regenerated
def test_a_small_pool_is_kept_and_scores_as_one_that_is_not(family_type, monkeypatch):
    family, target = family_type(seed=5, num_canaries=50, dim=300), dense_target(300)
    kept = family.cosines(target)
    monkeypatch.setattr(family_type, "_inner_product", None)
    np.testing.assert_array_equal(family.cosines(target), kept)
    monkeypatch.undo()
    monkeypatch.setattr(regenerated_module, "_MOST_KEPT", 0)
    np.testing.assert_allclose(family.cosines(target), kept, rtol=0, atol=1e-6)


@regenerated
def test_an_error_in_a_thread_comes_out(family_type, monkeypatch):
    monkeypatch.setattr(regenerated_module, "_MOST_KEPT", 0)

    def fail(self: CanaryFamily, canary: int, *_: object) -> float:
        raise MemoryError(f"at canary {canary}")

    monkeypatch.setattr(family_type, "_inner_product", fail)
    with pytest.raises(MemoryError, match="at canary"):
        family_type(seed=5, num_canaries=50, dim=10).inner_products(np.ones(10, np.float32))


@every_family
def test_distinct_canaries_and_seeds_differ(family_type):
    vectors = [
        family_type(seed=seed, num_canaries=20, dim=200).vector(j).tobytes()
        for seed in (0, 1, 2**40)
        for j in range(20)
    ]
    assert len(set(vectors)) == 60


def test_families_are_independent_of_each_other():
    cosine = GaussianFamily(1, 1, 100_000).vector(0) @ RademacherFamily(1, 1, 100_000).vector(0)
    assert abs(cosine) < 7 / 100_000**0.5  # 7 standard deviations: below 1e-11


@every_family
@pytest.mark.parametrize("make_target", [embedding_like, dense_target])
def test_null_law_of_the_cosine(family_type, make_target):
    """Mean 0 and variance exactly 1/dim, against a fixed vector (DESIGN.md, canary families)."""
    dim, count = 1000, 4000
    target = make_target(dim)
    cosines = family_type(seed=8, num_canaries=count, dim=dim).cosines(target)
    # Var(cos^2), exactly: uniform on the sphere 3/(d(d+2)) - 1/d^2; signs (2 - 2 sum v^4)/d^2.
    unit = target.astype(np.float64) / np.linalg.norm(target.astype(np.float64))
    variance_of_square = {
        GaussianFamily: 3 / (dim * (dim + 2)) - 1 / dim**2,
        StoredGaussianFamily: 3 / (dim * (dim + 2)) - 1 / dim**2,
        RademacherFamily: (2 - 2 * np.sum(unit**4)) / dim**2,
        # Of one canary; pairs have covariances that cancel on average over the rows.
        HadamardFamily: (2 - 2 * np.sum(unit**4)) / dim**2,
    }[family_type]
    # 6 standard errors; the mean's tail is sub-Gaussian (3.6e-8 by Hoeffding), the square's a
    # chi-square's (chi2.sf(4000 + 6 sqrt(8000), 4000) = 4e-9): below 1e-6 for all cases.
    assert abs(cosines.mean()) < 6 * (1 / dim / count) ** 0.5
    assert abs(np.mean(cosines**2) - 1 / dim) < 6 * (variance_of_square / count) ** 0.5


@pytest.mark.parametrize("family_type", [RademacherFamily, HadamardFamily])
def test_a_cosine_with_four_million_equal_numbers_is_right(family_type):
    """Of signs and equal numbers it is the sum of the signs over the dimension, exactly."""
    dim = 4 << 20
    family = family_type(seed=1, num_canaries=2, dim=dim)
    sums = [int(np.sign(family.vector(j)).sum(dtype=np.float64)) for j in range(2)]
    cosines = family.cosines(np.full(dim, 0.1, np.float32))
    np.testing.assert_allclose(cosines, np.array(sums) / dim, rtol=0, atol=5e-7 * dim**-0.5)


def test_rademacher_cosine_with_one_coordinate_is_exact():
    target = np.zeros(300, np.float32)
    target[123] = -5
    cosines = RademacherFamily(seed=8, num_canaries=200, dim=300).cosines(target)
    np.testing.assert_allclose(np.abs(cosines), 300**-0.5, rtol=1e-7)
    assert 0 < np.sum(cosines > 0) < 200


def test_rademacher_signs_are_fair_and_independent():
    signs = np.sign(dense(RademacherFamily(seed=8, num_canaries=400, dim=640)))
    assert set(np.unique(signs)) == {-1, 1}
    # A sum of n fair signs is beyond 7 sqrt(n) with probability 2 exp(-7^2 / 2) = 4.6e-11 at most
    # (Hoeffding); products of distinct fair signs are pairwise independent with nearly normal
    # sums. 400 + 640 + 639 + 399 of them: below 1e-7.
    assert np.abs(signs.sum(axis=0)).max() < 7 * 400**0.5
    assert np.abs(signs.sum(axis=1)).max() < 7 * 640**0.5
    # Bits of a word and bytes of neighbouring words do not repeat: every lag up to 639.
    for lag in range(1, 640):
        overlap = signs[:, lag:] * signs[:, :-lag]
        assert abs(overlap.sum()) < 7 * overlap.size**0.5
    for step in range(1, 400):
        products = signs[step:] * signs[:-step]
        assert abs(products.sum()) < 7 * products.size**0.5


def test_gaussian_coordinates_are_normal():
    from scipy import stats

    values = dense(GaussianFamily(seed=8, num_canaries=2, dim=200_000)) * 200_000**0.5
    for row in values:
        # P(p-value < 1e-8) = 1e-8 under the null.
        assert stats.kstest(row, "norm").pvalue > 1e-8


@pytest.mark.parametrize(
    ("family_type", "counts"), [(RademacherFamily, (200, 2000)), (GaussianFamily, (50, 500))]
)
def test_memory_of_scoring_does_not_grow_with_the_pool(family_type, counts, monkeypatch):
    monkeypatch.setattr(regenerated_module, "_MOST_KEPT", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    target = dense_target(200_000)
    peaks = []
    for count in counts:
        family = family_type(seed=1, num_canaries=count, dim=target.size)
        tracemalloc.start()
        family.inner_products(target)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 2,000 vectors would be 1.6 GB. A core holds one piece of 262,144 coordinates, 3 MB in all.
    assert max(peaks) < 20e6
    assert peaks[1] - peaks[0] < 1e6


@regenerated
def test_memory_per_canary_is_that_of_its_score(family_type, monkeypatch):
    monkeypatch.setattr(regenerated_module, "_MOST_KEPT", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    family = family_type(seed=1, num_canaries=5000, dim=64)
    target = np.ones(64, np.float32)
    tracemalloc.start()
    family.inner_products(target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5000 * 8 + 1e6


@every_family
def test_a_zero_vector_points_nowhere(family_type):
    family = family_type(seed=1, num_canaries=3, dim=100)
    assert family.cosines(np.zeros(100, np.float32)).tolist() == [0, 0, 0]
    assert family.inner_products(np.zeros(100, np.float32)).tolist() == [0, 0, 0]


@every_family
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e15])
def test_cosines_do_not_depend_on_the_scale(family_type, scale):
    family = family_type(seed=1, num_canaries=5, dim=500)
    target = dense_target(500)
    scaled = (target.astype(np.float64) * scale).astype(np.float32)
    np.testing.assert_allclose(family.cosines(scaled), family.cosines(target), atol=1e-6)


@every_family
@pytest.mark.parametrize("shape", [(), (99,), (101,), (100, 1), (1, 100)])
def test_wrong_shape(family_type, shape):
    family = family_type(seed=1, num_canaries=3, dim=100)
    with pytest.raises(ValueError, match=r"target must have shape \(100,\), got "):
        family.inner_products(np.zeros(shape, np.float32))
