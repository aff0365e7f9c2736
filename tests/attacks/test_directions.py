"""Sketches of directions: lengths by hand, and how often a bound on a length is too small."""

import math

import numpy as np
import pytest

from fl_audit.attacks import directions
from fl_audit.attacks.directions import Sketch, largest_lengths, width_of


def test_what_fits_is_kept_whole():
    assert width_of(1000, 10) == 1000
    assert width_of(4_050_748, 2048) == 65_536
    image = Sketch(0, 3, 3).image(np.float32([3, 0, -4]))
    np.testing.assert_allclose(image, [0.6, 0, -0.8], rtol=1e-6)
    for width in (3, 2):
        assert not Sketch(0, 3, width).image(np.zeros(3, np.float32)).any()


def test_the_map_is_linear_on_directions_and_a_function_of_the_seed():
    random = np.random.default_rng(0)
    one, other = random.standard_normal((2, 500)).astype(np.float32)
    one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
    drawn = Sketch(3, 500, 40)
    total = drawn.image(one + other) * np.linalg.norm(one + other)
    np.testing.assert_allclose(total, drawn.image(one) + drawn.image(other), atol=1e-6)
    np.testing.assert_array_equal(Sketch(3, 500, 40).image(one), drawn.image(one))
    assert (Sketch(4, 500, 40).image(one) != drawn.image(one)).any()
    # One coordinate goes to one bucket whole, with a sign.
    image = drawn.image(np.eye(500, dtype=np.float32)[7])
    assert sorted(np.abs(image))[-2:] == [0, 1]


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


@pytest.mark.parametrize("kind", ["orthogonal", "alike", "cancelling", "few coordinates"])
@pytest.mark.parametrize("width", [64, 1024])
def test_lengths_are_exceeded_no_more_often_than_is_said(monkeypatch, kind, width):
    monkeypatch.setattr(directions, "FAILURE", 0.2)
    dim, runs = 3000, 200
    vectors = vectors_of(kind, np.random.default_rng(1), dim).astype(np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    length = np.linalg.norm(units.sum(axis=0))
    fourth_norms = np.array([np.sum(np.sum(units**4, axis=1) ** 0.25)])
    failures = 0
    for seed in range(runs):
        drawn = Sketch(seed, dim, width)
        image = sum(drawn.image(vector) for vector in vectors)
        square = np.array([float(image @ image)])
        (bound,) = largest_lengths(square, fourth_norms, np.array([4.0]), width)
        assert bound <= 4
        failures += bool(bound < length * (1 - 1e-6))
    # 70 or more of 200 at 20 % each have probability below 1e-6.
    assert failures < 70


def test_a_long_sketch_of_dense_vectors_tells_the_length():
    random = np.random.default_rng(1)
    dim, width, rounds = 200_000, 65_536, 4
    vectors = random.standard_normal((rounds, dim)).astype(np.float32)
    drawn = Sketch(1, dim, width)
    image = sum(drawn.image(vector) for vector in vectors)
    fourth_norms = np.array([rounds * (3 / dim) ** 0.25])
    (bound,) = largest_lengths(
        np.array([float(image @ image)]), fourth_norms, np.array([float(rounds)]), width
    )
    assert math.sqrt(rounds) < bound < 1.15 * math.sqrt(rounds)
