"""The registry's schema, read and applied: as much of YAML and JSON Schema as it uses."""

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HERE = "shared/data/registry/deployments-schema.yaml"


def schema_path() -> Path | None:
    """The schema, in a folder `shared` beside the checkout or above; None without one."""
    folders = Path(__file__).resolve().parents
    return next((path for folder in folders if (path := folder / _HERE).exists()), None)


# YAML: mappings, lists of words, and texts in blocks.


def read_schema(path: Path) -> dict[str, Any]:
    """The schema as a mapping."""
    lines = []
    text_of = None
    for line in path.read_text().splitlines():
        indent = len(line) - len(line.lstrip())
        if text_of is not None and (not line.strip() or indent > text_of):
            continue
        text_of = None
        content = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not content:
            continue
        if content.endswith(": |"):
            text_of, content = indent, content.removesuffix("|") + '""'
        lines.append((indent, content))
    value, rest = _block(lines)
    assert not rest
    return value


def _block(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    indent = lines[0][0]
    listed, mapping = [], {}
    while lines and lines[0][0] == indent:
        content, lines = lines[0][1], lines[1:]
        if content.startswith("- "):
            listed.append(_scalar(content[2:]))
            continue
        key, _, value = content.partition(":")
        if value.strip():
            mapping[key] = _scalar(value.strip())
        elif lines and (lines[0][0] > indent or lines[0][1].startswith("- ")):
            mapping[key], lines = _block(lines)
        else:
            mapping[key] = None
    return listed or mapping, lines


def _scalar(text: str) -> Any:
    if text in ("False", "True"):
        return text == "True"
    return int(text) if text.isdigit() else text.strip("\"'")


# JSON Schema.


_TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}


def errors(value: Any, schema: dict[str, Any], place: str = "$") -> Iterator[str]:
    """What is wrong with a value by a schema."""
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(isinstance(value, _TYPES[kind]) for kind in kinds):
        yield f"{place}: {value!r} is none of {kinds}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not in {schema['enum']}"
    elif schema.get("format") == "date":
        try:
            datetime.date.fromisoformat(value)
        except ValueError:
            yield f"{place}: {value!r} is no date"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (
            f"{place}: lacks {key}" for key in schema.get("required", []) if key not in value
        )
        for key, item in value.items():
            if key in known:
                yield from errors(item, known[key], f"{place}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{place}: has {key}, which is not known"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{place}: has too few items"
        for index, item in enumerate(value):
            yield from errors(item, schema["items"], f"{place}[{index}]")
