"""Registries of kinds, one for each thing that can be extended.

A kind is a record of all that the project knows of one variant: its config table, its words for the
report, and what it computes. A registry holds the kinds of one thing and finds a kind by its table.
A new variant, here or in another package, is one module and one call of `register`.
"""

import functools
import types
import typing
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from fl_audit.kinds.table import Table


class Kind(Protocol):
    """The fields that every record of a kind has."""

    @property
    def table(self) -> type[Table]:
        """The config table, a tagged struct: its tag is the `kind` in a config file."""


KindType = TypeVar("KindType", bound=Kind)

_registries: dict[type, "Registry[Any]"] = {}


class Registry(Generic[KindType]):
    """The kinds of one thing, in the order in which they were registered."""

    def __init__(self, thing: str, base: type) -> None:
        """Starts an empty registry.

        Args:
          thing: The thing that these are the kinds of, in the singular, for messages.
          base: The class that the tables of all kinds inherit beside `Table`; a field of a config
            annotated with it takes any registered table.
        """
        self._thing = thing
        self._base = base
        self._kinds: dict[str, KindType] = {}
        _registries[base] = self

    def register(self, kind: KindType) -> KindType:
        """Adds a kind and returns it.

        Raises:
          TypeError: The kind's table does not inherit the registry's base, or has no tag.
          ValueError: The tag is already in use.
        """
        table = kind.table
        tag = table.__struct_config__.tag
        if not issubclass(table, self._base) or not isinstance(tag, str):
            raise TypeError(
                f"the table of a {self._thing} must inherit {self._base.__name__} and have a tag, "
                f"got {table.__name__}"
            )
        if tag in self._kinds:
            raise ValueError(f"a {self._thing} of kind {tag!r} is registered already")
        self._kinds[tag] = kind
        return kind

    def of(self, table: object) -> KindType:
        """The kind of a table.

        Raises:
          TypeError: No kind with this table is registered.
        """
        for kind in self._kinds.values():
            if type(table) is kind.table:
                return kind
        raise TypeError(f"no {self._thing} is registered for {type(table).__name__}")

    def remove(self, tag: str) -> None:
        """Removes a kind again, such as one that a test has registered."""
        del self._kinds[tag]

    def __iter__(self) -> Iterator[KindType]:
        """The kinds, in the order in which they were registered."""
        return iter(tuple(self._kinds.values()))

    @property
    def tables(self) -> tuple[type[Table], ...]:
        """The tables of the kinds."""
        return tuple(kind.table for kind in self._kinds.values())


def registry_of(annotation: Any) -> Registry[Any] | None:
    """The registry whose base is an annotation; None where there is none."""
    return _registries.get(annotation) if isinstance(annotation, type) else None


# The types of a config's tables and of the keys in them.


def variants(annotation: Any) -> tuple[Any, ...]:
    """The types that a key may take: those of a registry or of a union, else the one."""
    if registry := registry_of(annotation):
        return registry.tables
    is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    return typing.get_args(annotation) if is_union else (annotation,)


def table_variants(annotation: Any) -> tuple[type[Table], ...]:
    """The tables among the types that a key may take."""
    return tuple(v for v in variants(annotation) if isinstance(v, type) and issubclass(v, Table))


@functools.cache
def key_types(table: type[Table]) -> dict[str, Any]:
    """The type of each key of a table, without its range, in the order of the class."""
    hints = typing.get_type_hints(table)
    return {name: hints[name] for name in table.__struct_fields__}


@functools.cache
def required_keys(table: type[Table]) -> tuple[str, ...]:
    """The keys of a table that have no default; msgspec reads all types anew at every question."""
    return tuple(field.name for field in msgspec.structs.fields(table) if field.required)
