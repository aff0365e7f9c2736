"""Audits of every member of the zoo in one run each; README.md has the tables.

Usage: python -m experiments.broken_mechanisms.run RESULTS.jsonl [SEED, 1 by default] [MINUTES]

The module adds a line of JSON per run. Runs that the file holds already are left out, so that a
second call continues where the first one stopped (by itself after MINUTES, if given).
"""

import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

from experiments.broken_mechanisms import attacks
from experiments.broken_mechanisms.audited_run import AuditedRun, audited_run, compiled_runtime
from experiments.broken_mechanisms.looks import look_at
from experiments.broken_mechanisms.results import append, read
from experiments.broken_mechanisms.zoo import WORKERS, ZOO, Member
from fl_audit.accounting import FixedSizeSampling
from fl_audit.canaries.families import CanaryFamily, DiracFamily
from fl_audit.config.file import load_config
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.estimators import CanaryScores
from fl_audit.estimators.null import EMPIRICAL
from fl_audit.verdict import ScoredStatistic

FOLDER = Path(__file__).parent

CANARIES = {"every_round": ("rademacher", "dirac")}
"""Kinds of canary vectors by config; other configs have Rademacher canaries only."""


def main() -> None:
    """Makes the runs that the results lack."""
    results = Path(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    until = time.monotonic() + 60 * float(sys.argv[3] if len(sys.argv) > 3 else "inf")
    done = {_key(row) for row in read(results)}
    for member in ZOO:
        for config in member.configs:
            missing = [
                canaries
                for canaries in CANARIES.get(config, ("rademacher",))
                if (member.name, config, canaries, seed) not in done
            ]
            if time.monotonic() > until:
                return
            for row in _rows(member, config, missing, seed):
                append(results, row)


def _key(row: dict[str, Any]) -> tuple[str, str, str, int]:
    return row["mechanism"], row["config"], row["canaries"], row["seed"]


def _rows(
    member: Member, config: str, canaries: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """Yields the results of a run per kind of canary, from one compiled process."""
    if not canaries:
        return
    overrides = [f"seed={seed}", *member.overrides]
    run = member.in_place_of(prepare(load_config(FOLDER / f"{config}.toml", overrides)))
    runtime = compiled_runtime(run, member.make_aggregator)
    for kind in canaries:
        started = time.perf_counter()
        with_canaries = dataclasses.replace(run, family=_family(kind, run))
        with tempfile.TemporaryDirectory() as folder:
            audited = audited_run(with_canaries, runtime, Path(folder) / "run")
        yield {
            "mechanism": member.name,
            "config": config,
            "canaries": kind,
            "seed": seed,
            **results_of(audited, with_canaries),
            "seconds": round(time.perf_counter() - started, 1),
        }


def _family(kind: str, run: PreparedRun) -> CanaryFamily:
    """The pool of a kind of canary, as the configs themselves ask for Rademacher canaries."""
    if kind == "rademacher":
        return run.family
    return DiracFamily(run.family.seed, run.family.num_canaries, run.family.dim)


def results_of(audited: AuditedRun, run: PreparedRun) -> dict[str, Any]:
    """The claim, the bounds by the statistics of a run, and the bounds by attacks on bad noise."""
    is_dirac = isinstance(run.family, DiracFamily)
    statistics = [
        dataclasses.replace(statistic, null=EMPIRICAL) if is_dirac else statistic
        for statistic in audited.statistics
    ]
    found = look_at(statistics, audited.delta)
    return {
        "claim": audited.claimed_epsilon,
        "together": found.together,
        "by": found.by,
        "contradicted": found.together > audited.claimed_epsilon,
        "alone": found.alone,
        "estimates": found.estimates,
        "attacks": _attacks(audited, run),
        "correlation_of_rounds": attacks.mean_correlation(audited.aggregates),
        "clip_norms": audited.clip_norms.tolist(),
        "accuracy": audited.accuracy,
        "checks": audited.checks["results"],
        **_what_was_claimed(run),
    }


def _what_was_claimed(run: PreparedRun) -> dict[str, Any]:
    """The facts of the correct mechanism that `truth.py` needs."""
    parties = (run.release.client.sampling, run.release.canary.sampling)
    drawn = next((each for each in parties if isinstance(each, FixedSizeSampling)), None)
    return {
        "delta": run.delta,
        "rounds": run.schedule.num_rounds,
        "cohort": run.schedule.expected_cohort,
        "sample_size": None if drawn is None else drawn.sample_size,
        "sampled_from": None if drawn is None else drawn.sampled_from,
        "noise_multiplier": run.noise.noise_multiplier,
        "sum_noise_multiplier": run.noise.sum_noise_multiplier,
        "count_noise_stddev": run.noise.count_noise_stddev,
    }


def _attacks(audited: AuditedRun, run: PreparedRun) -> dict[str, float]:
    """The larger valid bound on the scores of each attack, each by itself at 95 %."""
    scores = {
        "differences": attacks.largest_difference(run.family, audited.aggregates),
        "unshared": attacks.sum_of_unshared(run.family, audited.aggregates, WORKERS),
    }
    split = {name: CanaryScores(s[run.included], s[~run.included]) for name, s in scores.items()}
    return {
        name: look_at([ScoredStatistic(name, of)], audited.delta).together
        for name, of in split.items()
    }


if __name__ == "__main__":
    main()
