"""What a plan says is detectable is what the verdict says once the run is there, by its vectors."""

import dataclasses

import numpy as np
import pytest

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.checks import CanaryCheck
from fl_audit.estimators import CanaryScores, GaussianCanaryNull
from fl_audit.estimators.null import Null
from fl_audit.planning.planned_power import claim_power, curve_power
from fl_audit.planning.predicted_background import MIDDLE
from fl_audit.verdict import (
    Background,
    Claim,
    ClaimTests,
    ScoredStatistic,
    curve_tests,
    reach_verdict,
)
from fl_audit.verdict.claims import claim_to_test
from fl_audit.verdict.curve_claim_tests import UNSTATED_CONFIDENCE
from fl_audit.verdict.scope import Scope
from tests.planning.planned_runs import facts, planned, small_config

DIM = 4000
CANARIES = {"count": 1200}
LONG = {"kind": "shuffle", "rounds": 40, "clients_per_round": 6, "canary_repeats": 1}

CONFIGS = {
    "one round": {"audit": {"claimed_epsilon": 30.0}},
    "more noise": {"audit": {"claimed_epsilon": 5.0}, "mechanism": {"noise_multiplier": 1.0}},
    "three rounds": {
        "audit": {"claimed_epsilon": 40.0},
        "participation": {**LONG, "canary_repeats": 3},
        "mechanism": {"noise_multiplier": 0.5},
    },
    "every round": {
        "audit": {"claimed_epsilon": 40.0},
        "participation": {"kind": "every_round", "rounds": 12},
        "canaries": {"count": 200},
        "mechanism": {"noise_multiplier": 1.0},
    },
    "a fixed half": {
        "audit": {"claimed_epsilon": 30.0},
        "canaries": {**CANARIES, "inclusion": "fixed_half"},
    },
    "both methods": {"audit": {"claimed_epsilon": 30.0, "verdict_method": "all"}},
    "adaptive": {
        "audit": {"claimed_epsilon": 30.0},
        "mechanism": {
            "kind": "gaussian_adaptive",
            "noise_multiplier": 0.2,
            "clip_norm": 0.5,
            "target_quantile": 0.2,
        },
    },
    "a claimed curve": {"audit": {"claimed_mu": 6.0}, "canaries": {"count": 200}},
    "the configured noise": {"audit": {"claim": "configured"}, "canaries": {"count": 200}},
    "Poisson sampling, configured": {
        "audit": {"claim": "configured"},
        "participation": {"kind": "bernoulli", "rounds": 30, "clients_per_round": 6},
        "mechanism": {"noise_multiplier": 0.5},
        "canaries": {"count": 200},
    },
}
QUICK = ("one round", "a claimed curve")


def planned_run(name):
    changes = {"canaries": CANARIES, "participation": LONG, **CONFIGS[name]}
    if "claimed_epsilon" in changes["audit"]:
        changes["audit"] = {"verdict_method": "threshold_valid", **changes["audit"]}
    changes["audit"] = {"threat_models": ["known_rounds"], **changes["audit"]}
    return planned(small_config(changes), facts(dim=DIM))


def trained(run, seed):
    """The scores on own rounds of a run with all its vectors, and what hid its canaries."""
    random = np.random.default_rng(seed)
    pool = random.standard_normal((run.num_canaries, DIM)) / DIM**0.5
    common, sums = random.standard_normal(DIM) / DIM**0.5, []
    for t in range(run.num_rounds):
        together = MIDDLE.alignment * run.clients[t] ** 2
        real_norm = (together + (1 - MIDDLE.alignment) * run.clients[t]) ** 0.5
        direction = MIDDLE.drift**0.5 * common
        direction = direction + ((1 - MIDDLE.drift) / DIM) ** 0.5 * random.standard_normal(DIM)
        noise = run.noise.sum_noise_multiplier * random.standard_normal(DIM)
        of_canaries = pool[run.canary[run.round == t]].sum(axis=0)
        sums.append(real_norm * direction + noise + of_canaries)
    sums = np.array(sums)
    lengths = np.linalg.norm(sums, axis=1)
    presences = np.zeros((run.num_canaries, run.num_rounds))
    for canary, own in enumerate(run.own_rounds.of_canary):
        presences[canary, own if len(own) else 0] = 1
    units = sums / lengths[:, None]
    seen = presences @ units
    scores = np.einsum("jd,jd->j", seen, pool) / np.linalg.norm(seen, axis=1)
    number = run.num_rounds
    share = max((np.sum(units.sum(axis=0) ** 2) - number) / (number * (number - 1)), 0.0)
    background = Background(run.own_rounds, run.included, DIM)
    background = background.with_rounds(np.arange(number), lengths, np.ones(number))
    background = background.with_noise(run.noise.sum_noise_multiplier)
    background = dataclasses.replace(background, in_common=share * lengths**2, release=run.release)
    canaries = CanaryScores(scores[run.included], scores[~run.included], run.pool.inclusion)
    null = Null("closed_form", GaussianCanaryNull(DIM), DIM)
    return ScoredStatistic("own_rounds", canaries, null), background


def verdict_on(run, seed):
    statistic, background = trained(run, seed)
    number = statistic.scores.num_included
    arrived = CanaryCheck(
        "arrived", 1.0, "they did", length=1.0, num_scored=number, num_included=number
    )
    audit = run.config.audit
    claim = claim_to_test(audit, run.release, run.delta, [OWN_ROUNDS])
    rest = {"canary_check": arrived, "background": background}
    scope = Scope(counts_on_sampling=run.release.client.participations is None)
    if isinstance(claim, Claim):
        methods = (audit.verdict_method,) if audit.verdict_method != "all" else None
        tests = ClaimTests([statistic], 0.95, *([methods] if methods else []))
        return reach_verdict(claim, tests, scope, **rest)
    confidence = 0.95 if claim.is_stated else UNSTATED_CONFIDENCE
    return reach_verdict(claim, curve_tests(claim, [statistic], confidence), scope, **rest)


BOTH, SUMS = ["all_iterates", "known_rounds"], ["all_iterates"]


@pytest.mark.parametrize(
    ("audit", "same_tests", "kind"),
    [
        (
            {"verdict_statistic": "max"},
            {"threat_models": SUMS, "verdict_statistic": "max"},
            "shuffle",
        ),
        ({}, {"threat_models": SUMS}, "bernoulli"),
        ({"stop_when_contradicted": True}, {"confidence": 0.975}, "shuffle"),
    ],
)
def test_a_curve_is_planned_by_the_tests_that_the_verdict_chooses(
    monkeypatch, audit, same_tests, kind
):
    monkeypatch.setattr("fl_audit.planning.planned_power._needed_for", lambda *_: ())  # slow
    pattern = {"kind": kind, "rounds": 12, "clients_per_round": 6}
    found = []
    for changes in (audit, same_tests):
        tests = {"claimed_mu": 3.0, "threat_models": BOTH, **changes}
        run = planned(small_config({"participation": pattern, "audit": tests}), facts(dim=10**5))
        found.append(curve_power(run).to_json())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS],
)
def test_a_plan_and_the_verdict_detect_the_same(name):
    """To 10 %: 400 simulated audits each, and real clients that are not the plan's."""
    run = planned_run(name)
    power, curve = claim_power(run, 3), curve_power(run)
    if power is not None:
        expected = power.simulation.power.detectable_epsilon
    else:
        expected = curve.to_json()["epsilon"]
    verdict = verdict_on(run, 5)
    assert verdict.outcome != "contradicted"
    assert verdict.detectable_epsilon == pytest.approx(expected, rel=0.1)
