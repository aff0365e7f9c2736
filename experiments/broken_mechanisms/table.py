"""The tables of README.md, from the results of `run.py`.

Usage: python -m experiments.broken_mechanisms.table RESULTS.jsonl
"""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.broken_mechanisms.results import read
from experiments.broken_mechanisms.truth import true_epsilon

Row = Mapping[str, Any]


def main() -> None:
    """Prints the tables."""
    rows = read(Path(sys.argv[1]))
    print(verdicts(rows), "", looks(rows), "", checks(rows), sep="\n")


def verdicts(rows: Sequence[Row]) -> str:
    """A table with a line per run: the true epsilon, the claim, and the audit's verdict."""
    header = ("mechanism", "config", "canaries", "true ε", "claim", "largest bound", "contradicted")
    lines = (
        (
            row["mechanism"],
            row["config"],
            row["canaries"],
            _number(true_epsilon(row)),
            _number(row["claim"]),
            f"{_number(row['together'])} ({row['by']})",
            "**yes**" if row["contradicted"] else "no",
        )
        for row in rows
    )
    return _markdown(header, lines)


def looks(rows: Sequence[Row]) -> str:
    """A table with a line per run: each bound, bold above the claim, and the estimates."""
    names = list(rows[0]["alone"])
    header = (
        "mechanism",
        "config",
        "canaries",
        *names,
        "differences",
        "unshared",
        "gdp_fit",
        "rounds' correlation",
    )
    lines = (
        (
            row["mechanism"],
            row["config"],
            row["canaries"],
            *(_bold(row["alone"][name], row["claim"]) for name in names),
            *(_bold(bound, row["claim"]) for bound in row["attacks"].values()),
            _bold(
                max(value for name, value in row["estimates"].items() if "gdp" in name),
                row["claim"],
            ),
            _correlation(row["correlation_of_rounds"]),
        )
        for row in rows
    )
    return _markdown(header, lines)


def checks(rows: Sequence[Row]) -> str:
    """A table with a line per run: the checks of its mechanism, with the worst finding of each."""
    names = list(dict.fromkeys(check["name"] for row in rows for check in row["checks"]))
    lines = (
        (
            row["mechanism"],
            row["config"],
            row["canaries"],
            *(_check(row["checks"], name) for name in names),
        )
        for row in rows
    )
    return _markdown(("mechanism", "config", "canaries", *names), lines)


def _check(made: Iterable[Row], name: str) -> str:
    """The ratio of a check, bold where it failed."""
    found = next((check for check in made if check["name"] == name), None)
    if found is None:
        return "–"
    ratio = f"{found['ratio']:.3g}"
    return ratio if found["passed"] else f"**{ratio}**"


def _bold(epsilon: float, claim: float) -> str:
    return f"**{_number(epsilon)}**" if epsilon > claim else _number(epsilon)


def _correlation(cosine: float | None) -> str:
    return "–" if cosine is None else f"{cosine:.2f}"


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.3g}"


def _markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
