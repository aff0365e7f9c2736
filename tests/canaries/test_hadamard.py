"""Hadamard canaries: what is exact about them, and that their null holds on real updates."""

import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from scipy import linalg, stats

from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.hadamard import HadamardFamily, _Shuffle, _walsh_hadamard
from fl_audit.canaries.regenerated import GaussianFamily, RademacherFamily
from fl_audit.config import DigitsTask, TextTask
from fl_audit.errors import InputError
from fl_audit.tasks import load_task


@pytest.fixture(params=["tensorflow", "numpy"])
def without_tensorflow_or_with_it(request, monkeypatch) -> None:
    if request.param == "numpy":
        monkeypatch.delitem(sys.modules, "tensorflow")


@pytest.mark.usefixtures("without_tensorflow_or_with_it")
@pytest.mark.parametrize("log_size", [3, 7, 10])
def test_the_transform_is_that_of_the_sylvester_matrix(log_size):
    values = np.random.default_rng(1).normal(size=1 << log_size)
    expected = linalg.hadamard(1 << log_size) @ values
    np.testing.assert_allclose(_walsh_hadamard(values), expected, atol=1e-10)


@pytest.mark.parametrize("log_size", [1, 2, 9, 17])
def test_a_shuffle_is_a_permutation(log_size):
    factors = np.array([0xDEADBEEF, 0x12345671, 0x9E3779B1], np.uint32)
    shuffle = _Shuffle(log_size, factors, np.uint32(0xC0FFEE11))
    numbers = shuffle.apply(np.arange(1 << log_size, dtype=np.uint32))
    np.testing.assert_array_equal(np.sort(numbers), np.arange(1 << log_size))


def test_rows_as_long_as_the_matrix_are_orthogonal():
    family = HadamardFamily(seed=4, num_canaries=30, dim=1 << 17)
    vectors = np.stack([family.vector(j) for j in range(30)]).astype(np.float64)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(30), atol=1e-7)


def test_squared_cosines_with_all_rows_average_to_the_nulls_variance():
    family = HadamardFamily(seed=4, num_canaries=1 << 17, dim=1000)
    target = np.random.default_rng(2).normal(1.0, 2.0, 1000).astype(np.float32)
    assert np.mean(family.cosines(target) ** 2) == pytest.approx(1 / 1000, rel=1e-5)


def test_each_canary_is_a_rademacher_vector():
    """Over seeds, where the signs are drawn: every coordinate fair, every pair independent."""
    signs = np.stack([np.sign(HadamardFamily(s, 5, 300).vector(3)) for s in range(400)])
    assert set(np.unique(signs)) == {-1, 1}
    # As in test_families: sums of n fair signs, 7 sqrt(n) with probability below 1e-10 each.
    assert np.abs(signs.sum(axis=0)).max() < 7 * 400**0.5
    for lag in range(1, 300):
        overlap = signs[:, lag:] * signs[:, :-lag]
        assert abs(overlap.sum()) < 7 * overlap.size**0.5


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


def test_the_coordinate_that_meets_the_column_of_ones_is_a_random_one():
    """With as many coordinates as columns there is just one, in every part of the vector alike."""
    places = [
        int(np.flatnonzero(HadamardFamily(seed, 1, 1 << 17)._shuffles()[0].apply(
            np.arange(1 << 17, dtype=np.uint32)) == 0)[0])
        for seed in range(200)
    ]  # fmt: skip
    assert stats.kstest(np.array(places) / (1 << 17), "uniform").pvalue > 1e-7


def test_scoring_needs_numpy_only():
    program = (
        "import sys, numpy; from fl_audit.canaries.hadamard import HadamardFamily; "
        "HadamardFamily(1, 3, 50).cosines(numpy.ones(50, numpy.float32)); "
        "sys.exit({'scipy', 'msgspec', 'tensorflow', 'absl'} & set(sys.modules) != set())"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_more_canaries_than_rows_are_refused():
    with pytest.raises(InputError, match=r"131,072 hadamard canaries .* got .*131,073"):
        HadamardFamily(seed=1, num_canaries=(1 << 17) + 1, dim=5)


def gradient(task, examples) -> np.ndarray:
    """A step of SGD on one client's examples, flat."""
    weights = [tf.constant(weight) for weight in task.classifier.initial_weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        logits = task.classifier.logits(weights, tf.constant(examples.inputs))
        loss = task.classifier.loss(logits, tf.constant(examples.labels))
    slopes = tape.gradient(loss, weights)
    return np.concatenate([tf.convert_to_tensor(s).numpy().ravel() for s in slopes])


@pytest.fixture(scope="module")
def digits_update():
    task = load_task(DigitsTask(num_clients=300), seed=0)
    return gradient(task, task.population.examples(0))


@pytest.fixture(scope="module")
def embedding_update(tmp_path_factory):
    """What one client's sentence moves of an embedding: six rows of 10,004, 96 wide."""
    path = tmp_path_factory.mktemp("text") / "text.csv"
    words = " ".join(f"w{i}" for i in range(10_000))
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


@pytest.mark.parametrize("update", ["digits_update", "embedding_update"])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("family_type", [HadamardFamily, RademacherFamily])
def test_null_of_signs_holds_on_real_updates(family_type, update, seed, request):
    target = request.getfixturevalue(update)
    unit = target / np.linalg.norm(target)
    variance = 2 - 2 * float(np.sum(unit**4))
    assert_null_holds(family_type(seed, 2000, target.size), target, variance)


@pytest.mark.parametrize("update", ["digits_update", "embedding_update"])
def test_null_of_the_sphere_holds_on_real_updates(update, request):
    target = request.getfixturevalue(update)
    dim = target.size
    assert_null_holds(GaussianFamily(1, 2000, dim), target, 2 - 6 / (dim + 2))


def test_without_the_shuffle_an_embedding_row_would_meet_few_patterns():
    """Why columns are shuffled: 96 neighbours see 128 patterns of signs in 2,000 plain rows."""
    dim, size = 100_000, 1 << 17
    spread = np.zeros(size)
    spread[9600:9696] = np.random.default_rng(3).normal(size=96).astype(np.float32)
    plain = _walsh_hadamard(spread)[np.random.default_rng(4).choice(size, 2000, replace=False)]
    assert len(np.unique(np.abs(plain).round(4))) <= 256
    target = np.zeros(dim, np.float32)
    target[9600:9696] = spread[9600:9696]
    shuffled = HadamardFamily(seed=5, num_canaries=2000, dim=dim).inner_products(target)
    assert len(np.unique(np.abs(shuffled * dim**0.5).round(4))) > 1900


def test_the_papers_size_takes_a_moment():
    """0.08 s on two idle cores; one by one, 2,000 Gaussian vectors take a minute."""
    family = HadamardFamily(seed=1, num_canaries=2000, dim=4_050_748)
    target = np.random.default_rng(6).normal(size=family.dim).astype(np.float32)
    start = time.perf_counter()
    cosines = family.cosines(target)
    assert time.perf_counter() - start < 10
    assert cosines[7] == pytest.approx(
        float(family.vector(7).astype(np.float64) @ target) / np.linalg.norm(target), abs=1e-6
    )
