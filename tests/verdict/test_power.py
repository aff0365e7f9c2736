"""The power of an audit by simulation."""

import numpy as np
import pytest

from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    GaussianCanaryNull,
    valid_methods,
)
from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.verdict import Claim
from fl_audit.verdict.power import SimulatedAudit, hardest_null


@pytest.mark.parametrize(
    ("method", "null", "epsilon", "num_canaries"),
    [("threshold_valid", "closed_form", 2.0, 300), ("one_run_valid", "empirical", 2.0, 1500)],
)
def test_power_is_how_often_bounds_exceed_the_claim(method, null, epsilon, num_canaries):
    claim = Claim(epsilon, 1e-4)
    known = 1 if null == "closed_form" else None
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
    audit = SimulatedAudit(Claim(3.0, 1e-3), valid_methods(), 0.025, 1)
    needed = audit.canaries_needed(at_least=100)
    assert audit.power(needed) > 0.7  # 100 trials against 200, each with a deviation of 0.04
    assert audit.power(needed // 2) < 0.75


def test_scores_of_included_canaries_alone_can_be_enough():
    audit = SimulatedAudit(Claim(2.0, 1e-3), valid_methods(), 0.025, 1, 1.0)
    assert audit.power(2000) > 0.9


def test_a_maximum_of_many_rounds_takes_more_than_one_vector():
    one, hundred = (
        SimulatedAudit(Claim(2.0, 1e-3), ("threshold_valid",), 0.05, vectors).power(500)
        for vectors in (1, 100)
    )
    # 200 trials each: a standard error of at most 0.035.
    assert one - hundred > 0.3


def test_the_hardest_null_is_an_unknown_one_then_that_of_most_vectors():
    assert hardest_null([1, None, 100]) is None
    assert hardest_null([1, 100, 3]) == 100
