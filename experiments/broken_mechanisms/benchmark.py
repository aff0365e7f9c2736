"""The benchmark: each bug of `bugs.py` by checks, by replay, by canaries and by another auditor.

Usage: python -m experiments.broken_mechanisms.benchmark RESULTS.jsonl [RIGHT RUNS, 300 by default]

One run each: 20 rounds, 100 clients and 600 canaries of which coins include half, each in one
round. The module adds a line of JSON per run, continues where an earlier call stopped, and prints
the table of README.md.
"""

import copy
import functools
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.broken_mechanisms.bugs import BUGS, RIGHT, ROUNDS, Bug
from experiments.broken_mechanisms.results import append, read
from experiments.broken_mechanisms.servers import (
    CLIP,
    DENOMINATOR,
    DIM,
    NOISE,
    SHAPES,
    Arrays,
    normal,
    zeros,
)
from fl_audit import CanaryPool, Claim, MechanismWatch, Promise, RoundScorer, replay_round
from fl_audit.accounting import (
    Denominator,
    FixedRounds,
    Party,
    PoissonSampling,
    Release,
    account,
)
from fl_audit.accounting.noise_distributions import GAUSSIAN, MATRIX
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.attacks import unflatten
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.checks import check_clip_norms
from fl_audit.checks.sampling_check import check_poisson
from fl_audit.report.checks import folder_canary_check
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import ClaimTests, ScoredStatistic, curve_tests, reach_verdict
from fl_audit.verdict.claim_tests import p_value
from fl_audit.verdict.claims import configured_claim

CLIENTS, CANARIES, DELTA = 100, 600, 1e-3
LEVEL = 0.05
PROBABILITY = 1 / ROUNDS
"""The probability of a member in a round where Poisson sampling is claimed."""

_SIZES = [int(np.prod(shape)) for shape in SHAPES]


