"""Every link in README and docs leads somewhere in the repository."""

import re

import pytest
from tests_of_docs import PAGES, ROOT


def _headings(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    dead = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            place = (page.parent / path) if path else page
            is_there = place.exists() and (not anchor or anchor in _headings(place))
            if "://" not in target and not is_there:
                dead.append((page, target))
    assert not dead


def _words(page):
    return len(page.read_text(encoding="utf-8").split())


def test_readme_is_short():
    assert _words(ROOT / "README.md") <= 800


@pytest.mark.parametrize("name", ["tutorial", "reading", "research", "release", "patterns"])
def test_first_pages_are_short(name):
    assert _words(ROOT / "docs" / f"{name}.md") <= 700


def test_docs_as_a_whole_are_short():
    assert sum(map(_words, (ROOT / "docs").glob("*.md"))) <= 30_000
