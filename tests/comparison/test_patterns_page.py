"""Every number of docs/patterns.md comes out of its commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.tff
@pytest.mark.slow
def test_the_page_s_table_is_what_its_run_prints(tmp_path):
    run, plan, table, planned = blocks()[:4]
    config = run.split()[2]
    printed = called("run", config, "--out", str(tmp_path / "arms"))
    assert_printed(table, printed)
    assert_printed(planned, called(*plan.split()[1:]))
