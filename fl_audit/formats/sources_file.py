"""sources.json: which files of a folder belong together, by their digests.

Scores are of a pool and of rounds. The file is written last, so that scores beside other rounds, or
rounds beside another pool, show: some file then is not what it was.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.foreign_file import open_foreign
from fl_audit.formats.json_file import read_json

_FORMAT_VERSION = 1


class Sources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What belongs together.

    Attributes:
      format_version: The version of the format.
      rounds: The number of rounds that scores are of; 0 before there are scores.
      files: The SHA-256 of each file, by its name, as hexadecimal digits.
    """

    format_version: int
    rounds: int
    files: dict[str, str]

    def changed(self, folder: Path, names: Iterable[str] | None = None) -> list[str]:
        """The names of files that are there and hold something else.

        Args:
          folder: The folder.
          names: The names of the files to look at; None for all that belong together.

        Raises:
          InputError: A file cannot be read.
        """
        asked = self.files if names is None else self.files.keys() & set(names)
        there = sorted(name for name in asked if (folder / name).exists())
        return [name for name in there if _digest(folder / name) != self.files[name]]


def write_sources(path: Path, rounds: int, files: Iterable[Path]) -> None:
    """Writes the file; of the files that belong together, those that are there.

    Args:
      path: The path of `sources.json`.
      rounds: The number of rounds that scores are of; 0 before there are scores.
      files: The files, which are beside it.
    """
    digests = {file.name: _digest(file) for file in sorted(files) if file.exists()}
    text = msgspec.json.format(msgspec.json.encode(Sources(_FORMAT_VERSION, rounds, digests)))
    write_text(path, text.decode() + "\n")


def read_sources(path: Path) -> Sources | None:
    """Reads the file; None where there is none, as in older folders and those of other systems.

    Raises:
      InputError: The file is damaged, of another format version, or names files elsewhere.
    """
    if not path.exists():
        return None
    found = read_json(path, Sources, "a record of what belongs together")
    if found.format_version != _FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version is {found.format_version}, must be {_FORMAT_VERSION}"
        )
    for name in found.files:
        if name in ("", ".", "..") or Path(name).name != name:
            raise InputError(f"{path}: names {name!r}, must name files beside it")
    return found


def _digest(path: Path) -> str:
    try:
        with open_foreign(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
