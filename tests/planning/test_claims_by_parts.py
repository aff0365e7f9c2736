"""Plans of claims that the verdict tests by accounting or by their parts."""

import dataclasses
import functools

import pytest

from fl_audit.planning.planned_power import claim_power
from tests.planning.planned_runs import planned, small_config

POISSON = {
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 2.0, "clip_norm": 0.5},
    "participation": {"kind": "bernoulli", "rounds": 20, "clients_per_round": 10},
}


@functools.cache
def _power(claimed):
    audit = {
        "claimed_epsilon": claimed,
        "threat_models": ["all_iterates", "known_rounds"],
        "verdict_method": "threshold_valid",
    }
    run = planned(small_config({**POISSON, "canaries": {"count": 300}, "audit": audit}))
    return claim_power(run, 3)


def test_a_claim_below_what_the_noise_gives_is_contradicted_by_accounting():
    power = _power(0.05)
    assert power.accounting is not None
    assert {fault.contradicted for fault in power.faults} == {1.0}


def test_a_claim_that_counts_on_sampling_is_planned_by_its_parts():
    power = _power(0.05)
    given = float(power.accounting)
    right = _power(given)
    assert right.accounting is None
    assert given < right.detectable_epsilon <= right.parts.epsilon
    as_configured, half, none = (fault.contradicted for fault in right.faults)
    assert as_configured <= 0.05
    assert half == pytest.approx(1.0, abs=0.05)
    assert none == 1.0
    alone = dataclasses.replace(right, parts=None).detectable_epsilon
    assert alone is None or right.detectable_epsilon <= alone
