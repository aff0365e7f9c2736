"""Canary families against dense arithmetic, and against the law that the audit relies on."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from scipy import linalg, special, stats

from fl_audit.canaries import families as regenerated_module
from fl_audit.canaries.families import (
    FAMILIES,
    CanaryFamily,
    DiracFamily,
    GaussianFamily,
    HadamardFamily,
    HalfNormals,
    RademacherFamily,
    _Shuffle,
    walsh_hadamard,
)
from fl_audit.canaries.store import StoredGaussianFamily
from fl_audit.config import DigitsTask, TextTask
from fl_audit.inner_products import euclidean_norm
from fl_audit.tasks import load_task
from fl_audit.tasks.tf.networks import as_classifier
from tests import seeds_tried

PIECE = 1 << 18  # coordinates that are generated at a time
DIMS = [
    *(1, 65, PIECE + 1),
    *(
        pytest.param(dim, marks=pytest.mark.slow)
        for dim in (2, 63, 64, 1000, PIECE - 1, PIECE, 2 * PIECE + 100)
    ),
]

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
def test_inner_products_are_those_of_the_vectors_of_unit_norm(family_type, dim, monkeypatch):
    family = family_type(seed=3, num_canaries=5, dim=dim)
    vectors = dense(family)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    for make_target, most_kept in ((embedding_like, 1 << 22), (dense_target, 0)):
        monkeypatch.setattr(regenerated_module, "_MOST_KEPT", most_kept)
        target = make_target(dim) if dim > 1 else np.ones(1, np.float32)
        products = family.inner_products(target)
        assert products.dtype == np.float64
        # The vectors' own rounding, 6e-8 of each coordinate, and that of `fast_inner_product`.
        norm = euclidean_norm(target)
        np.testing.assert_allclose(products, vectors @ target, rtol=0, atol=6e-7 * norm)
        np.testing.assert_array_equal(family.cosines(target), np.clip(products / norm, -1, 1))


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


@every_family
def test_distinct_canaries_and_seeds_differ(family_type):
    vectors = [
        family_type(seed=seed, num_canaries=20, dim=200).vector(j).tobytes()
        for seed in (0, 1, 2**40)
        for j in range(20)
    ]
    assert len(set(vectors)) == 60


@pytest.mark.sampled(3)
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("family_type", "counts"), [(RademacherFamily, (20, 200)), (GaussianFamily, (50, 500))]
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
    # 180 more vectors would be 144 MB. Each of two cores holds a piece of 262,144 coordinates,
    # 1 MB, and whether both hold one at the same moment is chance.
    assert max(peaks) < 20e6
    assert peaks[1] - peaks[0] < 3e6


@pytest.mark.sampled(1)
@regenerated
def test_memory_per_canary_is_that_of_its_score(family_type, monkeypatch):
    monkeypatch.setattr(regenerated_module, "_MOST_KEPT", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    family = family_type(seed=1, num_canaries=1000, dim=64)
    target = np.ones(64, np.float32)
    tracemalloc.start()
    family.inner_products(target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * 8 + 1e6  # a task for each canary would hold 2 MB


@every_family
@pytest.mark.parametrize("scale", [1e-30, 1e15])
def test_cosines_do_not_depend_on_the_scale(family_type, scale):
    family = family_type(seed=1, num_canaries=5, dim=500)
    target = dense_target(500)
    scaled = (target.astype(np.float64) * scale).astype(np.float32)
    np.testing.assert_allclose(family.cosines(scaled), family.cosines(target), atol=1e-6)


@every_family
@pytest.mark.parametrize("shape", [(), (101,), (1, 100)])
def test_wrong_shape(family_type, shape):
    family = family_type(seed=1, num_canaries=3, dim=100)
    with pytest.raises(ValueError, match=r"target must have shape \(100,\), got "):
        family.inner_products(np.zeros(shape, np.float32))


# Dirac canaries: distinct coordinates, no law of their own, and what follows from that.


def test_dirac_canaries_are_coordinates():
    family = DiracFamily(seed=3, num_canaries=50, dim=60)
    vectors = np.stack([family.vector(canary) for canary in range(50)])
    np.testing.assert_array_equal(np.abs(vectors).sum(axis=0), np.abs(vectors).max(axis=0))
    target = np.random.default_rng(0).normal(size=60).astype(np.float32)
    np.testing.assert_allclose(
        family.cosines(target), vectors @ target / euclidean_norm(target), atol=1e-6
    )


# Hadamard canaries: what is exact about them, and that their null holds on real updates.


@pytest.fixture(params=["tensorflow", "numpy"])
def without_tensorflow_or_with_it(request, monkeypatch) -> None:
    if request.param == "numpy":
        monkeypatch.delitem(sys.modules, "tensorflow")


@pytest.mark.usefixtures("without_tensorflow_or_with_it")
@pytest.mark.parametrize("log_size", [3, 7, 10])
def test_the_transform_is_that_of_the_sylvester_matrix(log_size):
    values = np.random.default_rng(1).normal(size=1 << log_size)
    expected = linalg.hadamard(1 << log_size) @ values
    np.testing.assert_allclose(walsh_hadamard(values), expected, atol=1e-10)


@pytest.mark.parametrize("log_size", [1, 2, 9, 17])
def test_a_shuffle_is_a_permutation(log_size):
    factors = np.array([0xDEADBEEF, 0x12345671, 0x9E3779B1], np.uint32)
    shuffle = _Shuffle(log_size, factors, np.uint32(0xC0FFEE11))
    numbers = shuffle.apply(np.arange(1 << log_size, dtype=np.uint32))
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1 << log_size))


@pytest.mark.slow
def test_at_every_coordinate_the_canaries_of_a_pool_differ():
    """Column 0 of the matrix is all ones: it meets a random coordinate, or none.

    At a coordinate all 40 canaries agree where its column is 0, with a chance of 2^-17 over seeds,
    or where 40 rows agree by chance, 2^-39. Over 300 coordinates and 400 seeds that is 0.92
    expected, of which 12 or more are there with probability below 1e-9; at one coordinate three
    seeds have it with probability below 1e-7, over all coordinates.
    """
    agreeing = np.zeros(300, int)
    for seed in range(400):
        signs = np.stack([np.sign(HadamardFamily(seed, 40, 300).vector(j)) for j in range(40)])
        agreeing += np.abs(signs.sum(axis=0)) == 40
    assert agreeing.sum() < 12
    assert agreeing.max() < 3


def gradient(task, examples) -> np.ndarray:
    """A step of SGD on one client's examples, flat."""
    weights = [tf.constant(weight) for weight in task.classifier.initial_weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = as_classifier(task.classifier).logits(weights, tf.constant(examples.inputs))
        loss = as_classifier(task.classifier).loss(logits, tf.constant(examples.labels))
    slopes = tape.gradient(loss, weights)
    return np.concatenate([tf.convert_to_tensor(s).numpy().ravel() for s in slopes])


@pytest.fixture(scope="module")
def digits_update():
    task = load_task(DigitsTask(num_clients=300, hidden=(32,)), seed=0)
    return gradient(task, task.population.examples(0))


@pytest.fixture(scope="module")
def embedding_update(tmp_path_factory):
    """What one client's sentence moves of an embedding: six rows of 1,004, 96 wide."""
    path = tmp_path_factory.mktemp("text") / "text.csv"
    words = " ".join(f"w{i}" for i in range(1_000))
    rest = "all,w7\n" * 20  # a tenth of the rows is held out
    path.write_text(f"client_id,text\nall,{words}\nme,w1 w2 w3 w4 w5 w6\n{rest}")
    task = load_task(TextTask(path=str(path), lstm_size=8), seed=0)
    me = task.population.examples(task.population.client_ids.index("me"))
    embedding = task.classifier.initial_weights[0]
    update = gradient(task, me)[: embedding.size]
    assert 300 < np.count_nonzero(update) < 1000
    return update


def assert_null_holds(family: CanaryFamily, target: np.ndarray, variance_of_square: float) -> None:
    """Against an update that knows no canary the pool is as independent normal cosines."""
    cosines = family.cosines(target.astype(np.float32)) * family.dim**0.5
    # 6 standard errors each; the signs' Gaussian limit has an error of the order sum(unit^4).
    assert abs(np.mean(cosines)) < 6 / cosines.size**0.5
    assert abs(np.mean(cosines**2) - 1) < 6 * (variance_of_square / cosines.size) ** 0.5
    assert stats.kstest(cosines, "norm").pvalue > 1e-8


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
@pytest.mark.parametrize(
    ("family_type", "update"),
    [
        (HadamardFamily, "digits_update"),
        (HadamardFamily, "embedding_update"),
        (RademacherFamily, "digits_update"),
        pytest.param(RademacherFamily, "embedding_update", marks=pytest.mark.slow),
    ],
)
def test_null_of_signs_holds_on_real_updates(family_type, update, seed, request):
    target = request.getfixturevalue(update)
    unit = target / np.linalg.norm(target)
    variance = 2 - 2 * float(np.sum(unit**4))
    assert_null_holds(family_type(seed, 2000, target.size), target, variance)


@pytest.mark.parametrize(
    "update", ["digits_update", pytest.param("embedding_update", marks=pytest.mark.slow)]
)
def test_null_of_the_sphere_holds_on_real_updates(update, request):
    target = request.getfixturevalue(update)
    dim = target.size
    assert_null_holds(GaussianFamily(1, 2000, dim), target, 2 - 6 / (dim + 2))


# The normal numbers against the normal distribution; every random test fails below 1e-6.


COUNT = 1 << (24 if seeds_tried.tries_all else 22)
DRAWN_AT_ONCE = 1 << 18


class FixedWords:
    """Stands for a bit generator: the words given, again and again."""

    def __init__(self, word: int) -> None:
        self._word = word

    def random_raw(self, count: int) -> np.ndarray:
        return np.full(count, self._word, np.uint64)


@pytest.fixture(scope="module")
def normals() -> np.ndarray:
    """float64 of shape (pieces, 2, pairs): cosines and sines."""
    numbers = HalfNormals(DRAWN_AT_ONCE)
    bits = np.random.SFC64(20)
    pieces = [numbers.draw(bits, DRAWN_AT_ONCE).copy() for _ in range(COUNT // DRAWN_AT_ONCE)]
    return 2**0.5 * np.stack(pieces).reshape(-1, 2, DRAWN_AT_ONCE // 2).astype(np.float64)


def test_the_law_is_normal(normals):
    probabilities = np.sort(special.ndtr(normals.ravel()))
    steps = np.arange(COUNT + 1) / COUNT
    distance = max((steps[1:] - probabilities).max(), (probabilities - steps[:-1]).max())
    # Dvoretzky-Kiefer-Wolfowitz: P(distance > t) <= 2 exp(-2 n t^2), here 1e-7.
    assert distance < (np.log(2e7) / (2 * COUNT)) ** 0.5


@pytest.mark.parametrize("bound", [2, 3, 4, 5])
@pytest.mark.parametrize("side", [-1, 1])
def test_tails(normals, bound, side):
    found = int(np.sum(side * normals > bound))
    distribution = stats.binom(COUNT, special.ndtr(-bound))
    # 8 cases, each fails with probability 2e-8 at most.
    assert distribution.sf(found - 1) > 1e-8
    assert distribution.cdf(found) > 1e-8


@pytest.mark.slow
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


def test_other_vector_instructions_change_the_last_bits_at_most(tmp_path):
    path = tmp_path / "numbers.npy"
    program = (
        "import numpy as np; from fl_audit.canaries.families import HalfNormals; "
        f"count = {DRAWN_AT_ONCE}; "
        f"np.save({str(path)!r}, HalfNormals(count).draw(np.random.SFC64(5), count))"
    )
    features = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR AVX2 FMA3"
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": features}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True)
    here = HalfNormals(DRAWN_AT_ONCE).draw(np.random.SFC64(5), DRAWN_AT_ONCE)
    apart = np.load(path).astype(np.float64) - here
    np.testing.assert_allclose(np.load(path), here, rtol=1e-6)
    assert np.linalg.norm(apart) < 1e-7 * np.linalg.norm(here)
