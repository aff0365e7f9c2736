"""experiments/README.md lists every table and figure of the five papers; what it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "experiments/README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", INDEX, re.M | re.S))
NUMBERS = {
    "Andrew": {"Table": range(1, 5), "Figure": range(1, 3)},
    "Zanella-Béguelin": {"Table": range(1, 3), "Figure": range(1, 8)},
    "Steinke": {"Figure": range(1, 13)},
    "Yıldırım": {"Table": range(1, 2), "Figure": range(1, 7)},
    "Negoescu": {"Figure": range(1, 7)},
}
STATUSES = {"**exact**", "**shape**", "**partly**", "**ready**", "**not here**", "drawing"}


def _rows(paper: str) -> list[list[str]]:
    (section,) = (text for title, text in SECTIONS.items() if title.startswith(paper))
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@pytest.mark.parametrize("paper", NUMBERS)
def test_every_table_and_figure_has_a_line(paper):
    listed = " ".join(row[0].partition(":")[0] + "," for row in _rows(paper))
    found = {
        kind: {
            int(number)
            for numbers in re.findall(rf"{kind}s? ((?:\d+, )*\d+)", listed)
            for number in numbers.split(", ")
        }
        for kind in ("Table", "Figure")
    }
    assert found == {kind: set(NUMBERS[paper].get(kind, ())) for kind in found}


@pytest.mark.parametrize("paper", NUMBERS)
def test_every_line_has_one_of_the_statuses(paper):
    for what, status, *_ in _rows(paper):
        assert any(status.startswith(known) for known in STATUSES), what


def test_files_of_commands_are_there():
    named = set(re.findall(r"\b(?:experiments|tests)/[\w/.]+\.(?:py|toml)", INDEX))
    assert len(named) > 8
    assert not [name for name in named if not (ROOT / name).exists()]
    modules = set(re.findall(r"python -m ([\w.]+)", INDEX))
    assert not [m for m in modules if not (ROOT / (m.replace(".", "/") + ".py")).exists()]


def test_every_experiment_is_listed():
    folders = {path.parent.name for path in (ROOT / "experiments").glob("*/README.md")}
    linked = set(re.findall(r"\]\((\w+)/README\.md\)", INDEX))
    assert linked == folders
