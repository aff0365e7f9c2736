"""Entries for the registry of DP deployments against its schema."""

import copy
import json

import pytest

from experiments.release_sheets.make import HERE, published_sheet
from fl_audit.config import ReleaseStatement
from fl_audit.formats.text_files import read_toml
from fl_audit.release_sheet.registry_entry import Parameters, registry_entry
from fl_audit.release_sheet.sheet import Line, laid_out
from tests.release_sheet.registry_schema import errors, read_schema, schema_path


@pytest.fixture(scope="module")
def schema():
    path = schema_path()
    if path is None:
        pytest.skip("the registry's schema is not beside the checkout")
    return read_schema(path)


def test_the_schema_is_read_as_it_stands(schema):
    assert schema["required"] == ["url_slug", "status", "tier", "deployment"]
    assert schema["properties"]["tier"]["enum"] == [1, 2, 3]
    basic = schema["properties"]["deployment"]["properties"]["basic"]
    assert len(basic["required"]) == 7
    assert basic["properties"]["publication_date"]["format"] == "date"
    assert basic["properties"]["data_curators"]["minItems"] == 1
    loss = schema["properties"]["deployment"]["properties"]["privacy_loss"]["properties"]
    assert set(loss["privacy_parameters"]["properties"]) == {"epsilon", "delta", "rho"}


def test_the_published_entry_fits(schema):
    _, entry = published_sheet(read_toml(HERE / "gboard.toml"))
    assert list(errors(entry, schema)) == []
    assert entry["tier"] == 2  # its sources say nothing of earlier runs
    written = json.loads((HERE / "gboard.json").read_text(encoding="utf-8"))
    assert list(errors(written, schema)) == []


SILENT = laid_out("A model", "", {})
SPOKEN = ReleaseStatement(
    curators=("We",),
    unit="A phone.",
    trust_model="Our server.",
    data="Text.",
    released_to="All.",
    earlier_runs="None.",
    intended_use="Typing.",
    region="EU",
    sector="Technology",
    published="2026-02-01",
)


@pytest.mark.parametrize(
    ("statement", "parameters", "tier"),
    [
        (ReleaseStatement(), Parameters(), 1),
        (ReleaseStatement(), Parameters(epsilon=float("inf"), delta=1e-5, mu=float("inf")), 1),
        (SPOKEN, Parameters(epsilon=1.0, delta=1e-5, rho=0.1, mu=0.4), 3),
        (SPOKEN, Parameters(epsilon=float("inf"), delta=1e-5, mu=float("inf")), 1),
    ],
)
def test_what_is_not_known_is_left_out(schema, statement, parameters, tier):
    entry = registry_entry(SILENT, statement, parameters, "2026-01-31")
    assert list(errors(entry, schema)) == []
    assert entry["tier"] == tier
    assert "null" not in json.dumps(entry, allow_nan=False)
    assert ("variant_name" in entry["deployment"].get("dp_variant", {})) == (tier == 3)


@pytest.mark.parametrize(("name", "slug"), [("A model, 2nd", "a_model_2nd"), ("日本語", "release")])
def test_a_slug_is_never_empty(name, slug):
    entry = registry_entry(laid_out(name, "", {}), SPOKEN, Parameters(), "2026-01-31")
    assert entry["url_slug"] == slug


def test_the_validator_sees_what_is_wrong(schema):
    entry = registry_entry(SILENT, SPOKEN, Parameters(1.0, 1e-5), "2026-01-31")
    for change in (
        lambda e: e.update(fields={}),
        lambda e: e.pop("tier"),
        lambda e: e["deployment"]["basic"].update(data_curators=[]),
        lambda e: e["deployment"]["basic"].update(intended_use=None),
        lambda e: e["deployment"]["basic"].update(publication_date="soon"),
        lambda e: e["deployment"]["basic"].update(data_product_sector="Toys"),
        lambda e: e["deployment"]["privacy_loss"]["privacy_parameters"].update(mu=1.0),
    ):
        wrong = copy.deepcopy(entry)
        change(wrong)
        assert len(list(errors(wrong, schema))) == 1


def test_notes_say_what_an_audit_adds():
    sheet = laid_out("A model", "", {"verdict": [Line("CONSISTENT.", "measured")]})
    entry = registry_entry(sheet, ReleaseStatement(), Parameters(), "2026-01-31")
    administrative = entry["deployment"]["administrative"]
    assert administrative["notes"] == "The publication date is the day training ended. CONSISTENT."
