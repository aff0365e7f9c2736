"""Mutants of tensorflow-privacy's queries, and which of our tools find them.

    python -m experiments.mutants.run OUT.jsonl [--part 1/2]

Each mutant is a line of OUT.jsonl; those that are there are left out, so that the command goes on
where it was stopped. `--table` prints what is there.
"""

import argparse
import json
import logging
import math
import os
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from experiments.mutants import queries
from experiments.mutants.mutate import Mutant, mutants
from experiments.mutants.queries import Rounds
from fl_audit import Promise, replay_round
from fl_audit.attacks import CanaryPool, RoundScorer, unflatten
from fl_audit.checks import check_clip_norms
from fl_audit.errors import InputError
from fl_audit.participation.placement import spread
from fl_audit.report.checks import folder_arrival, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict.claims import GaussianClaim
from fl_audit.verdict.curve_claim_tests import curve_tests

ROUNDS, CANARIES, DELTA, CONFIDENCE = 12, 300, 1e-3, 0.95
TOOLS = ("replay", "checks", "canaries")


def replay(rounds: Rounds) -> list[str]:
    """The questions of a replay that fail."""
    subject = rounds.subject

    def server(state: object, updates: list, random: np.random.Generator) -> tuple:
        return rounds.drawn(int(random.integers(2**31)), state, updates)

    promise = Promise(
        clip_norm=queries.CLIP_NORM,
        denominator=subject.denominator,
        noise_multiplier=queries.NOISE_MULTIPLIER,
        adaptive_clip=subject.adaptive_clip,
    )
    found = replay_round(
        server,
        rounds.start(),
        queries.updates(1),
        seed=1,
        promise=promise,
        clip_norm_of=subject.clip_norm,
    )
    return list(found.failed)


def trained(rounds: Rounds) -> tuple[list[str], bool]:
    """The checks that fail on a training with canaries, and whether the canaries tell."""
    subject = rounds.subject
    dim = sum(int(np.prod(shape)) for shape in queries.SHAPES)
    pool = CanaryPool(seed=4, count=CANARIES, dim=dim)
    dealt = spread(np.arange(CANARIES), 4, ROUNDS, 1)
    state, like = rounds.start(), [np.zeros(s, np.float32) for s in queries.SHAPES]
    clip_norms, sizes = [], []
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "audit"
        scorer = RoundScorer.create(folder, pool, ROUNDS, dealt.by_member(CANARIES))
        for number in range(ROUNDS):
            clip = subject.clip_norm(state)
            cohort = queries.updates(100 + number)
            for canary in dealt.members_in(number):
                if pool.included[canary]:
                    cohort.append(unflatten(100 * clip * pool.vector(int(canary)), like))
            clip_norms.append(clip)
            sizes.append(len(cohort))
            state, made = rounds.drawn(500 + number, state, cohort)
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
        made_checks = folder_checks(audited)
        results = [] if made_checks is None else list(made_checks.results)
    if subject.adaptive_clip is not None:
        promise = subject.adaptive_clip
        results.append(check_clip_norms(np.array(clip_norms), np.array(sizes), promise))
    return [check.name for check in results if not check.passed], contradicted or faulty


def tried(module: str, mutant: Mutant, original: np.ndarray) -> dict:
    """What became of a mutant: `kind` is crashes, same law, or changed; and who found it.

    The law is tested on TensorFlow. The tools look at rounds on NumPy where their fingerprint is
    the same, else at rounds on TensorFlow.
    """
    subject, started = queries.SUBJECT_OF[module], time.process_time()
    row: dict = {"module": module, "mutant": mutant.name}
    try:
        with queries.loaded(module, mutant.source) as modules:
            rounds = Rounds.of(subject, modules)
            prints = [queries.fingerprint(rounds, sign) for sign in (1.0, -1.0)]
            is_same = any(queries.are_equal(made, original) for made in prints)
            row["kind"] = "same law" if is_same else "changed"
            row["on"] = (
                "numpy" if _is_the_same_on_numpy(module, mutant, prints[0]) else "tensorflow"
            )
            if row["on"] == "tensorflow":
                return row | _looked_at(rounds) | _seconds(started)
        with queries.loaded(module, mutant.source, on_numpy=True) as modules:
            row |= _looked_at(Rounds.of(subject, modules))
    except Exception as error:  # whatever a mutant raises
        row |= {"kind": "crashes", "error": f"{type(error).__name__}: {error}"[:120]}
    return row | _seconds(started)


