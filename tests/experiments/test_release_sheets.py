"""The published sheet is what its sources and our accounting say, and the committed one is it."""

import json

import pytest

from experiments.release_sheets.make import HERE, published_sheet, tree_sensitivity
from fl_audit.formats.text_files import read_toml
from fl_audit.release_sheet.page import render_sheet
from fl_audit.release_sheet.sheet import NOT_AUDITED, NOT_STATED


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
    computed = {"computed by fl_audit from the published numbers", "source"}
    lines = [line for section in sheet.sections for field in section.fields for line in field.lines]
    silent = [line for line in lines if line.text in (NOT_STATED, NOT_AUDITED)]
    assert {line.evidence for line in lines if line not in silent} <= known | computed
    assert len(silent) == 12  # as the page beside it says
    (guarantee,) = sheet.lines("guarantee")
    assert guarantee.text.startswith("ε ≤ 8.53 at δ = 1e-10, exactly, where Rényi DP gave 8.90")


def test_the_committed_sheet_is_the_one_that_is_made(fields):
    sheet, entry = published_sheet(fields)
    assert (HERE / "gboard.html").read_text(encoding="utf-8") == render_sheet(sheet)
    committed = json.loads((HERE / "gboard.json").read_text(encoding="utf-8"))
    parameters = committed["deployment"]["privacy_loss"].pop("privacy_parameters")
    made = entry["deployment"]["privacy_loss"].pop("privacy_parameters")
    assert committed == entry
    assert parameters == pytest.approx(made, rel=1e-9)
