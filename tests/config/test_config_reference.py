"""Every key of a config, read off the classes, and the page that lists them."""

import typing
from pathlib import Path

import msgspec

from fl_audit.config.reference import config_reference, config_tables, type_words, with_links
from fl_audit.config_tables.kinds import LARGEST_INT, PositiveInt

PAGE = Path(__file__).parents[2] / "docs/config.md"


def test_the_page_is_what_the_classes_say():
    assert PAGE.read_text(encoding="utf-8") == config_reference(), (
        "run `python -m fl_audit.config.reference > docs/config.md`"
    )


def test_every_key_stands_on_the_page_for_every_kind_that_has_it():
    page = config_reference()
    assert "at most 10⁹" in page and LARGEST_INT == 10**9
    for table in config_tables():
        title = f"## [{table.name}]" if table.name else "## Top-level keys"
        section = page.partition(f"{title}\n")[2].partition("\n## ")[0]
        for key in table.keys:
            (row,) = [
                row
                for row in section.splitlines()
                if row.startswith(f"| `{key.name}` |")
                and row.endswith(f"| {with_links(key.meaning)} |")
                and (table.kind is None or _is_of(row.split(" | ")[1], table.kind))
            ]
            default = "**required**" if key.is_required else f"`{key.default}`"
            has_default = key.is_required or key.default is not None
            assert f"| {key.type}{f' ({default})' if has_default else ''} |" in row


def _is_of(kinds: str, kind: str) -> bool:
    named = f"`{kind}`" in kinds
    return not named if kinds.startswith("all") else named


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
    assert type_words(bounded | None) == "number in (0, 2]"
    assert type_words(typing.Annotated[float, msgspec.Meta(ge=0)]) == "number ≥ 0"
    assert type_words(typing.Annotated[int, msgspec.Meta(lt=5)]) == "integer < 5"
    even = msgspec.Meta(ge=4, multiple_of=2)
    assert type_words(typing.Annotated[int, even]) == "integer ≥ 4 and even"
    assert type_words(PositiveInt) == "integer ≥ 1"  # its limit is said once, above all tables
    assert type_words(tuple[int, ...]) == "list (integer)"
    assert type_words(tuple[tuple[float, int], ...]) == "list ([number, integer])"
    assert type_words(typing.Literal["a", "b"]) == "`a`, `b`"


def test_defaults_are_toml():
    keys = {(t.name, t.kind, key.name): key for t in config_tables() for key in t.keys}
    assert keys["task", "digits", "hidden"].default == "[512, 256]"
    assert keys["participation", "shuffle", "rounds"].is_required
    assert keys["audit", None, "delta"].default is None
