"""Whole runs of correct mechanisms, and all that is said of them that may not be said.

Usage: python -m experiments.broken_mechanisms.correct RESULTS.jsonl [RUNS, else 600] [MINUTES]

A third of the runs claims an epsilon a thousandth above what accounting gives a canary, tested at
95 %; a third claims that the noise is as configured, at 95 %; a third claims nothing, where the
configured noise is tested at 99.9 %. Of Skellam noise, for which there is no accounting, each run
claims a thousandth above the epsilon of Gaussian noise. A stated claim is tested after every round
too where canaries have one round each. The whole report is made; the first round of two runs of
each kind is replayed. Each run has a new seed for coins, canaries, rounds and noise. The module
adds a line of JSON per run, continues where an earlier call stopped (by itself after MINUTES, if
given), and prints two tables: what is said of claims, with the chance of as many contradictions at
the level, and what is said of each mechanism.
"""

import dataclasses
import itertools
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import msgspec
from scipy import stats

from experiments.broken_mechanisms.audited_run import compiled_runtime, fill_folder
from experiments.broken_mechanisms.results import append, read
from experiments.broken_mechanisms.right_variants import Variant, variants
from fl_audit.accounting import account
from fl_audit.accounting.skellam import SKELLAM
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.engines.tff.local import Local
from fl_audit.estimators import valid_methods
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.mechanisms import make_aggregator
from fl_audit.report.build import build_report
from fl_audit.report.finished_run import read_finished_run
from fl_audit.verdict import Verdict
from fl_audit.verdict.claims import Claim, ConfiguredClaim, CurveClaim

FIRST, REPLAYED = 15, 2
"""The seeds up to which each kind is run before all others are, and up to which it is replayed."""

LEVELS = {"epsilon": 0.05, "configured": 0.05, "unstated": 0.001}
"""The claims, which take turns over the seeds of a kind, each with the level of all its tests."""

ABOVE = 1.001
"""The claimed epsilon over that of accounting."""

REPLAY = "replay_"
"""The start of the names of what the replay of the first round compared."""


