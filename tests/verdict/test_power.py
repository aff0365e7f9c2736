"""The power of an audit by simulation, and the region that it uses for the one-run test."""

import numpy as np
import pytest

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.verdict import VALID_METHODS, Claim
from fl_audit.verdict.one_run_region import one_run_region
from fl_audit.verdict.power import SimulatedAudit

LEVEL = 0.05 / 8


@pytest.mark.parametrize(
    ("epsilon", "delta", "num_canaries", "margin"),
    # The margin: 0.01 of the boundary, and what the estimator gains by trying larger epsilons.
    [(1.0, 1e-5, 400, 0.02), (2.0, 1e-4, 1001, 0.02), (3.0, 1e-3, 250, 0.2)],
)
def test_the_one_run_region_is_where_the_bound_exceeds_the_claim(
    epsilon, delta, num_canaries, margin
):
    region = one_run_region(Claim(epsilon, delta), num_canaries, LEVEL)
    rng = np.random.default_rng(1)
    rejected = 0
    for shift in np.repeat(np.linspace(0.5, 4.0, 12), 4):
        bits = rng.integers(0, 2, num_canaries)
        values = shift * bits + rng.standard_normal(num_canaries)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        setting = AuditSetting(scores, delta, 1 - LEVEL, None, "empirical")
        bound = METHODS["one_run_valid"](setting).epsilon
        rejected += region.rejects(scores)
        if region.rejects(scores):
            assert bound > epsilon - 1e-5
        else:
            assert bound < epsilon + margin
    assert 5 < rejected < 43


def test_no_region_rejects_where_none_can():
    region = one_run_region(Claim(20.0, 1e-5), 50, LEVEL)
    assert not region.rejects(CanaryScores(np.arange(100.0, 125.0), np.arange(25.0)))


@pytest.mark.parametrize(
    ("method", "null", "epsilon", "num_canaries"),
    [("threshold_valid", "closed_form", 2.0, 300), ("one_run_valid", "empirical", 2.0, 1500)],
)
def test_power_is_how_often_bounds_exceed_the_claim(method, null, epsilon, num_canaries):
    claim = Claim(epsilon, 1e-4)
    power = SimulatedAudit(claim, (method,), 0.05, null).power(num_canaries)
    dim = 10**8 if null == "closed_form" else None
    mechanism, rng, runs = gaussian(2 * epsilon, 1e-4, dim), np.random.default_rng(9), 200
    exceeding = 0
    for _ in range(runs):
        bits = rng.permutation(np.repeat([0, 1], num_canaries // 2))
        values = mechanism.release(rng, bits)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        setting = AuditSetting(scores, 1e-4, 0.95, dim, null)
        exceeding += METHODS[method](setting).epsilon > epsilon
    assert 0.05 < power < 0.95  # where a wrong simulation would show
    # Two samples of 200: five standard deviations, exceeded with probability below 1e-6.
    assert abs(power - exceeding / runs) < 5 * (2 * 0.25 / runs) ** 0.5


def test_canaries_needed_have_the_power_and_half_of_them_do_not():
    audit = SimulatedAudit(Claim(3.0, 1e-3), VALID_METHODS, 0.025, "closed_form")
    needed = audit.canaries_needed(at_least=100)
    assert audit.power(needed) > 0.7  # 100 trials against 200, each with a deviation of 0.04
    assert audit.power(needed // 2) < 0.75


def test_scores_of_included_canaries_alone_can_be_enough():
    audit = SimulatedAudit(Claim(2.0, 1e-3), VALID_METHODS, 0.025, "closed_form", 1.0)
    assert audit.power(2000) > 0.9
