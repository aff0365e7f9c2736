"""Every key of a config, read off the classes, and the page that lists them."""

import typing
from pathlib import Path

import msgspec

from fl_audit.config.reference import config_reference, config_tables, type_words

PAGE = Path(__file__).parents[2] / "docs/config.md"


def test_the_page_is_what_the_classes_say():
    assert PAGE.read_text(encoding="utf-8") == config_reference(), (
        "run `python -m fl_audit.config.reference > docs/config.md`"
    )


def test_every_key_has_a_meaning():
    unexplained = [
        f"{table.name}.{key.name}"
        for table in config_tables()
        for key in table.keys
        if not key.meaning.endswith(".")
    ]
    assert not unexplained


def test_types_are_words():
    bounded = typing.Annotated[float, msgspec.Meta(gt=0, le=2)]
    assert type_words(bounded | None) == "number above 0 and at most 2"
    assert type_words(tuple[int, ...]) == "list of whole number"
    assert type_words(typing.Literal["a", "b"]) == "`a` or `b`"


def test_defaults_are_toml():
    keys = {(t.name, t.kind, key.name): key for t in config_tables() for key in t.keys}
    assert keys["task", "digits", "hidden"].default == "[512, 256]"
    assert keys["participation", "shuffle", "rounds"].is_required
    assert keys["audit", None, "delta"].default is None
