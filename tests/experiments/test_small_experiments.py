"""The experiments that take under a minute each run, as `make experiments-small` does."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from experiment_pages import ROOT, ends_with, page_rows, table_rows


def commands() -> list[str]:
    """The Python commands of the Makefile's target, without what stands for the interpreter."""
    text = (ROOT / "Makefile").read_text()
    target = text.split("\nexperiments-small:")[1].split("\n\n")[0]
    found = re.findall(r"\$\(BIN\)/python (.+)", target)
    return [one for one in found if not any(name in one for name in TESTED_BY_THEIR_NUMBERS)]


TESTED_BY_THEIR_NUMBERS = (
    *("andrew2023_table1.law", "steinke2023_figures", "zanella_beguelin2023_figures"),
    "negoescu2024_appendix_b.run",
    *("known_steps --clip 1", "known_steps --scale 3", "known_steps --source noise --clip 1"),
)
"""Commands of a minute or more whose functions test_andrew, test_steinke_figures, test_main_numbers
and estimators/counts/test_counts_intervals call, and settings of known_steps like the two that run.
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_it_runs(command, tmp_path):
    words = [word.replace("$(PICTURES)", str(tmp_path)) for word in shlex.split(command)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    folder = next(word for word in words if word.startswith("experiments")).split(".run")[0]
    printed = table_rows(done.stdout)
    if NAMED & set(Path(folder.replace(".", "/")).parts):
        assert printed
        page = next(name for name in NAMED if name in folder)
        on_page = page_rows(page)
        missing = [row for row in printed if not any(ends_with(shown, row) for shown in on_page)]
        assert not missing
    else:
        assert len(done.stdout) > 80  # a row of a table is shorter than a page


NAMED = {"production", "pure_noise", "yildirim2025_table1"}
"""Experiments whose page holds every row that the command prints, perhaps behind a name."""
