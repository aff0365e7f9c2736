"""Every config key with its type, default and meaning, and the page docs/config.md.

All keys and texts come from the classes of the config's tables, including registered kinds.
`python -m fl_audit.config.reference` prints the page.

>>> seed = next(key for table in config_tables() for key in table.keys if key.name == "seed")
>>> seed.type, seed.default
('integer ≥ 0', '0')
"""

import inspect
import itertools
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import tomli_w

from fl_audit.config.attack_tables import Attack, FederatedAttack
from fl_audit.config.run_tables import Config
from fl_audit.config_tables.kinds import LARGEST_INT, Table, key_types, table_variants, variants

_TYPE_WORDS = {int: "integer", float: "number", str: "text", bool: "`true`, `false`", dict: "table"}


@dataclass(frozen=True)
class Key:
    """A config key."""

    name: str
    type: str  # the allowed values, in words
    # the default in TOML; None if the key is required or optional without a default
    default: str | None
    is_required: bool
    meaning: str  # from the docstring of the class


@dataclass(frozen=True)
class TableOfKeys:
    """A table of a config, or one of the table's kinds."""

    name: str  # the name in brackets, such as "mechanism"; "" for the top-level keys
    kind: str | None  # the value of `kind` that selects it; None for a table without kinds
    meaning: str  # from the docstring of the class
    keys: tuple[Key, ...]  # in the order of the class, without `kind`


def config_tables() -> Iterator[TableOfKeys]:
    """All tables of a config, every registered kind of each, in the order of `Config`."""
    yield TableOfKeys("", None, _summary(Config), _keys(Config))
    for name, annotation in key_types(Config).items():
        for table in table_variants(annotation):
            yield table_of_keys(name, table)
        # Kinds may share a nested table, such as the zeroing of mechanisms.
        inner = {
            (key, kind)
            for table in table_variants(annotation)
            for key, key_type in key_types(table).items()
            for kind in table_variants(key_type)
        }
        for key, kind in sorted(inner, key=lambda pair: (pair[0], pair[1].__name__)):
            yield table_of_keys(f"{name}.{key}", kind)


def table_of_keys(name: str, table: type[Table]) -> TableOfKeys:
    """The keys of one class."""
    tag = table.__struct_config__.tag
    return TableOfKeys(name, None if tag is None else str(tag), _summary(table), _keys(table))


def _keys(table: type[Table]) -> tuple[Key, ...]:
    meanings = _meanings(table)
    # Types with their ranges, which msgspec's field type omits.
    types = typing.get_type_hints(table, include_extras=True)
    return tuple(
        Key(
            field.name,
            type_words(types[field.name]),
            _default(field),
            field.required,
            meanings.get(field.name, ""),
        )
        for field in msgspec.structs.fields(table)
        if not table_variants(types[field.name])
    )


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
    'list (text)'
    """
    if typing.get_origin(annotation) is Annotated:
        base, *metas = typing.get_args(annotation)
        return " ".join([type_words(base), *(words for meta in metas for words in _range(meta))])
    if typing.get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        words = [type_words(item) for item in typing.get_args(annotation) if item is not ...]
        is_list = len(words) < len(typing.get_args(annotation))
        return f"list ({words[0]})" if is_list else f"[{', '.join(words)}]"
    if len(variants(annotation)) > 1:
        known = [v for v in variants(annotation) if v not in (type(None), msgspec.UnsetType)]
        return " or ".join(type_words(v) for v in known)
    return _TYPE_WORDS[typing.get_origin(annotation) or annotation]


def _range(meta: msgspec.Meta) -> Iterator[str]:
    least, most = _first(meta.ge, meta.gt), _first(meta.le, meta.lt)
    if least is not None and most not in (None, LARGEST_INT):
        left, right = "[" if meta.ge is not None else "(", "]" if meta.le is not None else ")"
        yield f"in {left}{least:,.10g}, {most:,.10g}{right}"
    elif least is not None:
        yield f"{'≥' if meta.ge is not None else '>'} {least:,.10g}"
    elif most is not None:
        yield f"{'≤' if meta.le is not None else '<'} {most:,.10g}"
    if meta.multiple_of == 2:
        yield "and even"


def _first(*bounds: float | None) -> float | None:
    return next((bound for bound in bounds if bound is not None), None)


def _summary(table: type[Table]) -> str:
    return inspect.getdoc(table).split("\n")[0] if table.__doc__ else ""  # type: ignore[union-attr]


def _meanings(table: type[Table]) -> dict[str, str]:
    """The entries under `Attributes:` of a class and its base classes."""
    meanings: dict[str, str] = {}
    for parent in reversed(table.__mro__):
        text = inspect.cleandoc(parent.__dict__.get("__doc__") or "")
        _, _, entries = text.partition("Attributes:\n")
        for entry in re.split(r"\n(?=  \w)", "\n" + entries.split("\n\n")[0]):
            name, separator, meaning = entry.strip().partition(": ")
            if separator:
                meanings[name] = " ".join(meaning.split())
    return meanings


# The page in Markdown.


_PAGE_HEAD = """# Every key of a config

