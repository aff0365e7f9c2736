"""Plans of claims that the verdict tests by accounting or by their parts."""

import dataclasses
import functools

import pytest

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.planning.planned_power import claim_power, curve_power
from fl_audit.planning.predicted_background import MIDDLE, predicted_background
from fl_audit.planning.prediction import simulated_audits
from fl_audit.verdict import ClaimTests, reach_verdict
from fl_audit.verdict.by_parts import SampledCanaries
from fl_audit.verdict.scope import KNOWS_ROUNDS, Scope
from tests.planning.planned_runs import planned, small_config

POISSON = {
    "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 2.0, "clip_norm": 0.5},
    "participation": {"kind": "bernoulli", "rounds": 20, "clients_per_round": 10},
}


def _run(claim, statistic="all", kind="bernoulli", inclusion="coins"):
    audit = {
        "threat_models": ["all_iterates", "known_rounds"],
        "verdict_statistic": statistic,
        **claim,
    }
    if "claimed_epsilon" in claim:
        audit["verdict_method"] = "threshold_valid"
    changes = {
        **POISSON,
        "participation": {**POISSON["participation"], "kind": kind},
        "canaries": {"count": 300, "inclusion": inclusion},
        "audit": audit,
    }
    return planned(small_config(changes))


@functools.cache
def _power(claimed):
    return claim_power(_run({"claimed_epsilon": claimed}), 3)


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


def test_known_rounds_alone_are_planned_by_the_parts_as_the_verdict_tests_them():
    claimed = float(_power(0.05).accounting)
    run = _run({"claimed_epsilon": claimed}, "own_rounds")
    power, both = claim_power(run, 3), _power(claimed)
    as_configured, half, none = (fault.contradicted for fault in power.faults)
    assert (power.unfit, none) == (None, 1.0)
    assert as_configured <= 0.05
    assert half >= max(fault.contradicted for fault in both.faults[1:2])
    assert claimed < power.detectable_epsilon < both.parts.epsilon  # with all of the level
    background = predicted_background(run, MIDDLE)
    scored = next(simulated_audits(run, background, OWN_ROUNDS, 1))
    verdict = reach_verdict(
        power.claim,
        ClaimTests([scored], 0.95, ("threshold_valid",)),
        Scope(counts_on_sampling=True),
        background=background,
        canaries=SampledCanaries("configured", scored, background),
    )
    assert (verdict.method, verdict.confidence) == ("parts", 0.95)
    assert verdict.outcome != "contradicted"


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ({"claimed_epsilon": 8.0}, "random_allocation"),
        ({"claimed_mu": 3.0}, "random_allocation"),
        ({"claimed_mu": 3.0}, "bernoulli"),
    ],
)
def test_known_rounds_alone_say_nothing_without_parts(claim, kind):
    run = _run(claim, "own_rounds", kind)
    power, curve = claim_power(run, 3), curve_power(run)
    assert (power or curve).unfit == KNOWS_ROUNDS
    if power is not None:
        assert {fault.highest for fault in power.faults} == {0.0}
        assert (power.detectable_epsilon, power.canaries_needed) == (None, None)
    else:
        assert (curve.detectable, curve.needed) == (None, ())


def test_pairs_are_planned_by_scores_with_all_of_the_level():
    claimed = float(_power(0.05).accounting)
    power = claim_power(_run({"claimed_epsilon": claimed}, inclusion="pairs"), 3)
    assert power.parts is None
    assert power.simulation.audit.tests.level == pytest.approx(0.05 / 2)  # of `max` and `sum`
