"""The shift fit against closed forms, brute force, and mechanisms of known epsilon."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from fl_audit.estimators import AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.gaussian.shift_fit import (
    epsilon_of_largest,
    shift_fit,
    standard_scores,
)
from fl_audit.estimators.null import (
    GaussianCanaryNull,
    LargestOfRoundsNull,
    Null,
    ScaledNull,
    SignCanaryNull,
)

DIM = 10**6
DELTA = 1e-3
NULL = GaussianCanaryNull(DIM)


def setting(included, excluded, rounds=1, null=NULL):
    if rounds > 1:
        null = LargestOfRoundsNull((null,) * rounds)
    scores = CanaryScores(np.asarray(included) / 1000, np.asarray(excluded) / 1000)
    return AuditSetting(scores, DELTA, 0.95, Null(tail=null, dim=DIM))


def largest(rng, count, rounds):
    """The largest of so many values N(0, 1)."""
    return -special.ndtri_exp(np.log(-np.expm1(-rng.exponential(size=count) / rounds)))


def with_one_shifted(rng, count, rounds, shifts):
    own = shifts + rng.normal(size=count)
    return own if rounds == 1 else np.maximum(largest(rng, count, rounds - 1), own)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shift", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("rounds", [1, 2, 30, 2000])
def test_epsilon_of_the_largest_by_quadrature(rounds, shift):
    # delta(epsilon) is the integral of (p1 - e^epsilon p0) where it is positive, and exchanged.
    x = np.linspace(-10, shift + 12, 100_001)
    null = rounds * stats.norm.pdf(x) * stats.norm.cdf(x) ** (rounds - 1)
    shifted = stats.norm.cdf(x) ** (rounds - 1) * stats.norm.pdf(x - shift) + (
        rounds - 1
    ) * stats.norm.pdf(x) * stats.norm.cdf(x) ** (rounds - 2) * stats.norm.cdf(x - shift)
    for delta in (1e-2, 1e-6):
        found = epsilon_of_largest(rounds, shift, delta)
        deltas = [
            integrate.simpson(np.maximum(one - math.exp(found) * other, 0), x=x)
            for one, other in ((shifted, null), (null, shifted))
        ]
        if found > 0:
            assert max(deltas) == pytest.approx(delta, rel=1e-4)
        else:
            assert max(deltas) <= delta * (1 + 1e-6)


def test_interval_for_one_vector_is_students_where_canaries_differ():
    rng = np.random.default_rng(1)
    included = 3 + 2 * rng.normal(size=30)
    made = shift_fit(setting(included, rng.normal(size=30)))
    half = stats.t.ppf(0.975, 29) * np.std(included, ddof=1) / math.sqrt(30)
    mean = np.mean(included)
    assert made.details["shift"] == pytest.approx(mean, rel=1e-4)
    assert made.epsilon == pytest.approx(epsilon_of_mu(mean, DELTA), rel=1e-4)
    assert made.lower == pytest.approx(epsilon_of_mu(mean - half, DELTA), rel=1e-3)
    assert made.upper == pytest.approx(epsilon_of_mu(mean + half, DELTA), rel=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("rounds", "epsilon", "runs"),
    [
        (1, 16, 40),
        (20, 4, 40),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1, 0.5, 200), (1, 16, 200), (100, 16, 40))
        ),
    ],
)
def test_interval_covers_the_truth(rounds, epsilon, runs):
    # Failure below 1e-6: fewer than 171 of 200 or 28 of 40 at 95 %.
    rng = np.random.default_rng(2)
    shift = optimize.brentq(lambda m: epsilon_of_mu(m, DELTA) - epsilon, 0.01, 50)
    truth = epsilon_of_largest(rounds, shift, DELTA)
    covered = 0
    for _ in range(runs):
        included = with_one_shifted(rng, 50, rounds, shift)
        made = shift_fit(setting(included, largest(rng, 50, rounds), rounds))
        covered += made.lower <= truth <= made.upper
    assert covered >= {200: 171, 40: 28}[runs]


@pytest.mark.parametrize("rounds", [1, 100])
def test_uneven_shifts_stay_below_the_largest(rounds):
    # Shifts from 1.5 to 4: the largest is the guarantee, the mean is what is fitted.
    rng = np.random.default_rng(3)
    shifts = np.linspace(1.5, 4, 500)
    made = shift_fit(
        setting(with_one_shifted(rng, 500, rounds, shifts), largest(rng, 500, rounds), rounds)
    )
    assert made.upper < epsilon_of_largest(rounds, 4.0, DELTA)
    assert made.details["spread"] > 1
    assert made.details["shift"] == pytest.approx(2.75, abs=0.5)


def test_rounds_that_are_alike_count_as_fewer():
    rng = np.random.default_rng(4)
    made = shift_fit(setting(with_one_shifted(rng, 400, 7, 4.0), largest(rng, 400, 7), 500))
    assert made.details["rounds"] == pytest.approx(7, rel=0.3)
    assert made.lower < epsilon_of_largest(7, 4.0, DELTA) < made.upper


def test_refuted_null_is_not_used():
    rng = np.random.default_rng(7)
    made = shift_fit(setting(50 + 20 * rng.normal(size=200), 20 * rng.normal(size=200)))
    assert made.details["null"] == "empirical"
    assert made.details["shift"] == pytest.approx(2.5, abs=0.3)


@pytest.mark.parametrize(("member", "shift"), [(0.0, -math.inf), (1.0, 0.0), (2.0, math.inf)])
def test_groups_without_spread_allow_every_shift(member, shift):
    scores = CanaryScores([member] * 2, [1.0] * 2)
    made = shift_fit(AuditSetting(scores, DELTA, 0.95, Null("empirical")))
    found = [made.details[name] for name in ("shift_lower", "shift", "shift_upper")]
    assert found == [-math.inf, shift, math.inf]
    assert (made.lower, made.epsilon, made.upper) == (0.0, max(shift, 0.0), math.inf)


@pytest.mark.parametrize("dim", [2, 64])
def test_scores_of_an_excluded_canary_are_standard_normal(dim):
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(2000, dim))
    cosines = vectors[:, 0] / np.linalg.norm(vectors, axis=1)
    null = ScaledNull(SignCanaryNull(dim), 4.0)
    found = standard_scores(CanaryScores(4 * cosines[:1000], 4 * cosines[1000:]), null)
    assert found.rounds == 1
    for part in (found.included, found.excluded):
        assert stats.kstest(part, "norm").pvalue > 1e-6


def test_a_null_of_another_kind_is_fitted():
    class Own:
        description = "of their own kind"

        def log_tail_upper(self, thresholds):
            return np.zeros_like(thresholds)

        def p_value(self, excluded):
            return 1.0

    rng = np.random.default_rng(9)
    made = shift_fit(setting(1 + rng.normal(size=100), rng.normal(size=100), null=Own()))
    assert made.details["shift"] == pytest.approx(1, abs=0.5)
