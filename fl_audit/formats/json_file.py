"""Reading of JSON files from outside."""

from pathlib import Path
from typing import TypeVar

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.foreign_file import read_foreign

Read = TypeVar("Read")


def read_json(path: Path, kind: type[Read], what: str) -> Read:
    """Reads a JSON file as an object of a type.

    Args:
      path: The path of the file.
      kind: The type of the object.
      what: What the file should be, for a message, such as "a run record".

    Raises:
      InputError: The file cannot be read, or holds something else.
    """
    try:
        content = read_foreign(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return decode_json(content, kind, str(path), what)


def decode_json(content: bytes, kind: type[Read], name: str, what: str) -> Read:
    """Reads JSON text as an object of a type.

    Args:
      content: The text.
      kind: The type of the object.
      name: The name of the text in a message.
      what: What the text should be, for a message.

    Raises:
      InputError: The text is not JSON, or something else.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise InputError(f"{name}: is not {what}: is nested too deeply") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{name}: is not {what}: {error}") from error
