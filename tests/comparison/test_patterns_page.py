"""Every number of docs/patterns.md comes out of its commands."""

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from fl_audit.report.patterns import Detection, PatternAttacker, PatternTable

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


def table_of(text: str) -> dict[str, tuple[float, ...]]:
    """The bounds of each pattern without the schedule, and the ends of its AUC's interval."""
    number = r"(0?\.?[\d.]+)"
    row = rf"^ *(\S+) +ε ≤ {number} +ε ≥ {number} +{number} \({number} … {number}\)$"
    return {name: tuple(map(float, numbers)) for name, *numbers in re.findall(row, text, re.M)[:6]}


def test_the_page_s_answer_follows_from_its_table():
    """Also the README's, which has the means of both groups."""
    _, shown, _ = blocks()[:3]
    table = table_of(shown)
    detections = tuple(
        Detection(name, upper, lower, auc, float(np.diff(special.logit(ends))[0]) / 3.92)
        for name, (upper, lower, auc, *ends) in table.items()
    )
    attacker = PatternAttacker("without the schedule", "likelihood_ratio", detections)
    lines = PatternTable((attacker,), "5 rounds per canary", 0.95).lines()
    assert (
        shown.partition("\n…\n")[0].splitlines()
        == lines[: next(i for i, line in enumerate(lines) if line.startswith("pattern"))]
    )
    aucs = sorted(row[2] for row in table.values())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    least, most = (f"{np.mean(group):.2f}" for group in (aucs[:3], aucs[3:]))
    assert f"leak least (AUC {least}), early, late or equidistant ones most ({most})" in readme


@pytest.mark.tff
@pytest.mark.slow
def test_the_page_s_table_is_what_its_run_prints(tmp_path):
    """Noise is new in every run: bounds of accounting are equal, others within the noise's reach.

    Two AUCs differ by 5.5 deviations of their difference with a probability of 4e-8. Lower bounds
    of two runs differed by 0.6 (root mean square).
    """
    run, table, plan = blocks()[:3]
    command, _, planned = plan.partition("\n")
    config = run.split()[2]
    printed = table_of(called("run", config, "--out", str(tmp_path / "arms")))
    page = table_of(table)
    assert len(page) == 6
    assert printed.keys() == page.keys()
    for name, (upper, lower, _, *interval) in page.items():
        other, found_lower, _, *ends = printed[name]
        assert other == upper, name
        assert abs(found_lower - lower) < 5.5 * 0.6, name
        found, expected = special.logit([ends, interval])
        deviation = (math.hypot(np.ptp(found), np.ptp(expected))) / (2 * special.ndtri(0.975))
        assert abs(np.mean(found) - np.mean(expected)) < 5.5 * deviation, name
    assert_printed(planned, called(*command.split()[1:]))
