"""The published sheet is what its sources and our accounting say, and the committed one is it."""

import json
import re

import pytest

from experiments.release_sheets.make import COMPUTED, HERE, published_sheet, tree_sensitivity
from fl_audit.formats.text_files import read_toml
from fl_audit.release_sheet.sheet import NOT_AUDITED, NOT_STATED, render_sheet


@pytest.fixture(scope="module")
def fields():
    return read_toml(HERE / "gboard.toml")


def test_the_published_rho_comes_out_of_the_tree(fields):
    mechanism = fields["mechanism"]
    squared = tree_sensitivity(mechanism)
    rho = squared / (2 * mechanism["noise_multiplier"] ** 2)
    assert squared == 79
    assert round(rho, 2) == mechanism["published_rho"]


def test_every_line_names_a_source_or_was_computed(fields):
    sheet, _ = published_sheet(fields)
    known = {f"published: {name}" for name in fields["sources"]}
    computed = {COMPUTED, "source", "looked for in the sources"}
    computed.add("the sources, at the end of this sheet")
    lines = [line for lines in sheet.lines.values() for line in lines]
    silent = [line for line in lines if line.text in (NOT_STATED, NOT_AUDITED)]
    assert {line.evidence for line in lines if line not in silent} <= known | computed
    assert len(silent) == 16  # as its page says
    (guarantee,) = sheet.lines["guarantee"]
    assert guarantee.text.startswith("ε ≤ 8.53 at δ = 1e-10, exactly, where Rényi DP gave 8.90")


def _without_style(page):
    return re.sub(r"<style>.*?</style>", "", page, flags=re.S)


def test_the_committed_sheet_is_the_one_that_is_made(fields):
    sheet, entry = published_sheet(fields)
    shown = (HERE / "gboard.html").read_text(encoding="utf-8")
    assert _without_style(shown) == _without_style(render_sheet(sheet))
    authors = entry["deployment"]["administrative"]["registry_authors"]
    assert authors == ["fl-audit, from publications"]  # who saw no run
    committed = json.loads((HERE / "gboard.json").read_text(encoding="utf-8"))
    parameters = committed["deployment"]["privacy_loss"].pop("privacy_parameters")
    made = entry["deployment"]["privacy_loss"].pop("privacy_parameters")
    assert committed == entry
    assert parameters == pytest.approx(made, rel=1e-9)


def test_the_page_has_the_numbers_of_the_quickstarts_sheet():
    page = (HERE / "README.md").read_text(encoding="utf-8")
    sheet = (HERE / "quickstart.html").read_text(encoding="utf-8")
    (bound,) = re.findall(r"<td>ε ≥ (\S+) for a canary", sheet)
    (noise,) = re.findall(r"so would a noise multiplier of (\S+) or less", sheet)
    rate = r"rate 0.1 %: true positive rate ([^;]+) for included canaries; upper bound ≤ 59.7 %"
    (found, *_) = re.findall(rate, sheet)
    assert f"ε ≥ {bound} for a canary; true positive rate {found} at 0.1 % false positives" in page
    assert f"a noise multiplier of {noise} or less instead of 0.3" in page
    for guarantee in ("ε ≤ 65.3 at δ = 0.001", "μ 8.82"):
        assert guarantee in page
        assert guarantee in sheet
