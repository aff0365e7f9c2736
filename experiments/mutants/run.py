"""Mutants of DP code, and which of our tools find them.

    python -m experiments.mutants.run LIBRARY OUT.jsonl [--part 1/2] [--sample 100]

Each mutant is a line of OUT.jsonl; those that are there are left out, so that the command goes on
where it was stopped. `--table` prints what is there.
"""

import argparse
import importlib
import json
import logging
import os
import random
import signal
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from experiments.mutants import distributions
from experiments.mutants.mutate import Mutant, mutants
from experiments.mutants.tools import looked_at

TOOLS = ("replay", "checks", "canaries")
LIBRARIES = {
    "tensorflow_privacy": "queries",
    "fl_audit_jax": "jax_rounds",
    "fl_audit_tensorflow": "own_queries",
}
"""The module with the subjects of each library."""

_MOST_SECONDS = 120


def tried(
    library: Any, module: str, mutant: Mutant, originals: list[tuple[np.ndarray, float]]
) -> dict:
    """The outcome of a mutant: `kind` is crashes, same law, or changed; and who found it.

    A mutant changes the law where it does that of one of its module's subjects; the tools look at
    the first such subject, else at the first of all. The law is tested as the library is; the
    tools look at fast rounds where there are such and their fingerprint is the same.
    """
    started, row = time.process_time(), {"module": module, "mutant": mutant.name}
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_MOST_SECONDS)
    try:
        at, kind = _first_changed(library, module, mutant.source, originals)
        row |= {"kind": kind, "subject": at}
        row["on"] = _fast_enough(library, module, mutant, at)
        with library.loaded(module, mutant.source, fast=row["on"] == "fast") as modules:
            row |= looked_at(library.rounds_of(module, at, modules), originals[at][1])
    except Exception as error:  # whatever a mutant raises
        row |= {"kind": "crashes", "error": f"{type(error).__name__}: {error}"[:120]}
    finally:
        signal.alarm(0)
    return row | {"seconds": round(time.process_time() - started, 1)}


def _too_long(signum: int, frame: Any) -> None:
    raise TimeoutError(f"more than {_MOST_SECONDS} s")


def _first_changed(
    library: Any, module: str, source: str, originals: list[tuple[np.ndarray, float]]
) -> tuple[int, str]:
    """The first subject whose distribution is another, and the kind; else the first of all."""
    for at, (original, _) in enumerate(originals):
        with library.loaded(module, source) as modules:
            rounds = library.rounds_of(module, at, modules)
            if not any(
                distributions.are_equal(distributions.fingerprint(rounds, sign), original)
                for sign in (1.0, -1.0)
            ):
                return at, "changed"
    return 0, "same law"


def _fast_enough(library: Any, module: str, mutant: Mutant, at: int) -> str:
    """Whether the tools may look at fast rounds, which have to be the same as the slow ones."""
    if not library.HAS_FAST_ROUNDS:
        return "slow"
    try:
        prints = []
        for fast in (False, True):
            with library.loaded(module, mutant.source, fast=fast) as modules:
                rounds = library.rounds_of(module, at, modules)
                prints.append(distributions.fingerprint(rounds, 1.0))
        return "fast" if distributions.are_equal(*prints) else "slow"
    except Exception:  # of what NumPy does not take
        return "slow"


def originals(library: Any) -> dict[str, list[tuple[np.ndarray, float]]]:
    """The fingerprint and the mu of each subject of the released modules."""
    with library.loaded("", "") as modules:
        known = {}
        for module, subjects in library.SUBJECTS_OF.items():
            each = [library.rounds_of(module, at, modules) for at in range(len(subjects))]
            known[module] = [(distributions.fingerprint(r, 1.0), distributions.mu(r)) for r in each]
        return known


def table(rows: list[dict]) -> None:
    """Prints how many were found, by which tool, and which survive."""
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
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="1/1", help="which of how many parts, such as 1/2")
    parser.add_argument("--sample", type=int, help="as many mutants of each module, seed 1")
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
    library = importlib.import_module(f"experiments.mutants.{LIBRARIES[arguments.library]}")
    done, kept = {(row["module"], row["mutant"]) for row in rows}, originals(library)
    part, parts = map(int, arguments.part.split("/"))
    places = [
        (module, mutant)
        for module, names in library.MODULES.items()
        for mutant in _sampled(_places(library, module, names), arguments.sample)
    ][part - 1 :: parts]
    with arguments.out.open("a") as file:
        for module, mutant in places:
            if (module, mutant.name) not in done:
                row = tried(library, module, mutant, kept[module])
                print(json.dumps(row), file=file, flush=True)
    print(f"{len(arguments.out.read_text().splitlines())} of {len(places)} mutants are tried")


def _places(library: Any, module: str, names: tuple[str, ...]) -> list[Mutant]:
    """The mutants of a module, without those of functions that no subject runs."""
    every = mutants(library.source(module), names)
    return [mutant for mutant in every if mutant.name.split(":")[0] not in library.LEFT_OUT]


def _sampled(every: list[Mutant], number: int | None) -> list[Mutant]:
    if number is None or number >= len(every):
        return every
    return random.Random(1).sample(every, number)


if __name__ == "__main__":
    main()
