"""Mutants of tensorflow-privacy's queries, and which of our tools find them.

    python -m experiments.mutants.run OUT.jsonl [--every 1]

Each mutant is a line of OUT.jsonl; those that are there are left out, so that the command goes on
where it was stopped. `--table` prints what is there.
"""

import argparse
import json
import logging
import os
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from experiments.mutants import queries
from experiments.mutants.mutate import Mutant, mutants
from fl_audit import Promise, replay_round
from fl_audit.attacks import CanaryPool, RoundScorer, unflatten
from fl_audit.errors import InputError
from fl_audit.participation.placement import spread
from fl_audit.report.checks import folder_arrival, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict.claims import GaussianClaim
from fl_audit.verdict.curve_claim_tests import curve_tests

ROUNDS, CANARIES, DELTA, CONFIDENCE = 10, 300, 1e-3, 0.95


def replay(subject: queries.Subject, query: object) -> list[str]:
    """The questions of a replay that fail."""

    def server(state: object, updates: list, random: np.random.Generator) -> tuple:
        tf.random.set_seed(int(random.integers(2**31)))
        return queries.released(query, state, queries.summed(query, state, updates))

    promise = Promise(
        clip_norm=queries.CLIP_NORM,
        denominator=subject.denominator,
        noise_multiplier=queries.NOISE_MULTIPLIER,
        adaptive_clip=subject.adaptive_clip,
    )
    found = replay_round(
        server,
        queries.start(query),
        queries.updates(1),
        seed=1,
        promise=promise,
        clip_norm_of=subject.clip_norm,
    )
    return [one.name for one in found.findings if not one.passed]


def trained(subject: queries.Subject, query: object) -> tuple[bool, bool]:
    """Whether the checks fail on a training with canaries, and whether the canaries tell."""
    dim = sum(int(np.prod(shape)) for shape in queries.SHAPES)
    pool = CanaryPool(seed=4, count=CANARIES, dim=dim)
    dealt = spread(np.arange(CANARIES), 4, ROUNDS, 1)
    state, like = queries.start(query), [np.zeros(s, np.float32) for s in queries.SHAPES]
    tf.random.set_seed(5)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "audit"
        scorer = RoundScorer.create(folder, pool, ROUNDS, dealt.by_member(CANARIES))
        for number in range(ROUNDS):
            clip = subject.clip_norm(state)
            cohort = queries.updates(100 + number)
            for canary in dealt.of(number):
                if pool.included[canary]:
                    cohort.append(unflatten(100 * clip * pool.vector(int(canary)), like))
            state, made = queries.released(query, state, queries.summed(query, state, cohort))
            scorer.score_round(
                number + 1,
                made,
                canary_length=clip / subject.denominator,
                noise_stddev=queries.NOISE_MULTIPLIER * clip / subject.denominator,
                norm_bound=len(cohort) * clip / subject.denominator,
            )
        audited = AuditedFolder(folder)
        statistics = folder_statistics(audited)
        tests = curve_tests(GaussianClaim(subject.mu, DELTA), statistics, CONFIDENCE).tests
        contradicted = any(t.p_value is not None and t.p_value <= t.level for t in tests)
        arrival = folder_arrival(audited, statistics)
        faulty = arrival.state == "not_arrived" or arrival.fault is not None
        return folder_checks(audited).passed is False, contradicted or faulty


def tried(module: str, mutant: Mutant, original: np.ndarray) -> dict:
    """What became of a mutant: `kind` is crashes, same law, or changed; and who found it."""
    subject, started = queries.SUBJECT_OF[module], time.process_time()
    row: dict = {"module": module, "mutant": mutant.name}
    try:
        with queries.loaded(module, mutant.source) as modules:
            query = subject.make(modules)
            row["kind"] = "changed" if queries.changes_the_law(query, original) else "same law"
            row["replay"], row["checks"], row["canaries"] = [], False, False
            try:
                row["replay"] = replay(subject, query)
                row["checks"], row["canaries"] = trained(subject, query)
            except InputError as error:  # such as of a release that is not finite
                row |= {"checks": True, "refused": str(error)[:120]}
    except Exception as error:  # whatever a mutant raises
        row |= {"kind": "crashes", "error": f"{type(error).__name__}: {error}"[:120]}
    return row | {"seconds": round(time.process_time() - started, 1)}


def originals() -> dict[str, np.ndarray]:
    """The fingerprints of the released queries, by module."""
    with queries.loaded("", "") as modules:
        return {
            module: queries.fingerprint(subject.make(modules), 1.0)
            for module, subject in queries.SUBJECT_OF.items()
        }


def table(rows: list[dict]) -> None:
    """Prints how many were found, by whom, and which survive."""
    print(
        "| module | mutants | crash | same law | changed | replay | checks | canaries | together |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for module in (*queries.MODULES, "all"):
        of = [row for row in rows if module in (row["module"], "all")]
        kinds = Counter(row["kind"] for row in of)
        changed = [row for row in of if row["kind"] == "changed"]
        by = [sum(bool(row[tool]) for row in changed) for tool in ("replay", "checks", "canaries")]
        together = sum(_is_found(row) for row in changed)
        print(
            f"| {module} | {len(of)} | {kinds['crashes']} | {kinds['same law']} | {len(changed)} | "
            + " | ".join(map(str, (*by, together)))
            + " |"
        )
    for row in rows:
        if row["kind"] == "changed" and not _is_found(row):
            print("survives:", row["module"], row["mutant"])
        if row["kind"] == "same law" and _is_found(row):
            print("found though its law is the same:", row["module"], row["mutant"], row)


def _is_found(row: dict) -> bool:
    return bool(row["replay"] or row["checks"] or row["canaries"])


def main() -> None:
    """Tries the mutants that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--every", type=int, default=1, help="every how-manieth mutant")
    parser.add_argument("--seconds", type=float, default=280, help="CPU time to stop after")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rows = []
    if arguments.out.exists():
        rows = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    if arguments.table:
        table(rows)
        return
    done = {(row["module"], row["mutant"]) for row in rows}
    kept, started = originals(), time.process_time()
    places = [
        (module, mutant)
        for module in queries.MODULES
        for mutant in mutants(queries.source(module), queries.CLASSES)
    ][:: arguments.every]
    with arguments.out.open("a") as file:
        for module, mutant in places:
            if (module, mutant.name) in done:
                continue
            if time.process_time() - started > arguments.seconds:
                break
            print(json.dumps(tried(module, mutant, kept[module])), file=file, flush=True)
    print(f"{len(arguments.out.read_text().splitlines())} of {len(places)} mutants are tried")


if __name__ == "__main__":
    main()
