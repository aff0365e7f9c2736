"""Frozen records as JSON objects, and back: one encoding for all reports.

A dataclass becomes an object with a key for each field, a tuple a list, infinity the word "inf";
NaN is not allowed. A class's `JSON_COMPUTED` names properties that are written too; fields with the
metadata UNWRITTEN are never written, those with WRITTEN_IF_SET only if they differ from their
default. A record with a custom encoding has `to_json` and the class method `from_json`.

Reading follows the types of the fields. Unknown keys are ignored; a missing key gives the field's
default.

>>> @dataclasses.dataclass(frozen=True)
... class Bound:
...     epsilon: float
...     method: str | None = None
>>> to_json([Bound(math.inf), Bound(2.5, "one_run")])
[{'epsilon': 'inf', 'method': None}, {'epsilon': 2.5, 'method': 'one_run'}]
>>> from_json(tuple[Bound, ...], [{"epsilon": "inf"}])
(Bound(epsilon=inf, method=None),)
"""

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

Read = TypeVar("Read")

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


UNWRITTEN = {"json": "never"}
"""Metadata of a dataclass field that is never written."""

WRITTEN_IF_SET = {"json": "if set"}
"""Metadata of a dataclass field that is written only if it differs from its default."""


def json_key(name: str) -> dict[str, str]:
    """Metadata of a field whose key in JSON differs from its name."""
    return {"json_key": name}


def to_json(value: Any) -> Any:
    """Encodes a record, or a value that contains records; ValueError for NaN.

    >>> to_json({"threshold": -math.inf, "mean": 0.5})
    {'threshold': '-inf', 'mean': 0.5}
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value):
        return fields_to_json(value)
    if isinstance(value, Mapping):
        return {
            f"{key:g}" if isinstance(key, float) else str(key): to_json(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return _number_to_json(value) if isinstance(value, float) else value


def _number_to_json(value: float) -> float | str:
    if math.isnan(value):
        raise ValueError("a reported value must be a number, got NaN")
    return float(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def fields_to_json(record: Any) -> dict[str, Any]:
    """Encodes a record field by field, ignoring its custom encoding."""
    names: tuple[str, ...] = getattr(type(record), "JSON_COMPUTED", ())
    computed = {name: to_json(getattr(record, name)) for name in names}
    return computed | {
        _json_key(field): to_json(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if _is_written(field, getattr(record, field.name))
    }


def _is_written(field: "dataclasses.Field[Any]", value: Any) -> bool:
    when = field.metadata.get("json", "always")
    return when == "always" or bool(when == "if set" and value != field.default)


def _json_key(field: "dataclasses.Field[Any]") -> str:
    key: str = field.metadata.get("json_key", field.name)
    return key


def from_json(kind: Any, value: Any, place: str = "$") -> Any:
    """Decodes a value of a type."""
    if hasattr(kind, "from_json"):
        return _placed(kind.from_json, value, place)
    if dataclasses.is_dataclass(kind):
        return fields_from_json(kind, value, place)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, place)
    if origin is tuple:
        return _tuple(arguments, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments, value, place)
    return _plain(kind, value, place)


def fields_from_json(kind: type[Read], value: Any, place: str = "$", **given: Any) -> Read:
    """Decodes a dataclass field by field, ignoring its custom encoding.

    `given` are the values of fields that are not in the object.
    """
    _checked(isinstance(value, Mapping), value, "an object", place)
    dataclass: Any = kind
    types_of = _types(dataclass)
    read = dict(given)
    for field in dataclasses.fields(dataclass):
        if field.name in given or not field.init:
            continue
        key = _json_key(field)
        if key in value:
            read[field.name] = from_json(types_of[field.name], value[key], f"{place}.{key}")
        elif _lacks_default(field):
            raise ValueError(f"lacks the key `{key}` - at `{place}`")
    record: Read = _placed(lambda fields: kind(**fields), read, place)
    return record


def numbers_from_json(value: Any) -> Any:
    """A JSON value of any type, with the words for infinities as floats."""
    if isinstance(value, Mapping):
        return {key: numbers_from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_from_json(item) for item in value]
    return _INFINITIES.get(value, value) if isinstance(value, str) else value


@functools.cache
def _types(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _lacks_default(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _placed(make: Any, value: Any, place: str) -> Any:
    """Calls `make(value)`, adding the JSON path to its error."""
    try:
        return make(value)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        words, inner_place, rest = str(error).partition(" - at `$")
        raise ValueError(f"{words} - at `{place}{rest if inner_place else '`'}") from error


def _one_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    """Decodes by the first fitting type of a union; else raises the last type's error."""
    if value is None and type(None) in kinds:
        return None
    *others, last = [kind for kind in kinds if kind is not type(None)]
    for kind in others:
        try:
            return from_json(kind, value, place)
        except ValueError:
            continue
    return from_json(last, value, place)


def _tuple(arguments: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    _checked(isinstance(value, list | tuple), value, "a list", place)
    kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
    _checked(len(kinds) == len(value), value, f"a list of {len(kinds)}", place)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(from_json(kind, item, f"{place}[{index}]") for index, (kind, item) in pairs)


def _mapping(arguments: tuple[Any, ...], value: Any, place: str) -> dict[Any, Any]:
    _checked(isinstance(value, Mapping), value, "an object", place)
    return {
        float(key) if arguments[0] is float else key: from_json(
            arguments[1], item, f"{place}.{key}"
        )
        for key, item in value.items()
    }


def _plain(kind: Any, value: Any, place: str) -> Any:
    """A number, a string, a bool, or a value of a Literal or an Enum."""
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        known = get_args(kind) or tuple(kind)
        _checked(value in known, value, f"one of {', '.join(map(str, known))}", place)
        return value if get_args(kind) else kind(value)
    if kind is float:
        number = _INFINITIES.get(value, value) if isinstance(value, str) else value
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        return float(_checked(is_number, number, "a number", place))
    if kind is int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return _checked(is_whole, value, "a whole number", place)
    names = {str: "a string", bool: "true or false"}
    return _checked(isinstance(value, kind), value, names.get(kind, str(kind)), place)


def _checked(is_right: bool, value: Any, expected: str, place: str) -> Any:
    if not is_right:
        raise ValueError(f"expected {expected}, got {str(value)[:60]!r} - at `{place}`")
    return value
