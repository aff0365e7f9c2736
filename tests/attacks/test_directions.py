"""Sketches of directions: lengths by hand, and how often a bound on a length is too small."""

import numpy as np
import pytest

from fl_audit.attacks import own_sums
from fl_audit.attacks.directions import RoundDirections, Sketch, width_of
from fl_audit.attacks.own_rounds import RoundWeights
from fl_audit.attacks.own_sums import KeptSums, largest_lengths
from fl_audit.errors import InputError
from fl_audit.estimators.random_signs import concentration_of


def test_what_fits_is_kept_whole():
    assert width_of(1000, 10) == 1000
    assert width_of(4_050_748, 2048) == 65_535
    image = image_of(Sketch(0, 3, 3), np.float32([3, 0, -4]))
    np.testing.assert_allclose(image, [0.6, 0, -0.8], rtol=1e-6)
    for width in (3, 2):
        assert not image_of(Sketch(0, 3, width), np.zeros(3, np.float32)).any()


def test_a_rotation_keeps_lengths_and_makes_one_coordinate_flat():
    drawn = Sketch(3, 500, 40)
    one, other = np.random.default_rng(0).standard_normal((2, 500)).astype(np.float32)
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert drawn.rotated(one) @ drawn.rotated(other) == pytest.approx(cosine, abs=1e-5)
    alone = drawn.rotated(np.eye(500, dtype=np.float32)[7])
    np.testing.assert_allclose(np.abs(alone), 512**-0.5, rtol=1e-6)
    # One rotated coordinate goes to one bucket whole, with a sign.
    image = drawn.folded(np.eye(512, dtype=np.float32)[7])
    assert sorted(np.abs(image))[-2:] == [0, 1]


def image_of(drawn: Sketch, vector: np.ndarray) -> np.ndarray:
    return drawn.folded(drawn.rotated(vector))


def fourth_norm(vectors: np.ndarray) -> float:
    return float(np.sum(np.sum(vectors.astype(np.float64) ** 4, axis=1) ** 0.25))


def vectors_of(kind: str, random: np.random.Generator, dim: int) -> np.ndarray:
    if kind == "orthogonal":
        return random.standard_normal((4, dim))
    if kind == "alike":
        return random.standard_normal(dim) + 0.1 * random.standard_normal((4, dim))
    if kind == "cancelling":
        one = random.standard_normal((2, dim))
        return np.concatenate([one, 0.5 * random.standard_normal((2, dim)) - one])
    few = np.zeros((4, dim))
    few[:, :8] = random.standard_normal((4, 8))
    return few


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["orthogonal", "alike", "cancelling", "few coordinates"])
@pytest.mark.parametrize("width", [64, 1024])
def test_lengths_are_exceeded_no_more_often_than_is_said(monkeypatch, kind, width):
    monkeypatch.setattr(own_sums, "FAILURE", 0.2)
    dim, runs = 3000, 200
    vectors = vectors_of(kind, np.random.default_rng(1), dim).astype(np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    length = np.linalg.norm(units.sum(axis=0))
    failures = 0
    for seed in range(runs):
        drawn = Sketch(seed, dim, width)
        rotated = np.stack([drawn.rotated(vector) for vector in vectors])
        image = sum(drawn.folded(vector) for vector in rotated)
        square = np.array([float(image @ image)])
        norms = np.array([fourth_norm(rotated)])
        (bound,) = largest_lengths(square, norms, np.array([4.0]), width, rotated.shape[1])
        assert bound <= 4
        failures += bool(bound < length * (1 - 1e-6))
    # 70 or more of 200 at 20 % each have probability below 1e-6.
    assert failures < 70


@pytest.mark.slow
def test_the_length_of_what_is_left_of_cancelling_directions_is_told():
    random = np.random.default_rng(1)
    dim, width, rounds = 1 << 20, 65_535, 60
    common = 3 * random.standard_normal(dim)
    signs = np.where(np.arange(rounds) % 2, -1.0, 1.0)
    drawn, total, image, norms = Sketch(1, dim, width), np.zeros(dim), np.zeros(width), 0.0
    for sign in signs:
        vector = (common + random.standard_normal(dim)).astype(np.float32)
        rotated = drawn.rotated(vector)
        total += sign * vector / np.linalg.norm(vector)
        image += sign * drawn.folded(rotated)
        norms += fourth_norm(rotated[None])
    square = np.array([image @ image])
    sizes = (np.array([norms]), np.array([float(rounds)]), width, dim)
    (bound,) = largest_lengths(square, *sizes)
    length = np.linalg.norm(total)
    assert length < 3  # of 60
    assert length < bound < 1.15 * length


# What is kept of directions.


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Twelve directions of 500 numbers, three sets of them, and the file of what is kept."""
    random = np.random.default_rng(3)
    vectors = random.normal(size=(12, 500)).astype(np.float32)
    path, kept = tmp_path / "directions.npy", tmp_path / "kept.npz"
    log = RoundDirections.opened("w+", path, 12, seed=1, dim=500, kept=kept)
    for index, vector in enumerate(vectors):
        log.add(index, vector)
    weights = RoundWeights(random.normal(size=(3, 12)), np.array([0, 1, 2, 1]))
    sums = log.weighted_sums(weights, np.arange(12))
    return vectors, weights, sums, kept


def test_lengths_follow_from_what_is_kept(kept):
    vectors, weights, sums, path = kept
    again = KeptSums.read(path).weighted_sums(weights, np.arange(12))
    assert (again.lengths == sums.lengths).all()
    assert again.concentration == sums.concentration
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None].astype(np.float64)
    direct = weights.of_set @ unit
    assert again.lengths == pytest.approx(np.linalg.norm(direct, axis=1)[weights.set_of], rel=1e-6)
    known = [concentration_of(one) for one in direct]
    assert again.concentration.cubes == pytest.approx(max(k.cubes for k in known), rel=1e-5)
    fourth_powers = max(k.fourth_powers for k in known)
    assert again.concentration.fourth_powers == pytest.approx(fourth_powers, rel=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.update(products=1.1 * a["products"]),
        lambda a: a.update(products=a["products"] + np.triu(np.full((12, 12), 0.1), 1)),
        lambda a: a.update(products=np.ones((12, 12)) * 2 - np.eye(12)),
        lambda a: a.update(products=a["products"][:-1]),
        lambda a: a.update(worst=a["worst"][:, :-1]),
        lambda a: a.update(worst=np.full_like(a["worst"], np.nan)),
        lambda a: a.update(products=a["products"].astype(np.float32)),
        lambda a: a.pop("fourth_norms"),
        lambda a: a.update(lengths=np.array([500])),
    ],
)
def test_what_no_directions_have_is_refused(kept, change):
    path = kept[-1]
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=r"kept\.npz"):
        KeptSums.read(path)


def test_other_rounds_than_are_known_are_refused(kept):
    _, weights, _, path = kept
    with pytest.raises(InputError, match="has directions of 12 rounds, but 11 rounds were scored"):
        KeptSums.read(path).weighted_sums(weights, np.arange(11))
