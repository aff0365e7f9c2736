"""The site of the documentation: all pages are in its navigation, and it builds strictly."""

import os
import re
import subprocess

import pytest
from tests_of_docs import PAGES, ROOT

MKDOCS = ROOT / ".venv-docs/bin/mkdocs"


def test_the_navigation_names_pages_that_are_there_once():
    """Pages that it does not name are added at the end of a section (docs/site/pages.py)."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"(\S+\.md)\b", nav)
    assert len(named) == len(set(named)) > 40
    assert not [page for page in named if not (ROOT / page).exists()]


def test_three_users_come_first_and_the_rest_is_folded():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r"^  - (.*):(?: (.*))?$", text.partition("\nnav:\n")[2], re.MULTILINE)
    pages = [page for _, page in entries if page]
    assert pages == [
        "README.md",
        *(f"docs/{user}.md" for user in ("research", "release", "patterns")),
    ]
    assert [page for _, page in entries[: len(pages)]] == pages
    assert len(entries) - len(pages) <= 8
    assert "navigation.sections" not in text  # which unfolds all of them


@pytest.mark.slow
@pytest.mark.skipif(not MKDOCS.exists(), reason="`make docs` sets up .venv-docs")
def test_it_builds_without_a_warning(tmp_path):
    site = tmp_path / "site"
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", site],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for page in PAGES:
        made = page.relative_to(ROOT).with_suffix(".html").as_posix()
        assert (site / made.replace("README.html", "index.html")).exists(), made
    text = (site / "docs/api/fl_audit.estimators.html").read_text(encoding="utf-8")
    assert "Turn canary scores into privacy estimates" in text
    assert "left_out" in (site / "search/search_index.json").read_text(encoding="utf-8")
    foreign = {
        host
        for html in site.rglob("*.html")
        for host in re.findall(r'(?:src|<link[^>]*href)="https?://([^/"]+)', html.read_text())
    }
    assert not foreign, "a page loads something from elsewhere"
