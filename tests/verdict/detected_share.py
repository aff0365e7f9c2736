"""How many audits contradict a claim where the epsilon that they say is detectable is true.

Of 200 audits with all their vectors: the noise (or, of claims tested by their parts, the rate) is
what a verdict on the noise as stated called detectable in 80 % of audits. Ten verdicts say what is,
and 20 audits are made for each.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from fl_audit.accounting import epsilon_at_least
from fl_audit.estimators.gaussian.mechanism import sigma_of_epsilon
from fl_audit.verdict import (
    Claim,
    ClaimTests,
    CurveClaim,
    GaussianClaim,
    Verdict,
    curve_tests,
    reach_verdict,
)
from fl_audit.verdict.by_parts import SampledCanaries
from fl_audit.verdict.parts_power import PartsPower
from fl_audit.verdict.scope import Scope
from tests.verdict.audited_vectors import (
    Audited,
    Setup,
    audited,
    one_to_ten,
    rounds_of,
    sampled,
    sensitivity,
)

DELTA, CONFIDENCE = 1e-3, 0.95
POINT = Claim(7.59, DELTA)
VERDICTS, AUDITS = 10, 20
MOST_VERDICTS = 40
"""The number of verdicts of which those are taken that say what is detectable."""

SETUPS = {
    "one round": Setup(0.5),
    "three rounds": Setup(1.0, pattern=rounds_of(3), most=3),
    "one to ten rounds": Setup(2.0, pattern=one_to_ten, most=10),
    "matrix": Setup(0.57, rounds=60, column=(1.0, 0.5, 0.25)),
    "crowd": Setup(0.5, clients=100, alike=0.3),
    "short": Setup(0.5, length=0.8),
    "lost": Setup(0.5, lost=0.2),
}
SAMPLED = Setup(0.8, count=600, rounds=60, pattern=sampled(0.05), rate=0.05)

Row = tuple[Setup, Claim | CurveClaim, bool]
"""The set-up, the claim, and whether all statistics are tested, or `own_rounds` alone."""

ROWS: dict[str, Row] = {
    "one round": (SETUPS["one round"], POINT, False),
    "three rounds": (SETUPS["three rounds"], POINT, False),
    "one to ten rounds": (SETUPS["one to ten rounds"], Claim(4.0, DELTA), False),
    "matrix": (SETUPS["matrix"], POINT, False),
    "crowd, a curve": (
        dataclasses.replace(SETUPS["crowd"], count=3000),
        GaussianClaim(0.33, DELTA),
        False,
    ),
    "small crowd": (Setup(0.5, clients=10, alike=0.3), POINT, False),
    "all statistics": (SETUPS["one round"], POINT, True),
    "a curve": (SETUPS["one round"], GaussianClaim(2.0, DELTA), False),
    "lost": (SETUPS["lost"], POINT, False),
    "short": (SETUPS["short"], POINT, False),
}


def noise_of(setup: Setup, epsilon: float) -> float:
    """The noise multiplier with which a client has an epsilon."""
    return float(np.sqrt(sensitivity(setup)) * sigma_of_epsilon(epsilon, DELTA))


def verdict_on(claim: Claim | CurveClaim, found: Audited, *, all_statistics: bool) -> Verdict:
    tested = [found.statistic, *(found.others if all_statistics else ())]
    rest = {"canary_check": found.canary_check, "background": found.background}
    if isinstance(claim, Claim):
        return reach_verdict(claim, ClaimTests(tested, CONFIDENCE), **rest)
    return reach_verdict(claim, curve_tests(claim, tested, CONFIDENCE), **rest)


def contradicts(claim: Claim | CurveClaim, found: Audited, *, all_statistics: bool) -> bool:
    tested = [found.statistic, *(found.others if all_statistics else ())]
    if isinstance(claim, Claim):
        tests = ClaimTests(tested, CONFIDENCE)
        return any(test.rejects(claim.epsilon, DELTA, tests.level) for test in tests)
    return any(
        test.p_value is not None and test.p_value <= test.level
        for test in curve_tests(claim, tested, CONFIDENCE).tests
    )


def detected(row: Row) -> float:
    """The share of audits at the detectable epsilon that contradict the claim."""
    setup, claim, every = row
    setup = dataclasses.replace(setup, noise=noise_of(setup, claim.epsilon))
    found: list[bool] = []
    for seed in range(1, MOST_VERDICTS):
        if len(found) == VERDICTS * AUDITS:
            break
        verdict = verdict_on(claim, audited(setup, seed, setup.noise), all_statistics=every)
        if verdict.detectable_epsilon is None:  # contradicted, or its canary check is too wide
            continue
        less = dataclasses.replace(setup, noise=noise_of(setup, verdict.detectable_epsilon))
        audits = (audited(less, 1000 * seed + each) for each in range(AUDITS))
        found += [contradicts(claim, audit, all_statistics=every) for audit in audits]
    if len(found) < VERDICTS * AUDITS:
        raise ValueError(f"too few of {MOST_VERDICTS} verdicts say what is detectable")
    return float(np.mean(found))


def detected_by_parts(part: str) -> float:
    """The same of an amplified claim, where its noise or its rate is the detectable one."""
    setup, scope, level = SAMPLED, Scope(counts_on_sampling=True), 1 - CONFIDENCE
    before = audited(setup, 1, setup.noise)
    release = before.background.release
    assert release is not None
    claimed = epsilon_at_least(release, release.client, DELTA, knows_rounds=False)
    assert claimed is not None

    def parts_of(audit: Audited) -> object:
        canaries = SampledCanaries("stated", audit.statistic, audit.background)
        return canaries.parts(scope, DELTA, level)

    found = []
    for seed in range(1, VERDICTS + 1):
        before = audited(setup, seed, setup.noise)
        length = before.canary_check.length
        seen = PartsPower(parts_of(before), Claim(claimed, DELTA), length or 1.0)
        wrong = dataclasses.replace(setup, noise=seen.noise_multiplier)
        if part == "rate":
            wrong = dataclasses.replace(setup, pattern=sampled(seen.rate))
        for each in range(AUDITS):
            parts = parts_of(audited(wrong, 1000 * seed + each, setup.noise))
            found.append(parts.epsilon_at_least(DELTA, level) > 1.01 * claimed)
    return float(np.mean(found))


MEASURED: dict[str, Callable[[], float]] = {
    **{name: (lambda row=row: detected(row)) for name, row in ROWS.items()},
    **{
        f"Poisson by parts, {part}": (lambda part=part: detected_by_parts(part))
        for part in ("noise", "rate")
    },
}
