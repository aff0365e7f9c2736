"""Reading of TOML from outside, with what no key can use refused at once."""

import tomllib
from pathlib import Path
from typing import Any

from fl_audit.errors import InputError
from fl_audit.formats.foreign_file import read_foreign

_LARGEST = 2**64 - 1
_DEEPEST = 20
_MOST_BYTES = 1 << 22


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file.

    Raises:
      InputError: The file cannot be read, is not TOML, is nested too deeply, or holds a whole
        number beyond 64 bits or text with a null byte.
    """
    try:
        text = read_foreign(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}") from error
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Reads TOML text.

    Args:
      text: The text.
      name: The name of the text in a message.

    Raises:
      InputError: See `read_toml`.
    """
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise InputError(f"{name}: is not TOML: is nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{name}: is not TOML: {error}") from error
    check_values(table, name)
    return table


def check_values(table: dict[str, Any], name: str) -> None:
    """Refuses values that no key can use, at any depth of a table.

    Args:
      table: The table.
      name: The name of the table in a message.

    Raises:
      InputError: See `read_toml`; the message names the key.
    """
    _check(table, name, (), 0)


def _check(value: Any, name: str, path: tuple[str, ...], depth: int) -> None:
    """Raises an `InputError` for a value that no key can use, naming its key."""
    key = f"{name}: key `{'.'.join(path)}`"
    if depth > _DEEPEST:
        raise InputError(f"{key}: is nested too deeply")
    if isinstance(value, dict):
        for part, inner in value.items():
            _check(inner, name, (*path, part), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, name, path, depth + 1)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise InputError(f"{key}: must be a whole number within 64 bits, got {value}")
    elif isinstance(value, str) and "\0" in value:
        raise InputError(f"{key}: must be text without a null byte, got {value!r}")
