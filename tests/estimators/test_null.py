"""The null distribution: bounds that bound, values that are refused, and tests of it."""

import math

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators.distributions import ExactCosine
from fl_audit.estimators.null import (
    AtMostNull,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    Null,
    ScaledNull,
    SignCanaryNull,
    _large_squares_p_value,
    _mean_p_value,
    _small_squares_p_value,
    unit_of,
)
from fl_audit.estimators.random_signs import Concentration, concentration_of

FOUR_ONES = Concentration(cubes=0.5, fourth_powers=0.25)


@pytest.mark.parametrize("dim", [2, 4, 20, 10**7])
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


def test_largest_of_rounds_adds_up_what_rounds_allow():
    one, other = GaussianCanaryNull(100), SignCanaryNull(50, FOUR_ONES)
    scores = np.linspace(-0.9, 0.9, 41).reshape(1, 41)
    found = LargestOfRoundsNull((one, other, one)).log_tail_upper(scores)
    tails = 2 * np.exp(one.log_tail_upper(scores)) + np.exp(other.log_tail_upper(scores))
    assert np.exp(found) == pytest.approx(np.minimum(tails, 1), rel=1e-12)
    alone = one.log_tail_upper(scores)
    assert LargestOfRoundsNull((one,)).log_tail_upper(scores) == pytest.approx(alone, rel=1e-15)
    assert ScaledNull(one, 2.0).log_tail_upper(2 * scores) == pytest.approx(alone, rel=1e-15)
    at_most = AtMostNull(one).log_tail_upper(scores)
    assert at_most == pytest.approx(np.where(scores > 0, alone, 0), rel=1e-15)


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
        (lambda: SignCanaryNull(1), "dim must be in 2 to 2.53, got 1"),
        (lambda: SignCanaryNull(3, FOUR_ONES), "fourth_powers must be at least 1 / dim = 0.333"),
        (lambda: LargestOfRoundsNull(()), "rounds must hold at least one null"),
        (lambda: LargestOfRoundsNull(([],)), "a null must be hashable, such as a frozen dataclass"),
        (lambda: Null(tail=AtMostNull([])), "a null must be hashable, such as a frozen dataclass"),
    ],
)
def test_refuses_what_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Tests of the null by excluded scores: valid by exact chances, and strong where they must be.


@pytest.mark.parametrize("n", [1, 10, 10_000])
def test_moments_of_gaussian_scores_by_their_exact_laws(n):
    """A Gaussian is the limit of all these cosines, and the extreme case of two of the tests."""
    for mean in (1.01, 1.3, 2.0, 10.0):
        exact = stats.chi2.sf(n * mean, n)
        assert exact <= _large_squares_p_value(np.full(n, math.sqrt(mean))) * (1 + 1e-9)
    for mean in (0.0, 0.1, 0.7, 0.99):
        exact = stats.chi2.cdf(n * mean, n)
        assert exact <= _small_squares_p_value(np.full(n, math.sqrt(mean))) * (1 + 1e-9)
    for shift in (0.01, 0.3, 2.0):
        exact = 2 * special.ndtr(-shift * math.sqrt(n))
        assert exact <= _mean_p_value(np.full(n, shift)) * (1 + 1e-9)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("ones", "n"), [(1, 40), (2, 12), (4, 6)])
def test_p_values_of_signs_on_few_coordinates_over_all_outcomes(ones, n, known):
    # The score of a canary has ones + 1 values; every multiset of n of them, with its chance.
    dim = 64
    null = SignCanaryNull(dim, concentration_of(np.ones(ones)) if known else None)
    values = (2 * np.arange(ones + 1) - ones) / math.sqrt(ones * dim)
    chances = stats.binom.pmf(np.arange(ones + 1), ones, 0.5)
    found = []
    for counts in compositions(n, ones + 1):
        scores = np.repeat(values, counts)
        found.append((null.p_value(scores), stats.multinomial.pmf(counts, n, chances)))
    p_values, masses = np.array(found).T
    assert masses.sum() == pytest.approx(1)
    for level in np.unique(p_values[p_values < 1]):
        assert masses[p_values <= level].sum() <= level * (1 + 1e-9)


