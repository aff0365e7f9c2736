"""What each of our tools says about the rounds of a mechanism."""

import functools
import math
import tempfile
from pathlib import Path

import numpy as np

from experiments.mutants import distributions
from experiments.mutants.distributions import NOISE_MULTIPLIER, ROUNDS, SHAPES, Rounds, updates
from fl_audit import replay_round
from fl_audit.attacks import CanaryPool, RoundScorer, unflatten
from fl_audit.checks import check_clip_norms
from fl_audit.errors import InputError
from fl_audit.participation.placement import spread
from fl_audit.report.checks import folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict.claims import GaussianClaim
from fl_audit.verdict.curve_claim_tests import curve_tests

CANARIES, DELTA, CONFIDENCE = 300, 1e-3, 0.95


def looked_at(rounds: Rounds, promised_mu: float) -> dict:
    """What is found; a round that cannot be computed at all is found by the tool that meets it."""
    mu = distributions.mu(rounds)
    row: dict = {"mu": mu if math.isfinite(mu) else "inf", "replay": [], "checks": []}
    row |= {"weaker": not mu <= 1.01 * promised_mu, "canaries": False}
    for tool in (_by_replay, functools.partial(_by_training, promised_mu)):
        try:
            row |= tool(rounds)
        except InputError as error:  # such as of a release that is not finite
            row["checks"] = [*row["checks"], "refused"]
            row["refused"] = str(error)[:120]
    return row


def _by_replay(rounds: Rounds) -> dict:
    return {"replay": replay(rounds)}


def _by_training(promised_mu: float, rounds: Rounds) -> dict:
    checks, canaries = trained(rounds, promised_mu)
    return {"checks": checks, "canaries": canaries}


def replay(rounds: Rounds) -> list[str]:
    """The questions of a replay that fail."""
    subject = rounds.subject

    def server(state: object, updates: list, random: np.random.Generator) -> tuple:
        return rounds.drawn(int(random.integers(2**31)), state, updates)

    # A state fixes correlated noise, so that there have to be two.
    is_fresh = subject.correlation is None
    replayed = replay_round(
        server,
        rounds.start(),
        updates(1),
        seed=1,
        promise=subject.promise,
        begun=None if is_fresh else (rounds.start(1), rounds.start(2)),
        clip_norm_of=subject.clip_norm,
        zeroing_norm_of=subject.zeroing_norm_of,
    )
    return list(replayed.failed)


def trained(rounds: Rounds, promised_mu: float) -> tuple[list[str], bool]:
    """The checks that fail on a training with canaries, and whether the canaries tell."""
    subject = rounds.subject
    dim = sum(int(np.prod(shape)) for shape in SHAPES)
    pool = CanaryPool(seed=4, count=CANARIES, dim=dim)
    dealt = spread(np.arange(CANARIES), 4, ROUNDS, 1)
    state, like = rounds.start(3), [np.zeros(s, np.float32) for s in SHAPES]
    clip_norms, sizes = [], []
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "audit"
        scorer = RoundScorer.create(
            folder,
            pool,
            ROUNDS,
            dealt.by_member(CANARIES),
            noise_correlation=subject.correlation,
        )
        for number in range(ROUNDS):
            clip = subject.clip_norm(state)
            cohort = updates(100 + number)
            longest = 100 * clip
            if subject.zeroing_norm_of is not None:  # what is zeroed tells nothing
                longest = min(longest, 0.9 * subject.zeroing_norm_of(state) * math.sqrt(dim))
            for canary in dealt.members_in(number):
                if pool.included[canary]:
                    cohort.append(unflatten(longest * pool.vector(int(canary)), like))
            clip_norms.append(clip)
            sizes.append(len(cohort))
            state, made = rounds.drawn(500 + number, state, cohort)
            scorer.score_round(
                number + 1,
                made,
                canary_length=clip / subject.denominator,
                noise_stddev=NOISE_MULTIPLIER * clip / subject.denominator,
                norm_bound=len(cohort) * clip / subject.denominator,
            )
        audited = AuditedFolder(folder)
        statistics = folder_statistics(audited)
        tests = curve_tests(GaussianClaim(promised_mu, DELTA), statistics, CONFIDENCE).tests
        contradicted = any(t.p_value is not None and t.p_value <= t.level for t in tests)
        canary_check = folder_canary_check(audited, statistics)
        faulty = canary_check.state == "not_arrived" or canary_check.fault is not None
        made_checks = folder_checks(audited)
        results = [] if made_checks is None else list(made_checks.results)
    if subject.adaptive_clip is not None:
        promise = subject.adaptive_clip
        results.append(check_clip_norms(np.array(clip_norms), np.array(sizes), promise))
    return [check.name for check in results if check.failed], contradicted or faulty