def main() -> None:
    """Makes the runs that the results lack, and prints the table."""
    results = Path(sys.argv[1])
    all_variants = list(variants())
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    last = -(-runs // len(all_variants))
    until = time.monotonic() + 60 * float(sys.argv[3] if len(sys.argv) > 3 else "inf")
    done = {(*_key(row), row["seed"]) for row in read(results)}
    # A few runs of each kind first: a call that stops early has then seen all of them.
    for seeds in (range(1, 1 + min(FIRST, last)), range(1 + FIRST, 1 + last)):
        for variant in all_variants:
            key = (variant.pattern, variant.mechanism, variant.family)
            missing = [seed for seed in seeds if (*key, seed) not in done]
            for row in audits(variant, missing if time.monotonic() < until else ()):
                append(results, row)
                if time.monotonic() > until:
                    break
    rows = sorted(read(results), key=_key)
    print(f"{claims_table(rows)}\n\n{table(rows)}")


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["pattern"], row["mechanism"], row["family"]


def audits(variant: Variant, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yields the result of a run per seed, from one compiled process and one initial model.

    Args:
      variant: The mechanism, whose config's own seed decides on the data and the initial model.
      seeds: The seeds of coins, canaries and rounds.
    """
    if not seeds:
        return
    first = prepare(variant.config)
    runtime = compiled_runtime(first, make_aggregator)
    for seed in seeds:
        prepared = prepare(msgspec.structs.replace(variant.config, seed=seed))
        # The compiled process divides by the first run's cohort, whatever this seed's coins say.
        expected = first.schedule.canary_attendance.expected
        attendance = dataclasses.replace(prepared.schedule.canary_attendance, expected=expected)
        schedule = dataclasses.replace(prepared.schedule, canary_attendance=attendance)
        run = dataclasses.replace(prepared, task=first.task, schedule=schedule)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            yield {
                "pattern": variant.pattern,
                "mechanism": variant.mechanism,
                "family": variant.family,
                "seed": seed,
                **_said(with_claim(run, variant.is_tested_live, seed), runtime, path),
            }


def with_claim(run: PreparedRun, is_tested_live: bool, seed: int) -> PreparedRun:
    """The run with the claim that is the seed's turn."""
    upper_bound = account(run.release, run.delta).canary.epsilon
    made = list(LEVELS)[seed % len(LEVELS)] if upper_bound is not None else "epsilon"
    keys: dict[str, Any] = {}
    if made == "epsilon":
        keys["claimed_epsilon"] = ABOVE * (upper_bound or _of_one_gaussian_round(run))
    elif made == "configured":
        keys["claim"] = "configured"
    audit = msgspec.structs.replace(
        run.config.audit,
        stop_when_contradicted=is_tested_live and made != "unstated",
        replay=seed <= REPLAYED,
        **keys,
    )
    return dataclasses.replace(run, config=msgspec.structs.replace(run.config, audit=audit))


def _of_one_gaussian_round(run: PreparedRun) -> float:
    """The epsilon of one round of Gaussian noise as large as Skellam noise, which has no other."""
    noise = run.release.noise.noise_multiplier
    assert run.release.noise.distribution == SKELLAM.name
    return epsilon_of_mu(1 / noise, run.delta)


def _said(run: PreparedRun, runtime: Local, path: Path) -> dict[str, Any]:
    """Trains, makes the report, and returns what it says of the claim and the mechanism."""
    report = build_report(read_finished_run(fill_folder(run, runtime, path)))
    verdict, live = report.verdict, report.run.live
    assert verdict is not None, "a configured noise is tested where nothing is claimed"
    return {
        **said_of_claim(verdict),
        "together": verdict.epsilon_lower,
        "alone": {
            f"{name}/{estimate.method}": estimate.epsilon
            for name, statistic in report.statistics.items()
            for estimate in statistic.estimates
            if estimate.method in valid_methods()
        },
        "live_p": None if live is None else live.claim_p_value,
        "live_epsilon": None if live is None else live.epsilon,
        "stopped_after": report.run.stopped_after,
        "arrival": report.canary_check.state,
        "ratio": report.canary_check.ratio,
        "checks": [
            {"name": check.name, "passed": check.passed, "p_value": check.p_value}
            for check in report.checks.results
        ],
        "faults": [fault.name for fault in report.faults],
    }


def said_of_claim(verdict: Verdict) -> dict[str, Any]:
    """What a verdict says, as a row of `claims_table` has it."""
    return {
        "claimed": _how_claimed(verdict.claim),
        "claim": verdict.claim.epsilon,
        "confidence": verdict.confidence,
        "outcome": verdict.outcome,
        "p_value": verdict.p_value,
        "reason": verdict.reason,
    }


def _how_claimed(claim: Claim | CurveClaim) -> str:
    if isinstance(claim, ConfiguredClaim):
        return "configured" if claim.is_stated else "unstated"
    return "epsilon"


def claims_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table with a row per claim, and the chance of as many contradictions."""
    lines = [
        "| claim | level | runs | contradicted | chance of as many at the level "
        "| consistent | inconclusive | smallest p |",
        "|---" * 8 + "|",
    ]
    for claimed, level in LEVELS.items():
        group = [row for row in rows if row["claimed"] == claimed]
        if not group:
            continue
        outcomes = [row["outcome"] for row in group]
        contradicted = outcomes.count("contradicted")
        chance = stats.binom.sf(contradicted - 1, len(group), level)
        p_values = [row["p_value"] for row in group if row["p_value"] is not None]
        cells = (
            claimed,
            f"{level:.2g}",
            str(len(group)),
            str(contradicted),
            f"{chance:.2g}",
            str(outcomes.count("consistent")),
            str(outcomes.count("inconclusive")),
            f"{min(p_values, default=math.nan):.2g}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table with a row per mechanism and pattern, and one of all."""
    lines = [
        "| rounds of a canary | mechanism | canaries | runs | claim | contradicted | stopped live "
        "| smallest live p | any bound above it | largest bound over the claim "
        "| arrived / cannot tell / did not | checks failed | replays failed | smallest p |",
        "|---" * 14 + "|",
    ]
    for kind, group in itertools.groupby(rows, _key):
        lines.append(_line(kind, list(group)))
    return "\n".join([*lines, _line(("all", "", ""), rows)])


def _line(kind: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    contradicted = sum(row["outcome"] == "contradicted" for row in rows)
    live = [row for row in rows if row["live_p"] is not None]
    stopped = sum(row["stopped_after"] is not None for row in live)
    single = [max(row["alone"].values()) / row["claim"] for row in rows]
    claims = sorted(row["claim"] for row in rows)
    arrivals = [row["arrival"] for row in rows]
    checks = [check for row in rows for check in row["checks"]]
    replayed = [check for check in checks if check["name"].startswith(REPLAY)]
    others = [check for check in checks if not check["name"].startswith(REPLAY)]
    states = [str(arrivals.count(state)) for state in ("arrived", "cannot_tell", "not_arrived")]
    cells = (
        str(len(rows)),
        f"{claims[0]:.3g} to {claims[-1]:.3g}",
        _of(contradicted, len(rows)),
        _of(stopped, len(live)) if live else "–",
        f"{min(row['live_p'] for row in live):.2g}" if live else "–",
        _of(sum(share > 1 for share in single), len(rows)),
        f"{max(single):.2f}",
        " / ".join(states),
        _failed(others),
        _failed(replayed),
        f"{min((check['p_value'] for check in checks), default=math.nan):.2g}",
    )
    return f"| {' | '.join(kind)} | {' | '.join(cells)} |"


def _failed(checks: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(not check['passed'] for check in checks)} of {len(checks):,}"


def _of(count: int, runs: int) -> str:
    """A count, and the upper end of its Clopper-Pearson interval at 95 %, in percent."""
    high = stats.beta.ppf(0.975, count + 1, runs - count) if count < runs else 1.0
    return f"{count} (≤ {100 * high:.1f} %)"


if __name__ == "__main__":
    main()
