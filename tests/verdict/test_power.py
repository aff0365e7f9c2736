"""The power of an audit by simulation."""

import numpy as np
import pytest

from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    ScaledNull,
    SignCanaryNull,
    valid_methods,
)
from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.verdict import Claim, ScoredStatistic
from fl_audit.verdict.power import SimulatedAudit
from fl_audit.verdict.standard_null import SIMULATED_DIM, hardest, standard_null

OF_ONE = GaussianCanaryNull(SIMULATED_DIM)


@pytest.mark.parametrize(
    ("method", "null", "epsilon", "num_canaries"),
    [
        ("threshold_valid", "closed_form", 2.0, 300),
        pytest.param("one_run_valid", "empirical", 2.0, 1500, marks=pytest.mark.slow),
    ],
)
def test_power_is_how_often_bounds_exceed_the_claim(method, null, epsilon, num_canaries):
    claim = Claim(epsilon, 1e-4)
    known = OF_ONE if null == "closed_form" else None
    power = SimulatedAudit(claim, (method,), 0.05, known).power(num_canaries)
    dim = 10**8 if null == "closed_form" else None
    mechanism, rng, runs = gaussian(2 * epsilon, 1e-4, dim), np.random.default_rng(9), 200
    exceeding = 0
    for _ in range(runs):
        bits = rng.permutation(np.repeat([0, 1], num_canaries // 2))
        values = mechanism.release(rng, bits)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        tail = None if dim is None else GaussianCanaryNull(dim)
        setting = AuditSetting(scores, 1e-4, 0.95, dim, null, tail)
        exceeding += METHODS[method](setting).epsilon > epsilon
    assert 0.05 < power < 0.95  # where a wrong simulation would show
    # Two samples of 200: five standard deviations, exceeded with probability below 1e-6.
    assert abs(power - exceeding / runs) < 5 * (2 * 0.25 / runs) ** 0.5


def test_canaries_needed_have_the_power_and_half_of_them_do_not():
    audit = SimulatedAudit(Claim(3.0, 1e-3), valid_methods(), 0.025, OF_ONE)
    needed = audit.canaries_needed(at_least=100)
    assert audit.power(needed) > 0.7  # 100 trials against 200, each with a deviation of 0.04
    assert audit.power(needed // 2) < 0.75


def test_scores_of_included_canaries_alone_can_be_enough():
    audit = SimulatedAudit(Claim(2.0, 1e-3), valid_methods(), 0.025, OF_ONE, 1.0)
    assert audit.power(2000) > 0.9


def test_a_maximum_of_many_rounds_takes_more_than_one_vector():
    one, hundred = (
        SimulatedAudit(Claim(2.0, 1e-3), ("threshold_valid",), 0.05, null).power(500)
        for null in (OF_ONE, LargestOfRoundsNull(100 * (OF_ONE,)))
    )
    # 200 trials each: a standard error of at most 0.035.
    assert one - hundred > 0.3


def known_by(tail, dim=1000):
    scores = CanaryScores(np.array([0.01, 0.02]), np.array([0.0, -0.01]))
    null = "empirical" if tail or dim is None else "closed_form"
    return ScoredStatistic(None, scores, null, dim, tail)


def test_the_hardest_null_is_an_unknown_one_then_the_heaviest():
    of_one, of_signs = GaussianCanaryNull(1000), SignCanaryNull(1000)
    one, hundred, signs = map(
        known_by, (of_one, LargestOfRoundsNull(100 * (of_one,)), ScaledNull(of_signs, 3.0))
    )
    unknown = known_by(None, None)
    assert hardest([one, unknown, hundred]) == [unknown]
    assert hardest([one, hundred, signs]) == [hundred]
    assert hardest([one, signs]) == [signs]
    assert hardest([one, one]) == [one, one]
    assert standard_null(unknown) is None


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_a_null_in_standard_units_is_the_same_law(scale):
    z = np.array([0.5, 2.0, 6.0])
    for tail in (GaussianCanaryNull(4000), SignCanaryNull(4000)):
        several = LargestOfRoundsNull((tail, tail))
        for law in (tail, ScaledNull(tail, scale), several):
            unit = (scale if isinstance(law, ScaledNull) else 1.0) / np.sqrt(4000)
            found = standard_null(known_by(law, 4000)).log_tail_upper(z / np.sqrt(SIMULATED_DIM))
            np.testing.assert_allclose(found, law.log_tail_upper(z * unit), rtol=1e-9)


def test_power_counts_what_the_null_law_leaves_unknown():
    claim, mechanism = Claim(2.0, 1e-3), gaussian(4.0, 1e-3, 10**6)
    exact, any_family = (
        SimulatedAudit(claim, ("threshold_valid",), 0.05, standard_null(known_by(tail, 10**6)))
        for tail in (GaussianCanaryNull(10**6), None)
    )
    power = any_family.power(1000)
    assert exact.power(1000) == 1.0
    assert 0.05 < power < 0.5
    rng, bits, exceeding = np.random.default_rng(5), np.repeat([0, 1], 500), 0
    for _ in range(100):
        values = mechanism.release(rng, bits)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        setting = AuditSetting(scores, 1e-3, 0.95, 10**6, "closed_form")
        exceeding += METHODS["threshold_valid"](setting).epsilon > claim.epsilon
    # 200 and 100 samples: five standard deviations, exceeded with probability below 1e-6.
    assert abs(power - exceeding / 100) < 5 * (0.25 / 200 + 0.25 / 100) ** 0.5
