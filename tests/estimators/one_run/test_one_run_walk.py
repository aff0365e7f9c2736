"""Crossing chances against enumeration, and the delta term against linear programs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse, special, stats

from fl_audit.estimators.one_run.walk import Boundary, boundary_at, single_bounds
from tests.seeds_tried import examples

SMALL = [
    ([2, 4], [2, 3]),
    ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 5]),
    ([3, 5, 6], [3, 4, 5]),
    ([4, 6, 8], [4, 5, 7]),
    ([4, 5, 6, 7, 8], [4, 5, 6, 6, 7]),
    ([8], [6]),
]


def guess_vectors(n: int) -> np.ndarray:
    """All vectors of n right (1) and wrong (0) guesses."""
    return np.array(list(itertools.product([0, 1], repeat=n)))


def crosses(boundary: Boundary, vectors: np.ndarray) -> np.ndarray:
    """Which vectors of guesses cross a boundary."""
    right = np.cumsum(vectors, axis=1)[:, boundary.totals - 1]
    return np.any(right >= boundary.heights, axis=1)


@st.composite
def boundaries(draw):
    totals = sorted(draw(st.sets(st.integers(1, 10), min_size=1)))
    return Boundary(np.array(totals), np.array([draw(st.integers(1, r)) for r in totals]))


@given(boundaries(), st.floats(0, 8))
@examples(60)
def test_crossing_is_that_of_all_walks(boundary, epsilon):
    vectors = guess_vectors(int(boundary.totals[-1]))
    p, q = special.expit(epsilon), special.expit(-epsilon)
    chances = np.prod(np.where(vectors == 1, p, q), axis=1)
    assert boundary.crossing(epsilon) == pytest.approx(
        chances[crosses(boundary, vectors)].sum(), rel=1e-9
    )


def test_one_number_of_guesses_is_binomial():
    for r, v, epsilon in ((1000, 620, 0.3), (100_000, 73_500, 1.0), (10**6, 10**6, 12.0)):
        chance = stats.binom.sf(v - 1, r, special.expit(epsilon))
        assert Boundary(np.array([r]), np.array([v])).crossing(epsilon) == pytest.approx(
            chance, rel=1e-6
        )


def test_a_boundary_that_only_dropped_paths_reach_has_their_chance():
    found = Boundary(np.array([150]), np.array([150])).crossing(special.logit(0.3), 1e-11)
    assert 0.3**150 <= found <= 1e-11


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_what_is_negligible_counts_as_crossed(epsilon):
    boundary = boundary_at(np.arange(1, 1500), epsilon + 0.1, 0.01)
    exact = boundary.crossing(epsilon)
    rough = boundary.crossing(epsilon, negligible=1e-7)
    assert exact < rough < exact + 1500 * 1e-4
    assert boundary.crossing(epsilon, negligible=1e-12) == pytest.approx(exact, abs=1e-6)


def worst_chance(boundary: Boundary, epsilon: float, m_delta: float) -> float:
    """The largest chance, over all mechanisms, that a boundary is met.

    If the mechanism draws which canary is guessed j-th at random, a law w on right guesses is that
    of some (epsilon, delta)-DP mechanism exactly if the excesses of w over e^epsilon times w with
    guess j flipped, summed over j, are at most m delta.
    """
    n = int(boundary.totals[-1])
    met = crosses(boundary, guess_vectors(n)).astype(float)
    size = len(met)
    here = np.arange(size)
    flipped = np.concatenate([here ^ (1 << j) for j in range(n)])
    k = np.arange(n * size)
    rows = np.concatenate([k, k, k, np.full(n * size, n * size)])
    columns = np.concatenate([np.tile(here, n), flipped, size + k, size + k])
    values = np.repeat([1.0, -math.exp(epsilon), -1.0, 1.0], n * size)
    solved = optimize.linprog(
        np.concatenate([-met, np.zeros(n * size)]),
        sparse.csr_matrix((values, (rows, columns))),
        np.append(np.zeros(n * size), m_delta),
        np.concatenate([np.ones(size), np.zeros(n * size)])[None],
        [1.0],
        method="highs",
    )
    return -float(solved.fun)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("totals", "heights"), SMALL)
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
def test_delta_term_is_an_upper_bound_and_not_a_loose_one(totals, heights, epsilon):
    boundary = Boundary(np.array(totals), np.array(heights))
    worst = worst_chance(boundary, epsilon, 0.01) - boundary.crossing(epsilon)
    claimed = 0.01 * boundary.delta_factor(epsilon)
    assert worst <= claimed + 1e-9
    assert claimed < 3.5 * worst


@pytest.mark.parametrize("r0", [2, 400])
def test_many_numbers_of_guesses_pay_for_delta_together(r0):
    # 0.8 sqrt(e^-epsilon / r0), however many there are; the sum over all would be larger.
    totals = np.arange(r0, 3000)
    boundary = boundary_at(totals, 1.0, 0.01)
    factor = boundary.delta_factor(1.0)
    assert factor < 0.82 * math.sqrt(math.exp(-1) / boundary.totals[0])


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 5.0])
@pytest.mark.parametrize("level", [0.5, 1e-9])
def test_boundary_is_the_fewest_right_guesses_at_the_level(epsilon, level):
    totals = np.array([1, 2, 3, 10, 50, 999])
    boundary = boundary_at(totals, epsilon, level)
    p = special.expit(epsilon)
    expected = {}
    for r in totals.tolist():
        chances = [math.comb(r, k) * p**k * (1 - p) ** (r - k) for k in range(r, -1, -1)]
        tail = list(itertools.accumulate(chances))  # of r, r - 1, ... right guesses or more
        within = sum(chance <= level for chance in tail)
        if within:
            expected[r] = r - within + 1
    assert dict(zip(boundary.totals.tolist(), boundary.heights, strict=True)) == expected


def test_boundary_through_a_count_is_reached_by_it():
    rng = np.random.default_rng(5)
    totals = rng.integers(1, 10**6, 2000)
    correct = rng.integers(0, totals + 1)
    correct[:50] = totals[:50]
    bounds = single_bounds(totals, correct, 0.006)
    assert np.all(np.isneginf(bounds) == (correct == 0))
    for i in np.flatnonzero(correct)[:300]:
        boundary = boundary_at(totals[[i]], bounds[i], 0.006)
        assert boundary.heights[0] == correct[i]


# Walks of all epsilons are followed at one of each range; the ratio of their chances does the rest.
@pytest.mark.sampled(3)
@pytest.mark.parametrize("most", [60, 1000, 30_000])
@pytest.mark.parametrize("negligible", [1e-20, 1e-11])
def test_crossing_is_the_same_from_either_end_of_a_range(most, negligible):
    boundary = boundary_at(np.arange(most // 8, most, most // 30), 1.0, 0.01)
    width = 48 / math.sqrt(boundary.totals[-1])
    for number in (-1, 0, 1):
        end = number * width
        below = boundary.crossing(np.nextafter(end, -np.inf), negligible)
        assert boundary.crossing(end, negligible) == pytest.approx(below, rel=1e-6, abs=1e-8)
    chances = [boundary.crossing(epsilon, negligible) for epsilon in np.linspace(-3, 3, 61)]
    assert np.all(np.diff(chances) > -1e-8)
