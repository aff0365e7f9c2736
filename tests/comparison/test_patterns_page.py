"""Every number of docs/patterns.md comes out of its commands."""

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


def blocks() -> list[str]:
    """The indented blocks of the page, each as its lines."""
    text = (ROOT / "docs/patterns.md").read_text(encoding="utf-8")
    found = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", text, re.M)
    return [re.sub(r"^ {4}", "", block, flags=re.M).strip("\n") for block in found]


def called(*arguments: str) -> str:
    command = [sys.executable, "-m", "fl_audit", *arguments]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return made.stdout


def numbers_of(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def assert_printed(block: str, printed: str) -> None:
    """Each line of a block is one of those printed, up to the last digits of another processor."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    plain = {NUMBER.sub("#", line): line for line in lines}
    for line in (" ".join(line.split()) for line in block.splitlines()):
        if line in ("", "…"):
            continue
        assert NUMBER.sub("#", line) in plain, line
        others = [o for o in lines if NUMBER.sub("#", o) == NUMBER.sub("#", line)]
        assert any(
            numbers_of(other) == pytest.approx(numbers_of(line), rel=0.02, abs=0.005)
            for other in others
        ), line


def table_of(text: str) -> dict[str, tuple[str, float, float]]:
    """The upper bound of each pattern without the schedule, and the ends of its AUC's interval."""
    rows = re.findall(r"^ *(\S+) +(ε ≤ [\d.]+) .*\((0\.\d+) … (0\.\d+)\)$", text, re.M)
    return {name: (upper, float(low), float(high)) for name, upper, low, high in rows[:6]}


@pytest.mark.tff
@pytest.mark.slow
def test_the_page_s_table_is_what_its_run_prints(tmp_path):
    """Noise is new in every run: bounds of accounting are equal, AUCs within the noise's reach.

    Two AUCs differ by 5.5 deviations of their difference with a probability of 4e-8.
    """
    run, table, plan = blocks()[:3]
    command, _, planned = plan.partition("\n")
    config = run.split()[2]
    printed = table_of(called("run", config, "--out", str(tmp_path / "arms")))
    page = table_of(table)
    assert len(page) == 6
    assert printed.keys() == page.keys()
    for name, (upper, low, high) in page.items():
        other, *ends = printed[name]
        assert other == upper, name
        found, expected = special.logit([ends, [low, high]])
        deviation = (math.hypot(np.ptp(found), np.ptp(expected))) / (2 * special.ndtri(0.975))
        assert abs(np.mean(found) - np.mean(expected)) < 5.5 * deviation, name
    assert_printed(planned, called(*command.split()[1:]))
