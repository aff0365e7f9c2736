"""The rate at which a valid bound exceeds its claim where the mechanism is correct.

Usage: python -m experiments.broken_mechanisms.correct RESULTS.jsonl [RUNS, else 200] [MINUTES]

Each run trains a small model with 200 canaries and a new seed for coins, canaries, rounds and
noise. The module adds a line of JSON per run, continues where an earlier call stopped (by itself
after MINUTES, if given), and prints the table of all results so far.
"""

import dataclasses
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import msgspec
from scipy import stats

from experiments.broken_mechanisms.audited_run import audited_run, compiled_runtime
from experiments.broken_mechanisms.looks import look_at
from experiments.broken_mechanisms.results import append, read
from fl_audit.config import (
    Audit,
    Bernoulli,
    Canaries,
    Config,
    DigitsTask,
    EveryRound,
    FedAvg,
    GaussianAdaptive,
    GaussianFixed,
    Log,
    Mechanism,
    Participation,
    Shuffle,
    TreeAggregation,
    Uniform,
)
from fl_audit.mechanisms import make_aggregator
from fl_audit.training.run.prepare import prepare

ROUNDS = 10


@dataclass(frozen=True)
class Pattern:
    """A participation pattern, with noise at which the claim is about 2 at delta 1e-3.

    Attributes:
      participation: Participation of clients and canaries.
      noise_multiplier: Noise multiplier of a round.
      tree_noise_multiplier: Noise multiplier of a node under tree aggregation; None where a
        client's rounds are random, for which tree aggregation has no analytical epsilon.
    """

    participation: Participation
    noise_multiplier: float
    tree_noise_multiplier: float | None = None

    @property
    def mechanisms(self) -> Iterator[Mechanism]:
        """One of each kind."""
        yield GaussianFixed(noise_multiplier=self.noise_multiplier, clip_norm=0.3)
        yield GaussianAdaptive(
            noise_multiplier=self.noise_multiplier, clip_norm=0.3, clipped_count_stddev=5.0
        )
        if self.tree_noise_multiplier:
            yield TreeAggregation(noise_multiplier=self.tree_noise_multiplier, clip_norm=0.3)


PATTERNS = (
    Pattern(EveryRound(rounds=ROUNDS), 4.5, 16.0),
    Pattern(Shuffle(rounds=ROUNDS, clients_per_round=8, canaries="once_per_epoch"), 2.0, 5.3),
    Pattern(Bernoulli(rounds=ROUNDS, clients_per_round=8), 1.3),
    Pattern(Uniform(rounds=ROUNDS, clients_per_round=8), 2.4),
)


def configs() -> Iterator[Config]:
    """Every mechanism under every pattern, at seed 0."""
    for pattern in PATTERNS:
        for mechanism in pattern.mechanisms:
            yield Config(
                task=DigitsTask(num_clients=40, hidden=(32,)),
                mechanism=mechanism,
                participation=pattern.participation,
                canaries=Canaries(count=200),
                client=FedAvg(learning_rate=0.1, batch_size=20),
                audit=Audit(delta=1e-3),
                log=Log(checkpoint_every=ROUNDS, evaluate_every=ROUNDS),
                runtime="local",
            )


def name_of(table: Participation | Mechanism) -> str:
    """The `kind` of a config's table."""
    return str(table.__struct_config__.tag)


def main() -> None:
    """Makes the runs that the results lack, and prints the table."""
    results = Path(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    until = time.monotonic() + 60 * float(sys.argv[3] if len(sys.argv) > 3 else "inf")
    done = {(row["pattern"], row["mechanism"], row["seed"]) for row in read(results)}
    variants = list(configs())
    for config in variants:
        pattern, mechanism = name_of(config.participation), name_of(config.mechanism)
        seeds = range(1, 1 + runs // len(variants))
        missing = [seed for seed in seeds if (pattern, mechanism, seed) not in done]
        if time.monotonic() > until:
            break
        for row in audits(config, missing):
            append(results, {"pattern": pattern, "mechanism": mechanism, **row})
            if time.monotonic() > until:
                break
    print(table(read(results)))


def audits(config: Config, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yields the result of a run per seed, from one compiled process and one initial model.

    Args:
      config: The config, whose own seed decides on the data and the initial model.
      seeds: The seeds of coins, canaries and rounds.
    """
    if not seeds:
        return
    first = prepare(config)
    runtime = compiled_runtime(first, make_aggregator)
    for seed in seeds:
        prepared = prepare(msgspec.structs.replace(config, seed=seed))
        # The compiled process divides by the first run's cohort, whatever this seed's coins say.
        expected = first.schedule.canary_attendance.expected
        attendance = dataclasses.replace(prepared.schedule.canary_attendance, expected=expected)
        schedule = dataclasses.replace(prepared.schedule, canary_attendance=attendance)
        run = dataclasses.replace(prepared, task=first.task, schedule=schedule)
        with tempfile.TemporaryDirectory() as folder:
            audited = audited_run(run, runtime, Path(folder) / "run")
        found = look_at(audited.statistics, audited.delta)
        yield {
            "seed": seed,
            "claim": audited.claimed_epsilon,
            "together": found.together,
            "alone": found.alone,
            "checks": audited.checks["results"],
        }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table of runs with bounds above the claim, largest bounds, and the checks."""
    lines = [
        "| participation | mechanism | runs | verdict above the claim | any bound above it "
        "| largest bound over the claim | checks failed | smallest p of a check |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, group in itertools.groupby(rows, lambda row: (row["pattern"], row["mechanism"])):
        lines.append(_line(*kind, list(group)))
    return "\n".join([*lines, _line("all", "all", rows)])


def _line(pattern: str, mechanism: str, rows: Sequence[Mapping[str, Any]]) -> str:
    together = sum(row["together"] > row["claim"] for row in rows)
    single = [max(row["alone"].values()) / row["claim"] for row in rows]
    above = sum(share > 1 for share in single)
    checks = [check for row in rows for check in row["checks"]]
    failed = sum(not check["passed"] for check in checks)
    cells = (
        _of(together, len(rows)),
        _of(above, len(rows)),
        f"{max(single):.2f}",
        f"{failed} of {len(checks):,}",
        f"{min(check['p_value'] for check in checks):.2g}",
    )
    return f"| {pattern} | {mechanism} | {len(rows)} | {' | '.join(cells)} |"


def _of(count: int, runs: int) -> str:
    """A count with its Clopper-Pearson interval at 95 %, in percent."""
    low = stats.beta.ppf(0.025, count, runs - count + 1) if count else 0.0
    high = stats.beta.ppf(0.975, count + 1, runs - count) if count < runs else 1.0
    return f"{count} ({100 * low:.1f} to {100 * high:.1f} %)"


if __name__ == "__main__":
    main()
