"""What is measured of the noise of rounds: against linear algebra, brute force and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.checks.noise_rows import (
    EXPECTED,
    THRESHOLDS,
    NoiseRows,
    NoiseWatch,
    SilentCoordinates,
    exceeding,
    lengths_beyond_past,
    log_p_so_few,
    nearest_rounds,
    row_size,
    sketch,
    sketch_size,
)
from tests.seeds_tried import some


@pytest.mark.parametrize("dim", [2, 7, 1023, 1024, 5001])
def test_a_sketch_is_a_product_with_orthonormal_rows(dim):
    matrix = np.stack([sketch(row) for row in np.eye(dim, dtype=np.float32)], axis=1)
    assert matrix.shape == (sketch_size(dim), dim)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-6)
    vector = np.random.default_rng(1).normal(size=dim).astype(np.float32)
    np.testing.assert_allclose(sketch(vector), matrix @ vector, atol=1e-4)
    np.testing.assert_array_equal(sketch(vector[::-1]), np.roll(sketch(vector), len(matrix) // 2))


def rest_of(vector, others):
    solved = np.linalg.lstsq(others.T, vector, rcond=None)[0]
    return float(np.sum((vector - others.T @ solved) ** 2))


def test_components_beyond_the_past_are_those_of_least_squares():
    """In 40 rounds of 48 numbers a window is 6 rounds; of 8 numbers it is one."""
    for size, window in ((48, 6), (8, 1)):
        sketches = np.random.default_rng(2).normal(size=(40, size))
        lengths, dof = lengths_beyond_past(sketches)
        for at in range(1, 40):
            first = max(0, at // window * window - window)
            older = [sketches[:first].sum(axis=0)] if first else []
            others = np.array([*older, *sketches[first:at]])
            assert dof[at] == size - len(others)
            assert lengths[at] == pytest.approx(rest_of(sketches[at], others))


@pytest.mark.parametrize("rounds", [1, 5, 40])
def test_the_nearest_round_is_that_of_brute_force(rounds):
    sketches = np.random.default_rng(3).normal(size=(rounds, 20))
    sketches[-1] = -2 * np.roll(sketches[0], 10)
    found = nearest_rounds(sketches)
    assert found.rounds[0] == -1
    assert found.lengths[0] == pytest.approx(np.sum(sketches[0] ** 2))
    for at in range(1, rounds):
        each = [
            min(rest_of(sketches[at], one[None]) for one in (other, np.roll(other, 10)))
            for other in sketches[:at]
        ]
        assert found.lengths[at] == pytest.approx(min(each), abs=1e-9)
        assert found.rounds[at] == int(np.argmin(each))
    if rounds > 1:
        assert (found.rounds[-1], found.lengths[-1]) == (0, pytest.approx(0, abs=1e-20))


def test_sums_beyond_the_past_are_chi_square_whatever_clients_do():
    """Clients send the negative of the last sketch: 50 runs of 30 rounds, mean within 5 errors."""
    random, lengths, dof = np.random.default_rng(4), 0.0, 0.0
    for _ in range(50):
        rows = []
        for _ in range(30):
            past = rows[-1] if rows else np.zeros(64)
            rows.append(random.normal(size=64) - 0.9 * past)
        of_components, freedom = lengths_beyond_past(np.array(rows))
        lengths, dof = lengths + of_components.sum(), dof + freedom.sum()
    assert abs(lengths - dof) < 5 * math.sqrt(2 * dof)


# Single coordinates.


def test_silent_coordinates_are_bounded_by_binomial_tails():
    """Of models of 50 numbers over 30 rounds, p falls to 0.1 in no more than 10 %."""
    random, below = np.random.default_rng(5), 0
    models = some(range(200), 50)
    for _ in models:
        silent = SilentCoordinates()
        p = [silent.see_round(random.normal(size=50).astype(np.float32), 1.0) for _ in range(30)]
        below += sum(one.log_p <= math.log(0.1) for one in p)
    assert below <= len(models) * 30 * 0.1


@pytest.mark.parametrize("first", [0, 20, 100])
def test_a_coordinate_that_falls_silent_is_found_after_some_rounds(first):
    random, silent = np.random.default_rng(8), SilentCoordinates()
    for index in range(first + 50):
        noise = random.normal(size=5000).astype(np.float32)
        if index >= first:
            noise[3] = 0.05 * random.normal()
        found = silent.see_round(noise, 1.0)
        if found.log_p < math.log(1e-8):
            break
    assert first + 20 < index < first + 45


def test_so_few_large_coordinates_are_as_likely_as_binomial_tails():
    """The exact tail is below the bound, at each threshold, for counts from none to all."""
    trials = 1000
    for at, chance in enumerate(EXPECTED):
        counts = np.arange(0, trials + 1, 10.0)
        table = np.full((len(counts), len(EXPECTED)), trials, np.float64)
        table[:, at] = counts
        bound = log_p_so_few(table, np.full((len(counts), 1), trials))[:, at]
        assert (bound >= stats.binom.logcdf(counts, trials, chance) - 1e-9).all()


@pytest.mark.parametrize("shift", [0.0, 0.3, 5.0])
def test_coordinates_exceed_thresholds_as_often_as_noise_or_more(shift):
    noise = np.random.default_rng(9).normal(size=100_000) + shift
    rounded = np.round(4 * noise) / 4
    for vector in (noise, rounded):
        share = exceeding(vector.astype(np.float32), 1.0) / len(vector)
        error = np.sqrt(EXPECTED * (1 - EXPECTED) / len(vector))
        assert (share > EXPECTED - 5 * error).all()
    assert exceeding(np.zeros(5, np.float32), 1.0).tolist() == [0] * len(THRESHOLDS)


# Rows.


def test_a_row_has_no_frozen_coordinate():
    vector = np.random.default_rng(1).normal(size=300).astype(np.float32)
    frozen = np.append(vector, np.zeros(100, np.float32))
    row = NoiseWatch((300, 100), [1]).row(0, frozen, 1.0, 0.0)
    np.testing.assert_array_equal(row, NoiseWatch((300,)).row(0, vector, 1.0, 0.0))
    assert row.shape == (row_size(300),)
    rows = NoiseRows(row[None].astype(np.float64), 300)
    np.testing.assert_allclose(rows.sketches[0], sketch(vector), rtol=1e-6)
    np.testing.assert_array_equal(rows.exceeding[0], exceeding(vector, 1.0))


def test_a_round_that_comes_again_replaces_what_was_followed():
    random, watch = np.random.default_rng(2), NoiseWatch((300,))
    vectors = random.normal(size=(3, 300)).astype(np.float32)
    for index in (0, 1, 0):
        row = watch.row(index, vectors[index], 1.0, 0.0)
    np.testing.assert_array_equal(row, NoiseWatch((300,)).row(0, vectors[0], 1.0, 0.0))