def _seconds(started: float) -> dict:
    return {"seconds": round(time.process_time() - started, 1)}


def _is_the_same_on_numpy(module: str, mutant: Mutant, on_tensorflow: np.ndarray) -> bool:
    try:
        with queries.loaded(module, mutant.source, on_numpy=True) as modules:
            made = queries.fingerprint(Rounds.of(queries.SUBJECT_OF[module], modules), 1.0)
            return queries.are_equal(made, on_tensorflow)
    except Exception:  # of what NumPy does not take
        return False


def _looked_at(rounds: Rounds) -> dict:
    """What is found; a round that cannot be computed at all is found by the tool that meets it."""
    mu = queries.mu(rounds)
    row: dict = {"mu": mu if math.isfinite(mu) else "inf", "replay": [], "checks": []}
    row |= {"weaker": not mu <= 1.01 * rounds.subject.mu, "canaries": False}
    for tool in (_by_replay, _by_training):
        try:
            row |= tool(rounds)
        except InputError as error:  # such as of a release that is not finite
            row["checks"] = [*row["checks"], "refused"]
            row["refused"] = str(error)[:120]
    return row


def _by_replay(rounds: Rounds) -> dict:
    return {"replay": replay(rounds)}


def _by_training(rounds: Rounds) -> dict:
    checks, canaries = trained(rounds)
    return {"checks": checks, "canaries": canaries}


def originals() -> dict[str, np.ndarray]:
    """The fingerprints of the released queries, by module."""
    with queries.loaded("", "") as modules:
        return {
            module: queries.fingerprint(Rounds.of(subject, modules), 1.0)
            for module, subject in queries.SUBJECT_OF.items()
        }


def table(rows: list[dict]) -> None:
    """Prints how many were found, by whom, and which survive."""
    print(
        "| module | mutants | crash | same law | changed | replay | checks | canaries | together "
        "| weaker | of them found |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for module in (*dict.fromkeys(row["module"] for row in rows), "all"):
        of = [row for row in rows if module in (row["module"], "all")]
        kinds = Counter(row["kind"] for row in of)
        changed = [row for row in of if row["kind"] == "changed"]
        weaker = [row for row in changed if row["weaker"]]
        by = [sum(bool(row[tool]) for row in changed) for tool in TOOLS]
        cells = (len(of), kinds["crashes"], kinds["same law"], len(changed), *by)
        found = (sum(map(_is_found, changed)), len(weaker), sum(map(_is_found, weaker)))
        print(f"| {module} | {' | '.join(map(str, (*cells, *found)))} |")
    for row in rows:
        if row["kind"] == "changed" and not _is_found(row):
            print("survives:", row["module"], row["mutant"], f"mu {row['mu']}")
        if row["kind"] == "same law" and _is_found(row):
            print("found though its law is the same:", row["module"], row["mutant"], row)


def _is_found(row: dict) -> bool:
    return any(bool(row[tool]) for tool in TOOLS)


def main() -> None:
    """Tries the mutants that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="1/1", help="which of how many parts, such as 1/2")
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
    done, kept = {(row["module"], row["mutant"]) for row in rows}, originals()
    part, parts = map(int, arguments.part.split("/"))
    places = [
        (module, mutant)
        for module in queries.MODULES
        for mutant in mutants(queries.source(module), queries.CLASSES)
    ][part - 1 :: parts]
    with arguments.out.open("a") as file:
        for module, mutant in places:
            if (module, mutant.name) not in done:
                print(json.dumps(tried(module, mutant, kept[module])), file=file, flush=True)
    print(f"{len(arguments.out.read_text().splitlines())} of {len(places)} mutants are tried")


if __name__ == "__main__":
    main()
