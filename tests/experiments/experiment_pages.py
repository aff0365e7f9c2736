"""The tables on an experiment's page, and whether a printed row stands in them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def table_rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, without the bold of some."""
    lines = (line.replace("*", "").strip() for line in text.splitlines())
    rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines if line[:1] == "|")
    return [cells for cells in rows if not all(set(cell) <= set("-") for cell in cells)]


def page_text(experiment: str) -> str:
    """The page of an experiment, by the name of its folder."""
    return (ROOT / "experiments" / experiment / "README.md").read_text(encoding="utf-8")


def page_rows(experiment: str) -> list[list[str]]:
    """The rows of all tables on an experiment's page."""
    return table_rows(page_text(experiment))


def run_config(config: Path, out: Path, settings: list[str]) -> None:
    """Does what `fl-audit run` does, in a process of its own.

    TensorFlow takes its number of threads when it starts. Where another test has started it, sums
    are rounded in another order, and training goes on from there.
    """
    words = ["run", str(config), "--out", str(out)]
    words += [word for setting in settings for word in ("--set", setting)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "fl_audit", *words]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def ends_with(shown: list[str], row: list[str]) -> bool:
    """Whether a row of the page is the printed one, perhaps behind a name."""
    return shown[len(shown) - len(row) :] == row


def row_of(experiment: str, *first: str) -> list[str]:
    """The cells behind some first ones, which one row of the page has and no other."""
    (row,) = (row for row in page_rows(experiment) if row[: len(first)] == list(first))
    return row[len(first) :]
