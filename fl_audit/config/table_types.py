"""The types of a config's tables and of the keys in them."""

import functools
import types
import typing
from typing import Any

import msgspec

from fl_audit.kinds import registry_of
from fl_audit.kinds.table import Table


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
