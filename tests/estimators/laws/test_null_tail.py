"""What is known of excluded canaries: bounds that bound, and values that are refused."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.distributions import ExactCosine
from fl_audit.estimators.null import GaussianCanaryNull, LargestOfRoundsNull, SignCanaryNull
from fl_audit.estimators.random_signs import Concentration, concentration_of

FOUR_ONES = Concentration(cubes=0.5, fourth_powers=0.25)


@pytest.mark.parametrize("dim", [2, 3, 64, 999, 1000, 10**6, 2**53])
def test_gaussian_canaries_have_the_exact_law_in_every_dimension(dim):
    cosines = np.clip(np.linspace(-8, 8, 161) / math.sqrt(dim), -1, 1 - 1e-6)
    found = GaussianCanaryNull(dim).log_tail_upper(cosines)
    assert np.array_equal(found, ExactCosine(dim).logsf(cosines))


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 20, 64, 1000, 10**7])
def test_the_bound_for_any_canary_holds_for_uniform_directions(dim):
    cosines = np.clip(np.linspace(-40, 40, 4001) / math.sqrt(dim), -1, 1 - 1e-6)
    exact = ExactCosine(dim).logsf(cosines)
    assert np.all(exact <= SignCanaryNull(dim).log_tail_upper(cosines))


@pytest.mark.parametrize("ones", [1, 2, 4, 8])
@pytest.mark.parametrize("known", [True, False])
def test_the_bound_for_signs_holds_at_atoms_that_rounding_lifted(ones, known):
    dim = 64
    scores = (2 * np.arange(ones + 1) - ones) / math.sqrt(ones * dim)
    exact = stats.binom.logsf(np.arange(ones + 1) - 1, ones, 0.5)
    null = SignCanaryNull(dim, concentration_of(np.ones(ones)) if known else None)
    for lifted in (scores, scores + 1e-7):
        assert np.all(exact <= null.log_tail_upper(lifted) + 1e-12)


def test_a_cosine_rounded_to_1_is_no_proof():
    for null in (GaussianCanaryNull(2), SignCanaryNull(2), SignCanaryNull(10)):
        found = null.log_tail_upper(np.array([1.0, 1 + 1e-7]))
        assert np.all(np.isfinite(found))
        assert found[0] == found[1]


def test_largest_of_rounds_adds_up_what_rounds_allow():
    one, other = GaussianCanaryNull(100), SignCanaryNull(50, FOUR_ONES)
    scores = np.linspace(-0.9, 0.9, 41).reshape(1, 41)
    found = LargestOfRoundsNull((one, other, one)).log_tail_upper(scores)
    tails = 2 * np.exp(one.log_tail_upper(scores)) + np.exp(other.log_tail_upper(scores))
    assert np.exp(found) == pytest.approx(np.minimum(tails, 1), rel=1e-12)
    assert LargestOfRoundsNull((one,)).log_tail_upper(scores) == pytest.approx(
        one.log_tail_upper(scores), rel=1e-15
    )


def test_largest_of_rounds_far_out_keeps_its_digits():
    null = LargestOfRoundsNull((GaussianCanaryNull(10**6),) * 2000)
    found = float(null.log_tail_upper(0.05))
    assert found == pytest.approx(math.log(2000) + float(ExactCosine(10**6).logsf(0.05)), rel=1e-14)


def test_the_largest_of_dependent_rounds_stays_within_the_bound():
    # Rounds with one and the same target: the largest is the score itself. And independent ones.
    rng, runs, rounds, dim = np.random.default_rng(5), 20_000, 10, 64
    null = LargestOfRoundsNull((GaussianCanaryNull(dim),) * rounds)
    independent = rng.normal(size=(runs, rounds))
    independent /= np.sqrt(independent**2 + rng.chisquare(dim - 1, (runs, rounds)))
    thresholds = np.linspace(0, 0.5, 11)
    for scores in (independent.max(axis=1), independent[:, 0]):
        reached = np.sum(scores[:, None] >= thresholds, axis=0)
        # By chance in one of 22 comparisons with probability below 1e-6.
        assert np.all(
            reached <= stats.binom.isf(1e-8, runs, np.exp(null.log_tail_upper(thresholds)))
        )


@pytest.mark.parametrize(
    "null",
    [
        GaussianCanaryNull(1000),
        SignCanaryNull(1000),
        SignCanaryNull(1000, FOUR_ONES),
        LargestOfRoundsNull((SignCanaryNull(1000),) * 3),
    ],
)
def test_all_are_values_that_never_rise(null):
    scores = np.linspace(-1, 1, 5001)
    found = null.log_tail_upper(scores)
    assert np.all(np.diff(found) <= 1e-12)
    assert found.max() <= 0
    assert null.log_tail_upper(0.1).shape == ()
    assert hash(null) == hash(null)
    assert "1,000" in null.description


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianCanaryNull(1), "dim must be in"),
        (lambda: SignCanaryNull(1), "dim must be at least 2, got 1"),
        (lambda: SignCanaryNull(3, FOUR_ONES), "fourth_powers must be at least 1 / dim = 0.333"),
        (lambda: LargestOfRoundsNull(()), "rounds must hold at least one null"),
    ],
)
def test_refuses_what_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