def main() -> None:
    """Makes the runs that the results lack, and prints the table."""
    results = Path(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    done = {(row["name"], row["seed"]) for row in read(results)}
    wanted = [(bug, 1) for bug in BUGS]
    wanted += [(bug, 1 + seed) for seed in range(runs // len(RIGHT)) for bug in RIGHT]
    for bug, seed in wanted:
        if (bug.name, seed) not in done:
            append(results, {"name": bug.name, "seed": seed, **audited(bug, seed)})
    print(table(read(results)))


def audited(bug: Bug, seed: int) -> dict[str, Any]:
    """What each auditor says of one run."""
    random = np.random.default_rng([seed, 1])
    pool = CanaryPool(seed=seed, count=CANARIES, dim=DIM)
    updates = [client_update(random) for _ in range(CLIENTS)]
    cohorts, canary_rounds = _who_takes_part(bug, pool, random)
    state: dict[str, Any] = {"round": 0, "clip": CLIP}
    watch = MechanismWatch(_SIZES, correlation=bug.correlation)
    clip_norms = []
    with tempfile.TemporaryDirectory() as folder:
        scorer = RoundScorer.create(f"{folder}/log", pool, ROUNDS, canary_rounds)
        for index, cohort in enumerate(cohorts):
            clip = float(state["clip"])
            clip_norms.append(clip)
            sent = [sent_by(int(member), updates, pool) for member in cohort]
            state, release = bug.server(state, sent, np.random.default_rng([seed, 2, index]))
            flat = np.concatenate([part.ravel() for part in release]).astype(np.float32)
            watch.see_round(
                flat,
                noise_stddev=bug.sum_noise * clip / DENOMINATOR,
                norm_bound=len(cohort) * clip / DENOMINATOR,
            )
            if flat.any():
                scorer.score_round(index + 1, flat)
        scorer.finish()
        logged = AuditedFolder(Path(folder) / "log")
        statistics = folder_statistics(logged)
        canary_check = folder_canary_check(logged, statistics)
        live = None if bug.sampler is not None else scorer.lower_bound_epsilon(DELTA)
    claim = claimed_epsilon(bug.sampler is not None, bug.correlation)
    checks = list(watch.checks())
    if bug.adaptive_clip is not None:
        sizes = np.array([len(cohort) for cohort in cohorts])
        checks.append(check_clip_norms(np.array(clip_norms), sizes, bug.adaptive_clip))
    return {
        "claim": claim,
        "checks": _found(check.name for check in checks if check.failed),
        "checks_p": min(check.p_value for check in checks),
        **_by_sampling(bug, cohorts, pool),
        **_by_replay(bug, state, seed),
        **_by_canaries(statistics, claim, bug.is_broken),
        "configured_p": _by_configured(statistics, bug),
        "live": live,
        "arrival": canary_check.state,
        "others": others(statistics) if bug.is_broken else {},
    }


@functools.cache
def claimed_epsilon(is_sampled: bool, correlation: Toeplitz | None = None) -> float:
    """The epsilon of the right mechanism to whoever takes part, in one round or in a sample."""
    return account(_right_release(is_sampled, correlation), DELTA).canary.epsilon or math.inf


def _right_release(is_sampled: bool, correlation: Toeplitz | None) -> Release:
    party = Party(PoissonSampling(PROBABILITY) if is_sampled else FixedRounds(1))
    distribution = GAUSSIAN
    if correlation is not None:
        distribution, correlation = MATRIX, correlation.until(ROUNDS)
        party = Party(FixedRounds(1), correlation.min_separation(1, 1))
    return Release(
        rounds=ROUNDS,
        noise=distribution.noise(NOISE, NOISE),
        correlation=correlation,
        denominator=Denominator("expected_cohort", DENOMINATOR),
        client=party,
        canary=party,
    )


def client_update(random: np.random.Generator) -> Arrays:
    """A real client's update, about two clip norms long."""
    return normal(random, 2 * CLIP / math.sqrt(DIM))


def sent_by(member: int, updates: Sequence[Arrays], pool: CanaryPool) -> Arrays:
    """The update of a client, or of the canary with the number beyond the clients'."""
    if member < CLIENTS:
        return updates[member]
    vector = 1e3 * CLIP * pool.vector(member - CLIENTS)
    return unflatten(vector, zeros())


def _who_takes_part(
    bug: Bug, pool: CanaryPool, random: np.random.Generator
) -> tuple[list[Any], list[list[int]] | None]:
    """The members of each round, and the canaries' rounds where each has one."""
    canaries = CLIENTS + np.flatnonzero(pool.included)
    if bug.sampler is not None:
        members = np.concatenate([np.arange(CLIENTS), canaries])
        drawn = bug.sampler(random, len(members), ROUNDS, PROBABILITY)
        return [members[cohort] for cohort in drawn], None
    rounds = random.integers(ROUNDS, size=CLIENTS + CANARIES)
    present = np.concatenate([np.arange(CLIENTS), canaries])
    cohorts = [present[rounds[present] == index] for index in range(ROUNDS)]
    return cohorts, [[int(index) + 1] for index in rounds[CLIENTS:]]


def _by_sampling(bug: Bug, cohorts: Sequence[Any], pool: CanaryPool) -> dict[str, Any]:
    """The checks of the sampler, where the claim counts on it."""
    if bug.sampler is None:
        return {"sampling": [], "sampling_p": 1.0}
    everybody = np.concatenate([np.arange(CLIENTS), CLIENTS + np.flatnonzero(pool.included)])
    drawn = [np.searchsorted(everybody, cohort) for cohort in cohorts]
    found = check_poisson(drawn, len(everybody), PROBABILITY)
    return {
        "sampling": _found(finding.name for finding in found if finding.failed),
        "sampling_p": math.exp(min(finding.log_p for finding in found)),
    }


def _by_replay(bug: Bug, state: dict[str, Any], seed: int) -> dict[str, Any]:
    """The replay of the round after the last."""
    random = np.random.default_rng([seed, 3])
    updates = [[part * (1 if i % 2 else 0.1) for part in client_update(random)] for i in range(40)]
    clip = float(state["clip"])
    promise = Promise(
        clip_norm=clip,
        denominator=DENOMINATOR,
        noise_multiplier=bug.sum_noise,
        correlation=bug.correlation,
        rounds_before=ROUNDS,
        adaptive_clip=bug.adaptive_clip,
    )
    found = replay_round(
        bug.server,
        copy.deepcopy(state),
        updates,
        seed,
        promise,
        clip_norm_of=lambda state: float(state["clip"]),
    )
    return {
        "replay": list(found.failed),
        "replay_p": math.exp(min(finding.log_p for finding in found.findings)),
        "words": [f.measured for f in found.findings if f.failed],
    }


def _by_canaries(
    statistics: Sequence[ScoredStatistic], claim: float, is_broken: bool
) -> dict[str, Any]:
    """The verdict's bound and, as it takes long, of broken runs alone its p-value."""
    tests = ClaimTests(statistics, 0.95)
    bounds = tests.bounds(DELTA)
    return {
        "bound": bounds[0].estimate.epsilon,
        "by": f"{bounds[0].test.statistic.name}/{bounds[0].test.method}",
        "contradicted": bounds[0].estimate.epsilon > claim,
        "canaries_p": p_value(tests, bounds, Claim(claim, DELTA)) if is_broken else None,
    }


def _by_configured(statistics: Sequence[ScoredStatistic], bug: Bug) -> float | None:
    """The p-value of the configured noise as a claim; None where the scores allow no test of it."""
    known = [STATISTICS[str(one.name)] for one in statistics]
    release = _right_release(bug.sampler is not None, bug.correlation)
    claim = configured_claim(release, DELTA, known, is_stated=True)
    assert claim is not None
    return reach_verdict(claim, curve_tests(claim, statistics, 0.95)).p_value


def others(statistics: Sequence[ScoredStatistic]) -> dict[str, float]:
    """The largest bound by jax_privacy's auditor over the statistics; nothing without the package.

    It is the bound of its `CanaryScoreAuditor` with default arguments at 95 %, each statistic by
    itself.
    """
    try:
        from jax_privacy import auditing
    except ImportError:
        return {}
    auditors = [
        auditing.CanaryScoreAuditor(one.scores.included, one.scores.excluded) for one in statistics
    ]
    return {
        "jax_privacy": max(
            float(one.epsilon_clopper_pearson(significance=0.05, delta=DELTA)) for one in auditors
        )
    }


def _found(names: Any) -> list[str]:
    return sorted(set(names))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of bugs, and a line about the right runs."""
    of = {row["name"]: row for row in rows}
    lines = [
        "| bug | checks | replay | canaries: bound, p | configured noise: p | jax_privacy |",
        "|---|---|---|---|---|---|",
    ]
    for bug in BUGS:
        if bug.name in of:
            lines.append(_line(bug, of[bug.name]))
    right = [row for row in rows if row["name"].startswith("correct")]
    found = [row for row in (of[bug.name] for bug in BUGS if bug.name in of) if is_found(row)]
    count = sum(bug.name in of for bug in BUGS)
    lines += ["", f"{len(found)} of {count} found. {_about(right)}"]
    return "\n".join(lines)


def _about(right: Sequence[Mapping[str, Any]]) -> str:
    """How near the right runs come to a false alarm."""
    if not right:
        return "No right runs."
    checks = min(min(row["checks_p"], row["sampling_p"]) for row in right)
    replays = min(row["replay_p"] for row in right)
    bounds = max(row["bound"] / row["claim"] for row in right)
    live = [row["live"] / row["claim"] for row in right if row.get("live") is not None]
    configured = [p for row in right if (p := row["configured_p"]) is not None]
    fallen = sum(p <= LEVEL for p in configured)
    lost = sum(row.get("arrival") == "not_arrived" for row in right)
    return (
        f"{sum(map(is_found, right))} of {len(right)} right runs called broken; smallest p of a "
        f"check {checks:.2g}, of a replay {replays:.2g}; largest bound over the claim "
        f"{bounds:.2f}, at any round {max(live, default=math.nan):.2f}; {lost} said to be lost; "
        f"the configured noise contradicted in {fallen} of {len(configured)}, smallest p "
        f"{min(configured):.2g}"
    )


def is_found(row: Mapping[str, Any]) -> bool:
    """Whether checks, replay or canaries at the end say that a run is broken."""
    return bool(row["checks"] or row["sampling"] or row["replay"] or row["contradicted"])


def _line(bug: Bug, row: Mapping[str, Any]) -> str:
    name = bug.name if bug.thread is None else f"[{bug.name}]({bug.thread})"
    checks = ", ".join([*row["checks"], *row["sampling"]]).replace("_", " ") or "–"
    replay = ", ".join(row["replay"]).replace("_", " ") or "–"
    bound = f"{row['bound']:.3g}"
    bound = f"**{bound}**" if row["contradicted"] else bound
    other = f"{row['others']['jax_privacy']:.3g}" if row["others"] else ""
    p = row["configured_p"]
    configured = "–" if p is None else f"{p:.1g}"
    configured = f"**{configured}**" if p is not None and p <= LEVEL else configured
    cells = (name, checks, replay, f"{bound}, {row['canaries_p']:.1g}", configured, other)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