def compositions(total, parts):
    """All ways to write the total as that many counts."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def cosines(rng, n, dim):
    """Of uniform directions."""
    numbers = rng.normal(size=n)
    return numbers / np.sqrt(numbers**2 + rng.chisquare(dim - 1, n))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dim", [2, 64, 10**6])
@pytest.mark.parametrize("n", [1, 30, 1000])
def test_true_nulls_stand(dim, n):
    # More p-values below 5 % than the limit have probability below 1e-6 if that is their level.
    rng, runs = np.random.default_rng(9), 200
    nulls = {
        "exact": GaussianCanaryNull(dim),
        "any": SignCanaryNull(dim),
        "rounds": LargestOfRoundsNull((SignCanaryNull(dim),) * 3),
    }
    samples = [cosines(rng, n, dim) for _ in range(runs)]
    for name, null in nulls.items():
        small = sum(null.p_value(sample) <= 0.05 for sample in samples)
        assert small <= stats.binom.isf(1e-6, runs, 0.05), name


@pytest.mark.parametrize("end", [1.0, -1.0])
def test_one_cosine_rounded_to_an_end_refutes_no_true_null(end):
    # In dimension 2 a cosine of a random angle exceeds 1 - 1e-6 with probability 4.5e-4.
    scores = np.append(np.cos(np.pi * (np.arange(9) + 0.5) / 9), end)
    assert GaussianCanaryNull(2).p_value(scores) > 0.01


@pytest.mark.parametrize("null", [GaussianCanaryNull, SignCanaryNull])
@pytest.mark.parametrize(
    ("scores", "wrong_dim"),
    [
        # Pure noise of dimension 1,000, as the issue has it, with few scores and with many.
        (np.random.default_rng(1).normal(size=5) / math.sqrt(1000), 4_050_748),
        (np.random.default_rng(1).normal(size=500) / math.sqrt(1000), 4_050_748),
        (np.random.default_rng(1).normal(size=500) / math.sqrt(1000), 2000),
        (np.random.default_rng(1).normal(size=500) / math.sqrt(1000), 500),
        (np.random.default_rng(1).normal(0.4, 1, 500) / math.sqrt(1000), 1000),
        (np.zeros(90), 1000),
        (np.full(90, 1e-3), 1000),
        (np.full(30, -1e-3), 10**4),
    ],
)
def test_wrong_nulls_fall(null, scores, wrong_dim):
    assert null(wrong_dim).p_value(scores) < 1e-6


def test_a_known_law_of_the_right_variance_and_another_shape_falls():
    # Half of the scores at +1, half at -1 deviation: mean 0, variance right, and no cosines of
    # uniform directions; but cosines of signs with one coordinate.
    scores = np.repeat([-0.1, 0.1], 250)
    assert GaussianCanaryNull(100).p_value(scores) < 1e-6
    assert SignCanaryNull(100, concentration_of([1.0])).p_value(scores) > 0.05


class OwnTail:
    """A null from outside the package, which need not say its unit."""

    description = "what somebody else knows"

    def log_tail_upper(self, thresholds):
        return np.zeros_like(np.asarray(thresholds, dtype=np.float64))

    def p_value(self, excluded):
        del excluded
        return 1.0


def test_the_unit_is_the_standard_deviation_of_a_score():
    dim = 50  # a sum of squares x_i^2 / d over a vector of length 1 is the variance of a cosine
    assert unit_of(SignCanaryNull(dim)) == pytest.approx(dim**-0.5, rel=1e-15)
    assert unit_of(GaussianCanaryNull(dim)) == unit_of(SignCanaryNull(dim))
    assert unit_of(ScaledNull(SignCanaryNull(dim), 3.0)) == 3 * unit_of(SignCanaryNull(dim))
    assert unit_of(AtMostNull(ScaledNull(SignCanaryNull(dim), 3.0))) == 3 / np.sqrt(dim)
    assert unit_of(LargestOfRoundsNull((SignCanaryNull(dim),) * 4)) == 1 / np.sqrt(dim)


def test_a_null_from_outside_says_its_unit_or_none():
    tail = OwnTail()
    assert unit_of(ScaledNull(tail, 2.0)) is None
    tail.unit = 0.25
    assert unit_of(ScaledNull(tail, 2.0)) == 0.5