`fl-audit init TASK` writes a commented config; `--set section.key=value` changes a key. Where a
table has several kinds, its key `kind` chooses one. A key without a default may be left out, unless
it is **required**. Integers above 0 are at most 10⁹ unless another limit is stated; `seed` is below
2⁶⁴. Paths start at the config file's folder.

Generated by `python -m fl_audit.config.reference`.
"""

_COLUMNS = ("key", "takes (default)", "meaning")


def config_reference() -> str:
    """The page in Markdown: a section for each table with all its kinds, and two on attacks."""
    sections = [
        _page_section(f"[{name}]" if name else "Top-level keys", list(kinds))
        for name, kinds in itertools.groupby(config_tables(), lambda table: table.name)
    ]
    federated = _page_section("[attack] on a run", [table_of_keys("attack", FederatedAttack)])
    central = _page_section("[attack] without a run", [table_of_keys("attack", Attack)])
    return "\n".join([_PAGE_HEAD, *sections, federated, central])


def _page_section(title: str, kinds: Sequence[TableOfKeys]) -> str:
    if kinds[0].kind is None:
        rows = [[*_cells(key)] for table in kinds for key in table.keys]
        return "\n".join([f"## {title}", "", kinds[0].meaning, "", *_table(_COLUMNS, rows), ""])
    meanings = [[f"`{table.kind}`", with_links(table.meaning)] for table in kinds]
    key, *others = _COLUMNS
    return "\n".join(
        [
            *(f"## {title}", "", *_table(("kind", "meaning"), meanings), ""),
            *(*_table((key, "kinds", *others), _rows_of_kinds(kinds)), ""),
        ]
    )


def _rows_of_kinds(kinds: Sequence[TableOfKeys]) -> list[list[str]]:
    """A row per key, shared by kinds that document it alike; rows of one key name are adjacent."""
    kinds_of: dict[str, dict[Key, list[str]]] = {}
    for table in kinds:
        for key in table.keys:
            kinds_of.setdefault(key.name, {}).setdefault(key, []).append(str(table.kind))
    everything = [str(table.kind) for table in kinds]
    rows = []
    for keys in kinds_of.values():
        for key, names in keys.items():
            name, *cells = _cells(key)
            rows.append([name, _kind_words(names, everything), *cells])
    return rows


def _kind_words(names: Sequence[str], everything: Sequence[str]) -> str:
    others = [name for name in everything if name not in names]
    if not others and len(everything) > 1:
        return "all"
    is_long = len(others) < len(names) - 1
    words = ", ".join(f"`{name}`" for name in (others if is_long else names))
    return f"all but {words}" if is_long else words


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows),
    ]


def _cells(key: Key) -> Iterator[str]:
    default = "" if key.default is None else f" (`{key.default}`)"
    yield f"`{key.name}`"
    yield key.type + (" (**required**)" if key.is_required else default)
    yield with_links(key.meaning)


def with_links(meaning: str) -> str:
    """A meaning in Markdown for a page in docs/.

    >>> with_links("Who is included (docs/canaries.md).")
    'Who is included ([canaries.md](canaries.md)).'
    """
    return re.sub(r"docs/(\w+\.md)", r"[\1](\1)", meaning)


if __name__ == "__main__":
    print(config_reference(), end="")  # noqa: T201
