"""Files that appear whole: written beside their place, then renamed into it."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_UNFINISHED = re.compile(r"\..+\.([0-9a-f]{8}\.part|[a-z0-9_]{8})")
"""Names of files that a killed program was writing, as this version and earlier ones make them."""


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` when the block ends, or leaves no trace on an error.

    A new file's permissions are what the umask leaves. A device or a pipe, such as /dev/stdout, is
    written to as it is.

    Raises:
      OSError: The file cannot be written.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:
            yield stream
        return
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(4)}.part"
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    r"""Writes UTF-8 text so that `path` holds either all of it or what it held before.

    Bytes that a file's name has and UTF-8 does not are written as escapes such as \udcff.
    """
    with atomic_writer(path) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))


def unfinished_files(folder: Path) -> list[Path]:
    """The files in a folder that a killed program was writing and nobody reads."""
    return [path for path in folder.glob(".*") if _UNFINISHED.fullmatch(path.name)]
