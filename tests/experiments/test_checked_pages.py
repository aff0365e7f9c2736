"""Each experiment's page says which test checks which of its numbers, or why none does."""

import re

import pytest
from experiment_pages import ROOT, page_text

PAGES = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/README.md"))
TITLE = "## Which test checks which number\n"


def _rows(page):
    section = page_text(page).partition(TITLE)[2]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test_that_is_there_or_a_reason(page):
    rows = _rows(page)
    assert rows
    for numbers, _, checked in rows:
        if checked.startswith("none"):
            assert len(checked.split()) > 2, numbers
            continue
        named = re.findall(r"`([\w/.]+?)(?:::(\w+))?`(, slow)?", checked)
        assert named, numbers
        for path, function, is_slow in named:
            place = ROOT / (path if path.startswith("tests/") else f"tests/experiments/{path}")
            assert place.exists(), path
            if not function:
                continue
            (above,) = re.findall(
                rf"((?:^@.*\n(?:^[ )\]].*\n)*)*)^def {function}\(", place.read_text(), re.M
            )
            assert bool(re.search(r"\bslow\b", above)) == bool(is_slow), function
