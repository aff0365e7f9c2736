"""Kinds: the variants of a config's tables, with a registry for each extensible table.

A kind is a record of everything the project knows about one variant: its config table, its words
for the report, and its computations. A registry finds a kind by its tag or its table. A new
variant, here or in another package, is one module and one call of `register`.
"""

import functools
import keyword
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Meta

from fl_audit.registry import Registry

LARGEST_INT = 1_000_000_000
"""The upper limit of `PositiveInt`, for keys without a limit of their own."""

PositiveInt = Annotated[int, Meta(ge=1, le=LARGEST_INT)]
NumRounds = Annotated[int, Meta(ge=1, le=1_000_000)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
OpenUnitFloat = Annotated[float, Meta(gt=0, lt=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a config, written under its name in brackets in the file.

    Attributes:
      path_keys: The keys of this table that name files; relative paths start at the config file's
        folder.
      refused_keys: Keys of related tables that this table refuses, with a clause that says why.
    """

    path_keys: ClassVar[tuple[str, ...]] = ()
    refused_keys: ClassVar[Mapping[str, str]] = {}


class Kind(Protocol):
    """The field that every record of a kind has."""

    @property
    def table(self) -> type[Table]:
        """The config table, a tagged struct: its tag is the `kind` in a config file."""


KindType = TypeVar("KindType", bound=Kind)


class RecordedTable(Table, frozen=True):
    """A recorded table of a kind that is not registered here, such as a plugin's."""


def recorded_words(table: RecordedTable) -> str:
    """Words for an unregistered kind, which continue a sentence after its verb."""
    return f"as the kind {table.__struct_config__.tag!r} of a plugin decides"


_OURS = ("path_keys", "refused_keys")
"""Class attributes of `Table` that no recorded key may replace."""

_kinds: dict[type, "Kinds[Any]"] = {}


class Kinds(Registry[KindType]):
    """The kinds of one thing, each found by its tag or by its table."""

    def __init__(self, thing: str, base: type) -> None:
        """Starts an empty registry.

        Args:
          base: Base class, besides `Table`, of all kinds' tables; a config field annotated with
            `base` accepts any registered table.
        """
        super().__init__(thing)
        self._base = base
        _kinds[base] = self

    def name_of(self, record: Any) -> str:
        """The tag of a kind's table; TypeError if the table lacks the registry's base or a tag."""
        table = record.table
        tag = table.__struct_config__.tag
        if not issubclass(table, self._base) or not isinstance(tag, str):
            raise TypeError(
                f"the table of a {self.thing} must inherit {self._base.__name__} and have a tag, "
                f"got {table.__name__}"
            )
        return tag

    def kind_of(self, table: object) -> KindType:
        """The kind of a table; TypeError if none is registered."""
        for kind in self.values():
            if type(table) is kind.table:
                return kind
        raise TypeError(f"no {self.thing} is registered for {type(table).__name__}")

    def recorded(self, table: Mapping[str, Any]) -> RecordedTable:
        """A recorded table of an unregistered kind; ValueError if it is malformed.

        It keeps keys, values and tag; no `Kind` belongs to it.
        """
        kind, keys = table.get("kind"), [key for key in table if key != "kind"]
        if not isinstance(kind, str):
            raise ValueError("has no kind")
        for key in keys:
            if not key.isidentifier() or keyword.iskeyword(key) or key[0] == "_" or key in _OURS:
                raise ValueError(f"unknown key {key!r}")
        recorded_table = msgspec.defstruct(
            f"Recorded{self._base.__name__}",
            [(key, Any) for key in keys],
            bases=(RecordedTable, self._base),
            tag_field="kind",
            tag=kind,
            frozen=True,
        )
        return typing.cast(RecordedTable, recorded_table(**{key: table[key] for key in keys}))

    @property
    def tables(self) -> tuple[type[Table], ...]:
        return tuple(kind.table for kind in self.values())


def kinds_of(annotation: Any) -> Kinds[Any] | None:
    """The registry whose base is the annotation, if any."""
    return _kinds.get(annotation) if isinstance(annotation, type) else None


# The types of a config's tables and of the keys in them.


def variants(annotation: Any) -> tuple[Any, ...]:
    """The possible types of a key: those of a registry or of a union, else the type itself."""
    if kinds := kinds_of(annotation):
        return kinds.tables
    is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    return typing.get_args(annotation) if is_union else (annotation,)


def table_variants(annotation: Any) -> tuple[type[Table], ...]:
    """The tables among the possible types of a key."""
    return tuple(v for v in variants(annotation) if isinstance(v, type) and issubclass(v, Table))


@functools.cache
def key_types(table: type[Table]) -> dict[str, Any]:
    """The type of each key of a table, without its range, in the order of the class."""
    hints = typing.get_type_hints(table)
    return {name: hints[name] for name in table.__struct_fields__}


@functools.cache
def required_keys(table: type[Table]) -> tuple[str, ...]:
    """The keys of a table without a default; cached, because msgspec is slow to list them."""
    return tuple(field.name for field in msgspec.structs.fields(table) if field.required)
