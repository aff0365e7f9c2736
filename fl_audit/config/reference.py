"""Every key of a config with its type, its default and its meaning, and the page that lists them.

All of it is read off the classes of the config's tables, those of registered kinds among them.
`python -m fl_audit.config.reference` prints the page docs/config.md.

>>> seed = next(key for table in config_tables() for key in table.keys if key.name == "seed")
>>> seed.type, seed.default
('whole number at least 0', '0')
"""

import inspect
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import tomli_w

from fl_audit.config.attack import Attack, FederatedAttack
from fl_audit.config.tables import Config
from fl_audit.kinds.registry import key_types, table_variants, variants
from fl_audit.kinds.table import Table

_TYPE_WORDS = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}
_BOUND_WORDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


@dataclass(frozen=True)
class Key:
    """A key of a config.

    Attributes:
      name: The name of the key.
      type: The values that it takes, in words.
      default: The default in TOML; None where the key must be set or may be left out.
      is_required: Whether the key must be set.
      meaning: The meaning, as the class documents it.
    """

    name: str
    type: str
    default: str | None
    is_required: bool
    meaning: str


@dataclass(frozen=True)
class TableOfKeys:
    """A table of a config, or one kind of it.

    Attributes:
      name: The name in brackets, such as "mechanism"; "" for the keys above all tables.
      kind: The value of the key `kind` that chooses it; None for a table of one kind.
      meaning: A sentence that says what it is.
      keys: The keys, in the order of the class, without `kind`.
    """

    name: str
    kind: str | None
    meaning: str
    keys: tuple[Key, ...]


def config_tables() -> Iterator[TableOfKeys]:
    """All tables of a config, every registered kind of each, in the order of `Config`."""
    yield TableOfKeys("", None, _summary(Config), _keys(Config))
    for name, annotation in key_types(Config).items():
        for table in table_variants(annotation):
            yield table_of_keys(name, table)
        # Several kinds share a table inside them, such as the zeroing of mechanisms.
        inner = {
            (key, kind)
            for table in table_variants(annotation)
            for key, of_key in key_types(table).items()
            for kind in table_variants(of_key)
        }
        for key, kind in sorted(inner, key=lambda pair: (pair[0], pair[1].__name__)):
            yield table_of_keys(f"{name}.{key}", kind)


def table_of_keys(name: str, table: type[Table]) -> TableOfKeys:
    """The keys of one class.

    Args:
      name: The name of the table in a config file.
      table: The class.
    """
    tag = table.__struct_config__.tag
    return TableOfKeys(name, None if tag is None else str(tag), _summary(table), _keys(table))


def _keys(table: type[Table]) -> tuple[Key, ...]:
    meanings = _meanings(table)
    fields = {field.name: field for field in msgspec.structs.fields(table)}
    return tuple(
        Key(name, type_words(annotation), _default(fields[name]), fields[name].required, meaning)
        for name, annotation in _types_with_ranges(table).items()
        if not table_variants(annotation)
        for meaning in [meanings.get(name, "")]
    )


def _types_with_ranges(table: type[Table]) -> dict[str, Any]:
    hints = typing.get_type_hints(table, include_extras=True)
    return {name: hints[name] for name in table.__struct_fields__}


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    if field.default is None or field.default in (msgspec.NODEFAULT, msgspec.UNSET):
        return None
    return toml_line("x", msgspec.to_builtins(field.default)).removeprefix("x = ")


def toml_line(name: str, value: Any) -> str:
    """A key with its value as one line of TOML.

    >>> toml_line("hidden", [512, 256])
    'hidden = [512, 256]'
    """
    line = " ".join(tomli_w.dumps({name: value}).split())
    return line.replace("[ ", "[").replace(",]", "]").replace(", ]", "]")


def type_words(annotation: Any) -> str:
    """The values that an annotation allows, in words.

    >>> type_words(tuple[str, ...])
    'list of text'
    """
    if typing.get_origin(annotation) is Annotated:
        base, *metas = typing.get_args(annotation)
        bounds = [words for meta in metas for words in _bounds(meta)]
        return type_words(base) + (f" {' and '.join(bounds)}" if bounds else "")
    if typing.get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return f"list of {type_words(typing.get_args(annotation)[0])}"
    if len(variants(annotation)) > 1:
        known = [v for v in variants(annotation) if v not in (type(None), msgspec.UnsetType)]
        return " or ".join(type_words(v) for v in known)
    if typing.get_origin(annotation) is dict:
        return "table"
    return _TYPE_WORDS[annotation]


def _bounds(meta: msgspec.Meta) -> Iterator[str]:
    for bound, words in _BOUND_WORDS.items():
        value = getattr(meta, bound)
        if value is not None:
            yield f"{words} {value:,.10g}"


def _summary(table: type[Table]) -> str:
    return inspect.getdoc(table).split("\n")[0] if table.__doc__ else ""  # type: ignore[union-attr]


def _meanings(table: type[Table]) -> dict[str, str]:
    """The entries under `Attributes:` of a class and of those that it inherits from."""
    found: dict[str, str] = {}
    for parent in reversed(table.__mro__):
        text = inspect.cleandoc(parent.__dict__.get("__doc__") or "")
        _, _, entries = text.partition("Attributes:\n")
        for entry in re.split(r"\n(?=  \w)", "\n" + entries.split("\n\n")[0]):
            name, separator, meaning = entry.strip().partition(": ")
            if separator:
                found[name] = " ".join(meaning.split())
    return found


# The page in Markdown.


_PAGE_HEAD = """# Every key of a config

Made from the classes of the config by `python -m fl_audit.config.reference`; a test holds the two
together. A key without a default may be left out unless it is required. `fl-audit init TASK` writes
a config to start from, and `--set section.key=value` changes a key on the command line.
"""


def config_reference() -> str:
    """The page in Markdown: a table of keys for each table and kind, and those of attacks."""
    of_attacks = (
        table_of_keys("attack] beside [participation", FederatedAttack),
        table_of_keys("attack] without [participation", Attack),
    )
    return "\n".join(
        [_PAGE_HEAD, *(_page_section(table) for table in (*config_tables(), *of_attacks))]
    )


def _page_section(table: TableOfKeys) -> str:
    lines = [_title(table), "", table.meaning, ""]
    if table.keys:
        lines += ["| key | takes | default | meaning |", "|---|---|---|---|"]
        lines += [*_rows(table), ""]
    return "\n".join(lines)


def _title(table: TableOfKeys) -> str:
    if not table.name:
        return "## Above all tables"
    return f"## [{table.name}]" + (f' kind = "{table.kind}"' if table.kind else "")


def _rows(table: TableOfKeys) -> Iterator[str]:
    for key in table.keys:
        meaning = key.meaning.replace("|", "&#124;")
        yield f"| `{key.name}` | {key.type} | {_written_default(key)} | {meaning} |"


def _written_default(key: Key) -> str:
    if key.is_required:
        return "**required**"
    return "" if key.default is None else f"`{key.default}`"


if __name__ == "__main__":
    print(config_reference(), end="")  # noqa: T201
